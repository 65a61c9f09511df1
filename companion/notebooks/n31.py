"""Notebook 31, a client's resources: what is computed, the evidence for its claims, pictures.

Source: OSAFL, Section II-C (problem (5), Lemmas 1 and 2, Algorithms 1 and 3), Section V-A (Fig. 3),
Appendix B (Algorithm 4), with ERRATA 34 to 36. A *fleet* is all clients of a seed in all rounds,
one long row, since a client's answer depends on nobody else's; a *share* is that of its largest
power with which the alternation starts; a *straggler* is a client for which an allocation finds no
step within its energy and deadline.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd

from companion import figures, sheets
from companion.judging import tables
from companion.judging.claims import NotRun, Undecided
from companion.widgets import SLIDER, picture
from sflkit.osafl import allocation, alternation, channels, networks
from sflkit.osafl.devices import Allocation, Devices, Link, costs
from sflkit.randomness import generator

if TYPE_CHECKING:
    from ipywidgets import VBox
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


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
    shadow = [
        channels.draw_shadowing_db(
            n_clients, generator(seed, "channel", 1, t), sigma_db=shadowing_db
        )
        for t in range(rounds)
    ]
    hardware = channels.draw_devices(n_clients, generator(seed, "data"), snr=1.0)
    fields = {
        field.name: np.tile(getattr(hardware, field.name), rounds)
        for field in dataclasses.fields(hardware)
    }
    snr = channels.snr_per_watt(distance, np.array(shadow)).ravel()
    return Devices(**fields | {"snr_per_watt": snr})


def take(devices: Devices, which: Any) -> Devices:
    """Return some of the devices, by a mask, a slice or indices."""
    fields = dataclasses.fields(devices)
    return Devices(**{field.name: getattr(devices, field.name)[which] for field in fields})


# --- one client -----------------------------------------------------------------------------------


class Window(NamedTuple):
    """What one client may do with a link: power along the second axis, steps along the first.

    Attributes
    ----------
    power : array (n_power,)
        In W.
    steps : array (n_steps,)
    cpu_hz : array (n_steps, n_power)
        Lemma 2's frequency, the lowest that meets the deadline; NaN where the choice does not fit.
    """

    power: np.ndarray
    steps: np.ndarray
    cpu_hz: np.ndarray


def middling(distance_m: float = 450.0, energy_budget_j: float = 1.8) -> Devices:
    """Return a client of middling hardware: 32.5 cycles per bit, 1.4 GHz, 25 dBm, no shadowing."""
    cycles = 160 * SAMPLE_BITS * 32.5
    return Devices(channels.snr_per_watt(distance_m), cycles, energy_budget_j, 1.4e9, 10**-0.5)


def window(client: Devices, link: Link, power: np.ndarray, steps: np.ndarray) -> Window:
    """Return which powers and numbers of steps fit into a client's round."""
    many = take(client, np.zeros(len(power), dtype=int))
    kappa = steps[:, None]
    with np.errstate(divide="ignore"):
        cpu = alternation.lemma2(many, link, kappa, power)
    spent = costs(many, link, kappa, np.maximum(cpu, 0), power)
    within = spent.compute_j + spent.uplink_j <= many.energy_budget_j
    fits = (cpu > 0) & (cpu <= many.max_cpu_hz) & within
    return Window(power, steps, np.where(fits, cpu, np.nan))


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
    for epsilon in (0.5, 1 - 2e-8, 1.0):
        for name, link in links().items():
            value = values_by_steps(devices, link, epsilon, grid)
            able = value.max(axis=0) > 0
            ours = allocation.allocate(devices, link).local_steps
            row = {
                "1 - epsilon": f"{1 - epsilon:.1g}",
                "network": name,
                "clients that can": int(able.sum()),
                "maximiser has 1 step": int((value.argmax(axis=0)[able] == 0).sum()),
                "our choice has 5 steps": int((ours == 5).sum()),
            }
            rows.append(row)
    return pd.DataFrame(rows)


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
    """What the alternation does from the starts `SHARES` with one solver, for the CNN.

    Attributes
    ----------
    rows : list of dict
        For a reader, one per start and one for the exact allocation.
    met : dict
        share -> whether deadline, energy and all bounds hold at the end.
    moved : dict
        share -> share of the clients whose power ends more than 1 % from the start.
    energy : dict
        share -> median of the energy over the least, at equal whole steps; NaN where nobody has.
    rising : list of (array, array)
        Values of (5) along the passes, each beside the next.
    agree : float
        Share of the clients with the same whole steps from all starts.
    by_start : DataFrame
        The value of (5) over the best one, by start and epsilon, see `by_start_and_weight`.
    """

    rows: list[dict]
    met: dict[float, bool]
    moved: dict[float, float]
    energy: dict[float, float]
    rising: list[tuple[np.ndarray, np.ndarray]]
    agree: float
    by_start: pd.DataFrame


