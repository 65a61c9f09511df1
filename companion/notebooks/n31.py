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
from itertools import pairwise, product
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd

from companion.judging import tables
from companion.judging.claims import Undecided
from companion.widgets import SLIDER, picture
from sflkit.osafl import allocation, alternation, channels, networks
from sflkit.osafl.devices import Devices, Link, costs
from sflkit.randomness import generator

if TYPE_CHECKING:
    from ipywidgets import VBox


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


def window(client: Devices, link: Link, power: np.ndarray, steps: np.ndarray) -> np.ndarray:
    """Return the lowest frequency in Hz that meets a client's deadline, (n_steps, n_power).

    It is Lemma 2's, for `power` in W; NaN where power and steps do not fit into a round.
    """
    many = take(client, np.zeros(len(power), dtype=int))
    kappa = steps[:, None]
    with np.errstate(divide="ignore"):
        cpu = alternation.lemma2(many, link, kappa, power)
    spent = costs(many, link, kappa, np.maximum(cpu, 0), power)
    within = spent.compute_j + spent.uplink_j <= many.energy_budget_j
    return np.where((cpu > 0) & (cpu <= many.max_cpu_hz) & within, cpu, np.nan)


# --- problem (5) ----------------------------------------------------------------------------------


def values_by_steps(devices: Devices, link: Link, weight: float, grid: int) -> np.ndarray:
    """Return the best value of (5) for 1 to 5 whole steps by brute force, (5, n_clients).

    The power runs over a grid, the frequency is Lemma 2's; 0 stands for steps that do not fit.
    """
    wide = np.geomspace(1e-5, 1, grid)[:, None] * devices.max_tx_watt
    best = np.zeros((link.max_steps, len(devices)))
    for kappa in range(1, link.max_steps + 1):
        with np.errstate(divide="ignore"):
            low = alternation.lemma2(devices, link, float(kappa), wide)
        paid = costs(devices, link, kappa, np.maximum(low, 0), wide)
        ok = (low > 0) & (low <= devices.max_cpu_hz)
        ok &= paid.compute_j + paid.uplink_j <= devices.energy_budget_j
        cpu = np.where(low > 0, low, 1)
        value = alternation.objective(devices, link, float(kappa), cpu, wide, weight=weight).total
        best[kappa - 1] = np.where(ok, value, 0).max(axis=0)
    return best


def fewest_steps(devices: Devices, grid: int) -> pd.DataFrame:
    """Return how often the maximiser of (5) takes one step, by weight epsilon and network."""
    rows = []
    for epsilon, (name, link) in product((0.5, 1 - 2e-8, 1.0), links().items()):
        value = values_by_steps(devices, link, epsilon, grid)
        able = value.max(axis=0) > 0
        one = (value.argmax(axis=0)[able] == 0).sum()
        five = (allocation.allocate(devices, link).local_steps == 5).sum()
        rows.append((f"{1 - epsilon:.1g}", name, able.sum(), one, five))
    columns = ["clients that can", "maximiser has 1 step", "our choice has 5 steps"]
    return pd.DataFrame(rows, columns=["1 - epsilon", "network", *columns])


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


_LEVELS = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1400]  # MHz


def resource_explorer() -> VBox:
    """Return sliders over what one client can do in a round: distance, payload, budget and start.

    The picture shows which powers and numbers of local steps fit, coloured by the lowest CPU
    frequency that meets the deadline (Lemma 2), with the exact answer and that of the alternation,
    which keeps the power it starts from. The client has middling hardware and no shadowing. Source:
    OSAFL, problem (5), ERRATA 34 and 35.
    """
    import ipywidgets
    import matplotlib.pyplot as plt
    from matplotlib.colors import LogNorm

    def draw(distance: float, million: float, budget: float, start: float) -> None:
        link, client = Link(33e6 * million), middling(distance, budget)
        most = client.max_tx_watt[0]
        power, steps = np.geomspace(1e-4, 1, 400) * most, np.linspace(0.02, 5, 100)
        fits = window(client, link, power, steps) / 1e6
        fig, ax = plt.subplots(figsize=(8.4, 4.2))
        ax.set(xscale="log", xlabel="transmit power p (W)", ylabel=r"local steps $\kappa$")
        if np.isfinite(fits).any():
            look = dict(levels=_LEVELS, norm=LogNorm(1, 1400), cmap="cividis", extend="min")
            shown = ax.contourf(power, steps, fits, **look)
            label = "lowest CPU frequency (MHz)"
            fig.colorbar(shown, ax=ax, label=label, format="%g", ticks=_LEVELS)
        exact = allocation.allocate(client, link)
        at = alternation.Start(1.0, start)
        turns = allocation.allocate(client, link, "alternating", start=at)
        ax.axvline(start * most, color="#56B4E9", linestyle=":", linewidth=1.5)
        for name, found, marker, color, size in (
            ("exact", exact, "*", "#D55E00", 17),
            ("alternation", turns, "o", "#56B4E9", 9),
        ):
            able, label = found.feasible, f"{name}: straggler"
            if able[0]:
                label = f"{name}: {found.local_steps[0]} steps, {found.energy_j[0]:.3g} J"
            look = dict(color=color, markersize=size, markeredgecolor="white", clip_on=False)
            place = found.tx_watt[able], found.local_steps[able]
            ax.plot(*place, marker, **look, linestyle="none", label=label, zorder=4)
        ax.set(xlim=(power[0], power[-1]), ylim=(0, 5.15))
        ax.legend(fontsize=9, loc="upper center", bbox_to_anchor=(0.5, 1.17), ncol=2)
        plt.show()

    values = (
        ("distance", "distance (m)", ipywidgets.IntSlider, 450, 10, 1000, 10),
        ("million", "million parameters", ipywidgets.FloatLogSlider, 1.0, -1, 1, 0.05),
        ("budget", "energy budget (J)", ipywidgets.FloatSlider, 1.8, 0.05, 5, 0.05),
        ("start", "start p / p_max", ipywidgets.FloatLogSlider, 0.3, -3, 0, 0.05),
    )
    controls = {
        name: kind(value=value, min=low, max=high, step=step, description=words, **SLIDER)
        for name, words, kind, value, low, high, step in values
    }
    return ipywidgets.VBox([*controls.values(), picture(draw, controls)])
