"""Data sets of images by name: `load("mnist")`.

`load` finds the file of a data set (where, says `sflkit.data.catalogue`), checks its digest, schema
and label range (`sflkit.data.files`), and says when it is only a subset of the canonical data set,
or a lossy copy. A complete and faithful copy of CIFAR is put into an order of its own, so that any
such copy gives the same digest and the same draws; one that is incomplete or lossy stays in the
order of its file. `digits`, `traffic` and `traffic600` are made on the spot. What lies nowhere is
downloaded (`sflkit.data.downloads`), and if that fails, the error says what to put where. Sets with
clients of their own are obtained here and built by `sflkit.data.federations`. Features of a set of
images (`sflkit.data.patches`) are made on first use and read from a file afterwards; they are
float32 and standardised already, so that nothing is done to them.

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
import os
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike

from sflkit import checks
from sflkit.data import patches, traffic
from sflkit.data.catalogue import (
    AT_HAND,
    CLIENT_SETS,
    COMPLETE,
    FEATURES,
    SPECS,
    TRAFFIC_MEAN,
    TRAFFIC_STD,
    WITHOUT_CLIENTS,
    Spec,
    available,
    find,
    folders,
    is_made,
    names,
    stored_as,
    unavailable,
)
from sflkit.data.files import DataCorruptError, contents_digest, in_own_order, read
from sflkit.randomness import generator


class Inputs:
    """Normalised inputs of images that stay bytes until somebody asks for them.

    An object of this class stands in for the float32 array (n, channels, height, width) of all
    inputs: `inputs[rows]` gives the rows of that array, to the last bit, and
    `numpy.asarray(inputs)` or `torch.as_tensor(inputs)` the whole of it. Only what is asked for is
    converted, and nothing of it is kept.

    Parameters
    ----------
    pixels : uint8, (n, H, W) or (n, H, W, 3)
        The array is made read-only.
    mean, std : tuples of float
        One entry per channel, of pixels / 255.
    """

    dtype = np.dtype(np.float32)

    def __init__(self, pixels: np.ndarray, mean: tuple[float, ...], std: tuple[float, ...]):
        pixels.flags.writeable = False
        self.pixels = pixels
        self.mean = mean
        self.std = std

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """(n, channels, height, width)."""
        n, height, width, *channels = self.pixels.shape
        return (n, channels[0] if channels else 1, height, width)

    def __len__(self) -> int:
        return len(self.pixels)

    def __getitem__(self, rows: int | slice | np.ndarray) -> np.ndarray:
        """Return a new array of the inputs at `rows`: a number, a slice, numbers or a mask.

        Raises
        ------
        IndexError
            If a row is out of range, or several axes are asked for at once.
        """
        if isinstance(rows, tuple):
            raise IndexError("inputs are indexed by rows only; use numpy.asarray(inputs) for more")
        picked = self.pixels[rows]
        if picked.ndim < self.pixels.ndim:
            return self._normalised(picked[None])[0]
        return self._normalised(picked)

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> np.ndarray:
        if copy is False:
            raise ValueError("inputs are made of bytes, so that copy=False is not possible")
        return self[:].astype(self.dtype if dtype is None else dtype, copy=False)

    def __dlpack__(self, **options: Any) -> Any:
        """Hand the whole array to a library that takes arrays by DLPack, as torch does."""
        return self[:].__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.pixels.__dlpack_device__()

    def _normalised(self, pixels: np.ndarray) -> np.ndarray:
        x = pixels.transpose(0, 3, 1, 2) if pixels.ndim == 4 else pixels[:, None]
        mean, std = (np.reshape(v, (-1, 1, 1)).astype(np.float64) for v in (self.mean, self.std))
        out = np.multiply(x, (1 / (255 * std)).astype(np.float32), dtype=np.float32, order="C")
        out -= (mean / std).astype(np.float32)
        return out


@dataclass(frozen=True, eq=False)
class Dataset:
    """A data set in memory.

    The arrays are made read-only, since `load` hands the same ones to every caller.

    Parameters
    ----------
    name : str
    x_train, x_test : uint8, (n, H, W) or (n, H, W, 3); or float32, (n, n_features)
        Images as bytes, or standardised features.
    y_train, y_test : int64, (n,)
        Classes in [0, n_classes).
    n_classes : int
    mean, std : tuples of float
        One entry per channel, of x / 255; empty for features.
    digest : str
        A sha256, hex: of the npz file, or of the arrays' bytes where they were made on the spot or
        are known to be complete and faithful (`Spec.contents`). For features, whose file holds no
        labels, of its digest and that of the images' file.
    canonical : bool
        Whether both parts have the canonical number of samples, and where `Spec.contents` says
        which ones, are those. Otherwise it is a subset, an extension or a lossy copy, and `note`
        says so.
    source : str
        The file, or how the arrays were made.
    note : str
        What a reader of results must know; empty when there is nothing to say.
    y_train_coarse, y_test_coarse : int64 or None
        Superclasses in [0, n_coarse); None and 0 when there are none.
    """

    name: str
    x_train: np.ndarray = field(repr=False)
    y_train: np.ndarray = field(repr=False)
    x_test: np.ndarray = field(repr=False)
    y_test: np.ndarray = field(repr=False)
    n_classes: int
    mean: tuple[float, ...]
    std: tuple[float, ...]
    digest: str
    canonical: bool
    source: str
    note: str = ""
    y_train_coarse: np.ndarray | None = field(default=None, repr=False)
    y_test_coarse: np.ndarray | None = field(default=None, repr=False)
    n_coarse: int = 0

    def __post_init__(self) -> None:
        for array in vars(self).values():
            if isinstance(array, np.ndarray):
                array.flags.writeable = False

    @classmethod
    def of(
        cls,
        x: ArrayLike,
        y: ArrayLike,
        x_test: ArrayLike | None = None,
        y_test: ArrayLike | None = None,
        *,
        name: str = "own arrays",
    ) -> Dataset:
        """Return the data set of arrays of your own.

        Parameters
        ----------
        x : array (n, ...)
            One sample a row: numbers, which the network gets as float32, or uint8 images (n, H, W)
            or (n, H, W, 3), which are standardised by their own mean and spread.
        y : int array (n,)
            Classes 0, 1, ...
        x_test, y_test : arrays, optional
            The test set. Without it a fifth of the samples, drawn once and for all, is held out.
        name : str
            What results call it.

        Raises
        ------
        ValueError
            If there is not one label per sample, no sample is of class 0, a value is not finite, or
            the two parts differ in the shape of a sample.
        """
        x, y = _own_part("x", x, "y", y)
        if x_test is None:
            order = generator(0, "test_set").permutation(len(y))
            train, test = order[len(y) // 5 :], order[: len(y) // 5]
            x, y, x_test, y_test = x[train], y[train], x[test], y[test]
        x_test, y_test = _own_part("x_test", x_test, "y_test", y_test)
        if first := min(y.min(), y_test.min()):
            raise ValueError(f"y begins with class {first}; classes must be 0, 1, ...")
        if x.shape[1:] != x_test.shape[1:] or x.dtype != x_test.dtype:
            raise ValueError(
                f"x_test is {x_test.dtype} {x_test.shape}; its samples must be as those of x, "
                f"{x.dtype} {x.shape}"
            )
        mean = std = ()
        if x.dtype == np.uint8:
            channels = (x / 255).reshape(-1, x.shape[3] if x.ndim == 4 else 1)
            mean, std = (tuple(map(float, v)) for v in (channels.mean(0), channels.std(0) + 1e-6))
        arrays = {"x_train": x, "y_train": y, "x_test": x_test, "y_test": y_test}
        return cls(
            name=checks.instance("name", name, str),
            **arrays,
            n_classes=int(max(y.max(), y_test.max())) + 1,
            mean=mean,
            std=std,
            digest=contents_digest(arrays),
            canonical=False,
            source="arrays of the caller",
        )

    def identity(self) -> dict[str, str]:
        """Return what the keys of results hold of this data set: its name and digest."""
        return {"name": self.name, "source_sha256": self.digest}

    @property
    def record(self) -> dict[str, Any]:
        """What the record of a result says of the data."""
        return {
            "name": self.name,
            "digest": self.digest,
            "size": len(self.y_train),
            "canonical": self.canonical,
            "note": self.note,
        }

    @property
    def input_shape(self) -> tuple[int, ...]:
        """(channels, height, width) of one input, or (n_features,)."""
        return self.lazy_inputs("train").shape[1:]

    def lazy_inputs(self, split: str, indices: ArrayLike | None = None) -> Inputs | np.ndarray:
        """Return normalised inputs that are converted row by row, when they are asked for.

        Features, which need no conversion, are returned as the array that they are.

        Parameters
        ----------
        split : "train" or "test"
        indices : array of int, optional
            The samples to take, all by default.

        Raises
        ------
        ValueError
            If `split` is another word or an index is out of range.
        """
        x = self._part("x", split, indices)
        return Inputs(x, self.mean, self.std) if x.dtype == np.uint8 else x

    def inputs(self, split: str, indices: ArrayLike | None = None) -> np.ndarray:
        """Return normalised inputs, a new float32 array (n, channels, height, width).

        Features have the shape (n, n_features). Arguments and errors are those of `lazy_inputs`.
        """
        found = self.lazy_inputs(split, indices)
        return found.copy() if isinstance(found, np.ndarray) else found[:]

    def labels(self, split: str, indices: ArrayLike | None = None) -> np.ndarray:
        """Return a writable copy of the labels, int64 (n,).

        Arguments and errors are those of `lazy_inputs`.
        """
        return np.array(self._part("y", split, indices))

    def with_coarse_labels(self) -> Dataset:
        """Return the same data set with the superclasses as its classes.

        Raises
        ------
        ValueError
            If there are no superclasses.
        """
        if self.y_train_coarse is None or self.y_test_coarse is None:
            raise ValueError(f"{self.name!r} has no superclasses")
        return replace(
            self, y_train=self.y_train_coarse, y_test=self.y_test_coarse, n_classes=self.n_coarse
        )

    def _part(self, what: str, split: str, indices: ArrayLike | None) -> np.ndarray:
        checks.choice("split", split, ("train", "test"))
        array = getattr(self, f"{what}_{split}")
        if indices is None:
            return array
        return array[checks.indices("indices", indices, len(array), of=f"{self.name} {split}")]


def _own_part(
    x_name: str, x: ArrayLike, y_name: str, y: ArrayLike
) -> tuple[np.ndarray, np.ndarray]:
    """Return samples and labels of a user's own, checked and copied."""
    y = checks.labels(y_name, y).astype(np.int64)
    values = checks.values(x_name, x)
    if values.dtype != np.uint8 or values.ndim not in (3, 4):
        values = checks.array(x_name, values).astype(np.float32)
    if values.ndim < 2 or len(values) != len(y):
        raise ValueError(
            f"{x_name} has shape {values.shape}; it must hold one sample a row, as many as there "
            f"are labels in {y_name}, {len(y)}"
        )
    return np.array(values), y


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


