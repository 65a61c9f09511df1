"""Training in which caches differ in labels only: one step by hand, limits, pairing of runs."""

from dataclasses import replace

import numpy as np
import pytest

from companion.notebooks import label_only
from companion.notebooks.label_only import LabelOnlyConfig, cached_shares, make_stream, run
from sflkit.randomness import generator

TINY = LabelOnlyConfig(
    n_clients=3,
    n_classes=4,
    classes_per_client=2,
    n_states=3,
    capacity=20,
    batch_size=10,
    rounds=6,
    features=3,
    samples=8,
)


def test_one_step_by_hand():
    # Two classes, one feature and a constant, one sample each: x_0 = (2, 1), x_1 = (-1, 1). With
    # zero weights both probabilities are 1/2, so the gradient of class 0's loss is x_0 (-1/2, 1/2)
    # and that of class 1's x_1 (1/2, -1/2). With shares (3/4, 1/4) and rate 1 the weights become
    #   3/4 x_0 (1/2, -1/2) + 1/4 x_1 (-1/2, 1/2) = (3/4 + 1/8, 3/8 - 1/8) (1, -1)
    #                                             = (7/8, 1/4) (1, -1).
    x = np.array([[[2.0, 1.0]], [[-1.0, 1.0]]])
    shares = np.array([0.75, 0.25])
    samples = label_only.samples_of(shares[None], x)
    after = label_only.local_training(np.zeros((2, 2)), shares[None], samples, steps=1, rate=1.0)
    np.testing.assert_allclose(after, [[[7 / 8, -7 / 8], [1 / 4, -1 / 4]]])


def test_gradient_is_that_of_the_weighted_loss():
    # The step of a rate so small that it is a derivative, against differences of the loss itself.
    rng = np.random.default_rng(0)
    x = rng.standard_normal((3, 5, 4))
    shares = np.array([0.2, 0.0, 0.8])
    weights = rng.standard_normal((4, 3))
    samples = label_only.samples_of(shares[None], x)
    (after,) = label_only.local_training(weights, shares[None], samples, steps=1, rate=1.0)
    step = weights - after
    for i in range(4):
        for j in range(3):
            moved = [weights.copy(), weights.copy()]
            moved[0][i, j] += 1e-5
            moved[1][i, j] -= 1e-5
            up, down = (label_only.evaluate(w, shares, x)[0] for w in moved)
            assert step[i, j] == pytest.approx((up - down) / 2e-5, abs=1e-7)


def test_clients_train_apart():
    # One client owns two classes, the other three: the padding of the first changes nothing.
    rng = np.random.default_rng(1)
    x, weights = rng.standard_normal((4, 5, 3)), rng.standard_normal((3, 4))
    shares = np.array([[0.0, 0.5, 0.5, 0.0], [0.2, 0.0, 0.3, 0.5]])
    how = {"steps": 3, "rate": 0.3}
    both = label_only.local_training(weights, shares, label_only.samples_of(shares, x), **how)
    for k in range(2):
        own = shares[k : k + 1]
        (alone,) = label_only.local_training(weights, own, label_only.samples_of(own, x), **how)
        np.testing.assert_allclose(both[k], alone)


def test_loss_and_accuracy_of_no_model():
    x = np.ones((4, 3, 2))
    loss, accuracy = label_only.evaluate(np.zeros((2, 4)), np.array([0.1, 0.2, 0.3, 0.4]), x)
    assert loss == pytest.approx(np.log(4))
    assert accuracy == pytest.approx(0.1)  # ties go to class 0


def test_full_holds_the_long_term_mix_at_any_start():
    for start in ("append", "full"):
        config = replace(TINY, rule="full", start=start)
        shares = cached_shares(config, make_stream(config))
        assert (shares == shares[0]).all()
        assert np.abs(shares[0] - make_stream(config).long_term).max() <= 1 / TINY.capacity


def test_rules_of_one_path_see_the_same_arrivals():
    # FIFO with B = B_s holds the arrivals of the round and nothing else, and so does SRSR with
    # theta = 1, once the cache is full.
    config = replace(TINY, capacity=10, start="full")
    stream = make_stream(config)
    fifo, srsr = (
        cached_shares(replace(config, rule=rule, theta=1.0), stream) for rule in ("fifo", "srsr")
    )
    np.testing.assert_array_equal(fifo, srsr)


def test_the_first_round_is_the_first_after_the_start():
    """A FIFO cache of one round's size holds the arrivals of that round, and nothing older."""
    config = replace(TINY, rule="fifo", start="full", capacity=10, batch_size=10, rounds=3)
    stream = make_stream(config)
    counts = stream.sample(4, [10] * 4, generator(config.seed, "arrivals"))  # one for the start
    np.testing.assert_allclose(10 * cached_shares(config, stream), counts[1:])


def test_lazy_keeps_its_start():
    lazy = cached_shares(replace(TINY, rule="lazy", start="full"), make_stream(TINY))
    assert (lazy == lazy[0]).all()


def test_worlds_and_paths_are_apart():
    frame = run(TINY)
    assert frame["round"].tolist() == list(range(1, 7))
    assert frame.equals(run(TINY))
    other_path, other_world = run(replace(TINY, seed=1)), run(replace(TINY, world=1))
    classes = label_only.make_classes(replace(TINY, seed=1))
    np.testing.assert_array_equal(classes.train, label_only.make_classes(TINY).train)
    assert not frame["loss"].equals(other_path["loss"])
    assert not frame["loss"].equals(other_world["loss"])
    assert frame["loss"].iloc[-1] < frame["loss"].iloc[0]
