"""Notebook 11, SFL's Propositions 1 to 3 and Corollary 1: exact, simulated, bound.

Source: SFL, Section IV-B and its supplement. Expectations are those of `sflkit.sfl.discrepancy`,
for exact counts. "Pairs" are the (client, label) pairs with a share above 0. In the pictures exact
expectations have the look of their cache rule, bounds are black and dotted, printed bounds that
fail are dashed, and simulated caches are black dots with 95 % intervals.

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
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd

from companion import figures
from companion.notebooks import sfl_shared
from companion.plans import Stage
from sflkit.sfl import bounds, discrepancy, streams
from sflkit.sfl.discrepancy import (
    DiscrepancyConfig,
    correlation_rounds,
    exact_discrepancy,
    exact_path,
)
from sflkit.sfl.streams import LabelStream

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def discrepancy_bounds(
    *, sizes: list[int], parts: int, **settings: Any
) -> Generator[Stage, pd.DataFrame, pd.DataFrame]:
    """Notebook 11: four rules over rounds, FIFO and DRSR over cache sizes."""
    config = DiscrepancyConfig(**settings)
    configs = [replace(config, rule=rule) for rule in discrepancy.RULES]
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

    def exact(self, rule: str, t: int, cache_rounds: int | None = None, **how: Any) -> np.ndarray:
        """Return E[(v_t - pi)^2] of each pair, (n_pairs,)."""
        size = self.cache_rounds if cache_rounds is None else cache_rounds
        found = exact_discrepancy(self.stream, rule, int(t), cache_rounds=size, **how)
        return found[self.client, self.label]

    def _path(self, rule: str, theta: float | None = None) -> np.ndarray:
        """Return E[(v_t - pi)^2] of each pair over rounds, (T, n_pairs)."""
        how = {"cache_rounds": self.cache_rounds, "theta": theta}
        return exact_path(self.stream, rule, self.rounds, **how)[:, self.client, self.label]

    @cached_property
    def fifo(self) -> np.ndarray:
        """FIFO over rounds (T, n_pairs); before the cache is full it holds the mean of t rounds."""
        return self._path("fifo")

    @cached_property
    def fifo_by_size(self) -> np.ndarray:
        """FIFO's full cache by size (n_sizes, n_pairs)."""
        return np.array([self.exact("fifo", m, m) for m in self.sizes])

    @cached_property
    def srsr(self) -> np.ndarray:
        """SRSR by (12), from an empty cache, over rounds (T, n_pairs)."""
        return self._path("srsr", self.theta)

    @cached_property
    def srsr_bound(self) -> np.ndarray:
        """The bound (13) over rounds (T, n_pairs)."""
        how = (self.cache_rounds, self.theta, self.gamma, self.delta2)
        return np.stack([bounds.srsr_discrepancy(self.t, *how, pi) for pi in self.shares], axis=1)

    @cached_property
    def filled(self) -> np.ndarray:
        """SRSR of a cache that is first filled with what arrives, over rounds (T, n_pairs)."""
        return self._path("srsr_filled", self.theta)

    @cached_property
    def fifo_bound(self) -> float:
        """Proposition 1 for a full cache."""
        return bounds.fifo_discrepancy(self.cache_rounds, self.gamma, self.delta2)

    @cached_property
    def filled_bound(self) -> np.ndarray:
        """Our bound for the filled start, for t > M: (13) with Prop. 1 in place of pi^2."""
        # only (pi - v_0)^2 enters, so share 0 and start sqrt(Prop. 1) will do
        return bounds.srsr_discrepancy(
            self.t[self.cache_rounds :] - self.cache_rounds,
            self.cache_rounds,
            self.theta,
            self.gamma,
            self.delta2,
            share=0.0,
            start=self.fifo_bound**0.5,
        )

    @cached_property
    def drsr(self) -> np.ndarray:
        """DRSR over rounds (T, n_pairs)."""
        return self._path("drsr")

    @cached_property
    def drsr_far(self) -> np.ndarray:
        """DRSR in the rounds FAR, (len(FAR), n_pairs)."""
        return np.stack([self.exact("drsr", s) for s in FAR])

    @cached_property
    def worst(self) -> int:
        """The pair with FIFO's largest discrepancy, which the pictures show."""
        return int(np.argmax(self.fifo[-1]))