def alternated(
    fleets: Sequence[Devices], n_clients: int, *, solver: str, weight: float
) -> Alternated:
    """Run the alternation for the first `n_clients` of the first round.

    Parameters
    ----------
    fleets : sequence of Devices
        One per seed; all but `by_start` is about the first.
    n_clients : int
    solver : {"closed", "cvxpy"}
        Algorithm 1 in closed form, or Algorithm 4 with cvxpy.
    weight : float
        epsilon of (5).
    """
    link = links()["CNN"]
    group = take(fleets[0], slice(n_clients))
    exact = allocation.allocate(group, link)
    rows, ends, rising = [], [], []
    met, moved, energy = {}, {}, {}
    for start in SHARES:
        history = alternation.alternate(
            group, link, start=alternation.Start(1.0, start), solver=solver
        )
        whole = alternation.whole_steps(group, link, history)
        live = history.local_steps[-1] > 0
        step = np.abs(history.tx_watt / history.tx_watt[0] - 1)[:, live]
        same = whole.feasible & (whole.local_steps == exact.local_steps)
        ratio = np.median(whole.energy_j[same] / exact.energy_j[same]) if same.any() else np.nan
        met[start], energy[start] = _met(group, link, whole), ratio
        moved[start] = np.mean(step[-1] > 0.01) if live.any() else 0.0
        ends.append(whole.local_steps)
        rising.append(_rising(group, link, history, live, weight))
        rows.append(_row(solver, start, history, whole, step, ratio))
    left_out = int((~exact.feasible).sum())
    rows.append({"solver": "exact", "clients": n_clients, "stragglers": left_out})
    agree = float(np.mean(np.ptp(ends, axis=0) == 0))
    curve = by_start_and_weight(fleets, n_clients)
    return Alternated(rows, met, moved, energy, rising, agree, curve)


def alternation_table(*found: Alternated) -> pd.DataFrame:
    """Return the rows of several `Alternated` for a reader."""
    rows = [row for one in found for row in one.rows]
    return pd.DataFrame(rows).astype(object).fillna("").set_index("solver")


def _met(group: Devices, link: Link, whole: Allocation) -> bool:
    """Return whether every client that takes part keeps all its limits."""
    ok = _within(group, link, whole.local_steps, whole.cpu_hz, whole.tx_watt)
    ok &= (whole.cpu_hz <= group.max_cpu_hz) & (whole.tx_watt <= group.max_tx_watt)
    return bool(ok[whole.feasible].all())


def _rising(
    group: Devices,
    link: Link,
    history: alternation.Alternation,
    live: np.ndarray,
    weight: float,
) -> tuple[np.ndarray, np.ndarray]:
    """Return (5) along the passes, each first with the new steps alone, then with all that is new.

    The second array is the first, one half pass later.
    """
    path = []
    for i in range(1, len(history.cpu_hz)):
        for at in (i - 1, i):
            choices = history.local_steps[i], history.cpu_hz[at], history.tx_watt[at]
            path.append(alternation.objective(group, link, *choices, weight=weight).total[live])
    return np.array(path[:-1]).ravel(), np.array(path[1:]).ravel()


