"""The channel and the hardware: path loss by hand, laws of the draws, and bad input."""

import math

import numpy as np
import pytest

from sflkit.osafl import channels


def test_path_loss_by_hand():
    # 3D distance 100 m and 1000 m, heights 25 and 1.5 m, 20 log10(2.4) = 7.604: 13.54 + 39.08 * 2 +
    # 7.604 and 13.54 + 39.08 * 3 + 7.604
    flat = [math.sqrt(d**2 - 23.5**2) for d in (100, 1000)]
    assert channels.path_loss_db(flat) == pytest.approx([99.304, 138.384], abs=1e-3)
    assert channels.path_loss_db(0) == channels.path_loss_db(10)
    # 1 W = 30 dBm, 540 kHz = 57.324 dB: 30 - 99.304 + 174 - 57.324 = 47.372 dB, and 3 dB of
    # shadowing on top
    snr = channels.snr_per_watt(flat[0], 3.0)
    assert 10 * math.log10(snr) == pytest.approx(50.372, abs=1e-3)


def test_the_loss_in_sight_is_smaller_at_every_distance():
    # Its slopes, 22 and then 40 dB a decade, meet at the break point 4 * 24 * 0.5 * 2.4e9 / c.
    d = np.linspace(0, 5000, 3000)
    far = np.hypot(np.maximum(d, 10), 23.5)
    tone, bend = 20 * math.log10(2.4), 4 * 24 * 0.5 * 2.4e9 / 299_792_458
    near = 28 + 22 * np.log10(far) + tone
    beyond = 28 + 40 * np.log10(far) + tone - 9 * math.log10(bend**2 + 23.5**2)
    assert (channels.path_loss_db(d) > np.where(d <= bend, near, beyond)).all()


def test_channel_and_hardware_laws():
    rng = np.random.default_rng(0)
    d = channels.draw_distances(20000, rng)
    assert d.max() <= 600 and np.mean(d < 300) == pytest.approx(
        0.25, abs=0.01
    )  # uniform over the area
    shadow = channels.draw_shadowing_db(20000, rng)
    assert shadow.mean() == pytest.approx(0, abs=0.2) and shadow.std() == pytest.approx(8, rel=0.02)
    devices = channels.draw_devices(500, rng, snr=1.0)
    bits = 160 * 101376
    for array, low, high in (
        (devices.cycles_per_step, 25 * bits, 40 * bits),
        (devices.energy_budget_j, 1.2, 2.5),
        (devices.max_cpu_hz, 1e9, 1.8e9),
        (devices.max_tx_watt, 0.1, 1.0),
    ):
        assert low <= array.min() < low * 1.1 and high * 0.9 < array.max() <= high
    few, more = (channels.draw_devices(n, np.random.default_rng(4), snr=1.0) for n in (5, 9))
    np.testing.assert_array_equal(more.cycles_per_step[:5], few.cycles_per_step)
    np.testing.assert_array_equal(more.max_tx_watt[:5], few.max_tx_watt)


def test_rows_of_shadowing_are_draws_for_the_same_distances():
    distances, draws = [100.0, 300.0], np.array([[0.0, 3.0], [-4.0, 1.0], [2.0, 2.0]])
    rows = channels.snr_per_watt(distances, draws)
    np.testing.assert_array_equal(rows, [channels.snr_per_watt(distances, d) for d in draws])
    with pytest.raises(ValueError, match=r"shadowing_db has shape \(2, 3\); it must be that of"):
        channels.snr_per_watt(distances, draws.T)
