"""Valid calls of the library, and all the ways in which one argument of each is damaged.

Everything is generated and in one fixed order: the n-th damaged call is the same in every process.
A damaged call is

| outcome | meaning |
|---------|---------|
| good    | ValueError or TypeError whose message names the argument |
| vague   | ValueError or TypeError that does not name it |
| answer  | an answer without NaN, which may be right: 1e300 is a distance like any other |
| silent  | an answer that holds NaN where that of the valid call holds none |
| other   | any other error, such as AttributeError for an object of a wholly wrong type |
| slow    | more than a second |
"""

from __future__ import annotations

import math
import re
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import torch

from sflkit import models
from sflkit.data import federations, partitions
from sflkit.datastreams import bounds as ds_bounds
from sflkit.datastreams import importance, psi, strategies
from sflkit.fats import bounds as fats_bounds
from sflkit.fats import first_uses, history, stability
from sflkit.federated import Task, evaluate, local_sgd
from sflkit.federated.adaptive import FedAdam, FedAvgM
from sflkit.federated.aggregation import LocalWork, weighted_average
from sflkit.federated.servers import FedAvg, Scaffold
from sflkit.osafl import allocation, alternation, channels, devices, scores
from sflkit.osafl import bounds as osafl_bounds
from sflkit.results import intervals
from sflkit.sfl import bounds as sfl_bounds
from sflkit.sfl import caches, coin, config, discrepancy, streams

NAN, INF = math.nan, math.inf
OBJECT = object()
# What replaces an argument of a kind; a value that is allowed there gives an answer.
NUMBERS = (NAN, INF, -INF, -1.5, 0, 1e300, -1e300, 10**400, 1j, True, "abc", [], [1.0, 2.0], OBJECT)
WRONG = {
    bool: ("no", "", 1, 0, 2.5, NAN, [], OBJECT),
    int: (*NUMBERS, 0.5, -1, np.zeros(2), b"1"),
    float: (*NUMBERS, np.zeros((2, 2)), b"1"),
    str: ("", "nonsense", 3, NAN, [], b"text", OBJECT),
    np.random.Generator: (0, "abc", [], NAN, OBJECT),
}
OF_OBJECTS = ("abc", 3, NAN, [], OBJECT)


class Damaged(NamedTuple):
    """A valid call whose argument `argument` is `value`."""

    call: str
    argument: str
    value: Any

    def __str__(self) -> str:
        shown = " ".join(repr(self.value).split())
        shown = re.sub(r"0x[0-9a-f]+", "...", shown)
        return f"{self.call}({self.argument}={shown[:60]})"


class Outcome(NamedTuple):
    """How a damaged call ended: a word of the table above, and what was said."""

    word: str
    said: str
    seconds: float


def _stream() -> streams.LabelStream:
    return streams.LabelStream(
        np.array([[[0.8, 0.2], [0.3, 0.7]]]), np.array([[[0.9, 0.1], [0.2, 0.8]]])
    )


def _task() -> Task:
    return Task(models.create("linear", input_shape=(3,), n_classes=2))


def _rng() -> np.random.Generator:
    return np.random.default_rng(0)


