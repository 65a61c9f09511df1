"""The settings of a data-streams run. Source: FDS, Sections 5 and 6, Appendices D and E."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sflkit import checks
from sflkit.data import federations
from sflkit.datastreams.arrivals import AVAILABILITY

if TYPE_CHECKING:  # servers needs torch
    pass


RATE_GRID = tuple(10.0**e for e in (-3.5, -3.0, -2.5, -2.0, -1.5, -1.0))  # Appendix D.2


STRATEGIES = ("uniform", "historical", "fresh", "ours")  # beside "p_hist=0.5"


SERVERS = ("fedavg", "fedprox", "scaffold")


@dataclass(frozen=True)
class DataStreamsConfig:
    """One run: several arms on one federation. Defaults are the synthetic task of FDS with N_hist /
    N = 20 %.

    Parameters
    ----------
    arms : tuple of str
        Each one of STRATEGIES or "p_hist=x" with x in [0, 1]; the paper's "Optimal" is the best of
        x in 0, 0.2, 0.5, 0.8, 1.
    rates : tuple of float
        Local rate eta > 0 of each arm; the same arm may occur with several (the paper's grid search
        over RATE_GRID).
    seed : int
        >= 0.
    data : one of `sflkit.data.federations.NAMES`; n_clients, n_historical, hist_fraction, n_samples, epsilon : its options
        M = 11, M_hist = 10, 200 samples (Table 1, Section 6); epsilon is not stated. CIFAR: M = 50,
        M_hist = 25. hist_fraction is N_hist / N (natural clients: M_hist / M, and n_historical is
        neither used nor bounded): 0.05, 0.2, 0.5.
    model : str
        One of `sflkit.models.NAMES`; hidden (mlp: tuple; cnn, char_rnn: int), channels and padding
        (cnn), width (mobilenetv2, vgg16): None takes the model's own. "2 CNN + 2 FC" of CIFAR is
        cnn with hidden=2048, padding=0 (Table 3).
    rounds : int
        T >= 1. Not stated; the axes of Fig. 3 end at 800.
    local_steps, batch_size : int
        E >= 1 and K >= 1. Not stated.
    c_ratio : float or None
        c2 / c1 >= 0 of the arm "ours": 0.092 (Table 2, synthetic); CIFAR-10 0.150, CIFAR-100 0.284,
        FEMNIST 0.001, Shakespeare 0.064.
    server : one of SERVERS
        "fedprox" has prox = 0.1 (Appendix E).
    prox : float
        mu >= 0 of "fedprox".
    radius : float or None
        Theta is the ball of this radius > 0 around the initial model; None leaves out the
        projection. The paper states neither the centre nor the radius, but measures distances from
        the initial model (C.6).
    participation : int or None
        Clients drawn per round, without replacement from those available; None takes all, as
        Section 6 does.
    availability : one of AVAILABILITY
        "stream": a fresh client's samples arrive evenly over the T rounds. "1", "2": it is there,
        with all its samples, in one round (FEMNIST), or in two consecutive ones, or one if that is
        the last (Shakespeare).
    evaluate_every : int
        Rounds between evaluations; the last round is always evaluated.
    validation : float
        In [0, 1): this share of every client's samples is held out and is the test set; 0 tests on
        the real one.
    """

    arms: tuple[str, ...] = ("uniform", "historical", "fresh", "ours")
    rates: tuple[float, ...] = (0.1, 0.1, 0.1, 0.1)
    seed: int = 0
    data: str = "logistic"
    n_clients: int | None = 11
    n_historical: int | None = 10
    hist_fraction: float = 0.2
    n_samples: int | None = None
    epsilon: float = 0.1
    model: str = "linear"
    hidden: int | tuple[int, ...] | None = None
    channels: tuple[int, int] | None = None
    padding: int | None = None
    width: float | None = None
    rounds: int = 100
    local_steps: int = 5
    batch_size: int = 32
    c_ratio: float | None = 0.092
    server: str = "fedavg"
    prox: float = 0.1
    radius: float | None = None
    participation: int | None = None
    availability: str = "stream"
    evaluate_every: int = 10
    validation: float = 0.0

    def __post_init__(self):
        object.__setattr__(self, "arms", tuple(self.arms))
        object.__setattr__(
            self, "rates", tuple(checks.real("rates", r, above=0) for r in self.rates)
        )
        if not self.arms or len(self.arms) != len(self.rates):
            raise ValueError(
                f"arms={self.arms!r} and rates={self.rates!r} must have one entry an arm, and at least one"
            )
        for arm in self.arms:
            parse_arm(arm)
        if "ours" in self.arms:
            checks.real("c_ratio", self.c_ratio, 0)
        for name, allowed in (
            ("data", federations.NAMES),
            ("server", SERVERS),
            ("availability", AVAILABILITY),
        ):
            checks.choice(name, getattr(self, name), allowed)
        natural = self.data in federations.NATURAL
        for name, low, high, optional in (
            ("seed", 0, None, False),
            ("rounds", 1, None, False),
            ("local_steps", 1, None, False),
            ("batch_size", 1, None, False),
            ("evaluate_every", 1, None, False),
            ("n_clients", 2, None, natural),
            (
                "n_historical",
                *((None, None, True) if natural else (1, (self.n_clients or 2) - 1, False)),
            ),
            ("n_samples", 2, None, True),
            ("participation", 1, self.n_clients, True),
        ):  # stored as int: 5 and 5.0 are one config with one result
            if not (optional and getattr(self, name) is None):
                object.__setattr__(self, name, checks.integer(name, getattr(self, name), low, high))
        checks.real("hist_fraction", self.hist_fraction, above=0, below=1)
        checks.real("prox", self.prox, 0)
        checks.real("epsilon", self.epsilon, 0)
        checks.real("validation", self.validation, 0, below=1)
        if self.radius is not None:
            checks.real("radius", self.radius, above=0)


def parse_arm(arm: str) -> tuple[str, float | None]:
    if arm in STRATEGIES:
        return arm, None
    try:
        name, value = arm.split("=")
        if name != "p_hist":
            raise ValueError
        return "fixed", checks.real("p_hist", float(value), 0, 1)
    except (AttributeError, ValueError):
        allowed = ", ".join(map(repr, STRATEGIES))
        raise ValueError(
            f"arms holds {arm!r}; an arm is one of {allowed} or 'p_hist=x' with x in [0, 1]"
        ) from None
