"""The authors' curves beside runs that are shorter or longer."""

import contextlib

import matplotlib

matplotlib.use("agg")
import matplotlib.pyplot as plt
import pytest

from companion import sheets
from sflkit import paths


@pytest.fixture
def axes():
    fig, axes = plt.subplots(1, 2)
    yield axes
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
