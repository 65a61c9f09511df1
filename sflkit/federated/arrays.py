"""Tensors and arrays of callers: how the engine and the server rules read and check them."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from sflkit import checks

NOT_PLAIN = (
    "a sparse, nested, quantised, meta, 8-bit floating-point or lazily negated tensor; give one "
    "whose numbers lie plainly in memory, by .to_dense(), .dequantize() or .float() for example"
)

FINITE = "must be finite (did training diverge? try a smaller rate)"


class NotFinite(ValueError):
    """Parameters or updates hold NaN or infinity."""


def tensor_of(value: Any, device: torch.device | None = None) -> Tensor:
    """Return `value` as a tensor, on `device` if one is given.

    A tensor on its device and a writable array are not copied. A read-only array is copied, because
    torch warns of shared memory that it must not write to; so is a reversed one, which torch
    refuses.

    Raises
    ------
    TypeError, ValueError, RuntimeError
        torch's own, if `value` holds no numbers or is ragged; ValueError for masked entries, and
        for a tensor whose numbers do not lie plainly in memory.
    """
    if isinstance(value, Tensor):
        if not is_plain(value):
            raise ValueError(NOT_PLAIN)
        return value if device is None or value.device == device else value.to(device)
    if np.ma.is_masked(value):
        raise ValueError("masked entries; fill them, or leave them out")
    if not isinstance(value, np.ndarray) and hasattr(value, "__array__"):
        value = np.asarray(value)  # a table or a series: its values, whatever its index
    if isinstance(value, np.ndarray) and value.ndim:
        value = checks.native(value)
        if not value.flags.writeable or min(value.strides) < 0:
            value = value.copy()
    return torch.as_tensor(value, device=device)


def is_plain(value: Tensor) -> bool:
    """Return whether a tensor is dense, holds numbers, and shows them as they are in memory."""
    foreign = value.is_meta or value.is_nested or value.is_quantized or value.is_neg()
    foreign |= value.is_floating_point() and value.element_size() < 2  # torch cannot add them
    return value.layout == torch.strided and not foreign and not value.is_conj()


def array_of(value: Any) -> np.ndarray:
    """Return `value`, which may be a tensor on any device, as a numpy array.

    Nested lists of unequal lengths, and tensors that are not plain, become an array of objects,
    which the checks refuse by name.
    """
    if isinstance(value, Tensor):
        if not is_plain(value):
            return np.array(None)
        value = value.detach().cpu()
        # numpy has no bfloat16; float32 holds each of its numbers
        return (value.float() if value.dtype == torch.bfloat16 else value).numpy()
    if isinstance(value, np.ma.MaskedArray):
        return value  # the checks say what is wrong with it
    try:
        return checks.native(np.asarray(value))
    except ValueError:
        return np.array(value, dtype=object)


def numbers_of(name: str, value: Any) -> Tensor:
    """Return `value` as a tensor without gradients; ValueError, which names it, if it is none."""
    if isinstance(value, Tensor) and not is_plain(value):
        raise ValueError(f"{name} is {NOT_PLAIN}")
    try:  # a list has the precision of an array of its numbers, where torch would halve it
        array = np.asarray(value) if isinstance(value, list | tuple) else value
        return tensor_of(array).detach()
    except (TypeError, ValueError, RuntimeError):
        raise ValueError(
            f"{name}={checks.shown(value)} must be a tensor or an array of numbers"
        ) from None


def rows_of(name: str, value: Any) -> Tensor:
    """Return `value` as a real floating-point tensor of shape (n_clients, n_params).

    Floating-point numbers keep their type and are not copied; integers become float64.

    Raises
    ------
    ValueError
        If `value` holds no numbers, or complex ones, or has another number of axes. The message
        calls it `name`.
    """
    rows = numbers_of(name, value)
    if rows.ndim != 2 or rows.is_complex():
        raise ValueError(
            f"{name} has shape {tuple(rows.shape)} and dtype {rows.dtype}; "
            "it must be real (n_clients, n_params)"
        )
    return rows if rows.is_floating_point() else rows.double()


def finite_vector(name: str, value: Any) -> Tensor:
    """Return `value` as a tensor (n,) of finite real floating-point numbers; integers as float64.

    Raises
    ------
    ValueError
        If it is anything else. The message calls it `name`.
    """
    vector = numbers_of(name, value)
    if vector.ndim != 1:
        raise ValueError(f"{name} has shape {tuple(vector.shape)}; it must be (n_params,)")
    vector = rows_of(name, vector[None])[0]
    if first_not_finite(vector[None]) is not None:
        bad = (~torch.isfinite(vector)).nonzero()[0].item()
        raise NotFinite(f"{name} holds {vector[bad].item()} at entry {bad}; entries {FINITE}")
    return vector


def weights_of(
    value: Any, shape: tuple[int, ...], of: str, high: float | None = None
) -> np.ndarray:
    """Return the weights of some rows or samples, which messages call `of`, as float64.

    Raises
    ------
    ValueError
        Unless they are of that shape, in [0, high] and not all 0.
    """
    weights = checks.array("weights", array_of(value), low=0.0, high=high)
    if weights.shape != shape or (weights.size and not weights.any()):
        raise ValueError(
            f"weights of shape {weights.shape} must be {shape}, one for each of the {of}, >= 0 and "
            "not all 0"
        )
    return weights


def first_not_finite(rows: Tensor) -> int | None:
    """Return the number of the first row of `rows` (n_rows, n) that holds NaN or infinity.

    None means that all entries are finite. One sum over all entries finds that out in a single
    pass; only when the sum is not finite, which overflow can cause as well, every entry is looked
    at.
    """
    if torch.isfinite(rows.sum()):
        return None
    bad = (~torch.isfinite(rows)).any(1).nonzero()
    return int(bad[0]) if len(bad) else None


def check_finite(name: str, rows: Tensor) -> None:
    """Raise a `NotFinite` that names the first row of `rows` with a NaN or infinite entry."""
    bad = first_not_finite(rows)
    if bad is not None:
        raise NotFinite(f"{name} has a NaN or infinite entry in row {bad}; entries {FINITE}")
