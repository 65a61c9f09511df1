"""The case study of historical and fresh clients: psi's constants, and the lower-bound example.

Source: FDS (Federated Learning for Data Streams), Section 5, Corollaries 5.1 and 5.1', (183), and
the example in the proof of Theorem 4.3, with the corrections of ERRATA 28 and 30. The notation is
that of `bounds` and `importance`; besides:

| code        | symbol              | shape | meaning                                          |
|-------------|---------------------|-------|--------------------------------------------------|
| counts      | N_m                 | (M,)  | samples of each client over all rounds; N in all |
| historical  | m <= M_hist         | (M,)  | bool mask of the historical clients              |
| n_fresh     | M - M_hist          |       | fresh clients                                    |
| rounds      | T                   |       | communication rounds                             |
| local_steps | E                   |       | full-batch gradient steps per round              |
| max_disc    | max disc(P_m, P_m') |       | largest discrepancy of two clients               |

"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from sflkit.datastreams import importance
from sflkit.datastreams.bounds import (
    DriftConstants,
    GeneralizationBound,
    discrepancy_bound,
    drift_constants,
    generalization_bound,
    probability_pair,
)


def sigma_bar2_case_study(p: ArrayLike, historical: ArrayLike, sigma0: float) -> float:
    """Return sigma_0^2 (M - M_hist) times the sum of p_m^2 over the fresh clients.

    This is Section 5's bound on sigma-bar^2. ERRATA 30: the sum must run over the fresh clients
    only. (182) on the way to it fails for one sample per round, but the result holds at any one
    parameter, since the mean over the rounds shares the noise of each round. Source: FDS, (183).

    Parameters
    ----------
    p : array (n_clients,)
        Relative importance, on the simplex.
    historical : bool array (n_clients,)
        The historical clients.
    sigma0 : float
        sigma_0 >= 0.
    """
    noise = importance.gradient_noise(p, historical)
    return (sigma0 * noise) ** 2 * int((~np.asarray(historical)).sum())


class PsiConstants(NamedTuple):
    """The constants of psi, see `psi.psi`."""

    c0: float
    c1: float
    c2: float


class TrueErrorBound(NamedTuple):
    """The terms of the general corollary, and their total.

    vanishing goes to 0 with T, variability is that of the gradients, discrepancy comes from a
    target other than p, and capacity from too few effective samples.
    """

    vanishing: float
    variability: float
    discrepancy: float
    capacity: float
    total: float


class CaseStudy(NamedTuple):
    """What Corollary 5.1 knows of a problem: B >= 0, Pdim in (1, N), max disc >= 0, sigma_0 >= 0,
    D > 0, T >= 1, L >= 0 and E >= 1.
    """

    loss_bound: float
    pseudo_dim: float
    max_disc: float
    sigma0: float
    diameter: float
    rounds: int
    smoothness: float
    local_steps: int

    @property
    def drift(self) -> DriftConstants:
        """C1 and C2 of (105)."""
        names = ("smoothness", "loss_bound", "diameter", "local_steps")
        return drift_constants(**{name: getattr(self, name) for name in names})

    def corollary51(self, n_samples: int, n_fresh: int) -> PsiConstants:
        """Return the constants with which psi(p, n, historical, c1, c2, c0) bounds the true error.

        There are N >= 2 samples of all clients over all rounds, and at least one fresh client. The
        target alpha is n. C1 and C2 are those of (105), and C3 = D^2/2 is its value for sigma-bar
        <= 1. Source: FDS, Corollary 5.1, (20)-(22).
        """
        # ERRATA 30: c0 without "-2 max disc", which would need sqrt(x - 1) <= sqrt(x) - 1, and
        # divided by sqrt(T)
        c0, c1 = self._optimization(n_fresh)
        capacity = self._generalization(n_samples, n_samples, 0.0).capacity
        return PsiConstants(c0, c1, 2 * capacity + 2 * self.max_disc)

    def corollary51_general(
        self, p: ArrayLike, counts: ArrayLike, historical: ArrayLike
    ) -> TrueErrorBound:
        """Return the bound on the true error for the target alpha = n, term by term.

        It is Theorem 4.4 for the two groups of clients of Section 5. Psi with the constants of
        `corollary51` is never smaller. Source: FDS, Corollary 5.1', (157).

        Parameters
        ----------
        p : array (n_clients,)
            Relative importance, on the simplex.
        counts : int array (n_clients,)
            Samples N_m >= 1 of each client over all rounds.
        historical : bool array (n_clients,)
            The historical clients; at least one is fresh.
        """
        counts = np.asarray(counts, dtype=float)
        target, p = probability_pair(counts / counts.sum(), p)
        vanishing, c1 = self._optimization(int((~np.asarray(historical)).sum()))
        effective = importance.client_effective_samples(p, counts)
        apart = discrepancy_bound(self.max_disc, target, p)
        generalization = self._generalization(counts.sum(), effective, apart)
        noise = c1 * importance.gradient_noise(p, historical)
        terms = (vanishing, noise, 2 * generalization.discrepancy, 2 * generalization.capacity)
        return TrueErrorBound(*terms, sum(terms))

    def _generalization(
        self, n_samples: float, effective: float, discrepancy: float
    ) -> GeneralizationBound:
        """Return the bound (14)."""
        return generalization_bound(
            loss_bound=self.loss_bound,
            pseudo_dim=self.pseudo_dim,
            n_samples=n_samples,
            effective=effective,
            discrepancy=discrepancy,
        )

    def _optimization(self, n_fresh: int) -> tuple[float, float]:
        """Return the first two terms of (157), which vanish with T, and the third's factor."""
        c1, c2 = self.drift
        vanishing = (c1 + self.diameter**2 / 2) / math.sqrt(self.rounds)
        vanishing += c2 / math.sqrt(self.rounds**3)
        factor = self.sigma0 * math.sqrt(n_fresh) * (self.diameter + 2 / math.sqrt(self.rounds))
        return vanishing, factor


