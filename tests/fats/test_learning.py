"""Forgetting at the level of models: bit for bit the model of the new history, never half done, and
honestly booked.
"""

import signal
import subprocess
import sys
import textwrap

import numpy as np
import pytest
import torch
from torch import nn

from sflkit.fats import learning
from sflkit.fats.history import History, draw_history
from sflkit.fats.learning import forget, learn, request, resume, served_by
from sflkit.fats.methods import draw_fedavg
from sflkit.fats.sgd import Fisher
from sflkit.fats.state import Cost, Entry, PendingRequestError, load, save
from sflkit.federated import Task
from tests.fats.fats_cases import SIZES, line, poisoned, setup
from tests.helpers import ROOT

# By hand. Two clients with y = (0, 4) and (8, 0); rate 1/4, so that a step is w <- w/2 + y/2 (mean
# y for b = 2); w = 0. Round 0, clients 0 and 1, E = 2: client 0 takes sample 1 twice: 0 -> 2 -> 3;
# client 1 sample 0 twice: 0 -> 4 -> 6. Mean 4.5. Round 1, client 1 twice: samples (0, 1): 4.5 ->
# 6.25 -> 3.125; samples (1, 1): 4.5 -> 2.25 -> 1.125. Mean 2.125.
HAND = History.of(
    np.array([[0, 1], [1, 1]]),
    np.array([[[[1], [1]], [[0], [0]]], [[[0], [1]], [[1], [1]]]]),
    np.array([2, 2]),
)


def unused(history):
    """A sample that is left and that no round uses."""
    return next(
        (k, int(s))
        for k in range(history.n_clients)
        for s in history.remaining(k)
        if not history.first_use(k, s)
    )


def test_two_rounds_by_hand():
    task, clients = line([(0, 4), (8, 0)])
    state = learn(task, clients, HAND, 0.25, start=[0.0])
    assert {r: m.item() for r, m in state.models.items()} == {0: 0.0, 1: 4.5, 2: 2.125}
    assert state.status == "clean" and state.params.item() == 2.125 and state.rounds_done == 2
    # Weighted by what the clients have left, as FedAvg does: 3 samples against 1 give (3 * 3 + 6) /
    # 4 = 3.75.
    task, clients = line([(0, 4, 0), (8,)])
    history = History.of(HAND.clients[:1], HAND.batches[:1], np.array([3, 1]))
    weighted = learn(task, clients, history, 0.25, start=[0.0], method="frs")
    assert weighted.params.item() == pytest.approx(3.75, abs=1e-6)


def test_forgetting_by_hand():
    # Forget sample 0 of client 1: first used in round 0, which is replayed with sample 1 alone (b =
    # 1, nothing else is left): client 1: 0 -> 0 -> 0, client 0 as before 3; mean 1.5. Round 1 is
    # drawn again; whoever trains, client 1 has only y = 0.
    task, clients = line([(0, 4), (8, 0)])
    state = learn(task, clients, HAND, 0.25, start=[0.0])
    after = forget(task, clients, state, [(1, 0)], np.random.default_rng(0))
    assert after.models[1].item() == 1.5
    assert np.array_equal(after.history.batches[0], [[[1], [1]], [[1], [1]]])
    assert (after.history.clients[0] == [0, 1]).all()
    assert after.log[0][:6] == Entry(1, "exact", first=0, start=0, scratch=2, rounds=2)[:6]
    assert after.log[0].seconds > 0
    # the first model is the user's no longer: what becomes of the tensor changes nothing
    start = torch.zeros(1)
    state = learn(task, clients, HAND, 0.25, start=start)
    start += 1
    assert state.models[0].item() == 0 and state.params.item() == 2.125
    # the old state is as it was, and nobody changes it through its parameters
    state.params.zero_()
    assert state.params.item() == 2.125 and state.history is HAND and not state.log


