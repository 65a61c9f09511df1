"""The methods of unlearning: what FATS, FRS and FR2 do differently, in one table.

Learning, requests and recovery are the same for all methods (`sflkit.fats.learning`). What a
method decides is said by its hooks, the methods of `FATS`. For a method of your own, write a class
with these hooks (subclassing one of ours saves most of the work) and add a row:

    METHODS.add("mine", Rule(MyMethod, label="My method", look=Look("#CC79A7", "-", "D")))

Configs, states, figures and tables then know it. torch is imported by the hooks that train.

Both baselines learn by federated averaging (FedAvg): K different clients per round, models averaged
by their numbers of samples. After a request both start again from the first model, on freshly drawn
clients and mini-batches of what is left: FRS with the same local SGD, FR2 with `sgd.fisher_sgd`.
FedAvg's local epochs become E mini-batches of b samples, so that costs can be compared.

Sources: FATS, Algorithms 1-3, Section 6.1.4; McMahan et al. 2017 (FedAvg); Liu et al. 2022, "The
right to be forgotten in federated learning" (rapid retraining).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from sflkit.config import checked
from sflkit.fats.history import History, draw_batches, draw_history, subsets
from sflkit.fats.sgd import fisher_sgd, local_steps
from sflkit.registry import Look, Registry, Rule

if TYPE_CHECKING:
    from torch import Tensor

    from sflkit.federated import Task


class FATS:
    """FATS: repair the history, and recompute from the round of the first use on.

    Its models are averaged with equal weights (Algorithm 1, line 22), so that a client with two
    slots counts twice. A method is built without arguments.

    Attributes
    ----------
    from_scratch : bool
        Whether every request is answered by training from the first model on, also one that
        nothing has used. Otherwise training goes back to the round of the first use.
    """

    from_scratch = False

    def draw(self, *, rng: np.random.Generator, **sizes: Any) -> History:
        """Draw who trains on what as Algorithm 1 does, by the sizes of `history.draw_history`."""
        return draw_history(rng=rng, **sizes)

    def check(self, history: History) -> None:
        """Raise ValueError if the method cannot train on what is left, before anything is drawn.

        FATS draws with replacement, so that any clients will do.
        """

    def repaired(self, history: History, rng: np.random.Generator) -> History:
        """Return the history to train on, from one that a rule has repaired: that one."""
        return history

    def train(self, task: Task, params: Tensor, data: tuple, rows: Any, state: Any) -> Tensor:
        """Train one round's slots from `params` (P,) and return their models (K, P).

        `data` are the samples (x, y) of all clients, of which a step takes the `rows` (K, E, b).
        `state`, a `state.State`, has `rate`, `sgd` and `fisher`, and in `history` what is
        forgotten.
        """
        return local_steps(task, params, data, rows, state.rate, state.sgd)

    def weights(self, history: History, r: int) -> np.ndarray:
        """Return the weights (K,) with which the models of round r are averaged: equal ones."""
        return np.ones(history.clients_per_round)


class FRS(FATS):
    """Retraining from scratch: FedAvg on what is left, from the first model on.

    Models are averaged by the numbers of samples that their clients have left.
    """

    from_scratch = True

    def draw(self, *, rng: np.random.Generator, **sizes: Any) -> History:
        """Draw as FedAvg does, K different clients per round."""
        return draw_fedavg(rng=rng, **sizes)

    def check(self, history: History) -> None:
        """Refuse fewer clients than K."""
        present_clients(history)

    @checked
    def repaired(self, history: History, rng: np.random.Generator) -> History:
        """Draw all rounds afresh."""
        return _redrawn(history, np.arange(history.rounds), rng)

    def weights(self, history: History, r: int) -> np.ndarray:
        """Return the clients' numbers of samples."""
        return history.samples_left[history.clients[r]]


class FR2(FRS):
    """Rapid retraining: FRS whose local steps are scaled by the Fisher information.

    Only the retraining is rapid: learning before the first request is that of FRS.
    """

    def train(self, task: Task, params: Tensor, data: tuple, rows: Any, state: Any) -> Tensor:
        """Train by `sgd.fisher_sgd` once something is forgotten, else as FRS."""
        if state.history.forgotten:
            return fisher_sgd(task, params, data, rows, state.fisher)
        return super().train(task, params, data, rows, state)


METHODS = Registry(
    "method of unlearning",
    {
        "fats": Rule(FATS, "FATS", Look("#0072B2", "-", "o")),
        "frs": Rule(FRS, "FRS", Look("#009E73", "-", "^")),
        "fr2": Rule(FR2, "FR²", Look("#D55E00", "-", "s")),
    },
)
# Methods that learn, up to the first request, as another one does, so that both can share that run.
LEARNS_AS = {"fr2": "frs"}


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
        The other keywords of `history.draw_history`, with K <= n_clients.

    Raises
    ------
    ValueError
        As `history.draw_history`, or if there are fewer clients than K.
    """
    history = draw_history(rng=rng, **sizes)
    ordered = np.sort(history.clients, axis=1)
    repeats = np.flatnonzero((np.diff(ordered, axis=1) == 0).any(axis=1))
    return _redrawn(history, repeats, rng)


def present_clients(history: History) -> np.ndarray:
    """Return the clients that are left, ascending.

    Raises
    ------
    ValueError
        If there are fewer than K, which FedAvg needs.
    """
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
