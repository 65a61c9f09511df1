"""The settings of a FATS run, and the sizes of the paper's Table 2. Source: FATS, Sections 6.1 and
6.2, Appendix A.
"""

from __future__ import annotations

from dataclasses import dataclass

from sflkit import checks
from sflkit.data import federations
from sflkit.fats.first_uses import LEVELS
from sflkit.fats.forgetting import RULES

METHODS = ("fats", "frs", "fr2")


_AT_LEAST_ONE = (
    "n_requests",
    "n_clients",
    "min_samples",
    "clients_per_round",
    "batch_size",
    "local_steps",
    "rounds",
    "checkpoint_every",
    "test_size",
    "evaluate_every",
    "runs",
)


# FATS, Table 2: sizes of the paper's experiments. Samples a client are the mean, rounded down;
# images have 60 000 (ERRATA 21).
TABLE_2 = {
    "mnist": dict(
        n_clients=300,
        samples_per_client=200,
        clients_per_round=5,
        rounds=30,
        local_steps=10,
        batch_size=10,
    ),
    "fmnist": dict(
        n_clients=300,
        samples_per_client=200,
        clients_per_round=5,
        rounds=50,
        local_steps=10,
        batch_size=10,
    ),
    "cifar10": dict(
        n_clients=600,
        samples_per_client=100,
        clients_per_round=5,
        rounds=50,
        local_steps=10,
        batch_size=10,
    ),
    "cifar100": dict(
        n_clients=600,
        samples_per_client=100,
        clients_per_round=10,
        rounds=50,
        local_steps=10,
        batch_size=10,
    ),
    "femnist": dict(
        n_clients=3556,
        samples_per_client=228,
        clients_per_round=5,
        rounds=350,
        local_steps=20,
        batch_size=10,
    ),
    "shakespeare": dict(
        n_clients=660,
        samples_per_client=5573,
        clients_per_round=20,
        rounds=30,
        local_steps=100,
        batch_size=60,
    ),
}


@dataclass(frozen=True)
class FATSConfig:
    """One run of one method. Sizes are those of MNIST in FATS, Table 2; what the paper does not
    state is said.

    Parameters
    ----------
    method : {"fats", "frs", "fr2"}
    level : {"sample", "client"}
        What is forgotten.
    n_requests : int
        >= 1; the paper has 10 for MNIST and FEMNIST, 5 for the others, 1 in Figs. 2 and 6, 1-10 in
        Fig. 3.
    streaming : bool
        False: all at once (Section 6.2.1); True: one after another (Appendix A.5).
    interval : int
        Rounds between two requests of a stream, recovered or not; 0 (default): each comes when the
        one before is served. The paper does not state it. Only with training.
    rule : {"exact", "printed", "minimal"}
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
        N; None: what the data give, an even share for images. Must be given without training for
        samples (200 for MNIST).
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
        by eye, when accuracy is stable.
    rate : float
        eta > 0; 0.001 for images, 0.8 for Shakespeare (Section 6.1.2).
    fisher_rate, fisher_momentum, fisher_decay, fisher_damping : float
        FR2's retraining (ERRATA 47), see `baselines.Fisher`; not stated.
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
    """

    method: str = "fats"
    level: str = "sample"
    n_requests: int = 10
    streaming: bool = False
    interval: int = 0
    rule: str = "exact"
    seed: int = 0
    data: str = "mnist"
    model: str = "cnn"
    width: float = 1.0
    n_clients: int | None = 300
    samples_per_client: int | None = None
    n_samples: int | None = None
    min_samples: int = 100
    alpha: float = 0.5
    clients_per_round: int = 5
    batch_size: int = 10
    local_steps: int = 10
    rounds: int = 30
    request_round: int | None = None
    rate: float = 0.001
    fisher_rate: float = 0.001
    fisher_momentum: float = 0.9
    fisher_decay: float = 0.999
    fisher_damping: float = 0.01
    checkpoint_every: int = 1
    test_size: int = 2000
    evaluate_every: int = 1
    train: bool = True
    runs: int = 1000

    def __post_init__(self):
        for name, allowed in (
            ("method", METHODS),
            ("level", LEVELS),
            ("rule", RULES),
            ("data", federations.NAMES[1:]),
            ("streaming", (False, True)),
            ("train", (False, True)),
        ):
            checks.choice(name, getattr(self, name), allowed)
        lowest = (
            {"seed": 0, "interval": 0}
            | dict.fromkeys(_AT_LEAST_ONE, 1)
            | {"samples_per_client": 1, "n_samples": 1}
        )
        checks.integer_fields(
            self, lowest, optional=("n_clients", "samples_per_client", "n_samples")
        )
        if self.request_round is not None:
            object.__setattr__(
                self,
                "request_round",
                checks.integer("request_round", self.request_round, 1, self.rounds),
            )
        for name in ("alpha", "rate", "fisher_rate", "fisher_damping", "width"):
            checks.real(name, getattr(self, name), above=0)
        for name in ("fisher_momentum", "fisher_decay"):
            checks.real(name, getattr(self, name), 0, below=1)
        if self.samples_per_client is not None:
            checks.integer("samples_per_client", self.samples_per_client, self.batch_size)
        if not self.train:
            if self.n_clients is None or (
                self.level == "sample" and self.samples_per_client is None
            ):
                raise ValueError(
                    f"n_clients={self.n_clients} and samples_per_client={self.samples_per_client} must be given "
                    "without training, since no data are read"
                )
            if self.method != "fats" and self.clients_per_round > self.n_clients:
                raise ValueError(
                    f"clients_per_round={self.clients_per_round} must be at most n_clients={self.n_clients}"
                )
        if self.interval and not (self.streaming and self.train):
            raise ValueError(
                f"interval={self.interval} must be 0 unless streaming and train are True"
            )
