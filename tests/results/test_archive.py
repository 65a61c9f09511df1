"""Published results: one table of rows and one file of records for each experiment."""

from __future__ import annotations

import lzma
from dataclasses import dataclass

import pandas as pd
import pytest

from companion import shelf
from sflkit.runs import archive, store
from sflkit.runs.keys import describe

pytestmark = pytest.mark.usefixtures("committed")
EXPERIMENT = "archive-probe"
RESULT_VERSION = 1


@dataclass(frozen=True)
class Config:
    seed: int = 0


def run(config: Config) -> pd.DataFrame:
    """Return what has other columns in odd seeds."""
    frame = pd.DataFrame({"round": [1, 2], "loss": [0.1, float("nan")], "who": ["a", ""]})
    if config.seed % 2:
        frame = frame.assign(count_0=[3, 4])[["who", "count_0", "loss"]]
    return frame.assign(who='b,"c"\nd') if config.seed == 5 else frame


def computed(folder, seeds=range(5)):
    """Write runs as files of their own; return their keys."""
    keys = []
    for seed in seeds:
        head = describe(run, Config(seed))
        store.write_result(folder, head, run(Config(seed)), threads=1, seconds=1.0)
        keys.append(head["key"])
    return keys


@pytest.mark.parametrize("seeds", [range(5), range(6)])  # the sixth has commas and line breaks
def test_frames_and_records_are_those_of_the_runs(tmp_path, seeds):
    keys = computed(tmp_path / "runs", seeds)
    files = shelf.publish(keys, tmp_path / "runs", tmp_path)
    assert files == archive.files_of(EXPERIMENT, tmp_path)
    for key in keys:
        before, record = store.read_result(key, tmp_path / "runs")
        after, published = store.read_result(key, tmp_path)
        pd.testing.assert_frame_equal(before, after, check_exact=True)
        assert record == published
    table = pd.read_csv(files[0], dtype={"key": str})
    assert len(table) == 2 * len(keys)
    assert sorted(set(table.key)) == [key.split("/")[1] for key in sorted(keys)]


def test_the_same_bytes_in_any_order(tmp_path):
    keys = computed(tmp_path / "runs")
    shelf.publish(keys, tmp_path / "runs", tmp_path / "a")
    for key in reversed(keys):
        shelf.publish([key], tmp_path / "runs", tmp_path / "b")
    for one, other in zip(
        archive.files_of(EXPERIMENT, tmp_path / "a"),
        archive.files_of(EXPERIMENT, tmp_path / "b"),
        strict=True,
    ):
        assert one.read_bytes() == other.read_bytes()


def test_columns_that_nothing_reads_are_left_out(tmp_path, monkeypatch):
    monkeypatch.setitem(archive.UNREAD, EXPERIMENT, archive.UNREAD["sfl-training"])
    keys = computed(tmp_path / "runs")
    shelf.publish(keys, tmp_path / "runs", tmp_path)
    for key in keys:
        before, _ = store.read_result(key, tmp_path / "runs")
        after, record = store.read_result(key, tmp_path)
        kept = [name for name in before if name != "count_0"]
        assert list(after) == list(record["columns"]) == kept
        pd.testing.assert_frame_equal(before[kept], after, check_exact=True)


def test_a_reader_may_change_its_frame(tmp_path):
    (key,) = store_keys = computed(tmp_path / "runs", [0])
    shelf.publish(store_keys, tmp_path / "runs", tmp_path)
    frame, _ = store.read_result(key, tmp_path)
    frame.loc[0, "loss"] = 7.0
    assert store.read_result(key, tmp_path)[0].loc[0, "loss"] == 0.1


def test_one_altered_run_is_named_and_the_others_stay(tmp_path):
    keys = computed(tmp_path / "runs")
    rows, _ = shelf.publish(keys, tmp_path / "runs", tmp_path)
    digits = keys[2].split("/")[1].encode()
    text = lzma.decompress(rows.read_bytes())
    assert text.count(digits + b",1,0.1,a") == 1
    rows.write_bytes(lzma.compress(text.replace(digits + b",1,0.1,a", digits + b",1,0.2,a")))
    found = shelf.survey(tmp_path)
    assert found.damaged == {keys[2]: "the numbers differ from the record's digest"}
    assert sorted(found.records) == sorted(set(keys) - {keys[2]})
    shelf.publish([keys[2]], tmp_path / "runs", tmp_path)  # mended from the run's own files
    assert not shelf.survey(tmp_path).damaged


def test_a_file_that_cannot_be_read_is_never_written_over(tmp_path):
    keys = computed(tmp_path / "runs")
    rows, _ = shelf.publish(keys[:1], tmp_path / "runs", tmp_path)
    rows.write_bytes(rows.read_bytes()[:-9])
    assert "an archive that cannot be read" in shelf.survey(tmp_path).damaged[EXPERIMENT]
    assert "an archive that cannot be read" in store.look(keys[0], tmp_path).wrong
    with pytest.raises(ValueError, match="an archive that cannot be read"):
        shelf.publish(keys, tmp_path / "runs", tmp_path)


def test_a_kill_between_the_two_files_costs_nothing_but_the_new_run(tmp_path):
    keys = computed(tmp_path / "runs")
    shelf.publish(keys[:4], tmp_path / "runs", tmp_path)
    old = archive.files_of(EXPERIMENT, tmp_path)[1].read_bytes()
    shelf.publish(keys, tmp_path / "runs", tmp_path)
    archive.files_of(EXPERIMENT, tmp_path)[1].write_bytes(old)
    found = shelf.survey(tmp_path)
    assert sorted(found.records) == sorted(keys[:4])
    assert found.damaged == {keys[4]: "numbers without a record"}


def test_runs_move_into_the_archive(tmp_path):
    keys = computed(tmp_path)
    frames = {key: store.read_result(key, tmp_path)[0] for key in keys}
    assert shelf.pack(tmp_path) == sorted(keys) and not (tmp_path / EXPERIMENT).exists()
    for key, frame in frames.items():
        pd.testing.assert_frame_equal(store.read_result(key, tmp_path)[0], frame, check_exact=True)
    assert shelf.pack(tmp_path) == []


@pytest.mark.parametrize("kind", ["too much", "two"])
def test_files_that_are_no_archive_are_named(tmp_path, monkeypatch, kind):
    rows, _ = shelf.publish(computed(tmp_path / "runs"), tmp_path / "runs", tmp_path)
    if kind == "two":
        rows.write_bytes(2 * rows.read_bytes())
    else:
        monkeypatch.setattr(archive, "MOST", 100)
    found = shelf.survey(tmp_path)
    assert "an archive that cannot be read" in found.damaged[EXPERIMENT] and not found.records
