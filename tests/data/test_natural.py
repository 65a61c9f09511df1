"""Natural clients: roles of a text, windows, LEAF's json, and the stand-ins."""

import json
import time

import numpy as np
import pytest

from sflkit import data
from sflkit.data import federations, natural, synthetic

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


def test_no_character_of_a_test_part_is_seen_in_training(tmp_path, monkeypatch):
    # 10 lines of one letter each, the letter naming the line; the last 2 lines are the test part.
    text = (
        "A:\n"
        + "\n".join(letter * 50 for letter in "abcdefghij")
        + "\n\nB:\nxx\nyyy\n\nC:\none line\n"
    )
    (tmp_path / "tinyshakespeare.txt").write_text(text)
    monkeypatch.setattr(natural, "TEST_STRIDE", 1)
    found = natural.load("shakespeare", root=tmp_path)
    assert found.clients == ("A", "B")
    assert found.note == "tinyshakespeare.txt is not the canonical file"
    letters = np.array(list(natural.SYMBOLS))
    for ids, allowed, n in (
        (found.train[0], "abcdefgh\n", 8 * 51 - 1 - 80),
        (found.test[0], "ij\n", 2 * 51 - 1 - 80),
        (found.train[1], "x", 1),
        (found.test[1], "y", 1),
    ):
        assert len(ids) == n
        assert {*letters[found.x[ids]].ravel(), *letters[found.y[ids]]} <= {
            *allowed,
            letters[99],
        }
    assert natural.load("shakespeare", root=tmp_path) is found


@pytest.mark.parametrize("text", ["no roles here\n", "A:\none line\n"])
def test_texts_without_clients(tmp_path, text):
    (tmp_path / "tinyshakespeare.txt").write_text(text)
    with pytest.raises(data.DataCorruptError, match=r"tinyshakespeare\.txt"):
        natural.load("shakespeare", root=tmp_path)


def leaf(folder, users, name="all_data_0.json"):
    folder.mkdir(exist_ok=True, parents=True)
    (folder / name).write_text(
        json.dumps(
            {
                "users": list(users),
                "num_samples": [len(u["y"]) for u in users.values()],
                "user_data": users,
            }
        )
    )


def pixels(value, n):
    return {"x": [[value] * 784] * n, "y": list(range(n))}


def test_femnist_from_leaf(tmp_path):
    leaf(tmp_path / "femnist", {"f01": pixels(0.25, 10)})
    leaf(tmp_path / "femnist", {"f02": pixels(1.0, 2), "f03": pixels(0.5, 1)}, "all_data_1.json")
    found = natural.load("femnist", root=tmp_path)
    assert found.clients == ("f01", "f02", "f03") and found.n_classes == 62
    assert found.x.shape == (13, 1, 28, 28)
    assert found.x.dtype == np.float32
    assert found.y.dtype == np.int64
    # A fifth is for tests, and at least one sample where there are two.
    assert [len(ids) for ids in found.train] == [8, 1, 1]
    assert [len(ids) for ids in found.test] == [
        2,
        1,
        0,
    ]
    for m, value in enumerate((0.25, 1.0, 0.5)):
        assert (found.x[np.concatenate([found.train[m], found.test[m]])] == value).all()
    assert sorted(np.concatenate([*found.train, *found.test])) == list(range(13))
    assert natural.load("femnist", root=tmp_path) is found
    leaf(tmp_path / "femnist", {"f04": pixels(0.5, 3)}, "all_data_2.json")
    assert len(natural.load("femnist", root=tmp_path).clients) == 4


def test_leafs_split_by_sample_is_kept(tmp_path):
    """`preprocess.sh -t sample`: every user in train and in test."""
    leaf(tmp_path / "femnist" / "train", {"a": pixels(0.25, 3), "b": pixels(0.5, 9)})
    leaf(tmp_path / "femnist" / "test", {"b": pixels(0.75, 2), "a": pixels(1.0, 1)})
    leaf(tmp_path / "femnist" / "all_data", {"z": pixels(0.0, 9)})  # left behind by an earlier step
    found = natural.load("femnist", root=tmp_path)
    assert found.clients == ("a", "b") and found.note == ""
    for m, (trained, tested) in enumerate((((0.25, 3), (1.0, 1)), ((0.5, 9), (0.75, 2)))):
        for ids, (value, n) in ((found.train[m], trained), (found.test[m], tested)):
            assert (found.x[ids] == value).all() and found.y[ids].tolist() == list(range(n))
    assert data.available(root=tmp_path)["femnist"] == str(tmp_path / "femnist")


