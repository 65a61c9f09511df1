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

CARRIER_GHZ = 2.4
BASE_M = 25.0  # height of the base station
DEVICE_M = 1.5  # height of a device
NOISE_DBM_HZ = -174.0


def path_loss_db(distance_m: ArrayLike) -> np.ndarray:
    """Return the urban macro path loss in dB of devices that do not see the base station.

    Source: 3GPP TR 38.901, Table 7.4.1-1, which takes the larger of this loss and of that in sight.
    At 2.4 GHz and our heights the latter is smaller at every distance.

    Parameters
    ----------
    distance_m : array
        Horizontal distance, 0 to 5000 m. Below 10 m, where the model ends, it counts as 10 m.

    Raises
    ------
    ValueError
        For NaN, a negative distance, or one above 5000 m.
    """
    flat = np.maximum(checks.array("distance_m", distance_m, low=0, high=5000), 10.0)
    distance = np.hypot(flat, BASE_M - DEVICE_M)
    return 13.54 + 39.08 * np.log10(distance) + 20 * np.log10(CARRIER_GHZ)


def snr_per_watt(distance_m: ArrayLike, shadowing_db: ArrayLike = 0.0) -> np.ndarray:
    """Return the SNR at 1 W over the whole bandwidth of 540 kHz, in 1/W.

    Parameters
    ----------
    distance_m : array
        Horizontal distance in m.
    shadowing_db : array
        It adds to the gain, in dB: one number, one per distance, or rows of draws with one per
        distance each.

    Raises
    ------
    ValueError
        As `path_loss_db`, and for shadowing that is not finite or of another shape.
    """
    loss_db = path_loss_db(distance_m)
    shadowing_db = checks.array("shadowing_db", shadowing_db)
    fits = shadowing_db.shape[-loss_db.ndim :] == loss_db.shape
    if shadowing_db.shape and loss_db.shape and not fits:
        raise ValueError(
            f"shadowing_db has shape {shadowing_db.shape}; it must be that of distance_m, "
            f"{loss_db.shape}, rows of that shape, or one for all"
        )
    gain_db = shadowing_db - loss_db
    noise_dbm = NOISE_DBM_HZ + 10 * np.log10(BANDWIDTH_HZ)
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
    snr = checks.shape("snr", checks.array("snr", snr, low=0), (), (1,), (n,))
    cycles, budget, cpu, power = checks.generator(rng).spawn(4)
    return Devices(
        np.broadcast_to(snr, (n,)),
        bits * cycles.uniform(25, 40, n),
        budget.uniform(1.2, 2.5, n),
        cpu.uniform(1e9, 1.8e9, n),
        10 ** (power.uniform(20, 30, n) / 10 - 3),
    )
