"""Download the canonical files of a data set, check them, and convert them to our own form.

The form is that of `sflkit.data.files`. pooch fetches: what does not have its checksum is not read
at all, a broken connection is tried again, and then the next address. Addresses and md5 sums are
those of the data sets' authors, or of the mirrors that torchvision uses. What arrives is what
torchvision leaves, and read as that.
"""

from __future__ import annotations

import shutil
import sys
import tarfile
import zlib
from collections.abc import Callable
from functools import partial
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


def fetch(name: str) -> Path:
    """Download the data set `name` to `paths.data()`, convert it, and return its file.

    A file that is already there is kept. Each address is tried in turn, each `RETRIES` times more
    after a broken connection or a wrong checksum. Files that arrived whole are kept until the
    conversion is done, so that a second call does not fetch them again. Two processes do not fetch
    the same data set at the same time.

    Parameters
    ----------
    name : str
        A key of `SOURCES`.

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
    target = paths.data() / catalogue.file_name(name)
    raw = target.with_name(f".{name}.download")
    paths.check_writable(target.parent)
    with paths.lock(target):
        if target.is_file():
            return target
        said = f"fetching {name} ({catalogue.about(name)}) into {target.parent}"
        print(said, file=sys.stderr, flush=True)  # it must not end in the output of a program
        for file, checksum in source.files.items():
            _fetch_file(name, file, checksum, raw)
        try:
            content = source.convert(raw)
        except (OSError, EOFError, KeyError, ValueError, zlib.error, tarfile.TarError) as error:
            message = f"the files of {name} in {raw} are not of the documented form: {error}"
            raise files.DataCorruptError(message) from error
        files.write(target, content)
        shutil.rmtree(raw)
    return target


def _fetch_file(name: str, file: str, checksum: str, raw: Path) -> None:
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
    raise catalogue.unavailable(name, f"the download failed ({reason})")


def _unpacked(raw: Path, coarse: bool) -> dict[str, np.ndarray]:
    """Return the arrays of an archive of CIFAR, whose members are put beside it."""
    (path,) = raw.glob("*.tar.gz")
    with tarfile.open(path) as archive:
        for item in archive:
            if item.isfile():
                (raw / Path(item.name).name).write_bytes(archive.extractfile(item).read())
    return files.read_batches(raw, coarse)


def _idx_files(*sums: str) -> dict[str, str]:
    return {f"{file}.gz": f"md5:{md5}" for file, md5 in zip(files.IDX.values(), sums, strict=True)}


SOURCES = {
    "mnist": Source(
        (
            "https://ossci-datasets.s3.amazonaws.com/mnist/",
            "https://storage.googleapis.com/cvdf-datasets/mnist/",
        ),
        _idx_files(
            "f68b3c2dcbeaaa9fbdd348bbdeb94873",
            "d53e105ee54ea40749a09fcbcd1e9432",
            "9fb629c4189551a2d022fa330f9573f3",
            "ec29112dd5afa0611ce80d1b7f02629c",
        ),
        files.read_idx_folder,
    ),
    "fmnist": Source(
        (
            "https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/master/data/fashion/",
            "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",  # no TLS, so it is last
        ),
        _idx_files(
            "8d4fb7e6c68d591d4c3dfef9ec88bf0d",
            "25c81989df183df01b3e8a0aad5dffbe",
            "bef4ecab320f06d8554ea6380940ec79",
            "bb300cfdad3c16e7a12a480ee83cd310",
        ),
        files.read_idx_folder,
    ),
    "cifar10": Source(
        ("https://www.cs.toronto.edu/~kriz/",),
        {"cifar-10-python.tar.gz": "md5:c58f30108f718f92721af3b95e74349a"},
        partial(_unpacked, coarse=False),
    ),
    "cifar100": Source(
        ("https://www.cs.toronto.edu/~kriz/",),
        {"cifar-100-python.tar.gz": "md5:eb9058c3a382ffc7106e4002c42a8d85"},
        partial(_unpacked, coarse=True),
    ),
    "shakespeare": Source(
        ("https://raw.githubusercontent.com/karpathy/char-rnn/master/data/tinyshakespeare/",),
        {"input.txt": f"sha256:{catalogue.SHAKESPEARE}"},
        lambda raw: (raw / "input.txt").read_bytes(),
    ),
}