def test_leafs_split_by_user_is_split_here(tmp_path):
    """`preprocess.sh -t user`: a user in train or in test; LEAF's own folder data/."""
    leaf(tmp_path / "femnist" / "data" / "train", {"a": pixels(0.25, 10), "b": pixels(0.5, 10)})
    leaf(tmp_path / "femnist" / "data" / "test", {"c": pixels(0.75, 10)})
    found = natural.load("femnist", root=tmp_path)
    assert found.clients == ("a", "b", "c") and found.note.startswith("3 users lie in one part")
    assert [len(ids) for ids in (*found.train, *found.test)] == [8] * 3 + [2] * 3
    # the same split as that of all data together
    leaf(tmp_path / "1" / "femnist" / "all_data", {"a": pixels(0.25, 10), "b": pixels(0.5, 10)})
    leaf(tmp_path / "1" / "femnist" / "all_data", {"c": pixels(0.75, 10)}, "all_data_1.json")
    same = natural.load("femnist", root=tmp_path / "1")
    assert same.note == ""
    for a, b in zip((*found.train, *found.test), (*same.train, *same.test), strict=True):
        np.testing.assert_array_equal(a, b)


def test_half_a_split_and_wrong_sizes_are_named(tmp_path):
    leaf(tmp_path / "femnist" / "test", {"a": pixels(0.25, 3)})
    with pytest.raises(data.DataCorruptError, match="only one of train and test; train has none"):
        natural.load("femnist", root=tmp_path)
    for said, user, message in (
        ([4], "a", "num_samples says 4 of user 'a', whose lists hold 3"),
        ([], "a", "num_samples has 0 entries, users 1"),
        ([3], "b", "user_data has no user 'b'"),
    ):
        content = {"users": [user], "num_samples": said, "user_data": {"a": pixels(0.25, 3)}}
        (tmp_path / "femnist" / "all.json").write_text(json.dumps(content))
        (tmp_path / "femnist" / "test" / "all_data_0.json").unlink(missing_ok=True)
        with pytest.raises(data.DataCorruptError, match=rf"all\.json .*{message}"):
            natural.load("femnist", root=tmp_path)


def test_shakespeare_from_leaf(tmp_path):
    text = "the quality of mercy is not strained " * 10
    windows = [text[i : i + 80] for i in range(200)]
    leaf(
        tmp_path / "shakespeare",
        {"PORTIA": {"x": windows, "y": [text[i + 80] for i in range(200)]}},
    )
    found = natural.load("shakespeare", root=tmp_path)
    letters = np.array(list(natural.SYMBOLS))
    assert "".join(letters[found.x[7]]) == windows[7]
    assert letters[found.y[7]] == text[87]
    assert found.n_classes == 100
    # The last 40 windows are for tests; the 80 before share characters with them and are left out.
    assert found.train[0].tolist() == list(range(80))
    assert found.test[0].tolist() == list(range(160, 200))


@pytest.mark.parametrize(
    ("name", "users", "message"),
    [
        (
            "femnist",
            {"u": {"x": [[0.0] * 783], "y": [0]}},
            "all_data.json is not of LEAF's form, .*reshape",
        ),
        ("femnist", {"u": {"x": [[2.0] * 784], "y": [0]}}, r"784 numbers in \[0, 1\]"),
        ("femnist", {"u": {"x": [[0.0] * 784], "y": [62]}}, r"label in \[0, 61\]"),
        ("femnist", {"u": {"x": [[0.0] * 784], "y": [0.5]}}, r"label in \[0, 61\]"),
        ("femnist", {"u": {"x": [[0.0] * 784], "y": []}}, "user 'u' has 1 samples and 0 labels"),
        ("femnist", {"u": {"x": [], "y": []}}, "user 'u' has 0 samples"),
        ("femnist", {"u": {"x": [[0.0] * 784]}}, "KeyError: 'y'"),
        ("femnist", {"u": 3}, "TypeError"),
        (
            "shakespeare",
            {"u": {"x": ["short"], "y": ["a"]}},
            "80 characters and one label character",
        ),
        ("shakespeare", {"u": {"x": ["a" * 80], "y": ["ab"]}}, "one label character"),
    ],
)
def test_leaf_of_another_form(tmp_path, name, users, message):
    folder = tmp_path / name
    folder.mkdir()
    (folder / "all_data.json").write_text(json.dumps({"users": list(users), "user_data": users}))
    with pytest.raises(data.DataCorruptError, match=message):
        natural.load(name, root=tmp_path)


def test_broken_json_and_users_twice(tmp_path):
    leaf(tmp_path / "femnist", {"a": pixels(0.1, 2)})
    leaf(tmp_path / "femnist", {"a": pixels(0.1, 2)}, "b.json")
    with pytest.raises(data.DataCorruptError, match=r"b.json .* user 'a' .* twice"):
        natural.load("femnist", root=tmp_path)
    (tmp_path / "femnist" / "b.json").write_text('{"users": [')
    with pytest.raises(data.DataCorruptError, match=r"b.json is not of LEAF"):
        natural.load("femnist", root=tmp_path)


