"""Download the canonical files of a data set, check them, and convert them to our own form.

The form is that of `sflkit.data.files`. Only the idx format of MNIST and the binary format of CIFAR
are read: nothing is unpickled, and archives are read member by member in memory, up to a limit, and
never unpacked to disk. What does not have its checksum is not read at all. Addresses and md5 sums
are those of the data sets' authors, or of the mirrors that torchvision uses. The md5 guards against
damage on the way, the sha256 written beside the result against damage later.
"""

from __future__ import annotations

import gzip
import os
import shutil
import sys
import tarfile
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from sflkit import checks, paths
from sflkit.data import catalogue
from sflkit.data.files import DataCorruptError, write

# Above every file of the data sets below, unpacked; a file of kilobytes can inflate to gigabytes.
LARGEST_BYTES = 2**28
RETRIES = 2  # of an address, after a broken connection or a wrong checksum
TIMEOUT = 30.0  # seconds without an answer after which an address is given up


@dataclass(frozen=True)
class Source:
    """Where a data set comes from, and how its files are read.

    Parameters
    ----------
    addresses : tuple of str
        Base addresses in the order in which they are tried; each ends in a slash.
    files : dict
        File name -> md5, or another checksum that names its kind ("sha256:...").
    convert : callable
        Turns the downloaded files, name -> path, into what is written: arrays become an npz, bytes
        are written as they are.
    """

    addresses: tuple[str, ...]
    files: dict[str, str]
    convert: Callable[[dict[str, Path]], dict[str, np.ndarray] | bytes]


def fetch(name: str, *, folder: str | os.PathLike | None = None) -> Path:
    """Download the data set `name`, convert it, and return its file.

    A file that is already there is kept. Each address is tried in turn, each `RETRIES` times more
    after a broken connection or a wrong checksum. Files that arrived whole are kept until the
    conversion is done, so that a second call does not fetch them again. Two processes do not fetch
    the same data set at the same time.

    Parameters
    ----------
    name : str
        A key of `SOURCES`.
    folder : path, optional
        Where the file goes; by default data/ of the clone, outside one the user's cache folder.

    Raises
    ------
    ValueError
        If the name is not downloadable.
    sflkit.data.DataUnavailableError
        If no address answers.
    sflkit.data.DataCorruptError
        If files arrive, but none with the right checksum or form.
    paths.CannotWrite
        If the folder cannot be written.
    """
    import filelock

    checks.choice("name", name, SOURCES)
    target_folder = paths.data() if folder is None else Path(folder).expanduser()
    target = target_folder / catalogue.file_name(name)
    raw = target_folder / f".{name}.download"
    paths.check_writable(raw)
    with filelock.FileLock(target_folder / f".{name}.lock"):
        try:
            if not target.is_file():
                print(
                    f"fetching {name} ({catalogue.about(name)}) into {target_folder}",
                    file=sys.stderr,  # it must not end in the output of a program
                    flush=True,
                )
                files = {file: _fetch_file(name, file, raw, folder) for file in SOURCES[name].files}
                write(target, _converted(name, files, raw))
                shutil.rmtree(raw)
        finally:
            # Files that arrived before a failure stay for the next attempt.
            if raw.is_dir() and not any(raw.iterdir()):
                raw.rmdir()
    return target


def _fetch_file(name: str, file: str, raw: Path, folder: str | os.PathLike | None) -> Path:
    """Download one file into the folder `raw` from the first address that has it whole."""
    import pooch
    import requests

    pooch.get_logger().setLevel("WARNING")  # our own message and the progress bar say enough
    source = SOURCES[name]
    checksum = source.files[file] if ":" in source.files[file] else f"md5:{source.files[file]}"
    failures = []
    damaged = False
    for address in source.addresses:
        keeper = pooch.create(
            path=raw, base_url=address, registry={file: checksum}, retry_if_failed=RETRIES
        )
        downloader = pooch.HTTPDownloader(progressbar=True, timeout=TIMEOUT)
        try:
            return Path(keeper.fetch(file, downloader=downloader))
        except ValueError as error:  # pooch's word for a wrong checksum
            damaged = True
            failures.append(f"{address}{file}: {error}")
        except (requests.RequestException, OSError) as error:
            failures.append(f"{address}{file}: {type(error).__name__}")
    reason = "; ".join(failures)
    if damaged:
        raise DataCorruptError(f"{file} of {name} did not arrive whole from any address: {reason}")
    raise catalogue.unavailable(name, folder, f"the download failed ({reason})")


