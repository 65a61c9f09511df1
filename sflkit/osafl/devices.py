"""Uplink, computing cost and the allocation of local steps, CPU frequency and transmit power in a
round.

Source: OSAFL, Section II-C (cost model, problem (5)) and Section V-A (settings); ERRATA 34 to 36
for what problem (5) and its alternating solution (`sflkit.osafl.alternation`) do.
`sflkit.osafl.channels` draws the channel and the hardware.

===============  =======================  ======  ================================================
code             symbol                   unit    meaning
===============  =======================  ======  ================================================
snr_per_watt     Xi Gamma / (omega xi^2)  1/W     received SNR over the whole bandwidth at 1 W
cycles_per_step  n nbar c_u s_u           cycles  CPU cycles of one local step, n nbar samples
                                                  (ERRATA 43)
energy_budget_j  e_bd                     J       energy for computing and sending
max_cpu_hz       f_max                    Hz      largest CPU frequency
max_tx_watt      p_max                    W       largest transmit power
payload_bits     N (FPP + 1)              bit     size of what a client sends
bandwidth_hz     omega                    Hz      bandwidth of a client
deadline_s       t_th                     s       time for computing and sending
capacitance      v                        J s^2   effective capacitance: a cycle at f costs
                                                  v f^2 / 2
max_steps        kappa                    -       largest number of local steps
===============  =======================  ======  ================================================
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from sflkit import checks
from sflkit.config import Count, NotNegative, Positive, settings
from sflkit.exports import short_repr

BANDWIDTH_HZ = 540e3  # OSAFL, Section V-A: three times 180 kHz

# What a client chooses in a round.
CHOICES = ("local_steps", "cpu_hz", "tx_watt")
# relative: a constraint met up to rounding counts as met, so that a budget that is used up exactly
# is feasible
ROUNDING = 1e-12


@dataclass(eq=False)
class Devices:
    """What each client has this round; arrays (n_clients,), or numbers that hold for all of them.

    The fields become read-only float arrays of one length, copies of what was given;
    `dataclasses.replace` makes devices that differ in some of them.

    Attributes
    ----------
    snr_per_watt : array
        SNR over the full bandwidth at 1 W, in 1/W, >= 0 (0: no link). It belongs to one bandwidth:
        the noise grows with the bandwidth, so that over twice as much the SNR is half.
    cycles_per_step : array
        CPU cycles of one local step, > 0; OSAFL: 160 samples of 101376 bits at 25 to 40 cycles per
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
        given = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        arrays = {name: checks.array(name, value, low=0.0) for name, value in given.items()}
        checks.array("cycles_per_step", self.cycles_per_step, above=0.0)
        # Numbers hold for all clients, arrays of one entry only where there is one client.
        first, n_clients = next(((name, len(a)) for name, a in arrays.items() if a.ndim), ("", 1))
        for name, array in arrays.items():
            checks.shape(name, array, (), (n_clients,), like=first)
            setattr(self, name, np.broadcast_to(array.copy(), n_clients))

    def __len__(self) -> int:
        return len(self.snr_per_watt)

    def __getitem__(self, which: Any) -> Devices:
        """Return some of the devices, by a mask, a slice or an array of indices."""
        return Devices(**{name: values[which] for name, values in vars(self).items()})


