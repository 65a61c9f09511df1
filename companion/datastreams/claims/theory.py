"""Claims of notebooks 20 and 23: the bound psi, its minimiser, and the theorems behind it.

Order symbols are replaced by the constants of the paper's proofs. A bound is judged where it lies
below the largest loss B, since above that nothing could break it. The seed of the first results, 0,
chose these rules; seed 10 is judged.
"""

from __future__ import annotations

from companion.judging.claims import Claim, Part
from companion.judging.rules import AtMost, Equal, Holds

FIG1 = Claim(
    "ds-fig1",
    "p_hist, the importance that the minimiser of psi gives to historical clients, goes from 1 "
    "(Historical) for c2/c1 much smaller than 1 to N_hist / N (Uniform) for c2/c1 much larger.",
    "Section 5, Fig. 1",
    [
        Part("left", "p_hist is 1 at c2/c1 = 0.001, for every fraction", Equal()),
        Part("right", "p_hist is within 0.001 of N_hist / N at c2/c1 = 100", AtMost()),
        Part("between", "p_hist never rises in between", Holds()),
        Part(
            "closed form",
            "The minimiser equals the closed form for fresh clients of one size (ERRATA 24)",
            Equal(),
            "beyond",
        ),
    ],
    "another value at an end, or a curve that rises",
    "reported for CIFAR-10 at c2/c1 = 0.15: 0.12, 0.45 and 0.95 at 5, 20 and 50 %",
)

FIG4 = Claim(
    "ds-fig4",
    "N_eff and the gradient noise go from Historical's to Uniform's as c2/c1 grows, and the "
    "transition comes at smaller c2/c1 for smaller N_hist / N.",
    "Appendix C.5, Fig. 4",
    [
        Part("left", "They start at N_hist / N and 0", Equal()),
        Part("right", "They end within 0.001 of 1 and of Uniform's noise", AtMost()),
        Part("between", "Neither falls in between", Holds()),
        Part(
            "earlier",
            "p_hist leaves 1, and is half-way down, earlier for a smaller fraction",
            Holds(),
        ),
    ],
    "another value at an end, a curve that falls, or a transition that does not move",
    "curves without printed numbers",
)

FIG2 = Claim(
    "ds-fig2",
    "Over N_hist / N, Historical's distance from the least psi falls, Uniform's rises and then "
    "falls, and the two change order for c2/c1 in [10^-1.3, 10^-0.5].",
    "Section 5, Section 6, Fig. 2",
    [
        Part("historical", "psi_hist - psi* never rises, for every ratio", Holds()),
        Part("uniform", "psi_unif - psi* rises, then falls, for every ratio", Holds()),
        Part(
            "difference",
            "psi_hist - psi_unif changes its sign exactly once for every ratio of the interval",
            Holds(),
        ),
    ],
    "another shape for one ratio",
    "the interval [10^-1.3, 10^-0.5] around CIFAR-10's 0.15",
)

_DATA = ("synthetic", "CIFAR-10", "CIFAR-100", "FEMNIST", "Shakespeare")

C2C1 = Claim(
    "ds-c2c1",
    "(204) with Table 3's B, d, G and D gives the reported ratios c2/c1, and minimising psi with "
    "these gives the reported p_hist.",
    "Appendix C.6, (204), Tables 2 to 5",
    [
        *(
            Part(
                f"ratio {name}",
                f"{name}: the three reported ratios lie in (204)'s range within the rounding of "
                "Table 3, with Table 1's N",
                AtMost(),
            )
            for name in _DATA
        ),
        *(
            Part(
                f"p_hist {name}",
                f"{name}: the three reported p_hist are the minimisers at the reported ratios, to "
                "two digits",
                AtMost(),
            )
            for name in _DATA
        ),
        *(
            Part(
                f"million {name}",
                f"{name}: with N = 1,000,000, which the paper does not state, (204) gives the "
                "reported ratio (ERRATA 26)",
                AtMost(),
                "beyond",
            )
            for name in _DATA[1:3]
        ),
    ],
    "a reported number that no value within the rounding gives",
    "ratios 0.085 to 0.094, 0.150, 0.284, 0.001 and 0.064 to 0.095; p_hist between 0.06 and 1",
)

MEMORY = Claim(
    "ds-memory",
    "Weighting clients by the samples that they hold at present leaves very small weights to fresh "
    "clients in all settings, so that it is practically the strategy Historical. With f = N_hist / "
    "N it has p_hist = f / (f + (1 - f) / T) exactly. The paper does not print T; judged is T = "
    "800, where the axis of Fig. 3 (CIFAR-10) ends, with at most 5 % of the weight for the fresh "
    "clients; the other data sets have no axis that we can read.",
    "Section 6, Baselines",
    [
        *(
            Part(
                f"{percent} %",
                f"At N_hist / N = {percent} % fresh clients get at most 5 % of the weight",
                AtMost(),
            )
            for percent in (5, 20, 50)
        ),
        Part(
            "formula",
            "The weights that clients have in a simulated arrival process are those of the formula",
            Equal(),
            "beyond",
        ),
        Part(
            "5 %, T = 100",
            "At 5 % and T = 100, our own setting, fresh clients get at most 5 % of the weight",
            AtMost(),
            "beyond",
        ),
    ],
    "a setting in which fresh clients get more than 5 % of the weight",
)

