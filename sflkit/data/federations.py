"""Who holds which data: the clients of a federated experiment.

A `Federation` says which samples a client holds, in which order they arrive, and how the clients
are tested. `data_streams` builds those of FDS (Federated Learning for Data Streams, Section 6 and
Appendix D), `static` those of FATS (Section 6.1). Sets with natural clients come from
`sflkit.data.natural`.

FDS is silent on three points. It does not state epsilon nor the number of test samples of the
synthetic task; both are ours. Nor does it say how the "average test accuracy across clients" is
taken on the one test set of CIFAR. Here the test distribution of a client has the client's own
label shares, so that a test sample of class r weighs the mean over clients of the share of r, over
the number of test samples of r.

| code          | symbol    | shape      | meaning                                              |
|---------------|-----------|------------|------------------------------------------------------|
| x, y          | z = (x,y) | (n, ...)   | training samples: float32 inputs or int64 tokens;    |
|               |           |            | int64 labels                                         |
| clients       | S_m       | M x (N_m,) | rows of each client, in the order of their arrival   |
| test_weights  |           | (n_test,)  | share of a test sample in the mean over clients of   |
|               |           |            | their score                                          |
| historical    | m <= M_h  | (M,)       | mask of the clients that hold all samples from the   |
|               |           |            | start                                                |
| hist_fraction | N_h / N   |            | share of the samples (natural clients: of the        |
|               |           |            | clients) that is historical                          |
| epsilon       | epsilon   |            | standard deviation of the clients' true weights      |
|               |           |            | around the common ones, >= 0                         |
"""

from __future__ import annotations

import bisect
import functools
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from sflkit import checks
from sflkit.data import catalogue, datasets, natural, partitions, synthetic
from sflkit.data.arrays import Dataset, Inputs
from sflkit.data.leaf import NaturalClients
from sflkit.randomness import generator

PHOTOGRAPHS = ("cifar10", "cifar100", *catalogue.COMPLETE)
IMAGES = ("digits", "mnist", "fmnist", *PHOTOGRAPHS, *catalogue.FEATURES)
# Distributed by Pachinko allocation, which needs superclasses (FDS, D.1.2).
PACHINKO = tuple(name for name in IMAGES if name.startswith("cifar100"))
NATURAL = natural.NAMES
NAMES = ("logistic", *IMAGES, *NATURAL)
LOGISTIC_SAMPLES = 200  # of all clients together: FDS, Table 1
LOGISTIC_TEST = 200  # of every client: ours
# Neighbouring windows of a text repeat each other: one per so many characters is tested.
VALIDATION_STRIDE = 20


