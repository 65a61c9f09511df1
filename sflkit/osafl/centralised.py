"""Centralised SGD on data that stay, or that change while it trains: Fig. 1 of OSAFL with its
confounders taken apart.

Source: OSAFL, Section I and Fig. 1, Appendix A, (36). The stores of all users are one data set; an
episode is one pass over it. Static and time-varying data differ in Fig. 1 in three things at once,
of which each neighbour in this chain of arms changes one:

| arm            | samples at hand                | samples an episode uses | Appendix A   |
|----------------|--------------------------------|-------------------------|--------------|
| static         | all                            | all                     | static       |
| static_matched | all                            | as many as stores hold  | time-varying |
| frozen         | the first stores, unchanged    | all of them             | time-varying |
| kept           | all that arrived, none removed | as many as stores hold  | time-varying |
| time_varying   | the stores: new push out old   | all of them             | time-varying |

Appendix A cuts the rate of the static data, in batches of 512, at the episodes 10, 20, 40, 60, 80
and 90, and that of the time-varying data, in batches of 256, at 10, 25, 50 and 75.

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

| code        | symbol  | shape     | meaning                                                    |
|-------------|---------|-----------|------------------------------------------------------------|
| samples     | D_u,all | U arrays  | rows of the training set, in the order in which they come  |
| capacity    | D_u     | (U,)      | samples that a store holds                                 |
| slots       | E_u     | (U,)      | samples that arrive together, (36)                         |
| probability | p_u,ac  | (U,)      | probability that they arrive before an episode             |
| windows     | D_u^t   | (T, U, 2) | what a store holds in an episode: first sample, one past   |
|             |         |           | the last                                                   |
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import zip_longest
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from pydantic import model_validator

from sflkit import checks, data, machine
from sflkit.config import Count, Number, OneOf, Positive, Seed, Share, Whole, settings
from sflkit.data import catalogue, partitions
from sflkit.osafl import stores
from sflkit.randomness import generator, model_seed

if TYPE_CHECKING:
    from torch import nn

EXPERIMENT = "osafl-centralised"
RESULT_VERSION = 1

ARMS = ("static", "static_matched", "frozen", "kept", "time_varying")
ORDERS = ("shuffled", "by_class")

# Batch size, and the episodes at whose start the rate is cut.
_APPENDIX_A = {"static": (512, (10, 20, 40, 60, 80, 90)), "time_varying": (256, (10, 25, 50, 75))}
_APPENDIX_A_EPISODES = 100


def appendix_a(arm: str, episodes: int = _APPENDIX_A_EPISODES) -> dict[str, Any]:
    """Return the arm's batch_size and decay_at of Appendix A, as keywords of `CentralisedConfig`.

    Appendix A trains for 100 episodes; with another number the rate is cut at the same shares of
    them.

    Raises
    ------
    ValueError
        On an unknown arm or episodes < 1.
    """
    checks.choice("arm", arm, ARMS)
    episodes = checks.integer("episodes", episodes, 1)
    batch_size, drops = _APPENDIX_A["static" if arm == "static" else "time_varying"]
    return {
        "batch_size": batch_size,
        "decay_at": tuple(max(1, round(t * episodes / _APPENDIX_A_EPISODES)) for t in drops),
    }


@settings
class CentralisedConfig:
    """One run of one arm.

    The defaults are Appendix A's for the time-varying data, except the network, of which it says
    only that it is a CNN.

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
        >= 0 and below capacity_low, which is at least 2; the 5 of (36).
    arrival_low, arrival_high : float
        p_u is uniform between them, 0.3 and 0.8.
    batch_size : int
        256; static: 512 (see `appendix_a`).
    rate, decay : float
        Learning rate 0.1 > 0, and by what it is multiplied, 0.7 in (0, 1].
    decay_at : tuple of int
        Episodes at whose start that happens, >= 1 and in order; equal ones count each.

    Raises
    ------
    ValueError
        If a value is not allowed; the message names the field, the value and what is allowed.
    """

    arm: Annotated[str, OneOf(ARMS)] = "time_varying"
    seed: Seed = 0
    data: Annotated[str, OneOf(catalogue.WITHOUT_CLIENTS)] = "cifar10"
    model: str = "lenet"
    hidden: Count | None = None
    n_clients: Count = 50
    alpha: Positive = 0.9
    order: Annotated[str, OneOf(ORDERS)] = "shuffled"
    episodes: Annotated[int, Whole(2)] = _APPENDIX_A_EPISODES
    capacity_low: Annotated[int, Whole(2)] = 160
    capacity_high: Annotated[int, Whole(2)] = 260
    max_arrivals: Annotated[int, Whole(0)] = 5
    arrival_low: Share = 0.3
    arrival_high: Share = 0.8
    batch_size: Count = 256
    rate: Positive = 0.1
    decay: Annotated[float, Number(above=0, high=1)] = 0.7
    decay_at: tuple[Count, ...] = (10, 25, 50, 75)

    @model_validator(mode="after")
    def _agree(self) -> CentralisedConfig:
        if self.hidden is not None and self.model not in ("mlp", "cnn"):
            raise ValueError(
                f"hidden={self.hidden!r} has no meaning for model={self.model!r}; it must be None"
            )
        checks.integer("capacity_low", self.capacity_low, self.max_arrivals + 1)
        checks.integer("capacity_high", self.capacity_high, self.capacity_low)
        checks.real("arrival_high", self.arrival_high, self.arrival_low)
        if list(self.decay_at) != sorted(self.decay_at):
            raise ValueError(f"decay_at={self.decay_at!r} must be episodes >= 1 in order")
        return self

    def rate_in(self, episode: int) -> float:
        """Return the learning rate in an episode, counted from 1."""
        return self.rate * self.decay ** sum(episode >= drop for drop in self.decay_at)


class Clients(NamedTuple):
    """The users' samples in order of arrival, their stores, and what these hold in every episode.

    Shapes and meanings are those of the table at the top.
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
        """Return the share of the samples at hand in episode t (from 1) that have just arrived."""
        if arm not in ("kept", "time_varying") or t == 1:
            return 0.0
        came = self.windows[t - 1, :, 1] - self.windows[t - 2, :, 1]
        return float(came.sum() / len(self.at_hand(arm, t)))