C4 = Claim(
    "ds-c4",
    "psi is convex on the simplex, and projected gradient descent minimises it.",
    "Section 5, Appendix C.4",
    [
        Part(
            "convex",
            "psi between two random points is at most what a straight line gives",
            AtMost(rtol=1e-9),
        ),
        Part(
            "descent",
            "2000 steps of projected gradient descent, with the best of three step lengths, end "
            "within 1 % of the minimum",
            AtMost(),
        ),
    ],
    "a point above the chord, or a descent that stops short",
)

LEM42 = Claim(
    "ds-lem42",
    "N_eff <= N, attained when each sample has the same relative importance, i.e. p_{m,i} = "
    "p_{m,j} for all samples i, j of a client m.",
    "Lemma 4.2",
    [
        Part("at most N", "N_eff is at most N for random weights", AtMost(rtol=1e-9)),
        Part("attained", "N is attained when weights are equal inside each client", Equal()),
        Part(
            "all alike",
            "N is attained when all samples of all clients weigh the same",
            Equal(),
            "corrected",
            29,
            corrects=("attained",),
        ),
        Part(
            "only then",
            "N_eff is below N whenever one sample weighs otherwise, by 0.1 % or more",
            Holds(),
            "corrected",
            29,
            corrects=("attained",),
        ),
    ],
    "an N_eff above N, or equal weights inside the clients with an N_eff below N",
)

UNIFORM = Claim(
    "ds-uniform",
    "For alpha = n, equal importance of all samples minimises the bound on the generalisation "
    "error, and ignoring new samples that on the optimisation error: the strategies Uniform and "
    "Historical are the two extremes.",
    "Sections 4.2 and 4.3",
    [
        Part(
            "uniform",
            "Uniform's bound (14) is at most that of any random importance of samples",
            AtMost(rtol=1e-9),
        ),
        Part(
            "nowhere lower",
            "Descent from random importance ends within 1 % above Uniform's bound, not below it",
            Holds(),
        ),
        Part(
            "historical",
            "Its bound (107) is at most that of every other strategy, at every horizon",
            AtMost(),
        ),
    ],
    "an importance with a lower bound",
)

THM41 = Claim(
    "ds-thm41",
    "The generalisation error is at most the discrepancy of the distributions plus a term of the "
    "order sqrt(Pdim / N_eff).",
    "Theorem 4.1, (14), constant 5 B of (58)",
    [
        Part("bound", "Every measured error is below a bound that is below B", AtMost()),
        Part(
            "rate",
            "sqrt(N_eff) times the error of thresholds is the same for four weightings, up to 10 %",
            AtMost(),
        ),
    ],
    "an error above its bound, or one that does not follow sqrt(N_eff)",
)

LEMB5 = Claim(
    "ds-lemB5",
    "The gradient variability is of the order of sigma_0^2 + zeta^2 sum_t q^(t) sum_m (p_m - "
    "p_m^(t))^2.",
    "Lemma B.5, (128)",
    [
        Part("bound", "With the proof's constants the bound holds in every training", AtMost()),
        Part(
            "order",
            "Up to 1024 clients who train in turns, the variability is at most 12 times (128)",
            AtMost(),
        ),
        Part(
            "order, M",
            "With M zeta^2 in place of zeta^2 it is at most 12 times the bracket",
            AtMost(),
            "corrected",
            62,
            corrects=("order",),
        ),
        Part(
            "needed, M",
            "M is no larger than need be: the ratio to that bracket is the same for all M",
            Equal(rtol=1e-9),
            "corrected",
            62,
            corrects=("order",),
        ),
    ],
    "a variability above the bound, or a ratio to (128) that grows without limit",
)

THM43 = Claim(
    "ds-thm43",
    "The optimisation error is at most of the order of sigma-bar, and for some arrival process and "
    "loss, for any weights, at least of that order. The proof gives the example: its gap is (120), "
    "so that its error is of that order.",
    "Theorem 4.3, (107), (109)-(125)",
    [
        Part("upper", "Every measured error is below a bound (107) that is below B", AtMost()),
        Part("gap", "The example's gap is at least what (120) claims, for every q", AtMost()),
        Part(
            "order",
            "In the example error over sigma-bar stays above half of its value at q = 1/2",
            AtMost(),
        ),
        Part(
            "mended",
            "With the first sample held for T / (2 C) rounds, where q^(1) <= C / T, the simulated "
            "error is at least a constant times sigma-bar for every profile of weights",
            AtMost(),
            "corrected",
            28,
            corrects=("gap", "order"),
        ),
    ],
    "an error above its bound; an example in which the error is of a smaller order",
    "(120): a gap of at least 6 q (1 - q)",
)

