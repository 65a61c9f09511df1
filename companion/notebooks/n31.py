"""Notebook 31, a client's resources: what is computed, the evidence for its claims.

Source: OSAFL, Section II-C (problem (5), Lemmas 1 and 2, Algorithms 1 and 3), Section V-A (Fig. 3),
Appendix B (Algorithm 4), with ERRATA 34 to 36. A *fleet* is all clients of a seed in all rounds,
one long row, since a client's answer depends on nobody else's; a *share* is that of its largest
power with which the alternation starts; a *straggler* is a client for which an allocation finds no
step within its energy and deadline.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from companion.judging import tables
from companion.judging.claims import Undecided
from sflkit.osafl import allocation, alternation, channels, networks
from sflkit.osafl.devices import Devices, Link, costs
from sflkit.randomness import generator

Evidence = dict[str, Any]
NETWORKS = tuple(networks.SIZES)
SHARES = (1.0, 0.1, 0.01)
SAMPLE_BITS = 101_376  # of Dataset-1
_SLACK = 1 + 1e-9  # a limit met up to rounding is met


def links() -> dict[str, Link]:
    """Return the link of each network, by its payload."""
    return {name: Link(networks.SIZES[name].payload_bits) for name in NETWORKS}


def draw_fleet(
    seed: int, n_clients: int, rounds: int, *, radius_m: float, shadowing_db: float
) -> Devices:
    """Draw places and hardware once, shadowing in every round: (rounds * n_clients,) devices."""
    distance = channels.draw_distances(n_clients, generator(seed, "channel", 0), radius_m=radius_m)
    rngs = (generator(seed, "channel", 1, t) for t in range(rounds))
    shadow = [channels.draw_shadowing_db(n_clients, rng, sigma_db=shadowing_db) for rng in rngs]
    hardware = channels.draw_devices(n_clients, generator(seed, "data"), snr=1.0)
    snr = channels.snr_per_watt(distance, np.array(shadow)).ravel()
    everyone = np.tile(np.arange(n_clients), rounds)
    return dataclasses.replace(take(hardware, everyone), snr_per_watt=snr)


def take(devices: Devices, which: Any) -> Devices:
    """Return some of the devices, by a mask, a slice or indices."""
    fields = dataclasses.fields(devices)
    return Devices(**{field.name: getattr(devices, field.name)[which] for field in fields})


# --- one client -----------------------------------------------------------------------------------


def middling(distance_m: float = 450.0, energy_budget_j: float = 1.8) -> Devices:
    """Return a client of middling hardware: 32.5 cycles per bit, 1.4 GHz, 25 dBm, no shadowing."""
    cycles = 160 * SAMPLE_BITS * 32.5
    return Devices(channels.snr_per_watt(distance_m), cycles, energy_budget_j, 1.4e9, 10**-0.5)


# --- problem (5) ----------------------------------------------------------------------------------


def lowest_frequency(devices: Devices, link: Link, steps: Any, power: np.ndarray) -> np.ndarray:
    """Return Lemma 2's frequency in Hz for `power` in W, the lowest that meets the deadline.

    It is NaN where power and steps do not fit into a round. Steps and power are numbers or arrays
    (..., n_clients).
    """
    with np.errstate(divide="ignore"):
        cpu = alternation.lemma2(devices, link, steps, power)
    spent = costs(devices, link, steps, np.maximum(cpu, 0), power)
    within = spent.compute_j + spent.uplink_j <= devices.energy_budget_j
    return np.where((cpu > 0) & (cpu <= devices.max_cpu_hz) & within, cpu, np.nan)


def values_by_steps(devices: Devices, link: Link, weight: float, grid: int) -> np.ndarray:
    """Return the best value of (5) for 1 to 5 whole steps by brute force, (5, n_clients).

    The power runs over a grid, the frequency is Lemma 2's; 0 stands for steps that do not fit.
    """
    wide = np.geomspace(1e-5, 1, grid)[:, None] * devices.max_tx_watt
    best = np.zeros((link.max_steps, len(devices)))
    for i in range(link.max_steps):
        cpu = lowest_frequency(devices, link, i + 1.0, wide)
        fits, cpu = np.isfinite(cpu), np.nan_to_num(cpu, nan=1)
        value = alternation.objective(devices, link, i + 1.0, cpu, wide, weight=weight).total
        best[i] = np.where(fits, value, 0).max(axis=0)
    return best


def between(link: Link) -> tuple[float, float, bool]:
    """Return (5) halfway between two choices of a near client, the mean of theirs, and if allowed.

    One step at a fifth of the largest power, at the largest frequency and at half of it.
    """
    client = middling(100.0)
    power = client.max_tx_watt / 5
    cpu = client.max_cpu_hz * np.array([1.0, 0.75, 0.5])
    many = take(client, np.zeros(3, dtype=int))
    value = alternation.objective(many, link, 1.0, cpu, np.repeat(power, 3), weight=0.5).total
    allowed = bool(_within(many, link, 1.0, cpu, np.repeat(power, 3)).all())
    return float(value[1]), float((value[0] + value[2]) / 2), allowed


class Answers(NamedTuple):
    """A sub-problem's answers: whether they are feasible, and the best of the grid over them."""

    feasible: np.ndarray
    ratio: np.ndarray


