"""The methods of unlearning: what FATS, FRS and FR2 do differently, in one table.

Learning, requests and recovery are the same for all methods (`sflkit.fats.learning`). What a
method decides is said by its hooks, the methods of `FATS`. For a method of your own, write a class
with these hooks (subclassing one of ours saves most of the work) and add a row:

    METHODS.add("mine", Rule(MyMethod, label="My method", look=Look("#CC79A7", "-", "D")))

Configs, states, figures and tables then know it. torch is imported by the hooks that train.

Source: FATS, Algorithms 1-3, Section 6.1.4.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from sflkit.fats.baselines import Fisher, draw_fedavg, fisher_sgd, present_clients, redraw_fedavg
from sflkit.fats.history import History, draw_history
from sflkit.fats.sgd import SGD, local_steps
from sflkit.registry import Look, Registry, Rule

if TYPE_CHECKING:
    from torch import Tensor

    from sflkit.federated import Task


class Local(NamedTuple):
    """What a method may use to train one round's slots.

    Attributes
    ----------
    rate : float
        eta of the steps of `sgd`.
    fisher : Fisher
        FR2's settings.
    forgotten : bool
        Whether something is forgotten, so that this is no longer the first learning.
    sgd : SGD
        The steps of all training but FR2's retraining.
    """

    rate: float
    fisher: Fisher
    forgotten: bool
    sgd: SGD


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

    def train(self, task: Task, params: Tensor, batches: list, local: Local) -> Tensor:
        """Train one round's slots from `params` (P,) and return their models (K, P).

        `batches` is a list of mini-batches (x, y) per slot.
        """
        return local_steps(task, params, batches, local.rate, local.sgd)

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

    def repaired(self, history: History, rng: np.random.Generator) -> History:
        """Draw all rounds afresh."""
        return redraw_fedavg(history, rng)

    def weights(self, history: History, r: int) -> np.ndarray:
        """Return the clients' numbers of samples."""
        return history.samples_left[history.clients[r]]


class FR2(FRS):
    """Rapid retraining: FRS whose local steps are scaled by the Fisher information.

    Only the retraining is rapid: learning before the first request is that of FRS.
    """

    def train(self, task: Task, params: Tensor, batches: list, local: Local) -> Tensor:
        """Train by `baselines.fisher_sgd` once something is forgotten, else as FRS."""
        if local.forgotten:
            return fisher_sgd(task, params, batches, local.fisher)
        return super().train(task, params, batches, local)


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
