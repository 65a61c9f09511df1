"""Runs that train side by side: the answers of single runs, one engine call a round, and what a
sweep makes of it.
"""

import json
import sys
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
import torch

from sflkit import federated, paths
from sflkit.results import attempts, sweep
from sflkit.results.store import describe, is_complete, write_result
from sflkit.sfl import training
from sflkit.sfl.config import SFLConfig
from sflkit.sfl.training import run, run_stacked

TINY = SFLConfig(
    seed=3,
    data="digits",
    model="linear",
    n_clients=3,
    n_states=4,
    capacity=20,
    batch_size=10,
    rounds=5,
    test_size=100,
)
BATCH = [
    replace(TINY, rule="fifo"),
    replace(TINY, rule="full", seed=4, local_rate=0.05),
    replace(TINY, rule="drsr", local_rate=1e38),  # diverges in round 1
    replace(TINY, rule="srsr", theta=0.5, global_rate=0.5),
    replace(TINY, rule="drsr", seed=4, classes_per_client=5, test_size=60),
]


@pytest.mark.parametrize("model", ["linear", "lenet"])
def test_each_run_answers_as_if_alone(model):
    configs = [
        replace(config, model=model, rounds=5 if model == "linear" else 3) for config in BATCH
    ]
    diverge = {2: 1}  # config: round
    if model == "lenet":
        configs.insert(0, replace(configs[0], rule="lazy", local_rate=1e6))
        diverge = {0: 2, 3: 1}
    for i, (config, answer) in enumerate(
        zip(configs, run_stacked(configs, backend="pool"), strict=True)
    ):
        if i in diverge:
            with pytest.raises(
                FloatingPointError, match=f"after round {diverge[i]}; lower local_rate="
            ) as alone:
                run(config, backend="pool")
            assert answer.frame is None and isinstance(answer.error, FloatingPointError)
            assert str(answer.error) == str(alone.value)
        else:
            alone = run(config, backend="pool")
            assert answer.error is None
            frame = answer.frame
            pd.testing.assert_frame_equal(frame, alone, check_exact=True)  # to the last bit
            assert frame.attrs == alone.attrs and frame["accuracy"].notna().all()


@pytest.mark.parametrize("model", ["linear", "lenet"])
def test_the_stacked_back_end_agrees_to_rounding(model):
    # Measured in the loss: at most 7e-10 (linear), 1e-8 (LeNet, 2 rounds), 2e-7 (LeNet, 10 rounds);
    # accuracies equal.
    configs = [
        replace(config, model=model, rounds=5 if model == "linear" else 2) for config in BATCH
    ]
    answers = run_stacked(configs, backend="stacked")
    assert [isinstance(answer.error, FloatingPointError) for answer in answers] == [
        False,
        False,
        True,
        False,
        False,
    ]
    for config, answer in zip(configs, answers, strict=True):
        if config.local_rate < 1:
            answer = answer.frame
            alone = run(config, backend="pool")
            np.testing.assert_allclose(answer["loss"], alone["loss"], rtol=0, atol=1e-5)
            np.testing.assert_allclose(
                answer["accuracy"], alone["accuracy"], rtol=0, atol=0.02
            )  # one test sample
            rest = [c for c in answer if c not in ("loss", "accuracy")]
            pd.testing.assert_frame_equal(answer[rest], alone[rest], check_exact=True)


def test_neither_order_nor_neighbours_matter():
    backwards = run_stacked(BATCH[::-1], backend="pool")[::-1]
    some = run_stacked(BATCH[1::2], backend="pool")
    for a, b in [
        *zip(run_stacked(BATCH, backend="pool"), backwards, strict=True),
        *zip(backwards[1::2], some, strict=True),
    ]:
        assert str(a.error) == str(b.error)
        assert a.frame is b.frame is None or a.frame.equals(b.frame)


def test_all_runs_diverge():
    answers = run_stacked([replace(TINY, local_rate=1e38, seed=s, rounds=30) for s in range(2)])
    assert [type(answer.error) for answer in answers] == [FloatingPointError] * 2


