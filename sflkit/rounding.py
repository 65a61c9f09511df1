"""Rounding of real-valued targets to whole samples.

Half a sample cannot be kept or drawn. Wherever a paper splits a batch, a cache or a test set by
shares, the numbers are rounded so that they still add up to the total.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from sflkit import checks


def largest_remainder(targets: ArrayLike, total: int, caps: ArrayLike | None = None) -> np.ndarray:
    """Round non-negative targets to integers that add up to `total` along the last axis.

    Every target is rounded down, and the samples that are then missing go one by one to the targets
    that lost most. Of equal losses the first is served first.

    Parameters
    ----------
    targets : array (..., n)
        Real targets, each >= 0, that add up to `total` along the last axis.
    total : int
        The sum that is wanted; it is lowered to the sum of the caps where those allow less.
    caps : array (n,), optional
        Upper limit of each entry, for targets with one axis only.

    Returns
    -------
    Array of int64, of the shape of the targets; no entry lies above its cap.

    Raises
    ------
    ValueError
        If a target is negative or not finite, the targets do not add up to `total` (to one sample),
        or the caps are no integers >= 0, one per target.
    """
    targets = checks.array("targets", targets)
    if not targets.ndim:
        raise ValueError(f"targets={targets!r} must be an array (..., n)")
    total = checks.integer("total", total, 0)
    off = np.abs(targets.sum(axis=-1) - total)
    if not (targets >= 0).all() or not (off < 1).all():
        raise ValueError(f"targets={targets!r} must be numbers >= 0 that add up to total={total}")
    # A target that is an integer up to float error is that integer: hence the 1e-9.
    base = np.floor(targets + 1e-9).astype(np.int64)
    if caps is not None:
        caps = checks.integers("caps", caps, ndim=1, low=0)
        checks.shape("caps", caps, targets.shape, like="targets")
        caps = np.minimum(caps, total)  # so that their sum cannot overflow
        base = np.minimum(base, caps)
        total = min(total, int(np.sum(caps)))
    # Remainders that are equal up to float error are a tie.
    remainder = np.round(targets - base, 9)
    missing = total - base.sum(axis=-1, keepdims=True)
    if caps is None:
        order = np.argsort(-remainder, axis=-1, kind="stable")
        rank = np.empty_like(order)
        places = np.broadcast_to(np.arange(targets.shape[-1]), targets.shape)
        np.put_along_axis(rank, order, places, axis=-1)
        return base + (rank < missing)
    left = int(missing[0])
    while left > 0:  # entries at their cap pass what they lack to the next largest remainders
        order = np.argsort(-np.where(base < caps, remainder, -np.inf), kind="stable")[:left]
        order = order[base[order] < caps[order]]
        base[order] += 1
        remainder[order] -= 1
        left -= len(order)
    return base
