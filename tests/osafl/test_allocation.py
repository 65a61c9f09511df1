"""Allocation: hand values, a brute-force grid, and the paper's alternation."""

import dataclasses
import itertools
import math

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from sflkit.osafl import alternation, channels
from sflkit.osafl.allocation import allocate
from sflkit.osafl.alternation import Start
from sflkit.osafl.devices import Devices, Link, costs, uplink_rate

W, LN2 = 1e9, math.log(2)
UNIT = dict(
    snr_per_watt=1.0, cycles_per_step=W, energy_budget_j=2.0, max_cpu_hz=1e9, max_tx_watt=1.0
)


def fleet(seed, n=200):
    """The paper's clients on our channel."""
    place, shadow, line, hardware = np.random.default_rng(seed).spawn(4)
    distance = channels.draw_distances(n, place)
    snr = channels.snr_per_watt(distance, channels.draw_shadowing_db(n, shadow))
    return channels.draw_devices(n, hardware, snr=snr)


def check_constraints(devices, link, result):
    on = result.feasible
    assert result.local_steps.dtype == np.int64
    assert (result.local_steps[~on] == 0).all()
    assert np.isnan(result.time_s[~on]).all()
    for array in (result.cpu_hz, result.tx_watt, result.energy_j):
        assert (array[~on] == 0).all() and np.isfinite(array).all()
    assert ((result.local_steps[on] >= 1) & (result.local_steps[on] <= link.max_steps)).all()
    assert (result.time_s[on] <= link.deadline_s).all()
    assert (result.energy_j <= devices.energy_budget_j).all()
    assert (result.cpu_hz <= devices.max_cpu_hz).all()
    assert (result.tx_watt <= devices.max_tx_watt).all()
    spent = costs(devices, link, result.local_steps, result.cpu_hz, result.tx_watt)
    np.testing.assert_allclose(
        (spent.compute_j + spent.uplink_j)[on], result.energy_j[on], rtol=1e-9
    )
    np.testing.assert_allclose((spent.compute_s + spent.uplink_s)[on], result.time_s[on], rtol=1e-9)


def test_a_client_with_no_choice_by_hand():
    # payload = bandwidth, snr = 1: 1 s at 1 W at the fastest. One step takes 1 s at 1e9 Hz, so a
    # deadline of 2 s leaves one point, of 0.5 * 2e-27 * 1e9 * 1e18 + 1 = 2 J, on every limit at
    # once; a second step would need 1 s more
    link = Link(540e3, deadline_s=2.0, capacitance=2e-27)
    result = allocate(Devices(**UNIT), link)
    assert [float(v[0]) for v in result] == pytest.approx([1, 1e9, 1, 2, 2, 1])
    for tighter in (
        dict(energy_budget_j=1.9999),
        dict(max_cpu_hz=0.9999e9),
        dict(max_tx_watt=0.9999),
        dict(snr_per_watt=0.9999),
    ):
        assert not allocate(Devices(**{**UNIT, **tighter}), link).feasible
    assert not allocate(Devices(**UNIT), dataclasses.replace(link, deadline_s=1.9999)).feasible


def test_interior_optimum_by_hand():
    # sending for u = 1 s means x = ln 2 and an energy that falls by x e^x - (e^x - 1) = 2 ln 2 - 1
    # W; with 2 s left for 1e9 cycles the computing energy rises by v (1e9)^3 / 2^3, equal for v = 8
    # (2 ln 2 - 1) 1e-27. Then f = 5e8, p = 1 and the energy is 0.5 v 1e9 * 2.5e17 + 1 = (2 ln 2 -
    # 1) + 1 = 2 ln 2 J
    link = Link(540e3, deadline_s=3.0, capacitance=8e-27 * (2 * LN2 - 1), max_steps=1)
    result = allocate(Devices(**{**UNIT, "max_tx_watt": 10.0}), link)
    assert result.energy_j[0] == pytest.approx(2 * LN2, rel=1e-12)
    assert (result.tx_watt[0], result.cpu_hz[0], result.time_s[0]) == pytest.approx(
        (1.0, 5e8, 3.0), rel=1e-7
    )


