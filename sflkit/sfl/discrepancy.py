"""The discrepancy E[(v_t - pi)^2] between a cache and its stream: exactly, and by Monte Carlo.

Source: SFL, Section IV-B, Propositions 1-3. `exact_discrepancy` computes it from the weights with
which a rule averages past rounds. `run` estimates it with the real caches: every repeat follows the
same label stream (drawn from the seed) along a path of its own, with exact counts, so that the mean
over repeats estimates the same number. What is stored is counted: samples are whole, so the
rounding of ERRATA 4, an error below one sample per label, is in these numbers.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from sflkit import checks
from sflkit.config import Count, OneOf, Positive, Seed, Share, Whole, settings
from sflkit.randomness import generator
from sflkit.registry import Registry
from sflkit.sfl import caches, streams
from sflkit.sfl.streams import LabelStream

EXPERIMENT = "sfl-discrepancy"
RESULT_VERSION = 1

# The rules whose discrepancy is measured, by the names that `exact_discrepancy` has for them. Mind
# that "srsr" is here SRSR as the paper prints it, which starts from an empty cache, and
# "srsr_filled" what `caches.RULES["srsr"]` does, which first fills the cache by appending.
RULES = Registry(
    "rule as analysed",
    {
        "fifo": caches.RULES["fifo"],
        "srsr": replace(caches.RULES["srsr"], label="SRSR, printed"),
        "srsr_filled": caches.RULES["srsr"],
        "drsr": caches.RULES["drsr"],
    },
)


@settings
class DiscrepancyConfig:
    """One cache rule over many paths of one stream.

    Parameters
    ----------
    rule : str
        A name in `RULES`, as in `exact_discrepancy`: "srsr" is the recursion as printed, v_0 = 0:
        the cache starts full of blanks, samples of no class. "srsr_filled" is the rule as
        implemented, which appends the first M rounds.
    seed : int
        Of the stream, >= 0.
    part : int
        Independent block of repeats, >= 0.
    n_clients, n_classes, classes_per_client, n_states, temperature
        The stream, see `streams.kl_markov_stream`; SFL, Section VI has 10 clients, 10 classes, 3
        per client, 10 states.
    batch_size, cache_rounds : int
        B_s samples per round and M = B / B_s.
    theta : float
        SRSR's weight in [0, 1].
    rounds, repeats : int
        T and the number of paths.
    """

    rule: Annotated[str, OneOf(RULES)] = "drsr"
    seed: Seed = 0
    part: Annotated[int, Whole(0)] = 0
    n_clients: Count = 4
    n_classes: Count = 10
    classes_per_client: Count = 3
    n_states: Count = 10
    temperature: Positive = 0.2
    batch_size: Count = 30
    cache_rounds: Count = 10
    theta: Share = 2 / 3
    rounds: Count = 60
    repeats: Count = 50


def make_stream(config: DiscrepancyConfig) -> streams.LabelStream:
    """Return the config's stream, which depends on the seed and the stream's settings only.

    Its shares lie on the 1/B_s grid, so that exact counts have these shares.
    """
    return streams.kl_markov_stream(
        n_clients=config.n_clients,
        n_classes=config.n_classes,
        classes_per_client=config.classes_per_client,
        n_states=config.n_states,
        temperature=config.temperature,
        batch_size=config.batch_size,
        rng=generator(config.seed, "stream"),
    )


def make_cache(config: DiscrepancyConfig, rng: np.random.Generator) -> caches.Cache:
    """Return a cache of the config's rule in its starting state.

    `rng` orders the blanks with which the printed SRSR starts; other rules do not use it.
    """
    capacity = config.batch_size * config.cache_rounds
    cache = RULES[config.rule].make(capacity, config.batch_size, **vars(config))
    if config.rule == "srsr":  # blanks carry the label after the last class
        cache.update(-1 - np.arange(capacity), np.full(capacity, config.n_classes), rng)
    return cache


def repeat_clients(stream: LabelStream, repeats: int) -> LabelStream:
    """Return a stream with `repeats` independent copies of each client, those of one side by side.

    Raises
    ------
    ValueError
        If the stream's clients share one path, since the copies would share it as well; if it has a
        fixed start; or for repeats < 1.
    """
    repeats = checks.integer("repeats", repeats, 1)
    _stationary("repeat_clients", stream)
    if stream.common:
        raise ValueError("stream has common=True; its clients cannot be repeated independently")
    return LabelStream(
        stream.short_term.repeat(repeats, axis=0), stream.transition.repeat(repeats, axis=0)
    )


def run(config: DiscrepancyConfig) -> pd.DataFrame:
    """Follow the rule along `repeats` paths.

    Returns
    -------
    DataFrame, one row per round, client and class that the client owns
        round (from 1), client, label, discrepancy (mean over repeats of (v_t - pi)^2), square (mean
        of its square). Rows with client = label = -1 hold the sum over clients and labels, psi_t.
    """
    stream = make_stream(config)
    copies = repeat_clients(stream, config.repeats)
    gaps = (_followed(config, copies) - copies.long_term) ** 2
    gaps = gaps.reshape(config.rounds, config.n_clients, config.repeats, config.n_classes)
    client, label = np.nonzero(stream.long_term)
    own = gaps.swapaxes(2, 3)[:, client, label]
    psi = gaps.sum(axis=(1, 3))
    own = np.concatenate([own, psi[:, None]], axis=1)  # (rounds, pairs + 1, repeats)
    client = np.append(client, -1)
    label = np.append(label, -1)
    t = np.arange(1, config.rounds + 1)
    return pd.DataFrame(
        {
            "round": t.repeat(len(client)),
            "client": np.tile(client, len(t)),
            "label": np.tile(label, len(t)),
            "discrepancy": own.mean(axis=2).ravel(),
            "square": (own**2).mean(axis=2).ravel(),
        }
    )


def _followed(config: DiscrepancyConfig, copies: LabelStream) -> np.ndarray:
    """Return the label shares v_t of the caches, (rounds, n_clients * repeats, n_classes)."""
    arrivals = generator(config.seed, "arrivals", config.part)
    counts = copies.sample(config.rounds, config.batch_size, arrivals, exact=True)
    rng = generator(config.seed, "cache", config.part)
    shares = np.empty(counts.shape)
    labels = np.arange(config.n_classes)
    for k in range(counts.shape[1]):
        cache = make_cache(config, rng)
        for t in range(config.rounds):
            ids = np.arange(config.batch_size) + config.batch_size * t
            cache.update(ids, labels.repeat(counts[t, k]), rng)
            held = cache.label_counts(config.n_classes + 1)
            shares[t, k] = held[:-1] / held.sum()
    return shares


def pool(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the means over all parts that differ in nothing else.

    Parameters
    ----------
    frame : DataFrame
        Results of `run`, beside the columns rule, cache_rounds, theta and repeats of their configs.

    Returns
    -------
    DataFrame, one row per rule, cache_rounds, theta, round, client and label
        mean and standard_error of the discrepancy, and repeats, the number of paths behind them.
    """
    by = ["rule", "cache_rounds", "theta", "round", "client", "label"]
    weighted = frame[by].assign(
        repeats=frame["repeats"],
        first=frame["discrepancy"] * frame["repeats"],
        second=frame["square"] * frame["repeats"],
    )
    total = weighted.groupby(by, sort=False).sum().reset_index()
    n = total["repeats"]
    mean = total["first"] / n
    variance = (total["second"] / n - mean**2).clip(lower=0)
    return total[by].assign(mean=mean, standard_error=np.sqrt(variance / (n - 1)), repeats=n)


