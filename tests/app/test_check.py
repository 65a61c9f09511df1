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
from companion.judging import recorded
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


@pytest.mark.parametrize("name", ["data/results", "data/paper_values", "figures"])
def test_a_lost_digest_has_a_way_out_that_works(copy, new, name):
    """The file was to be brought back, which is whole."""
    file = copy[0] / name / sums.NAME
    kept = file.read_text()
    line = kept.splitlines()[3]
    lost = copy[0] / name / line.split()[1]
    file.write_text(kept.replace(f"{line}\n", ""))
    (said,) = new()
    way = f"cd {name} && sha256sum "
    assert said.startswith(f"{lost.relative_to(copy[0])}: SHA256SUMS has no digest of it")
    assert f"`git checkout -- {name}/SHA256SUMS` brings it back; where" in said and way in said
    subprocess.run(said[said.index(way) :], shell=True, cwd=copy[0], check=True)
    assert sorted(file.read_text().splitlines()) == sorted(kept.splitlines())
    file.write_text(kept)
    lost.rename(copy[0] / "elsewhere")
    said = [said for said in new() if f"is missing; `git checkout -- {name}" in said]
    assert len(said) == 1 and f"where it is to be gone: {way}" in said[0]
    (copy[0] / "elsewhere").rename(lost)


@contextlib.contextmanager
def changed(file, content):
    """Change a file as somebody would who puts its digest right as well."""
    digests = [f for f in [file.with_name(sums.NAME)] if f.exists()]
    kept = {f: f.read_bytes() for f in (file, *digests)}
    file.write_bytes(content)
    if digests:
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


@pytest.mark.parametrize(
    ("said", "found"),
    [
        ({"results": ["sfl-training/0123456789abcdef"]}, "1 of its 1 runs are not published"),
        ({"notebook": "13_sfl_sensitivity"}, "13_sfl_sensitivity is no notebook that draws it"),
        ({"notebook": "12_another"}, "12_another is no notebook that draws it"),
    ],
)
def test_a_passport_whose_runs_or_notebook_are_not_there_is_named(copy, new, said, found):
    file = copy[0] / "figures" / "sfl-fig4a.json"
    with changed(file, json.dumps(json.loads(file.read_bytes()) | said).encode()):
        (line,) = new()
    assert f"figures/sfl-fig4a.json: {found}" in line
    assert "published" not in found or "`make paper ONLY=12`" in line


@pytest.mark.parametrize("name", ["notebooks/12_sfl_training.ipynb", "figures/parameters.json"])
@pytest.mark.parametrize("damage", ["cut", "another form", "nested"])
def test_of_what_is_made_by_a_damaged_file_nothing_else_is_named(copy, monkeypatch, name, damage):
    monkeypatch.chdir(copy[0])
    monkeypatch.setattr(check, "PARTS", (check.figures, check.parameters, check.pages))
    file, before = copy[0] / name, set(map(str, check.damages()))
    kept = file.read_bytes()
    ways = {"cut": kept[: len(kept) // 2], "another form": b"[]", "nested": b"[" * 100_000}
    with changed(file, ways[damage]):
        said = set(map(str, check.damages())) - before
    assert said and all(line.startswith(f"{name}: ") and "git checkout" in line for line in said)


@pytest.mark.parametrize("change", ["verdict", "claim", "row"])
def test_a_verdict_that_its_claim_or_answers_do_not_give_is_named(copy, new, change):
    file = copy[0] / "figures" / "verdicts.csv"
    table = recorded.read_table(file)
    row = table.index[table["verdict"] == "reproduced"][0]
    mine = table["artefact"][row]
    if change == "row":
        table, said = table.drop(row), f"no verdict on 1 claims, such as {mine}"
    else:
        table.loc[row, change] = {"verdict": "open", "claim": "Another."}[change]
        what = "verdict and answers" if change == "verdict" else "claim"
        said = f"{what} of {mine} differ from the declared claim"
    with changed(file, table.to_csv(index=False).encode()):
        assert f"figures/verdicts.csv: {said}" in "\n".join(new()).replace("there is ", "")


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
    assert "\ntotal: " in done.output and not (tmp_path / "data").exists()


def test_a_check_that_cannot_be_made_is_damage_and_no_traceback(clone, monkeypatch):
    def broken(root):
        raise RecursionError("too deep")

    monkeypatch.setattr(check, "PARTS", (broken,))
    done = CliRunner().invoke(cli.app, ["check"])
    assert done.exit_code == 1 and "broken cannot be checked: RecursionError" in done.output
    assert isinstance(done.exception, SystemExit) and "Traceback" not in done.output


def test_status_says_it_in_a_line(clone, monkeypatch):
    assert "what is published is whole" in CliRunner().invoke(cli.app, ["status"]).output
    damage = check.Damage(clone / "figures" / "verdicts.csv", "it is cut", "")
    monkeypatch.setattr(check, "PARTS", (lambda root: [damage],))
    done = CliRunner().invoke(cli.app, ["status"])
    assert done.exit_code == 1
    assert "1 published file is damaged: `sflkit check`\n" in done.output
