"""The video-caching task: who requests which file, and the samples a client makes of its requests.

Source: OSAFL, Appendix D-A: Algorithm 5 (content requests), (80) to (82), Dataset-1 and Dataset-2;
ERRATA 39 and 40 for what the paper prints otherwise or leaves open. File ids are genre *
files_per_genre + place. `sflkit.osafl.stores` holds the samples.

===========  ==========  ============  =====================================================
code         symbol      shape         meaning
===========  ==========  ============  =====================================================
features     x_ft,f,g    (F, H)        features of the files
order        -           (G, F / G)    file ids of a genre from most to least popular
gamma, q     gamma, q    scalars       exponent and shift of the Zipf-Mandelbrot law
similarity   Cos(f, f')  (F, F / G)    cosine of a file with each file of its genre, itself
                                       included
preferences  p_u,gn      (U, G)        genre preferences of a user
stick        epsilon_u   (U,)          probability of staying in the genre
top_k        K           scalar        similar files a staying user picks from
requests     -           (U, n)        file ids in the order of the requests
===========  ==========  ============  =====================================================
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from sflkit import checks

GENRE_REPEATS = 70  # "to have a particular shape": 3168 = 3 x 32 x 33 features (Appendix D-A)

# Synthetic images are set so that pixel moments, the correlations of neighbours and of colours, and
# the cosines between images come out as for one CIFAR-100 image of each class.
_MEAN = (0.507, 0.487, 0.441)  # of the pixels before clipping: red, green, blue
_STD = (0.320, 0.307, 0.331)
_LOWEST = 1 / 60  # frequency below which the spectrum is flat, in cycles per pixel
_DECAY = 1.5  # by which power of the frequency the amplitude falls above it
_COMMON = 0.78  # share of the variance that the colours have in common


@dataclass(eq=False)
class Catalogue:
    """The files, their genres, and how popular and similar they are. `catalogue` makes one.

    Its arrays are read-only.

    Attributes
    ----------
    features : array (n_files, n_features)
        Any scale; only (81) uses them, and Dataset-1 passes them on.
    order : array (n_genres, files_per_genre)
        File ids of each genre, most popular first.
    gamma, q : float
        Zipf-Mandelbrot law of the rank, gamma >= 0 and q > -1; the paper gives neither (ERRATA 39).
    popularity : array (files_per_genre,)
        The probabilities (80) of the ranks of a genre, by that law.

    Raises
    ------
    ValueError
        For a zero or non-finite feature vector, fewer than two genres or files per genre, or an
        order that is none.
    """

    features: np.ndarray
    order: np.ndarray
    gamma: float = 1.2
    q: float = 2.0

    def __post_init__(self):
        features = checks.array("features", self.features, ndim=2)
        order = checks.integers("order", self.order)
        ids = np.arange(order.size).reshape(order.shape)
        whole = order.ndim == 2 and min(order.shape) >= 2 and order.size == len(features)
        if not whole or not np.array_equal(np.sort(order, axis=1), ids):
            raise ValueError(
                f"order of shape {order.shape} must be (n_genres, files_per_genre), each at least "
                "2, and rank the ids genre * files_per_genre + place of each genre, "
                f"{len(features)} in all"
            )
        if not (np.linalg.norm(features, axis=1) > 0).all():
            raise ValueError(
                "features holds a vector of zeros; its cosine is undefined, every file needs a "
                "feature above 0"
            )
        self.popularity = zipf_mandelbrot(order.shape[1], self.gamma, self.q)
        self.gamma, self.q = float(self.gamma), float(self.q)
        given = np.asarray(self.features)  # float32 stays: images of a catalogue are many
        self.features = _read_only((given if given.dtype == np.float32 else features).copy())
        self.order = _read_only(order.astype(np.int64))

    n_files = property(lambda self: self.order.size, doc="Number of files, F.")
    n_genres = property(lambda self: self.order.shape[0], doc="Number of genres, G.")
    files_per_genre = property(lambda self: self.order.shape[1], doc="Files of one genre, F / G.")

    @cached_property
    def similarity(self) -> np.ndarray:
        """Cosines (81), shape (n_files, files_per_genre)."""
        unit = np.asarray(self.features, dtype=float)
        unit = (unit / np.linalg.norm(unit, axis=1, keepdims=True)).reshape(
            self.n_genres, self.files_per_genre, -1
        )
        return np.clip(unit @ unit.transpose(0, 2, 1), -1, 1).reshape(self.n_files, -1)

    def similar(self, top_k: int) -> tuple[np.ndarray, np.ndarray]:
        """Return which files a user who stays in the genre goes to, and how likely.

        Source: OSAFL, (82) renormalised over the top K, Algorithm 5, lines 6 to 8.

        Returns
        -------
        files : int array (n_files, top_k)
            The most similar other files of each file's genre, the most similar first.
        law : array (n_files, top_k)
            Their probabilities.

        Raises
        ------
        ValueError
            Unless 1 <= top_k <= files_per_genre - 1.
        """
        top_k = checks.integer("top_k", top_k, 1, self.files_per_genre - 1)
        place = np.arange(self.n_files) % self.files_per_genre
        others = self.similarity.copy()
        others[np.arange(self.n_files), place] = -np.inf
        best = np.argsort(-others, axis=1, kind="stable")[:, :top_k]
        weights = np.exp(np.take_along_axis(others, best, axis=1))
        genre_start = np.arange(self.n_files) - place
        return genre_start[:, None] + best, weights / weights.sum(axis=1, keepdims=True)


@dataclass(eq=False)
class Users:
    """Who asks for files. Its arrays are read-only.

    Attributes
    ----------
    preferences : array (n_users, n_genres)
        Genre preferences; rows sum to 1.
    stick : array (n_users,)
        Probability of staying in the genre of the last request, in [0, 1].

    Raises
    ------
    ValueError
        If a probability is out of range, a row does not sum to 1, or the lengths disagree.
    """

    preferences: np.ndarray
    stick: np.ndarray

    def __post_init__(self):
        preferences = checks.simplex("preferences", self.preferences, ndim=2)
        stick = checks.array("stick", self.stick, low=0, high=1)
        checks.shape("stick", stick, (len(preferences),), like="preferences")
        self.preferences = _read_only(preferences.copy())
        self.stick = _read_only(stick.copy())

    def __len__(self) -> int:
        return len(self.stick)

    def elsewhere(self) -> np.ndarray:
        """Return the law of the next genre of a user who leaves one.

        ERRATA 40: it is the preferences without the present genre, renormalised, and uniform where
        nothing is left of them.

        Returns
        -------
        array (n_users, n_genres, n_genres)
            By user, genre left and genre entered.
        """
        n = self.preferences.shape[1]
        off = 1.0 - np.eye(n)
        law = self.preferences[:, None, :] * off
        total = law.sum(axis=2, keepdims=True)
        law = np.where(total > 1e-300, law / np.maximum(total, 1e-300), off / max(n - 1, 1))
        return law / law.sum(axis=2, keepdims=True)


def zipf_mandelbrot(n_files: int, gamma: float, q: float) -> np.ndarray:
    """Return the probabilities of the ranks 1 to n_files, proportional to (rank + q)^-gamma.

    Source: OSAFL, (80). ERRATA 39: the printed normaliser makes them add up to 627 for 20 files,
    gamma = 1.2, q = 2.

    Returns
    -------
    array (n_files,)

    Raises
    ------
    ValueError
        For n_files < 1, gamma < 0 or q <= -1.
    """
    n_files = checks.integer("n_files", n_files, 1)
    gamma = checks.real("gamma", gamma, 0)
    ranks = np.arange(1, n_files + 1) + checks.real("q", q, above=-1)
    weights = (ranks / ranks[0]) ** -gamma
    return weights / weights.sum()


def synthetic_images(n_files: int, rng: np.random.Generator) -> np.ndarray:
    """Draw smooth colour images with the second moments of CIFAR-100.

    They are our stand-in for the photographs that the paper uses: random fields whose amplitude
    falls with the frequency, mostly shared by the three colours. The cosines between images have
    the mean and spread of CIFAR-100's, 0.8 and 0.1.

    Returns
    -------
    float32 array (n_files, 3, 32, 32) in [0, 1]
    """
    n_files = checks.integer("n_files", n_files, 1)
    frequency = np.hypot(*np.meshgrid(np.fft.fftfreq(32), np.fft.fftfreq(32)))
    amplitude = np.maximum(frequency, _LOWEST) ** -_DECAY
    images = np.empty((n_files, 3, 32, 32), dtype=np.float32)
    for image, child in zip(images, checks.generator(rng).spawn(n_files), strict=True):
        field = np.fft.ifft2(np.fft.fft2(child.standard_normal((4, 32, 32))) * amplitude).real
        field /= np.sqrt((amplitude**2).mean())  # variance 1
        mixed = np.sqrt(_COMMON) * field[:1] + np.sqrt(1 - _COMMON) * field[1:]
        image[:] = np.clip(np.reshape(_MEAN, (3, 1, 1)) + np.reshape(_STD, (3, 1, 1)) * mixed, 0, 1)
    return images


def catalogue(
    features: ArrayLike | None = None,
    *,
    n_files: int = 100,
    n_genres: int = 5,
    gamma: float = 1.2,
    q: float = 2.0,
    rng: np.random.Generator,
) -> Catalogue:
    """Return a catalogue with random popularity orders.

    Source: OSAFL, Appendix D-A: 100 files in 5 genres, popularity order of each genre uniformly
    random.

    Parameters
    ----------
    features : array (n_files, ...), optional
        For the paper, one CIFAR-100 image of each class; without it, `synthetic_images`.
    n_files, n_genres : int
        n_files is a multiple of n_genres; it is taken from `features` when these are given.
    gamma, q : float
        Popularity law of the ranks, see `zipf_mandelbrot`.
    rng : numpy.random.Generator

    Raises
    ------
    ValueError
        If the genres do not divide the files, or as `Catalogue`.
    """
    image_rng, order_rng = checks.generator(rng).spawn(2)
    n_files = checks.integer("n_files", n_files, 1)
    if features is None:
        features = synthetic_images(n_files, image_rng)
    features = checks.array("features", features).astype(np.float32)
    if features.ndim < 2 or not features.size:
        raise ValueError(f"features has shape {features.shape}; it must be (n_files, ...)")
    n_files = len(features)
    n_genres = checks.integer("n_genres", n_genres, 2)
    if n_files % n_genres:
        raise ValueError(
            f"n_genres={n_genres} must divide the number of files, {n_files} as features has rows"
        )
    places = np.arange(n_files).reshape(n_genres, -1)
    return Catalogue(features.reshape(n_files, -1), order_rng.permuted(places, axis=1), gamma, q)


def draw_users(
    n_users: int,
    n_genres: int,
    rng: np.random.Generator,
    *,
    concentration: float = 0.3,
) -> Users:
    """Draw users: preferences from Dirichlet(concentration), stick probabilities from 0.4 to 0.9.

    Source: OSAFL, Appendix D-A. Each user has a random stream of its own, so that a new one leaves
    the others as they were.

    Raises
    ------
    ValueError
        For n_users < 1, n_genres < 2 or concentration <= 0.
    """
    n_users = checks.integer("n_users", n_users, 1)
    n_genres = checks.integer("n_genres", n_genres, 2)
    concentration = checks.real("concentration", concentration, above=0)
    children = checks.generator(rng).spawn(n_users)
    law = np.full(n_genres, concentration)
    preferences = np.stack([child.dirichlet(law) for child in children])
    return Users(preferences, np.array([child.uniform(0.4, 0.9) for child in children]))


def request_files(
    cat: Catalogue, users: Users, n_requests: int, rng: np.random.Generator, *, top_k: int = 1
) -> np.ndarray:
    """Draw each user's requests by Algorithm 5, int64 file ids (n_users, n_requests).

    Source: OSAFL, Algorithm 5; ERRATA 40: what is stored is the file drawn, f'' of line 8.

    Parameters
    ----------
    cat, users : Catalogue, Users
    n_requests : int
        >= 1.
    top_k : int
        Files a staying user picks from, 1 to files_per_genre - 1.

    Raises
    ------
    ValueError
        If catalogue and users disagree on the genres, or for sizes out of range.
    """
    n_requests = checks.integer("n_requests", n_requests, 1)
    _same_genres(cat, users)
    near, near_law = cat.similar(top_k)
    near_steps = np.cumsum(near_law, axis=1)[:, :-1]
    elsewhere = np.cumsum(users.elsewhere(), axis=2)[..., :-1]
    popular = np.cumsum(cat.popularity)[:-1]
    # Three uniforms per request and user: stay or leave, the genre, the file.
    children = checks.generator(rng).spawn(len(users))
    draws = np.stack([child.random((n_requests, 3)) for child in children], axis=1)
    who = np.arange(len(users))
    genre = _inverse(np.cumsum(users.preferences, axis=1)[:, :-1], draws[0, :, 1])
    by_rank = np.searchsorted(popular, draws[..., 2], side="right")
    out = np.empty((n_requests, len(users)), dtype=np.int64)
    file = cat.order[genre, by_rank[0]]
    out[0] = file
    for i in range(1, n_requests):
        stay = draws[i, :, 0] <= users.stick
        moved = _inverse(elsewhere[who, genre], draws[i, :, 1])
        genre = np.where(stay, genre, moved)
        similar = near[file, _inverse(near_steps[file], draws[i, :, 2])]
        file = np.where(stay, similar, cat.order[genre, by_rank[i]])
        out[i] = file
    return np.ascontiguousarray(out.T)


def request_matrix(cat: Catalogue, users: Users, *, top_k: int = 1) -> np.ndarray:
    """Return the law of the next request given the last, the exact counterpart of `request_files`.

    The sum over f of pi(f) max_f' P[f, f'], with pi the stationary law, is the best accuracy that
    any predictor who knows the user can reach on Dataset-1.

    Returns
    -------
    array (n_users, n_files, n_files)
        By user, last file and next file; the last axis sums to 1.
    """
    _same_genres(cat, users)
    near, law = cat.similar(top_k)
    stay = np.zeros((cat.n_files, cat.n_files))
    np.put_along_axis(stay, near, law, axis=1)
    in_genre = np.zeros((cat.n_genres, cat.n_files))
    np.put_along_axis(in_genre, cat.order, np.broadcast_to(cat.popularity, cat.order.shape), axis=1)
    leave = np.repeat(users.elsewhere() @ in_genre, cat.files_per_genre, axis=1)
    stick = users.stick[:, None, None]
    return stick * stay + (1 - stick) * leave


def dataset_1(
    cat: Catalogue, users: Users, user: int, requests: ArrayLike
) -> tuple[np.ndarray, np.ndarray]:
    """Return Dataset-1's samples: the features of a request, and which file is asked for next.

    Source: OSAFL, Appendix D-A.2: the file's features, the user's preferences, the cosines with its
    genre's files (the file itself included, ERRATA 40), the genre id 70 times, the stick
    probability; 3168 in the paper's setting.

    Parameters
    ----------
    cat, users : Catalogue, Users
    user : int
    requests : int array (n,)
        Some consecutive requests of that user; n < 2 gives no sample.

    Returns
    -------
    features : float32 array (n - 1, H + G + F/G + 71)
    labels : int64 array (n - 1,)

    Raises
    ------
    ValueError
        For a user or a file that does not exist.
    """
    checks.instance("users", users, Users)
    user = checks.integer("user", user, 0, len(users) - 1)
    requests = _files(cat, requests)
    last = requests[:-1]
    n = len(last)
    genre = last // cat.files_per_genre
    parts = (
        cat.features[last],
        np.broadcast_to(users.preferences[user], (n, cat.n_genres)),
        cat.similarity[last],
        np.repeat(genre[:, None], GENRE_REPEATS, axis=1),
        np.full((n, 1), users.stick[user]),
    )
    return np.concatenate(parts, axis=1, dtype=np.float32, casting="unsafe"), requests[1:].copy()


def dataset_2(
    cat: Catalogue, requests: ArrayLike, *, past: int = 10
) -> tuple[np.ndarray, np.ndarray]:
    """Return Dataset-2's samples: the last `past` file ids, and the next one.

    Source: OSAFL, Appendix D-A.2, L = 10.

    Parameters
    ----------
    cat : Catalogue
    requests : int array (n,)
        Some consecutive requests of a user; n <= past gives no sample.
    past : int
        L, >= 1.

    Returns
    -------
    before : int64 array (n - past, past)
    labels : int64 array (n - past,)

    Raises
    ------
    ValueError
        For past < 1 or a file that does not exist.
    """
    past = checks.integer("past", past, 1)
    requests = _files(cat, requests)
    if len(requests) <= past:
        return np.empty((0, past), dtype=np.int64), np.empty(0, dtype=np.int64)
    before = np.lib.stride_tricks.sliding_window_view(requests, past)[:-1]
    return before.copy(), requests[past:].copy()


def _inverse(cumulative: np.ndarray, uniform: np.ndarray) -> np.ndarray:
    """Return which interval holds each uniform; `cumulative` lacks its last entry, 1."""
    return (cumulative <= uniform[:, None]).sum(axis=1)


def _same_genres(cat: Catalogue, users: Users) -> None:
    checks.instance("cat", cat, Catalogue)
    checks.instance("users", users, Users)
    checks.shape("preferences of the users", users.preferences, (len(users), cat.n_genres))


def _read_only(array: np.ndarray) -> np.ndarray:
    view = array.view()
    view.flags.writeable = False
    return view


def _files(cat: Catalogue, requests: ArrayLike) -> np.ndarray:
    checks.instance("cat", cat, Catalogue)
    return checks.integers("requests", requests, ndim=1, low=0, high=cat.n_files - 1)