@pytest.mark.parametrize("rule", ["exact", "printed", "minimal"])
@pytest.mark.parametrize("every", [1, 2, 4])
def test_after_forgetting_the_model_is_that_of_the_new_history(rule, every):
    # K = 3 of 4 clients: rounds with a client in several slots, and hits in the middle of rounds,
    # occur among these seeds.
    twice = middle = late = 0
    for seed in range(8):
        task, clients, history, rng = setup(seed)
        kept = dict(start=task.init(seed), every=every)
        state = learn(task, clients, history, 0.3, **kept)
        target = (int(rng.integers(4)), int(rng.integers(6)))
        hit, left = history.first_use(*target), poisoned(clients, {target})
        after = forget(task, left, state, [target], rng, rule)
        again = learn(task, left, after.history, 0.3, **kept)
        assert after.models.keys() == again.models.keys()
        assert all(torch.equal(after.models[r], again.models[r]) for r in again.models)
        entry = after.log[0]
        if hit is None:
            assert (entry.start, entry.rounds) == (-1, 0)
            assert torch.equal(after.params, state.params)
        else:
            start = hit[0] // every * every
            assert (entry.first, entry.start, entry.rounds) == (hit[0], start, 5 - start)
            twice += (history.clients[hit[0]] == target[0]).sum() > 1
            middle += hit[1] > 0
            late += hit[0] > 0
    assert twice and middle and late


def test_the_bits_do_not_depend_on_what_the_back_end_has_recorded_meanwhile():
    # after 60 steps the stacked back end replaces its step by a recording: in the first learning
    # half-way, then from the start
    task, clients, history, rng = setup(7, rounds=40)
    state = learn(task, clients, history, 0.3, start=task.init(0))
    assert torch.equal(learn(task, clients, history, 0.3, start=task.init(0)).params, state.params)
    state = forget(task, clients, state, [(int(history.clients[3, 1]), None)], rng)
    fresh = setup(7)[0]
    again = learn(fresh, clients, state.history, 0.3, start=task.init(0))
    assert torch.equal(again.params, state.params)


@pytest.mark.parametrize("threads", ["1", "2"])
def test_the_bits_stay_with_convolutions_and_with_more_threads(threads, monkeypatch):
    monkeypatch.setenv("SFLKIT_THREADS", threads)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 2)
    rng = np.random.default_rng(0)
    clients = [
        (rng.standard_normal((6, 1, 8, 8)).astype(np.float32), rng.integers(3, size=6))
        for _ in range(4)
    ]
    task = Task(nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(144, 3)))
    state = learn(task, clients, draw_history(**SIZES, rng=rng), 0.1, start=task.init(0))
    target = int(state.history.clients[1, 0]), int(state.history.batches[1, 0, 1, 0])
    after = forget(task, clients, state, [target], rng)
    assert after.log[0].start >= 0
    again = learn(task, clients, after.history, 0.1, start=task.init(0))
    assert torch.equal(again.params, after.params)


@pytest.mark.parametrize("method", ["fats", "frs", "fr2"])
def test_streams_of_samples_and_clients(method):
    draw = draw_history if method == "fats" else draw_fedavg
    task, clients, _, rng = setup(5)
    history = draw(**SIZES | {"clients_per_round": 2}, rng=rng)
    start, state, gone = task.init(1), None, set()
    state = learn(task, clients, history, 0.3, start=start, method=method)
    for requests in [(0, 1)], [(0, 2), (3, 0), (3, 5)], [(1, None)], [(2, 1), (0, None)]:
        gone |= set(requests)
        state = forget(task, poisoned(clients, gone), state, requests, rng)
        assert state.history.forgotten == gone
        again = learn(task, poisoned(clients, gone), state.history, 0.3, start=start, method=method)
        assert torch.equal(state.params, again.params) and state.status == "clean"
    assert len(state.log) == 4 and state.scratch.rounds == 4 * 5
    if method == "fats":
        assert state.recomputed.rounds == sum(e.rounds for e in state.log) < 20
    else:
        assert state.recomputed == state.scratch
        assert [len(set(row)) for row in state.history.clients] == [2] * 5


def test_a_request_during_learning_costs_only_what_has_run():
    task, clients, history, rng = setup(2)
    target = int(history.clients[4, 0]), int(history.batches[4, 0, 0, 0])
    done = history.first_use(*target)[0]
    assert 0 < done < 5
    state = learn(task, clients, history, 0.3, start=task.init(0), rounds=done)
    after = forget(task, clients, state, [target], rng)  # its first use lies ahead
    assert after.history.first_use(*target) is None and after.rounds_done == done
    assert torch.equal(after.params, state.params)
    assert after.recomputed == Cost(0, 0, 0, 0)
    assert after.log == (Entry(1, "exact", -1, -1, done),)
    slots = zip(history.clients[0], history.batches[0])
    used = next((int(k), int(b[0, 0])) for k, b in slots if k != target[0])
    again = forget(task, clients, after, [used], rng)
    assert again.rounds_done == again.log[1].rounds == done == again.log[1].scratch
    clean = poisoned(clients, {target, used})
    whole = learn(task, clean, again.history, 0.3, start=task.init(0))
    assert torch.equal(resume(task, clean, again).params, whole.params)


