"""The settings of the FATS experiments, and the sizes of the paper's Table 2.

Source: FATS, Sections 6.1 and 6.2, Appendix A.
"""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import model_validator

from sflkit import checks
from sflkit.config import (
    Count,
    Flag,
    NotNegative,
    Number,
    OneOf,
    Positive,
    Seed,
    Share,
    Whole,
    settings,
)
from sflkit.data import federations
from sflkit.fats.first_uses import LEVELS
from sflkit.fats.forgetting import RULES
from sflkit.fats.methods import METHODS
from sflkit.fats.sgd import Momentum, Reduction

# All data sets but the synthetic task of the data-streams paper, which comes first.
DATA = federations.NAMES[1:]
# The networks of the membership experiment.
MODELS = ("linear", "mlp", "cnn", "small_cnn", "lenet")

# FATS, Table 2: sizes of the paper's experiments. Samples per client are the mean, rounded down;
# images have 60 000 (ERRATA 21).
_SIZES = "n_clients samples_per_client clients_per_round rounds local_steps batch_size".split()
TABLE_2 = {
    name: dict(zip(_SIZES, sizes))
    for name, sizes in {
        "mnist": (300, 200, 5, 30, 10, 10),
        "fmnist": (300, 200, 5, 50, 10, 10),
        "cifar10": (600, 100, 5, 50, 10, 10),
        "cifar100": (600, 100, 10, 50, 10, 10),
        "femnist": (3556, 228, 5, 350, 20, 10),
        "shakespeare": (660, 5573, 20, 30, 100, 60),
    }.items()
}


@settings
class FATSConfig:
    """One run of one method. The default sizes are those of MNIST in FATS, Table 2; what the paper
    does not state is said.

    Parameters
    ----------
    method : {"fats", "frs", "fr2"} or another name in `methods.METHODS`
    level : {"sample", "client"}
        What is forgotten.
    n_requests : int
        >= 1; the paper has 10 for MNIST and FEMNIST, 5 for the others, 1 in Figs. 2 and 6, 1-10 in
        Fig. 3.
    streaming : bool
        False: all at once (Section 6.2.1); True: one after another (Appendix A.5).
    per_request : int
        Samples or clients that each request of a stream asks for, a divisor of `n_requests`. Only
        with training.
    interval : int
        Rounds between two requests of a stream, recovered or not; 0 (default): each comes when the
        one before is served. The paper does not state it. Only with training.
    rule : {"exact", "printed", "minimal", "claim1"} or another name in `forgetting.RULES`
        How FATS's history forgets a sample (ERRATA 13, 16); without training always "exact".
    seed : int
        >= 0.
    data, model : str
        Names of `sflkit.data.federations` and `sflkit.models`; `width` scales "vgg16" and
        "mobilenetv2". "char_rnn" is the LSTM of Section 6.1.2.
    n_clients : int or None
        M = 300 for MNIST in Table 2, 100 in the text (ERRATA 21); None for all clients of a set
        with natural ones.
    samples_per_client : int or None
        N, at least `batch_size`; None: what the data give, an even share for images. Must be given
        without training for samples (200 for MNIST).
    n_samples : int or None
        Cap of the training samples in all.
    min_samples : int
        Least samples of a natural client: 100 (Section 6.1.1); `batch_size` at least in any case.
    alpha : float
        > 0, Dirichlet parameter of the label mixes, 0.5.
    clients_per_round, batch_size, local_steps, rounds : int
        K, b, E, R.
    request_round : int or None
        Rounds after which the requests come, in [1, rounds]; None: after all. The paper chooses it
        by eye, when accuracy is stable. With an `interval` the other rounds are trained meanwhile,
        without one they are left out.
    rate : float
        eta > 0; 0.001 for images, 0.8 for Shakespeare (Section 6.1.2).
    reduction, momentum, weight_decay
        Of the local steps, see `sgd.SGD`: the mean and no momentum are printed (Algorithm 1, line
        16); the authors' released repository has momentum 0.9 and weight decay 1e-4.
    fisher_rate, fisher_momentum, fisher_decay, fisher_damping : float
        FR2's retraining (ERRATA 47), see `sgd.Fisher`; not stated.
    checkpoint_every : int
        k >= 1: a global model is kept before every k-th round.
    test_size : int
        At most so many test samples, drawn at random.
    evaluate_every : int
        Rounds between evaluations; models before and after a request and the last are always
        evaluated.
    train : bool
        False follows only who trains on what: no data set, no model.
    runs : int
        Histories of a run without training.

    Raises
    ------
    ValueError
        If a setting is out of range, or settings do not fit together.
    """

    method: Annotated[str, OneOf(METHODS)] = "fats"
    level: Annotated[str, OneOf(LEVELS)] = "sample"
    n_requests: Count = 10
    streaming: Flag = False
    interval: Annotated[int, Whole(0)] = 0
    rule: Annotated[str, OneOf(RULES)] = "exact"
    seed: Seed = 0
    data: Annotated[str, OneOf(DATA)] = "mnist"
    model: str = "cnn"
    width: Positive = 1.0
    n_clients: Count | None = 300
    samples_per_client: Count | None = None
    n_samples: Count | None = None
    min_samples: Count = 100
    alpha: Positive = 0.5
    clients_per_round: Count = 5
    batch_size: Count = 10
    local_steps: Count = 10
    rounds: Count = 30
    request_round: Count | None = None
    rate: Positive = 0.001
    fisher_rate: Positive = 0.001
    fisher_momentum: Momentum = 0.9
    fisher_decay: Momentum = 0.999
    fisher_damping: Positive = 0.01
    checkpoint_every: Count = 1
    test_size: Count = 2000
    evaluate_every: Count = 1
    train: Flag = True
    runs: Count = 1000
    reduction: Reduction = "mean"
    momentum: Momentum = 0.0
    weight_decay: NotNegative = 0.0
    per_request: Count = 1
    # Fields that came after results had been published, and what all earlier runs had there.
    LATER: ClassVar = {
        "reduction": "mean",
        "momentum": 0.0,
        "weight_decay": 0.0,
        "per_request": 1,
    }

    @model_validator(mode="after")
    def _agree(self) -> FATSConfig:
        if self.request_round is not None:
            checks.integer("request_round", self.request_round, 1, self.rounds)
        if self.samples_per_client is not None:
            checks.integer("samples_per_client", self.samples_per_client, self.batch_size)
        if not self.train:
            self._check_without_data()
        if self.interval and not (self.streaming and self.train):
            raise ValueError(
                f"interval={self.interval} must be 0 unless streaming and train are True"
            )
        streamed = self.streaming and self.train
        if self.per_request > 1 and (self.n_requests % self.per_request or not streamed):
            raise ValueError(
                f"per_request={self.per_request} must divide n_requests={self.n_requests}, and be "
                "1 unless streaming and train are True"
            )
        return self

    def _check_without_data(self) -> None:
        counted = self.level == "client" or self.samples_per_client is not None
        if self.n_clients is None or not counted:
            raise ValueError(
                f"n_clients={self.n_clients} and samples_per_client={self.samples_per_client} must "
                "be given without training, since no data are read"
            )
        again = METHODS[self.method].build().from_scratch  # by FedAvg, whose clients differ
        if again and self.clients_per_round > self.n_clients:
            raise ValueError(
                f"clients_per_round={self.clients_per_round} must be at most "
                f"n_clients={self.n_clients}"
            )


