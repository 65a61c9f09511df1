"""Federated learning on video requests with stragglers and FIFO stores: OSAFL, its baselines, and a
central genie.

Source: OSAFL, Algorithm 2 and Section V; Algorithms 6 to 10; ERRATA 37, 38, 41 to 43. A round:
samples arrive in the stores, each client learns from its channel how many local rounds it can take
(none: straggler), trains, and the server applies its rule. Rules of one seed see the same requests,
stores, channel, mini-batches, test set and initial model; differences are paired.

What the paper does not state, and we chose: the scale of the inputs (`input_norm`); the test set
(fresh requests of the same users, as many per user); the genie's training (`genie_steps` SGD steps
in a round, each on n n-bar samples drawn from all stores, at M-FedAvg's rate); the law of the
mini-batches, and the clients' places (`osafl.clients`, `channels`)."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable

import numpy as np
import pandas as pd
import torch
from torch import Tensor, nn

from sflkit import checks, federated, machine
from sflkit.federated import LocalWork, ServerRule, own
from sflkit.federated.arrays import NotFinite, first_not_finite
from sflkit.osafl.clients import Samples, local_steps, loss
from sflkit.osafl.config import SIZE_FIELDS, OSAFLConfig
from sflkit.osafl.networks import BITS_PER_PARAMETER
from sflkit.osafl.rules import RULES, Genie, RoundRule
from sflkit.randomness import model_seed

EXPERIMENT = "osafl-training"
RESULT_VERSION = 1

_DIVERGED = 10.0  # times the loss of a uniform guess


def run(
    config: OSAFLConfig,
    *,
    server: Callable | None = None,
    model: nn.Module | Callable | None = None,
    cache: Callable | None = None,
    stop_after: int | None = None,
) -> pd.DataFrame:
    """Run one rule for T rounds.

    Parameters
    ----------
    config : OSAFLConfig
    server : class or function, optional
        Your own server rule in place of that of `config.rule`, of which only the local rate is then
        used: a class of the protocol `federated.ServerRule`, built as cls(), or a function
        (config, shares) -> rule with shares (n_clients,) the clients' parts of all stored samples.
        It is called in rounds that a client joins, without weights unless it has the method
        `round_weights` of `rules.RoundRule`.
    model : torch.nn.Module, class or function, optional
        Your own network, from the data set's inputs to logits (n, 100): a module, whose weights are
        not used, or what makes one of (input_shape, n_classes).
    cache : class or function, optional
        Your own cache in place of the FIFO stores: (capacity, slots) -> an empty cache, where
        `capacity` is the store's D_u and at most `slots` samples arrive before a round. Before the
        first round it gets the D_u samples that the store would start with, then what arrives
        there, by `update(ids, labels, rng)`; `ids` are the samples it holds. The labels are the
        requested files. The cache rules of SFL, but for FULL, are such classes.
    stop_after : int, optional
        The round after which the run ends, in [1, config.rounds]. Its rows are the first of the
        whole run's, but a loss at its end counts as diverged though a later one might be below.

    Returns
    -------
    DataFrame, one row per round
        round (from 1); accuracy and loss on the test set (NaN between evaluations); best_accuracy
        over the rounds so far and best_loss, the loss of that round (the last row has what the
        paper's tables list); participants and stragglers of the round (their sum is U; 0 for the
        genie), mean_kappa of the participants' local rounds (NaN without any); joined, clients that
        ever took part; mean_score (NaN but for OSAFL); diverged: from this round to the end the
        model is not finite, or its loss is above 10 times that of a uniform guess. A diverged row
        has no accuracy and does not count for the best.

    Raises
    ------
    ValueError
        For an unknown model, one that does not take the inputs, or a server or model that is not
        as described.
    """
    last = checks.last_round(stop_after, config.rounds)
    learner = Learner(config, server, model, cache)
    steps = learner.steps[:last]
    alive = True
    rows, scores = [], []
    for t in range(1, last + 1):
        alive = alive and learner.step(t)
        row = {"round": t, "accuracy": np.nan, "loss": np.nan if alive else np.inf}
        if alive and (t % config.evaluate_every == 0 or t == config.rounds):
            row["loss"], row["accuracy"] = learner.evaluate()
            row["loss"] = row["loss"] if np.isfinite(row["loss"]) else np.inf
        rows.append(row)
        scores.append(learner.mean_score() if steps[t - 1].any() else np.nan)
    n = (steps > 0).sum(axis=1)
    frame = pd.DataFrame(rows).assign(
        participants=n,
        stragglers=0 if learner.is_central else config.n_clients - n,
        mean_kappa=steps.sum(axis=1) / np.where(n > 0, n, np.nan),
        joined=np.logical_or.accumulate(steps > 0).sum(axis=1),
        mean_score=scores,
    )
    frame = with_best(frame, learner.n_files)
    frame.attrs["data"] = learner.source
    return frame


def with_best(frame: pd.DataFrame, n_classes: int) -> pd.DataFrame:
    """Mark the diverged end of a run, and add to every round the best so far.

    Parameters
    ----------
    frame : DataFrame
        One row per round with at least three columns, among them `accuracy` and `loss`; NaN where
        the round was not evaluated, an infinite loss where the model is no longer finite. It is
        changed in place.
    n_classes : int
        A loss above 10 ln(n_classes), ten times that of a uniform guess, counts as diverged if no
        later one is below.

    Returns
    -------
    DataFrame
        With the columns diverged, best_accuracy and best_loss. A diverged round has no accuracy,
        and an infinite loss becomes NaN.
    """
    bad = (frame["loss"] > _DIVERGED * math.log(n_classes)).to_numpy()
    good = np.flatnonzero(frame["loss"].notna().to_numpy() & ~bad)
    after = np.arange(len(frame)) > (good[-1] if len(good) else -1)
    frame["diverged"] = np.logical_or.accumulate(after & bad)
    frame.loc[frame["diverged"], "accuracy"] = np.nan
    frame.loc[np.isinf(frame["loss"]), "loss"] = np.nan
    accuracy = frame["accuracy"]
    new = accuracy > accuracy.cummax().shift(fill_value=-1.0).ffill()  # False for NaN
    best = pd.Series(frame.index, frame.index).where(new).ffill()
    best = frame[["accuracy", "loss"]].reindex(best).to_numpy()
    frame.insert(3, "best_accuracy", best[:, 0])
    frame.insert(4, "best_loss", best[:, 1])
    return frame


def make_rule(
    config: OSAFLConfig, sizes: np.ndarray, server: Callable | None = None
) -> ServerRule | Genie:
    """Return the server rule of a run with clients of `sizes` (n_clients,) samples.

    Parameters
    ----------
    config : OSAFLConfig
    sizes : array (n_clients,)
    server : class or function, optional
        As in `run`; None takes `config.rule` from `rules.RULES`.

    Raises
    ------
    ValueError
        As `sflkit.federated.own.build_server`, if a hyper-parameter is neither given nor printed,
        or if the row of the rule names an option that no run has; for sizes that are not > 0.
    """
    checks.instance("config", config, OSAFLConfig)
    checks.shape("sizes", checks.array("sizes", sizes, above=0), (config.n_clients,))
    if server is not None:
        return own.build_server(server, config, sizes / sizes.sum())
    given = {
        "n_clients": config.n_clients,
        "sizes": sizes,
        "never_joined": config.never_joined,
        "chi": config.chi,
    } | config.hyper
    return RULES[config.rule].make(**given)


class Learner:
    """The global model, its server rule, and the round that trains it.

    Parameters
    ----------
    config : OSAFLConfig
    server : class or function, optional
        See `run`.
    model : torch.nn.Module, class or function, optional
        See `run`.
    cache : class or function, optional
        See `run`.

    Attributes
    ----------
    task : federated.Task
    params : Tensor (n_params,)
        The global model.
    rule : ServerRule or Genie
    steps : int array (rounds, n_clients)
        How many local rounds each client can take; all 0 for the genie, whose clients send data.
    """

    def __init__(
        self,
        config: OSAFLConfig,
        server: Callable | None = None,
        model: nn.Module | Callable | None = None,
        cache: Callable | None = None,
    ):
        self.config = config
        device = machine.device()
        self._samples = Samples(config, device, cache)
        self._sizes = self._samples.world.stores.capacity
        self.n_files = self._samples.world.catalogue.n_files
        sizes = {name: getattr(config, name) for name in SIZE_FIELDS}
        shape = self._samples.input_shape
        self.task = federated.Task(
            own.network(model, config.model, shape, self.n_files, **sizes), loss
        )
        self.params = self.task.init(model_seed(config.seed)).to(device)
        self.rule = make_rule(config, self._sizes, server)
        self._rate = config.hyper["rate"]
        self.steps = np.zeros((config.rounds, config.n_clients), dtype=np.int64)
        if not self.is_central:
            payload_bits = config.payload_bits
            if payload_bits is None:
                payload_bits = BITS_PER_PARAMETER * self.task.n_params
            self.steps = local_steps(config, payload_bits)
        self._test = self._samples.test()
        # Rules of the table keep no updates, a caller's own may. Fresh memory costs as much on a
        # CPU as training a large layer.
        self._memory: Tensor | None = None
        if server is None and not self.is_central:
            most = int((self.steps > 0).sum(axis=1).max())
            self._memory = torch.empty(most, self.task.n_params, device=device)

    @property
    def is_central(self) -> bool:
        """Whether the run trains on the union of all stores, and asks no client for anything."""
        return isinstance(self.rule, Genie)

    @property
    def source(self) -> dict:
        """What a result's record says of the data."""
        return self._samples.world.source | {
            "size": int(self._sizes.sum()),
            "test_size": self.config.test_size,
        }

    def step(self, t: int) -> bool:
        """Train round t (from 1).

        Returns
        -------
        bool
            False if the model, or what a client sends, is no longer finite; the model then stays.
        """
        new = self._central_step(t) if self.is_central else self._federated_step(t)
        if new is None or first_not_finite(new[None]) is not None:
            return False
        self.params = new
        return True

    def _central_step(self, t: int) -> Tensor:
        steps = self._samples.union_data(t, self.config.genie_steps)
        return federated.local_sgd(self.task, self.params, rate=self._rate, **steps)[0]

    def _federated_step(self, t: int) -> Tensor | None:
        """Return the next global model; None if an update is not finite, which is asked once."""
        kappa = self.steps[t - 1]
        clients = np.flatnonzero(kappa)
        if not len(clients):
            return self.params
        work = LocalWork(clients, kappa[clients], self._rate)
        updates = self._updates(t, work)
        if not isinstance(self.rule, RoundRule) and first_not_finite(updates) is not None:
            return None
        weights = None
        if hasattr(self.rule, "round_weights"):
            counts = functools.partial(self._samples.label_counts, t)
            weights = self.rule.round_weights(work, self._sizes, counts)
        try:
            return own.next_params(self.rule, self.params, updates, weights, work)
        except NotFinite:  # a `RoundRule` asks by itself
            return None

    def _updates(self, t: int, work: LocalWork) -> Tensor:
        """Return the participants' updates; only a part of the clients' inputs exists at a time."""
        n = len(work.clients)
        updates = torch.empty(n, self.task.n_params, device=self.params.device)
        if self._memory is not None:
            updates = self._memory[:n]
        options = own.local_options(self.rule, work)
        corrections = options.pop("corrections", None)
        for part in self._samples.groups(work.clients, work.steps):
            rows = slice(part[0], part[-1] + 1)
            if corrections is not None:
                options["corrections"] = corrections[rows]
            federated.local_sgd(
                self.task,
                self.params,
                rate=work.rate,
                updates=True,
                out=updates[rows],
                **options,
                **self._samples.local_data(work.clients[part], work.steps[part], t),
            )
        return updates

    def mean_score(self) -> float:
        """Return the mean of the rule's last scores; NaN for a rule without scores."""
        scores = getattr(self.rule, "scores", None)
        return float("nan") if scores is None else float(scores.mean())

    def evaluate(self) -> federated.Evaluation:
        """Return loss and accuracy of the global model on the test set."""
        return federated.evaluate(self.task, self.params, *self._test)
