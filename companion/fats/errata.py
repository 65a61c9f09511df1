"""FATS's errata in numbers: for each, a small case in which the printed reading goes wrong.

Source: FATS, the places that ERRATA.md names. Every function returns a
`companion.judging.errata.CounterExample`; `EXAMPLES` lists them by number and `NOT_SHOWN` says
why the others have nothing to compute. Distances are total variations to retraining, enumerated as
fractions: every history of a tiny federation, every outcome of forgetting.
"""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pandas as pd

from companion.judging import tables
from companion.judging.errata import CounterExample, Examples, corrected, counter_example, printed
from companion.notebooks.fats_shared import TINY
from companion.notebooks.n40 import restart_distances
from sflkit.fats import bounds, enumeration, expected_time, forgetting, stability
from sflkit.fats.history import History, draw_batches, draw_clients, draw_history

EXAMPLES = Examples()

# MNIST in Table 2: M, N, K, b, E, R.
_MNIST = {
    "n_clients": 300,
    "samples_per_client": 200,
    "clients_per_round": 5,
    "batch_size": 10,
    "local_steps": 10,
    "rounds": 30,
}


@EXAMPLES.of(13)
def forget_a_sample() -> CounterExample:
    """Show item 13: the first sample of the first client of two, with two samples each."""
    return counter_example(
        "Forgetting a sample is exact: the distance to retraining is 0.",
        printed("Algorithm 2, one request", _distance("printed", [(0, 0)]), "=", 0),
        printed(
            "Algorithm 2, two requests",
            _distance("printed", [(0, 0), (0, 1)], samples_per_client=3, rounds=2),
            "=",
            0,
        ),
        corrected(
            "clients of the hit round kept, one request", _distance("exact", [(0, 0)]), "=", 0
        ),
        corrected(
            "the same, two requests",
            _distance("exact", [(0, 0), (0, 1)], samples_per_client=3, rounds=2),
            "=",
            0,
        ),
    )


@EXAMPLES.of(14)
def coupling() -> CounterExample:
    """Show item 14: the proof's coupling draws clients and mini-batches of each hit round again."""
    law, goal = enumeration.drawn_law(**TINY), enumeration.retrained_law([(0, 0)], **TINY)

    def redrawn(history: History, rng: np.random.Generator) -> History:
        left = history.without([(0, 0)])
        clients, batches = history.clients.copy(), history.batches.copy()
        uses = (history.clients == 0)[:, :, None, None] & (history.batches == 0)
        hit = uses.any(axis=(1, 2, 3))
        if hit.any():
            clients[hit] = draw_clients(left, clients[hit].shape, rng)
            batches[hit] = draw_batches(left, clients[hit], history.local_steps, rng)
        return replace(left, clients=clients, batches=batches)

    after: dict = {}
    for weight, history in law.values():
        for new, p in enumeration.outcomes(lambda rng, history=history: redrawn(history, rng)):
            key = enumeration.history_key(new)
            after[key] = (after.get(key, (Fraction(0),))[0] + weight * p, new)
    return counter_example(
        "The coupling in the proof has the law of retraining: the distance is 0.",
        printed(
            "clients and mini-batches of hit rounds redrawn",
            enumeration.total_variation(after, goal),
            "=",
            0,
        ),
        corrected("clients kept", _distance("exact", [(0, 0)]), "=", 0),
    )


@EXAMPLES.of(15)
def low_memory() -> CounterExample:
    """Show item 15: after a hit the variant without a history trains again from the start."""
    law, goal = enumeration.drawn_law(**TINY), enumeration.retrained_law([(0, 0)], **TINY)
    after = {
        keep: enumeration.total_variation(
            enumeration.restarted_law(law, 0, 0, keep_clients=keep), goal
        )
        for keep in (False, True)
    }
    return counter_example(
        "Training again from the start after a hit is exact: the distance is 0.",
        printed("all clients drawn again", after[False], "=", 0),
        corrected("with the same clients as before", after[True], "=", 0),
    )


