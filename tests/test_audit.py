"""The audit: what it recomputes of published runs, what it calls equal, and planted errors that it
must find.
"""

from __future__ import annotations

import hashlib
import json

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from companion import audit
from companion.app import cli, gate
from sflkit import paths
from sflkit.data import catalogue
from sflkit.federated import servers
from sflkit.runs import archive, store
from sflkit.sfl import caches
from tests.helpers import ROOT

FOLDER = ROOT / "data" / "results"


def digested(record: dict, content: bytes) -> dict:
    """The record of a forger who knows of the digests."""
    record = {**record, "sha256": hashlib.sha256(content).hexdigest()}
    record.pop("record_sha256")
    text = json.dumps(record, sort_keys=True)
    return record | {"record_sha256": hashlib.sha256(text.encode()).hexdigest()}


def changed(key: str, column: str, row: int, digit: int) -> tuple[dict, bytes]:
    """The published record and rows of a run, with one digit of a cell raised by 5, modulo 10."""
    found = archive.read(key.partition("/")[0], FOLDER)
    record, lines = found.records[key], found.contents[key].split(b"\n")
    cells = lines[1 + row].decode().split(",")
    place = list(record["columns"]).index(column)
    text = cells[place]
    at = [i for i, letter in enumerate(text) if letter.isdigit()][digit]
    cells[place] = text[:at] + str((int(text[at]) + 5) % 10) + text[at + 1 :]
    lines[1 + row] = ",".join(cells).encode()
    return record, b"\n".join(lines)


@pytest.fixture(scope="module")
def books() -> dict[str, list[audit.Published]]:
    """The published runs of some notebooks, by number."""
    numbers = ("10", "12", "13", "14", "21", "34", "42", "44")
    return {number: audit.published_runs(gate.find(number)) for number in numbers}


@pytest.fixture(scope="module")
def published(books) -> dict[str, list[audit.Published]]:
    """Published runs whose data come with the install, by experiment and what tells runs apart."""
    groups: dict[str, list[audit.Published]] = {}
    for run in (run for runs in books.values() for run in runs if not run.data):
        config = run.record["config"]
        kind = f", {config['data']}" if "data" in config else ""
        trained = "" if config.get("train", True) else ", without training"
        if not trained and config.get("model") == "lenet":  # may drift on another processor
            continue
        groups.setdefault(run.record["experiment"] + (trained or kind), []).append(run)
    return groups


GROUPS = {  # first rounds, so that all of it takes a minute
    "sfl-caches, without training": 10,
    "sfl-label-only": 10,
    "sfl-training-full-start, traffic600": 5,
    "sfl-toy-problem": 2,
    "datastreams-training, logistic": 10,
    "osafl-training": 1,
    "fats-training, writers": 10,
    "fats-training, without training": 10,
}


def test_every_experiment_whose_data_come_with_the_install_is_audited(published):
    # These need a data set; sfl-discrepancy cannot stop early and takes a minute a run.
    others = {"fats-membership", "osafl-centralised", "sfl-discrepancy"}
    assert {name.partition(",")[0] for name in published} == {*archive.experiments(FOLDER)} - others
    assert set(published) == set(GROUPS)


@pytest.mark.parametrize("group", GROUPS)
def test_published_runs_come_out_again(published, group):
    number = 1 if group in ("sfl-toy-problem", "osafl-training") else 2
    for run in audit.pick(published[group], number, seed=2):
        finding = audit.check(run, GROUPS[group])
        assert finding.state == "equal", audit.said(finding)


# --- planted errors -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "group, column, digit",
    [
        ("sfl-label-only", "accuracy", 2),  # 0.4217 -> 0.4717
        ("sfl-label-only", "discrepancy", 6),
        ("fats-training, writers", "model_round", 0),
        ("datastreams-training, logistic", "loss_last", 2),
        ("datastreams-training, logistic", "rate", 1),
    ],
)
def test_one_digit_of_an_early_round_is_found(published, tmp_path, group, column, digit):
    run = audit.pick(published[group], 1, seed=4)[0]
    record, content = changed(run.key, column, 2, digit)
    store.write_pair(tmp_path, run.key, content, json.dumps(digested(record, content)))
    assert store.look(run.key, tmp_path).wrong == ""  # no digest tells
    finding = audit.check(run, 10, tmp_path)
    assert finding.state == "differs"
    assert finding.why.startswith(f"{column} is ") and finding.why.endswith("in row 3")
    assert audit.check(run, 10, FOLDER).state == "equal"


