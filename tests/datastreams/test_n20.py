"""The experiments of notebook 20: turning points, crossings, present samples, Table 3."""

import numpy as np
import pytest

from companion.claims import DATASTREAMS as CLAIMS
from companion.notebooks import n20
from sflkit.datastreams.psi import equal_fresh_p_hist, psi
from sflkit.datastreams.strategies import client_importance
from sflkit.randomness import generator
from tests.invented import answers

GROUPS = n20.Groups(3, 5)
FRACTIONS = [0.1, 0.4, 0.7]
AXIS = np.geomspace(1e-3, 1e3, 301)


@pytest.fixture(scope="module")
def sweep():
    return n20.sweep(GROUPS, FRACTIONS, AXIS)


def test_sizes_add_up_within_the_groups():
    n = GROUPS.sizes(0.4)
    assert n.sum() == pytest.approx(1) and n[GROUPS.historical].sum() == pytest.approx(0.4)
    assert len(set(n[:3])) == len(set(n[3:])) == 1


def test_turning_points_are_where_the_closed_form_turns(sweep):
    """p_hist is 1 up to `leaves`, and (1 + f) / 2 at `halfway`: put a^2 = 1 / (r^2 M_fresh) into
    f + a (1 - f) f / sqrt(1 - a^2 (1 - f) f) = (1 + f) / 2, which is
    a f / sqrt(1 - a^2 (1 - f) f) = 1 / 2, so 4 a^2 f^2 = 1 - a^2 (1 - f) f, a^2 f (3 f + 1) = 1.
    """
    points = n20.turning_points(GROUPS, sweep)
    for fraction, row in points.iterrows():
        assert equal_fresh_p_hist(fraction, 5, row["leaves"]) == 1
        assert equal_fresh_p_hist(fraction, 5, 1.001 * row["leaves"]) < 1
        assert equal_fresh_p_hist(fraction, 5, row["halfway"]) == pytest.approx((1 + fraction) / 2)
    step = AXIS[1] / AXIS[0]
    for name in ("leaves", "halfway"):
        seen = points[f"seen_{name}"] / points[name]
        assert (seen > 1).all() and (seen <= step * (1 + 1e-9)).all()


def test_historical_and_uniform_are_equal_where_they_cross():
    gaps = n20.gaps(GROUPS, [0.1, 0.3, 2.0], 51)
    for ratio in (0.1, 0.3):
        n = GROUPS.sizes(n20.crossing(GROUPS, ratio))
        of = [
            psi(client_importance(s, n, GROUPS.historical), n, GROUPS.historical, 1.0, ratio)
            for s in ("historical", "uniform")
        ]
        assert of[0] == pytest.approx(of[1])
    # s (1 + s) = 2 sqrt(5) has no solution below 1
    assert np.isnan(n20.crossing(GROUPS, 2.0))
    for ratio, part in gaps.groupby("ratio"):
        changes = (np.diff(np.sign(part["difference"])) != 0).sum()
        assert changes == (0 if ratio == 2 else 1)
    assert (gaps[["historical", "uniform"]] >= 0).all(axis=None)


def test_the_rounds_until_are_the_first_with_so_little_weight():
    for fraction, rounds in n20.rounds_until(0.05).items():
        before, at = (n20.fresh_weight(fraction, t) for t in (rounds - 1, rounds))
        assert before > 0.05 >= at - 1e-12
    # (1 - 0.05) / 0.05 = 19 times the samples; 19 / T of them against 1: 5 % at 19 * 19 = 361
    assert n20.rounds_until(0.05)[0.05] == 361


def test_table_3_gives_femnist_and_no_other_ratio_throughout():
    table = n20.table3_ratios()
    stated = table[~table["N"].isin(n20.UNSTATED_N)]
    agrees = stated.groupby("data")["agrees"].all()
    assert agrees[agrees].index.tolist() == ["FEMNIST"]
    assert ((table["lowest"] <= table["(204)"]) & (table["(204)"] <= table["highest"])).all()
    row = stated.set_index(["data", "N_hist/N"]).loc[("CIFAR-10", 0.2)]
    assert row["(204)"] == pytest.approx(0.381, abs=5e-4) and row["reported"] == 0.15
    reported = n20.reported_importance()
    assert reported["agrees"].sum() == 9
    row = reported.set_index(["data", "N_hist/N"]).loc[("Shakespeare", 0.5)]
    assert row["minimiser"] == pytest.approx(0.63, abs=5e-3) and row["reported"] == 1


def test_the_evidence_is_judged_and_can_fail(sweep):
    gaps = n20.gaps(GROUPS, [0.05, 0.3], 51)
    rng = generator(3, "monte_carlo")
    ended, chords = n20.descents(rng, 1), n20.chords(rng, 100)
    ratios = n20.table3_ratios()
    good = n20.evidence(GROUPS, sweep, gaps, ratios, ended, chords)
    for artefact in ("ds-fig1", "ds-c4"):
        assert set(answers(CLAIMS[artefact], good[artefact]).values()) == {"yes"}
    risen = sweep.assign(p_hist=sweep["p_hist"].where(sweep["ratio"] < 500, 0.99))
    flat = gaps.assign(uniform=0.1)
    bad = n20.evidence(GROUPS, risen, flat, ratios, ended + 0.02, chords[::-1])
    found = answers(CLAIMS["ds-fig1"], bad["ds-fig1"])
    assert found["right"] == "no" and found["between"] == "no" and found["left"] == "yes"
    assert answers(CLAIMS["ds-fig2"], bad["ds-fig2"])["uniform"] == "no"
    assert set(answers(CLAIMS["ds-c4"], bad["ds-c4"]).values()) == {"no"}
