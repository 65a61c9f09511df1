"""How much a server trusts a contribution: OSAFL's score, and the weights of FedDisco.

Source: OSAFL, (19)-(21) with Section V-A.4, and Algorithm 10 with (83); ERRATA 37, 42.

| code         | symbol           | shape                 | meaning                                                   |
|--------------|------------------|-----------------------|-----------------------------------------------------------|
| updates      | d_u^t            | (n_clients, n_params) | clients' contributions, the mean gradients of their steps |
| chi          | chi              | scalar                | shift of the cosine, >= 1                                 |
| scores       | Delta_u^t        | (n_clients,)          | lambda_u of (21), in [0, 1]                               |
| sizes        | D_u              | (n_clients,)          | samples of the clients                                    |
| discrepancy  | d_u^t of (83)    | (n_clients,)          | distance of a client's label shares from the uniform ones |
| a, b         | a, b             | scalars               | weight of the discrepancy, and offset                     |
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from sflkit import checks
from sflkit.federated.arrays import check_finite, rows_of


def osafl_scores(updates, chi: float = 1.0):
    """Return each row's score (chi + cosine with the mean row) / (chi + 1), between (chi - 1) /
    (chi + 1) and 1.

    Source: OSAFL, (19)-(21) with Delta_u = lambda_u, as Section V-A.4 sets it. The reference is the
    unweighted mean of all rows. A row of zeros has no direction and counts as cosine 0 (ERRATA 37),
    as every row does when the mean is 0.

    Parameters
    ----------
    updates : tensor or array (n_clients, n_params), finite, at least one row; contributions d_u. Their lengths do not matter by
        themselves, only through the mean.
    chi : float >= 1.

    Returns
    -------
    (n_clients,), tensor or array as `updates`, of its floating-point type.

    Raises
    ------
    ValueError
        For a wrong shape, an entry that is not finite (the message names the row), or chi < 1.
    """
    chi = checks.real("chi", chi, 1)
    rows = rows_of("updates", updates)
    if len(rows) == 0:
        raise ValueError(f"updates has shape {tuple(rows.shape)}; it must have at least one row")
    mean = (
        rows.new_ones(len(rows)) @ rows
    )  # U times it, which no cosine sees; this product is faster than mean(0)
    dots, norms, length = (
        rows @ mean,
        torch.linalg.vector_norm(rows, dim=1),
        torch.linalg.vector_norm(mean),
    )
    edge = (
        torch.finfo(rows.dtype).tiny ** 0.25
    )  # below it, or where squares overflow, products may have lost their digits
    if not (
        torch.isfinite(dots).all()
        and torch.isfinite(norms).all()
        and norms.min() > edge
        and length > edge
    ):
        check_finite("updates", rows)
        dots, norms, length = _scaled_products(rows)
    scale = norms * length
    cosine = torch.where(scale > 0, dots / torch.where(scale > 0, scale, 1), 0).clamp(-1, 1)
    scores = ((chi + cosine) / (chi + 1)).to(rows.dtype)
    return scores if isinstance(updates, Tensor) else scores.numpy()


def label_discrepancy(counts) -> np.ndarray:
    """Return the L2 distance of each row's label shares from the uniform ones, (n_clients,).

    ERRATA 42: the metric of d_u in (83) is not stated; this is our choice.

    Parameters
    ----------
    counts : array (n_clients, n_classes) >= 0, no row all 0; samples of each label.

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


def disco_weights(sizes, discrepancy, *, a: float = 0.2, b: float = 0.1) -> np.ndarray:
    """Return ReLU(p_u - a d_u + b) with p_u = D_u / sum D, (n_clients,), not normalised. Source:
    OSAFL, (83).

    Parameters
    ----------
    sizes, discrepancy : arrays (n_clients,), > 0 and >= 0.
    a, b : float >= 0.

    Raises
    ------
    ValueError
        For values out of range or lengths that disagree.
    """
    sizes, discrepancy = (
        checks.array("sizes", sizes, ndim=1, above=0),
        checks.array("discrepancy", discrepancy, ndim=1, low=0),
    )
    if len(sizes) != len(discrepancy):
        raise ValueError(
            f"sizes has {len(sizes)} clients and discrepancy {len(discrepancy)}; they must agree"
        )
    return np.maximum(
        sizes / sizes.sum() - checks.real("a", a, 0) * discrepancy + checks.real("b", b, 0), 0
    )


def _scaled_products(rows: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Products with the mean and norms in float64 up to factors that a cosine does not see: nothing
    over- or underflows.
    """
    top = torch.linalg.vector_norm(rows, torch.inf, dim=1).double()
    top = torch.where(top > 0, top, 1)
    mean = sum(row.double() / top.max() for row in rows)
    mean = mean / (mean.abs().max() if mean.any() else 1)
    pairs = [
        (unit @ mean, torch.linalg.vector_norm(unit))
        for unit in (row.double() / t for row, t in zip(rows, top))
    ]
    dots, norms = (torch.stack(column) for column in zip(*pairs))
    return dots, norms, torch.linalg.vector_norm(mean)
