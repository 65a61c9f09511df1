"""SFL's errata in numbers: for each, a small case in which the printed reading goes wrong.

Source: SFL, the places that ERRATA.md names. Every function returns a
`companion.judging.errata.CounterExample`; `EXAMPLES` lists them by number and `NOT_SHOWN` says
why the others have nothing to compute. Each value that a reading must meet is computed on a way
of its own: by counting samples, by an exact recursion, or by hand.
"""

from __future__ import annotations

import math

import numpy as np

from companion.judging.errata import CounterExample, Examples, corrected, counter_example, printed
from companion.notebooks import n14
from sflkit.rounding import largest_remainder
from sflkit.sfl import bounds
from sflkit.sfl.caches import DRSR, SRSR
from sflkit.sfl.discrepancy import correlation_rounds, exact_discrepancy
from sflkit.sfl.streams import LabelStream, kl_markov_stream

EXAMPLES = Examples()

# Sizes of the examples of Theorem 1: ten clients, ten classes, five local steps.
_SETTING = {
    "loss_gap": 1.0,
    "rounds": 4,
    "local_steps": 5,
    "smoothness": 10.0,
    "global_rate": 1.0,
    "n_classes": 10,
    "max_share": 0.9,
    "sigma_m2": 1.0,
    "sigma_g2": 2.0,
    "dissimilarity2": 1.0,
    "lambda2": [0.0] * 4,
    "n_clients": 10,
}


@EXAMPLES.of(1)
def target_counts() -> CounterExample:
    """Show item 1: (10)-(12) of the journal for B = 300, B_s = 150 and theta = 2/3."""
    old, new, theta, share = np.array([200, 100]), np.array([100, 50]), 2 / 3, 150 / 300
    return counter_example(
        "The targets of a full cache of 300 samples add up to 300.",
        printed(
            "old counts × (1 − B_s/B) + θ × new", ((1 - share) * old + theta * new).sum(), "=", 300
        ),
        corrected(
            "old counts × (1 − θ B_s/B) + θ × new",
            ((1 - theta * share) * old + theta * new).sum(),
            "=",
            300,
        ),
    )


@EXAMPLES.of(2)
def server_step() -> CounterExample:
    """Show item 2: two clients with loss (v - y)^2, y = 1 and -3, two steps of rate 0.1 from 0."""
    models, sums = [], []
    for y in (1.0, -3.0):
        v, summed = 0.0, 0.0
        for _ in range(2):
            gradient = 2 * (v - y)
            summed -= gradient  # Delta is minus the sum of the gradients
            v -= 0.1 * gradient
        models.append(v)
        sums.append(summed)
    mean = float(np.mean(models))
    return counter_example(
        "With η = 1 the server's new model is the mean of the clients' models.",
        printed("w + η · mean(Δ)", np.mean(sums), "=", mean),
        corrected("w + η η_L · mean(Δ)", 0.1 * np.mean(sums), "=", mean),
    )


@EXAMPLES.of(3)
def first_rounds() -> CounterExample:
    """Show item 3: DRSR's weight B / (B_s t) in round 1, with B = 300 and B_s = 150."""
    labels = np.repeat([0, 1], [100, 50])
    cache = DRSR(300, 150)
    cache.update(np.arange(150), labels, np.random.default_rng(0))
    return counter_example(
        "The cache keeps no more samples of a label than have arrived (100 of them).",
        printed("weight B / (B_s t) = 2 × the 100 that arrived", 300 / 150 * 100, "≤", 100),
        corrected("append everything while there is room", cache.label_counts(2)[0], "≤", 100),
    )


@EXAMPLES.of(4)
def rounded_targets() -> CounterExample:
    """Show item 4: DRSR for 300 rounds, its state rounded each round or carried in fractions."""
    stream = kl_markov_stream(
        n_clients=4, n_classes=10, classes_per_client=3, n_states=10, rng=np.random.default_rng(0)
    )
    counts = stream.sample(300, 30, np.random.default_rng(1))
    frozen, carried = [], []
    for k in range(4):
        cache, state = DRSR(300, 30), np.zeros(10)
        for t, n in enumerate(counts[:, k], start=1):
            cache.update(np.arange(30), np.repeat(np.arange(10), n), np.random.default_rng(t))
            weight = 10 / t
            state = (
                state + n
                if t <= 10
                else largest_remainder((1 - weight / 10) * state + weight * n, 300)
            )
        mean = 10 * counts[:, k].mean(axis=0)  # of 300 samples
        frozen.append(np.abs(state - mean).max())
        carried.append(np.abs(cache.label_counts(10) - mean).max())
    return counter_example(
        "After 300 rounds the cache's label counts are within one sample of the stream's mean.",
        printed("whole targets, rounded anew each round", max(frozen), "≤", 1),
        corrected("real targets carried, only what is stored is rounded", max(carried), "≤", 1),
    )


