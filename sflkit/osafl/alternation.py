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

from collections.abc import Callable
from typing import Annotated, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from sflkit import checks
from sflkit.config import OneOf, checked
from sflkit.osafl.devices import Allocation, Devices, Link, checked_choices, costs, finish

# Steps are real numbers here; one short of a whole number by this little is that whole number.
_WHOLE = 1e-9
SOLVERS = ("closed", "cvxpy")
PASSES = 10  # I of Algorithm 1
APPROXIMATIONS = 20  # of Algorithm 3
TOL = 1e-6  # the largest relative move of frequency and power that counts as none


class Start(NamedTuple):
    """Where the alternation starts: shares in (0, 1] of max_cpu_hz and max_tx_watt.

    Each is a number, or an array (n_clients,).
    """

    cpu_share: float | np.ndarray = 1.0
    tx_share: float | np.ndarray = 0.1


class Alternation(NamedTuple):
    """All iterates, arrays (passes + 1, n_clients), the start first.

    Steps are real numbers, NaN at the start; frequencies are in Hz and powers in W.
    """

    local_steps: np.ndarray
    cpu_hz: np.ndarray
    tx_watt: np.ndarray


class Objective(NamedTuple):
    """The two terms of (5) without their weights, and their weighted sum."""

    computing: np.ndarray
    sending: np.ndarray
    total: np.ndarray


@checked_choices
def objective(
    devices: Devices,
    link: Link,
    local_steps: ArrayLike,
    cpu_hz: ArrayLike,
    tx_watt: ArrayLike,
    *,
    weight: float,
) -> Objective:
    """Return the objective (5) of the paper, which is to be maximised.

    It is weight * steps / (energy per step) + (1 - weight) * bit per J of the uplink. ERRATA 34:
    with the CPU tight to the deadline the first term is (t - t_up)^2 / (0.5 v cycles^3 steps),
    which has no upper limit as the steps go to 0, and the second knows no steps.

    Parameters
    ----------
    devices, link : Devices, Link
    local_steps, cpu_hz, tx_watt : arrays (..., n_clients)
        Steps, Hz and W.
    weight : float
        The paper's epsilon, in [0, 1].
    """
    weight = checks.real("weight", weight, 0, 1)
    spent = costs(devices, link, np.ones_like(cpu_hz), cpu_hz, tx_watt)
    with np.errstate(divide="ignore", invalid="ignore"):
        computing = local_steps / spent.compute_j
        sending = link.bandwidth_hz * np.log1p(devices.snr_per_watt * tx_watt) / np.log(2) / tx_watt
    return Objective(computing, sending, weight * computing + (1 - weight) * sending)


