"""Which data sets exist, what is known of each, and where on disk they may lie.

This is the one place that knows the names, the shapes and the folders. There are four kinds:

- `AT_HAND`: image-like sets that need no file, since they come with the install or are generated;
- `SPECS`: image-like sets that lie in one file <name>.npz, downloaded or supplied by the user;
- `FEATURES`: features of the images of such a set, made on first use (`sflkit.data.patches`);
- `CLIENT_SETS`: sets whose samples belong to natural clients, such as the writers of characters.

Files are looked for in $SFLKIT_DATA, then in data/ of the clone (outside a clone: in the user's
cache folder). Nothing is read here, and this module imports no other module of `sflkit.data`, so
that all of them can ask it.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from sflkit import paths


class DataUnavailableError(FileNotFoundError):
    """The data set is neither on disk nor reachable.

    The message says which file to put where and what is at hand. The class is a FileNotFoundError,
    so that callers who only know about files catch it too.
    """


@dataclass(frozen=True)
class Spec:
    """What is known of a data set of images before it is seen.

    Parameters
    ----------
    n_classes : int
    shape : tuple of int
        Shape of one sample as it lies in the file: (height, width), or with 3 for colours behind.
    sizes : (int, int)
        Canonical numbers of training and test samples.
    mean, std : tuples of float
        One entry per channel, of the values x / 255.
    about : str
        One line for lists.
    n_coarse : int
        Number of superclasses; 0 where there are none.
    """

    n_classes: int
    shape: tuple[int, ...]
    sizes: tuple[int, int]
    mean: tuple[float, ...]
    std: tuple[float, ...]
    about: str
    n_coarse: int = 0


@dataclass(frozen=True)
class FeatureSet:
    """What is known of a data set that is computed from another one.

    Parameters
    ----------
    of : str
        The data set of images, a name in `SPECS`.
    words : int
        Size of the dictionary; a sample has 8 times as many features.
    about : str
        One line for lists.
    """

    of: str
    words: int
    about: str


@dataclass(frozen=True)
class ClientSet:
    """What is known of a data set that comes with clients of its own.

    Parameters
    ----------
    about : str
        One line for lists.
    files : tuple of str
        The files, or folders of json, that are looked for; the best comes first and the one that a
        user is asked for comes last. Empty for a set that is made on the spot.
    """

    about: str
    files: tuple[str, ...] = ()


# Of a packet's byte over 255; `sflkit.data.traffic` says why.
TRAFFIC_MEAN = 60 / 255
TRAFFIC_STD = 4 / 255

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
    "traffic600": "the same with 600 flows an application in place of 60, scaled to unit variance",
}

FEATURES = {
    "cifar10-patches": FeatureSet("cifar10", 300, "2,400 patch features of CIFAR-10"),
    "cifar100-patches": FeatureSet("cifar100", 150, "1,200 patch features of CIFAR-100"),
}
# What `sflkit.data.load` takes.
WITHOUT_CLIENTS = (*AT_HAND, *SPECS, *FEATURES)

STAND_INS = {
    "writers": "synthetic stand-in for FEMNIST: scikit-learn's digits redrawn by 60 writers",
    "mnist-writers": "synthetic stand-in for FEMNIST: MNIST's digits redrawn by 300 writers",
    "plays": "synthetic stand-in for Shakespeare: 36 roles, phrases of a small grammar",
}
CLIENT_SETS = {
    "logistic": ClientSet(
        "synthetic logistic regression of the data-streams paper, by federations.data_streams"
    ),
    "writers": ClientSet(STAND_INS["writers"]),
    "mnist-writers": ClientSet(STAND_INS["mnist-writers"], ("mnist.npz",)),
    "plays": ClientSet(STAND_INS["plays"]),
    "femnist": ClientSet(
        "characters by writer, LEAF's json supplied by the user (see data/README.md)", ("femnist",)
    ),
    "shakespeare": ClientSet(
        "plays of Shakespeare by role", ("shakespeare", "tinyshakespeare.txt")
    ),
}
# Sets that have no address to be downloaded from.
USER_SUPPLIED = ("ntc", "femnist")

# The sha256 of tinyshakespeare.txt.
SHAKESPEARE = "86c4e6aa9db7c042ec79f339dcb96d42b0075e16b8fc2e86bf0ca57e2dc565ed"


def names() -> list[str]:
    """Return the names of all data sets.

    `sflkit.data.load` takes those of images; `sflkit.data.federations` takes most of these and
    those of `CLIENT_SETS`.
    """
    return [*WITHOUT_CLIENTS, *CLIENT_SETS]


def is_made(name: str) -> bool:
    """Return whether the data set needs no file, since it is made on the spot."""
    return name in AT_HAND or (name in CLIENT_SETS and not CLIENT_SETS[name].files)


def about(name: str) -> str:
    """Return one line on a data set."""
    if name in AT_HAND:
        return AT_HAND[name]
    if name in FEATURES:
        return FEATURES[name].about
    return SPECS[name].about if name in SPECS else CLIENT_SETS[name].about


def file_name(name: str) -> str:
    """Return what the file of a data set is called, or its folder of json files.

    For features it is the file of the images that they are made of.
    """
    name = FEATURES[name].of if name in FEATURES else name
    return CLIENT_SETS[name].files[-1] if name in CLIENT_SETS else f"{name}.npz"


def find(name: str, *, root: str | os.PathLike | None = None) -> Path | None:
    """Return the file of a data set, or its folder of json files, or None where there is neither.

    For features it is the file of the images that they are made of.

    Parameters
    ----------
    name : str
        One of `names()`.
    root : path, optional
        The folder to look in, instead of $SFLKIT_DATA and data/.
    """
    entries = CLIENT_SETS[name].files if name in CLIENT_SETS else (file_name(name),)
    for folder in folders(root):
        for path in (folder / entry for entry in entries):
            if path.is_file() or any(path.glob("*.json")):
                return path
    return None


def available(*, root: str | os.PathLike | None = None) -> dict[str, str]:
    """Return the data sets that load without a download: name -> file, or how it is made.

    `root` is as in `find`.
    """
    found = {name: f"made on the spot: {about(name)}" for name in names() if is_made(name)}
    for name in names():
        if name not in AT_HAND and (path := find(name, root=root)) is not None:
            found[name] = f"made of {path}" if name in FEATURES else str(path)
    return found


def unavailable(name: str, root: str | os.PathLike | None, reason: str) -> DataUnavailableError:
    """Return the error that tells the user how to get the data set `name`.

    Parameters
    ----------
    name : str
        A data set that lies in a file.
    root : path or None
        The folder that the caller looked in; None for $SFLKIT_DATA and data/.
    reason : str
        Why it is not there, without a full stop.
    """
    places = " or ".join(str(folder) for folder in folders(root))
    instead = "set" if root is None else "pass no folder and set"
    fetch = (
        "it is not downloadable: data/README.md says how to make the file"
        if name in USER_SUPPLIED
        else f"with a network connection, fetch it by: sflkit data {name}"
    )
    return DataUnavailableError(
        f"data set {name!r} is not available: {reason}. Put {file_name(name)} into {places}, or "
        f"{instead} the environment variable SFLKIT_DATA to the folder that holds it; {fetch}. "
        f"At hand: {', '.join(available(root=root))}"
    )


def folders(root: str | os.PathLike | None = None) -> list[Path]:
    """Return the folders in which files are looked for, first one first; `root` as in `find`."""
    return [Path(root).expanduser()] if root is not None else paths.data_folders()