@EXAMPLES.of(5)
def full_start() -> CounterExample:
    """Show item 5: a cache full of a label with share 0.02, after one round, B = 10 B_s.

    With x = theta / M, E (v_1 - pi)^2 = (1 - x)^2 (v_0 - pi)^2 + x^2 C(0) for independent rounds.
    """
    x, variance, share = (2 / 3) / 10, 0.02 * 0.98 / 30, 0.02
    exact = (1 - x) ** 2 * (1 - share) ** 2 + x**2 * variance
    as_printed, mended = (
        bounds.srsr_discrepancy(1, 10, 2 / 3, 0, variance, share, start=start) for start in (0, 1)
    )
    return counter_example(
        f"The bound of Proposition 2 is at least the exact discrepancy, {exact:.4f}.",
        printed("π² for any start", as_printed, "≥", exact),
        corrected("(v₀ − π)² with v₀ = 1", mended, "≥", exact),
    )


@EXAMPLES.of(6)
def rising_bound() -> CounterExample:
    """Show item 6: Proposition 2's bound for a rare label, and its limit for theta = M = 1."""
    first, last = bounds.srsr_discrepancy(np.array([1, 500]), 2, 2 / 3, 0, 0.05, 0.02)
    return counter_example(
        "The bound falls over the rounds, and says something about shares in [0, 1].",
        printed("round 500 of a label with π = 0.02, against round 1", last, "≤", first),
        printed(
            "the limit for θ = M = 1 and Γ = 1",
            bounds.srsr_discrepancy_limit(1, 1, 1, 0.04),
            "≤",
            1,
        ),
    )


@EXAMPLES.of(7)
def slow_correlation() -> CounterExample:
    """Show item 7: a fast and a slow coin, whose correlation is below 0.05 after two rounds."""
    a, b = 0.3 * math.sqrt(0.96), 0.3 * math.sqrt(0.04)
    flips = [np.array([[1 + r, 1 - r], [1 - r, 1 + r]]) / 2 for r in (0.2, 0.999)]
    share = np.array([0.5 + s * a + z * b for s in (1, -1) for z in (1, -1)])
    stream = LabelStream([np.stack([share, 1 - share], axis=1)], [np.kron(*flips)])
    rounds = 100
    exact = exact_discrepancy(stream, "fifo", rounds, cache_rounds=rounds)[0, 0]
    gamma, delta2 = correlation_rounds(stream, rounds)
    return counter_example(
        f"FIFO's bound is at least the exact discrepancy, {exact:.5f}, for a cache of 100 rounds.",
        printed(
            "Γ = 2, where the correlation has become small",
            bounds.fifo_discrepancy(rounds, 2, delta2),
            "≥",
            exact,
        ),
        corrected(
            "2Γ + 1 = sum of all correlations",
            bounds.fifo_discrepancy(rounds, gamma, delta2),
            "≥",
            exact,
        ),
    )


@EXAMPLES.of(8)
def missing_cap() -> CounterExample:
    """Show item 8: Proposition 3 in round 1, where the mean of one round varies by delta^2."""
    return counter_example(
        "In round 1 the bound is at most δ² = 0.04, the variance of a single round.",
        printed("(2Γ + 1) δ² / t with Γ = 3", (2 * 3 + 1) * 0.04 / 1, "≤", 0.04),
        corrected("min(2Γ + 1, t) δ² / t", bounds.drsr_discrepancy(1, 3, 0.04), "≤", 0.04),
    )


@EXAMPLES.of(9)
def dropped_term() -> CounterExample:
    """Show item 9: the coin with one local step, eta_L = 10^-4 and eta eta_L = 1/4."""
    sizes = {"rounds": 2000, "local_steps": 1, "local_rate": 1e-4, "global_rate": 2500.0}
    bound = n14.bound(**sizes)
    step = n14.step_of(1, 1e-4, 2500.0)
    least = n14.squared_gradient(2000, step, 2).min()
    return counter_example(
        f"Theorem 1's bound is at least the exact squared gradient of the coin, {least:.4f}.",
        printed("the four printed terms", bound.total, "≥", least),
        corrected("with the term that (88) drops", bound.total + bound.phi_m_missing, "≥", least),
    )


@EXAMPLES.of(10)
def step_size() -> CounterExample:
    """Show item 10: the largest step that the theorem allows, for A^2 = 1, E = 5 and L = 10."""
    root = math.sqrt(60 * 2)
    allowed = {
        "printed": min(1 / math.sqrt(60 * 2 * 5 * 10), 1 / (8 * 10 * 5)),
        "corrected": 0.999 * min(1 / (root * 5 * 10), 1 / (8 * 10 * 5)),
    }
    c = {name: bounds.theorem1(**_SETTING, local_rate=rate).c for name, rate in allowed.items()}
    return counter_example(
        "Every step size that the theorem allows makes its constant c positive.",
        printed("η_L ≤ 1/√(60 (A² + 1) E L) and ≤ 1/(8LE)", c["printed"], ">", 0),
        corrected("η_L < 1/(√(60 (A² + 1)) E L)", c["corrected"], ">", 0),
    )


