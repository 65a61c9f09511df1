"""Devices and links: costs by hand, and bad input."""

import math

import numpy as np
import pytest

from sflkit.osafl.devices import Devices, Link, costs, finish, uplink_rate

W, LN2 = 1e9, math.log(2)
UNIT = dict(
    snr_per_watt=1.0, cycles_per_step=W, energy_budget_j=2.0, max_cpu_hz=1e9, max_tx_watt=1.0
)


def test_costs_by_hand():
    # 3 steps of 1e9 cycles at 5e8 Hz: 6 s, 0.5 * 2e-28 * 3e9 * 2.5e17 = 0.075 J; snr 3 at 1 W:
    # log2(4) = 2 bit/s/Hz, so 540e3 * 10 bit take 5 s and 5 J
    device = Devices(**{**UNIT, "snr_per_watt": 3.0})
    assert uplink_rate(3.0, 1.0, 540e3) == pytest.approx(1.08e6)
    assert [float(v[0]) for v in costs(device, Link(5.4e6), 3, 5e8, 1.0)] == pytest.approx(
        [6, 5, 0.075, 5]
    )
    assert costs(device, Link(5.4e6), 3, 5e8, 0.0).uplink_s == math.inf
    assert costs(device, Link(0), 0, 0, 0).compute_s == 0


def test_devices_keep_read_only_arrays():
    devices = Devices(**{**UNIT, "snr_per_watt": np.array([1.0, 2.0])})
    for name in UNIT:
        with pytest.raises(ValueError, match="read-only"):
            getattr(devices, name)[0] = 5.0
    assert devices.max_cpu_hz.shape == (2,) and len(devices) == 2


def test_frequencies_and_powers_of_zero():
    device = Devices(**UNIT)
    assert costs(device, Link(1e6), 1, -0.0, 1.0).compute_s == math.inf
    one = np.array([1])
    with pytest.raises(ValueError, match="cpu_hz holds 0 for client 0, which has 1 steps"):
        finish(device, Link(1e6), one, np.zeros(1), np.ones(1))
    with pytest.raises(ValueError, match="tx_watt holds 0 for client 0"):
        finish(device, Link(1e6), one, np.array([1e9]), np.zeros(1))
    assert finish(device, Link(0), one, np.array([1e9]), np.zeros(1)).feasible.all()
    assert not finish(device, Link(1e6), 0 * one, np.zeros(1), np.zeros(1)).feasible.any()