def test_without_a_payload_by_hand():
    # nothing is sent, at 0 W; all 200 s compute: f = 5e9 / 200 and 0.5 * 2e-28 * (5e9)^3 / 200^2 =
    # 3.125e-4 J
    result = allocate(Devices(**{**UNIT, "snr_per_watt": 0.0}), Link(0))
    assert [float(v[0]) for v in result] == pytest.approx([5, 2.5e7, 0, 3.125e-4, 200, 1])
    again = allocate(Devices(**UNIT), Link(0), method="alternating")
    assert again.local_steps == 5
    assert again.tx_watt == 0
    assert again.energy_j == pytest.approx(3.125e-4)
    # a tiny payload comes close: it costs little more than payload ln 2 / (omega snr) = 1.3e-9 J,
    # the limit of slow sending
    assert allocate(Devices(**UNIT), Link(1e-3)).energy_j[0] == pytest.approx(
        3.125e-4 + 1.3e-9, rel=1e-6
    )


@pytest.mark.parametrize("method", ["joint", "alternating"])
def test_nobody_can(method):
    for name in ("snr_per_watt", "energy_budget_j", "max_cpu_hz", "max_tx_watt"):
        devices = Devices(**{**UNIT, name: 0.0, "cycles_per_step": [W, 2 * W]})
        result = allocate(devices, Link(1e6), method=method)
        check_constraints(devices, Link(1e6), result)
        assert not result.feasible.any() and len(result.feasible) == 2
    empty = allocate(Devices(*np.empty((5, 0))), Link(1e6), method=method)
    assert all(len(column) == 0 for column in empty)


@settings(max_examples=12)
@given(st.integers(0, 10**6), st.floats(5, 8.6))
@example(130, 7.0)  # its best power is a four-millionth of the largest
def test_joint_against_a_grid(seed, log_payload):
    devices, link = fleet(seed, 6), Link(10**log_payload, max_steps=4)
    result = allocate(devices, link)
    check_constraints(devices, link, result)
    for u in range(6):
        power = devices.max_tx_watt[u] * np.append(0, np.geomspace(1e-9, 1, 750))[:, None]
        rate = link.bandwidth_hz * np.log2(1 + devices.snr_per_watt[u] * power)
        with np.errstate(divide="ignore", invalid="ignore"):
            upload = np.where(rate > 0, link.payload_bits / rate, 1e99)
        best = {}
        for kappa in range(1, 5):
            work = kappa * devices.cycles_per_step[u]
            cpu = np.geomspace(
                work / link.deadline_s, max(devices.max_cpu_hz[u], work / link.deadline_s), 400
            )[None]
            energy = 0.5 * link.capacitance * work * cpu**2 + power * upload
            ok = (work / cpu + upload <= link.deadline_s) & (energy <= devices.energy_budget_j[u])
            best[kappa] = np.min(energy, initial=np.inf, where=ok)
        reached = max((k for k, e in best.items() if np.isfinite(e)), default=0)
        kappa = result.local_steps[u]
        assert kappa >= reached  # nothing on the grid beats the allocation
        if kappa:
            assert result.energy_j[u] <= best[kappa] * (1 + 1e-12)
        # and the grid comes close, so that it can tell: it misses at most a step in p and the
        # budget's edge
        if reached:
            assert (
                result.energy_j[u] >= 0.9 * best[kappa]
                if kappa == reached
                else kappa == reached + 1
            )


@settings(max_examples=20)
@given(st.integers(0, 10**6))
def test_joint_is_the_least_over_a_fine_line(seed):
    # with whole steps and deadline used up, 20001 powers around and beyond the answer never need
    # less energy
    devices, link = fleet(seed, 8), Link(5e7)
    result = allocate(devices, link)
    for u in np.flatnonzero(result.feasible):
        power = np.geomspace(result.tx_watt[u] / 50, devices.max_tx_watt[u], 20001)
        upload = link.payload_bits / uplink_rate(devices.snr_per_watt[u], power, link.bandwidth_hz)
        work = result.local_steps[u] * devices.cycles_per_step[u]
        with np.errstate(divide="ignore"):
            cpu = work / (link.deadline_s - upload)
        energy = 0.5 * link.capacitance * work * cpu**2 + power * upload
        least = energy[(cpu > 0) & (cpu <= devices.max_cpu_hz[u])].min()
        assert result.energy_j[u] <= least * (1 + 1e-12)
        assert result.energy_j[u] == pytest.approx(least, rel=1e-6)


def test_joint_is_monotone():
    devices = fleet(1, 60)
    steps = [allocate(devices, Link(bits)).local_steps for bits in (1e7, 3e7, 1e8, 3e8, 1e9)]
    assert all((a >= b).all() for a, b in itertools.pairwise(steps))
    assert steps[0].sum() > steps[-1].sum()
    one = allocate(dataclasses.replace(devices, snr_per_watt=devices.snr_per_watt * 4), Link(1e8))
    base = allocate(devices, Link(1e8))
    same = (one.local_steps == base.local_steps) & base.feasible
    assert (one.local_steps >= base.local_steps).all()
    assert (one.energy_j[same] <= base.energy_j[same]).all()
    # a client's answer does not depend on the others
    alone = allocate(
        Devices(*(getattr(devices, f.name)[7:8] for f in dataclasses.fields(Devices))), Link(1e8)
    )
    np.testing.assert_array_equal(np.stack(alone)[:, 0], np.stack(base)[:, 7])


