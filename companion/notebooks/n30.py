"""Notebook 30, requests and stores: what is computed, the evidence for its claims.

Source: OSAFL, Section II-A (stores, Fig. 2), Table I, Appendix D-A (Algorithm 5), with ERRATA 39
and 40. The model is in `sflkit.osafl.video` and `sflkit.osafl.stores`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from companion import story
from companion.judging import tables
from companion.judging.claims import NotRun
from sflkit import data
from sflkit.osafl import stores, video
from sflkit.randomness import generator

Evidence = dict[str, Any]
FLOAT_BITS = 32
# What the paper's centralised training of the FCN reaches, by K.
REACHED = {1: ("osafl-tab2", "test accuracy SGD FCN"), 2: ("osafl-tab3", "test accuracy SGD FCN")}
_OFTEN = 25  # variance from which a count is as good as normal
_EXPECTED = 100  # times that a judged transition is expected
_JUDGED = ("stay", "genre", "rank", "transition", "choice")


# --- Algorithm 5 ----------------------------------------------------------------------------------


def printed_popularity(cat: video.Catalogue, gamma: float, q: float) -> np.ndarray:
    """Return (80) as printed, by rank, (n_ranks,).

    ERRATA 39: its normaliser is the reciprocal of the one meant.
    """
    ranks = np.arange(1, cat.files_per_genre + 1)
    return (ranks + q) ** -gamma * ((ranks + q) ** gamma).sum()


class Frequencies(NamedTuple):
    """Simulated requests beside the law that they follow.

    Attributes
    ----------
    tested : dict
        What is compared -> counts, their standard errors and expected values.
    law, seen, expected : array (n_users, n_files, n_files)
        Probability, count and expected count of each step from file to file.
    big : bool array, same shape
        The steps that are judged.
    impossible : int
        Requests that have probability 0.
    """

    tested: dict[str, tuple[np.ndarray, np.ndarray, np.ndarray]]
    law: np.ndarray
    seen: np.ndarray
    expected: np.ndarray
    big: np.ndarray
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
    who = np.repeat(np.arange(n_users), n_requests - 1).reshape(n_users, -1)
    genre_of = np.arange(n_files) // cat.files_per_genre
    stays = genre_of[last] == genre_of[new]
    law = video.request_matrix(cat, users, top_k=top_k)
    steps = ((who * n_files + last) * n_files + new).ravel()
    seen = np.bincount(steps, minlength=law.size).reshape(law.shape)
    begun = np.bincount((who * n_files + last).ravel(), minlength=n_users * n_files)
    expected = begun.reshape(n_users, n_files, 1) * law
    big = (expected >= _EXPECTED) & (law < 1)
    tries = n_requests - 1
    tested = {
        "stay": (
            stays.sum(axis=1),
            np.sqrt(tries * users.stick * (1 - users.stick)),
            tries * users.stick,
        ),
        "genre": _genres(cat, users, who[~stays], genre_of[last[~stays]], genre_of[new[~stays]]),
        "rank": _ranks(cat, new[~stays]),
        "transition": (seen[big], np.sqrt(expected[big] * (1 - law[big])), expected[big]),
    }
    if top_k > 1:
        tested["choice"] = _choices(cat, top_k, last[stays], new[stays])
    return Frequencies(tested, law, seen, expected, big, int(seen[law == 0].sum()))


def _genres(
    cat: video.Catalogue, users: video.Users, who: np.ndarray, left: np.ndarray, found: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return where those who leave a genre go, by user and genre found."""
    elsewhere = users.elsewhere()
    went = np.zeros((len(users), cat.n_genres, cat.n_genres))  # user, genre left, genre found
    np.add.at(went, (who, left, found), 1)
    away = went.sum(axis=2, keepdims=True)
    mean = (away * elsewhere).sum(axis=1)
    variance = (away * elsewhere * (1 - elsewhere)).sum(axis=1)
    often = variance > _OFTEN
    return went.sum(axis=1)[often], np.sqrt(variance[often]), mean[often]


