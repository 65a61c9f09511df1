"""Uplink, computing cost and the allocation of local steps, CPU frequency and transmit power in a
round.

Source: OSAFL, Section II-C (cost model, problem (5)) and Section V-A (settings); ERRATA 34 to 36
for what problem (5) and its alternating solution (`sflkit.osafl.alternation`) do.
`sflkit.osafl.channels` draws the channel and the hardware.

================  =========================  ======  ===========================================================
code              symbol                     unit    meaning
================  =========================  ======  ===========================================================
snr_per_watt      Xi Gamma / (omega xi^2)    1/W     received SNR over the whole bandwidth at 1 W
cycles_per_step   n nbar c_u s_u             cycles  CPU cycles of one local step (ERRATA 43: n nbar samples)
energy_budget_j   e_bd                       J       energy for computing and sending
max_cpu_hz        f_max                      Hz      largest CPU frequency
max_tx_watt       p_max                      W       largest transmit power
payload_bits      N (FPP + 1)                bit     size of what a client sends
bandwidth_hz      omega                      Hz      bandwidth of a client
deadline_s        t_th                       s       time for computing and sending
capacitance       v                          J s^2   effective capacitance: a cycle at f costs v f^2 / 2
max_steps         kappa                      -       largest number of local steps
================  =========================  ======  ===========================================================
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import NamedTuple

import numpy as np

from sflkit import checks

# relative: a constraint met up to rounding counts as met, so that a budget that is used up exactly
# is feasible
ROUNDING = 1e-12


@dataclass(frozen=True, eq=False)
class Devices:
    """What each client has this round; arrays (n_clients,), or numbers that hold for all of them.

    Attributes
    ----------
    snr_per_watt : array
        SNR over the full bandwidth at 1 W, in 1/W, >= 0 (0: no link).
    cycles_per_step : array
        CPU cycles of one local step, > 0; OSAFL: 160 samples of 101376 bits at 25 to 40 cycles a
        bit.
    energy_budget_j : array
        In J, >= 0; OSAFL: 1.2 to 2.5.
    max_cpu_hz : array
        In Hz, >= 0; OSAFL: 1e9 to 1.8e9.
    max_tx_watt : array
        In W, >= 0; OSAFL: 0.1 to 1 (20 to 30 dBm).

    Raises
    ------
    ValueError
        For an entry that is negative or not finite, cycles_per_step of 0, or lengths that disagree.
    """

    snr_per_watt: np.ndarray
    cycles_per_step: np.ndarray
    energy_budget_j: np.ndarray
    max_cpu_hz: np.ndarray
    max_tx_watt: np.ndarray

    def __post_init__(self):
        names = [field.name for field in fields(self)]
        arrays = [np.atleast_1d(checks.array(name, getattr(self, name), low=0.0)) for name in names]
        checks.array("cycles_per_step", self.cycles_per_step, above=0.0)
        try:
            arrays = np.broadcast_arrays(*arrays)
        except ValueError:
            arrays = []
        if not arrays or arrays[0].ndim != 1:
            shapes = ", ".join(f"{name} {np.shape(getattr(self, name))}" for name in names)
            raise ValueError(
                f"devices must be arrays (n_clients,) of one length, or numbers; the shapes are {shapes}"
            )
        for name, array in zip(names, arrays):
            object.__setattr__(self, name, array)

    def __len__(self) -> int:
        return len(self.snr_per_watt)


@dataclass(frozen=True)
class Link:
    """What all clients share: the payload, the uplink and the deadline. Defaults: OSAFL, Section
    V-A.

    Attributes
    ----------
    payload_bits : float
        >= 0; 33 bits a parameter in the paper. 0: nothing is sent, at no cost.
    bandwidth_hz : float
        In Hz, > 0.
    deadline_s : float
        In s, > 0.
    capacitance : float
        In J s^2, > 0.
    max_steps : int
        >= 1.

    Raises
    ------
    ValueError
        For a value out of range.
    """

    payload_bits: float
    bandwidth_hz: float = 540e3
    deadline_s: float = 200.0
    capacitance: float = 2e-28
    max_steps: int = 5

    def __post_init__(self):
        checks.real("payload_bits", self.payload_bits, 0)
        for name in ("bandwidth_hz", "deadline_s", "capacitance"):
            checks.real(name, getattr(self, name), above=0)
        object.__setattr__(self, "max_steps", checks.integer("max_steps", self.max_steps, 1))


class Costs(NamedTuple):
    """Time in s and energy in J of one round, each shaped like the arguments."""

    compute_s: np.ndarray
    uplink_s: np.ndarray
    compute_j: np.ndarray
    uplink_j: np.ndarray


class Allocation(NamedTuple):
    """What each client does this round, arrays (n_clients,). Infeasible: 0 steps, 0 Hz, 0 W, 0 J
    and NaN s.
    """

    local_steps: np.ndarray
    cpu_hz: np.ndarray
    tx_watt: np.ndarray
    energy_j: np.ndarray
    time_s: np.ndarray
    feasible: np.ndarray


def uplink_rate(snr_per_watt, tx_watt, bandwidth_hz: float) -> np.ndarray:
    """Return omega log2(1 + snr p) in bit/s, shaped like the arguments together. Source: OSAFL,
    Section II-C.

    Raises ValueError for a negative or non-finite value, or bandwidth_hz <= 0.
    """
    snr, power = (
        checks.array("snr_per_watt", snr_per_watt, low=0),
        checks.array("tx_watt", tx_watt, low=0),
    )
    return checks.real("bandwidth_hz", bandwidth_hz, above=0) * np.log1p(snr * power) / np.log(2)


def costs(devices: Devices, link: Link, local_steps, cpu_hz, tx_watt) -> Costs:
    """Return time and energy of computing and of sending. Source: OSAFL, Section II-C.

    Parameters
    ----------
    devices, link : Devices, Link
    local_steps, cpu_hz, tx_watt : array (..., n_clients)
        Steps (>= 0), Hz and W (>= 0); a client that computes at 0 Hz or sends at 0 W needs for
        ever.

    Raises
    ------
    ValueError
        For negative or non-finite values.
    """
    work = devices.cycles_per_step * checks.array("local_steps", local_steps, low=0)
    cpu_hz = checks.array("cpu_hz", cpu_hz, low=0)
    rate = uplink_rate(devices.snr_per_watt, tx_watt, link.bandwidth_hz)
    with np.errstate(divide="ignore", invalid="ignore"):
        compute_s = np.where(work > 0, work / cpu_hz, 0.0)
        uplink_s = np.where(
            rate > 0, link.payload_bits / rate, np.inf if link.payload_bits else 0.0
        )
        uplink_j = np.where(np.asarray(tx_watt) > 0, uplink_s * tx_watt, 0.0)
    return Costs(compute_s, uplink_s, 0.5 * link.capacitance * work * cpu_hz**2, uplink_j)


def finish(devices: Devices, link: Link, local_steps, cpu_hz, tx_watt) -> Allocation:
    """Return the Allocation of feasible choices; clients with 0 steps get zeros and NaN seconds."""
    feasible = local_steps > 0
    cpu_hz, tx_watt = np.where(feasible, cpu_hz, 0.0), np.where(feasible, tx_watt, 0.0)
    compute_s, uplink_s, compute_j, uplink_j = costs(devices, link, local_steps, cpu_hz, tx_watt)
    with np.errstate(
        invalid="ignore"
    ):  # the minimum takes away rounding only: both methods use the deadline up exactly
        time = np.where(feasible, np.minimum(compute_s + uplink_s, link.deadline_s), np.nan)
        energy = np.where(feasible, np.minimum(compute_j + uplink_j, devices.energy_budget_j), 0.0)
    return Allocation(local_steps.astype(np.int64), cpu_hz, tx_watt, energy, time, feasible)
