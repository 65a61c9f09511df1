"""LEAF's json files (Caldas et al. 2018), as its `preprocess.sh` leaves them, or in one folder.

| folder               | left by   | what is done                                   |
|----------------------|-----------|------------------------------------------------|
| train/ and test/     | -t sample | a user lies in both; LEAF's split is kept      |
| train/ and test/     | -t user   | a user lies in one; its samples are split here |
| all_data/, or no one | before -t | a user's samples are split here                |

A fifth of a user that is split here is its test part: random samples, or the last windows of a
text, where windows that reach into the test part are left out as long as enough remain.
"""

from __future__ import annotations

import hashlib
import itertools
import json
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from sflkit.data import catalogue
from sflkit.data.files import DataCorruptError, file_digest
from sflkit.randomness import generator

TEST_SHARE = 0.2  # LEAF's usual split
# (list of x, list of y) of a user -> arrays of equal length, or ValueError or TypeError.
Convert = Callable[[list, list], tuple[np.ndarray, np.ndarray]]


@dataclass(frozen=True, eq=False)
class NaturalClients:
    """Samples of natural clients. The arrays are made read-only, since callers share them.

    Parameters
    ----------
    name : str
    x, y, train, test
        Samples, and the rows of each client to train and to test on; `sflkit.data.natural` has a
        table. `x` may hold rows of nobody: windows that reach from one role into
        the next. A client with one sample has an empty test part.
    clients : tuple of str
        Writers, or roles.
    n_classes : int
    digest : str
        sha256 of the data.
    note : str
        What a reader of results must know.
    """

    name: str
    x: np.ndarray = field(repr=False)
    y: np.ndarray = field(repr=False)
    clients: tuple[str, ...] = field(repr=False)
    train: tuple[np.ndarray, ...] = field(repr=False)
    test: tuple[np.ndarray, ...] = field(repr=False)
    n_classes: int
    digest: str
    note: str = ""

    def __post_init__(self) -> None:
        for array in (self.x, self.y, *self.train, *self.test):
            array.flags.writeable = False


def read(
    name: str, folder: Path, convert: Convert, *, n_classes: int, overlap: int = 0
) -> NaturalClients:
    """Return the users of LEAF's files in a folder as clients.

    Parameters
    ----------
    name : str
        What the data set is called.
    folder : Path
        See `catalogue.leaf_files`.
    convert : callable
        Turns the lists of a user into arrays as soon as they are read, since as lists the data of
        all would fill memory.
    n_classes : int
    overlap : int
        Samples before a test part that share characters with it; 0 where samples are in no order.

    Raises
    ------
    sflkit.data.DataCorruptError
        If a file is no json of that form, a user occurs twice in a part, or one part of a split is
        missing; the message names the file.
    """
    files = catalogue.leaf_files(folder)
    if empty := [part for part, found in files.items() if not found]:
        raise DataCorruptError(
            f"{folder} has json files of LEAF in only one of train and test; {empty[0]} has none"
        )
    parts = [_users(paths, convert) for paths in files.values()]
    names = tuple(dict.fromkeys(user for users in parts for user in users))
    blocks = [[users[name] for users in parts if name in users] for name in names]
    ends = np.cumsum([0] + [len(y) for given in blocks for _, y in given])
    rows = iter([np.arange(a, b) for a, b in itertools.pairwise(ends)])
    train, test = [], []
    for m, given in enumerate(blocks):
        own = [next(rows) for _ in given]
        kept, tested = own if len(own) == 2 else _split(own[0], m, overlap)
        train.append(kept)
        test.append(tested)
    alone = sum(len(given) == 1 for given in blocks) if len(parts) == 2 else 0
    digest = "".join(file_digest(path) for paths in files.values() for path in paths)
    x, y = (np.concatenate([block[k] for given in blocks for block in given]) for k in (0, 1))
    note = (
        f"{alone} users lie in one part of LEAF's split only, and are split here" if alone else ""
    )
    digest = hashlib.sha256(digest.encode()).hexdigest()
    return NaturalClients(name, x, y, names, tuple(train), tuple(test), n_classes, digest, note)


def _split(rows: np.ndarray, user: int, overlap: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the rows of a user to train on, and those to test on."""
    n_test = min(max(1, round(TEST_SHARE * len(rows))), len(rows) - 1)
    gap = min(overlap, len(rows) - n_test - 1)
    if not overlap:
        rows = generator(0, "partition", user).permutation(rows)
    return rows[: len(rows) - n_test - gap], rows[len(rows) - n_test :]


def _users(paths: list[Path], convert: Convert) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Return user -> (x, y) of some files."""
    users: dict[str, tuple[np.ndarray, np.ndarray]] = {}
    for path in paths:
        try:
            content = json.loads(path.read_text(encoding="utf-8"), object_pairs_hook=no_key_twice)
            names = content["users"]
            sizes = content.get("num_samples", [None] * len(names))
            if len(sizes) != len(names):
                raise ValueError(f"num_samples has {len(sizes)} entries, users {len(names)}")
            for user, said in zip(names, sizes, strict=True):
                x, y = convert(content["user_data"][user]["x"], content["user_data"][user]["y"])
                if len(x) != len(y) or not len(x) or user in users:
                    raise ValueError(
                        f"user {user!r} has {len(x)} samples and {len(y)} labels, or occurs twice; "
                        "equally many, at least one, and one entry per user are needed"
                    )
                if said not in (None, len(x)):
                    raise ValueError(
                        f"num_samples says {said!r} of user {user!r}, whose lists hold {len(x)}"
                    )
                users[user] = x, y
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise DataCorruptError(
                f"{path} is not of LEAF's form, users, num_samples and user_data "
                f"({type(error).__name__}: {error})"
            ) from error
    return users


def no_key_twice(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return a json object; of a key that is there twice Python keeps the last without a word."""
    content = dict(pairs)
    if len(content) < len(pairs):
        counts = Counter(key for key, _ in pairs)
        raise ValueError(f"{counts.most_common(1)[0][0][:80]!r} is there twice")
    return content
