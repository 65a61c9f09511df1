"""Links of the clone's texts on the site, and what is refused with file and line."""

from __future__ import annotations

import csv
import io
import json
import re

import pytest

from companion.app import gate
from companion.judging import seals
from docs.site import __main__ as command
from docs.site import notebooks, records
from docs.site.sources import PAGES, Problem, Sources, page_of
from tests.helpers import ROOT


@pytest.fixture
def texts(tmp_path):
    """A folder with a few files that link to one another."""
    for name in ("docs/guides", "notebooks", "figures/deep", "sflkit/sfl"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "sflkit" / "sfl" / "caches.py").write_text('"""Caches."""\n')
    (tmp_path / "notebooks" / "10_first.ipynb").write_text("{}")
    (tmp_path / "figures" / "sfl-fig1.png").write_bytes(b"png")
    (tmp_path / "docs" / "guides" / "data.md").write_text("# Data\n")
    for name in ("README.md", "VERDICTS.md", "ERRATA.md"):
        (tmp_path / name).write_text(f"# {name}\n")
    return Sources(tmp_path, ["sfl-fig1"])


def rewritten(texts, text, file="docs/guides/library.md"):
    (texts.root / file).write_text(text)
    return texts.rewrite(text, file, page_of(file))


def test_links_lead_to_pages(texts):
    # on the site the guide lies in guides/, the README in the root and the notebook where it was
    for link, there in {
        "data.md": "data.md",
        "data.md#a-heading": "data.md#a-heading",
        "../../README.md": "../index.md",
        "../../notebooks/10_first.ipynb": "../notebooks/10_first.ipynb",
        "../../notebooks": "../notebooks/index.md",
        "../../VERDICTS.md": "../verdicts/index.md",
        "../../VERDICTS.md#sfl-fig1": "../verdicts/sfl-fig1.md",
        "../../sflkit/sfl/caches.py": "../code/sflkit/sfl/caches.md",
        "../../sflkit/sfl": "../api/sflkit.sfl.rst",
        "../../figures/sfl-fig1.png": "../figures/sfl-fig1.png",
        "https://example.org/a": "https://example.org/a",
        "#below": "#below",
    }.items():
        assert rewritten(texts, f"See [it]({link}).") == f"See [it]({there})."
        built = re.sub(r"^(?!http)(.*)\.(md|ipynb|rst)(#|$)", r"\1.html\3", there)
        tag = f'<a class="x" href="{link}">'
        assert rewritten(texts, tag) == f'<a class="x" href="{built}">'
        # a figure's link in a cell's output leads to its claim: Sphinx copies no figure there
        shown = "../verdicts/sfl-fig1.html" if there.endswith(".png") else built
        file = "docs/guides/library.md"
        assert texts.rewrite_html(tag, file, page_of(file)) == f'<a class="x" href="{shown}">'
    picture = '<img src="../../figures/sfl-fig1.png">'
    assert rewritten(texts, picture) == '<img src="../figures/sfl-fig1.png">'
    assert texts.problems == []
    assert texts.files["figures/sfl-fig1.png"] == b"png"
    assert texts.code == {"sflkit/sfl/caches.py"}


def test_a_link_that_leads_nowhere_is_named_with_file_and_line(texts):
    rewritten(
        texts,
        "# Title\n\nFine.\n\nSee [it](../gone.md) and [that](../../figures/deep).\n"
        "[A verdict](../../VERDICTS.md#sfl-fig1-partly).\n",
    )
    gone, folder, block = texts.problems
    file = "docs/guides/library.md"
    assert (gone.file, gone.line) == (folder.file, folder.line) == (file, 5)
    assert (block.file, block.line) == (file, 6) and "has no such block" in block.text
    assert str(gone) == f"{file}:5: the link to ../gone.md leads nowhere: there is no docs/gone.md"
    assert "has no page on the site" in folder.text


def test_sources_are_written_once_and_old_ones_go(tmp_path):
    sources = Sources(tmp_path)
    sources.add("a/one.md", "one")
    sources.write(tmp_path / "out")
    first = (tmp_path / "out" / "a" / "one.md").stat().st_mtime_ns
    (tmp_path / "out" / "old.md").write_text("old")
    sources.write(tmp_path / "out")
    assert (tmp_path / "out" / "a" / "one.md").stat().st_mtime_ns == first
    assert not (tmp_path / "out" / "old.md").exists()


# --- what stops the build -------------------------------------------------------------------------


