"""A data set in memory: images as bytes, which become normalised inputs when somebody asks."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike

from sflkit import checks
from sflkit.data.files import contents_digest
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
        pixels = self.pixels[rows]
        one = pixels.ndim < self.pixels.ndim
        pixels = pixels[None] if one else pixels
        x = pixels.transpose(0, 3, 1, 2) if pixels.ndim == 4 else pixels[:, None]
        mean, std = (np.reshape(v, (-1, 1, 1)).astype(np.float64) for v in (self.mean, self.std))
        out = np.multiply(x, (1 / (255 * std)).astype(np.float32), dtype=np.float32, order="C")
        out -= (mean / std).astype(np.float32)
        return out[0] if one else out

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> np.ndarray:
        if copy is False:
            raise ValueError("inputs are made of bytes, so that copy=False is not possible")
        return self[:].astype(self.dtype if dtype is None else dtype, copy=False)

    def __dlpack__(self, **options: Any) -> Any:
        """Hand the whole array to a library that takes arrays by DLPack, as torch does."""
        return self[:].__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.pixels.__dlpack_device__()


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
        A sha256, hex: of the npz file, or of the arrays' bytes where they were made on the spot,
        lie in several files, or are known to be complete and faithful (`Spec.contents`). For
        features, whose file holds no labels, of its digest and that of the images.
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
        return array[checks.indices("indices", indices, len(array))]


def _own_part(
    x_name: str, x: ArrayLike, y_name: str, y: ArrayLike
) -> tuple[np.ndarray, np.ndarray]:
    """Return samples and labels of a user's own, checked and copied."""
    y = checks.labels(y_name, y).astype(np.int64)
    values = checks.values(x_name, x)
    if values.dtype != np.uint8 or values.ndim not in (3, 4):
        exact = checks.array(x_name, x)
        with np.errstate(over="ignore"):
            values = exact.astype(np.float32) + 0  # -0.0 is the number 0.0
        if (lost := np.isinf(values)).any():
            raise ValueError(
                f"{x_name} holds {exact[lost][0]:g}; samples are float32, which ends at 3.4e38"
            )
    if values.ndim < 2 or len(values) != len(y):
        raise ValueError(
            f"{x_name} has shape {values.shape}; it must hold one sample a row, as many as there "
            f"are labels in {y_name}, {len(y)}"
        )
    return np.array(values), y