def test_lemmas_by_hand():
    # 1e9 cycles at 1e9 Hz: 1 s and 0.1 J; sending 10 s at 0.1 W, 1 J. Budget 1.25 J: 2.5 steps;
    # deadline 200 s: 190; kappa 5
    device = Devices(**{**UNIT, "snr_per_watt": 10.0, "energy_budget_j": 1.25})
    link = Link(5.4e6)
    cpu, power = np.array([1e9]), np.array([0.1])
    assert alternation.lemma1(device, link, cpu, power) == pytest.approx([2.5])
    assert alternation.lemma2(device, link, np.array([2.5]), power) == pytest.approx([2.5e9 / 190])
    assert alternation.least_power(
        device, link, np.array([2.5]), np.array([2.5e9 / 190])
    ) == pytest.approx([0.1])  # ERRATA 35
    # whole steps, ERRATA 36: 2, at 2e9 / 190 Hz, of 0.5 * 2e-28 * (2e9)^3 / 190^2 J on top of 1 J
    result = allocate(device, link, "alternating", start=Start(1.0, 0.1))
    assert [float(v[0]) for v in result] == pytest.approx(
        [2, 2e9 / 190, 0.1, 1 + 8e-1 / 190**2, 200, 1]
    )
    # the joint answer has all 5 steps, since a client that computes slowly has energy to spare
    assert allocate(device, link).local_steps == 5


@pytest.mark.parametrize("solver", ["closed", "cvxpy"])
def test_one_step_of_the_approximation_by_hand(solver):
    if solver == "cvxpy":
        pytest.importorskip("cvxpy")
    # snr p = 1: 10 s and 1 J at 0.1 W. A CPU that leaves 9 s asks for 2^(10/9) - 1 = 1.1601 times
    # the power, and the energy (51), linear at 0.1 W with d log e / d log p = 1 - 1 / (2 ln 2) =
    # 0.27865, for 1 + 0.27865 * 0.1601 = 1.0446 J (computing: 3e-6)
    link, one, power = Link(5.4e6), np.ones(1), np.array([0.1])
    for budget, expected in ((1.0440, 0.1), (1.0450, 0.116012)):
        device = Devices(**{**UNIT, "snr_per_watt": 10.0, "energy_budget_j": budget})
        moved = alternation.algorithm3(device, link, one, one * W / 191, power, solver=solver)
        assert moved == pytest.approx([expected], rel=1e-5)


@pytest.mark.parametrize("share", [1.0, 0.1, 0.01])
def test_alternation_stands_still(share):
    devices, link = fleet(3), Link(33 * 3e6)
    history = alternation.alternate(devices, link, start=Start(1.0, share))
    assert np.abs(history.tx_watt / history.tx_watt[0] - 1).max() < 1e-11  # ERRATA 35: 4e-13 there
    np.testing.assert_allclose(history.local_steps[2:], history.local_steps[1:-1], rtol=1e-11)
    result = allocate(devices, link, "alternating", start=Start(1.0, share))
    check_constraints(devices, link, result)
    joint = allocate(devices, link)
    assert (joint.local_steps >= result.local_steps).all()
    same = result.feasible & (joint.local_steps == result.local_steps)
    assert (joint.energy_j[same] <= result.energy_j[same] * (1 + 1e-12)).all()


def test_cvxpy_agrees_with_the_closed_form():
    pytest.importorskip("cvxpy")
    devices, link = fleet(5, 30), Link(33 * 1.5e6)
    closed, solved = (
        alternation.alternate(devices, link, solver=solver) for solver in ("closed", "cvxpy")
    )
    np.testing.assert_allclose(solved.tx_watt[-1], closed.tx_watt[-1], rtol=1e-6)
    np.testing.assert_allclose(solved.local_steps[-1], closed.local_steps[-1], rtol=1e-6)
    # a frequency above Lemma 2's leaves (10c) below the start: there the approximation really
    # moves, to (10c)
    some = Devices(
        *(getattr(devices, f.name)[closed.local_steps[-1] > 0] for f in dataclasses.fields(Devices))
    )
    on = closed.local_steps[-1] > 0
    steps, cpu, power = (
        closed.local_steps[-1][on],
        1.2 * closed.cpu_hz[-1][on],
        closed.tx_watt[0][on],
    )
    low = alternation.least_power(some, link, steps, cpu)
    for solver in ("closed", "cvxpy"):
        np.testing.assert_allclose(
            alternation.algorithm3(some, link, steps, cpu, power, solver=solver), low, rtol=1e-5
        )
    assert (low < 0.999 * power).any()


