"""What notebook 22 shows of FedAvg, FedProx and SCAFFOLD beside its verdict.

Source: FDS (Federated Learning for Data Streams), Appendices D.2 and E, Table 2, (204).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from companion import story
from companion.datastreams.evidence.strategies import both_iterates, printed_cells
from companion.judging.tables import paper_value
from sflkit.data.federations import Federation
from sflkit.datastreams import psi, training
from sflkit.datastreams.config import DataStreamsConfig
from sflkit.datastreams.strategies import client_importance
from sflkit.results.store import config_dict

STRATEGIES = ("fresh", "historical", "uniform", "ours")
OPTIMISERS = {"fedavg": "FedAvg", "fedprox": "FedProx", "scaffold": "SCAFFOLD"}


def printed_accuracies() -> dict[tuple[str, str], float]:
    """Return (optimiser, strategy) -> the paper's accuracy on CIFAR-10 in per cent."""
    places = {
        "fedavg": ("ds-tab2", "CIFAR-10"),
        "fedprox": ("ds-appE", "FedProx"),
        "scaffold": ("ds-appE", "SCAFFOLD"),
    }
    return {
        (name, strategy): paper_value("datastreams", artefact, f"{prefix} {strategy}")
        for name, (artefact, prefix) in places.items()
        for strategy in STRATEGIES
    }


def final_scores(
    frame: pd.DataFrame, seeds: Sequence[int], column: str = "accuracy"
) -> pd.DataFrame:
    """Return the accuracy after the last round, (n_seeds, (server, arm)).

    `column` is "accuracy" of the averaged output, or "accuracy_last" of the last iterate.
    """
    last = frame[frame["round"] == frame["round"].max()]
    wide = last.pivot(index="seed", columns=["server", "arm"], values=column)
    return wide.loc[list(seeds)]


def appendix_e(score: pd.DataFrame, last: pd.DataFrame) -> pd.DataFrame:
    """Return Appendix E's numbers as a table, in %, with FedAvg's of Table 2: ours and the paper's.

    The arguments are `final_scores` of both columns.
    """
    printed = printed_accuracies()
    paper: dict[str, dict[str, Any]] = {label: {} for label in OPTIMISERS.values()}
    for (name, strategy), value in printed.items():
        paper[OPTIMISERS[name]][strategy.capitalize()] = value
    paper["FedAvg"] = {
        name: cell
        for name, cell in printed_cells("CIFAR-10", 0.2).items()
        if name.lower() in STRATEGIES
    }
    ours = (
        {
            label: {s.capitalize(): 100 * of[name, s] for s in STRATEGIES}
            for name, label in OPTIMISERS.items()
        }
        for of in (score, last)
    )
    return both_iterates(*ours, paper)


def searched_rates(search: pd.DataFrame, chosen: dict[str, dict[str, float]]) -> pd.DataFrame:
    """Return validation accuracy in per cent by optimiser, strategy and rate, and what won."""
    last = search[search["round"] == search["round"].max()]
    by = dict(index=["server", "arm"], columns="rate", values="accuracy")
    tried = last.pivot_table(**by, sort=False, dropna=False)
    won = [f"{chosen[server][arm]:.2g}" for server, arm in tried.index]
    return (100 * tried).round(1).assign(chosen=won)


def scaffold_by_rate(search: pd.DataFrame) -> pd.DataFrame:
    """Return SCAFFOLD less FedAvg in the validation runs, by rate.

    Mean points of accuracy for each strategy, then in how many pairs of strategy and seed SCAFFOLD
    has the higher accuracy, the lower loss and the higher loss.
    """
    last = search[search["round"] == search["round"].max()]
    pairs = last.pivot(index=["arm", "seed"], columns=["server", "rate"])
    accuracy, loss = (
        pairs[name]["scaffold"] - pairs[name]["fedavg"] for name in ("accuracy", "loss")
    )
    means = {f"{s}, points": 100 * accuracy.loc[s].mean() for s in STRATEGIES}
    counts = {
        "accuracy higher": (accuracy > 0).sum(),
        "loss lower": (loss < 0).sum(),
        "loss higher": (loss > 0).sum(),
    }
    return pd.DataFrame(means | counts)


class Curvature(NamedTuple):
    """How steep softmax regression is at the historical clients.

    bound : largest curvature that a client's loss can have; largest_norm2 : largest |x|^2 of a
    sample; sizes : fewest and most samples of a historical client.
    """

    bound: float
    largest_norm2: float
    sizes: tuple[int, int]

    @property
    def certain_rate(self) -> float:
        """The largest rate at which a full-batch step is certain to lower the loss."""
        return 2 / self.bound


class Measured(NamedTuple):
    """What is told of a federation: its samples and clients, and what (204) gives on it.

    sizes, historical : arrays over clients; n_test : test samples; curvature : see `Curvature`;
    ratio, p_hist, constants : see `estimated_share`, the constants by name.
    """

    sizes: np.ndarray
    historical: np.ndarray
    n_test: int
    curvature: Curvature
    ratio: float
    p_hist: float
    constants: dict[str, float]


def federation_of(config: DataStreamsConfig, model: str, seed: int) -> Measured:
    """Return what the notebook tells of a federation, which needs its data set; see `Measured`."""

    def make() -> dict[str, Any]:
        made = training.build(config)
        ratio, share, constants = estimated_share(made, model, seed)
        return {
            "sizes": made.sizes.tolist(),
            "historical": made.historical.tolist(),
            "n_test": len(made.y_test),
            "curvature": list(curvature(made)),
            "ratio": ratio,
            "p_hist": share,
            "constants": constants._asdict(),
        }

    settings = config_dict(config) | {"network": model, "seed of the estimate": seed}
    found = story.kept("federation", settings, make)
    found |= {name: np.array(found[name]) for name in ("sizes", "historical")}
    return Measured(**found | {"curvature": Curvature(*found["curvature"])})


def curvature(federation: Federation) -> Curvature:
    """Return the curvature of softmax regression at the steepest historical client.

    The Hessian of the mean loss is at most half of the mean of x x^T, in the order of matrices.
    """
    x = np.asarray(federation.x).reshape(len(federation.x), -1)
    old = [x[federation.clients[m]] for m in np.flatnonzero(federation.historical)]
    top = max(np.linalg.norm(part @ part.T, 2) / len(part) for part in old)
    sizes = [len(part) for part in old]
    return Curvature(top / 2, float(np.einsum("ij,ij->i", x, x).max()), (min(sizes), max(sizes)))


def estimated_share(federation: Federation, model: str, seed: int) -> tuple[float, float, Any]:
    """Return the ratio c2/c1 of (204) here, the p_hist that it gives, and the constants."""
    from sflkit import federated, models
    from sflkit.datastreams.constants import estimate_constants

    own = {"hidden": 2048, "padding": 0} if model == "cnn" else {}
    shapes = dict(input_shape=federation.input_shape, n_classes=federation.n_classes)
    task = federated.Task(models.create(model, **shapes, **own))
    constants = estimate_constants(task, federation, seed=seed)
    ratio = psi.estimate_c_ratio(**constants._asdict())
    p = client_importance("ours", federation.sizes, federation.historical, c_ratio=ratio)
    return ratio, float(p[federation.historical].sum()), constants
