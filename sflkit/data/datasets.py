"""Data sets by name: `load("mnist")`.

`load` finds the file of a data set (where, says `sflkit.data.catalogue`), checks its form and label
range (`sflkit.data.files`), and says when it is only a subset of the canonical data set, or a lossy
copy. A complete and faithful copy of CIFAR is put into an order of its own, so that any such copy
gives the same digest and the same draws; one that is incomplete or lossy stays in the order of its
file. `digits`, `traffic` and `traffic600` are made on the spot. What lies nowhere is downloaded
(`sflkit.data.downloads`), and if that fails, the error says what to put where. Sets with clients of
their own are obtained here and built by `sflkit.data.federations`. Features of a set of images
(`sflkit.data.patches`) are made on first use and read from a file afterwards; they are float32 and
standardised already, so that nothing is done to them.

The packets of `traffic`, `traffic600` and `ntc` count as images, too: 39 x 39 bytes each.

Images are kept as bytes. Models take normalised inputs, (x / 255 - mean) / std, which are made when
somebody asks for them, since as float32 they take four times the memory. The constants:

| data set        | mean and standard deviation                                                    |
|-----------------|--------------------------------------------------------------------------------|
| mnist           | the usual 0.1307 and 0.3081                                                    |
| fmnist          | the same pair, as in the SFL paper (journal, Section VI), though MNIST's own   |
| cifar10, cifar100 | the usual constants per channel                                              |
| digits          | measured on its training part                                                  |
| traffic600      | measured on its training part                                                  |
| traffic, ntc    | ours, since the SFL paper does not state its scaling; see `sflkit.data.traffic`|
"""

from __future__ import annotations

import functools
import hashlib
from dataclasses import replace
from pathlib import Path

import numpy as np

from sflkit import checks
from sflkit.data import catalogue, files, patches, traffic
from sflkit.data.arrays import Dataset


def dataset(data: str | Dataset | tuple) -> Dataset:
    """Return the data set that a run is asked for.

    Parameters
    ----------
    data : str, Dataset or tuple of arrays
        A name, see `load`; a data set; or (x, y) or (x, y, x_test, y_test), see `Dataset.of`.

    Raises
    ------
    ValueError
        If it is none of these, or as `load` and `Dataset.of`.
    """
    if isinstance(data, Dataset):
        return data
    if isinstance(data, str):
        return load(data)
    if isinstance(data, (tuple, list)) and len(data) in (2, 4):
        return Dataset.of(*data)
    raise ValueError(
        f"data of type {type(data).__name__} must be a name, a Dataset, or arrays (x, y) or "
        "(x, y, x_test, y_test)"
    )


def load(name: str, *, download: bool = True) -> Dataset:
    """Return the data set `name`, checked; repeated calls share one copy in memory.

    Parameters
    ----------
    name : str
        One of `catalogue.WITHOUT_CLIENTS`, which has no clients of its own.
    download : bool
        Whether to fetch what is on no disk, after a message. With False the error comes at once.

    Raises
    ------
    ValueError
        If the name is unknown or belongs to a set with clients of its own.
    DataCorruptError
        If a file is truncated or not of the documented form.
    DataUnavailableError
        If the data set is not on disk and cannot be downloaded.
    """
    checks.choice("name", name, catalogue.names())
    if name in catalogue.CLIENT_SETS:
        raise ValueError(
            f"name={name!r} has clients of its own and is no set of images to be dealt out: build "
            "it with federations.data_streams or federations.static; "
            f"here {', '.join(catalogue.WITHOUT_CLIENTS)} are allowed"
        )
    if name in catalogue.FEATURES:
        return _features(name, load(name.removesuffix("-patches"), download=download))
    path = obtain(name, download=download)
    return _made(name) if name in catalogue.AT_HAND else _read(name, path, files.state(path))


def obtain(name: str, *, download: bool = True) -> Path | str:
    """Return the file or folder of a data set, downloaded if need be.

    For a set that is made on the spot it is a text that says how, and for features the file of the
    images. Arguments and errors are those of `load`, but sets with clients of their own are
    allowed.
    """
    checks.choice("name", name, catalogue.names())
    download = checks.flag("download", download)
    if catalogue.is_made(name):
        return catalogue.available()[name]
    name = "mnist" if name == "mnist-writers" else catalogue.stored_as(name)
    path = catalogue.find(name)
    if path is None:
        from sflkit.data import downloads

        if not download or name not in downloads.SOURCES:
            raise catalogue.unavailable(name, "it is on none of the disks looked at")
        path = downloads.fetch(name)
    return path


