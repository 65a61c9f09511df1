"""What the pictures of notebook 33 draw, on invented runs, with what the paper prints."""

import numpy as np
import pytest
from matplotlib.figure import Figure

from companion.notebooks import n33, osafl_shared
from sflkit.osafl.rules import RULES
from tests.osafl.osafl_plans import ONE, drive


@pytest.fixture(scope="module")
def one():
    return drive(n33.dataset1(**ONE))[1]


def hollow(ax):
    """The hollow marks of an axes, (x, y)."""
    lines = [line for line in ax.get_lines() if line.get_markerfacecolor() == "none"]
    lines = [line for line in lines if len(line.get_xdata())]  # the legend's has no place
    return [(float(line.get_xdata()[0]), float(line.get_ydata()[0])) for line in lines]


def test_printed_marks_are_the_tables():
    marks = osafl_shared.printed_marks("osafl-tab2", "accuracy", "FCN")
    baselines = {rule for rule in RULES if rule.startswith("m_")} - {"m_fednova_latest"}
    assert set(marks) == {"genie", "osafl", *baselines}
    assert (marks["osafl"], marks["genie"], marks["m_afa_cd"]) == (0.6608, 0.6630, 0.0566)
    assert osafl_shared.printed_marks("osafl-tab5", "loss", "LSTM")["osafl"] == 3.3061


def test_leads_are_the_differences_seed_by_seed(one):
    axes = Figure().subplots(1, 2)
    drawn = n33.leads(axes, one.read.runs).set_index(["K", "rule"])
    assert "M-AFA-CD" not in drawn.index.get_level_values("rule")
    row = drawn.loc[(1, "M-FedAvg")]
    # 0.58 and 0.38, and the same thousandths by seed: no spread
    assert row["ours"] == pytest.approx(100 * 0.2 * (1 - 0.8**8))
    assert row["low"] == pytest.approx(row["high"])
    assert row["paper"] == pytest.approx(100 * (0.6608 - 0.6281))
    assert hollow(axes[0])[0][0] == pytest.approx(row["paper"])


def test_a_table_is_drawn_with_the_printed_one_beside():
    """Two seeds at 0.6 and 0.64: mean 0.62, Student's interval 12.706 * 0.02 about it."""
    paper = osafl_shared.printed_table("osafl-tab4", "LSTM")
    ours = {"OSAFL": {"accuracy": np.array([0.6, 0.64]), "loss": np.array([2.0, 2.0])}}
    axes = Figure().subplots(1, 2)
    drawn = osafl_shared.draw_table(axes, ours, paper).set_index(["what", "rule"])
    row = drawn.loc["accuracy", "OSAFL"]
    assert (row["paper"], row["spread"], row["seeds"]) == (0.4037, 0.0159, 2)
    assert row["ours"] == pytest.approx(0.62)
    assert row["high"] == pytest.approx(0.62 + 12.706 * 0.02, abs=1e-4)
    assert drawn["ours"].count() == 2 and len(drawn) == 14  # the others were not run