def test_a_pending_state_refuses_its_model_and_takes_more_requests():
    task, clients, history, rng = setup(3)
    state = learn(task, clients, history, 0.3, start=task.init(0))
    first = (int(history.clients[2, 0]), None)
    pending = request(state, [first], rng)
    assert pending.status == "pending" and pending.owed == 5
    assert max(pending.models) == history.first_use(first[0])
    with pytest.raises(PendingRequestError, match="of 5 rounds stand"):
        _ = pending.params
    half = resume(task, poisoned(clients, {first}), pending, until=pending.rounds_done + 1)
    assert half.status == "pending"
    second = next((k, None) for k in range(4) if k != first[0])
    both = resume(task, poisoned(clients, {first, second}), request(half, [second], rng))
    assert both.status == "clean" and both.rounds_done == 5
    again = learn(task, poisoned(clients, {first, second}), both.history, 0.3, start=task.init(0))
    assert torch.equal(both.params, again.params)
    # one round was recomputed for the first request before the second came
    assert both.log[1].start >= 0 and both.log[0].rounds == 1


def test_a_pending_state_stays_pending_through_a_request_that_hits_nothing():
    task, clients, history, rng = setup(3, samples_per_client=30)
    state = learn(task, clients, history, 0.3, start=task.init(0))
    pending = request(state, [(int(history.clients[2, 0]), None)], rng)
    state = request(pending, [unused(pending.history)], rng)
    assert state.status == "pending" and state.owed == 5
    assert state.models.keys() == pending.models.keys()
    with pytest.raises(PendingRequestError, match="a request is pending"):
        _ = state.params
    # the rounds are booked on the entry that took models away
    assert [e.rounds for e in resume(task, clients, state).log] == [5 - pending.rounds_done, 0]


def test_learning_on_after_a_recovery_is_not_booked():
    task, clients, history, rng = setup(2)
    state = learn(task, clients, history, 0.3, start=task.init(0), rounds=3)
    state = forget(task, clients, state, [(int(history.clients[1, 0]), None)], rng)
    assert state.status == "clean" and state.rounds_done == 3 and state.log[0].rounds > 0
    assert resume(task, clients, state).log == state.log


def test_memory_decides_how_many_models_are_kept(monkeypatch):
    task, clients, history, _ = setup(0, rounds=9)
    for n, every in (1, 9), (2, 5), (3, 3), (4, 3), (5, 2), (8, 2), (9, 1):  # n models fit
        monkeypatch.setattr(learning, "MEMORY_BYTES", n * 4 * task.n_params)
        state = learn(task, clients, history, 0.1, start=task.init(0))
        assert state.every == every and sorted(state.models) == sorted({*range(0, 9, every), 9})
    # a model between two kept ones goes when learning goes on
    state = learn(task, clients, history, 0.1, start=task.init(0), every=4, rounds=6)
    assert sorted(state.models) == [0, 4, 6]
    assert sorted(resume(task, clients, state).models) == [0, 4, 8, 9]


def test_refused_requests_leave_everything_as_it_was(tmp_path):
    task, clients, history, rng = setup(4)
    state, path = learn(task, clients, history, 0.3, start=task.init(0)), tmp_path / "s.npz"
    state = forget(task, clients, state, [(0, 1), (2, None)], rng, path=path)
    now = state.history
    used = (1, int(now.batches[now.clients == 1][0, 0, 0]))  # it alone would draw
    before, kept, drawn = path.read_bytes(), dict(state.models), rng.bit_generator.state
    for requests, message in (
        ([used, (0, 1)], "sample=1 of client=0 is forgotten"),
        ([used, (2, 0)], "whole client"),
        ([used, (9, None)], "client=9"),
        ([(1, s) for s in range(5)], "at most 4"),
        ([(0, None), (1, None), (3, None)], "at least one client must be left"),
        ([(1, 0, 3)], r"requests holds \(1, 0, 3\)"),
        ((1, 0), "requests holds 1"),
        (None, "requests must be"),
    ):
        with pytest.raises(ValueError, match=message):
            forget(task, clients, state, requests, rng, path=path)
    with pytest.raises(ValueError, match="rule='best'"):
        forget(task, clients, state, [(1, 0)], rng, "best")
    assert rng.bit_generator.state == drawn
    request(state, [used], rng)
    assert rng.bit_generator.state != drawn
    with pytest.raises(ValueError, match="clients has 3 entries"):
        forget(task, clients[:3], state, [(1, 0)], rng, path=path)
    assert path.read_bytes() == before and state.models == kept
    assert len(state.history.forgotten) == 2
    assert forget(task, clients, state, [], rng) is state