def two_speed_stream() -> LabelStream:
    """Return a two-label stream whose correlation is 0.96 * 0.2^tau + 0.04 * 0.999^tau."""
    fast, slow = (np.array([[1 + r, 1 - r], [1 - r, 1 + r]]) / 2 for r in (0.2, 0.999))
    steps = [-1, 1] * np.sqrt([0.96 * 0.04] * 2), [-1, 1] * np.sqrt([0.04 * 0.04] * 2)
    share = 0.5 + np.add.outer(*steps).ravel()
    return LabelStream([np.stack([share, 1 - share], axis=1)], [np.kron(fast, slow)])


def two_speeds(sizes: Sequence[int] = (1, 3, 10, 30, 100, 300, 1000)) -> pd.DataFrame:
    """Return FIFO's discrepancy on `two_speed_stream` by cache size, in units of delta^2.

    The bounds are Proposition 1 with Gamma = 2, where the correlation first falls below 0.05, and
    with the integrated correlation.
    """
    stream = two_speed_stream()
    delta2 = stream.autocovariance(0).max()
    exact = [exact_discrepancy(stream, "fifo", m, cache_rounds=m).max() / delta2 for m in sizes]
    safe = [bounds.fifo_discrepancy(m, correlation_rounds(stream, m)[0], 1) for m in sizes]
    cut = [bounds.fifo_discrepancy(m, 2, 1) for m in sizes]
    return pd.DataFrame(
        {"M": sizes, "exact": exact, "bound, cut": cut, "bound, integrated": safe},
    )


class Rare(NamedTuple):
    """A label with pi = 0.02 in independent rounds, SRSR over 120 rounds.

    `empty` is the exact discrepancy from an empty cache (n_rounds,); the frame has columns t,
    exact, "bound as printed" and "bound with (v_0 - pi)^2" for a cache that starts full of it.
    """

    share: float
    empty: np.ndarray
    full: pd.DataFrame


def rare_label(case: Case) -> Rare:
    """Return what Proposition 2 says of a rare label, at the cache of `case`."""
    stream = LabelStream([[[0.0, 1.0], [0.1, 0.9]]], [[[0.8, 0.2], [0.8, 0.2]]])
    share, delta2 = stream.long_term[0, 0], stream.autocovariance(0)[0, 0]
    size, theta = case.cache_rounds, case.theta
    t = np.arange(1, 121)
    how = {"cache_rounds": size, "theta": theta}
    empty = np.array([exact_discrepancy(stream, "srsr", int(s), **how)[0, 0] for s in t])
    full = empty + (1 - theta / size) ** (2 * t) * ((1 - share) ** 2 - share**2)  # v_0 = 1
    printed, mended = (
        bounds.srsr_discrepancy(t, size, theta, 0, delta2, share, start=v0) for v0 in (0.0, 1.0)
    )
    frame = {
        "t": t,
        "exact": full,
        "bound as printed": printed,
        "bound with (v_0 - pi)^2": mended,
    }
    return Rare(share, empty, pd.DataFrame(frame))


class LongRun(NamedTuple):
    """SRSR for t to infinity.

    Attributes
    ----------
    exact : array (n_thetas, n_pairs)
    bound : array (n_thetas,)
        The limit L of (13).
    largest : array (n_pairs,)
        The largest theta for which the bound falls over t.
    falling : list of arrays (T,)
        The bound of each pair at that theta.
    rare_largest : float
        The same for a label with pi = 0.02; Gamma and delta^2 are those of the whole network.
    rare_small, rare_paper : arrays (120,)
        The bound of that label for a quarter of it, and for theta = 2/3.
    """

    exact: np.ndarray
    bound: np.ndarray
    largest: np.ndarray
    falling: list[np.ndarray]
    rare_largest: float
    rare_small: np.ndarray
    rare_paper: np.ndarray


