"""Data sets whose clients exist in nature: writers of characters and speaking roles of plays.

Sources: LEAF (Caldas et al. 2018), FDS (Federated Learning for Data Streams) D.1.3 and D.1.4, FATS
Section 6.1.1. The stand-ins `writers` and `plays` of `sflkit.data.synthetic` go through the same
code.

FEMNIST comes as json files of LEAF's (`sflkit.data.leaf`). Inputs are as LEAF has them: in [0, 1],
where 1 is the white background, without normalisation.

Shakespeare comes as a text, or as the speeches of each role of each play (shakespeare-plays, where
one name in two plays is two roles). A role with at least two lines is a client (FDS, LEAF), and its
lines are joined; FATS takes those with 100 samples (`federations.static`, min_samples=100). A
sample is a window of 80 characters, its label the character that follows (LEAF). A text of at most
80 characters is one window, padded in front. A training window starts at every character, which the
3.4 and 3.7 million samples of FDS and FATS need. Tokens are positions in `SYMBOLS`, whose last one
stands for padding and for characters that it does not have.

A fifth of a client is its test part: random samples of a writer, the last lines of a role. No
window lies in both parts. Only a split that LEAF's own files make is kept as it is.

| code        | symbol | shape      | meaning                                             |
|-------------|--------|------------|-----------------------------------------------------|
| x           | x      | (n, ...)   | float32 (n, 1, 28, 28), or int64 tokens (n, 80)     |
| y           | y      | (n,)       | int64 class, or the next character's token          |
| train, test |        | M x (n_m,) | rows of x of every client, in their natural order   |
"""

from __future__ import annotations

import functools
import hashlib
import json
import re
import string
from pathlib import Path
from typing import Any

import numpy as np

from sflkit import checks
from sflkit.data import catalogue, datasets, files, leaf, synthetic
from sflkit.data.arrays import Dataset
from sflkit.data.files import DataCorruptError
from sflkit.data.leaf import NaturalClients

NAMES = ("writers", "mnist-writers", "femnist", "plays", "shakespeare", "shakespeare-plays")
LENGTH = 80  # characters of a window; FDS D.1.4, FATS 6.1.2, LEAF
# Characters from one test window to the next. Neighbouring windows share most of their characters,
# so that more of them make a score slower and hardly more exact.
TEST_STRIDE = 20
# 100 symbols, with which a plain RNN has Table 3's 226,180 parameters (FDS); the last, form feed,
# is in no play.
SYMBOLS = string.printable
_PLACES = {symbol: i for i, symbol in enumerate(SYMBOLS)}


def load(name: str, *, download: bool = True) -> NaturalClients:
    """Return a data set with natural clients; repeated calls share one copy.

    Parameters
    ----------
    name : str
        "writers" and "plays" are made on the spot, "mnist-writers" is made of MNIST's images, which
        are downloaded if need be, "femnist" is supplied by the user, "shakespeare"
        is downloaded, or LEAF's json supplied by the user, "shakespeare-plays" is supplied by the
        user.
    download : bool
        As `data.load`.

    Raises
    ------
    ValueError
        If an argument is out of range.
    sflkit.data.DataUnavailableError, sflkit.data.DataCorruptError
        As `data.load`.
    """
    checks.choice("name", name, NAMES)
    if name == "writers":
        return _writers(name, datasets.load("digits", download=download))
    if name == "mnist-writers":
        digits = datasets.load("mnist", download=download)
        return _writers(name, digits, n_writers=300, sizes=(50, 150))
    path = datasets.obtain(name, download=download)
    if name == "plays":
        return _speakers(name, None, ())
    parts = catalogue.leaf_files(path) if path.is_dir() else {"": [path]}
    # Their times and sizes are an argument so that the caches do not hold on to what was replaced.
    state = tuple(files.state(file) for part in parts.values() for file in part)
    return (_leaf if path.is_dir() else _speakers)(name, path, state)


