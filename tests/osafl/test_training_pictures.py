"""Curves of notebooks 33 and 34, drawn from invented runs, with what the paper prints."""

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure

from companion.osafl.pictures import training as pictures
from companion.osafl.plans import readings
from companion.osafl.plans import training as plans
from sflkit.osafl.rules import RULES
from tests.osafl.osafl_plans import ONE, TWO, drive


@pytest.fixture(scope="module")
def one():
    return drive(plans.dataset1(**ONE))[1]


def hollow(ax):
    """The hollow marks of an axes, (x, y)."""
    lines = [line for line in ax.get_lines() if line.get_markerfacecolor() == "none"]
    return [(float(line.get_xdata()[0]), float(line.get_ydata()[0])) for line in lines]


def test_printed_marks_are_the_tables():
    marks = pictures.printed_marks("osafl-tab2", "accuracy", "FCN")
    baselines = {rule for rule in RULES if rule.startswith("m_")} - {"m_fednova_latest"}
    assert set(marks) == {"genie", "osafl", *baselines}
    assert (marks["osafl"], marks["genie"], marks["m_afa_cd"]) == (0.6608, 0.6630, 0.0566)
    assert pictures.printed_marks("osafl-tab5", "loss", "LSTM")["osafl"] == 3.3061


def test_dataset_1_has_a_panel_per_k_and_what_is_judged_beside(one):
    fig, drawn = pictures.dataset1(one, [1, 2], "accuracy")
    steps = ["K = 1, printed steps", "K = 2, printed steps", "K = 1, tuned steps"]
    read = [f"K = {K}, reading judged" for K in (1, 2)]
    assert list(drawn) == [f"FCN, {name}" for name in (*read, *steps)]
    assert [len(hollow(ax)) for ax in fig.axes] == [7, 7, 7, 7, 0, 0]
    assert set(drawn["FCN, K = 2, reading judged"]["arm"]) == set(readings.RULES_OF_TABLE)
    labelled = [bool(ax.xaxis.get_label().get_text()) for ax in fig.axes]
    assert labelled == [False, False, True, True, True, False] and not fig.axes[5].axison
    assert 0.6608 in [y for _, y in hollow(fig.axes[0])]
    assert 0.3384 in [y for _, y in hollow(fig.axes[1])]
    assert fig.axes[4].get_title() == "FCN, K = 1, tuned steps"
    means = drawn["FCN, K = 1, tuned steps"].query("seed == -1 and round == 8").set_index("arm")
    assert set(means.index) == {*(set(plans.SEARCHED) - {"m_fednova"}), "genie", "osafl_no_score"}
    # one scale for all panels, and no rule is missing without a word
    assert len({ax.get_ylim() for ax in fig.axes}) == 1
    told = [text.get_text() for text in fig.axes[4].texts]
    assert told == ["not drawn: M-FedNova,\nwhose search was refused"]
    none = one.tuned.iloc[:0]
    read = one.read._replace(runs=pd.DataFrame())
    alone, drawn = pictures.dataset1(one._replace(tuned=none, read=read), [1], "loss")
    assert len(alone.axes) == 1 and list(drawn) == ["FCN, K = 1, printed steps"]


def test_intervals_of_the_last_round_by_hand():
    # osafl has 1 and 3 in round 2: mean 2, half width t(0.975; 1) sqrt(2) / sqrt(2) = 12.7062;
    # m_fedavg has one seed and no interval
    runs = pd.DataFrame(
        {
            "round": [1, 2] * 3,
            "accuracy": [0, 1, 0, 3, 5, 6],
            "arm": ["osafl"] * 4 + ["m_fedavg"] * 2,
            "seed": [0, 0, 1, 1, 0, 0],
        }
    )
    ax = Figure().subplots()
    pictures.compared(ax, runs, "accuracy")
    [bar] = [line for line in ax.get_lines() if len(set(line.get_xdata())) == 1]
    [curve] = [line for line in ax.get_lines() if list(line.get_ydata()) == [0, 2]]
    np.testing.assert_allclose(bar.get_ydata(), [2 - 12.7062, 2 + 12.7062], rtol=1e-5)
    assert bar.get_color() == curve.get_color() and bar.get_xdata()[0] > 2


def test_another_network_has_the_papers_numbers_of_its_own_column(one):
    columns = one.columns | {"CNN": one.tables}
    fig, drawn = pictures.dataset1(one._replace(columns=columns), [1, 2], "accuracy")
    assert list(drawn)[5:7] == ["CNN, K = 1, printed steps", "CNN, K = 2, printed steps"]
    assert 0.4381 in [y for _, y in hollow(fig.axes[5])]  # M-AFA-CD of Table II's CNN


