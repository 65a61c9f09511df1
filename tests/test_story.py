"""One story: what is published is read, and anything else is computed and said."""

import os

import pandas as pd
import pytest

from companion import story
from companion.app import gate
from companion.judging import tables
from sflkit import paths
from sflkit.runs import sweep
from sflkit.sfl import cache_paths
from sflkit.sfl.config import SFLConfig

SMALL = SFLConfig(train=False, rounds=2, n_clients=3, capacity=4, batch_size=2)


@pytest.fixture(autouse=True)
def told(monkeypatch):
    """What a notebook told of itself is forgotten after a test."""
    monkeypatch.setattr(tables, "explored", [])
    monkeypatch.setattr(story, "_computes", [])


def values(**changes):
    book = gate.find("10")
    return {name: parameter.default for name, parameter in book.parameters.items()} | changes


def test_a_missing_or_damaged_published_run_is_named_with_the_way_out(clone):
    story.keep(gate.notebooks())
    published = story.begin("10_first", values())
    with pytest.raises(sweep.MissingResult) as said:
        sweep.run_many(cache_paths.run, [SMALL], published=published)
    key = sweep.describe(cache_paths.run, SMALL, {})["key"]
    assert f"{key}: missing" in str(said.value) and "`make paper ONLY=10`" in str(said.value)
    assert not paths.results_store().exists()  # nothing was computed
    sweep.run_many(cache_paths.run, [SMALL], store=paths.published())
    assert sweep.run_many(cache_paths.run, [SMALL], published=published).attrs["computed"] == 0
    numbers = paths.published() / f"{key}.csv"
    numbers.write_text(numbers.read_text()[:-2])
    with pytest.raises(sweep.MissingResult, match=key):
        sweep.run_many(cache_paths.run, [SMALL], published=published)


def test_other_parameters_compute_and_are_told_and_jobs_are_none(clone, capsys, monkeypatch):
    story.keep(gate.notebooks())
    monkeypatch.setenv(paths.PUBLISH, "1")
    assert isinstance(story.begin("10_first", values(jobs=9)), sweep.Complete)
    assert capsys.readouterr().out == "" and paths.drawn() == paths.figures()
    assert story.begin("10_first", values(rounds=50)) == paths.published()
    assert "rounds = 50 in place of 3" in capsys.readouterr().out
    assert paths.PUBLISH not in os.environ and paths.drawn() == clone / "out" / "figures"
    assert "No verdict" in str(tables.judge({}, {}, setting={})._repr_markdown_())
    assert story.begin("10_first", values(source="compute")) is None
    (clone / "figures" / "parameters.json").write_text("{")
    with pytest.raises(ValueError, match=r"parameters\.json.*git checkout"):
        story.begin("10_first", values())


def test_what_was_published_of_a_notebook_must_be_known_before_it_publishes(clone, monkeypatch):
    """Else papermill with parameters of its own would write over the published figures."""
    monkeypatch.setenv(paths.PUBLISH, "1")
    story.begin("10_first", values(rounds=50))  # there is no parameters.json
    assert paths.PUBLISH not in os.environ and paths.drawn() == clone / "out" / "figures"


def test_rows_that_were_only_numbered_are_so_again(clone, monkeypatch):
    monkeypatch.setenv(paths.PUBLISH, "1")
    first = story.kept("rows", {}, lambda: pd.DataFrame({"x": [1.5, 2.5]}))
    again = story.kept("rows", {}, lambda: pytest.fail("it is there"))
    pd.testing.assert_frame_equal(again, first, check_index_type="exact")
    assert isinstance(again.index, pd.RangeIndex)  # a figure's csv has no column for it


def test_a_small_result_is_made_once_and_kept_to_the_last_digit(clone, monkeypatch):
    made = []

    def make():
        made.append(1)
        return pd.DataFrame(
            {"x": [1 / 3, 2.0**60], "gap": [float("nan"), 0.5], "name": ["a", "b"]}, index=[4, 7]
        )

    first = story.kept("numbers", {"seed": 1}, make)
    assert not (paths.published() / "derived.json").exists()  # not publishing
    monkeypatch.setenv(paths.PUBLISH, "1")
    story.kept("numbers", {"seed": 1}, make)
    pd.testing.assert_frame_equal(story.kept("numbers", {"seed": 1}, make), first, check_exact=True)
    assert len(made) == 2
    story.kept("numbers", {"seed": 2}, make)  # other settings are another result
    monkeypatch.setattr(story, "_computes", ["compute"])
    story.kept("numbers", {"seed": 1}, make)
    assert len(made) == 4
