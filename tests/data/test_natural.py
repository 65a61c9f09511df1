"""Natural clients: roles of a text, windows, LEAF's json, and the stand-ins."""

import json

import numpy as np
import pytest

from sflkit import data
from sflkit.data import federations, natural, synthetic
from tests.data.conftest import leaf, put, small

PLAY = """First Citizen:
Speak.
Speak, speak.

ALL:
Resolved.

First Citizen:
First: you know
him:

SECOND:
"""


def test_roles_by_hand():
    # Lines with a colon inside a speech are no roles: a role stands at the start or after a blank
    # line.
    assert natural.parse_roles(PLAY) == {
        "First Citizen": ["Speak.", "Speak, speak.", "First: you know", "him:"],
        "ALL": ["Resolved."],
        "SECOND": [],
    }
    assert natural.parse_roles("\n\nA:\r\n x \n\n\n\nB:".replace("\r", "")) == {"A": ["x"], "B": []}
    for text in ("Speak.\n", "", "A, B\nC:\nx\n"):
        with pytest.raises(ValueError, match="must start with a line such as"):
            natural.parse_roles(text)


def test_tokens():
    # string.printable starts with 0-9, a-z, A-Z: 'b' is 11, 'B' is 37; what is unknown is the last
    # symbol.
    assert natural.encode("0bB\u00e9").tolist() == [0, 11, 37, 99]
    assert len(set(natural.SYMBOLS)) == 100


def test_windows_by_hand():
    # 84 characters: windows start at 0..3, labels are characters 80..83 = 2, 0, 1, 2.
    long = "012" * 28
    x, y, (first, second, third) = natural.windows([["01", "2"], [long], [long]], [1, 1, 2])
    assert x.dtype == np.int64 and x.shape[1] == 80
    # "01\n2" is 77 times padding, 0, 1, the line break (symbol 96), and the label 2.
    assert first.tolist() == [0] and x[0].tolist() == [99] * 77 + [0, 1, 96] and y[0] == 2
    assert y[second].tolist() == [2, 0, 1, 2] and x[second[1]].tolist() == [1, 2, 0] * 26 + [1, 2]
    assert y[third].tolist() == [2, 1] and np.diff(third).tolist() == [2]
    assert len(x) == len(y) and not set(first) & set(second) & set(third)


def test_no_character_of_a_test_part_is_seen_in_training(folder, monkeypatch):
    # 10 lines of one letter each, the letter naming the line; the last 2 lines are the test part.
    lines = "\n".join(letter * 50 for letter in "abcdefghij")
    text = f"A:\n{lines}\n\nB:\nxx\nyyy\n\nC:\none line\n"
    put(folder, {"tinyshakespeare.txt": text.encode()})
    monkeypatch.setattr(natural, "TEST_STRIDE", 1)
    found = natural.load("shakespeare")
    assert found.clients == ("A", "B")
    assert found.note == "tinyshakespeare.txt is not the canonical file"
    letters = np.array(list(natural.SYMBOLS))
    for ids, allowed, n in (
        (found.train[0], "abcdefgh\n", 8 * 51 - 1 - 80),
        (found.test[0], "ij\n", 2 * 51 - 1 - 80),
        (found.train[1], "x", 1),
        (found.test[1], "y", 1),
    ):
        seen = {*letters[found.x[ids]].ravel(), *letters[found.y[ids]]}
        assert len(ids) == n and seen <= {*allowed, letters[99]}
    assert natural.load("shakespeare") is found


@pytest.mark.parametrize("text", [b"no roles here\n", b"A:\none line\n", b"A:\n\xff\nb\n"])
def test_texts_without_clients(folder, text):
    put(folder, {"tinyshakespeare.txt": text})
    with pytest.raises(data.DataCorruptError, match=r"tinyshakespeare\.txt"):
        natural.load("shakespeare")


def pixels(value, n):
    return {"x": [[value] * 784] * n, "y": list(range(n))}


def test_femnist_from_leaf(folder):
    leaf(folder / "femnist", {"f01": pixels(0.25, 10)})
    leaf(folder / "femnist", {"f02": pixels(1.0, 2), "f03": pixels(0.5, 1)}, "all_data_1.json")
    found = natural.load("femnist")
    assert found.clients == ("f01", "f02", "f03") and found.n_classes == 62
    assert found.x.shape == (13, 1, 28, 28)
    assert found.x.dtype == np.float32 and found.y.dtype == np.int64
    # A fifth is for tests, and at least one sample where there are two.
    assert [len(ids) for ids in (*found.train, *found.test)] == [8, 1, 1, 2, 1, 0]
    for m, value in enumerate((0.25, 1.0, 0.5)):
        assert (found.x[np.concatenate([found.train[m], found.test[m]])] == value).all()
    assert sorted(np.concatenate([*found.train, *found.test])) == list(range(13))
    assert natural.load("femnist") is found
    leaf(folder / "femnist", {"f04": pixels(0.5, 3)}, "all_data_2.json")
    assert len(natural.load("femnist").clients) == 4


