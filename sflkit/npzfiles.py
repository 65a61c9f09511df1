"""Reading npz files that anyone may have written, without unpickling anything."""

from __future__ import annotations

import os
import stat
from collections.abc import Collection
from pathlib import Path

import numpy as np

# Above every data set and every file of weights that the library knows.
LARGEST_BYTES = 2 * 2**30


def read_npz(
    path: Path | str, *, names: Collection[str] | None = None, largest: int = LARGEST_BYTES
) -> dict[str, np.ndarray]:
    """Return the arrays of an npz file, by name.

    Parameters
    ----------
    path : path
    names : collection of str, optional
        The arrays that are wanted, where the file has them; all by default. Others are not looked
        at.
    largest : int
        Bytes that the arrays may take together, unpacked.

    Raises
    ------
    FileNotFoundError
        If there is no file.
    ValueError
        If it is no npz of arrays without pickled objects, is damaged, takes more than `largest`
        bytes, or is a pipe or a device.
    """
    if not stat.S_ISREG(os.stat(path).st_mode):
        raise ValueError("it is no regular file")  # a pipe might never end
    try:
        with np.load(path, allow_pickle=False) as file:  # of an npy, an array: it has no `with`
            total = sum(entry.file_size for entry in file.zip.infolist())
            if total > largest:  # zipfile unpacks no more than it says there
                raise ValueError(f"it takes {total:,} bytes unpacked; at most {largest:,} are read")
            found = {name: file[name] for name in file.files if names is None or name in names}
        for name, values in found.items():
            # what is no npy comes as bytes; of items without bytes there may be any number
            if isinstance(values, bytes) or (values.size and not values.itemsize):
                raise ValueError(f"its entry {name!r} is no array of numbers or text")
        return found
    except Exception as error:  # damage shows in the zip, in its compression, in numpy's own parser
        raise ValueError(str(error) or "it ends too early") from error
