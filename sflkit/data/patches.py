"""Features of photographs for linear models: how strongly random patches occur in each quadrant.

Source: A. Coates, H. Lee and A. Y. Ng, "An Analysis of Single-Layer Networks in Unsupervised
Feature Learning", AISTATS 2011, whose encoder by soft thresholds on a dictionary of random patches
is Section 3 of A. Coates and A. Y. Ng, "The Importance of Encoding Versus Training with Sparse
Coding and Vector Quantization", ICML 2011. No paper of this library uses them. They let a convex
model learn something from photographs in seconds, where the papers train deep networks.

A patch is a window of `side` x `side` pixels. It is cleared of its mean and scaled to unit
contrast, then whitened (ZCA), then compared with each word of the dictionary, a whitened random
patch of unit length. A word w answers a patch z with max(0, w'z - threshold) and
max(0, -w'z - threshold). Answers are summed over the windows of each quadrant of the image, and the
sums are standardised. Everything that is fitted (whitening, dictionary, mean and standard
deviation of the sums) comes from training images alone.

| code      | shape               | unit  | meaning                                                |
|-----------|---------------------|-------|--------------------------------------------------------|
| images    | (n, H, W, channels) | bytes | pictures, or (n, H, W) without colours                 |
| windows   | (n, R, C, d)        | bytes | d = side^2 channels numbers of each of R x C windows   |
| mean      | (d,)                |       | of the patches of unit contrast                        |
| whitening | (d, d)              |       | symmetric: patches times it have nearly unit covariance|
| words     | (K, d)              |       | the dictionary, rows of length 1                       |
| features  | (n, 8 K)            |       | 4 quadrants x (K positive, K negative answers)         |
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from sflkit import npzfiles, paths
from sflkit.data import files

if TYPE_CHECKING:
    from sflkit.data.arrays import Dataset

VERSION = 1  # raise it when the numbers change: files of features are made anew
PARTS = ("x_train", "x_test")
CHUNK = 128  # images at a time: their windows' answers take 30 MB


class Recipe(NamedTuple):
    """How features are made.

    Attributes
    ----------
    words : int
        K, size of the dictionary.
    side, stride : int
        Side of a window and distance between windows, pixels.
    patches : int
        Random training patches that whitening and dictionary are made of.
    contrast : float
        Added to the variance of a patch before its root divides the patch, squared bytes.
    whitening : float
        Added to the variances along the principal axes before their roots divide the patches.
    threshold : float
        What an answer must exceed.
    seed : int
        Of the random patches.
    """

    words: int
    side: int = 6
    stride: int = 2
    patches: int = 40_000
    contrast: float = 10.0
    whitening: float = 0.1
    threshold: float = 0.5
    seed: int = 2011


class Encoder(NamedTuple):
    """What is learned from training images; the module's table says shapes and meanings."""

    recipe: Recipe
    mean: np.ndarray
    whitening: np.ndarray
    words: np.ndarray


def windows(images: np.ndarray, side: int, stride: int) -> np.ndarray:
    """Return all windows of each image, float32 (n, rows, columns, side * side * channels)."""
    images = images[..., None] if images.ndim == 3 else images
    view = np.lib.stride_tricks.sliding_window_view(images, (side, side), axis=(1, 2))
    view = view[:, ::stride, ::stride].transpose(0, 1, 2, 4, 5, 3)
    return view.reshape(*view.shape[:3], -1).astype(np.float32)


def unit_contrast(patches: np.ndarray, contrast: float) -> np.ndarray:
    """Return each patch, (..., d), minus its mean, over the root of its variance + `contrast`."""
    centred = patches - patches.mean(axis=-1, keepdims=True)
    return centred / np.sqrt((centred**2).mean(axis=-1, keepdims=True) + contrast)


def zca(patches: np.ndarray, added: float) -> tuple[np.ndarray, np.ndarray]:
    """Return the mean (d,) of patches (n, d), and the matrix (d, d) that whitens what is left.

    With the covariance V diag(v) V' it is V diag(1 / sqrt(v + added)) V'.
    """
    patches = patches.astype(np.float64)
    mean = patches.mean(axis=0)
    values, axes = np.linalg.eigh(np.atleast_2d(np.cov(patches, rowvar=False, bias=True)))
    return mean, (axes / np.sqrt(np.maximum(values, 0) + added)) @ axes.T