def long_run(case: Case, rare: Rare) -> LongRun:
    """Return the long run of SRSR for all THETAS."""
    size, numbers = case.cache_rounds, (case.gamma, case.delta2)
    enough = [int(np.ceil(10 / (theta / size))) for theta in THETAS]  # x^(2t) < exp(-20)
    pairs = list(zip(enough, THETAS, strict=True))
    exact = np.stack([case.exact("srsr", n, theta=theta) for n, theta in pairs])
    bound = np.array([bounds.srsr_discrepancy_limit(size, theta, *numbers) for theta in THETAS])
    grid = np.geomspace(1e-5, 1, 501)
    limits = np.array([bounds.srsr_discrepancy_limit(size, theta, *numbers) for theta in grid])
    largest = np.array([grid[limits < 2 * pi**2].max() for pi in case.shares])
    rare_largest = grid[limits < 2 * rare.share**2].max()
    falling = [
        bounds.srsr_discrepancy(case.t, size, theta, *numbers, pi)
        for theta, pi in zip(largest, case.shares, strict=True)
    ]
    t = rare.full["t"].to_numpy()
    small, paper = (
        bounds.srsr_discrepancy(t, size, theta, *numbers, rare.share)
        for theta in (rare_largest / 4, 2 / 3)
    )
    return LongRun(exact, bound, largest, falling, rare_largest, small, paper)


class Speed(NamedTuple):
    """How fast SRSR gets to its limit.

    `paths` is (start, theta) -> exact discrepancy (n_rounds, n_pairs), `settled` start -> rounds
    until every later one is within a tenth of the limit (n_thetas - 1, n_pairs), for the starts
    "srsr" (empty) and "srsr_filled" and all THETAS but the first; `large` is the limit's largest
    value over pairs for M = 1, 10, 100, 1000.
    """

    paths: dict[tuple[str, float], np.ndarray]
    settled: dict[str, np.ndarray]
    large: list[float]


def speed(case: Case, limits: np.ndarray) -> Speed:
    """Follow SRSR for many rounds; `limits` (n_thetas, n_pairs) are those of `long_run`."""
    starts = "srsr", "srsr_filled"
    how = {"cache_rounds": case.cache_rounds}
    paths = {
        (rule, theta): exact_path(case.stream, rule, _SETTLING, theta=theta, **how)[
            :, case.client, case.label
        ]
        for rule in starts
        for theta in THETAS[1:]
    }
    settled = {}
    for rule in starts:
        off = [
            np.abs(paths[rule, theta] / end - 1) > 0.1
            for theta, end in zip(THETAS[1:], limits[1:], strict=True)
        ]
        settled[rule] = np.array([_SETTLING - np.argmax(far[::-1], axis=0) + 1 for far in off])
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
    rare: Rare,
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
    size_bound = [
        [bounds.fifo_discrepancy(m, case.gamma, case.delta2)] for m in case.sizes if m > 1
    ]
    capped = bounds.drsr_discrepancy(FAR, case.gamma, case.delta2)
    printed = (2 * case.gamma + 1) * case.delta2 / FAR
    slope = np.log(case.drsr_far[-1] / case.drsr_far[-2]) / np.log(FAR[-1] / FAR[-2])
    slower = {rule: np.diff(rounds, axis=0) < 0 for rule, rounds in pace.settled.items()}
    full = rare.full
    # SRSR's targets over B: the old cache's part and the arrivals', for theta < 1 and B_s / B <= 1
    theta, share = np.meshgrid(np.arange(1, 10) / 10, np.arange(1, 11) / 10)
    whole = np.ones_like(theta)
    return {
        "sfl-prop1": {
            "moving average": coin["fifo"],
            "every size": np.broadcast_arrays(case.fifo_by_size[larger], np.array(size_bound)),
            "two speeds": (beyond["exact"].to_numpy(), beyond["bound, integrated"].to_numpy()),
            "over time": over_time["fifo"],
            "sizes": _simulated_sizes(case, simulated, "fifo"),
            "cut": (beyond["exact"].to_numpy(), beyond["bound, cut"].to_numpy()),
        },
        "sfl-prop2": {
            "targets printed": (1 - share + theta * share, whole),
            "targets": (1 - theta * share + theta * share, whole),
            "moving average": coin["srsr"],
            "empty start": (case.srsr, case.srsr_bound),
            "simulated": over_time["srsr"],
            "filled start": (case.filled, case.srsr_bound),
            "filled start simulated": over_time["srsr_filled"],
            "full start": (full["exact"].to_numpy(), full["bound as printed"].to_numpy()),
            "full start, v0": (
                full["exact"].to_numpy(),
                full["bound with (v_0 - pi)^2"].to_numpy(),
            ),
        },
        "sfl-theta": {
            "slower": bool(slower["srsr"].all()),
            "lower": bool((np.diff(limit.exact, axis=0) > 0).all()),
            "large cache": bool(
                (np.diff(pace.large) < 0).all() and pace.large[-1] < 0.01 * case.delta2
            ),
            "filled start": bool(slower["srsr_filled"].all()),
        },
        "sfl-cor1": {
            "limit": np.broadcast_arrays(limit.exact, limit.bound[:, None]),
            "small theta": all(
                bool((np.diff(b) < 0).all()) for b in [*limit.falling, limit.rare_small]
            ),
            "paper's theta": bool((np.diff(limit.rare_paper) < 0).all()),
        },
        "sfl-prop3": {
            "moving average": coin["drsr"],
            "bound": np.broadcast_arrays(case.drsr_far, printed[:, None]),
            "rate": slope[np.argmax(np.abs(slope + 1))],
            "over time": over_time["drsr"],
            "sizes": _simulated_sizes(case, simulated, "drsr"),
            # at t = 1 it is delta^2 by definition
            "cap": np.broadcast_arrays(case.drsr_far[1:], capped[1:, None]),
        },
    }


