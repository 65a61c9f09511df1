"""Streaming federated learning on a small problem that meets Assumptions 2-5 by construction.

It is there to measure what the theory bounds. Source: SFL, Section V, Lemmas 1-2 and Theorem 1. A
sample of class r is a point x in the plane near its class's centre, and its loss is
F(w; x) = sqrt(1 + |w - x|^2): the gradient is shorter than 1 everywhere and 1-Lipschitz. So

- Assumption 2 holds with L = 1, Assumption 5 with sigma_M^2 = 1, Assumption 4 with A^2 = 0 and
  sigma_G^2 = sigma_M^2;
- Assumption 3 holds because arrivals are uniform draws from a finite pool of points, whose mean
  gradient is the exact one.

Local training is Algorithm (2)-(6) with E full-batch steps on the cache and ERRATA 2's server step.
All repeats follow the same label stream with exact counts, so that lambda_t^2 is known from
`sflkit.sfl.discrepancy.exact_discrepancy`.

"""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np
import pandas as pd

from sflkit import checks
from sflkit.config import Count, OneOf, Positive, Seed, Share, Whole, settings
from sflkit.randomness import generator
from sflkit.registry import Registry
from sflkit.sfl import discrepancy
from sflkit.sfl.discrepancy import make_cache, make_stream, repeat_clients

EXPERIMENT = "sfl-toy-problem"
RESULT_VERSION = 1

# Theorem 1 is about v with sum 1, so that SRSR is here as implemented.
RULES = Registry(
    "cache rule", {name: rule for name, rule in discrepancy.RULES.items() if name != "srsr"}
)

CONSTANTS = {"smoothness": 1.0, "sigma_m2": 1.0, "sigma_g2": 1.0, "dissimilarity2": 0.0}

_POINTS = 50
_RADIUS = 3.0
_SPREAD = 1.0
_START = (3.0, 2.0)


@settings
class SyntheticConfig:
    """One cache rule on the synthetic problem; the stream's fields are those of
    `discrepancy.DiscrepancyConfig`.

    Parameters
    ----------
    rule : str
        A name in `RULES`.
    seed, part : int
        Of stream and pool, and of an independent block of repeats; >= 0.
    rounds, local_steps, repeats : int
        T, E and the number of paths.
    local_rate, global_rate : float
        eta_L and eta, > 0.
    """

    rule: Annotated[str, OneOf(RULES)] = "drsr"
    seed: Seed = 0
    part: Annotated[int, Whole(0)] = 0
    n_clients: Count = 4
    n_classes: Count = 3
    classes_per_client: Count = 3
    n_states: Count = 10
    temperature: Positive = 0.2
    batch_size: Count = 30
    cache_rounds: Count = 10
    theta: Share = 2 / 3
    rounds: Count = 60
    local_steps: Count = 5
    local_rate: Positive = 0.01
    global_rate: Positive = 5.0
    repeats: Count = 20


def make_points(config: SyntheticConfig) -> np.ndarray:
    """Return the pool of samples, (n_classes, n_points, 2).

    The classes' centres lie on a circle, and the points are spread around them.
    """
    angle = 2 * np.pi * np.arange(config.n_classes) / config.n_classes
    centres = _RADIUS * np.stack([np.cos(angle), np.sin(angle)], axis=1)
    return centres[:, None] + _SPREAD * generator(config.seed, "data").standard_normal(
        (config.n_classes, _POINTS, 2)
    )


def gradient(w: np.ndarray, points: np.ndarray) -> np.ndarray:
    """Return the gradients of sqrt(1 + |w - x|^2) in w; w and points broadcast over (..., 2)."""
    gap = w - points
    return gap / np.sqrt(1 + (gap**2).sum(axis=-1, keepdims=True))


def loss_gap(config: SyntheticConfig) -> float:
    """Return f(w_0) - min f of the global loss f = mean_k sum_r pi_kr E[F | r].

    The minimum comes from gradient descent, since f is convex.
    """
    points = make_points(config)
    shares = make_stream(config).long_term.mean(axis=0)
    start = w = np.array(_START)
    for _ in range(2000):  # steps of 1 / L
        w = w - np.einsum("r,rpd->d", shares, gradient(w, points)) / points.shape[1]
    value = [
        (shares * np.sqrt(1 + ((v - points) ** 2).sum(axis=-1)).mean(axis=1)).sum()
        for v in (start, w)
    ]
    return float(value[0] - value[1])