@checked_choices
def lemma1(devices: Devices, link: Link, cpu_hz: ArrayLike, tx_watt: ArrayLike) -> np.ndarray:
    """Return the steps (7) that energy and deadline allow at this frequency (Hz) and power (W).

    They are real numbers, at most max_steps, and negative where not even sending is possible.
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


@checked_choices
def lemma2(devices: Devices, link: Link, local_steps: ArrayLike, tx_watt: ArrayLike) -> np.ndarray:
    """Return the frequency (9) in Hz that uses up the time which sending at `tx_watt` leaves."""
    left = link.deadline_s - costs(devices, link, 0.0, 0.0, tx_watt).uplink_s
    with np.errstate(divide="ignore"):
        return devices.cycles_per_step * local_steps / left


@checked_choices
def least_power(
    devices: Devices, link: Link, local_steps: ArrayLike, cpu_hz: ArrayLike
) -> np.ndarray:
    """Return the power (10c) in W that sends within what computing leaves of the deadline."""
    left = link.deadline_s - devices.cycles_per_step * local_steps / cpu_hz
    return (
        np.expm1(link.payload_bits * np.log(2) / (link.bandwidth_hz * left)) / devices.snr_per_watt
    )


@checked_choices
def algorithm3(
    devices: Devices,
    link: Link,
    local_steps: np.ndarray,
    cpu_hz: np.ndarray,
    tx_watt: np.ndarray,
    *,
    solver: str = "closed",
) -> np.ndarray:
    """Return the power in W by successive convex approximation of (10).

    Source: OSAFL, Algorithm 3 with (50) and (51). Each iteration solves the linear problem (52), in
    which the objective falls in the power, so that its solution is (10c) wherever the linearised
    energy (52b) allows that; else the power stays.

    Parameters
    ----------
    devices, link : Devices, Link
    local_steps, cpu_hz, tx_watt : arrays (n_clients,)
        Steps > 0 of every client, frequencies in Hz, and the powers in W to start from.
    solver : {"closed", "cvxpy"}
        The closed form, or one parametrised (DPP) cvxpy problem over all clients.

    Raises
    ------
    ValueError
        For an unknown solver, steps, frequencies or powers that are not > 0, or of another shape,
        or where computing leaves a client no time to send.
    """
    checks.choice("solver", solver, SOLVERS)
    for name, value in (("local_steps", local_steps), ("cpu_hz", cpu_hz), ("tx_watt", tx_watt)):
        checks.shape(name, checks.array(name, value, above=0), (len(devices),))
    low = np.minimum(least_power(devices, link, local_steps, cpu_hz), devices.max_tx_watt)
    power = np.array(tx_watt, dtype=float)
    solve = _problem(len(power)) if solver == "cvxpy" else None
    for _ in range(APPROXIMATIONS):
        spent = costs(devices, link, local_steps, cpu_hz, power)
        x = devices.snr_per_watt * power
        slope = 1 - x / ((1 + x) * np.log1p(x))  # d log(p / log(1 + snr p)) / d log p, in (0, 1)
        room = (devices.energy_budget_j - spent.compute_j) / spent.uplink_j
        fits = 1 + slope * (low / power - 1) <= room + _WHOLE
        if solve is None:
            new = np.where(fits, low, power)
        else:
            highest = devices.max_tx_watt / power
            room = np.where(fits, np.maximum(room, 1), 1e3)
            new = np.where(fits, solve(low / power, highest, -slope, slope, room) * power, power)
        if (late := new < 0).any():  # the power of (10c) for a time below 0
            k = int(late.argmax())
            raise ValueError(
                f"local_steps={local_steps[k]:g} at cpu_hz={cpu_hz[k]:g} take client {k} longer "
                f"than deadline_s={link.deadline_s:g}; some of it must be left to send"
            )
        moved = np.abs(new / power - 1)
        power = new
        if (moved <= TOL).all():
            break
    return power


@checked
def alternate(
    devices: Devices,
    link: Link,
    *,
    start: Start | None = None,
    solver: Annotated[str, OneOf(SOLVERS)] = "closed",
) -> Alternation:
    """Run Algorithm 1 (Algorithm 4 of the appendix) and return every iterate.

    Parameters
    ----------
    devices, link : Devices, Link
    start : Start, optional
        By default the full CPU frequency and a tenth of the power.
    solver : {"closed", "cvxpy"}
        See `algorithm3`.

    Raises
    ------
    ValueError
        For a share outside (0, 1] or of another shape, an unknown solver, or arguments of other
        types.
    """
    start = start or Start()
    for name, share in start._asdict().items():
        share = checks.array(name, share, above=0, high=1)
        checks.shape(name, share, (), (1,), (len(devices),))
    cpu = np.broadcast_to(start.cpu_share * devices.max_cpu_hz, len(devices)).astype(float)
    power = np.broadcast_to(start.tx_share * devices.max_tx_watt, len(devices)).astype(float)
    rows = [(np.full(len(devices), np.nan), cpu, power)]
    for _ in range(PASSES):
        steps = np.maximum(lemma1(devices, link, cpu, power), 0.0)
        on = steps > 0  # the others' frequency and power stay
        new_cpu, new_power = cpu.copy(), power.copy()
        new_cpu[on] = lemma2(devices[on], link, steps[on], power[on])
        if link.payload_bits and on.any():
            of_on = steps[on], new_cpu[on], power[on]
            new_power[on] = algorithm3(devices[on], link, *of_on, solver=solver)
        still = _near(new_cpu, cpu) and _near(new_power, power)
        cpu, power = new_cpu, new_power
        rows.append((steps, cpu, power))
        if still:
            break
    return Alternation(*(np.stack(column) for column in zip(*rows, strict=True)))


@checked_choices
def whole_steps(devices: Devices, link: Link, history: Alternation) -> Allocation:
    """Return what clients do after the last iterate of `history`.

    ERRATA 36: the paper does not say that steps are whole. They are rounded down, and a client left
    with 0 is a straggler. The power is the one found, 0 W without a payload, and the frequency that
    of Lemma 2 for the whole steps.

    Raises
    ------
    ValueError
        If `history` is no Alternation of these devices, or as `lemma2`.
    """
    checks.instance("history", history, Alternation)
    steps = np.floor(history.local_steps[-1] + _WHOLE)
    power = history.tx_watt[-1] if link.payload_bits else np.zeros(len(devices))
    cpu = np.where(steps > 0, lemma2(devices, link, steps, power), 0.0)
    return finish(devices, link, steps, np.minimum(cpu, devices.max_cpu_hz), power)


def _near(new: np.ndarray, old: np.ndarray) -> bool:
    return bool((np.abs(new - old) <= TOL * np.abs(old)).all())


def _problem(n: int) -> Callable[..., np.ndarray]:
    """Build (52) for n clients in cvxpy, in units of the present power.

    The answer is a function of the problem's data, so that cvxpy compiles it once.
    """
    import cvxpy as cp

    share = cp.Variable(n)
    data = [cp.Parameter(n) for _ in range(5)]
    low, high, gain, cost, room = data
    limits = [share >= low, share <= high, 1 + cp.multiply(cost, share - 1) <= room]
    problem = cp.Problem(cp.Maximize(gain @ (share - 1)), limits)

    def solve(*values: np.ndarray) -> np.ndarray:
        for parameter, value in zip(data, values, strict=True):
            parameter.value = value
        problem.solve(solver=cp.CLARABEL)
        return share.value

    return solve