def load(name: str, *, root: str | os.PathLike | None = None, download: bool = True) -> Dataset:
    """Return the data set `name`, checked; repeated calls share one copy in memory.

    Parameters
    ----------
    name : str
        One of `names()` that has no clients of its own.
    root : path, optional
        Folder to look in and to download to, instead of $SFLKIT_DATA and data/.
    download : bool
        Whether to fetch what is on no disk, after a message. With False the error comes at once.

    Raises
    ------
    ValueError
        If the name is unknown or belongs to a set with clients of its own.
    DataCorruptError
        If a file is truncated, altered (its sha256 is not the one recorded beside it) or not of the
        documented form.
    DataUnavailableError
        If the data set is not on disk and cannot be downloaded.
    """
    checks.choice("name", name, names())
    download = checks.flag("download", download)
    if name in CLIENT_SETS:
        raise ValueError(
            f"name={name!r} has clients of its own and is no set of images to be dealt out: build "
            "it with federations.data_streams or federations.static; "
            f"here {', '.join(WITHOUT_CLIENTS)} are allowed"
        )
    if name in AT_HAND:
        return _make(name)
    if name in COMPLETE:
        source = load(COMPLETE[name], root=root, download=download)
        if not source.canonical:
            why = f"{source.source} is no complete and faithful copy of it ({source.note})"
            raise unavailable(name, root, why)
        return replace(source, name=name)
    if name in FEATURES:
        source = load(FEATURES[name].of, root=root, download=download)
        return _features(name, source, None if root is None else Path(root))
    path = obtain(name, root=root, download=download)
    if path.is_dir():
        return _read_installed(name, path)
    state = path.stat()
    return _read(name, path, state.st_mtime_ns, state.st_size)


