"""The training of several arms side by side: Algorithm 1 of FDS, lines 7-14.

Source: FDS (Federated Learning for Data Streams), Algorithm 1, (5)-(7), with ERRATA 27.

An arm is a strategy for the clients' importance, trained at a local rate; the module `training`
describes the whole run. All arms see the same samples and mini-batches, so that they can
be trained in one call of the engine.

| code       | symbol         | shape  | meaning                                               |
|------------|----------------|--------|-------------------------------------------------------|
| importance | p_m            | (A, M) | relative importance of each client in each arm        |
| lam        | lambda_m       | (A, M) | weight of a stored sample                             |
| picks      | xi_m^(t,e)     | lists  | where a step's mini-batch lies in the client's memory |
| totals     | sum_j lambda_j | (A, C) | participants' weights; normalised: p_m^(t), (5)       |
| mass       | sum of q^(s)   | (A,)   | weight of the rounds so far, not normalised, (6)      |
| params     | theta^(t)      | (A, P) | global model of each arm                              |
| averaged   | theta-bar      | (A, P) | sum of q^(s) theta^(s) over the rounds s <= t         |
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from sflkit import checks, federated, machine
from sflkit.data.federations import Federation
from sflkit.datastreams.config import DataStreamsConfig
from sflkit.federated import LocalWork, ServerRule, Task, own, servers
from sflkit.randomness import generator, model_seed

# Parameters that one call of the engine may train, 1 GiB; arms beyond it follow in further calls.
STACKED_NUMBERS = 2**28
EVALUATED_NUMBERS = 2**21  # inputs of one forward pass of the evaluation
MODEL_OPTIONS = ("hidden", "channels", "padding", "width")

SampleWeights = Callable[[int, int, np.ndarray, float], Any]


class Tensors:
    """A federation's samples as tensors on the device that trains."""

    def __init__(self, federation: Federation):
        self.device = machine.device()
        arrays = (federation.x, federation.y, federation.x_test, federation.y_test)
        with warnings.catch_warnings():
            # The arrays are read-only, and nothing here writes to the tensors that share them.
            warnings.filterwarnings("ignore", "The given NumPy array is not writable")
            self.x, self.y, self.x_test, self.y_test = (
                torch.as_tensor(np.asarray(array)).to(self.device) for array in arrays
            )

    def batch(self, ids: np.ndarray) -> tuple[Tensor, Tensor]:
        """Return inputs and labels of the training samples in the rows `ids`."""
        rows = torch.as_tensor(np.ascontiguousarray(ids)).to(self.device)
        return self.x[rows], self.y[rows]


class _Round(NamedTuple):
    """What the arms train on in one round."""

    clients: np.ndarray  # (C,) ids of the participants
    totals: np.ndarray  # (A, C)
    rows: np.ndarray | None  # (C, S, n) rows of x, the same in all arms; -1: no sample
    batches: list[list[list[tuple]]]  # or for each arm and participant the batch of each local step

    def of(self, jobs: list[_Job], data: Tensors) -> dict[str, Any]:
        """Return what the jobs' participants train on, as keywords of `local_sgd`."""
        if self.rows is None:
            return {"batches": [self.batches[job.arm][i] for job in jobs for i in job.used]}
        rows = np.concatenate([self.rows[job.used] for job in jobs])
        return {"data": (data.x, data.y), "rows": rows}


class _Job(NamedTuple):
    """The local training of one arm in one round."""

    arm: int
    used: np.ndarray  # positions in `_Round.clients` of the participants that have weight
    work: LocalWork
    prox: float
    corrections: Tensor | None


