"""Data sets by name: found on disk and checked, made on the spot, or downloaded from the canonical address.

`load(name)` looks for <name>.npz in $SFLKIT_DATA, then in data/ of the clone (outside a clone: the user's cache folder), checks its
sha256, schema and label range, and says when it is only a subset of the canonical data set. `digits` and `traffic` are made on the
spot and need no file. What is nowhere is downloaded (`sflkit.downloads`), and if that fails the error says what to put where.

The npz holds x_train, x_test: uint8, (n, H, W) or (n, H, W, 3); y_train, y_test: integers; optionally y_train_coarse, y_test_coarse.

Normalisation is (x / 255 - mean) / std. MNIST: the usual 0.1307 / 0.3081. FMNIST: the same pair, as in the SFL paper (journal,
Section V-A), although it was measured on MNIST. CIFAR: the usual constants per channel. digits: measured on its training part.
traffic, ntc: the SFL paper does not state its scaling; see `sflkit.traffic` for ours.
"""

from __future__ import annotations

import functools
import hashlib
import os
import re
import sys
import zipfile
import zlib
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from sflkit import checks, paths


class DataUnavailableError(FileNotFoundError):
    """The data set is neither on disk nor reachable; the message says which file to put where and what is at hand.

    A FileNotFoundError, so that callers who only know about files catch it too.
    """


class DataCorruptError(ValueError):
    """A file is there but is not what it should be; the message names the file, what was expected and what was found."""


@dataclass(frozen=True)
class Spec:
    """What is known of a data set before it is seen.

    Fields: n_classes, n_coarse (0: no superclasses); shape of one sample; canonical numbers of training and test samples;
    mean and std per channel, of x / 255; about: one line for lists.
    """

    n_classes: int
    shape: tuple[int, ...]
    sizes: tuple[int, int]
    mean: tuple[float, ...]
    std: tuple[float, ...]
    about: str
    n_coarse: int = 0


SPECS = {
    "mnist": Spec(10, (28, 28), (60000, 10000), (0.1307,), (0.3081,), "handwritten digits"),
    "fmnist": Spec(10, (28, 28), (60000, 10000), (0.1307,), (0.3081,), "Fashion-MNIST, articles of clothing"),
    "cifar10": Spec(10, (32, 32, 3), (50000, 10000), (0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616), "CIFAR-10 photographs"),
    "cifar100": Spec(100, (32, 32, 3), (50000, 10000), (0.5071, 0.4865, 0.4409), (0.2673, 0.2564, 0.2762),
                     "CIFAR-100 photographs with 20 superclasses", n_coarse=20),
    "ntc": Spec(10, (39, 39), (36000, 9000), (0.0,), (0.25,), "packets of ISCXVPN2016, supplied by the user (see data/README.md)"),
}
AT_HAND = {
    "digits": "scikit-learn's 1797 handwritten digits, enlarged to 28 x 28",
    "traffic": "45,000 synthetic network packets of 10 applications, 39 x 39 bytes",
}