def test_leafs_split_by_sample_is_kept(folder):
    """`preprocess.sh -t sample`: every user in train and in test."""
    leaf(folder / "femnist" / "train", {"a": pixels(0.25, 3), "b": pixels(0.5, 9)})
    leaf(folder / "femnist" / "test", {"b": pixels(0.75, 2), "a": pixels(1.0, 1)})
    leaf(folder / "femnist" / "all_data", {"z": pixels(0.0, 9)})  # left behind by an earlier step
    found = natural.load("femnist")
    assert found.clients == ("a", "b") and found.note == ""
    for m, (trained, tested) in enumerate((((0.25, 3), (1.0, 1)), ((0.5, 9), (0.75, 2)))):
        for ids, (value, n) in ((found.train[m], trained), (found.test[m], tested)):
            assert (found.x[ids] == value).all() and found.y[ids].tolist() == list(range(n))
    assert data.available()["femnist"] == str(folder / "femnist")


def test_leafs_split_by_user_is_split_here(folder, monkeypatch):
    """`preprocess.sh -t user`: a user in train or in test; LEAF's own folder data/."""
    leaf(folder / "femnist" / "data" / "train", {"a": pixels(0.25, 10), "b": pixels(0.5, 10)})
    leaf(folder / "femnist" / "data" / "test", {"c": pixels(0.75, 10)})
    found = natural.load("femnist")
    assert found.clients == ("a", "b", "c") and found.note.startswith("3 users lie in one part")
    assert [len(ids) for ids in (*found.train, *found.test)] == [8] * 3 + [2] * 3
    # the same split as that of all data together
    leaf(folder / "1" / "femnist" / "all_data", {"a": pixels(0.25, 10), "b": pixels(0.5, 10)})
    leaf(folder / "1" / "femnist" / "all_data", {"c": pixels(0.75, 10)}, "all_data_1.json")
    monkeypatch.setenv("SFLKIT_DATA", str(folder / "1"))
    same = natural.load("femnist")
    assert same.note == ""
    for a, b in zip((*found.train, *found.test), (*same.train, *same.test), strict=True):
        np.testing.assert_array_equal(a, b)


def test_half_a_split_is_named(folder):
    leaf(folder / "femnist" / "test", {"a": pixels(0.25, 3)})
    with pytest.raises(data.DataCorruptError, match="only one of train and test; train has none"):
        natural.load("femnist")


def test_shakespeare_from_leaf(folder):
    text = "the quality of mercy is not strained " * 10
    windows = [text[i : i + 80] for i in range(200)]
    user = {"x": windows, "y": [text[i + 80] for i in range(200)]}
    leaf(folder / "shakespeare", {"PORTIA": user})
    found = natural.load("shakespeare")
    letters = np.array(list(natural.SYMBOLS))
    assert "".join(letters[found.x[7]]) == windows[7] and letters[found.y[7]] == text[87]
    assert found.n_classes == 100
    # The last 40 windows are for tests; the 80 before share characters with them and are left out.
    assert found.train[0].tolist() == list(range(80))
    assert found.test[0].tolist() == list(range(160, 200))


ONE = '{"x": [' + str([0.0] * 784) + '], "y": [0]}'


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("femnist", {"u": {"x": [[0.0] * 783], "y": [0]}}, "all.json is not of LEAF's.*reshape"),
        ("femnist", {"u": {"x": [[2.0] * 784], "y": [0]}}, r"784 numbers in \[0, 1\]"),
        ("femnist", {"u": {"x": [[0.0] * 784], "y": [62]}}, r"label in \[0, 61\]"),
        ("femnist", {"u": {"x": [[0.0] * 784], "y": [0.5]}}, r"label in \[0, 61\]"),
        ("femnist", {"u": {"x": [[0.0] * 784], "y": []}}, "user 'u' has 1 samples and 0 labels"),
        ("femnist", {"u": {"x": [], "y": []}}, "user 'u' has 0 samples"),
        ("femnist", {"u": {"x": [[0.0] * 784]}}, "KeyError: 'y'"),
        ("femnist", {"u": 3}, "TypeError"),
        ("femnist", '{"users": [', "is not of LEAF"),
        ("femnist", f'{{"users": ["a"], "user_data": {{"a": {ONE}, "a": {ONE}}}}}', "there twice"),
        ("femnist", f'{{"users": ["a", "a"], "user_data": {{"a": {ONE}}}}}', "'a' .* twice"),
        ("femnist", f'{{"users": ["b"], "user_data": {{"a": {ONE}}}}}', "KeyError: 'b'"),
        (
            "femnist",
            f'{{"users": ["a"], "num_samples": [4], "user_data": {{"a": {ONE}}}}}',
            "num_samples says 4 of user 'a', whose lists hold 1",
        ),
        (
            "femnist",
            f'{{"users": ["a"], "num_samples": [], "user_data": {{"a": {ONE}}}}}',
            "num_samples has 0 entries, users 1",
        ),
        ("shakespeare", {"u": {"x": ["short"], "y": ["a"]}}, "80 characters and one label char"),
        ("shakespeare", {"u": {"x": ["a" * 80], "y": ["ab"]}}, "one label character"),
    ],
)
def test_leaf_of_another_form(folder, name, content, message):
    if isinstance(content, dict):
        content = json.dumps({"users": list(content), "user_data": content})
    put(folder / name, {"all.json": content.encode()})
    with pytest.raises(data.DataCorruptError, match=message):
        natural.load(name)