class LowerBoundExample(NamedTuple):
    """The two-sample problem behind Theorem 4.3's lower bound; see `lower_bound_example`."""

    minimizer: tuple[float, float]
    line_gap: float
    limit_gap: float
    sigma_bar2: float
    claimed: float


def lower_bound_example(q: float) -> LowerBoundExample:
    """Return the exact quantities of the example, where the sample held first has weight q.

    The other one has 1 - q. ERRATA 28: (120) claims a gap of 6 q (1 - q), but it is 2 q^2 (1-q)^2 /
    ((1+q)(2+q)). The example therefore shows an error of the order of sigma-bar^4, neither of
    sigma-bar^2 as in (125) nor of sigma-bar as in the theorem. Source: FDS, (109)-(125).

    Parameters
    ----------
    q : float
        In (0, 1). Round weights that do not increase give q >= 1/2 where the first sample is held
        for half of the rounds, as in the paper, and less where it is held for fewer.

    Returns
    -------
    LowerBoundExample
        minimizer of q l(.; 1) + (1-q) l(.; 2), (119); line_gap, the smallest excess loss on the
        line theta_2 = 0, (120); limit_gap, that of the algorithm's limit (1 - 2q, 0); sigma_bar2,
        (115)-(117) with equality; claimed, (120) as printed.
    """
    first = (1 - 3 * q) / (1 + q)
    square = 2 * (q * (1 - q)) ** 2 / (1 + q)
    return LowerBoundExample(
        minimizer=(first, 1 - 2 * q - first),
        line_gap=square / (2 + q),
        limit_gap=square,
        sigma_bar2=20 * q * (1 - q),
        claimed=6 * q * (1 - q),
    )


class LowerBound(NamedTuple):
    """A lower bound on the example's error over sigma-bar, for all admissible weights.

    held is the part of the rounds that have the first sample; its weight is from held to 1/2.
    """

    constant: float
    held: float


def repaired_lower_bound(largest: float) -> LowerBound:
    """Return the constant of error >= constant x sigma-bar once the example is mended.

    Theorem 4.3 takes round weights that do not increase and start with q^(1) <= C / T. Let the
    first sample be held for the first T / (2C) rounds only. Its weight q is then at least 1 / (2C),
    since early rounds weigh no less than late ones, and at most C / T for each of its rounds, 1/2
    in all. The expected error is half of `limit_gap`, since the samples differ half of the time.
    Over sigma-bar it is (q (1 - q))^(3/2) / (sqrt(20) (1 + q)), which rises and then falls, so that
    its least value is at an end of [1 / (2C), 1/2]. With the paper's halves q can be nearly 1 as
    soon as C = 2, where the ratio vanishes (ERRATA 28).

    Parameters
    ----------
    largest : float
        C >= 1, since the weights add up to 1 and so q^(1) >= 1 / T.
    """
    held = 1 / (2 * largest)
    ends = [lower_bound_example(q) for q in (held, 0.5)]
    constant = min(end.limit_gap / 2 / math.sqrt(end.sigma_bar2) for end in ends)
    return LowerBound(constant, held)


