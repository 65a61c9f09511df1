"""The clients of an OSAFL run: what they request and store, how many steps they can take, and their
mini-batches.

Source: OSAFL, Sections II-A, II-C and V-A, Appendix D-A; ERRATA 34 to 36, 40, 43. Everything here
depends on the seed and the sizes, never on the server's rule, so that rules of one seed see the
same requests, stores, channel and mini-batches.

A local step, ERRATA 43: n = 32 is the number of mini-batches and n-bar = 5 their size, and the time
of a local round is that of n n-bar = 160 samples; (15) and (16) take one gradient a local round. So
a local round is one SGD step on the mean gradient of n n-bar distinct samples of the store
("gradient"); "minibatches" is the other reading, n steps of n-bar samples. Requests repeat
themselves: of Dataset-1's 160 samples a step some 40 inputs differ. Each is computed once, weighs
its number, and its target is the shares of the labels that followed it (`loss`), which is the same
gradient.

| code       | symbol          | shape               | meaning                                                                |
|------------|-----------------|---------------------|------------------------------------------------------------------------|
| requests   |                 | (U, n)              | file ids that each user asks for, in order                             |
| windows    |                 | (rounds, U, 2)      | samples a store holds in a round: first, and one past the last         |
| steps      | kappa_u^t       | (rounds, U)         | local rounds a client can take; 0: straggler                           |
| past       | L               | scalar              | labels from which Dataset-2 predicts the next; 1 request in Dataset-1  |
"""

from __future__ import annotations

import dataclasses
import functools
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from sflkit import data
from sflkit.osafl import allocation, channels, video
from sflkit.osafl.devices import Link
from sflkit.osafl.stores import Stores, draw_stores, fifo_windows
from sflkit.randomness import generator

if TYPE_CHECKING:
    from sflkit.osafl.config import OSAFLConfig


_PAST = {1: 1, 2: 10}


_SAMPLE_BITS = {1: 101376, 2: 7}  # Table I; ERRATA 40: a label of 100 files needs 7 bits


_BYTES_A_CALL = 2**28  # inputs of so many clients that one call of local_sgd holds


_N_FILES = 100


class World(NamedTuple):
    """Everything random of a seed but channel and mini-batches; `source` names where the files'
    features come from.
    """

    catalogue: video.Catalogue
    users: video.Users
    stores: Stores
    windows: np.ndarray
    requests: np.ndarray
    test_requests: np.ndarray
    source: dict


