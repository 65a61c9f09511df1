"""How much a server trusts a contribution: OSAFL's score, and the weights of FedDisco.

Source: OSAFL, (19)-(21) with Section V-A.4, and Algorithm 10 with (83); ERRATA 37, 42.

| code        | symbol        | shape                 | meaning                                    |
|-------------|---------------|-----------------------|--------------------------------------------|
| updates     | d_u^t         | (n_clients, n_params) | contributions: mean gradients of the steps |
| chi         | chi           | scalar                | shift of the cosine, >= 1                  |
| scores      | Delta_u^t     | (n_clients,)          | lambda_u of (21), in [0, 1]                |
| sizes       | D_u           | (n_clients,)          | samples of the clients                     |
| discrepancy | d_u^t of (83) | (n_clients,)          | distance of label shares from uniform ones |
| a, b        | a, b          | scalars               | weight of the discrepancy, and offset      |
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from sflkit import checks
from sflkit.federated.arrays import check_finite, rows_of


def osafl_scores(updates: Any, chi: float = 1.0) -> Any:
    """Return each row's score (chi + cosine with the mean row) / (chi + 1).

    It lies between (chi - 1) / (chi + 1) and 1. Source: OSAFL, (19)-(21) with Delta_u = lambda_u,
    as Section V-A.4 sets it. The reference is the unweighted mean of all rows. A row of zeros has
    no direction and counts as cosine 0 (ERRATA 37), as every row does when the mean is 0.

    Parameters
    ----------
    updates : tensor or array (n_clients, n_params)
        Contributions d_u, finite, at least one row. Their lengths do not matter by themselves, only
        through the mean.
    chi : float
        >= 1.

    Returns
    -------
    tensor or array (n_clients,)
        As `updates`, of its floating-point type.

    Raises
    ------
    ValueError
        For a wrong shape, an entry that is not finite (the message names the row), or chi < 1.
    """
    chi = checks.real("chi", chi, 1)
    rows = rows_of("updates", updates)
    if len(rows) == 0:
        raise ValueError(f"updates has shape {tuple(rows.shape)}; it must have at least one row")
    # U times the mean, which no cosine sees; this product is faster than mean(0).
    mean = rows.new_ones(len(rows)) @ rows
    dots = rows @ mean
    norms = torch.linalg.vector_norm(rows, dim=1)
    length = torch.linalg.vector_norm(mean)
    # Below the edge, or where squares overflow, products may have lost their digits.
    edge = torch.finfo(rows.dtype).tiny ** 0.25
    finite = torch.isfinite(dots).all() and torch.isfinite(norms).all()
    if not (finite and norms.min() > edge and length > edge):
        check_finite("updates", rows)
        dots, norms, length = _scaled_products(rows)
    scale = norms * length
    cosine = torch.where(scale > 0, dots / torch.where(scale > 0, scale, 1), 0).clamp(-1, 1)
    scores = ((chi + cosine) / (chi + 1)).to(rows.dtype)
    return scores if isinstance(updates, Tensor) else scores.numpy()


def label_discrepancy(counts: ArrayLike) -> np.ndarray:
    """Return the L2 distance of each row's label shares from the uniform ones, (n_clients,).

    ERRATA 42: the metric of d_u in (83) is not stated; this is our choice.

    Parameters
    ----------
    counts : array (n_clients, n_classes)
        Samples of each label, >= 0, no row all 0.

    Raises
    ------
    ValueError
        For a wrong shape, a negative entry or a client without samples.
    """
    counts = checks.array("counts", counts, ndim=2, low=0)
    total = counts.sum(axis=1, keepdims=True)
    if not counts.shape[1] or not (total > 0).all():
        raise ValueError(
            f"counts of shape {counts.shape} must have a class, and a sample in each row"
        )
    return np.linalg.norm(counts / total - 1 / counts.shape[1], axis=1)


def disco_weights(
    sizes: ArrayLike, discrepancy: ArrayLike, *, a: float = 0.2, b: float = 0.1
) -> np.ndarray:
    """Return ReLU(p_u - a d_u + b) with p_u = D_u / sum D, (n_clients,), not normalised.

    Source: OSAFL, (83).

    Parameters
    ----------
    sizes : array (n_clients,)
        D_u, > 0.
    discrepancy : array (n_clients,)
        d_u, >= 0, such as `label_discrepancy` returns.
    a, b : float
        >= 0.

    Raises
    ------
    ValueError
        For values out of range or lengths that disagree.
    """
    sizes = checks.array("sizes", sizes, ndim=1, above=0)
    discrepancy = checks.array("discrepancy", discrepancy, low=0)
    checks.shape("discrepancy", discrepancy, sizes.shape, like="sizes")
    a = checks.real("a", a, 0)
    b = checks.real("b", b, 0)
    return np.maximum(sizes / sizes.sum() - a * discrepancy + b, 0)


def _scaled_products(rows: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return products with the mean, norms, and the mean's norm, in float64.

    They are scaled by factors that a cosine does not see, so that nothing over- or underflows.
    """
    top = torch.linalg.vector_norm(rows, torch.inf, dim=1).double()
    top = torch.where(top > 0, top, 1)
    mean = sum(row.double() / top.max() for row in rows)
    mean = mean / (mean.abs().max() if mean.any() else 1)
    dots = []
    norms = []
    for row, largest in zip(rows, top, strict=True):
        unit = row.double() / largest
        dots.append(unit @ mean)
        norms.append(torch.linalg.vector_norm(unit))
    return torch.stack(dots), torch.stack(norms), torch.linalg.vector_norm(mean)
