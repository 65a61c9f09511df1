"""The benchmark's growth, memory and figure; its timings are nobody's test."""

from __future__ import annotations

import sys
from dataclasses import replace

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
import torch

from tests.bench import __main__ as bench
from tests.bench import draw, peers, scaling
from tests.bench.workloads import WORKLOADS

MACHINE = {"threads": 1, "load": 0.5, "torch": "2.13.0", "processor": "Some CPU x 2"}
ROW = {
    "peer": "sflkit auto",
    "speedup": 2.0,
    "speedup_min": 1.5,
    "speedup_max": 2.5,
    "threads": 2,
    "torch": "2.13.0",
    "processor": "Some CPU x 2",
}


def test_fit_by_hand():
    assert scaling.fit(
        [1, 10, 100, 1000], 3 * np.array([1, 10, 100, 1000]) ** 0.8
    ) == pytest.approx((0.8, 0), abs=1e-9)
    # log sizes 0, 1, 2 and log seconds 0, 1, 5: slope (-1 (0 - 2) + 1 (5 - 2)) / 2 = 5/2, residuals
    # 1/2, -1, 1/2, so that s^2 = 3/2 with one degree of freedom and the slope's variance is s^2 / 2
    assert scaling.fit(np.exp([0, 1, 2]), np.exp([0, 1, 5])) == pytest.approx((2.5, np.sqrt(0.75)))


def test_fit_finds_the_exponent_under_noise():
    rng, sizes = np.random.default_rng(0), np.logspace(1, 4, 7)
    fits = np.array(
        [scaling.fit(sizes, sizes * rng.lognormal(sigma=0.1, size=7)) for _ in range(300)]
    )
    assert fits[:, 0].mean() == pytest.approx(1, abs=0.005)
    assert fits[:, 1].mean() == pytest.approx(fits[:, 0].std(), rel=0.15)


@pytest.mark.parametrize(
    ("sizes", "seconds", "message"),
    [
        ([1, 2], [1, 2], "at least three different sizes"),
        ([1, 2, 2], [1, 2, 3], "at least three different sizes"),
        ([1, 2, 3], [1, 2], "there are 2 times"),
        ([0, 1, 2], [1, 2, 3], "sizes holds 0.0"),
        ([1, 2, 3], [1, 0, 3], "seconds holds 0.0"),
        ([1, 2, 3], [1, float("nan"), 3], "seconds holds nan"),
    ],
)
def test_fit_refuses(sizes, seconds, message):
    with pytest.raises(ValueError, match=message):
        scaling.fit(sizes, seconds)


def test_the_axes_have_the_sizes_they_say():
    for axis, low, high in (
        ("clients", 10, 10_000),
        ("parameters", 1e3, 1e7),
        ("samples", 10, 1000),
    ):
        _, make, values = scaling.AXES[axis]
        ends = [make(value) for value in (values[0], values[-1])]
        sizes = [
            {"clients": w.clients, "samples": w.batch}.get(axis)
            or sum(p.numel() for p in w.build().parameters())
            for w in ends
        ]
        assert sizes == pytest.approx([low, high], rel=0.05)
    assert (
        scaling.MANY.clients == 10_000
        and sum(p.numel() for p in scaling.MANY.build().parameters()) == 61_706
    )


# 33 h + (h + 1) h + 10 (h + 1) parameters for h = 1, 2, 3
@pytest.mark.parametrize(
    ("axis", "values", "sizes"),
    [
        ("clients", (2, 4, 8), [2, 4, 8]),
        ("samples", (1, 2, 4), [1, 2, 4]),
        ("parameters", (1, 2, 3), [55, 102, 151]),
    ],
)
def test_growth_has_a_row_a_size(monkeypatch, axis, values, sizes):
    monkeypatch.setattr(scaling, "LEAST_SECONDS", 0.01)
    rows = scaling.growth(axis, 2, MACHINE, values)
    assert [row["size"] for row in rows] == sizes and all(
        tuple(row) == scaling.GROWTH_COLUMNS for row in rows
    )
    assert all(
        0 < float(r["seconds_min"]) <= float(r["seconds"]) <= float(r["seconds_max"]) for r in rows
    )
    exponent, _ = scaling.fit(sizes, [float(row["seconds"]) for row in rows])
    assert float(rows[0]["exponent"]) == pytest.approx(exponent, abs=0.01)
    assert rows[0]["repeats"] == 2 and rows[0]["processor"] == "Some CPU x 2"


