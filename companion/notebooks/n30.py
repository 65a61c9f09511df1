"""Notebook 30, requests and stores: what is computed, the evidence for its claims.

Source: OSAFL, Section II-A (stores, Fig. 2), Table I, Appendix D-A (Algorithm 5), with ERRATA 39
and 40. The model is in `sflkit.osafl.video` and `sflkit.osafl.stores`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from companion import story
from companion.judging import tables
from companion.judging.claims import NotRun
from sflkit import data
from sflkit.osafl import stores, video
from sflkit.randomness import generator

Evidence = dict[str, Any]
FLOAT_BITS = 32
_TABLE_I = ("features Dataset-1", "bits Dataset-1")
_OFTEN = 25  # variance from which a count is as good as normal
_EXPECTED = 100  # times that a judged transition is expected


# --- Algorithm 5 ----------------------------------------------------------------------------------


def printed_popularity(cat: video.Catalogue, gamma: float, q: float) -> np.ndarray:
    """Return (80) as printed, by rank, (n_ranks,).

    ERRATA 39: its normaliser is the reciprocal of the one meant.
    """
    ranks = np.arange(1, cat.files_per_genre + 1)
    return (ranks + q) ** -gamma * ((ranks + q) ** gamma).sum()


Counts = tuple[np.ndarray, np.ndarray, np.ndarray]  # seen, standard errors, expected


class Frequencies(NamedTuple):
    """Simulated requests beside the law that they follow.

    Attributes
    ----------
    tested : dict
        What is compared -> counts, their standard errors and expected values.
    law : array (n_users, n_files, n_files)
        Probability of each step from file to file.
    exact, share : array
        Probability and simulated frequency of the steps that are judged.
    impossible : int
        Requests that have probability 0.
    """

    tested: dict[str, Counts]
    law: np.ndarray
    exact: np.ndarray
    share: np.ndarray
    impossible: int


def frequencies(
    cat: video.Catalogue,
    users: video.Users,
    n_requests: int,
    rng: np.random.Generator,
    *,
    top_k: int,
) -> Frequencies:
    """Draw requests and count what Algorithm 5 says about them; see `Frequencies`."""
    asked = video.request_files(cat, users, n_requests, rng, top_k=top_k)
    n_users, n_files = len(users), cat.n_files
    last, new = asked[:, :-1], asked[:, 1:]
    who = np.broadcast_to(np.arange(n_users)[:, None], last.shape)
    genre_of = np.arange(n_files) // cat.files_per_genre
    stays = genre_of[last] == genre_of[new]
    law = video.request_matrix(cat, users, top_k=top_k)
    seen = _counts((who, last, new), law.shape)
    expected = _counts((who, last), law.shape[:2])[:, :, None] * law
    big = (expected >= _EXPECTED) & (law < 1)
    rank_of = np.argsort(cat.order.ravel()) % cat.files_per_genre
    rank = _counts((rank_of[new[~stays]],), (cat.files_per_genre,))
    tested = {
        "stay": _binomial(stays.sum(axis=1), n_requests - 1, users.stick),
        "genre": _genres(users, who[~stays], genre_of[last[~stays]], genre_of[new[~stays]]),
        "rank": _binomial(rank, rank.sum(), cat.popularity),
        "transition": (seen[big], np.sqrt(expected[big] * (1 - law[big])), expected[big]),
    }
    if top_k > 1:  # how often those who stay take the most similar file, by the last file
        near, near_law = cat.similar(top_k)
        stayed = _counts((last[stays],), (n_files,))
        nearest = _counts((last[stays & (new == near[last, 0])],), (n_files,))
        enough = stayed * near_law[:, 0] * (1 - near_law[:, 0]) > _OFTEN
        choice = nearest[enough], stayed[enough], near_law[enough, 0]
        tested["choice"] = _binomial(*choice)
    share = seen[big] / (expected[big] / law[big])
    return Frequencies(tested, law, law[big], share, int(seen[law == 0].sum()))


def _counts(where: Sequence[np.ndarray], shape: tuple[int, ...]) -> np.ndarray:
    """Return how often each index occurs."""
    flat = np.ravel_multi_index([index.ravel() for index in where], shape)
    return np.bincount(flat, minlength=int(np.prod(shape))).reshape(shape)


def _binomial(seen: np.ndarray, tries: ArrayLike, p: np.ndarray) -> Counts:
    return seen, np.sqrt(tries * p * (1 - p)), tries * p


def _genres(users: video.Users, who: np.ndarray, left: np.ndarray, found: np.ndarray) -> Counts:
    """Return where those who leave a genre go, by user and genre found."""
    elsewhere = users.elsewhere()
    went = _counts((who, left, found), elsewhere.shape)  # user, genre left, genre found
    away = went.sum(axis=2, keepdims=True)
    variance = (away * elsewhere * (1 - elsewhere)).sum(axis=1)
    often = variance > _OFTEN
    mean = (away * elsewhere).sum(axis=1)
    return went.sum(axis=1)[often], np.sqrt(variance[often]), mean[often]


def long_run(law: np.ndarray) -> np.ndarray:
    """Return each user's long-run shares of the files, (n_users, n_files), from uniform ones."""
    shares = np.full((len(law), 1, law.shape[2]), 1 / law.shape[2])
    for _ in range(300):  # steps, after which the start is forgotten
        shares = shares @ law
    return shares[:, 0]


