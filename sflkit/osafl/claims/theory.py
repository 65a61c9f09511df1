"""What OSAFL says about its data, resources, score and theory: notebooks 30, 31, 32 and 35.

Every claim is a sentence of the paper, taken apart into what one number decides. The parts marked
"beyond" are questions of ours and never count.
"""

from __future__ import annotations

from sflkit.results.claims import Claim, Part
from sflkit.results.rules import (
    Above,
    AtMost,
    Equal,
    Holds,
    Near,
    NotBelow,
    Similar,
    WithinErrors,
)

_POINTS = {"unit": "points", "scale": 100}
_LAW = WithinErrors(z=5)

_VIDEO = [
    Claim(
        "osafl-alg5",
        "A user asks for videos at random, one after another. With probability epsilon the user "
        "stays in the genre and takes one of the K files most similar to the last one, with "
        "weights exp(cosine); otherwise the user goes to another genre, drawn by preference, and "
        "takes a file by the Zipf-Mandelbrot law (80). Judged are the frequencies in simulated "
        "requests against the exact law.",
        "Algorithm 5, Appendix D-A, (80)-(82)",
        [
            Part(
                "stay", "Users stay in their genre as often as their stick probability says", _LAW
            ),
            Part("genre", "Users who leave go to the other genres by their preferences", _LAW),
            Part("choice", "Users who stay choose among the top K with weights exp(cosine)", _LAW),
            Part(
                "transition",
                "Every step from file to file that is expected 100 times occurs as often as the "
                "law says",
                _LAW,
            ),
            Part("possible", "No request occurs that has probability 0", Holds()),
            Part(
                "printed_law",
                "The probabilities of (80) with the printed normaliser add up to 1",
                Equal(),
            ),
            Part(
                "rank",
                "With the normaliser turned over (80) is a law, and who arrives in a genre takes "
                "files by it",
                _LAW,
                role="corrected",
                erratum=39,
                corrects=("printed_law",),
            ),
        ],
        "a frequency more than five standard errors from the law (five, since thousands are "
        "compared), a request that cannot be, or printed probabilities that are none",
        "no numbers",
    ),
    Claim(
        "osafl-fig2",
        "Although every user's parameters are fixed, the label shares in a store that forgets its "
        "oldest samples change from round to round; drawn are the two most and the two least "
        "frequent files of a user's first store. Each seed has its own files and users.",
        "Section II-A, Fig. 2",
        [
            Part(
                "every_round",
                "The label shares differ from those of the round before in more than nine rounds "
                "of ten (margin over 90 %)",
                Above(0.005, **_POINTS),
            ),
            Part(
                "top_2",
                "The share of the first top-2 files moves by more than two points within the run "
                "(margin over two points)",
                Above(0.005, **_POINTS),
            ),
            Part(
                "least_2",
                "For more than half of the users the share of the first least-2 files moves "
                "(margin over one half)",
                Above(0.005, **_POINTS),
            ),
            Part(
                "fixed",
                "That is chance alone: once a store has been replaced as a whole, the first top-2 "
                "files have their exact long-run share in it",
                Similar(0.01, **_POINTS),
            ),
            Part(
                "drift",
                "The average store is farther from the first one at the end than after a tenth of "
                "the rounds",
                Above(0.005, **_POINTS),
                role="beyond",
            ),
        ],
        "an interval over seeds on the wrong side, or favourites that do not return to their "
        "long-run share, which would mean that parameters move",
        "a picture without numbers",
    ),
    Claim(
        "osafl-tab1",
        "A sample of Dataset-1 has 3168 features, 101376 bits in single precision. A sample of "
        "Dataset-2 has one feature, the id of the requested file, and needs at most log2(F) bits.",
        "Table I",
        [
            Part("features", "A sample of Dataset-1 has 3168 features", Equal()),
            Part("bits", "It takes 101376 bits in single precision", Equal()),
            Part(
                "one",
                "Dataset-2 is rebuilt in full, L = 10 past requests and the next one, from one id "
                "a request",
                Holds(),
            ),
            Part("log2", "An id of F = 100 files fits into log2(F) = 6.64 bits", AtMost()),
            Part(
                "whole_bits",
                "In the next whole number of bits, seven, every id is written and read back, and "
                "in one bit less it is not",
                Holds(),
                role="corrected",
                erratum=40,
                corrects=("log2",),
            ),
            Part(
                "average",
                "A variable-length code that knows the user's long-run shares needs fewer than "
                "log2(F) bits on average (entropy, margin below it)",
                Above(0.1, unit="bits"),
                role="beyond",
            ),
        ],
        "another number of features or bits, or an id that does not fit into the printed bits",
        "3168, 101376, 1, log2(F)",
    ),
]

