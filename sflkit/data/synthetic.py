"""Synthetic data with clients: a logistic task, and stand-ins for FEMNIST and Shakespeare.

`logistic` is the task of FDS (Federated Learning for Data Streams), D.1.1. `writers` and `plays`
stand in for data that cannot come with the install. They keep what makes those federations what
they are (the samples of one client share a hand, or a voice; sizes differ widely) and nothing else:
no number measured on them says anything about FEMNIST or Shakespeare. Both are always the same,
byte for byte.

writers: scikit-learn's digits as `data.load("digits")` has them, redrawn by 60 writers, each with a
slant, a width and a height, a shift, a stroke weight and a contrast. A writer takes 20 to 60
digits, all different: training samples from the training part of digits, test samples from its test
part, so that no base image occurs in both. Different writers redraw the same base images (1,904
training samples of 1,442 images, 447 test samples of 355). `natural` makes "mnist-writers" in the
same way: 300 writers redraw 50 to 150 of MNIST's digits each.

plays: 36 roles speak lines of a small phrase grammar over word lists of ours. Every role has
favourite words, its own endings and habits of length; the numbers of lines are heavy-tailed. The
text has the `ROLE:` form that `natural.parse_roles` reads.

| code   | symbol   | shape  | meaning                                                           |
|--------|----------|--------|-------------------------------------------------------------------|
| common | theta_0  | (d,)   | weights that all clients share, N(0, I)                           |
| theta  | theta_m  | (d,)   | weights of a client, N(theta_0, epsilon^2 I)                      |
| x, y   | x_m, y_m | (n, d) | features, uniform on [-1, 1]^d; label 1 with probability          |
|        |          |        | sigmoid(x theta_m)                                                |
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from sflkit.randomness import generator

if TYPE_CHECKING:
    from sflkit.data.arrays import Dataset

# FDS, Table 3: d = 21 parameters, taken as 20 weights and a bias.
LOGISTIC_FEATURES = 20
N_WRITERS = 60
N_ROLES = 36

# The word lists of the phrase grammar.
_FIRST = "Bram Cora Dunstan Elsbeth Fenn Greta Hollis Imre Jory Klara Lorens Maud".split()
_RANK = ("Captain", "Old", "Young")
_OPEN = (
    "And now, I say, Come then, Mark this, Alas, By my faith, Good friend, No more, Hear me, "
    "In truth, Once again, Tell me why, Let it be, Who knows if, When at last, So shall it be "
    "that"
).split(", ")
_ADJ = (
    "pale quiet golden bitter weary proud hollow gentle broken winter idle secret bright "
    "stubborn distant faithful"
).split()
_NOUN = (
    "river lantern king orchard letter brother harbour sword garden crown winter mirror "
    "shepherd tower promise daughter morning shadow market candle"
).split()
_VERB = (
    "remembers forgives follows betrays answers guards carries mourns wakes denies outlives "
    "praises forgets commands"
).split()
_LINK = ("the", "my", "your", "that", "no", "every")
_TAIL = (
    "before the night is done, as all men must, for love of thee, and asks no pay, beyond the "
    "hills, without a word, though none believe it, in the cold rain, if heaven allows, until "
    "the bells are still, and laughs, at my door"
).split(", ")
_END = (".", "!", "?", ";", ", sir.", ", my lord.", ", alas!", " - enough.")


def logistic(
    sizes: Sequence[int], seed: int, purpose: str, epsilon: float
) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Draw the data of the logistic task for every client (FDS, D.1.1).

    Every client has its own generator. It is keyed by `purpose` for the samples, but not for the
    true weights, which training and test samples share. A larger client therefore begins with the
    samples of a smaller one, and more clients change nothing for the others.

    Parameters
    ----------
    sizes : sequence of int
        Number of samples of each client.
    seed : int
    purpose : str
        "samples" or "test_set", see `sflkit.randomness`.
    epsilon : float
        Standard deviation of the clients' true weights around the common ones.

    Returns
    -------
    xs : list of float32 arrays (n_m, 20)
    ys : list of int64 arrays (n_m,)
    """
    common = generator(seed, "data").standard_normal(LOGISTIC_FEATURES)
    xs = []
    ys = []
    for m, size in enumerate(sizes):
        theta = common + epsilon * generator(seed, "data", m).standard_normal(LOGISTIC_FEATURES)
        u = generator(seed, purpose, m).random((size, LOGISTIC_FEATURES + 1))
        x = 2 * u[:, :-1] - 1
        xs.append(x.astype(np.float32))
        ys.append((u[:, -1] < 1 / (1 + np.exp(-x @ theta))).astype(np.int64))
    return xs, ys


