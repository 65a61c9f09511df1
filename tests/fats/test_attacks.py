"""Membership inference: hand-derived cases, scikit-learn's metrics, the null law, an attack that
must win, bad input.
"""

import math

import numpy as np
import pytest
import torch
from sklearn import metrics
from sklearn.datasets import load_digits

from sflkit import models
from sflkit.fats.attacks import (
    LossThreshold,
    evaluate_attack,
    features,
    losses,
    membership_metrics,
    predictor,
    shadow_attack,
)
from sflkit.federated import Task, evaluate, local_sgd


class Score:
    """An attack whose score is the first class's probability."""

    def score(self, probabilities, y):
        return probabilities[:, 0]


def first(x):
    """A model whose inputs (n,) are the first class's probabilities."""
    return np.stack([x, 1 - np.asarray(x)], 1)


def labelled(x):
    return np.asarray(x), np.zeros(len(x), int)


def knows(ids, sure=0.9, n_classes=3):
    """A model of three classes that is sure of label x mod 3 for the inputs x in `ids` and answers
    1/3 each otherwise.
    """

    def predict(x):
        out = np.full((len(x), n_classes), 1 / n_classes)
        rows = np.flatnonzero(np.isin(x, ids))
        out[rows] = (1 - sure) / (n_classes - 1)
        out[rows, x[rows] % n_classes] = sure
        return out

    return predict


def attacked(attack, predict, members, others, seed=1, **options):
    rng = np.random.default_rng(seed)
    return evaluate_attack(attack, predict, members, others, rng=rng, **options)


def shadows(train, pool, labels, seed=0, **options):
    return shadow_attack(train, pool, labels, rng=np.random.default_rng(seed), **options)


# small cases by hand


def test_confidences_that_give_members_away():
    # Shadows and target answer 0.9 on what they trained on and 1/3 elsewhere, so every answer tells
    # the truth.
    pool = np.arange(120)
    attack = shadows(lambda ids, seed: knows(pool[ids]), pool, pool % 3, n_shadows=2)
    inside, outside = np.arange(200, 230), np.arange(300, 340)
    groups = (inside, inside % 3), (outside, outside % 3)
    # both with no deviation; never silent
    assert attacked(attack, knows(inside), *groups) == (1, 0, 1, 0, 0, 30)
    # The members told apart are those of the model under attack: with a model that knows the others
    # the answers turn round.
    assert attacked(attack, knows(outside), *groups)[:4] == (0, 0, 0, 0)


def test_constant_confidences_tell_nothing():
    # Each sample gets the same score: one rate for both groups, and (1 + a - a) / 2 = 0.5.
    blind, pool = knows([]), np.arange(60)
    attack = shadows(lambda ids, seed: blind, pool, np.zeros(60, int), n_shadows=3)
    result = attacked(attack, blind, labelled(range(20)), labelled(range(20, 50)))
    assert result[:4] == (0.5, 0, 0.5, 0)


def test_loss_threshold_by_hand():
    # True-class probabilities: members .9 .9 .4 .2, others .9 .1 .1 .1; threshold ln 2, that is,
    # probability 1/2. Called member: 2 of 4 and 1 of 4, so accuracy (1 + 1/2 - 1/4) / 2 = 5/8 and
    # precision (1/2) / (3/4) = 2/3.
    attack = LossThreshold(math.log(2))
    answers = [0.9, 0.9, 0.4, 0.2], [0.9, 0.1, 0.1, 0.1]
    inside, outside = (attack.score(first(p), np.zeros(4, int)) for p in answers)
    assert attack.score(first([0.5]), [0])[0] == 0.5  # on the threshold: not above
    # exp(loss - threshold) = (1 / 0.9) / 2 = 1 / 1.8
    assert inside[0] == pytest.approx(1 / (1 + 1 / 1.8))
    accuracy, precision, silent = membership_metrics(inside, outside)
    assert (accuracy, precision, silent) == (0.625, pytest.approx(2 / 3), False)


def test_precision_when_nothing_is_called_member():
    # a score of 0.5 is not above 0.5
    quiet, loud = [[0.2, 0.5], [0.2, 0.9]], [[0.1, 0.4], [0.1, 0.4]]
    accuracy, precision, silent = membership_metrics(quiet, loud)
    assert accuracy.tolist() == [0.5, 0.75] and precision.tolist() == [0.5, 1.0]
    assert silent.tolist() == [True, False]
    # something is called member, wrongly: 0, not the convention
    assert membership_metrics(loud, quiet)[1].tolist() == [0.5, 0.0]
    result = attacked(Score(), first, labelled([0.2] * 5), labelled([0.1] * 5))
    assert result[:5] == (0.5, 0, 0.5, 0, 1)


def test_losses_are_finite():
    assert losses(first([0.25, 0.0]), np.array([0, 0])).tolist() == [math.log(4), -math.log(1e-12)]
    assert losses(first([0.25]), np.array([1]))[0] == pytest.approx(math.log(4 / 3))