@pytest.mark.parametrize("knowing", [True, False])
def test_the_command_finds_the_digit(published, tmp_path, monkeypatch, knowing):
    run = published["sfl-caches, without training"][7]
    found = archive.read("sfl-caches", FOLDER)
    runs = {key: (record, found.contents[key]) for key, record in found.records.items()}
    record, content = changed(run.key, "discrepancy", 1, 3)
    runs[run.key] = (digested(record, content) if knowing else record, content)
    archive.write("sfl-caches", tmp_path, runs)
    monkeypatch.setattr(paths, "published", lambda: tmp_path)
    number = "30" if knowing else "0"  # a damaged run is always looked at
    done = CliRunner().invoke(cli.app, ["audit", "10", "--runs", number, "--rounds", "2"])
    assert done.exit_code == 1, done.output
    last = done.output.strip().splitlines()[-1]
    why = "discrepancy is " if knowing else "the published run is damaged: the numbers differ"
    assert f"**1 wrong**: {run.key}: {why}" in last
    assert last.startswith("Audit: " if knowing else "Audit: none") and " of 30 published" in last


def of_rule(runs: list[audit.Published], rule: str) -> audit.Published:
    return next(run for run in runs if run.config.rule == rule)


def test_one_line_of_a_cache_rule_is_found(published, monkeypatch):
    weight = caches.DRSR.weight
    monkeypatch.setattr(caches.DRSR, "weight", lambda self, n: weight(self, n) ** 1.1)
    drsr, fifo = (
        audit.check(of_rule(published["sfl-caches, without training"], rule), 10)
        for rule in ("drsr", "fifo")
    )
    assert drsr.state == "differs" and drsr.why.startswith("discrepancy is ")
    assert fifo.state == "equal"


def test_one_line_of_the_aggregation_is_found(published, monkeypatch):
    runs = published["sfl-training-full-start, traffic600"]
    call = servers.FedAvg.__call__

    def wrong(self, params, updates, weights=None, work=None):
        return call(self, params, 1.05 * updates, weights, work)

    monkeypatch.setattr(servers.FedAvg, "__call__", wrong)
    finding = audit.check(of_rule(runs, "drsr"), 10)
    assert finding.state == "differs" and "discrepancy" not in finding.why
    assert finding.why.startswith(("accuracy", "loss"))


# --- what is compared, and what is not ------------------------------------------------------------


LIMIT = audit.TOLERANCE


def frame(**columns) -> pd.DataFrame:
    base = {"round": [1, 2], "arm": ["a", "b"], "accuracy": [np.nan, 0.5], "discrepancy": [0.1, 3]}
    return pd.DataFrame(base | columns)


@pytest.mark.parametrize(
    "columns, why",
    [
        ({}, ""),
        ({"accuracy": [np.nan, 0.5 + 0.99 * LIMIT]}, ""),
        ({"accuracy": [np.nan, 0.5 + 1.01 * LIMIT]}, "accuracy is 0.5"),
        ({"accuracy": [0.5, 0.5]}, "accuracy is 0.5 in place of nan in row 1"),
        ({"accuracy": [np.nan, np.nan]}, "accuracy is nan in place of 0.5 in row 2"),
        ({"discrepancy": [0.1 + 4e-8, 3]}, ""),  # seven digits
        ({"discrepancy": [0.1, 3.00001]}, "discrepancy is 3.00001 in place of 3.0 in row 2"),
        ({"round": [1, 3]}, "round is 3 in place of 2 in row 2"),
        ({"arm": ["b", "b"]}, "arm is b in place of a in row 1"),
        ({"count_1": [3, 4]}, ""),  # not published, or not any more
    ],
)
def test_counts_are_equal_and_trained_numbers_within_the_tolerance(columns, why):
    found, gaps, drifts = audit.differences(frame(**columns), frame())
    assert not drifts
    assert found.startswith(why) and bool(found) == bool(why)
    assert set(gaps) == {"accuracy"}


