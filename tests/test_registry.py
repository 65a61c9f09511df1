"""A registry is the one table of a family of rules."""

import copy
import pickle

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


def test_a_row_takes_the_options_that_it_names(rules):
    assert rules["a"].make([("b", 2)], theta=1, seed=0) == {"b": 2, "theta": 1}
    with pytest.raises(ValueError, match=r"options=\['theta'\] of 'A' must be among 'seed'"):
        rules["a"].make(seed=0)


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


def test_the_first_rows_are_checked_like_added_ones():
    with pytest.raises(ValueError, match="name='Big' of a rule must be an identifier in lower"):
        Registry("rule", {"Big": Rule(list, "A")})
    with pytest.raises(ValueError, match=r"must be a registry\.Rule"):
        Registry("rule", {"a": list})


@pytest.mark.parametrize(
    ("build", "label", "message"),
    [(3, "A", "build=3 of a Rule"), (list, "", "label='' of a Rule"), (list, 3, "label=3 of a")],
)
def test_a_row_needs_something_to_build_and_a_label(build, label, message):
    with pytest.raises(ValueError, match=message):
        Rule(build, label)


def test_a_registry_travels_and_a_copy_is_its_own(rules):
    for other in (pickle.loads(pickle.dumps(rules)), copy.deepcopy(rules)):
        assert dict(other) == dict(rules) and other.family == "cache rule"
        other.add("new", Rule(tuple, "New"))
        assert "new" not in rules
    assert repr(rules) == "Registry('cache rule': b, a)"
