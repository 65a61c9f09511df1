"""The training of several arms side by side: Algorithm 1 of FDS, lines 7-14.

Source: FDS (Federated Learning for Data Streams), Algorithm 1, (5)-(7), with ERRATA 27.

An arm is a strategy for the clients' importance, trained at a local rate; the module `training`
describes the whole run. All arms see the same samples and mini-batches, so that they can
be trained in one call of the engine.

| code       | symbol         | shape  | meaning                                               |
|------------|----------------|--------|-------------------------------------------------------|
| importance | p_m            | (A, M) | relative importance of each client in each arm        |
| lam        | lambda_m       | (A, M) | weight of a stored sample                             |
| rows       | xi_m^(t,e)     | C,S,n  | where a step's mini-batch lies in all memories        |
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


class _Job(NamedTuple):
    """The local training of one arm in one round."""

    arm: int
    used: np.ndarray  # positions among the participants of those that have weight
    weights: np.ndarray  # their totals
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
        clients, together = np.array(list(stored)), np.concatenate(list(stored.values()))
        rows = self._rows(t, stored)
        if self.weights is None:  # all arms share the table, and a step's gradient is a mean
            totals = self.lam[:, clients] * np.array([len(ids) for ids in stored.values()])
            rows = np.where(rows < 0, -1, together[rows])
            tables = [(self.data.x, self.data.y)] * len(totals)
            size = max(1, STACKED_NUMBERS // (len(stored) * self.task.n_params))
        else:
            totals, factors = self._own_weights(t, stored, self.weights)
            x, y = self.data.batch(together)
            tables = [(x, torch.stack([y.float(), of_arm], 1)) for of_arm in factors.to(y.device)]
            size = 1
        active = np.flatnonzero(totals.any(axis=1) & ~self.diverged).tolist()
        for first in range(0, len(active), size):
            alike: dict[tuple, list[_Job]] = {}  # those that can be trained in one call
            for a in active[first : first + size]:
                job = self._job(a, clients, totals[a])
                if job.corrections is not None and not _finite(job.corrections):
                    self.diverged[a] = True
                else:
                    alike.setdefault((job.prox, job.corrections is None), []).append(job)
            for jobs in alike.values():
                self._train(jobs, tables[jobs[0].arm], rows)

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
        new = self._project(own.next_params(self.rules[arm], model, updates, weights, work))
        self.diverged[arm] = not _finite(new)
        self.params[arm] = new

    def evaluate(self, t: int) -> list[dict[str, Any]]:
        """Return one row per arm, with the columns of `training.run`, after round t."""
        names = ("accuracy", "loss", "accuracy_last", "loss_last")  # of the outputs, and iterates
        scores = np.full((len(self.diverged), len(names)), np.nan)
        alive = np.flatnonzero(~self.diverged)
        if n := len(alive):
            size = int(np.prod(self.federation.input_shape))
            loss, accuracy = federated.evaluate(
                self.task,
                torch.cat([self.averaged[alive], self.params[alive]]),
                self.data.x_test,
                self.data.y_test,
                weights=self.federation.test_weights,
                batch_size=min(2500, max(500, EVALUATED_NUMBERS // size)),
            )
            scores[alive] = np.stack([accuracy[:n], loss[:n], accuracy[n:], loss[n:]], axis=1)
        rows = []
        for a, arm in enumerate(self.config.arms):
            row = {"round": t, "arm": arm, "rate": self.config.rates[a]}
            row["p_hist"] = float(self.importance[a][self.federation.historical].sum())
            row |= dict(zip(names, scores[a], strict=True))
            rows.append(row | {"diverged": bool(self.diverged[a])})
        return rows

    def _rows(self, t: int, stored: dict[int, np.ndarray]) -> np.ndarray:
        """Return where the samples of each participant's mini-batches lie in all memories, one
        after the other, (C, S, n); -1: no sample."""
        config, start = self.config, 0
        rows = np.full((len(stored), config.local_steps, max(map(len, stored.values()))), -1)
        for mine, (m, ids) in zip(rows, stored.items(), strict=True):
            sizes = (len(ids), config.batch_size, config.local_steps)
            picks = mini_batches(*sizes, config.seed, m, t)
            mine[:, : len(picks[0])] = start + np.stack(picks)
            start += len(ids)
        return rows[:, :, : config.batch_size]

    def _own_weights(
        self, t: int, stored: dict[int, np.ndarray], weights: SampleWeights
    ) -> tuple[np.ndarray, Tensor]:
        """Return the sums of the caller's weights lambda_j, (A, C), and factors of all memories.

        The unbiased estimate of line 9 is the mini-batch mean of |I| lambda_j / (sum lambda) times
        the gradient of sample j.
        """
        totals = np.zeros((len(self.rules), len(stored)))
        factors: list[list[np.ndarray]] = [[] for _ in self.rules]
        for a, i in np.ndindex(totals.shape):
            m, ids = list(stored.items())[i]
            name = f"weights(round={t}, client={m})"
            lam = checks.array(name, weights(t, m, ids.copy(), float(self.importance[a, m])), low=0)
            totals[a, i] = total = checks.shape(name, lam, ids.shape).sum()
            factors[a].append(len(ids) * lam / total if total else lam)
        return totals, torch.tensor(np.stack([np.concatenate(f) for f in factors])).float()

    def _job(self, a: int, clients: np.ndarray, totals: np.ndarray) -> _Job:
        """Return what the clients of an arm do in this round, as its server asks."""
        used = np.flatnonzero(totals)
        steps = np.full(len(used), self.config.local_steps)
        work = LocalWork(clients[used], steps, self.config.rates[a])
        options = own.local_options(self.rules[a], work)
        corrections = options.get("corrections")
        if corrections is not None:
            shape = (len(used), self.task.n_params)
            corrections = torch.as_tensor(corrections).to(self.params)
            checks.shape("what the server corrects", corrections, shape)
        return _Job(a, used, totals[used], work, options.get("prox", 0.0), corrections)

    def _train(self, jobs: list[_Job], data: tuple[Tensor, Tensor], rows: np.ndarray) -> None:
        """Train jobs with one proximal term in one call, and move their models."""
        counts = [len(job.used) for job in jobs]
        arms = np.repeat([job.arm for job in jobs], counts)
        given = [job.corrections for job in jobs if job.corrections is not None]
        updates = federated.local_sgd(
            self._trained,
            self.params[torch.as_tensor(arms, device=self.params.device)],
            rate=np.array(self.config.rates)[arms],
            data=data,
            rows=np.concatenate([rows[job.used] for job in jobs]),
            prox=jobs[0].prox,
            corrections=torch.cat(given) if given else None,
            updates=True,
        )
        for job, own_updates in zip(jobs, updates.split(counts), strict=True):
            self.move(job.arm, own_updates, job.weights, job.work)

    def _project(self, params: Tensor) -> Tensor:
        """Return the nearest parameters in the ball around the initial model, line 14."""
        radius = self.config.radius
        if radius is None:
            return params
        away = params - self.start
        distance = float(away.norm())
        return self.start + away * (radius / distance) if distance > radius else params


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
    owners = [f"arm {a} ({arm})" for a, arm in enumerate(config.arms)]
    given = {owner: ((), (config, p.copy())) for owner, p in zip(owners, importance, strict=True)}
    return own.build_each("server", server, given, (), ("config", "shares"), ServerRule)


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
