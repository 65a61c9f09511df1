"""Tables of your own: what is read from a CSV or npz file, and what is refused."""

from __future__ import annotations

import gzip
import hashlib

import numpy as np
import pytest

from sflkit.data import own

CSV = "who,label,a,b\nx,no,1,0.5\ny,yes,2,-1\nx,yes,3,4\n"


def write(tmp_path, text, name="mine.csv"):
    file = tmp_path / name
    file.write_text(text)
    return file


def test_a_csv_file_by_hand(tmp_path):
    file = write(tmp_path, CSV)
    table = own.read(file, client="who")
    assert table.labels == ("no", "yes") and table.clients == ("x", "y")
    assert table.features == ("a", "b") and len(table) == 3
    np.testing.assert_array_equal(table.x, np.array([[1, 0.5], [2, -1], [3, 4]], np.float32))
    assert table.y.tolist() == [0, 1, 1] and table.client.tolist() == [0, 1, 0]
    assert table.x.dtype == np.float32 and table.y.dtype == table.client.dtype == np.int64
    assert table.digest == hashlib.sha256(CSV.encode()).hexdigest()


def test_labels_are_names_even_where_they_are_numbers(tmp_path):
    table = own.read(write(tmp_path, "label,a\n7,1\n10,2\n07,3\n"))
    assert table.labels == ("07", "10", "7") and table.clients == ("all",)


def test_the_same_table_as_npz(tmp_path):
    file = tmp_path / "mine.npz"
    x = np.arange(12).reshape(3, 2, 2)
    np.savez(file, x=x, y=np.array(["no", "yes", "yes"]), client=np.array(["x", "y", "x"]))
    table = own.read(file)
    assert table.labels == ("no", "yes") and table.clients == ("x", "y") and table.features == ()
    np.testing.assert_array_equal(table.x, x)
    np.savez(file, x=x, y=np.array([3, 4, 4]))
    assert own.read(file).labels == ("3", "4") and own.read(file).clients == ("all",)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("who,a\nx,1\n", "label='label' is no column; it has who, a"),
        ("who,label\nx,no\n", "1 rows and 0 features"),
        ("label,a\n", "0 rows"),
        ("label,a\nno,1\nyes,\n", "column 'a' holds nan in row 3, .* finite .* drop such rows"),
        ("label,a\nno,1\n,2\n", "column 'label' holds 'nan' in row 3, .* is no name"),
        ("label,a\nno,1\nyes,inf\n", "column 'a' holds inf in row 3"),
        ("label,a\nno,1\nyes,red\n", "column 'a' holds 'red' in row 3, .* must be numbers"),
        ("label,a\nno,1\nyes,0x10\n", "column 'a' holds '0x10' in row 3"),
        ('label,a\nno,"1,5"\nyes,2\n', "holds '1,5' in row 2.* with a point before the decimals"),
        ("label;a;b\nno;1,5;2,5\nyes;1;2\n", "heading is one column, 'label;a;b': .* by ';'"),
        ("label;a\nno;1\nyes;1\n", "heading is one column, 'label;a': .* by ';'"),
        ('"label";"a"\r\n"no";"1,5"\r\n', "heading is one column, .* by ';'"),
        ("sep=;\nlabel;a\nno;1\n", "by ';'"),
        ("label|a\nno|1\n", r"by '\|'"),
        ("label\ta\nno\t1\n", "is it separated by .*tabs in a .tsv"),
        ("label,a\nno,1\nno,2\n", "the label 'no' only"),
        ("", "is no CSV file"),
        ("a,b,label\n1,2,x,3\n", "row 2, counted from the heading, has 4 fields and the heading 3"),
        ("a,b,label\n1,2,x\n1,2,y,\n", "row 3, counted from the heading, has 4 fields"),
        (",a,label\n0,1,x\n1,2,y\n", r"column 1 .* called '' .*index=False"),
        ("a,a,label\n0,1,x\n1,2,y\n", "column 2 of the heading is called 'a'"),
        ("a,label\n1,x\n1e39,y\n", r"column 'a' holds 1e\+39 in row 3, .* ends at 3.4e38"),
        ("t,label\n1700000000,x\n1700000001,y\n", "holds 17.*too close to one another"),
        (
            "t,label\n1700000000.5,x\n1700000099.5,y\n",
            "holds 17.*too close to one another",
        ),
        ('label,a\nno,"1\n', "is no CSV file"),
    ],
)
def test_what_is_wrong_is_named(tmp_path, text, message):
    with pytest.raises(ValueError, match=message) as error:
        own.read(write(tmp_path, text), client="who")
    assert error.type is ValueError  # no name of ours that a user cannot know


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"x": np.ones((2, 1))}, "no array 'y'"),
        ({"x": np.ones(2), "y": np.arange(2)}, r"it must be numbers \(n, ...\)"),
        ({"x": np.ones((2, 1)), "y": np.arange(3)}, r"y \(3,\)"),
        ({"x": np.array([[1], [np.nan]]), "y": np.arange(2)}, "nan in row 1, counted from 0"),
        ({"x": np.ones((2, 0)), "y": np.arange(2)}, "one at least"),
        ({"x": np.ones((2, 1)), "y": np.array([1, np.nan])}, "'y' holds 'nan' in row 1"),
        (
            {"x": np.ones((2, 1)), "y": np.arange(2), "client": np.array(["NaT", "2020"], "M8[s]")},
            "'client' holds 'NaT' in row 0",
        ),
        ({"x": np.array([[1.0], [-1e39]]), "y": np.arange(2)}, r"column 0 of x holds -1e\+39"),
        ({"x": np.array([[2**53], [2**53 - 1]]), "y": np.arange(2)}, "too close to one another"),
        (
            {"x": np.array([[0], [2**30], [2**30 + 1]]), "y": np.arange(3)},
            "too close to one another",
        ),
        ({"x": np.array([["a"], ["b"]]), "y": np.arange(2)}, "must be numbers"),
    ],
)
def test_what_is_wrong_in_an_npz_file_is_named(tmp_path, arrays, message):
    np.savez(tmp_path / "mine.npz", **arrays)
    with pytest.raises(ValueError, match=message):
        own.read(tmp_path / "mine.npz")