def calls() -> dict[str, tuple[Callable, dict[str, Any]]]:
    """Return functions with valid keywords, made anew at every call."""
    three = devices.Devices(*([value] * 3 for value in (3.0, 1e9, 2.0, 1e9, 1.0)))
    link = devices.Link(1e6)
    choice = {"local_steps": [1.0, 2, 3], "cpu_hz": [1e8] * 3, "tx_watt": [0.5] * 3}
    choice = {name: np.array(values) for name, values in choice.items()}
    mask, n = np.array([True, False, False]), np.array([5.0, 3.0, 2.0])
    batches = [[(np.ones((2, 3)), np.array([0, 1]))]] * 2
    sizes = {
        "n_clients": 4,
        "samples_per_client": 6,
        "clients_per_round": 2,
        "batch_size": 2,
        "local_steps": 2,
        "rounds": 3,
    }
    round_ = {
        "beta": 1.0,
        "rate": 0.01,
        "global_rate": 1.0,
        "sigma2": 1.0,
        "alpha": np.array([0.5, 0.5]),
        "similarity": np.array([0.5, 0.8]),
        "local_steps": np.array([2.0, 3.0]),
        "shift": np.array([0.1, 0.1]),
        "rho1": 1.0,
        "rho2": 0.1,
        "skew": np.array([0.1, 0.2]),
    }
    problem = {
        "smoothness": 1.0,
        "local_rate": 0.01,
        "local_steps": 2,
        "n_classes": 3,
        "max_share": 0.5,
        "sigma_m2": 1.0,
        "sigma_g2": 1.0,
        "dissimilarity2": 0.5,
    }
    fats = {
        "loss_gap": 1.0,
        "smoothness": 1.0,
        "grad_var": 1.0,
        "heterogeneity": 1.0,
        "n_clients": 10,
        "samples_per_client": 100.0,
        "steps": 50,
        "rho_s": 0.5,
        "rho_c": 0.5,
    }
    work = LocalWork([0, 1], [2, 2], 0.1)
    step = {"params": np.ones(3), "updates": np.ones((2, 3)), "weights": np.ones(2)}
    torches = {name: torch.ones(values.shape) for name, values in step.items()}
    return {
        "weighted_average": (
            weighted_average,
            {"updates": step["updates"], "weights": step["weights"]},
        ),
        "FedAvg": (FedAvg, {"global_rate": 1.0}),
        "FedAvg()": (FedAvg(), dict(step)),
        "FedAvg() of tensors": (FedAvg(), torches),
        "FedAvgM()": (FedAvgM(), dict(step)),
        "FedAdam": (
            FedAdam,
            {"global_rate": 0.1, "momentum": 0.5, "decay": 0.5, "floor": 0.1},
        ),
        "Scaffold": (Scaffold, {"n_clients": 2, "shares": np.full(2, 0.5), "global_rate": 1.0}),
        "Scaffold()": (Scaffold(2), step | {"work": work}),
        "LocalWork": (
            LocalWork,
            {"clients": np.arange(2), "steps": np.array([1, 2]), "rate": 0.1},
        ),
        "local_sgd": (
            lambda **options: local_sgd(_task(), **options),
            {
                "params": np.zeros(8, np.float32),
                "batches": batches,
                "rate": 0.1,
                "backend": "pool",
                "device": "cpu",
                "prox": 0.1,
                "updates": True,
            },
        ),
        "evaluate": (
            lambda **options: evaluate(_task(), **options),
            {
                "params": np.zeros(8, np.float32),
                "x": np.ones((4, 3)),
                "y": np.array([0, 1, 0, 1]),
                "weights": np.ones(4),
                "batch_size": 2,
                "device": "cpu",
            },
        ),
        "path_loss_db": (
            channels.path_loss_db,
            {
                "distance_m": np.array([50.0, 100, 200]),
                "carrier_ghz": 2.4,
                "base_m": 25.0,
                "device_m": 1.5,
                "line_of_sight": np.array([True, False, True]),
            },
        ),
        "snr_per_watt": (
            channels.snr_per_watt,
            {
                "distance_m": np.array([50.0, 100]),
                "shadowing_db": np.array([1.0, -1.0]),
                "bandwidth_hz": 5e5,
                "noise_dbm_hz": -174.0,
            },
        ),
        "draw_distances": (
            channels.draw_distances,
            {"n_clients": 3, "rng": _rng(), "radius_m": 9.0},
        ),
        "draw_devices": (
            channels.draw_devices,
            {"n_clients": 3, "rng": _rng(), "snr": np.ones(3), "sample_bits": 8, "samples": 2},
        ),
        "allocate": (allocation.allocate, {"devices": three, "link": link, "method": "joint"}),
        "alternate": (
            alternation.alternate,
            {"devices": three, "link": link, "iterations": 3, "tol": 1e-3, "solver": "closed"},
        ),
        "objective": (
            alternation.objective,
            {"devices": three, "link": link, "weight": 0.5} | choice,
        ),
        "algorithm3": (
            alternation.algorithm3,
            {"devices": three, "link": link, "iterations": 3, "tol": 1e-3} | choice,
        ),
        "costs": (devices.costs, {"devices": three, "link": link} | choice),
        "Link": (
            devices.Link,
            {"payload_bits": 1e6, "bandwidth_hz": 1e5, "deadline_s": 9.0, "max_steps": 3},
        ),
        "osafl_scores": (scores.osafl_scores, {"updates": np.ones((2, 3)), "chi": 1.0}),
        "disco_weights": (
            scores.disco_weights,
            {"sizes": np.array([3, 4]), "discrepancy": np.array([0.1, 0.2]), "a": 0.2, "b": 0.1},
        ),
        "osafl theorem1": (
            osafl_bounds.theorem1,
            round_ | {"loss_decrease": 1.0, "score": np.array([0.5, 0.6])},
        ),
        "optimal_scores": (osafl_bounds.optimal_scores, round_ | {"psi": 1.0}),
        "draw_history": (history.draw_history, sizes | {"rng": _rng()}),
        "History.of": (
            history.History.of,
            {
                "clients": np.array([[0, 1]]),
                "batches": np.array([[[[0, 1]], [[1, 2]]]]),
                "samples_per_client": np.array([3, 3]),
            },
        ),
        "first_uses": (
            first_uses.first_uses,
            sizes
            | {"level": "client", "n_requests": 2, "runs": 2, "rng": _rng(), "streaming": True},
        ),
        "stability": (stability.stability, dict(sizes)),
        "fats lemma4": (fats_bounds.lemma4, fats | {"local_steps": 5, "rate": 0.001}),
        "theorem5": (fats_bounds.theorem5, fats | {"local_steps": 5}),
        "theorem7": (fats_bounds.theorem7, {"rho": 0.1, "requests": 2, "training_time": 1.0}),
        "label_weights": (
            federations.label_weights,
            {
                "y": np.array([0, 1, 1]),
                "clients": [np.array([0, 1]), np.array([2])],
                "y_test": np.array([0, 1]),
                "n_classes": 2,
            },
        ),
        "dirichlet": (
            partitions.dirichlet,
            {"labels": np.arange(40) % 4, "n_clients": 3, "alpha": 5.0, "rng": _rng()},
        ),
        "psi": (
            psi.psi,
            {"p": n / 10, "n": n, "historical": mask, "c1": 1.0, "c2": 1.0, "c0": 0.5},
        ),
        "minimize_psi": (psi.minimize_psi, {"n": n, "historical": mask, "c1": 1.0, "c2": 2.0}),
        "client_importance": (
            strategies.client_importance,
            {"arm": "ours", "n": n, "historical": mask, "c_ratio": 1.0},
        ),
        "memory_importance": (
            importance.memory_importance,
            {"n": n, "historical": mask, "rounds": 4},
        ),
        "optimization_bound": (
            ds_bounds.optimization_bound,
            {
                "sigma_bar": 1.0,
                "smoothness": 1.0,
                "loss_bound": 1.0,
                "diameter": 1.0,
                "local_steps": 2,
                "rounds": 100,
            },
        ),
        "LabelStream": (
            streams.LabelStream,
            {
                "short_term": np.full((2, 2, 2), 0.5),
                "transition": np.full((2, 2, 2), 0.5),
                "start": "stationary",
                "common": False,
            },
        ),
        "LabelStream.sample": (
            _stream().sample,
            {"rounds": 3, "batch_size": 4, "rng": _rng(), "exact": False},
        ),
        "kl_markov_stream": (
            streams.kl_markov_stream,
            {
                "n_clients": 2,
                "n_classes": 4,
                "classes_per_client": 2,
                "n_states": 3,
                "temperature": 1.0,
                "batch_size": 10,
                "rng": _rng(),
            },
        ),
        "exact_discrepancy": (
            discrepancy.exact_discrepancy,
            {"stream": _stream(), "rule": "fifo", "t": 5, "cache_rounds": 3},
        ),
        "SRSR": (caches.SRSR, {"capacity": 6, "batch_size": 2, "theta": 0.5}),
        "Full": (caches.Full, {"capacity": 6, "shares": np.full(2, 0.5), "refresh": True}),
        "sfl lemma2": (
            sfl_bounds.lemma2,
            problem | {"lambda2": 0.1, "grad_norm2": 1.0},
        ),
        "sfl theorem1": (
            sfl_bounds.theorem1,
            problem
            | {
                "loss_gap": 1.0,
                "rounds": 3,
                "global_rate": 1.0,
                "lambda2": np.zeros(3),
                "n_clients": 2,
            },
        ),
        "fifo_discrepancy": (
            sfl_bounds.fifo_discrepancy,
            {"cache_rounds": 3.0, "corr_rounds": 1.0, "delta2": 0.1},
        ),
        "squared_gradient": (
            coin.squared_gradient,
            {"rounds": 5, "step": 0.5, "cache_rounds": 2, "refreshed": True},
        ),
        "SFLConfig": (
            config.SFLConfig,
            {"rule": "drsr", "seed": 0, "rounds": 5, "theta": 0.5, "local_rate": 0.1},
        ),
        "mean_interval": (
            intervals.mean_interval,
            {"sample": np.array([1.0, 2, 4]), "confidence": 0.9},
        ),
        "difference_interval": (
            intervals.difference_interval,
            {"x": np.array([1.0, 2]), "y": np.array([3.0, 5]), "confidence": 0.9, "paired": True},
        ),
    }