def parse_roles(text: str) -> dict[str, list[str]]:
    """Return the lines of every speaking role, in order of first appearance.

    A speech is a line `ROLE:`, at the start of the text or after a blank line, and the lines that
    follow. Blank lines are dropped. The same role name in two plays is one role, since the text
    does not mark where a play ends.

    Raises
    ------
    ValueError
        If the text does not start with a role.
    """
    start, *speeches = re.split(r"(?:\A|\n[ \t]*\n)\s*([^\n:]+):[ \t]*(?:\n|\Z)", text)
    if start.strip() or not speeches:
        raise ValueError(
            f"the text starts with {start.strip()[:40]!r}; "
            "it must start with a line such as 'HAMLET:'"
        )
    roles: dict[str, list[str]] = {}
    for role, speech in zip(speeches[::2], speeches[1::2], strict=True):
        roles.setdefault(role, []).extend(_lines(speech))
    return roles


def read_plays(path: Path) -> dict[str, list[str]]:
    """Return the lines of every role of a file of plays, in the order of the roles' names.

    The file is a json object: "play/ROLE" -> list of speeches, whose lines newlines separate. Blank
    lines are dropped.

    Raises
    ------
    sflkit.data.DataCorruptError
        If the file is not of that form, or names a role twice.
    """
    try:
        content = json.loads(path.read_text(encoding="utf-8"), object_pairs_hook=leaf.no_key_twice)
        if not isinstance(content, dict) or not content:
            raise ValueError("it must be an object of roles")
        for role, speeches in content.items():
            texts = isinstance(speeches, list) and all(isinstance(s, str) for s in speeches)
            if "/" not in role or not texts:
                raise ValueError(f"{role[:80]!r} must be play/ROLE, with a list of speeches")
    except (OSError, ValueError, RecursionError) as error:
        raise DataCorruptError(f"{path} is no json of plays ({error})") from error
    return {role: _lines("\n".join(content[role])) for role in sorted(content)}


def _lines(speech: str) -> list[str]:
    return [line.strip() for line in speech.split("\n") if line.strip()]


def encode(text: str) -> np.ndarray:
    """Return the positions of the characters in `SYMBOLS`, int64 (len(text),).

    A character that it does not have gets its last position.
    """
    last = len(SYMBOLS) - 1
    return np.fromiter((_PLACES.get(symbol, last) for symbol in text), np.int64, len(text))


def windows(
    parts: list[list[str]], strides: list[int]
) -> tuple[np.ndarray, np.ndarray, list[np.ndarray]]:
    """Cut texts into windows of 80 characters and the character that follows.

    Parameters
    ----------
    parts : list of lists of str
        The lines of each text; at least one character in all.
    strides : list of int
        For each text the number of characters from one window to the next.

    Returns
    -------
    x : int64 (n, 80)
        All windows of the joined texts: a read-only view that repeats one row of characters, so
        that stride 1 takes no more memory than the text.
    y : int64 (n,)
    rows : list of int64 arrays
        The windows of every text.
    """
    blocks = []
    rows = []
    start = 0
    for lines, stride in zip(parts, strides, strict=True):
        tokens = encode("\n".join(lines))
        padding = (max(LENGTH + 1 - len(tokens), 0), 0)
        blocks.append(np.pad(tokens, padding, constant_values=len(SYMBOLS) - 1))
        rows.append(np.arange(start, start + len(blocks[-1]) - LENGTH, stride))
        start += len(blocks[-1])
    tokens = np.concatenate(blocks)
    return np.lib.stride_tricks.sliding_window_view(tokens, LENGTH)[:-1], tokens[LENGTH:], rows


def _characters(x: list, y: list) -> tuple[np.ndarray, np.ndarray]:
    """Return images and labels of one writer of FEMNIST."""
    pictures = np.asarray(x, np.float32).reshape(-1, 1, 28, 28)
    labels = np.asarray(y)
    if not ((pictures >= 0) & (pictures <= 1)).all() or (
        labels.size and (labels.dtype.kind != "i" or labels.min() < 0 or labels.max() > 61)
    ):
        raise ValueError("784 numbers in [0, 1] and one label in [0, 61] per sample are needed")
    return pictures, labels.astype(np.int64)