def test_a_baseline_refuses_too_few_clients_before_it_draws():
    task, clients, _, rng = setup(4)
    fedavg = draw_fedavg(**SIZES, rng=rng)
    state = learn(task, clients, fedavg, 0.3, start=task.init(0), method="frs", rounds=1)
    drawn = rng.bit_generator.state
    with pytest.raises(ValueError, match="clients_per_round=3 must be at most 2"):
        request(state, [(0, None), (1, None)], rng)
    assert rng.bit_generator.state == drawn


def test_samples_go_with_their_client():
    # five of six samples are too many for b = 2, but not when the client leaves
    task, clients, history, _ = setup(1)
    state = learn(task, clients, history, 0.3, start=task.init(0))
    asked = [*((0, s) for s in range(5)), (0, None), (1, 0)]
    together, alone = (request(state, a, np.random.default_rng(0)) for a in (asked, asked[-2:]))
    assert together.history.forgotten == {(0, None), (1, 0)} and together.log[0].requests == 7
    assert np.array_equal(together.history.batches, alone.history.batches)


def test_bad_data_and_divergence():
    task, clients, history, _ = setup()
    good = dict(rate=0.1, start=task.init(0))
    short = [clients[0], (clients[1][0][:5], clients[1][1]), *clients[2:]]
    wide = [*clients[:3], (np.ones((6, 4), np.float32), clients[3][1])]
    for data, change, message in (
        (clients, dict(rounds=6), "rounds=6"),
        (clients, dict(start=torch.zeros(3)), "start has shape"),
        (clients, dict(start=torch.full((26,), np.nan)), "finite"),
        (short, {}, r"clients\[1\] must be"),
        ([*clients[:3], None], {}, r"clients\[3\] must be"),
        (wide, {}, r"clients\[3\]: the model does not take samples of shape \(4,\)"),
        ([(1, 2)] * 4, {}, r"clients\[0\] must be"),
        (None, {}, "clients=None must be"),
    ):
        with pytest.raises(ValueError, match=message):
            learn(task, data, history, **good | change)
    task = Task(nn.Sequential(nn.AdaptiveAvgPool1d(2), nn.Linear(2, 2)))  # of any length
    with pytest.raises(ValueError, match=r"clients\[3\] has samples of another shape or type"):
        learn(task, wide, history, 0.1, start=task.init(0))
    task, clients = line([(0, 4), (8, 0)])
    with pytest.raises(FloatingPointError, match="after round 0; lower rate=1e"):
        learn(task, clients, HAND, 1e30, start=[0.0])


def test_data_that_do_not_fit_the_task_do_not_cost_the_old_state(tmp_path):
    task, clients, history, rng = setup(1)
    path = tmp_path / "s"
    state = learn(task, clients, history, 0.3, start=task.init(0), path=path)
    before, target = path.read_bytes(), [(int(history.clients[1, 0]), None)]
    k = next(k for k in range(4) if k != target[0][0])
    unfit = {
        "does not take samples of shape": [(x[:, :2], y) for x, y in clients],
        "dtype torch.float64; cross_entropy needs": [(x, y.astype(float)) for x, y in clients],
        rf"clients\[{k}\]: label 2 is out of range": [
            (x, np.where(np.arange(6) == 5, 2, y) if j == k else y)
            for j, (x, y) in enumerate(clients)
        ],
    }
    for message, bad in unfit.items():
        with pytest.raises(ValueError, match=message):
            forget(task, bad, state, target, rng, path=path)
        assert path.read_bytes() == before
    # what is forgotten may be anything, labels included
    spoilt = [(x.copy(), y.copy()) for x, y in clients]
    spoilt[k][1][0] = spoilt[target[0][0]][1][:] = 99
    assert forget(task, spoilt, state, [*target, (k, 0)], rng, path=path).status == "clean"


