"""Membership inference before and after forgetting, for FATS, FRS and FR2.

Source: FATS, Sections 6.1.3 and 6.2.5, Table 1.

A federation of 2M clients: the first M are attacked, the others' samples are the attacker's pool.
Of each attacked client two thirds are trained on and one third is kept aside, by lot, so that
forgotten and unseen samples follow one law: after exact forgetting every attack has an accuracy of
1/2 on average. (The members of an evaluation set and as many unseen rows of the same clients are
exchangeable: swapping them leaves the law of the lot as it is, and that of the model, which depends
on what is kept alone, but turns an accuracy of a into 1 - a, and a precision of p into 1 - p. So
both have the expectation 1/2. `mirror` runs the swapped lot: the mean of both runs is free of how
hard single samples are.)

Shadows are trained by FATS as the target was, and their attack meets the models of all methods. The
paper attacks after forgetting only; the rows "before" say what this attack can see at all.

One seed changes who is trained on, forgotten and unseen, the first model and all draws. Clients,
false labels, pool and attack belong to `population_seed`: intervals over seeds hold for this
attack.

| code      | symbol | shape | meaning                                                             |
|-----------|--------|-------|---------------------------------------------------------------------|
| clients   |        | M x   | rows that each attacked client trains on; a request names a place   |
|           |        |       | among them                                                          |
| forgotten |        |       | rows trained on and then asked to be forgotten: the members of an   |
|           |        |       | evaluation set                                                      |
| kept      |        |       | rows trained on before and after                                    |
| unseen    |        |       | rows of the same clients that nothing is ever trained on: the       |
|           |        |       | non-members                                                         |
| state     |        |       | "before" (any request, FATS's learning), or the method that has     |
|           |        |       | forgotten                                                           |
| fit, test |        |       | the model's own accuracy on what it is trained on, and on the       |
|           |        |       | unseen rows; in [0, 1]                                              |
"""

from __future__ import annotations

import copy
import functools
import threading
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd

from sflkit import checks
from sflkit.data import Dataset, federations
from sflkit.data.federations import Federation
from sflkit.fats.config import MembershipConfig
from sflkit.fats.first_uses import LEVELS
from sflkit.fats.history import Target, draw_history
from sflkit.fats.methods import METHODS
from sflkit.fats.tasks import make_task
from sflkit.randomness import generator

if TYPE_CHECKING:
    from torch import Tensor

    from sflkit.fats.attacks import MembershipAttack, Predict, ShadowAttack
    from sflkit.fats.state import State
    from sflkit.fats.tasks import Model
    from sflkit.federated import Task

EXPERIMENT = "fats-membership"
RESULT_VERSION = 2
# One lock for each population, see `_population`.
_locks: dict[tuple, threading.Lock] = {}


class Split(NamedTuple):
    """Who is trained on, forgotten and unseen, as rows of the federation, and the requests.

    A request is (client, sample) or (client, None). `members` are forgotten rows and `others` as
    many unseen ones of the same clients, which swap their roles in the mirrored split.
    """

    clients: list[np.ndarray]
    requests: list[Target]
    forgotten: np.ndarray
    kept: np.ndarray
    unseen: np.ndarray
    members: np.ndarray
    others: np.ndarray


def build(config: MembershipConfig, data: Any = None) -> Federation:
    """Return the 2M clients with their false labels, the same for every seed.

    `data` takes the place of the config's, see `run`.
    """
    federation = data
    if not isinstance(data, Federation):
        federation = federations.static(
            config.data if data is None else data,
            n_clients=None if config.n_clients is None else 2 * config.n_clients,
            seed=config.population_seed,
            samples_per_client=config.samples_per_client,
            min_samples=config.min_samples,
        )
    rng = generator(config.population_seed, "data")
    y = federation.y.copy()
    false = rng.random(len(y)) < config.noise
    y[false] = rng.integers(federation.n_classes, size=false.sum())
    return replace(federation, y=y)