@EXAMPLES.of(16)
def cheaper_rules() -> CounterExample:
    """Show item 16: what has to be drawn again, for two clients of two samples and two steps."""
    sizes = {"clients_per_round": 2, "local_steps": 2}
    return counter_example(
        "Forgetting a sample is exact: the distance to retraining is 0.",
        printed(
            "Algorithm 2: every slot of the round, and its clients",
            _distance("printed", [(0, 0)], **sizes),
            "=",
            0,
        ),
        corrected(
            "only the hit client's mini-batches from the hit on",
            _distance("exact", [(0, 0)], **sizes),
            "=",
            0,
        ),
        corrected(
            "only the sample itself, where a mini-batch holds it",
            _distance("minimal", [(0, 0)], **sizes),
            "=",
            0,
        ),
        corrected(
            "only the mini-batches that hold it (Claim 1)",
            _distance("claim1", [(0, 0)], **sizes),
            "=",
            0,
        ),
    )


@EXAMPLES.of(17)
def forget_a_client() -> CounterExample:
    """Show item 17: Algorithm 3 is exact as printed, here for the first of three clients."""
    return counter_example(
        "Forgetting a client is exact: the distance to retraining is 0.",
        printed(
            "Algorithm 3, one request",
            _distance("exact", [(0, None)], n_clients=3, clients_per_round=2),
            "=",
            0,
        ),
        printed(
            "Algorithm 3, two requests",
            _distance("exact", [(0, None), (2, None)], n_clients=3, samples_per_client=1, rounds=2),
            "=",
            0,
        ),
    )


@EXAMPLES.of(18)
def loaded_model() -> CounterExample:
    """Show item 18: one client of three samples, two steps, a hit at the second."""
    distance = restart_distances()
    return counter_example(
        "Restarting inside a round is exact: the distance to retraining is 0.",
        printed("the model after step t₀ is loaded", distance["printed"], "=", 0),
        corrected("the model before step t₀", distance["from before"], "=", 0),
    )


@EXAMPLES.of(19)
def drawn_twice() -> CounterExample:
    """Show item 19: two clients of two samples, both slots of a round may be the same client."""
    sizes = dict(TINY, clients_per_round=2)
    law = enumeration.drawn_law(**sizes)
    used = sum(p for p, history in law.values() if history.first_use(0, 0) is not None)
    return counter_example(
        "Lemma 1's proof takes the K R slots as independent, so that 1 − (1 − b/(MN))² = 7/16.",
        printed(
            "one series of mini-batches for both slots", Fraction(3, 4) / 2, "=", Fraction(7, 16)
        ),
        corrected("each slot has its own: enumerated", used, "=", Fraction(7, 16)),
    )


@EXAMPLES.of(20)
def loose_lemma() -> CounterExample:
    """Show item 20: the distance that one sample makes, against Lemma 1, for one round of two."""
    sizes = dict(TINY, clients_per_round=2)
    exact = enumeration.total_variation(
        enumeration.drawn_law(**sizes), enumeration.retrained_law([(0, 0)], **sizes)
    )
    found = stability.stability(**sizes)
    return counter_example(
        f"The laws with and without a sample are {exact} apart, enumerated.",
        printed("ρ_S = b K T / (M N)", found.rho_s, "=", exact),
        corrected("the probability of being used", found.p_sample, "=", exact),
    )


@EXAMPLES.of(21)
def table_2() -> CounterExample:
    """Show item 21: Table 2's samples of CIFAR-10, and MNIST with the 100 clients of the text."""
    text = tables.paper_value("fats", "fats", "clients of the simulated data sets")
    samples = tables.paper_value("fats", "fats-tab2", "Cifar-10 samples")
    rho = {m: 5 * 30 / m for m in (text, _MNIST["n_clients"])}
    training = stability.stability(
        **_MNIST | {"n_clients": 600, "samples_per_client": 50_000 / 600, "rounds": 50}
    )
    return counter_example(
        "CIFAR-10 trains on 50,000 images, and ρ_C = K R / M is at most 1.",
        printed("samples of CIFAR-10 in Table 2", samples, "=", 50_000),
        printed("ρ_C of MNIST with the text's 100 clients", rho[text], "≤", 1),
        corrected("ρ_S of CIFAR-10 with 50,000", training.rho_s, "≤", 1),
        corrected("ρ_C of MNIST with Table 2's 300 clients", rho[300], "≤", 1),
    )


