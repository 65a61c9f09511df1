"""Download the canonical files of a data set, check them, and convert them to our own form.

The form is that of `sflkit.data.files`. pooch fetches: what does not have its checksum is not read
at all, a broken connection is tried again, and then the next address. Addresses and md5 sums are
those of the data sets' authors, or of the mirrors that torchvision uses. Archives are read member
by member in memory, and never unpacked to disk.
"""

from __future__ import annotations

import os
import shutil
import sys
import tarfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np

from sflkit import checks, paths
from sflkit.data import catalogue, files

RETRIES = 2  # of an address, after a broken connection or a wrong checksum
TIMEOUT = 30.0  # seconds without an answer after which an address is given up


class Source(NamedTuple):
    """Where a data set comes from, and how its files are read.

    Attributes
    ----------
    addresses : tuple of str
        Base addresses in the order in which they are tried; each ends in a slash.
    files : dict
        File name -> checksum, as "md5:..." or "sha256:...".
    convert : callable
        Turns the folder of the downloaded files into what is written: arrays become an npz, bytes
        are written as they are.
    """

    addresses: tuple[str, ...]
    files: dict[str, str]
    convert: Callable[[Path], dict[str, np.ndarray] | bytes]


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
    source = SOURCES[checks.choice("name", name, SOURCES)]
    target_folder = paths.data() if folder is None else Path(folder).expanduser()
    target = target_folder / catalogue.file_name(name)
    raw = target_folder / f".{name}.download"
    paths.check_writable(target_folder)
    with paths.lock(target):
        if target.is_file():
            return target
        print(
            f"fetching {name} ({catalogue.about(name)}) into {target_folder}",
            file=sys.stderr,  # it must not end in the output of a program
            flush=True,
        )
        for file, checksum in source.files.items():
            _fetch_file(name, file, checksum, raw, folder)
        try:
            content = source.convert(raw)
        except (OSError, EOFError, KeyError, ValueError, zlib.error, tarfile.TarError) as error:
            message = f"the files of {name} in {raw} are not of the documented form: {error}"
            raise files.DataCorruptError(message) from error
        files.write(target, content)
        shutil.rmtree(raw)
    return target


def _fetch_file(
    name: str, file: str, checksum: str, raw: Path, folder: str | os.PathLike | None
) -> None:
    """Download one file into the folder `raw` from the first address that has it whole."""
    import pooch
    import requests

    pooch.get_logger().setLevel("WARNING")  # our own message and the progress bar say enough
    downloader = pooch.HTTPDownloader(progressbar=True, timeout=TIMEOUT)
    failures = []
    damaged = False
    for address in SOURCES[name].addresses:
        keeper = pooch.create(raw, address, registry={file: checksum}, retry_if_failed=RETRIES)
        try:
            keeper.fetch(file, downloader=downloader)
            return
        except ValueError as error:  # pooch's word for a wrong checksum
            damaged = True
            failures.append(f"{address}{file}: {error}")
        except (requests.RequestException, OSError) as error:
            failures.append(f"{address}{file}: {type(error).__name__}")
    reason = "; ".join(failures)
    if damaged:
        message = f"{file} of {name} did not arrive whole from any address: {reason}"
        raise files.DataCorruptError(message)
    raise catalogue.unavailable(name, folder, f"the download failed ({reason})")


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
        If a member is missing or not a whole number of records.
    """
    record = n_labels + 3 * 32 * 32
    parts = {}
    with tarfile.open(path, "r:gz") as archive:
        for item in archive:
            base = item.name.rpartition("/")[2]
            if base in members and item.isfile():
                parts[base] = np.frombuffer(archive.extractfile(item).read(), np.uint8)
    for member in members:
        if not len(parts.get(member, ())) or len(parts[member]) % record:
            raise ValueError(
                f"{member} of {path.name} has {len(parts.get(member, ()))} bytes; "
                f"it must be a multiple of {record}"
            )
    records = np.concatenate([parts[member] for member in members]).reshape(-1, record)
    return files.images(records[:, n_labels:]), records[:, :n_labels]


def _cifar10(raw: Path) -> dict[str, np.ndarray]:
    batches = tuple(f"data_batch_{i}.bin" for i in range(1, 6))
    arrays = {}
    for split, members in (("train", batches), ("test", ("test_batch.bin",))):
        arrays[f"x_{split}"], labels = read_cifar(raw / "cifar-10-binary.tar.gz", members, 1)
        arrays[f"y_{split}"] = labels[:, 0]
    return arrays


def _cifar100(raw: Path) -> dict[str, np.ndarray]:
    arrays = {}
    for split in files.SPLITS:
        archive = raw / "cifar-100-binary.tar.gz"
        arrays[f"x_{split}"], labels = read_cifar(archive, (f"{split}.bin",), 2)
        arrays[f"y_{split}_coarse"], arrays[f"y_{split}"] = labels.T
    return arrays


SOURCES = {
    "mnist": Source(
        (
            "https://ossci-datasets.s3.amazonaws.com/mnist/",
            "https://storage.googleapis.com/cvdf-datasets/mnist/",
        ),
        {
            "train-images-idx3-ubyte.gz": "md5:f68b3c2dcbeaaa9fbdd348bbdeb94873",
            "train-labels-idx1-ubyte.gz": "md5:d53e105ee54ea40749a09fcbcd1e9432",
            "t10k-images-idx3-ubyte.gz": "md5:9fb629c4189551a2d022fa330f9573f3",
            "t10k-labels-idx1-ubyte.gz": "md5:ec29112dd5afa0611ce80d1b7f02629c",
        },
        files.read_idx_folder,
    ),
    "fmnist": Source(
        (
            "https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/master/data/fashion/",
            "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",  # no TLS, so it is last
        ),
        {
            "train-images-idx3-ubyte.gz": "md5:8d4fb7e6c68d591d4c3dfef9ec88bf0d",
            "train-labels-idx1-ubyte.gz": "md5:25c81989df183df01b3e8a0aad5dffbe",
            "t10k-images-idx3-ubyte.gz": "md5:bef4ecab320f06d8554ea6380940ec79",
            "t10k-labels-idx1-ubyte.gz": "md5:bb300cfdad3c16e7a12a480ee83cd310",
        },
        files.read_idx_folder,
    ),
    "cifar10": Source(
        ("https://www.cs.toronto.edu/~kriz/",),
        {"cifar-10-binary.tar.gz": "md5:c32a1d4ab5d03f1284b67883e8d87530"},
        _cifar10,
    ),
    "cifar100": Source(
        ("https://www.cs.toronto.edu/~kriz/",),
        {"cifar-100-binary.tar.gz": "md5:03b5dce01913d631647c71ecec9e9cb8"},
        _cifar100,
    ),
    "shakespeare": Source(
        ("https://raw.githubusercontent.com/karpathy/char-rnn/master/data/tinyshakespeare/",),
        {"input.txt": f"sha256:{catalogue.SHAKESPEARE}"},
        lambda raw: (raw / "input.txt").read_bytes(),
    ),
}