def test_features_by_hand():
    # probabilities in falling order | the true class's | its loss | which class
    got = features(np.array([[0.25, 0.5, 0.25], [0.125, 0.0, 0.875]]), np.array([1, 0]))
    one = [0.5, 0.25, 0.25, 0.5, math.log(2), 0, 1, 0]
    two = [0.875, 0.125, 0, 0.125, math.log(8), 1, 0, 0]
    assert got == pytest.approx(np.array([one, two]), abs=1e-15)


# references


@pytest.mark.parametrize("sizes", [(30, 30), (12, 50), (1, 7)])
def test_metrics_equal_scikit_learn(sizes):
    rng = np.random.default_rng(5)
    inside, outside = (rng.integers(0, 11, n) / 10 for n in sizes)  # with ties
    inside[0] = 0.9
    truth, score = np.repeat([1, 0], sizes), np.concatenate([inside, outside])
    weight = np.repeat(1 / np.array(sizes), sizes)  # both groups count equally
    accuracy, precision, _ = membership_metrics(inside, outside)
    assert accuracy == pytest.approx(metrics.balanced_accuracy_score(truth, score > 0.5), abs=1e-12)
    assert precision == pytest.approx(
        metrics.precision_score(truth, score > 0.5, sample_weight=weight), abs=1e-12
    )


def test_resampling_has_the_binomial_law():
    # 60 of 100 members and 30 of 100 others are called member. A set of n a side has accuracy (1 +
    # A/n - B/n) / 2 with binomial A, B: mean 0.65, variance (0.6 * 0.4 + 0.3 * 0.7) / (4 n).
    # Limits: 5 standard errors, false alarm below 1e-5.
    inside, outside = np.repeat([0.9, 0.1], [60, 40]), np.repeat([0.9, 0.1], [30, 70])
    n, repeats = 100, 4000
    result = attacked(Score(), first, labelled(inside), labelled(outside), 2, repeats=repeats)
    std = math.sqrt((0.6 * 0.4 + 0.3 * 0.7) / (4 * n))
    assert abs(result.accuracy - 0.65) < 5 * std / math.sqrt(repeats)
    assert abs(result.accuracy_std / std - 1) < 5 / math.sqrt(2 * repeats)


def test_shadows_get_disjoint_balanced_parts_and_seeds():
    pool, calls = np.arange(100, 150), []

    def train(ids, seed):
        calls.append((ids, seed))
        return knows(pool[ids])

    attack = shadows(train, pool, pool % 3, n_shadows=4, n_train=40)
    parts = [ids for ids, _ in calls]
    assert len({seed for _, seed in calls}) == len(set(map(tuple, parts))) == 4
    assert all(len(set(ids)) == 40 and ids.max() < 50 for ids in parts)
    assert all((np.diff(ids) > 0).all() for ids in parts)
    # 10 unseen samples a shadow, hence 10 trained ones: with equal numbers the prior is 1/2, which
    # an uninformed fit returns.
    blind = shadows(lambda ids, seed: knows([]), pool, np.zeros(50, int), n_train=40)
    assert blind.score(knows([])(np.arange(3)), np.zeros(3, int)) == pytest.approx(0.5, abs=1e-9)
    again = shadows(train, pool, pool % 3, n_shadows=4, n_train=40)
    answers, y = knows([0, 1])(np.arange(6)), np.arange(6) % 3
    assert (again.score(answers, y) == attack.score(answers, y)).all()  # same seed, same bits


def test_predictor_is_the_engines_model():
    task = Task(models.create("mlp", input_shape=(5,), n_classes=4, hidden=(6,)))
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(23, 5)), rng.integers(0, 4, 23)
    params = task.init(3)
    probabilities = predictor(task, params, batch_size=10)(x)
    assert probabilities.shape == (23, 4) and probabilities.dtype == np.float64
    want = evaluate(task, params, x.astype(np.float32), y)
    assert losses(probabilities, y).mean() == pytest.approx(want.loss, rel=1e-5)
    assert (probabilities.argmax(1) == y).mean() == want.accuracy
    assert predictor(task, params)(torch.from_numpy(x)) == pytest.approx(probabilities, rel=1e-6)


# limiting cases


@pytest.fixture(scope="module")
def overfitted():
    """Federated MLPs (4 clients, FedAvg) on 200 digits, 30 % of the labels drawn at random:
    memorised, not learned.
    """
    x, y = load_digits(return_X_y=True)
    rng = np.random.default_rng(0)
    x = (x / 16).astype(np.float32)
    y = np.where(rng.random(len(y)) < 0.3, rng.integers(0, 10, len(y)), y)
    task = Task(models.create("mlp", input_shape=(64,), n_classes=10, hidden=(64,)))
    target, unseen, strangers, pool = np.split(rng.permutation(len(y)), [200, 400, 600])

    def train(rows, seed):
        params = task.init(seed)
        parts = np.array_split(np.random.default_rng(seed).permutation(rows), 4)
        clients = [[(x[part], y[part])] * 10 for part in parts]
        for _ in range(60):
            params = local_sgd(task, params, clients, 0.5, threads=1).mean(0)
        return predictor(task, params)

    own = dict(n_train=200, n_shadows=4, rng=rng)
    attack = shadow_attack(lambda ids, seed: train(pool[ids], seed), x[pool], y[pool], **own)
    return attack, train(target, 99), *((x[rows], y[rows]) for rows in (target, unseen, strangers))


