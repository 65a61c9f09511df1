"""The radio channel and the hardware of the clients: what `sflkit.osafl.devices` allocates.

Source: OSAFL, Section V-A for the hardware; 3GPP TR 38.901, Tables 7.4.1-1 and 7.4.2-1 (urban
macro) for the path loss at 2.4 GHz, since the paper defers its own to a reference. Our choice,
stated because the straggler shares depend on it: clients uniform in a 600 m disc, no line of sight
unless drawn, 8 dB log-normal shadowing afresh each round, -174 dBm/Hz of noise.

================  =========================  ======  ==================================================
code              symbol                     unit    meaning
================  =========================  ======  ==================================================
distance_m        -                          m       horizontal distance from the base station
shadowing_db      Gamma                      dB      adds to the gain
snr_per_watt      Xi Gamma / (omega xi^2)    1/W     received SNR over the whole bandwidth at 1 W
sample_bits       s_u                        bit     size of a sample
samples           n nbar                     -       samples of one local step
================  =========================  ======  ==================================================
"""

from __future__ import annotations

import numpy as np

from sflkit import checks
from sflkit.osafl.devices import Devices

_LIGHT = 299_792_458.0  # m/s


def path_loss_db(
    distance_m,
    *,
    carrier_ghz: float = 2.4,
    base_m: float = 25.0,
    device_m: float = 1.5,
    line_of_sight=False,
) -> np.ndarray:
    """Return the urban macro path loss in dB. Source: 3GPP TR 38.901, Table 7.4.1-1.

    Parameters
    ----------
    distance_m : array
        Horizontal distance, 0 to 5000 m; below 10 m, where the model ends, the loss at 10 m.
    carrier_ghz, base_m, device_m : float
        Carrier in GHz, heights of base station and device in m, above 1 m.
    line_of_sight : bool or array of bool
        False, our default for devices among buildings, is the larger of both losses.

    Raises
    ------
    ValueError
        For a negative distance or one above 5000 m, NaN, or a carrier or height out of range.
    """
    flat = np.maximum(checks.array("distance_m", distance_m, low=0, high=5000), 10.0)
    carrier_ghz = checks.real("carrier_ghz", carrier_ghz, 0.5, 100)
    base_m, device_m = (
        checks.real("base_m", base_m, above=1),
        checks.real("device_m", device_m, 1.5, 22.5),
    )
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


def snr_per_watt(
    distance_m,
    shadowing_db=0.0,
    *,
    bandwidth_hz: float = 540e3,
    noise_dbm_hz: float = -174.0,
    **path,
) -> np.ndarray:
    """Return the SNR at 1 W over the bandwidth, in 1/W; `path` goes to `path_loss_db`, shadowing
    adds to the gain in dB.

    Raises ValueError as `path_loss_db` does, for non-finite shadowing and for bandwidth_hz <= 0.
    """
    gain_db = checks.array("shadowing_db", shadowing_db) - path_loss_db(distance_m, **path)
    noise_dbm = checks.real("noise_dbm_hz", noise_dbm_hz) + 10 * np.log10(
        checks.real("bandwidth_hz", bandwidth_hz, above=0)
    )
    return 10 ** ((30 + gain_db - noise_dbm) / 10)


def draw_distances(
    n_clients: int, rng: np.random.Generator, *, radius_m: float = 600.0
) -> np.ndarray:
    """Draw distances in m from the base station, uniform over the disc, shape (n_clients,). The
    radius is our choice.
    """
    n_clients, radius_m = (
        checks.integer("n_clients", n_clients, 0),
        checks.real("radius_m", radius_m, 0, 5000, above=0),
    )
    return radius_m * np.sqrt(checks.generator(rng).random(n_clients))


def draw_line_of_sight(distance_m, rng: np.random.Generator) -> np.ndarray:
    """Draw who sees the base station, for devices at street level, shaped like `distance_m`.
    Source: TR 38.901, Table 7.4.2-1.
    """
    distance_m = checks.array("distance_m", distance_m, low=0, high=5000)
    near = np.minimum(18 / np.maximum(distance_m, 18), 1)
    return checks.generator(rng).random(distance_m.shape) < near + np.exp(-distance_m / 63) * (
        1 - near
    )


def draw_shadowing_db(
    n_clients: int, rng: np.random.Generator, *, sigma_db: float = 8.0
) -> np.ndarray:
    """Draw log-normal shadowing in dB, one a client, afresh each round; shape (n_clients,). The 8
    dB are our choice.
    """
    n_clients, sigma_db = (
        checks.integer("n_clients", n_clients, 0),
        checks.real("sigma_db", sigma_db, 0),
    )
    return sigma_db * checks.generator(rng).standard_normal(n_clients)


def draw_devices(
    n_clients: int, rng: np.random.Generator, *, snr, sample_bits: int = 101376, samples: int = 160
) -> Devices:
    """Draw the clients' hardware, uniform in the intervals of OSAFL, Section V-A (power uniform in
    dBm).

    Parameters
    ----------
    n_clients : int
    rng : numpy.random.Generator
    snr : array (n_clients,)
        SNR at 1 W of the round, from `snr_per_watt`; `dataclasses.replace(devices,
        snr_per_watt=...)` for the next round.
    sample_bits : int
        s_u, bits a sample; 101376 for Dataset-1 (Table I).
    samples : int
        n nbar, samples of one local step; 32 mini-batches of 5 (ERRATA 43).

    Raises
    ------
    ValueError
        For sizes below 1, or an snr that is negative, not finite or not of length n_clients.
    """
    n = checks.integer("n_clients", n_clients, 0)
    bits = checks.integer("sample_bits", sample_bits, 1) * checks.integer("samples", samples, 1)
    cycles, budget, cpu, power = checks.generator(rng).spawn(
        4
    )  # more clients leave the others' hardware as it was
    return Devices(
        np.broadcast_to(checks.array("snr", snr, low=0), (n,)),
        bits * cycles.uniform(25, 40, n),
        budget.uniform(1.2, 2.5, n),
        cpu.uniform(1e9, 1.8e9, n),
        10 ** (power.uniform(20, 30, n) / 10 - 3),
    )