def test_growth_fits_the_end_apart_from_the_fixed_costs(monkeypatch):
    # 20 s while fixed costs prevail, n s from 20 clients on; of 1, 20, 100, 2000 the last three lie
    # within two decades
    monkeypatch.setattr(
        scaling, "_time", lambda peer, rounds: float(max(20, peer.workload.clients))
    )
    row = scaling.growth("clients", 2, MACHINE, (1, 20, 100, 2000))[0]
    assert (
        float(row["exponent_end"]) == pytest.approx(1, abs=1e-3)
        and 0.5 < float(row["exponent"]) < 0.8
    )
    assert float(row["exponent_end_se"]) < 1e-3 < float(row["exponent_se"])


def test_a_round_in_groups_is_the_same_round(monkeypatch):
    monkeypatch.setattr(scaling, "GROUP", 4)  # ten clients: 4 + 4 + 2
    workload = replace(WORKLOADS["W4"], clients=10, pool=20)
    data = workload.data()
    start = scaling.Task(workload.build()).init(0)
    whole, groups = (make(workload, *data, start) for make in (peers.Ours, scaling.OursInGroups))
    for r in range(3):
        whole.round(workload.participants(r))
        groups.round(workload.participants(r))
    torch.testing.assert_close(groups.params(), whole.params(), rtol=0, atol=1e-6)
    assert not torch.equal(whole.params(), start) and groups.out.shape == (4, len(start))


def test_memory_is_the_new_process_alone():
    ballast = np.ones(2**26)  # 512 MiB of this process must not count
    found = scaling.peak_memory("W4", "sflkit auto")
    assert found["clients"] == 50 and found["n_params"] == 42
    # How much a process takes that has loaded torch depends on torch's build: 230 MiB from one
    # index, 510 to 720 from another. This one has loaded it as well, and the ballast on top; were
    # it counted in, the new process would start where this one stands.
    assert ballast.nbytes == 2**29
    assert 50 < found["start_mib"] <= found["peak_mib"]
    assert found["start_mib"] < scaling.high_water_mib() - 256


def test_memory_refuses_unknown_names():
    with pytest.raises(ValueError, match="peer='nobody' must be one of 'plain', 'sflkit auto'"):
        scaling.peak_memory("W4", "nobody")
    with pytest.raises(ValueError, match="workload='W9' must be one of 'W1', "):
        scaling.peak_memory("W9", "plain")
    with pytest.raises(ValueError, match="axis='depth' must be one of 'clients'"):
        scaling.growth("depth", 2, MACHINE)


