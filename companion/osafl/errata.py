"""OSAFL's errata in numbers: for each, a small case in which the printed reading goes wrong.

Source: OSAFL, the places that ERRATA.md names. Every function returns a
`companion.judging.errata.CounterExample`; `EXAMPLES` lists them by number and `NOT_SHOWN` says
why the others have nothing to compute. Each value that a reading must meet is computed on a way
of its own: by a grid, by a recursion in closed form, or by hand.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from companion.judging.errata import CounterExample, Examples, corrected, counter_example, printed
from sflkit.federated.servers import LocalWork
from sflkit.osafl import alternation, bounds, channels, clients, rules, video
from sflkit.osafl.allocation import allocate
from sflkit.osafl.alternation import Start
from sflkit.osafl.config import OSAFLConfig
from sflkit.osafl.devices import Devices, Link, costs
from sflkit.osafl.scores import osafl_scores

EXAMPLES = Examples()

# One client with a parabola of curvature 1, no noise and data that stay.
_QUIET: dict[str, Any] = {
    "beta": 1.0,
    "sigma2": 0.0,
    "alpha": [1.0],
    "shift": 0.0,
    "rho1": 1.0,
    "rho2": 0.0,
    "skew": 0.0,
}


@EXAMPLES.of(31)
def minimising_score() -> CounterExample:
    """Show item 31: the parabola (30) of one client with psi = 4, whose least value three of its
    points give."""
    setting = _QUIET | {"sigma2": 3.0, "shift": 0.25, "rho2": 2.0, "skew": [0.5]}
    setting |= {"rate": 0.1, "global_rate": 2.0, "similarity": [1.0], "local_steps": [2]}

    def loss(score: float) -> float:
        return bounds.score_objective([score], **setting, psi=4.0)

    bend = 2 * (loss(1.0) - 2 * loss(0.5) + loss(0.0))
    slope = loss(1.0) - loss(0.0) - bend
    least = loss(0.0) - slope**2 / (4 * bend)
    scores = {psi: bounds.optimal_scores(**setting, psi=psi)[0] for psi in (1.0, 4.0)}
    return counter_example(
        f"The score (34) makes the surrogate (30) least: {least:.6f}.",
        printed("C_u without ψ in its last term", loss(scores[1.0]), "=", least),
        corrected("C_u with ψ", loss(scores[4.0]), "=", least),
    )


@EXAMPLES.of(32)
def arbitrary_similarity() -> CounterExample:
    """Show item 32: Theorem 1's bound of one noisy client for all scores and similarities."""
    setting = _QUIET | {"sigma2": 1.0, "shift": 0.2, "rate": 0.02, "global_rate": 20.0}

    def bound(score: float, similarity: float) -> float:
        return bounds.theorem1(
            loss_decrease=0.1, score=score, similarity=similarity, local_steps=5, **setting
        ).value

    grid = np.linspace(0, 1, 21)
    least = min(bound(score, similarity) for score in grid for similarity in grid)
    return counter_example(
        f"The bound is least over all scores Δ and all numbers λ in [0, 1]: {least:.4f}.",
        printed("score equal to similarity, Δ = λ = 0.8", bound(0.8, 0.8), "≤", least),
        corrected("Δ = 0 and λ = Δ/2: never move at all", bound(0.0, 0.0), "≤", least),
    )


@EXAMPLES.of(33)
def moving_data() -> CounterExample:
    """Show item 33: w^2/2, then (w - 2)^2/2, one step of 1/2 from w = 1; and A for kappa = 5."""
    round_ = _QUIET | {
        "rate": 0.2,
        "global_rate": 2.5,
        "score": 1,
        "similarity": 1,
        "local_steps": 1,
    }
    w, reached = 1.0, 0.5
    on_new_data = w**2 / 2 - (reached - 2) ** 2 / 2
    on_old_data = w**2 / 2 - reached**2 / 2
    a = bounds.theorem1(
        loss_decrease=0.1,
        **round_ | {"rate": 0.06, "global_rate": 10.0, "local_steps": 5},
    ).a
    return counter_example(
        "The conditions make A positive, and the bound is at least the squared gradient, w² = 1.",
        printed("A for η = 0.06, β = 1, κ = 5", a, ">", 0),
        printed(
            "decrease of the loss, after the data have changed",
            bounds.theorem1(loss_decrease=on_new_data, **round_).value,
            "≥",
            w**2,
        ),
        corrected(
            "decrease on the data that the round was trained on",
            bounds.theorem1(loss_decrease=on_old_data, **round_).value,
            "≥",
            w**2,
        ),
    )


