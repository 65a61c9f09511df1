"""What the pictures of paths draw, on frames whose differences are known."""

import contextlib

import matplotlib

matplotlib.use("agg")
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest

from companion import sheets
from companion.notebooks import n13
from sflkit import paths


def sweep(levels, seeds=4, rounds=(2, 4, 6, 8), **columns):
    """Rows with the same accuracy in all rounds: `levels` by rule, plus a hundredth a seed."""
    return pd.DataFrame(
        [
            {"rule": rule, "seed": seed, "round": t, "accuracy": level + seed / 100} | columns
            for rule, level in levels.items()
            for seed in range(seeds)
            for t in rounds
        ]
    )


@pytest.fixture
def axes():
    fig, axes = plt.subplots(1, 2)
    yield axes
    plt.close(fig)


def test_curves_over_runs_have_the_spread_within_a_world(axes):
    """World 1 is 10 points above world 0; in each, two paths lie 1 point around the mean: the
    variance within a world is 2 (of two values a = -1, +1: (1 + 1) / (2 - 1)).
    """
    rows = pd.DataFrame(
        [
            {
                "world": w,
                "seed": f"{w}/{s}",
                "round": t,
                "accuracy": 0.5 + w / 10 + (2 * s - 1) / 100,
            }
            for w in (0, 1)
            for s in (0, 1)
            for t in (1, 2)
        ]
    )
    drawn = n13.over_runs(axes[0], {"DRSR": rows}, [{"color": "black"}])
    assert drawn["mean"].tolist() == pytest.approx([55, 55])
    assert drawn["std"].tolist() == pytest.approx([2**0.5] * 2)


def test_differences_are_paired_and_have_intervals(axes):
    """Run s is s points above its level, the other arm 2 s: the difference is s, mean 1.

    Over the runs 0, 1 and 2 its standard deviation is 1, and half of the interval Student's
    4.302653 / sqrt(3).
    """
    arms = {
        name: pd.DataFrame(
            [
                {"seed": f"0/{s}", "round": t, "accuracy": 0.5 + factor * s / 100}
                for s in range(3)
                for t in (1, 2)
            ]
        )
        for name, factor in (("usual", 1), ("other", 2))
    }
    drawn = n13.gaps(axes[0], arms, [{"color": "b"}, {"color": "r"}], to="usual")
    assert list(drawn) == ["other", "other, half"]
    assert drawn["other"].tolist() == pytest.approx([1, 1])
    assert drawn["other, half"].tolist() == pytest.approx([4.302653 / 3**0.5] * 2)


def test_figures_6_and_8_have_trained_runs_above_and_labels_alone_below():
    """Seeds 0 to 3 lie 0 to 3 points above their level."""
    labels, trained = (
        pd.concat(
            sweep(dict.fromkeys(("drsr", "srsr"), level), batch_size=n, theta=0.5, **columns)
            for n, level in levels.items()
        )
        for levels, columns in (
            ({30: 0.85, 150: 0.85}, {"capacity": 300, "world": 0}),
            ({30: 0.4, 150: 0.7}, {"capacity": 300, "model": "linear"}),
        )
    )
    found = n13.Sensitivity(labels, trained, trained)
    fig, axes = plt.subplots(3, 2)
    arms, looks = {"DRSR": ("drsr", 0.5), "SRSR": ("srsr", 0.5)}, [{"color": "b"}, {"color": "r"}]
    drawn = n13.sheet(axes, 6, found, arms, looks, n13.spreads)
    means = {letter: set(drawn[f"{letter}, accuracy"]["mean"].round(6)) for letter in "ab"}
    assert means == {"a": {41.5}, "b": {71.5}}
    legends = [[t.get_text() for t in ax.get_legend().get_texts()] for ax in axes[0]]
    assert legends == [["DRSR", "SRSR"]] * 2
    assert axes[0, 1].get_title() == "Figure 6(b): $B_s$ = 150 of B = 300"
    assert axes[2, 1].get_title() == "labels alone, $B_s$ = 150"
    spread = np.std([0, 1, 2, 3], ddof=1)
    for name in ("a, Linear", "b, Linear", "a, labels alone", "b, labels alone"):
        np.testing.assert_allclose(drawn[name][["DRSR", "SRSR"]], spread)
    plt.close(fig)


@pytest.mark.parametrize("rounds", [10, 600, 2000])
def test_runs_shorter_or_longer_than_the_authors_are_drawn_beside_them(axes, rounds):
    colors = {"DRSR": "black", "LAZY": "gray"}
    drawn = sheets.authors_curves(axes[0], "sfl-fig10", "a", colors, within=(0, rounds))
    assert set(drawn["series"].astype(str)) <= set(colors) and (drawn["x"] <= rounds).all()
    assert (len(drawn) == 2 * 118) == (rounds >= 600)  # 118 points a curve, to round 595


@pytest.mark.parametrize(("rounds", "refused"), [(600, False), (661, False), (662, True)])
def test_only_curves_that_reach_the_figures_end_are_published(axes, monkeypatch, rounds, refused):
    monkeypatch.setenv(paths.PUBLISH, "1")
    asked = pytest.raises(ValueError, match=r"'DRSR' ends at 595 .* not published")
    with asked if refused else contextlib.nullcontext():
        sheets.authors_curves(axes[0], "sfl-fig10", "a", {"DRSR": "black"}, within=(0, rounds))


def test_a_series_that_the_paper_does_not_have_is_refused(axes):
    with pytest.raises(ValueError, match="sfl-fig10, panel 'a': 'OURS' has no curve"):
        sheets.authors_curves(axes[0], "sfl-fig10", "a", {"DRSR": "black", "OURS": "red"})