def full_caches(case: Case, simulated: pd.DataFrame) -> pd.DataFrame:
    """Return the simulated rows of FIFO's caches of all sizes, when they are full."""
    return simulated[
        (simulated["rule"] == "fifo")
        & (simulated["round"] == simulated["cache_rounds"])
        & simulated["cache_rounds"].isin(case.sizes)
    ]


def late_drsr(case: Case, simulated: pd.DataFrame) -> pd.DataFrame:
    """Return the simulated rows of DRSR by cache size, in the round of the largest size."""
    return simulated[
        (simulated["rule"] == "drsr")
        & (simulated["round"] == max(case.sizes))
        & simulated["cache_rounds"].isin(case.sizes)
    ]


def _simulated_over_time(case: Case, simulated: pd.DataFrame) -> dict[str, tuple]:
    """Return rule -> mean, error and expectation of the sum over clients, in five rounds."""
    checked = np.unique(np.linspace(case.cache_rounds + 1, case.rounds, 5).astype(int))
    sums = simulated[(simulated["client"] < 0) & (simulated["cache_rounds"] == case.cache_rounds)]
    exact = {"fifo": case.fifo, "srsr": case.srsr, "srsr_filled": case.filled, "drsr": case.drsr}
    found = {}
    for rule, values in exact.items():
        part = sums[(sums["rule"] == rule) & sums["round"].isin(checked)]
        expected = values[checked - 1].sum(axis=1)
        found[rule] = (part["mean"], part["standard_error"], expected)
    return found


def _simulated_sizes(case: Case, simulated: pd.DataFrame, rule: str) -> tuple:
    """Return mean, standard error and expectation of the sum over clients, by cache size."""
    rows = {"fifo": full_caches, "drsr": late_drsr}[rule](case, simulated)
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


_BOUND: dict[str, Any] = {"color": "black", "linestyle": ":"}
_PRINTED: dict[str, Any] = {"color": "#CC79A7", "linestyle": "--"}
_LOGS = {"xscale": "log", "yscale": "log"}


def fifo(axes: Sequence[Axes], case: Case, simulated: pd.DataFrame, two: pd.DataFrame) -> None:
    """Draw Proposition 1: over rounds, over cache sizes, and on a stream of two speeds."""
    look, worst = sfl_shared.line("fifo"), case.worst
    own = _worst_pair(case, simulated)
    axes[0].plot(case.t, case.fifo[:, worst], **look, label="exact")
    rows = own[(own["rule"] == "fifo") & (own["cache_rounds"] == case.cache_rounds)].iloc[4::5]
    _dots(axes[0], rows, "round", label="simulated")
    axes[0].axhline(case.fifo_bound, **_BOUND, label="bound (Prop. 1)")
    axes[0].axvspan(0, case.cache_rounds, color="gray", alpha=0.15, linewidth=0)
    axes[0].text(case.cache_rounds / 2, 0.0005, "not\nyet full", ha="center", va="bottom")
    axes[0].set(xlabel="round t", ylabel="discrepancy (squared share)", ylim=(0, None))
    axes[0].set_title(f"M = {case.cache_rounds}")
    axes[0].legend(loc="upper right")
    axes[1].plot(case.sizes, case.fifo_by_size[:, worst], **look)
    _dots(axes[1], _worst_pair(case, full_caches(case, simulated)), "cache_rounds")
    limit = [bounds.fifo_discrepancy(m, case.gamma, case.delta2) for m in case.sizes]
    axes[1].plot(case.sizes, limit, **_BOUND)
    axes[1].set(**_LOGS, xlabel="cache size M (rounds)", ylim=(1e-3, 1e-1))
    axes[1].set_title("larger caches, t = M")
    axes[2].plot(two["M"], two["exact"], **look)
    axes[2].plot(two["M"], two["bound, integrated"], **_BOUND, label=r"integrated $\Gamma$")
    axes[2].plot(two["M"], two["bound, cut"], **_PRINTED, label=r"$\Gamma$ cut at 0.05")
    axes[2].set(**_LOGS, xlabel="cache size M (rounds)", ylabel=r"discrepancy / $\delta^2$")
    axes[2].set_title("two-speed stream")
    axes[2].legend(loc="lower left")