@dataclass(frozen=True, eq=False)
class Federation:
    """Clients and their data. Arrays are made read-only and may be shared among callers.

    Parameters
    ----------
    name : str
    x, y : (n, ...) float32 or int64, and (n,) int64
        `x` is an array, or `Inputs` that become float32 row by row: `x[rows]` is an array either
        way, and `numpy.asarray(x)` the whole one.
    clients : tuple of int64 arrays (N_m,)
        Rows of `x` that each client holds, in order of arrival. Every client has at least one, and
        no row has two holders.
    x_test, y_test : (n_test, ...), (n_test,)
        As `x` and `y`.
    test_weights : float64 (n_test,)
        >= 0, with sum 1. The weighted mean over the test set is the mean over clients of the mean
        at a client.
    n_classes : int
    historical : bool (n_clients,)
        Clients with static data; the others' samples arrive over time (FDS, Section 5). All True
        when there is no such split.
    digest : str
        sha256 of the data behind it.
    note : str
        What a reader of results must know, such as a stand-in or a subset.

    Raises
    ------
    ValueError
        If shapes do not fit, a client is empty, a row is out of range or held twice, or a value is
        not finite.
    """

    name: str
    x: np.ndarray | Inputs = field(repr=False)
    y: np.ndarray = field(repr=False)
    clients: tuple[np.ndarray, ...] = field(repr=False)
    x_test: np.ndarray | Inputs = field(repr=False)
    y_test: np.ndarray = field(repr=False)
    test_weights: np.ndarray = field(repr=False)
    n_classes: int
    historical: np.ndarray = field(repr=False)
    digest: str = ""
    note: str = ""

    def __post_init__(self) -> None:
        empty = [k for k, ids in enumerate(self.clients) if not len(ids)]
        if empty or not self.clients:
            raise ValueError(
                f"clients={empty} hold no sample; each of the {self.n_clients} clients must hold "
                "at least one"
            )
        held = np.bincount(checks.indices("clients", np.concatenate(self.clients), len(self.x)))
        if held.max() > 1:
            raise ValueError(
                f"clients hold row {held.argmax()} twice; a row has one holder at most"
            )
        m, n, n_test = len(self.clients), len(self.x), len(self.x_test)
        for name, size in (
            ("y", n),
            ("y_test", n_test),
            ("test_weights", n_test),
            ("historical", m),
        ):
            checks.shape(name, getattr(self, name), (size,))
        if self.historical.dtype != bool:
            raise ValueError(f"historical holds {self.historical.dtype}; it must hold bool")
        for name, x in (("x", self.x), ("x_test", self.x_test)):
            if isinstance(x, np.ndarray) and not np.isfinite(x).all():
                raise ValueError(f"{name} holds a value that is not finite; fill or drop such rows")
        for array in (*vars(self).values(), *self.clients):
            if isinstance(array, np.ndarray):
                array.flags.writeable = False

    @property
    def n_clients(self) -> int:
        """M."""
        return len(self.clients)

    @property
    def input_shape(self) -> tuple[int, ...]:
        """Shape of one sample."""
        return tuple(self.x.shape[1:])

    @property
    def sizes(self) -> np.ndarray:
        """N_m, int64 (n_clients,)."""
        return np.array([len(ids) for ids in self.clients])

    @property
    def record(self) -> dict[str, Any]:
        """What the record of a result says of the data."""
        size = int(self.sizes.sum())
        return {"name": self.name, "digest": self.digest, "size": size, "note": self.note}


def data_streams(
    data: str | Dataset | tuple,
    *,
    n_clients: int | None,
    hist_fraction: float,
    seed: int,
    n_historical: int | None = None,
    n_samples: int | None = None,
    alpha: float = 0.4,
    epsilon: float = 0.1,
) -> Federation:
    """Return the clients of an experiment of FDS: historical ones first, then fresh ones.

    Image sets: the training set is first split at random into N_hist = round(hist_fraction N)
    samples and the rest; then either group is distributed among its clients (Appendix D.3), each
    class by Dirichlet shares, or those in `PACHINKO` by Pachinko allocation. logistic: the
    synthetic task of D.1.1, with the same sizes inside each group. Natural clients (writers,
    femnist, plays, shakespeare): whole clients are historical, drawn at random; 20 % of each
    client's samples are its test set.

    Parameters
    ----------
    data : str, Dataset or tuple of arrays
        One of `NAMES`; or your own, see `datasets.dataset`, which is treated as a set of images.
    n_clients : int or None
        M >= 2 (FDS: synthetic 11, CIFAR 50). Natural clients: a random choice of that many; None
        takes all.
    hist_fraction : float
        N_hist / N, for natural clients M_hist / M; in (0, 1). FDS: 0.05, 0.2, 0.5.
    seed : int
        Of the partition, and of the synthetic task's data.
    n_historical : int
        M_hist in [1, M - 1] (FDS: synthetic 10, CIFAR 25). Natural clients do not use it, since
        round(hist_fraction M) decides.
    n_samples : int or None
        Training samples in all, validation included. Image sets: the size of a random subset, None
        for the whole set. Synthetic task: its size, None for 200. Natural clients: at most that
        many in all, every client being cut at the same number.
    alpha : float
        Dirichlet parameter of image sets, > 0 (FDS: 0.4; cifar100 uses Reddi et al.'s 0.1 and 10
        instead).
    epsilon : float
        Synthetic task only, >= 0. FDS does not state it. 0.1 is ours: clients differ, but one model
        serves them all.

    Raises
    ------
    ValueError
        If an argument is out of range (also one that this data set does not use), or a group has
        fewer samples than clients.
    sflkit.data.DataUnavailableError, sflkit.data.DataCorruptError
        As `data.load`.
    """
    fraction = checks.real("hist_fraction", hist_fraction, above=0, below=1)
    alpha = checks.real("alpha", alpha, above=0)
    epsilon = checks.real("epsilon", epsilon, 0)
    if _is_natural(data, NAMES):
        if n_historical is not None:
            checks.integer("n_historical", n_historical, 1)
        return _natural(natural.load(data), n_clients, seed, n_samples, fraction=fraction)
    n_clients = checks.integer("n_clients", n_clients, 2)
    n_historical = checks.integer("n_historical", n_historical, 1, n_clients - 1)
    historical = np.arange(n_clients) < n_historical
    source = None
    if isinstance(data, str) and data == "logistic":  # has samples in no order
        n = LOGISTIC_SAMPLES if n_samples is None else n_samples
        rows, note = np.arange(checks.integer("n_samples", n, 2)), ""
    else:
        source = datasets.dataset(data)
        rows, note = _rows(source, n_samples, seed)
    # The historical part is a prefix of one random order: a larger fraction keeps the samples of a
    # smaller one.
    n_hist = int(np.rint(fraction * len(rows)))
    groups = ((rows[:n_hist], n_historical), (rows[n_hist:], n_clients - n_historical))
    for what, (ids, m) in zip(("historical", "fresh"), groups, strict=True):
        if len(ids) < m:
            raise ValueError(
                f"hist_fraction={fraction} of n_samples={len(rows)} gives {len(ids)} {what} "
                f"samples to {m} clients; every client must hold at least one"
            )
    if source is None:
        sizes = [len(part) for ids, m in groups for part in np.array_split(ids, m)]
        return _logistic(sizes, historical, epsilon, seed)
    clients = []
    for group, (ids, m) in enumerate(groups):
        rng = generator(seed, "partition", 1 + group)
        y = source.y_train[ids]
        if source.name in PACHINKO:
            parts = partitions.pachinko(y, source.y_train_coarse[ids], m, rng)
        else:
            parts = partitions.dirichlet(y, m, alpha, rng)
        clients += [ids[part] for part in parts]
    return _images(source, rows, clients, historical, note)