def _converted(name: str, files: dict[str, Path], raw: Path) -> dict[str, np.ndarray] | bytes:
    """Return what is written of the downloaded files, which lie in the folder `raw`."""
    try:
        return SOURCES[name].convert(files)
    except (OSError, EOFError, KeyError, ValueError, zlib.error, tarfile.TarError) as error:
        message = f"the files of {name} in {raw} are not of the documented form: {error}"
        raise DataCorruptError(message) from error


def read_idx(path: Path) -> np.ndarray:
    """Return the array of a gzipped idx file of unsigned bytes, the format of MNIST.

    Layout: two zero bytes, type (8: unsigned byte), number of axes, the axes as big-endian 32-bit
    integers, the values in C order.

    Raises
    ------
    ValueError
        If the head is not of that form, the number of values does not fit it, or there are more
        than `LARGEST_BYTES`.
    """
    with gzip.open(path) as file:
        raw = file.read(LARGEST_BYTES + 1)
    if len(raw) > LARGEST_BYTES:
        raise ValueError(f"{path.name} takes more than {LARGEST_BYTES:,} bytes unpacked")
    if len(raw) < 4 or raw[:3] != b"\0\0\x08":
        raise ValueError(
            f"{path.name} starts with {raw[:4].hex()}; "
            "an idx file of unsigned bytes starts with 000008"
        )
    n_axes = raw[3]
    head = 4 + 4 * n_axes
    shape = tuple(map(int, np.frombuffer(raw, ">u4", n_axes, 4))) if len(raw) >= head else ()
    values = np.frombuffer(raw, np.uint8, offset=head) if shape else np.empty(0, np.uint8)
    if len(shape) != n_axes or len(values) != int(np.prod(shape)):
        raise ValueError(f"{path.name} holds {len(values)} values; its head promises shape {shape}")
    return values.reshape(shape)