def test_an_overfitted_model_gives_its_members_away(overfitted):
    attack, predict, members, unseen, _ = overfitted
    result = attacked(attack, predict, members, unseen, 0)
    assert result.accuracy - 2 * result.accuracy_std > 0.58
    assert result.precision - 2 * result.precision_std > 0.55
    # the reference without shadows sees it too, and both see what the generalisation gap says
    simple = LossThreshold(losses(predict(members[0]), members[1]).mean())
    reference = attacked(simple, predict, members, unseen, 0)
    assert reference.accuracy - 2 * reference.accuracy_std > 0.55
    assert losses(predict(unseen[0]), unseen[1]).mean() > 3 * simple.threshold


def test_samples_the_model_never_saw_are_safe(overfitted):
    # Both groups unseen, so that scores have one law.
    attack, predict, _, unseen, strangers = overfitted
    result = attacked(attack, predict, strangers, unseen, 0)
    assert abs(result.accuracy - 0.5) < 3 * result.accuracy_std


# bad input


def answering(*row):
    return {"train_shadow": lambda ids, seed: lambda x: np.full((len(x), len(row)), row)}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"n_train": 30}, "n_train=30"),
        ({"pool_y": np.zeros(29, int)}, r"y has shape \(29,\)"),
        ({"pool_y": np.zeros(30)}, "float64"),
        ({"pool_y": np.full(30, 3)}, "holds 3"),
        ({"pool_x": [1], "pool_y": [0]}, "the pool has 1 sample"),
        (answering(0.4, 0.4), "probabilities must sum to 1"),
        (answering(np.nan, np.nan), "probabilities holds nan"),
        ({"train_shadow": lambda ids, seed: lambda x: np.full((3, 4), 0.25)}, r"be \(3,\)"),
        ({"train_shadow": lambda ids, seed: knows(ids, n_classes=3 + seed % 5)}, "the same number"),
    ],
)
def test_bad_shadows(change, message):
    good = dict(train_shadow=lambda ids, seed: knows(ids), rng=np.random.default_rng(0))
    good |= dict(pool_x=np.arange(30), pool_y=np.arange(30) % 3)
    with pytest.raises(ValueError, match=message):
        shadow_attack(**good | change)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"members": labelled([])}, "members: y has shape"),
        ({"members": (np.ones(3), [0, 1, 2])}, "y holds 2"),
        ({"members": (torch.ones(3, device="meta"), [0, 1, 0])}, "members: x=.* array of numbers"),
        (
            {"others": (np.ones(3), torch.ones(3).to_sparse())},
            "non_members: y has shape .* of integers",
        ),
        ({"members": (np.array([1, 0, "a"], object), [0, 1, 0])}, "members: x=.* of numbers"),
        ({"attack": type("Loud", (), {"score": lambda self, p, y: p[:, 0] + 1})()}, "scores holds"),
        ({"attack": type("Flat", (), {"score": lambda self, p, y: p})()}, "scores has shape"),
    ],
)
def test_bad_evaluation(change, message):
    groups = dict(members=labelled([0.1, 0.9]), others=labelled([0.4]))
    with pytest.raises(ValueError, match=message):
        attacked(**dict(attack=Score(), predict=first) | groups | change)


@pytest.mark.parametrize("kind", [">f8", np.longdouble, ">f4", "f2"])
def test_byte_orders_and_long_doubles_are_one_answer(kind):
    """Of samples whose numbers all these types hold."""
    x, rng = np.array([0.125, 0.875, 0.5, 0.25]), np.random.default_rng

    def found(members, others):
        return evaluate_attack(Score(), first, members, others, rng=rng(0))

    labels = np.zeros(4, ">i2")
    assert found(labelled(x), labelled(x[:2])) == found(
        (x.astype(kind), labels), (x[:2].astype(kind), labels[:2])
    )
    task = Task(models.create("linear", input_shape=(4,), n_classes=2))
    predict = predictor(task, task.init(0))
    np.testing.assert_array_equal(predict(x[None].astype(kind)), predict(x[None]))


def test_bad_scores_and_classes():
    pool = np.arange(30)
    attack = shadows(lambda ids, seed: knows(ids), pool, pool % 2)
    with pytest.raises(ValueError, match=r"shape \(1, 2\); it must be \(1, 3\)"):
        attack.score(first([0.5]), [0])
    for inside, outside in (([], [0.1]), ([[0.1]], [0.1]), (0.1, 0.1)):
        with pytest.raises(ValueError, match="members has shape"):
            membership_metrics(inside, outside)