@pytest.mark.parametrize(
    "loss, round_, drifts",
    [
        ([2.0, 1.00001, 0.5003, 0.42], 4, True),  # more and more
        ([2.0, 1.0, 0.5, 0.42], 4, False),  # a number by itself, the last one too
        ([2.0, 1.0, 0.52, 0.4], 4, False),
        ([2.1, 1.1, 0.6, 0.5], 4, False),  # from the first evaluation on
        ([2.0, 1.00001, 0.5003, 0.42], 5, False),  # a count
        ([2.0, 1.00001, 0.5003, 0.4], 4, False),  # nothing differs
    ],
)
def test_drifting_apart_is_told_from_a_wrong_number(loss, round_, drifts):
    there = pd.DataFrame({"round": [1, 2, 3, 4], "loss": [2.0, 1.0, 0.5, 0.4]})
    here = pd.DataFrame({"round": [1, 2, 3, round_], "loss": loss})
    assert audit.differences(here, there)[2] == drifts


def test_only_networks_with_hidden_layers_may_drift(published):
    run = of_rule(published["sfl-training-full-start, traffic600"], "fifo")

    def drifting(config, stop_after=None):
        frame = published_frame.copy()
        frame.attrs["data"] = run.record["data"]
        frame["loss"] += 1e-5 * 1000.0 ** (np.arange(len(frame)) // 5)
        return frame

    published_frame = store.read_result(run.key, FOLDER)[0][:10]
    finding = audit.check(run._replace(run=drifting), 10)
    assert finding.state == "differs" and finding.why.startswith("loss is ")
    config = run.record["config"] | {"model": "lenet"}
    net = run._replace(run=drifting, record=run.record | {"config": config})
    finding = audit.check(net, 10)
    assert finding.state == "drifts"
    assert audit.line([finding], [net]) == (
        "Audit: rounds 1 to 10 of 1 of 1 published runs recomputed; counts equal; 1 drifting "
        "apart, as networks do on another processor."
    )
    equal = finding._replace(key="equal", state="equal")
    assert "trained numbers of 1 within 0.005; 1 drifting apart" in audit.line([finding, equal], [])


def test_a_data_set_that_is_not_at_hand_or_another_copy_is_not_audited(
    books, published, monkeypatch
):
    monkeypatch.setattr(catalogue, "find", lambda name: None)
    runs = books["42"]
    away = next(run for run in runs if run.data)
    finding = audit.check(away, 10)
    assert (finding.state, finding.why) == ("not audited", "mnist is not at hand")
    assert not any(run.data for run in audit.pick(runs, 1000))
    each = [sum(run.data == name for run in runs) for name in ("mnist", "fmnist", "cifar10")]
    assert audit.line([], runs) == (
        f"Audit: none of {len(runs)} published runs recomputed; {each[0]} need mnist, which is not "
        f"at hand; {each[1]} need fmnist, which is not at hand; {each[2]} need cifar10, which is "
        "not at hand."
    )
    run = of_rule(published["sfl-training-full-start, traffic600"], "fifo")
    other = run._replace(record=run.record | {"data": {"digest": "0"}})
    finding = audit.check(other, 1)
    assert finding.state == "differs"  # these data are made on the spot
    assert finding.why == "the traffic600 at hand have another digest than those of the run"


def test_picks_repeat(published):
    runs = published["sfl-label-only"]
    first = audit.pick(runs, 5, seed=1)
    assert [r.key for r in first] == [r.key for r in audit.pick(runs[::-1], 5, seed=1)]
    assert [r.key for r in first] != [r.key for r in audit.pick(runs, 5, seed=2)]
    assert len({r.key for r in audit.pick(runs * 2, 10_000)}) == len(runs)
    assert CliRunner().invoke(cli.app, ["audit", "no-such"]).exit_code == 2
