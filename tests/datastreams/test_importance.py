"""Weights of samples: what they mean for rounds, clients and the whole training, by hand."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sflkit.datastreams.importance import (
    aggregation_weights,
    client_effective_samples,
    effective_samples,
    memory_importance,
    relative_importance,
    round_weights,
    sample_weights,
)
from sflkit.datastreams.strategies import client_importance
from tests.datastreams.helpers import (
    TWO,
)


def stream_weights(rounds, n_hist, n_fresh, weight_hist, weight_fresh):
    """One historical client that keeps n_hist samples and one fresh client that gets n_fresh /
    rounds new ones a round.
    """
    batch = n_fresh // rounds
    weights = np.zeros((rounds, 2, max(n_hist, n_fresh)))
    weights[:, 0, :n_hist] = weight_hist
    for t in range(rounds):
        weights[t, 1, t * batch : (t + 1) * batch] = weight_fresh
    return weights


def test_weights_by_hand():
    # round 1: client 0 holds samples 0, 1 with 1 and 3, client 1 holds sample 0 with 4; round 2:
    # client 1 only, sample 1 with 2
    weights = np.array([[[1, 3], [4, 0]], [[0, 0], [0, 2]]])
    np.testing.assert_allclose(aggregation_weights(weights), [[0.5, 0.5], [0, 1]])
    np.testing.assert_allclose(round_weights(weights), [0.8, 0.2])
    np.testing.assert_allclose(relative_importance(weights), [[0.1, 0.3], [0.4, 0.2]])
    # (0.1 + 0.3 + 0.4 + 0.2)^2 / (0.01 + 0.09 + 0.16 + 0.04) = 1 / 0.3
    assert effective_samples(relative_importance(weights)) == pytest.approx(10 / 3)


@given(st.integers(0, 2**32 - 1))
@settings(max_examples=15)
def test_importance_is_the_mean_of_the_aggregation_weights(seed):
    # p_m = sum_t q^(t) p_m^(t), the remark below Theorem 4.1, here against exact fractions
    rng = np.random.default_rng(seed)
    counts = rng.integers(0, 5, (3, 2, 4)) + np.array([1, 0, 0, 0])
    total = int(counts.sum())
    exact = [[Fraction(int(counts[:, m, i].sum()), total) for i in range(4)] for m in range(2)]
    np.testing.assert_allclose(relative_importance(counts), np.array(exact, dtype=float))
    np.testing.assert_allclose(
        round_weights(counts) @ aggregation_weights(counts), relative_importance(counts).sum(axis=1)
    )
    assert 1 <= effective_samples(counts) <= counts.size


def test_equal_weights_do_not_give_equal_importance():
    # ERRATA 27: T = 10, N = 20 + 20, all lambda = 1: a round sees 20 historical and 2 fresh
    # samples, p_hist = 20/22, not 1/2
    ones = stream_weights(10, 20, 20, 1, 1)
    assert relative_importance(ones).sum(axis=1)[0] == pytest.approx(20 / 22)
    assert 20 / 22 == pytest.approx(0.909, abs=1e-3)
    # lambda_m = p_m / memory: 0.5/20 and 0.5/2, a factor T = 10; every sample then has importance
    # 1/40
    weights = sample_weights([0.5, 0.5], [20, 2])
    assert weights[1] / weights[0] == pytest.approx(10)
    uniform = stream_weights(10, 20, 20, *weights)
    np.testing.assert_allclose(relative_importance(uniform), 1 / 40)
    np.testing.assert_allclose(aggregation_weights(uniform), 0.5)
    np.testing.assert_allclose(round_weights(uniform), 0.1)
    assert effective_samples(relative_importance(uniform)) == pytest.approx(40)


@pytest.mark.parametrize("arm", ["uniform", "historical", "fresh", "ours", "p_hist=0.3"])
def test_sample_weights_give_the_importance_asked_for(arm):
    p = client_importance(arm, [20, 30], TWO, c_ratio=1.2)
    weights = stream_weights(10, 20, 30, *sample_weights(p, [20, 3]))
    np.testing.assert_allclose(relative_importance(weights).sum(axis=1), p, atol=1e-15)
    np.testing.assert_allclose(aggregation_weights(weights), np.tile(p, (10, 1)), atol=1e-15)
    assert client_effective_samples(p, [20, 30]) == pytest.approx(
        effective_samples(relative_importance(weights))
    )


def test_effective_samples_of_equal_and_unequal_weights():
    assert effective_samples(np.full((3, 4), 7.0)) == pytest.approx(12)
    assert effective_samples([0, 0, 5]) == 1
    assert effective_samples([1e-200, 1e-200]) == pytest.approx(2)
    # ERRATA 29: equal weights within each client: 1/4 + 3 * (1/6)^2 = 1/3
    assert client_effective_samples([0.5, 0.5], [1, 3]) == pytest.approx(3)
    assert client_effective_samples([0.25, 0.75], [1, 3]) == pytest.approx(4)


def test_weights_by_memory():
    """10 old samples and 2 x 95 new ones over T = 19 rounds: 5 and 5 in memory, so p_hist = 1/2.

    With f = 10/200 that is f / (f + (1 - f) / T) = 0.05 / (0.05 + 0.05).
    """
    n, historical = [10, 95, 95], [True, False, False]
    np.testing.assert_allclose(memory_importance(n, historical, 19), [0.5, 0.25, 0.25])
    np.testing.assert_allclose(memory_importance(n, historical, 1), np.array(n) / 200)  # Uniform
    # 5 % of old data have 0.76 at T = 60 and 0.977 at T = 800
    few = [memory_importance([5, 95], [True, False], rounds)[0] for rounds in (60, 800)]
    np.testing.assert_allclose(few, [0.7595, 0.9768], atol=5e-5)
    with pytest.raises(ValueError, match="rounds"):
        memory_importance(n, historical, 0)