@pytest.mark.parametrize("content", [b"", b"[" * 1000])
def test_a_file_that_is_no_npz_is_named(tmp_path, content):
    (tmp_path / "mine.npz").write_bytes(content)
    with pytest.raises(ValueError, match=r"mine\.npz: it cannot be read as npz"):
        own.read(tmp_path / "mine.npz")


def test_files_that_are_not_there_or_of_another_kind(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"nothing.csv': there is no such file"):
        own.read(tmp_path / "nothing.csv")
    with pytest.raises(ValueError, match=r"must end in .csv, .csv.gz, .tsv, .tsv.gz or .npz"):
        own.read(tmp_path / "mine.xlsx")


def test_the_example_is_the_same_every_time_and_stays_where_it_lies(tmp_path):
    file = own.write_example(tmp_path / "deep" / "example.csv")
    first = file.stat().st_mtime_ns
    table = own.read(file, client="machine")
    assert set(table.labels) == set(own.EXAMPLE_LABELS) and len(table.clients) == 6
    assert own.write_example(file).stat().st_mtime_ns == first
    other = own.write_example(tmp_path / "other.csv")
    assert own.read(other, client="machine").digest == table.digest
    # machines take turns, and none stays in one state
    assert table.client[:12].tolist() == [*range(6)] * 2
    assert all(len(set(table.y[table.client == m])) >= 3 for m in range(6))
    assert file.stat().st_size < 200_000


@pytest.mark.parametrize("end", [".csv.gz", ".tsv", ".tsv.gz"])
def test_tabs_and_gzip(tmp_path, end):
    text = CSV.replace(",", "\t") if ".tsv" in end else CSV
    file = tmp_path / f"mine{end}"
    file.write_bytes(gzip.compress(text.encode()) if end.endswith(".gz") else text.encode())
    table = own.read(file, client="who")
    assert table.features == ("a", "b") and table.labels == ("no", "yes")
    np.testing.assert_array_equal(table.x, np.array([[1, 0.5], [2, -1], [3, 4]], np.float32))


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.csv.gz", b"abc"),
        ("a.csv.gz", gzip.compress(b"a,label\n", mtime=0)[:-9]),
        ("a.csv", b"\xfc,label"),
    ],
)
def test_bytes_that_are_no_text_are_named(tmp_path, name, content):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ValueError, match=f"{name}: it is no CSV file in UTF-8"):
        own.read(tmp_path / name)


def test_large_numbers_that_float32_tells_apart_are_read(tmp_path):
    # a year of days in seconds, and a pressure in Pa
    rows = [f"{1_700_000_000 + 86_400 * k},{101_325 + k % 7},{'ab'[k % 2]}" for k in range(365)]
    table = own.read(write(tmp_path, "\n".join(["t,p,label", *rows])))
    assert len(np.unique(table.x[:, 0])) == 365 and len(np.unique(table.x[:, 1])) == 7
    blank = own.read(write(tmp_path, "\ufeffa,label\n\n1,x\n\n2,y\n"))
    assert blank.features == ("a",) and len(blank) == 2