def _ranks(cat: video.Catalogue, found: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return which ranks those who arrive in a genre find."""
    rank_of = np.empty(cat.n_files, dtype=int)
    ranks = np.tile(np.arange(cat.files_per_genre), cat.n_genres)
    np.put_along_axis(rank_of, cat.order.ravel(), ranks, axis=0)
    n, p = len(found), cat.popularity
    seen = np.bincount(rank_of[found], minlength=cat.files_per_genre)
    return seen, np.sqrt(n * p * (1 - p)), n * p


def _choices(
    cat: video.Catalogue, top_k: int, last: np.ndarray, new: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return how often those who stay take the most similar file, by the last file."""
    near, near_law = cat.similar(top_k)
    stayed = np.bincount(last, minlength=cat.n_files)
    nearest = np.bincount(last, new == near[last, 0], minlength=cat.n_files)
    variance = stayed * near_law[:, 0] * (1 - near_law[:, 0])
    enough = variance > _OFTEN
    return nearest[enough], np.sqrt(variance[enough]), (stayed * near_law[:, 0])[enough]


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
    holds : dict
        Block -> whether it stands where `blocks` says.
    past : int
        L, the past requests in a sample of Dataset-2.
    label_bits : int
        Bits of an id of fixed length.
    kept : dict
        Bits -> ids that stay different in so many.
    rebuilt : bool
        Whether Dataset-2 follows from one id per request.
    """

    blocks: pd.DataFrame
    features: int
    holds: dict[str, bool]
    past: int
    label_bits: int
    kept: dict[int, int]
    rebuilt: bool


def samples(cat: video.Catalogue, users: video.Users, user: int, requests: np.ndarray) -> Sample:
    """Take the samples apart that a user's requests make."""
    x, y = video.dataset_1(cat, users, user, requests)
    blocks = {
        "features of the last file (3 x 32 x 32)": cat.features.shape[1],
        "the user's genre preferences": cat.n_genres,
        "cosines with the files of its genre": cat.files_per_genre,
        "genre id, repeated": video.GENRE_REPEATS,
        "the user's stick probability": 1,
    }
    counts = np.array(list(blocks.values()))
    ends = np.cumsum(counts)
    starts = ends - counts
    table = pd.DataFrame({"block": blocks.keys(), "from": starts, "features": counts})
    image, taste, near, genre, stick = (x[1:, a:b] for a, b in zip(starts, ends, strict=True))
    of = y[:-1] // cat.files_per_genre  # genre of the file whose features make the next sample
    holds = {
        "image": np.array_equal(image, cat.features[y[:-1]].astype(np.float32)),
        "preferences": np.allclose(taste, users.preferences[user], atol=1e-6),
        "cosines, 1 with itself": np.allclose(near.max(axis=1), 1, atol=1e-6),
        "genre": np.array_equal(genre, np.repeat(of[:, None], video.GENRE_REPEATS, axis=1)),
        "stick": np.allclose(stick, users.stick[user], atol=1e-6),
    }
    bits = int(np.ceil(np.log2(cat.n_files)))
    past, label = video.dataset_2(cat, requests)
    windows = np.lib.stride_tricks.sliding_window_view(requests, past.shape[1] + 1)
    ids = np.unpackbits(np.arange(cat.n_files, dtype=np.uint8)[:, None], axis=1)
    kept = {n: len(np.unique(ids[:, 8 - n :], axis=0)) for n in (bits - 1, bits)}
    rebuilt = np.array_equal(windows, np.column_stack([past, label]))
    table["bits"] = FLOAT_BITS * table["features"]
    return Sample(table, x.shape[1], holds, past.shape[1], bits, kept, rebuilt)


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


def ceilings(
    worlds: Sequence[tuple[video.Catalogue, video.Users]], top_ks: Sequence[int]
) -> pd.DataFrame:
    """Return the best possible accuracy, sum over f of pi(f) max over f' of P(f -> f'), by K.

    It is that of one who knows every user's law, over the seeds, one world each. Beside it stands
    what the paper's centralised FCN reaches.
    """
    rows = {}
    for k in top_ks:
        laws = [video.request_matrix(files, people, top_k=k) for files, people in worlds]
        values = [(long_run(law) * law.max(axis=2)).sum(axis=1).mean() for law in laws]
        rows[k] = {
            "ceiling, mean over seeds": np.mean(values),
            "lowest": min(values),
            "highest": max(values),
            "paper: centralised FCN": tables.paper_value("osafl", *REACHED[k])
            if k in REACHED
            else np.nan,
        }
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis("K")


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
    pooled = {
        part: tuple(
            np.concatenate([one.tested[part][i] for one in found.values() if part in one.tested])
            for i in range(3)
        )
        for part in _JUDGED
        if any(part in one.tested for one in found.values())
    }
    pooled.setdefault("choice", NotRun("with K = 1 there is nothing to choose"))
    bits, kept = sample.label_bits, sample.kept
    return {
        "osafl-alg5": pooled
        | {
            "possible": all(one.impossible == 0 for one in found.values()),
            "printed_law": (printed.sum(), 1.0),
        },
        "osafl-fig2": {
            "every_round": moved["rounds that differ"].to_numpy() - 0.9,
            "top_2": moved["top 2"].to_numpy() - 0.02,
            "least_2": moved["least 2 moved"].to_numpy() - 0.5,
            "fixed": moved["back"].to_numpy(),
        },
        "osafl-tab1": {
            "features": (sample.features, _table1("features Dataset-1")),
            "bits": (sample.features * FLOAT_BITS, _table1("bits Dataset-1")),
            "one": sample.rebuilt,
            "log2": (bits, np.log2(n_files)),
            "whole_bits": {
                "all ids in seven bits": kept[bits] == n_files,
                "some lost in six": kept[bits - 1] < n_files,
            },
        },
    }


def _table1(quantity: str) -> float:
    return tables.paper_value("osafl", "osafl-tab1", quantity)