def test_straggler_shares_depend_on_the_start():
    # ERRATA 35, our channel, 600 clients: the joint optimum leaves far fewer out, every payload,
    # and no start is best for all
    shares = {}
    for payload in (0.8e6, 1.5e6, 3e6, 6e6):
        link, rows = Link(33 * payload), []
        for seed in range(3):
            devices = fleet(seed)
            runs = [
                allocate(devices, link, "alternating", start=Start(1.0, share))
                for share in (1.0, 0.1, 0.01)
            ]
            rows.append([np.mean(~r.feasible) for r in [*runs, allocate(devices, link)]])
        shares[payload] = np.mean(rows, axis=0)
        assert shares[payload][3] < shares[payload][:3].min() - 0.03
    table = np.array(list(shares.values()))
    assert (np.diff(table, axis=0) > 0).all()  # larger models have more stragglers
    assert (table[:, 0] > 0.6).all() and table[-1, 0] > 0.99  # from full power almost nobody trains
    assert table[0, 1] < table[0, 2] and table[3, 1] > table[3, 2]


def test_steps_are_not_whole_without_rounding():
    # ERRATA 36: the printed algorithm gives real numbers of steps, some between 0 and 1, which are
    # nobody's training
    devices, link = fleet(0, 600), Link(33 * 1.5e6)
    real = alternation.alternate(devices, link).local_steps[-1]
    whole = allocate(devices, link, "alternating").local_steps
    fraction = (real > 0) & (np.abs(real - np.round(real)) > 1e-6)
    assert fraction.mean() > 0.01 and ((real > 0) & (real < 1)).any()
    np.testing.assert_array_equal(whole[fraction], np.floor(real[fraction]))


def test_printed_objective_is_ill_posed():
    # ERRATA 34: along the deadline, with the power fixed, the first term is (t - u)^2 / (0.5 v
    # cycles^3 steps): doubled by half the steps, without limit; and from any point, fewer steps at
    # a frequency lowered alike use the same time and win
    devices, link = fleet(2, 50), Link(33 * 0.8e6)
    joint = allocate(devices, link)
    on = joint.feasible
    some = Devices(*(getattr(devices, f.name)[on] for f in dataclasses.fields(Devices)))
    left = link.deadline_s - costs(some, link, 0, 0, joint.tx_watt[on]).uplink_s
    values = []
    for steps in (5.0, 2.5, 1.0, 1e-3, 1e-9):
        value = alternation.objective(
            some, link, steps, some.cycles_per_step * steps / left, joint.tx_watt[on], weight=0.5
        )
        np.testing.assert_allclose(
            value.computing, left**2 / (0.5 * link.capacitance * some.cycles_per_step**3 * steps)
        )
        values.append(value)
    assert all((a.total < b.total).all() for a, b in itertools.pairwise(values))
    np.testing.assert_allclose(
        values[0].sending, values[-1].sending
    )  # the second term knows no steps
    np.testing.assert_allclose(values[0].total, 0.5 * values[0].computing + 0.5 * values[0].sending)


def test_a_start_belongs_to_the_alternation():
    with pytest.raises(ValueError, match=r"start=.* has no meaning for method='joint'"):
        allocate(Devices(**UNIT), Link(1e6), start=Start())


THREE = Devices(*([value] * 3 for value in (3.0, 1e9, 2.0, 1e9, 1.0)))


def test_steps_that_leave_no_time_to_send_are_the_culprit():
    # 3 steps of 1 s each at 1e9 Hz, with a deadline of 2 s: (10c) has a negative power, which
    # nobody gave
    steps, cpu, watt = (np.full(3, value) for value in (3.0, 1e9, 0.5))
    with pytest.raises(ValueError, match=r"^local_steps=3 at cpu_hz=1e\+09 .* than deadline_s=2"):
        alternation.algorithm3(THREE, Link(540e3, deadline_s=2.0), steps, cpu, watt)


def test_grids_over_all_clients_are_allowed():
    steps = np.linspace(1, 5, 7)[:, None]
    assert alternation.lemma2(THREE, Link(1e6), steps, 0.5).shape == (7, 3)
