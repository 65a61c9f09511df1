"""The settings of an OSAFL run, and which options each server rule has. Source: OSAFL, Section V-A."""

from __future__ import annotations

from dataclasses import dataclass

from sflkit import checks

RULES = (
    "osafl",
    "m_fedavg",
    "m_fedprox",
    "m_fednova",
    "fednova",
    "m_afa_cd",
    "m_feddisco",
    "genie",
)


# options of a rule beside the local rate
OPTIONS = {
    "osafl": ("global_rate",),
    "m_fedavg": (),
    "m_fedprox": ("mu",),
    "m_fednova": ("slowdown",),
    "fednova": (),
    "m_afa_cd": ("global_rate",),
    "m_feddisco": ("a", "b"),
    "genie": (),
}


PRESET_NAMES = ("fcn", "squeezenet1", "cnn", "lstm")


BITS_A_PARAMETER = 33  # OSAFL, Section II-C: N (FPP + 1)


SIZE_FIELDS = ("hidden", "channels", "layers", "embedding")


@dataclass(frozen=True)
class OSAFLConfig:
    """One run of one rule. Sizes are OSAFL's, Section V-A.

    Parameters
    ----------
    rule : one of RULES
        "m_fednova" is Algorithm 8 as printed, "fednova" the rule of its authors (ERRATA 41);
        "genie" trains centrally.
    never_joined : {"exclude", "zero", "literal"}
        What stands for a client that has sent nothing yet, see `sflkit.osafl.rules`. M-FedAvg,
        M-FedProx and M-FedDisco as printed are "literal"; FedNova and the genie do not use it.
    seed : int
        >= 0.
    dataset : {1, 2}
        Features of the last request, or the last 10 labels.
    top_k : int
        K, similar files a staying user picks from, 1 to 19.
    features : {"synthetic", "cifar100"}
        The files' images: the data set's first of each class in the paper.
    model : str
        Name of `sflkit.models`; `preset` names the column of `rules.PRESETS`, by default the one in
        the model's name, else "fcn" for Dataset-1 and "lstm" for Dataset-2.
    input_norm : float or None
        > 0. Dataset-1's features are standardised over the files (those of the user: over the
        users) and scaled to this root mean square norm; None leaves them raw, genre ids up to 4 in
        70 columns. The paper does not say what its networks get. Raw inputs stop the ReLUs of a
        perceptron within a few rounds; with 20 the genie is near the ceiling after five.
    n_clients, rounds : int
        U = 100, T = 100.
    rate, global_rate, mu, slowdown, a, b : float or None
        Local rate eta and the rule's own parameters, > 0 (mu, a, b >= 0); None: the preset's
        ("fednova" and "genie" take M-FedAvg's rate). An option that the rule does not have must be
        None.
    chi : float
        >= 1, OSAFL's shift of the cosine; the paper leaves it open.
    minibatches, minibatch : int
        n = 32 mini-batches of n-bar = 5 samples in a local round.
    local_round : {"gradient", "minibatches"}
        One step on all n n-bar samples, or n steps (ERRATA 43).
    max_steps : int
        kappa = 5 local rounds at most.
    genie_steps : int
        Steps a round of the genie.
    allocator : {"joint", "alternating", "none"}
        `allocation.allocate`'s method, or max_steps for all.
    payload_bits : float or None
        >= 0; None: 33 bits a parameter of the model.
    capacity_low, capacity_high : int
        D_u is uniform between them, 320 and 640.
    test_size : int
        Test requests.
    evaluate_every : int
        Rounds between evaluations; the last round is always evaluated.
    """

    rule: str = "osafl"
    never_joined: str = "exclude"
    seed: int = 0
    dataset: int = 1
    top_k: int = 1
    features: str = "synthetic"
    model: str = "mlp"
    preset: str | None = None
    hidden: int | tuple[int, ...] | None = None
    channels: tuple[int, ...] | None = None
    layers: int | None = None
    embedding: int | None = None
    input_norm: float | None = 20.0
    n_clients: int = 100
    rounds: int = 100
    rate: float | None = None
    global_rate: float | None = None
    mu: float | None = None
    slowdown: float | None = None
    a: float | None = None
    b: float | None = None
    chi: float = 1.0
    minibatches: int = 32
    minibatch: int = 5
    local_round: str = "gradient"
    max_steps: int = 5
    genie_steps: int = 100
    allocator: str = "joint"
    payload_bits: float | None = None
    capacity_low: int = 320
    capacity_high: int = 640
    test_size: int = 2000
    evaluate_every: int = 1

    def __post_init__(self):
        for name, allowed in (
            ("rule", RULES),
            ("never_joined", ("exclude", "zero", "literal")),
            ("dataset", (1, 2)),
            ("features", ("synthetic", "cifar100")),
            ("preset", (None, *PRESET_NAMES)),
            ("local_round", ("gradient", "minibatches")),
            ("allocator", ("joint", "alternating", "none")),
        ):
            checks.choice(name, getattr(self, name), allowed)
        sizes = (
            "n_clients",
            "rounds",
            "minibatches",
            "minibatch",
            "max_steps",
            "genie_steps",
            "test_size",
            "evaluate_every",
        )
        checks.integer_fields(self, {"seed": 0} | dict.fromkeys(sizes, 1))
        object.__setattr__(self, "top_k", checks.integer("top_k", self.top_k, 1, 19))
        low = max(
            27, self.minibatches * self.minibatch
        )  # at most 26 samples arrive a round; a local round repeats none
        object.__setattr__(
            self, "capacity_low", checks.integer("capacity_low", self.capacity_low, low)
        )
        object.__setattr__(
            self,
            "capacity_high",
            checks.integer("capacity_high", self.capacity_high, self.capacity_low),
        )
        for name in ("rate", "global_rate", "mu", "slowdown", "a", "b"):
            value = getattr(self, name)
            if value is not None:
                checks.real(
                    name, value, **({"low": 0} if name in ("mu", "a", "b") else {"above": 0})
                )
                if name != "rate" and name not in OPTIONS[self.rule]:
                    raise ValueError(
                        f"{name}={value!r} has no meaning for rule={self.rule!r}; it must be None"
                    )
        for name in SIZE_FIELDS:
            value = getattr(self, name)
            if isinstance(value, (list, tuple)):
                object.__setattr__(
                    self, name, tuple(checks.integer(name, entry, 1) for entry in value)
                )
            elif value is not None:
                object.__setattr__(self, name, checks.integer(name, value, 1))
        checks.real("chi", self.chi, 1)
        if self.input_norm is not None:
            checks.real("input_norm", self.input_norm, above=0)
        if self.payload_bits is not None:
            checks.real("payload_bits", self.payload_bits, 0)

    @property
    def hyper(self) -> dict[str, float]:
        """The local rate and the rule's own parameters: those given, else the preset's."""
        from sflkit.osafl.rules import PRESETS

        named = [name for name in PRESET_NAMES if name in self.model]
        column = PRESETS[self.preset or (named[0] if named else ("fcn", "lstm")[self.dataset - 1])]
        preset = column["m_fedavg" if self.rule in ("fednova", "genie") else self.rule]
        given = {name: getattr(self, name) for name in ("rate", *OPTIONS[self.rule])}
        return {name: preset[name] if value is None else value for name, value in given.items()}