@EXAMPLES.of(22)
def rounding() -> CounterExample:
    """Show item 22: line 3 of Algorithm 1 for M = 40, R = 4, E = 5, N = 100 and rho_C = 0.15."""
    sizes = {"n_clients": 40, "samples_per_client": 100, "local_steps": 5, "rounds": 4}
    plan = stability.plan(rho_s=0.3, rho_c=0.15, **sizes)
    nearest = math.floor(0.15 * 40 / 4 + 0.5)  # 1.5 clients a round
    return counter_example(
        "Whole numbers of clients keep the promised ρ_C = 0.15.",
        printed("ρ_C M / R = 1.5 rounded to the nearest", nearest * 4 / 40, "≤", 0.15),
        corrected("rounded down", plan.rho_c, "≤", 0.15),
    )


@EXAMPLES.of(23)
def too_few_rounds() -> CounterExample:
    """Show item 23: Theorem 5 for MNIST with unit constants, and the step that balances (9).

    a / eta + b eta is least at eta = sqrt(a / b); in units of sqrt(a b / 2) it is 2 sqrt(2) there
    and 3 at the theorem's step.
    """
    rho = stability.stability(**_MNIST)
    unit = {"loss_gap": 1.0, "smoothness": 1.0, "grad_var": 1.0, "heterogeneity": 1.0}
    sizes = {key: _MNIST[key] for key in ("n_clients", "samples_per_client", "local_steps")}
    theorem = bounds.theorem5(**unit, **sizes, steps=300, rho_s=rho.rho_s, rho_c=rho.rho_c)
    eta = np.geomspace(0.1, 10, 20_001)
    least = (2 / eta + eta).min()
    return counter_example(
        "MNIST's rounds are enough for Theorem 5 with unit constants, and its step is the best.",
        printed("R = 30, against 2√(λ/Γ)", 30, ">", 2 / math.sqrt(theorem.gamma)),
        printed("2/η + η at the theorem's step, η = 1", 3, "≤", least + 1e-6),
        corrected("2/η + η at the step √2", 2 * math.sqrt(2), "≤", least + 1e-6),
    )


@EXAMPLES.of(45)
def sizes_after_deletion() -> CounterExample:
    """Show item 45: one of MNIST's 300 clients is forgotten; Algorithm 1 called again plans K."""
    small = _MNIST | {"samples_per_client": 20, "batch_size": 1}
    history = draw_history(**small, rng=np.random.default_rng(0))
    after = forgetting.forget_client(history, 0, np.random.default_rng(1)).history
    again = math.floor(0.5 * 299 / 30)
    return counter_example(
        "A deletion leaves the number of clients per round as it was, 5.",
        printed("K = ⌊ρ_C M / R⌋ computed anew", again, "=", 5),
        corrected("K kept", after.clients.shape[1], "=", 5),
    )


@EXAMPLES.of(59)
def nearly_everything() -> CounterExample:
    """Show item 59: one client of 100 samples, one step, b = 1, requests one after another.

    The i-th request hits with probability 1 / (100 - i + 1).
    """
    hits = [Fraction(1, 100 - i) for i in range(99)]
    most, three_quarters = (bounds.theorem7(rho=0.01, requests=w).recomputations for w in (99, 75))
    return counter_example(
        "Requests cause at most 4 w ρ re-computations on average.",
        printed("all samples but one, exactly", sum(hits), "≤", most),
        corrected("a quarter of the samples left", sum(hits[:75]), "≤", three_quarters),
    )


@EXAMPLES.of(46)
def direction() -> CounterExample:
    """Show item 46: the exact mean time of one request, in trainings, for b = 5 and 40 at MNIST."""
    steps = _MNIST["local_steps"] * _MNIST["rounds"]
    time = {b: expected_time.sample_time(**_MNIST | {"batch_size": b}) / steps for b in (5, 40)}
    return counter_example(
        f"The mean unlearning time is {time[5]:.3f} trainings at ρ_S = 0.125. At ρ_S = 1:",
        printed("it is shorter (Section 6.2.4)", time[40], "≤", time[5]),
        corrected("it is longer (Theorem 7)", time[40], "≥", time[5]),
    )


