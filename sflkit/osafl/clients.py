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
# The fields on which requests and stores depend, and those on which the local steps do.
_SIZES = "seed dataset n_clients rounds minibatches minibatch capacity_low capacity_high".split()
_OF_WORLD = (*_SIZES, "top_k", "features", "test_size")
_OF_STEPS = (*_SIZES, "allocator", "max_steps")


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
    if config.allocator == "none":
        return np.full((config.rounds, config.n_clients), config.max_steps)
    part = OSAFLConfig(**{name: getattr(config, name) for name in _OF_STEPS})
    return _local_steps(part, float(payload_bits))


@functools.lru_cache(maxsize=8)
def _local_steps(config: OSAFLConfig, payload_bits: float) -> np.ndarray:
    seed, n_clients = config.seed, config.n_clients
    distance = channels.draw_distances(n_clients, generator(seed, "channel"))
    link = Link(payload_bits, max_steps=config.max_steps)
    sizes = {"sample_bits": _SAMPLE_BITS[config.dataset]}
    sizes["samples"] = config.minibatches * config.minibatch
    hardware = channels.draw_devices(n_clients, generator(seed, "channel", 0), snr=0.0, **sizes)
    steps = np.empty((config.rounds, n_clients), dtype=np.int64)
    start = networks.START if config.allocator == "alternating" else None
    for t in range(config.rounds):
        shadowing = channels.draw_shadowing_db(n_clients, generator(seed, "channel", 1, t))
        snr = channels.snr_per_watt(distance, shadowing)
        devices = dataclasses.replace(hardware, snr_per_watt=snr)
        steps[t] = allocation.allocate(devices, link, config.allocator, start=start).local_steps
    steps.flags.writeable = False
    return steps


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
        self._around = np.arange(-self.past, 1)  # the requests of a sample, from its label on
        # By client and round; FIFO stores are windows and need no list.
        self._kept = None if cache is None else self._run_caches(cache)
        if config.dataset == 1:
            self._make_rows(config.input_norm)

    def _make_rows(self, norm: float | None) -> None:
        files = self.world.catalogue
        users = self.world.users
        rows, _ = video.dataset_1(files, users, 0, np.append(np.arange(files.n_files), 0))
        first = files.features.shape[1]
        own = [*range(first, first + files.n_genres), rows.shape[1] - 1]
        values = np.concatenate([users.preferences, users.stick[:, None]], axis=1)
        self._rows_of_files = torch.from_numpy(rows).to(self.device)
        self._own = torch.tensor(own, device=self.device)  # the user's own columns
        self._values = torch.from_numpy(values.astype(np.float32)).to(self.device)
        if norm is not None:
            self._standardise(norm)

    def _standardise(self, norm: float) -> None:
        self._rows_of_files[:, self._own] = 0  # constant over the files: not counted twice
        spreads = []
        for columns in (self._rows_of_files, self._values):
            spread = columns.std(dim=0, correction=0)
            columns.sub_(columns.mean(dim=0)).div_(spread.where(spread > 0, 1))
            spreads.append(int((spread > 0).sum()))
        for columns in (self._rows_of_files, self._values):
            columns.mul_(norm / sum(spreads) ** 0.5)

    @property
    def input_shape(self) -> tuple[int, ...]:
        """Shape of one input."""
        return (self._rows_of_files.shape[1],) if self.config.dataset == 1 else (self.past,)

    @property
    def samples_per_round(self) -> int:
        """Samples of one local round, n n-bar."""
        return self.config.minibatches * self.config.minibatch

    def batch(self, user: int, labels_at: np.ndarray) -> tuple[Tensor, ...]:
        """Return stored samples of a user as a step for `federated.local_sgd` with `loss`.

        Parameters
        ----------
        user : int
        labels_at : int array (n,)
            Where their labels lie in the user's requests, each at least `past`.

        Returns
        -------
        x, y, weights : Tensors
            Dataset-1: the distinct inputs, the shares (rows, n_files) of the labels that follow
            each, and the number of its samples.
        x, y : Tensors
            Dataset-2, whose inputs hardly ever repeat: all n samples with their labels.
        """
        x, y, weights, _ = self._table([(user, labels_at)])
        return (x, y) if weights is None else (x, y, torch.from_numpy(weights).to(self.device))

    def local_data(self, clients: np.ndarray, n_rounds: np.ndarray, t: int) -> dict[str, Any]:
        """Return the local rounds of several clients in round t (from 1) as one table of samples.

        Parameters
        ----------
        clients, n_rounds : int arrays (n,)
            Who trains, and how many local rounds.

        Returns
        -------
        dict
            `data`, `rows` and `weights` of `federated.local_sgd`: the batches of `local_batches`,
            one after the other.
        """
        drawn = [self._draws(int(u), t, int(n)) for u, n in zip(clients, n_rounds, strict=True)]
        parts = [(int(u), at) for u, own in zip(clients, drawn, strict=True) for at in own]
        x, y, weights, sizes = self._table(parts)
        steps = np.array([len(own) for own in drawn])
        inside = np.zeros((len(steps), steps.max(), sizes.max()), dtype=bool)
        inside[np.arange(steps.max()) < steps[:, None]] = np.arange(sizes.max()) < sizes[:, None]
        rows = np.full(inside.shape, -1)
        rows[inside] = np.arange(len(x))
        if weights is not None:
            counts = np.zeros(inside.shape, np.float32)
            counts[inside] = weights
            weights = counts
        return {"data": (x, y), "rows": rows, "weights": weights}

    def _table(
        self, parts: list[tuple[int, np.ndarray]]
    ) -> tuple[Tensor, Tensor, np.ndarray | None, np.ndarray]:
        """Return x, y and weights of `batch` for several (user, labels_at), and their sizes."""
        if self.config.dataset == 2:
            every = [self.world.requests[u][at[:, None] + self._around] for u, at in parts]
            sizes = np.array([len(at) for _, at in parts])
            return *self.pairs(parts[0][0], np.concatenate(every)), None, sizes
        n_files = self.world.catalogue.n_files
        files, shares, counts = [], [], []
        for user, at in parts:
            requests = self.world.requests[user]
            own, row, count = np.unique(requests[at - 1], return_inverse=True, return_counts=True)
            cells = np.bincount(row * n_files + requests[at], minlength=len(own) * n_files)
            files.append(own)
            shares.append((cells.reshape(-1, n_files) / count[:, None]).astype(np.float32))
            counts.append(count.astype(np.float32))
        sizes = np.array([len(own) for own in files])
        users = np.repeat([user for user, _ in parts], sizes)
        y = torch.from_numpy(np.concatenate(shares)).to(self.device)
        return self._inputs(users, np.concatenate(files)), y, np.concatenate(counts), sizes

    def pairs(self, user: int, requests: np.ndarray) -> tuple[Tensor, Tensor]:
        """Return inputs and labels of consecutive requests of a user, int (n, past + 1)."""
        label = torch.from_numpy(requests[:, -1].copy()).to(self.device)
        if self.config.dataset == 1:
            return self._inputs(np.full(len(label), user), requests[:, 0]), label
        before = torch.from_numpy(requests[:, :-1]).to(self.device)
        return before.contiguous(), label

    def _inputs(self, users: np.ndarray, files: np.ndarray) -> Tensor:
        users, files = (torch.from_numpy(ids).to(self.device) for ids in (users, files))
        x = self._rows_of_files[files]
        x[:, self._own] = self._values[users]
        return x

    def test(self) -> tuple[Tensor, Tensor]:
        """Return inputs and labels of the test_size test samples, as many per user up to one."""
        at = np.arange(self.past, self.world.test_requests.shape[1])
        each, more = divmod(self.config.test_size, self.config.n_clients)
        parts = []
        for user, requests in enumerate(self.world.test_requests):
            share = each + (user < more)
            if share:
                rows = requests[at[:share, None] + self._around]
                parts.append(self.pairs(user, rows))
        x, y = (torch.cat(column) for column in zip(*parts, strict=True))
        return x, y

    def stored(self, user: int, t: int) -> np.ndarray:
        """Return where the labels of a client's stored samples lie in round t (from 1), (n,)."""
        if self._kept is None:
            first, end = self.world.windows[t - 1, user]
            return np.arange(first, end) + self.past
        return self._kept[user][t - 1] + self.past

    def _run_caches(self, cache: Callable) -> list[list[np.ndarray]]:
        """Return the samples that each client's cache holds in each round, by client and round.

        It starts with what the store would hold, and then gets what arrives there."""
        stores, windows = self.world.stores, self.world.windows
        kept: list[list[np.ndarray]] = []
        for user, (capacity, slots) in enumerate(zip(stores.capacity, stores.slots, strict=True)):
            own = cache(int(capacity), int(slots))
            ends = [0, int(capacity), *windows[:, user, 1].tolist()]
            contents = []
            for t, (first, end) in enumerate(itertools.pairwise(ends)):
                new = np.arange(first, end)
                labels = self.world.requests[user][new + self.past]
                own.update(new, labels, generator(self.config.seed, "cache", user, t))
                contents.append(self._checked(own, user, t, end))
            kept.append(contents[1:])
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

    def local_batches(self, user: int, t: int, n_rounds: int) -> list[tuple[Tensor, ...]]:
        """Return the batches of a client's `n_rounds` local rounds in round t (from 1)."""
        return [self.batch(user, picks) for picks in self._draws(user, t, n_rounds)]

    def _draws(self, user: int, t: int, n_rounds: int) -> list[np.ndarray]:
        stored = self.stored(user, t)
        size = self.samples_per_round
        rng = generator(self.config.seed, "batches", user, t)
        drawn = [stored[rng.choice(len(stored), size, replace=False)] for _ in range(n_rounds)]
        if self.config.local_round == "minibatches":
            drawn = [part for picks in drawn for part in np.split(picks, self.config.minibatches)]
        return drawn

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

    def union_batches(self, t: int, n_steps: int) -> list[tuple[Tensor, ...]]:
        """Return the batches of `n_steps` centralised steps in round t (from 1).

        Each is drawn without replacement from the samples of all stores together.
        """
        stored = [self.stored(u, t) for u in range(self.config.n_clients)]
        edges = np.cumsum([len(own) for own in stored])
        together = np.concatenate(stored)
        size = min(self.samples_per_round, edges[-1])
        rng = generator(self.config.seed, "batches", self.config.n_clients, t)
        batches = []
        for _ in range(n_steps):
            picks = np.sort(rng.choice(edges[-1], size, replace=False))
            owner = np.searchsorted(edges, picks, side="right")
            at = together[picks]
            parts = [self.batch(int(u), at[owner == u]) for u in np.unique(owner)]
            batches.append(tuple(torch.cat(column) for column in zip(*parts, strict=True)))
        return batches
