"""The paper's alternating solution of its resource problem (5), kept beside the exact one to show
where it stops.

Source: OSAFL, Section II-C and Appendix B: Lemma 1 (steps), Lemma 2 (CPU frequency), Algorithm 3
(power by successive convex approximation) inside Algorithm 1, which is Algorithm 4 of the appendix.
Notation: `sflkit.osafl.devices`.

ERRATA 35: Lemma 2 uses the deadline up, so the least power (10c) is the power of the start; the
objective falls in the power; hence Algorithm 3 returns its start, and the steps are those of the
first application of Lemma 1. What comes out is decided by the start, which the paper does not give.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sflkit import checks
from sflkit.osafl.devices import Allocation, Devices, Link, costs, finish

_WHOLE = 1e-9  # steps are real numbers here; one short of a whole number by rounding is that number


class Start(NamedTuple):
    """Where the alternation starts: shares in (0, 1] of max_cpu_hz and max_tx_watt, numbers or
    arrays (n_clients,).
    """

    cpu_share: float | np.ndarray = 1.0
    tx_share: float | np.ndarray = 0.1


class Alternation(NamedTuple):
    """Iterates, arrays (iterations + 1, n_clients), the start first: real-valued steps (NaN at the
    start), Hz and W.
    """

    local_steps: np.ndarray
    cpu_hz: np.ndarray
    tx_watt: np.ndarray


class Objective(NamedTuple):
    """The two terms of (5) without their weights, and their weighted sum."""

    computing: np.ndarray
    sending: np.ndarray
    total: np.ndarray


def objective(
    devices: Devices, link: Link, local_steps, cpu_hz, tx_watt, *, weight: float
) -> Objective:
    """Return the objective (5) of the paper: weight * steps / (energy a step) + (1 - weight) * bit
    per J of the uplink.

    ERRATA 34: with the CPU tight to the deadline the first term is (t - t_up)^2 / (0.5 v cycles^3
    steps), which has no upper limit as the steps go to 0, and the second knows no steps. `weight`
    is the paper's epsilon in [0, 1]."""
    weight = checks.real("weight", weight, 0, 1)
    spent = costs(devices, link, np.ones_like(cpu_hz), cpu_hz, tx_watt)
    with np.errstate(divide="ignore", invalid="ignore"):
        computing = local_steps / spent.compute_j
        sending = link.bandwidth_hz * np.log1p(devices.snr_per_watt * tx_watt) / np.log(2) / tx_watt
    return Objective(computing, sending, weight * computing + (1 - weight) * sending)


def lemma1(devices: Devices, link: Link, cpu_hz, tx_watt) -> np.ndarray:
    """Return the real number of steps (7) that energy and deadline allow at this frequency and
    power, negative if none.
    """
    compute_s, uplink_s, compute_j, uplink_j = costs(
        devices, link, np.ones_like(cpu_hz), cpu_hz, tx_watt
    )
    with np.errstate(divide="ignore", invalid="ignore"):
        steps = np.minimum(
            (devices.energy_budget_j - uplink_j) / compute_j,
            (link.deadline_s - uplink_s) / compute_s,
        )
    return np.minimum(np.nan_to_num(steps, nan=0.0, neginf=0.0), link.max_steps)


def lemma2(devices: Devices, link: Link, local_steps, tx_watt) -> np.ndarray:
    """Return the frequency (9) in Hz that uses the deadline up."""
    left = link.deadline_s - costs(devices, link, 0.0, 0.0, tx_watt).uplink_s
    with np.errstate(divide="ignore"):
        return devices.cycles_per_step * local_steps / left


def least_power(devices: Devices, link: Link, local_steps, cpu_hz) -> np.ndarray:
    """Return the power (10c) in W that sends within what computing leaves of the deadline."""
    left = link.deadline_s - devices.cycles_per_step * local_steps / cpu_hz
    return (
        np.expm1(link.payload_bits * np.log(2) / (link.bandwidth_hz * left)) / devices.snr_per_watt
    )