def _row(
    solver: str,
    start: float,
    history: alternation.Alternation,
    whole: Allocation,
    step: np.ndarray,
    ratio: float,
) -> dict[str, Any]:
    """Return what a reader sees of one start; `step` is by how much the power moved."""
    real = history.local_steps[-1]
    live = real > 0
    return {
        "solver": solver,
        "start p/p_max": start,
        "clients": len(real),
        "steps > 0": str(live.sum()),
        "power moves": str((step.max(axis=0) > 1e-4).sum()),
        "steps not whole": str((live & (np.abs(real - np.round(real)) > 1e-6)).sum()),
        "below one": str((live & (real < 1 - 1e-6)).sum()),
        "stragglers": int((~whole.feasible).sum()),
        "energy / least": f"{ratio:.3g}",
    }


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


# --- the verdicts ---------------------------------------------------------------------------------


def _unstated(curve: pd.DataFrame) -> Undecided:
    """Return how far the value reached depends on what the paper does not state."""
    ends = curve.groupby(["start", "epsilon"])["reached"].mean()
    return Undecided(
        f"{100 * ends.min():.0f} to {100 * ends.max():.0f} % of the best value; by the start and "
        "epsilon, neither of which the paper states"
    )


def evidence(
    answers: Mapping[str, Answers], found: Mapping[str, Alternated]
) -> dict[str, Evidence]:
    """Return the evidence of notebook 31 but Fig. 3's: artefact -> part -> what its rule takes.

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
        ratios = np.array([ratio for ratio in one.energy.values() if np.isfinite(ratio)])
        none = NotRun("no client has the steps of the least energy")
        judged[artefact] = {
            "constraints": all(one.met.values()),
            "monotone": tuple(np.concatenate(side) for side in zip(*one.rising, strict=True)),
            "value": _unstated(one.by_start),
            "starts": one.agree,
            "moves": bool(min(one.moved.values()) >= 0.5),
            "energy": (ratios, 1.1) if len(ratios) else none,
        }
    return judged


def notes(weight: float, share: float, n_cvxpy: int) -> dict[str, str]:
    """Return the causes that were found, by artefact."""
    return {
        "osafl-lem1": "The steps are real numbers; whole ones are not asked for (ERRATA 36).",
        "osafl-lem2": "For the steps of Lemma 1, which keep the frequency below its largest.",
        "osafl-alg3": "The optimum is (10c) in closed form; nothing needs approximating.",
        "osafl-alg1": "It stands still after the first pass: Lemma 2 makes (10c) the power of the "
        "start, which decides everything (ERRATA 35); the best of (5) itself is always a single "
        f"step (ERRATA 34). The best that counts here is the best with whole steps, and a tenth "
        "is our limit: the paper says that the problem is solved approximately, not how nearly. "
        f"The weight is epsilon = {weight:g} and the start {share:g} p_max, for all four networks.",
        "osafl-alg4": f"As Algorithm 1, solved with cvxpy; {n_cvxpy} clients a seed, CNN.",
    }


FEW_BITS = (77, 7)  # of Dataset-2: ten past ids and the next one, or one id
_ALTERNATING = "alternating"
# Causes that were found, by artefact.
NOTES = {
    "osafl-fig3": "The shares are those of an unstated start and channel, and most clients left "
    "out could take part."
}


class Stragglers(NamedTuple):
    """Who is left out, how often, on every fleet.

    Attributes
    ----------
    often : dict
        (start or "exact", network) -> share of the rounds in which a client is a straggler,
        (n_seeds, n_clients).
    wrongly : dict
        Network -> clients left out although they could do a step, and all left out, over seeds and
        rounds, from the judged start.
    few_bits : dict
        Bits of a sample -> share of stragglers in half of the rounds with the LSTM, (n_seeds,).
    seconds : float
        Of the fastest exact allocation of a fleet.
    start : float
        The judged start.
    """

    often: dict[tuple[Any, str], np.ndarray]
    wrongly: dict[str, tuple[int, int]]
    few_bits: dict[int, np.ndarray]
    seconds: float
    start: float

    def half(self, kind: float | str, network: str) -> np.ndarray:
        """Return the share of clients out in at least half of the rounds, (n_seeds,)."""
        return np.mean(self.often[kind, network] >= 0.5, axis=1)

    @property
    def kinds(self) -> tuple:
        """The starts, the judged one first, and "exact"."""
        return (self.start, *SHARES, "exact")


def stragglers(fleets: Sequence[Devices], n_clients: int, start: float) -> Stragglers:
    """Return who is a straggler with the exact allocation and with the alternation."""
    often: dict[tuple, list] = {}
    wrongly, seconds = {name: np.zeros(2, int) for name in NETWORKS}, []
    for fleet in fleets:
        for name, link in links().items():
            begin = time.perf_counter()
            exact = allocation.allocate(fleet, link)
            seconds.append(time.perf_counter() - begin)
            often.setdefault(("exact", name), []).append(_out(exact, n_clients))
            for share in (start, *SHARES):
                found = allocation.allocate(
                    fleet, link, _ALTERNATING, start=alternation.Start(1.0, share)
                )
                often.setdefault((share, name), []).append(_out(found, n_clients))
                if share == start:
                    out = ~found.feasible
                    wrongly[name] += (exact.feasible & out).sum(), out.sum()
    few = {bits: _few_bits(fleets, n_clients, start, bits) for bits in FEW_BITS}
    shares = {key: np.array(rows) for key, rows in often.items()}
    pairs = {name: (int(able), int(out)) for name, (able, out) in wrongly.items()}
    return Stragglers(shares, pairs, few, min(seconds), start)


def _out(found: Allocation, n_clients: int) -> np.ndarray:
    """Return the share of the rounds in which each client is left out, (n_clients,)."""
    return np.mean(~found.feasible.reshape(-1, n_clients), axis=0)


def _few_bits(fleets: Sequence[Devices], n_clients: int, start: float, bits: int) -> np.ndarray:
    """Return the LSTM's stragglers in half of the rounds if a sample has so few bits."""
    shares = []
    for fleet in fleets:
        cycles = fleet.cycles_per_step * bits / SAMPLE_BITS
        found = allocation.allocate(
            dataclasses.replace(fleet, cycles_per_step=cycles),
            links()["LSTM"],
            _ALTERNATING,
            start=alternation.Start(1.0, start),
        )
        shares.append(np.mean(_out(found, n_clients) >= 0.5))
    return np.array(shares)