def test_one_engine_call_a_round_trains_seeds_rules_and_clients(monkeypatch):
    trained, tested = [], []
    train, evaluate = federated.local_sgd, federated.evaluate

    def local_sgd(task, params, batches, rate, **options):
        trained.append((params.shape[0], len(batches)))
        return train(task, params, batches, rate, **options)

    def evaluated(task, params, x, y):
        tested.append(len(params))
        return evaluate(task, params, x, y)

    monkeypatch.setattr(federated, "local_sgd", local_sgd)
    monkeypatch.setattr(federated, "evaluate", evaluated)
    rules = ("fifo", "srsr", "drsr", "lazy", "full")
    configs = [
        replace(TINY, rule=rule, seed=seed, evaluate_every=2, rounds=4)
        for seed in range(2)
        for rule in rules
    ]
    run_stacked(configs)
    assert trained == [(2 * 5 * 3, 2 * 5 * 3)] * 4  # seeds x rules x clients
    assert tested == [5, 5] * 2  # a seed has its own test set, which its rules share


def test_the_servers_by_hand(monkeypatch):
    # Clients that move by their row's number: the three of the first run by 0, 1, 2, mean 1; of the
    # second by 3, 4, 5, mean 4. With global rates 1 and 1/2 the models move by 1 and 2 a round.
    seen = []

    def local_sgd(task, params, batches, rate, updates, **options):
        assert updates and rate.tolist() == [0.1] * 3 + [0.2] * 3
        return torch.arange(6.0)[:, None].expand(params.shape)

    def evaluate(task, params, x, y):
        seen.append(params.clone())
        return federated.Evaluation(np.zeros(len(params)), np.arange(1, len(params) + 1) / 10)

    monkeypatch.setattr(federated, "local_sgd", local_sgd)
    monkeypatch.setattr(federated, "evaluate", evaluate)
    answers = run_stacked([TINY, replace(TINY, global_rate=0.5, local_rate=0.2)])
    moved = [b - a for a, b in pairwise(seen)]
    torch.testing.assert_close(
        torch.stack(moved), torch.tensor([1.0, 2.0])[:, None].expand(4, 2, seen[0].shape[1])
    )
    assert [set(answer.frame["accuracy"]) for answer in answers] == [{0.1}, {0.2}]


def test_batches_that_cannot_be():
    with pytest.raises(
        ValueError, match=r"configs differ in rounds, capacity|configs differ in capacity, rounds"
    ):
        run_stacked([TINY, replace(TINY, rounds=9, capacity=21)])
    with pytest.raises(ValueError, match=r"configs=\[\]"):
        run_stacked([])
    with pytest.raises(ValueError, match="classes_per_client=11"):
        run_stacked([TINY, replace(TINY, classes_per_client=11)])
    with pytest.raises(ValueError, match="backend='gpu'"):
        run_stacked([TINY], backend="gpu")
    assert (
        training.stack_key(TINY)
        == training.stack_key(BATCH[-1])
        != training.stack_key(replace(TINY, rounds=9))
    )
    assert training.stack_key(replace(TINY, train=False)) is None


# --- sweeps -----------------------------------------------------------------------------------


def test_a_sweep_in_batches_has_the_results_of_one_without(tmp_path):
    good = [config for config in BATCH if config.local_rate < 1]
    alone = sweep.run_many(run, good, store=tmp_path / "alone", stack=1)
    with pytest.raises(sweep.SweepError, match="1 of the runs failed") as error:
        sweep.run_many(run, BATCH, store=tmp_path / "batch", stack=10)
    assert [config for config, _ in error.value.failures] == [
        BATCH[2]
    ] and "after round" in error.value.failures[0][1]
    batch = sweep.run_many(run, good, store=tmp_path / "batch", stack=10)
    assert (
        batch.attrs["computed"] == 0 and batch.attrs["keys"] == alone.attrs["keys"]
    )  # each under its own key
    pd.testing.assert_frame_equal(alone, batch, rtol=0, atol=1e-5)
    assert len(list((tmp_path / "batch").rglob("*.json"))) == len(good)