class Arms:
    """The global models of all arms, and the round that trains them.

    Parameters
    ----------
    config : DataStreamsConfig
        Its arms, rates, model, server and local training.
    federation : Federation
        The clients.
    importance : array (n_arms, n_clients)
        Relative importance p of the clients in each arm, rows on the simplex.
    memory_size : array (n_clients,)
        Samples that each client stores in the mean over the rounds, `arrivals.mean_memory`.
    weights, model, server
        The caller's own sample weights, network and server, see `training.run`.

    Attributes
    ----------
    params, averaged : tensor (n_arms, n_params)
        The last iterates, and the algorithm's outputs theta-bar.
    rules : list of ServerRule
        The server of each arm.
    diverged : bool array (n_arms,)
        Arms whose parameters are no longer finite; they stand still.

    Raises
    ------
    ValueError
        If one of the caller's own objects is not what it must be.
    """

    def __init__(
        self,
        config: DataStreamsConfig,
        federation: Federation,
        importance: np.ndarray,
        memory_size: np.ndarray,
        *,
        weights: SampleWeights | None = None,
        model: nn.Module | Callable | None = None,
        server: type | Callable | None = None,
    ):
        if weights is not None and not callable(weights):
            raise ValueError(
                f"weights of type {type(weights).__name__} must be a function (round, client, rows "
                "of x, p_m) that returns a weight for each row"
            )
        self.config = config
        self.federation = federation
        self.importance = importance
        self.weights = weights
        # ERRATA 27: p_m over the memory, not p_m / N_m. A client that is away, or has no sample, in
        # some rounds has a small mean.
        self.lam = np.divide(
            importance, memory_size, out=np.zeros_like(importance), where=memory_size > 0
        )
        options = {name: getattr(config, name) for name in MODEL_OPTIONS}
        shape, n_classes = federation.input_shape, federation.n_classes
        network = own.network(model, config.model, shape, n_classes, **options)
        self.task = Task(network)
        self._trained = self.task if weights is None else Task(network, weighted_loss)
        self.rules = build_servers(config, importance, server)
        self.data = Tensors(federation)
        self.start = self.task.init(model_seed(config.seed)).to(self.data.device)
        n_arms = len(config.arms)
        self.params = self.start.repeat(n_arms, 1)
        self.averaged = self.params.clone()
        self.mass = np.zeros(n_arms)
        self.diverged = np.zeros(n_arms, bool)

    def step(self, t: int, stored: dict[int, np.ndarray]) -> None:
        """Train on the rows stored in round t, {client: rows}: lines 7-14 of Algorithm 1.

        Raises
        ------
        ValueError
            If the caller's own weights or server answer with anything but what `training.run` asks
            of them.
        """
        if not stored:
            return
        config = self.config
        picks = [
            mini_batches(len(ids), config.batch_size, config.local_steps, config.seed, m, t)
            for m, ids in stored.items()
        ]
        if self.weights is None:
            this = self._with_equal_weights(stored, picks)
        else:
            this = self._with_own_weights(t, stored, picks, self.weights)
        active = np.flatnonzero(this.totals.any(axis=1) & ~self.diverged).tolist()
        size = max(1, STACKED_NUMBERS // (len(stored) * self.task.n_params))
        for first in range(0, len(active), size):
            self._train(active[first : first + size], this)

    def move(self, arm: int, updates: Tensor, weights: np.ndarray, work: LocalWork) -> None:
        """Take the clients' updates into an arm's average, (6), and its model, lines 13 and 14.

        Parameters
        ----------
        arm : int
            Position of the arm.
        updates : tensor (n_clients, n_params)
            Local models minus the global one.
        weights : array (n_clients,)
            Sum of the weights of each client's stored samples, > 0.
        work : LocalWork
            Who trained, and for how many steps.

        Raises
        ------
        ValueError
            If the arm's server does not return one number per parameter.
        """
        model = self.params[arm]
        share = weights.sum()
        self.mass[arm] += share
        # (6): the weight of round t goes to theta^(t), the model that the round began with.
        self.averaged[arm] += (model - self.averaged[arm]) * (share / self.mass[arm])
        new = self.rules[arm](model, updates, weights, work)
        new = self._project(
            self._tensor("what the server returns, the next parameters,", new, model.shape)
        )
        self.diverged[arm] = not _finite(new)
        self.params[arm] = new

    def evaluate(self, t: int) -> list[dict[str, Any]]:
        """Return one row per arm, with the columns of `training.run`, after round t."""
        scores = self._scores()
        historical = self.federation.historical
        rows = []
        for a, arm in enumerate(self.config.arms):
            loss, accuracy, loss_last, accuracy_last = scores[:, a]
            row = {"round": t, "arm": arm, "rate": self.config.rates[a]}
            row["p_hist"] = float(self.importance[a][historical].sum())
            row |= {"accuracy": accuracy, "loss": loss}
            row |= {"accuracy_last": accuracy_last, "loss_last": loss_last}
            rows.append(row | {"diverged": bool(self.diverged[a])})
        return rows

    def _with_equal_weights(
        self, stored: dict[int, np.ndarray], picks: list[list[np.ndarray]]
    ) -> _Round:
        """Every sample in a client's memory has the weight lambda_m.

        The step's gradient is then the mean over its mini-batch, and all arms share the rows.
        """
        sizes = [[len(one) for one in pick] for pick in picks]
        rows = np.full((*np.shape(sizes), np.max(sizes)), -1)
        for mine, ids, pick in zip(rows, stored.values(), picks, strict=True):
            mine[:, : len(pick[0])] = ids[np.stack(pick)]
        clients = np.array(list(stored), dtype=np.int64)
        totals = self.lam[:, clients] * np.array([len(ids) for ids in stored.values()])
        return _Round(clients, totals, rows, [])

    def _with_own_weights(
        self,
        t: int,
        stored: dict[int, np.ndarray],
        picks: list[list[np.ndarray]],
        weights: SampleWeights,
    ) -> _Round:
        """Every sample has the weight lambda_j that the caller gives it.

        The unbiased estimate of line 9 is the mini-batch mean of |I| lambda_j / (sum lambda) times
        the gradient of sample j.
        """
        totals = np.zeros((len(self.rules), len(stored)))
        batches: list[list[list[tuple]]] = []
        for a in range(len(self.rules)):
            batches.append([])
            for i, ((m, ids), pick) in enumerate(zip(stored.items(), picks, strict=True)):
                name = f"weights(round={t}, client={m})"
                given = weights(t, m, ids.copy(), float(self.importance[a, m]))
                lam = checks.array(name, given, ndim=1, low=0)
                checks.shape(name, lam, ids.shape)
                total = lam.sum()
                totals[a, i] = total
                factors = len(ids) * lam / total if total else lam
                batches[a].append([self._weighted_batch(ids[one], factors[one]) for one in pick])
        return _Round(np.array(list(stored), dtype=np.int64), totals, None, batches)

    def _weighted_batch(self, ids: np.ndarray, factors: np.ndarray) -> tuple[Tensor, Tensor]:
        x, y = self.data.batch(ids)
        columns = torch.as_tensor(factors, dtype=torch.float32, device=y.device)
        return x, torch.stack([y.float(), columns], 1)

    def _train(self, arms: list[int], this: _Round) -> None:
        """Train the given arms, those that ask for the same proximal term in one call."""
        alike: dict[float, list[_Job]] = {}
        for a in arms:
            job = self._job(a, this)
            if job.corrections is not None and not _finite(job.corrections):
                self.diverged[a] = True
            else:
                alike.setdefault(job.prox, []).append(job)
        for jobs in alike.values():
            self._train_together(jobs, this)

    def _job(self, a: int, this: _Round) -> _Job:
        """Return what the clients of an arm do in this round, as its server asks."""
        used = np.flatnonzero(this.totals[a])
        steps = np.full(len(used), self.config.local_steps)
        work = LocalWork(this.clients[used], steps, self.config.rates[a])
        options = own.local_options(self.rules[a], work)
        corrections = options.get("corrections")
        if corrections is not None:
            shape = (len(used), self.task.n_params)
            corrections = self._tensor("what the server corrects", corrections, shape)
        return _Job(a, used, work, options.get("prox", 0.0), corrections)

    def _train_together(self, jobs: list[_Job], this: _Round) -> None:
        """Train jobs with the same proximal term in one call, and move their models."""
        counts = [len(job.used) for job in jobs]
        arms = np.repeat([job.arm for job in jobs], counts)
        corrections = None
        if any(job.corrections is not None for job in jobs):
            none = torch.zeros_like(self.params[:1])
            rows = [
                none.expand(n, -1) if job.corrections is None else job.corrections
                for job, n in zip(jobs, counts, strict=True)
            ]
            corrections = torch.cat(rows)
        updates = federated.local_sgd(
            self._trained,
            self.params[torch.as_tensor(arms, device=self.params.device)],
            rate=np.array(self.config.rates)[arms],
            prox=jobs[0].prox,
            corrections=corrections,
            updates=True,
            **this.of(jobs, self.data),
        )
        for job, rows in zip(jobs, updates.split(counts), strict=True):
            self.move(job.arm, rows, this.totals[job.arm, job.used], job.work)

    def _tensor(self, name: str, value: Any, shape: tuple[int, ...]) -> Tensor:
        """Return an array of a server's as a tensor like the models, checked."""
        return checks.shape(name, torch.as_tensor(value).to(self.params), tuple(shape))

    def _project(self, params: Tensor) -> Tensor:
        """Return the nearest parameters in the ball around the initial model, line 14."""
        radius = self.config.radius
        if radius is None:
            return params
        away = params - self.start
        distance = float(away.norm())
        return self.start + away * (radius / distance) if distance > radius else params

    def _scores(self) -> np.ndarray:
        """Return loss and accuracy of the averaged outputs, then of the last iterates, (4, n_arms).

        Those of arms that diverged are NaN.
        """
        scores = np.full((4, len(self.diverged)), np.nan)
        alive = np.flatnonzero(~self.diverged)
        if len(alive):
            size = int(np.prod(self.federation.input_shape))
            loss, accuracy = federated.evaluate(
                self.task,
                torch.cat([self.averaged[alive], self.params[alive]]),
                self.data.x_test,
                self.data.y_test,
                weights=self.federation.test_weights,
                batch_size=min(2500, max(500, EVALUATED_NUMBERS // size)),
            )
            both = np.stack([loss, accuracy]).reshape(2, 2, -1)  # score, output or iterate, arm
            scores[:, alive] = both.swapaxes(0, 1).reshape(4, -1)
        return scores


def build_servers(
    config: DataStreamsConfig, importance: np.ndarray, server: type | Callable | None = None
) -> list[ServerRule]:
    """Return a new server rule for each arm.

    Parameters
    ----------
    config : DataStreamsConfig
        Its server and prox, used unless `server` is given.
    importance : array (n_arms, n_clients)
        Each arm's importance of the clients, which SCAFFOLD takes as its shares.
    server : class or callable, optional
        The caller's own, see `sflkit.federated.own`.

    Raises
    ------
    ValueError
        If `server` is not what `sflkit.federated.own` asks for, or gives the same object to two
        arms.
    """
    server = _registered_server if server is None else server
    rules = [own.build_server(server, config, shares.copy()) for shares in importance]
    owners = [f"arm {a} ({arm})" for a, arm in enumerate(config.arms)]
    own.check_not_shared("server", rules, owners)
    return rules


def _registered_server(config: DataStreamsConfig, shares: np.ndarray) -> ServerRule:
    row = servers.RULES[config.server]
    given = {"mu": config.prox, "n_clients": len(shares), "shares": shares}
    return row.build(**{name: given[name] for name in row.options if name in given})


def weighted_loss(outputs: Tensor, targets: Tensor) -> Tensor:
    """Return the cross-entropy of each sample times its factor, shape (n,).

    `targets` (n, 2) holds the labels and the factors.
    """
    labels = targets[:, :1].long()
    return -torch.log_softmax(outputs, 1).gather(1, labels).squeeze(1) * targets[:, 1]


def mini_batches(
    n: int, batch_size: int, steps: int, seed: int, client: int, t: int
) -> list[np.ndarray]:
    """Return for each local step the positions of its mini-batch among n stored samples.

    A mini-batch has min(K, n) of them, drawn without replacement. Source: FDS, Algorithm 1, line 8.
    """
    if batch_size >= n:
        return [np.arange(n)] * steps
    rng = generator(seed, "batches", int(client), t)
    return [rng.choice(n, batch_size, replace=False) for _ in range(steps)]


def _finite(value: Tensor) -> bool:
    return bool(torch.isfinite(value).all())
