"""Who holds which data: the clients of a federated experiment, their samples in order of arrival,
and how they are tested.

Sources: FDS (Federated Learning for Data Streams), Section 6 and Appendix D; FATS, Section 6.1.
Sets with natural clients come from `sflkit.data.natural`.

Where FDS is silent: the number of test samples of the synthetic task and its epsilon (an argument
here), and how "average test accuracy across clients" is taken on the one test set of CIFAR: here
the test distribution of a client has the client's own label shares, so that test sample i of class
r weighs the mean over clients of the share of r, over the number of test samples of r.

| code         | symbol    | shape        | meaning                                                                             |
|--------------|-----------|--------------|-------------------------------------------------------------------------------------|
| x, y         | z = (x,y) | (n, ...)     | training samples, ready for the model: float32 inputs or int64 tokens; int64 labels |
| clients      | S_m       | M x (N_m,)   | rows of each client, in the order in which they arrive                              |
| test_weights |           | (n_test,)    | share of each test sample in the average over clients of the accuracy at a client   |
| historical   | m <= M_h  | (M,)         | bool mask of the clients that hold all their samples from the start                 |
| hist_fraction| N_h / N   |              | share of the samples (natural clients: of the clients, M_h / M) that is historical  |
| epsilon      | epsilon   |              | standard deviation of the clients' true weights around the common ones, >= 0        |
"""

from __future__ import annotations

import bisect
import functools
import hashlib
from dataclasses import dataclass, field, replace

import numpy as np

from sflkit import checks
from sflkit.data import images, natural, partitions, synthetic
from sflkit.randomness import generator

IMAGES = ("digits", "mnist", "fmnist", "cifar10", "cifar100")


NATURAL = ("writers", "femnist", "plays", "shakespeare")


NAMES = ("logistic", *IMAGES, *NATURAL)


LOGISTIC_SAMPLES = 200  # of all clients together: FDS, Table 1


LOGISTIC_TEST = 200  # of every client: ours


@dataclass(frozen=True, eq=False)
class Federation:
    """Clients and their data. Arrays are read-only and may be shared among callers.

    Parameters
    ----------
    name : str
    x, y : (n, ...) float32 or int64, and (n,) int64
    clients : tuple of int64 arrays (N_m,)
        Rows of `x` that each client holds, in order of arrival; every client has at least one, and
        no row has two holders.
    x_test, y_test : (n_test, ...), (n_test,)
    test_weights : float64 (n_test,)
        >= 0, sums to 1: the weighted mean over the test set is the mean over clients of the mean at
        a client.
    n_classes : int
    historical : bool (n_clients,)
        Clients with static data; the others' samples arrive over time (FDS, Section 5). All True
        when there is no such split.
    digest : str
        sha256 of the data behind it; `note` says what a reader must know (stand-in, subset).

    Raises
    ------
    ValueError
        If shapes do not fit, a client is empty, a row is out of range or held twice, or the weights
        are no probability vector.
    """

    name: str
    x: np.ndarray = field(repr=False)
    y: np.ndarray = field(repr=False)
    clients: tuple[np.ndarray, ...] = field(repr=False)
    x_test: np.ndarray = field(repr=False)
    y_test: np.ndarray = field(repr=False)
    test_weights: np.ndarray = field(repr=False)
    n_classes: int
    historical: np.ndarray = field(repr=False)
    digest: str = ""
    note: str = ""

    n_clients = property(lambda self: len(self.clients), doc="M.")
    input_shape = property(lambda self: tuple(self.x.shape[1:]), doc="Shape of one sample.")
    sizes = property(
        lambda self: np.array([len(ids) for ids in self.clients]), doc="N_m, int64 (n_clients,)."
    )

    def __post_init__(self):
        empty = [m for m, ids in enumerate(self.clients) if not len(ids)]
        if empty or not self.clients:
            raise ValueError(
                f"clients={empty} hold no sample; each of the {len(self.clients)} clients must hold at least one"
            )
        rows = np.concatenate(self.clients)
        if rows.dtype.kind not in "iu" or rows.min() < 0 or rows.max() >= len(self.x):
            raise ValueError(
                f"clients hold rows {rows.min()} to {rows.max()} ({rows.dtype}); they must be integers in "
                f"[0, {len(self.x) - 1}]"
            )
        if np.bincount(rows).max() > 1:
            raise ValueError(
                f"clients hold row {np.argmax(np.bincount(rows))} twice; every sample has at most one holder"
            )
        if (
            self.x.shape[1:] != self.x_test.shape[1:]
            or len(self.x) != len(self.y)
            or len(self.x_test) != len(self.y_test)
        ):
            raise ValueError(
                f"x {self.x.shape}, y {self.y.shape}, x_test {self.x_test.shape}, y_test {self.y_test.shape} must "
                "have one label a sample and samples of one shape"
            )
        for name, y in (("y", self.y), ("y_test", self.y_test)):
            if y.dtype != np.int64 or y.min() < 0 or y.max() >= self.n_classes:
                raise ValueError(
                    f"{name} holds {y.dtype} {y.min()} to {y.max()}; it must be int64 in [0, {self.n_classes - 1}]"
                )
        weights = checks.simplex("test_weights", self.test_weights)
        if (
            len(weights) != len(self.y_test)
            or self.historical.shape != (len(self.clients),)
            or self.historical.dtype != bool
        ):
            raise ValueError(
                f"test_weights has shape {weights.shape}, historical is {self.historical.dtype} of shape "
                f"{self.historical.shape}; they must have {self.y_test.shape} and be bool of ({len(self.clients)},)"
            )
        for array in (
            self.x,
            self.y,
            *self.clients,
            self.x_test,
            self.y_test,
            self.test_weights,
            self.historical,
        ):
            array.flags.writeable = False


