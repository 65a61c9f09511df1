"""The settings of a streaming-FL run. Source: SFL, Section VI and supplement."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import model_validator

from sflkit import checks
from sflkit.config import Count, Flag, OneOf, Positive, Seed, Share, settings
from sflkit.data import catalogue
from sflkit.sfl.caches import RULES


@settings
class SFLConfig:
    """One run of one cache rule. Defaults are the FMNIST setting of SFL, Section VI (Fig. 4b).

    Parameters
    ----------
    rule : str
        A name in `sflkit.sfl.caches.RULES`; "full" is static, "full_refreshed" renews its samples
        each round.
    seed : int
        >= 0.
    data, model : str
        Names of `sflkit.data` and `sflkit.models`; `width` scales "mobilenetv2".
    superclasses : bool
        Learn the coarse labels (20 for CIFAR-100; supplement).
    n_clients, classes_per_client, n_states : int
        K = 10, C = 3, S = 10 short-term distributions (Section VI).
    temperature : float
        > 0, of the transition law exp(-KL / temperature), which the paper leaves open (ERRATA 12);
        with 0.2 the label shares of successive rounds have a correlation near 0.45.
    common : bool
        True gives all clients the states and the path of the first one, so that their label errors
        do not average out; the paper's clients are independent.
    exact_counts : bool
        False draws the labels of a round from the short-term distribution, True rounds its shares.
    capacity, batch_size : int
        B = 300 and B_s = 150 samples.
    theta : float
        SRSR's weight, 2/3.
    rounds, local_steps : int
        T, which the paper's text does not state (its curves run past 200), and E = 2 full-batch
        steps.
    local_rate, global_rate : float
        eta_L = 0.1 for FMNIST, 0.01 for NTC and CIFAR-100; eta = 1 (supplement).
    test_size : int
        At most so many test samples, drawn to the network's long-term mixture; fewer where a class
        of the test set runs short (`attrs["data"]["test_size"]` has the number). Not stated in the
        paper.
    evaluate_every : int
        Rounds between evaluations; the last round is always evaluated.
    train : bool
        False follows only the caches: no model, no data set, milliseconds per round.
    n_classes : int
        R of a run without training; with training the data set says.
    """

    LATER: ClassVar[dict[str, object]] = {"common": False}

    rule: Annotated[str, OneOf(RULES)] = "drsr"
    seed: Seed = 0
    data: Annotated[str, OneOf(catalogue.WITHOUT_CLIENTS)] = "fmnist"
    model: str = "lenet"
    width: Positive = 1.0
    superclasses: Flag = False
    n_clients: Count = 10
    classes_per_client: Count = 3
    n_states: Count = 10
    temperature: Positive = 0.2
    common: Flag = False
    exact_counts: Flag = False
    capacity: Count = 300
    batch_size: Count = 150
    theta: Share = 2 / 3
    rounds: Count = 200
    local_steps: Count = 2
    local_rate: Positive = 0.1
    global_rate: Positive = 1.0
    test_size: Count = 2000
    evaluate_every: Count = 1
    train: Flag = True
    n_classes: Count = 10

    @model_validator(mode="after")
    def _fields_agree(self) -> SFLConfig:
        checks.integer("batch_size", self.batch_size, 1, self.capacity)
        if not self.train:  # with training, the number of classes is the data set's
            checks.integer("classes_per_client", self.classes_per_client, 1, self.n_classes)
        return self