def test_a_rule_has_one_colour_whatever_its_buffer_or_scores(one):
    fig, _ = pictures.dataset1(one, [1], "accuracy")
    curves = {
        line.get_label(): line
        for ax in fig.axes
        for line in ax.get_lines()
        if len(line.get_xdata()) > 2
    }
    for variant, rule in (
        ("M-AFA-CD, printed buffer", "m_afa_cd"),
        ("OSAFL without scores", "osafl"),
    ):
        own, other = curves[RULES[rule].label], curves[variant]
        assert own.get_color() == other.get_color() == RULES[rule].look.color
        assert (own.get_linestyle(), own.get_marker()) != (
            other.get_linestyle(),
            other.get_marker(),
        )
    buffers, _ = pictures.never_joined(one, 1)
    looks = {
        line.get_label(): (line.get_color(), line.get_linestyle())
        for line in buffers.axes[0].get_lines()
        if line.get_label() in pictures.NEVER_JOINED.values()
    }
    assert len(set(looks.values())) == 5
    colors = {name: RULES[name].look.color for name in ("osafl", "m_afa_cd")}
    for arm, name in pictures.NEVER_JOINED.items():
        assert looks[name][0] == colors["osafl" if "osafl" in arm else "m_afa_cd"]


def test_a_run_that_leaves_the_panel_has_a_mark_there(one):
    buffers = one.buffers.copy()
    gone = (buffers["arm"] == "osafl_printed") & (buffers["round"] >= 3)
    buffers.loc[gone, ["accuracy", "loss"]] = [np.nan, 1e5]
    buffers.loc[gone & (buffers["round"] > 4), "loss"] = np.nan
    buffers.loc[gone, "diverged"] = True
    fig, _ = pictures.never_joined(one._replace(buffers=buffers), 1)
    marks = [line for line in fig.axes[0].get_lines() if line.get_marker() == "^"]
    top = fig.axes[0].get_ylim()[1]
    # the two seeds of that arm, in the round in which they leave, and nobody else
    assert [(line.get_xdata()[0], line.get_ydata()[0]) for line in marks] == [(3, top)] * 2


def test_clients_that_never_joined_and_the_scale_of_the_inputs(one):
    fig, drawn = pictures.never_joined(one, 1)
    assert set(drawn["runs"]["arm"]) == set(pictures.NEVER_JOINED)
    loss, accuracy, scale = fig.axes
    # four seeds of the three arms of the tables, two of each other, and the dotted line
    assert len(loss.get_lines()) == 3 * 4 + 2 * 2 + 1
    assert len(accuracy.get_lines()) == 16
    (guess,) = (line for line in loss.get_lines() if len(set(line.get_ydata())) == 1)
    assert guess.get_ydata()[0] == pytest.approx(np.log(100))
    (legend,) = fig.legends
    assert [text.get_text() for text in legend.get_texts()] == list(pictures.NEVER_JOINED.values())
    assert drawn["scan"]["norm"].tolist() == [5.0, 10.0]
    # both rules with the tables' seeds at the second scale
    assert {float(bar.lines[0].get_xdata()[0]) for bar in scale.containers} == {one.norm}
    assert len(scale.containers) == 2
    assert [text.get_text() for text in scale.get_xticklabels()] == ["5", "10"]
    told = {text.get_text() for text in scale.get_legend().get_texts()}
    assert told >= {"OSAFL, seed 0", "M-FedAvg, seed 0", "OSAFL, mean of 4 seeds, 95 %"}


def test_dataset_2_has_the_texts_readings_at_round_40():
    found = drive(plans.dataset2(**TWO))[1]
    fig, drawn = pictures.dataset2(found, [1, 2])
    assert list(drawn) == ["accuracy", "loss"] and len(fig.axes) == 4
    at_40 = [y for x, y in hollow(fig.axes[0]) if x == 40]
    assert sorted(at_40) == [0.05, 0.065, 0.075, 0.10, 0.11, 0.27]
    short = found._replace(tables=found.tables[found.tables["round"] <= 39])
    fig, _ = pictures.dataset2(short, [1])
    assert not [x for x, _ in hollow(fig.axes[0]) if x == 40]


def test_one_legend_names_every_label_once():
    fig = Figure()
    first, second = fig.subplots(1, 2)
    for ax, names in ((first, ("a", "b")), (second, ("b", "c"))):
        for name in names:
            ax.plot([0, 1], label=name)
    pictures.one_legend(fig)
    pictures.one_legend(fig, axes=[second])
    told = [[text.get_text() for text in legend.get_texts()] for legend in fig.legends]
    assert told == [["a", "b", "c"], ["b", "c"]]
