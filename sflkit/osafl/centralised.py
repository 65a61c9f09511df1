"""Centralised SGD on data that stay, or that change while it trains: Fig. 1 of OSAFL with its
confounders taken apart.

Source: OSAFL, Section I and Fig. 1, Appendix A, (36). The stores of all users are one data set; an
episode is one pass over it. Static and time-varying data differ in Fig. 1 in three things at once,
of which each neighbour in this chain of arms changes one:

| arm            | samples at hand                           | samples an episode    | batch size, rate drops (Appendix A) |
|----------------|-------------------------------------------|-----------------------|-------------------------------------|
| static         | all                                       | all                   | 512; 10, 20, 40, 60, 80, 90         |
| static_matched | all                                       | as many as stores hold| 256; 10, 25, 50, 75                 |
| frozen         | the first stores, never renewed           | all of them           | as above                            |
| kept           | all that arrived, nothing is removed      | as many as stores hold| as above                            |
| time_varying   | the stores: new samples push out the old  | all of them           | as above                            |

static to static_matched: batch size, rates and number of steps; to frozen: size (and the users'
label mix, nearly that of the whole); to time_varying: that samples change, in two parts, arrival
(kept) and removal. All arms of one seed share the split, the initial model and the order in which
an episode visits the places of a data set; a new sample takes the place of the one that it pushes
out, so that the mini-batches of time_varying and frozen are equal but for the renewed samples.

What we read into Appendix A: the E_u samples of a user arrive together, with probability p_u ("each
client gets E_u new training samples [...] with probability p_u"; Section II-A lets each slot
succeed alone: the same mean, less spread). D_u and p_u are uniform and drawn once. The rate is cut
at the start of the named episodes, counted from 1. A pass is split into the fewest mini-batches of
at most the batch size, equal up to one sample.

| code         | symbol        | shape     | meaning                                                            |
|--------------|---------------|-----------|--------------------------------------------------------------------|
| samples      | D_u,all       | U arrays  | rows of the training set, in the order in which they arrive        |
| capacity     | D_u           | (U,)      | samples that a store holds                                         |
| slots        | E_u           | (U,)      | samples that arrive together, (36)                                 |
| probability  | p_u,ac        | (U,)      | probability that they arrive before an episode                     |
| windows      | D_u^t         | (T, U, 2) | what a store holds in an episode: first sample, one past the last  |
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pandas as pd

from sflkit import checks, data
from sflkit.data import catalogue, partitions
from sflkit.osafl import stores
from sflkit.randomness import generator

EXPERIMENT = "osafl-centralised"


RESULT_VERSION = 1


ARMS = ("static", "static_matched", "frozen", "kept", "time_varying")


ORDERS = ("shuffled", "by_class")


_APPENDIX_A = {"static": (512, (10, 20, 40, 60, 80, 90)), "time_varying": (256, (10, 25, 50, 75))}


_APPENDIX_A_EPISODES = 100


_STEPS_A_CALL = 16  # mini-batches that exist at a time: all of CIFAR-10 would be 600 MB


def appendix_a(arm: str, episodes: int = _APPENDIX_A_EPISODES) -> dict:
    """Return the arm's batch_size and decay_at of Appendix A, the latter at the same shares of
    `episodes`.

    Raises ValueError on an unknown arm or episodes < 1.
    """
    checks.choice("arm", arm, ARMS)
    episodes = checks.integer("episodes", episodes, 1)
    batch_size, drops = _APPENDIX_A["static" if arm == "static" else "time_varying"]
    return {
        "batch_size": batch_size,
        "decay_at": tuple(max(1, round(t * episodes / _APPENDIX_A_EPISODES)) for t in drops),
    }


@dataclass(frozen=True)
class CentralisedConfig:
    """One run of one arm. The numbers are Appendix A's for the time-varying data, but for the
    network, of which it says only CNN.

    Parameters
    ----------
    arm : one of ARMS
    seed : int
        >= 0.
    data : str
        Name of an image set of `sflkit.data`, "cifar10" in the paper.
    model, hidden : str, int or None
        Name of `sflkit.models`; width of the hidden layer, for "mlp" and "cnn" only (None: their
        default).
    n_clients : int
        U = 50 users.
    alpha : float
        > 0, Dirichlet parameter of the split, 0.9.
    order : {"shuffled", "by_class"}
        In what order a user's samples arrive. Appendix A does not say; "by_class" makes the labels
        drift.
    episodes : int
        T = 100, >= 2.
    capacity_low, capacity_high : int
        D_u is uniform between them, 160 and 260.
    max_arrivals : int
        >= 0 and below capacity_low, the 5 of (36).
    arrival_low, arrival_high : float
        p_u is uniform between them, 0.3 and 0.8.
    batch_size : int
        256; static: 512 (see `appendix_a`).
    rate, decay : float
        Learning rate 0.1 > 0, and by what it is multiplied, 0.7 in (0, 1].
    decay_at : tuple of int
        Episodes at whose start that happens, >= 1 and in order; equal ones count each.
    """

    arm: str = "time_varying"
    seed: int = 0
    data: str = "cifar10"
    model: str = "lenet"
    hidden: int | None = None
    n_clients: int = 50
    alpha: float = 0.9
    order: str = "shuffled"
    episodes: int = _APPENDIX_A_EPISODES
    capacity_low: int = 160
    capacity_high: int = 260
    max_arrivals: int = 5
    arrival_low: float = 0.3
    arrival_high: float = 0.8
    batch_size: int = 256
    rate: float = 0.1
    decay: float = 0.7
    decay_at: tuple[int, ...] = (10, 25, 50, 75)

    def __post_init__(self):
        for name, allowed in (
            ("arm", ARMS),
            ("data", (*catalogue.AT_HAND, *catalogue.SPECS)),
            ("order", ORDERS),
        ):
            checks.choice(name, getattr(self, name), allowed)
        lowest = {
            "seed": 0,
            "n_clients": 1,
            "episodes": 2,
            "max_arrivals": 0,
            "batch_size": 1,
            "hidden": 1,
        }
        checks.integer_fields(self, lowest, optional=("hidden",))
        if self.hidden is not None and self.model not in ("mlp", "cnn"):
            raise ValueError(
                f"hidden={self.hidden!r} has no meaning for model={self.model!r}; it must be None"
            )
        low = checks.integer("capacity_low", self.capacity_low, max(2, self.max_arrivals + 1))
        object.__setattr__(self, "capacity_low", low)
        object.__setattr__(
            self, "capacity_high", checks.integer("capacity_high", self.capacity_high, low)
        )
        checks.real(
            "arrival_high", self.arrival_high, checks.real("arrival_low", self.arrival_low, 0, 1), 1
        )
        checks.real("alpha", self.alpha, above=0)
        checks.real("rate", self.rate, above=0)
        checks.real("decay", self.decay, high=1, above=0)
        try:
            drops = tuple(checks.integer("decay_at", t, 1) for t in self.decay_at)
        except TypeError:
            drops = None
        if drops is None or list(drops) != sorted(drops):
            raise ValueError(f"decay_at={self.decay_at!r} must be episodes >= 1 in order")
        object.__setattr__(self, "decay_at", drops)


class Clients(NamedTuple):
    """The users' samples in order of arrival, their stores, and what these hold in every episode;
    see the table at the top.
    """

    samples: tuple[np.ndarray, ...]
    capacity: np.ndarray
    slots: np.ndarray
    probability: np.ndarray
    windows: np.ndarray

    def at_hand(self, arm: str, t: int) -> np.ndarray:
        """Return the rows of the training set that the arm holds in episode t (from 1), each once.

        A store is a ring: sample i of its user lies at place i mod D_u.
        """
        checks.choice("arm", arm, ARMS)
        t = checks.integer("t", t, 1, len(self.windows))
        if arm.startswith("static"):
            return np.sort(np.concatenate(self.samples))
        first, end = self.windows[0 if arm == "frozen" else t - 1].T
        if arm == "kept":
            first = np.zeros_like(first)
        return np.concatenate(
            [np.roll(ids[a:b], a) for ids, a, b in zip(self.samples, first, end, strict=True)]
        )

    def renewed(self, arm: str, t: int) -> float:
        """Return the share of the samples at hand in episode t (from 1) that arrived just before
        it.
        """
        if arm not in ("kept", "time_varying") or t == 1:
            return 0.0
        return float(
            (self.windows[t - 1, :, 1] - self.windows[t - 2, :, 1]).sum()
            / len(self.at_hand(arm, t))
        )


def arrivals(sizes, capacity, episodes: int, most: int = 5) -> np.ndarray:
    """Return E_u of (36), min(floor((|D_u,all| - D_u) / T), most), int64 (U,): nobody's samples run
    out within T episodes.

    Parameters
    ----------
    sizes, capacity : int arrays (U,)
        |D_u,all| and D_u < |D_u,all|.

    Raises
    ------
    ValueError
        For a store that holds all samples of its user or none, episodes < 1, most < 0.
    """
    sizes, capacity = (
        checks.array("sizes", sizes, ndim=1),
        checks.array("capacity", capacity, ndim=1, low=1),
    )
    episodes, most = checks.integer("episodes", episodes, 1), checks.integer("most", most, 0)
    if sizes.shape != capacity.shape:
        raise ValueError(
            f"capacity has shape {capacity.shape} and sizes {sizes.shape}; both must be one number a user"
        )
    if (capacity >= sizes).any():
        u = int(np.argmax(capacity >= sizes))
        raise ValueError(
            f"capacity={capacity[u]:g} of user {u} must be below the number of its samples, {sizes[u]:g}"
        )
    return np.minimum((sizes - capacity) // episodes, most).astype(np.int64)


def draw_clients(config: CentralisedConfig, labels: np.ndarray) -> Clients:
    """Split the training set with these `labels` (n,) and draw stores and arrivals; the same for
    all arms of a seed.

    The paper takes for granted that a user has more samples than its store holds: one with fewer
    takes from whoever has most. Raises ValueError if there are too few samples for that."""
    parts = partitions.dirichlet(
        labels,
        config.n_clients,
        config.alpha,
        generator(config.seed, "partition"),
        min_samples=config.capacity_high + 1,
    )
    if config.order == "by_class":
        parts = tuple(ids[np.argsort(labels[ids], kind="stable")] for ids in parts)
    rng = generator(config.seed, "samples")
    capacity = rng.integers(config.capacity_low, config.capacity_high + 1, config.n_clients)
    probability = rng.uniform(config.arrival_low, config.arrival_high, config.n_clients)
    slots = arrivals([len(ids) for ids in parts], capacity, config.episodes, config.max_arrivals)
    # one Bernoulli slot a user is all or nothing; E_u samples come with it
    all_or_nothing = stores.Stores(capacity, np.ones_like(capacity), probability)
    came = stores.fifo_windows(
        all_or_nothing, config.episodes - 1, generator(config.seed, "arrivals")
    )[:, :, 0]
    first = np.vstack([np.zeros_like(capacity), came * slots])
    return Clients(parts, capacity, slots, probability, np.stack([first, first + capacity], axis=2))


def run(config: CentralisedConfig, *, model=None) -> pd.DataFrame:
    """Train one arm for T episodes.

    Parameters
    ----------
    config : CentralisedConfig
    model : torch.nn.Module, optional
        Your own network.

    Returns
    -------
    DataFrame, one row an episode
        episode (from 1); accuracy and loss on the whole test set after it; n_samples at hand,
        n_used of them, in how many steps at which rate; renewed, the share of the samples at hand
        that have just arrived; n_seen, the distinct samples that any step so far has used.

    Raises
    ------
    ValueError
        If the data set has fewer samples than the users need, or the network does not take its
        images.
    FloatingPointError
        If the model stops being finite; the message names the episode.
    """
    import torch

    from sflkit import federated, models

    source = data.load(config.data)
    clients = draw_clients(config, source.y_train)
    if model is None:
        options = (
            {}
            if config.hidden is None
            else {"hidden": (config.hidden,) if config.model == "mlp" else config.hidden}
        )
        model = models.create(
            config.model, input_shape=source.input_shape, n_classes=source.n_classes, **options
        )
    task, device = federated.Task(model), "cuda" if torch.cuda.is_available() else "cpu"
    params = task.init(int(generator(config.seed, "model").integers(2**31))).to(device)
    (x, y), test = (
        [torch.as_tensor(part(split)).to(device) for part in (source.inputs, source.labels)]
        for split in ("train", "test")
    )
    rows, seen = [], np.zeros(len(y), dtype=bool)
    for t in range(1, config.episodes + 1):
        batches, n_samples = mini_batches(config, clients, t)
        rate = config.rate * config.decay ** sum(t >= drop for drop in config.decay_at)
        for start in range(0, len(batches), _STEPS_A_CALL):
            steps = [
                torch.from_numpy(ids).to(device) for ids in batches[start : start + _STEPS_A_CALL]
            ]
            params = federated.local_sgd(task, params, [[(x[ids], y[ids]) for ids in steps]], rate)[
                0
            ]
        if not bool(torch.isfinite(params).all()):
            raise FloatingPointError(
                f"the model is no longer finite after episode {t}; lower rate={config.rate}"
            )
        used = np.concatenate(batches)
        seen[used] = True
        loss, accuracy = federated.evaluate(task, params, *test)
        rows.append(
            {
                "episode": t,
                "accuracy": accuracy,
                "loss": loss,
                "n_samples": n_samples,
                "n_used": len(used),
                "steps": len(batches),
                "learning_rate": rate,
                "renewed": clients.renewed(config.arm, t),
                "n_seen": int(seen.sum()),
            }
        )
    frame = pd.DataFrame(rows)
    frame.attrs["data"] = {
        "name": source.name,
        "digest": source.digest,
        "size": len(y),
        "canonical": source.canonical,
        "test_size": len(test[1]),
    }
    return frame


def mini_batches(
    config: CentralisedConfig, clients: Clients, t: int
) -> tuple[list[np.ndarray], int]:
    """Return the rows of episode t's mini-batches, and the number of samples at hand; no row comes
    twice.
    """
    ids = clients.at_hand(config.arm, t)
    n = len(ids) if config.arm == "static" else int(clients.capacity.sum())
    places = generator(config.seed, "batches", t).permutation(len(ids))[:n]
    return np.array_split(ids[places], -(-n // config.batch_size)), len(ids)
