"""What FATS is compared with: federated averaging and its retraining, plain (FRS) or rapid (FR2).

Sources: FATS, Section 6.1.4; McMahan et al. 2017 (FedAvg); Liu et al. 2022, "The right to be
forgotten in federated learning" (rapid retraining). Both baselines learn by FedAvg: K different
clients per round, models averaged by their numbers of samples. After a request both start again
from the first model, on freshly drawn clients and mini-batches of what is left: FRS with the same
local SGD, FR2 with `fisher_sgd`. FedAvg's local epochs become E mini-batches of b samples, so that
costs can be compared.

torch is imported by the function that trains, so that drawing does not need it.

===========  ==========  ============  ============================================================
code         symbol      shape         meaning
===========  ==========  ============  ============================================================
params       w           (P,)          global model before the round
rate         eta         scalar        learning rate of the scaled steps
momentum     beta_1      scalar        of the running mean m of the gradients, in [0, 1)
decay        beta_2      scalar        of the running mean F of their squares (diagonal empirical
                                       Fisher), in [0, 1)
damping      lambda      scalar        added to F, > 0; squared loss per unit of parameter, as F
===========  ==========  ============  ============================================================
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from sflkit import checks
from sflkit.config import Positive, settings
from sflkit.fats.history import History, draw_batches, draw_history, subsets
from sflkit.fats.sgd import Momentum, train_each

if TYPE_CHECKING:
    from torch import Tensor

    from sflkit.federated import Task
    from sflkit.federated.batches import Batch
    from sflkit.federated.replicas import Replica


@settings
class Fisher:
    """Settings of FR2's local steps; FATS states none of them.

    Parameters
    ----------
    rate : float
        eta > 0, of the scaled steps; not comparable with the rate of plain SGD.
    momentum, decay : float
        In [0, 1); 0.9 and 0.999 are the customary ones of Adam, after which the momentum technique
        is modelled.
    damping : float
        > 0. Where gradients are small against its root, a step is rate / damping (0.1 by default)
        times their mean.

    Raises
    ------
    ValueError
        If a setting is out of range.
    """

    rate: Positive = 0.001
    momentum: Momentum = 0.9
    decay: Momentum = 0.999
    damping: Positive = 0.01


def draw_fedavg(*, rng: np.random.Generator, **sizes: Any) -> History:
    """Draw who trains on what in R rounds of FedAvg.

    Unlike in `history.draw_history`, the K clients of a round differ from one another. The draws
    are those of `history.draw_history` with the same generator, except in rounds in which a client
    repeats: these are drawn again without repetition. A round without repetition is uniform over
    the orders of K different clients, so that FedAvg's law is kept, and a comparison with FATS is
    paired as closely as it can be (at FATS's Table 2 a client repeats in 3 % of the rounds of
    MNIST).

    Parameters
    ----------
    rng : numpy.random.Generator
    **sizes
        The other keywords of `history.draw_history` but `held`, with K <= n_clients.

    Raises
    ------
    ValueError
        As `history.draw_history`, or if there are fewer clients than K.
    """
    history = draw_history(rng=rng, **sizes)
    ordered = np.sort(history.clients, axis=1)
    repeats = np.flatnonzero((np.diff(ordered, axis=1) == 0).any(axis=1))
    return _redrawn(history, repeats, rng)


def redraw_fedavg(history: History, rng: np.random.Generator) -> History:
    """Return a history of the same sizes with all rounds drawn afresh from what is left.

    Raises
    ------
    ValueError
        If fewer clients than K are left.
    """
    checks.generator(rng)
    checks.instance("history", history, History)
    return _redrawn(history, np.arange(history.rounds), rng)


def present_clients(history: History) -> np.ndarray:
    """Return the clients that are left, ascending.

    Raises
    ------
    ValueError
        If there are fewer than K, which FedAvg needs, or the clients hold their samples for a time
        only.
    """
    if history.held is not None:
        raise ValueError(
            "held must be None for FedAvg's baselines, which draw from all samples; FATS can learn "
            "from caches"
        )
    present = np.flatnonzero(history.samples_left)
    if len(present) < history.clients_per_round:
        raise ValueError(
            f"clients_per_round={history.clients_per_round} must be at most {len(present)}, the "
            "clients that are left: those of a round of FedAvg differ"
        )
    return present


def _redrawn(history: History, rounds: np.ndarray, rng: np.random.Generator) -> History:
    """Return the history with some rounds drawn afresh, K different clients each."""
    present = present_clients(history)
    if not len(rounds):
        return history
    # Subsets are ascending, which fixes only the order of the slots.
    ranks = subsets(np.full(len(rounds), len(present)), history.clients_per_round, rng)
    clients, batches = history.clients.copy(), history.batches.copy()
    clients[rounds] = present[ranks]
    batches[rounds] = draw_batches(history, clients[rounds], history.local_steps, rng)
    return replace(history, clients=clients, batches=batches)


def fisher_sgd(
    task: Task,
    params: Tensor,
    batches: Sequence,
    fisher: Fisher,
    *,
    threads: int | None = None,
) -> Tensor:
    """Train every client from `params` by steps that the diagonal empirical Fisher scales.

    Source: FATS, Section 6.1.4, "a diagonal approximation of the Fisher Information Matrix ... and
    the momentum technique". Step s = 1..E with the mini-batch gradient g: m <- beta_1 m + (1 -
    beta_1) g; F <- beta_2 F + (1 - beta_2) g^2; w <- w - eta m' / (F' + lambda), where m' = m / (1
    - beta_1^s) and F' = F / (1 - beta_2^s). m and F start at zero in every round, since a client
    keeps nothing and sends only its model.

    ERRATA 47: the authors' released baseline uses AdaHessian, which scales by second derivatives;
    we follow the text. The squares are those of mini-batch gradients, about 1/b of the mean over
    single samples near a minimum.

    Parameters
    ----------
    task, batches, threads
        As for `federated.local_sgd`.
    params : tensor (P,)
        One start for all clients.
    fisher : Fisher

    Returns
    -------
    tensor (n_clients, P)

    Raises
    ------
    ValueError
        As `federated.local_sgd`.
    """
    checks.instance("fisher", fisher, Fisher)
    return train_each(
        task,
        params,
        batches,
        lambda replica, steps: _fisher_steps(task, replica, steps, fisher),
        threads,
    )


def _fisher_steps(task: Task, replica: Replica, steps: list[Batch], fisher: Fisher) -> None:
    """Train a working copy of the model on one client's mini-batches; see `fisher_sgd`."""
    import torch

    means = [torch.zeros_like(p) for p in replica.params]
    squares = [torch.zeros_like(p) for p in replica.params]
    for s, batch in enumerate(steps, start=1):
        loss = task.mean_loss(replica.module(batch.x), batch.y, batch.w)
        grads = torch.autograd.grad(loss, replica.params, allow_unused=True, materialize_grads=True)
        with torch.no_grad():
            for p, g, m, f in zip(replica.params, grads, means, squares, strict=True):
                m.lerp_(g, 1 - fisher.momentum)
                f.lerp_(g.square(), 1 - fisher.decay)
                scale = (f / (1 - fisher.decay**s)).add_(fisher.damping)
                p.addcdiv_(m, scale, value=-fisher.rate / (1 - fisher.momentum**s))
