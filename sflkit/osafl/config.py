"""The settings of an OSAFL run. Source: OSAFL, Section V-A and Appendix D-B."""

from __future__ import annotations

from typing import Annotated

from pydantic import model_validator

from sflkit import checks
from sflkit.config import Count, NotNegative, Number, OneOf, Positive, Seed, Whole, settings
from sflkit.osafl.rules import NETWORKS, NEVER_JOINED, RULES

# The rules' own hyper-parameters, beside the local rate that all of them have.
HYPER = ("global_rate", "mu", "slowdown", "a", "b")

# What a config says of the network's size; each goes to the builder of that name.
SIZE_FIELDS = ("hidden", "channels", "layers", "embedding")

# At most 26 samples arrive in a store before a round (OSAFL, Section V-A), so that a store that
# holds this many is never renewed as a whole.
SMALLEST_STORE = 27


@settings
class OSAFLConfig:
    """One run of one rule. Sizes are OSAFL's, Section V-A.

    Parameters
    ----------
    rule : one of `rules.RULES`
        "m_fednova" is Algorithm 8 with this round's steps, "m_fednova_latest" with every client's
        latest ones, "fednova" the rule of its authors (ERRATA 41); "genie" trains centrally.
    never_joined : {"exclude", "zero", "literal"}
        What stands for a client that has sent nothing yet, see `sflkit.osafl.rules`. M-FedAvg,
        M-FedProx and M-FedDisco as printed are "literal"; FedNova and the genie do not use it.
    seed : int
        >= 0.
    dataset : {1, 2}
        Features of the last request, or the last 10 labels.
    top_k : int
        K, similar files a staying user picks from, 1 to 19.
    features : {"synthetic", "cifar100", "cifar100-complete"}
        The files' images: the data set's first of each class in the paper.
    model : str
        Name of `sflkit.models`.
    preset : {None, "fcn", "squeezenet1", "cnn", "lstm"}
        The column of printed rates. None takes the one in the model's name, else "fcn" for
        Dataset-1 and "lstm" for Dataset-2.
    hidden, channels, layers, embedding : int, tuple of int or None
        Sizes of the network, as far as the model's builder takes them; None: its defaults.
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
        Steps of the genie in a round.
    allocator : {"joint", "alternating", "none"}
        `allocation.allocate`'s method, or max_steps for all.
    payload_bits : float or None
        >= 0; None: 33 bits per parameter of the model.
    capacity_low, capacity_high : int
        D_u is uniform between them, 320 and 640. A store holds at least 27 samples, more than can
        arrive before a round, and those of a local round, which uses none twice.
    test_size : int
        Test requests.
    evaluate_every : int
        Rounds between evaluations; the last round is always evaluated.

    Raises
    ------
    ValueError
        If a value is not allowed; the message names the field, the value and what is allowed.
    """

    rule: Annotated[str, OneOf(RULES)] = "osafl"
    never_joined: Annotated[str, OneOf(NEVER_JOINED)] = "exclude"
    seed: Seed = 0
    dataset: Annotated[int, OneOf((1, 2))] = 1
    top_k: Annotated[int, Whole(1, 19)] = 1
    features: Annotated[str, OneOf(("synthetic", "cifar100", "cifar100-complete"))] = "synthetic"
    model: str = "mlp"
    preset: Annotated[str | None, OneOf((None, *NETWORKS))] = None
    hidden: Count | tuple[Count, ...] | None = None
    channels: Count | tuple[Count, ...] | None = None
    layers: Count | tuple[Count, ...] | None = None
    embedding: Count | tuple[Count, ...] | None = None
    input_norm: Positive | None = 20.0
    n_clients: Count = 100
    rounds: Count = 100
    rate: Positive | None = None
    global_rate: Positive | None = None
    mu: NotNegative | None = None
    slowdown: Positive | None = None
    a: NotNegative | None = None
    b: NotNegative | None = None
    chi: Annotated[float, Number(1)] = 1.0
    minibatches: Count = 32
    minibatch: Count = 5
    local_round: Annotated[str, OneOf(("gradient", "minibatches"))] = "gradient"
    max_steps: Count = 5
    genie_steps: Count = 100
    allocator: Annotated[str, OneOf(("joint", "alternating", "none"))] = "joint"
    payload_bits: NotNegative | None = None
    capacity_low: Count = 320
    capacity_high: Count = 640
    test_size: Count = 2000
    evaluate_every: Count = 1

    @model_validator(mode="after")
    def _agree(self) -> OSAFLConfig:
        least = max(SMALLEST_STORE, self.minibatches * self.minibatch)
        checks.integer("capacity_low", self.capacity_low, least)
        checks.integer("capacity_high", self.capacity_high, self.capacity_low)
        for name in HYPER:
            value = getattr(self, name)
            if value is not None and name not in RULES[self.rule].options:
                raise ValueError(
                    f"{name}={value!r} has no meaning for rule={self.rule!r}; it must be None"
                )
        return self

    @property
    def hyper(self) -> dict[str, float]:
        """The local rate and the rule's own parameters: those given, else the preset's.

        Raises
        ------
        ValueError
            If one is neither given nor printed, as for a rule that was added without presets.
        """
        rule, found = RULES[self.rule], {}
        printed = rule.presets.get(self.column, {})
        for name in ("rate", *(name for name in HYPER if name in rule.options)):
            value = getattr(self, name)
            found[name] = printed.get(name) if value is None else value
            if found[name] is None:
                raise ValueError(
                    f"{name}=None must be a number for rule={self.rule!r}, of which no values are "
                    f"printed for {self.column!r}"
                )
        return found

    @property
    def column(self) -> str:
        """The heading of the printed rates that the run takes."""
        named = [name for name in NETWORKS if name in self.model]
        return self.preset or (named[0] if named else ("fcn", "lstm")[self.dataset - 1])
