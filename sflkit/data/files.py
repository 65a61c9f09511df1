"""Files of data sets: their forms, and the error where one is wrong.

A data set of images is one file <name>.npz with these arrays:

| array                        | type    | shape                                    |
|------------------------------|---------|------------------------------------------|
| x_train, x_test              | uint8   | (n, H, W), or (n, H, W, 3) for colours   |
| y_train, y_test              | integer | (n,), classes                            |
| y_train_coarse, y_test_coarse| integer | (n,), superclasses, where there are any  |

or a folder as torchvision leaves it: idx files, which may be gzipped, or CIFAR's batches. The
batches are pickles, and a pickle can call any function. Here it can call none: what these files
need of numpy is stood in for, and anything else is refused.
"""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import os
import pickle
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from sflkit import npzfiles, paths
from sflkit.data.catalogue import Spec

SPLITS = ("train", "test")
_KEYS = ("x_train", "y_train", "x_test", "y_test")
_COARSE = ("y_train_coarse", "y_test_coarse")
_IDX = {
    "x_train": "train-images-idx3-ubyte",
    "y_train": "train-labels-idx1-ubyte",
    "x_test": "t10k-images-idx3-ubyte",
    "y_test": "t10k-labels-idx1-ubyte",
}
_SIDE = 32  # of CIFAR's images


class DataCorruptError(ValueError):
    """A file is there but is not what it should be.

    The message names the file, what was expected and what was found.
    """


def read(path: Path, spec: Spec) -> dict[str, np.ndarray]:
    """Read and check a data set of images: arrays as in the module's table, labels as int64.

    Parameters
    ----------
    path : Path
        The npz file, or a folder of torchvision's.
    spec : Spec
        What the arrays must agree with.

    Raises
    ------
    DataCorruptError
        If the file cannot be read, or does not fit `spec`.
    """
    needed = _KEYS + _COARSE if spec.n_coarse else _KEYS
    try:
        if not path.is_dir():
            arrays = npzfiles.read_npz(path, names=needed)
        elif spec.ordered:
            arrays = read_batches(path, spec.n_coarse > 0)
        else:
            arrays = read_idx_folder(path)
    except FileNotFoundError:
        raise
    except (OSError, ValueError, EOFError, zlib.error) as error:
        form = "in torchvision's form" if path.is_dir() else "as npz without pickled objects"
        raise DataCorruptError(f"{path} cannot be read {form}: {error}") from error
    if missing := [key for key in needed if key not in arrays]:
        raise DataCorruptError(
            f"{path} lacks {missing[0]}; it must hold {', '.join(needed)} and holds "
            f"{sorted(arrays)}"
        )
    _check(path, spec, arrays)
    return {key: x.astype(np.int64) if key[0] == "y" else x for key, x in arrays.items()}


def _check(path: Path, spec: Spec, arrays: Mapping[str, np.ndarray]) -> None:
    """Refuse arrays that are not of the documented form."""
    for split in SPLITS:
        x = arrays[f"x_{split}"]
        if x.dtype != np.uint8 or x.shape[1:] != spec.shape or not len(x):
            raise DataCorruptError(
                f"{path}: x_{split} is {x.dtype} of shape {x.shape}; "
                f"it must be uint8 of shape (n, {', '.join(map(str, spec.shape))}) with n >= 1"
            )
        for key, n in ((f"y_{split}", spec.n_classes), (f"y_{split}_coarse", spec.n_coarse)):
            y = arrays.get(key)
            if y is None:
                continue
            if y.shape != (len(x),) or y.dtype.kind not in "iu":
                raise DataCorruptError(
                    f"{path}: {key} is {y.dtype} of shape {y.shape}; "
                    f"it must be {len(x)} integers, one per sample"
                )
            if (wrong := (y < 0) | (y >= n)).any():
                raise DataCorruptError(
                    f"{path}: {key} holds the label {y[wrong][0]}; "
                    f"labels must be integers in [0, {n - 1}]"
                )


