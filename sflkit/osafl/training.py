"""Federated learning on video requests with stragglers and FIFO stores: OSAFL, its baselines, and a
central genie.

Source: OSAFL, Algorithm 2 and Section V; Algorithms 6 to 10; ERRATA 37, 38, 41 to 43. A round:
samples arrive in the stores, each client learns from its channel how many local rounds it can take
(none: straggler), trains, and the server applies its rule. Rules of one seed see the same requests,
stores, channel, mini-batches, test set and initial model; differences are paired.

What the paper does not state, and we chose: the scale of the inputs (`input_norm`); the test set
(fresh requests of the same users, as many a user); the genie's training (`genie_steps` SGD steps a
round, each on n n-bar samples drawn from all stores, at M-FedAvg's rate); the law of the
mini-batches, and the clients' places (`osafl.clients`, `channels`)."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd

from sflkit.osafl import clients as osafl_clients
from sflkit.osafl.clients import Samples, local_steps
from sflkit.osafl.config import BITS_A_PARAMETER, SIZE_FIELDS, OSAFLConfig
from sflkit.randomness import generator

EXPERIMENT = "osafl-training"


RESULT_VERSION = 1


_DIVERGED = 10.0  # times the loss of a uniform guess


def make_rule(config: OSAFLConfig, sizes: np.ndarray):
    """Return the config's server rule for clients of `sizes` (n_clients,) samples; None for the
    genie.
    """
    from sflkit.osafl import rules

    n, hyper, never = config.n_clients, config.hyper, config.never_joined
    return {
        "osafl": lambda: rules.OSAFL(n, hyper["global_rate"], config.chi, never),
        "m_fedavg": lambda: rules.MFedAvg(n, never),
        "m_fedprox": lambda: rules.MFedProx(n, hyper["mu"], never),
        "m_fednova": lambda: rules.MFedNova(sizes, hyper["slowdown"]),
        "fednova": lambda: rules.MFedNova(sizes, form="true"),
        "m_afa_cd": lambda: rules.MAFACD(n, hyper["global_rate"], never),
        "m_feddisco": lambda: rules.MFedDisco(n, never),
        "genie": lambda: None,
    }[config.rule]()


def run(config: OSAFLConfig, *, model=None) -> pd.DataFrame:
    """Run one rule for T rounds.

    Parameters
    ----------
    config : OSAFLConfig
    model : torch.nn.Module, optional
        Your own network, from the data set's inputs to logits (n, 100).

    Returns
    -------
    DataFrame, one row a round
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
        For an unknown model, or one that does not take the inputs.
    """
    learner = _Learner(config, model)
    rows, joined, alive = [], np.zeros(config.n_clients, dtype=bool), True
    for t in range(1, config.rounds + 1):
        kappa = learner.steps[t - 1]
        joined |= kappa > 0
        alive = alive and learner.step(t, kappa)
        row = {"round": t, "accuracy": np.nan, "loss": np.nan if alive else np.inf}
        if alive and (t % config.evaluate_every == 0 or t == config.rounds):
            row["loss"], row["accuracy"] = learner.evaluate()
            row["loss"] = row["loss"] if np.isfinite(row["loss"]) else np.inf
        n = int((kappa > 0).sum())
        rows.append(
            row
            | {
                "participants": n,
                "stragglers": 0 if learner.rule is None else config.n_clients - n,
                "mean_kappa": kappa[kappa > 0].mean() if n else np.nan,
                "joined": int(joined.sum()),
                "mean_score": learner.mean_score() if n else np.nan,
            }
        )
    frame = _with_best(pd.DataFrame(rows), learner.n_files)
    frame.attrs["data"] = learner.samples.world.source | {
        "size": int(learner.samples.world.stores.capacity.sum()),
        "test_size": config.test_size,
    }
    return frame


def _with_best(frame: pd.DataFrame, n_classes: int) -> pd.DataFrame:
    """Mark the diverged tail, and put the best accuracy so far and its loss beside the accuracy and
    loss of every round.
    """
    bad = (frame["loss"] > _DIVERGED * math.log(n_classes)).to_numpy()
    good = np.flatnonzero(frame["loss"].notna().to_numpy() & ~bad)
    after = np.arange(len(frame)) > (good[-1] if len(good) else -1)
    frame["diverged"] = np.logical_or.accumulate(after & bad)
    frame.loc[frame["diverged"], "accuracy"] = np.nan
    frame.loc[np.isinf(frame["loss"]), "loss"] = np.nan
    best, running = (-1.0, np.nan), []
    for accuracy, loss in zip(frame["accuracy"], frame["loss"], strict=True):
        best = (accuracy, loss) if accuracy > best[0] else best  # False for NaN
        running.append(best if best[0] >= 0 else (np.nan, np.nan))
    for place, (name, values) in enumerate(
        zip(("best_accuracy", "best_loss"), zip(*running), strict=True), start=3
    ):
        frame.insert(place, name, values)
    return frame


class _Learner:
    """The global model, the rule, and the round that trains it."""

    def __init__(self, config: OSAFLConfig, model):
        import torch

        from sflkit import federated, models
        from sflkit.federated import servers

        self.config, self.torch, self.federated, self.servers = config, torch, federated, servers
        device = "cuda" if torch.cuda.is_available() else "cpu"
        self.samples = Samples(config, device)
        self.n_files = self.samples.world.catalogue.n_files
        if model is None:
            given = {
                name: getattr(config, name)
                for name in SIZE_FIELDS
                if getattr(config, name) is not None
            }
            model = models.create(
                config.model, input_shape=self.samples.input_shape, n_classes=self.n_files, **given
            )
        self.task, self.hyper = federated.Task(model, osafl_clients.loss), config.hyper
        self.params = self.task.init(int(generator(config.seed, "model").integers(2**31))).to(
            device
        )
        self.sizes = self.samples.world.stores.capacity
        self.rule = make_rule(config, self.sizes)
        payload = (
            BITS_A_PARAMETER * self.task.n_params
            if config.payload_bits is None
            else config.payload_bits
        )
        self.steps = np.zeros(
            (config.rounds, config.n_clients), dtype=np.int64
        )  # the genie's clients send their data
        if self.rule is not None:
            self.steps = local_steps(config, payload)
        self.test = self.samples.test()
        self.memory = None

    def step(self, t: int, kappa: np.ndarray) -> bool:
        """Train one round; False if the model, or what a client sends, is no longer finite (the
        model then stays).
        """
        if self.rule is None:
            batches = self.samples.union_batches(t, self.config.genie_steps)
            new = self.federated.local_sgd(self.task, self.params, [batches], self.hyper["rate"])[0]
        else:
            clients = np.flatnonzero(kappa)
            work = self.servers.LocalWork(clients, kappa[clients], self.hyper["rate"])
            updates = self._train(t, work)
            if not self._finite(updates):
                return False
            new = self.rule(self.params, updates, self._weights(t, clients), work)
        if not self._finite(new):
            return False
        self.params = new
        return True

    def _train(self, t: int, work):
        """Return the participants' updates, in memory that serves all rounds; a part of the
        clients' inputs exists at a time.
        """
        n = len(work.clients)
        if self.memory is None or len(self.memory) < n:
            self.memory = self.torch.empty(n, self.task.n_params, device=self.params.device)
        updates, options = self.memory[:n], self.rule.local_options(work)
        for part in self.samples.groups(work.clients, work.steps) if n else ():
            batches = [
                self.samples.local_batches(int(work.clients[i]), t, int(work.steps[i]))
                for i in part
            ]
            self.federated.local_sgd(
                self.task,
                self.params,
                batches,
                work.rate,
                updates=True,
                out=updates[part[0] : part[-1] + 1],
                **options,
            )
        return updates

    def _weights(self, t: int, clients: np.ndarray):
        if self.config.rule != "m_feddisco":
            return None
        from sflkit.osafl.scores import disco_weights, label_discrepancy

        apart = label_discrepancy(self.samples.label_counts(t))
        return disco_weights(self.sizes, apart, a=self.hyper["a"], b=self.hyper["b"])[clients]

    def _finite(self, values) -> bool:
        return bool(self.torch.isfinite(values.sum())) or bool(self.torch.isfinite(values).all())

    def mean_score(self) -> float:
        scores = getattr(self.rule, "scores", None)
        return float("nan") if scores is None else float(scores.mean())

    def evaluate(self):
        return self.federated.evaluate(self.task, self.params, *self.test)
