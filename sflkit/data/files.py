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

import gzip
import hashlib
import io
import pickle
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from sflkit import checks, npzfiles, paths
from sflkit.data.catalogue import Spec

SPLITS = ("train", "test")
_KEYS = ("x_train", "y_train", "x_test", "y_test")
_COARSE = ("y_train_coarse", "y_test_coarse")
IDX = {
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
        if missing := [key for key in needed if key not in arrays]:
            raise ValueError(f"it lacks {missing[0]} and holds {', '.join(sorted(arrays))}")
        return {key: _checked(key, arrays, spec) for key in needed}
    except FileNotFoundError:
        raise
    except (OSError, ValueError, EOFError, zlib.error) as error:
        raise DataCorruptError(f"{path} cannot be read: {error}") from error


def _checked(key: str, arrays: Mapping[str, np.ndarray], spec: Spec) -> np.ndarray:
    """Return images, or labels as int64; ValueError if they are of another form."""
    found = arrays[key]
    if key[0] == "x":
        if found.dtype != np.uint8 or found.shape[1:] != spec.shape or not len(found):
            shape = ", ".join(map(str, spec.shape))
            raise ValueError(
                f"{key} is {found.dtype} of shape {found.shape}; it must be uint8 of shape "
                f"(n, {shape}) with n >= 1"
            )
        return found
    labels = checks.indices(key, found, spec.n_coarse if key in _COARSE else spec.n_classes)
    n = len(arrays[f"x_{key.split('_')[1]}"])
    if len(labels) != n:
        raise ValueError(f"{key} has {len(labels)} labels; it must have one for each of {n} images")
    return labels


def read_idx_folder(folder: Path) -> dict[str, np.ndarray]:
    """Return the arrays of MNIST's four idx files; OSError or ValueError where one is wrong."""
    arrays = {}
    for key, name in IDX.items():
        found = [path for path in (folder / name, folder / f"{name}.gz") if path.is_file()]
        if not found:
            raise ValueError(f"it lacks {name} or {name}.gz")
        arrays[key] = read_idx(found[0])
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
    raw = paths.read(path)
    raw = gzip.decompress(raw) if path.suffix == ".gz" else raw
    if raw[:3] != b"\0\0\x08" or len(raw) < 4 + 4 * raw[3]:
        raise ValueError(
            f"{path.name} starts with {raw[:4].hex()}; an idx file of unsigned bytes starts with "
            "000008, the number of its axes, and their lengths"
        )
    shape = tuple(map(int, np.frombuffer(raw, ">u4", raw[3], 4)))
    values = np.frombuffer(raw, np.uint8, offset=4 + 4 * raw[3])
    if len(values) != int(np.prod(shape)):
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
    names = {"train": [f"data_batch_{i}" for i in range(1, 6)], "test": ["test_batch"]}
    keys = {"y_{}": b"labels"}
    if coarse:
        names = {"train": ["train"], "test": ["test"]}
        keys = {"y_{}": b"fine_labels", "y_{}_coarse": b"coarse_labels"}
    arrays = {}
    for split, files in names.items():
        if missing := [name for name in files if not (folder / name).is_file()]:
            raise ValueError(f"it lacks {missing[0]}")
        batches = [_unpickled(folder / name, [*keys.values()]) for name in files]
        rows = np.concatenate([batch[b"data"] for batch in batches])  # a colour after the other
        x = rows.reshape(-1, 3, _SIDE, _SIDE).transpose(0, 2, 3, 1)
        arrays[f"x_{split}"] = np.ascontiguousarray(x)
        for name, key in keys.items():
            arrays[name.format(split)] = np.concatenate([batch[key] for batch in batches])
    return arrays


class _Plain:
    """Stands for numpy's array, its type and what makes them: it keeps what it is given."""

    def __init__(self, *given: Any) -> None:
        self.given = given

    def __setstate__(self, state: tuple) -> None:
        self.state = state


class _Unpickler(pickle.Unpickler):
    """Reads CIFAR's pickles: a pickle calls the functions that it names, and these are ours."""

    def find_class(self, module: str, name: str) -> Any:
        """Return what stands for a function of numpy; ValueError for any other."""
        if module.startswith("numpy") and name in ("_reconstruct", "ndarray", "dtype"):
            return _Plain
        raise ValueError(f"it asks for {module}.{name}, which no batch of CIFAR does")


def _unpickled(path: Path, labels: list[bytes]) -> dict[bytes, np.ndarray]:
    """Return a batch of CIFAR: data (n, 3072) bytes, and the lists of labels named."""
    try:
        batch = _Unpickler(io.BytesIO(paths.read(path)), encoding="bytes").load()
        _, shape, kind, by_columns, raw = batch[b"data"].state
        if kind.given[0] not in ("u1", b"u1"):
            raise ValueError(f"its array is of type {kind.given[0]!r}; it must be of bytes, 'u1'")
        found = {key: np.asarray(batch[key], np.int64) for key in labels}
        x = np.frombuffer(raw, np.uint8).reshape(shape, order="F" if by_columns else "C")
        if x.shape[1:] != (3 * _SIDE**2,) or any(y.shape != x.shape[:1] for y in found.values()):
            sizes = [len(y) for y in found.values()]
            raise ValueError(
                f"it holds {x.shape} bytes, which must be rows of 3072, as many as labels, {sizes}"
            )
        return found | {b"data": x}
    except OSError:
        raise
    except Exception as error:  # a damaged pickle fails in any way
        raise ValueError(f"{path.name} is no batch of CIFAR: {error or 'it ends'}") from error


def write(path: Path, content: dict[str, np.ndarray] | bytes) -> str:
    """Write a file in one step, and return its sha256; arrays become an npz.

    Raises
    ------
    paths.CannotWrite
        If the disk is full or the folder cannot be written.
    """
    if not isinstance(content, bytes):
        file = io.BytesIO()
        np.savez(file, **content)
        content = file.getbuffer()
    paths.write_atomic(path, content)
    return hashlib.sha256(content).hexdigest()


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
