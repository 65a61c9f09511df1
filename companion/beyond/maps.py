"""When are the papers right? The central effect of each paper over what it depends on.

Every published run is asked, whatever it was made for: runs of one group differ in the rule and
the seed alone, so that the effect is a difference seed by seed. FATS's saving is its exact law.
"""

from __future__ import annotations

import lzma
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from companion import figures
from sflkit import paths
from sflkit.fats.expected_time import rule_of_thumb
from sflkit.results import archive
from sflkit.results.intervals import mean_interval

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_NETWORKS = {"linear": "linear", "lenet": "LeNet"}
_BUFFERS = {
    ("exclude", "exclude"): "joined clients only",
    ("zero", "literal"): "OSAFL without w/η",
    ("literal", "literal"): "as printed",
}
_SETS = {
    "logistic": "synthetic",
    "cifar10-patches": "CIFAR-10",
    "cifar100-patches": "CIFAR-100",
    "mnist-writers": "writers",
    "shakespeare": "Shakespeare",
}
LEAST_SEEDS = 3
# They chose a scale of the inputs or a reading of OSAFL, and judge nothing.
_CHOSE = (0, 100)
# The rate that the paper prints for the FCN, by rule; other runs were tuned.
_PRINTED = {"osafl": ("global_rate", 35.0), "m_fedavg": ("rate", 0.15)}


def effects() -> pd.DataFrame:
    """Return the central effect of SFL, data streams and OSAFL in every group of published runs.

    Returns
    -------
    DataFrame, one row per group with at least `LEAST_SEEDS` seeds
        paper; where, the group in words; series, which model or number of files is scored; and in
        points of accuracy mean, low, high (95 % interval over seeds) and n, the seeds.

    Raises
    ------
    ValueError
        If the published runs cannot be read.
    """
    rows = []
    for paper, where, series, difference in (*_sfl(), *_streams(), *_osafl()):
        values = 100 * difference.dropna().to_numpy()
        if len(values) >= LEAST_SEEDS:
            found = mean_interval(values)
            row = {"mean": found.mean, "low": found.low, "high": found.high, "n": found.n}
            rows.append({"paper": paper, "where": where, "series": series} | row)
    return pd.DataFrame(rows)


def savings(rhos: np.ndarray) -> pd.DataFrame:
    """Return how much of a training FATS saves by not training anew, per cent, over rho.

    One request costs 1 - (1 - e^-rho) / rho of the training, so many requests one after the other
    as many times that; ten at once cost the share of ten times the rate.
    """
    return pd.DataFrame(
        {
            "rho": rhos,
            "one request": [100 * (1 - rule_of_thumb(rho)) for rho in rhos],
            "ten at once": [100 * (1 - rule_of_thumb(10 * rho)) for rho in rhos],
        }
    )


def draw() -> tuple[Figure, dict[str, pd.DataFrame]]:
    """Draw a panel for each paper; return the figure and what it draws."""
    import matplotlib.pyplot as plt

    found, saved = effects(), savings(np.linspace(0.05, 2.0, 40))
    fig, axes = plt.subplots(2, 2, figsize=(12, 8))
    titles = {
        "SFL": "SFL: DRSR minus FIFO, late",
        "data streams": "data streams: Uniform minus Fresh, at the end",
        "OSAFL": "OSAFL minus M-FedAvg, best round",
    }
    for ax, (paper, title) in zip(axes.flat, titles.items(), strict=False):
        _forest(ax, found[found["paper"] == paper])
        ax.set(title=title, xlabel="points of accuracy")
    ax = axes[1, 1]
    for name, column in (("one request", "#0072B2"), ("ten at once", "#D55E00")):
        ax.plot(saved["rho"], saved[name], color=column, label=name)
    ax.set(
        title="FATS: what one forgetting saves of a training",
        xlabel="ρ: mean uses of a client",
        ylabel="saved, %",
        ylim=(0, 100),
    )
    ax.legend()
    return fig, {"effects": found, "savings": saved}


def _forest(ax: Axes, rows: pd.DataFrame) -> None:
    groups = list(dict.fromkeys(rows["where"]))
    series = list(dict.fromkeys(rows["series"]))
    ax.axvline(0, color="0.4", linewidth=1)
    for index, name in enumerate(series):
        part = rows[rows["series"] == name]
        shift = 0.14 * (len(series) - 1 - 2 * index)
        places = np.array([len(groups) - 1 - groups.index(w) + shift for w in part["where"]])
        look = figures.series_style("", index)
        ax.hlines(places, part["low"], part["high"], color=look["color"], linewidth=2)
        ax.plot(part["mean"], places, look["marker"], color=look["color"], label=name)
    ax.set_yticks(np.arange(len(groups))[::-1], groups, fontsize=9)
    ax.set_ylim(-0.7, len(groups) - 0.3)
    if len(series) > 1:
        ax.legend(fontsize=9)


