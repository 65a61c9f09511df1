"""Membership inference before and after forgetting, for FATS, FRS and FR2. Source: FATS, Sections
6.1.3 and 6.2.5, Table 1.

A federation of 2M clients: the first M are attacked, the others' samples are the attacker's pool.
Of each attacked client two thirds are trained on and one third is kept aside, by lot, so that
forgotten and unseen samples follow one law: after exact forgetting every attack has an accuracy of
1/2 on average. Shadows are trained by FATS as the target was, and their attack meets the models of
all methods. The paper attacks after forgetting only; the rows "before" say what this attack can see
at all.

One seed changes who is trained on, forgotten and unseen, the first model and all draws. Clients,
false labels, pool and attack belong to `population_seed`: intervals over seeds hold for this
attack.

| code            | symbol  | shape | meaning                                                                                  |
|-----------------|---------|-------|------------------------------------------------------------------------------------------|
| clients         |         | M x   | rows that each attacked client trains on; a request names a place among them             |
| forgotten       |         |       | rows trained on and then asked to be forgotten: the members of an evaluation set         |
| kept            |         |       | rows trained on before and after                                                         |
| unseen          |         |       | rows of the same clients that nothing is ever trained on: the non-members                |
| state           |         |       | "before" (any request, FATS's learning), or the method that has forgotten                |
| fit, test       |         |       | the model's own accuracy on what it is trained on, and on the unseen rows; in [0, 1]     |
"""

from __future__ import annotations

import copy
import functools
import threading
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import pandas as pd

from sflkit import checks
from sflkit.data import federations
from sflkit.fats.config import METHODS
from sflkit.fats.first_uses import LEVELS
from sflkit.fats.history import draw_history
from sflkit.randomness import generator

EXPERIMENT = "fats-membership"


RESULT_VERSION = 1


MODELS = ("linear", "mlp", "cnn", "small_cnn", "lenet")


_LOWEST = {
    "seed": 0,
    "population_seed": 0,
    "hidden": 1,
    "n_clients": 2,
    "samples_per_client": 1,
    "min_samples": 1,
    "clients_per_round": 1,
    "batch_size": 1,
    "local_steps": 1,
    "rounds": 1,
    "n_shadows": 1,
    "repeats": 2,
}


@dataclass(frozen=True)
class MembershipConfig:
    """One training, its unlearning by several methods, and the attacks. Sizes are the paper's for
    MNIST; the rest is ours.

    Parameters
    ----------
    seed : int
        >= 0.
    population_seed : int
        >= 0; the clients, the false labels, and the attacker with his shadows.
    methods : tuple of "fats", "frs", "fr2"
    levels : tuple of "sample", "client"
        What is forgotten; the paper does not say which of the two Table 1 is about.
    forget_share : float
        In (0, 1): of every client's trained samples, rounded down, so that a mini-batch is left; or
        of the clients, at least one. The paper has 5 to 10 in all, on which no attack can be told
        from a coin.
    data, model : str
        Names of `sflkit.data.federations`, and of MODELS; `hidden` are the hidden units of "mlp".
    n_clients : int or None
        M >= 2, attacked clients, 100 in the text (ERRATA 21); as many more hold the pool. None: all
        natural clients, by halves.
    samples_per_client : int or None
        Samples of a client, of which two thirds are trained on. None: all of a natural client's.
    min_samples : int
        Least samples of a natural client.
    clients_per_round, batch_size, local_steps, rounds : int
        K, b, E, R.
    rate : float
        eta > 0; 0.001 in Section 6.1.2.
    noise : float
        In [0, 1], share of labels that are replaced by random ones, which can only be learnt by
        heart.
    n_shadows : int
        >= 1, the attacker's own models.
    repeats : int
        >= 2, resampled evaluation sets; 100 in Section 6.1.3.
    """

    seed: int = 0
    population_seed: int = 0
    methods: tuple[str, ...] = METHODS
    levels: tuple[str, ...] = ("sample",)
    forget_share: float = 1 / 3
    data: str = "mnist"
    model: str = "cnn"
    hidden: int = 64
    n_clients: int | None = 100
    samples_per_client: int | None = 300
    min_samples: int = 24
    clients_per_round: int = 5
    batch_size: int = 10
    local_steps: int = 10
    rounds: int = 30
    rate: float = 0.001
    noise: float = 0.0
    n_shadows: int = 4
    repeats: int = 100

    def __post_init__(self):
        checks.choice("data", self.data, federations.NAMES[1:])
        checks.choice("model", self.model, MODELS)
        for name, allowed in ("methods", METHODS), ("levels", LEVELS):
            values = tuple(getattr(self, name))
            for value in values:
                checks.choice(name, value, allowed)
            if not values or len(set(values)) < len(values):
                raise ValueError(
                    f"{name}={values!r} must hold at least one of {', '.join(map(repr, allowed))}, none twice"
                )
            object.__setattr__(self, name, values)
        natural = self.data in federations.NATURAL
        checks.integer_fields(
            self, _LOWEST, optional=("n_clients", "samples_per_client") if natural else ()
        )
        checks.real("forget_share", self.forget_share, above=0, below=1)
        checks.real("rate", self.rate, above=0)
        checks.real("noise", self.noise, 0, 1)

    @property
    def sizes(self) -> dict[str, int]:
        """K, b, E and R, as `histories.draw_history` takes them."""
        return {
            name: getattr(self, name)
            for name in ("clients_per_round", "batch_size", "local_steps", "rounds")
        }


