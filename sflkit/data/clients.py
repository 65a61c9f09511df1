"""Clients and their data, whoever made them: natural ones, and those of an experiment."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from sflkit import checks
from sflkit.data.arrays import Inputs


@dataclass(frozen=True, eq=False)
class NaturalClients:
    """Samples of natural clients. The arrays are made read-only, since callers share them.

    Parameters
    ----------
    name : str
    x, y, train, test
        Samples, and the rows of each client to train and to test on; `sflkit.data.natural` has a
        table. `x` may hold rows of nobody: windows that reach from one role into
        the next. A client with one sample has an empty test part.
    clients : tuple of str
        Writers, or roles.
    n_classes : int
    digest : str
        sha256 of the data.
    note : str
        What a reader of results must know.
    """

    name: str
    x: np.ndarray = field(repr=False)
    y: np.ndarray = field(repr=False)
    clients: tuple[str, ...] = field(repr=False)
    train: tuple[np.ndarray, ...] = field(repr=False)
    test: tuple[np.ndarray, ...] = field(repr=False)
    n_classes: int
    digest: str
    note: str = ""

    def __post_init__(self) -> None:
        for array in (self.x, self.y, *self.train, *self.test):
            array.flags.writeable = False


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
        If shapes do not fit, a client is empty, a row is out of range or held twice, or the weights
        are no probability vector.
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
        self._check_clients()
        self._check_samples()
        for value in (*vars(self).values(), *self.clients):
            if isinstance(value, np.ndarray):
                value.flags.writeable = False

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

    def _check_clients(self) -> None:
        empty = [m for m, ids in enumerate(self.clients) if not len(ids)]
        if empty or not self.clients:
            raise ValueError(
                f"clients={empty} hold no sample; "
                f"each of the {len(self.clients)} clients must hold at least one"
            )
        rows = np.concatenate(self.clients)
        if rows.dtype.kind not in "iu" or rows.min() < 0 or rows.max() >= len(self.x):
            raise ValueError(
                f"clients hold rows {rows.min()} to {rows.max()} ({rows.dtype}); "
                f"they must be integers in [0, {len(self.x) - 1}]"
            )
        holders = np.bincount(rows)
        if holders.max() > 1:
            raise ValueError(
                f"clients hold row {np.argmax(holders)} twice; every sample has at most one holder"
            )

    def _check_samples(self) -> None:
        n, n_test, m = len(self.y), len(self.y_test), len(self.clients)
        shapes = (self.x.shape, self.x_test.shape, self.test_weights.shape, self.historical.shape)
        if (
            shapes != ((n, *self.x.shape[1:]), (n_test, *self.x.shape[1:]), (n_test,), (m,))
            or self.historical.dtype != bool
        ):
            raise ValueError(
                f"x {self.x.shape}, y {self.y.shape}, x_test {self.x_test.shape}, y_test "
                f"{self.y_test.shape}, test_weights {self.test_weights.shape}, historical "
                f"{self.historical.dtype} {self.historical.shape} must have one label per sample, "
                f"samples of one shape, one weight per test sample and one bool per client, {m}"
            )
        for name, y in (("y", self.y), ("y_test", self.y_test)):
            if y.dtype != np.int64 or y.min() < 0 or y.max() >= self.n_classes:
                raise ValueError(
                    f"{name} holds {y.dtype} {y.min()} to {y.max()}; "
                    f"it must be int64 in [0, {self.n_classes - 1}]"
                )
        for name, x in (("x", self.x), ("x_test", self.x_test)):
            if isinstance(x, np.ndarray) and not np.isfinite(x).all():
                raise ValueError(f"{name} holds a value that is not finite; fill or drop such rows")
        checks.simplex("test_weights", self.test_weights)