KILLED = textwrap.dedent("""
    import os, sys, signal, time
    sys.path.insert(0, sys.argv[3])
    from tests.fats.fats_cases import setup
    from sflkit.fats.state import load
    from sflkit.fats.learning import forget
    task, clients, history, rng = setup(1, rounds=8)
    if sys.argv[2] == "write":  # stop between the second file's last byte and its new name
        rename, calls = os.replace, []
        def replace(*args):
            calls.append(args)
            if len(calls) > 1:
                print("now", flush=True); time.sleep(60)
            rename(*args)
        os.replace = replace
    def on_round(state):
        if sys.argv[2] == "round" and state.rounds_done == 5:
            print("now", flush=True); time.sleep(60)
    target, path = (int(history.clients[1, 0]), None), sys.argv[1]
    forget(task, clients, load(path), [target], rng, path=path, on_round=on_round)
""")


@pytest.mark.parametrize("moment", ["round", "write"])
def test_a_killed_process_never_leaves_a_model_marked_clean(tmp_path, moment):
    task, clients, history, rng = setup(1, rounds=8)
    target, path = (int(history.clients[1, 0]), None), tmp_path / "state.npz"
    state = learn(task, clients, history, 0.3, start=task.init(0), path=path)
    command = [sys.executable, "-c", KILLED, str(path), moment, str(ROOT)]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert child.stdout.readline() == "now\n"
    child.send_signal(signal.SIGKILL)
    child.wait()
    child.stdout.close()
    left = load(path)
    first = history.first_use(target[0])
    assert left.status == "pending"
    assert left.history.forgotten == {target}
    assert max(left.models) == first < 2
    with pytest.raises(PendingRequestError, match="a request is pending"):
        _ = left.params
    whole = resume(task, poisoned(clients, {target}), left, path=path)
    assert load(path).status == "clean" and torch.equal(load(path).params, whole.params)
    # what the child had drawn is what stands in the file: the same as without a kill
    assert torch.equal(whole.params, forget(task, clients, state, [target], rng).params)


def killed(state):
    raise KeyboardInterrupt


@pytest.mark.parametrize("level", ["client", "ahead"])
def test_resume_writes_what_was_asked_before_it_trains(tmp_path, level):
    # request, then resume with the old file's name: the old file's models must not outlive a crash
    # of the first round
    task, clients, history, rng = setup(1)
    path, rounds = tmp_path / "s", 5 if level == "client" else 2
    state = learn(task, clients, history, 0.3, start=task.init(0), path=path, rounds=rounds)
    target = next(
        (k, None) for k in range(4) if (history.first_step(k) < 2 * 3) == (level == "client")
    )
    asked = request(state, [target], rng)
    assert asked.status == ("pending" if level == "client" else "clean")
    with pytest.raises(KeyboardInterrupt):
        resume(task, clients, asked, path=path, on_round=killed)
    left = load(path)
    assert left.status == asked.status
    assert left.history.forgotten == {target}
    assert left.models.keys() == asked.models.keys()


def test_a_request_that_hits_nothing_is_on_the_disk(tmp_path):
    task, clients, history, rng = setup(1, samples_per_client=30)
    state = learn(task, clients, history, 0.3, start=task.init(0), path=tmp_path / "s")
    target = unused(history)
    with pytest.raises(ValueError, match="clients has 3 entries"):
        forget(task, clients[:3], state, [target], rng, path=tmp_path / "s")
    assert forget(task, clients, state, [target], rng, path=tmp_path / "s").status == "clean"
    assert load(tmp_path / "s").history.forgotten == {target}
    assert load(tmp_path / "s").rounds_done == 5


def test_recomputation_can_be_saved_on_the_way(tmp_path):
    task, clients, history, rng = setup(1, rounds=8)
    state = learn(task, clients, history, 0.3, start=task.init(0))

    def keep(state):
        if state.rounds_done == 6:
            save(state, tmp_path / "s")
        if state.rounds_done == 7:
            raise KeyboardInterrupt

    target = (int(history.clients[0, 0]), None)
    with pytest.raises(KeyboardInterrupt):
        forget(task, clients, state, [target], rng, on_round=keep)
    left = load(tmp_path / "s")
    assert (left.status, left.rounds_done, left.log[0].rounds) == ("pending", 6, 6)
    assert resume(task, clients, left).log[0].rounds == 8