def sub_problems(
    devices: Devices, link: Link, share: float, weight: float, points: int
) -> dict[str, Answers]:
    """Hold Lemma 1, Lemma 2 and Algorithm 3 against a grid of `points` values, for every client.

    Clients are those that have steps at all; Algorithm 3 gets a frequency 1.2 times Lemma 2's, as
    otherwise there is no freedom for the power.
    """
    history = alternation.alternate(devices, link, start=alternation.Start(1.0, share))
    on = history.local_steps[-1] > 0.05
    some, fine = take(devices, on), np.linspace(0, 1, points)[:, None]
    cpu0, tx0 = history.cpu_hz[0][on], history.tx_watt[0][on]
    kappa1 = alternation.lemma1(some, link, cpu0, tx0)
    cpu1 = alternation.lemma2(some, link, kappa1, tx0)
    slack = np.minimum(1.2 * cpu1, some.max_cpu_hz)
    tx1 = alternation.algorithm3(some, link, kappa1, slack, tx0)
    trials = {
        "Lemma 1": ((5 * fine, cpu0, tx0), (kappa1, cpu0, tx0)),
        "Lemma 2": ((kappa1, 1e3 + fine * some.max_cpu_hz, tx0), (kappa1, cpu1, tx0)),
        "Algorithm 3": ((kappa1, slack, 1e-9 + fine * some.max_tx_watt), (kappa1, slack, tx1)),
    }
    found = {}
    for name, (tried, answer) in trials.items():
        of_grid = _allowed_value(some, link, np.broadcast_arrays(*tried), weight)
        ours = _allowed_value(some, link, answer, weight)
        found[name] = Answers(np.isfinite(ours), of_grid.max(axis=0) / ours)
    return found


def _allowed_value(devices: Devices, link: Link, choices: Sequence, weight: float) -> np.ndarray:
    """Return the value of (5), minus infinity where a limit is broken."""
    steps, cpu, tx = choices
    ok = _within(devices, link, steps, cpu, tx)
    ok &= (cpu <= devices.max_cpu_hz * _SLACK) & (tx <= devices.max_tx_watt * _SLACK)
    total = alternation.objective(devices, link, steps, cpu, tx, weight=weight).total
    return np.where(ok, total, -np.inf)


def _within(
    devices: Devices, link: Link, steps: np.ndarray, cpu: np.ndarray, tx: np.ndarray
) -> np.ndarray:
    """Return whether deadline and energy are kept, up to rounding."""
    paid = costs(devices, link, steps, cpu, tx)
    in_time = paid.compute_s + paid.uplink_s <= link.deadline_s * _SLACK
    return in_time & (paid.compute_j + paid.uplink_j <= devices.energy_budget_j * _SLACK)


# --- Algorithms 1 and 4 ---------------------------------------------------------------------------