def read_idx_folder(folder: Path) -> dict[str, np.ndarray]:
    """Return the arrays of MNIST's four idx files; OSError or ValueError where one is wrong."""
    arrays = {}
    for key, name in _IDX.items():
        plain = folder / name
        packed = folder / f"{name}.gz"
        if not plain.is_file() and not packed.is_file():
            raise ValueError(f"it lacks {name} or {packed.name}")
        arrays[key] = read_idx(plain if plain.is_file() else packed)
    return arrays


def read_idx(path: Path) -> np.ndarray:
    """Return the array of an idx file of unsigned bytes, the format of MNIST; .gz is unpacked.

    Layout: two zero bytes, type (8: unsigned byte), number of axes, the axes as big-endian 32-bit
    integers, the values in C order.

    Raises
    ------
    ValueError
        If the head is not of that form, or the number of values does not fit it.
    OSError, EOFError, zlib.error
        If the file cannot be read or unpacked.
    """
    with gzip.open(path) if path.suffix == ".gz" else open(path, "rb") as file:
        raw = file.read()
    if len(raw) < 4 or raw[:3] != b"\0\0\x08":
        raise ValueError(
            f"{path.name} starts with {raw[:4].hex()}; "
            "an idx file of unsigned bytes starts with 000008"
        )
    head = 4 + 4 * raw[3]
    shape = tuple(map(int, np.frombuffer(raw[:head], ">u4", offset=4))) if len(raw) >= head else ()
    values = np.frombuffer(raw[head:], np.uint8)
    if len(shape) != raw[3] or len(values) != int(np.prod(shape)):
        raise ValueError(f"{path.name} holds {len(values)} values; its head promises shape {shape}")
    return values.reshape(shape)


def read_batches(folder: Path, coarse: bool) -> dict[str, np.ndarray]:
    """Return the arrays of CIFAR's batches, "python version", of CIFAR-100 where `coarse`.

    Raises
    ------
    OSError
        If a file cannot be read.
    ValueError
        If a file is missing, or is no such batch.
    """
    names = {"train": ["train"], "test": ["test"]}
    keys = {"": b"fine_labels", "_coarse": b"coarse_labels"}
    if not coarse:
        names = {"train": [f"data_batch_{i}" for i in range(1, 6)], "test": ["test_batch"]}
        keys = {"": b"labels"}
    arrays = {}
    for split, files in names.items():
        if missing := [name for name in files if not (folder / name).is_file()]:
            raise ValueError(f"it lacks {missing[0]}")
        batches = [_unpickled(folder / name, keys.values()) for name in files]
        rows = np.concatenate([batch[b"data"] for batch in batches])  # a colour after the other
        x = rows.reshape(-1, 3, _SIDE, _SIDE).transpose(0, 2, 3, 1)
        arrays[f"x_{split}"] = np.ascontiguousarray(x)
        for end, key in keys.items():
            labels = [np.asarray(batch[key], np.int64) for batch in batches]
            arrays[f"y_{split}{end}"] = np.concatenate(labels)
    return arrays


class _Array:
    """Stands for the array of bytes of a pickle; only its numbers are looked at."""

    def __init__(self, *_: Any) -> None:
        self.values = np.empty(0, np.uint8)

    def __setstate__(self, state: tuple) -> None:
        _, shape, dtype, by_columns, raw = state
        if dtype.name not in ("u1", b"u1"):
            raise ValueError(f"its array is of type {dtype.name!r}; it must be of bytes, 'u1'")
        order = "F" if by_columns else "C"
        self.values = np.frombuffer(raw, np.uint8).reshape(shape, order=order)


class _Type:
    """Stands for the type of that array."""

    def __init__(self, name: Any, *_: Any) -> None:
        self.name = name

    def __setstate__(self, state: tuple) -> None:
        pass