def arrivals(sizes: ArrayLike, capacity: ArrayLike, episodes: int, most: int = 5) -> np.ndarray:
    """Return E_u of (36), min(floor((|D_u,all| - D_u) / T), most), int64 (U,).

    With it nobody's samples run out within T episodes.

    Parameters
    ----------
    sizes, capacity : int arrays (U,)
        |D_u,all| and D_u < |D_u,all|.
    episodes : int
        T, >= 1.
    most : int
        >= 0.

    Raises
    ------
    ValueError
        For a store that holds all samples of its user or none, episodes < 1, most < 0.
    """
    sizes = checks.array("sizes", sizes, ndim=1)
    capacity = checks.array("capacity", capacity, low=1)
    episodes = checks.integer("episodes", episodes, 1)
    most = checks.integer("most", most, 0)
    checks.shape("capacity", capacity, sizes.shape, like="sizes")
    if (capacity >= sizes).any():
        u = int(np.argmax(capacity >= sizes))
        raise ValueError(
            f"capacity={capacity[u]:g} of user {u} must be below the number of its samples, "
            f"{sizes[u]:g}"
        )
    return np.minimum((sizes - capacity) // episodes, most).astype(np.int64)


def draw_clients(config: CentralisedConfig, labels: np.ndarray) -> Clients:
    """Split the training set and draw stores and arrivals, the same for all arms of a seed.

    The paper takes for granted that a user has more samples than its store holds: one with fewer
    takes from whoever has most.

    Parameters
    ----------
    config : CentralisedConfig
    labels : int array (n,)
        Of the training set.

    Raises
    ------
    ValueError
        If there are too few samples for that.
    """
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
    # One Bernoulli slot per user is all or nothing; E_u samples come with it.
    all_or_nothing = stores.Stores(capacity, np.ones_like(capacity), probability)
    came = stores.fifo_windows(
        all_or_nothing, config.episodes - 1, generator(config.seed, "arrivals")
    )[:, :, 0]
    first = np.vstack([np.zeros_like(capacity), came * slots])
    return Clients(parts, capacity, slots, probability, np.stack([first, first + capacity], axis=2))


def run(
    config: CentralisedConfig,
    *,
    model: nn.Module | Callable | None = None,
    stop_after: int | None = None,
) -> pd.DataFrame:
    """Train one arm for T episodes.

    Parameters
    ----------
    config : CentralisedConfig
    model : torch.nn.Module, class or function, optional
        Your own network: a module, whose weights are not used, or what makes one of (input_shape,
        n_classes).
    stop_after : int, optional
        The episode after which the run ends, in [1, config.episodes]. Its rows are the first of the
        whole run's: arrivals, which depend on T, and rates stay those of all episodes.

    Returns
    -------
    DataFrame, one row per episode
        episode (from 1); accuracy and loss on the whole test set after it; n_samples at hand,
        n_used of them, in how many steps at which rate; renewed, the share of the samples at hand
        that have just arrived; n_seen, the distinct samples that any step so far has used.

    Raises
    ------
    ValueError
        If the data set has fewer samples than the users need, or the network is not as described
        or does not take its images.
    FloatingPointError
        If the model stops being finite; the message names the episode.
    """
    import torch

    from sflkit import federated
    from sflkit.federated.own import network

    last = checks.last_round(stop_after, config.episodes)
    source = data.load(config.data)
    clients = draw_clients(config, source.y_train)
    hidden = config.hidden
    if hidden is not None and config.model == "mlp":  # which takes the widths of several layers
        hidden = (hidden,)
    shape, n_classes = source.input_shape, source.n_classes
    task = federated.Task(network(model, config.model, shape, n_classes, hidden=hidden))
    device = machine.device()
    params = task.init(model_seed(config.seed)).to(device)
    x, y = (torch.as_tensor(part("train")).to(device) for part in (source.inputs, source.labels))
    test = [torch.as_tensor(part("test")).to(device) for part in (source.inputs, source.labels)]
    rows = []
    seen = np.zeros(len(y), dtype=bool)
    for t in range(1, last + 1):
        batches, n_samples = mini_batches(config, clients, t)
        steps = np.array(list(zip_longest(*batches, fillvalue=-1))).T[None]
        rate = config.rate_in(t)
        params = federated.local_sgd(task, params, rate=rate, data=(x, y), rows=steps)[0]
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
    frame.attrs["data"] = source.record | {"test_size": len(source.y_test)}
    return frame


def mini_batches(
    config: CentralisedConfig, clients: Clients, t: int
) -> tuple[list[np.ndarray], int]:
    """Return the rows of the mini-batches of episode t (from 1), and the number of samples at hand.

    No row comes twice.
    """
    ids = clients.at_hand(config.arm, t)
    n = len(ids) if config.arm == "static" else int(clients.capacity.sum())
    places = generator(config.seed, "batches", t).permutation(len(ids))[:n]
    return np.array_split(ids[places], -(-n // config.batch_size)), len(ids)
