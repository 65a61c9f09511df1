"""Membership inference by shadow models: was this sample in the training set of that model?

Sources: FATS, Sections 6.1.3 and 6.2.5, Table 1, which attacks the unlearned model by the method of
Shokri, Stronati, Song and Shmatikov 2017 (Membership inference attacks against machine learning
models, Sections V and VI); the threshold on the loss is Yeom, Giacomelli, Fredrikson and Jha 2018
(Privacy risk in machine learning, Adversary 1).

    attack = shadow_attack(train_shadow, pool_x, pool_y, rng=rng)  # (ids, seed) -> predict
    forgotten, unseen = (x_forgotten, y_forgotten), (x_unseen, y_unseen)
    before = evaluate_attack(attack, predictor(task, learned), forgotten, unseen, rng=rng)
    after = evaluate_attack(attack, predictor(task, unlearned), forgotten, unseen, rng=rng)

An attack near 50 % on the unlearned model says something only if the same attack beats 50 % on the
model before forgetting. Nobody's samples may serve twice: pool, members and non-members are
disjoint, and no sample of the pool trained the target.

| code          | symbol | shape  | meaning                                                      |
|---------------|--------|--------|--------------------------------------------------------------|
| predict       | f      |        | a model as seen from outside: inputs (n, ...) -> class       |
|               |        |        | probabilities (n, C)                                         |
| probabilities | f(x)   | (n, C) | rows on the simplex                                          |
| losses        | l      | (n,)   | -ln of the true class's probability, nats; at most           |
|               |        |        | -ln 1e-12 = 27.6                                             |
| score         |        | (n,)   | the attack's belief in [0, 1] that a sample was trained on;  |
|               |        |        | above 0.5: "member"                                          |
| n             |        |        | members in an evaluation set, which holds as many            |
|               |        |        | non-members: chance is 50 %                                  |
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from sflkit import checks
from sflkit.config import Count, NotNegative, checked, settings
from sflkit.federated import Task
from sflkit.federated.arrays import array_of, tensor_of
from sflkit.federated.workers import torch_settings
from sflkit.machine import thread_count

if TYPE_CHECKING:
    from sklearn.base import ClassifierMixin

# A model as seen from outside: inputs (n, ...) -> class probabilities (n, C).
Predict = Callable[[np.ndarray], np.ndarray]
_SMALLEST = 1e-12  # a probability below counts as this, so that a loss stays finite
_SIMPLEX_TOL = 1e-4  # room for float32 rows


class MembershipAttack(Protocol):
    """An attack of your own: anything with this method."""

    def score(self, probabilities: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Return a belief in [0, 1] per sample, (n,); above 0.5 the sample is called a member."""
        ...


@dataclass(frozen=True, eq=False)
class ShadowAttack:
    """The attack classifier that `shadow_attack` fitted, one for all classes.

    Parameters
    ----------
    classifier : scikit-learn classifier
    n_classes : int
        C, the number of classes that the shadows answered with.
    """

    classifier: ClassifierMixin
    n_classes: int

    def score(self, probabilities: ArrayLike | Tensor, y: ArrayLike) -> np.ndarray:
        """Return each sample's probability of membership, (n,).

        Raises
        ------
        ValueError
            On rows off the simplex, labels out of range, or another number of classes.
        """
        probabilities, y = _checked(probabilities, y)
        checks.shape("probabilities", probabilities, (len(y), self.n_classes))
        return self.classifier.predict_proba(features(probabilities, y))[:, 1]


@settings
class LossThreshold:
    """Yeom's attack: a sample is a member where its loss is below a threshold.

    It needs no shadows, and so is the simple reference beside `ShadowAttack`.

    Parameters
    ----------
    threshold : float
        >= 0, in nats; Yeom takes the target's mean training loss.

    Raises
    ------
    ValueError
        If the threshold is out of range.
    """

    threshold: NotNegative

    def score(self, probabilities: ArrayLike | Tensor, y: ArrayLike) -> np.ndarray:
        """Return 1 / (1 + exp(loss - threshold)), (n,).

        Raises
        ------
        ValueError
            As `losses`.
        """
        return 1 / (1 + np.exp(losses(probabilities, y) - self.threshold))


class MembershipResult(NamedTuple):
    """How well an attack tells members from non-members; shares in [0, 1], chance 0.5.

    Attributes
    ----------
    accuracy, accuracy_std, precision, precision_std : float
        Mean and standard deviation over the evaluation sets: share of right answers; share of
        members among samples called member.
    silent : float
        Share of evaluation sets in which nothing was called member, whose precision is then 0.5.
    n : int
        Members per set.
    """

    accuracy: float
    accuracy_std: float
    precision: float
    precision_std: float
    silent: float
    n: int


class Metrics(NamedTuple):
    """Accuracy and precision of evaluation sets, and whether nothing was called member."""

    accuracy: np.ndarray
    precision: np.ndarray
    silent: np.ndarray