def obtain(
    name: str, *, root: str | os.PathLike | None = None, download: bool = True
) -> Path | str:
    """Return the file or folder of a data set, downloaded if need be.

    For a set that is made on the spot it is a text that says how, and for features the file of the
    images. Arguments and errors are those of
    `load`, but sets with clients of their own are allowed.
    """
    checks.choice("name", name, names())
    download = checks.flag("download", download)
    name = stored_as(name)
    name = "mnist" if name == "mnist-writers" else name
    if is_made(name):
        return available(root=root)[name]
    path = find(name, root=root)
    if path is None:
        from sflkit.data import downloads

        if not download or name not in downloads.SOURCES:
            raise unavailable(name, root, "it is on none of the disks looked at")
        path = downloads.fetch(name, folder=root)
    return path


@functools.lru_cache(maxsize=3)
def _read(name: str, path: Path, mtime_ns: int, size: int) -> Dataset:
    """Check and read an npz file.

    Its time and size are arguments so that the cache does not hold on to a file that was replaced.
    """
    spec = SPECS[name]
    arrays, digest, recorded = read(path, spec)
    arrays, contents, notes = _identified(spec, arrays)
    if not recorded and not contents:
        notes.append(
            f"no {path.name}.sha256 beside the file, so its digest is recorded but was compared "
            "with nothing"
        )
    canonical = not _lacks(spec, arrays) and bool(contents or not spec.contents)
    return _known(name, arrays, contents or digest, canonical, path, "; ".join(notes))


