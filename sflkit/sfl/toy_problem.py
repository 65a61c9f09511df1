"""Streaming federated learning on a small problem that meets Assumptions 2-5 by construction, to
measure what the theory bounds.

Source: SFL, Section V, Lemmas 1-2 and Theorem 1. A sample of class r is a point x in the plane near
its class's centre, and its loss is F(w; x) = sqrt(1 + |w - x|^2): the gradient is shorter than 1
everywhere and 1-Lipschitz. So

- Assumption 2 holds with L = 1, Assumption 5 with sigma_M^2 = 1, Assumption 4 with A^2 = 0 and sigma_G^2 = sigma_M^2;
- Assumption 3 holds because arrivals are uniform draws from a finite pool of points, whose mean gradient is the exact one.

Local training is Algorithm (2)-(6) with E full-batch steps on the cache and ERRATA 2's server step.
All repeats follow the same label stream with exact counts, so that lambda_t^2 is known from
`sflkit.sfl.discrepancy.exact_discrepancy`."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from sflkit import checks
from sflkit.randomness import generator
from sflkit.sfl import caches
from sflkit.sfl.discrepancy import make_stream, repeat_clients

EXPERIMENT = "sfl-toy-problem"


RESULT_VERSION = 1


RULES = ("fifo", "srsr_filled", "drsr")


SMOOTHNESS = SIGMA_M2 = SIGMA_G2 = 1.0


DISSIMILARITY2 = 0.0


_POINTS, _RADIUS, _SPREAD, _START = 50, 3.0, 1.0, (3.0, 2.0)


@dataclass(frozen=True)
class SyntheticConfig:
    """One cache rule on the synthetic problem; the stream's fields are those of
    `discrepancy.DiscrepancyConfig`.

    Parameters
    ----------
    rule : one of RULES
    seed, part : int
        Of stream and pool, and of an independent block of repeats; >= 0.
    rounds, local_steps, repeats : int
        T, E and the number of paths.
    local_rate, global_rate : float
        eta_L and eta, > 0.
    """

    rule: str = "drsr"
    seed: int = 0
    part: int = 0
    n_clients: int = 4
    n_classes: int = 3
    classes_per_client: int = 3
    n_states: int = 10
    temperature: float = 0.2
    batch_size: int = 30
    cache_rounds: int = 10
    theta: float = 2 / 3
    rounds: int = 60
    local_steps: int = 5
    local_rate: float = 0.01
    global_rate: float = 5.0
    repeats: int = 20

    def __post_init__(self):
        checks.choice("rule", self.rule, RULES)
        sizes = (
            "n_clients",
            "n_classes",
            "classes_per_client",
            "n_states",
            "batch_size",
            "cache_rounds",
            "rounds",
            "local_steps",
            "repeats",
        )
        checks.integer_fields(self, {"seed": 0, "part": 0} | dict.fromkeys(sizes, 1))
        for name in ("temperature", "local_rate", "global_rate"):
            checks.real(name, getattr(self, name), above=0)
        checks.real("theta", self.theta, 0, 1)


def make_points(config: SyntheticConfig) -> np.ndarray:
    """Return the pool of samples, (n_classes, n_points, 2): class centres on a circle, points
    spread around them.
    """
    angle = 2 * np.pi * np.arange(config.n_classes) / config.n_classes
    centres = _RADIUS * np.stack([np.cos(angle), np.sin(angle)], axis=1)
    return centres[:, None] + _SPREAD * generator(config.seed, "data").standard_normal(
        (config.n_classes, _POINTS, 2)
    )


def gradient(w, points) -> np.ndarray:
    """Return the gradients of sqrt(1 + |w - x|^2) in w; w and points broadcast over (..., 2)."""
    gap = w - points
    return gap / np.sqrt(1 + (gap**2).sum(axis=-1, keepdims=True))


def loss_gap(config: SyntheticConfig) -> float:
    """Return f(w_0) - min f of the global loss f = mean_k sum_r pi_kr E[F | r], the minimum by
    gradient descent (f is convex).
    """
    points, shares = make_points(config), make_stream(config).long_term.mean(axis=0)
    start = w = np.array(_START)
    for _ in range(2000):  # steps of 1 / L
        w = w - np.einsum("r,rpd->d", shares, gradient(w, points)) / points.shape[1]
    value = [
        (shares * np.sqrt(1 + ((v - points) ** 2).sum(axis=-1)).mean(axis=1)).sum()
        for v in (start, w)
    ]
    return float(value[0] - value[1])


def run(config: SyntheticConfig) -> pd.DataFrame:
    """Train along `repeats` paths and measure the quantities that Lemmas 1-2 and Theorem 1 bound,
    as means over the paths.

    Returns
    -------
    DataFrame, one row a round and client
        round (from 1), client; real_to_virtual, virtual_to_expected: E||g - g^||^2 and E||g^ - grad
        f^k||^2, largest over the local steps; drift: E||w_tau - w_t||^2, largest over tau < E;
        grad_norm2: E||grad f(w_t)||^2 before the round's update.
    """
    stream, points = make_stream(config), make_points(config)
    n_classes, n = config.n_classes, config.n_clients * config.repeats
    copies = repeat_clients(stream, config.repeats)
    counts = copies.sample(
        config.rounds,
        config.batch_size,
        generator(config.seed, "arrivals", config.part),
        exact=True,
    )
    rng, pick = (
        generator(config.seed, "cache", config.part),
        generator(config.seed, "samples", config.part),
    )
    size = config.cache_rounds * config.batch_size, config.batch_size
    rule = {
        "fifo": caches.FIFO,
        "drsr": caches.DRSR,
        "srsr_filled": lambda *s: caches.SRSR(*s, config.theta),
    }[config.rule]
    held = [rule(*size) for _ in range(n)]
    w = np.tile(_START, (config.repeats, 1)).astype(float)
    rows = []
    for t in range(config.rounds):
        for k, cache in enumerate(held):
            labels = np.arange(n_classes).repeat(counts[t, k])
            cache.update(labels * _POINTS + pick.integers(_POINTS, size=len(labels)), labels, rng)
        cached = np.stack(
            [cache.ids for cache in held]
        )  # rows of points; every cache holds as many
        w, measured = _round(config, w, cached, points, copies.long_term)
        rows.append(
            pd.DataFrame({"round": t + 1, "client": np.arange(config.n_clients)} | measured)
        )
    return pd.concat(rows, ignore_index=True)


def _round(config: SyntheticConfig, w, cached, points, shares):
    """Take the E local steps of all clients and paths and the server's step; return w and what was
    measured.
    """
    flat, pool = points.reshape(-1, 2), points[None]
    labels = cached // _POINTS
    n, n_classes = len(cached), config.n_classes
    slots = (labels + n_classes * np.arange(n)[:, None]).ravel()
    counts = np.bincount(slots, minlength=n * n_classes).reshape(n, n_classes)
    local = np.tile(w, (config.n_clients, 1))  # client-major, as the copies of the stream
    start, total = local, np.zeros_like(local)
    largest = dict.fromkeys(("real_to_virtual", "virtual_to_expected", "drift"), 0.0)
    for _ in range(config.local_steps):
        each = gradient(local[:, None], flat[cached])
        sums = np.stack(
            [np.bincount(slots, each[..., d].ravel(), n * n_classes) for d in (0, 1)], axis=-1
        )
        by_class = gradient(local[:, None, None], pool).mean(axis=2)
        # a class without a cached sample has no gradient in (18); the exact one stands in
        means = sums.reshape(by_class.shape) / np.maximum(counts, 1)[..., None]
        cached_by_class = np.where(counts[..., None] > 0, means, by_class)
        real = each.mean(axis=1)
        virtual = np.einsum("nr,nrd->nd", shares, cached_by_class)
        expected = np.einsum("nr,nrd->nd", shares, by_class)
        gaps = {
            "real_to_virtual": real - virtual,
            "virtual_to_expected": virtual - expected,
            "drift": local - start,
        }
        for name, gap in gaps.items():
            largest[name] = np.maximum(largest[name], _mean_square(gap, config))
        local, total = local - config.local_rate * real, total + real
    shape = config.n_clients, config.repeats, 2
    exact = (
        np.einsum("nr,nrd->nd", shares, gradient(start[:, None, None], pool).mean(axis=2))
        .reshape(shape)
        .mean(axis=0)
    )
    # ERRATA 2: the server's step carries eta_L as well
    w = w - config.global_rate * config.local_rate * total.reshape(shape).mean(axis=0)
    return w, largest | {"grad_norm2": (exact**2).sum(axis=-1).mean()}


def _mean_square(gap: np.ndarray, config: SyntheticConfig) -> np.ndarray:
    return (gap**2).sum(axis=-1).reshape(config.n_clients, config.repeats).mean(axis=1)
