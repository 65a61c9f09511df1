"""Notebook 11, SFL's Propositions 1 to 3 and Corollary 1: exact, simulated, bound.

Source: SFL, Section IV-B and its supplement. Expectations are those of `sflkit.sfl.discrepancy`,
for exact counts. "Pairs" are the (client, label) pairs with a share above 0.

| code         | symbol  | shape           | meaning                                     |
|--------------|---------|-----------------|---------------------------------------------|
| gamma        | Gamma   |                 | integrated correlation, rounds (ERRATA 7)   |
| delta2       | delta^2 |                 | largest variance of a label share           |
| cache_rounds | M       |                 | rounds of arrivals that the cache holds     |
| sizes        | M       | (n_sizes,)      | cache sizes that are compared               |
| thetas       | theta   | (n_thetas,)     | SRSR's weights of new data                  |
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from companion.plans import Stage
from sflkit.sfl import bounds, discrepancy, streams
from sflkit.sfl.discrepancy import (
    DiscrepancyConfig,
    correlation_rounds,
    exact_discrepancy,
    exact_path,
)
from sflkit.sfl.streams import LabelStream


def discrepancy_bounds(
    *, sizes: list[int], parts: int, **settings: Any
) -> Generator[Stage, pd.DataFrame, pd.DataFrame]:
    """Notebook 11: three rules over rounds, FIFO and DRSR over cache sizes."""
    config = DiscrepancyConfig(**settings)
    configs = [replace(config, rule=rule) for rule in ("fifo", "srsr", "drsr")]
    short = replace(config, rounds=max(sizes))
    others = [m for m in sizes if m != config.cache_rounds]
    configs += [replace(short, rule="fifo", cache_rounds=m) for m in others]
    configs += [replace(short, rule="drsr", cache_rounds=m) for m in others if 5 <= m <= 20]
    runs = [replace(c, part=p) for c in configs for p in range(parts)]
    return (yield Stage(discrepancy.run, runs, "caches"))


Evidence = dict[str, Any]
THETAS = np.array([0.05, 0.1, 0.2, 0.4, 2 / 3, 1.0])
FAR = np.array([1, 2, 5, 10, 30, 60, 100, 200, 400])  # rounds of DRSR's table
_SETTLING = 600  # rounds within which SRSR is followed to its limit


class Case:
    """A stream, a cache and the numbers of Assumption 1 that belong to them.

    Parameters
    ----------
    stream : LabelStream
    cache_rounds : int
        M.
    theta : float
        SRSR's weight of new data.
    rounds : int
        T of the pictures.
    sizes : sequence of int
        Cache sizes in rounds, among them `cache_rounds`.

    Attributes
    ----------
    fifo, srsr, filled, drsr : array (T, n_pairs)
        E[(v_t - pi)^2] over rounds: FIFO (before the cache is full, of the mean of t rounds), SRSR
        by (12) from an empty cache, SRSR of a cache that is first filled with what arrives, DRSR.
    srsr_bound : array (T, n_pairs)
        The bound (13).
    fifo_by_size : array (n_sizes, n_pairs)
        FIFO's full cache.
    drsr_far : array (len(FAR), n_pairs)
        DRSR in the rounds FAR.
    worst : int
        The pair with FIFO's largest discrepancy, which the pictures show.
    """

    def __init__(
        self,
        stream: LabelStream,
        *,
        cache_rounds: int,
        theta: float,
        rounds: int,
        sizes: Sequence[int],
    ):
        self.stream = stream
        self.cache_rounds = cache_rounds
        self.theta = theta
        self.rounds = rounds
        self.sizes = list(sizes)
        self.client, self.label = np.nonzero(stream.long_term)
        self.shares = stream.long_term[self.client, self.label]
        self.gamma, self.delta2 = correlation_rounds(stream, window=400)
        self.t = np.arange(1, rounds + 1)
        self.fifo, self.drsr = self.path("fifo"), self.path("drsr")
        self.srsr, self.filled = (self.path(name, theta) for name in ("srsr", "srsr_filled"))
        how = (cache_rounds, theta, self.gamma, self.delta2)
        bound = [bounds.srsr_discrepancy(self.t, *how, pi) for pi in self.shares]
        self.srsr_bound = np.stack(bound, axis=1)
        self.fifo_by_size = np.array([self.exact("fifo", m, m) for m in self.sizes])
        self.drsr_far = np.stack([self.exact("drsr", s) for s in FAR])
        self.worst = int(np.argmax(self.fifo[-1]))

    def exact(self, rule: str, t: int, cache_rounds: int | None = None, **how: Any) -> np.ndarray:
        """Return E[(v_t - pi)^2] of each pair, (n_pairs,)."""
        size = self.cache_rounds if cache_rounds is None else cache_rounds
        found = exact_discrepancy(self.stream, rule, int(t), cache_rounds=size, **how)
        return found[self.client, self.label]

    def path(self, rule: str, theta: float | None = None, rounds: int | None = None) -> np.ndarray:
        """Return E[(v_t - pi)^2] of each pair over T or other rounds, (rounds, n_pairs)."""
        how = {"cache_rounds": self.cache_rounds, "theta": theta}
        found = exact_path(self.stream, rule, rounds or self.rounds, **how)
        return found[:, self.client, self.label]

    def fifo_bound(self, cache_rounds: int) -> float:
        """Proposition 1 for a full cache."""
        return bounds.fifo_discrepancy(cache_rounds, self.gamma, self.delta2)

    def drsr_bound(self, t: np.ndarray | int) -> np.ndarray | float:
        """Proposition 3 as printed."""
        return (2 * self.gamma + 1) * self.delta2 / t


def two_speeds(sizes: Sequence[int] = (1, 3, 10, 30, 100, 300, 1000)) -> pd.DataFrame:
    """Return FIFO's discrepancy by cache size, in units of delta^2, on a stream of two labels whose
    correlation is 0.96 * 0.2^tau + 0.04 * 0.999^tau.

    The bound is Proposition 1 with the integrated correlation.
    """
    fast, slow = (np.array([[1 + r, 1 - r], [1 - r, 1 + r]]) / 2 for r in (0.2, 0.999))
    steps = [-1, 1] * np.sqrt([0.96 * 0.04] * 2), [-1, 1] * np.sqrt([0.04 * 0.04] * 2)
    share = 0.5 + np.add.outer(*steps).ravel()
    stream = LabelStream([np.stack([share, 1 - share], axis=1)], [np.kron(fast, slow)])
    delta2 = stream.autocovariance(0).max()
    exact = [exact_discrepancy(stream, "fifo", m, cache_rounds=m).max() / delta2 for m in sizes]
    bound = [bounds.fifo_discrepancy(m, correlation_rounds(stream, m)[0], 1) for m in sizes]
    return pd.DataFrame({"M": sizes, "exact": exact, "bound": bound})


RARE = 0.02  # the share of a label that is hardly ever seen


class LongRun(NamedTuple):
    """SRSR for t to infinity.

    Attributes
    ----------
    exact : array (n_thetas, n_pairs)
    bound : array (n_thetas,)
        The limit L of (13).
    falling : list of arrays (T,)
        The bound of each pair at the largest theta for which it falls over t.
    rare_theta : float
        A quarter of that theta for a label with the share RARE; Gamma and delta^2 are those of the
        whole network.
    rare : arrays (120,)
        The bound of that label for `rare_theta`, and for theta = 2/3.
    """

    exact: np.ndarray
    bound: np.ndarray
    falling: list[np.ndarray]
    rare_theta: float
    rare: tuple[np.ndarray, np.ndarray]


def long_run(case: Case) -> LongRun:
    """Return the long run of SRSR for all THETAS."""
    size, numbers = case.cache_rounds, (case.gamma, case.delta2)

    def limits(thetas):
        return np.array([bounds.srsr_discrepancy_limit(size, theta, *numbers) for theta in thetas])

    def bound(t, theta, share):
        return bounds.srsr_discrepancy(t, size, theta, *numbers, share)

    enough = [int(np.ceil(10 / (theta / size))) for theta in THETAS]  # x^(2t) < exp(-20)
    pairs = list(zip(enough, THETAS, strict=True))
    exact = np.stack([case.exact("srsr", n, theta=theta) for n, theta in pairs])
    grid = np.geomspace(1e-5, 1, 501)
    on_grid = limits(grid)
    *largest, rare = (grid[on_grid < 2 * pi**2].max() for pi in (*case.shares, RARE))
    falling = [bound(case.t, *pair) for pair in zip(largest, case.shares, strict=True)]
    t = np.arange(1, 121)
    of_rare = bound(t, rare / 4, RARE), bound(t, 2 / 3, RARE)
    return LongRun(exact, limits(THETAS), falling, rare / 4, of_rare)


class Speed(NamedTuple):
    """How fast SRSR gets to its limit from an empty cache, for all THETAS but the first.

    `paths` is the exact discrepancy (n_thetas - 1, n_rounds, n_pairs), `settled` the rounds until
    every later one is within a tenth of the limit (n_thetas - 1, n_pairs); `large` is the limit's
    largest value over pairs for M = 1, 10, 100, 1000.
    """

    paths: np.ndarray
    settled: np.ndarray
    large: list[float]


def speed(case: Case, limits: np.ndarray) -> Speed:
    """Follow SRSR for many rounds; `limits` (n_thetas, n_pairs) are those of `long_run`."""
    paths = np.stack([case.path("srsr", theta, _SETTLING) for theta in THETAS[1:]])
    far = np.abs(paths / limits[1:, None] - 1) > 0.1
    settled = _SETTLING - np.argmax(far[:, ::-1], axis=1) + 1
    large = [
        exact_discrepancy(
            case.stream, "srsr", int(20 * m / case.theta), cache_rounds=m, theta=case.theta
        ).max()
        for m in (1, 10, 100, 1000)
    ]
    return Speed(paths, settled, large)


# --- evidence -------------------------------------------------------------------------------------


def evidence(
    case: Case,
    simulated: pd.DataFrame,
    two: pd.DataFrame,
    limit: LongRun,
    pace: Speed,
) -> dict[str, Evidence]:
    """Return the evidence of notebook 11, artefact -> part -> what the rule takes.

    Parameters
    ----------
    simulated : DataFrame
        `discrepancy.pool` of the runs; the sum over clients has client < 0.
    """
    coin = _forgets_exactly(case)
    over_time = _simulated_over_time(case, simulated)
    beyond = two[two["M"] > 1]  # for M = 1 the bound is delta^2 by definition
    larger = [m > 1 for m in case.sizes]
    size_bound = np.array([[case.fifo_bound(m)] for m in case.sizes if m > 1])
    slope = np.log(case.drsr_far[-1] / case.drsr_far[-2]) / np.log(FAR[-1] / FAR[-2])
    # SRSR's targets over B: the old cache's part and the arrivals', for theta < 1 and B_s / B <= 1
    theta, share = np.meshgrid(np.arange(1, 10) / 10, np.arange(1, 11) / 10)
    whole = np.ones_like(theta)
    return {
        "sfl-prop1": {
            "moving average": coin["fifo"],
            "every size": np.broadcast_arrays(case.fifo_by_size[larger], size_bound),
            "two speeds": (beyond["exact"].to_numpy(), beyond["bound"].to_numpy()),
            "over time": over_time["fifo"],
            "sizes": _simulated_sizes(case, simulated, "fifo"),
        },
        "sfl-prop2": {
            "targets printed": (1 - share + theta * share, whole),
            "targets": (1 - theta * share + theta * share, whole),
            "moving average": coin["srsr"],
            "empty start": (case.srsr, case.srsr_bound),
            "simulated": over_time["srsr"],
            "filled start": (case.filled, case.srsr_bound),
        },
        "sfl-theta": {
            "slower": bool((np.diff(pace.settled, axis=0) < 0).all()),
            "lower": bool((np.diff(limit.exact, axis=0) > 0).all()),
            "large cache": bool(
                max(np.diff(pace.large)) < 0 and pace.large[-1] < 0.01 * case.delta2
            ),
        },
        "sfl-stationary": _over_size(case),
        "sfl-cor1": {
            "limit": np.broadcast_arrays(limit.exact, limit.bound[:, None]),
            "small theta": all(
                bool((np.diff(b) < 0).all()) for b in (*limit.falling, limit.rare[0])
            ),
        },
        "sfl-prop3": {
            "moving average": coin["drsr"],
            "bound": np.broadcast_arrays(case.drsr_far, case.drsr_bound(FAR[:, None])),
            "rate": slope[np.argmax(np.abs(slope + 1))],
            "over time": over_time["drsr"],
            "sizes": _simulated_sizes(case, simulated, "drsr"),
        },
    }


def _over_size(case: Case, size: int = 1000) -> Evidence:
    """Return M times FIFO's and SRSR's long-run discrepancy at a large M, and the limits of that.

    A mean of M rounds has the variance S / M for large M, with S the sum of the autocovariances
    over all lags, and weights that fade by 1 - theta / M have theta S / (2 M).
    """
    covariances = case.stream.autocovariances(_SETTLING)[:, case.client, case.label]
    limit = covariances[0] + 2 * covariances[1:].sum(axis=0)
    fifo = case.exact("fifo", size, size)
    srsr = case.exact("srsr", int(20 * size / case.theta), size, theta=case.theta)
    return {
        "fifo": (size * fifo, limit),
        "srsr": (size * srsr, case.theta / 2 * limit),
        "never": bool((limit > 0).all()),
    }


def worst_pair(case: Case, simulated: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of the client and label with FIFO's largest discrepancy."""
    client, label = case.client[case.worst], case.label[case.worst]
    return simulated[(simulated["client"] == client) & (simulated["label"] == label)]