def rule_weights(rule: str, t: int, *, cache_rounds: int, theta: float | None = None) -> np.ndarray:
    """Return the weights with which a cache rule averages the past: v_t = sum_j a[j] u_{t-j}.

    The newest round comes first. Source: SFL, (8) for "fifo", (12) for "srsr", (41) of the preprint
    for "drsr", Section VI for "lazy"; "srsr_filled" is SRSR as implemented: the first M rounds are
    appended, then the recursion (12) runs.

    Parameters
    ----------
    rule : {"fifo", "drsr", "srsr", "srsr_filled", "lazy"}
    t : int
        Round, >= 1 (counted from 1); "fifo" needs t >= cache_rounds, where the cache is full.
    cache_rounds : int
        M = B / B_s >= 1, rounds of arrivals.
    theta : float, optional
        SRSR's weight in [0, 1]; required by the two SRSR rules and refused by the others.

    Returns
    -------
    array (n,), n <= t
        It adds up to 1 except for "srsr", which starts empty with v = counts / B.

    Raises
    ------
    ValueError
        For an unknown rule, t or cache_rounds out of range, or theta missing or out of place.
    """
    checks.choice("rule", rule, ("fifo", "drsr", "srsr", "srsr_filled", "lazy"))
    cache_rounds = checks.integer("cache_rounds", cache_rounds, 1)
    t = checks.integer("t", t, cache_rounds if rule == "fifo" else 1)
    if not rule.startswith("srsr") and theta is not None:
        raise ValueError(
            f"theta={theta!r} belongs to the rules 'srsr' and 'srsr_filled', not to {rule!r}"
        )
    filled, after = min(t, cache_rounds), max(t - cache_rounds, 0)
    if rule == "fifo":
        return np.full(cache_rounds, 1 / cache_rounds)
    if rule == "drsr":
        return np.full(t, 1 / t)
    if rule == "lazy":
        return np.concatenate([np.zeros(after), np.full(filled, 1 / filled)])
    step = checks.real("theta", theta, 0, 1) / cache_rounds
    if rule == "srsr":
        return step * (1 - step) ** np.arange(t)
    return np.concatenate(
        [step * (1 - step) ** np.arange(after), np.full(filled, (1 - step) ** after / filled)]
    )


