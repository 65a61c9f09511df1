"""Learning, requests to forget, and recovery, for FATS, FRS and FR2.

Source: FATS, Sections 6.1-6.2, Appendix A.

A run with training gives the accuracy over rounds that Figs. 1, 5 and 8 draw: R rounds of learning,
the requests, and the rounds that the method recomputes. FATS goes back to the model before the
round of first use, the baselines to the start. Without training (`train=False`) it gives the
unlearning time of many histories, for Figs. 2, 3, 6 and Theorem 7.

Runs that differ only in the method start from the same model on the same clients and serve the same
requests. The paper trains with a rate of 0.001, at which its Algorithm 1 does not learn as its
figures show, and the sum of a mini-batch's gradients does (ERRATA 65).
"""

from __future__ import annotations

import copy
import functools
import threading
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from sflkit import checks
from sflkit.data import Dataset, federations
from sflkit.data.federations import Federation
from sflkit.fats.config import FATSConfig
from sflkit.fats.first_uses import first_uses
from sflkit.fats.history import Target
from sflkit.fats.methods import LEARNS_AS, METHODS
from sflkit.fats.sgd import SGD, Fisher
from sflkit.randomness import generator, model_seed

if TYPE_CHECKING:
    from torch import Tensor, nn

    from sflkit.fats.state import State
    from sflkit.federated import Task

    # A network, or what makes one: (input_shape, n_classes) -> network.
    Model = nn.Module | Callable[[tuple[int, ...], int], nn.Module]

EXPERIMENT = "fats-training"
RESULT_VERSION = 2
# One lock for each learning, see `_learnt`.
_locks: dict[FATSConfig, threading.Lock] = {}


def run(
    config: FATSConfig,
    *,
    data: Federation | Dataset | tuple | str | None = None,
    model: Model | None = None,
    start: ArrayLike | Tensor | None = None,
    stop_after: int | None = None,
) -> pd.DataFrame:
    """Run one method.

    Parameters
    ----------
    config : FATSConfig
    data : Federation, Dataset, arrays or str, optional
        Your own clients, in place of `data`, `n_clients` and the sizes of the config; or data that
        are dealt to clients as it says: (x, y), (x, y, x_test, y_test), a data set or a name, see
        `data.dataset`.
    model : torch.nn.Module, or class or function (input_shape, n_classes) -> Module, optional
        Your own network.
    start : tensor or array (P,), optional
        Your own first model, pretrained weights for instance; by default drawn from the seed.
    stop_after : int, optional
        The round of learning after which the run ends, before any request; at most the round of the
        requests, and only with training. Its rows are the first of the whole run's.

    Returns
    -------
    DataFrame
        With training one row per evaluation: phase ("learning" or "recovery"), round (communication
        rounds so far, recomputed ones included), model_round (rounds that the evaluated model
        stands for), requests (sets of requests that have come), forgotten (samples and clients),
        accuracy, loss, and what forgetting has cost so far: unlearning_rounds, unlearning_steps
        (the paper's unlearning time), unlearning_seconds, unlearning_bytes (both ways),
        scratch_steps (FRS's, if each request were served to its end; with an `interval` the next
        one may come before). A request gives a row of phase "recovery" with the model it falls back
        to, `round` unchanged. During recovery the model holds nothing forgotten, but is not yet the
        one that is released.

        Without training one row per history: hits (requests that recompute), steps (unlearning time
        from the first use on, T - t_S or T - t_C), replayed_steps (from the kept model at or before
        it on, whole rounds), scratch_steps.

    Raises
    ------
    ValueError
        If the data do not fit the config, so many requests cannot be served, `model` is no
        network, or `stop_after` is out of range.
    FloatingPointError
        If the global model stops being finite.
    """
    if not config.train:
        if stop_after is not None:
            raise ValueError(f"stop_after={stop_after!r} needs train=True")
        return _count(config)
    last = config.request_round or config.rounds
    last = last if stop_after is None else checks.last_round(stop_after, last)
    if data is None and model is None and start is None and stop_after is None:
        learnt = _learnt(_learning_part(config))
    else:
        learnt = _learn(config, federation_of(config, data), model, start, last)
    rows = learnt.record.rows if stop_after is not None else _served(config, learnt)
    frame = pd.DataFrame(rows)
    tested = min(config.test_size, len(learnt.federation.y_test))
    frame.attrs["data"] = learnt.federation.record | {"test_size": tested}
    return frame