@EXAMPLES.of(34)
def fewest_steps() -> CounterExample:
    """Show item 34: problem (5) for one client that could do five steps, along its deadline."""
    device = Devices(
        snr_per_watt=10.0,
        cycles_per_step=1e9,
        energy_budget_j=10.0,
        max_cpu_hz=1e9,
        max_tx_watt=1.0,
    )
    link = Link(5.4e6)
    left = link.deadline_s - costs(device, link, 0, 0, 0.1).uplink_s

    def objective(steps: float) -> float:
        frequency = device.cycles_per_step * steps / left
        return float(
            alternation.objective(device, link, steps, frequency, 0.1, weight=1.0).total[0]
        )

    return counter_example(
        "Five steps are possible within energy and deadline, and the problem asks for them.",
        printed(
            "first term of (5) for five steps, over that for one",
            objective(5) / objective(1),
            "≥",
            1,
        ),
        corrected(
            "most steps first, then least energy: steps",
            allocate(device, link).local_steps[0],
            "=",
            5,
        ),
    )


@EXAMPLES.of(35)
def starting_power() -> CounterExample:
    """Show item 35: 600 clients on our channel who send 3 M parameters, from three start powers.

    A client is a straggler where no power of a fine grid allows a single step.
    """
    devices, link = _fleet(600), Link(33 * 3e6)
    power = np.geomspace(1e-4, 1, 400)[:, None] * devices.max_tx_watt
    sending = costs(devices, link, 0, 0, power)
    left = np.maximum(link.deadline_s - sending.uplink_s, 1e-9)
    frequency = np.minimum(devices.cycles_per_step / left, 1e12)
    computing = costs(devices, link, 1, frequency, power)
    fits = frequency <= devices.max_cpu_hz
    fits &= computing.compute_j + sending.uplink_j <= devices.energy_budget_j
    least = 1 - fits.any(axis=0).mean()
    stragglers = {
        share: np.mean(~allocate(devices, link, "alternating", start=Start(1.0, share)).feasible)
        for share in (1.0, 0.1)
    }
    return counter_example(
        f"Only clients that cannot do a single step stay out: {least:.3f} of them, by a fine grid.",
        printed("Algorithm 1 from p_max", stragglers[1.0], "≤", least + 0.01),
        printed("Algorithm 1 from p_max / 10", stragglers[0.1], "≤", least + 0.01),
        corrected(
            "the exact optimum", np.mean(~allocate(devices, link).feasible), "≤", least + 0.01
        ),
    )


@EXAMPLES.of(36)
def whole_steps() -> CounterExample:
    """Show item 36: the steps of 600 clients that Algorithm 1 ends with (1.5 M parameters)."""
    devices, link = _fleet(600), Link(33 * 1.5e6)
    real = alternation.alternate(devices, link).local_steps[-1]
    whole = allocate(devices, link, "alternating").local_steps
    broken = [np.mean(np.abs(steps - np.round(steps)) > 1e-6) for steps in (real, whole)]
    return counter_example(
        "No client is told to do a fraction of a step. Share of those who are:",
        printed("Algorithm 1 as printed", broken[0], "=", 0),
        corrected("rounded down", broken[1], "=", 0),
    )


@EXAMPLES.of(39)
def popularity() -> CounterExample:
    """Show item 39: (80) for 20 files, gamma = 1.2 and q = 2."""
    powers = (np.arange(1, 21) + 2.0) ** 1.2
    return counter_example(
        "The probabilities of the files add up to 1.",
        printed("(f + q)^−γ · Σ (f' + q)^γ", (powers.sum() / powers).sum(), "=", 1),
        corrected("(f + q)^−γ / Σ (f' + q)^−γ", video.zipf_mandelbrot(20, 1.2, 2.0).sum(), "=", 1),
    )


@EXAMPLES.of(40)
def request_data() -> CounterExample:
    """Show item 40: a label of 100 files in bits, and the preferences of one who leaves a genre."""
    preferences = [0.5, 0.3, 0.2]
    users = video.Users([preferences], [0.5])
    return counter_example(
        "A label of 100 files takes 7 whole bits, and preferences without a genre add up to 1.",
        printed("log₂ 100 bits", math.log2(100), "≥", 7),
        printed("preferences of the other genres as they are", sum(preferences[1:]), "=", 1),
        corrected("⌈log₂ 100⌉ bits", math.ceil(math.log2(100)), "≥", 7),
        corrected("renormalised without the genre", users.elsewhere()[0, 0].sum(), "=", 1),
    )


