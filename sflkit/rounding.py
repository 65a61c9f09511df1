"""Rounding of real-valued targets to whole samples."""

from __future__ import annotations

import numpy as np


def largest_remainder(targets, total: int, caps=None) -> np.ndarray:
    """Round non-negative targets to integers that add up to `total` along the last axis, none above
    its cap.

    Parameters
    ----------
    targets : array (..., n)
        Real targets, each >= 0, that add up to `total` along the last axis.
    total : int
        Sum wanted; lowered to the sum of the caps where those allow less.
    caps : array (n,), optional
        Upper limit of each entry (one-dimensional targets only).

    Returns
    -------
    int64 array like targets.

    Raises
    ------
    ValueError
        If a target is negative or not finite, or the targets do not add up to `total` (to one
        sample).
    """
    targets = np.asarray(targets, dtype=float)
    off = np.abs(targets.sum(axis=-1) - total)
    if not (targets >= 0).all() or not (off < 1).all():
        raise ValueError(f"targets={targets!r} must be numbers >= 0 that add up to total={total}")
    base = np.floor(targets + 1e-9).astype(
        np.int64
    )  # 1e-9: a target that is an integer up to float error is that integer
    if caps is not None:
        base = np.minimum(base, caps)
        total = min(total, int(np.sum(caps)))
    remainder = np.round(
        targets - base, 9
    )  # equal up to float error is a tie, which the first entry wins
    missing = total - base.sum(axis=-1, keepdims=True)
    if caps is None:
        order = np.argsort(-remainder, axis=-1, kind="stable")
        rank = np.empty_like(order)
        np.put_along_axis(
            rank, order, np.broadcast_to(np.arange(targets.shape[-1]), targets.shape), axis=-1
        )
        return base + (rank < missing)
    left = int(missing[0])
    while left > 0:  # entries at their cap pass what they lack to the next largest remainders
        order = np.argsort(-np.where(base < caps, remainder, -np.inf), kind="stable")[:left]
        order = order[base[order] < caps[order]]
        base[order] += 1
        remainder[order] -= 1
        left -= len(order)
    return base
