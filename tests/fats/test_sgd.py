"""Local steps by hand, against the printed ones, and under requests to forget."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from sflkit.fats.config import FATSConfig
from sflkit.fats.learning import forget, learn
from sflkit.fats.sgd import SGD, local_steps
from sflkit.fats.state import load
from sflkit.fats.training import run
from sflkit.federated import local_sgd
from sflkit.runs.keys import result_key
from tests.fats.fats_cases import TINY_RUN, federation, line, setup

ALL = [SGD(r, m, d) for r in ("mean", "sum") for m in (0.0, 0.5) for d in (0.0, 0.25)]


@pytest.mark.parametrize(
    ("sgd", "w1", "w2"),
    [
        # Two samples y = 1, 5, loss (w - y)^2, from w = 2 at the rate 1/8. The gradients are
        # 2 (w - 1) and 2 (w - 5): at 2 they are 2 and -6, their mean -2, their sum -4.
        (SGD(), 2.25, 2.4375),  # 2 + 2/8; then mean 2 (9/4 - 3) = -3/2
        (SGD("sum"), 2.5, 2.75),  # 2 + 4/8; then sum 4 (5/2 - 3) = -2
        (SGD("mean", 0.5), 2.25, 2.5625),  # v = -2; then -1 - 3/2 = -5/2
        (SGD("sum", 0.5), 2.5, 3.0),  # v = -4; then -2 - 2 = -4
        (SGD("mean", 0.0, 0.5), 2.125, 2.2109375),  # -2 + 1 = -1; then -7/4 + 17/16 = -11/16
        (SGD("sum", 0.0, 0.5), 2.375, 2.5390625),  # -4 + 1 = -3; then -5/2 + 19/16 = -21/16
        (SGD("sum", 0.5, 0.5), 2.375, 2.7265625),  # v = -3; then -3/2 - 21/16 = -45/16
    ],
)
def test_two_steps_on_two_samples_by_hand(sgd, w1, w2):
    task, clients = line([(1, 5)])
    data = tuple(torch.as_tensor(v, dtype=torch.float32) for v in clients[0])
    rows = [[[0, 1], [-1, -1]], [[0, 1], [0, 1]], [[-1, -1], [-1, -1]]]  # one step, two, none
    out = local_steps(task, torch.full((1,), 2.0), data, rows, 1 / 8, sgd)
    assert out[:, 0].tolist() == [w1, w2, 2.0]


def table(clients):
    return tuple(torch.as_tensor(np.concatenate(part)) for part in zip(*clients))


def mini_batches(size, n=5):
    """Rows of the table: n mini-batches of each of the four clients, who have six samples."""
    one = (np.arange(n)[:, None] + np.arange(size)) % 6
    return 6 * np.arange(4)[:, None, None] + one


@pytest.mark.parametrize("sgd", ALL)
def test_a_sum_of_one_gradient_is_its_mean_and_of_b_the_mean_at_b_times_the_rate(sgd):
    task, clients, _, _ = setup()
    mean = replace(sgd, reduction="mean")
    for size in 1, 3:
        batches = table(clients), mini_batches(size)
        ours = local_steps(task, task.init(0), *batches, 0.05, replace(sgd, reduction="sum"))
        scaled = replace(mean, weight_decay=sgd.weight_decay / size)
        other = local_steps(task, task.init(0), *batches, 0.05 * size, scaled)
        assert torch.equal(ours, other)
    assert not torch.allclose(ours, local_steps(task, task.init(0), *batches, 0.05, mean))


def test_without_momentum_and_decay_the_steps_are_the_printed_ones():
    task, clients, _, _ = setup()
    x, y = table(clients)
    batches = (x, y), mini_batches(3)
    lists = [[(x[rows], y[rows]) for rows in slot] for slot in batches[1]]
    printed = local_sgd(task, task.init(0), lists, 0.2)
    assert torch.equal(local_steps(task, task.init(0), *batches, 0.2, SGD()), printed)
    tiny = local_steps(task, task.init(0), *batches, 0.2, SGD("mean", 1e-7, 1e-7))
    assert torch.allclose(tiny, printed, atol=1e-6)


@pytest.mark.parametrize("sgd", ALL)
def test_what_is_unlearnt_is_what_the_new_history_teaches(sgd, tmp_path):
    """No velocity survives a round: replayed rounds have the bits of rounds that never saw it."""
    for seed in range(4):
        task, clients, history, rng = setup(seed)
        start, path = task.init(0), tmp_path / "state"
        learn(task, clients, history, 0.3, start=start, sgd=sgd, rounds=4, path=path)
        assert load(path).sgd == sgd
        after = forget(task, clients, load(path), [(seed % 4, 1), (3, None)], rng)
        again = learn(task, clients, after.history, 0.3, start=start, sgd=sgd, rounds=4)
        assert torch.equal(after.params, again.params) and after.sgd == sgd
        assert after.recomputed.rounds > 0
        path.unlink()


def test_a_run_takes_them_and_old_keys_stay():
    summed = replace(TINY_RUN, reduction="sum")
    faster = replace(TINY_RUN, rate=TINY_RUN.rate * TINY_RUN.batch_size)
    columns = ["accuracy", "loss", "unlearning_steps"]
    ours, other = (run(config, data=federation())[columns] for config in (summed, faster))
    assert ours.equals(other)
    heavy = run(replace(TINY_RUN, momentum=0.9, weight_decay=1e-4), data=federation())
    assert not np.allclose(heavy.loss, run(TINY_RUN, data=federation()).loss)
    # the key of a published run, from before there were such settings
    assert result_key(run, FATSConfig()) == "fats-training/32497c91677dd89a"
    assert (
        len({result_key(run, c) for c in (TINY_RUN, summed, replace(TINY_RUN, momentum=0.5))}) == 3
    )


def test_mini_batches_of_several_sizes_have_no_one_rate():
    task, clients, _, _ = setup()
    rows = mini_batches(3)
    rows[0, 2, 2] = -1
    with pytest.raises(ValueError, match="rows hold mini-batches of 2 to 3 samples"):
        local_steps(task, task.init(0), table(clients), rows, 0.1, SGD("sum"))
