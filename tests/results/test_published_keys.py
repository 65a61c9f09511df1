"""Every published result is found again by its settings, of whatever experiment."""

from __future__ import annotations

import pytest

from companion.notebooks import label_only, toy_problem
from sflkit.datastreams import training as datastreams
from sflkit.fats import membership
from sflkit.fats import training as fats
from sflkit.osafl import centralised
from sflkit.osafl import training as osafl
from sflkit.runs import archive
from sflkit.runs.keys import experiment_name, result_key
from sflkit.sfl import cache_paths, discrepancy, training
from tests.helpers import ROOT

FOLDER = ROOT / "data" / "results"
RUNS = {
    experiment_name(run): run
    for run in (training.full_start, cache_paths.run, discrepancy.run, label_only.run,
                toy_problem.run, datastreams.run, osafl.run, centralised.run, fats.run,
                membership.run)
}  # fmt: skip


@pytest.mark.parametrize("experiment", sorted({*RUNS, *archive.experiments(FOLDER)}))
def test_published_results_keep_their_keys(experiment):
    run = RUNS[experiment]
    config = run.__globals__[run.__annotations__["config"]]
    records = archive.read(experiment, FOLDER).records
    assert records
    for key, record in records.items():
        fields = {k: tuple(v) if isinstance(v, list) else v for k, v in record["config"].items()}
        assert result_key(run, config(**fields)) == record["key"] == key