class Split(NamedTuple):
    """Who is trained on, forgotten and unseen (rows of the federation), and the requests, (client,
    sample) or (client, None).
    """

    clients: list[np.ndarray]
    requests: list[tuple]
    forgotten: np.ndarray
    kept: np.ndarray
    unseen: np.ndarray


def build(config: MembershipConfig, federation=None) -> federations.Federation:
    """Return the 2M clients with their false labels, the same for every seed; `federation` takes
    the place of the config's.
    """
    if federation is None:
        federation = federations.static(
            config.data,
            n_clients=None if config.n_clients is None else 2 * config.n_clients,
            seed=config.population_seed,
            samples_per_client=config.samples_per_client,
            min_samples=config.min_samples,
        )
    rng, y = generator(config.population_seed, "data"), federation.y.copy()
    false = rng.random(len(y)) < config.noise
    y[false] = rng.integers(federation.n_classes, size=false.sum())
    return replace(federation, y=y)


def split(config: MembershipConfig, federation: federations.Federation, level: str) -> Split:
    """Draw who is trained on, forgotten and unseen; the same clients for both levels.

    Sample level: the unseen samples of all clients. Client level: those of the forgotten clients,
    whose label mix is their own. Raises ValueError if nothing can be forgotten, or K clients are
    not left (FedAvg draws them without replacement)."""
    checks.choice("level", level, LEVELS)
    rng, m = generator(config.seed, "samples"), federation.n_clients // 2
    order = [rng.permutation(ids) for ids in federation.clients[:m]]
    own = _trained(federation)
    clients = [ids[:n] for ids, n in zip(order, own)]
    if level == "sample":
        part = [min(int(config.forget_share * n), n - config.batch_size) for n in own]
        if min(part) < 1:
            raise ValueError(
                f"forget_share={config.forget_share} with {min(own)} trained samples at the smallest client and "
                f"batch_size={config.batch_size} must forget a sample of every client and leave a mini-batch"
            )
        requests = [(k, i) for k, n in enumerate(part) for i in range(n)]
        forgotten = np.concatenate([ids[:n] for ids, n in zip(order, part)])
        kept = np.concatenate([ids[n:] for ids, n in zip(clients, part)])
        return Split(
            clients,
            requests,
            forgotten,
            kept,
            np.concatenate([ids[n:] for ids, n in zip(order, own)]),
        )
    n_gone = max(1, int(config.forget_share * m))
    if m - n_gone < config.clients_per_round:
        raise ValueError(
            f"forget_share={config.forget_share} leaves {m - n_gone} of {m} clients; clients_per_round="
            f"{config.clients_per_round} must be at most that"
        )
    gone = generator(config.seed, "requests").permutation(m)[:n_gone].tolist()
    kept = np.concatenate([clients[k] for k in range(m) if k not in gone])
    unseen = np.concatenate([order[k][own[k] :] for k in gone])
    return Split(
        clients, [(k, None) for k in gone], np.concatenate([clients[k] for k in gone]), kept, unseen
    )


def shadow_attack(config: MembershipConfig, federation: federations.Federation):
    """Return the `attacks.ShadowAttack` of shadows trained on the pool: M clients, rounds, rate and
    numbers as the target's.
    """
    from sflkit.fats import attacks, unlearning

    m, task = federation.n_clients // 2, _task(config, federation)
    pool = np.concatenate(federation.clients[m:])
    x, y = federation.x[pool], federation.y[pool]

    def train(ids: np.ndarray, seed: int):
        parts = np.array_split(
            ids, m
        )  # the pool is in order of clients, so a part is about a client
        rng, numbers = generator(seed, "participation"), [len(part) for part in parts]
        history = draw_history(n_clients=m, samples_per_client=numbers, rng=rng, **config.sizes)
        data = [(x[part], y[part]) for part in parts]
        return attacks.predictor(
            task, unlearning.learn(task, data, history, config.rate, start=task.init(seed)).params
        )

    return attacks.shadow_attack(
        train,
        x,
        y,
        n_shadows=config.n_shadows,
        n_train=sum(_trained(federation)),
        rng=generator(config.population_seed, "attack"),
    )