# A run that can be stacked by parity of the seed, and logs what it is called with.
PROBE = """
from dataclasses import dataclass
import pandas as pd
from sflkit.results.attempts import Outcome
EXPERIMENT = "stack-probe"
RESULT_VERSION = 1
CALLS, HURT = [], {}

@dataclass(frozen=True)
class Config:
    seed: int = 0

def stack_key(config):
    return config.seed % 2 if config.seed < 20 else None

def run(config):
    CALLS.append(("alone", config.seed))
    if isinstance(HURT.get(config.seed), Exception):
        raise HURT[config.seed]
    return pd.DataFrame({"x": [config.seed * 0.5]})

def other(config):
    return run(config)

def run_stacked(configs):
    CALLS.append(("stacked", *sorted(config.seed for config in configs)))
    for config in configs:
        if config.seed in HURT:
            raise HURT[config.seed]
    frames = [pd.DataFrame({"x": [config.seed * 0.5]}) for config in configs]
    bad = ArithmeticError("seed 6 diverged")
    both = zip(configs, frames)
    return [Outcome(None, bad) if c.seed == 6 else Outcome(frame, None) for c, frame in both]
"""


@pytest.fixture
def probe(tmp_path, monkeypatch):
    (tmp_path / "stack_probe.py").write_text(PROBE)
    monkeypatch.syspath_prepend(str(tmp_path))
    import stack_probe

    yield stack_probe
    sys.modules.pop("stack_probe")


def many(probe, tmp_path, seeds, **options):
    frame = sweep.run_many(
        probe.run, [probe.Config(s) for s in seeds], store=tmp_path / "store", **options
    )
    assert (frame["x"] == frame["seed"] * 0.5).all() and frame["seed"].tolist() == list(seeds)
    return frame


def test_batches_hold_equal_keys_up_to_the_size(probe, tmp_path):
    many(probe, tmp_path, [0, 1, 2, 3, 4, 20, 21], stack=2)
    assert sorted(probe.CALLS) == [
        ("alone", 4),
        ("alone", 20),
        ("alone", 21),
        ("stacked", 0, 2),
        ("stacked", 1, 3),
    ]
    probe.CALLS.clear()
    many(probe, tmp_path, range(5), stack=5)
    assert not probe.CALLS  # all found
    many(probe, tmp_path, [1, 3, 5, 7, 9, 11], stack=5)
    assert probe.CALLS == [("stacked", 5, 7, 9, 11)]  # only what is missing


def test_batches_leave_no_job_idle(probe, tmp_path):
    many(probe, tmp_path, range(1, 16, 2), stack=50, jobs=2)
    assert sorted(map(len, probe.CALLS)) == [1 + 4, 1 + 4]


@pytest.mark.parametrize(("gpu", "calls"), [(False, 3), (True, 1)])
def test_without_a_size_only_a_gpu_stacks(probe, tmp_path, monkeypatch, gpu, calls):
    monkeypatch.setattr(sweep, "_has_gpu", lambda: gpu)
    many(probe, tmp_path, [1, 3, 5])
    assert len(probe.CALLS) == calls
    sweep.run_many(
        probe.other, [probe.Config(s) for s in (1, 3)], store=tmp_path / "store"
    )  # what the module offers is `run`'s
    assert probe.CALLS[-2:] == [("alone", 1), ("alone", 3)]


def test_a_failure_in_a_batch_stays_its_own(probe, tmp_path):
    with pytest.raises(sweep.SweepError, match="1 of the runs failed") as error:
        many(probe, tmp_path, [0, 2, 4, 6], stack=4)
    assert [config.seed for config, _ in error.value.failures] == [
        6
    ] and "seed 6 diverged" in error.value.failures[0][1]
    assert (
        probe.CALLS == [("stacked", 0, 2, 4, 6)]
        and len(list((tmp_path / "store").rglob("*.json"))) == 3
    )


