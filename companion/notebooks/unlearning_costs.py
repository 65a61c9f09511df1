"""What requests cost, computed: FATS's Theorem 7, the look-up of Section 5.3 and its space.

The notation is that of `sflkit.fats.history` and `sflkit.fats.bounds`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from companion import story
from companion.notebooks.fats_shared import TINY, Sizes, mean_time
from sflkit.fats import bounds, enumeration, forgetting
from sflkit.fats.history import History, draw_history
from sflkit.randomness import generator

LEVELS = ("sample", "client")


def request_costs(sizes: Sizes, requests: int) -> dict[str, np.ndarray]:
    """Return what 1 to w requests cost on average, exactly, for clients and for samples.

    Requests come after training, each for another client, or for a sample of another client. The
    i-th client to leave finds M - i + 1 clients, and since forgetting is exact, the history of a
    run on these. Source: FATS, Theorem 7 and Section 5.3.1.

    Parameters
    ----------
    sizes : mapping
        As of `draw_history`; samples_per_client may be a mean.
    requests : int
        w in [1, M).

    Returns
    -------
    dict of arrays (w,)
        "client" and "sample": re-computations of requests one after another; with "_time": the
        steps that they repeat, in trainings; with "_once_time": those of all requests at once.
    """
    m, k, r, e = (sizes[key] for key in ("n_clients", "clients_per_round", "rounds", "local_steps"))
    spare = 1 - sizes["batch_size"] / sizes["samples_per_client"]  # a step of the client spares it
    w, t, done = np.arange(1, requests + 1), np.arange(1, r + 1), np.arange(1, e + 1)
    left = m - w + 1  # clients that the i-th leaver finds
    client = 1 - (1 - 1 / left) ** (k * r)
    client_rounds = (1 - (1 - 1 / left[:, None]) ** (k * t)).sum(axis=1)
    together_rounds = (1 - (1 - w[:, None] / m) ** (k * t)).sum(axis=1)
    whole = (1 - w / m * (1 - spare**e)) ** k  # a round spares w samples of different clients
    part = (1 - w[:, None] / m * (1 - spare**done)) ** k  # its first steps do
    steps = (1 - whole[:, None, None] ** (t[:, None] - 1) * part[:, None, :]).sum(axis=(1, 2))
    return {
        "client": np.cumsum(client),
        "client_time": np.cumsum(client_rounds) / r,
        "client_once_time": together_rounds / r,
        "sample": w * (1 - whole[0] ** r),
        "sample_time": w * steps[0] / (e * r),
        "sample_once_time": steps / (e * r),
    }


def nearly_all() -> pd.DataFrame:
    """Return the exact number of re-computations when all samples but one go, and 4 w rho.

    One client of N samples, one step, b = 1, requests in turn (ERRATA 59).
    """
    few = (10, 100, 1000, 10_000, 100_000)
    exact = [(1 / np.arange(2, n + 1)).sum() for n in few]
    allowed = [bounds.theorem7(rho=1 / n, requests=n - 1).recomputations for n in few]
    return pd.DataFrame({"N": few, "exact": exact, "4 w rho": allowed})


def quarter_left(sizes: Mapping[str, Sizes]) -> dict[str, np.ndarray]:
    """Return the exact number and 4 w rho for every w that leaves a quarter, arrays (cases, 2)."""
    smallest = [dict(TINY, n_clients=m, samples_per_client=m) for m in (1, 4, 9, 100, 10_000)]
    found: dict[str, list] = {"clients": [], "samples": []}
    for s in [*sizes.values(), *smallest]:
        m, n, batch = (s[key] for key in ("n_clients", "samples_per_client", "batch_size"))
        draws = s["clients_per_round"] * s["rounds"]
        left = np.arange(m, m / 4 - 1e-9, -1)
        hit = 1 - (1 - 1 / np.maximum(left, 1)) ** draws
        found["clients"].append(_summed(hit, draws / m))
        left = np.arange(n, max(n / 4, batch) - 1e-9, -1)
        hit = 1 - (1 - (1 - (1 - batch / left) ** s["local_steps"]) / m) ** draws
        found["samples"].append(_summed(hit, batch * draws * s["local_steps"] / (m * n)))
    return {level: np.concatenate(parts) for level, parts in found.items()}


def _summed(hit: np.ndarray, rho: float) -> np.ndarray:
    return np.stack([np.cumsum(hit), 4 * np.arange(1, len(hit) + 1) * min(rho, 1)], axis=1)


def over_rho(sizes: Sizes) -> dict[str, np.ndarray]:
    """Return the mean time of one request in trainings, over K (rho_C) and over b (rho_S)."""
    drawn, batch = np.arange(1, 11), np.arange(5, 41, 5)
    steps = sizes["local_steps"] * sizes["rounds"]
    whole = dict(sizes, samples_per_client=int(sizes["samples_per_client"]))
    client = [mean_time("client", whole | {"clients_per_round": int(k)}) for k in drawn]
    sample = [mean_time("sample", whole | {"batch_size": int(b)}) for b in batch]
    return {
        "K": drawn,
        "client": np.array(client) / steps,
        "b": batch,
        "sample": np.array(sample) / steps,
    }


def busiest_devices(sizes: Mapping[str, Sizes], *, seed: int) -> dict[str, int]:
    """Return the most slots that a device had in any of 20 trainings, by setting."""
    rng, busiest = generator(seed, "monte_carlo", 7), {}
    for name, s in sizes.items():
        draws = s["rounds"] * s["clients_per_round"]
        slots = [rng.integers(s["n_clients"], size=draws) for _ in range(20)]
        busiest[name] = max(int(np.bincount(one).max()) for one in slots)
    return busiest


def low_memory() -> dict[str, list]:
    """Return the distances to retraining of Section 5.3.2's variant, as printed and mended."""
    found: dict[str, list] = {"printed": [], "clients kept": []}
    for e, rounds in ((1, 1), (1, 2), (2, 1), (2, 2)):
        tiny = dict(TINY, local_steps=e, rounds=rounds)
        law, goal = enumeration.drawn_law(**tiny), enumeration.retrained_law([(0, 0)], **tiny)
        for name, distances in found.items():
            keep = name == "clients kept"
            after = enumeration.restarted_law(law, 0, 0, keep_clients=keep)
            distances.append(enumeration.total_variation(after, goal))
    return found


