"""The clients of an OSAFL run: what they request and store, how many steps they can take, and their
mini-batches.

Source: OSAFL, Sections II-A, II-C and V-A, Appendix D-A; ERRATA 34 to 36, 40, 43. Everything here
depends on the seed and the sizes, never on the server's rule, so that rules of one seed see the
same requests, stores, channel and mini-batches.

A local step, ERRATA 43: n = 32 is the number of mini-batches and n-bar = 5 their size, and the time
of a local round is that of n n-bar = 160 samples; (15) and (16) take one gradient per local round.
So a local round is one SGD step on the mean gradient of n n-bar distinct samples of the store
("gradient"); "minibatches" is the other reading, n steps of n-bar samples. Requests repeat
themselves: of the 160 samples of a step of Dataset-1 some 40 inputs differ. Each is computed once,
weighs its number, and its target is the shares of the labels that followed it (`loss`), which is
the same gradient.

| code     | symbol    | shape          | meaning                                         |
|----------|-----------|----------------|-------------------------------------------------|
| requests |           | (U, n)         | file ids that each user asks for, in order      |
| windows  |           | (rounds, U, 2) | samples in a store: first, and one past the     |
|          |           |                | last                                            |
| steps    | kappa_u^t | (rounds, U)    | local rounds a client can take; 0: straggler    |
| past     | L         | scalar         | requests before the label: 1 in Dataset-1, 10   |
|          |           |                | in Dataset-2                                    |
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from sflkit import checks, data
from sflkit.osafl import allocation, channels, networks, video
from sflkit.osafl.config import OSAFLConfig
from sflkit.osafl.devices import Link
from sflkit.osafl.stores import Stores, draw_stores, fifo_windows
from sflkit.randomness import generator

# Inputs of so many clients exist at a time that one call of `local_sgd` gets at most these bytes.
BYTES_PER_CALL = 2**28

_PAST = {1: 1, 2: 10}
_SAMPLE_BITS = {1: 101376, 2: 7}  # Table I; ERRATA 40: a label of 100 files needs 7 bits
_N_FILES = 100
# The fields on which requests and stores depend.
_OF_WORLD = (
    "seed dataset top_k features n_clients rounds minibatches minibatch capacity_low capacity_high "
    "test_size"
).split()


class World(NamedTuple):
    """Everything random of a seed but the channel and the mini-batches.

    Attributes
    ----------
    catalogue, users, stores : Catalogue, Users, Stores
        The files, who asks for them, and how many samples each client holds.
    windows : int array (rounds, n_clients, 2)
        What a store holds in each round, see `stores.fifo_windows`.
    requests, test_requests : int arrays (n_clients, n)
        File ids in the order of the requests.
    source : dict
        Name and digest of where the files' features come from, for the record of a result.
    """

    catalogue: video.Catalogue
    users: video.Users
    stores: Stores
    windows: np.ndarray
    requests: np.ndarray
    test_requests: np.ndarray
    source: dict


def world(config: OSAFLConfig) -> World:
    """Return the requests, stores and test requests of the config; the last few are kept.

    Configs that differ only in the rule, its rates or the network have one world.
    """
    return _world(OSAFLConfig(**{name: getattr(config, name) for name in _OF_WORLD}))


@functools.lru_cache(maxsize=4)
def _world(config: OSAFLConfig) -> World:
    seed, n_clients, top_k = config.seed, config.n_clients, config.top_k
    past = _PAST[config.dataset]
    images = None
    source = {"name": "video", "digest": "synthetic images"}
    if config.features != "synthetic":
        images, found = _cifar100(config.features)
        source |= {"digest": found.digest, "note": found.note}
    files = video.catalogue(images, n_files=_N_FILES, rng=generator(seed, "data"))
    users = video.draw_users(n_clients, files.n_genres, generator(seed, "data", 1))
    sizes = {"capacity_low": config.capacity_low, "capacity_high": config.capacity_high}
    held = draw_stores(n_clients, generator(seed, "samples"), **sizes)
    windows = fifo_windows(held, config.rounds, generator(seed, "arrivals"))
    n_asked, n_test = int(windows[-1, :, 1].max()) + past, -(-config.test_size // n_clients) + past
    asked = video.request_files(files, users, n_asked, generator(seed, "requests"), top_k=top_k)
    test = video.request_files(files, users, n_test, generator(seed, "test_set"), top_k=top_k)
    return World(files, users, held, windows, asked, test, source)


def _cifar100(name: str) -> tuple[np.ndarray, data.Dataset]:
    """Return one image of each class, float32 (100, 3, 32, 32) in [0, 1], and the data set."""
    found = data.load(name)
    if found.n_classes < _N_FILES:
        raise ValueError(
            f"features={name!r} needs an image of each of {_N_FILES} classes, not {found.n_classes}"
        )
    first = [int(np.flatnonzero(found.y_train == label)[0]) for label in range(_N_FILES)]
    return found.x_train[first].transpose(0, 3, 1, 2) / np.float32(255), found


def local_steps(config: OSAFLConfig, payload_bits: float) -> np.ndarray:
    """Return how many local rounds each client can take in each round; 0 makes it a straggler.

    Distances and hardware stay for a run, shadowing is drawn every round. The allocator "none"
    gives every client max_steps, and "alternating" starts where the sizes of the networks were
    chosen (`sflkit.osafl.networks.START`, ERRATA 35).

    Parameters
    ----------
    config : OSAFLConfig
    payload_bits : float
        What a client sends, in bit, >= 0.

    Returns
    -------
    int array (rounds, n_clients)
    """
    rounds, n_clients, seed = config.rounds, config.n_clients, config.seed
    if config.allocator == "none":
        return np.full((rounds, n_clients), config.max_steps)
    distance = channels.draw_distances(n_clients, generator(seed, "channel"))
    shadowing = [
        channels.draw_shadowing_db(n_clients, generator(seed, "channel", 1, t))
        for t in range(rounds)
    ]
    sizes = {"sample_bits": _SAMPLE_BITS[config.dataset]}
    sizes["samples"] = config.minibatches * config.minibatch
    hardware = channels.draw_devices(n_clients, generator(seed, "channel", 0), snr=0.0, **sizes)
    # One allocation for all rounds: a client of a round is a device of its own.
    snr = channels.snr_per_watt(distance, np.stack(shadowing)).ravel()
    every = dataclasses.replace(hardware[np.tile(np.arange(n_clients), rounds)], snr_per_watt=snr)
    start = networks.START if config.allocator == "alternating" else None
    link = Link(payload_bits, max_steps=config.max_steps)
    chosen = allocation.allocate(every, link, config.allocator, start=start)
    return chosen.local_steps.reshape(rounds, n_clients)


def ceiling(config: OSAFLConfig) -> float:
    """Return the expected accuracy on the test requests of one who knows each user's law.

    For Dataset-2 it is the same number as for Dataset-1: the law is of order 1, so that older
    requests tell no more. What a network can reach there is less: it does not see the user."""
    w = world(config)
    last = w.test_requests[:, _PAST[config.dataset] - 1 : -1]
    law = video.request_matrix(w.catalogue, w.users, top_k=config.top_k).max(axis=2)
    return float(np.take_along_axis(law, last, axis=1).mean())


def ceiling_of_strangers(config: OSAFLConfig) -> float:
    """Return the expected accuracy on the test requests of one who sees only the last file.

    It knows the law of every user but not who is asking, and names the file that is likeliest over
    the users, each weighted by how often it asks for the last file in the long run.
    """
    w = world(config)
    law = video.request_matrix(w.catalogue, w.users, top_k=config.top_k)
    shares = np.full(law.shape[:2], 1 / law.shape[1])
    for _ in range(200):  # the chains forget where they started within a few tens of requests
        shares = np.einsum("uf,ufg->ug", shares, law)
    guess = np.einsum("uf,ufg->fg", shares, law).argmax(axis=1)
    last = w.test_requests[:, _PAST[config.dataset] - 1 : -1]
    users = np.arange(len(last))[:, None]
    return float(law[users, last, guess[last]].mean())


def loss(outputs: Tensor, targets: Tensor) -> Tensor:
    """Return each row's cross-entropy (n,).

    Parameters
    ----------
    outputs : Tensor (n, n_files)
        Logits.
    targets : Tensor (n,) or (n, n_files)
        Labels, or shares of the labels.
    """
    log_shares = torch.log_softmax(outputs, 1)
    if targets.is_floating_point():
        return -(log_shares * targets).sum(1)
    return -log_shares.gather(1, targets.unsqueeze(1)).squeeze(1)


class Samples:
    """Makes the inputs of any samples on demand: Dataset-1 would be 600 MB for one round's stores.

    A sample is named by its user and the position of its label in the user's requests. Dataset-1's
    input is one row for each file (the last request) with the user's own columns written over it.

    Parameters
    ----------
    config : OSAFLConfig
    device : torch.device or str
        Where the tensors lie.
    cache : class or function, optional
        What the clients keep in place of their FIFO stores, see `osafl.training.run`.

    Attributes
    ----------
    world : World
    past : int
        Requests before the label that make an input.

    Raises
    ------
    ValueError
        If a cache holds too few samples for a local round, one twice, or one that did not arrive.
    """

    def __init__(
        self, config: OSAFLConfig, device: torch.device | str, cache: Callable | None = None
    ):
        self.config = config
        self.device = device
        self.world = world(config)
        self.past = _PAST[config.dataset]
        # By client and round, the start first; FIFO stores are windows and need no list.
        self._kept = None if cache is None else self._run_caches(cache)
        if config.dataset == 1:
            self._make_rows(config.input_norm)

    def _make_rows(self, norm: float | None) -> None:
        files = self.world.catalogue
        users = self.world.users
        rows, _ = video.dataset_1(files, users, 0, np.append(np.arange(files.n_files), 0))
        first = files.features.shape[1]
        own = torch.tensor([*range(first, first + files.n_genres), rows.shape[1] - 1])
        values = np.concatenate([users.preferences, users.stick[:, None]], axis=1)
        tables = [torch.from_numpy(rows), torch.from_numpy(values.astype(np.float32))]
        if norm is not None:
            tables[0][:, own] = 0  # constant over the files: not counted twice
            spreads = [columns.std(dim=0, correction=0) for columns in tables]
            scale = norm / sum(int((spread > 0).sum()) for spread in spreads) ** 0.5
            for columns, spread in zip(tables, spreads, strict=True):
                columns.sub_(columns.mean(dim=0)).div_(spread.where(spread > 0, 1)).mul_(scale)
        # the user's own columns are written over those of the file's row
        self._rows_of_files, self._values, self._own = (
            part.to(self.device) for part in (*tables, own)
        )

    @property
    def input_shape(self) -> tuple[int, ...]:
        """Shape of one input."""
        return (self._rows_of_files.shape[1],) if self.config.dataset == 1 else (self.past,)

    @property
    def samples_per_round(self) -> int:
        """Samples of one local round, n n-bar."""
        return self.config.minibatches * self.config.minibatch

    def inputs(self, users: np.ndarray, before: np.ndarray) -> Tensor:
        """Return the inputs of users, int (n,), after the requests `before`, int (n, past)."""
        if self.config.dataset == 2:
            return torch.from_numpy(before).to(self.device)
        users, files = (torch.from_numpy(ids).to(self.device) for ids in (users, before[:, 0]))
        x = self._rows_of_files[files]
        x[:, self._own] = self._values[users]
        return x

    def pairs(self, requests: np.ndarray, users: np.ndarray, at: np.ndarray) -> tuple[Tensor, ...]:
        """Return inputs and labels of samples, whose labels lie at `at` in the users' requests."""
        before = requests[users[:, None], at[:, None] + np.arange(-self.past, 0)]
        return self.inputs(users, before), torch.from_numpy(requests[users, at]).to(self.device)

    def test(self) -> tuple[Tensor, Tensor]:
        """Return inputs and labels of the test_size test samples, as many per user up to one."""
        each, more = divmod(self.config.test_size, self.config.n_clients)
        shares = each + (np.arange(self.config.n_clients) < more)
        at = self.past + np.concatenate([np.arange(n) for n in shares])
        return self.pairs(self.world.test_requests, np.arange(len(shares)).repeat(shares), at)

    def table(
        self, users: np.ndarray, at: np.ndarray
    ) -> tuple[Tensor, Tensor, np.ndarray | None, np.ndarray]:
        """Return the stored samples of several steps as one table.

        Parameters
        ----------
        users, at : int arrays (n_steps, 1 or n) and (n_steps, n)
            Whose each sample is, and where its label lies in the user's requests.

        Returns
        -------
        x, y : Tensors (rows, ...)
            Dataset-1: the distinct inputs of each step, and the shares (rows, n_files) of the
            labels that follow each. Dataset-2, whose inputs hardly ever repeat: all samples with
            their labels.
        weights : float32 array (rows,) or None
            Dataset-1: the number of samples of each row.
        sizes : int array (n_steps,)
            Rows of each step, one step after the other.
        """
        requests = self.world.requests
        if self.config.dataset == 2:
            x, y = self.pairs(requests, np.broadcast_to(users, at.shape).ravel(), at.ravel())
            return x, y, None, np.full(len(at), at.shape[1])
        n_users, n_files = len(requests), self.world.catalogue.n_files
        step = np.arange(len(at))[:, None]
        inputs = ((step * n_users + users) * n_files + requests[users, at - 1]).ravel()
        inputs, row, counts = np.unique(inputs, return_inverse=True, return_counts=True)
        cells = row * n_files + requests[users, at].ravel()
        labels = np.bincount(cells, minlength=len(inputs) * n_files).reshape(-1, n_files)
        shares = torch.from_numpy((labels / counts[:, None]).astype(np.float32))
        x = self.inputs(inputs // n_files % n_users, inputs[:, None] % n_files)
        sizes = np.bincount(inputs // (n_users * n_files))
        return x, shares.to(self.device), counts.astype(np.float32), sizes

    def stored(self, user: int, t: int) -> np.ndarray:
        """Return where the labels of a client's stored samples lie in round t (from 1), (n,)."""
        held = np.arange(*self.world.windows[t - 1, user])
        return self.past + (held if self._kept is None else self._kept[user][t])

    def _run_caches(self, cache: Callable) -> list[list[np.ndarray]]:
        """Return the samples that each client's cache holds in each round, by client and round.

        It starts with what the store would hold, and then gets what arrives there."""
        stores, windows = self.world.stores, self.world.windows
        kept: list[list[np.ndarray]] = []
        for user, (capacity, slots) in enumerate(zip(stores.capacity, stores.slots, strict=True)):
            own = cache(int(capacity), int(slots))
            ends = [0, int(capacity), *windows[:, user, 1].tolist()]
            kept.append([])
            for t, (first, end) in enumerate(itertools.pairwise(ends)):
                new = np.arange(first, end)
                labels = self.world.requests[user][new + self.past]
                own.update(new, labels, generator(self.config.seed, "cache", user, t))
                kept[user].append(self._checked(own, user, t, end))
        return kept

    def _checked(self, cache: Any, user: int, t: int, arrived: int) -> np.ndarray:
        """Return what a cache holds after round t, refused unless a local round can draw it."""
        ids = checks.integers(f"ids of the cache of client {user}", cache.ids, low=0)
        least = self.samples_per_round
        if len(np.unique(ids)) < max(len(ids), least) or ids.max() >= arrived:
            raise ValueError(
                f"cache of client {user} holds {len(ids)} samples in round {t}; it must hold at "
                f"least {least}, the samples of a local round, none twice, and only those of the "
                f"{arrived} that have arrived"
            )
        return ids

    def local_data(self, clients: np.ndarray, n_rounds: np.ndarray, t: int) -> dict[str, Any]:
        """Return the local rounds of several clients in round t (from 1).

        Parameters
        ----------
        clients, n_rounds : int arrays (n,)
            Who trains, and how many local rounds.

        Returns
        -------
        dict
            `data`, `rows` and `weights` of `federated.local_sgd`.
        """
        size = self.samples_per_round
        drawn = []
        for user, n in zip(clients.tolist(), n_rounds.tolist(), strict=True):
            rng, stored = generator(self.config.seed, "batches", user, t), self.stored(user, t)
            drawn.append([rng.choice(stored, size, replace=False) for _ in range(n)])
        if self.config.local_round == "minibatches":
            size = self.config.minibatch
        at = np.concatenate(drawn).reshape(-1, size)
        steps = n_rounds * (self.samples_per_round // size)
        return self._steps(np.repeat(clients, steps)[:, None], at, steps)

    def union_data(self, t: int, n_steps: int) -> dict[str, Any]:
        """Return `n_steps` centralised steps in round t (from 1), in the form of `local_data`.

        Each is drawn without replacement from the samples of all stores together.
        """
        stored = [self.stored(u, t) for u in range(self.config.n_clients)]
        owner = np.arange(len(stored)).repeat([len(own) for own in stored])
        rng = generator(self.config.seed, "batches", len(stored), t)
        size = self.samples_per_round
        drawn = [np.sort(rng.choice(len(owner), size, replace=False)) for _ in range(n_steps)]
        return self._steps(owner[drawn], np.concatenate(stored)[drawn], np.array([n_steps]))

    def _steps(self, users: np.ndarray, at: np.ndarray, steps: np.ndarray) -> dict[str, Any]:
        """Return the steps of `table` by client: the first `steps[0]` are those of the first."""
        x, y, weights, sizes = self.table(users, at)
        inside = np.zeros((len(steps), steps.max(), sizes.max()), dtype=bool)
        inside[np.arange(steps.max()) < steps[:, None]] = np.arange(sizes.max()) < sizes[:, None]
        rows = np.full(inside.shape, -1)
        rows[inside] = np.arange(len(x))
        if weights is not None:
            weights = np.append(weights, np.float32(0))[rows]
        return {"data": (x, y), "rows": rows, "weights": weights}

    def label_counts(self, t: int) -> np.ndarray:
        """Return how often each label is in each client's store in round t (from 1).

        Returns
        -------
        int array (n_clients, n_files)
        """
        return np.stack(
            [
                np.bincount(asked[self.stored(u, t)], minlength=self.world.catalogue.n_files)
                for u, asked in enumerate(self.world.requests)
            ]
        )

    def groups(self, clients: np.ndarray, steps: np.ndarray) -> list[np.ndarray]:
        """Split the positions of clients into groups, in order, whose inputs fit one call's memory.

        Parameters
        ----------
        clients, steps : int arrays (n,)
            Who trains, and how many local rounds.

        Returns
        -------
        list of int arrays, together 0 to n - 1
        """
        numbers = steps * self.samples_per_round * self.input_shape[0]
        call = np.cumsum(numbers) * 4 // BYTES_PER_CALL
        return np.split(np.arange(len(clients)), np.flatnonzero(np.diff(call)) + 1)
