"""The report on a run of the notebooks: ours against the committed."""

from __future__ import annotations

import base64
import io

import matplotlib.pyplot as plt
import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

from companion import figures
from companion.app import cli, committed, compare, gate
from companion.judging import seals, tables
from companion.judging.claims import Setting
from companion.sfl.claims import CLAIMS
from sflkit import paths
from tests.helpers import git

TRAINED = ("sfl-training/0123",)


def draw(artefact="sfl-fig1", height=1.0, keys=(), line=True):
    fig, ax = plt.subplots(figsize=(2, 2))
    ax.plot([0, 1], [0, height], visible=line)
    figures.save_figure(
        fig,
        artefact,
        profile="quick",
        data={"line": [[0.0, 0.0], [1.0, height]]},
        parameters={},
        keys=keys,
        folder=paths.figures("quick"),
    )
    plt.close(fig)


def judge(mixes=True):
    verdict = CLAIMS["sfl-fig2"].judge({"mixes": mixes}, setting=Setting("full"))
    tables.record(verdict, folder=paths.figures("quick"))


@pytest.fixture
def published(clone):
    draw("sfl-fig1")
    draw("sfl-fig4a", keys=TRAINED)
    judge()
    git("init", "-q")
    git("add", "figures")
    git("commit", "-q", "-m", "figures")
    return clone


def states(report):
    return {picture.artefact: picture.state for picture in report.pictures}


def test_nothing_has_changed(published):
    report = compare.compare("quick")
    assert report.as_committed and report.against == "git's HEAD"
    assert states(report) == {"sfl-fig1": "same", "sfl-fig4a": "same"}
    assert compare.summary(report) == (
        "figures/quick against git's HEAD: 2 figures: 2 the same byte for byte; 0 verdicts "
        "changed; 1 parts: 1 the same, 0 trained within the committed interval, 0 not"
    )
    assert CliRunner().invoke(cli.app, ["compare"]).exit_code == 0


def test_trained_figures_may_differ_and_are_shown_side_by_side(published):
    before = (published / "figures" / "quick" / "sfl-fig4a.png").read_bytes()
    draw("sfl-fig4a", height=1.5, keys=TRAINED)
    draw("sfl-fig1", height=1.0 + 1e-6)
    report = compare.compare("quick")
    assert states(report) == {"sfl-fig1": "close", "sfl-fig4a": "differs"} and report.as_committed
    assert "figure sfl-fig4a (trained) differs: column 1, row 2: 1, now 1.5" in compare.summary(
        report
    )
    page = compare.write_page(report)
    assert page == published / "out" / "compare.html"
    text = page.read_text()
    after = (published / "figures" / "quick" / "sfl-fig4a.png").read_bytes()
    for picture in (before, after):
        assert base64.b64encode(picture).decode() in text
    assert "http" not in text and "sfl-fig1<" not in text


def test_theory_must_not_differ(published):
    draw("sfl-fig1", height=1.01)
    report = compare.compare("quick")
    assert not report.as_committed and "figure sfl-fig1 (THEORY)" in compare.summary(report)
    result = CliRunner().invoke(cli.app, ["compare"])
    assert result.exit_code == 1 and str(published / "out" / "compare.html") in result.stdout


@pytest.mark.parametrize(("artefact", "keys"), [("sfl-fig1", ()), ("sfl-fig4a", TRAINED)])
def test_the_same_numbers_in_another_picture_are_shown_side_by_side(published, artefact, keys):
    before = (published / "figures" / "quick" / f"{artefact}.png").read_bytes()
    draw(artefact, height=1.0 + 1e-6, keys=keys, line=False)
    report = compare.compare("quick")
    assert states(report)[artefact] == "redrawn" and not report.as_committed
    assert not report.damaged
    result = CliRunner().invoke(cli.app, ["compare"])
    assert result.exit_code == 1
    assert f"{artefact} " in result.stdout and "is redrawn: the same numbers" in result.stdout
    text = compare.page_file().read_text()
    after = (published / "figures" / "quick" / f"{artefact}.png").read_bytes()
    for picture in (before, after):
        assert base64.b64encode(picture).decode() in text


def test_pictures_that_look_the_same():
    first, second, empty = (picture(edge) for edge in (200, 195, 255))
    assert compare.looks_the_same(first, first) and compare.looks_the_same(first, second)
    assert not compare.looks_the_same(first, empty)
    assert not compare.looks_the_same(first, first[:60])
    assert not compare.looks_the_same(first, b"")
    assert not compare.looks_the_same(first, picture(200, width=9))


def picture(grey, width=10):
    """A png file with a column of one grey on white."""
    pixels = np.full((10, width), 255, dtype=np.uint8)
    pixels[:, 3] = grey
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "png")
    return file.getvalue()


def test_trained_figures_that_are_gone_are_not_as_committed(published):
    folder = published / "figures" / "quick"
    for file in folder.glob("sfl-fig4a.*"):
        file.unlink()
    seals.upsert_rows(folder / "index.csv", "sfl-fig4a", [])
    report = compare.compare("quick")
    assert not report.damaged and states(report)["sfl-fig4a"] == "gone"
    assert CliRunner().invoke(cli.app, ["compare"]).exit_code == 1


def test_verdicts_that_changed_come_with_their_parts(published):
    judge(mixes=False)
    report = compare.compare("quick")
    assert [change[:2] for change in report.verdicts] == [("sfl-fig2", ""), ("sfl-fig2", "mixes")]
    assert not report.as_committed and not report.outside
    assert (
        "  verdict on sfl-fig2: reproduced (full) -> not reproduced (full)\n"
        "  part mixes of sfl-fig2: yes:  -> no: " in compare.summary(report)
    )


