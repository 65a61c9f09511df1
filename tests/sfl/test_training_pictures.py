"""The authors' curves beside runs that are shorter or longer."""

import matplotlib

matplotlib.use("agg")
import matplotlib.pyplot as plt
import pytest

from companion import sheets


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


def test_a_series_that_the_paper_does_not_have_is_refused(axes):
    with pytest.raises(ValueError, match="sfl-fig10, panel 'a': 'OURS' has no curve"):
        sheets.authors_curves(axes[0], "sfl-fig10", "a", {"DRSR": "black", "OURS": "red"})