@EXAMPLES.of(11)
def drift_term() -> CounterExample:
    """Show item 11: a label error that stays the same for 20 local steps.

    It moves the client by (E - 1) eta_L R lambda sigma; the square is compared, in these units.
    """
    terms = bounds.lemma2(
        smoothness=1e-3,
        local_rate=1.0,
        local_steps=20,
        n_classes=1,
        max_share=1,
        lambda2=1,
        sigma_m2=1,
        sigma_g2=0,
        dissimilarity2=0,
        grad_norm2=0,
    )
    return counter_example(
        "The bound on a client's drift is at least (E − 1)² = 361, which a lasting error reaches.",
        printed("the term of λ alone, 5E", terms.lambda_term, "≥", 19**2),
        corrected("all terms of Lemma 2 together, which hide it", terms.total, "≥", 19**2),
    )


@EXAMPLES.of(49)
def drawn_shares() -> CounterExample:
    """Show item 49: three uniform draws from [0.05, 0.95], normalised, for 1000 clients."""
    rng = np.random.default_rng(0)
    draws = rng.uniform(0.05, 0.95, (1000, 3))
    normalised = draws / draws.sum(axis=1, keepdims=True)
    ours = kl_markov_stream(
        n_clients=100, n_classes=3, classes_per_client=3, n_states=10, rng=rng
    ).short_term
    return counter_example(
        "No share of a class is below 0.05.",
        printed("uniform draws, normalised: the smallest of 3000", normalised.min(), "≥", 0.05),
        corrected("drawn again until all lie in the interval: of 3000", ours.min(), "≥", 0.05),
    )


@EXAMPLES.of(50)
def corollary_orders() -> CounterExample:
    """Show item 50: T Phi_G under Corollary 2's step size with E = 8, over that with E = 2."""

    def scaled(local_steps: int, *, with_root: bool) -> float:
        rounds, setting = 1000, _SETTING | {"smoothness": 0.1, "lambda2": [0.0] * 1000}
        rates = bounds.corollary2(rounds=rounds, local_steps=local_steps, n_clients=10)
        rate = 1 / math.sqrt(rounds * local_steps) if with_root else rates.local_rate
        setting |= {"rounds": rounds, "local_steps": local_steps, "local_rate": rate}
        return (
            rounds * bounds.theorem1(**setting | {"global_rate": rates.global_rate}, c=0.25).phi_g
        )

    return counter_example(
        "Φ_G = O(1/T): T Φ_G does not depend on E. Its value for E = 8, over that for E = 2:",
        printed("η_L = 1/√(T E)", scaled(8, with_root=True) / scaled(2, with_root=True), "=", 1),
        corrected(
            "η_L = 1/(√T E)", scaled(8, with_root=False) / scaled(2, with_root=False), "=", 1
        ),
    )


@EXAMPLES.of(51)
def frozen_shares() -> CounterExample:
    """Show item 51: SRSR with theta = 0, a cache of four and two arrivals of the same labels."""
    cache, rng = SRSR(4, 2, 0.0), np.random.default_rng(0)
    for first in (0, 2, 4):
        cache.update([first, first + 1], [0, 1], rng)
    new = np.isin(cache.ids, [4, 5]).sum()
    return counter_example(
        "A full cache with θ = 0 meets two new samples.",
        printed("no new sample is added: new samples in the cache", new, "=", 0),
        corrected(
            "only the label shares freeze: samples of label 0", cache.label_counts(2)[0], "=", 2
        ),
    )


@EXAMPLES.of(52)
def coin_gradient() -> CounterExample:
    """Show item 52: the coin with E = 50 local steps, M = 2 rounds in the cache, and a = 1/4."""
    sizes = {"rounds": 3000, "local_steps": 50, "local_rate": 1e-6, "global_rate": 5000.0}
    bound = n14.bound(**sizes)
    least = n14.squared_gradient(3000, n14.step_of(50, 1e-6, 5000.0), 2).min()
    return counter_example(
        f"Theorem 1's bound is at least the exact squared gradient of the coin, {least:.4f}.",
        printed("the four printed terms", bound.total, "≥", least),
        printed("with the term that (88) drops", bound.total + bound.phi_m_missing, "≥", least),
        corrected("with that term times E", bound.total + 50 * bound.phi_m_missing, "≥", least),
    )


@EXAMPLES.of(74)
def kept_samples() -> CounterExample:
    """Show item 74: the first two coins kept for ever, and a short step of 1/200 a round."""
    sizes = {"rounds": 4000, "local_steps": 1, "local_rate": 1e-5, "global_rate": 500.0}
    bound = n14.bound(**sizes)
    step = n14.step_of(1, 1e-5, 500.0)
    lazy, fifo = (
        n14.squared_gradient(4000, step, 2, refreshed=refreshed).min()
        for refreshed in (False, True)
    )
    whole = bound.total + sizes["local_steps"] * bound.phi_m_missing
    return counter_example(
        "The bound, with the dropped term, is at least the exact squared gradient of the coin.",
        printed("for a cache that keeps its first samples (LAZY)", whole, "≥", lazy),
        corrected("for samples that are new in time (FIFO)", whole, "≥", fifo),
    )


NOT_SHOWN: dict[int, str] = {
    12: "The paper does not say by which law its stream moves, so that there is nothing to refute.",
    85: "The paper does not say whether FULL renews its samples; notebooks 12 and 15 run both.",
}