def _strings(x: list, y: list) -> tuple[np.ndarray, np.ndarray]:
    """Return windows and labels of one role of LEAF's Shakespeare."""
    if {len(text) for text in x} - {LENGTH} or {len(text) for text in y} - {1}:
        raise ValueError(f"{LENGTH} characters and one label character per sample are needed")
    return encode("".join(x)).reshape(-1, LENGTH), encode("".join(y))


@functools.lru_cache(maxsize=2)
def _speakers(name: str, path: Path | None, state: tuple) -> NaturalClients:
    """Return the roles of plays with at least two lines (LEAF's rule, FDS D.1.4) as clients.

    The last fifth of a role's lines is its test part. Where `path` is None the text is a made one.
    """
    found, digest = _roles(name, path)
    roles = {role: lines for role, lines in found.items() if len(lines) >= 2}
    if not roles:
        raise DataCorruptError(f"{path} holds no role with at least two lines")
    if path is None:
        note = catalogue.about("plays")
    elif name == "shakespeare-plays":
        n_plays = len({role.partition("/")[0] for role in roles})
        n_characters = sum(len("\n".join(lines)) for lines in roles.values())
        note = f"{len(roles):,} roles of {n_plays} plays, {n_characters:,} characters, of another "
        note += "edition than the 916 roles of LEAF's text (FDS, Table 1)"
    elif digest == catalogue.SHAKESPEARE:
        note = f"{len(roles)} roles of tinyshakespeare, not the 916 of LEAF's whole text (FDS, "
        note += "Table 1)"
    else:
        note = f"{path.name} is not the canonical file"
    parts = []
    for lines in roles.values():
        n_test = max(1, round(leaf.TEST_SHARE * len(lines)))
        parts += [lines[:-n_test], lines[-n_test:]]
    x, y, rows = windows(parts, [1, TEST_STRIDE] * len(roles))
    train, test = tuple(rows[::2]), tuple(rows[1::2])
    return NaturalClients(name, x, y, tuple(roles), train, test, len(SYMBOLS), digest, note)


def _roles(name: str, path: Path | None) -> tuple[dict[str, list[str]], str]:
    """Return the lines of every role, and the sha256 of a text or of what a file of plays holds."""
    if name == "shakespeare-plays":
        found = read_plays(path)
        return found, hashlib.sha256(json.dumps(found, sort_keys=True).encode()).hexdigest()
    if path is None:
        text = synthetic.plays()
        return parse_roles(text), hashlib.sha256(text.encode()).hexdigest()
    try:
        return parse_roles(path.read_text(encoding="utf-8")), files.file_digest(path)
    except ValueError as error:
        raise DataCorruptError(f"{path}: {error}") from error


@functools.lru_cache(maxsize=1)
def _leaf(name: str, path: Path, state: tuple) -> NaturalClients:
    """Return the users of LEAF's json files in the folder `path`."""
    if name == "shakespeare":
        return leaf.read(name, path, _strings, n_classes=len(SYMBOLS), overlap=LENGTH)
    return leaf.read(name, path, _characters, n_classes=62)


@functools.cache
def _writers(name: str, digits: Dataset, **sizes: Any) -> NaturalClients:
    """Return a stand-in for FEMNIST; `sizes` are those of `synthetic.writers`."""
    pixels, y, train, test = synthetic.writers(digits, **sizes)
    x = (pixels[:, None] / 255).astype(np.float32)
    clients = tuple(f"writer {m}" for m in range(len(train)))
    digest = hashlib.sha256(pixels.tobytes() + y.tobytes()).hexdigest()
    return NaturalClients(name, x, y, clients, train, test, 10, digest, catalogue.about(name))