def world(config: OSAFLConfig) -> World:
    """Return the requests, stores and test requests of the config; the last few are kept."""
    n_test = -(-config.test_size // config.n_clients) + _PAST[config.dataset]
    return _world(
        config.seed,
        config.n_clients,
        config.rounds,
        config.top_k,
        config.features,
        config.capacity_low,
        config.capacity_high,
        _PAST[config.dataset],
        n_test,
    )


@functools.lru_cache(maxsize=4)
def _world(seed, n_clients, rounds, top_k, features, low, high, past, n_test) -> World:
    images, source = None, {"name": "video", "digest": "synthetic images"}
    if features == "cifar100":
        found = data.load("cifar100")
        if found.n_classes < _N_FILES:
            raise ValueError(
                f"features='cifar100' needs an image of each of {_N_FILES} classes, not {found.n_classes}"
            )
        first = [int(np.flatnonzero(found.y_train == label)[0]) for label in range(_N_FILES)]
        images, source = (
            found.x_train[first].transpose(0, 3, 1, 2) / np.float32(255),
            {"name": "video", "digest": found.digest},
        )
    files = video.catalogue(images, n_files=_N_FILES, rng=generator(seed, "data"))
    users = video.draw_users(n_clients, files.n_genres, generator(seed, "data", 1))
    held = draw_stores(n_clients, generator(seed, "samples"), capacity_range=(low, high))
    windows = fifo_windows(held, rounds, generator(seed, "arrivals"))
    asked = video.request_files(
        files, users, int(windows[-1, :, 1].max()) + past, generator(seed, "requests"), top_k=top_k
    )
    test = video.request_files(files, users, n_test, generator(seed, "test_set"), top_k=top_k)
    return World(files, users, held, windows, asked, test, source)


def local_steps(config: OSAFLConfig, payload_bits: float) -> np.ndarray:
    """Return how many local rounds each client can take in each round, int (rounds, n_clients); 0
    makes it a straggler.

    Distances and hardware stay for a run, shadowing is drawn every round; allocator "none" gives
    every client max_steps, and "alternating" starts where the sizes of the networks were chosen
    (`sflkit.osafl.networks.START`, ERRATA 35)."""
    if config.allocator == "none":
        return np.full((config.rounds, config.n_clients), config.max_steps)
    return _local_steps(
        config.seed,
        config.n_clients,
        config.rounds,
        config.allocator,
        float(payload_bits),
        config.max_steps,
        _SAMPLE_BITS[config.dataset],
        config.minibatches * config.minibatch,
    )


@functools.lru_cache(maxsize=8)
def _local_steps(
    seed, n_clients, rounds, allocator, payload_bits, max_steps, sample_bits, samples
) -> np.ndarray:
    distance = channels.draw_distances(n_clients, generator(seed, "channel"))
    link = Link(payload_bits, max_steps=max_steps)
    devices = channels.draw_devices(
        n_clients, generator(seed, "channel", 0), snr=0.0, sample_bits=sample_bits, samples=samples
    )
    steps = np.empty((rounds, n_clients), dtype=np.int64)
    from sflkit.osafl import networks

    start = networks.START if allocator == "alternating" else None
    for t in range(rounds):
        shadowing = channels.draw_shadowing_db(n_clients, generator(seed, "channel", 1, t))
        devices = dataclasses.replace(
            devices, snr_per_watt=channels.snr_per_watt(distance, shadowing)
        )
        steps[t] = allocation.allocate(devices, link, allocator, start=start).local_steps
    steps.flags.writeable = False
    return steps


def ceiling(config: OSAFLConfig) -> float:
    """Return the accuracy on the test requests of a predictor that knows each user's law, in
    expectation (Dataset-1).

    For Dataset-2 it is the same number: the law is of order 1, so that older requests tell no more.
    What a network can reach there is less, since it does not see the user."""
    w, past = world(config), _PAST[config.dataset]
    last = w.test_requests[:, past - 1 : -1]
    law = video.request_matrix(w.catalogue, w.users, top_k=config.top_k).max(axis=2)
    return float(np.take_along_axis(law, last, axis=1).mean())


def loss(outputs, targets):
    """Return each row's cross-entropy (n,): targets are labels (n,), or shares of the labels (n,
    n_files).
    """
    import torch

    log_shares = torch.log_softmax(outputs, 1)
    if targets.is_floating_point():
        return -(log_shares * targets).sum(1)
    return -log_shares.gather(1, targets.unsqueeze(1)).squeeze(1)


class Samples:
    """Makes the inputs of any samples on demand: Dataset-1 would be 600 MB for the stores of one
    round.

    A sample is named by its user and the position of its label in the user's requests. Dataset-1's
    input is one row for each file (the last request) with the user's own columns written over it.
    """

    def __init__(self, config: OSAFLConfig, device: str):
        import torch

        self.torch, self.config, self.world, self.past, self.device = (
            torch,
            config,
            world(config),
            _PAST[config.dataset],
            device,
        )
        files, users = self.world.catalogue, self.world.users
        if config.dataset == 1:
            every = np.arange(files.n_files)
            rows, _ = video.dataset_1(files, users, 0, np.append(every, 0))
            self.rows = torch.from_numpy(rows).to(device)
            start = files.features.shape[1]
            self.own = torch.tensor(
                [*range(start, start + files.n_genres), rows.shape[1] - 1], device=device
            )
            values = np.concatenate([users.preferences, users.stick[:, None]], axis=1)
            self.values = torch.from_numpy(values.astype(np.float32)).to(device)
            if config.input_norm is not None:
                self._standardise(config.input_norm)

    def _standardise(self, norm: float) -> None:
        self.rows[:, self.own] = 0  # constant over the files: not counted twice
        spreads = []
        for columns in (self.rows, self.values):
            spread = columns.std(dim=0, correction=0)
            columns.sub_(columns.mean(dim=0)).div_(spread.where(spread > 0, 1))
            spreads.append(int((spread > 0).sum()))
        for columns in (self.rows, self.values):
            columns.mul_(norm / sum(spreads) ** 0.5)

    @property
    def input_shape(self) -> tuple[int]:
        return (self.rows.shape[1],) if self.config.dataset == 1 else (self.past,)

    def batch(self, user: int, labels_at: np.ndarray) -> tuple:
        """Return the user's stored samples whose labels lie at `labels_at`, as a step for
        `federated.local_sgd` with `loss`.

        Parameters
        ----------
        labels_at : int array (n,), each at least `past`.

        Returns
        -------
        x, y, weights : Dataset-1: the distinct inputs, the shares (rows, n_files) of the labels that follow each, and its number
            of samples.
        x, y : Dataset-2, whose inputs hardly ever repeat: all n samples with their labels.
        """
        requests = self.world.requests[user]
        if self.config.dataset == 2:
            return self._tensors(user, requests[labels_at[:, None] + np.arange(-self.past, 1)])
        n_files = self.world.catalogue.n_files
        files, row, counts = np.unique(
            requests[labels_at - 1], return_inverse=True, return_counts=True
        )
        cells = np.bincount(
            row * n_files + requests[labels_at], minlength=len(files) * n_files
        ).reshape(-1, n_files)
        shares = (cells / counts[:, None]).astype(np.float32)
        return (
            self._rows(user, files),
            *(
                self.torch.from_numpy(v).to(self.device)
                for v in (shares, counts.astype(np.float32))
            ),
        )

    def _tensors(self, user: int, pairs: np.ndarray) -> tuple:
        before = self.torch.from_numpy(pairs[:, :-1]).to(self.device)
        label = self.torch.from_numpy(pairs[:, -1].copy()).to(self.device)
        return before.contiguous() if self.config.dataset == 2 else self._rows(
            user, pairs[:, 0]
        ), label

    def _rows(self, user: int, files: np.ndarray):
        x = self.rows[self.torch.from_numpy(files).to(self.device)]
        x[:, self.own] = self.values[user]
        return x

    def test(self) -> tuple:
        """Return inputs and labels of the test set, test_size samples, as many a user up to one."""
        at = np.arange(self.past, self.world.test_requests.shape[1])
        parts = []
        for user, requests in enumerate(self.world.test_requests):
            share = self.config.test_size // self.config.n_clients + (
                user < self.config.test_size % self.config.n_clients
            )
            if share:
                parts.append(
                    self._tensors(user, requests[at[:share, None] + np.arange(-self.past, 1)])
                )
        return tuple(self.torch.cat(column) for column in zip(*parts, strict=True))

    def local_batches(self, user: int, t: int, n_rounds: int) -> list[tuple]:
        """Return the batches of a client's local rounds in round t (from 1)."""
        first, end = self.world.windows[t - 1, user] + self.past
        size = self.config.minibatches * self.config.minibatch
        rng = generator(self.config.seed, "batches", user, t)
        drawn = [rng.choice(end - first, size, replace=False) + first for _ in range(n_rounds)]
        if self.config.local_round == "minibatches":
            drawn = [part for picks in drawn for part in np.split(picks, self.config.minibatches)]
        return [self.batch(user, picks) for picks in drawn]

    def label_counts(self, t: int) -> np.ndarray:
        """Return the labels in each client's store in round t, (n_clients, n_files)."""
        spans = self.world.windows[t - 1] + self.past
        return np.stack(
            [
                np.bincount(asked[first:end], minlength=self.world.catalogue.n_files)
                for asked, (first, end) in zip(self.world.requests, spans, strict=True)
            ]
        )

    def groups(self, clients: np.ndarray, steps: np.ndarray) -> list[np.ndarray]:
        """Split the clients' positions into groups whose inputs fit the memory of one call, in
        order.
        """
        numbers = steps * self.config.minibatches * self.config.minibatch * self.input_shape[0]
        return np.split(
            np.arange(len(clients)),
            np.flatnonzero(np.diff(np.cumsum(numbers) * 4 // _BYTES_A_CALL)) + 1,
        )

    def union_batches(self, t: int, n_steps: int) -> list[tuple]:
        """Return the batches of a centralised step over all stores of round t: samples drawn
        without replacement from them.
        """
        first, end = self.world.windows[t - 1].T + self.past
        edges = np.cumsum(end - first)
        size = self.config.minibatches * self.config.minibatch
        rng, batches = generator(self.config.seed, "batches", self.config.n_clients, t), []
        for _ in range(n_steps):
            picks = np.sort(rng.choice(edges[-1], min(size, edges[-1]), replace=False))
            owner = np.searchsorted(edges, picks, side="right")
            at = picks - (edges - (end - first))[owner] + first[owner]
            parts = [self.batch(int(u), at[owner == u]) for u in np.unique(owner)]
            batches.append(tuple(self.torch.cat(column) for column in zip(*parts, strict=True)))
        return batches
