"""Checks of arguments: what passes, what is refused, and that the message repeats the value."""

from __future__ import annotations

import warnings
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
import torch

from sflkit import checks

NAN, INF, HUGE = float("nan"), float("inf"), 10**400


@pytest.mark.parametrize(
    ("value", "low", "high"),
    [
        (3, 3, 3),
        (-2, None, None),
        (3.0, 1, None),
        (np.int8(3), 1, 5),
        (np.float32(3), 1, 5),
        (Fraction(6, 2), 1, 5),
        (2**63 - 1, 1, None),
    ],
)
def test_integer_passes(value, low, high):
    found = checks.integer("n", value, low, high)
    assert type(found) is int and found == value


@pytest.mark.parametrize(
    "value", [0.5, 1, 0, np.float32(0.5), np.int64(1), np.array(0.5), np.array(1), Fraction(1, 2)]
)
def test_real_passes(value):
    found = checks.real("x", value, 0, 1)
    assert type(found) is float and found == value


def test_what_the_campaign_of_damaged_calls_does_not_try():
    for value in (2.5, np.float64(INF), Decimal(3), np.array(3), 6, HUGE, Fraction(HUGE, 3)):
        with pytest.raises(ValueError, match=r"n=.* must be an integer >= 1 and <= 5"):
            checks.integer("n", value, 1, 5)
    for value in (-0.1, 0, 1, Fraction(HUGE), np.array(True), np.array(0.5j), np.array(None)):
        with pytest.raises(ValueError, match=r"x=.* must be a finite number > 0 and < 1"):
            checks.real("x", value, above=0, below=1)
    for value, message in (
        (np.array([1, 1j], dtype=object), "must be an array of numbers"),
        (np.array([1, "2"], dtype=object), "must be an array of numbers"),
        ([HUGE], "must be an array of numbers"),
        ([[1.0]], r"shape \(1, 1\)"),
        ([1, 0], "holds 0.0; entries must be finite numbers >= 0 and <= 10 and > 0"),
    ):
        with pytest.raises(ValueError, match=f"a.*{message}"):
            checks.array("a", value, ndim=1, low=0, high=10, above=0)
    for value in (1, 0.0, [True], np.array([True])):
        with pytest.raises(ValueError, match=r"x=.* must be True or False$"):
            checks.flag("x", value)
    for value in ([0.5], [True], [[0]], []):
        with pytest.raises(ValueError, match="must be a non-empty vector of integers"):
            checks.labels("labels", value)
    with pytest.raises(ValueError, match="rows holds 3; entries must be integers >= 0 and <= 2"):
        checks.indices("rows", [3], 3)
    with pytest.raises(ValueError, match=r"a has shape \(1, 2\); it must be \(\) or \(2,\), as b"):
        checks.shape("a", [[1, 2]], (), (2,), like="b")


def test_more_workers_than_cores_are_allowed_with_a_warning(monkeypatch):
    monkeypatch.setattr(checks, "process_cores", lambda: 4)
    with pytest.warns(UserWarning, match="jobs=5 is more than the 4 cores"):
        assert checks.workers("jobs", 5) == 5
    monkeypatch.setattr(checks, "process_cores", lambda: 1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert checks.workers("jobs", 2) == 2  # what notebooks ask for, wherever they run
    with pytest.raises(ValueError, match="jobs=0 must be an integer >= 1"):
        checks.workers("jobs", 0)


@pytest.mark.parametrize(
    "value",
    [[1, 2.5], (1, 2), np.array([1, 2], dtype=np.uint8), [True, False], [], 3, [Fraction(1, 2)]]
    + [np.array([1, 2.5, True], dtype=object)],
)
def test_array_passes(value):
    found = checks.array("a", value)
    assert found.dtype == np.float64 and found.tolist() == np.array(value, dtype=float).tolist()


def test_limits_end_a_message():
    assert checks.limits() == "" and checks.limits(0) == " >= 0"
    assert checks.limits(0, 5, 1, 6) == " >= 0 and <= 5 and > 1 and < 6"


def test_arrays_of_integers_lose_nothing():
    found = checks.integers("ids", [[1.0, 2.0]], ndim=2, low=0)
    assert found.dtype == np.int64 and found.tolist() == [[1, 2]]
    same = np.arange(3)
    assert checks.integers("ids", same) is same
    for bad, message in (
        ([0.5, 1], "ids holds 0.5; entries must be integers >= 0 and <= 9"),
        ([np.nan], "ids holds nan"),
        ([-1], "ids holds -1; entries must be integers >= 0"),
        ([10], "ids holds 10; entries must be"),
        (["1"], "ids=.* must be an array of numbers"),
        (np.array(["1"], dtype=object), "ids=.* must be an array of numbers"),
        ([True], "booleans are none"),
        (np.array([1, True], dtype=object), "booleans are none"),
        ([1e300], "ids holds 1e.300; entries must be integers"),
        ([2.0**63], "ids holds 9.2.*e.18; entries must be integers"),
        ([[1], [1, 2]], "ids=.* must be an array of integers"),
        ([1j], "ids=.* must be an array of numbers"),
    ):
        with pytest.raises(ValueError, match=message):
            checks.integers("ids", bad, low=0, high=9)
    with pytest.raises(ValueError, match="it must have 1 axes"):
        checks.integers("ids", [[1]], ndim=1)
    with pytest.raises(ValueError, match="ids holds 18446744073709551615"):
        checks.integers("ids", np.array([2**64 - 1], dtype=np.uint64))


def test_indices_are_int64_whatever_was_given():
    for value in ([], np.array([1, 0], np.uint8)):
        assert checks.indices("ids", value, 2).dtype == np.int64


def test_integers_of_objects_are_exact():
    """2^60 + 1 is no float."""
    assert checks.integers("n", np.array([2**60 + 1, 3.0], dtype=object)).tolist() == [2**60 + 1, 3]


@pytest.mark.parametrize("check", [checks.array, checks.integers, checks.labels])
def test_masks_gradients_and_foreign_types_are_named(check):
    with pytest.raises(ValueError, match="v has masked entries"):
        check("v", np.ma.array([0, 1], mask=[True, False]))
    with pytest.raises(ValueError, match="v is a tensor with gradients"):
        check("v", torch.ones(2, requires_grad=True))
    for value in (
        torch.ones(2, dtype=torch.bfloat16),
        np.array([1, 2], "m8[s]"),
        np.array([np.timedelta64(1, "s")], object),
        [[1], [1, 2]],
    ):
        with pytest.raises(ValueError, match="v"):
            check("v", value)


def test_messages_are_one_short_line_whatever_the_value():
    nested = []
    for _ in range(200_000):
        nested = [nested]
    for value in (nested, np.ones((30, 30)), "x" * 10_000):
        with pytest.raises(ValueError, match=r"^v=.* must be") as error:
            checks.integers("v", value, ndim=1) if value is nested else checks.real("v", value)
        assert "\n" not in str(error.value) and len(str(error.value)) < 600


def test_a_duration_is_no_number():
    for value in (np.timedelta64(5), np.timedelta64(5, "s"), np.timedelta64("NaT")):
        for check in (checks.integer, checks.real):
            with pytest.raises(ValueError, match=r"v=.*timedelta64"):
                check("v", value)


def test_of_a_series_the_values_count_and_not_the_index():
    series = pd.Series([3.0, 1.0], index=[1, 0])
    for check in (checks.array, checks.integers):
        out = check("v", series)
        assert type(out) is np.ndarray and out.tolist() == [3, 1]
    assert checks.array("v", np.ma.array([1.0, 2.0])).tolist() == [1, 2]