# --- Fig. 2 ---------------------------------------------------------------------------------------


class Example(NamedTuple):
    """One user's store: its most and least frequent files, shares by round, and in the long run.

    top and least are files (2,), shares (rounds + 1, n_files), long_run (n_files,), size the
    store's.
    """

    top: np.ndarray
    least: np.ndarray
    shares: np.ndarray
    long_run: np.ndarray
    size: int


def movements(
    files: video.Catalogue,
    people: video.Users,
    rounds: int,
    seed: int,
    *,
    top_k: int,
    user: int,
) -> tuple[dict[str, float], Example]:
    """Follow the FIFO stores of all users over the rounds; round 0 is the store as it begins.

    Returns
    -------
    means : dict
        Over users: "rounds that differ" from the one before, "top 2" and "least 2 moved" (range of
        the shares of the first store's most frequent files; whether those of the least frequent
        ones move), "back" (the top 2's share minus their long-run share once the store has been
        replaced), "first share" and "long-run share" of the top 2.
    example : Example
        Of `user`.
    """
    n_users = len(people)
    held = stores.draw_stores(n_users, generator(seed, "samples"))
    windows = stores.fifo_windows(held, rounds, generator(seed, "arrivals"))
    start = np.stack([np.zeros(n_users, dtype=int), held.capacity], axis=1)
    windows = np.concatenate([start[None], windows])
    needed = int(windows[-1, :, 1].max()) + 1
    asked = video.request_files(files, people, needed, generator(seed, "requests"), top_k=top_k)
    long_term = long_run(video.request_matrix(files, people, top_k=top_k))
    rows = []
    for u, settled in enumerate(long_term):
        shares = _shares(asked[u, 1:], windows[:, u], files.n_files) / held.capacity[u]
        top, least = _extremes(shares[0])
        replaced = windows[-1, u, 0] >= held.capacity[u] + 50
        row = {
            "rounds that differ": np.mean((np.diff(shares, axis=0) != 0).any(axis=1)),
            "top 2": np.ptp(shares[:, top].sum(axis=1)),
            "least 2 moved": np.ptp(shares[:, least].sum(axis=1)) > 0,
            "back": shares[-1, top].sum() - settled[top].sum() if replaced else np.nan,
            "first share": shares[0, top].sum(),
            "long-run share": settled[top].sum(),
        }
        rows.append(row)
        if u == user:
            example = Example(top, least, shares, settled, int(held.capacity[u]))
    return pd.DataFrame(rows).astype(float).mean().to_dict(), example


def _shares(asked: np.ndarray, windows: np.ndarray, n_files: int) -> np.ndarray:
    """Return the counts of files in a store, which is a window over the requests, by round."""
    each = np.eye(n_files, dtype=int)[asked]
    total = np.concatenate([np.zeros((1, n_files), dtype=int), np.cumsum(each, axis=0)])
    return total[windows[:, 1]] - total[windows[:, 0]]