def fit(images: np.ndarray, recipe: Recipe) -> Encoder:
    """Learn whitening and dictionary from training images."""
    images = images[..., None] if images.ndim == 3 else images
    n, height, width, _ = images.shape
    rng = np.random.default_rng(recipe.seed)
    which = rng.integers(0, n, recipe.patches)
    top = rng.integers(0, height - recipe.side + 1, recipe.patches)
    left = rng.integers(0, width - recipe.side + 1, recipe.patches)
    inside = np.arange(recipe.side)
    drawn = images[
        which[:, None, None],
        (top[:, None] + inside)[:, :, None],
        (left[:, None] + inside)[:, None, :],
    ].reshape(recipe.patches, -1)
    drawn = unit_contrast(drawn.astype(np.float64), recipe.contrast)
    mean, whitening = zca(drawn, recipe.whitening)
    words = (drawn[rng.permutation(recipe.patches)[: recipe.words]] - mean) @ whitening
    lengths = np.linalg.norm(words, axis=1, keepdims=True)
    return Encoder(recipe, mean, whitening, words / np.maximum(lengths, 1e-12))


def encode(images: np.ndarray, encoder: Encoder) -> np.ndarray:
    """Return the features of images before they are standardised, float32 (n, 8 K).

    The quadrants are top left, top right, bottom left, bottom right; where the number of windows is
    odd, the one in the middle belongs to the bottom or the right.
    """
    recipe = encoder.recipe
    found = unit_contrast(windows(images, recipe.side, recipe.stride), recipe.contrast)
    # Whitening and comparison are one product with a thin matrix.
    compare = (encoder.whitening @ encoder.words.T).astype(np.float32)
    answers = found @ compare - (encoder.mean @ compare).astype(np.float32)
    rows, columns = (length // 2 for length in answers.shape[1:3])
    sums = []
    for part in (answers[:, :rows], answers[:, rows:]):
        for quadrant in (part[:, :, :columns], part[:, :, columns:]):
            for sign in (1, -1):
                over = np.maximum(sign * quadrant - recipe.threshold, 0)
                sums.append(over.sum(axis=(1, 2)))
    return np.concatenate(sums, axis=1)


def compute(
    x_train: np.ndarray, x_test: np.ndarray, recipe: Recipe, *, chunk: int = CHUNK
) -> tuple[np.ndarray, np.ndarray]:
    """Return standardised features of training and test images, float32 (n, 8 K) each.

    Parameters
    ----------
    x_train, x_test : uint8 (n, H, W, channels) or (n, H, W)
    recipe : Recipe
    chunk : int
        Images at a time; the answer depends on it by rounding only.
    """
    encoder = fit(x_train, recipe)
    parts = []
    for x in (x_train, x_test):
        features = np.empty((len(x), 8 * recipe.words), np.float32)
        for first in range(0, len(x), chunk):
            features[first : first + chunk] = encode(x[first : first + chunk], encoder)
        parts.append(features)
    train, test = parts
    mean = train.mean(axis=0, dtype=np.float64)
    blocks = (train[first : first + chunk] for first in range(0, len(train), chunk))
    spread = np.sqrt(sum(((block - mean) ** 2).sum(axis=0) for block in blocks) / len(train))
    spread[spread == 0] = 1  # a word that never answers stays 0
    for features in parts:
        features -= mean.astype(np.float32)
        features /= spread.astype(np.float32)
    return train, test


def read_or_make(
    name: str, images: Dataset, recipe: Recipe
) -> tuple[dict[str, np.ndarray], str, Path]:
    """Return features of a data set, made on first use and read from a file afterwards.

    The file's name holds a hash of the recipe and of the images' digest, so that features of other
    images, or by another recipe, are never taken for these. It may lie in any of
    `paths.data_folders()`; it is written to the last one.

    Parameters
    ----------
    name : str
        What the file is called before the hash.
    images : Dataset
    recipe : Recipe

    Returns
    -------
    arrays : dict
        x_train and x_test, float32 (n, 8 K).
    digest : str
        sha256 of the file.
    file : Path

    Raises
    ------
    DataCorruptError
        If the file cannot be read.
    """
    made_of = hashlib.sha256(f"{VERSION} {recipe!r} {images.digest}".encode()).hexdigest()
    candidates = [folder / f"{name}-{made_of[:12]}.npz" for folder in paths.data_folders()]
    target = candidates[-1]
    with paths.lock(target):  # two processes do not make the same features
        found = next((path for path in candidates if path.is_file()), None)
        if found is None:
            features = dict(zip(PARTS, compute(images.x_train, images.x_test, recipe), strict=True))
            return features, files.write(target, features), target
    try:
        features = npzfiles.read_npz(found, names=PARTS)
    except ValueError as error:
        raise files.DataCorruptError(
            f"{found} cannot be read as npz ({error}); remove it, and it is made anew"
        ) from error
    return features, files.file_digest(found), found