_RESOURCES = [
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
            "Steps, CPU frequency and transmit power in turn, repeated, iteratively solve problem "
            "(5): maximise epsilon kappa / (0.5 v C f^2) + (1 - epsilon) omega log2(1 + s p) / p "
            "within deadline and energy. Judged is the value of (5) that the algorithm reaches "
            f"{how}, rounded down to whole steps, over the best value of a brute-force search.",
            source,
            [
                Part("constraints", "Energy, deadline and all bounds hold at the end", Holds()),
                Part(
                    "monotone",
                    "No pass lowers the value of (5) by more than a millionth of it",
                    AtMost(rtol=1e-6),
                ),
                Part(
                    "value",
                    "The value reached is at most a tenth below the best one (median over the "
                    "clients that can take part)",
                    NotBelow(0.1, **{"unit": "% of the best", "scale": 100}),
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
            "a limit that is broken, a pass that lowers (5), or a value far below the best one",
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
                    Above(0.01, **_POINTS),
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

_SCORE = [
    Claim(
        "osafl-eq35",
        "The score that minimises the bound of Theorem 1 is (34), about the shifted cosine "
        "similarity lambda of (21), which lies between 0 and 1. We minimise the surrogate (30) by "
        "cvxpy, stated term by term, and compare.",
        "(21), (30)-(35)",
        [
            Part(
                "range_printed",
                "(21) with the printed denominator gamma + 1, gamma the multiplier of (34), keeps "
                "the score between 0 and 1",
                Holds(),
            ),
            Part(
                "printed",
                "(34) with C_u as printed is the minimiser of (30) to 1e-6",
                AtMost(),
            ),
            Part(
                "about",
                "At the paper's four pairs of rates the median of the best score over lambda is "
                "at least 0.9 in random rounds",
                AtMost(),
            ),
            Part(
                "range",
                "With chi + 1 in the denominator the library's score is (21) from scratch, and "
                "lies between 0 and 1",
                Holds(),
                role="corrected",
                erratum=79,
                corrects=("range_printed",),
            ),
            Part(
                "psi",
                "With C_u's last term times psi, (34) is the minimiser of (30) to 1e-6",
                AtMost(),
                role="corrected",
                erratum=31,
                corrects=("printed",),
            ),
            Part(
                "lambda_free",
                "With the lambda that makes the bound least in place of the cosine, which the "
                "proof allows, the best score is still above 0",
                Holds(),
                role="beyond",
            ),
        ],
        "one random problem whose minimiser lies more than 1e-6 from the formula, a score outside "
        "[0, 1], or a median ratio below 0.9",
        "a formula",
    ),
    Claim(
        "osafl-rem2",
        "The server computes the scores of all U clients in O(U N) time for N parameters, and a "
        "client sends its normalised gradient only: no communication on top of an ordinary "
        "round's.",
        "Remark 2",
        [
            Part(
                "numbers_sent",
                "OSAFL's next model takes N numbers of a client: the same mean gradients give the "
                "same model, whatever steps, samples and labels stand behind them",
                Equal(),
            ),
            Part(
                "operations_in_n",
                "The operations of the scores grow with N to the power 1 (log-log slope, counted)",
                Near(1.0, 0.05),
            ),
            Part(
                "operations_in_u",
                "They grow with U to the power 1",
                Near(1.0, 0.05),
            ),
            Part(
                "own_numbers",
                "M-FedNova and M-FedDisco need no more than that either",
                Holds(),
                role="beyond",
            ),
        ],
        "a server that needs more from a client than N numbers, or a count that grows faster "
        "than U times N",
        "O(U x N)",
    ),
    Claim(
        "osafl-thm1",
        "If eta eta~ <= 1/beta and eta < 1/(2 sqrt(2) beta kappa), the expected squared gradient, "
        "mean over the rounds, is at most (24), with f the score-weighted loss (18). Judged on "
        "quadratic problems whose constants and means are known exactly.",
        "Theorem 1, (24), Remark 3",
        [
            Part("conditions", "The printed conditions make A positive", Holds()),
            Part(
                "static",
                "On data that stay the exact mean lies below (24) for every fixed score tried",
                AtMost(),
            ),
            Part(
                "online",
                "With the algorithm's own scores the mean lies below (24) (margin, over simulated "
                "paths)",
                Above(0.001),
            ),
            Part(
                "moving",
                "On data that move at a steady pace the exact mean lies below (24)",
                AtMost(),
            ),
            Part(
                "remark_3",
                "With Remark 3's step size A lies between 0 and 1",
                Holds(),
                role="corrected",
                erratum=33,
                corrects=("conditions",),
            ),
            Part(
                "old_data",
                "With each round's loss decrease taken on the data that it was trained on, the "
                "exact mean lies below (24) on moving data: a steady walk of one client, and "
                "random walks of several clients with noise",
                AtMost(),
                role="corrected",
                erratum=33,
                corrects=("moving",),
            ),
        ],
        "one exact mean above the bound where the printed conditions hold",
        "a bound",
    ),
    Claim(
        "osafl-rem4",
        "Without scores (24) becomes (25). With identical clients and eta < 1/(4 beta kappa) the "
        "scores are 1, and (25) boils down to the FedAvg bound (26), which lacks the factor 1/A.",
        "Remark 4, (25), (26)",
        [
            Part("formula", "(25) is (24) with all scores 1", Equal()),
            Part("identical", "Identical updates score 1", Equal()),
            Part("boils_down", "(26) is nowhere below (25)", AtMost()),
            Part(
                "fedavg",
                "The exact mean of identical clients lies below (26)",
                AtMost(),
            ),
            Part(
                "kept",
                "With the factor 1/A kept, the exact mean lies below the bound in every setting",
                AtMost(),
                role="corrected",
                erratum=58,
                corrects=("boils_down", "fedavg"),
            ),
        ],
        "one exact mean above (26), or a setting in which (26) is below (25)",
        "a formula",
    ),
]

_STATIC = [
    Claim(
        "osafl-fig1",
        "Centralised SGD on CIFAR-10: when the data set changes while it is trained on, the "
        "performance degrades and the curve is less stable than on a static data set. The paper's "
        "two runs differ in size, batches, rates and steps as well; what the change alone does, "
        "the frozen stores tell, which are ours.",
        "Section I, Fig. 1, Appendix A",
        [
            Part(
                "accuracy",
                "Static data give a higher test accuracy than time-varying ones (mean over the "
                "last tenth of the episodes)",
                Above(0.005, **_POINTS),
            ),
            Part(
                "loss",
                "Time-varying data give a higher test loss than static ones (logarithm, mean over "
                "the last tenth)",
                Above(0.02),
            ),
            Part(
                "instability",
                "The accuracy on time-varying data moves more from one episode to the next "
                "(logarithm of the ratio of the median changes after the first quarter, half a "
                "test image added to both)",
                Above(0.1),
            ),
            Part(
                "frozen_accuracy",
                "At equal size, batches and rates, stores that never change give a higher "
                "accuracy than time-varying ones",
                Above(0.005, **_POINTS),
                role="beyond",
            ),
            Part(
                "frozen_instability",
                "At equal size, batches and rates, the accuracy on time-varying data moves more "
                "than that on stores that never change",
                Above(0.1),
                role="beyond",
            ),
        ],
        "a paired interval over the seeds on the wrong side of zero",
        "two pairs of curves, no numbers",
    ),
]

CLAIMS_LIST = [*_VIDEO, *_RESOURCES, *_SCORE, *_STATIC]