# --- groups of published runs ---------------------------------------------------------------------


def _published(experiment: str) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the rows of an experiment's runs, and their configs by key."""
    found = archive.read(experiment, paths.published())
    if found.wrong:
        raise ValueError(f"{experiment}: {found.wrong}")
    table, _ = archive.files_of(experiment, paths.published())
    rows = pd.read_csv(lzma.open(table), dtype={"key": str})
    configs = {key.rpartition("/")[2]: record["config"] for key, record in found.records.items()}
    return rows, pd.DataFrame.from_dict(configs, orient="index")


def _pairs(
    configs: pd.DataFrame, values: Mapping[str, float], of: str, upper: str, lower: str, by: list
) -> Iterator[tuple[tuple, pd.Series]]:
    """Yield each group and the differences, seed by seed, of the rule `upper` from `lower`."""
    scored = configs.assign(value=pd.Series(values))
    for group, part in scored.groupby(by, sort=False, dropna=False):
        wide = part.pivot_table("value", "seed", of, dropna=False)
        if {upper, lower} <= set(wide):
            yield group, wide[upper] - wide[lower]


def _sfl() -> Iterator[tuple[str, str, str, pd.Series]]:
    rows, configs = _published("sfl-training-full-start")
    last = rows.groupby("key")["round"].transform("max")
    late = rows[rows["round"] > 0.75 * last].groupby("key")["accuracy"].mean()
    by = ["data", "model", "capacity", "batch_size", "local_rate", "rounds"]
    for group, difference in _pairs(configs, late, "rule", "drsr", "fifo", by):
        data, model, capacity, batch, *_ = group
        name = f"{data}, {_NETWORKS.get(model, model)}, B = {capacity}, {batch} new"
        yield "SFL", name, "", difference
    rows, configs = _published("sfl-label-only")
    late = rows[rows["round"] > 0.75 * rows["round"].max()].groupby("key")["accuracy"].mean()
    configs = configs[configs["theta"].eq(2 / 3) & configs["seed"].eq(configs["world"])]
    for group, difference in _pairs(configs, late, "rule", "drsr", "fifo", ["batch_size"]):
        yield "SFL", f"labels alone, B = 300, {group[0]} new", "", difference


def _streams() -> Iterator[tuple[str, str, str, pd.Series]]:
    rows, configs = _published("datastreams-training")
    judged = configs[configs["validation"].eq(0) & configs["server"].eq("fedavg")]
    ends = rows[rows["round"] == rows.groupby("key")["round"].transform("max")]
    for column, name in (("accuracy", "averaged model"), ("accuracy_last", "last iterate")):
        wide = ends.pivot_table(column, "key", "arm")
        gain = (wide["uniform"] - wide["fresh"]).reindex(judged.index)
        for (data, share), part in judged.groupby(["data", "hist_fraction"], sort=True):
            by_seed = gain.loc[part.index].set_axis(part["seed"]).groupby(level=0).mean()
            yield "data streams", f"{_SETS.get(data, data)}, {share:.0%} old", name, by_seed


def _osafl() -> Iterator[tuple[str, str, str, pd.Series]]:
    rows, configs = _published("osafl-training")
    best = rows.groupby("key")["best_accuracy"].last()
    dense = configs[configs["model"].eq("osafl_fcn") & configs["rounds"].eq(100)]
    dense = dense[dense["chi"].eq(1) & ~dense["seed"].isin(_CHOSE)].assign(value=best)
    sides = {}
    for rule, (name, printed) in _PRINTED.items():
        rates = dense[name].astype(float).fillna(printed)
        sides[rule] = dense[dense["rule"].eq(rule) & rates.eq(printed)]
    for (own, others), words in _BUFFERS.items():
        for scale in sorted(set(dense["input_norm"])):
            for K in (1, 2):
                of = {"osafl": own, "m_fedavg": others}
                upper, lower = (
                    side[
                        side["never_joined"].eq(of[rule])
                        & side["input_norm"].eq(scale)
                        & side["top_k"].eq(K)
                    ]
                    .groupby("seed")["value"]
                    .mean()
                    for rule, side in sides.items()
                )
                yield "OSAFL", f"{words}, scale {scale:g}", f"K = {K}", upper - lower