_STAND_INS = {
    ("numpy.core.multiarray", "_reconstruct"): _Array,
    ("numpy._core.multiarray", "_reconstruct"): _Array,
    ("numpy", "ndarray"): _Array,
    ("numpy", "dtype"): _Type,
}


class _Unpickler(pickle.Unpickler):
    """Reads CIFAR's pickles: a pickle calls the functions that it names, and these are ours."""

    def find_class(self, module: str, name: str) -> Any:
        """Return what stands for a function of numpy; ValueError for any other."""
        if (module, name) not in _STAND_INS:
            raise ValueError(f"it asks for {module}.{name}, which no batch of CIFAR does")
        return _STAND_INS[module, name]


def _unpickled(path: Path, labels: Any) -> dict[bytes, Any]:
    """Return a batch of CIFAR: data (n, 3072) bytes, and the lists of labels named."""
    try:
        with open(path, "rb") as file:
            batch = _Unpickler(file, encoding="bytes").load()
        found = {key: batch[key] for key in labels} | {b"data": batch[b"data"].values}
        lengths = {len(values) for values in found.values()}
    except OSError:
        raise
    except Exception as error:  # a damaged pickle fails in any way
        raise ValueError(f"{path.name} is no batch of CIFAR: {error or 'it ends'}") from error
    if found[b"data"].shape[1:] != (3 * _SIDE**2,) or len(lengths) > 1:
        raise ValueError(
            f"{path.name} holds data {found[b'data'].shape} and {sorted(lengths)} samples and "
            "labels; it must hold as many rows of 3072 bytes as labels"
        )
    return found


def write(path: Path, content: dict[str, np.ndarray] | bytes) -> str:
    """Write a file and return its sha256.

    Arrays become an npz, bytes are written as they are. No half-written file ever carries the final
    name, so that a killed process or a full disk leaves the old file or none.

    Raises
    ------
    paths.CannotWrite
        If the disk is full or the folder cannot be written.
    """
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        partial.unlink(missing_ok=True)
        with open(partial, "xb") as file:  # x follows no link
            if isinstance(content, bytes):
                file.write(content)
            else:
                np.savez(file, **content)
        digest = file_digest(partial)
        os.replace(partial, path)
    except OSError as error:
        raise paths.CannotWrite(error.errno, error.strerror or str(error), str(path)) from error
    finally:
        with contextlib.suppress(OSError):
            partial.unlink(missing_ok=True)
    return digest


def state(path: Path) -> tuple[tuple[str, int, int], ...]:
    """Return names, times and sizes of a file or of a folder's files: another where one changed."""
    files = sorted(path.iterdir()) if path.is_dir() else [path]
    return tuple((file.name, file.stat().st_mtime_ns, file.stat().st_size) for file in files)


def file_digest(path: Path) -> str:
    """Return the sha256 of a file, hex; OSError names a file that cannot be read."""
    paths.check_regular(path)
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def contents_digest(arrays: Mapping[str, np.ndarray]) -> str:
    """Return the sha256 of arrays by name, type, shape and bytes, whatever file held them."""
    digest = hashlib.sha256()
    for key in sorted(arrays):
        digest.update(f"{key} {arrays[key].dtype.str} {arrays[key].shape}".encode())
        digest.update(np.ascontiguousarray(arrays[key]))
    return digest.hexdigest()


def in_own_order(arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return the samples of either part by label, and within a label by the sha256 of their bytes.

    Any copy of the same samples comes out alike, whatever order it came in.
    """
    ordered = {}
    for split in SPLITS:
        x = np.ascontiguousarray(arrays[f"x_{split}"])
        keys = np.array([hashlib.sha256(image).hexdigest().encode() for image in x])
        order = np.lexsort((keys, arrays[f"y_{split}"]))
        ordered |= {key: arrays[key][order] for key in arrays if key.split("_")[1] == split}
    return ordered
