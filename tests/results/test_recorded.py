"""What is published is known again: tables that are not as they were written are not read."""

from __future__ import annotations

import pytest

from companion.judging import recorded, tables
from companion.judging.claims import Claim, Claims, Part, Setting
from companion.judging.rules import Holds
from sflkit import paths
from sflkit.runs import sums

PARTS = (Part("one", "One is one", Holds()), Part("same", "It stays", Holds()))
CLAIMS = Claims(
    "x",
    [
        Claim(f"x-fig{n}", "One is one, and so it stays.", "Fig. 1", PARTS, "One that is two")
        for n in (2, 10)
    ],
)


def judge(folder, artefact="x-fig2", one=True):
    verdict = CLAIMS[artefact].judge({"one": one, "same": True}, setting=Setting("full"))
    tables.record(verdict, folder=folder)


@pytest.fixture
def folder(tmp_path):
    judge(tmp_path, "x-fig10")
    judge(tmp_path)
    return tmp_path


def test_a_claim_has_one_row_in_the_order_of_its_number_and_digests_that_are_right(folder):
    assert list(sums.damages(folder, recorded.COLUMNS)) == []
    judge(folder, one=False)
    rows = tables.all_verdicts(folder)
    assert rows["artefact"].tolist() == ["x-fig2", "x-fig10"] and rows["ran"].all()
    assert rows["verdict"].tolist() == ["partly", "reproduced"]
    assert tables.all_parts(folder)["answer"].tolist() == ["no", "yes", "yes", "yes"]
    assert list(sums.damages(folder, recorded.COLUMNS)) == []
    assert tables.all_verdicts(folder / "not there").empty


@pytest.mark.parametrize(
    ("table", "old", "new"),
    [
        ("verdicts.csv", "x-fig2,reproduced", "x-fig2,not reproduced"),
        ("verdicts.csv", "Fig. 1", "Fig. 2"),
        ("parts.csv", "One is one", "One is two"),
        ("parts.csv", ",yes,", ",no,"),
        ("SHA256SUMS", "  parts.csv", "  other.csv"),
    ],
)
def test_a_table_edited_by_hand_is_named_and_not_read(folder, table, old, new):
    text = (folder / table).read_text()
    assert old in text
    (folder / table).write_text(text.replace(old, new))
    with pytest.raises(recorded.DamagedTable, match=r"differs from its digest .*git checkout"):
        tables.all_verdicts(folder)
    before = {file: file.read_bytes() for file in folder.iterdir()}
    with pytest.raises(recorded.DamagedTable, match="others can be deleted"):
        judge(folder, "x-fig10", one=False)  # nor does it get a right digest
    assert {file: file.read_bytes() for file in folder.iterdir()} == before
    assert all("differs" in said for said in recorded.drop_damaged(folder))
    assert len(list(folder.glob("*.csv"))) == 1  # the other one stays
    judge(folder, "x-fig10", one=False)
    assert recorded.drop_damaged(folder) == []


@pytest.mark.parametrize("digests", [None, "<<<<<<< HEAD\n"])
def test_tables_stay_where_it_is_the_digests_that_are_damaged(folder, digests):
    sums_file = folder / "SHA256SUMS"
    sums_file.unlink() if digests is None else sums_file.write_text(digests)
    before = {file: file.read_bytes() for file in folder.glob("*.csv")}
    with pytest.raises(recorded.DamagedTable, match="git checkout -- figures/SHA256SUMS"):
        recorded.drop_damaged(folder)
    said = "SHA256SUMS must hold lines" if digests else "differs from its digest"
    with pytest.raises(recorded.DamagedTable, match=said):
        judge(folder)
    assert {file: file.read_bytes() for file in folder.glob("*.csv")} == before
    for file in folder.iterdir():  # what the messages say where there is no git
        file.unlink()
    judge(folder)
    assert list(sums.damages(folder, recorded.COLUMNS)) == []


def test_a_write_that_failed_can_be_made_again_and_no_other_one(folder, monkeypatch):
    write = paths.write_atomic

    def full(path, content, **options):
        if path.name == "verdicts.csv":
            raise paths.CannotWrite(28, "No space left", str(path))
        write(path, content, **options)

    with monkeypatch.context() as patch, pytest.raises(paths.CannotWrite):
        patch.setattr(paths, "write_atomic", full)
        judge(folder, one=False)
    with pytest.raises(recorded.DamagedTable, match=r"verdicts.csv: it differs"):
        judge(folder, "x-fig10", one=False)
    judge(folder, one=False)
    assert tables.all_verdicts(folder)["verdict"].tolist() == ["partly", "reproduced"]


def test_a_table_cut_anywhere_is_not_read(folder):
    for name in recorded.COLUMNS:
        content = (folder / name).read_bytes()
        for length in range(0, len(content), 7):
            (folder / name).write_bytes(content[:length])
            with pytest.raises(recorded.DamagedTable, match=f"{name}: it differs"):
                recorded.read_table(folder / name)
        (folder / name).write_bytes(content)
    assert len(tables.all_parts(folder)) == 4
    (folder / "parts.csv").write_text("artefact,part\nx-fig2,one\n")
    sums.put(folder, ["parts.csv"])
    with pytest.raises(recorded.DamagedTable, match=r"parts.csv: its columns are not artef"):
        judge(folder)
