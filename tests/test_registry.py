"""A registry is the one table of a family of rules."""

import pytest

from sflkit.registry import Look, Registry, Rule


@pytest.fixture
def rules() -> Registry:
    return Registry(
        "cache rule",
        {"b": Rule(list, "B", Look("#000000")), "a": Rule(dict, "A", options=("theta",))},
    )


def test_rows_keep_their_order_and_are_found_by_name(rules):
    assert list(rules) == ["b", "a"] and len(rules) == 2
    assert rules["b"].build is list and rules["a"].options == ("theta",)
    assert rules.labels() == {"b": "B", "a": "A"}
    assert "a" in rules and "c" not in rules and 3 not in rules and rules.get("c") is None


def test_an_unknown_name_lists_the_known_ones(rules):
    for name in ("c", None, ["a"]):
        with pytest.raises(ValueError, match=r"cache rule .* must be one of 'b', 'a'"):
            rules[name]


def test_an_added_row_comes_last(rules):
    rules.add("mine", Rule(tuple, "Mine"))
    assert list(rules) == ["b", "a", "mine"] and rules["mine"].label == "Mine"


@pytest.mark.parametrize(
    ("name", "rule", "message"),
    [
        ("a", Rule(list, "A"), "taken"),
        ("My", Rule(list, "A"), "lower case"),
        ("x y", Rule(list, "A"), "identifier"),
        (3, Rule(list, "A"), "identifier"),
        ("mine", list, "must be a registry.Rule"),
    ],
)
def test_bad_rows_are_refused_and_change_nothing(rules, name, rule, message):
    with pytest.raises(ValueError, match=message):
        rules.add(name, rule)
    assert list(rules) == ["b", "a"]
