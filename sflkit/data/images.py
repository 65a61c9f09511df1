"""Data sets by name: found on disk and checked, made on the spot, or downloaded from the canonical
address.

`load(name)` looks for <name>.npz in $SFLKIT_DATA, then in data/ of the clone (outside a clone: the
user's cache folder), checks its sha256, schema and label range, and says when it is only a subset
of the canonical data set. `digits` and `traffic` are made on the spot and need no file. What is
nowhere is downloaded (`sflkit.data.downloads`), and if that fails the error says what to put where.
Sets with clients of their own (`CLIENT_SETS`) are listed and obtained here and built by
`sflkit.data.federations`.

The form of the npz and its checks are in `sflkit.data.files`.

Normalisation is (x / 255 - mean) / std. MNIST: the usual 0.1307 / 0.3081. FMNIST: the same pair, as
in the SFL paper (journal, Section VI), although it was measured on MNIST. CIFAR: the usual
constants per channel. digits: measured on its training part. traffic, ntc: the SFL paper does not
state its scaling; see `sflkit.data.traffic` for ours."""

from __future__ import annotations

import functools
import hashlib
import os
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from sflkit import checks
from sflkit.data import traffic
from sflkit.data.catalogue import (
    AT_HAND,
    CLIENT_SETS,
    SPECS,
    TRAFFIC_MEAN,
    TRAFFIC_STD,
    available,
    find,
    names,
    unavailable,
)
from sflkit.data.files import read


@dataclass(frozen=True, eq=False)
class Dataset:
    """A data set in memory; the arrays are read-only, since `load` hands the same ones to every
    caller.

    Parameters
    ----------
    name : str
    x_train, x_test : uint8, (n, H, W) or (n, H, W, 3)
    y_train, y_test : int64, (n,), class indices in [0, n_classes)
    n_classes : int
    mean, std : tuples of float, one a channel, of x / 255
    digest : str
        sha256, hex: of the npz file, or of the arrays' bytes when they were made on the spot.
    canonical : bool
        Whether both parts have the canonical number of samples; False is a subset (or an
        extension), and `note` says so.
    source : str
        The file, or how the arrays were made.
    note : str
        What a reader of results must know; empty when there is nothing to say.
    y_train_coarse, y_test_coarse : int64 or None
        Superclasses, in [0, n_coarse); None and 0 when there are none.
    """

    name: str
    x_train: np.ndarray = field(repr=False)
    y_train: np.ndarray = field(repr=False)
    x_test: np.ndarray = field(repr=False)
    y_test: np.ndarray = field(repr=False)
    n_classes: int
    mean: tuple[float, ...]
    std: tuple[float, ...]
    digest: str
    canonical: bool
    source: str
    note: str = ""
    y_train_coarse: np.ndarray | None = field(default=None, repr=False)
    y_test_coarse: np.ndarray | None = field(default=None, repr=False)
    n_coarse: int = 0

    @property
    def input_shape(self) -> tuple[int, int, int]:
        """(channels, height, width) of one input."""
        shape = self.x_train.shape[1:]
        return (shape[2], *shape[:2]) if len(shape) == 3 else (1, *shape)

    def inputs(self, split: str, indices=None) -> np.ndarray:
        """Return normalised inputs of "train" or "test", all or those at `indices`, float32 (n,
        channels, height, width).
        """
        x = self._part("x", split, indices)
        x = x.transpose(0, 3, 1, 2) if x.ndim == 4 else x[:, None]
        mean, std = (np.reshape(v, (-1, 1, 1)).astype(np.float64) for v in (self.mean, self.std))
        out = np.multiply(x, (1 / (255 * std)).astype(np.float32), dtype=np.float32, order="C")
        out -= (mean / std).astype(np.float32)
        return out

    def labels(self, split: str, indices=None, *, coarse: bool = False) -> np.ndarray:
        """Return a writable copy of the labels of "train" or "test" (or of the superclasses), int64
        (n,).
        """
        return np.array(self._part("y", split, indices, "_coarse" if coarse else ""))

    def with_coarse_labels(self) -> Dataset:
        """Return the same data set with the superclasses as its classes."""
        if self.y_train_coarse is None or self.y_test_coarse is None:
            raise ValueError(f"{self.name!r} has no superclasses")
        return replace(
            self, y_train=self.y_train_coarse, y_test=self.y_test_coarse, n_classes=self.n_coarse
        )

    def _part(self, what: str, split: str, indices, suffix: str = "") -> np.ndarray:
        checks.choice("split", split, ("train", "test"))
        array = getattr(self, f"{what}_{split}{suffix}")
        if array is None:
            raise ValueError(f"{self.name!r} has no superclasses")
        if indices is None:
            return array
        indices = np.asarray(indices)
        if indices.size and (
            not np.issubdtype(indices.dtype, np.integer)
            or indices.min() < 0
            or indices.max() >= len(array)
        ):
            raise ValueError(
                f"indices must be integers in [0, {len(array) - 1}] for {self.name!r} {split}"
            )
        return array[indices.astype(np.int64, copy=False)]