@EXAMPLES.of(87)
def ahead_everywhere() -> CounterExample:
    """Show item 87: the authors' own curves of Figs. 5b and 8d, read from the vector graphics.

    A fall is the mean accuracy of the five rounds before the request, which is in round 50, minus
    the least one of the five from it on.
    """

    def accuracy(figure: str, panel: str) -> pd.DataFrame:
        curves = tables.paper_curve(figure)
        return curves[curves["panel"] == panel].pivot(index="x", columns="series", values="y")

    forgets = accuracy("fats-fig5", "b")
    fall = forgets.loc[45:49].mean() - forgets.loc[50:54].min()
    stream = accuracy("fats-fig8", "d").loc[20:79].mean()
    return counter_example(
        "FATS falls less than FR² (samples of Fashion-MNIST), and stays above it (FEMNIST).",
        printed("fall in Figure 5b, at most FR²'s", fall["FATS"], "≤", fall["FR2"]),
        printed("mean in Figure 8d, at least FR²'s", stream["FATS"], "≥", stream["FR2"]),
    )


@EXAMPLES.of(88)
def five_runs() -> CounterExample:
    """Show item 88: the fewest runs on 9,900 images of which all values of a curve can be means.

    The curves are known to 1e-6, which k runs make 0.01 k of a step of 1 / (9900 k); a value that
    is no such mean lies up to half a step away.
    """

    def runs(figure: str, panel: str, series: str) -> int:
        curves = tables.paper_curve(figure)
        y = curves.loc[(curves["panel"] == panel) & (curves["series"] == series), "y"]
        steps = (9900 * k * y for k in range(1, 11))
        fits = [abs(s - s.round()).max() < 0.1 for s in steps]
        return 1 + fits.index(True)

    return counter_example(
        "Accuracies are averages over 5 independent runs.",
        printed("runs behind FATS in Figure 5a", runs("fats-fig5", "a", "FATS"), "=", 5),
        printed("runs behind FATS in Figure 5d", runs("fats-fig5", "d", "FATS"), "=", 5),
        printed("runs behind FATS in Figure 8b", runs("fats-fig8", "b", "FATS"), "=", 5),
    )


@EXAMPLES.of(61)
def attack_grid() -> CounterExample:
    """Show item 61: MNIST's accuracy after retraining, 50.10 +- 0.25 % over 100 attacks.

    With n samples a side accuracies are multiples of 1 / (2n), so that a mean that lies d above one
    of them has at least the variance d (1 / (2n) - d), times 100 / 99 in a sample of 100. Taken is
    what the two printed digits leave open: the least d and the largest spread.
    """
    mean, spread = (
        tables.paper_value("fats", "fats-tab1", f"MNIST accuracy FRS {words}(%)")
        for words in ("", "standard deviation ")
    )
    above = (mean - 50 - 0.005) / 100

    def least(n: int) -> float:
        return 100 * math.sqrt(above * (1 / (2 * n) - above) * 100 / 99)

    return counter_example(
        f"Attacks with a mean of {mean:.2f} % spread by at most {spread:.2f} points.",
        printed("10 samples a side, as many as are forgotten", least(10), "≤", spread + 0.005),
        corrected("65 samples a side", least(65), "≤", spread + 0.005),
    )


@EXAMPLES.of(64)
def heterogeneity() -> CounterExample:
    """Show item 64: two equal parabolas, a step of 0.1 along noise of 1 and -1, near the minimum.

    The local models are then theta +- 0.1, and so are their gradients, while the mean one is theta.
    """

    def ratio(theta: float, moved: float) -> float:
        gradients = np.array([theta + moved, theta - moved])
        return float((gradients**2).mean() / gradients.mean() ** 2)

    return counter_example(
        "The ratio λ of mean square to squared mean at θ = 0.1 bounds that at all θ.",
        printed("at θ = 0.001, after a noisy step (E = 2)", ratio(1e-3, 0.1), "≤", ratio(0.1, 0.1)),
        corrected("at θ = 0.001, all at one point (E = 1)", ratio(1e-3, 0.0), "≤", ratio(0.1, 0.0)),
    )


def _distance(rule: str, requests: list, **change: int) -> Fraction:
    """Return the distance to retraining after requests in a tiny federation."""
    sizes = dict(TINY, **change)
    law = enumeration.drawn_law(**sizes)
    for request in requests:
        law = enumeration.forgotten_law(law, request, rule)
    return enumeration.total_variation(law, enumeration.retrained_law(requests, **sizes))


NOT_SHOWN: dict[int, str] = {
    47: "A baseline is described otherwise than its authors coded it; nothing is refuted.",
    86: "What figures plot is told by fitting their points; tests/fats/test_expected_time.py does.",
    65: "Which rate gives the accuracies drawn takes training to see; notebook 42 trains.",
}