def data_streams(
    name: str,
    *,
    n_clients: int | None,
    hist_fraction: float,
    seed: int,
    n_historical: int | None = None,
    n_samples: int | None = None,
    alpha: float = 0.4,
    epsilon: float = 0.1,
    root=None,
    **natural_options,
) -> Federation:
    """Return the clients of an experiment of FDS: historical ones first, then fresh ones.

    Image sets: the training set is first split at random into N_hist = round(hist_fraction N)
    samples and the rest, then a group is distributed among its clients (Appendix D.3): Dirichlet
    shares a class, cifar100 by Pachinko allocation. logistic: the synthetic task of D.1.1 with the
    same sizes inside each group. Natural clients (writers, femnist, plays, shakespeare): whole
    clients are historical, drawn at random; 20 % of each client's samples are its test set.

    Parameters
    ----------
    name : str
        One of `NAMES`.
    n_clients : int or None
        M >= 2 (FDS: synthetic 11, CIFAR 50). Natural clients: a random choice of that many; None
        takes all.
    hist_fraction : float
        N_hist / N, for natural clients M_hist / M; in (0, 1). FDS: 0.05, 0.2, 0.5.
    seed : int
        Of the partition (and of the synthetic task's data).
    n_historical : int
        M_hist in [1, M - 1] (FDS: synthetic 10, CIFAR 25). Natural clients: not used,
        round(hist_fraction M) decides.
    n_samples : int or None
        Training samples in all: a random subset of an image set (None: the whole set; validation
        included), the size of the synthetic task (None: 200). Natural clients: at most that many in
        all, capped evenly.
    alpha : float
        Dirichlet parameter of image sets, > 0 (FDS: 0.4; cifar100 uses Reddi et al.'s 0.1 and 10
        instead).
    epsilon : float
        Synthetic task only, >= 0; FDS does not state it. 0.1 is ours: clients differ, but one model
        serves them all.
    root : path, optional
        Folder of the data, as in `data.load`.
    natural_options
        Passed on to `natural.load`: vocabulary, stride, test_stride.

    Raises
    ------
    ValueError
        If an argument is out of range or a group has fewer samples than clients.
    sflkit.data.DataUnavailableError, sflkit.data.images.DataCorruptError
        As `data.load`.
    """
    checks.choice("name", name, NAMES)
    fraction = checks.real("hist_fraction", hist_fraction, above=0, below=1)
    alpha, epsilon = (
        checks.real("alpha", alpha, above=0),
        checks.real("epsilon", epsilon, 0),
    )  # also where they are not used
    if name in NATURAL:
        return _natural(name, n_clients, seed, n_samples, 1, None, fraction, root, natural_options)
    _no_options(name, natural_options)
    n_clients = checks.integer("n_clients", n_clients, 2)
    n_historical = checks.integer("n_historical", n_historical, 1, n_clients - 1)
    historical = np.arange(n_clients) < n_historical
    source = None if name == "logistic" else images.load(name, root=root)
    rows, note = _rows(source, n_samples, seed)
    # The historical part is a prefix of one random order: a larger fraction keeps the samples of a
    # smaller one.
    n_hist = int(np.rint(fraction * len(rows)))
    for what, have, need in (
        ("historical", n_hist, n_historical),
        ("fresh", len(rows) - n_hist, n_clients - n_historical),
    ):
        if have < need:
            raise ValueError(
                f"hist_fraction={fraction} of n_samples={len(rows)} gives {have} {what} samples to {need} clients; "
                "every client must hold at least one"
            )
    if name == "logistic":
        sizes = [
            len(part)
            for ids, m in ((rows[:n_hist], n_historical), (rows[n_hist:], n_clients - n_historical))
            for part in np.array_split(ids, m)
        ]
        return _logistic(sizes, historical, epsilon, seed)
    y, clients = source.y_train, []
    for group, (ids, m) in enumerate(
        ((rows[:n_hist], n_historical), (rows[n_hist:], n_clients - n_historical))
    ):
        rng = generator(seed, "partition", 1 + group)
        local = (
            partitions.pachinko(y[ids], source.y_train_coarse[ids], m, rng)
            if name == "cifar100"
            else partitions.dirichlet(y[ids], m, alpha, rng)
        )
        clients += [ids[part] for part in local]
    return _images(source, rows, clients, historical, note)