def choose_requests(config: FATSConfig, sizes: np.ndarray) -> list[Target]:
    """Return the requests of a run: random ones that can be served, the same for all methods.

    Parameters
    ----------
    config : FATSConfig
        Of clients, any `n_requests` are chosen, so that at least one is left. Samples are chosen
        uniformly over all, passing over those whose client would be left with fewer than a
        mini-batch has.
    sizes : int array (n_clients,)
        The clients' samples.

    Returns
    -------
    list of (client, sample), or of (client, None)

    Raises
    ------
    ValueError
        If there are not so many.
    """
    rng = generator(config.seed, "requests")
    if config.level == "client":
        if config.n_requests >= len(sizes):
            raise ValueError(
                f"n_requests={config.n_requests} must be below {len(sizes)}, the number of clients"
            )
        return [(int(k), None) for k in rng.permutation(len(sizes))[: config.n_requests]]
    ends = np.cumsum(sizes)
    left = np.array(sizes)
    chosen: list[Target] = []
    for number in rng.permutation(ends[-1]):
        k = int(np.searchsorted(ends, number, side="right"))
        if left[k] > config.batch_size:
            left[k] -= 1
            chosen.append((k, int(number - ends[k] + sizes[k])))
            if len(chosen) == config.n_requests:
                return chosen
    raise ValueError(
        f"n_requests={config.n_requests} must be at most {len(chosen)}: every client keeps "
        f"batch_size={config.batch_size} samples"
    )


def _count(config: FATSConfig) -> pd.DataFrame:
    """Return the unlearning time of many histories; nothing is trained."""
    steps = config.local_steps
    done = config.request_round or config.rounds
    sets = config.n_requests if config.streaming else 1
    if METHODS[config.method].build().from_scratch:
        first = np.zeros((config.runs, sets), dtype=np.int64)
    else:
        sizes = "clients_per_round batch_size local_steps rounds n_clients".split()
        asked = ("level", "n_requests", "streaming", "runs")
        first = first_uses(
            **{name: getattr(config, name) for name in (*sizes, *asked)},
            # Requests for clients do not depend on it.
            samples_per_client=config.samples_per_client or config.batch_size,
            rng=generator(config.seed, "monte_carlo"),
        )
    hit = first < done * steps
    kept = first // steps // config.checkpoint_every * config.checkpoint_every
    return pd.DataFrame(
        {
            "run": np.arange(config.runs),
            "hits": hit.sum(axis=1),
            "steps": np.where(hit, done * steps - first, 0).sum(axis=1),
            "replayed_steps": np.where(hit, (done - kept) * steps, 0).sum(axis=1),
            "scratch_steps": done * steps * sets,
        }
    )


class _Record:
    """The rows of a run, and the communication rounds so far; `test` is a random choice of the
    test samples."""

    def __init__(self, config: FATSConfig, task: Task, federation: Federation):
        order = generator(config.seed, "test_set").permutation(len(federation.y_test))
        chosen = order[: config.test_size]
        self.test = federation.x_test[chosen], federation.y_test[chosen]
        self.task, self.every = task, config.evaluate_every
        self.round = 0
        self.rows: list[dict[str, Any]] = []

    def add(self, state: State, phase: str, last: int) -> None:
        """Evaluate the model and add a row, if it is this round's turn or the phase's last."""
        from sflkit import federated

        if state.rounds_done % self.every and state.rounds_done != last:
            return
        model = state.models[state.rounds_done]
        loss, accuracy = federated.evaluate(self.task, model, *self.test)
        cost = state.recomputed
        self.rows.append(
            {
                "phase": phase,
                "round": self.round,
                "model_round": state.rounds_done,
                "requests": len(state.log),
                "forgotten": len(state.history.forgotten),
                "accuracy": accuracy,
                "loss": loss,
                "unlearning_rounds": cost.rounds,
                "unlearning_steps": cost.steps,
                "unlearning_seconds": state.seconds,
                "unlearning_bytes": cost.bytes,
                "scratch_steps": state.scratch.steps,
            }
        )

    def after_rounds(self, phase: str, last: int) -> Callable[[State], None]:
        """Return what `learning.resume` calls after each round of a phase."""

        def on_round(state: State) -> None:
            self.round += 1
            self.add(state, phase, last)

        return on_round


class _Learnt(NamedTuple):
    """A run up to its first request. What it holds is shared by runs and must not be changed."""

    federation: Federation
    clients: list
    state: State
    record: _Record
    rng: np.random.Generator


