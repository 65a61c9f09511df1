"""`sflkit check`: what is published is whole, and what is not is named with the way out."""

from __future__ import annotations

import contextlib
import json
import lzma
import shutil
import subprocess

import pytest
from typer.testing import CliRunner

from companion.app import check, cli
from companion.judging import seals
from sflkit import data
from sflkit.runs import sums
from tests.helpers import ROOT

LOOKED_AT = ("data/results", "data/paper_values", "figures", "notebooks")
QUICK = tuple(part for part in check.PARTS if part is not check.pages)


@pytest.fixture(scope="module")
def copy(tmp_path_factory):
    """What the clone publishes, without pages, and what was wrong there before."""
    folder = tmp_path_factory.mktemp("copy")
    for name in LOOKED_AT:
        out = shutil.ignore_patterns(".*", "*.pdf")
        shutil.copytree(ROOT / name, folder / name, ignore=out)
    shutil.copy(ROOT / "pyproject.toml", folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setattr(check, "PARTS", QUICK)
        return folder, set(map(str, check.damages()))


@pytest.fixture
def new(copy, monkeypatch):
    """A function that returns what became wrong since."""
    monkeypatch.chdir(copy[0])
    monkeypatch.setattr(check, "PARTS", QUICK)
    return lambda: sorted({str(damage) for damage in check.damages()} - copy[1])


def test_the_clone_itself_is_whole(monkeypatch):
    monkeypatch.chdir(ROOT)
    done = CliRunner().invoke(cli.app, ["check"])
    assert "published is whole (" in done.output and done.exit_code == 0, done.output


@pytest.mark.parametrize("name", ["data/results", "data/paper_values", "figures"])
def test_a_folder_that_is_gone_is_damage(copy, new, name):
    folder = copy[0] / name
    folder.rename(copy[0] / "elsewhere")
    try:
        assert any(f"{name}/" in line and "missing" in line for line in new())
    finally:
        (copy[0] / "elsewhere").rename(folder)
    assert new() == []


@contextlib.contextmanager
def changed(file, content):
    """Change a file as somebody would who puts its digest right as well."""
    kept = {f: f.read_bytes() for f in (file, file.with_name(sums.NAME))}
    file.write_bytes(content)
    sums.put(file.parent, [file.name])
    yield
    for name, before in kept.items():
        name.write_bytes(before)


def test_a_run_that_differs_from_its_own_digest_is_named(copy, new):
    file = copy[0] / "data" / "results" / "sfl-caches.csv.xz"
    lines = lzma.decompress(file.read_bytes()).splitlines(keepends=True)
    lines[1] = lines[1].replace(b"1", b"2")
    with changed(file, lzma.compress(b"".join(lines))):
        (said,) = [line for line in new() if "figures/" not in line]
    assert "sfl-caches.jsonl.xz: " in said and "git checkout" in said


def test_runs_that_were_published_without_their_digests_are_not_to_be_thrown_away(copy, new):
    """As after a kill between the two."""
    file = copy[0] / "data" / "results" / "sfl-caches.csv.xz"
    kept = file.read_bytes()
    file.write_bytes(lzma.compress(lzma.decompress(kept), preset=0))
    (said,) = new()
    assert "differs from its digest" in said and "sha256sum *.xz derived.json" in said
    file.write_bytes(kept)


def test_a_number_of_a_paper_without_its_source_is_named(copy, new):
    file = copy[0] / "data" / "paper_values" / "sfl.csv"
    with changed(file, file.read_bytes().replace(b',"Section VI, setup"', b",", 1)):
        (said,) = new()
    assert "paper_values/sfl.csv: it cannot be read" in said and "has no source" in said


def rewritten(folder, artefact, passport):
    """Write a passport and put its digest in index.csv right."""
    file = folder / f"{artefact}.json"
    file.write_text(json.dumps(passport, indent=1, sort_keys=True) + "\n")
    (row,) = [row for row in seals.rows(folder / "index.csv") if row["artefact"] == artefact]
    files = {end: (folder / f"{artefact}{end}").read_bytes() for end in (".csv", ".png", ".json")}
    row |= {"results": str(len(passport["results"])), "notebook": passport["notebook"]}
    row |= seals.digests(files)
    seals.upsert_rows(folder / "index.csv", artefact, [row])


def test_a_passport_with_a_run_that_is_not_published_is_named(copy, new):
    folder = copy[0] / "figures"
    kept = {f: f.read_bytes() for f in (folder / "sfl-fig4a.json", folder / "index.csv")}
    passport = json.loads(kept[folder / "sfl-fig4a.json"])
    rewritten(folder, "sfl-fig4a", passport | {"results": ["sfl-training/0123456789abcdef"]})
    said = "\n".join(new())
    assert "figures/sfl-fig4a.json: 1 of its 1 runs are not published" in said
    assert "`make paper ONLY=12`" in said
    for file, content in kept.items():
        file.write_bytes(content)


@pytest.mark.parametrize("notebook", ["13_sfl_sensitivity", "12_another"])
def test_a_passport_of_a_notebook_that_does_not_draw_it_is_named(copy, new, notebook):
    """Its runs would not be looked for, with a row of index.csv that says the same."""
    folder = copy[0] / "figures"
    kept = {f: f.read_bytes() for f in (folder / "sfl-fig4a.json", folder / "index.csv")}
    passport = json.loads(kept[folder / "sfl-fig4a.json"])
    rewritten(folder, "sfl-fig4a", passport | {"notebook": notebook})
    (said,) = new()
    assert f"figures/sfl-fig4a.json: {notebook} is no notebook that draws it" in said
    for file, content in kept.items():
        file.write_bytes(content)


@pytest.mark.parametrize("change", ["verdict", "claim"])
def test_a_verdict_that_its_claim_or_answers_do_not_give_is_named(copy, new, change):
    table = copy[0] / "figures" / "verdicts.csv"
    kept = table.read_bytes()
    row = next(row for row in seals.rows(table) if row["verdict"] == "reproduced")
    mine = row["artefact"]
    parts = [p for p in seals.rows(table.with_name("parts.csv")) if p["artefact"] == mine]
    row |= {"verdict": "open"} if change == "verdict" else {"claim": "Another."}
    seals.upsert_rows(table, mine, [row | {seals.SEAL: seals.seal(row, parts)}])
    said = "\n".join(new())
    what = "verdict and answers" if change == "verdict" else "claim"
    assert f"figures/verdicts.csv: {what} of {mine} differ from the declared claim" in said
    table.write_bytes(kept)


def test_git_says_what_differs_from_head_and_that_is_no_damage(clone, monkeypatch):
    def git(*words):
        who = ["-c", "user.name=n", "-c", "user.email=e@x"]
        subprocess.run(["git", *who, *words], check=True, capture_output=True)

    assert check.differing() == []  # no history
    git("init", "-q")
    git("add", ".")
    git("commit", "-qm", "all")
    assert check.differing() == []
    (clone / "docs" / "guides" / "speed.md").write_text("changed")
    (clone / "notebooks" / "10_first.ipynb").unlink()
    done = CliRunner().invoke(cli.app, ["check"])
    assert done.exit_code == 0
    assert "HEAD: docs/guides/speed.md, notebooks/10_first.ipynb\n" in done.output
    (clone / "inside" / "notebooks").mkdir(parents=True)
    shutil.copy(clone / "pyproject.toml", clone / "inside")
    monkeypatch.chdir(
        clone / "inside"
    )  # a copy without history is not told what the outer clone lacks
    assert check.differing() == []


def test_status_asks_for_no_data_and_no_network(monkeypatch, tmp_path):
    """A clean clone has no data set; the plans of its notebooks are told from what is published."""
    monkeypatch.chdir(ROOT)
    monkeypatch.delenv("SFLKIT_DATA", raising=False)
    monkeypatch.setattr("sflkit.paths.data_folders", lambda: [tmp_path / "data"])
    asked = []

    def refused(*arguments, **options):
        asked.append(arguments)
        raise OSError("a test that asks for nothing")

    for name in ("socket.socket.connect", "socket.getaddrinfo", "sflkit.data.downloads.fetch"):
        monkeypatch.setattr(name, refused)
    with pytest.raises(OSError, match="asks for nothing"):
        data.load("mnist", download=True)
    asked.clear()
    done = CliRunner().invoke(cli.app, ["status"])
    assert asked == [] and "failed" not in done.output, done.output
    assert "\ntotal" in done.output and not (tmp_path / "data").exists()


def test_a_check_that_cannot_be_made_is_damage_and_no_traceback(clone, monkeypatch):
    def broken(root):
        raise RecursionError("too deep")

    monkeypatch.setattr(check, "PARTS", (broken,))
    done = CliRunner().invoke(cli.app, ["check"])
    assert done.exit_code == 1 and "broken cannot be checked: RecursionError" in done.output
    assert isinstance(done.exception, SystemExit) and "Traceback" not in done.output


def test_status_says_it_in_a_line(clone, monkeypatch):
    assert "what is published is whole" in CliRunner().invoke(cli.app, ["status"]).output
    damage = check.Damage(clone / "figures" / "index.csv", "it is cut", "")
    monkeypatch.setattr(check, "PARTS", (lambda root: [damage],))
    done = CliRunner().invoke(cli.app, ["status"])
    assert done.exit_code == 1
    assert "1 published file is damaged: `sflkit check`\n" in done.output