def damaged() -> Iterator[Damaged]:
    """Yield every damaged call, in a fixed order."""
    for call, (_, options) in calls().items():
        for argument, value in options.items():
            for wrong in damages(value):
                yield Damaged(call, argument, wrong)


def damages(value: Any) -> list[Any]:
    """Return what a valid argument is replaced by, in turn."""
    for kind, wrong in WRONG.items():
        if type(value) is kind or (kind is np.random.Generator and isinstance(value, kind)):
            return list(wrong)
    if isinstance(value, (np.ndarray, torch.Tensor)):
        return _of_array(value)
    return list(OF_OBJECTS)


def _of_array(value: np.ndarray | torch.Tensor) -> list[Any]:
    """Return damaged copies of an array: entries, shape, length and type."""
    plain = np.asarray(value)
    out: list[Any] = []
    for entry in (NAN, INF, -INF, -1.5, 1e300):
        changed = plain.astype(float)
        changed.flat[0] = entry
        out.append(changed)
    column = plain.reshape(-1, 1)
    out += [plain[:0], plain[:-1], plain[None], column, plain + 1j * np.ones(plain.shape)]
    if isinstance(value, torch.Tensor):
        out = [torch.as_tensor(part) for part in out]
    return [*out, plain.astype(str), "abc", [[1], [1, 2]], 10**400, OBJECT]


