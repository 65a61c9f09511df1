"""Reading npz files that anyone may have written: what they hold is known before it is unpacked.

An npz is a zip archive with one npy file per array. The zip's directory says how many bytes each
takes when it is unpacked, and the first line of each npy says shape and type. Both must agree, and
stay below a bound, before any array is made: a file of kilobytes can otherwise inflate to
gigabytes, and a header that promises a terabyte is believed until the memory ends. Nothing is
unpickled, since a pickle can run code.
"""

from __future__ import annotations

import math
import zipfile
import zlib
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import BinaryIO, NamedTuple

import numpy as np

# Above every data set and every file of weights that the library knows.
LARGEST_BYTES = 2 * 2**30
_READERS = {
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
}


class Form(NamedTuple):
    """Shape and type of an array that is not unpacked yet."""

    shape: tuple[int, ...]
    dtype: np.dtype

    @property
    def nbytes(self) -> int:
        """Bytes of the numbers, exact however many they are."""
        return math.prod(self.shape) * self.dtype.itemsize


def read_npz(
    path: Path | str,
    *,
    names: Collection[str] | None = None,
    check: Callable[[Mapping[str, Form]], None] | None = None,
    largest: int = LARGEST_BYTES,
) -> dict[str, np.ndarray]:
    """Return the arrays of an npz file, by name.

    Parameters
    ----------
    path : path
    names : collection of str, optional
        The arrays that are wanted, where the file has them; all by default. Others are not looked
        at.
    check : callable, optional
        Gets the form of each array before anything is unpacked, and raises what it likes.
    largest : int
        Bytes that the arrays may take together.

    Raises
    ------
    FileNotFoundError
        If there is no file.
    ValueError
        If the file is no npz of arrays without pickled objects, is damaged, holds less or more than
        its headers promise, or more than `largest` bytes.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            entries = _entries(archive, names)
            forms = {name: _form(archive, entry) for name, entry in entries.items()}
            total = sum(form.nbytes for form in forms.values())
            if total > largest:
                raise ValueError(
                    f"its arrays take {total:,} bytes unpacked; at most {largest:,} are read"
                )
            if check is not None:
                check(forms)
            return {name: _array(archive, entry) for name, entry in entries.items()}
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError) as error:
        # Damage shows in the zip, in its compression or in the npy within, or as an encrypted file.
        raise ValueError(str(error) or "it ends too early") from error


def _entries(archive: zipfile.ZipFile, names: Collection[str] | None) -> dict[str, zipfile.ZipInfo]:
    """Return the wanted entries of an archive by the names of their arrays."""
    found: dict[str, zipfile.ZipInfo] = {}
    for entry in archive.infolist():
        name = entry.filename.removesuffix(".npy")
        if names is not None and name not in names:
            continue
        if name in found or name == entry.filename:
            raise ValueError(f"entry {entry.filename!r} is there twice or is no npy")
        found[name] = entry
    return found


def _form(archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> Form:
    """Return what the header of an entry promises, refused unless the archive holds as much."""
    with archive.open(entry) as file:
        form = _header(file, entry.filename)
        promised = file.tell() + form.nbytes
    if promised != entry.file_size:
        raise ValueError(
            f"the header of {entry.filename!r} promises {promised:,} bytes; the archive holds "
            f"{entry.file_size:,}"
        )
    return form


def _header(file: BinaryIO, name: str) -> Form:
    version = np.lib.format.read_magic(file)
    if version not in _READERS:
        raise ValueError(f"{name!r} is an npy of version {version}; read are 1.0 and 2.0")
    try:
        shape, _, dtype = _READERS[version](file)
    except (zipfile.BadZipFile, zlib.error, OSError):
        raise
    except Exception as error:  # numpy reads it by Python's own parser, which fails in many ways
        raise ValueError(f"the header of {name!r} cannot be read ({error})") from error
    if dtype.hasobject:
        raise ValueError(f"{name!r} holds pickled objects, which are not read")
    if any(length < 0 for length in shape):
        raise ValueError(f"{name!r} has shape {shape}; lengths must be >= 0")
    if not dtype.itemsize:  # any number of them takes no bytes, until something is made of them
        raise ValueError(f"{name!r} holds {dtype}, items of no bytes")
    return Form(shape, dtype)


def _array(archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> np.ndarray:
    with archive.open(entry) as file:
        return np.lib.format.read_array(file, allow_pickle=False)