def srsr(axes: Sequence[Axes], case: Case, simulated: pd.DataFrame, rare: Rare) -> None:
    """Draw Proposition 2 for three starts: empty, filled, and full of a rare label."""
    look, own = sfl_shared.line("srsr"), _worst_pair(case, simulated)
    own = own[own["cache_rounds"] == case.cache_rounds]
    late = case.t[case.cache_rounds :]
    starts = (
        ("srsr", case.srsr, case.srsr_bound[:, case.worst], case.t, "empty start, as printed"),
        ("srsr_filled", case.filled, case.filled_bound, late, "filled start, as implemented"),
    )
    for ax, (rule, exact, bound, when, title) in zip(axes, starts, strict=False):
        ax.plot(case.t, exact[:, case.worst], **look, label="exact")
        _dots(ax, own[own["rule"] == rule].iloc[4::5], "round", label="simulated caches")
        ax.plot(when, bound, **_BOUND, label="bound")
        ax.set(xlabel="round t", yscale="log", title=title, ylim=(1e-3, 1))
    axes[0].set(ylabel="discrepancy (squared share)")
    axes[0].legend()
    full = rare.full
    axes[2].plot(full["t"], full["exact"], **look)
    mended = full["bound with (v_0 - pi)^2"]
    axes[2].plot(full["t"], mended, **_BOUND, label=r"with $(v_0-\pi)^2$")
    axes[2].plot(full["t"], full["bound as printed"], **_PRINTED, label=r"as printed, $\pi^2$")
    axes[2].set(xlabel="round t", yscale="log", title=r"starts full of a label, $\pi$ = 0.02")
    axes[2].legend()


def draw_long_run(
    axes: Sequence[Axes], case: Case, simulated: pd.DataFrame, rare: Rare, found: LongRun
) -> None:
    """Draw Corollary 1: the limit by theta, a rare label, and where the bound says nothing."""
    look = sfl_shared.line("srsr")
    low, high = found.exact.min(axis=1), found.exact.max(axis=1)
    shade = {"color": look["color"], "alpha": 0.25, "linewidth": 0}
    axes[0].fill_between(THETAS, low, high, **shade, label="exact, all labels")
    axes[0].plot(THETAS, found.bound, **_BOUND, marker="o", markersize=4, label="limit bound $L$")
    last = simulated[(simulated["rule"] == "srsr_filled") & (simulated["round"] == case.rounds)]
    last = last[last["client"] >= 0]
    text = f"simulated, t = {case.rounds}"
    axes[0].plot([case.theta] * len(last), last["mean"], "k_", markersize=9, label=text)
    axes[0].set(**_LOGS, xlabel=r"weight of new data $\theta$")
    axes[0].set(ylabel="discrepancy (squared share)", title=f"Corollary 1: M = {case.cache_rounds}")
    t, small = rare.full["t"], found.rare_largest / 4
    axes[1].plot(t, found.rare_paper, **_PRINTED, label=r"bound, $\theta$ = 2/3")
    axes[1].plot(t, found.rare_small, **_BOUND, label=rf"bound, $\theta$ = {small:.2f}")
    axes[1].plot(t, rare.empty, **look, label=r"exact, $\theta$ of the run")
    axes[1].set(xlabel="round t", title=r"a rare label, $\pi$ = 0.02", ylim=(0, None))
    ratio = np.linspace(0.05, 0.99, 95)
    limit = [bounds.srsr_discrepancy_limit(1, r, 1, 1) for r in ratio]
    axes[2].plot(ratio, limit, **_BOUND, label=r"$L/\delta^2$, $\Gamma$ = 1")
    axes[2].axhline(1, color="gray", linewidth=1, label="one round, no averaging")
    axes[2].set(xlabel=r"weight of a round $\theta/M$", yscale="log", title="bound without limit")
    axes[0].set_ylim(top=0.1)
    axes[2].set_ylim(top=2000)
    for ax in axes:
        ax.legend(fontsize=8)