def served(
    sizes: Sizes, *, seed: int, repeats: int, requests: int
) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Return what `serve` finds: the published numbers where they are there, else made here."""

    def make() -> dict[str, list]:
        found = serve(sizes, generator(seed, "requests"), repeats=repeats, requests=requests)
        return {name: [np.asarray(part).tolist() for part in pair] for name, pair in found.items()}

    settings = {"sizes": dict(sizes), "seed": seed, "repeats": repeats, "requests": requests}
    found = story.kept("streams of requests, served", settings, make)
    return {name: (np.array(mean), np.array(error)) for name, (mean, error) in found.items()}


def serve(
    sizes: Sizes, rng: np.random.Generator, *, repeats: int, requests: int
) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Return mean and standard error of what simulated requests cost, by the names of
    `request_costs`: arrays (w,), and for "_once_time" numbers.

    Each history of the library serves one stream for samples of different clients, one for whole
    clients, and the same requests at once.
    """
    found: dict[str, list] = {}
    for _ in range(repeats):
        history = draw_history(**sizes, rng=rng)
        asked = rng.permutation(sizes["n_clients"])[:requests]
        photos = rng.integers(sizes["samples_per_client"], size=requests)
        for level in LEVELS:
            of = photos if level == "sample" else [None] * requests
            stream = list(zip(asked, of, strict=True))
            left, cost = history, []
            for one in stream:
                left, step = forgetting.forget_targets(left, [one], rng)
                cost.append(0 if step is None else history.steps - step)
            found.setdefault(level, []).append(np.cumsum(np.array(cost) > 0))
            found.setdefault(f"{level}_time", []).append(np.cumsum(cost) / history.steps)
            step = forgetting.forget_targets(history, stream, rng).first
            once = 0 if step is None else (history.steps - step) / history.steps
            found.setdefault(f"{level}_once_time", []).append(once)
    order = [f"{level}{kind}" for level in LEVELS for kind in ("", "_time", "_once_time")]
    return {
        name: (np.mean(found[name], axis=0), np.std(found[name], axis=0, ddof=1) / repeats**0.5)
        for name in order
    }