def test_measured_written_drawn(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(scaling, "LEAST_SECONDS", 0.01)
    for axis, (about, make, _) in list(scaling.AXES.items()):
        monkeypatch.setitem(scaling.AXES, axis, (about, make, (1, 2, 3)))
    monkeypatch.setattr(
        scaling,
        "peak_memory",
        lambda w, p: {"clients": 5, "n_params": 42, "start_mib": 1, "peak_mib": 2},
    )
    scaling.run(tmp_path, 2, MACHINE)
    growth, memory = (pd.read_csv(tmp_path / name) for name in ("scaling.csv", "memory.csv"))
    assert growth.groupby("axis").size().to_dict() == dict.fromkeys(scaling.AXES, 3)
    assert (
        tuple(memory) == scaling.MEMORY_COLUMNS
        and len(memory) == len(WORKLOADS) * len(peers.PEERS) + 2
    )
    assert "2 MiB at most" in capsys.readouterr().out
    pd.DataFrame([{"workload": w} | ROW for w in ("W1", "W4")]).to_csv(
        tmp_path / "W1.csv", index=False
    )
    first, second = (
        draw.draw(tmp_path, tmp_path / name).read_bytes() for name in ("a.png", "b.png")
    )
    assert first == second and first.startswith(b"\x89PNG") and len(first) < 300_000
    for gone in ("W1.csv", "scaling.csv"):  # one side is enough
        (tmp_path / gone).rename(tmp_path / "away")
        assert draw.draw(tmp_path, tmp_path / "c.png").read_bytes() != first
        (tmp_path / "away").rename(tmp_path / gone)


def test_the_figure_shows_the_numbers():
    frame = pd.DataFrame(
        [
            {"workload": "W1"} | ROW,
            {"workload": "W1"} | ROW | {"peer": "plain", "speedup": 1.0},
            {"workload": "W9"}
            | ROW
            | {"peer": "flower", "speedup": 0.2, "speedup_min": 0.15, "speedup_max": 0.4},
        ]
    )
    growth = pd.DataFrame(
        [
            dict.fromkeys(scaling.GROWTH_COLUMNS, 0)
            | {
                "axis": "clients",
                "size": n,
                "seconds": 2 * n,
                "seconds_min": n,
                "seconds_max": 3 * n,
                "exponent": 0.9,
                "exponent_end": 1.0,
                "exponent_end_se": 0.02,
            }
            for n in (1, 1000, 10_000)
        ]
    )
    _, (left, right) = plt.subplots(1, 2)
    draw._speedups(left, frame)
    bars = {c.get_label(): c for c in left.containers}
    assert set(bars) == {"sflkit auto", "flower"}
    assert bars["flower"][0].get_ydata().tolist() == [0.2]
    assert bars["flower"][2][0].get_segments()[0][:, 1] == pytest.approx([0.15, 0.4])
    assert [
        s[0, 1]
        for c in left.collections
        if "target" in str(c.get_label())
        for s in c.get_segments()
    ] == [1.5]  # W9 has none
    draw._growth(right, growth)
    assert left.get_yscale() == right.get_yscale() == right.get_xscale() == "log"
    line = right.lines[-1]  # the fit over the last two decades runs through 2 n
    assert line.get_xdata().tolist() == [1000, 10_000] and line.get_ydata() == pytest.approx(
        [2000, 20_000]
    )
    assert "1.00 ± 0.02 at the end, 0.90 in all" in right.get_legend().get_texts()[0].get_text()
    plt.close("all")


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("W1.csv", "", "W1.csv has no rows"),
        ("W1.csv", ",".join(draw._SPEED_COLUMNS) + "\n", "W1.csv has no rows"),
        ("W1.csv", "workload,peer\nW1,plain\n", "W1.csv lacks the columns speedup, "),
        (
            "W1.csv",
            ",".join(draw._SPEED_COLUMNS) + "\nW1,nobody,1,1,1,2,x,y\n",
            "peer='nobody' must be one of 'sflkit auto'",
        ),
        ("scaling.csv", "", "scaling.csv has no rows"),
        (
            "scaling.csv",
            ",".join(scaling.GROWTH_COLUMNS) + "\ndepth" + ",1" * 13 + "\n",
            "axis='depth' must be one of 'clients'",
        ),
        ("other.csv", "x\n1\n", "holds no measurement to draw; `make bench` makes them"),
    ],
)
def test_nothing_is_drawn_from_bad_files(tmp_path, name, text, message):
    (tmp_path / name).write_text(text)
    with pytest.raises(ValueError, match=message):
        draw.draw(tmp_path, tmp_path / "bench.png")
    assert not (tmp_path / "bench.png").exists()


