"""What README, guides and labs say works: their Python blocks and commands run as they stand."""

from __future__ import annotations

import json
import re
import shlex

import pytest
import yaml

from companion.app import cli, gate
from sflkit import cli as library_cli
from tests.helpers import ROOT

README = ROOT / "README.md"
GUIDES = sorted((ROOT / "docs").glob("[gl]*s/*.md"))  # guides and labs
PAGES = {
    file.relative_to(ROOT).as_posix(): file.read_text(encoding="utf-8")
    for file in (README, ROOT / "VERDICTS.md", *GUIDES)
}
TEXT = PAGES["README.md"]
# Every block fenced as ```python is run, on its own, in this order; what should not be run is
# fenced otherwise.
BLOCKS = [
    (name, text[: match.start()].count("\n") + 2, match[1])
    for name, text in PAGES.items()
    for match in re.finditer(r"^```python\n(.*?)^```$", text, re.M | re.S)
]


@pytest.mark.parametrize(
    ("name", "line", "block"),
    [pytest.param(*block, id=f"{block[0]}-line{block[1]}") for block in BLOCKS],
)
def test_python_blocks_run(name, line, block, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code = compile("\n" * (line - 1) + block, str(ROOT / name), "exec")
    exec(code, {"__name__": "__main__"})


def test_what_is_to_be_cited_is_that_of_the_citation_file():
    """Titles, DOI and version of the BibTeX entries are those of CITATION.cff."""
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    block = re.search(r"^```bibtex\n(.*?)^```$", TEXT, re.M | re.S)[1]
    titles = re.findall(r"^  title +=\s+\{(.*)\},?$", block, re.M)
    assert titles == [*(paper["title"] for paper in cited["references"]), cited["title"]]
    assert f"version = {{{cited['version']}}}" in block
    assert re.findall(r"doi +=\s+\{(.*)\}", block) == [
        paper["doi"] for paper in cited["references"] if "doi" in paper
    ]


def test_the_page_of_changed_rules_spells_out_every_claim():
    """No ranges of ids, none that is not declared, and at most 2,500 words."""
    text = (ROOT / "docs" / "changed_rules.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`((?:sfl|ds|osafl|fats)-[\w-]+)`", text))
    assert named and named <= {name for book in gate.notebooks() for name in book.artefacts}
    assert not re.findall(r"`[a-z]+-[\w-]+` to `", text)
    assert len(text.split()) <= 2500


def test_commands_they_show_exist():
    fenced = [re.findall(r"^```\n(.*?)^```$", page, re.M | re.S) for page in PAGES.values()]
    text = "\n".join(block for blocks in fenced for block in blocks)
    known = cli.app.registered_commands + library_cli.app.registered_commands
    known = {command.name or command.callback.__name__ for command in known}
    shown = set(re.findall(r"^(?:\$ )?(?:\.venv/bin/)?sflkit ([a-z]+)", text, re.M))
    assert shown <= known, shown - known
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for target in set(re.findall(r"^(?:\$ )?make ([a-z]+)", text, re.M)):
        assert re.search(rf"^{target}:", makefile, re.M), target


def shown_runs():
    """Each `sflkit run ...` that README, guides, profiles.yaml or a notebook's text shows, with the
    name of the file.
    """
    profiles = ROOT / "notebooks" / "profiles.yaml"
    texts = PAGES | {profiles.name: profiles.read_text(encoding="utf-8")}
    for path in sorted((ROOT / "notebooks").glob("*.ipynb")):
        cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
        texts[path.name] = "\n".join(
            "".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown"
        )
    return [
        (name, command)
        for name, text in texts.items()
        for command in re.findall(r"sflkit run +(\d\d[^`\n]*)", text)
    ]


def resolve(command):
    """Pass what stands behind `sflkit run` through the gate, without starting anything."""
    book, *rest = shlex.split(command, comments=True)
    options = list(zip(rest[::2], rest[1::2], strict=True))
    assert {name for name, _ in options} <= {"--profile", "-p"}, command
    profile = dict(options).get("--profile", "")
    return gate.resolve(
        gate.find(book), profile, [value for name, value in options if name == "-p"]
    )


@pytest.mark.parametrize(("file", "command"), shown_runs())
def test_runs_it_shows_pass_the_gate(file, command, monkeypatch):
    monkeypatch.chdir(ROOT)
    resolve(command)