class LookUps(NamedTuple):
    """Entries that a look-up reads by the history's draws, the log-log slope, and whether a search
    gave the same answer for 300 samples."""

    table: pd.DataFrame
    slope: float
    agrees: bool


class CountedReads(np.ndarray):
    """An array that counts its entries as they are read, in a list that several may share.

    An entry that is taken out counts once, and an operation reads every entry of its inputs.
    Slices read nothing until they are used, and results of operations are ordinary arrays.
    """

    reads: list[int]

    @classmethod
    def of(cls, array: np.ndarray, reads: list[int]) -> CountedReads:
        """Return the array such that reading it adds to `reads[0]`."""
        counted = array.view(cls)
        counted.reads = reads
        return counted

    def __array_finalize__(self, origin: Any) -> None:
        self.reads = getattr(origin, "reads", [0])

    def __getitem__(self, at: Any) -> Any:
        found = super().__getitem__(at)
        self.reads[0] += np.ndim(found) == 0
        return found

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Any:
        for each in inputs:
            if isinstance(each, CountedReads):
                each.reads[0] += each.size
        plain = (x.view(np.ndarray) if isinstance(x, CountedReads) else x for x in inputs)
        return getattr(ufunc, method)(*plain, **options)


def counted(history: History, reads: list[int]) -> History:
    """Return the history such that reading its draws, tables and sizes adds to `reads[0]`."""
    names = ("clients", "batches", "samples_per_client")
    found = replace(history, **{n: CountedReads.of(getattr(history, n), reads) for n in names})
    tables = {n: CountedReads.of(getattr(history, n), reads) for n in ("first", "offsets")}
    vars(found).update(tables)
    return found


def look_ups(rng: np.random.Generator) -> LookUps:
    """Count what is read to say whether a request hits, in histories of 100 to 10,000 rounds."""
    crowd = {"n_clients": 100, "samples_per_client": 100, "clients_per_round": 5, "batch_size": 5}
    rows = []
    for length in (100, 1000, 10_000):
        reads = [0]
        history = draw_history(**crowd, local_steps=2, rounds=length, rng=rng)
        counted(history, reads).first_use(7, 23)
        rows.append((history.batches.size, *reads))
    table = pd.DataFrame(rows, columns=["draws", "read by a look-up"])
    slope = float(np.polyfit(*np.log(table.to_numpy()).T, 1)[0])
    small = draw_history(
        n_clients=20, samples_per_client=50, clients_per_round=2, batch_size=3, local_steps=4,
        rounds=30, rng=rng,
    )  # fmt: skip
    agrees = []
    for k, photo in zip(rng.integers(20, size=300), rng.integers(50, size=300), strict=True):
        uses = np.argwhere(uses_of(small, k, photo))
        first = min((int(r), int(e)) for r, _, e in uses) if len(uses) else None
        agrees.append(small.first_use(k, photo) == first)
    return LookUps(table, slope, all(agrees))


def uses_of(history: History, client: int, sample: int) -> np.ndarray:
    """Return in which slots and steps a sample was used, searched for, (R, K, E)."""
    return (history.clients == client)[:, :, None] & (history.batches == sample).any(axis=-1)