def load(name: str, *, root: str | os.PathLike | None = None, download: bool = True) -> Dataset:
    """Return the data set `name`, checked; repeated calls share one copy in memory.

    Parameters
    ----------
    name : str
        One of `names()` that is not in `CLIENT_SETS`.
    root : path, optional
        Folder to look in and to download to, instead of $SFLKIT_DATA and data/.
    download : bool
        Whether to fetch what is on no disk, after a message; False raises at once.

    Raises
    ------
    ValueError
        If the name is unknown or belongs to a set with clients of its own.
    DataCorruptError
        If a file is truncated, altered (its sha256 is not the one recorded beside it) or not of the
        documented form.
    DataUnavailableError
        If the data set is not on disk and cannot be downloaded.
    """
    checks.choice("name", name, names())
    if name in CLIENT_SETS:
        raise ValueError(
            f"name={name!r} has clients of its own and is no set of images to be dealt out: build it with "
            f"federations.data_streams or federations.static; here {', '.join([*AT_HAND, *SPECS])} are allowed"
        )
    if name in AT_HAND:
        return _make(name)
    path = obtain(name, root=root, download=download)
    state = path.stat()
    return _read(name, path, state.st_mtime_ns, state.st_size)


def obtain(
    name: str, *, root: str | os.PathLike | None = None, download: bool = True
) -> Path | str:
    """Return the file or folder of a data set, downloaded if need be, or how it is made on the
    spot. Raises as `load`.
    """
    checks.choice("name", name, names())
    if name in AT_HAND or (name in CLIENT_SETS and CLIENT_SETS[name][1] is None):
        return available(root=root)[name]
    path = find(name, root=root)
    if path is None:
        from sflkit.data import downloads

        if not download or name not in downloads.SOURCES:
            raise unavailable(name, root, "it is on none of the disks looked at")
        path = downloads.fetch(name, folder=root)
    return path


@functools.lru_cache(maxsize=3)
def _read(name: str, path: Path, mtime_ns: int, size: int) -> Dataset:
    """Check and read an npz file; the time and size are in the key so that a changed file is read
    again.
    """
    spec = SPECS[name]
    arrays, digest, recorded = read(path, spec)
    note = (
        ""
        if recorded
        else f"no {path.name}.sha256 beside the file, so its digest is recorded but was compared with nothing"
    )
    sizes = (len(arrays["y_train"]), len(arrays["y_test"]))
    if sizes != spec.sizes:
        less = all(have <= full for have, full in zip(sizes, spec.sizes, strict=True))
        subset = (
            f"{'subset' if less else 'not the canonical split'}: {sizes[0]:,} training and {sizes[1]:,} test samples, "
            f"canonical are {spec.sizes[0]:,} and {spec.sizes[1]:,}"
        )
        note = "; ".join(filter(None, (subset, note)))
    return _dataset(
        name,
        arrays,
        n_classes=spec.n_classes,
        n_coarse=spec.n_coarse,
        mean=spec.mean,
        std=spec.std,
        digest=digest,
        canonical=sizes == spec.sizes,
        source=str(path),
        note=note,
    )


@functools.cache
def _make(name: str) -> Dataset:
    if name == "digits":
        arrays = _digits()
        values = arrays["x_train"] / 255
        return _dataset(
            name,
            arrays,
            n_classes=10,
            n_coarse=5,
            mean=(float(values.mean()),),
            std=(float(values.std()),),
            digest=_digest(arrays),
            canonical=True,
            source=AT_HAND[name],
            note="8 x 8 images enlarged to 28 x 28; superclasses: label // 2",
        )
    x, y = traffic.generate()
    split = len(y) * 4 // 5
    arrays = {"x_train": x[:split], "y_train": y[:split], "x_test": x[split:], "y_test": y[split:]}
    return _dataset(
        name,
        arrays,
        n_classes=10,
        mean=(TRAFFIC_MEAN,),
        std=(TRAFFIC_STD,),
        digest=_digest(arrays),
        canonical=True,
        source=AT_HAND[name],
        note="synthetic stand-in for ISCXVPN2016 packets",
    )


def _digits() -> dict[str, np.ndarray]:
    """Enlarge scikit-learn's digits to 28 x 28 and split them 4 : 1 within each class, always the
    same way.
    """
    from scipy.ndimage import zoom
    from sklearn.datasets import load_digits

    bunch = load_digits()
    y = bunch.target.astype(np.int64)
    # 8 x 8 with values 0..16. Cubic enlargement overshoots at edges, hence the clip; the 1e-6 makes
    # halves go the same way on every machine, or the digest would depend on the last bit of a sum.
    x = np.clip(
        np.rint(zoom(bunch.images * (255 / 16), (1, 3.5, 3.5), order=3) - 1e-6), 0, 255
    ).astype(np.uint8)
    rng = np.random.default_rng(0)
    order = rng.permutation(len(y))
    rank = np.empty(len(y), np.int64)
    for label in range(10):
        of_class = order[y[order] == label]
        rank[of_class] = np.arange(len(of_class)) / len(of_class) * 5
    parts = {"train": order[rank[order] < 4], "test": order[rank[order] == 4]}
    arrays = {
        f"{what}_{split}": values[ids]
        for split, ids in parts.items()
        for what, values in (("x", x), ("y", y))
    }
    return arrays | {f"y_{split}_coarse": arrays[f"y_{split}"] // 2 for split in parts}


def _digest(arrays: dict[str, np.ndarray]) -> str:
    digest = hashlib.sha256()
    for key in sorted(arrays):
        digest.update(f"{key} {arrays[key].dtype.str} {arrays[key].shape}".encode())
        digest.update(np.ascontiguousarray(arrays[key]))
    return digest.hexdigest()


def _dataset(name: str, arrays: dict[str, np.ndarray], **known) -> Dataset:
    for array in arrays.values():
        array.flags.writeable = False
    return Dataset(name=name, **arrays, **known)
