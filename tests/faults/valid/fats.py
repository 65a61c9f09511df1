"""Valid calls of the unlearning paper's package."""

from __future__ import annotations

import numpy as np
import torch
from torch import nn

from sflkit.fats import (
    attacks,
    bounds,
    config,
    enumeration,
    expected_time,
    first_uses,
    forgetting,
    history,
    learning,
    methods,
    sgd,
    stability,
)
from sflkit.fats.state import State
from sflkit.federated import Task

sizes = dict(
    n_clients=4, samples_per_client=6, clients_per_round=2, batch_size=2, local_steps=2, rounds=3
)
fats = dict(
    loss_gap=1.0,
    smoothness=1.0,
    grad_var=1.0,
    heterogeneity=1.0,
    n_clients=10,
    samples_per_client=100.0,
    steps=50,
    rho_s=0.5,
    rho_c=0.5,
)
TINY = sizes | dict(n_clients=2, samples_per_client=2, clients_per_round=1, batch_size=1)
TINY |= dict(local_steps=1, rounds=1)
PROBABILITIES, Y = (
    np.array([[0.9, 0.1], [0.3, 0.7], [0.6, 0.4], [0.2, 0.8]]),
    np.array([0, 1, 1, 0]),
)


def rng() -> np.random.Generator:
    """Return a generator of its own."""
    return np.random.default_rng(0)


def drawn() -> history.History:
    """Return a history of these sizes."""
    return history.draw_history(**sizes, rng=rng())


def task() -> Task:
    """Return a model of 3 features and 2 classes, 8 parameters."""
    return Task(nn.Linear(3, 2))


def clients() -> list:
    """Return the data of four clients."""
    draw = rng()
    return [(draw.standard_normal((6, 3)).astype(np.float32), draw.integers(2, size=6))] * 4


def learned() -> State:
    """Return what has been learned."""
    return learning.learn(task(), clients(), drawn(), 0.3, start=np.zeros(8, np.float32))


CALLS = {
    "draw_history": lambda: (history.draw_history, sizes | dict(rng=rng())),
    "History.of": lambda: (
        history.History.of,
        dict(
            clients=np.array([[0, 1]]),
            batches=np.array([[[[0, 1]], [[1, 2]]]]),
            samples_per_client=np.array([3, 3]),
        ),
    ),
    "first_uses": lambda: (
        first_uses.first_uses,
        sizes | dict(level="client", n_requests=2, runs=2, rng=rng(), streaming=True),
    ),
    "stability": lambda: (stability.stability, dict(sizes)),
    "fats lemma4": lambda: (bounds.lemma4, fats | dict(local_steps=5, rate=0.001)),
    "theorem5": lambda: (bounds.theorem5, fats | dict(local_steps=5)),
    "theorem7": lambda: (bounds.theorem7, dict(rho=0.1, requests=2, training_time=1.0)),
    "corollary6": lambda: (bounds.corollary6, fats | dict(alpha=0.5)),
    "plan": lambda: (
        stability.plan,
        dict(rho_s=0.5, rho_c=0.8, n_clients=10, samples_per_client=60, local_steps=2, rounds=3),
    ),
    "sample_time": lambda: (expected_time.sample_time, dict(sizes)),
    "rule_cost": lambda: (expected_time.rule_cost, {"rule": "claim1", **sizes}),
    "first_participation": lambda: (
        expected_time.first_participation,
        dict(n_clients=4, clients_per_round=2, local_steps=2, rounds=3),
    ),
    "client_time": lambda: (
        expected_time.client_time,
        dict(
            n_clients=4, clients_per_round=2, local_steps=2, rounds=3, requests=2, one_by_one=True
        ),
    ),
    "rule_of_thumb": lambda: (expected_time.rule_of_thumb, dict(rho=0.3)),
    "draw_fedavg": lambda: (methods.draw_fedavg, sizes | dict(rng=rng())),
    "FRS.repaired": lambda: (
        methods.FRS().repaired,
        dict(
            history=forgetting.forget_client(
                methods.draw_fedavg(**sizes, rng=rng()), 0, rng()
            ).history,
            rng=rng(),
        ),
    ),
    "Fisher": lambda: (sgd.Fisher, dict(rate=0.001, momentum=0.9, decay=0.999, damping=0.01)),
    "forget_sample": lambda: (
        forgetting.forget_sample,
        dict(history=drawn(), client=1, sample=2, rng=rng(), rule="exact", steps_done=4),
    ),
    "forget_client": lambda: (
        forgetting.forget_client,
        dict(history=drawn(), client=1, rng=rng(), steps_done=4),
    ),
    "printed_rule_distance": lambda: (
        enumeration.printed_rule_distance,
        sizes | dict(rng=rng(), repeats=20),
    ),
    "losses": lambda: (attacks.losses, dict(probabilities=PROBABILITIES, y=Y)),
    "LossThreshold": lambda: (attacks.LossThreshold, dict(threshold=0.5)),
    "LossThreshold.score": lambda: (
        attacks.LossThreshold(0.5).score,
        dict(probabilities=PROBABILITIES, y=Y),
    ),
    "membership_metrics": lambda: (
        attacks.membership_metrics,
        dict(members=np.array([0.9, 0.2]), non_members=np.array([0.1, 0.4])),
    ),
    "learn": lambda: (
        lambda **options: learning.learn(task(), clients(), **options),
        dict(
            history=drawn(),
            rate=0.3,
            start=np.zeros(8, np.float32),
            method="fats",
            every=1,
            rounds=3,
        ),
    ),
    "learn of clients": lambda: (
        lambda **client: learning.learn(
            task(),
            [(client["x"], client["y"]), *clients()[1:]],
            drawn(),
            0.3,
            start=np.zeros(8, np.float32),
        ),
        dict(x=np.ones((6, 3), np.float32), y=np.array([0, 1, 0, 1, 0, 1])),
    ),
    "forget": lambda: (
        lambda **options: learning.forget(task(), clients(), learned(), **options),
        dict(requests=[(1, 2)], rng=rng(), rule="exact"),
    ),
    "request": lambda: (
        learning.request,
        dict(state=learned(), requests=[(1, 2)], rng=rng(), rule="exact"),
    ),
    "resume": lambda: (
        lambda **options: learning.resume(task(), clients(), **options),
        dict(state=learning.request(learned(), [(1, 2)], rng()), until=3),
    ),
    "FATSConfig": lambda: (config.FATSConfig, dict(seed=0, rounds=5, rate=0.1, n_requests=1)),
    "restarted_law": lambda: (
        enumeration.restarted_law,
        dict(law=enumeration.drawn_law(**TINY), client=0, sample=1, keep_clients=True),
    ),
    "fisher_sgd": lambda: (
        lambda **options: sgd.fisher_sgd(task(), **options),
        dict(
            params=torch.zeros(8),
            data=(np.ones((2, 3)), np.array([0, 1])),
            rows=np.array([[[0, 1]], [[1, 0]]]),
            fisher=sgd.Fisher(),
        ),
    ),
    "predictor": lambda: (
        lambda **options: attacks.predictor(task(), **options),
        dict(params=np.zeros(8), batch_size=2),
    ),
    "evaluate_attack": lambda: (
        lambda **options: attacks.evaluate_attack(
            attacks.LossThreshold(0.5), attacks.predictor(task(), np.zeros(8)), **options
        ),
        dict(members=(np.ones((4, 3)), Y), non_members=(np.zeros((4, 3)), Y), repeats=3, rng=rng()),
    ),
    "MembershipConfig": lambda: (config.MembershipConfig, dict(seed=0, rounds=5, rate=0.1)),
}
