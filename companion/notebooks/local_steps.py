"""Which local step reaches the authors' curves of Figures 5 and 7 at the printed rate?

Three readings of one step (`fats_shared.READINGS`), learnt on MNIST at Table 2's sizes, the sum on
points of Figure 7 and on Fashion-MNIST as well. The sum was found by trials on some of the authors'
curves; `UNSEEN` are points that they did not look at.

Source: FATS, Section 6.1.2, Algorithm 1, line 16, Figures 5 and 7; ERRATA 65.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from companion.judging.claims import NotRun
from companion.judging.tables import paper_curve
from companion.notebooks.fats_shared import authors_learning
from sflkit.intervals import mean_interval

READ = ["reading", "data", "clients_per_round", "batch_size"]
# The readings in words, and the larger rate by which Fig. 5 had been judged before.
READ_AS = {
    "mean": "mean (the text)",
    "released": "mean, momentum 0.9 (released)",
    "sum": "sum",
    "larger rate": "mean, a larger rate",
}
# Points of Fig. 7 at Table 2's sizes of MNIST, (K, b) -> panel and rho: those that the trials
# looked at by which the sum was found, and the others.
SEEN = {(2, 10): ("b", 0.2), (5, 5): ("a", 0.125), (5, 10): ("a", 0.25), (5, 40): ("a", 1.0)}
UNSEEN = {(k, 10): ("b", k / 10) for k in (3, 7, 10)} | {(5, b): ("a", b / 40) for b in (20, 30)}
# Panels of Fig. 5 with a data set's samples and clients: before a request both show learning.
_LEARNING = {"digits": "ad", "mnist": "ad", "fmnist": "be"}


def learnt(readings: pd.DataFrame, paper_rate: float) -> pd.DataFrame:
    """Return FATS's accuracy after each round: a row per `READ` and seed, a column per round."""
    learning = readings.query("phase == 'learning' and method == 'fats' and level == 'sample'")
    of = [learning["rate"] != paper_rate, learning["reduction"] == "sum", learning["momentum"] > 0]
    named = learning.assign(reading=np.select(of, ["larger rate", "sum", "released"], "mean"))
    return named.pivot_table(index=[*READ, "seed"], columns="round", values="accuracy")


def under(learning: pd.DataFrame, reading: str, data: str) -> pd.DataFrame:
    """Return accuracy under a reading at the data set's own K and b, (seeds, rounds)."""
    k, b = learning.xs("mean").index.droplevel(["data", "seed"])[0]  # the mean varies neither
    of = learning.query("clients_per_round == @k and batch_size == @b")
    return of.query(f"reading == '{reading}' and data == '{data}'").dropna(axis=1, how="all")


def beside_the_curve(learning: pd.DataFrame, data: str, rounds: int) -> pd.DataFrame:
    """Return accuracy in per cent after every sixth of the rounds under each reading.

    The last column is how far its mean over the seeds lies from the authors' curve, in points, in
    the mean over the rounds. `learning` is the answer of `learnt`, `rounds` those before the
    request.
    """
    curve = 100 * authors_learning(_LEARNING[data], rounds)
    at = [rounds * i // 6 for i in range(1, 7)]
    lines = {"the paper": {r: f"{curve[r - 1]:.0f}" for r in at}}
    for reading, words in READ_AS.items():
        of = 100 * under(learning, reading, data).iloc[:, :rounds]
        if len(of):
            apart = np.abs(of.mean().to_numpy() - curve).mean()
            line = {r: _percent(of[r].to_numpy()) for r in at} | {"distance": f"{apart:.1f}"}
            lines[f"{words}, {len(of)} seeds"] = line
    return pd.DataFrame(lines).T.fillna("").rename_axis(f"{data}, after round")


def points_of_figure7(learning: pd.DataFrame, data: str) -> pd.DataFrame:
    """Return accuracy over the last fifth of the rounds under the sum beside Fig. 7, in per cent.

    Columns: K, b, seeds, mean, half (of the 95 % interval), paper, seen (by the trials by which the
    sum was found). `learning` and `data` are those of `beside_the_curve`.
    """
    rows = []
    mine = learning.xs("sum").xs(data)
    for (k, b), place in (SEEN | UNSEEN).items():
        ours = 100 * _late(_at(mine, k, b)).to_numpy()
        if len(ours):
            half = mean_interval(ours).high - ours.mean() if len(ours) > 1 else np.nan
            seen = (k, b) in SEEN
            rows.append((k, b, len(ours), ours.mean(), half, 100 * _utility(*place), seen))
    return pd.DataFrame(rows, columns=["K", "b", "seeds", "mean", "half", "paper", "seen"])


def rate_evidence(learning: pd.DataFrame, data: str, rounds: int) -> dict[str, Any]:
    """Return the evidence on fats-rate; the arguments are those of `beside_the_curve`."""
    late = authors_learning(_LEARNING[data], rounds)[int(0.8 * rounds) :].mean()
    found: dict[str, Any] = {
        reading: _beside(_late(under(learning, reading, data)), late)
        for reading in ("mean", "released", "sum")
    }
    summed = learning.xs("sum")
    for (k, b), place in UNSEEN.items():
        of = _at(summed.xs(data), k, b)
        gone = NotRun("at most a CPU minute a seed")
        found[f"K{k}_b{b}"] = _beside(_late(of), _utility(*place)) if len(of) else gone
    if "fmnist" not in summed.index.get_level_values("data"):
        gone = NotRun("a CPU minute a seed")
        return found | dict.fromkeys(("fmnist_late", "fmnist_all"), gone)
    other, curve = summed.xs("fmnist"), authors_learning(_LEARNING["fmnist"], 50)
    found["fmnist_late"] = _beside(_late(other), curve[40:].mean())
    return found | {"fmnist_all": _beside(other.iloc[:, :50].mean(axis=1), curve.mean())}


def _at(learning: pd.DataFrame, k: int, b: int) -> pd.DataFrame:
    return learning.query("clients_per_round == @k and batch_size == @b")


def _late(learning: pd.DataFrame) -> pd.Series:
    """Return each run's mean over the last fifth of its rounds."""
    own = learning.dropna(axis=1, how="all")
    return own.loc[:, own.columns > 0.8 * own.columns.max()].mean(axis=1)


def _utility(panel: str, rho: float) -> float:
    curve = paper_curve("fats-fig7").query("panel == @panel and series == 'Learning Utility'")
    return float(curve.loc[np.isclose(curve["x"], rho), "y"].item())


def _beside(ours: pd.Series, printed: float) -> tuple[np.ndarray, np.ndarray]:
    return ours.to_numpy(), np.full(len(ours), printed)


def _percent(values: np.ndarray) -> str:
    if len(values) == 1:
        return f"{values[0]:.0f}"
    at = mean_interval(values)
    return f"{at.mean:.0f} ± {at.high - at.mean:.0f}"
