"""The radio channel and the hardware of the clients: what `sflkit.osafl.devices` allocates.

Source: OSAFL, Section V-A for the hardware; 3GPP TR 38.901, Table 7.4.1-1 (urban
macro) for the path loss at 2.4 GHz, since the paper defers its own to a reference. Our choice,
stated because the straggler shares depend on it: clients uniform in a 600 m disc, no line of sight
to the base station, 8 dB log-normal shadowing afresh each round, -174 dBm/Hz of noise.

============  =======================  ====  ============================================
code          symbol                   unit  meaning
============  =======================  ====  ============================================
distance_m    -                        m     horizontal distance from the base station
shadowing_db  Gamma                    dB    adds to the gain
snr_per_watt  Xi Gamma / (omega xi^2)  1/W   received SNR over the whole bandwidth at 1 W
sample_bits   s_u                      bit   size of a sample
samples       n nbar                   -     samples of one local step
============  =======================  ====  ============================================
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from sflkit import checks
from sflkit.osafl.devices import BANDWIDTH_HZ, Devices

_LIGHT = 299_792_458.0  # m/s


def path_loss_db(
    distance_m: ArrayLike,
    *,
    carrier_ghz: float = 2.4,
    base_m: float = 25.0,
    device_m: float = 1.5,
    line_of_sight: ArrayLike = False,
) -> np.ndarray:
    """Return the urban macro path loss in dB. Source: 3GPP TR 38.901, Table 7.4.1-1.

    Parameters
    ----------
    distance_m : array
        Horizontal distance, 0 to 5000 m. Below 10 m, where the model ends, it counts as 10 m.
    carrier_ghz, base_m, device_m : float
        Carrier, 0.5 to 100 GHz; height of the base station, above 1 m, and of the device, 1.5 to
        22.5 m.
    line_of_sight : bool or array of bool
        Which devices see the base station. False, our default for devices among buildings, is the
        larger of both losses.

    Raises
    ------
    ValueError
        For a negative distance or one above 5000 m, NaN, a carrier or height out of range, or a
        line of sight that is neither True nor False, or of another shape than the distances.
    """
    flat = np.maximum(checks.array("distance_m", distance_m, low=0, high=5000), 10.0)
    line_of_sight = checks.flags("line_of_sight", line_of_sight)
    _check_fit("line_of_sight", line_of_sight, flat)
    carrier_ghz = checks.real("carrier_ghz", carrier_ghz, 0.5, 100)
    base_m = checks.real("base_m", base_m, above=1)
    device_m = checks.real("device_m", device_m, 1.5, 22.5)
    distance = np.hypot(flat, base_m - device_m)
    tone = 20 * np.log10(carrier_ghz)
    breakpoint_m = 4 * (base_m - 1) * (device_m - 1) * carrier_ghz * 1e9 / _LIGHT
    far = (
        28
        + 40 * np.log10(distance)
        + tone
        - 9 * np.log10(breakpoint_m**2 + (base_m - device_m) ** 2)
    )
    seen = np.where(flat <= breakpoint_m, 28 + 22 * np.log10(distance) + tone, far)
    hidden = 13.54 + 39.08 * np.log10(distance) + tone - 0.6 * (device_m - 1.5)
    return np.where(line_of_sight, seen, np.maximum(seen, hidden))


def _check_fit(name: str, value: np.ndarray, distances: np.ndarray) -> None:
    """Refuse values that are neither one for each distance, nor rows of those, nor one for all."""
    fits = value.shape[-distances.ndim :] == distances.shape
    if value.shape and distances.shape and not fits:
        raise ValueError(
            f"{name} has shape {value.shape}; it must be that of distance_m, {distances.shape}, "
            "rows of that shape, or one for all"
        )


def snr_per_watt(
    distance_m: ArrayLike,
    shadowing_db: ArrayLike = 0.0,
    *,
    bandwidth_hz: float = BANDWIDTH_HZ,
    noise_dbm_hz: float = -174.0,
    **path: ArrayLike,
) -> np.ndarray:
    """Return the SNR at 1 W over the whole bandwidth, in 1/W.

    Parameters
    ----------
    distance_m : array
        Horizontal distance in m.
    shadowing_db : array
        It adds to the gain, in dB: one number, one per distance, or rows of draws with one per
        distance each.
    bandwidth_hz : float
        In Hz, > 0. The noise grows with it, see `Devices.at_bandwidth`.
    noise_dbm_hz : float
        Noise density in dBm/Hz.
    **path
        Further keywords of `path_loss_db`.

    Raises
    ------
    ValueError
        As `path_loss_db`, for shadowing that is not finite and for bandwidth_hz <= 0.
    """
    loss_db = path_loss_db(distance_m, **path)
    shadowing_db = checks.array("shadowing_db", shadowing_db)
    _check_fit("shadowing_db", shadowing_db, loss_db)
    gain_db = shadowing_db - loss_db
    bandwidth_hz = checks.real("bandwidth_hz", bandwidth_hz, above=0)
    noise_dbm = checks.real("noise_dbm_hz", noise_dbm_hz) + 10 * np.log10(bandwidth_hz)
    return 10 ** ((30 + gain_db - noise_dbm) / 10)


def draw_distances(
    n_clients: int, rng: np.random.Generator, *, radius_m: float = 600.0
) -> np.ndarray:
    """Draw distances in m from the base station, uniform over the disc, shape (n_clients,).

    The radius, above 0 and up to 5000 m, is our choice.
    """
    n_clients = checks.integer("n_clients", n_clients, 0)
    radius_m = checks.real("radius_m", radius_m, 0, 5000, above=0)
    return radius_m * np.sqrt(checks.generator(rng).random(n_clients))


def draw_shadowing_db(
    n_clients: int, rng: np.random.Generator, *, sigma_db: float = 8.0
) -> np.ndarray:
    """Draw log-normal shadowing in dB, one value per client, shape (n_clients,).

    It is drawn afresh in each round. Its standard deviation of 8 dB is our choice.
    """
    n_clients = checks.integer("n_clients", n_clients, 0)
    sigma_db = checks.real("sigma_db", sigma_db, 0)
    return sigma_db * checks.generator(rng).standard_normal(n_clients)


def draw_devices(
    n_clients: int,
    rng: np.random.Generator,
    *,
    snr: ArrayLike,
    sample_bits: int = 101376,
    samples: int = 160,
) -> Devices:
    """Draw the clients' hardware, uniform in the intervals of OSAFL, Section V-A.

    The power is uniform in dBm. Each property of the hardware has a random stream of its own, so
    that more clients leave the others' as it was.

    Parameters
    ----------
    n_clients : int
    rng : numpy.random.Generator
    snr : array (n_clients,)
        SNR at 1 W of the round, from `snr_per_watt`; `dataclasses.replace(devices,
        snr_per_watt=...)` for the next round.
    sample_bits : int
        s_u, bits per sample; 101376 for Dataset-1 (Table I).
    samples : int
        n nbar, samples of one local step; 32 mini-batches of 5 (ERRATA 43).

    Raises
    ------
    ValueError
        For sizes below 1, or an snr that is negative, not finite or not of length n_clients.
    """
    n = checks.integer("n_clients", n_clients, 0)
    bits = checks.integer("sample_bits", sample_bits, 1) * checks.integer("samples", samples, 1)
    snr = checks.array("snr", snr, low=0)
    if snr.shape not in ((), (1,), (n,)):
        raise ValueError(f"snr has shape {snr.shape}; it must be ({n},), or a number")
    cycles, budget, cpu, power = checks.generator(rng).spawn(4)
    return Devices(
        np.broadcast_to(snr, (n,)),
        bits * cycles.uniform(25, 40, n),
        budget.uniform(1.2, 2.5, n),
        cpu.uniform(1e9, 1.8e9, n),
        10 ** (power.uniform(20, 30, n) / 10 - 3),
    )
