"""Strategies: how much each client counts, by name.

Source: FDS (Federated Learning for Data Streams), Sections 4 to 6.

A strategy turns the clients' sizes into their relative importance p. `RULES` is the one table of
them: configs take the allowed names from it, pictures and widgets their labels and looks. Where a
run trains several strategies side by side, each of them is called an *arm*.

    client_importance("uniform", n, historical)
    client_importance("ours", n, historical, c_ratio=0.15)
    client_importance("p_hist=0.5", n, historical)

A strategy of your own is a function (n, historical) -> p and one row:

    def equal(n, historical):
        return np.full(len(n), 1 / len(n))

    RULES.add("equal", Rule(equal, "Equal"))

| code       | symbol        | shape | meaning                                      |
|------------|---------------|-------|----------------------------------------------|
| n          | n_m = N_m / N | (M,)  | clients' sample counts or fractions          |
| historical | m <= M_hist   | (M,)  | bool mask of the historical clients          |
| p          | p_m           | (M,)  | clients' relative importance, on the simplex |
| p_hist     | p_hist        |       | sum of p_m over the historical clients       |
| c_ratio    | c2 / c1       |       | ratio of the two constants of the bound psi  |
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from sflkit import checks
from sflkit.datastreams.importance import SIMPLEX_TOL, checked_clients
from sflkit.datastreams.psi import minimize_psi
from sflkit.registry import Look, Registry, Rule


def fixed(n: np.ndarray, historical: np.ndarray, p_hist: float) -> np.ndarray:
    """Return the importance that gives the historical clients `p_hist` in all.

    Within each of the two groups p_m is proportional to n_m.

    Parameters
    ----------
    n : array (n_clients,)
        Fractions n_m.
    historical : bool array (n_clients,)
        At least one True and one False.
    p_hist : float
        In [0, 1].

    Raises
    ------
    ValueError
        If `p_hist` is out of range, or `n` and `historical` are not as `importance.checked_clients`
        wants them.
    """
    _, historical = checked_clients(n, historical)
    n = np.asarray(n, dtype=float)  # as given: to normalise twice would change the last bit
    p_hist = checks.real("p_hist", p_hist, 0, 1)
    old = p_hist * n / n[historical].sum()
    new = (1 - p_hist) * n / n[~historical].sum()
    return np.where(historical, old, new)


def fresh(n: np.ndarray, historical: np.ndarray) -> np.ndarray:
    """Return p_m ~ n_m over the fresh clients; the historical ones count nothing. Source: FDS,
    Section 6.
    """
    return fixed(n, historical, 0.0)


def only_historical(n: np.ndarray, historical: np.ndarray) -> np.ndarray:
    """Return p_m ~ n_m over the historical clients; the fresh ones count nothing. Source: FDS,
    Section 6.
    """
    return fixed(n, historical, 1.0)


def uniform(n: np.ndarray, historical: np.ndarray) -> np.ndarray:
    """Return p = n, so that every sample counts the same, old or new. Source: FDS, Section 6."""
    return n


def ours(n: np.ndarray, historical: np.ndarray, c_ratio: float | None) -> np.ndarray:
    """Return the minimiser of psi for c2 / c1 = `c_ratio` >= 0. Source: FDS, Section 5.

    Among the fresh clients p_m is not proportional to n_m (ERRATA 24).

    Raises
    ------
    ValueError
        If `c_ratio` is None or out of range.
    """
    return minimize_psi(n, historical, 1.0, checks.real("c_ratio", c_ratio, 0)).p


# In the order of the paper's tables. "p_hist" is an option of its own row: a config gives its value
# behind the name, as in "p_hist=0.5".
RULES = Registry(
    "strategy",
    {
        "fresh": Rule(fresh, "Fresh", Look("#E69F00", "--", "s")),
        "historical": Rule(only_historical, "Historical", Look("#009E73", "-.", "^")),
        "uniform": Rule(uniform, "Uniform", Look("#56B4E9", ":", "D")),
        "ours": Rule(ours, "Ours", Look("#0072B2", "-", "o"), ("c_ratio",)),
        "p_hist": Rule(fixed, "fixed share", Look("#CC79A7", (0, (3, 1, 1, 1)), "v"), ("p_hist",)),
    },
)


def takes_value(name: str) -> bool:
    """Return whether the strategy `name` needs a share behind its name, as in "p_hist=0.5".

    It does where its row has its own name among the options.

    Raises
    ------
    ValueError
        If there is no such strategy.
    """
    return name in RULES[name].options


def parse_arm(arm: str) -> tuple[str, float | None]:
    """Return the name in `RULES` that an arm stands for, and the share behind it, if any.

    "uniform" gives ("uniform", None), "p_hist=0.5" gives ("p_hist", 0.5).

    Raises
    ------
    ValueError
        If the name is unknown, or a share is missing, out of place or not in [0, 1].
    """
    name, sign, text = arm.partition("=") if isinstance(arm, str) else ("", "", "")
    if name in RULES and takes_value(name) == bool(sign):
        try:
            return name, checks.real(name, float(text), 0, 1) if sign else None
        except ValueError:
            pass  # the error below says what an arm looks like
    forms = ", ".join(f"'{name}=x'" if takes_value(name) else repr(name) for name in RULES)
    raise ValueError(f"arms holds {arm!r}; an arm is one of {forms}, with x in [0, 1]")


def client_importance(
    arm: str, n: ArrayLike, historical: ArrayLike, *, c_ratio: float | None = None
) -> np.ndarray:
    """Return the relative importance p of the clients under a strategy, shape (n_clients,).

    Source: FDS, Sections 4 to 6.

    Parameters
    ----------
    arm : str
        A name in `RULES`: "uniform" has p = n, "historical" and "fresh" ignore the other group,
        "ours" minimises psi, and "p_hist=x" gives the historical clients x in all (the paper's
        "Optimal" is the best of x in 0, 0.2, 0.5, 0.8, 1).
    n : array (n_clients,)
        Sample counts or fractions, > 0. A federation has them as `federation.sizes`.
    historical : bool array (n_clients,)
        At least one True and one False; a federation's is `federation.historical`.
    c_ratio : float, optional
        c2 / c1 >= 0 (`psi.estimate_c_ratio`). "ours" needs it; the other strategies do not look at
        it, so that the arms of one run can share it.

    Raises
    ------
    ValueError
        If the strategy is unknown, a value is missing or out of range, `n` or `historical` is bad,
        or a strategy of your own returns anything but one share for each client.
    """
    name, value = parse_arm(arm)
    n, historical = checked_clients(n, historical)
    p = RULES[name].make(n, historical, **{"c_ratio": c_ratio, name: value})
    p = checks.simplex(f"p of {name!r}", p, tol=SIMPLEX_TOL)
    checks.shape(f"p of {name!r}", p, n.shape, like="n")
    return p