def run(config: MembershipConfig, *, federation=None, attack=None) -> pd.DataFrame:
    """Train, forget by every method, and attack all models.

    A row does not depend on which other methods and levels the config has.

    Parameters
    ----------
    config : MembershipConfig
    federation : sflkit.data.federations.Federation, optional
        Your own clients, in place of the config's; the first half of them is attacked.
    attack : sflkit.fats.attacks.MembershipAttack, optional
        Your own attack in place of the shadows.

    Returns
    -------
    DataFrame
        One row a level, state and attack: "shadow" (or yours), and "loss", the threshold at the
        mean training loss. accuracy and precision are means over the evaluation sets, accuracy_std
        and precision_std their standard deviations; silent is the share of sets in which nothing is
        called member (their precision counts as 0.5); n members a set; fit and test.

    Raises
    ------
    ValueError
        As `federations.static`, `split` and `attacks.shadow_attack`.
    FloatingPointError
        If a model stops being finite.
    """
    from sflkit.fats import attacks, baselines, unlearning

    if federation is None:
        made, fitted = _population(config, attack is None)
    else:
        made = build(config, federation)
        fitted = shadow_attack(config, made) if attack is None else None
    attack, task, rows = fitted if attack is None else attack, _task(config, made), []
    splits = {level: split(config, made, level) for level in config.levels}
    trained = splits[config.levels[0]].clients
    clients, start = [(made.x[ids], made.y[ids]) for ids in trained], task.init(config.seed)
    sizes = dict(
        n_clients=len(clients), samples_per_client=[len(ids) for ids in trained], **config.sizes
    )
    rng = generator(config.seed, "participation")
    before = unlearning.learn(
        task, clients, draw_history(rng=rng, **sizes), config.rate, start=start
    )
    for level, parts in splits.items():
        states = {"before": before}
        for method in config.methods:
            if method == "fats":
                states[method] = unlearning.forget(
                    task, clients, before, parts.requests, copy.deepcopy(rng)
                )
                continue
            # both start again from scratch, so a single round is trained before the request
            own = generator(config.seed, "participation", 1)
            state = unlearning.learn(
                task,
                clients,
                baselines.draw_fedavg(rng=own, **sizes),
                config.rate,
                start=start,
                method=method,
                rounds=1,
            )
            states[method] = unlearning.resume(
                task, clients, unlearning.request(state, parts.requests, own), until=config.rounds
            )
        for name, state in states.items():
            predict = attacks.predictor(task, state.params)
            ids = np.concatenate([parts.kept, parts.forgotten]) if name == "before" else parts.kept
            threshold = attacks.LossThreshold(
                attacks.losses(predict(made.x[ids]), made.y[ids]).mean()
            )
            for kind, used in (("shadow", attack), ("loss", threshold)):
                found = attacks.evaluate_attack(
                    used,
                    predict,
                    *((made.x[i], made.y[i]) for i in (parts.forgotten, parts.unseen)),
                    repeats=config.repeats,
                    rng=generator(config.seed, "bootstrap"),
                )
                rows.append(
                    {
                        "level": level,
                        "state": name,
                        "attack": kind,
                        "accuracy": found.accuracy.mean,
                        "accuracy_std": found.accuracy.std,
                        "precision": found.precision.mean,
                        "precision_std": found.precision.std,
                        "silent": found.silent,
                        "n": found.n,
                        "fit": _accuracy(predict, made, ids),
                        "test": _accuracy(predict, made, parts.unseen),
                    }
                )
    frame = pd.DataFrame(rows)
    frame.attrs["data"] = {
        "name": made.name,
        "digest": made.digest,
        "size": int(made.sizes.sum()),
        "note": made.note,
    }
    return frame


def _trained(federation) -> list[int]:
    return [2 * len(ids) // 3 for ids in federation.clients[: federation.n_clients // 2]]


def _accuracy(predict, federation, ids) -> float:
    return float((predict(federation.x[ids]).argmax(1) == federation.y[ids]).mean())


def _task(config: MembershipConfig, federation):
    from sflkit import federated, models

    options = {"hidden": (config.hidden,)} if config.model == "mlp" else {}
    return federated.Task(
        models.create(
            config.model,
            input_shape=federation.input_shape,
            n_classes=federation.n_classes,
            **options,
        )
    )


_locks: dict = {}


def _population(config: MembershipConfig, attacked: bool):
    """Return what all seeds share, computed once a process: the shadows cost as much as a whole
    run.
    """
    shared = replace(config, seed=0, methods=METHODS, levels=LEVELS, forget_share=0.5, repeats=2)
    with _locks.setdefault(
        (shared, attacked), threading.Lock()
    ):  # runs in other threads wait for it instead of doing the same
        return _shared(shared, attacked)


@functools.lru_cache(maxsize=8)
def _shared(config: MembershipConfig, attacked: bool):
    federation = build(config)
    return federation, shadow_attack(config, federation) if attacked else None
