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
from collections.abc import Callable, Iterator
from dataclasses import replace
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
from sflkit.randomness import generator

if TYPE_CHECKING:
    from torch import Tensor

    from sflkit.fats.attacks import Predict, ShadowAttack
    from sflkit.fats.state import State
    from sflkit.fats.training import Model
    from sflkit.federated import Task

EXPERIMENT = "fats-membership"
RESULT_VERSION = 2
# One lock for each population, see `_population`.
_locks: dict[MembershipConfig, threading.Lock] = {}


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
    trained, unseen = [], []
    for ids, n in zip(federation.clients, _trained(federation)):
        order, rest = rng.permutation(ids), len(ids) - n
        if config.mirror:  # the first and the last change places
            order = np.concatenate([order[n:], order[rest:n], order[:rest]])
        trained.append(order[:n])
        unseen.append(order[n:])
    if level == "sample":
        part = _shares(config, trained)
        requests = [(k, i) for k, n in enumerate(part) for i in range(n)]
        pairs = [(ids[:n], new) for ids, n, new in zip(trained, part, unseen)]
        kept = [ids[n:] for ids, n in zip(trained, part)]
    else:
        gone = _gone_clients(config, len(trained))
        requests = [(k, None) for k in gone]
        pairs = [(trained[k], unseen[k]) for k in gone]
        kept = [ids for k, ids in enumerate(trained) if k not in gone]
    both = [(own[: len(new)], new[: len(own)]) for own, new in pairs]
    parts = (*zip(*pairs), kept, *zip(*both))
    forgotten, new, kept, members, others = map(np.concatenate, parts)
    return Split(trained, requests, forgotten, kept, new, members, others)


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
        data = [(x[part], y[part]) for part in np.array_split(ids, m)]
        history = draw_history(rng=generator(seed, "participation"), **_sizes(config, data))
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

    Returns
    -------
    DataFrame
        One row per level, state and attack: "shadow" and "loss", the threshold at the
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
        made, attack = _population(config)
    else:
        made = build(config, data)
        attack = shadow_attack(config, made, model)
    splits = {level: split(config, made, level) for level in config.levels}
    task = _task(config, made, model)
    after = _target(config, made, task, splits[config.levels[0]].clients)
    rows = []
    for level, parts in splits.items():
        for name in ("before", *config.methods):
            params = after(name, parts.requests).params
            for kind, found in _attacks(config, made, task, params, attack, parts, name):
                rows.append({"level": level, "state": name, "attack": kind, **found})
    frame = pd.DataFrame(rows)
    frame.attrs["data"] = made.record
    return frame


def _target(
    config: MembershipConfig, made: Federation, task: Task, trained: list[np.ndarray]
) -> Callable[[str, list[Target]], State]:
    """Learn by FATS on the rows `trained` of each client, from which all levels and methods go on.

    Returned is what gives the state of a method that has forgotten what is asked, or "before" it.
    """
    from sflkit.fats import learning

    clients = [(made.x[ids], made.y[ids]) for ids in trained]
    start, sizes = task.init(config.seed), _sizes(config, clients)
    fats = generator(config.seed, "participation")
    history = draw_history(rng=fats, **sizes)
    before = learning.learn(task, clients, history, config.rate, start=start)

    def after(method: str, requests: list[Target]) -> State:
        if method == "before":
            return before
        if method == "fats":
            return learning.forget(task, clients, before, requests, copy.deepcopy(fats))
        rule, rng = METHODS[method].build(), generator(config.seed, "participation", 1)
        history = rule.draw(rng=rng, **sizes)
        # Where all is trained again from scratch, one round before the request is enough.
        learnt = dict(start=start, method=method, rounds=1 if rule.from_scratch else None)
        state = learning.learn(task, clients, history, config.rate, **learnt)
        asked = learning.request(state, requests, rng)
        return learning.resume(task, clients, asked, until=config.rounds)

    return after