def _identified(
    spec: Spec, arrays: dict[str, np.ndarray]
) -> tuple[dict[str, np.ndarray], str, list[str]]:
    """Return the arrays, the digest of the contents where they are all there, and what to say."""
    lacks = _lacks(spec, arrays)
    if lacks or not spec.contents:
        return arrays, "", lacks
    ordered = in_own_order(arrays) if spec.ordered else arrays
    if contents_digest(ordered) == spec.contents:
        return ordered, spec.contents, []
    note = "lossy or altered copy: as many samples as the canonical data set has, but not the same"
    return arrays, "", [note]


def _lacks(spec: Spec, arrays: dict[str, np.ndarray]) -> list[str]:
    """Return what to say of the number of samples, nothing where it is the canonical one."""
    sizes = (len(arrays["y_train"]), len(arrays["y_test"]))
    if sizes == spec.sizes:
        return []
    less = all(have <= full for have, full in zip(sizes, spec.sizes, strict=True))
    return [
        f"{'subset' if less else 'not the canonical split'}: {sizes[0]:,} training and "
        f"{sizes[1]:,} test samples, canonical are {spec.sizes[0]:,} and {spec.sizes[1]:,}"
    ]


@functools.cache
def _read_installed(name: str, folder: Path) -> Dataset:
    """Read the canonical files that a package of the system has installed.

    They are known by what they hold: packages compress them anew.
    """
    from sflkit.data import downloads

    arrays = downloads.installed(folder)
    contents = contents_digest(arrays)
    expected = SPECS[name].contents
    if contents != expected:
        raise DataCorruptError(
            f"{folder} does not hold {name}: expected sha256 {expected} of the arrays, found "
            f"{contents}. Install the package again, or fetch the data set: sflkit data {name}"
        )
    return _known(name, arrays, contents, True, folder)


def _known(
    name: str,
    arrays: dict[str, np.ndarray],
    digest: str,
    canonical: bool,
    source: Path,
    note: str = "",
) -> Dataset:
    """Return the data set of arrays that lay on disk."""
    spec = SPECS[name]
    return Dataset(
        name=name,
        **arrays,
        n_classes=spec.n_classes,
        n_coarse=spec.n_coarse,
        mean=spec.mean,
        std=spec.std,
        digest=digest,
        canonical=canonical,
        source=str(source),
        note=note,
    )


@functools.lru_cache(maxsize=2)
def _features(name: str, source: Dataset, root: Path | None) -> Dataset:
    """Return the features of a data set of images, which keep its labels and its note."""
    recipe = patches.Recipe(FEATURES[name].words)
    images = {"x_train": source.x_train, "x_test": source.x_test}
    arrays, digest, path = patches.read_or_make(name, images, source.digest, recipe, folders(root))
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
def _make(name: str) -> Dataset:
    """Make a data set that needs no file."""
    if name == "digits":
        arrays = _digits()
        values = arrays["x_train"] / 255
        known = {"n_coarse": 5, "mean": (float(values.mean()),), "std": (float(values.std()),)}
        note = "8 x 8 images enlarged to 28 x 28; superclasses: label // 2"
    elif name == "traffic":
        arrays = _traffic(traffic.FLOWS)
        known = {"mean": (TRAFFIC_MEAN,), "std": (TRAFFIC_STD,)}
        note = "synthetic stand-in for ISCXVPN2016 packets"
    else:
        arrays = _traffic(traffic.MANY_FLOWS)
        # of the bytes' own spread, so that the losses of a linear model are of order one
        values = arrays["x_train"] / 255
        known = {"mean": (float(values.mean()),), "std": (float(values.std()),)}
        note = f"synthetic stand-in for ISCXVPN2016 packets, {traffic.MANY_FLOWS} flows each"
    return Dataset(
        name=name,
        **arrays,
        **known,
        n_classes=10,
        digest=contents_digest(arrays),
        canonical=True,
        source=AT_HAND[name],
        note=note,
    )


def _traffic(n_flows: int) -> dict[str, np.ndarray]:
    """Generate packets and split them 4 : 1; they come in random order."""
    x, y = traffic.generate(n_flows=n_flows)
    split = len(y) * 4 // 5
    return {"x_train": x[:split], "y_train": y[:split], "x_test": x[split:], "y_test": y[split:]}


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
    parts = {"train": order[rank[order] < 4], "test": order[rank[order] == 4]}
    arrays = {
        f"{what}_{split}": values[ids]
        for split, ids in parts.items()
        for what, values in (("x", x), ("y", y))
    }
    return arrays | {f"y_{split}_coarse": arrays[f"y_{split}"] // 2 for split in parts}