def by_size(case: Case, simulated: pd.DataFrame, rule: str) -> pd.DataFrame:
    """Return the rows of a rule's caches of all sizes: FIFO's when full, DRSR's in a late round."""
    own = simulated[(simulated["rule"] == rule) & simulated["cache_rounds"].isin(case.sizes)]
    return own[own["round"] == (own["cache_rounds"] if rule == "fifo" else max(case.sizes))]


def _simulated_over_time(case: Case, simulated: pd.DataFrame) -> dict[str, tuple]:
    """Return rule -> mean, error and expectation of the sum over clients, in five rounds."""
    checked = np.unique(np.linspace(case.cache_rounds + 1, case.rounds, 5).astype(int))
    sums = simulated[(simulated["client"] < 0) & (simulated["cache_rounds"] == case.cache_rounds)]
    exact = {"fifo": case.fifo, "srsr": case.srsr, "drsr": case.drsr}
    found = {}
    for rule, values in exact.items():
        part = sums[(sums["rule"] == rule) & sums["round"].isin(checked)]
        expected = values[checked - 1].sum(axis=1)
        found[rule] = (part["mean"], part["standard_error"], expected)
    return found


def _simulated_sizes(case: Case, simulated: pd.DataFrame, rule: str) -> tuple:
    """Return mean, standard error and expectation of the sum over clients, by cache size."""
    rows = by_size(case, simulated, rule)
    rows = rows[rows["client"] < 0]
    if rule == "fifo":
        at = [case.sizes.index(m) for m in rows["cache_rounds"]]
        expected = case.fifo_by_size[at].sum(axis=1)
    else:
        expected = exact_discrepancy(case.stream, "drsr", max(case.sizes), cache_rounds=1).sum()
    return rows["mean"], rows["standard_error"], expected


def _forgets_exactly(case: Case) -> dict[str, tuple]:
    """Return rule -> values and bounds for shares that remember exactly 1, 2 and 4 rounds."""
    found: dict[str, list] = {"fifo": [], "srsr": [], "drsr": []}
    how = {"cache_rounds": case.cache_rounds}
    for g in (1, 2, 4):
        source = streams.moving_average_stream(g)
        spread = source.autocovariance(0).max()
        for m in (m for m in case.sizes if m > 1):
            value = exact_discrepancy(source, "fifo", m, cache_rounds=m).max()
            found["fifo"].append((value, bounds.fifo_discrepancy(m, g, spread)))
        for s in map(int, FAR):
            short = exact_discrepancy(source, "srsr", s, theta=case.theta, **how).max()
            bound = bounds.srsr_discrepancy(s, case.cache_rounds, case.theta, g, spread, 0.5)
            found["srsr"].append((short, bound))
            value = exact_discrepancy(source, "drsr", s, **how).max()
            found["drsr"].append((value, (2 * g + 1) * spread / s))
    return {rule: tuple(np.array(pairs).T) for rule, pairs in found.items()}
