"""Strategies by name as weights of the clients: uniform, historical, fresh, ours, or a fixed share.
Source: FDS, Section 6.
"""

from __future__ import annotations

import numpy as np

from sflkit import checks
from sflkit.datastreams.importance import checked_clients
from sflkit.datastreams.psi import minimize_psi

STRATEGIES = ("uniform", "historical", "fresh", "ours", "fixed")


OPTIMAL_GRID = (0.0, 0.2, 0.5, 0.8, 1.0)  # p_hist of the paper's "Optimal", Section 6


def client_importance(strategy: str, n, historical, *, c_ratio=None, p_hist=None) -> np.ndarray:
    """Return a strategy's relative importance of the clients, shape (n_clients,).

    Source: FDS, Sections 4-6.

    Parameters
    ----------
    strategy : {"uniform", "historical", "fresh", "ours", "fixed"}
        "uniform" p = n; "historical" and "fresh" ignore the other group; "ours" minimises psi;
        "fixed" gives the historical clients p_hist in all. Within a group p_m ~ n_m, except among
        the fresh clients of "ours" (ERRATA 24).
    n : array (n_clients,)
        Sample counts or fractions, > 0.
    historical : bool array (n_clients,)
        At least one True and one False.
    c_ratio : float, optional
        c2 / c1 >= 0, required by "ours" and refused by the others (`estimate_c_ratio`).
    p_hist : float, optional
        In [0, 1], required by "fixed" and refused by the others; the paper's "Optimal" tries
        `OPTIMAL_GRID`.

    Raises
    ------
    ValueError
        For an unknown strategy, an argument missing or out of place, or bad n or historical.
    """
    checks.choice("strategy", strategy, STRATEGIES)
    n, historical = checked_clients(n, historical)
    for name, value, owner in (("c_ratio", c_ratio, "ours"), ("p_hist", p_hist, "fixed")):
        if value is not None and strategy != owner:
            raise ValueError(
                f"{name}={value!r} belongs to the strategy {owner!r}, not to {strategy!r}"
            )
    if strategy == "ours":
        return minimize_psi(n, historical, 1.0, checks.real("c_ratio", c_ratio, 0)).p
    if strategy == "uniform":
        return n
    share = checks.real("p_hist", {"historical": 1.0, "fresh": 0.0}.get(strategy, p_hist), 0, 1)
    return np.where(
        historical, share * n / n[historical].sum(), (1 - share) * n / n[~historical].sum()
    )