@settings
class MembershipConfig:
    """One training, its unlearning by several methods, and the attacks. Sizes are the paper's for
    MNIST; the rest is ours.

    Parameters
    ----------
    seed : int
        >= 0.
    population_seed : int
        >= 0; the clients, the false labels, and the attacker with his shadows.
    methods : tuple of names in `methods.METHODS`
        "fats", "frs", "fr2".
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
    mirror : bool
        Whether forgotten and unseen samples swap their roles, with all else drawn as without.

    Raises
    ------
    ValueError
        If a setting is out of range, or settings do not fit together.
    """

    seed: Seed = 0
    population_seed: Seed = 0
    methods: tuple[Annotated[str, OneOf(METHODS)], ...] = ("fats", "frs", "fr2")
    levels: tuple[Annotated[str, OneOf(LEVELS)], ...] = ("sample",)
    forget_share: Annotated[float, Number(above=0, below=1)] = 1 / 3
    data: Annotated[str, OneOf(DATA)] = "mnist"
    model: Annotated[str, OneOf(MODELS)] = "cnn"
    hidden: Count = 64
    n_clients: Annotated[int, Whole(2)] | None = 100
    samples_per_client: Count | None = 300
    min_samples: Count = 24
    clients_per_round: Count = 5
    batch_size: Count = 10
    local_steps: Count = 10
    rounds: Count = 30
    rate: Positive = 0.001
    noise: Share = 0.0
    n_shadows: Count = 4
    repeats: Annotated[int, Whole(2)] = 100
    mirror: Flag = False

    @model_validator(mode="after")
    def _agree(self) -> MembershipConfig:
        for name, allowed in (("methods", METHODS), ("levels", LEVELS)):
            values = getattr(self, name)
            if not values or len(set(values)) < len(values):
                raise ValueError(
                    f"{name}={values!r} must hold at least one of "
                    f"{', '.join(map(repr, allowed))}, none twice"
                )
        if self.data not in federations.NATURAL:  # no clients of their own: sizes must be given
            checks.integer("n_clients", self.n_clients, 2)
            checks.integer("samples_per_client", self.samples_per_client, 1)
        return self

    @property
    def sizes(self) -> dict[str, int]:
        """K, b, E and R, as `history.draw_history` takes them."""
        names = ("clients_per_round", "batch_size", "local_steps", "rounds")
        return {name: getattr(self, name) for name in names}
