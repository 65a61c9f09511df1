"""What `sflkit status` says of a profile's runs."""

from __future__ import annotations

import json

import pandas as pd
import pytest
from typer.testing import CliRunner

from companion.app import cli, gate
from companion.app.agenda import Agenda
from sflkit import paths
from sflkit.results import attempts, store


def agenda():
    return Agenda(gate.select(), "", paths.published())


def status(*arguments, code=0):
    result = CliRunner().invoke(cli.app, ["status", *arguments])
    assert result.exit_code == code, result.output
    return result.stdout


def compute(count=None):
    """Compute the first missing runs, and set the seconds of each to 2."""
    for run in list(agenda().missing().values())[:count]:
        attempts.attempt(run.stage.run, [run.config], store=paths.published(), threads=1)
        file = paths.published() / f"{run.key}.json"
        record = json.loads(file.read_text()) | {"seconds": 2.0}
        del record[
            "record_sha256"
        ]  # as in records from before 0.2, which say nothing of themselves
        file.write_text(json.dumps(record))


def row(text, name):
    (line,) = [line for line in text.splitlines() if line.startswith(name)]
    return line.split()[1:]


def test_with_nothing_at_hand_everything_is_missing_and_nothing_is_made(planned):
    clone = planned({"10": ("study", {"seeds": [1, 2]}), "12": ("rules", {"seeds": [0]})})
    before = sorted(clone.rglob("*"))
    text = status()
    assert row(text, "10_probe") == "0 0 2 unknown after search 0.0 s 2 unknown".split()
    assert row(text, "12_probe") == "0 0 1 unknown after drsr 0.0 s 1 unknown".split()
    assert row(text, "total") == "0 0 3 0.0 s 3 unknown".split()
    pycache = [p for p in sorted(clone.rglob("*")) if "__pycache__" not in p.parts]
    assert pycache == before


def test_done_running_missing_and_seconds(planned):
    planned({"10": ("study", {"seeds": [1, 2, 3]})})
    compute(1)
    running = next(iter(agenda().missing()))
    with store.run_lock(running, paths.published()):
        # one took 2 s; two more will, one of which runs
        assert row(status(), "10_probe") == "1 1 1 unknown after search 2.0 s about 4.0 s".split()
    compute()
    assert row(status(), "10_probe") == "3 0 2 unknown after judge 6.0 s about 4.0 s".split()
    compute()
    assert row(status(), "10_probe") == "5 0 0 none 10 s -".split()


def test_a_run_that_two_notebooks_share_counts_once_in_total(planned):
    planned({"10": ("rules", {"seeds": [0, 1]}), "12": ("rules", {"seeds": [1, 2]})})
    compute(2)
    text = status()
    assert row(text, "10_probe")[:3] == ["2", "0", "0"]
    assert row(text, "12_probe")[:3] == ["1", "0", "1"]
    assert row(text, "total") == "2 0 1 4.0 s about 2.0 s".split()
    assert row(status("--only", "12"), "total")[:3] == ["1", "0", "1"]


def test_results_that_no_plan_wants_are_listed_once_all_is_known(planned):
    planned({"10": ("rules", {"seeds": [0, 1, 2, 3, 4, 5, 6, 7]})})
    compute()
    old = sorted(agenda().records)
    planned({"10": ("rules", {"seeds": [100]}), "12": ("study", {"seeds": [200]})})
    folder = paths.published() / "probe"
    message = "no plan has asked for yet, though one still may: probe (8); stages to come: 10, 12"
    assert message in status()
    compute()
    compute()
    names = [key.partition("/")[2] for key in old]
    text = status()
    assert f"wanted by no plan: 8 results in {folder}: {', '.join(names[:5])} and 3 more" in text
    assert "wanted by no plan" not in status("--only", "10")  # nor can it be said there
    assert len(list(folder.glob("*.csv"))) == 12  # 8 old ones, 1 rule, 1 searched, 2 judged


def test_results_of_another_package_do_not_wait_for_a_plan(planned):
    planned({"10": ("study", {"seeds": [1]})})
    folder = paths.published() / "retired"
    head = {"experiment": "retired", "result_version": 1, "config": {"seed": 0}}
    head["key"] = store.key_of(head)
    numbers = pd.DataFrame({"x": [1]})
    store.write_result(paths.published(), head, numbers, threads=1, seconds=1.0)
    digits = head["key"].split("/")[1]
    assert f"wanted by no plan: 1 results in {folder}: {digits}\n" in status()


def test_a_notebook_that_reads_results_without_a_plan_keeps_them_from_being_judged(planned):
    planned({"10": ("rules", {"seeds": [0, 1]})})
    compute()
    planned({"10": ("rules", {"seeds": [2]}), "12": ("", {})})
    text = status()
    assert "without a plan, so their runs are not listed here: 12\n" in text
    assert "though one still may: probe (2); stages to come: 10; no plan: 12" in text
    compute()
    assert "though one still may: probe (2); no plan: 12" in status()


def test_damaged_results_are_named_and_missing(planned):
    planned({"10": ("rules", {"seeds": [0, 1]})})
    compute()
    keys = sorted(agenda().records)
    (paths.published() / f"{keys[0]}.csv").unlink()
    text = status()
    assert row(text, "10_probe")[:3] == ["1", "0", "1"]
    file = paths.published() / keys[0]
    assert f"damaged, taken for missing: {file}: a record without numbers\n" in text


def test_a_plan_that_raises_is_named(planned):
    planned({"10": ("upset", {"seeds": [0]}), "12": ("rules", {"seeds": [0]})})
    compute()
    text = status(code=1)
    assert row(text, "10_probe")[:4] == ["1", "0", "0", "error"]
    message = "failed: the plan queue_probe:upset of 10_probe: LookupError: no rate was best"
    assert message in text


@pytest.mark.parametrize("command", ["status", "paper"])
def test_what_is_refused(planned, command):
    planned({"10": ("misspelt", {}), "12": ("rules", {})})
    for arguments, message in (
        ([], "10_probe: its plan queue_probe:misspelt takes 'round', which is no parameter"),
        (["--only", "11"], "no notebook '11'"),
    ):
        result = CliRunner().invoke(cli.app, [command, *arguments])
        assert result.exit_code == 2 and message in result.stderr
    assert not (paths.clone_root() / "data").exists()
