"""Runs that end early: their rows are the first of the whole run's, in every bit."""

from __future__ import annotations

import inspect
from dataclasses import replace

import pandas as pd
import pytest

from companion.notebooks import label_only, toy_problem
from sflkit.datastreams import training as datastreams
from sflkit.fats import training as fats
from sflkit.osafl import centralised
from sflkit.osafl import training as osafl
from sflkit.sfl import cache_paths
from sflkit.sfl import training as sfl
from tests.datastreams.helpers import CONFIG, random_federation
from tests.fats.fats_cases import TINY_RUN, federation
from tests.osafl.test_centralised import SMALL as CENTRALISED
from tests.osafl.test_training import SMALL as VIDEO
from tests.sfl.test_label_only import TINY as LABELS
from tests.sfl.test_training import TINY as SFL

TOY = toy_problem.SyntheticConfig(rounds=6, repeats=3)
CASES = {
    "sfl": (sfl.run, replace(SFL, evaluate_every=2), {}),
    "sfl, full start": (sfl.full_start, replace(SFL, rule="srsr", evaluate_every=3), {}),
    "sfl, caches": (cache_paths.run, replace(SFL, train=False), {}),
    "sfl, label only": (label_only.run, LABELS, {}),
    "sfl, toy problem": (toy_problem.run, TOY, {}),
    "datastreams": (
        datastreams.run,
        replace(CONFIG, rounds=6, evaluate_every=2),
        {"data": random_federation([5, 6, 7, 8], 2)},
    ),
    "osafl": (osafl.run, replace(VIDEO, rule="osafl", features="synthetic"), {}),
    # arrivals by (36) and the rates depend on the number of episodes
    "osafl, centralised": (centralised.run, CENTRALISED, {}),
    "fats": (fats.run, TINY_RUN, {"data": federation()}),
    "fats, frs": (fats.run, replace(TINY_RUN, method="frs"), {"data": federation()}),
}


def untimed(frame: pd.DataFrame) -> pd.DataFrame:
    return frame.drop(columns="unlearning_seconds", errors="ignore")


@pytest.mark.parametrize("name", CASES)
def test_the_rows_are_the_first_of_the_whole_run(name):
    run, config, given = CASES[name]
    assert "stop_after" in inspect.signature(run).parameters  # so does the audit know of it
    whole = untimed(run(config, **given))
    time = "episode" if "episode" in whole else "round"
    for stop in (2, 3):
        part = untimed(run(config, **given, stop_after=stop))
        first = whole[whole[time] <= stop].reset_index(drop=True)
        assert 0 < len(first) < len(whole)
        pd.testing.assert_frame_equal(part, first, check_exact=True)
        assert part.attrs == whole.attrs


def test_fats_stops_before_the_requests_and_only_what_trains_stops():
    whole = untimed(fats.run(TINY_RUN, data=federation()))
    learning = untimed(fats.run(TINY_RUN, data=federation(), stop_after=TINY_RUN.rounds))
    assert set(learning["phase"]) == {"learning"}
    pd.testing.assert_frame_equal(learning, whole[: len(learning)], check_exact=True)
    with pytest.raises(ValueError, match="stop_after=1 needs train=True"):
        fats.run(replace(TINY_RUN, train=False, samples_per_client=8), stop_after=1)