def static(
    name: str,
    *,
    n_clients: int | None,
    seed: int,
    alpha: float = 0.5,
    n_samples: int | None = None,
    samples_per_client: int | None = None,
    min_samples: int = 1,
    root=None,
    **natural_options,
) -> Federation:
    """Return the clients of an experiment of FATS, which all hold their samples from the start.

    Image sets: clients of equal size N, the label mix of each from a symmetric Dirichlet law (Hsu
    et al. 2019, whom FATS cites; its algorithm has one N for all clients). Natural clients: those
    with at least `min_samples` training samples.

    Parameters
    ----------
    name : str
        One of `NAMES` except "logistic".
    n_clients : int or None
        M >= 1 (FATS: 100 in the text, 300 to 3556 in Table 2); for natural clients None takes all.
    seed : int
    alpha : float
        Dirichlet parameter of every class, > 0 (FATS: 0.5); unused by natural clients.
    n_samples : int or None
        Cap of the training samples in all, as in `data_streams`; at least M times
        `samples_per_client`.
    samples_per_client : int or None
        N, the same at every client (a random choice of the client's samples). None: all, floor(n /
        M) for image sets.
    min_samples : int
        Natural clients only, >= 1 (FATS: 100); `samples_per_client` raises it to itself.
    root, natural_options
        As in `data_streams`.

    Raises
    ------
    ValueError, sflkit.data.DataUnavailableError, sflkit.data.images.DataCorruptError
        As `data_streams`; also when there are too few samples or natural clients.
    """
    checks.choice("name", name, NAMES[1:])
    if name in NATURAL:
        return _natural(
            name,
            n_clients,
            seed,
            n_samples,
            min_samples,
            samples_per_client,
            None,
            root,
            natural_options,
        )
    _no_options(name, natural_options)
    n_clients, source = checks.integer("n_clients", n_clients, 1), images.load(name, root=root)
    rows, note = _rows(source, n_samples, seed)
    per_client = len(rows) // n_clients if samples_per_client is None else samples_per_client
    per_client = checks.integer("samples_per_client", per_client, 1)
    if n_clients * per_client > len(rows):
        raise ValueError(
            f"n_clients={n_clients} with samples_per_client={per_client} need {n_clients * per_client} samples; "
            f"there are {len(rows)}"
        )
    ids = rows[: n_clients * per_client]
    y = source.y_train[ids]
    local = partitions.pachinko(y, y, n_clients, generator(seed, "partition", 1), alpha=alpha)
    return _images(source, rows, [ids[part] for part in local], np.ones(n_clients, bool), note)