def run(config: SyntheticConfig, *, stop_after: int | None = None) -> pd.DataFrame:
    """Train along `repeats` paths and measure what Lemmas 1-2 and Theorem 1 bound.

    With `stop_after` the run ends after that round; its rows are the first of the whole run's.

    Returns
    -------
    DataFrame of means over the paths, one row per round and client
        round (from 1), client; real_to_virtual, virtual_to_expected: E||g - g^||^2 and E||g^ - grad
        f^k||^2, largest over the local steps; drift: E||w_tau - w_t||^2, largest over tau < E;
        grad_norm2: E||grad f(w_t)||^2 before the round's update.
    """
    points = make_points(config)
    copies = repeat_clients(make_stream(config), config.repeats)
    arrivals = generator(config.seed, "arrivals", config.part)
    counts = copies.sample(config.rounds, config.batch_size, arrivals, exact=True)
    rng = generator(config.seed, "cache", config.part)
    pick = generator(config.seed, "samples", config.part)
    held = [make_cache(config, rng) for _ in range(config.n_clients * config.repeats)]
    w = np.tile(_START, (config.repeats, 1)).astype(float)
    rows = []
    for t in range(checks.last_round(stop_after, config.rounds)):
        for k, cache in enumerate(held):
            labels = np.arange(config.n_classes).repeat(counts[t, k])
            cache.update(labels * _POINTS + pick.integers(_POINTS, size=len(labels)), labels, rng)
        # rows of points; every cache holds as many
        cached = np.stack([cache.ids for cache in held])
        w, measured = _round(config, w, cached, points, copies.long_term)
        rows.append(
            pd.DataFrame({"round": t + 1, "client": np.arange(config.n_clients)} | measured)
        )
    return pd.concat(rows, ignore_index=True)


def _round(
    config: SyntheticConfig,
    w: np.ndarray,
    cached: np.ndarray,
    points: np.ndarray,
    shares: np.ndarray,
) -> tuple[np.ndarray, dict[str, Any]]:
    """Take the E local steps of all clients and paths and the server's step.

    Returns the new w (repeats, 2) and what was measured.
    """
    local = np.tile(w, (config.n_clients, 1))  # client-major, as the copies of the stream
    start = local
    total = np.zeros_like(local)
    largest = dict.fromkeys(("real_to_virtual", "virtual_to_expected", "drift"), 0.0)
    for _ in range(config.local_steps):
        real, virtual, expected = _gradients(local, cached, points, shares)
        gaps = {
            "real_to_virtual": real - virtual,
            "virtual_to_expected": virtual - expected,
            "drift": local - start,
        }
        for name, gap in gaps.items():
            largest[name] = np.maximum(largest[name], _mean_square(gap, config))
        local = local - config.local_rate * real
        total = total + real
    shape = config.n_clients, config.repeats, 2
    by_class = gradient(start[:, None, None], points[None]).mean(axis=2)
    exact = np.einsum("nr,nrd->nd", shares, by_class).reshape(shape).mean(axis=0)
    # ERRATA 2: the server's step carries eta_L as well
    w = w - config.global_rate * config.local_rate * total.reshape(shape).mean(axis=0)
    return w, largest | {"grad_norm2": (exact**2).sum(axis=-1).mean()}


def _gradients(
    local: np.ndarray, cached: np.ndarray, points: np.ndarray, shares: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return real, virtual and expected gradients at `local`, each (n, 2). Source: SFL, (18)."""
    n, n_classes = shares.shape
    labels = cached // points.shape[1]
    slots = (labels + n_classes * np.arange(n)[:, None]).ravel()
    counts = np.bincount(slots, minlength=n * n_classes).reshape(n, n_classes)
    each = gradient(local[:, None], points.reshape(-1, 2)[cached])
    sums = np.stack(
        [np.bincount(slots, each[..., d].ravel(), n * n_classes) for d in (0, 1)], axis=-1
    )
    by_class = gradient(local[:, None, None], points[None]).mean(axis=2)
    # a class without a cached sample has no gradient in (18); the exact one stands in
    means = sums.reshape(by_class.shape) / np.maximum(counts, 1)[..., None]
    cached_by_class = np.where(counts[..., None] > 0, means, by_class)
    virtual = np.einsum("nr,nrd->nd", shares, cached_by_class)
    expected = np.einsum("nr,nrd->nd", shares, by_class)
    return each.mean(axis=1), virtual, expected


def _mean_square(gap: np.ndarray, config: SyntheticConfig) -> np.ndarray:
    return (gap**2).sum(axis=-1).reshape(config.n_clients, config.repeats).mean(axis=1)