def test_only_fr2_scales_and_only_after_a_request():
    task, clients, _, rng = setup()
    history = draw_fedavg(**SIZES, rng=rng)
    start = task.init(0)
    plain, rapid = (
        learn(task, clients, history, 0.3, start=start, method=m) for m in ("frs", "fr2")
    )
    assert torch.equal(plain.params, rapid.params)
    plain, rapid = (
        forget(task, clients, state, [(0, 0)], np.random.default_rng(3)) for state in (plain, rapid)
    )
    assert all(s.log[0].start == 0 and torch.equal(s.models[0], start) for s in (plain, rapid))
    assert np.array_equal(plain.history.batches, rapid.history.batches)
    assert not torch.allclose(plain.params, rapid.params)


def test_another_method_takes_over_what_it_would_have_learned():
    task, clients, _, rng = setup()
    history = draw_fedavg(**SIZES, rng=rng)
    state = learn(task, clients, history, 0.3, start=task.init(0), every=3, method="frs")
    state = served_by(state, "fr2", Fisher(rate=2.0))
    after = forget(task, clients, state, [(0, 0)], rng)
    assert (after.rate, after.every, after.method, after.fisher.rate) == (0.3, 3, "fr2", 2.0)
    for method, of in ("fats", state), ("frs", after):
        with pytest.raises(ValueError, match=f"method='{method}' cannot take over"):
            served_by(of, method)


def test_a_state_knows_its_data(tmp_path):
    """To the last bit of an entry; tests/faults has other changes of the data."""
    task, clients, history, rng = setup(2)
    path, target = tmp_path / "s", (int(history.clients[2, 0]), 0)
    state = learn(task, clients, history, 0.3, start=task.init(0), path=path)
    nudged = [(x.copy(), y.copy()) for x, y in clients]
    nudged[3][0][5, 2] = np.nextafter(nudged[3][0][5, 2], np.float32(9))
    before = path.read_bytes()
    for use in (
        lambda: forget(task, nudged, load(path), [target], rng, path=path),
        lambda: resume(task, nudged, state),
    ):
        with pytest.raises(ValueError, match=r"clients\[3\] is not what .*: sample 5"):
            use()
    assert path.read_bytes() == before
    # what is forgotten may be anything
    gone = forget(task, poisoned(clients, {target}), load(path), [target], rng, path=path)
    assert (gone.data == 0).sum() == 1  # no mark of it is left


def test_a_clean_state_shows_by_which_rules_it_forgot(tmp_path):
    task, clients, history, rng = setup(2)
    state = learn(task, clients, history, 0.3, start=task.init(0))
    assert state.rules == () and state.exact
    exact = forget(task, clients, state, [(0, 0)], rng)
    printed = forget(task, clients, exact, [(1, 0)], rng, "printed", path=tmp_path / "s")
    left = forget(task, clients, load(tmp_path / "s"), [(2, None)], rng, "printed")
    assert exact.rules == ("exact",) and exact.exact
    assert left.rules == ("exact", "printed", "exact")  # Algorithm 3 needs no rule
    assert not printed.exact and not left.exact
    assert repr(left).startswith("State(clean, rules=('exact', 'printed', 'exact'), exact=False")


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_data_that_are_not_finite_are_the_cause_and_not_the_rate(value):
    task, clients, history, rng = setup(0, n_clients=5)
    state = learn(task, clients, history, 0.3, start=task.init(0))
    client, sample = int(history.clients[0, 0]), int(history.batches[0, 0, 0, 0])
    broken = [(np.array(x), y) for x, y in clients]
    broken[client][0][sample] = value
    with pytest.raises(ValueError, match=rf"^clients\[{client}\]: x holds NaN .* sample {sample};"):
        learn(task, broken, history, 0.3, start=task.init(0))
    # A forgotten sample may be anything.
    after = forget(task, clients, state, [(client, sample)], np.random.default_rng(1))
    again = forget(task, broken, state, [(client, sample)], np.random.default_rng(1))
    assert torch.equal(after.params, again.params)
