"""Which data sets exist, what is known of each, and where on disk they may lie.

This is the one place that knows the names, the shapes and the folders. There are four kinds:

- `AT_HAND`: image-like sets that need no file, since they come with the install or are generated;
- `SPECS`: image-like sets that lie in a file <name>.npz or in a folder of torchvision's, downloaded
  or supplied by the user;
- `FEATURES`: features of the images of such a set, made on first use (`sflkit.data.patches`);
- `CLIENT_SETS`: sets whose samples belong to natural clients, such as the writers of characters.

Files are looked for in $SFLKIT_DATA, then in data/ of the clone (outside a clone: in the user's
cache folder), and then where a package of the system puts them (`SYSTEM`). Nothing is read here,
and this module imports no other module of `sflkit.data`, so that all of them can ask it.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from sflkit import paths


class DataUnavailableError(FileNotFoundError):
    """The data set is neither on disk nor reachable; the message says which file to put where.

    The class is a FileNotFoundError, so that callers who only know about files catch it too.
    """


class Spec(NamedTuple):
    """What is known of a data set of images before it is seen.

    Attributes
    ----------
    n_classes : int
    shape : tuple of int
        Shape of one sample as it lies in the file: (height, width), or with 3 for colours behind.
    sizes : (int, int)
        Canonical numbers of training and test samples.
    mean, std : tuples of float
        One entry per channel, of the values x / 255.
    folder : str
        The folder in which torchvision leaves the data set.
    n_coarse : int
        Number of superclasses; 0 where there are none.
    contents : str
        The sha256 of the arrays of a complete and faithful copy (`files.contents_digest`, labels as
        int64); empty where a copy is told by its size alone.
    ordered : bool
        Whether such a copy is put into an order of its own (`files.in_own_order`), which `contents`
        is then of.
    """

    n_classes: int
    shape: tuple[int, ...]
    sizes: tuple[int, int]
    mean: tuple[float, ...]
    std: tuple[float, ...]
    folder: str = ""
    n_coarse: int = 0
    contents: str = ""
    ordered: bool = False


# Of a packet's byte over 255; `sflkit.data.traffic` says why.
TRAFFIC_MEAN = 60 / 255
TRAFFIC_STD = 4 / 255

AT_HAND = ("digits", "traffic", "traffic600")
_MNIST = Spec(10, (28, 28), (60000, 10000), (0.1307,), (0.3081,), "MNIST/raw")
SPECS = {
    "mnist": _MNIST,
    "fmnist": _MNIST._replace(
        folder="FashionMNIST/raw",
        contents="1b9ba94ef7c66e104294fc6c6859b70b5e8b4f3890d0049daf944ca2396016b6",
    ),
    "cifar10": Spec(
        10,
        (32, 32, 3),
        (50000, 10000),
        (0.4914, 0.4822, 0.4465),
        (0.2470, 0.2435, 0.2616),
        "cifar-10-batches-py",
        contents="11831456c5cd169ae097dac6869ceb9f42cea8dbb9457da7fb9b47c0cb05468a",
        ordered=True,
    ),
    "cifar100": Spec(
        100,
        (32, 32, 3),
        (50000, 10000),
        (0.5071, 0.4865, 0.4409),
        (0.2673, 0.2564, 0.2762),
        "cifar-100-python",
        n_coarse=20,
        contents="a5ad6f92c4241153fd34b599841ad1a21589e0bc6a2506ec31450f2089915aab",
        ordered=True,
    ),
    "ntc": Spec(10, (39, 39), (36000, 9000), (TRAFFIC_MEAN,), (TRAFFIC_STD,)),
}
# The same file under a name that takes nothing but a complete and faithful copy. Published runs of
# "cifar10" and "cifar100" were made from a lossy copy and a subset: a run on complete data has
# another name, so that neither is taken for the other.
COMPLETE = {"cifar10-complete": "cifar10", "cifar100-complete": "cifar100"}
# The size of the dictionary; a sample has 8 times as many features. The images are those of the
# name before "-patches".
FEATURES = {
    "cifar10-patches": 300,
    "cifar100-patches": 150,
    "cifar10-complete-patches": 300,
    "cifar100-complete-patches": 150,
}
# What `sflkit.data.load` takes.
WITHOUT_CLIENTS = (*AT_HAND, *SPECS, *COMPLETE, *FEATURES)
# The files, or folders of LEAF's json, that are looked for; the best comes first and the one that a
# user is asked for comes last. There is none of a set that is made on the spot.
CLIENT_SETS: dict[str, tuple[str, ...]] = {
    "logistic": (),
    "writers": (),
    "mnist-writers": ("mnist.npz",),
    "plays": (),
    "femnist": ("femnist",),
    "shakespeare": ("shakespeare", "tinyshakespeare.txt"),
    "shakespeare-plays": ("plays.json",),
}
# Where a package of the system (Debian's dataset-fashion-mnist) puts files as torchvision does.
SYSTEM = {"fmnist": Path("/usr/share/datasets/fashion-mnist")}
# Sets that have no address to be downloaded from.
USER_SUPPLIED = ("ntc", "femnist", "shakespeare-plays")

_ABOUT = {
    "digits": "scikit-learn's 1797 handwritten digits, enlarged to 28 x 28",
    "traffic": "45,000 synthetic network packets of 10 applications, 39 x 39 bytes",
    "traffic600": "the same with 600 flows an application in place of 60, scaled to unit variance",
    "mnist": "handwritten digits",
    "fmnist": "Fashion-MNIST, articles of clothing",
    "cifar10": "CIFAR-10 photographs",
    "cifar100": "CIFAR-100 photographs with 20 superclasses",
    "ntc": "packets of ISCXVPN2016, supplied by the user (see data/README.md)",
    "logistic": "synthetic logistic regression of the data-streams paper, by "
    "federations.data_streams",
    "writers": "synthetic stand-in for FEMNIST: scikit-learn's digits redrawn by 60 writers",
    "mnist-writers": "synthetic stand-in for FEMNIST: MNIST's digits redrawn by 300 writers",
    "plays": "synthetic stand-in for Shakespeare: 36 roles, phrases of a small grammar",
    "femnist": "characters by writer, LEAF's json supplied by the user (see data/README.md)",
    "shakespeare": "plays of Shakespeare by role",
    "shakespeare-plays": "38 plays of Shakespeare, a client for each role of each play, supplied "
    "by the user (see data/README.md)",
}

# Copies that published runs were made from, by the digests in their records. Not all of those
# records have a remark of their own.
_LOSSY = "lossy copy: CIFAR-10 as JPEG files, in place of the lossless images"
_SUBSET = "subset: 20,000 of CIFAR-100's 50,000 training samples"
COPIES = {
    "b35b5d896a0f55b431ffcb9f2c0e67cbc116bd379999d019959922f9cc194e5f": _LOSSY,
    "33f3949731cb81d41ad2738b96274132a48a61d015e214f98aa92cf377cbbdec": _LOSSY,
    "6382d7903e00be40aeafd253837070e8685e2660a05d9a00e044a840904a2cb6": _SUBSET,
    "812a54266eaa56e29e09f20798d044687bcb0be53978e8f74723ff3337fdb8a2": _SUBSET,
}

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
    return name in AT_HAND or CLIENT_SETS.get(name) == ()


def about(name: str) -> str:
    """Return one line on a data set."""
    if name in FEATURES:
        photographs, _, complete = name.removesuffix("-patches").partition("-")
        of = photographs.replace("cifar", "CIFAR-") + (complete and f", {complete}")
        return f"{8 * FEATURES[name]:,} patch features of {of}"
    if name in COMPLETE:
        return f"{_ABOUT[COMPLETE[name]]}, complete and faithful or refused"
    return _ABOUT[name]


def remark(record: Mapping[str, Any]) -> str:
    """Return what a setting line must say of the data of a published run: subset, lossy copy, ...

    Parameters
    ----------
    record : mapping
        The data record of a result: digest, and note where the run was made since there is one.
        Empty where the data are complete and faithful, as far as is known.
    """
    known = COPIES.get(record.get("digest", ""), "")
    parts = (record.get("note") or "").split("; ")
    others = [part for part in parts if not (known and part.startswith(("subset", "lossy")))]
    return "; ".join(filter(None, [known, *others]))


def stored_as(name: str) -> str:
    """Return the data set whose file a data set is read from, or made of; often itself."""
    name = name.removesuffix("-patches")
    return COMPLETE.get(name, name)


def file_name(name: str) -> str:
    """Return what the file of a data set is called, or its folder of json files.

    For features it is the file of the images that they are made of.
    """
    name = stored_as(name)
    return CLIENT_SETS[name][-1] if name in CLIENT_SETS else f"{name}.npz"


def find(name: str) -> Path | None:
    """Return the file or the folder of a data set, or None where there is neither.

    A folder is one of LEAF's json, or one in the form in which torchvision or a package of the
    system leaves the data set. For features it is that of the images that they are made of. `name`
    is one of `names()`.
    """
    name = stored_as(name)
    spec = SPECS.get(name)
    for folder in paths.data_folders():
        for entry in (f"{name}.npz",) if spec else CLIENT_SETS[name]:
            if (folder / entry).is_file() or (not spec and leaf_files(folder / entry)):
                return folder / entry
        if spec and spec.folder and any((folder / spec.folder).glob("*")):
            return folder / spec.folder
    installed = SYSTEM.get(name)
    return installed if installed and any(installed.glob("*")) else None


def leaf_files(folder: Path) -> dict[str, list[Path]]:
    """Return the json files of LEAF's scripts: those of train and test, or of all data together.

    LEAF leaves them in folders of these names, in data/ of a data set's own folder.
    """
    for base in (folder, folder / "data"):
        for parts in (("train", "test"), ("all_data",), ("",)):
            found = {part: sorted((base / part).glob("*.json")) for part in parts}
            if any(found.values()):
                return found
    return {}


def available() -> dict[str, str]:
    """Return the data sets that load without a download: name -> file, or how it is made."""
    found = {name: f"made on the spot: {about(name)}" for name in names() if is_made(name)}
    for name in names():
        if name not in AT_HAND and (path := find(name)) is not None:
            text = f"made of {path}" if name in FEATURES else str(path)
            if_whole = ", if that is complete" if name.removesuffix("-patches") in COMPLETE else ""
            found[name] = text + if_whole
    return found


def unavailable(name: str, reason: str) -> DataUnavailableError:
    """Return the error that tells the user how to get the data set `name`, which lies in a file.

    The reason says why it is not there, without a full stop.
    """
    fetch = (
        "it is not downloadable: data/README.md says how to make the file"
        if name in USER_SUPPLIED
        else f"with a network connection, fetch it by: sflkit data {stored_as(name)}"
    )
    return DataUnavailableError(
        f"data set {name!r} is not available: {reason}. Put {file_name(name)} into "
        f"{' or '.join(map(str, paths.data_folders()))}, or set the environment variable "
        f"SFLKIT_DATA to the folder that holds it; {fetch}. At hand: {', '.join(available())}"
    )
