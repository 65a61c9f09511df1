"""What is judged of a run: one number from its rounds.

Source: OSAFL, Tables II to V, Figs. 4 to 6, Section V-B. Every measure takes the rows of one run of
`training.run`; `by_arm` makes the table seed x arm of a measure. Rounds of a diverged end count as
accuracy 0 and as ten times the loss of a uniform guess.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd

from sflkit import checks

# The loss that stands for a diverged round, ten times that of a uniform guess among 100 files.
WORST_LOSS = 10 * np.log(100)


def best(run: pd.DataFrame) -> float:
    """Return the best accuracy of the rounds, 0 where none was finite."""
    return float(np.nan_to_num(run["best_accuracy"].iloc[-1]))


def best_loss(run: pd.DataFrame) -> float:
    """Return the loss of the round with the best accuracy, `WORST_LOSS` where there is none."""
    return float(run["best_loss"].fillna(WORST_LOSS).iloc[-1])


def area(run: pd.DataFrame) -> float:
    """Return the mean accuracy over the evaluated rounds."""
    return float(accuracy(run).mean())


def late_log_loss(run: pd.DataFrame) -> float:
    """Return the mean of the loss's logarithm over the last quarter of the rounds."""
    return float(np.log(_part(loss(run), 0.75, 1)).mean())


def between(first: float, last: float) -> Callable[[pd.DataFrame], float]:
    """Return the measure "mean accuracy over these shares of the rounds", such as 0.75 to 1."""
    checks.real("first", first, 0, 1)
    checks.real("last", last, above=first, high=1)

    return lambda run: float(_part(accuracy(run), first, last).mean())


def at_round(number: int) -> Callable[[pd.DataFrame], float]:
    """Return the measure "accuracy after so many rounds", which must have been evaluated."""
    return lambda run: float(accuracy(run).loc[number])


def plateau(run: pd.DataFrame, share: float = 0.98, window: int = 5) -> float:
    """Return after how many rounds a run is on its plateau.

    Parameters
    ----------
    run : DataFrame
        Evaluated in every round.
    share : float
        In (0, 1].
    window : int
        >= 1.

    Returns
    -------
    float
        The middle of the first `window` rounds whose mean accuracy is at least `share` of the mean
        over the last quarter; NaN where there are none.
    """
    curve = accuracy(run)
    level = checks.real("share", share, above=0, high=1) * _part(curve, 0.75, 1).mean()
    return _first_window(curve, window, lambda means: means >= level)


def loss_plateau(run: pd.DataFrame, share: float = 0.98, window: int = 5) -> float:
    """Return after how many rounds the loss of a run is on its plateau.

    As `plateau`, but what counts is the first `window` of whose mean loss the mean over the last
    quarter is at least `share`.
    """
    curve = loss(run)
    level = _part(curve, 0.75, 1).mean() / checks.real("share", share, above=0, high=1)
    return _first_window(curve, window, lambda means: means <= level)


def accuracy(run: pd.DataFrame) -> pd.Series:
    """Return the accuracies of the evaluated rounds by round, 0 where the run had diverged."""
    rows = run[_evaluated(run)]
    return pd.Series(rows["accuracy"].fillna(0).to_numpy(), index=rows["round"].to_numpy())


def loss(run: pd.DataFrame) -> pd.Series:
    """Return the losses of the evaluated rounds by round, `WORST_LOSS` in diverged ones."""
    rows = run[_evaluated(run)]
    losses = rows["loss"].where(~rows["diverged"], WORST_LOSS)
    return pd.Series(losses.to_numpy(), index=rows["round"].to_numpy())


def at_k(runs: pd.DataFrame, K: int) -> pd.DataFrame:
    """Return the rows with one K; a frame without rows, which may lack the column, as it is."""
    return runs[runs["K"] == K] if len(runs) else runs


def by_arm(runs: pd.DataFrame, measure: Callable[[pd.DataFrame], float]) -> pd.DataFrame:
    """Return a measure as a table with one row per seed and one column per arm.

    Parameters
    ----------
    runs : DataFrame
        Rows of runs with the columns `seed` and `arm`, which name a run together.
    measure : function
        Of this module, or any other of the rows of a run.
    """
    found = {
        (seed, arm): measure(run) for (seed, arm), run in runs.groupby(["seed", "arm"], sort=False)
    }
    names = pd.MultiIndex.from_tuples(found, names=["seed", "arm"])
    return pd.Series(list(found.values()), index=names).unstack("arm")


def as_printed(found: pd.DataFrame) -> pd.DataFrame:
    """Return a table of `by_arm` in which M-AFA-CD is the one with the printed buffer, if any.

    That one is what the paper's numbers show (ERRATA 38).
    """
    if "m_afa_cd_printed" not in found:
        return found
    kept = found.drop(columns="m_afa_cd", errors="ignore")
    return kept.rename(columns={"m_afa_cd_printed": "m_afa_cd"})


def _part(curve: pd.Series, first: float, last: float) -> pd.Series:
    end = curve.index.max()
    return curve[(curve.index > first * end) & (curve.index <= last * end)]


def _first_window(curve: pd.Series, window: int, good: Callable[[pd.Series], pd.Series]) -> float:
    means = curve.rolling(checks.integer("window", window, 1)).mean()
    ends = means.index[good(means).to_numpy()]
    return float(ends[0] - (window - 1) / 2) if len(ends) else float("nan")


def _evaluated(run: pd.DataFrame) -> pd.Series:
    return run["accuracy"].notna() | run["diverged"]
