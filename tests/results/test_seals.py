"""What is published is known again: damaged figures, passports and verdicts are named."""

from __future__ import annotations

import shutil

import matplotlib.pyplot as plt
import pandas as pd
import pytest

from companion import figures
from companion.judging import seals, tables
from companion.judging.claims import Claim, Claims, Part, Setting
from companion.judging.rules import Holds

CLAIM = Claim(
    "x-fig1",
    "One is one, and so it stays.",
    source="Fig. 1",
    refuted_by="One that is two",
    parts=(Part("one", "One is one", Holds()), Part("same", "It stays", Holds())),
)
CLAIMS = Claims("x", [CLAIM])


def draw(artefact, folder):
    fig, ax = plt.subplots(figsize=(2, 2))
    data = pd.DataFrame({"x": [0.0, 1.0], "y": [1.0, 2.5]})
    ax.plot(data["x"], data["y"])
    figures.save_figure(
        fig,
        artefact,
        data=data,
        parameters={"rounds": 3},
        caption="A line, straight",
        notebook="10_first",
        folder=folder,
    )
    plt.close(fig)


def judge(folder):
    verdict = CLAIM.judge({"one": True, "same": True}, setting=Setting("full"))
    tables.record(verdict, folder=folder)


@pytest.fixture(scope="module")
def drawn(tmp_path_factory):
    folder = tmp_path_factory.mktemp("figures") / "drawn"
    draw("x-fig1", folder)
    draw("x-fig2", folder)
    judge(folder)
    return folder


@pytest.fixture
def folder(drawn, tmp_path):
    return shutil.copytree(drawn, tmp_path / "drawn")


def test_what_was_just_drawn_is_not_damaged(folder):
    assert seals.damages(folder) == [] == seals.damages(folder / "not there")
    assert len(seals.read_table(folder / "parts.csv")) == 2


@pytest.mark.parametrize("how", ["row", "files", "renamed"])
def test_a_row_without_any_file_goes_and_the_rest_is_drawn_anew(folder, how):
    right = {file.name: file.read_bytes() for file in folder.iterdir()}
    if how == "row":
        index = folder / "index.csv"
        index.write_bytes(index.read_bytes().replace(b"x-fig1,", b"x-fig0,"))
    else:
        for file in folder.glob("x-fig1.*"):
            file.rename(folder / f"y-{file.name}") if how == "renamed" else file.unlink()
    found = seals.damages(folder)
    assert {d.wrong for d in found} <= {"it is missing", seals.NO_ROW} and len(found) >= 3
    seals.mend(folder, found)
    assert [row["artefact"] for row in seals.rows(folder / "index.csv")] == ["x-fig2"]
    assert {d.wrong for d in seals.damages(folder)} <= {seals.NO_ROW}  # never again "it is missing"
    draw("x-fig1", folder)
    for file in folder.glob("y-*"):
        file.unlink()
    assert seals.damages(folder) == []
    assert {file.name: file.read_bytes() for file in folder.iterdir()} == right


@pytest.mark.parametrize(
    ("table", "old", "new"),
    [
        ("verdicts.csv", "x-fig1,reproduced", "x-fig1,not reproduced"),
        ("verdicts.csv", "Fig. 1", "Fig. 2"),
        ("parts.csv", "One is one", "One is two"),
        ("parts.csv", ",yes,", ",no,"),
    ],
)
def test_a_verdict_edited_by_hand_is_named_and_counts_no_more(folder, table, old, new):
    file = folder / table
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new))
    (damage,) = seals.damages(folder)
    assert damage.artefact == "x-fig1" and "differ from their digest" in damage.wrong
    with pytest.raises(seals.DamagedTable, match=r"verdicts\.csv: the row of x-fig1.*mends it"):
        tables.all_verdicts(folder)
    seals.mend(folder, [damage])
    assert seals.damages(folder) == [] and tables.all_verdicts(folder).empty
    judge(folder)
    assert tables.all_verdicts(folder)["verdict"].tolist() == ["reproduced"]


def test_a_row_that_contradicts_its_passport_is_damaged(folder):
    index = folder / "index.csv"
    index.write_text(index.read_text().replace("A line, straight", "A line, crooked", 1))
    (found,) = seals.damages(folder)
    assert found.file == index and "caption" in str(found)


@pytest.mark.parametrize("name", ["data_sha256", "png_sha256", "passport_sha256"])
def test_a_figure_without_a_digest_is_damaged(folder, name):
    row = seals.rows(folder / "index.csv")[0]
    seals.upsert_rows(folder / "index.csv", "x-fig1", [row | {name: ""}])
    (damage,) = seals.damages(folder)
    assert damage.wrong == f"index.csv has no {name} for it"
    assert damage.file.stem == "x-fig1" and damage[2:] == ("x-fig1", "10_first")
    draw("x-fig1", folder)
    assert seals.damages(folder) == []


def test_a_verdict_without_a_digest_is_damaged(folder):
    (row,) = seals.rows(folder / "verdicts.csv")
    edited = row | {"verdict": "not reproduced", seals.SEAL: ""}
    seals.upsert_rows(folder / "verdicts.csv", "x-fig1", [edited])
    (damage,) = seals.damages(folder)
    assert damage.wrong == "the row of x-fig1 has no digest" and damage.artefact == "x-fig1"
    with pytest.raises(seals.DamagedTable, match="x-fig1 has no digest"):
        tables.all_verdicts(folder)
    judge(folder)
    assert seals.damages(folder) == []


@pytest.mark.parametrize("table", ["index.csv", "verdicts.csv", "parts.csv"])
def test_a_table_cut_anywhere_is_named_and_mended(folder, table):
    right = {file.name: file.read_bytes() for file in folder.iterdir()}
    content = right[table]
    for length in range(0, len(content), 7):
        (folder / table).write_bytes(content[:length])
        found = seals.damages(folder)
        assert found, length
        if not content[:length].endswith(b"\n"):  # else rows are gone and the others are whole
            with pytest.raises(seals.DamagedTable, match=r"it is not as it was written; .*mends"):
                seals.read_table(folder / table)
        seals.mend(folder, found)
        left = {damage.wrong for damage in seals.damages(folder)}
        # pictures without a row stay named until they are drawn anew
        assert left == ({"index.csv has no row for it"} if table == "index.csv" else set())
        if length:
            for name in seals.COLUMNS:
                (folder / name).write_bytes(right[name])
        else:
            draw("x-fig1", folder)
            draw("x-fig2", folder)
            judge(folder)
            assert {file.name: file.read_bytes() for file in folder.iterdir()} == right