@checked
def predictor(task: Task, params: ArrayLike | Tensor, *, batch_size: Count = 500) -> Predict:
    """Return the model of flat parameters (P,) as a function from inputs to probabilities.

    Inputs are (n, ...), softmax probabilities float64 (n, C). The model runs where `params` lie.

    Parameters
    ----------
    task : Task
    params : tensor or array (P,)
    batch_size : int
        Samples that go through the model at once, >= 1.

    Raises
    ------
    ValueError
        If `params` does not fit the task, or the batch size is below 1.
    """
    model = task.build(params).eval()
    device = next(model.parameters()).device

    def predict(x: ArrayLike | Tensor) -> np.ndarray:
        x = tensor_of(x, device)
        x = x.float() if x.is_floating_point() else x
        with torch.inference_mode(), torch_settings(device, thread_count()):
            parts = [torch.softmax(model(part).double(), 1).cpu() for part in x.split(batch_size)]
        return torch.cat(parts).numpy()

    return predict


def losses(probabilities: ArrayLike | Tensor, y: ArrayLike) -> np.ndarray:
    """Return -ln of the probability of the true class, (n,) in nats, at most 27.6.

    Raises
    ------
    ValueError
        Unless `probabilities` is (n, C) with rows on the simplex and `y` holds n labels in [0, C).
    """
    probabilities, y = _checked(probabilities, y)
    return -np.log(np.maximum(probabilities[np.arange(len(y)), y], _SMALLEST))