def test_when_a_batch_breaks_each_runs_alone(probe, tmp_path):
    probe.HURT[3] = ArithmeticError("seed 3 breaks all")
    with (
        pytest.warns(UserWarning, match="batch of 3"),
        pytest.raises(sweep.SweepError, match="seed 3 breaks all") as error,
    ):
        many(probe, tmp_path, [1, 3, 5], stack=4)
    assert [config.seed for config, _ in error.value.failures] == [3]
    assert sorted(probe.CALLS) == [("alone", 1), ("alone", 3), ("alone", 5), ("stacked", 1, 3, 5)]
    probe.HURT.clear()
    many(probe, tmp_path, [1, 3, 5], stack=4)
    assert probe.CALLS[-1] == ("alone", 3)


def test_a_batch_that_answers_too_little_counts_as_broken(probe, tmp_path, monkeypatch):
    whole = probe.run_stacked
    monkeypatch.setattr(probe, "run_stacked", lambda configs: whole(configs)[:-1])
    with pytest.warns(UserWarning, match="2 results for 3 configs"):
        many(probe, tmp_path, [1, 3, 5], stack=4)
    assert sorted(probe.CALLS) == [("alone", 1), ("alone", 3), ("alone", 5), ("stacked", 1, 3, 5)]


def test_the_record_says_how_many_ran_together(probe, tmp_path):
    many(probe, tmp_path, [1, 3, 5, 7], stack=3)
    records = [json.loads(file.read_text()) for file in (tmp_path / "store").rglob("*.json")]
    assert sorted(record.get("stacked", 1) for record in records) == [1, 3, 3, 3]


def test_an_unreadable_result_is_a_failure_and_frees_its_lock(probe, tmp_path, monkeypatch):
    def deny(key, folder):
        raise PermissionError(f"no access to {key}")

    monkeypatch.setattr(attempts, "is_complete", deny)
    with pytest.raises(sweep.SweepError, match="no access"):
        many(probe, tmp_path, [9], stack=1)
    monkeypatch.setattr(attempts, "is_complete", is_complete)
    many(probe, tmp_path, [9], stack=1)


def test_a_killed_sweep_keeps_finished_batches(probe, tmp_path):
    probe.HURT[8] = KeyboardInterrupt()  # as a kill, it leaves through everything
    with pytest.raises(KeyboardInterrupt):
        many(probe, tmp_path, [0, 2, 4, 8, 10], stack=3)
    assert probe.CALLS == [("stacked", 0, 2, 4), ("stacked", 8, 10)]
    probe.HURT.clear()
    assert many(probe, tmp_path, [0, 2, 4, 8, 10], stack=3).attrs["reused"] == 3
    assert probe.CALLS[2:] == [("stacked", 8, 10)]


def test_a_batch_leaves_out_what_another_sweep_computes(probe, tmp_path, monkeypatch):
    configs = [probe.Config(s) for s in (1, 3, 5)]
    heads = [describe(probe.run, config) for config in configs]
    store = tmp_path / "store"
    theirs = paths.lock(store / heads[1]["key"], folder=store / ".locks")
    theirs.acquire()
    taken, lock = [], paths.lock
    monkeypatch.setattr(
        paths, "lock", lambda path, **options: taken.append(path.name) or lock(path, **options)
    )
    batch = list(zip(configs, heads, strict=True))
    task = attempts.Task(probe.run, probe.run_stacked, {}, store, 1, 0)
    answers = attempts.execute(task, batch, False)
    assert {key: state for key, state, _ in answers} == {
        head["key"]: "busy" if head is heads[1] else "computed" for head in heads
    } and probe.CALLS == [("stacked", 1, 5)]
    write_result(store, heads[1], pd.DataFrame({"x": [1.5]}), threads=1, seconds=0)
    theirs.release()
    assert [state for _, state, _ in attempts.execute(task, batch[::-1], True)] == ["found"] * 3
    assert len(probe.CALLS) == 1  # all are there now, and no lock is left held
    assert (
        taken == sorted(taken[:3]) * 2
    )  # one order, so that two sweeps never wait for each other in a circle
    for head in heads:
        lock(store / head["key"], wait=False, folder=store / ".locks").acquire().lock.release()


@pytest.mark.parametrize("stack", [0, -1, 1.5, "all", True])
def test_bad_sizes(probe, tmp_path, stack):
    with pytest.raises(ValueError, match=f"stack={stack!r} must be an integer >= 1"):
        many(probe, tmp_path, [1], stack=stack)
