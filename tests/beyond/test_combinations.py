"""What the combinations gain: stores, weights, and the declared questions."""

import numpy as np
import pandas as pd
import pytest

from companion.claims import BEYOND as QUESTIONS
from companion.judging.claims import Part
from companion.judging.questions import Question
from companion.judging.rules import Holds
from companion.notebooks import n92
from sflkit.datastreams import training as streams_training
from sflkit.datastreams.config import DataStreamsConfig
from sflkit.datastreams.psi import minimize_psi
from sflkit.osafl.clients import Samples
from sflkit.osafl.config import OSAFLConfig
from sflkit.sfl.caches import DRSR, FIFO

OSAFL = OSAFLConfig(
    n_clients=4, rounds=5, minibatches=4, capacity_low=30, capacity_high=40, test_size=100
)


def test_long_term_shares_are_stationary():
    shares = n92.long_term_shares(OSAFL)
    w = n92.world(OSAFL)
    law = n92.video.request_matrix(w.catalogue, w.users, top_k=OSAFL.top_k)
    assert shares.shape == law.shape[:2]
    np.testing.assert_allclose(shares.sum(axis=1), 1)
    np.testing.assert_allclose(np.einsum("uf,ufg->ug", shares, law), shares, atol=1e-9)


def test_discrepancy_by_direct_computation():
    found = n92.discrepancy(OSAFL, "fifo")
    assert found["round"].tolist() == [1, 2, 3, 4, 5]
    samples, goal = Samples(OSAFL, "cpu"), n92.long_term_shares(OSAFL)
    counts = samples.label_counts(3)
    expected = np.mean([((c / c.sum() - g) ** 2).sum() for c, g in zip(counts, goal, strict=True)])
    assert found["discrepancy"][2] == pytest.approx(expected)


def test_memories_hold_five_rounds():
    for build, rule in ((n92.fifo, FIFO), (n92.drsr, DRSR)):
        cache = build(3, 4)
        assert isinstance(cache, rule) and (cache.capacity, cache.batch_size) == (20, 4)


def test_the_weights_are_the_minimisers_of_psi():
    """Ten fresh clients of equal size with 90 % of the samples, against the general minimiser.

    Caches of five rounds make c1 / sqrt(5) of c1, and the ratio sqrt(5) times as large.
    """
    arms = n92.weights(0.1, 10)
    n, historical = np.array([0.1, *[0.09] * 10]), np.arange(11) < 1
    for arm, ratio in ((arms.psi, 0.15), (arms.cached, 0.15 * 5**0.5)):
        least = minimize_psi(n, historical, 1.0, ratio).p_hist
        assert float(arm.partition("=")[2]) == pytest.approx(least, abs=5e-4)
    assert arms.cached != arms.psi and set(arms.arms) >= {"fresh", "historical", arms.psi}


def test_a_cache_of_one_round_is_none():
    """The limiting case: a FIFO cache of one round holds what the paper's clients hold.

    The 160 fresh samples arrive in 8 rounds of 20 each, so that every round fills the cache.
    """
    config = DataStreamsConfig(rounds=8, evaluate_every=8, local_steps=1)
    plain, cached = (streams_training.run(config, cache=m) for m in (None, FIFO))
    pd.testing.assert_frame_equal(plain, cached, check_exact=True)


def test_evidence_by_hand():
    rows = [
        dict(seed=s, cache=c, round=r, discrepancy=d, mean_score=m, accuracy=a)
        for s in (0, 1)
        for c, d, m, shift in (("fifo", 0.3, 0.5, 0.0), ("drsr", 0.1, 0.6, 0.1))
        for r, a in ((1, 0.1), (2, np.nan), (3, 0.2), (4, 0.4 + 0.1 * s + shift))
    ]
    found = n92.store_evidence(pd.DataFrame(rows))
    # round 4 alone lies in the last quarter: 0.5 and 0.6 with DRSR, 0.4 and 0.5 with FIFO
    np.testing.assert_allclose(found["accuracy"], ([0.5, 0.6], [0.4, 0.5]))
    np.testing.assert_allclose(found["nearer"], ([0.3, 0.3], [0.1, 0.1]))
    np.testing.assert_allclose(found["scores"], ([0.6, 0.6], [0.5, 0.5]))
    arms = n92.Weights(("fresh", "p_hist=0.2", "p_hist=0.3"), "p_hist=0.3", "p_hist=0.2")
    scores = {"none": (0.5, 0.6, 0.7), "fifo": (0.6, 0.7, 0.7), "drsr": (0.7, 0.8, 0.75)}
    rows = [
        dict(seed=s, memory=m, arm=arm, round=9, accuracy=a + s)
        for s in (0, 1)
        for m, each in scores.items()
        for arm, a in zip(arms.arms, each, strict=True)
    ]
    found = n92.weight_evidence(pd.DataFrame(rows), arms)
    np.testing.assert_allclose(found["alone"], ([0.7, 1.7], [0.5, 1.5]))
    np.testing.assert_allclose(found["less_needed"], ([0.2, 0.2], [0.05, 0.05]))
    np.testing.assert_allclose(found["reweighted"], ([0.8, 1.8], [0.75, 1.75]))
    np.testing.assert_allclose(found["rule"], ([0.8, 1.8], [0.7, 1.7]))


def test_questions_are_ours_and_every_part_is_judged():
    assert len(QUESTIONS) == 2
    for name, question in QUESTIONS.items():
        assert question.name == name
        assert all(part.role == "beyond" for part in question.parts)
        with pytest.raises(ValueError, match="evidence is for"):
            question.judge({})
    paper = Part("key", "A paper says so", Holds())
    with pytest.raises(ValueError, match="role='beyond'"):
        Question("name", "text", (paper,), "nothing")
    with pytest.raises(ValueError, match="120 words"):
        Question("name", "word " * 121, QUESTIONS["OSAFL on DRSR caches"].parts, "nothing")
    own = Question("name", "text", (Part("key", "It holds", Holds(), role="beyond"),), "no")
    assert "It holds: yes" in str(own.judge({"key": True}))
