"""The settings of a data-streams run.

Source: FDS (Federated Learning for Data Streams), Sections 5 and 6, Appendices D and E.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import model_validator

from sflkit import checks
from sflkit.config import Count, NotNegative, Number, OneOf, Positive, Seed, Whole, settings
from sflkit.data import federations
from sflkit.datastreams import strategies
from sflkit.datastreams.arrivals import AVAILABILITY


@settings
class DataStreamsConfig:
    """One run: several arms, each a strategy at a local rate, on one federation.

    The defaults are the synthetic task of FDS with N_hist / N = 20 %.

    Parameters
    ----------
    arms : tuple of str
        Names in `sflkit.datastreams.strategies.RULES`, or "p_hist=x" with x in [0, 1]. The paper's
        "Optimal" is the best of x in 0, 0.2, 0.5, 0.8, 1.
    rates : tuple of float
        Local rate eta > 0 of each arm. The same arm may occur with several rates, as in the paper's
        grid search over 10^-3.5 to 10^-1 in steps of half a decade (Appendix D.2).
    seed : int
        >= 0.
    data : str
        One of `sflkit.data.federations.NAMES`.
    n_clients, n_historical : int or None
        M >= 2 clients, of which M_hist in [1, M - 1] are historical. The paper has 11 and 10 on
        synthetic data, 50 and 25 on CIFAR. With natural clients (writers, roles) None takes all of
        them, and n_historical is neither used nor bounded, since hist_fraction decides.
    hist_fraction : float
        N_hist / N in (0, 1), the share of the samples that is historical; with natural clients
        M_hist / M. The paper has 0.05, 0.2 and 0.5.
    n_samples : int or None
        >= 2 training samples of all clients together; None takes all (synthetic: 200, Table 1).
    epsilon : float
        >= 0, spread of the clients' true weights in the synthetic task; not stated in the paper.
    model : str
        A name in `sflkit.models.NETWORKS`.
    hidden, channels, padding, width
        Options of the model: hidden of mlp (tuple of int) and of cnn, char_rnn and char_mlp (int),
        channels and padding of cnn, width of mobilenetv2 and vgg16. None takes the model's own
        value. The paper's "2 CNN + 2 FC" of CIFAR is cnn with hidden=2048, padding=0 (Table 3).
    rounds : int
        T >= 1. The paper does not state it; the axes of Fig. 3 end at 800.
    local_steps, batch_size : int
        E >= 1 and K >= 1. The paper states neither.
    c_ratio : float or None
        c2 / c1 >= 0 of the arm "ours", which needs it. Table 2 has 0.092 for synthetic data, 0.150
        for CIFAR-10, 0.284 for CIFAR-100, 0.001 for FEMNIST, 0.064 for Shakespeare.
    server : str
        A name in `sflkit.federated.servers.RULES`. The paper has "fedavg", and in Appendix E
        "fedprox" and "scaffold"; the others run with their default values.
    prox : float
        mu >= 0 of "fedprox"; 0.1 in Appendix E. The other servers do not use it.
    radius : float or None
        > 0; after every round a model is projected into the ball of this radius around the initial
        model. None leaves out the projection. The paper states neither centre nor radius of its
        set Theta, but measures distances from the initial model (Appendix C.6).
    participation : int or None
        Clients drawn in each round, in [1, M], without replacement from those available. None takes
        all of them, as Section 6 does.
    availability : {"stream", "1", "2"}
        "stream": the samples of a fresh client arrive evenly over the T rounds. "1" and "2": a
        fresh client is there, with all its samples, in one round (FEMNIST) or in two consecutive
        ones, or in one if that is the last (Shakespeare).
    evaluate_every : int
        >= 1 rounds between evaluations; the last round is always evaluated.
    validation : float
        In [0, 1): this share of every client's samples is held out and is the test set; with 0 the
        real test set is.

    Raises
    ------
    ValueError
        If a value is out of range, or two of them do not fit together.
    """

    arms: tuple[str, ...] = ("uniform", "historical", "fresh", "ours")
    rates: tuple[Positive, ...] = (0.1, 0.1, 0.1, 0.1)
    seed: Seed = 0
    data: Annotated[str, OneOf(federations.NAMES)] = "logistic"
    n_clients: Annotated[int, Whole(2)] | None = 11
    n_historical: Annotated[int, Whole()] | None = 10
    hist_fraction: Annotated[float, Number(above=0, below=1)] = 0.2
    n_samples: Annotated[int, Whole(2)] | None = None
    epsilon: NotNegative = 0.1
    model: str = "linear"
    hidden: Count | tuple[Count, ...] | None = None
    channels: tuple[Count, Count] | None = None
    padding: Annotated[int, Whole(0)] | None = None
    width: Positive | None = None
    rounds: Count = 100
    local_steps: Count = 5
    batch_size: Count = 32
    c_ratio: NotNegative | None = 0.092
    server: str = "fedavg"  # its names are looked up below, since servers load torch
    prox: NotNegative = 0.1
    radius: Positive | None = None
    participation: Count | None = None
    availability: Annotated[str, OneOf(AVAILABILITY)] = "stream"
    evaluate_every: Count = 10
    validation: Annotated[float, Number(0, below=1)] = 0.0

    @model_validator(mode="after")
    def _agree(self) -> DataStreamsConfig:
        from sflkit.federated import servers

        checks.choice("server", self.server, servers.RULES)
        self._check_arms()
        if self.data not in federations.NATURAL:
            checks.integer("n_clients", self.n_clients, 2)
            checks.integer("n_historical", self.n_historical, 1, self.n_clients - 1)
        if self.participation is not None:
            checks.integer("participation", self.participation, 1, self.n_clients)
        return self

    def _check_arms(self) -> None:
        if not self.arms or len(self.arms) != len(self.rates):
            raise ValueError(
                f"arms={self.arms!r} and rates={self.rates!r} must have one entry per arm, and at "
                "least one"
            )
        names = [strategies.parse_arm(arm)[0] for arm in self.arms]
        if any("c_ratio" in strategies.RULES[name].options for name in names):
            checks.real("c_ratio", self.c_ratio, 0)
