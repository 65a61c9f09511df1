"""What a folder of results holds: complete, damaged, running, left over."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass

import pandas as pd
import pytest

from companion import shelf
from sflkit import paths
from sflkit.runs import origin, store, sweep, workers
from sflkit.runs.keys import describe, result_key

pytestmark = pytest.mark.usefixtures("committed")
EXPERIMENT = "shelf-probe"
RESULT_VERSION = 1


@dataclass(frozen=True)
class Config:
    seed: int = 0


def run(config: Config) -> pd.DataFrame:
    return pd.DataFrame({"loss": [config.seed + 0.5]})


@pytest.fixture
def keys(tmp_path):
    """Keys of four results in tmp_path."""
    configs = [Config(seed) for seed in range(4)]
    sweep.run_many(run, configs, store=tmp_path)
    return [result_key(run, config) for config in configs]


def test_records_of_complete_results(keys, tmp_path):
    found = shelf.survey(tmp_path)
    assert sorted(found.records) == sorted(keys) and found.damaged == {}
    assert found.records[keys[2]]["config"] == {"seed": 2}
    assert shelf.read_record(keys[2], tmp_path) == found.records[keys[2]]
    assert shelf.survey(tmp_path / "nowhere") == ({}, {})
    assert not (tmp_path / "nowhere").exists()


@pytest.mark.parametrize(
    ("damage", "wrong"),
    [
        ("no json", "numbers without a record"),
        ("no csv", "a record without numbers"),
        ("json a pipe", "a file that cannot be read: it is no regular file"),
        ("csv altered", "the numbers differ from the record's digest"),
        ("other key", "the record is of shelf-probe/0"),
    ],
)
def test_damaged_results_are_named(keys, tmp_path, damage, wrong):
    csv, record = tmp_path / f"{keys[1]}.csv", tmp_path / f"{keys[1]}.json"
    if damage == "no json":
        record.unlink()
    elif damage == "no csv":
        csv.unlink()
    elif damage == "json a pipe":
        record.unlink()
        os.mkfifo(record)
    elif damage == "csv altered":
        csv.write_text("loss\n2.5\n")
    else:
        record.write_text(json.dumps(json.loads(record.read_text()) | {"key": "shelf-probe/0"}))
    found = shelf.survey(tmp_path)
    assert found.damaged == {keys[1]: wrong} and len(found.records) == 3
    assert shelf.read_record(keys[1], tmp_path) is None
    with store.run_lock(keys[1], tmp_path):  # somebody is writing it
        assert shelf.survey(tmp_path).damaged == {}


def test_running_is_whose_lock_is_held(keys, tmp_path):
    assert not shelf.is_running(keys[0], tmp_path)
    assert not shelf.is_running("shelf-probe/never", tmp_path)
    assert not (tmp_path / ".locks" / "never.lock").exists()
    with store.run_lock(keys[0], tmp_path):
        assert shelf.is_running(keys[0], tmp_path)
    assert not shelf.is_running(keys[0], tmp_path)


def test_results_are_taken_over_whole(keys, tmp_path):
    there = tmp_path / "there"
    assert shelf.take_over(keys[0], tmp_path, there)
    assert shelf.read_record(keys[0], there) == shelf.read_record(keys[0], tmp_path)
    assert not shelf.take_over("shelf-probe/never", tmp_path, there)
    with store.run_lock(keys[1], there):
        assert not shelf.take_over(keys[1], tmp_path, there)
    assert list(shelf.survey(there).records) == [keys[0]]


def test_a_result_of_an_edited_library_is_not_taken_over(keys, tmp_path, monkeypatch):
    there, published = tmp_path / "there", tmp_path / "published"
    monkeypatch.setattr(origin, "commit", lambda: "0123456789+")
    sweep.run_many(run, [Config(1)], store=there)
    assert not shelf.take_over(keys[1], there, published)
    with pytest.raises(ValueError, match=f"{keys[1]}.* was computed with uncommitted changes of"):
        shelf.publish([keys[1]], there, published)
    assert not shelf.survey(published).records


def test_what_killed_writers_left_is_cleared_but_nothing_in_progress(keys, tmp_path):
    names = [key.rpartition("/")[2] for key in keys]
    old = tmp_path / "shelf-probe" / f".{names[0]}.csv.tmp"
    new = tmp_path / "shelf-probe" / f".{names[1]}.json.tmp"
    old.write_text("round,x\n1,0.")
    new.write_text("{")
    with store.run_lock(keys[1], tmp_path):
        shelf.clear_left_over(tmp_path)
    assert not old.exists() and new.exists()
    shelf.clear_left_over(tmp_path)
    assert not new.exists() and len(shelf.survey(tmp_path).records) == 4


def attempt(seed, there):
    """What a worker answers for one run."""
    item = (Config(seed), describe(run, Config(seed)))
    return workers.execute(workers.Task(run, {}, there, 1, 0), item, wait=False)


def test_an_attempt_says_how_it_ended(keys, tmp_path, monkeypatch):
    there = tmp_path / "there"
    with store.run_lock(keys[1], there):
        assert attempt(1, there) == (keys[1], "busy", "")
    assert attempt(1, there) == (keys[1], "computed", "")
    assert attempt(1, there) == (keys[1], "found", "")

    def full(path, content):
        raise paths.CannotWrite(28, "No space left on device", str(path))

    monkeypatch.setattr(paths, "write_atomic", full)
    _, state, why = attempt(2, there)
    assert state == "unwritable"
    assert why == f"cannot write {there / keys[2]}.csv: No space left on device"
    with pytest.raises(workers.SweepError, match=r"cannot write .*No space left on device"):
        sweep.run_many(run, [Config(2)], store=there)


def test_a_worker_with_other_code_of_the_users_refuses(keys, tmp_path):
    """It imports a module anew, which may have been edited since the sweep imported it."""
    head = describe(run, Config(3))
    head["sources"] = {"run": head["sources"]["run"] | {"source_sha256": "0" * 64}}
    task = workers.Task(run, {}, tmp_path / "there", 1, 0)
    _, state, why = workers.execute(task, (Config(3), head), wait=False)
    assert state == "failed" and "run is other code in this worker than where the sweep" in why


def test_where_nothing_can_be_written_nothing_is_computed(keys, tmp_path, monkeypatch):
    def full(folder):
        raise paths.CannotWrite(28, "No space left on device", str(folder))

    monkeypatch.setattr(paths, "check_writable", full)
    why = f"cannot write {tmp_path / 'there'}: No space left on device"
    assert attempt(2, tmp_path / "there") == (keys[2], "unwritable", why)


def test_a_record_that_cannot_be_written_leaves_no_numbers_alone(keys, tmp_path, monkeypatch):
    write = paths.write_atomic

    def nearly_full(path, content):
        if str(path).endswith(".json"):
            raise paths.CannotWrite(28, "No space left on device", str(path))
        write(path, content)

    monkeypatch.setattr(paths, "write_atomic", nearly_full)
    there = tmp_path / "there"
    _, state, why = attempt(2, there)
    assert state == "unwritable" and f"{keys[2]}.json" in why
    assert not list((there / "shelf-probe").iterdir())
