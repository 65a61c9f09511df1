"""Claims about what a client spends: Lemmas 1 and 2, Algorithms 1, 3 and 4, Figure 3."""

from companion.judging.claims import Claim, Part
from companion.judging.rules import POINTS, Above, AtMost, Holds, Near, NotBelow

RESOURCES = [
    Claim(
        "osafl-lem1",
        "For a given CPU frequency and transmit power the best number of local steps is the "
        "largest that energy, deadline and kappa <= 5 allow, (7).",
        "Lemma 1, (7)",
        [
            Part("feasible", "The answer meets energy, deadline and kappa <= 5", Holds()),
            Part(
                "grid",
                "No number of steps on a fine grid has a higher objective, for any client",
                AtMost(rtol=1e-9),
            ),
        ],
        "one client whose answer breaks a limit or is beaten by the grid",
        "a formula",
    ),
    Claim(
        "osafl-lem2",
        "For a given number of steps and transmit power the best CPU frequency is the one that "
        "uses the deadline up, (9).",
        "Lemma 2, (9)",
        [
            Part("feasible", "The answer meets energy, deadline and f_max", Holds()),
            Part(
                "grid",
                "No frequency on a fine grid has a higher objective, for any client",
                AtMost(rtol=1e-9),
            ),
        ],
        "one client whose answer breaks a limit or is beaten by the grid",
        "a formula",
    ),
    Claim(
        "osafl-alg3",
        "For a given number of steps and CPU frequency successive convex approximation finds the "
        "best transmit power of (10).",
        "Algorithm 3, (10)-(13)",
        [
            Part("feasible", "The answer meets energy, deadline and p_max", Holds()),
            Part(
                "grid",
                "No power on a fine grid has a higher objective, for any client",
                AtMost(rtol=1e-9),
            ),
        ],
        "one client whose answer breaks a limit or is beaten by the grid",
        "an algorithm",
    ),
    *(
        Claim(
            artefact,
            "Steps, CPU frequency and transmit power in turn, repeated, approximately solve "
            "problem (5): maximise epsilon kappa / (0.5 v C f^2) + (1 - epsilon) omega "
            "log2(1 + s p) / p within deadline and energy. Judged is the value of (5) that the "
            f"algorithm reaches {how}, rounded down to whole steps, over the best value of a "
            "brute-force search. It depends on the start and on epsilon, which the paper does not "
            "state.",
            source,
            [
                Part(
                    "value",
                    "The value reached is at most a tenth below the best one (median over the "
                    "clients that can take part)",
                    NotBelow(0.1, unit="% of the best", scale=100),
                ),
                Part(
                    "constraints",
                    "Energy, deadline and all bounds hold at the end",
                    Holds(),
                    role="beyond",
                ),
                Part(
                    "monotone",
                    "No pass lowers the value of (5) by more than a millionth of it",
                    AtMost(rtol=1e-6),
                    role="beyond",
                ),
                Part(
                    "starts",
                    "The whole steps from p_max, p_max/10 and p_max/100 agree for at least 90 % "
                    "of the clients",
                    Near(1.0, 0.1),
                    role="beyond",
                ),
                Part(
                    "moves",
                    "The power at the end differs from the start by more than 1 % for at least "
                    "half of the clients",
                    Holds(),
                    role="beyond",
                ),
                Part(
                    "energy",
                    "At equal whole steps the energy is, in the median, at most 1.1 times the "
                    "least, from each of the three starts",
                    AtMost(),
                    role="beyond",
                ),
            ],
            "a value far below the best one",
            "an algorithm",
        )
        for artefact, source, how in (
            ("osafl-alg1", "Algorithm 1, Section II-C", "with the closed forms"),
            ("osafl-alg4", "Algorithm 4, Appendix B", "with cvxpy, as in the appendix"),
        )
    ),
    Claim(
        "osafl-fig3",
        "Problem (5) can be infeasible for some clients; these are the stragglers. The chance "
        "rises with the payload: with SqueezeNet1, CNN, LSTM and FCN, payloads in this order, 22, "
        "34, 51 and 72 % of the clients are stragglers in at least half of the rounds. The four "
        "shares themselves do not count: channel, start and layer sizes are not stated, and ours "
        "were chosen with the four numbers in view, on other seeds.",
        "Section V-A, Fig. 3",
        [
            *(
                Part(
                    f"{larger}_over_{smaller}",
                    f"With the {larger} more clients are stragglers in at least half of the "
                    f"rounds than with the {smaller}",
                    Above(0.01, **POINTS),
                )
                for smaller, larger in (("SqueezeNet1", "CNN"), ("CNN", "LSTM"), ("LSTM", "FCN"))
            ),
            Part(
                "infeasible",
                "Nobody is left out for whom (5) is feasible: no straggler could do a whole step",
                Holds(),
            ),
            Part(
                "starts",
                "The shares from p_max, p_max/10 and p_max/100 agree within five points for every "
                "network",
                AtMost(),
                role="beyond",
            ),
            Part(
                "sample_bits",
                "With the few bits of Dataset-2's samples the LSTM's share stays within one point",
                AtMost(),
                role="beyond",
            ),
            Part(
                "fitted",
                "From the start and with the sizes that were fitted, the four shares lie within "
                "ten points of the printed ones",
                AtMost(),
                role="beyond",
            ),
        ],
        "an order that does not hold, or a straggler who could take part",
        "22, 34, 51, 72 %",
    ),
]