def static(
    data: str | Dataset | tuple,
    *,
    n_clients: int | None,
    seed: int,
    alpha: float = 0.5,
    n_samples: int | None = None,
    samples_per_client: int | None = None,
    min_samples: int = 1,
) -> Federation:
    """Return the clients of an experiment of FATS, which all hold their samples from the start.

    Image sets: clients of equal size N, the label mix of each from a symmetric Dirichlet law (Hsu
    et al. 2019, whom FATS cites; its algorithm has one N for all clients). Natural clients: those
    with at least `min_samples` training samples.

    Parameters
    ----------
    data : str, Dataset or tuple of arrays
        As in `data_streams`, but not "logistic".
    n_clients : int or None
        M >= 1 (FATS: 100 in the text, 300 to 3556 in Table 2). For natural clients None takes all.
    seed : int
        Of the partition.
    alpha : float
        Dirichlet parameter of every class, > 0 (FATS: 0.5); natural clients do not use it.
    n_samples : int or None
        Limit of the training samples in all, as in `data_streams`; at least M times
        `samples_per_client`.
    samples_per_client : int or None
        N, the same at every client (a random choice of the client's samples). None: all that there
        are, which is floor(n / M) for image sets.
    min_samples : int
        Natural clients only, >= 1 (FATS: 100). `samples_per_client` raises it to itself.

    Raises
    ------
    ValueError, sflkit.data.DataUnavailableError, sflkit.data.DataCorruptError
        As `data_streams`; also when there are too few samples or natural clients.
    """
    min_samples = checks.integer("min_samples", min_samples, 1)
    alpha = checks.real("alpha", alpha, above=0)
    if samples_per_client is not None:
        samples_per_client = checks.integer("samples_per_client", samples_per_client, 1)
    if _is_natural(data, NAMES[1:]):
        found = natural.load(data)
        return _natural(found, n_clients, seed, n_samples, min_samples, samples_per_client)
    source = datasets.dataset(data)
    rows, note = _rows(source, n_samples, seed)
    n_clients = checks.integer("n_clients", n_clients, 1, len(rows))
    per_client = samples_per_client or len(rows) // n_clients
    if n_clients * per_client > len(rows):
        raise ValueError(
            f"n_clients={n_clients} with samples_per_client={per_client} need "
            f"{n_clients * per_client} samples; there are {len(rows)}"
        )
    ids = rows[: n_clients * per_client]
    y = source.y_train[ids]
    # With one level of labels Pachinko allocation is Hsu et al.'s law.
    local = partitions.pachinko(y, y, n_clients, generator(seed, "partition", 1), alpha=alpha)
    return _images(source, rows, [ids[part] for part in local], np.ones(n_clients, bool), note)