def validation_split(federation: Federation, share: float, rng: np.random.Generator) -> Federation:
    """Return the federation with part of every client's samples as its test set, to choose learning
    rates (FDS, D.2).

    A client of n samples gives up round(share n) of them, but keeps at least one; the mean over the
    clients that gave any is the test score. Images give up random samples. Text gives up its last
    windows, since neighbouring ones overlap, and of these one in every 20 characters is tested.

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
    share, rng = checks.real("share", share, above=0, below=1), checks.generator(rng)
    kept, given = [], []
    for ids in federation.clients:
        n = min(len(ids) - 1, int(np.rint(share * len(ids))))
        out = np.arange(len(ids)) >= len(ids) - n
        out = out if federation.x.dtype.kind == "i" else rng.permutation(out)
        kept.append(ids[~out])
        given.append(
            ids[out]
            if federation.x.dtype.kind != "i"
            else ids[out][np.unique(ids[out] // 20, return_index=True)[1]]
        )
    rows, weights = _per_client(given)
    if not len(rows):
        raise ValueError(
            f"share={share} leaves no validation sample: clients hold {federation.sizes.min()} to "
            f"{federation.sizes.max()} samples and keep at least one"
        )
    return replace(
        federation,
        clients=tuple(kept),
        x_test=federation.x[rows],
        y_test=federation.y[rows],
        test_weights=weights,
    )


def label_weights(y, clients, y_test, n_classes: int) -> np.ndarray:
    """Return the share of each test sample in the mean over clients of the score on a test set with
    the client's label shares.

    Raises
    ------
    ValueError
        If clients hold a class of which there is no test sample.
    """
    shares = np.mean(
        [np.bincount(y[ids], minlength=n_classes) / len(ids) for ids in clients], axis=0
    )
    have = np.bincount(y_test, minlength=n_classes)
    untested = np.flatnonzero((have == 0) & (shares > 0))
    if len(untested):
        raise ValueError(
            f"y_test has no sample of the classes {untested.tolist()}, which clients hold"
        )
    weights = (shares / np.maximum(have, 1))[y_test]
    return weights / weights.sum()


def _per_client(parts) -> tuple[np.ndarray, np.ndarray]:
    """Return the rows of all parts and their weights 1 / (M' n_m), M' the number of parts that are
    not empty.
    """
    full = [ids for ids in parts if len(ids)]
    if not full:
        return np.empty(0, np.int64), np.empty(0)
    return np.concatenate(full), np.concatenate(
        [np.full(len(ids), 1 / (len(full) * len(ids))) for ids in full]
    )


def _rows(source, n_samples: int | None, seed: int) -> tuple[np.ndarray, str]:
    """Return a random order of the samples in use, and what to say about it."""
    if source is None:
        return np.arange(
            checks.integer("n_samples", LOGISTIC_SAMPLES if n_samples is None else n_samples, 2)
        ), ""
    total = len(source.y_train)
    n = checks.integer("n_samples", total if n_samples is None else n_samples, 1, total)
    order = generator(seed, "partition", 0).permutation(total)[:n]
    subset = f"random subset of {n:,} of {total:,} training samples" if n < total else ""
    return order, "; ".join(filter(None, (subset, source.note)))


@functools.lru_cache(maxsize=2)  # the runs of a sweep share one conversion
def _converted(source: images.Dataset, split: str) -> np.ndarray:
    return source.inputs(split)


def _images(
    source: images.Dataset, rows: np.ndarray, clients: list, historical: np.ndarray, note: str
) -> Federation:
    y, y_test = source.y_train, source.y_test
    weights = label_weights(y, clients, y_test, source.n_classes)
    if len(rows) == len(y):
        x = _converted(source, "train")
    # a subset is numbered anew, in the data set's order, so that only its images are converted
    else:
        rows, place = np.sort(rows), np.full(len(y), -1)
        place[rows] = np.arange(len(rows))
        x, y, clients = source.inputs("train", rows), y[rows], [place[ids] for ids in clients]
    return Federation(
        source.name,
        x,
        y,
        tuple(clients),
        _converted(source, "test"),
        y_test,
        weights,
        source.n_classes,
        historical,
        source.digest,
        note,
    )


def _natural(
    name: str,
    n_clients: int | None,
    seed: int,
    n_samples: int | None,
    min_samples: int,
    samples_per_client: int | None,
    fraction: float | None,
    root,
    options: dict,
) -> Federation:
    """Natural clients in random order; the first round(fraction M) are historical, or all when
    `fraction` is None.
    """
    found, fresh = natural.load(name, root=root, **options), fraction is not None
    need = checks.integer("min_samples", min_samples, 1)
    if samples_per_client is not None:
        need = max(need, checks.integer("samples_per_client", samples_per_client, 1))
    able = np.flatnonzero([len(ids) >= need for ids in found.train])
    if len(able) < 1 + fresh:
        raise ValueError(
            f"{name!r} has {len(able)} clients with at least {need} training samples; {1 + fresh} are needed"
        )
    m = checks.integer(
        "n_clients", len(able) if n_clients is None else n_clients, 1 + fresh, len(able)
    )
    chosen = generator(seed, "partition", 0).permutation(able)[:m]
    sizes = np.array([len(found.train[k]) for k in chosen])
    cap = samples_per_client or sizes.max()
    if n_samples is not None:  # the largest even cap that keeps to it
        checks.integer("n_samples", n_samples, m * (samples_per_client or 1))
        cap = min(
            cap,
            bisect.bisect_right(
                range(1, sizes.max() + 1), n_samples, key=lambda c: np.minimum(sizes, c).sum()
            ),
        )
    clients = [
        found.train[k]
        if len(found.train[k]) <= cap
        else np.sort(
            generator(seed, "partition", 1, int(k)).choice(found.train[k], cap, replace=False)
        )
        for k in chosen
    ]
    rows, weights = _per_client([found.test[k] for k in chosen])
    historical = np.arange(m) < (min(max(1, round(fraction * m)), m - 1) if fresh else m)
    less = f"{m} of {len(found.train)} clients" if m < len(found.train) else ""
    less += f", at most {cap} samples each" if (sizes > cap).any() else ""
    return Federation(
        name,
        found.x,
        found.y,
        tuple(clients),
        found.x[rows],
        found.y[rows],
        weights,
        found.n_classes,
        historical,
        found.digest,
        "; ".join(filter(None, (less.lstrip(", "), found.note))),
    )


def _logistic(sizes: list[int], historical: np.ndarray, epsilon: float, seed: int) -> Federation:
    x, y = map(np.concatenate, synthetic.logistic(sizes, seed, "samples", epsilon))
    x_test, y_test = map(
        np.concatenate, synthetic.logistic([LOGISTIC_TEST] * len(sizes), seed, "test_set", epsilon)
    )
    clients = tuple(np.split(np.arange(len(y)), np.cumsum(sizes)[:-1]))
    return Federation(
        "logistic",
        x,
        y,
        clients,
        x_test,
        y_test,
        np.full(len(y_test), 1 / len(y_test)),
        2,
        historical,
        hashlib.sha256(x.tobytes() + y.tobytes()).hexdigest(),
        f"synthetic, epsilon = {epsilon:g}",
    )


def _no_options(name: str, options: dict) -> None:
    if options:
        raise ValueError(
            f"{', '.join(options)}: only data sets with natural clients take these; {name!r} has none"
        )
