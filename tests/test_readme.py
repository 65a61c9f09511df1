"""What the README and the guides say works: their Python blocks run as they stand, their tables and
the picture are current, their links lead somewhere, and the page stays short.
"""

from __future__ import annotations

import functools
import json
import re
import shlex
import subprocess
import sys

import pytest
import yaml

from companion.app import cli, gate, readme
from sflkit import cli as library_cli
from tests.helpers import ROOT

README = ROOT / "README.md"
GUIDES = sorted((ROOT / "docs" / "guides").glob("*.md"))
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


def test_they_have_python_to_run_and_name_the_two_commands():
    assert len(BLOCKS) >= 10 and "README.md" in {name for name, _, _ in BLOCKS}
    own = [block for name, _, block in BLOCKS if name.endswith("own_rules.md")]
    assert len(own) >= 4, "your own stream, cache rule, model and server, in ten lines each"
    assert "make figures" in TEXT and "make test" in TEXT


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


def test_the_readme_stays_short():
    """At most four screens of 1280 x 900 pixels, which are about 12 kB with tables and BibTeX."""
    assert len(TEXT.encode()) <= 13_000


@pytest.mark.parametrize("name", ["README.md", "VERDICTS.md"])
def test_no_cell_of_a_table_is_a_wall_of_text(name):
    cells = [
        cell.strip()
        for line in PAGES[name].splitlines()
        if line.count("|") > 4  # a table of two or three columns has room
        for cell in line.strip("|").split("|")
    ]
    shown = [re.sub(r"\]\([^)]*\)", "]", cell) for cell in cells]  # a link's address is not seen
    assert cells and [cell for cell in shown if len(cell) > 120] == []


def test_the_page_of_changed_rules_spells_out_every_claim():
    """No ranges of ids, none that is not declared, and at most 2,500 words."""
    text = (ROOT / "docs" / "changed_rules.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`((?:sfl|ds|osafl|fats)-[\w-]+)`", text))
    assert named and named <= {name for book in gate.notebooks() for name in book.artefacts}
    assert not re.findall(r"`[a-z]+-[\w-]+` to `", text)
    assert len(text.split()) <= 2500


@pytest.mark.parametrize("name", PAGES)
def test_links_lead_somewhere(name):
    links = re.findall(r"\]\((?!https?:|mailto:)([^)#]*)#?([^)]*)\)", PAGES[name])
    broken = []
    for link, anchor in links:
        target = ((ROOT / name).parent / link).resolve() if link else ROOT / name
        if not target.exists() or (anchor and anchor not in anchors(target)):
            broken.append(f"{link}#{anchor}")
    assert links and broken == []


@functools.cache
def anchors(file):
    """The anchors that GitHub gives to the headings of a page."""
    headings = re.findall(r"^#+ (.*)$", file.read_text(encoding="utf-8"), re.M)
    return {re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-") for text in headings}


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


def test_a_shown_run_that_went_stale_would_be_noticed(monkeypatch):
    monkeypatch.chdir(ROOT)
    assert "README.md" in [file for file, _ in shown_runs()]
    assert resolve('12 -p rounds=51 -p "seeds=[7, 8]"  # a comment') == {
        "rounds": 51,
        "seeds": [7, 8],
    }
    for stale, message in (
        ("12 -p rownds=50", "no parameter 'rownds'"),
        ("12 -p rounds=0", "rounds=0 is not allowed"),
        ("12 --profile papr", "no profile 'papr'"),
        ("77", "no notebook '77'"),
    ):
        with pytest.raises(gate.GateError, match=message):
            resolve(stale)


# One row as `python -m tests.bench` writes it.
ROW = {
    "workload": "W1",
    "peer": "sflkit pool",
    "seconds": "0.1234",
    "seconds_min": "0.12",
    "seconds_max": "0.13",
    "speedup": "2.871",
    "speedup_min": "2.5",
    "speedup_max": "3.004",
    "peak_share": "0.2512",
    "difference": "3e-07",
    "repeats": "7",
    "threads": "2",
    "load": "0.1",
    "torch": "2.13.0",
    "processor": "Some CPU x 2",
}


def write_bench(clone, name, *rows):
    folder = clone / "data" / "results" / "bench"
    folder.mkdir(parents=True, exist_ok=True)
    lines = [",".join(rows[0]), *(",".join(row.values()) for row in rows)]
    (folder / f"{name}.csv").write_text("\n".join(lines) + "\n")


def test_the_speed_table_is_made_from_the_measurements(clone):
    assert readme.bench() == "No measurement yet: `make bench` writes it."
    assert (
        readme.refresh_readme()
        and "`make bench` writes it" in (clone / "docs" / "guides" / "speed.md").read_text()
    )
    write_bench(
        clone,
        "W1",
        ROW | {"peer": "plain", "speedup": "1", "speedup_min": "1", "speedup_max": "1"},
        ROW,
    )
    write_bench(clone, "W9", ROW | {"workload": "W9", "threads": "1"})
    assert readme.refresh_readme() == [clone / "docs" / "guides" / "speed.md"]
    assert readme.refresh_readme() == []
    lines = readme.bench().splitlines()
    assert (
        "Some CPU x 2, 2 threads, torch 2.13.0:" in lines
        and "Some CPU x 2, 1 thread, torch 2.13.0:" in lines
    )
    assert "| workload | peer | seconds | speedup | share of sgemm |" in lines
    row = "| W1: LeNet, 10 clients, 2 full-batch steps of 300 | sflkit pool | 0.123"
    assert f"{row} | 2.87 (2.50 to 3.00) | 25.1% |" in lines
    assert "| W9 | sflkit pool | 0.123 | 2.87 (2.50 to 3.00) | 25.1% |" in lines
    assert all(line in (clone / "docs" / "guides" / "speed.md").read_text() for line in lines)
    write_bench(clone, "W9", {k: v for k, v in ROW.items() if k != "peak_share"})
    with pytest.raises(gate.GateError, match=r"W9\.csv lacks the columns peak_share"):
        readme.refresh_readme()


def test_importing_the_package_is_quick_and_light():
    code = "import sys, sflkit; print(*{'numpy', 'pandas', 'torch'} & set(sys.modules))"
    assert (
        subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        ).stdout.strip()
        == ""
    )
