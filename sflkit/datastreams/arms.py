"""The training of several arms in one stacked call, Algorithm 1 of FDS, lines 7-14;
`sflkit.datastreams.training` describes the run.

| code       | symbol         | shape  | meaning                                                                          |
|------------|----------------|--------|----------------------------------------------------------------------------------|
| importance | p_m            | (A, M) | relative importance of each client in each arm                                   |
| lam        | lambda_m       | (A, M) | weight of a stored sample                                                        |
| picks      | xi_m^(t,e)     | lists  | positions of the samples of each local step's mini-batch in the client's memory  |
| totals     | sum_j lambda   | (A, C) | weight of each participant; over its sum: aggregation weights p_m^(t), (5)       |
| mass       | sum of q^(s)   | (A,)   | weight of the rounds so far, before normalising, (6)                             |
| params     | theta^(t)      | (A, P) | global model of each arm                                                         |
| averaged   | theta-bar      | (A, P) | sum of q^(s) theta^(s) over the rounds s <= t                                    |
"""

from __future__ import annotations

import warnings

import numpy as np

from sflkit import checks
from sflkit.randomness import generator

_STACKED_NUMBERS = (
    2**28
)  # parameters that one call may train, 1 GiB; arms beyond it follow in further calls


_EVALUATED_NUMBERS = 2**21  # inputs of one forward pass of the evaluation


def initial(task, seed: int):
    """Return theta^(1), the initial parameters (P,) of every arm of a run with this seed."""
    return task.init(int(generator(seed, "model").integers(2**31)))


class Tensors:
    """The training samples on the device that trains."""

    def __init__(self, federation):
        import torch

        self.device = "cuda" if torch.cuda.is_available() else "cpu"
        with (
            warnings.catch_warnings()
        ):  # the arrays are read-only, and nobody writes to the tensors
            warnings.filterwarnings("ignore", "The given NumPy array is not writable")
            self.x, self.y, self.x_test, self.y_test = (
                torch.as_tensor(a).to(self.device)
                for a in (federation.x, federation.y, federation.x_test, federation.y_test)
            )
        self.index = torch.as_tensor

    def batch(self, ids: np.ndarray) -> tuple:
        ids = self.index(np.ascontiguousarray(ids)).to(self.device)
        return self.x[ids], self.y[ids]