def test_writers_of_mnist_redraw_a_file_of_mnist(tmp_path):
    rng = np.random.default_rng(0)
    parts = {"train": 400, "test": 200}
    arrays = {f"x_{k}": rng.integers(0, 256, (n, 28, 28), dtype=np.uint8) for k, n in parts.items()}
    arrays |= {f"y_{k}": np.arange(n) % 10 for k, n in parts.items()}
    np.savez(tmp_path / "mnist.npz", **arrays)
    found = natural.load("mnist-writers", root=tmp_path, download=False)
    sizes = np.array([len(a) + len(b) for a, b in zip(found.train, found.test, strict=True)])
    assert len(found.clients) == 300 and sizes.min() >= 50 and sizes.max() <= 150
    # a fifth of a writer is its test part, whose labels come from MNIST's own test part
    assert all(len(b) == s // 5 for b, s in zip(found.test, sizes, strict=True))
    assert found.note.startswith("synthetic stand-in for FEMNIST")
    with pytest.raises(data.DataUnavailableError, match=r"mnist\.npz"):
        natural.load("mnist-writers", root=tmp_path / "empty", download=False)


def test_writers_are_the_same_everywhere():
    digits = data.load("digits")  # so that the import of scikit-learn is not timed
    start = time.process_time()
    x, y, train, test = synthetic.writers(digits)
    assert time.process_time() - start < 2
    found = natural.load("writers")
    assert found.digest == "467872a6802fb3a6091063f1a201c38dc1f71d8b406e9b79ab565c73cb079cda"
    assert x.shape == (2351, 28, 28)
    assert x.dtype == np.uint8
    assert found.x.shape == (2351, 1, 28, 28)
    assert found.n_classes == 10
    assert sum(map(len, train)) == 1904
    assert sum(map(len, test)) == 447
    assert len(train) == len(test) == 60
    assert all(20 <= len(a) + len(b) <= 60 for a, b in zip(train, test, strict=True))
    assert sorted(np.concatenate([*train, *test])) == list(range(2351))
    assert np.bincount(x.ravel()).argmax() == 255 and x.mean() > 128  # the background is white
    np.testing.assert_allclose(found.x[5, 0], x[5] / 255, rtol=1e-6)
    np.testing.assert_array_equal(found.y, y)


def test_plays_are_the_same_everywhere_and_roles_differ():
    start = time.process_time()
    text = synthetic.plays()
    assert time.process_time() - start < 2
    found = natural.load("plays")
    assert found.digest == "1f971d5c51bd7c7a917630ecd2943158171af7f8fb1beaf7b43a42b931a44843"
    roles = natural.parse_roles(text)
    assert len(roles) == 36 and found.clients == tuple(roles) and min(map(len, roles.values())) >= 4
    assert (
        max(map(len, roles.values())) > 5 * np.median([len(lines) for lines in roles.values()]) / 2
    )
    assert not set(text) - set(natural.SYMBOLS[:-1])
    # Every role prefers an ending: the commonest last character is likelier at the same role than
    # in the whole text.
    ends = [[line[-5:] for line in lines] for lines in roles.values() if len(lines) >= 20]
    own = np.mean([max(map(part.count, set(part))) / len(part) for part in ends])
    pooled = [end for part in ends for end in part]
    assert own > 1.3 * max(map(pooled.count, set(pooled))) / len(pooled)


def test_plays_by_role(tmp_path, monkeypatch):
    two = {
        "b/ANN": ["One line,", "and\n\nmore."],
        "a/ANN": ["x" * 120 + "\nend"],
        "a/BO": ["One."],
    }
    found = []
    for k, names in enumerate((list(two), sorted(two))):  # the order of the file says nothing
        (tmp_path / str(k)).mkdir()
        content = json.dumps({name: two[name] for name in names})
        (tmp_path / str(k) / "plays.json").write_text(content)
        found.append(natural.load("shakespeare-plays", root=tmp_path / str(k)))
    first, second = found
    assert first.clients == second.clients == ("a/ANN", "b/ANN")  # BO has one line
    assert first.digest == second.digest and "2 roles of 2 plays" in first.note
    np.testing.assert_array_equal(first.y, second.y)
    # a/ANN trains on 120 characters: 40 windows; its last line is its test part
    assert [len(rows) for rows in first.train] == [40, 1]
    monkeypatch.setenv("SFLKIT_DATA", str(tmp_path / "0"))
    static = federations.static("shakespeare-plays", n_clients=None, seed=0, min_samples=40)
    assert static.n_clients == 1


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("[]", "must be an object of roles"),
        ('{"ANN": ["a"]}', "'ANN' must be a play, a slash and a role"),
        ('{"a/ANN": "text"}', "'a/ANN' must have a list of speeches"),
        ('{"a/ANN": ["a"], "a/ANN": ["b"]}', "'a/ANN' is there twice"),
        ('{"a/ANN": ["a"]}', "no role with at least two lines"),
        ("[" * 100_000, "is no json of plays"),
    ],
)
def test_plays_of_another_form(tmp_path, content, message):
    (tmp_path / "plays.json").write_text(content)
    with pytest.raises(data.DataCorruptError, match=message):
        natural.load("shakespeare-plays", root=tmp_path)


def test_a_user_twice_in_one_file_is_refused(tmp_path):
    (tmp_path / "femnist").mkdir()
    one = json.dumps(pixels(0.1, 2))
    text = f'{{"users": ["a"], "user_data": {{"a": {one}, "a": {one}}}}}'
    (tmp_path / "femnist" / "all.json").write_text(text)
    with pytest.raises(data.DataCorruptError, match="'a' is there twice"):
        natural.load("femnist", root=tmp_path)
