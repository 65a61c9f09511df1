"""Learning, requests to forget, and recovery, for FATS, FRS and FR2. Source: FATS, Sections 6.1-6.2, Appendix A.

A run with training gives the accuracy over rounds that Figs. 1, 5 and 8 draw: R rounds of learning, the requests, and the
rounds that the method recomputes. FATS goes back to the model before the round of first use, the baselines to the start.
Without training (`train=False`) it gives the unlearning time of many histories, for Figs. 2, 3, 6 and Theorem 7.

Runs that differ only in the method start from the same model on the same clients and serve the same requests. The paper trains
with a rate of 0.001; with plain SGD, which its Algorithm 1 is, the CNN is then at 0.39 on MNIST after the 30 rounds of Table 2
(seed 0, 1000 test images), so figures of learning need a larger one.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from sflkit import checks, federations
from sflkit.histories import RULES, draw_history
from sflkit.randomness import generator
from sflkit.recomputation import LEVELS, first_uses

EXPERIMENT = "fats-training"
RESULT_VERSION = 1
METHODS = ("fats", "frs", "fr2")
_AT_LEAST_ONE = ("n_requests", "n_clients", "min_samples", "clients_per_round", "batch_size", "local_steps", "rounds",
                 "checkpoint_every", "test_size", "evaluate_every", "runs")
# FATS, Table 2: sizes of the paper's experiments. Samples a client are the mean, rounded down; images have 60 000 (ERRATA 21).
TABLE_2 = {
    "mnist": dict(n_clients=300, samples_per_client=200, clients_per_round=5, rounds=30, local_steps=10, batch_size=10),
    "fmnist": dict(n_clients=300, samples_per_client=200, clients_per_round=5, rounds=50, local_steps=10, batch_size=10),
    "cifar10": dict(n_clients=600, samples_per_client=100, clients_per_round=5, rounds=50, local_steps=10, batch_size=10),
    "cifar100": dict(n_clients=600, samples_per_client=100, clients_per_round=10, rounds=50, local_steps=10, batch_size=10),
    "femnist": dict(n_clients=3556, samples_per_client=228, clients_per_round=5, rounds=350, local_steps=20, batch_size=10),
    "shakespeare": dict(n_clients=660, samples_per_client=5573, clients_per_round=20, rounds=30, local_steps=100, batch_size=60),
}


@dataclass(frozen=True)
class FATSConfig:
    """One run of one method. Sizes are those of MNIST in FATS, Table 2; what the paper does not state is said.

    Parameters
    ----------
    method : {"fats", "frs", "fr2"}
    level : {"sample", "client"}
        What is forgotten.
    n_requests : int
        >= 1; the paper has 10 for MNIST and FEMNIST, 5 for the others, 1 in Figs. 2 and 6, 1-10 in Fig. 3.
    streaming : bool
        False: all at once (Section 6.2.1); True: one after another (Appendix A.5).
    interval : int
        Rounds between two requests of a stream, recovered or not; 0 (default): each comes when the one before is served. The
        paper does not state it. Only with training.
    rule : {"exact", "printed", "minimal"}
        How FATS's history forgets a sample (ERRATA 13, 16); without training always "exact".
    seed : int
        >= 0.
    data, model : str
        Names of `sflkit.federations` and `sflkit.models`; `width` scales "vgg16" and "mobilenetv2". "char_rnn" is the LSTM of
        Section 6.1.2.
    n_clients : int or None
        M = 300 for MNIST in Table 2, 100 in the text (ERRATA 21); None for all clients of a set with natural ones.
    samples_per_client : int or None
        N; None: what the data give, an even share for images. Must be given without training for samples (200 for MNIST).
    n_samples : int or None
        Cap of the training samples in all.
    min_samples : int
        Least samples of a natural client: 100 (Section 6.1.1); `batch_size` at least in any case.
    alpha : float
        > 0, Dirichlet parameter of the label mixes, 0.5.
    clients_per_round, batch_size, local_steps, rounds : int
        K, b, E, R.
    request_round : int or None
        Rounds after which the requests come, in [1, rounds]; None: after all. The paper chooses it by eye, when accuracy is
        stable.
    rate : float
        eta > 0; 0.001 for images, 0.8 for Shakespeare (Section 6.1.2).
    fisher_rate, fisher_momentum, fisher_decay, fisher_damping : float
        FR2's retraining (ERRATA 47), see `retraining.Fisher`; not stated.
    checkpoint_every : int
        k >= 1: a global model is kept before every k-th round.
    test_size : int
        At most so many test samples, drawn at random.
    evaluate_every : int
        Rounds between evaluations; models before and after a request and the last are always evaluated.
    train : bool
        False follows only who trains on what: no data set, no model.
    runs : int
        Histories of a run without training.
    """

    method: str = "fats"
    level: str = "sample"
    n_requests: int = 10
    streaming: bool = False
    interval: int = 0
    rule: str = "exact"
    seed: int = 0
    data: str = "mnist"
    model: str = "cnn"
    width: float = 1.0
    n_clients: int | None = 300
    samples_per_client: int | None = None
    n_samples: int | None = None
    min_samples: int = 100
    alpha: float = 0.5
    clients_per_round: int = 5
    batch_size: int = 10
    local_steps: int = 10
    rounds: int = 30
    request_round: int | None = None
    rate: float = 0.001
    fisher_rate: float = 0.001
    fisher_momentum: float = 0.9
    fisher_decay: float = 0.999
    fisher_damping: float = 0.01
    checkpoint_every: int = 1
    test_size: int = 2000
    evaluate_every: int = 1
    train: bool = True
    runs: int = 1000

    def __post_init__(self):
        for name, allowed in (("method", METHODS), ("level", LEVELS), ("rule", RULES), ("data", federations.NAMES[1:]),
                              ("streaming", (False, True)), ("train", (False, True))):
            checks.choice(name, getattr(self, name), allowed)
        lowest = {"seed": 0, "interval": 0} | dict.fromkeys(_AT_LEAST_ONE, 1) | {"samples_per_client": 1, "n_samples": 1}
        checks.integer_fields(self, lowest, optional=("n_clients", "samples_per_client", "n_samples"))
        if self.request_round is not None:
            object.__setattr__(self, "request_round", checks.integer("request_round", self.request_round, 1, self.rounds))
        for name in ("alpha", "rate", "fisher_rate", "fisher_damping", "width"):
            checks.real(name, getattr(self, name), above=0)
        for name in ("fisher_momentum", "fisher_decay"):
            checks.real(name, getattr(self, name), 0, below=1)
        if self.samples_per_client is not None:
            checks.integer("samples_per_client", self.samples_per_client, self.batch_size)
        if not self.train:
            if self.n_clients is None or (self.level == "sample" and self.samples_per_client is None):
                raise ValueError(f"n_clients={self.n_clients} and samples_per_client={self.samples_per_client} must be given "
                                 "without training, since no data are read")
            if self.method != "fats" and self.clients_per_round > self.n_clients:
                raise ValueError(f"clients_per_round={self.clients_per_round} must be at most n_clients={self.n_clients}")
        if self.interval and not (self.streaming and self.train):
            raise ValueError(f"interval={self.interval} must be 0 unless streaming and train are True")


def run(config: FATSConfig, *, federation=None, model=None, start=None) -> pd.DataFrame:
    """Run one method.

    Parameters
    ----------
    config : FATSConfig
    federation : sflkit.federations.Federation, optional
        Your own clients and data, in place of `data`, `n_clients` and the sizes.
    model : torch.nn.Module, optional
        Your own network.
    start : (P,) tensor, optional
        Your own first model, pretrained weights for instance; by default drawn from the seed.

    Returns
    -------
    DataFrame
        With training one row an evaluation: phase ("learning" or "recovery"), round (communication rounds so far, recomputed
        ones included), model_round (rounds that the evaluated model stands for), requests (sets of requests that have come),
        forgotten (samples and clients), accuracy, loss, and what forgetting has cost so far: unlearning_rounds,
        unlearning_steps (the paper's unlearning time), unlearning_seconds, unlearning_bytes (both ways), scratch_steps (FRS's, if
        each request were served to its end; with an `interval` the next one may come before).
        A request gives a row of phase "recovery" with the model it falls back to, `round` unchanged. During recovery the model
        holds nothing forgotten, but is not yet the one that is released.
        Without training one row a history: hits (requests that recompute), steps (unlearning time from the first use on, T - t_S
        or T - t_C), replayed_steps (from the kept model at or before it on, whole rounds), scratch_steps.

    Raises
    ------
    ValueError
        If the data do not fit the config, or so many requests cannot be served.
    FloatingPointError
        If the global model stops being finite.
    """
    return _train(config, federation, model, start) if config.train else _count(config)


def _count(config: FATSConfig) -> pd.DataFrame:
    steps, done = config.local_steps, config.request_round or config.rounds
    scratch = done * steps * (config.n_requests if config.streaming else 1)
    if config.method != "fats":
        whole = {"hits": config.n_requests if config.streaming else 1, "steps": scratch, "replayed_steps": scratch}
        return pd.DataFrame([{"run": i} | whole | {"scratch_steps": scratch} for i in range(config.runs)])
    first = first_uses(
        level=config.level, n_requests=config.n_requests, streaming=config.streaming, runs=config.runs,
        n_clients=config.n_clients, samples_per_client=config.samples_per_client or config.batch_size,
        clients_per_round=config.clients_per_round, batch_size=config.batch_size, local_steps=steps, rounds=config.rounds,
        rng=generator(config.seed, "monte_carlo"),
    )
    hit = first < done * steps
    kept = first // steps // config.checkpoint_every * config.checkpoint_every
    return pd.DataFrame({
        "run": np.arange(config.runs),
        "hits": hit.sum(axis=1),
        "steps": np.where(hit, done * steps - first, 0).sum(axis=1),
        "replayed_steps": np.where(hit, (done - kept) * steps, 0).sum(axis=1),
        "scratch_steps": scratch,
    })


def choose_requests(config: FATSConfig, sizes: np.ndarray) -> list[tuple]:
    """Return the requests of a run, (client, sample) or (client, None): random ones that can be served, the same for all methods.

    `sizes` (n_clients,) are the clients' samples. Clients: any `n_requests`, at least one is left. Samples: uniform over all,
    passing over those whose client would be left with fewer than a mini-batch. Raises ValueError if there are not so many.
    """
    rng = generator(config.seed, "requests")
    if config.level == "client":
        if config.n_requests >= len(sizes):
            raise ValueError(f"n_requests={config.n_requests} must be below {len(sizes)}, the number of clients")
        return [(int(k), None) for k in rng.permutation(len(sizes))[:config.n_requests]]
    ends, left, chosen = np.cumsum(sizes), np.array(sizes), []
    for number in rng.permutation(ends[-1]):
        k = int(np.searchsorted(ends, number, side="right"))
        if left[k] > config.batch_size:
            left[k] -= 1
            chosen.append((k, int(number - ends[k] + sizes[k])))
            if len(chosen) == config.n_requests:
                return chosen
    raise ValueError(f"n_requests={config.n_requests} must be at most {len(chosen)}: every client keeps batch_size="
                     f"{config.batch_size} samples")


def _train(config: FATSConfig, federation, model, start) -> pd.DataFrame:
    import torch

    from sflkit import engine, models, retraining, unlearning

    if federation is None:
        federation = federations.static(config.data, n_clients=config.n_clients, seed=config.seed, alpha=config.alpha,
                                        n_samples=config.n_samples, samples_per_client=config.samples_per_client,
                                        min_samples=max(config.min_samples, config.batch_size))
    if model is None:
        options = {"width": config.width} if config.model in ("vgg16", "mobilenetv2") else {}
        options |= {"cell": "lstm"} if config.model == "char_rnn" else {}
        model = models.create(config.model, input_shape=federation.input_shape, n_classes=federation.n_classes, **options)
    task, device = engine.Task(model), "cuda" if torch.cuda.is_available() else "cpu"
    start = task.init(int(generator(config.seed, "model").integers(2**31))) if start is None else start
    x, y = torch.tensor(federation.x, device=device), torch.tensor(federation.y, device=device)
    clients = [(x[ids], y[ids]) for ids in (torch.tensor(ids, device=device) for ids in federation.clients)]
    n_test = len(federation.y_test)
    chosen = generator(config.seed, "test_set").permutation(n_test)[:config.test_size]
    test = torch.tensor(federation.x_test[chosen], device=device), torch.tensor(federation.y_test[chosen], device=device)
    requests = choose_requests(config, federation.sizes)
    rng = generator(config.seed, "participation")
    draw = draw_history if config.method == "fats" else retraining.draw_fedavg
    history = draw(n_clients=federation.n_clients, samples_per_client=federation.sizes, rounds=config.rounds, rng=rng,
                   clients_per_round=config.clients_per_round, batch_size=config.batch_size, local_steps=config.local_steps)
    rows, round_, done = [], 0, config.request_round or config.rounds

    def record(state, phase, last):
        if state.rounds_done % config.evaluate_every and state.rounds_done != last:
            return
        loss, accuracy = engine.evaluate(task, state.models[state.rounds_done], *test)
        cost = state.ledger.recomputed
        rows.append({
            "phase": phase, "round": round_, "model_round": state.rounds_done, "requests": len(state.ledger.entries),
            "forgotten": len(state.history.forgotten), "accuracy": accuracy, "loss": loss, "unlearning_rounds": cost.rounds,
            "unlearning_steps": cost.steps, "unlearning_seconds": state.ledger.seconds,
            "unlearning_bytes": cost.bytes_down + cost.bytes_up, "scratch_steps": state.ledger.scratch.steps,
        })

    def after_round(phase, last):
        def on_round(state):
            nonlocal round_
            round_ += 1
            record(state, phase, last)
        return on_round

    fisher = retraining.Fisher(config.fisher_rate, config.fisher_momentum, config.fisher_decay, config.fisher_damping)
    state = unlearning.learn(task, clients, history, config.rate, start=start, method=config.method, fisher=fisher, rounds=done,
                             every=config.checkpoint_every, on_round=after_round("learning", done))
    sets = [[request] for request in requests] if config.streaming else [requests]
    for i, asked in enumerate(sets):
        state = unlearning.request(state, asked, rng, config.rule)
        record(state, "recovery", state.rounds_done)
        until = done if not config.interval or i == len(sets) - 1 else min(done, state.rounds_done + config.interval)
        if until > state.rounds_done:
            state = unlearning.resume(task, clients, state, until=until, on_round=after_round("recovery", until))
    frame = pd.DataFrame(rows)
    frame.attrs["data"] = {"name": federation.name, "digest": federation.digest, "size": int(federation.sizes.sum()),
                           "note": federation.note, "test_size": len(chosen)}
    return frame
