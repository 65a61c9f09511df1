"""Counter-examples: what holds, what fails, and how they are shown."""

import math

import pytest

from companion.judging import errata
from companion.judging.errata import CounterExample, Examples, corrected, printed


@pytest.mark.parametrize(
    ("relation", "holding", "failing"),
    [
        ("=", [2.0, 2.0 + 1e-10], [2.001, -2.0, math.inf]),
        ("≤", [2.0, -math.inf, 1.0], [2.001, math.inf]),
        ("≥", [2.0, 3.0, math.inf], [1.999]),
        (">", [2.001], [2.0, 1.0]),
    ],
)
def test_relations(relation, holding, failing):
    assert all(printed("x", value, relation, 2.0).holds for value in holding)
    assert not any(printed("x", value, relation, 2.0).holds for value in failing)


def test_all_readings_of_a_role_count():
    right, wrong = corrected("a", 1, "=", 1), corrected("b", 2, "=", 1)
    bad, good = printed("c", 0, ">", 0), printed("d", 1, ">", 0)
    shown = Examples().show(3, "One.", bad, right)
    assert shown.fails("printed") and shown.holds("corrected") and not shown.holds("printed")
    assert not Examples().show(3, "One.", bad, good).fails("printed")
    assert not Examples().show(3, "One.", bad, right, wrong).holds("corrected")
    # without a correction there is none that holds
    assert not Examples().show(3, "One.", bad).holds("corrected")


def test_entries_of_a_text():
    text = "# Errata\n\n## SFL: a title\n\n1. **Journal (10), counts.** Text **bold**.\n   2. x\n"
    text += "\n## FATS: b\n\n61. **Table 1,** more\n"
    assert errata.entries(text) == [
        ("SFL", 1, "Journal (10), counts"),
        ("FATS", 61, "Table 1"),
    ]


def test_the_picture_puts_wrong_readings_right_of_one():
    readings = (
        printed("a", 6, "≤", 2),
        printed("b", 2, "≥", 6),
        printed("c", 6, "=", 2),
        printed("d", -0.4, ">", 0),
        printed("e", 0.1, "=", 0),
        corrected("f", 1, "≤", 2),
        corrected("g", 0, "=", 0),
        corrected("h", 0.1, ">", 0),
        corrected("i", -2, "≤", -1),
        corrected("j", -2, "≤", 1),
    )
    fig = errata.picture([CounterExample(3, "One.", readings)], {3: "three"}, largest=100)
    drawn, mended = (line.get_xdata() for line in fig.axes[0].get_lines()[:2])
    assert drawn.tolist() == pytest.approx([3, 3, 3, 100, 100])
    assert mended.tolist() == pytest.approx([0.5, 1, 0.01, 0.5, 1])