def algorithm3(
    devices: Devices,
    link: Link,
    local_steps,
    cpu_hz,
    tx_watt,
    *,
    solver: str = "closed",
    iterations: int = 20,
    tol: float = 1e-6,
) -> np.ndarray:
    """Return the power in W by successive convex approximation of (10) from `tx_watt`; all clients
    need at least some steps.

    Source: OSAFL, Algorithm 3 with (50) and (51). Each round solves the linear problem (52), in
    which the objective falls in the power, so that its solution is (10c) wherever the linearised
    energy (52b) allows that; else the power stays.

    Parameters
    ----------
    solver : {"closed", "cvxpy"}
        The closed form, or one parametrised (DPP) cvxpy problem over all clients.
    """
    checks.choice("solver", solver, ("closed", "cvxpy"))
    iterations, tol = checks.integer("iterations", iterations, 1), checks.real("tol", tol, above=0)
    low = np.minimum(least_power(devices, link, local_steps, cpu_hz), devices.max_tx_watt)
    power, solve = np.array(tx_watt, dtype=float), None
    for _ in range(iterations):
        spent = costs(devices, link, local_steps, cpu_hz, power)
        x = devices.snr_per_watt * power
        slope = 1 - x / ((1 + x) * np.log1p(x))  # d log(p / log(1 + snr p)) / d log p, in (0, 1)
        room = (devices.energy_budget_j - spent.compute_j) / spent.uplink_j
        fits = 1 + slope * (low / power - 1) <= room + _WHOLE
        if solver == "closed":
            new = np.where(fits, low, power)
        else:
            solve = solve or _problem(len(power))
            relative = solve(
                low / power,
                devices.max_tx_watt / power,
                -slope,
                slope,
                np.where(fits, np.maximum(room, 1), 1e3),
            )
            new = np.where(fits, relative * power, power)
        moved, power = np.abs(new / power - 1), new
        if (moved <= tol).all():
            break
    return power


def alternate(
    devices: Devices,
    link: Link,
    *,
    start: Start | None = None,
    solver: str = "closed",
    iterations: int = 10,
    tol: float = 1e-6,
) -> Alternation:
    """Run Algorithm 1 (Algorithm 4 of the appendix) and return every iterate.

    Parameters
    ----------
    start : Start, optional
        By default the full CPU frequency and a tenth of the power.
    solver : {"closed", "cvxpy"}
        See `algorithm3`.
    iterations : int
        I, >= 1.
    tol : float
        Largest relative move of frequency and power that counts as none.

    Raises
    ------
    ValueError
        For a share outside (0, 1], an unknown solver, iterations < 1 or tol <= 0.
    """
    start = Start() if start is None else start
    if not isinstance(start, Start):
        raise ValueError(
            f"start={start!r} must be a Start(cpu_share, tx_share), for example Start(1.0, 0.1)"
        )
    for name, share in start._asdict().items():
        checks.array(name, share, above=0, high=1)
    iterations, tol = checks.integer("iterations", iterations, 1), checks.real("tol", tol, above=0)
    cpu = np.broadcast_to(start.cpu_share * devices.max_cpu_hz, len(devices)).astype(float)
    power = np.broadcast_to(start.tx_share * devices.max_tx_watt, len(devices)).astype(float)
    rows = [(np.full(len(devices), np.nan), cpu, power)]
    for _ in range(iterations):
        steps = np.maximum(lemma1(devices, link, cpu, power), 0.0)
        on = steps > 0
        new_cpu, new_power = cpu.copy(), power.copy()
        if on.any():
            some = Devices(*(getattr(devices, name)[on] for name in Devices.__dataclass_fields__))
            new_cpu[on] = lemma2(some, link, steps[on], power[on])
            if link.payload_bits:
                new_power[on] = algorithm3(
                    some, link, steps[on], new_cpu[on], power[on], solver=solver
                )
        still = _near(new_cpu, cpu, tol) and _near(new_power, power, tol)
        cpu, power = new_cpu, new_power
        rows.append((steps, cpu, power))
        if still:
            break
    return Alternation(*(np.stack(column) for column in zip(*rows)))


def whole_steps(devices: Devices, link: Link, history: Alternation) -> Allocation:
    """Return what clients do after the last iterate: whole steps, the power found, and the
    frequency of Lemma 2 for them.

    ERRATA 36: the paper does not say that steps are whole; they are rounded down, and a client left
    with 0 is a straggler."""
    steps = np.floor(history.local_steps[-1] + _WHOLE)
    power = (
        history.tx_watt[-1] if link.payload_bits else np.zeros(len(devices))
    )  # without a payload nothing is sent
    cpu = np.where(steps > 0, lemma2(devices, link, steps, power), 0.0)
    return finish(devices, link, steps, np.minimum(cpu, devices.max_cpu_hz), power)


def _near(new, old, tol) -> bool:
    return bool((np.abs(new - old) <= tol * np.abs(old)).all())


def _problem(n: int):
    """Build (52) for n clients in cvxpy, in units of the present power, and return its solution as
    a function of the data.
    """
    import cvxpy as cp

    share = cp.Variable(n)
    low, high, gain, cost, room = (cp.Parameter(n) for _ in range(5))
    limits = [share >= low, share <= high, 1 + cp.multiply(cost, share - 1) <= room]
    problem = cp.Problem(cp.Maximize(gain @ (share - 1)), limits)

    def solve(*data):
        for parameter, value in zip((low, high, gain, cost, room), data):
            parameter.value = value
        problem.solve(solver=cp.CLARABEL)
        return share.value

    return solve