def exact_discrepancy(
    stream: LabelStream,
    rule: str | None = None,
    t: int | None = None,
    *,
    cache_rounds: int | None = None,
    theta: float | None = None,
    weights: ArrayLike | None = None,
) -> np.ndarray:
    """Return E[(v_t - pi)^2] of a cache rule under exact counts, shape (n_clients, n_classes).

    A rule that averages past rounds has v_t = sum_j a_j u_{t-j}, with the weights a of
    `rule_weights`, or `weights` of your own. Then the expectation is
    sum_{i,j} a_i a_j C(|i-j|) + (1 - sum a)^2 pi^2, from the chain's autocovariances C in its
    stationary state (ERRATA 7).

    Parameters
    ----------
    stream : LabelStream
        With a stationary start.
    rule, t, cache_rounds, theta
        As of `rule_weights`.
    weights : array (n,), optional
        In their place: the weights of the last n rounds, newest first, >= 0 with sum 1.

    Raises
    ------
    ValueError
        As `rule_weights`; if weights are no such array; unless one of rule and weights is given; or
        if the stream has a fixed start.
    """
    _stationary("exact_discrepancy", stream)
    if weights is None:
        if rule is None or t is None or cache_rounds is None:
            raise ValueError("exact_discrepancy needs rule, t and cache_rounds, or weights")
        a = rule_weights(rule, t, cache_rounds=cache_rounds, theta=theta)
    else:
        given = {"rule": rule, "t": t, "cache_rounds": cache_rounds, "theta": theta}
        for name, value in given.items():
            if value is not None:
                raise ValueError(f"{name}={value!r} must not be given beside weights")
        a = checks.simplex("weights", weights)
    moment = _moment(a, stream.autocovariances(len(a) - 1), stream.long_term)
    # The expectation of a square; where it is 0, rounding of terms that cancel may leave -1e-18.
    return np.maximum(moment, 0.0)


def exact_path(
    stream: LabelStream,
    rule: str,
    rounds: int,
    *,
    cache_rounds: int,
    theta: float | None = None,
) -> np.ndarray:
    """Return `exact_discrepancy` of rounds 1 to T.

    One pass over the lags serves all rounds, so that hundreds of rounds take a fraction of a
    second. While the cache fills, FIFO and LAZY hold everything so far.

    Parameters
    ----------
    stream : LabelStream
        With a stationary start.
    rule, cache_rounds, theta
        As of `rule_weights`.
    rounds : int
        T >= 1.

    Returns
    -------
    array (rounds, n_clients, n_classes)

    Raises
    ------
    ValueError
        As `rule_weights`, or if the stream has a fixed start.
    """
    _stationary("exact_path", stream)
    rounds = checks.integer("rounds", rounds, 1)
    covariances = stream.autocovariances(rounds - 1)
    path = np.empty_like(covariances)
    for t in range(1, rounds + 1):
        filling = rule == "fifo" and t < cache_rounds
        name, option = ("drsr", None) if filling else (rule, theta)
        a = rule_weights(name, t, cache_rounds=cache_rounds, theta=option)
        path[t - 1] = _moment(a, covariances, stream.long_term)
    return np.maximum(path, 0.0)


def _stationary(name: str, stream: LabelStream) -> None:
    if not checks.instance("stream", stream, LabelStream).is_stationary:
        raise ValueError(f"{name} needs a stream with start='stationary'")


def _moment(weights: np.ndarray, covariances: np.ndarray, long_term: np.ndarray) -> np.ndarray:
    """Return E[(v - pi)^2] of a cache with these weights of the rounds, in the stationary state.

    `covariances` (n_lags, n_clients, n_classes) hold at least as many lags as there are weights.
    """
    overlap = np.correlate(weights, weights, mode="full")[len(weights) - 1 :]
    overlap[1:] *= 2
    squares = np.tensordot(overlap, covariances[: len(weights)], axes=1)
    return squares + (1 - weights.sum()) ** 2 * long_term**2


def correlation_rounds(stream: LabelStream, window: int) -> tuple[float, float]:
    """Return (Gamma, delta2) with which Assumption 1's bounds hold over `window` rounds.

    A Markov chain's covariances never vanish, so Gamma is the integrated correlation: 2 Gamma + 1
    is the largest sum of |C(lag)| / delta2 over |lag| < window, and delta2 the largest C(0)
    (ERRATA 7).

    Raises
    ------
    ValueError
        If window is not a positive integer; if the stream never changes (delta2 = 0); or if it has
        a fixed start, after which the first rounds have other covariances than the later ones.
    """
    _stationary("correlation_rounds", stream)
    covariances = stream.autocovariances(checks.integer("window", window, 1) - 1)
    delta2 = float(covariances[0].max())
    if delta2 <= 0:
        raise ValueError(
            f"delta2={delta2!r}: the short-term shares never change, so no correlation is defined"
        )
    total = np.abs(covariances[0]) + 2 * np.abs(covariances[1:]).sum(axis=0)
    return max(float(total.max()) / delta2 - 1, 0.0) / 2, delta2