@EXAMPLES.of(79)
def score_denominator() -> CounterExample:
    """Show item 79: two identical updates, chi = 1, and gamma = 0, the multiplier of (34)."""
    updates = np.ones((2, 3))
    return counter_example(
        "A score is at most 1.",
        printed("(χ + cos) / (γ + 1)", (1 + 1) / (0 + 1), "≤", 1),
        corrected("(χ + cos) / (χ + 1)", osafl_scores(updates)[0], "≤", 1),
    )


@EXAMPLES.of(58)
def fedavg_bound() -> CounterExample:
    """Show item 58: identical clients, ten steps of 0.98 / 40, eta eta-tilde = 1.

    A round multiplies w by 1 - c with c = (1 - (1 - eta)^10) / (10 eta), so that the sum of all w^2
    from w = 1 is 1 / (1 - (1 - c)^2), and the loss falls by 1/2 in all.
    """
    steps, rate, rounds = 10, 0.98 / 40, 500
    kept = (1 - (1 - (1 - rate) ** steps) / (rate * steps)) ** 2
    exact = (1 - kept**rounds) / (1 - kept)
    decrease = (1 - kept**rounds) / 2
    bound = bounds.theorem1(
        loss_decrease=decrease,
        **_QUIET,
        rate=rate,
        global_rate=1 / rate,
        score=1.0,
        similarity=1.0,
        local_steps=steps,
    )
    return counter_example(
        f"The bound is at least the exact sum of the squared gradients, {exact:.4f}.",
        printed("(26), without 1/A", bound.value * bound.a, "≥", exact),
        corrected("(25), with 1/A", bound.value, "≥", exact),
    )


@EXAMPLES.of(37)
def buffer_of_the_absent() -> CounterExample:
    """Show item 37: one of two clients never joined, the other's gradient is 0; eta-tilde = 35."""
    return counter_example(
        "Nobody has a gradient, so that the model stays: new model over old.",
        printed("d = w/η for those who never joined", _moved("literal"), "=", 1),
        corrected("they are left out", _moved("exclude"), "=", 1),
    )


@EXAMPLES.of(38)
def buffer_in_the_baselines() -> CounterExample:
    """Show item 38: the same two clients under M-AFA-CD with the FCN's rates."""

    def moved(never_joined: str) -> float:
        rule = rules.MAFACD(2, 0.2, never_joined)
        return float(rule(np.ones(1), np.zeros((1, 1)), work=LocalWork([0], [1], 0.1))[0])

    return counter_example(
        "Nobody has a gradient, so that the model stays: new model over old.",
        printed("M-AFA-CD with d = w/η_local for the absent", moved("literal"), "=", 1),
        corrected("they are left out", moved("exclude"), "=", 1),
    )


@EXAMPLES.of(41)
def fednova_weights() -> CounterExample:
    """Show item 41: two equal clients with one and four steps, and gradients along two axes."""
    steps, rate = np.array([1, 4]), 0.1
    updates = -rate * steps[:, None] * np.eye(2)
    ratio = {}
    for form in ("printed", "true"):
        new = rules.MFedNova([1, 1], form=form)(
            np.zeros(2), updates, work=LocalWork([0, 1], steps, rate)
        )
        ratio[form] = new[1] / new[0]
    return counter_example(
        "FedNova lets no client count more for taking more steps: weight of four over one step.",
        printed("Algorithm 8", ratio["printed"], "=", 1),
        corrected("FedNova as its authors define it", ratio["true"], "=", 1),
    )


@EXAMPLES.of(44)
def printed_rates() -> CounterExample:
    """Show item 44: eta eta-tilde of the FCN, against Theorem 1's 1 / beta at beta = 1."""
    rates = {name: rules.RULES["osafl"].presets[name] for name in ("fcn", "squeezenet1")}
    step = {name: row["rate"] * row["global_rate"] for name, row in rates.items()}
    return counter_example(
        "The rates of Section V-A.4 meet Theorem 1's condition η η̃ ≤ 1/β with β = 1.",
        printed("FCN, 0.2 · 35", step["fcn"], "≤", 1),
        corrected("SqueezeNet1, 0.01 · 20, which do", step["squeezenet1"], "≤", 1),
    )