def test_damage_and_what_is_not_there_are_said(published):
    (published / "figures" / "quick" / "sfl-fig4a.png").unlink()
    draw("sfl-fig3")
    report = compare.compare("quick")
    assert states(report) == {"sfl-fig1": "same", "sfl-fig3": "new", "sfl-fig4a": "gone"}
    assert not report.as_committed
    text = compare.summary(report)
    assert "sfl-fig4a.png: it is missing" in text and "figure sfl-fig3 (trained) is not" in text


def test_without_git_the_first_run_keeps_a_copy(clone):
    assert "nothing is committed" in compare.summary(compare.compare("quick"))
    committed.keep("quick")  # there is nothing yet
    assert not (clone / "out").exists()
    draw()
    committed.keep("quick")
    draw(height=2.0)
    committed.keep("quick")  # the first copy counts
    report = compare.compare("quick")
    assert report.against == "the copy in out/published/quick"
    assert states(report) == {"sfl-fig1": "differs"}


def test_a_clone_within_another_repository_is_not_compared_with_that(clone, tmp_path, monkeypatch):
    draw()
    inner = tmp_path / "inner"
    inner.mkdir()
    git("init", "-q")
    git("add", "figures")
    git("commit", "-q", "-m", "figures")
    monkeypatch.setattr(gate, "root", lambda: inner)
    assert not compare.compare("quick").against


def test_a_git_that_fails_is_heard(published, monkeypatch):
    (published / ".git" / "HEAD").write_text("ref: refs/heads/broken")
    (published / ".git" / "refs" / "heads" / "broken").write_text("garbage")
    result = CliRunner().invoke(cli.app, ["compare"])
    assert result.exit_code == 1 and "nothing is committed" not in result.output
    assert f"git cannot say what is committed in {published}" in result.output
    assert "fatal: " in result.output and "call `sflkit compare` again" in result.output
    committed.keep("quick")  # a run need not wait for that
    assert (published / "out" / "published" / "quick" / "index.csv").is_file()
    (published / ".git" / "HEAD").unlink()
    monkeypatch.chdir(published)
    with pytest.raises(committed.GitFailed, match="not a git repository"):
        compare.compare("quick")


def test_a_git_that_does_not_know_the_figures_has_not_failed(clone):
    draw()
    git("init", "-q")  # without a commit
    assert not compare.compare("quick").against
    git("add", "pyproject.toml")
    git("commit", "-q", "-m", "no figures")
    assert not compare.compare("quick").against
    committed.keep("quick")
    assert compare.compare("quick").against == "the copy in out/published/quick"


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("x,y\n0,1\n", "x,y\n0,1.000009\n", ""),
        ("x,y\n0,1\n", "x,y\n0,1.00002\n", "y, row 1: 1, now 1.00002"),
        # below 1e-8 of the column's largest, so no more than rounding
        ("x\n1\n1e-12\n", "x\n1\n5e-9\n", ""),
        ("x\n1\n0\n", "x\n1\n5e-8\n", "x, row 2: 0, now 5e-08"),
        ("x\n1\n2\n", "x\n1\n\n", "shape"),
        ("x,y\n1,\n2,3\n", "x,y\n1,2\n2,3\n", "y, row 1: nan, now 2"),
        ("x\na\nb\n", "x\na\nc\n", "x, row 2: b, now c"),
        ("x\n1\n", "y\n1\n", "(1, 1) rows and columns, now (1, 1)"),
        ("x\n1\n", "", "cannot be read"),
        ("x\ninf\n", "x\ninf\n1\n", "(1, 1) rows and columns, now (2, 1)"),
        ("x\n-inf\n1\n", "x\ninf\n1\n", "x, row 1: -inf, now inf"),
    ],
)
def test_which_numbers_are_close(old, new, why):
    found = compare.numbers_differ(old.encode(), new.encode())
    assert (why in found or why == "shape") and bool(found) == bool(why)


def part(ours, interval="", answer="yes"):
    return {"answer": answer, "ours": ours, "interval": interval}


@pytest.mark.parametrize(
    ("before", "after", "state"),
    [
        (part("+26.9 points", "[22.7, 31.1]"), part("+23 points", "[20, 26]"), "within"),
        (part("+26.9 points", "[22.7, 31.1]"), part("+22.6 points", "[20, 26]"), "outside"),
        (part("+2", "[-inf, inf]", "open"), part("+3", "[-inf, inf]", "open"), "within"),
        (part("-1.07", "[-1.93, -0.204]"), part("-1.9", "[-3, -1]"), "within"),
        (part("-1.07", "[-1.93, -0.204]"), part("-0.2", "[-3, -1]"), "outside"),
        (part("+5", "[1, 9]"), part("+5", "[1, 9]", "open"), "outside"),
        (part("63 of 63 hold, largest 2.2e-16"), part("63 of 63 hold, largest 4.4e-16"), "same"),
        (part("63 of 63 hold"), part("62 of 63 hold"), "outside"),
        (part("largest value / bound 0.464"), part("largest value / bound 0.465"), "same"),
        (part("largest value / bound 0.464"), part("largest value / bound 0.484"), "outside"),
        (part("largest value / bound 1"), part("largest value / bound 0.999"), "same"),
        (part("SqueezeNet was not run"), part("SqueezeNet was run"), "outside"),
        (part("x"), None, "outside"),
        (None, part("x"), "outside"),
    ],
)
def test_what_a_part_may_become(before, after, state):
    assert compare.part_state(before, after) == state