def printed_shares() -> dict[str, float]:
    """Return the paper's shares of stragglers in at least half of the rounds, by network."""
    what = "share of stragglers in at least half of the rounds"
    return {name: tables.paper_value("osafl", "osafl-fig3", f"{what} {name}") for name in NETWORKS}


def overview(found: Stragglers) -> pd.DataFrame:
    """Return the paper's shares beside ours, means over seeds, and who was left out wrongly."""
    rows = []
    for name, paper in printed_shares().items():
        row = {"network": name, "paper": paper}
        for kind in found.kinds:
            key = kind if kind == "exact" else f"start {kind:g}"
            row[key] = found.half(kind, name).mean()
        able, out = found.wrongly[name]
        rows.append(row | {"left out, but able": able / max(out, 1)})
    return pd.DataFrame(rows).set_index("network")


def straggler_evidence(out: Stragglers) -> dict[str, Evidence]:
    """Return the evidence of Fig. 3: artefact -> part -> what its rule takes."""
    paper = printed_shares()
    means = {key: np.mean(np.mean(rows >= 0.5, axis=1)) for key, rows in out.often.items()}
    pairs = list(pairwise((*SHARES, SHARES[0])))
    apart = [max(np.abs(means[a, name] - means[c, name]) for a, c in pairs) for name in NETWORKS]
    off = [abs(means[out.start, name] - paper[name]) for name in NETWORKS]
    lstm = means[out.start, "LSTM"]
    judged: Evidence = {
        f"{larger}_over_{smaller}": (out.half(out.start, larger), out.half(out.start, smaller))
        for smaller, larger in pairwise(NETWORKS)
    }
    judged |= {
        "infeasible": {name: not able for name, (able, _) in out.wrongly.items()},
        "starts": (np.array(apart), 0.05),
        "fitted": (np.array(off), 0.1),
        "sample_bits": (max(np.abs(lstm - np.mean(v)) for v in out.few_bits.values()), 0.01),
    }
    return {"osafl-fig3": judged}


