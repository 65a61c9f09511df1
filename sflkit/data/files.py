"""Files of data sets: their form, the sha256 beside them, and the errors where either is wrong.

A data set of images is one file <name>.npz with these arrays:

| array                        | type    | shape                                    |
|------------------------------|---------|------------------------------------------|
| x_train, x_test              | uint8   | (n, H, W), or (n, H, W, 3) for colours   |
| y_train, y_test              | integer | (n,), classes                            |
| y_train_coarse, y_test_coarse| integer | (n,), superclasses, where there are any  |

Nothing is unpickled, and the form is looked at before anything is unpacked (`sflkit.npzfiles`). The
digest of a file lies beside it in
<file>.sha256, in the form that `sha256sum -c` reads; a file without one is read as well.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
from collections.abc import Mapping
from functools import partial
from pathlib import Path

import numpy as np

from sflkit import npzfiles, paths
from sflkit.data.catalogue import Spec

_KEYS = ("x_train", "y_train", "x_test", "y_test", "y_train_coarse", "y_test_coarse")


class DataCorruptError(ValueError):
    """A file is there but is not what it should be.

    The message names the file, what was expected and what was found.
    """


def read(path: Path, spec: Spec) -> tuple[dict[str, np.ndarray], str, bool]:
    """Read and check a data set of images.

    Parameters
    ----------
    path : Path
        The npz file.
    spec : Spec
        What the arrays must agree with.

    Returns
    -------
    arrays : dict of arrays
        As in the module's table, labels as int64.
    digest : str
        The file's sha256, hex.
    recorded : bool
        Whether a record of the sha256 lay beside the file.

    Raises
    ------
    DataCorruptError
        If the file is not the recorded one, cannot be read, or does not fit `spec`.
    """
    digest, recorded = check(path)
    arrays = _unpacked(path, spec)
    for split in ("train", "test"):
        for key, n in ((f"y_{split}", spec.n_classes), (f"y_{split}_coarse", spec.n_coarse)):
            if key in arrays:
                arrays[key] = _class_indices(path, key, arrays[key], n)
    return arrays, digest, recorded


def check(path: Path) -> tuple[str, bool]:
    """Return the sha256 of a file, and whether a record of it lay beside the file.

    Raises
    ------
    DataCorruptError
        If the file is not the recorded one, or one of the two cannot be read.
    """
    recorded = path.with_name(path.name + ".sha256")
    has_record = os.path.lexists(recorded)
    try:
        digest = _file_digest(path)
        words = paths.read(recorded).decode(errors="replace").split() if has_record else []
    except OSError as error:
        if not path.exists():
            raise
        name = error.filename or path  # reading what was opened names no file
        raise DataCorruptError(f"{name} cannot be read: {error.strerror}") from error
    if has_record:
        expected = words[0].lower() if words else ""
        if not re.fullmatch("[0-9a-f]{64}", expected):
            raise DataCorruptError(
                f"{recorded} must start with the 64 hex digits of a sha256; "
                f"it starts with {expected[:80]!r}"
            )
        if digest != expected:
            raise DataCorruptError(
                f"{path} is damaged or altered: expected sha256 {expected} "
                f"(from {recorded.name}), found {digest}. "
                f"Remove both files and fetch the data set again: sflkit data {path.stem}"
            )
    return digest, has_record


def write(path: Path, content: dict[str, np.ndarray] | bytes) -> str:
    """Write a file and the .sha256 beside it, and return the digest.

    Arrays become an npz, bytes are written as they are. No half-written file ever carries the final
    name, so that a killed process or a full disk leaves the old file or none.

    Raises
    ------
    paths.CannotWrite
        If the disk is full or the folder cannot be written.
    """
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    recorded = path.with_name(path.name + ".sha256")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        partial.unlink(missing_ok=True)
        with open(partial, "xb") as file:  # x follows no link
            if isinstance(content, bytes):
                file.write(content)
            else:
                np.savez(file, **content)
        digest = _file_digest(partial)
        # The old record goes first: a crash in between leaves an unrecorded file, never a right
        # file with a wrong record.
        recorded.unlink(missing_ok=True)
        os.replace(partial, path)
        paths.write_atomic(recorded, f"{digest}  {path.name}\n")
    except OSError as error:
        wrong = str(recorded if error.filename == str(recorded) else path)
        raise paths.CannotWrite(error.errno, error.strerror or str(error), wrong) from error
    finally:
        with contextlib.suppress(OSError):
            partial.unlink(missing_ok=True)
    return digest


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
    for split in ("train", "test"):
        images = np.ascontiguousarray(arrays[f"x_{split}"])
        keys = np.array([hashlib.sha256(image).hexdigest().encode() for image in images])
        order = np.lexsort((keys, arrays[f"y_{split}"]))
        ordered |= {key: arrays[key][order] for key in arrays if key.split("_")[1] == split}
    return ordered


def _file_digest(path: Path) -> str:
    paths.check_regular(path)
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _check_forms(path: Path, spec: Spec, arrays: Mapping[str, npzfiles.Form]) -> None:
    """Refuse arrays that are not of the documented form; they are not unpacked yet."""
    for split in ("train", "test"):
        for key in (f"x_{split}", f"y_{split}"):
            if key not in arrays:
                raise DataCorruptError(
                    f"{path} lacks {key}; it must hold x_train, y_train, x_test, y_test and holds "
                    f"{sorted(arrays)}"
                )
        x = arrays[f"x_{split}"]
        if x.dtype != np.uint8 or x.shape[1:] != spec.shape or not x.shape[0]:
            raise DataCorruptError(
                f"{path}: x_{split} is {x.dtype} of shape {x.shape}; "
                f"it must be uint8 of shape (n, {', '.join(map(str, spec.shape))}) with n >= 1"
            )
        for key in (f"y_{split}", f"y_{split}_coarse"):
            y = arrays.get(key)
            if y is not None and (y.shape != x.shape[:1] or y.dtype.kind not in "iu"):
                raise DataCorruptError(
                    f"{path}: {key} is {y.dtype} of shape {y.shape}; "
                    f"it must be {x.shape[0]} integers, one per sample"
                )
    if spec.n_coarse and not {"y_train_coarse", "y_test_coarse"} <= arrays.keys():
        raise DataCorruptError(f"{path} lacks the superclasses y_train_coarse, y_test_coarse")


def _unpacked(path: Path, spec: Spec) -> dict[str, np.ndarray]:
    """Return the known arrays of an npz file, as they are, if their form is right."""
    try:
        return npzfiles.read_npz(path, names=_KEYS, check=partial(_check_forms, path, spec))
    except DataCorruptError:
        raise
    except (ValueError, OSError) as error:
        raise DataCorruptError(
            f"{path} cannot be read as npz without pickled objects ({error}); it has "
            f"{path.stat().st_size:,} bytes and seems truncated, altered or of another format"
        ) from error


def _class_indices(path: Path, key: str, y: np.ndarray, n_classes: int) -> np.ndarray:
    if y.min() < 0 or y.max() >= n_classes:
        bad = y[(y < 0) | (y >= n_classes)][0]
        raise DataCorruptError(
            f"{path}: {key} holds the label {bad}; labels must be integers in [0, {n_classes - 1}]"
        )
    return y.astype(np.int64)