@settings
class Link:
    """What all clients share: the payload, the uplink and the deadline.

    Source of the defaults: OSAFL, Section V-A. A bandwidth other than the default changes the noise
    and so the SNR of the devices, which know nothing of the link: multiply their `snr_per_watt` by
    `channels.BANDWIDTH_HZ / bandwidth_hz`.

    Attributes
    ----------
    payload_bits : float
        >= 0; 33 bits per parameter in the paper. 0: nothing is sent, at no cost.
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

    payload_bits: NotNegative
    bandwidth_hz: Positive = BANDWIDTH_HZ
    deadline_s: Positive = 200.0
    capacitance: Positive = 2e-28
    max_steps: Count = 5


class Costs(NamedTuple):
    """Time in s and energy in J of one round, each shaped like the arguments."""

    compute_s: np.ndarray
    uplink_s: np.ndarray
    compute_j: np.ndarray
    uplink_j: np.ndarray


class Allocation(NamedTuple):
    """What each client does this round, arrays (n_clients,).

    A client for which no step is feasible has 0 steps, 0 Hz, 0 W, 0 J and NaN s.
    """

    local_steps: np.ndarray
    cpu_hz: np.ndarray
    tx_watt: np.ndarray
    energy_j: np.ndarray
    time_s: np.ndarray
    feasible: np.ndarray
    __repr__ = short_repr


def checked_choices(function: Callable) -> Callable:
    """Make a function of devices, link and their choices look at these once per call.

    `devices` must be a Devices and `link` a Link. Those of local_steps, cpu_hz and tx_watt that the
    function takes must be finite numbers >= 0, and arrays (..., n_clients), or of a last axis of
    length 1 where all clients choose alike, as along the axis of a grid. What passes is handed on
    as arrays of float64: without an index, by which a Series would be put in another order, and
    without a negative zero.

    Raises
    ------
    ValueError
        From the function's call, for anything else; the message names the argument.
    """
    signature = inspect.signature(function)
    names = [name for name in CHOICES if name in signature.parameters]

    @functools.wraps(function)
    def checked(*args: Any, **options: Any) -> Any:
        call = signature.bind(*args, **options)
        given = call.arguments
        devices = checks.instance("devices", given["devices"], Devices)
        checks.instance("link", given["link"], Link)
        for name in names:
            given[name] = checks.array(name, given[name], low=0) + 0.0
            shape = given[name].shape
            if shape and shape[-1] not in (1, len(devices)):
                raise ValueError(
                    f"{name} has shape {shape}; it must be (..., {len(devices)}), one per client, "
                    "or a number"
                )
        return function(*call.args, **call.kwargs)

    return checked


def uplink_rate(snr_per_watt: ArrayLike, tx_watt: ArrayLike, bandwidth_hz: float) -> np.ndarray:
    """Return omega log2(1 + snr p) in bit/s. Source: OSAFL, Section II-C.

    Parameters
    ----------
    snr_per_watt, tx_watt : array
        SNR over the whole bandwidth at 1 W, in 1/W, and power in W, both >= 0; their shapes are
        broadcast together.
    bandwidth_hz : float
        In Hz, > 0.

    Raises
    ------
    ValueError
        For a negative or non-finite value, or bandwidth_hz <= 0.
    """
    snr = checks.array("snr_per_watt", snr_per_watt, low=0)
    power = checks.array("tx_watt", tx_watt, low=0)
    try:
        np.broadcast_shapes(snr.shape, power.shape)
    except ValueError:
        raise ValueError(
            f"snr_per_watt has shape {snr.shape} and tx_watt {power.shape}; they do not fit"
        ) from None
    return checks.real("bandwidth_hz", bandwidth_hz, above=0) * np.log1p(snr * power) / np.log(2)


@checked_choices
def costs(
    devices: Devices, link: Link, local_steps: ArrayLike, cpu_hz: ArrayLike, tx_watt: ArrayLike
) -> Costs:
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
        As `checked_choices` says.
    """
    work = devices.cycles_per_step * local_steps
    rate = uplink_rate(devices.snr_per_watt, tx_watt, link.bandwidth_hz)
    with np.errstate(divide="ignore", invalid="ignore"):
        compute_s = np.where(work > 0, work / cpu_hz, 0.0)
        uplink_s = np.where(
            rate > 0, link.payload_bits / rate, np.inf if link.payload_bits else 0.0
        )
        uplink_j = np.where(tx_watt > 0, uplink_s * tx_watt, 0.0)
    return Costs(compute_s, uplink_s, 0.5 * link.capacitance * work * cpu_hz**2, uplink_j)


@checked_choices
def finish(
    devices: Devices, link: Link, local_steps: np.ndarray, cpu_hz: np.ndarray, tx_watt: np.ndarray
) -> Allocation:
    """Return the `Allocation` of choices that are feasible wherever local_steps > 0.

    Parameters
    ----------
    devices, link : Devices, Link
    local_steps, cpu_hz, tx_watt : arrays (n_clients,)
        Whole steps, Hz and W. A client with 0 steps gets zeros and NaN seconds, whatever its
        frequency and power are.

    Raises
    ------
    ValueError
        As `checked_choices` says, for steps that are not whole, for arrays of another shape, or
        where a client with steps has 0 Hz, or 0 W and something to send: it would never finish.
    """
    local_steps = checks.integers("local_steps", local_steps)
    for name, value in (("local_steps", local_steps), ("cpu_hz", cpu_hz), ("tx_watt", tx_watt)):
        checks.shape(name, value, (len(devices),))
    feasible = local_steps > 0
    for name, value in (("cpu_hz", cpu_hz), ("tx_watt", tx_watt)):
        never = feasible & (value == 0)
        if never.any() and (name == "cpu_hz" or link.payload_bits):
            k = int(never.argmax())
            raise ValueError(
                f"{name} holds 0 for client {k}, which has {local_steps[k]} steps; it must be > 0 "
                "there"
            )
    cpu_hz = np.where(feasible, cpu_hz, 0.0)
    tx_watt = np.where(feasible, tx_watt, 0.0)
    compute_s, uplink_s, compute_j, uplink_j = costs(devices, link, local_steps, cpu_hz, tx_watt)
    # The minima take away rounding only: both methods use the deadline up exactly.
    with np.errstate(invalid="ignore"):
        time = np.where(feasible, np.minimum(compute_s + uplink_s, link.deadline_s), np.nan)
        energy = np.where(feasible, np.minimum(compute_j + uplink_j, devices.energy_budget_j), 0.0)
    return Allocation(local_steps.astype(np.int64), cpu_hz, tx_watt, energy, time, feasible)
