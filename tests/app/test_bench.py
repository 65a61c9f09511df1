"""What the benchmark computes of its timings; these are nobody's test."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from tests.bench import __main__ as bench
from tests.bench import peers, scaling
from tests.bench.workloads import WORKLOADS

MACHINE = {"threads": 1, "load": 0.5, "torch": "2.13.0", "processor": "Some CPU x 2"}


def test_fit_by_hand():
    assert scaling.fit(
        [1, 10, 100, 1000], 3 * np.array([1, 10, 100, 1000]) ** 0.8
    ) == pytest.approx((0.8, 0), abs=1e-9)
    # log sizes 0, 1, 2 and log seconds 0, 1, 5: slope (-1 (0 - 2) + 1 (5 - 2)) / 2 = 5/2, residuals
    # 1/2, -1, 1/2, so that s^2 = 3/2 with one degree of freedom and the slope's variance is s^2 / 2
    assert scaling.fit(np.exp([0, 1, 2]), np.exp([0, 1, 5])) == pytest.approx((2.5, np.sqrt(0.75)))


def test_rounds_in_groups_and_by_rows_are_the_same_round(monkeypatch):
    monkeypatch.setattr(peers.OursInGroups, "group", 4)  # ten clients: 4 + 4 + 2
    workload = replace(WORKLOADS["W4"], clients=10, pool=20)
    data = workload.data()
    start = scaling.Task(workload.build()).init(0)
    kinds = (peers.Ours, peers.OursInGroups, peers.OursRows)
    whole, groups, rows = (make(workload, *data, start) for make in kinds)
    for r in range(3):
        for peer in (whole, groups, rows):
            peer.round(workload.participants(r))
    torch.testing.assert_close(groups.params(), whole.params(), rtol=0, atol=1e-6)
    assert not torch.equal(whole.params(), start) and groups.out.shape == (4, len(start))
    assert torch.equal(rows.params(), whole.params())  # the same bits in either form


# 2 clients x 5 steps x 20 samples, 2 multiply-adds of 250 weights twice: 200,000 operations
TINY = replace(WORKLOADS["W4"], name="tiny", clients=2, pool=2, layers=((250, 1),))


def test_rows_of_a_tiny_workload_by_hand(monkeypatch):
    times = {
        "plain": iter([4.0, 6.0, 8.0]),
        "sflkit auto": iter([2.0, 2.0, 2.0]),
        "sflkit pool": iter([4.0, 3.0, 2.0]),
        "sflkit stacked": iter([1.0, 1.0, 1.0]),
        "sflkit rows": iter([1.0, 1.0, 1.0]),
    }
    names = {kind: name for name, kind in peers.PEERS.items()}
    monkeypatch.setattr(bench, "_rounds_per_sample", lambda peer, workload: 1)
    monkeypatch.setattr(bench, "timed", lambda peer, *_: next(times[names[type(peer)]]))
    monkeypatch.setattr(bench, "_sgemm_flops", lambda: 1e5)
    monkeypatch.setattr(bench.flower, "run", lambda name, rounds: [12.0, 3.0, 6.0])
    rows = {row["peer"]: row for row in bench.measure(TINY, 3, MACHINE)}
    assert list(rows) == [*peers.PEERS, "flower"]
    # 200,000 operations take 2 s at 100,000 a second
    expected = {
        "plain": (6, 1, 1, 1, 1 / 3),
        "sflkit auto": (2, 3, 2, 4, 1),
        "sflkit pool": (3, 2, 1, 4, 2 / 3),
        "flower": (6, 1, 0.5, 2, 1 / 3),
    }  # each of Flower's rounds against the plain loop's median, 6
    columns = ("seconds", "speedup", "speedup_min", "speedup_max", "peak_share")
    for name, values in expected.items():
        assert [float(rows[name][c]) for c in columns] == pytest.approx(values, rel=1e-3)
    assert rows["plain"]["load"] == 0.5 and float(rows["sflkit stacked"]["difference"]) < 1e-6


def test_a_peer_with_other_parameters_ends_the_benchmark(monkeypatch):
    class Wrong(peers.Ours):
        def params(self):
            return self.w + 1e-3

    monkeypatch.setitem(peers.PEERS, "sflkit pool", Wrong)
    monkeypatch.setattr(bench, "_rounds_per_sample", lambda peer, workload: 1)
    monkeypatch.setattr(bench, "_sgemm_flops", lambda: 1.0)
    with pytest.raises(
        SystemExit, match=r"tiny: parameters after one round differ .*'sflkit pool': 0.00"
    ):
        bench.measure(TINY, 2, MACHINE)