def outcome(case: Damaged) -> Outcome:
    """Make the damaged call and return how it ended."""
    function, options = calls()[case.call]
    began = time.perf_counter()
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            answer = function(**options | {case.argument: case.value})
    except (ValueError, TypeError) as error:
        said = str(error)
        word = "good" if re.search(rf"\b{re.escape(case.argument)}\b", said) else "vague"
    except Exception as error:
        word, said = "other", f"{type(error).__name__}: {error}"
    else:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            valid = calls()[case.call]
            lost = _holds_nan(answer) and not _holds_nan(valid[0](**valid[1]))
        word, said = ("silent" if lost else "answer"), repr(answer)[:200]
    seconds = time.perf_counter() - began
    return Outcome("slow" if seconds > 1 else word, said, seconds)


def _holds_nan(answer: Any) -> bool:
    """Return whether an answer, an array or a tuple of them holds NaN."""
    if isinstance(answer, tuple):
        return any(map(_holds_nan, answer))
    if isinstance(answer, torch.Tensor):
        return bool(torch.isnan(answer).any()) if answer.is_floating_point() else False
    if isinstance(answer, (float, np.ndarray, np.floating)):
        array = np.asarray(answer)
        return array.dtype.kind in "fc" and bool(np.isnan(array).any())
    return False