class Arms:
    """The global models of all arms, and the round that trains them."""

    def __init__(self, config, federation, importance, memory_size, weights, model, server=None):
        import torch

        from sflkit import federated, models
        from sflkit.federated import servers

        self.torch, self.federated, self.config, self.federation, self.weights = (
            torch,
            federated,
            config,
            federation,
            weights,
        )
        self.importance = importance
        # ERRATA 27: p_m over the memory, not p_m / N_m. A client that is away, or has no sample, in
        # some rounds has a small mean.
        self.lam = np.divide(
            self.importance, memory_size, out=np.zeros_like(self.importance), where=memory_size > 0
        )
        if model is None:
            given = {
                name: getattr(config, name) for name in ("hidden", "channels", "padding", "width")
            }
            given = {name: value for name, value in given.items() if value is not None}
            model = models.create(
                config.model,
                input_shape=federation.input_shape,
                n_classes=federation.n_classes,
                **given,
            )
        self.task = federated.Task(model)
        self.weighted_task = federated.Task(model, _weighted_loss)
        self.data, self.work = Tensors(federation), servers.LocalWork
        server = (
            server
            or {
                "fedavg": lambda p: servers.FedAvg(),
                "fedprox": lambda p: servers.FedProx(config.prox),
                "scaffold": lambda p: servers.Scaffold(len(p), p),
            }[config.server]
        )
        self.rules = [
            server(p.copy()) for p in self.importance
        ]  # one an arm: a rule may keep state between rounds
        self.start = initial(self.task, config.seed).to(self.data.device)
        self.params = self.start.repeat(len(config.arms), 1)
        self.averaged, self.mass = self.params.clone(), np.zeros(len(config.arms))
        self.diverged = np.zeros(len(config.arms), bool)
        self._whole = {}  # a historical client's batch of all its samples

    def step(self, t: int, stored: dict[int, np.ndarray]) -> None:
        """Train on what is stored in round t (lines 7-14 of Algorithm 1)."""
        clients = np.array(list(stored), dtype=np.int64)
        if not len(clients):
            return
        picks = [
            mini_batches(
                len(ids), self.config.batch_size, self.config.local_steps, self.config.seed, m, t
            )
            for m, ids in stored.items()
        ]
        totals, batches = (self._default if self.weights is None else self._own)(
            t, stored, clients, picks
        )
        active = [a for a in range(len(totals)) if totals[a].any() and not self.diverged[a]]
        size = max(1, _STACKED_NUMBERS // (len(clients) * self.task.n_params))
        for first in range(0, len(active), size):
            self._train(active[first : first + size], clients, totals, batches)

    def _default(self, t, stored, clients, picks):
        """Equal weights inside a client: the step's gradient is the mini-batch mean, and all arms
        share the batches.
        """
        shared = []
        for (m, ids), pick in zip(stored.items(), picks, strict=True):
            whole = len(pick[0]) == len(ids)
            if whole and self.federation.historical[m]:
                if m not in self._whole:
                    self._whole[m] = self.data.batch(ids)
                shared.append([self._whole[m]] * len(pick))
            else:
                shared.append(
                    [self.data.batch(ids)] * len(pick)
                    if whole
                    else [self.data.batch(ids[one]) for one in pick]
                )
        totals = self.lam[:, clients] * np.array([len(ids) for ids in stored.values()])
        return totals, [shared] * len(totals)

    def _own(self, t, stored, clients, picks):
        """The caller's lambda: the unbiased estimate of line 9 is the mini-batch mean of |I|
        lambda_j / (sum lambda) grad l_j.
        """
        totals, batches = np.zeros((len(self.rules), len(clients))), []
        for a in range(len(self.rules)):
            batches.append([])
            for i, ((m, ids), pick) in enumerate(zip(stored.items(), picks, strict=True)):
                p = float(self.importance[a, m])
                lam = checks.array(
                    f"weights(round={t}, client={m})",
                    self.weights(t, m, ids.copy(), p),
                    ndim=1,
                    low=0,
                )
                if lam.shape != ids.shape:
                    raise ValueError(
                        f"weights(round={t}, client={m}) has shape {lam.shape}; it must be {ids.shape}"
                    )
                totals[a, i] = total = lam.sum()
                factors = len(ids) * lam / total if total else lam
                batches[a].append([self._weighted_batch(ids[one], factors[one]) for one in pick])
        return totals, batches

    def _weighted_batch(self, ids, factors):
        x, y = self.data.batch(ids)
        return x, self.torch.stack(
            [y.float(), self.torch.as_tensor(factors, dtype=self.torch.float32, device=y.device)], 1
        )

    def _train(self, arms: list[int], clients, totals, batches) -> None:
        """Train the given arms, in one call where they ask for the same proximal term, and move
        their models.
        """
        jobs = {}
        for a in arms:
            used = np.flatnonzero(totals[a])
            work = self.work(
                clients[used], np.full(len(used), self.config.local_steps), self.config.rates[a]
            )
            options = self.rules[a].local_options(work)
            if not set(options) <= {"prox", "corrections"}:
                raise ValueError(
                    f"local_options={sorted(options)} of the server must be among 'prox' and 'corrections'"
                )
            if "corrections" not in options or self._finite(options["corrections"]):
                jobs.setdefault(options.get("prox", 0.0), []).append((a, used, work, options))
            else:
                self.diverged[a] = True
        for prox, same in jobs.items():
            self._train_together(same, prox, totals, batches)

    def _train_together(self, jobs: list[tuple], prox: float, totals, batches) -> None:
        keywords = {"prox": prox}
        if any("corrections" in options for *_, options in jobs):
            zero = self.torch.zeros_like
            keywords["corrections"] = self.torch.cat(
                [
                    options.get("corrections", zero(self.params[:1]).expand(len(used), -1))
                    for _, used, _, options in jobs
                ]
            )
        counts = [len(used) for _, used, _, _ in jobs]
        index = self.torch.as_tensor(
            np.repeat([a for a, *_ in jobs], counts), device=self.params.device
        )
        updates = self.federated.local_sgd(
            self.task if self.weights is None else self.weighted_task,
            self.params[index],
            [batches[a][i] for a, used, _, _ in jobs for i in used],
            np.repeat([self.config.rates[a] for a, *_ in jobs], counts),
            updates=True,
            **keywords,
        )
        for (a, used, work, _), rows in zip(jobs, updates.split(counts), strict=True):
            weight = totals[a, used]
            self.mass[a] += weight.sum()
            self.averaged[a] += (self.params[a] - self.averaged[a]) * (
                weight.sum() / self.mass[a]
            )  # (6): theta^(t) counts
            new = self._project(self.rules[a](self.params[a], rows, weight, work))
            self.diverged[a] = not self._finite(new)
            self.params[a] = new

    def _project(self, params):
        if self.config.radius is None:
            return params
        away = params - self.start
        distance = float(away.norm())
        return (
            self.start + away * (self.config.radius / distance)
            if distance > self.config.radius
            else params
        )

    def _finite(self, value) -> bool:
        return bool(self.torch.isfinite(value).all())

    def evaluate(self, t: int) -> list[dict]:
        alive = np.flatnonzero(~self.diverged)
        scores = np.full(
            (4, len(self.diverged)), np.nan
        )  # loss, accuracy of the averaged outputs, then of the last iterates
        if len(alive):
            size = int(np.prod(self.federation.input_shape))
            both = self.torch.cat([self.averaged[alive], self.params[alive]])
            loss, accuracy = self.federated.evaluate(
                self.task,
                both,
                self.data.x_test,
                self.data.y_test,
                weights=self.federation.test_weights,
                batch_size=min(2500, max(500, _EVALUATED_NUMBERS // size)),
            )
            scores[:, alive] = (
                np.stack([loss, accuracy]).reshape(2, 2, -1).swapaxes(0, 1).reshape(4, -1)
            )
        return [
            {
                "round": t,
                "arm": arm,
                "rate": self.config.rates[a],
                "p_hist": float(p[self.federation.historical].sum()),
                "accuracy": scores[1, a],
                "loss": scores[0, a],
                "accuracy_last": scores[3, a],
                "loss_last": scores[2, a],
                "diverged": bool(self.diverged[a]),
            }
            for a, (arm, p) in enumerate(zip(self.config.arms, self.importance, strict=True))
        ]


def _weighted_loss(outputs, targets):
    """Cross-entropy of labels targets[:, 0], each times its factor targets[:, 1]."""
    import torch

    labels = targets[:, :1].long()
    return -torch.log_softmax(outputs, 1).gather(1, labels).squeeze(1) * targets[:, 1]


def mini_batches(
    n: int, batch_size: int, steps: int, seed: int, client: int, t: int
) -> list[np.ndarray]:
    """Return the positions of each local step's mini-batch among n stored samples: min(K, n)
    without replacement (line 8).
    """
    if batch_size >= n:
        return [np.arange(n)] * steps
    rng = generator(seed, "batches", int(client), t)
    return [rng.choice(n, batch_size, replace=False) for _ in range(steps)]