def example_path(rounds: int, first_rounds: int) -> np.ndarray:
    """Return the models of Algorithm 1 on the example, before each round, (rounds, 2).

    One client holds one sample: the first for `first_rounds` rounds, then the other. Rate 1 /
    sqrt(T), full gradients, projection to [-1, 1]^2, from 0, with five local steps.
    Source: FDS, (109), (110).
    """
    path, a, b, rate = np.empty((rounds, 2)), 0.0, 0.0, rounds**-0.5
    for t in range(rounds):
        path[t] = a, b
        factor, at = (2.0, -1.0) if t < first_rounds else (1.0, 1.0)
        for _ in range(5):
            pull = a + b - at
            a, b = a - rate * (factor * (a - at) + pull), b - rate * pull
        a, b = min(max(a, -1.0), 1.0), min(max(b, -1.0), 1.0)
    return path


def example_excess(theta: ArrayLike, q: float) -> float:
    """Return the weighted risk of `theta` (2,) above its least value, where the first sample has
    weight q. Source: FDS, (109), (110), (118).
    """
    points = np.array([theta, lower_bound_example(q).minimizer], dtype=float).T
    first = (points[0] + 1) ** 2 + (points.sum(axis=0) + 1) ** 2 / 2
    second = (points[0] - 1) ** 2 / 2 + (points.sum(axis=0) - 1) ** 2 / 2
    risk = q * first + (1 - q) * second
    return float(risk[0] - risk[1])


class DiscrepancyExample(NamedTuple):
    """The true error of `discrepancy_example`, and three readings of psi there.

    printed is the main text's, main_text the same with c0's positive part over sqrt(T), appendix
    without "- 2 max disc".
    """

    true_error: float
    printed: float
    main_text: float
    appendix: float


def discrepancy_example(shift: float, *, rounds: int, n_samples: int) -> DiscrepancyExample:
    """Return error and bounds for two clients whose importance leans to the wrong side.

    Their losses are log(1 + exp(5 + theta)) and log(1 + exp(5 - theta)) for all of their samples,
    and theta lies in [-1, 1]. All assumptions hold, also on all of R, with L = 1/4, B = log(1 +
    e^6), D = 2, sigma_0 = 0. The sizes are n = (1/2 - e, 1/2 + e), the importance is p = (1/2 + e,
    1/2 - e), so that training goes to one end of the interval and the target's minimum is at the
    other: the error is about 4 e, but sum p_m^2 / n_m - 1 is only about 16 e^2. Algorithm 1 runs
    with the step size of Theorem 4.3 and one local step. Source: FDS, Corollary 5.1, with ERRATA
    30.

    Parameters
    ----------
    shift : float
        e in (0, 1/2).
    rounds, n_samples : int
        T >= 1 and N > 2.
    """
    target, p = np.array([0.5 - shift, 0.5 + shift]), np.array([0.5 + shift, 0.5 - shift])
    output = _averaged_output(p, rounds)
    ends = np.linspace(-1, 1, 20_001)
    least = (target @ _two_losses(ends)).min()
    true_error = float(target @ _two_losses(np.array([output]))[:, 0] - least)
    problem = CaseStudy(
        loss_bound=float(np.logaddexp(0, 6)),
        pseudo_dim=2,
        max_disc=float(np.abs(np.subtract(*_two_losses(np.array([1.0])))).max()),
        sigma0=0.0,
        diameter=2.0,
        rounds=rounds,
        smoothness=0.25,
        local_steps=1,
    )
    c0, _, c2 = problem.corollary51(n_samples, n_fresh=1)
    rest = c2 * math.sqrt((p**2 / target).sum())
    whole = problem.drift.c1 + problem.diameter**2 / 2 + problem.drift.c2 / rounds
    lost = 2 * problem.max_disc
    return DiscrepancyExample(true_error, whole - lost + rest, c0 - lost + rest, c0 + rest)


def _two_losses(theta: np.ndarray) -> np.ndarray:
    return np.stack([np.logaddexp(0, 5 + theta), np.logaddexp(0, 5 - theta)])


def _averaged_output(p: np.ndarray, rounds: int) -> float:
    """Return the mean of Algorithm 1's models of `discrepancy_example`, from 0 on."""
    rate, theta, total = 1 / math.sqrt(rounds), 0.0, 0.0
    for t in range(rounds):
        total += theta
        slope = p[0] / (1 + math.exp(-5 - theta)) - p[1] / (1 + math.exp(theta - 5))
        new = min(1.0, max(-1.0, theta - rate * slope))
        if new == theta:  # at an end it stays there
            return (total + (rounds - t - 1) * theta) / rounds
        theta = new
    return total / rounds
