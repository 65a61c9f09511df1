"""Local steps, CPU frequency and transmit power of each client in a round, exactly or by the
paper's alternation.

Source: OSAFL, Section II-C and problem (5); ERRATA 34 to 36 for what that problem and its
alternating solution (`sflkit.osafl.alternation`) do. Symbols and units are those of
`sflkit.osafl.devices`."""

from __future__ import annotations

import numpy as np

from sflkit import checks
from sflkit.osafl import alternation
from sflkit.osafl.devices import ROUNDING, Allocation, Devices, Link, finish, uplink_rate

_HALVINGS = 64  # of an interval of time, whose ends are then neighbouring floats


def allocate(
    devices: Devices, link: Link, method: str = "joint", *, start: alternation.Start | None = None
) -> Allocation:
    """Return local steps, CPU frequency and transmit power of every client.

    Source: OSAFL, Section II-C. Problem (5) is unbounded as the steps go to 0 and, over whole
    steps, always picks a single one; so "joint" takes the largest whole number of steps that energy
    and deadline allow, then the least energy (ERRATA 34).

    Parameters
    ----------
    devices, link : Devices, Link
    method : {"joint", "alternating"}
        "joint" is exact. "alternating" runs the paper's Algorithms 1, 3 and 4, see
        `sflkit.osafl.alternation`, which keep the power they start from (ERRATA 35), then rounds
        the steps down (ERRATA 36).
    start : alternation.Start, optional
        Start of "alternating": shares of max_cpu_hz and max_tx_watt, by default 1 and 0.1.

    Returns
    -------
    Allocation
        Constraints hold up to rounding (1e-12 of the limit). A client that cannot do a single step
        is infeasible.

    Raises
    ------
    ValueError
        For an unknown method, a start given to "joint", or arguments of other types.
    """
    checks.instance("devices", devices, Devices)
    checks.instance("link", link, Link)
    if checks.choice("method", method, ("joint", "alternating")) == "alternating":
        history = alternation.alternate(devices, link, start=start)
        return alternation.whole_steps(devices, link, history)
    if start is not None:
        raise ValueError(f"start={start!r} has no meaning for method='joint'; it must be None")
    return _joint(devices, link)


def _joint(devices: Devices, link: Link) -> Allocation:
    """Return the exact answer: each number of steps is tried at its least energy."""
    steps = np.arange(1, link.max_steps + 1)[:, None]
    uplink_s, fits = _least_energy_uplink(devices, link, steps)
    power = _power(devices, link, uplink_s)
    cycles = devices.cycles_per_step * steps
    with np.errstate(divide="ignore", invalid="ignore"):
        cpu_hz = np.minimum(cycles / (link.deadline_s - uplink_s), devices.max_cpu_hz)
    energy = 0.5 * link.capacitance * devices.cycles_per_step * steps * cpu_hz**2 + power * uplink_s
    fits &= energy <= devices.energy_budget_j * (1 + ROUNDING)
    best = np.max(np.where(fits, steps, 0), axis=0)
    row = np.maximum(best - 1, 0)
    column = np.arange(len(devices))
    return finish(devices, link, best, cpu_hz[row, column], power[row, column])


def _least_energy_uplink(
    devices: Devices, link: Link, steps: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the uplink time of least energy for given numbers of steps, and whether any fits.

    With the CPU as slow as the deadline allows, the energy of a round that sends for u seconds,
    v (cycles steps)^3 / (2 (t - u)^2) + u (2^(payload / (omega u)) - 1) / snr, is convex in u: both
    terms are (the second is the perspective of an exponential). Its derivative is bisected to the
    last bit, which is a search over the power, since p = p(u).

    Parameters
    ----------
    devices, link : Devices, Link
    steps : array (n_steps, 1)
        Whole steps >= 1.

    Returns
    -------
    uplink_s : array (n_steps, n_clients)
        In s; without meaning where nothing fits.
    fits : bool array (n_steps, n_clients)
        Whether the time suffices at the largest frequency and power, whatever energy that takes.
    """
    work = devices.cycles_per_step * steps
    rate = uplink_rate(devices.snr_per_watt, devices.max_tx_watt, link.bandwidth_hz)
    with np.errstate(all="ignore"):
        shortest = np.broadcast_to(
            link.payload_bits / rate if link.payload_bits else 0.0, work.shape
        )
        longest = link.deadline_s - work / devices.max_cpu_hz
        fits = shortest <= longest + ROUNDING * link.deadline_s
        if not link.payload_bits:
            return np.zeros(work.shape), fits
        low = np.where(fits, shortest, 0.0)
        high = np.where(fits, np.maximum(longest, shortest), 0.0)
        load = link.capacitance * work**3
        for _ in range(_HALVINGS):
            middle = (low + high) / 2
            x = link.payload_bits * np.log(2) / (link.bandwidth_hz * middle)
            falls = load / (link.deadline_s - middle) ** 3 * devices.snr_per_watt < _excess(x)
            low = np.where(falls, middle, low)
            high = np.where(falls, high, middle)
    return (low + high) / 2, fits


def _excess(x: np.ndarray) -> np.ndarray:
    """Return x e^x - (e^x - 1), which is -snr d/du of the sending energy.

    Below 0.01, where the difference would cancel, its series is used.
    """
    series = x * x * (1 / 2 + x * (1 / 3 + x * (1 / 8 + x * (1 / 30 + x / 144))))
    return np.where(x < 1e-2, series, x * np.exp(x) - np.expm1(x))


def _power(devices: Devices, link: Link, uplink_s: np.ndarray) -> np.ndarray:
    """Return the power in W that sends the payload in `uplink_s`, no more than the device has.

    Without a payload nothing is sent, at 0 W.
    """
    if not link.payload_bits:
        return np.zeros(uplink_s.shape)
    with np.errstate(all="ignore"):
        return np.fmin(alternation.uplink_power(devices, link, uplink_s), devices.max_tx_watt)