def test_writers_of_mnist_redraw_a_file_of_mnist(folder):
    np.savez(folder / "mnist.npz", **small(400, 200))
    found = natural.load("mnist-writers", download=False)
    sizes = np.array([len(a) + len(b) for a, b in zip(found.train, found.test, strict=True)])
    assert len(found.clients) == 300 and sizes.min() >= 50 and sizes.max() <= 150
    # a fifth of a writer is its test part, whose labels come from MNIST's own test part
    assert all(len(b) == s // 5 for b, s in zip(found.test, sizes, strict=True))
    assert found.note.startswith("synthetic stand-in for FEMNIST")
    (folder / "mnist.npz").unlink()
    with pytest.raises(data.DataUnavailableError, match=r"mnist\.npz"):
        natural.load("mnist-writers", download=False)


def test_writers_are_the_same_everywhere():
    x, y, train, test = synthetic.writers(data.load("digits"))
    found = natural.load("writers")
    assert found.digest == "467872a6802fb3a6091063f1a201c38dc1f71d8b406e9b79ab565c73cb079cda"
    assert found.x.shape == (2351, 1, 28, 28) and found.n_classes == 10
    assert all(20 <= len(a) + len(b) <= 60 for a, b in zip(train, test, strict=True))
    assert sorted(np.concatenate([*train, *test])) == list(range(2351))
    np.testing.assert_allclose(found.x[5, 0], x[5] / 255, rtol=1e-6)
    np.testing.assert_array_equal(found.y, y)


def test_plays_are_the_same_everywhere():
    found = natural.load("plays")
    assert found.digest == "1f971d5c51bd7c7a917630ecd2943158171af7f8fb1beaf7b43a42b931a44843"
    text = synthetic.plays()
    roles = natural.parse_roles(text)
    assert len(roles) == 36 and found.clients == tuple(roles)
    assert not set(text) - set(natural.SYMBOLS[:-1])  # no character is unknown


def test_plays_by_role(folder):
    two = {
        "b/ANN": ["One line,", "and\n\nmore."],
        "a/ANN": ["x" * 120 + "\nend"],
        "a/BO": ["One."],
    }
    found = []
    for names in (sorted(two), list(two)):  # the order of the file says nothing
        put(folder, {"plays.json": json.dumps({name: two[name] for name in names}).encode()})
        found.append(natural.load("shakespeare-plays"))
    first, second = found
    assert first.clients == second.clients == ("a/ANN", "b/ANN")  # BO has one line
    assert first.digest == second.digest and "2 roles of 2 plays" in first.note
    np.testing.assert_array_equal(first.y, second.y)
    # a/ANN trains on 120 characters: 40 windows; its last line is its test part
    assert [len(rows) for rows in first.train] == [40, 1]
    static = federations.static("shakespeare-plays", n_clients=None, seed=0, min_samples=40)
    assert static.n_clients == 1


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("[]", "must be an object of roles"),
        ('{"ANN": ["a"]}', "'ANN' must be play/ROLE"),
        ('{"a/ANN": "text"}', "'a/ANN' must be play/ROLE, with a list of speeches"),
        ('{"a/ANN": ["a"], "a/ANN": ["b"]}', "'a/ANN' is there twice"),
        ('{"a/ANN": ["a"]}', "no role with at least two lines"),
        ("[" * 100_000, "is no json of plays"),
    ],
)
def test_plays_of_another_form(folder, content, message):
    put(folder, {"plays.json": content.encode()})
    with pytest.raises(data.DataCorruptError, match=message):
        natural.load("shakespeare-plays")