def _learning_part(config: FATSConfig) -> FATSConfig:
    """Return the config that learns as this one, whatever is asked of it afterwards."""
    asked = dict(level="sample", n_requests=1, streaming=False, interval=0, rule="exact", runs=1)
    asked |= dict(per_request=1)
    fisher = {name: value for name, value in vars(FATSConfig()).items() if "fisher" in name}
    method = LEARNS_AS.get(config.method, config.method)
    return replace(config, method=method, **asked, **fisher)


def _learnt(config: FATSConfig) -> _Learnt:
    """Return a run up to its first request, learnt once for the levels and methods that share it.

    The models of a network as large as the paper's take some 200 MB, so that only the last few runs
    are kept."""
    with _locks.setdefault(config, threading.Lock()):  # others wait instead of doing the same
        return _shared(config)


@functools.lru_cache(maxsize=4)
def _shared(config: FATSConfig) -> _Learnt:
    return _learn(config, federation_of(config), None, None, config.request_round or config.rounds)


def _learn(
    config: FATSConfig, federation: Federation, model: Model | None, start: Any, last: int
) -> _Learnt:
    """Train until round `last`."""
    from sflkit.fats import learning
    from sflkit.federated import Task, own

    options = {"cell": "lstm"} if config.model == "char_rnn" else {}
    if config.model in ("vgg16", "mobilenetv2"):
        options = {"width": config.width}
    shape, n_classes = federation.input_shape, federation.n_classes
    task = Task(own.network(model, config.model, shape, n_classes, **options))
    choose_requests(config, federation.sizes)  # refuses what cannot be served before the long part
    record = _Record(config, task, federation)
    clients = [(federation.x[ids], federation.y[ids]) for ids in federation.clients]
    rng = generator(config.seed, "participation")
    sizes = ("clients_per_round", "batch_size", "local_steps", "rounds")
    method = METHODS[config.method].build()
    history = method.draw(
        n_clients=federation.n_clients,
        samples_per_client=federation.sizes,
        rng=rng,
        **{name: getattr(config, name) for name in sizes},
    )
    state = learning.learn(
        task,
        clients,
        history,
        config.rate,
        start=task.init(model_seed(config.seed)) if start is None else start,
        method=config.method,
        fisher=_fisher(config),
        sgd=SGD(config.reduction, config.momentum, config.weight_decay),
        rounds=last,
        every=config.checkpoint_every,
        on_round=record.after_rounds("learning", config.request_round or config.rounds),
    )
    return _Learnt(federation, clients, state, record, rng)


def _fisher(config: FATSConfig) -> Fisher:
    return Fisher(
        config.fisher_rate, config.fisher_momentum, config.fisher_decay, config.fisher_damping
    )


def _served(config: FATSConfig, learnt: _Learnt) -> list[dict[str, Any]]:
    """Forget what is asked, at once or one after another; return the rows of the whole run."""
    from sflkit.fats import learning

    requests = choose_requests(config, learnt.federation.sizes)
    state = learning.served_by(learnt.state, config.method, _fisher(config))
    rng, record = copy.deepcopy(learnt.rng), copy.copy(learnt.record)
    record.rows = list(record.rows)
    # With an interval learning goes on while requests come, to the R rounds of the config.
    done = config.rounds if config.interval else state.rounds_done
    each = config.per_request if config.streaming else len(requests)
    sets = [requests[i : i + each] for i in range(0, len(requests), each)]
    for i, asked in enumerate(sets):
        state = learning.request(state, asked, rng, config.rule)
        record.add(state, "recovery", state.rounds_done)
        until = done
        if config.interval and i < len(sets) - 1:  # the next request comes before the end
            until = min(done, state.rounds_done + config.interval)
        if until > state.rounds_done:
            on_round = record.after_rounds("recovery", until)
            state = learning.resume(
                record.task, learnt.clients, state, until=until, on_round=on_round
            )
    return record.rows


def federation_of(config: FATSConfig, data: Any = None) -> Federation:
    """Return the clients and data of a config, of `data` in place of its own if given; see `run`.

    Raises
    ------
    ValueError
        As `federations.static`.
    """
    if isinstance(data, Federation):
        return data
    return federations.static(
        config.data if data is None else data,
        n_clients=config.n_clients,
        seed=config.seed,
        alpha=config.alpha,
        n_samples=config.n_samples,
        samples_per_client=config.samples_per_client,
        min_samples=max(config.min_samples, config.batch_size),
    )