def _is_natural(data: str | Dataset | tuple, allowed: Sequence[str]) -> bool:
    """Return whether it is the name of a set with natural clients; a name must be allowed."""
    return isinstance(data, str) and checks.choice("data", data, allowed) in NATURAL


def validation_split(federation: Federation, share: float, rng: np.random.Generator) -> Federation:
    """Return the federation with part of every client's samples as its test set.

    FDS chooses learning rates on such a part (D.2). A client of n samples gives up round(share n)
    of them, but keeps at least one; the mean over the clients that gave any is the test score.
    Images give up random samples. Text gives up its last windows, since neighbouring ones overlap,
    and of these one per 20 characters is tested.

    Parameters
    ----------
    federation : Federation
    share : float
        In (0, 1).
    rng : numpy.random.Generator

    Raises
    ------
    ValueError
        If `share` is out of range or no client has a sample to give.
    """
    checks.instance("federation", federation, Federation)
    share = checks.real("share", share, above=0, below=1)
    rng = checks.generator(rng)
    is_text = federation.x.dtype.kind == "i"
    kept, tested = [], []
    for ids in federation.clients:
        n = min(len(ids) - 1, int(np.rint(share * len(ids))))
        out = np.arange(len(ids)) >= len(ids) - n
        out = out if is_text else rng.permutation(out)
        kept.append(ids[~out])
        given = ids[out]
        if is_text:
            given = given[np.unique(given // VALIDATION_STRIDE, return_index=True)[1]]
        tested.append(given)
    if not any(map(len, tested)):
        sizes = federation.sizes
        raise ValueError(
            f"share={share} leaves no validation sample: clients hold {sizes.min()} to "
            f"{sizes.max()} samples and keep at least one"
        )
    return replace(federation, clients=tuple(kept), **_tests(federation, tested))


def _tests(found: Federation | NaturalClients, parts: Sequence[np.ndarray]) -> dict[str, Any]:
    """Return the test set of some rows of each client, whose mean is that over the clients.

    A row of a part of n weighs 1 / (M' n), where M' is the number of parts that are not empty.
    """
    full = [ids for ids in parts if len(ids)]
    rows = np.concatenate(full)
    weights = np.concatenate([np.full(len(ids), 1 / (len(full) * len(ids))) for ids in full])
    return {"x_test": found.x[rows], "y_test": found.y[rows], "test_weights": weights}


def _rows(source: Dataset, n_samples: int | None, seed: int) -> tuple[np.ndarray, str]:
    """Return a random order of the samples in use, and what to say about it."""
    total = len(source.y_train)
    n = checks.integer("n_samples", total if n_samples is None else n_samples, 1, total)
    order = generator(seed, "partition", 0).permutation(total)[:n]
    subset = f"random subset of {n:,} of {total:,} training samples" if n < total else ""
    return order, "; ".join(filter(None, (subset, source.note)))


def _images(
    source: Dataset,
    rows: np.ndarray,
    clients: list[np.ndarray],
    historical: np.ndarray,
    note: str,
) -> Federation:
    """Return the federation of clients that hold some of the `rows` of a data set of images.

    The score of a client is the one on a test set that has the client's label shares, so that a
    test sample weighs the mean of these over the number of its class.
    """
    x, y, n_classes = source.lazy_inputs("train"), source.y_train, source.n_classes
    per_client = [np.bincount(y[ids], minlength=n_classes) / len(ids) for ids in clients]
    shares = np.mean(per_client, axis=0)
    have = np.bincount(source.y_test, minlength=n_classes)
    if len(untested := np.flatnonzero((have == 0) & (shares > 0))):
        raise ValueError(
            f"y_test has no sample of the classes {untested.tolist()}, which clients hold"
        )
    weights = (shares / np.maximum(have, 1))[source.y_test]
    if len(rows) < len(y):  # a subset is numbered anew, in the data set's order, without the rest
        rows = np.sort(rows)
        clients = [np.searchsorted(rows, ids) for ids in clients]
        x, y = source.lazy_inputs("train", rows), y[rows]
    return Federation(
        name=source.name,
        x=x,
        y=y,
        clients=tuple(clients),
        x_test=source.lazy_inputs("test"),
        y_test=source.y_test,
        test_weights=weights / weights.sum(),
        n_classes=n_classes,
        historical=historical,
        digest=source.digest,
        note=note,
    )


def _natural(
    found: NaturalClients,
    n_clients: int | None,
    seed: int,
    n_samples: int | None,
    min_samples: int = 1,
    samples_per_client: int | None = None,
    *,
    fraction: float | None = None,
) -> Federation:
    """Return natural clients in random order.

    The first round(fraction M) are historical, at least one and not all; without `fraction` all
    are.
    """
    per_client = samples_per_client or 1
    need = max(min_samples, per_client)
    able = np.flatnonzero([len(ids) >= need for ids in found.train])
    at_least = 1 if fraction is None else 2
    if len(able) < at_least:
        raise ValueError(
            f"{found.name!r} has {len(able)} clients with at least {need} training samples; "
            f"{at_least} are needed"
        )
    m = len(able) if n_clients is None else n_clients
    m = checks.integer("n_clients", m, at_least, len(able))
    chosen = generator(seed, "partition", 0).permutation(able)[:m]
    sizes = np.array([len(found.train[k]) for k in chosen])
    limit = samples_per_client or sizes.max()
    if n_samples is not None:
        n_samples = checks.integer("n_samples", n_samples, m * per_client)
        # The largest limit that gives at most n_samples.
        limit = bisect.bisect_right(
            range(1, limit + 1), n_samples, key=lambda most: np.minimum(sizes, most).sum()
        )
    n_historical = m if fraction is None else min(max(1, round(fraction * m)), m - 1)
    few = f"{m} of {len(found.train)} clients" if m < len(found.train) else ""
    cut = f"at most {limit} samples each" if (sizes > limit).any() else ""
    return Federation(
        name=found.name,
        x=found.x,
        y=found.y,
        clients=tuple(_limited(found.train[k], limit, seed, int(k)) for k in chosen),
        **_tests(found, [found.test[k] for k in chosen]),
        n_classes=found.n_classes,
        historical=np.arange(m) < n_historical,
        digest=found.digest,
        note="; ".join(filter(None, (", ".join(filter(None, (few, cut))), found.note))),
    )


def _limited(ids: np.ndarray, limit: int, seed: int, client: int) -> np.ndarray:
    """Return at most `limit` of a client's samples, drawn at random and in their order."""
    if len(ids) <= limit:
        return ids
    rng = generator(seed, "partition", 1, client)
    return np.sort(rng.choice(ids, limit, replace=False))


def _logistic(sizes: list[int], historical: np.ndarray, epsilon: float, seed: int) -> Federation:
    """Return the federation of the synthetic task."""
    draw = functools.partial(synthetic.logistic, seed=seed, epsilon=epsilon)
    x, y = map(np.concatenate, draw(sizes, purpose="samples"))
    x_test, y_test = map(np.concatenate, draw([LOGISTIC_TEST] * len(sizes), purpose="test_set"))
    return Federation(
        name="logistic",
        x=x,
        y=y,
        clients=tuple(np.split(np.arange(len(y)), np.cumsum(sizes)[:-1])),
        x_test=x_test,
        y_test=y_test,
        test_weights=np.full(len(y_test), 1 / len(y_test)),
        n_classes=2,
        historical=historical,
        digest=hashlib.sha256(x.tobytes() + y.tobytes()).hexdigest(),
        note=f"synthetic, epsilon = {epsilon:g}",
    )