@dataclass(frozen=True, eq=False)
class Dataset:
    """A data set in memory; the arrays are read-only, since `load` hands the same ones to every caller.

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
        Whether both parts have the canonical number of samples; False is a subset (or an extension), and `note` says so.
    source : str
        The file, or how the arrays were made.
    note : str
        What a reader of results must know; empty when there is nothing to say.
    y_train_coarse, y_test_coarse : int64 or None
        Superclasses.
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

    @property
    def input_shape(self) -> tuple[int, int, int]:
        """(channels, height, width) of one input."""
        shape = self.x_train.shape[1:]
        return (shape[2], *shape[:2]) if len(shape) == 3 else (1, *shape)

    def inputs(self, split: str, indices=None) -> np.ndarray:
        """Return normalised inputs of "train" or "test", all or those at `indices`, float32 (n, channels, height, width)."""
        x = self._part("x", split, indices)
        x = x.transpose(0, 3, 1, 2) if x.ndim == 4 else x[:, None]
        mean, std = (np.reshape(v, (-1, 1, 1)).astype(np.float64) for v in (self.mean, self.std))
        out = np.multiply(x, (1 / (255 * std)).astype(np.float32), dtype=np.float32, order="C")
        out -= (mean / std).astype(np.float32)
        return out

    def labels(self, split: str, indices=None, *, coarse: bool = False) -> np.ndarray:
        """Return a writable copy of the labels of "train" or "test" (or of the superclasses), int64 (n,)."""
        return np.array(self._part("y", split, indices, "_coarse" if coarse else ""))

    def with_coarse_labels(self) -> Dataset:
        """Return the same data set with the superclasses as its classes."""
        if self.y_train_coarse is None or self.y_test_coarse is None:
            raise ValueError(f"{self.name!r} has no superclasses")
        n_coarse = int(max(self.y_train_coarse.max(), self.y_test_coarse.max())) + 1
        return replace(self, y_train=self.y_train_coarse, y_test=self.y_test_coarse, n_classes=n_coarse)

    def _part(self, what: str, split: str, indices, suffix: str = "") -> np.ndarray:
        checks.choice("split", split, ("train", "test"))
        array = getattr(self, f"{what}_{split}{suffix}")
        if array is None:
            raise ValueError(f"{self.name!r} has no superclasses")
        if indices is None:
            return array
        indices = np.asarray(indices)
        if indices.size and (not np.issubdtype(indices.dtype, np.integer) or indices.min() < 0 or indices.max() >= len(array)):
            raise ValueError(f"indices must be integers in [0, {len(array) - 1}] for {self.name!r} {split}")
        return array[indices.astype(np.int64, copy=False)]


def names() -> list[str]:
    """Return the names that `load` knows."""
    return [*AT_HAND, *SPECS]


def load(name: str, *, root: str | os.PathLike | None = None, download: bool = True) -> Dataset:
    """Return the data set `name`, checked; repeated calls share one copy in memory.

    Parameters
    ----------
    name : str
        One of `names()`.
    root : path, optional
        Folder to look in and to download to, instead of $SFLKIT_DATA and data/.
    download : bool
        Whether to fetch what is on no disk, after a message; False raises at once.

    Raises
    ------
    ValueError
        If the name is unknown.
    DataCorruptError
        If a file is truncated, altered (its sha256 is not the one recorded beside it) or not of the documented form.
    DataUnavailableError
        If the data set is not on disk and cannot be downloaded.
    """
    checks.choice("name", name, names())
    if name in AT_HAND:
        return _make(name)
    path = find(name, root=root)
    if path is None:
        from sflkit import downloads

        if not download or name not in downloads.SOURCES:
            raise unavailable(name, root, "it is on none of the disks looked at")
        path = downloads.fetch(name, folder=root)
    state = path.stat()
    return _read(name, path, state.st_mtime_ns, state.st_size)


def find(name: str, *, root: str | os.PathLike | None = None) -> Path | None:
    """Return the npz file of a data set, or None."""
    for folder in _folders(root):
        if (folder / f"{name}.npz").is_file():
            return folder / f"{name}.npz"
    return None


def available(*, root: str | os.PathLike | None = None) -> dict[str, str]:
    """Return the data sets that load without a download: name -> file, or how they are made."""
    found = {name: f"made on the spot: {about}" for name, about in AT_HAND.items()}
    return found | {name: str(path) for name in SPECS if (path := find(name, root=root)) is not None}


def unavailable(name: str, root, reason: str) -> DataUnavailableError:
    """Return the error that tells the user how to get `name`."""
    folders = " or ".join(str(folder) for folder in _folders(root))
    fetch = ("it is not downloadable: data/README.md says how to make the file" if name == "ntc"
             else f"with a network connection, fetch it by: sflkit data {name}")
    return DataUnavailableError(f"data set {name!r} is not available: {reason}. Put {name}.npz into {folders}; {fetch}. "
                                f"At hand: {', '.join(available(root=root))}")


def write(path: Path, arrays: dict[str, np.ndarray]) -> str:
    """Write an npz file and its .sha256 so that no half-written file ever carries the final name; return the digest."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        with open(partial, "wb") as file:
            np.savez(file, **arrays)
        digest = _file_digest(partial)
        recorded = path.with_name(path.name + ".sha256")
        # The old record goes first: a crash in between leaves an unrecorded file, never a right file with a wrong record.
        recorded.unlink(missing_ok=True)
        os.replace(partial, path)
        partial.write_text(f"{digest}  {path.name}\n", encoding="utf-8")
        os.replace(partial, recorded)
    finally:
        partial.unlink(missing_ok=True)
    return digest


def _folders(root) -> list[Path]:
    return [Path(root).expanduser()] if root is not None else paths.data_folders()