class Alternated(NamedTuple):
    """What the alternation does with one solver, for the CNN.

    Attributes
    ----------
    table : DataFrame, one row per start of `SHARES`
        Of the first fleet: clients, stragglers, "power moves" (share of those with steps whose
        power ends more than 1 % from the start), "limits kept" (by all who take part).
    by_start : DataFrame
        The value of (5) over the best one, by start and epsilon, see `by_start_and_weight`.
    """

    table: pd.DataFrame
    by_start: pd.DataFrame


def alternated(fleets: Sequence[Devices], n_clients: int, *, solver: str) -> Alternated:
    """Run the alternation for the first `n_clients` of the first round.

    Parameters
    ----------
    fleets : sequence of Devices
        One per seed; all but `by_start` is about the first.
    n_clients : int
    solver : {"closed", "cvxpy"}
        Algorithm 1 in closed form, or Algorithm 4 with cvxpy.
    """
    link = links()["CNN"]
    group = take(fleets[0], slice(n_clients))
    rows = []
    for share in SHARES:
        start = alternation.Start(1.0, share)
        history = alternation.alternate(group, link, start=start, solver=solver)
        whole = alternation.whole_steps(group, link, history)
        kept = _within(group, link, whole.local_steps, whole.cpu_hz, whole.tx_watt)
        kept &= (whole.cpu_hz <= group.max_cpu_hz) & (whole.tx_watt <= group.max_tx_watt)
        moved = np.abs(history.tx_watt[-1] / history.tx_watt[0] - 1) > 0.01
        live = history.local_steps[-1] > 0
        row = {
            "solver": solver,
            "start p/p_max": share,
            "clients": n_clients,
            "stragglers": int((~whole.feasible).sum()),
            "power moves": moved[live].mean() if live.any() else 0.0,
            "limits kept": bool(kept[whole.feasible].all()),
        }
        rows.append(row)
    return Alternated(pd.DataFrame(rows), by_start_and_weight(fleets, n_clients))


# From which shares of p_max, and with which epsilon of (5), `by_start_and_weight` begins; the
# paper states neither.
STARTS = (1.0, 0.3, 0.1, 0.03, 0.01, 1e-3, 1e-4, 1e-5)
WEIGHTS = (0.5, 0.99, 0.9999, 1.0)


def by_start_and_weight(
    fleets: Sequence[Devices],
    n_clients: int,
    *,
    starts: Sequence[float] = STARTS,
    weights: Sequence[float] = WEIGHTS,
    grid: int = 60,
) -> pd.DataFrame:
    """Return how much of the best value of (5) Algorithm 1 reaches, by start and epsilon.

    Parameters
    ----------
    fleets : sequence of Devices
        One per seed, of which the first `n_clients` of the first round count.
    n_clients : int
    starts : sequence of float
        Shares of the largest power with which the alternation begins.
    weights : sequence of float
        Values of epsilon, in (0, 1]. One term of (5) counts steps per J and the other bit per J, so
        that epsilon = 0.5 does not weigh them alike: see `sending`.
    grid : int
        Powers of the brute-force search.

    Returns
    -------
    DataFrame, one row per seed, network, start and epsilon
        seed (index of the fleet), network, start, epsilon; `reached`: value over the best one with
        whole steps, median over the clients that take part (NaN if there are none); `part`: the
        share of clients that do; `sending`: the weighted uplink term over the weighted computing
        term, median, at the end.
    """
    rows = []
    for seed, fleet in enumerate(fleets):
        some = take(fleet, slice(n_clients))
        for name, link in links().items():
            best = {w: values_by_steps(some, link, w, grid).max(axis=0) for w in weights}
            for start in starts:
                history = alternation.alternate(some, link, start=alternation.Start(1.0, start))
                whole = alternation.whole_steps(some, link, history)
                able = whole.feasible
                at = whole.local_steps[able], whole.cpu_hz[able], whole.tx_watt[able]
                for w in weights:
                    value = alternation.objective(take(some, able), link, *at, weight=w)
                    terms = (1 - w) * value.sending / (w * value.computing)
                    row = {"seed": seed, "network": name, "start": start, "epsilon": w}
                    row["reached"] = _median(value.total / best[w][able])
                    rows.append(row | {"part": able.mean(), "sending": _median(terms)})
    return pd.DataFrame(rows)


