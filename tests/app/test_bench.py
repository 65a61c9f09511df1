"""What the benchmark computes of its timings; these are nobody's test."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.bench import __main__ as bench
from tests.bench import peers
from tests.bench.workloads import WORKLOADS

MACHINE = {"threads": 1, "load": 0.5, "torch": "2.13.0", "processor": "Some CPU x 2"}


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