def _file_digest(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@functools.lru_cache(maxsize=3)
def _read(name: str, path: Path, mtime_ns: int, size: int) -> Dataset:
    """Check and read an npz file; the time and size are in the key so that a changed file is read again."""
    digest, note = _file_digest(path), ""
    recorded = path.with_name(path.name + ".sha256")
    if recorded.is_file():
        expected = (recorded.read_text(encoding="utf-8", errors="replace").split() or [""])[0].lower()
        if not re.fullmatch("[0-9a-f]{64}", expected):
            raise DataCorruptError(f"{recorded} must start with the 64 hex digits of a sha256; it starts with {expected[:80]!r}")
        if digest != expected:
            raise DataCorruptError(f"{path} is damaged or altered: expected sha256 {expected} (from {recorded.name}), found {digest}. "
                                   f"Remove both files and fetch the data set again: sflkit data {name}")
    else:
        note = f"no {recorded.name} beside the file, so its digest is recorded but was compared with nothing"
    arrays = _arrays(name, path)
    spec = SPECS[name]
    sizes = (len(arrays["y_train"]), len(arrays["y_test"]))
    if sizes != spec.sizes:
        less = all(have <= full for have, full in zip(sizes, spec.sizes, strict=True))
        subset = (f"{'subset' if less else 'not the canonical split'}: {sizes[0]:,} training and {sizes[1]:,} test samples, "
                  f"canonical are {spec.sizes[0]:,} and {spec.sizes[1]:,}")
        note = "; ".join(filter(None, (subset, note)))
    return _dataset(name, arrays, n_classes=spec.n_classes, mean=spec.mean, std=spec.std, digest=digest,
                    canonical=sizes == spec.sizes, source=str(path), note=note)


def _arrays(name: str, path: Path) -> dict[str, np.ndarray]:
    spec = SPECS[name]
    try:
        with np.load(path, allow_pickle=False) as file:
            wanted = [k for k in file.files if k in ("x_train", "y_train", "x_test", "y_test", "y_train_coarse", "y_test_coarse")]
            arrays = {key: file[key] for key in wanted}
    except (zipfile.BadZipFile, zlib.error, ValueError, EOFError, OSError, KeyError, NotImplementedError, AttributeError) as error:
        raise DataCorruptError(f"{path} cannot be read as npz without pickled objects ({error}); it has {path.stat().st_size:,} bytes "
                               "and seems truncated, altered or of another format") from error
    for split in ("train", "test"):
        for key in (f"x_{split}", f"y_{split}"):
            if key not in arrays:
                raise DataCorruptError(f"{path} lacks {key}; it must hold x_train, y_train, x_test, y_test and holds {sorted(arrays)}")
        x = arrays[f"x_{split}"]
        if x.dtype != np.uint8 or x.shape[1:] != spec.shape or not len(x):
            raise DataCorruptError(f"{path}: x_{split} is {x.dtype} of shape {x.shape}; "
                                   f"{name} must be uint8 of shape (n, {', '.join(map(str, spec.shape))}) with n >= 1")
        for key, high in ((f"y_{split}", spec.n_classes), (f"y_{split}_coarse", spec.n_coarse)):
            if key in arrays:
                arrays[key] = _class_indices(path, key, arrays[key], len(x), high)
    if spec.n_coarse and not {"y_train_coarse", "y_test_coarse"} <= arrays.keys():
        raise DataCorruptError(f"{path} lacks the superclasses y_train_coarse, y_test_coarse")
    return arrays


def _class_indices(path: Path, key: str, y: np.ndarray, n_samples: int, n_classes: int) -> np.ndarray:
    if y.shape != (n_samples,) or not np.issubdtype(y.dtype, np.integer):
        raise DataCorruptError(f"{path}: {key} is {y.dtype} of shape {y.shape}; it must be {n_samples} integers, one a sample")
    if y.min() < 0 or y.max() >= n_classes:
        bad = y[(y < 0) | (y >= n_classes)][0]
        raise DataCorruptError(f"{path}: {key} holds the label {bad}; labels must be integers in [0, {n_classes - 1}]")
    return y.astype(np.int64)


@functools.cache
def _make(name: str) -> Dataset:
    if name == "digits":
        arrays = _digits()
        values = arrays["x_train"] / 255
        return _dataset(name, arrays, n_classes=10, mean=(float(values.mean()),), std=(float(values.std()),), digest=_digest(arrays),
                        canonical=True, source=AT_HAND[name], note="8 x 8 images enlarged to 28 x 28; superclasses: label // 2")
    from sflkit import traffic

    x, y = traffic.generate()
    split = len(y) * 4 // 5
    arrays = {"x_train": x[:split], "y_train": y[:split], "x_test": x[split:], "y_test": y[split:]}
    return _dataset(name, arrays, n_classes=10, mean=(traffic.MEAN,), std=(traffic.STD,), digest=_digest(arrays), canonical=True,
                    source=AT_HAND[name], note="synthetic stand-in for ISCXVPN2016 packets")


def _digits() -> dict[str, np.ndarray]:
    """Enlarge scikit-learn's digits to 28 x 28 and split them 4 : 1 within each class, always the same way."""
    from scipy.ndimage import zoom
    from sklearn.datasets import load_digits

    bunch = load_digits()
    y = bunch.target.astype(np.int64)
    # 8 x 8 with values 0..16; cubic enlargement overshoots at edges, hence the clip.
    x = np.clip(np.rint(zoom(bunch.images * (255 / 16), (1, 3.5, 3.5), order=3)), 0, 255).astype(np.uint8)
    rng = np.random.default_rng(0)
    order = rng.permutation(len(y))
    rank = np.empty(len(y), np.int64)
    for label in range(10):
        of_class = order[y[order] == label]
        rank[of_class] = np.arange(len(of_class)) / len(of_class) * 5
    parts = {"train": order[rank[order] < 4], "test": order[rank[order] == 4]}
    arrays = {f"{what}_{split}": values[ids] for split, ids in parts.items() for what, values in (("x", x), ("y", y))}
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


def say(message: str) -> None:
    """Tell the user something that must not end in the output of a program."""
    print(message, file=sys.stderr, flush=True)
