"""Federated learning on video requests with stragglers and FIFO stores: OSAFL, its baselines, and a central genie.

Source: OSAFL, Algorithm 2 and Section V; Algorithms 6 to 10; ERRATA 37, 38, 41 to 43. A round: samples arrive in the stores, each
client learns from its channel how many local rounds it can take (none: straggler), trains, and the server applies its rule.
Rules of one seed see the same requests, stores, channel, mini-batches, test set and initial model; differences are paired.

What the paper does not state, and we chose: the scale of the inputs (`input_norm`); the test set (fresh requests of the same
users, as many a user); the genie's training (`genie_steps` SGD steps a round, each on n n-bar samples drawn from all stores, at
M-FedAvg's rate); the law of the mini-batches, and the clients' places (`runs.osafl_clients`, `channels`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pandas as pd

from sflkit import checks
from sflkit.randomness import generator
from sflkit.runs import osafl_clients

EXPERIMENT = "osafl-training"
RESULT_VERSION = 1
RULES = ("osafl", "m_fedavg", "m_fedprox", "m_fednova", "fednova", "m_afa_cd", "m_feddisco", "genie")
# options of a rule beside the local rate
OPTIONS = {"osafl": ("global_rate",), "m_fedavg": (), "m_fedprox": ("mu",), "m_fednova": ("slowdown",), "fednova": (),
           "m_afa_cd": ("global_rate",), "m_feddisco": ("a", "b"), "genie": ()}
PRESET_NAMES = ("fcn", "squeezenet1", "cnn", "lstm")
BITS_A_PARAMETER = 33  # OSAFL, Section II-C: N (FPP + 1)
_SIZES = ("hidden", "channels", "layers", "embedding")
_DIVERGED = 10.0  # times the loss of a uniform guess


@dataclass(frozen=True)
class OSAFLConfig:
    """One run of one rule. Sizes are OSAFL's, Section V-A.

    Parameters
    ----------
    rule : one of RULES
        "m_fednova" is Algorithm 8 as printed, "fednova" the rule of its authors (ERRATA 41); "genie" trains centrally.
    never_joined : {"exclude", "zero", "literal"}
        What stands for a client that has sent nothing yet, see `sflkit.buffered`. M-FedAvg, M-FedProx and M-FedDisco as printed
        are "literal"; FedNova and the genie do not use it.
    seed : int
        >= 0.
    dataset : {1, 2}
        Features of the last request, or the last 10 labels.
    top_k : int
        K, similar files a staying user picks from, 1 to 19.
    features : {"synthetic", "cifar100"}
        The files' images: the data set's first of each class in the paper.
    model : str
        Name of `sflkit.models`; `preset` names the column of `buffered.PRESETS`, by default the one in the model's name, else
        "fcn" for Dataset-1 and "lstm" for Dataset-2.
    input_norm : float or None
        > 0. Dataset-1's features are standardised over the files (those of the user: over the users) and scaled to this root mean
        square norm; None leaves them raw, genre ids up to 4 in 70 columns. The paper does not say what its networks get. Raw
        inputs stop the ReLUs of a perceptron within a few rounds; with 20 the genie is near the ceiling after five.
    n_clients, rounds : int
        U = 100, T = 100.
    rate, global_rate, mu, slowdown, a, b : float or None
        Local rate eta and the rule's own parameters, > 0 (mu, a, b >= 0); None: the preset's ("fednova" and "genie" take
        M-FedAvg's rate). An option that the rule does not have must be None.
    chi : float
        >= 1, OSAFL's shift of the cosine; the paper leaves it open.
    minibatches, minibatch : int
        n = 32 mini-batches of n-bar = 5 samples in a local round.
    local_round : {"gradient", "minibatches"}
        One step on all n n-bar samples, or n steps (ERRATA 43).
    max_steps : int
        kappa = 5 local rounds at most.
    genie_steps : int
        Steps a round of the genie.
    allocator : {"joint", "alternating", "none"}
        `wireless.allocate`'s method, or max_steps for all.
    payload_bits : float or None
        >= 0; None: 33 bits a parameter of the model.
    capacity_low, capacity_high : int
        D_u is uniform between them, 320 and 640.
    test_size : int
        Test requests.
    evaluate_every : int
        Rounds between evaluations; the last round is always evaluated.
    """

    rule: str = "osafl"
    never_joined: str = "exclude"
    seed: int = 0
    dataset: int = 1
    top_k: int = 1
    features: str = "synthetic"
    model: str = "mlp"
    preset: str | None = None
    hidden: int | tuple[int, ...] | None = None
    channels: tuple[int, ...] | None = None
    layers: int | None = None
    embedding: int | None = None
    input_norm: float | None = 20.0
    n_clients: int = 100
    rounds: int = 100
    rate: float | None = None
    global_rate: float | None = None
    mu: float | None = None
    slowdown: float | None = None
    a: float | None = None
    b: float | None = None
    chi: float = 1.0
    minibatches: int = 32
    minibatch: int = 5
    local_round: str = "gradient"
    max_steps: int = 5
    genie_steps: int = 100
    allocator: str = "joint"
    payload_bits: float | None = None
    capacity_low: int = 320
    capacity_high: int = 640
    test_size: int = 2000
    evaluate_every: int = 1

    def __post_init__(self):
        for name, allowed in (("rule", RULES), ("never_joined", ("exclude", "zero", "literal")), ("dataset", (1, 2)),
                              ("features", ("synthetic", "cifar100")), ("preset", (None, *PRESET_NAMES)),
                              ("local_round", ("gradient", "minibatches")), ("allocator", ("joint", "alternating", "none"))):
            checks.choice(name, getattr(self, name), allowed)
        sizes = ("n_clients", "rounds", "minibatches", "minibatch", "max_steps", "genie_steps", "test_size", "evaluate_every")
        checks.integer_fields(self, {"seed": 0} | dict.fromkeys(sizes, 1))
        object.__setattr__(self, "top_k", checks.integer("top_k", self.top_k, 1, 19))
        low = max(27, self.minibatches * self.minibatch)  # at most 26 samples arrive a round; a local round repeats none
        object.__setattr__(self, "capacity_low", checks.integer("capacity_low", self.capacity_low, low))
        object.__setattr__(self, "capacity_high", checks.integer("capacity_high", self.capacity_high, self.capacity_low))
        for name in ("rate", "global_rate", "mu", "slowdown", "a", "b"):
            value = getattr(self, name)
            if value is not None:
                checks.real(name, value, **({"low": 0} if name in ("mu", "a", "b") else {"above": 0}))
                if name != "rate" and name not in OPTIONS[self.rule]:
                    raise ValueError(f"{name}={value!r} has no meaning for rule={self.rule!r}; it must be None")
        for name in _SIZES:
            value = getattr(self, name)
            if isinstance(value, (list, tuple)):
                object.__setattr__(self, name, tuple(checks.integer(name, entry, 1) for entry in value))
            elif value is not None:
                object.__setattr__(self, name, checks.integer(name, value, 1))
        checks.real("chi", self.chi, 1)
        if self.input_norm is not None:
            checks.real("input_norm", self.input_norm, above=0)
        if self.payload_bits is not None:
            checks.real("payload_bits", self.payload_bits, 0)

    @property
    def hyper(self) -> dict[str, float]:
        """The local rate and the rule's own parameters: those given, else the preset's."""
        from sflkit.buffered import PRESETS

        named = [name for name in PRESET_NAMES if name in self.model]
        column = PRESETS[self.preset or (named[0] if named else ("fcn", "lstm")[self.dataset - 1])]
        preset = column["m_fedavg" if self.rule in ("fednova", "genie") else self.rule]
        given = {name: getattr(self, name) for name in ("rate", *OPTIONS[self.rule])}
        return {name: preset[name] if value is None else value for name, value in given.items()}


def make_rule(config: OSAFLConfig, sizes: np.ndarray):
    """Return the config's server rule for clients of `sizes` (n_clients,) samples; None for the genie."""
    from sflkit import buffered

    n, hyper, never = config.n_clients, config.hyper, config.never_joined
    return {
        "osafl": lambda: buffered.OSAFL(n, hyper["global_rate"], config.chi, never),
        "m_fedavg": lambda: buffered.MFedAvg(n, never),
        "m_fedprox": lambda: buffered.MFedProx(n, hyper["mu"], never),
        "m_fednova": lambda: buffered.MFedNova(sizes, hyper["slowdown"]),
        "fednova": lambda: buffered.MFedNova(sizes, form="true"),
        "m_afa_cd": lambda: buffered.MAFACD(n, hyper["global_rate"], never),
        "m_feddisco": lambda: buffered.MFedDisco(n, never),
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
        round (from 1); accuracy and loss on the test set (NaN between evaluations); best_accuracy over the rounds so far and
        best_loss, the loss of that round (the last row has what the paper's tables list); participants and stragglers of the
        round (their sum is U; 0 for the genie), mean_kappa of the participants' local rounds (NaN without any); joined, clients
        that ever took part; mean_score (NaN but for OSAFL); diverged: from this round to the end the model is not finite, or its
        loss is above 10 times that of a uniform guess. A diverged row has no accuracy and does not count for the best.

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
        rows.append(row | {"participants": n, "stragglers": 0 if learner.rule is None else config.n_clients - n,
                           "mean_kappa": kappa[kappa > 0].mean() if n else np.nan, "joined": int(joined.sum()),
                           "mean_score": learner.mean_score() if n else np.nan})
    frame = _with_best(pd.DataFrame(rows), learner.n_files)
    frame.attrs["data"] = learner.samples.world.source | {"size": int(learner.samples.world.stores.capacity.sum()),
                                                          "test_size": config.test_size}
    return frame


def _with_best(frame: pd.DataFrame, n_classes: int) -> pd.DataFrame:
    """Mark the diverged tail, and put the best accuracy so far and its loss beside the accuracy and loss of every round."""
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
    for place, (name, values) in enumerate(zip(("best_accuracy", "best_loss"), zip(*running), strict=True), start=3):
        frame.insert(place, name, values)
    return frame


class _Learner:
    """The global model, the rule, and the round that trains it."""

    def __init__(self, config: OSAFLConfig, model):
        import torch

        from sflkit import engine, models, servers

        self.config, self.torch, self.engine, self.servers = config, torch, engine, servers
        device = "cuda" if torch.cuda.is_available() else "cpu"
        self.samples = osafl_clients.Samples(config, device)
        self.n_files = self.samples.world.catalogue.n_files
        if model is None:
            given = {name: getattr(config, name) for name in _SIZES if getattr(config, name) is not None}
            model = models.create(config.model, input_shape=self.samples.input_shape, n_classes=self.n_files, **given)
        self.task, self.hyper = engine.Task(model, osafl_clients.loss), config.hyper
        self.params = self.task.init(int(generator(config.seed, "model").integers(2**31))).to(device)
        self.sizes = self.samples.world.stores.capacity
        self.rule = make_rule(config, self.sizes)
        payload = BITS_A_PARAMETER * self.task.n_params if config.payload_bits is None else config.payload_bits
        self.steps = np.zeros((config.rounds, config.n_clients), dtype=np.int64)  # the genie's clients send their data
        if self.rule is not None:
            self.steps = osafl_clients.local_steps(config, payload)
        self.test = self.samples.test()
        self.memory = None

    def step(self, t: int, kappa: np.ndarray) -> bool:
        """Train one round; False if the model, or what a client sends, is no longer finite (the model then stays)."""
        if self.rule is None:
            batches = self.samples.union_batches(t, self.config.genie_steps)
            new = self.engine.local_sgd(self.task, self.params, [batches], self.hyper["rate"])[0]
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
        """Return the participants' updates, in memory that serves all rounds; a part of the clients' inputs exists at a time."""
        n = len(work.clients)
        if self.memory is None or len(self.memory) < n:
            self.memory = self.torch.empty(n, self.task.n_params, device=self.params.device)
        updates, options = self.memory[:n], self.rule.local_options(work)
        for part in self.samples.groups(work.clients, work.steps) if n else ():
            batches = [self.samples.local_batches(int(work.clients[i]), t, int(work.steps[i])) for i in part]
            self.engine.local_sgd(self.task, self.params, batches, work.rate, updates=True, out=updates[part[0]:part[-1] + 1],
                                  **options)
        return updates

    def _weights(self, t: int, clients: np.ndarray):
        if self.config.rule != "m_feddisco":
            return None
        from sflkit.scores import disco_weights, label_discrepancy

        apart = label_discrepancy(self.samples.label_counts(t))
        return disco_weights(self.sizes, apart, a=self.hyper["a"], b=self.hyper["b"])[clients]

    def _finite(self, values) -> bool:
        return bool(self.torch.isfinite(values.sum())) or bool(self.torch.isfinite(values).all())

    def mean_score(self) -> float:
        scores = getattr(self.rule, "scores", None)
        return float("nan") if scores is None else float(scores.mean())

    def evaluate(self):
        return self.engine.evaluate(self.task, self.params, *self.test)