@functools.lru_cache(maxsize=3)
def _read(name: str, path: Path, state: tuple) -> Dataset:
    """Read a data set; `state` is another where a file was replaced, and so is then the answer."""
    spec = catalogue.SPECS[catalogue.stored_as(name)]
    arrays = files.read(path, spec)
    sizes = (len(arrays["y_train"]), len(arrays["y_test"]))
    note = digest = ""
    if sizes != spec.sizes:
        less = all(have <= full for have, full in zip(sizes, spec.sizes, strict=True))
        note = (
            f"{'subset' if less else 'not the canonical split'}: {sizes[0]:,} training and "
            f"{sizes[1]:,} test samples, canonical are {spec.sizes[0]:,} and {spec.sizes[1]:,}"
        )
    elif spec.contents:
        ordered = files.in_own_order(arrays) if spec.ordered else arrays
        if files.contents_digest(ordered) == spec.contents:
            arrays, digest = ordered, spec.contents
        else:
            note = "lossy or altered copy: as many samples as the canonical data set has, "
            note += "but not the same"
    if note and name in catalogue.COMPLETE:
        why = f"{path} is no complete and faithful copy of it ({note})"
        raise catalogue.unavailable(name, why)
    if not digest:
        digest = files.contents_digest(arrays) if path.is_dir() else files.file_digest(path)
    return Dataset(
        name=name,
        **arrays,
        n_classes=spec.n_classes,
        n_coarse=spec.n_coarse,
        mean=spec.mean,
        std=spec.std,
        digest=digest,
        canonical=not note,
        source=str(path),
        note=note,
    )


@functools.lru_cache(maxsize=2)
def _features(name: str, source: Dataset) -> Dataset:
    """Return the features of a data set of images, which keep its labels and its note."""
    recipe = patches.Recipe(catalogue.FEATURES[name])
    arrays, digest, path = patches.read_or_make(name, source, recipe)
    made = f"features of {recipe.words} random patches after Coates, Lee and Ng (2011)"
    return replace(
        source,
        name=name,
        **arrays,
        mean=(),
        std=(),
        digest=hashlib.sha256(f"{source.digest} {digest}".encode()).hexdigest(),
        source=f"{path}, made of {source.source}",
        note="; ".join(filter(None, (made, source.note))),
    )


@functools.cache
def _made(name: str) -> Dataset:
    """Make a data set that needs no file."""
    if name == "digits":
        arrays = _digits()
        note = "8 x 8 images enlarged to 28 x 28; superclasses: label // 2"
    else:
        flows = traffic.FLOWS if name == "traffic" else traffic.MANY_FLOWS
        x, y = traffic.generate(n_flows=flows)  # in random order
        n = len(y) * 4 // 5
        arrays = {"x_train": x[:n], "y_train": y[:n], "x_test": x[n:], "y_test": y[n:]}
        note = "synthetic stand-in for ISCXVPN2016 packets"
        note += "" if name == "traffic" else f", {flows} flows each"
    # Of the bytes' own spread, so that the losses of a linear model are of order one.
    values = arrays["x_train"] / 255
    mean, std = float(values.mean()), float(values.std())
    if name == "traffic":
        mean, std = catalogue.TRAFFIC_MEAN, catalogue.TRAFFIC_STD
    return Dataset(
        name=name,
        **arrays,
        n_classes=10,
        n_coarse=5 if name == "digits" else 0,
        mean=(mean,),
        std=(std,),
        digest=files.contents_digest(arrays),
        canonical=True,
        source=catalogue.about(name),
        note=note,
    )


def _digits() -> dict[str, np.ndarray]:
    """Enlarge scikit-learn's digits to 28 x 28 and split them 4 : 1 within each class.

    The split is always the same.
    """
    from scipy.ndimage import zoom
    from sklearn.datasets import load_digits

    bunch = load_digits()
    y = bunch.target.astype(np.int64)
    # 8 x 8 with values 0..16. Cubic enlargement overshoots at edges, hence the clip; the 1e-6 makes
    # halves go the same way on every machine, or the digest would depend on the last bit of a sum.
    enlarged = zoom(bunch.images * (255 / 16), (1, 3.5, 3.5), order=3)
    x = np.clip(np.rint(enlarged - 1e-6), 0, 255).astype(np.uint8)
    rng = np.random.default_rng(0)
    order = rng.permutation(len(y))
    rank = np.empty(len(y), np.int64)
    for label in range(10):
        of_class = order[y[order] == label]
        rank[of_class] = np.arange(len(of_class)) / len(of_class) * 5
    train, test = order[rank[order] < 4], order[rank[order] == 4]
    arrays = {"x_train": x[train], "y_train": y[train], "x_test": x[test], "y_test": y[test]}
    return arrays | {f"{key}_coarse": arrays[key] // 2 for key in ("y_train", "y_test")}