def read_cifar(
    path: Path, members: tuple[str, ...], n_labels: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return images and labels of some members of a CIFAR binary archive.

    A record of a member is `n_labels` label bytes and 3 x 32 x 32 bytes of an image, channel by
    channel.

    Parameters
    ----------
    path : Path
        The archive, .tar.gz.
    members : tuple of str
        Names of the members without folders; their records are joined in this order.
    n_labels : int
        1 for CIFAR-10, 2 for CIFAR-100 (coarse, then fine).

    Returns
    -------
    images : uint8 (n, 32, 32, 3)
    labels : uint8 (n, n_labels)

    Raises
    ------
    ValueError
        If a member is missing, not a whole number of records, or larger than `LARGEST_BYTES`.
    """
    record = n_labels + 3 * 32 * 32
    parts = {}
    with tarfile.open(path, "r:gz") as archive:
        for item in archive:
            base = item.name.rsplit("/", 1)[-1]
            if item.size > LARGEST_BYTES:  # even to pass over it, it would have to be unpacked
                raise ValueError(
                    f"{item.name} of {path.name} takes {item.size:,} bytes unpacked; "
                    f"at most {LARGEST_BYTES:,} are read"
                )
            if base in members and item.isfile():
                parts[base] = np.frombuffer(archive.extractfile(item).read(), np.uint8)
    for member in members:
        if member not in parts:
            raise ValueError(f"{path.name} lacks {member}; it must hold {', '.join(members)}")
        if not len(parts[member]) or len(parts[member]) % record:
            raise ValueError(
                f"{member} of {path.name} has {len(parts[member])} bytes; "
                f"it must be a multiple of {record}"
            )
    records = np.concatenate([parts[member] for member in members]).reshape(-1, record)
    images = records[:, n_labels:].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)
    return np.ascontiguousarray(images), records[:, :n_labels]


def installed(folder: Path) -> dict[str, np.ndarray]:
    """Return the arrays of the four idx files in a folder, labels as int64.

    Raises
    ------
    sflkit.data.DataCorruptError
        If a file is missing, cannot be read or is not of that form.
    """
    try:
        arrays = _mnist({file: folder / file for file in catalogue.IDX_FILES})
    except (OSError, EOFError, ValueError, zlib.error) as error:
        raise DataCorruptError(f"{folder} is not of the documented form: {error}") from error
    return {
        key: values.astype(np.int64) if key[0] == "y" else values for key, values in arrays.items()
    }


def _text(files: dict[str, Path]) -> bytes:
    (path,) = files.values()
    return path.read_bytes()


def _mnist(files: dict[str, Path]) -> dict[str, np.ndarray]:
    names = {
        "x_train": "train-images-idx3",
        "y_train": "train-labels-idx1",
        "x_test": "t10k-images-idx3",
        "y_test": "t10k-labels-idx1",
    }
    return {key: read_idx(files[f"{name}-ubyte.gz"]) for key, name in names.items()}


def _cifar10(files: dict[str, Path]) -> dict[str, np.ndarray]:
    (path,) = files.values()
    members = {
        "train": tuple(f"data_batch_{i}.bin" for i in range(1, 6)),
        "test": ("test_batch.bin",),
    }
    arrays = {}
    for split, wanted in members.items():
        arrays[f"x_{split}"], labels = read_cifar(path, wanted, 1)
        arrays[f"y_{split}"] = labels[:, 0]
    return arrays


def _cifar100(files: dict[str, Path]) -> dict[str, np.ndarray]:
    (path,) = files.values()
    arrays = {}
    for split in ("train", "test"):
        arrays[f"x_{split}"], labels = read_cifar(path, (f"{split}.bin",), 2)
        arrays[f"y_{split}_coarse"], arrays[f"y_{split}"] = labels.T
    return arrays


SOURCES = {
    "mnist": Source(
        (
            "https://ossci-datasets.s3.amazonaws.com/mnist/",
            "https://storage.googleapis.com/cvdf-datasets/mnist/",
        ),
        {
            "train-images-idx3-ubyte.gz": "f68b3c2dcbeaaa9fbdd348bbdeb94873",
            "train-labels-idx1-ubyte.gz": "d53e105ee54ea40749a09fcbcd1e9432",
            "t10k-images-idx3-ubyte.gz": "9fb629c4189551a2d022fa330f9573f3",
            "t10k-labels-idx1-ubyte.gz": "ec29112dd5afa0611ce80d1b7f02629c",
        },
        _mnist,
    ),
    "fmnist": Source(
        (
            "https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/master/data/fashion/",
            "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",  # no TLS, so it is last
        ),
        {
            "train-images-idx3-ubyte.gz": "8d4fb7e6c68d591d4c3dfef9ec88bf0d",
            "train-labels-idx1-ubyte.gz": "25c81989df183df01b3e8a0aad5dffbe",
            "t10k-images-idx3-ubyte.gz": "bef4ecab320f06d8554ea6380940ec79",
            "t10k-labels-idx1-ubyte.gz": "bb300cfdad3c16e7a12a480ee83cd310",
        },
        _mnist,
    ),
    "cifar10": Source(
        ("https://www.cs.toronto.edu/~kriz/",),
        {"cifar-10-binary.tar.gz": "c32a1d4ab5d03f1284b67883e8d87530"},
        _cifar10,
    ),
    "cifar100": Source(
        ("https://www.cs.toronto.edu/~kriz/",),
        {"cifar-100-binary.tar.gz": "03b5dce01913d631647c71ecec9e9cb8"},
        _cifar100,
    ),
    "shakespeare": Source(
        ("https://raw.githubusercontent.com/karpathy/char-rnn/master/data/tinyshakespeare/",),
        {"input.txt": f"sha256:{catalogue.SHAKESPEARE}"},
        _text,
    ),
}