def _extremes(shares: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the two most and the two least frequent files of those that a store holds."""
    order = np.argsort(-shares, kind="stable")
    there = order[shares[order] > 0]
    return there[:2], there[-2:]


# --- Table I --------------------------------------------------------------------------------------


class Sample(NamedTuple):
    """A sample of each data set, taken apart.

    Attributes
    ----------
    blocks : DataFrame
        block, from, features, bits of a sample of Dataset-1.
    features : int
        Of a sample of Dataset-1.
    label_bits : int
        Bits of an id of fixed length.
    kept : dict
        Bits -> ids that stay different in so many.
    rebuilt : bool
        Whether Dataset-2 follows from one id per request.
    """

    blocks: pd.DataFrame
    features: int
    label_bits: int
    kept: dict[int, int]
    rebuilt: bool


def samples(cat: video.Catalogue, users: video.Users, user: int, requests: np.ndarray) -> Sample:
    """Take the samples apart that a user's requests make."""
    x, _ = video.dataset_1(cat, users, user, requests)
    blocks = {
        "features of the last file (3 x 32 x 32)": cat.features.shape[1],
        "the user's genre preferences": cat.n_genres,
        "cosines with the files of its genre": cat.files_per_genre,
        "genre id, repeated": video.GENRE_REPEATS,
        "the user's stick probability": 1,
    }
    table = pd.DataFrame(blocks.items(), columns=["block", "features"])
    table.insert(1, "from", table["features"].cumsum() - table["features"])
    table["bits"] = FLOAT_BITS * table["features"]
    past, label = video.dataset_2(cat, requests)
    windows = np.lib.stride_tricks.sliding_window_view(requests, past.shape[1] + 1)
    rebuilt = np.array_equal(windows, np.column_stack([past, label]))
    bits = int(np.ceil(np.log2(cat.n_files)))
    kept = {n: len(np.unique(np.arange(cat.n_files) % 2**n)) for n in (bits - 1, bits)}
    return Sample(table, x.shape[1], bits, kept, rebuilt)


# --- the ceiling ----------------------------------------------------------------------------------


def images(features: str) -> np.ndarray | None:
    """Return what the catalogue needs of the files' images, float (100, 3, 32, 32), or None.

    For "cifar100" these are one image of each class. Without the data set they are vectors with the
    same cosines within each genre, from which the requests are drawn; nothing else is used of them.
    """
    if features != "cifar100":
        return None
    cosines = story.kept("cosines of one image of each class", {"data": features}, _cosines)
    vectors = np.zeros((len(cosines), 3 * 32 * 32))
    for start in range(0, len(cosines), len(cosines[0])):
        genre = slice(start, start + len(cosines[0]))
        vectors[genre, : len(cosines[0])] = np.linalg.cholesky(np.array(cosines[genre]))
    return vectors.reshape(-1, 3, 32, 32)


def _cosines() -> list[list[float]]:
    """Return the cosine of the first image of each class with each of its genre (100, 20)."""
    found = data.load("cifar100")
    first = [int(np.flatnonzero(found.y_train == label)[0]) for label in range(100)]
    x = found.x_train[first].transpose(0, 3, 1, 2) / np.float32(255)
    return video.catalogue(x, rng=generator(0, "data")).similarity.tolist()


def ceiling(files: video.Catalogue, people: video.Users, top_k: int) -> float:
    """Return the best possible accuracy, sum over f of pi(f) max over f' of P(f -> f').

    It is that of one who knows every user's law, the mean over the users of a world.
    """
    law = video.request_matrix(files, people, top_k=top_k)
    return float((long_run(law) * law.max(axis=2)).sum(axis=1).mean())


# --- the verdicts ---------------------------------------------------------------------------------


def evidence(
    found: Mapping[int, Frequencies],
    printed: np.ndarray,
    moved: pd.DataFrame,
    sample: Sample,
    n_files: int,
) -> dict[str, Evidence]:
    """Return the evidence of notebook 30: artefact -> part -> what its rule takes.

    Parameters
    ----------
    found : mapping
        K -> `frequencies`.
    printed : array
        Of `printed_popularity`.
    moved : DataFrame
        The means of `movements`, one row per seed.
    sample : Sample
    n_files : int
        F.
    """
    pooled: Evidence = {"choice": NotRun("with K = 1 there is nothing to choose")}
    for part in dict.fromkeys(part for one in found.values() for part in one.tested):
        each = [one.tested[part] for one in found.values() if part in one.tested]
        pooled[part] = tuple(map(np.concatenate, zip(*each, strict=True)))
    bits, kept = sample.label_bits, sample.kept
    printed_1 = {what: tables.paper_value("osafl", "osafl-tab1", what) for what in _TABLE_I}
    return {
        "osafl-alg5": pooled
        | {
            "possible": not any(one.impossible for one in found.values()),
            "printed_law": (printed.sum(), 1.0),
        },
        "osafl-fig2": {
            "every_round": moved["rounds that differ"].to_numpy() - 0.9,
            "top_2": moved["top 2"].to_numpy() - 0.02,
            "least_2": moved["least 2 moved"].to_numpy() - 0.5,
            "fixed": moved["back"].to_numpy(),
        },
        "osafl-tab1": {
            "features": (sample.features, printed_1["features Dataset-1"]),
            "bits": (sample.features * FLOAT_BITS, printed_1["bits Dataset-1"]),
            "one": sample.rebuilt,
            "log2": (bits, np.log2(n_files)),
            "whole_bits": {
                "all ids in seven bits": kept[bits] == n_files,
                "some lost in six": kept[bits - 1] < n_files,
            },
        },
    }
