"""Label streams with temporal correlation: what arrives at each client, round by round.

Source: SFL, Section VI "Data Stream Generation" (the generator) and Section III-A (the notation);
ERRATA 7, 12 and 49 for what the paper leaves open. A client owns S short-term label distributions;
a Markov chain whose transition probability falls with the Kullback-Leibler divergence picks one
per round; the long-term distribution is the stationary mixture.

================  ==============  ==========  =========================================
code              symbol          shape       meaning (all shares are dimensionless)
================  ==============  ==========  =========================================
short_term        u of a state    (K, S, R)   label shares of each state
transition        P               (K, S, S)   row-stochastic transition matrix, per round
stationary        rho             (K, S)      rho P = rho
long_term         pi              (K, R)      rho-weighted mean of short_term
autocovariance    C(lag)          (K, R)      E[(u_t - pi)(u_{t-lag} - pi)]
cache_rounds      M = B / B_s     scalar      rounds of arrivals the cache holds
================  ==============  ==========  =========================================
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from sflkit import checks
from sflkit.config import Count, Positive, checked
from sflkit.rounding import largest_remainder

SHARE_LOW = 0.05  # SFL, Section VI
SHARE_HIGH = 0.95
_REDRAW_BATCH = 4096
_REDRAWS = 250


class LabelStream:
    """Short-term label distributions of K clients, each driven by a Markov chain.

    By default every client follows a path of its own, which starts in the chain's stationary state:
    each round is then as good as any other, and no two clients agree on what comes. A real season
    is different. It has a beginning, which `start` fixes, and it reaches all clients at once, which
    `common` says. For example, two clients with three rounds of day and three of night, from the
    first morning on:

    >>> day, night = [0.8, 0.2], [0.1, 0.9]
    >>> ring = np.roll(np.eye(6), 1, axis=1)  # from each hour to the next
    >>> stream = LabelStream([[day] * 3 + [night] * 3] * 2, [ring] * 2, start=0, common=True)
    >>> stream.states(4, np.random.default_rng(0)).tolist()
    [[0, 0], [1, 1], [2, 2], [3, 3]]

    Parameters
    ----------
    short_term : array (n_clients, n_states, n_classes)
        Label shares; each row sums to 1.
    transition : array (n_clients, n_states, n_states)
        Row-stochastic transition matrices with one recurrent class each.
    start : "stationary", int or int array (n_clients,)
        The state of round 1: drawn from the stationary law, one state of all clients, or a state of
        each.
    common : bool
        True: one draw decides the state of a round for all clients, which therefore need equal
        transition matrices and equal starts; their `short_term` shares may differ. The label counts
        within a round stay independent between clients.

    Attributes
    ----------
    stationary : array (n_clients, n_states)
        The law of the state in the long run, whatever the start.
    long_term : array (n_clients, n_classes)
        The stationary mixture pi: the shares of all arrivals in the long run, whatever the start.
        In the first rounds after a fixed start the expected shares differ from it.
    first : array (n_clients, n_states)
        The law of the state in round 1; equal to `stationary` unless `start` says otherwise.
    is_stationary : bool
        Whether `start` is "stationary".
    common : bool

    Raises
    ------
    ValueError
        If shapes disagree, rows are no probability vectors, a chain has more than one stationary
        law, a start is no state of its chain, or clients with a common path differ in their chains.
    """

    def __init__(
        self,
        short_term: ArrayLike,
        transition: ArrayLike,
        *,
        start: str | int | ArrayLike = "stationary",
        common: bool = False,
    ):
        # copies, since the caller may go on to write into its own
        self.short_term = checks.simplex("short_term", short_term, ndim=3).copy()
        self.transition = checks.simplex("transition", transition, ndim=3).copy()
        n_clients, n_states, _ = self.short_term.shape
        shape = (n_clients, n_states, n_states)
        checks.shape("transition", self.transition, shape, like="short_term")
        self.stationary = np.stack([_stationary(p, k) for k, p in enumerate(self.transition)])
        self.long_term = np.einsum("ks,ksr->kr", self.stationary, self.short_term)
        self.is_stationary = isinstance(start, str)
        if self.is_stationary:
            checks.choice("start", start, ("stationary",))
        self.first = self.stationary if self.is_stationary else _first(start, n_clients, n_states)
        self.common = checks.flag("common", common)
        if self.common:
            for name, rows in (("transition", self.transition), ("start", self.first)):
                if (rows != rows[:1]).any():
                    raise ValueError(
                        f"common=True needs one {name} for all clients; those of client "
                        f"{int((rows != rows[:1]).reshape(n_clients, -1).any(1).argmax())} differ "
                        "from client 0's"
                    )

    @cached_property
    def _centred(self) -> np.ndarray:
        return self.short_term - self.long_term[:, None, :]

    def autocovariances(self, max_lag: int) -> np.ndarray:
        """Return C(0), ..., C(max_lag), array (max_lag + 1, n_clients, n_classes).

        See `autocovariance`; raises ValueError if max_lag is no integer >= 0.
        """
        max_lag = checks.integer("max_lag", max_lag, 0)
        weighted = self.stationary[:, :, None] * self._centred
        ahead = self._centred
        out = []
        for _ in range(max_lag + 1):
            out.append((weighted * ahead).sum(axis=1))
            ahead = self.transition @ ahead
        return np.stack(out)

    def autocovariance(self, lag: int) -> np.ndarray:
        """Return E[(u_t - pi)(u_{t-lag} - pi)] in the stationary state, (n_clients, n_classes).

        lag is in rounds, >= 0. This belongs to the chain, not to the start: after a fixed start the
        rounds have other second moments. Whether clients share a path does not matter, because each
        class of each client is taken by itself.
        """
        return self.autocovariances(checks.integer("lag", lag, 0))[-1]

    def states(self, rounds: int, rng: np.random.Generator) -> np.ndarray:
        """Draw the state of every client and round, int array (rounds, n_clients).

        The first row follows `first`; a `common` stream has equal columns.

        Raises
        ------
        ValueError
            If rounds is not a positive integer, or `rng` no generator.
        """
        rounds = checks.integer("rounds", rounds, 1)
        n_clients = len(self.first)
        paths = 1 if self.common else n_clients
        path = np.empty((rounds, paths), dtype=np.int64)
        # one child generator per path: adding a client changes nobody else's path
        for k, child in enumerate(checks.generator(rng).spawn(paths)):
            uniforms = child.random(rounds)
            cumulative = np.cumsum(self.transition[k], axis=1)
            state = _invert(np.cumsum(self.first[k]), uniforms[0])
            path[0, k] = state
            for t in range(1, rounds):
                state = _invert(cumulative[state], uniforms[t])
                path[t, k] = state
        return path.repeat(n_clients, axis=1) if self.common else path

    def sample(
        self, rounds: int, batch_size: ArrayLike, rng: np.random.Generator, exact: bool = False
    ) -> np.ndarray:
        """Draw the label counts of the arrivals, int64 array (rounds, n_clients, n_classes).

        Parameters
        ----------
        rounds : int
            Rounds T >= 1; entry t - 1 holds the arrivals of round t.
        batch_size : int or int array (rounds,)
            Arrivals per client and round, B_s >= 1 samples; or those of each round.
        rng : numpy.random.Generator
        exact : bool
            True rounds batch_size * share with the largest remainder, so that the counts have no
            sampling noise when the shares lie on the 1/batch_size grid; False draws them from the
            multinomial, which adds E[p(1-p)]/B_s to the lag-0 variance (ERRATA 12).

        Raises
        ------
        ValueError
            If rounds or batch_size is not a positive integer, or there is not one for each round.
        """
        exact = checks.flag("exact", exact)
        path_rng, count_rng = checks.generator(rng).spawn(2)
        path = self.states(rounds, path_rng)
        shares = (own[path[:, k]] for k, own in enumerate(self.short_term))
        return _counts(shares, path.shape[1], _sizes(batch_size, len(path)), count_rng, exact)


class GivenStream:
    """A stream of given arrivals: what every client gets in every round.

    One client, which gets three samples of class 0 and one of class 1, and is off in round 2:

    >>> stream = GivenStream([[[3, 1]], [[0, 0]]])
    >>> stream.long_term
    array([[0.75, 0.25]])

    Parameters
    ----------
    stream : array (rounds, n_clients, n_classes)
        Floats are the label shares u, each row a probability vector; integers are numbers of
        samples. A row of zeros is a round in which nothing arrives (a phone that is off).

    Attributes
    ----------
    long_term : array (n_clients, n_classes)
        The label shares of all samples that are counted, or the mean of the given shares over the
        rounds in which something arrives.

    Raises
    ------
    ValueError
        If `stream` is no such array, nothing ever arrives at a client, or the numbers of samples
        are all 0 or 1, which look like shares.
    """

    def __init__(self, stream: ArrayLike):
        self.are_counts = checks.values("stream", stream).dtype.kind in "iu"
        self.given = checks.array("stream", stream, ndim=3, low=0).copy()
        sums = self.given.sum(axis=-1)
        rounds = (sums > 0).sum(axis=0)
        if not rounds.size or not rounds.all():
            raise ValueError(
                f"stream holds arrivals in {rounds} rounds of its clients; each needs one"
            )
        if not self.are_counts:
            checks.simplex("stream", self.given[sums > 0], ndim=2)
        elif sums.max() <= 1:
            raise ValueError("stream holds integers, one sample at most; label shares are floats")
        totals = self.given.sum(axis=0)
        self.long_term = totals / (sums.sum(axis=0) if self.are_counts else rounds)[:, None]

    def sample(
        self, rounds: int, batch_size: ArrayLike, rng: np.random.Generator, exact: bool = False
    ) -> np.ndarray:
        """Return the label counts of the first rounds, as `LabelStream.sample`.

        Where the arrivals are counted nothing is drawn, and `batch_size` is the most that may
        arrive.

        Raises
        ------
        ValueError
            As `LabelStream.sample`, if there are fewer rounds, or if more arrives.
        """
        rounds = checks.integer("rounds", rounds, 1, len(self.given))
        sizes, given = _sizes(batch_size, rounds), self.given[:rounds]
        _, count_rng = checks.generator(rng).spawn(2)
        exact = checks.flag("exact", exact)
        if not self.are_counts:
            return _counts(given.swapaxes(0, 1), given.shape[1], sizes, count_rng, exact)
        if len(above := np.argwhere(given.sum(axis=-1) > sizes[:, None])):
            t, k = above[0]
            raise ValueError(
                f"stream brings {given[t, k].sum():.0f} samples to client {k} in round {t + 1}; at "
                f"most batch_size={sizes[t]} may arrive"
            )
        return given.astype(np.int64)


@checked
def kl_markov_stream(
    *,
    n_clients: Count,
    n_classes: Count,
    classes_per_client: Count,
    n_states: Count,
    temperature: Positive = 1.0,
    batch_size: Count | None = None,
    rng: np.random.Generator,
) -> LabelStream:
    """Draw the paper's stream, with transition probabilities P_ij ~ exp(-KL(i||j) / temperature).

    Each client has C classes and S short-term distributions over them. Source: SFL, Section VI
    "Data Stream Generation". The transition law is ours, since the paper only says that a lower
    divergence is more likely (ERRATA 12). Shares are uniform draws, normalised, and redrawn until
    every one lies in [0.05, 0.95] (ERRATA 49), so that all states of a client share one support and
    the divergence is finite.

    Parameters
    ----------
    n_clients, n_classes, classes_per_client, n_states : int
        K, R, C <= R and S.
    temperature : float
        > 0; small values make the chain stay among similar distributions, large ones make it forget
        within a round.
    batch_size : int, optional
        When given, shares lie on the grid 1/batch_size, so that `LabelStream.sample(exact=True)`
        has exactly these shares.
    rng : numpy.random.Generator

    Raises
    ------
    ValueError
        For sizes below 1, classes_per_client > n_classes, temperature <= 0, or a C for which
        no share vector fits the interval.
    """
    checks.integer("classes_per_client", classes_per_client, 1, n_classes)
    short_term = np.zeros((n_clients, n_states, n_classes))
    transition = np.empty((n_clients, n_states, n_states))
    for k, child in enumerate(checks.generator(rng).spawn(n_clients)):
        classes = child.permutation(n_classes)[:classes_per_client]
        shares = _draw_shares(n_states, classes_per_client, batch_size, child)
        short_term[k][:, classes] = shares
        transition[k] = _kl_transition(shares, temperature)
    return LabelStream(short_term, transition)


def moving_average_stream(corr_rounds: int, swing: float = 0.4) -> LabelStream:
    """Return one client with two labels whose shares remember exactly `corr_rounds` rounds.

    A fair coin is thrown each round, and u = 1/2 + swing x (mean of the last Gamma + 1 coins, each
    1 or -1). The covariance is swing^2 (Gamma + 1 - tau) / (Gamma + 1)^2 at lag tau <= Gamma and
    exactly 0 beyond, which Assumption 1 of SFL asks for and a chain by `kl_markov_stream` never
    has (ERRATA 7).

    Parameters
    ----------
    corr_rounds : int
        Gamma in [0, 10]; the chain has 2^(Gamma + 1) states.
    swing : float
        In (0, 0.5].

    Raises
    ------
    ValueError
        If an argument is out of range.
    """
    window = checks.integer("corr_rounds", corr_rounds, 0, 10) + 1
    swing = checks.real("swing", swing, 0, 0.5, above=0)
    states = np.arange(2**window)
    coins = 2 * ((states[:, None] >> np.arange(window)) & 1) - 1
    share = 0.5 + swing * coins.mean(axis=1)
    transition = np.zeros((len(states), len(states)))
    for new in (0, 1):  # the oldest coin leaves at the top, the new one enters at the bottom
        transition[states, (states << 1) % len(states) + new] += 0.5
    return LabelStream([np.stack([share, 1 - share], axis=1)], [transition])


def _counts(
    shares: Iterable[np.ndarray],
    n_clients: int,
    sizes: np.ndarray,
    rng: np.random.Generator,
    exact: bool,
) -> np.ndarray:
    """Return label counts (rounds, n_clients, n_classes), from each client's shares (rounds, R).

    A row of zeros has no arrivals.
    """
    counts = []
    for own, child in zip(shares, rng.spawn(n_clients), strict=True):
        arrive = sizes * own.any(axis=1)
        counts.append(_rounded(own, arrive) if exact else child.multinomial(arrive, own))
    return np.stack(counts, axis=1)


def _rounded(shares: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    counts = np.empty(shares.shape, np.int64)
    for size in set(sizes.tolist()):
        counts[sizes == size] = largest_remainder(shares[sizes == size] * size, size)
    return counts


def _sizes(batch_size: ArrayLike, rounds: int) -> np.ndarray:
    """Return the arrivals of each round, int array (rounds,)."""
    sizes = checks.integers("batch_size", batch_size, low=1)
    return np.broadcast_to(checks.shape("batch_size", sizes, (), (rounds,)), rounds)


def _first(start: ArrayLike, n_clients: int, n_states: int) -> np.ndarray:
    """Return the law (n_clients, n_states) of the first state that `start` names."""
    states = checks.integers("start", start, low=0, high=n_states - 1)
    checks.shape("start, if not 'stationary',", states, (), (n_clients,))
    return np.eye(n_states)[np.broadcast_to(states, n_clients)]


def _invert(cumulative: np.ndarray, uniform: float) -> int:
    # the last cumulative sum may fall short of 1 by rounding
    return min(int(np.searchsorted(cumulative, uniform, side="right")), len(cumulative) - 1)


def _stationary(transition: np.ndarray, client: int) -> np.ndarray:
    # elimination by Grassmann, Taksar and Heyman (1985): no subtraction, so nearly decoupled states
    # keep all their digits
    p = transition.copy()
    for n in range(len(p) - 1, 0, -1):
        leaving = p[n, :n].sum()
        if leaving == 0:
            return _stationary_reducible(transition, client)
        p[:n, n] /= leaving
        p[:n, :n] += np.outer(p[:n, n], p[n, :n])
    weights = np.ones(len(p))
    for n in range(1, len(p)):
        weights[n] = weights[:n] @ p[:n, n]
    return weights / weights.sum()


def _stationary_reducible(transition: np.ndarray, client: int) -> np.ndarray:
    n = len(transition)
    system = np.vstack([transition.T - np.eye(n), np.ones(n)])
    solution, _, rank, _ = np.linalg.lstsq(system, np.append(np.zeros(n), 1.0), rcond=None)
    if rank < n:
        raise ValueError(
            f"transition[{client}] has more than one stationary law: some states cannot reach one "
            "another (in a KL stream, because the temperature is far too low)"
        )
    return np.clip(solution, 0, None) / np.clip(solution, 0, None).sum()


def _kl_transition(shares: np.ndarray, temperature: float) -> np.ndarray:
    divergence = (shares * np.log(shares)).sum(axis=1)[:, None] - shares @ np.log(shares).T
    weights = np.exp(-divergence / temperature)
    return weights / weights.sum(axis=1, keepdims=True)


def _draw_shares(
    n_states: int, n: int, batch_size: int | None, rng: np.random.Generator
) -> np.ndarray:
    if n == 1:
        return np.ones((n_states, 1))  # a single class has share 1, the only vector that sums to 1
    found = np.empty((0, n))
    for _ in range(_REDRAWS):
        shares = rng.uniform(SHARE_LOW, SHARE_HIGH, size=(_REDRAW_BATCH if n > 6 else 64, n))
        shares /= shares.sum(axis=1, keepdims=True)
        if batch_size is not None:
            shares = largest_remainder(shares * batch_size, batch_size) / batch_size
        # 1e-12: grid shares such as 3/60 are not exactly 0.05 in floating point
        fits = ((shares >= SHARE_LOW - 1e-12) & (shares <= SHARE_HIGH + 1e-12)).all(axis=1)
        found = np.concatenate([found, shares[fits]])
        if len(found) >= n_states:
            return found[:n_states]
    raise ValueError(
        f"classes_per_client={n} with batch_size={batch_size}: no shares that all lie in "
        f"[{SHARE_LOW}, {SHARE_HIGH}] were found; use at most 15 classes per client, and a "
        "batch_size of at least that many samples"
    )