THM44 = Claim(
    "ds-thm44",
    "The true error is at most the optimisation error plus twice the generalisation error, (9), "
    "and so at most the sum of their bounds, (18). Judged is (9). (18) follows from it, Theorem "
    "4.1 and the upper bound of Theorem 4.3, which have rows of their own; at sizes that can be "
    "trained it lies above the largest loss, where no error could refute it.",
    "(9), Theorem 4.4, (18)",
    [Part("decomposition", "(9) holds in every measured case", AtMost())],
    "one true error above the sum",
)

COR51 = Claim(
    "ds-cor51",
    "The true error is at most psi(p) with the constants (20)-(22). As printed it is, but only "
    "because c0, which does not fall with T, exceeds sqrt(5) G D, and no error exceeds G D. Judged "
    "is therefore the derivation from Corollary 5.1' and, for the correction, both.",
    "Corollary 5.1, (19)-(22); 5.1', (157)",
    [
        Part(
            "derivation",
            "The printed psi is at least Corollary 5.1', from which it is derived",
            AtMost(),
        ),
        Part(
            "derivation, corrected",
            "With c0 over sqrt(T) and no - 2 max disc psi is at least 5.1', for random problems",
            AtMost(),
            "corrected",
            30,
            corrects=("derivation",),
        ),
        Part(
            "error, corrected",
            "That psi is above the true error where clients' importance leans to the wrong side",
            AtMost(),
            "corrected",
            30,
            corrects=("derivation",),
        ),
        Part(
            "error, main text",
            "So is psi with c0 over sqrt(T) and with - 2 max disc, as the main text has it",
            AtMost(),
            "beyond",
        ),
    ],
    "a psi below Corollary 5.1', or below a true error",
)

_EVERYWHERE = "for losses that are >= 0 on all of R^d"
_ONLY = "for losses in [0, B] on the parameter set, all that Assumption 1 asks"


def _gradient_claim(artefact: str, text: str, source: str, quantity: str, tight: str) -> Claim:
    """Return the claim of a bound on gradients by L and B under Assumption 1, which is too weak."""
    return Claim(
        artefact,
        text,
        source,
        [
            Part("on the set", f"{quantity} is below its bound {_ONLY}", AtMost()),
            Part(
                "everywhere",
                f"{quantity} is below its bound {_EVERYWHERE}",
                AtMost(),
                "corrected",
                55,
                corrects=("on the set",),
            ),
            Part("attained", f"The bound is attained, or nearly: {tight}", AtMost(), "beyond"),
        ],
        "one loss that meets Assumptions 1 and 4 with a larger value",
    )


LEMB1 = Claim(
    "ds-lemB1",
    "An L-smooth function with values in [0, B] has gradients of at most sqrt(2 L B). The "
    "statement names no parameter set; its uses in Lemmas B.2 and B.3 and in Remark 1 do.",
    "Lemma B.1",
    [
        Part("everywhere", f"The squared gradient is below its bound {_EVERYWHERE}", AtMost()),
        Part(
            "on the set",
            f"It is below its bound {_ONLY} (ERRATA 55)",
            AtMost(),
            "beyond",
        ),
        Part(
            "attained",
            "The bound is attained, or nearly: at least 0.99 of it for a quadratic",
            AtMost(),
            "beyond",
        ),
    ],
    "one L-smooth function in [0, B] with a larger gradient",
)
LEMB2 = _gradient_claim(
    "ds-lemB2",
    "The gradient of a sample differs from its client's by at most 2 sqrt(2 L B).",
    "Lemma B.2, (28)",
    "The squared distance of a sample's gradient from its client's",
    "at least 0.99 of it for opposite quadratics",
)
LEMB3 = _gradient_claim(
    "ds-lemB3",
    "The gradients of two clients differ by at most 2 sqrt(2 L B).",
    "Lemma B.3, (32)",
    "The squared distance of two clients' gradients",
    "at least 0.99 of it for opposite quadratics",
)
REMARK1 = _gradient_claim(
    "ds-remark1",
    "Assumptions 1 and 4 imply sigma_0 <= 2 sqrt(2 L B) and zeta <= 2 sqrt(2 L B).",
    "Remark 1, (10)-(13)",
    "Each of sigma_0^2 and zeta^2",
    "zeta^2 at least 0.99 of it, sigma_0^2 at least 0.24 of it",
)

CLAIMS_LIST: list[Claim] = [
    FIG1,
    FIG2,
    FIG4,
    C2C1,
    MEMORY,
    C4,
    LEM42,
    UNIFORM,
    THM41,
    LEMB5,
    THM43,
    THM44,
    COR51,
    LEMB1,
    LEMB2,
    LEMB3,
    REMARK1,
]
