"""Notebook 43, how long forgetting takes: Figs. 2, 3 and 6 and the bytes: runs, evidence.

Source: FATS, Sections 5.3.1, 6.2.2 and 6.2.3, Appendix A.3, Theorem 7, Table 2. Unlearning time is
counted in steps, so that nothing has to be trained. Exact means follow a formula and could not
fail, so that trends are judged on drawn histories, which know nothing of it.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from companion.judging.tables import paper_curve, paper_value
from companion.notebooks.fats_shared import mean_time, of_clients
from companion.plans import Stage
from sflkit.fats import stability, training
from sflkit.fats.config import TABLE_2, FATSConfig
from sflkit.fats.expected_time import client_time, first_participation


class Efficiency(NamedTuple):
    """The frames of Figs. 2 and 6 (one request), and of Fig. 3 (several)."""

    one: pd.DataFrame
    several: pd.DataFrame


def efficiency(
    *,
    seed: int,
    runs: int,
    points: int,
    femnist_b: list[int],
    femnist_m: list[int],
    shakespeare_b: list[int],
    shakespeare_m: list[int],
    shakespeare_rounds: int,
    drawn_clients: list[int],
    requests: list[int],
) -> Generator[Stage, pd.DataFrame, Efficiency]:
    """Plan notebook 43: drawn histories at Table 2's sizes.

    The largest K that all lines of a level have is among the points of each.
    """
    counted = dict(seed=seed, train=False, runs=runs)
    lines = lines_of(femnist_b, femnist_m, shakespeare_b, shakespeare_m, shakespeare_rounds)
    common = lines.groupby(["data", "level"])["most"].transform("min")
    one = yield Stage(
        training.run,
        [
            FATSConfig(
                **TABLE_2[line.data]
                | {"n_clients": line.M, "batch_size": line.b, "clients_per_round": int(k)}
                | {"rounds": line.R},
                data=line.data,
                level=line.level,
                n_requests=1,
                **counted,
            )
            for line, shared in zip(lines.itertuples(), common, strict=True)
            for k in np.unique([*np.linspace(1, line.most, points).round().astype(int), shared])
        ],
        "one request",
    )
    several = yield Stage(
        training.run,
        [
            FATSConfig(
                **TABLE_2[data] | {"n_clients": clients_of_figure3(data), "clients_per_round": k},
                data=data,
                level="client",
                n_requests=count,
                streaming=streaming,
                **counted,
            )
            for data in NAMES
            for k in drawn_clients
            for streaming in (False, True)
            for count in requests
        ],
        "several requests",
    )
    return Efficiency(one, several)


def clients_of_figure3(data: str) -> int:
    """Return M of Fig. 3, which the text states."""
    return int(paper_value("fats", "fats-fig3", f"{NAMES[data]} clients M"))


SIX_SETS = ("MNIST", "Fashion-MNIST", "CIFAR-10", "CIFAR-100", "FEMNIST", "Shakespeare")
NAMES = {"femnist": "FEMNIST", "shakespeare": "Shakespeare"}
FIGURES = {"fats-fig2": "femnist", "fats-fig6": "shakespeare"}
# Level of a request, which size tells its lines apart, how it is called in a run, and which way the
# time goes with it.
LEVELS = (("sample", "b", "batch_size", 1), ("client", "M", "n_clients", -1))
LINE = ["data", "level", "M", "b"]
# Field of a run -> what the tables here call it.
SHORT = {
    "data": "data",
    "level": "level",
    "streaming": "streaming",
    "n_clients": "M",
    "batch_size": "b",
    "clients_per_round": "K",
    "n_requests": "w",
}


def lines_of(
    femnist_b: Sequence[int],
    femnist_m: Sequence[int],
    shakespeare_b: Sequence[int],
    shakespeare_m: Sequence[int],
    shakespeare_rounds: int,
) -> pd.DataFrame:
    """Return the lines of Figs. 2 and 6, one row each: data, level, M, b, R, most.

    A line ends at the largest K, `most`, whose rho is at most 1. E, N, the total of samples and R
    of FEMNIST are those of the data set in Table 2.

    Raises
    ------
    ValueError
        If a line has fewer than two points.
    """
    rows = []
    for data, batches, clients, rounds in (
        ("femnist", femnist_b, femnist_m, TABLE_2["femnist"]["rounds"]),
        ("shakespeare", shakespeare_b, shakespeare_m, shakespeare_rounds),
    ):
        table = TABLE_2[data]
        m, b = table["n_clients"], table["batch_size"]
        samples, steps = m * table["samples_per_client"], rounds * table["local_steps"]
        rows += [(data, "sample", m, b, rounds, samples // (b * steps)) for b in sorted(batches)]
        rows += [(data, "client", m, b, rounds, m // rounds) for m in sorted(clients)]
    lines = pd.DataFrame(rows, columns=[*LINE, "R", "most"])
    if len(short := lines[lines["most"] < 2]):
        raise ValueError(
            f"these lines have fewer than two points, choose smaller b or larger M:\n{short}"
        )
    return lines


def exact_means(lines: pd.DataFrame) -> pd.DataFrame:
    """Return the exact mean time of one request at every K of every line.

    Columns: data, level, M, b, K, rho (rho_S or rho_C), T (steps of a training), exact (steps).
    """
    rows = []
    for line in lines.itertuples(index=False):
        sizes = TABLE_2[line.data] | dict(n_clients=line.M, batch_size=line.b, rounds=line.R)
        for k in range(1, line.most + 1):
            of = sizes | {"clients_per_round": k}
            rho = getattr(stability.stability(**of), f"rho_{line.level[0]}")
            steps = line.R * sizes["local_steps"]
            rows.append((*line[:4], k, rho, steps, mean_time(line.level, of)))
    return pd.DataFrame(rows, columns=[*LINE, "K", "rho", "T", "exact"])


def beside_figure6() -> pd.DataFrame:
    """Return the authors' points of Fig. 6 and the exact means at the same places, in steps.

    With R = 50 rounds, which the curves show (FRS stands at 5,000 steps), where Table 2 has 30.

    Returns
    -------
    DataFrame
        level, line (b or M), K, paper, recomputed (the work from the first use on), first (the
        client's first participation, NaN for samples).
    """
    rows = []
    for at in paper_curve("fats-fig6").query("series != 'FRS'").itertuples():
        name, value = at.series.removeprefix("FATS ").split("=")
        level, field = {"b": ("sample", "batch_size"), "M": ("client", "n_clients")}[name]
        sizes = TABLE_2["shakespeare"] | {field: int(value), "clients_per_round": int(at.x)}
        sizes["rounds"] = 50
        first = first_participation(**of_clients(sizes)) if level == "client" else np.nan
        rows.append((level, int(value), at.x, at.y, mean_time(level, sizes), first))
    return pd.DataFrame(rows, columns=["level", "line", "K", "paper", "recomputed", "first"])


def points_evidence(beside: pd.DataFrame) -> dict[str, Any]:
    """Return the evidence on what Fig. 6 plots, from `beside_figure6`: ours and the authors'."""
    samples, clients = (beside[beside["level"] == level] for level in ("sample", "client"))
    return {
        "samples_level": (samples["recomputed"], samples["paper"]),
        "clients_level": (clients["recomputed"], clients["paper"]),
        "clients_first": (clients["first"], clients["paper"]),
    }


def drawn_means(runs: pd.DataFrame, exact: pd.DataFrame) -> pd.DataFrame:
    """Return mean and standard error of the drawn histories beside the exact mean.

    `exact` is `exact_means` for Figs. 2 and 6, `exact_several` for Fig. 3.
    """
    names = {field: name for field, name in SHORT.items() if name in exact}
    means = runs.groupby([*names], sort=False)["steps"].agg(["mean", "sem"]).reset_index()
    return means.rename(columns=names).merge(exact, on=[*names.values()])


def exact_several(drawn_clients: Iterable[int], most: int) -> pd.DataFrame:
    """Return the exact mean time of 1 to `most` client requests for the K of Fig. 3.

    Columns: data, streaming (one by one), K, w, rho_C, T, exact (steps). M is that of the text.
    """
    rows = []
    for data in NAMES:
        table, m = TABLE_2[data], clients_of_figure3(data)
        for k in drawn_clients:
            sizes = {key: table[key] for key in ("local_steps", "rounds")}
            sizes |= dict(n_clients=m, clients_per_round=k)
            shared = (k * table["rounds"] / m, table["rounds"] * table["local_steps"])
            for streaming in (False, True):
                rows += [
                    (data, streaming, k, w, *shared)
                    + (client_time(**sizes, requests=w, one_by_one=streaming),)
                    for w in range(1, most + 1)
                ]
    return pd.DataFrame(rows, columns=["data", "streaming", "K", "w", "rho_C", "T", "exact"])


def one_request(
    one: pd.DataFrame, exact: pd.DataFrame, drawn: pd.DataFrame, data: str
) -> dict[str, Any]:
    """Return the evidence on Fig. 2 or 6, part -> what the rule takes."""
    parts: dict[str, Any] = {}
    mine = exact[exact["data"] == data]
    for level, column, field, sign in LEVELS:
        runs = one[(one["data"] == data) & (one["level"] == level)]
        along = {
            f"{column} = {size}": _change(_by_run(line, "clients_per_round"))
            for size, line in runs.groupby(field)
        }
        ends = mine[mine["level"] == level].groupby(["M", "b"])["K"].max()
        across = _by_run(runs[runs["clients_per_round"] == ends.min()], field)  # all lines have it
        parts[f"{level}s_rise_K"] = along
        trend = "rise" if sign > 0 else "fall"
        parts[f"{level}s_{trend}_{column}"] = _change(across, sign)
        dots = drawn[(drawn["data"] == data) & (drawn["level"] == level)]
        dots = dots[dots["sem"] > 0]  # with few histories a point may have none that is hit
        parts[f"{level}s_drawn"] = (dots["mean"], dots["sem"], dots["exact"])
    clients = mine[mine["level"] == "client"]
    limit = paper_value(
        "fats", "fats-fig2", "largest mean time of client unlearning relative to FRS (below)"
    )
    return parts | {"half": ((clients["exact"] / clients["T"]).max(), limit)}


def several_requests(several: pd.DataFrame, drawn: pd.DataFrame) -> dict[str, Any]:
    """Return the evidence on Fig. 3, part -> what the rule takes."""
    parts: dict[str, Any] = {}
    for streaming, way in ((False, "at_once"), (True, "one_by_one")):
        runs = several[several["streaming"] == streaming]
        for trend, along, fixed in (
            ("requests", "n_requests", "clients_per_round"),
            ("K", "clients_per_round", "n_requests"),
        ):
            lines = {
                f"{NAMES[data]}, {SHORT[fixed]} = {size}": _change(_by_run(line, along))
                for (data, size), line in runs.groupby(["data", fixed])
            }
            parts[f"{way}_{trend}"] = lines
        dots = drawn[drawn["streaming"] == streaming]
        parts[f"{way}_drawn"] = (dots["mean"], dots["sem"], dots["exact"])
    return parts


def _by_run(frame: pd.DataFrame, column: str) -> pd.DataFrame:
    """Return the steps of each history, one row a history, one column a size."""
    return frame.pivot(index="run", columns=column, values="steps")


def _change(line: pd.DataFrame, way: int = 1) -> tuple[ArrayLike, ArrayLike]:
    """Return a line's curves, one a history, as shares of its mean time, over places 0 to 1.

    The slope of a straight line through them is thus its rise from end to end. `way` is -1 where it
    should fall.
    """
    x = line.columns.to_numpy(float)
    return way * line.to_numpy() / line.to_numpy().mean(), (x - x.min()) / np.ptp(x)