@pytest.mark.parametrize(
    ("options", "done"),
    [(["--draw"], []), (["--scaling"], ["scaling"]), (["--workloads", "W4"], ["W4"])],
)
def test_the_command_measures_what_it_is_asked_for_and_draws(tmp_path, monkeypatch, options, done):
    calls = []
    monkeypatch.setattr(bench, "RESULTS", tmp_path)
    monkeypatch.setattr(bench, "measure", lambda workload, *_: calls.append(workload.name) or [{}])
    monkeypatch.setattr(bench, "_show", lambda row: None)
    monkeypatch.setattr(scaling, "run", lambda folder, repeats, machine: calls.append("scaling"))
    monkeypatch.setattr(draw, "draw", lambda: calls.append("drawn"))
    monkeypatch.setattr(sys, "argv", ["tests.bench", *options])
    bench.main()
    assert calls == [*done, "drawn"]


@pytest.mark.parametrize(
    ("load", "options", "kept"), [(0.4, [], True), (3.0, [], False), (3.0, ["--force"], True)]
)
@pytest.mark.parametrize("mode", ["--scaling", "--workloads=W4"])
def test_what_a_busy_machine_measured_is_not_kept(
    tmp_path, monkeypatch, capsys, load, options, kept, mode
):
    folders = []
    monkeypatch.setattr(bench, "RESULTS", tmp_path)
    monkeypatch.setattr(bench.os, "getloadavg", lambda: (load, 0.0, 0.0))
    monkeypatch.setattr(bench, "measure", lambda *_: [dict.fromkeys(bench.COLUMNS, 1)])
    monkeypatch.setattr(scaling, "run", lambda folder, repeats, machine: folders.append(folder))
    monkeypatch.setattr(draw, "draw", lambda: "figure")
    monkeypatch.setattr(sys, "argv", ["tests.bench", mode, *options])
    bench.main()
    assert (tmp_path / "W4.csv").exists() == (kept and mode != "--scaling")
    assert folders == ([tmp_path if kept else None] if mode == "--scaling" else [])
    assert ("speed.md" in capsys.readouterr().out) == kept


TINY = replace(WORKLOADS["W4"], name="tiny", clients=2, pool=2, flops=1000.0)


def test_rows_of_a_tiny_workload_by_hand(monkeypatch):
    times = {
        "plain": iter([4.0, 6.0, 8.0]),
        "sflkit auto": iter([2.0, 2.0, 2.0]),
        "sflkit pool": iter([4.0, 3.0, 2.0]),
        "sflkit stacked": iter([1.0, 1.0, 1.0]),
    }
    names = {kind: name for name, kind in peers.PEERS.items()}
    monkeypatch.setattr(bench, "_rounds_per_sample", lambda peer, workload: 1)
    monkeypatch.setattr(bench, "_time", lambda peer, *_: next(times[names[type(peer)]]))
    monkeypatch.setattr(bench, "_sgemm_flops", lambda: 1e5)
    monkeypatch.setattr(bench.flower, "run", lambda name, rounds: [12.0, 3.0, 6.0])
    rows = {row["peer"]: row for row in bench.measure(TINY, 3, MACHINE)}
    assert list(rows) == [*peers.PEERS, "flower"]
    # 2 clients x 5 steps x 20 samples x 1000 = 200,000 operations: 2 s at 100,000 a second
    expected = {
        "plain": (6, 1, 1, 1, 1 / 3),
        "sflkit auto": (2, 3, 2, 4, 1),
        "sflkit pool": (3, 2, 1, 4, 2 / 3),
        "flower": (6, 1, 0.5, 2, 1 / 3),
    }  # each of Flower's rounds against the plain loop's median, 6
    columns = ("seconds", "speedup", "speedup_min", "speedup_max", "peak_share")
    for name, values in expected.items():
        assert [float(rows[name][c]) for c in columns] == pytest.approx(values, rel=1e-3)
    assert rows["plain"]["load"] == "0.5" and float(rows["sflkit stacked"]["difference"]) < 1e-6


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


def test_the_command_refuses(monkeypatch, capsys):
    refused = (
        (["--workloads", "W9"], "invalid choice: 'W9'"),
        (["--repeats", "4"], "--repeats 4 must be at least 5"),
    )
    for options, message in refused:
        monkeypatch.setattr(sys, "argv", ["tests.bench", *options])
        with pytest.raises(SystemExit):
            bench.main()
        assert message in capsys.readouterr().err