def _attacks(
    config: MembershipConfig,
    made: Federation,
    task: Task,
    params: Tensor,
    attack: ShadowAttack,
    parts: Split,
    name: str,
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the name of each attack on the model of a state with its figures."""
    from sflkit.fats import attacks

    predict = attacks.predictor(task, params)

    def answers(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return predict(made.x[rows]), made.y[rows]

    def accuracy(rows: np.ndarray) -> float:
        probabilities, y = answers(rows)
        return float((probabilities.argmax(1) == y).mean())

    ids = np.concatenate([parts.kept, parts.forgotten]) if name == "before" else parts.kept
    members, others = ((made.x[rows], made.y[rows]) for rows in (parts.forgotten, parts.unseen))
    mean_loss = attacks.losses(*answers(ids)).mean()
    for kind, used in (("shadow", attack), ("loss", attacks.LossThreshold(mean_loss))):
        rng = generator(config.seed, "bootstrap")
        found = attacks.evaluate_attack(
            used, predict, members, others, repeats=config.repeats, rng=rng
        )
        scores = [used.score(*answers(rows)) for rows in (parts.members, parts.others)]
        whole = attacks.membership_metrics(*scores)  # without resampling
        yield (
            kind,
            {
                **found._asdict(),
                "whole_accuracy": float(whole.accuracy),
                "whole_precision": float(whole.precision),
                "pairs": len(parts.members),
                "fit": accuracy(ids),
                "test": accuracy(parts.unseen),
            },
        )


def _shares(config: MembershipConfig, trained: list[np.ndarray]) -> list[int]:
    """Return how many of each client's samples are forgotten, the first ones in random order."""
    share = config.forget_share
    part = [min(int(share * len(ids)), len(ids) - config.batch_size) for ids in trained]
    if min(part) < 1:
        raise ValueError(
            f"forget_share={share} with {min(map(len, trained))} trained samples at the smallest "
            f"client and batch_size={config.batch_size} must forget a sample of every client and "
            "leave a mini-batch"
        )
    return part


def _gone_clients(config: MembershipConfig, m: int) -> list[int]:
    """Return the share of m clients that is forgotten."""
    n_gone = max(1, int(config.forget_share * m))
    if m - n_gone < config.clients_per_round:
        raise ValueError(
            f"forget_share={config.forget_share} leaves {m - n_gone} of {m} clients; "
            f"clients_per_round={config.clients_per_round} must be at most that"
        )
    return generator(config.seed, "requests").permutation(m)[:n_gone].tolist()


def _sizes(config: MembershipConfig, clients: list) -> dict[str, Any]:
    """Return the sizes of a history of clients with these data."""
    numbers = [len(y) for _, y in clients]
    return {"n_clients": len(clients), "samples_per_client": numbers, **config.sizes}


def _trained(federation: Federation) -> list[int]:
    """Return how many samples of each attacked client are trained on."""
    return [2 * len(ids) // 3 for ids in federation.clients[: federation.n_clients // 2]]


def _task(config: MembershipConfig, federation: Federation, model: Model | None) -> Task:
    from sflkit.federated import Task, own

    options = {"hidden": (config.hidden,)} if config.model == "mlp" else {}
    shape, n_classes = federation.input_shape, federation.n_classes
    return Task(own.network(model, config.model, shape, n_classes, **options))


def _population(config: MembershipConfig) -> tuple[Federation, ShadowAttack]:
    """Return what all seeds share, computed once per process.

    The shadows cost as much as a whole run."""
    everything = dict(methods=tuple(METHODS), levels=LEVELS)  # what the population does not use
    shared = replace(config, seed=0, forget_share=0.5, repeats=2, **everything)
    with _locks.setdefault(shared, threading.Lock()):  # others wait instead of doing the same
        return _shared(shared)


@functools.lru_cache(maxsize=8)
def _shared(config: MembershipConfig) -> tuple[Federation, ShadowAttack]:
    federation = build(config)
    return federation, shadow_attack(config, federation)