def _median(values: np.ndarray) -> float:
    return float(np.median(values)) if len(values) else np.nan


# --- Fig. 3 ---------------------------------------------------------------------------------------


class Stragglers(NamedTuple):
    """Who is left out, how often, on every fleet.

    Attributes
    ----------
    start : float
        Where the alternation starts.
    often : dict
        (`start` or "exact", network) -> share of the rounds in which a client is a straggler,
        (n_seeds, n_clients).
    wrongly : dict
        Network -> clients that the alternation leaves out although they could do a step, and all
        that it leaves out, over seeds and rounds.
    """

    start: float
    often: dict[tuple[Any, str], np.ndarray]
    wrongly: dict[str, tuple[int, int]]

    def half(self, kind: float | str, network: str) -> np.ndarray:
        """Return the share of clients out in at least half of the rounds, (n_seeds,)."""
        return np.mean(self.often[kind, network] >= 0.5, axis=1)


def stragglers(fleets: Sequence[Devices], n_clients: int, start: float) -> Stragglers:
    """Return who is a straggler with the exact allocation and with the alternation."""
    often, wrongly = {}, {}
    at = alternation.Start(1.0, start)
    for name, link in links().items():
        exact = np.array([~allocation.allocate(fleet, link).feasible for fleet in fleets])
        turns = [allocation.allocate(fleet, link, "alternating", start=at) for fleet in fleets]
        found = np.array([~one.feasible for one in turns])
        wrongly[name] = int((found & ~exact).sum()), int(found.sum())
        for kind, out in (("exact", exact), (start, found)):
            often[kind, name] = out.reshape(len(fleets), -1, n_clients).mean(axis=1)
    return Stragglers(start, often, wrongly)


def printed_shares() -> dict[str, float]:
    """Return the paper's shares of stragglers in at least half of the rounds, by network."""
    what = "share of stragglers in at least half of the rounds"
    return {name: tables.paper_value("osafl", "osafl-fig3", f"{what} {name}") for name in NETWORKS}


# --- the verdicts ---------------------------------------------------------------------------------


def evidence(
    answers: Mapping[str, Answers], found: Mapping[str, Alternated], out: Stragglers
) -> dict[str, Evidence]:
    """Return the evidence of notebook 31: artefact -> part -> what its rule takes.

    `answers` are those of `sub_problems`, `found` has the alternation by artefact.
    """
    names = {"lem1": "Lemma 1", "lem2": "Lemma 2", "alg3": "Algorithm 3"}
    judged: dict[str, Evidence] = {
        f"osafl-{key}": {
            "feasible": bool(answers[name].feasible.all()),
            "grid": (answers[name].ratio, 1.0),
        }
        for key, name in names.items()
    }
    for artefact, one in found.items():
        ends = 100 * one.by_start.groupby(["start", "epsilon"])["reached"].mean()
        judged[artefact] = {
            "value": Undecided(
                f"{ends.min():.0f} to {ends.max():.0f} % of the best value; by the start and "
                "epsilon, neither of which the paper states"
            ),
            "constraints": bool(one.table["limits kept"].all()),
            "moves": bool(one.table["power moves"].min() >= 0.5),
        }
    larger = {
        f"{larger}_over_{smaller}": (out.half(out.start, larger), out.half(out.start, smaller))
        for smaller, larger in pairwise(NETWORKS)
    }
    able = {name: not able for name, (able, _) in out.wrongly.items()}
    bits = [networks.SIZES[name].payload_bits for name in NETWORKS]
    larger |= {"payloads": bits == sorted(bits), "infeasible": able}
    halfway = {name: between(link) for name, link in links().items()}
    bent = {name: allowed and middle < ends for name, (middle, ends, allowed) in halfway.items()}
    return judged | {"osafl-fig3": larger, "osafl-rem1": {"nonconvex": bent}}
