"""Which data sets exist, what is known of each, and where on disk they may lie.

Nothing is read here. This module imports no other module of `sflkit.data`, so that all of them can
ask it."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path

from sflkit import paths


class DataUnavailableError(FileNotFoundError):
    """The data set is neither on disk nor reachable; the message says which file to put where and
    what is at hand.

    A FileNotFoundError, so that callers who only know about files catch it too.
    """


@dataclass(frozen=True)
class Spec:
    """What is known of a data set before it is seen.

    Fields: n_classes, n_coarse (0: no superclasses); shape of one sample; canonical numbers of
    training and test samples; mean and std per channel, of x / 255; about: one line for lists."""

    n_classes: int
    shape: tuple[int, ...]
    sizes: tuple[int, int]
    mean: tuple[float, ...]
    std: tuple[float, ...]
    about: str
    n_coarse: int = 0


# Of a packet's byte over 255; `sflkit.data.traffic` says why.
TRAFFIC_MEAN, TRAFFIC_STD = 60 / 255, 4 / 255
SPECS = {
    "mnist": Spec(10, (28, 28), (60000, 10000), (0.1307,), (0.3081,), "handwritten digits"),
    "fmnist": Spec(
        10, (28, 28), (60000, 10000), (0.1307,), (0.3081,), "Fashion-MNIST, articles of clothing"
    ),
    "cifar10": Spec(
        10,
        (32, 32, 3),
        (50000, 10000),
        (0.4914, 0.4822, 0.4465),
        (0.2470, 0.2435, 0.2616),
        "CIFAR-10 photographs",
    ),
    "cifar100": Spec(
        100,
        (32, 32, 3),
        (50000, 10000),
        (0.5071, 0.4865, 0.4409),
        (0.2673, 0.2564, 0.2762),
        "CIFAR-100 photographs with 20 superclasses",
        n_coarse=20,
    ),
    "ntc": Spec(
        10,
        (39, 39),
        (36000, 9000),
        (TRAFFIC_MEAN,),
        (TRAFFIC_STD,),
        "packets of ISCXVPN2016, supplied by the user (see data/README.md)",
    ),
}


AT_HAND = {
    "digits": "scikit-learn's 1797 handwritten digits, enlarged to 28 x 28",
    "traffic": "45,000 synthetic network packets of 10 applications, 39 x 39 bytes",
}


STAND_INS = {
    "writers": "synthetic stand-in for FEMNIST: scikit-learn's digits redrawn by 60 writers",
    "plays": "synthetic stand-in for Shakespeare: 36 roles, phrases of a small grammar",
}
# No image sets: they come with clients. None: made on the spot, else the files or folders of json
# looked for, best first.
CLIENT_SETS = {
    "logistic": (
        "synthetic logistic regression of the data-streams paper, by federations.data_streams",
        None,
    ),
    "writers": (STAND_INS["writers"], None),
    "plays": (STAND_INS["plays"], None),
    "femnist": (
        "characters by writer, LEAF's json supplied by the user (see data/README.md)",
        ("femnist",),
    ),
    "shakespeare": ("plays of Shakespeare by role", ("shakespeare", "tinyshakespeare.txt")),
}


# sha256 of tinyshakespeare.txt
SHAKESPEARE = "86c4e6aa9db7c042ec79f339dcb96d42b0075e16b8fc2e86bf0ca57e2dc565ed"


def names() -> list[str]:
    """Return the names of all data sets; `load` takes those of images, `sflkit.data.federations`
    also those of `CLIENT_SETS`.
    """
    return [*AT_HAND, *SPECS, *CLIENT_SETS]


def file_name(name: str) -> str:
    """Return what the file of a data set is called, or the folder of json files."""
    return CLIENT_SETS[name][1][-1] if name in CLIENT_SETS else f"{name}.npz"


def find(name: str, *, root: str | os.PathLike | None = None) -> Path | None:
    """Return the file of a data set, or its folder of json files, or None."""
    entries = CLIENT_SETS[name][1] or () if name in CLIENT_SETS else (f"{name}.npz",)
    for folder in _folders(root):
        for path in (folder / entry for entry in entries):
            if path.is_file() or any(path.glob("*.json")):
                return path
    return None


def available(*, root: str | os.PathLike | None = None) -> dict[str, str]:
    """Return the data sets that load without a download: name -> file, or how they are made."""
    made = AT_HAND | {name: about for name, (about, files) in CLIENT_SETS.items() if files is None}
    found = {name: f"made on the spot: {about}" for name, about in made.items()}
    return found | {
        name: str(path)
        for name in (*SPECS, *CLIENT_SETS)
        if (path := find(name, root=root)) is not None
    }


def unavailable(name: str, root, reason: str) -> DataUnavailableError:
    """Return the error that tells the user how to get `name`."""
    folders = " or ".join(str(folder) for folder in _folders(root))
    fetch = (
        "it is not downloadable: data/README.md says how to make the file"
        if name in ("ntc", "femnist")
        else f"with a network connection, fetch it by: sflkit data {name}"
    )
    return DataUnavailableError(
        f"data set {name!r} is not available: {reason}. Put {file_name(name)} into {folders}; {fetch}. "
        f"At hand: {', '.join(available(root=root))}"
    )


def _folders(root) -> list[Path]:
    return [Path(root).expanduser()] if root is not None else paths.data_folders()


def say(message: str) -> None:
    """Tell the user something that must not end in the output of a program."""
    print(message, file=sys.stderr, flush=True)