def split(config: MembershipConfig, federation: Federation, level: str) -> Split:
    """Draw who is trained on, forgotten and unseen; the same clients for both levels.

    Parameters
    ----------
    config : MembershipConfig
    federation : Federation
        The 2M clients of `build`.
    level : {"sample", "client"}
        "sample": the unseen samples are those of all clients. "client": those of the forgotten
        clients, whose label mix is their own.

    Raises
    ------
    ValueError
        If nothing can be forgotten, or K clients are not left (FedAvg draws them without
        replacement).
    """
    checks.choice("level", level, LEVELS)
    rng = generator(config.seed, "samples")
    attacked = federation.clients[: federation.n_clients // 2]
    orders = [rng.permutation(ids) for ids in attacked]
    if config.mirror:
        orders = [_mirrored(ids, len(ids) - n) for ids, n in zip(orders, _trained(federation))]
    trained = [ids[:n] for ids, n in zip(orders, _trained(federation))]
    unseen = [ids[len(own) :] for ids, own in zip(orders, trained)]
    if level == "sample":
        return _sample_split(config, trained, unseen)
    return _client_split(config, trained, unseen)


def shadow_attack(
    config: MembershipConfig, federation: Federation, model: Model | None = None
) -> ShadowAttack:
    """Return the attack of shadows trained on the pool as the target is: same M, rounds, and rate.

    Parameters
    ----------
    config : MembershipConfig
    federation : Federation
        The 2M clients of `build`.
    model
        Your own network, as in `run`.

    Raises
    ------
    ValueError
        As `attacks.shadow_attack`.
    """
    from sflkit.fats import attacks, learning

    m = federation.n_clients // 2
    task = _task(config, federation, model)
    pool = np.concatenate(federation.clients[m:])
    x, y = federation.x[pool], federation.y[pool]

    def train(ids: np.ndarray, seed: int) -> Predict:
        # The pool is in order of clients, so that a part is about a client.
        parts = np.array_split(ids, m)
        numbers = [len(part) for part in parts]
        rng = generator(seed, "participation")
        history = draw_history(n_clients=m, samples_per_client=numbers, rng=rng, **config.sizes)
        data = [(x[part], y[part]) for part in parts]
        state = learning.learn(task, data, history, config.rate, start=task.init(seed))
        return attacks.predictor(task, state.params)

    return attacks.shadow_attack(
        train,
        x,
        y,
        n_shadows=config.n_shadows,
        n_train=sum(_trained(federation)),
        rng=generator(config.population_seed, "attack"),
    )


def run(
    config: MembershipConfig,
    *,
    data: Federation | Dataset | tuple | str | None = None,
    model: Model | None = None,
    attack: MembershipAttack | None = None,
) -> pd.DataFrame:
    """Train, forget by every method, and attack all models.

    A row does not depend on which other methods and levels the config has.

    Parameters
    ----------
    config : MembershipConfig
    data : Federation, Dataset, arrays or str, optional
        Your own clients, in place of the config's; the first half of them is attacked. Or data
        that are dealt to clients as it says, see `data.dataset`.
    model : torch.nn.Module, or class or function (input_shape, n_classes) -> Module, optional
        Your own network, of the target and of the shadows.
    attack : sflkit.fats.attacks.MembershipAttack, optional
        Your own attack in place of the shadows.

    Returns
    -------
    DataFrame
        One row per level, state and attack: "shadow" (or yours), and "loss", the threshold at the
        mean training loss. accuracy and precision are means over the evaluation sets, accuracy_std
        and precision_std their standard deviations; whole_accuracy and whole_precision are those on
        all `pairs` of members and as many others of the same clients, without resampling; silent is
        the share of sets in which nothing is called member (their precision counts as 0.5); n
        members per set; fit and test.

    Raises
    ------
    ValueError
        As `federations.static`, `split` and `attacks.shadow_attack`, or if `model` is no network.
    FloatingPointError
        If a model stops being finite.
    """
    if data is None and model is None:
        made, fitted = _population(config, attack is None)
    else:
        made = build(config, data)
        fitted = shadow_attack(config, made, model) if attack is None else None
    attack = fitted if attack is None else attack
    splits = {level: split(config, made, level) for level in config.levels}
    training = _Training.of(config, made, model, splits[config.levels[0]].clients)
    rows = []
    for level, parts in splits.items():
        for name, state in training.states(parts.requests):
            for kind, found in _attacks(training, attack, parts, name, state):
                rows.append({"level": level, "state": name, "attack": kind, **found})
    frame = pd.DataFrame(rows)
    frame.attrs["data"] = made.record
    return frame


@dataclass(frozen=True)
class _Training:
    """The target's training, from which all levels and methods go on."""

    config: MembershipConfig
    federation: Federation
    task: Task
    clients: list[tuple[np.ndarray, np.ndarray]]
    start: Tensor
    before: State
    rng: np.random.Generator  # as it is after FATS's learning

    @classmethod
    def of(
        cls,
        config: MembershipConfig,
        federation: Federation,
        model: Model | None,
        trained: list[np.ndarray],
    ) -> _Training:
        """Learn by FATS on the rows `trained` of each client."""
        from sflkit.fats import learning

        task = _task(config, federation, model)
        clients = [(federation.x[ids], federation.y[ids]) for ids in trained]
        start = task.init(config.seed)
        rng = generator(config.seed, "participation")
        history = draw_history(rng=rng, **_sizes(config, clients))
        before = learning.learn(task, clients, history, config.rate, start=start)
        return cls(config, federation, task, clients, start, before, rng)

    def states(self, requests: list[Target]) -> Iterator[tuple[str, State]]:
        """Yield "before" and each method with its state, after the requests."""
        yield "before", self.before
        for method in self.config.methods:
            yield method, self.unlearned(method, requests)

    def unlearned(self, method: str, requests: list[Target]) -> State:
        """Return the state of a method that has forgotten what is asked."""
        from sflkit.fats import learning

        config = self.config
        if method == "fats":
            rng = copy.deepcopy(self.rng)
            return learning.forget(self.task, self.clients, self.before, requests, rng)
        rule = METHODS[method].build()
        rng = generator(config.seed, "participation", 1)
        state = learning.learn(
            self.task,
            self.clients,
            rule.draw(rng=rng, **_sizes(config, self.clients)),
            config.rate,
            start=self.start,
            method=method,
            # Where all is trained again from scratch, one round before the request is enough.
            rounds=1 if rule.from_scratch else None,
        )
        state = learning.request(state, requests, rng)
        return learning.resume(self.task, self.clients, state, until=config.rounds)


def _attacks(
    training: _Training, attack: MembershipAttack, parts: Split, name: str, state: State
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the name of each attack on a state's model with its figures."""
    from sflkit.fats import attacks

    config, made = training.config, training.federation
    predict = attacks.predictor(training.task, state.params)
    ids = np.concatenate([parts.kept, parts.forgotten]) if name == "before" else parts.kept
    members, others = ((made.x[rows], made.y[rows]) for rows in (parts.forgotten, parts.unseen))
    mean_loss = attacks.losses(predict(made.x[ids]), made.y[ids]).mean()
    accuracies = {
        "fit": _accuracy(predict, made, ids),
        "test": _accuracy(predict, made, parts.unseen),
    }
    for kind, used in (("shadow", attack), ("loss", attacks.LossThreshold(mean_loss))):
        rng = generator(config.seed, "bootstrap")
        found = attacks.evaluate_attack(
            used, predict, members, others, repeats=config.repeats, rng=rng
        )
        yield kind, found._asdict() | _whole(used, predict, made, parts) | accuracies


def _whole(
    attack: MembershipAttack, predict: Predict, made: Federation, parts: Split
) -> dict[str, float]:
    """Return accuracy and precision on all members and as many others, without resampling."""
    from sflkit.fats import attacks

    scores = [
        attack.score(predict(made.x[rows]), made.y[rows]) for rows in (parts.members, parts.others)
    ]
    found = attacks.membership_metrics(*scores)
    return {
        "whole_accuracy": float(found.accuracy),
        "whole_precision": float(found.precision),
        "pairs": len(parts.members),
    }


def _sample_split(
    config: MembershipConfig, trained: list[np.ndarray], unseen: list[np.ndarray]
) -> Split:
    """Forget a share of every client's samples, its first ones in the random order."""
    share = config.forget_share
    part = [min(int(share * len(ids)), len(ids) - config.batch_size) for ids in trained]
    if min(part) < 1:
        raise ValueError(
            f"forget_share={share} with {min(map(len, trained))} trained samples at the smallest "
            f"client and batch_size={config.batch_size} must forget a sample of every client and "
            "leave a mini-batch"
        )
    pairs = [min(n, len(ids)) for n, ids in zip(part, unseen)]
    return Split(
        trained,
        [(k, i) for k, n in enumerate(part) for i in range(n)],
        np.concatenate([ids[:n] for ids, n in zip(trained, part)]),
        np.concatenate([ids[n:] for ids, n in zip(trained, part)]),
        np.concatenate(unseen),
        np.concatenate([ids[:n] for ids, n in zip(trained, pairs)]),
        np.concatenate([ids[:n] for ids, n in zip(unseen, pairs)]),
    )


def _client_split(
    config: MembershipConfig, trained: list[np.ndarray], unseen: list[np.ndarray]
) -> Split:
    """Forget a share of the clients."""
    m = len(trained)
    n_gone = max(1, int(config.forget_share * m))
    if m - n_gone < config.clients_per_round:
        raise ValueError(
            f"forget_share={config.forget_share} leaves {m - n_gone} of {m} clients; "
            f"clients_per_round={config.clients_per_round} must be at most that"
        )
    gone = generator(config.seed, "requests").permutation(m)[:n_gone].tolist()
    return Split(
        trained,
        [(k, None) for k in gone],
        np.concatenate([trained[k] for k in gone]),
        np.concatenate([trained[k] for k in range(m) if k not in gone]),
        np.concatenate([unseen[k] for k in gone]),
        np.concatenate([trained[k][: len(unseen[k])] for k in gone]),
        np.concatenate([unseen[k] for k in gone]),
    )


def _mirrored(ids: np.ndarray, n: int) -> np.ndarray:
    """Return ids with the first n and the last n of them exchanged, 2 n <= len(ids)."""
    return np.concatenate([ids[len(ids) - n :], ids[n : len(ids) - n], ids[:n]])


def _sizes(config: MembershipConfig, clients: list) -> dict[str, Any]:
    """Return the sizes of the target's history."""
    numbers = [len(y) for _, y in clients]
    return {"n_clients": len(clients), "samples_per_client": numbers, **config.sizes}


def _trained(federation: Federation) -> list[int]:
    """Return how many samples of each attacked client are trained on."""
    return [2 * len(ids) // 3 for ids in federation.clients[: federation.n_clients // 2]]


def _accuracy(predict: Predict, federation: Federation, ids: np.ndarray) -> float:
    return float((predict(federation.x[ids]).argmax(1) == federation.y[ids]).mean())


def _task(config: MembershipConfig, federation: Federation, model: Model | None) -> Task:
    options = {"hidden": (config.hidden,)} if config.model == "mlp" else {}
    return make_task(config.model, federation, model, **options)


def _population(
    config: MembershipConfig, attacked: bool
) -> tuple[Federation, MembershipAttack | None]:
    """Return what all seeds share, computed once per process.

    The shadows cost as much as a whole run."""
    everything = dict(methods=tuple(METHODS), levels=LEVELS)  # what the population does not use
    shared = replace(config, seed=0, forget_share=0.5, repeats=2, **everything)
    lock = _locks.setdefault((shared, attacked), threading.Lock())
    with lock:  # runs in other threads wait for it instead of doing the same
        return _shared(shared, attacked)


@functools.lru_cache(maxsize=8)
def _shared(config: MembershipConfig, attacked: bool) -> tuple[Federation, MembershipAttack | None]:
    federation = build(config)
    return federation, shadow_attack(config, federation) if attacked else None