def verdict_line(artefact, claim):
    """A line of verdicts.csv with its digest."""
    row = dict.fromkeys(seals.COLUMNS["verdicts.csv"], "")
    row |= {"artefact": artefact, "verdict": "reproduced", "setting": "full", "claim": claim}
    row |= {"source": "Fig. 1", "refuted_by": "nothing", "n_seeds": "0"}
    row["sha256"] = seals.seal(row, [])
    text = io.StringIO()
    csv.DictWriter(text, row, lineterminator="\n").writerow(row)
    return text.getvalue()


@pytest.fixture
def damaged(clone, monkeypatch):
    """The small clone with one verdict and one figure that are as they should be."""
    folder = clone / "figures"
    folder.mkdir(parents=True)
    head = ",".join(seals.COLUMNS["verdicts.csv"])
    line = verdict_line("sfl-fig1", "A claim\nof two lines")
    (folder / "verdicts.csv").write_text(f"{head}\n{line}")
    (folder / "index.csv").write_text(
        "artefact,notebook,caption,results,data_sha256\nsfl-fig1,10_first,Shares,0,ab\n"
    )
    (folder / "sfl-fig1.png").write_bytes(b"png")
    assert records.read(clone).problems == []
    return clone


def add_line(file, line):
    file.write_text(file.read_text() + line)


def test_a_verdict_without_a_claim(damaged):
    file = damaged / "figures" / "verdicts.csv"
    add_line(file, verdict_line("sfl-fig99", "A claim"))
    (problem,) = records.read(damaged).problems
    assert (problem.file, problem.line) == ("figures/verdicts.csv", 4)
    assert "'sfl-fig99' has no claim" in problem.text


def test_a_figure_that_is_missing(damaged):
    add_line(damaged / "figures" / "index.csv", "sfl-fig2,10_first,Shares,0,cd\n")
    assert records.read(damaged).problems == [
        Problem("figures/index.csv", 3, "the figure figures/sfl-fig2.png is missing")
    ]


def test_a_notebook_of_another_kernel(damaged):
    file = damaged / "notebooks" / "12_second.ipynb"
    content = json.loads(file.read_text())
    content["metadata"]["kernelspec"]["name"] = "conda-env-mine"
    file.write_text(json.dumps(content, indent=1))
    sources = Sources(damaged)
    notebooks.add(sources, records.read(damaged))
    (problem,) = sources.problems
    line = file.read_text().splitlines().index('   "name": "conda-env-mine"') + 1
    assert (problem.file, problem.line) == ("notebooks/12_second.ipynb", line)
    assert "'conda-env-mine'; it must be 'python3'" in problem.text


# --- this clone -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def collected():
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("SFLKIT_FIGURES", raising=False)
        patch.chdir(ROOT)
        patch.setattr("docs.site.gallery.small", lambda file: b"")
        return command.collect(ROOT), records.read(ROOT)


def test_nothing_is_wrong_with_what_is_committed(collected):
    assert collected[0].problems == []


def test_every_claim_figure_notebook_erratum_and_module_has_its_place(collected, monkeypatch):
    sources, found = collected
    monkeypatch.delenv("SFLKIT_FIGURES", raising=False)
    assert {f"verdicts/{artefact.name}.md" for artefact in found.judged} <= set(sources.files)
    assert len(found.judged) >= 100
    drawn = {path.stem for path in (ROOT / "figures").glob("*.png")} - set(seals.OTHERS)
    assert {
        artefact.figure.rsplit("/", 1)[1][:-4] for artefact in found.artefacts if artefact.figure
    } == drawn
    gallery = "".join(
        text for page, text in sources.files.items() if re.fullmatch(r"gallery/\w+\.md", page)
    )
    assert all(f"small/{a.name}.png" in gallery for a in found.artefacts if a.figure)
    assert {f"notebooks/{book.path.name}" for book in gate.notebooks()} <= set(sources.files)
    numbers = re.findall(r"^(\d+)\. \*\*", (ROOT / "ERRATA.md").read_text(encoding="utf-8"), re.M)
    errata = sources.files[PAGES["ERRATA.md"]]
    assert [n for n in numbers if f"(erratum-{n})=\n### {n}. " not in errata] == []
    assert {
        f"api/{'.'.join(path.relative_to(ROOT).with_suffix('').parts)}.rst"
        for path in (ROOT / "sflkit" / "sfl").glob("[a-z]*.py")
    } <= set(sources.files)
