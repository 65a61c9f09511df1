"""Does Algorithm 1 do what the paper prints? Checks on the synthetic task, and Table 1's models.

Source: FDS (Federated Learning for Data Streams), Algorithm 1, (5) to (9), (15), Tables 1 and 3.
The round is written a second time here, as a plain loop with the gradient of softmax regression
spelt out, and compared with the library's; only the draw of the mini-batches is shared.

"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from companion.notebooks.datastreams_shared import ROWS, printed
from sflkit.datastreams import arrivals, importance, training
from sflkit.datastreams.arms import Arms, mini_batches
from sflkit.datastreams.config import DataStreamsConfig
from sflkit.datastreams.strategies import client_importance

# Rate 0.1, one step on all stored samples, projection on a ball; the 40 rounds give the one fresh
# client four samples a round.
DEMO = DataStreamsConfig(
    arms=("uniform", "p_hist=0.7"),
    rates=(0.1, 0.1),
    rounds=40,
    local_steps=1,
    batch_size=1000,
    radius=0.3,
)
LOOP_ROUNDS = 3
SAME = 1e-6  # float32
NETWORKS: dict[str, tuple[str, tuple[int, ...], int, dict[str, Any]]] = {
    "synthetic": ("linear", (20,), 2, {}),
    "CIFAR-10": ("cnn", (3, 32, 32), 10, dict(hidden=2048, padding=0)),
    "CIFAR-100": ("cnn", (3, 32, 32), 100, dict(hidden=2048, padding=0)),
    "FEMNIST": ("mlp", (1, 28, 28), 62, dict(hidden=(1024,))),
    "Shakespeare": ("char_rnn", (80,), 100, {}),
    "Shakespeare, LSTM": ("char_rnn", (80,), 100, dict(cell="lstm")),
}


class _Task(NamedTuple):
    """The synthetic task: clients, what each stores in which round, and mean memory sizes."""

    clients: Any
    stored: list[dict[int, np.ndarray]]
    memory: np.ndarray
    p: np.ndarray  # (arms, clients)


def algorithm_evidence() -> dict[str, dict[str, bool]]:
    """Return the evidence on Algorithm 1: part -> what was checked -> whether it holds."""
    clients = training.build(DEMO)
    stored = arrivals.memories(clients, rounds=DEMO.rounds, seed=DEMO.seed)
    p = [client_importance(arm, clients.sizes, clients.historical) for arm in DEMO.arms]
    memory = arrivals.mean_memory(stored, clients.n_clients)
    task = _Task(clients, stored, memory, np.stack(p))
    return {
        **_use_and_weights(task),
        "loop": {name: _equals_loop(task, *change) for name, change in _SETTINGS.items()},
        **_output_and_projection(task),
    }


def table1_evidence() -> dict[str, Any]:
    """Return the evidence on Table 1: part -> (ours, printed), numbers of parameters and sizes.

    The paper's linear model has one row of weights and a bias; ours has one for each of the two
    classes, of which only the difference decides.
    """
    from sflkit import models

    size = {}
    for row, (model, shape, n_classes, options) in NETWORKS.items():
        network = models.create(model, input_shape=shape, n_classes=n_classes, **options)
        size[row] = sum(weight.numel() for weight in network.parameters())
    size["synthetic"] //= 2
    task = training.build(DataStreamsConfig(arms=("uniform",), rates=(0.1,)))
    said = {row: int(printed("ds-c2c1", f"{row} parameters d")) for row in ROWS}
    sizes = [printed("ds-tab1", f"synthetic {what}") for what in ("clients", "samples")]
    return {row: (size[row], said[row]) for row in ROWS[:-1]} | {
        "lstm": (size["Shakespeare, LSTM"], said["Shakespeare"]),
        "rnn": (size["Shakespeare"], said["Shakespeare"]),
        "sizes": ([task.n_clients, task.sizes.sum()], sizes),
    }


def _use_and_weights(task: _Task) -> dict[str, dict[str, bool]]:
    """Check how often each sample is used, and that the sample weights give p in (5), (6), (15)."""
    clients = task.clients
    used = np.zeros((DEMO.rounds, clients.n_clients, len(clients.x)))  # 1 where it is in a memory
    for t, at in enumerate(task.stored):
        for m, ids in at.items():
            used[t, m, ids] = 1
    of_samples = importance.sample_weights(task.p[1], task.memory.astype(int))
    weights = used * of_samples[None, :, None]
    uses = used.sum(axis=(0, 1))
    old = np.concatenate([clients.clients[m] for m in np.flatnonzero(clients.historical)])
    same = {
        "(5) gives p": (importance.aggregation_weights(weights), task.p[1]),
        "(15) gives p": (importance.relative_importance(weights).sum(axis=1), task.p[1]),
        "(6) gives equal rounds": (importance.round_weights(weights), 1 / DEMO.rounds),
    }
    return {
        "use": {
            "old samples in every round": bool((uses[old] == DEMO.rounds).all()),
            "new samples in one round": bool((np.delete(uses, old) == 1).all()),
        },
        "weights": {name: bool(np.allclose(*pair)) for name, pair in same.items()},
    }


def _output_and_projection(task: _Task) -> dict[str, Any]:
    """Check that the output is the mean iterate, and that the projection keeps it in the ball."""
    arms = Arms(DEMO, task.clients, task.p, task.memory)
    path = [arms.params.clone()]
    for t, at in enumerate(task.stored, 1):
        arms.step(t, at)
        path.append(arms.params.clone())
    iterates = np.stack([params.cpu().numpy() for params in path])  # (T + 1, arms, parameters)
    error = np.abs(arms.averaged.cpu().numpy() - iterates[:-1].mean(axis=0)).max()
    distance = np.linalg.norm(iterates - iterates[0], axis=2)
    return {
        "output": bool(error < SAME),
        "projection": {
            "inside the ball": bool(distance.max() < DEMO.radius + SAME),
            "at work": bool((distance[-1] > DEMO.radius - SAME).any()),
        },
    }


Rule = Callable[[int, int, np.ndarray, float], np.ndarray]


def _own_weights(t: int, m: int, ids: np.ndarray, p_m: float) -> np.ndarray:
    """Return lambda of each sample, which here differs from sample to sample and round to round."""
    return p_m * (t + ids % 3)


_SETTINGS: dict[str, tuple[dict[str, int], Rule | None]] = {
    "all stored samples": ({}, None),
    "E 2 and K 3": (dict(local_steps=2, batch_size=3), None),
    "E 2 K 3 and own weights": (dict(local_steps=2, batch_size=3), _own_weights),
}


def _equals_loop(task: _Task, changes: dict[str, int], rule: Rule | None) -> bool:
    """Compare iterate and output after three rounds with (5) to (9) as a plain loop.

    A client takes E steps of softmax regression on K samples.
    """
    config = replace(DEMO, arms=DEMO.arms[1:], rates=(0.1,), radius=None, **changes)
    arms = Arms(config, task.clients, task.p[1:], task.memory, weights=rule)
    theta, output, mass = arms.params[0].cpu().numpy().astype(float), 0.0, 0.0
    inputs, targets = task.clients.x, np.eye(2)[task.clients.y]
    d = inputs.shape[1]
    for t, at in enumerate(task.stored[:LOOP_ROUNDS], 1):
        arms.step(t, at)
        moves, totals = [], []
        for m, ids in at.items():
            p_m, local = task.p[1, m], theta.copy()
            lam = rule(t, m, ids, p_m) if rule else np.full(len(ids), p_m / task.memory[m])
            for pick in mini_batches(
                len(ids), config.batch_size, config.local_steps, config.seed, m, t
            ):
                x, factor = inputs[ids[pick]], len(ids) / len(pick) * lam[pick] / lam.sum()
                chance = np.exp(x @ local[: 2 * d].reshape(2, d).T + local[2 * d :])
                chance /= chance.sum(axis=1, keepdims=True)
                residual = factor[:, None] * (chance - targets[ids[pick]])
                local -= 0.1 * np.concatenate([(residual.T @ x).ravel(), residual.sum(axis=0)])
            moves.append(local - theta)
            totals.append(lam.sum())
        output, mass = output + sum(totals) * theta, mass + sum(totals)  # (6)
        theta = theta + np.average(moves, axis=0, weights=totals)  # (5)
    found = np.stack([arms.params[0].cpu().numpy(), arms.averaged[0].cpu().numpy()])
    return bool(np.abs(found - [theta, output / mass]).max() < SAME)