@EXAMPLES.of(66)
def which_loss() -> CounterExample:
    """Show item 66: one client w^2/2 with score 1/2, kappa = 1, eta eta-tilde = 1, tiny eta.

    A round halves w, so that the sum of all w^2 from w = 1 is 4/3; the loss falls by 1/2 in all.
    """

    def bound(loss_decrease: float) -> float:
        return bounds.theorem1(
            loss_decrease=loss_decrease,
            **_QUIET,
            rate=1e-3,
            global_rate=1e3,
            score=0.5,
            similarity=0.5,
            local_steps=1,
        ).value

    return counter_example(
        "The bound is at least the exact sum of the squared gradients.",
        printed("of the loss (3): 4/3", bound(1 / 2), "≥", 4 / 3),
        corrected("of the score-weighted loss (18), half as steep: 1/3", bound(1 / 4), "≥", 1 / 3),
    )


@EXAMPLES.of(69)
def unequal_steps() -> CounterExample:
    """Show item 69: how far the rules move for the same gradient of length 1, five steps each."""
    steps, clients_ = np.array([5, 5]), [0, 1]
    presets = {
        name: rules.RULES[name].presets["fcn"] for name in ("osafl", "m_afa_cd", "m_fednova")
    }

    def length(rule: rules.RoundRule, rate: float) -> float:
        updates = -rate * steps[:, None] * np.ones((2, 1))
        return float(-rule(np.zeros(1), updates, work=LocalWork(clients_, steps, rate))[0])

    rate = {name: preset["rate"] for name, preset in presets.items()}
    osafl = length(rules.OSAFL(2, presets["osafl"]["global_rate"]), rate["osafl"])
    afa, fast_afa = (
        length(rules.MAFACD(2, times * presets["m_afa_cd"]["global_rate"]), rate["m_afa_cd"])
        for times in (1, 35)
    )
    nova = length(rules.MFedNova([1, 1], presets["m_fednova"]["slowdown"]), rate["m_fednova"])
    return counter_example(
        f"A comparison of rules takes steps of one length; OSAFL moves by {osafl:.3g}.",
        printed("M-AFA-CD at the FCN's rates", afa, "=", osafl),
        printed("M-FedNova at the FCN's rates", nova, "=", osafl),
        corrected("M-AFA-CD with 35 times its rate", fast_afa, "=", osafl),
    )


@EXAMPLES.of(84)
def same_information() -> CounterExample:
    """Show item 84: the best accuracy of one who knows the user's law (what Dataset-1 tells) and of
    one who sees the last file only (what Dataset-2 tells), K = 1."""
    config = OSAFLConfig(seed=0, top_k=1)
    known, stranger = clients.ceiling(config), clients.ceiling_of_strangers(config)
    return counter_example(
        f"One who sees only the last file can be right in {stranger:.4f} of the requests.",
        printed("8 points less than one who knows the user", known - 0.08, "=", stranger),
        corrected("as often as one who knows the user", known, "=", stranger),
    )


def _fleet(n_clients: int) -> Devices:
    """Return clients with the paper's hardware on our channel."""
    place, shadow, _, hardware = np.random.default_rng(0).spawn(4)
    distance = channels.draw_distances(n_clients, place)
    snr = channels.snr_per_watt(distance, channels.draw_shadowing_db(n_clients, shadow))
    return channels.draw_devices(n_clients, hardware, snr=snr)


def _moved(never_joined: str) -> float:
    """Return what one round of OSAFL multiplies the model by while nobody has a gradient."""
    rule = rules.OSAFL(2, 35.0, never_joined=never_joined)
    return float(rule(np.ones(1), np.zeros((1, 1)), work=LocalWork([0], [1], 0.2))[0])


NOT_SHOWN: dict[int, str] = {
    43: "Two symbols of the cost model need a reading, which notebook 31 states.",
    42: "The paper does not say who is averaged, nor by which distance FedDisco compares labels.",
    70: "The two arms of Fig. 1 differ in more than their data. Notebook 35 trains both alike.",
    67: "The scale of the inputs is not stated. Notebook 33 trains at several.",
    83: "Two sentences name different rounds for one plateau; there is nothing to compute.",
}