def writers(
    digits: Dataset, n_writers: int = N_WRITERS, sizes: tuple[int, int] = (20, 60)
) -> tuple[np.ndarray, np.ndarray, tuple[np.ndarray, ...], tuple[np.ndarray, ...]]:
    """Return digits as synthetic writers draw them, each with a slant and a weight of their own.

    Parameters
    ----------
    digits : Dataset
        The images that are redrawn, of 28 x 28 pixels.
    n_writers : int
        Clients M.
    sizes : (int, int)
        The fewest and the most samples of a writer, test part included.

    Returns
    -------
    x : uint8 (n, 28, 28)
        The background is white (255), as in FEMNIST.
    y : int64 (n,)
    train, test : tuples of int64 arrays
        Rows of each writer to train and to test on.
    """
    from scipy.ndimage import affine_transform

    rng = np.random.default_rng(20)
    images = []
    labels = []
    rows: dict[str, list[np.ndarray]] = {"train": [], "test": []}
    start = 0
    for size in rng.integers(sizes[0], sizes[1] + 1, n_writers):
        slant, shift = rng.uniform(-0.45, 0.45), rng.uniform(-2.5, 2.5, 2)
        height, width = rng.uniform(0.75, 1.15, 2)
        weight, contrast = rng.uniform(0.5, 1.8), rng.uniform(0.6, 1.0)
        # Output pixel (i, j) shows the input at the centre + matrix (pixel - centre - shift).
        matrix = np.array([[1 / height, 0.0], [slant / height, 1 / width]])
        offset = 13.5 - matrix @ (13.5 + shift)
        for split, n in (("train", size - size // 5), ("test", size // 5)):
            ids = rng.choice(len(digits.labels(split)), n, replace=False)
            ink = digits.inputs(split, ids)[:, 0].astype(np.float64)
            ink = ink * digits.std[0] + digits.mean[0]
            drawn = np.stack([affine_transform(image, matrix, offset, order=1) for image in ink])
            drawn = contrast * np.clip(drawn, 0, 1) ** weight
            images.append(255 - np.rint(255 * drawn.round(6)).astype(np.uint8))
            labels.append(digits.labels(split, ids))
            rows[split].append(np.arange(start, start + n))
            start += n
    return np.concatenate(images), np.concatenate(labels), tuple(rows["train"]), tuple(rows["test"])


def plays() -> str:
    """Return the text of the synthetic plays.

    Speeches have one to five lines. The roles speak in random order, each until its lines are used
    up.
    """
    rng = np.random.default_rng(21)
    names = [*_FIRST, *(f"{rank} {first}" for rank in _RANK for first in _FIRST)]
    names = [names[i] for i in rng.permutation(len(names))[:N_ROLES]]
    sizes = np.clip(np.rint(np.exp(rng.normal(3.3, 0.9, N_ROLES))), 4, 200)
    lines = [_lines(int(n), rng) for n in sizes]
    used = [0] * N_ROLES
    speeches = []
    while open_roles := [m for m in range(N_ROLES) if used[m] < len(lines[m])]:
        m = open_roles[rng.integers(len(open_roles))]
        speech = lines[m][used[m] : used[m] + int(rng.integers(1, 6))]
        used[m] += len(speech)
        speeches.append("\n".join([f"{names[m].upper()}:", *speech]) + "\n")
    return "\n".join(speeches)


def _lines(n: int, rng: np.random.Generator) -> list[str]:
    """Return `n` lines of one role."""
    opening = _favourites(_OPEN, n, rng)
    ending = _favourites(_END, n, rng)
    tail = _favourites(_TAIL, n, rng)
    adjectives = _favourites(_ADJ, 2 * n, rng)
    nouns = _favourites(_NOUN, 2 * n, rng)
    links = _favourites(_LINK, 2 * n, rng)
    verbs = _favourites(_VERB, n, rng)
    talkative = rng.beta(2, 2)
    kinds = rng.random((n, 3)) < (0.6, talkative, talkative)
    out = []
    for i, (opens, object_, tails) in enumerate(kinds):
        words = [
            f"{opening[i]}," if opens else "",
            links[i],
            adjectives[i] if object_ else "",
            nouns[i],
            verbs[i],
            links[n + i],
            adjectives[n + i] if opens else "",
            nouns[n + i],
            tail[i] if tails else "",
        ]
        line = " ".join(filter(None, words)) + ending[i]
        out.append(line[0].upper() + line[1:])
    return out


def _favourites(words: Sequence[str], n: int, rng: np.random.Generator) -> list[str]:
    """Draw `n` words of a role that prefers some of them, its own choice of preferences."""
    preference = rng.dirichlet(np.full(len(words), 0.25))
    return [words[i] for i in rng.choice(len(words), n, p=preference)]