def features(probabilities: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return what an attack classifier sees of each sample, one row per sample.

    The columns are the probabilities in falling order (C), that of the true class, the loss, and
    which class it is (C indicators). FATS does not say what its attack saw.
    """
    return np.hstack(
        [
            -np.sort(-probabilities, axis=1),
            probabilities[np.arange(len(y)), y][:, None],
            losses(probabilities, y)[:, None],
            np.eye(probabilities.shape[1])[y],
        ]
    )


@checked
def shadow_attack(
    train_shadow: Callable[[np.ndarray, int], Predict],
    pool_x: ArrayLike | Tensor,
    pool_y: ArrayLike | Tensor,
    *,
    n_shadows: Count = 4,
    n_train: int | None = None,
    rng: np.random.Generator,
) -> ShadowAttack:
    """Train shadow models, and learn from them how answers on trained and unseen samples differ.

    Each shadow is trained on a random part of a pool. Source: Shokri et al., Section V. Every
    shadow gives equally many records of both kinds; `features` says what a record holds. The attack
    is a logistic regression on standardised features, one for all classes, where Shokri has one
    for each.

    Parameters
    ----------
    train_shadow : (ids, seed) -> predict
        Trains a model the way the target was (same clients, rounds and rates) on rows `ids` (sorted
        int64) of the pool; `seed` is an int in [0, 2^31).
    pool_x, pool_y : (n_pool, ...), int (n_pool,)
        Samples from the target's law that the target did not see.
    n_shadows : int
        >= 1. Shokri takes 10 to 100; a handful will do for one attack classifier in all.
    n_train : int, optional
        Samples that a shadow trains on, in [1, n_pool - 1]; half the pool unless given. Best the
        target's own number.
    rng : numpy.random.Generator

    Raises
    ------
    ValueError
        An argument out of range, or shadows whose answers are no probabilities or that differ in
        the number of classes.
    """
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    pool_x, pool_y = _samples("pool", (pool_x, pool_y))
    n_pool = len(pool_y)
    if n_pool < 2:
        raise ValueError(
            f"the pool has {n_pool} sample; it must have at least 2, one to train on and one to "
            "leave out"
        )
    n_train = n_pool // 2 if n_train is None else checks.integer("n_train", n_train, 1, n_pool - 1)
    shadows = [
        _shadow_records(train_shadow, pool_x, pool_y, n_train, rng) for _ in range(n_shadows)
    ]
    widths = {answers.shape[1] for answers, _, _ in shadows}
    if len(widths) > 1:
        raise ValueError(
            f"the shadows answer with {sorted(widths)} classes; all must have the same number"
        )
    answers, labels, member = map(np.concatenate, zip(*shadows))
    classifier = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))
    classifier.fit(features(answers, labels), member)
    return ShadowAttack(classifier, widths.pop())


def membership_metrics(members: ArrayLike, non_members: ArrayLike) -> Metrics:
    """Return accuracy, precision and "nothing called member" from scores.

    The groups count equally whatever their sizes. Source: FATS, Section 6.1.3. With the share a of
    members and b of non-members above 0.5: accuracy (1 + a - b) / 2, precision a / (a + b). The
    paper leaves precision open where a = b = 0; we take that of a blind guess, 0.5, since the count
    0 makes an attack that learns nothing look worse than chance. (Its FR2 on FEMNIST has accuracy
    50.00 +- 0.00 and precision 33.2 +- 42.1, which in balanced sets takes hardly any or no sample
    called member.)

    Parameters
    ----------
    members, non_members : (..., n_in) and (..., n_out)
        Scores in [0, 1]; leading axes are evaluation sets.

    Returns
    -------
    Metrics
        Arrays with the leading axes' shape.

    Raises
    ------
    ValueError
        On a score outside [0, 1], an empty group, or different leading axes.
    """
    inside = checks.array("members", members, low=0.0, high=1.0)
    outside = checks.array("non_members", non_members, low=0.0, high=1.0)
    same = inside.ndim and inside.shape[:-1] == outside.shape[:-1]
    if not same or not inside.size or not outside.size:
        raise ValueError(
            f"members has shape {inside.shape} and non_members {outside.shape}; they must be "
            "(..., n_in) and (..., n_out) with at least 1 score each"
        )
    a = (inside > 0.5).mean(-1)
    b = (outside > 0.5).mean(-1)
    silent = a + b == 0
    precision = np.where(silent, 0.5, a / np.where(silent, 1.0, a + b))
    return Metrics((1 + a - b) / 2, precision, silent)


@checked
def evaluate_attack(
    attack: MembershipAttack,
    predict: Predict,
    members: tuple[ArrayLike | Tensor, ArrayLike | Tensor],
    non_members: tuple[ArrayLike | Tensor, ArrayLike | Tensor],
    *,
    repeats: Count = 100,
    rng: np.random.Generator,
) -> MembershipResult:
    """Attack one model on balanced evaluation sets, drawn with replacement from both groups.

    Source: FATS, Section 6.1.3, which performs the attack 100 times and reports mean and standard
    deviation without saying what is repeated. Here one model meets one attack, and the sets are
    bootstrap resamples, as large as the smaller group: the deviation tells how far the choice of
    samples moves the figure, not another training run; for that repeat with other seeds.

    Parameters
    ----------
    attack : ShadowAttack, LossThreshold, or your own MembershipAttack
    predict : inputs -> probabilities
        The model under attack.
    members, non_members : (x, y) each
        Samples of the original training set (the forgotten ones, where forgetting is judged), and
        samples never trained on.
    repeats : int
        Evaluation sets, >= 1.
    rng : numpy.random.Generator

    Raises
    ------
    ValueError
        On an argument out of range, an empty group, answers that are no probabilities, or scores
        outside [0, 1].
    """
    groups = _samples("members", members), _samples("non_members", non_members)
    shapes = [tuple(x.shape[1:]) for x, _ in groups]
    if shapes[0] != shapes[1]:
        raise ValueError(
            f"members has samples of shape {shapes[0]} and non_members of {shapes[1]}; both must "
            "be what predict takes"
        )
    scores = [
        checks.array("scores", attack.score(*_checked(predict(x), y)), ndim=1, low=0, high=1)
        for x, y in groups
    ]
    n = min(map(len, scores))
    sets = [s[rng.integers(len(s), size=(repeats, n))] for s in scores]
    found = membership_metrics(*sets)
    spread = min(1, repeats - 1)  # of one set there is none
    return MembershipResult(
        accuracy=float(found.accuracy.mean()),
        accuracy_std=float(found.accuracy.std(ddof=spread)),
        precision=float(found.precision.mean()),
        precision_std=float(found.precision.std(ddof=spread)),
        silent=float(found.silent.mean()),
        n=n,
    )


def _shadow_records(
    train_shadow: Callable[[np.ndarray, int], Predict],
    x: np.ndarray,
    y: np.ndarray,
    n_train: int,
    rng: np.random.Generator,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Train one shadow on a part of the pool; return its answers, as many of both kinds, their
    labels, and who was a member."""
    # Both parts are in random order, so that their first n rows are a random choice.
    order = rng.permutation(len(y))
    predict = train_shadow(np.sort(order[:n_train]), int(rng.integers(2**31)))
    n = min(n_train, len(y) - n_train)
    rows = np.concatenate([order[:n], order[n_train : n_train + n]])
    return *_checked(predict(x[rows]), y[rows]), np.repeat([True, False], n)


def _samples(name: str, pair: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return (x, y) as arrays of one length >= 1, y as int64 labels >= 0."""
    try:
        x, y = (array_of(values) for values in pair)
    except (TypeError, ValueError):
        raise ValueError(
            f"{name} of type {type(pair).__name__} must be a pair of arrays (x, y)"
        ) from None
    numbers = checks.array(f"{name}: x", x)
    y = checks.labels(f"{name}: y", y).astype(np.int64)
    checks.shape(f"{name}: y", y, x.shape[:1], like="x")
    return numbers if x.dtype == object else x, y


def _checked(probabilities: Any, y: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    """Return probabilities (n, C) and labels (n,) that fit each other."""
    probabilities = checks.simplex(
        "probabilities", array_of(probabilities), ndim=2, tol=_SIMPLEX_TOL
    )
    y = checks.indices("y", array_of(y), probabilities.shape[1])
    return probabilities, checks.shape("y", y, probabilities.shape[:1], like="probabilities")