def draw_speed(axes: Sequence[Axes], case: Case, found: Speed) -> None:
    """Draw how fast SRSR gets to its limit: two starts over rounds, and the rounds it takes."""
    starts = {"empty start, (12)": "srsr", "filled by appending": "srsr_filled"}
    for ax, (text, rule) in zip(axes, starts.items(), strict=False):
        for i, theta in enumerate(THETAS[[1, 2, 4, 5]]):
            path = found.paths[rule, theta][:, case.worst]
            look = figures.series_style(None, i) | {"marker": "None"}
            ax.plot(np.arange(1, len(path) + 1), path, **look, label=rf"$\theta$ = {theta:.2g}")
        ax.set(**_LOGS, xlabel="round t", title=text, ylim=(1e-4, 0.3))
        axes[2].plot(THETAS[1:], found.settled[rule].max(axis=1), marker="o", label=text)
    axes[0].set(ylabel="exact discrepancy")
    axes[2].set(**_LOGS, xlabel=r"weight of new data $\theta$")
    axes[2].set_title("rounds to its limit (± 10 %)")
    axes[0].legend()
    axes[2].legend(loc="lower left", fontsize=8)
    axes[2].set_ylim(bottom=5)


def drsr(axes: Sequence[Axes], case: Case, simulated: pd.DataFrame) -> None:
    """Draw Proposition 3: over rounds, and over cache sizes beside FIFO and SRSR."""
    own = _worst_pair(case, simulated)
    own = own[(own["rule"] == "drsr") & (own["cache_rounds"] == case.cache_rounds)]
    axes[0].plot(case.t, case.drsr[:, case.worst], **sfl_shared.line("drsr"), label="DRSR, exact")
    some = [0, 1, 2, 4, 6, *range(9, case.rounds, 10)]
    _dots(axes[0], own.iloc[some], "round", label="simulated caches")
    capped = bounds.drsr_discrepancy(case.t, case.gamma, case.delta2)
    axes[0].plot(case.t, capped, **_BOUND, label="bound with the cap")
    printed = (2 * case.gamma + 1) * case.delta2 / case.t[:6]
    axes[0].plot(case.t[:6], printed, **_PRINTED, label="bound as printed")
    axes[0].set(**_LOGS, xlabel="round t", ylabel="discrepancy (squared share)")
    axes[0].set(title=f"over rounds, M = {case.cache_rounds}", ylim=(1e-3, 1e-1))
    horizon = max(case.sizes)
    for rule, key, how in (
        ("fifo", "fifo", {}),
        ("srsr", "srsr_filled", {"theta": case.theta}),
        ("drsr", "drsr", {}),
    ):
        exact = [case.exact(key, horizon, m, **how)[case.worst] for m in case.sizes]
        look = sfl_shared.line(rule)
        axes[1].plot(case.sizes, exact, **look, label=f"{sfl_shared.label(rule)}, exact")
    rows = _worst_pair(case, late_drsr(case, simulated))
    _dots(axes[1], rows, "cache_rounds", label="DRSR, simulated")
    axes[1].set(**_LOGS, xlabel="cache size M (rounds)")
    axes[1].set(title=f"over cache sizes, t = {horizon}", ylim=(1e-3, 1e-1))
    for ax in axes:
        ax.legend()


def _dots(ax: Axes, rows: pd.DataFrame, x: str, **options: Any) -> None:
    half = 1.96 * rows["standard_error"]
    ax.errorbar(rows[x], rows["mean"], half, fmt="o", color="black", **options)


def _worst_pair(case: Case, simulated: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of the client and label with FIFO's largest discrepancy."""
    client, label = case.client[case.worst], case.label[case.worst]
    return simulated[(simulated["client"] == client) & (simulated["label"] == label)]