_LEVELS = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1400]  # MHz


def fits(ax: Axes, found: Window) -> None:
    """Colour the powers and steps that fit by the lowest CPU frequency, if any do."""
    import matplotlib.pyplot as plt
    from matplotlib.colors import LogNorm

    ax.set(xscale="log", xlabel="transmit power p (W)", ylabel=r"local steps $\kappa$")
    if not np.isfinite(found.cpu_hz).any():
        return
    shown = ax.contourf(
        found.power,
        found.steps,
        found.cpu_hz / 1e6,
        levels=_LEVELS,
        norm=LogNorm(1, 1400),
        cmap="cividis",
        extend="min",
    )
    label = "lowest CPU frequency (MHz)"
    plt.colorbar(shown, ax=ax, label=label, format="%g", ticks=_LEVELS)


def value_by_start(found: pd.DataFrame) -> tuple[Figure, dict[str, Any]]:
    """Draw how much of the best value of (5) Algorithm 1 reaches, over its start and epsilon.

    Parameters
    ----------
    found : DataFrame
        As `by_start_and_weight` returns.

    Returns
    -------
    fig : Figure
    drawn : dict
        What it draws, for `figures.save_figure`.
    """
    import matplotlib.pyplot as plt

    fig, (left, right) = plt.subplots(1, 2, figsize=(9.6, 4.0))
    weights = found["epsilon"].unique()
    by = found.groupby(["network", "epsilon", "start"])["reached"].mean().unstack("start")
    for i, weight in enumerate(weights):
        look = figures.series_style(None, i)
        mean = by.xs(weight, level="epsilon").mean()
        left.plot(mean.index, mean, **look, label=f"$\\varepsilon$ = {weight:g}")
    for i, name in enumerate(NETWORKS):
        row = by.loc[name].loc[weights[len(weights) // 2]]
        right.plot(row.index, row, **figures.series_style(None, i), label=name)
    left.set(title="mean of the four networks", ylabel="value reached / best value")
    right.set(title=f"$\\varepsilon$ = {weights[len(weights) // 2]:g}")
    for ax in (left, right):
        ax.set(xscale="log", ylim=(0, 1), xlabel=r"start $p/p_\mathrm{max}$")
        ax.legend(fontsize=9)
    return fig, {"reached": found}


def draw_stragglers(found: Stragglers, rounds: int) -> tuple[Figure, dict[str, Any]]:
    """Draw payloads and the distribution over clients of the share of rounds left out (Fig. 3).

    `rounds` is how many rounds a client had.

    Returns
    -------
    fig : Figure
    drawn : dict
        What it draws, for `figures.save_figure`.
    """
    import matplotlib.pyplot as plt

    fig, (payload, *others) = plt.subplots(1, 3, figsize=(11, 4.0), width_ratios=(0.8, 1, 1))
    for i, link in enumerate(links().values()):
        color = figures.series_style(None, i)["color"]
        payload.bar_label(
            payload.bar(i, link.payload_bits / 1e6, color=color, width=0.7), fmt="%.0f"
        )
    slanted = dict(rotation=30, ha="right", rotation_mode="anchor")
    payload.set_xticks(range(len(NETWORKS)), NETWORKS, **slanted)
    payload.grid(visible=False, axis="x")
    payload.set(ylabel="payload (Mbit)", title="Figure 3(a): payload, ours")
    titles = {
        found.start: f"Figure 3(b): alternation from {found.start:g} $p_\\mathrm{{max}}$",
        "exact": "(c) not in the paper: exact allocation",
    }
    drawn: dict[str, Any] = {}
    for ax, (kind, title) in zip(others, titles.items(), strict=True):
        drawn |= _distribution(ax, found, kind, rounds)
        ax.set_title(title)
    sheets.explain_marks(others[1], marks=True, fontsize=9, loc="upper left", bbox_to_anchor=(1, 1))
    return fig, drawn


def _distribution(ax: Axes, found: Stragglers, kind: Any, rounds: int) -> dict[str, np.ndarray]:
    level, drawn = np.linspace(0, 1, rounds + 1), {}
    for i, (name, paper) in enumerate(printed_shares().items()):
        everyone = found.often[kind, name].ravel()
        drawn[f"{kind} {name}"] = np.mean(everyone[None] < level[:, None] - 1e-9, axis=1)
        look = figures.series_style(None, i)
        every = (3 * i, max(1, rounds // 6))
        ax.plot(level, drawn[f"{kind} {name}"], **look, markevery=every, label=name)
        if kind != "exact":
            sheets.printed_marks(ax, 0.5, {name: 1 - paper}, {name: look["color"]})
    ax.axvline(0.5, color="gray", linestyle=":", linewidth=1)
    ax.set(
        xlim=(0, 1), ylim=(0, 1), xlabel="share of rounds x", ylabel="clients out in less than x"
    )
    return drawn


_PARAMETERS_BITS = 33e6  # a million parameters


def resource_explorer() -> VBox:
    """Return sliders over what one client can do in a round: distance, payload, budget and start.

    The picture shows which powers and numbers of local steps fit, coloured by the lowest CPU
    frequency that meets the deadline (Lemma 2), with the exact answer and that of the alternation,
    which keeps the power it starts from. The client has middling hardware and no shadowing. Source:
    OSAFL, problem (5), ERRATA 34 and 35.
    """
    import ipywidgets
    import matplotlib.pyplot as plt

    def draw(distance: float, million: float, budget: float, start: float) -> None:
        link = Link(_PARAMETERS_BITS * million)
        client = middling(distance, budget)
        most = client.max_tx_watt[0]
        power, steps = np.geomspace(1e-4, 1, 400) * most, np.linspace(0.02, 5, 100)
        at = alternation.Start(1.0, start)
        _, ax = plt.subplots(figsize=(8.4, 4.2))
        fits(ax, window(client, link, power, steps))
        _mark(ax, "exact", allocation.allocate(client, link), "*", "#D55E00", 17)
        found = allocation.allocate(client, link, "alternating", start=at)
        _mark(ax, "alternation", found, "o", "#56B4E9", 9)
        ax.axvline(start * most, color="#56B4E9", linestyle=":", linewidth=1.5)
        ax.set(xlim=(power[0], power[-1]), ylim=(0, 5.15))
        ax.legend(fontsize=9, loc="upper center", bbox_to_anchor=(0.5, 1.17), ncol=2)
        plt.show()

    controls = {
        "distance": ipywidgets.IntSlider(450, 10, 1000, 10, description="distance (m)", **SLIDER),
        "million": ipywidgets.FloatLogSlider(
            1.0, min=-1, max=1, step=0.05, description="million parameters", **SLIDER
        ),
        "budget": ipywidgets.FloatSlider(
            1.8, min=0.05, max=5, step=0.05, description="energy budget (J)", **SLIDER
        ),
        "start": ipywidgets.FloatLogSlider(
            0.3, min=-3, max=0, step=0.05, description="start p / p_max", **SLIDER
        ),
    }
    return ipywidgets.VBox([*controls.values(), picture(draw, controls)])


def _mark(ax: Axes, name: str, answer: Allocation, marker: str, color: str, size: int) -> None:
    """Draw one answer where it takes part, and say so in the legend where it does not."""
    place, label = (np.nan, np.nan), f"{name}: straggler"
    if answer.feasible[0]:
        place = (answer.tx_watt[0], answer.local_steps[0])
        label = f"{name}: {answer.local_steps[0]} steps, {answer.energy_j[0]:.3g} J"
    look = dict(color=color, markersize=size, markeredgecolor="white", linestyle="none")
    ax.plot(*place, marker, **look, label=label, clip_on=False, zorder=4)
