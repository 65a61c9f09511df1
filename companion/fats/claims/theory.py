"""What FATS says about exactness, stability, rates and costs: notebooks 40 and 41.

Every claim is a sentence of the paper, taken apart into what one number decides. The parts marked
"corrected" are judged with the named entry of ERRATA.md put in, those marked "beyond" are ours.
"""

from __future__ import annotations

from companion.judging.claims import Claim, Part
from companion.judging.rules import AtMost, Equal, Holds, Near, WithinErrors

# Fractions: a distance of zero is zero, to no digit less.
_ZERO = Equal(rtol=0, atol=1e-15)

_EXACTNESS = [
    Claim(
        "fats-alg1",
        "Learning draws the clients of each round and the mini-batches of each step uniformly. "
        "Called again at a step t_0, as forgetting does, it goes on from the local model that "
        "lines 4-6 load. We enumerate all histories of tiny federations as fractions.",
        "Algorithm 1",
        [
            Part(
                "law",
                "Every history has the same probability, in each tiny federation",
                Holds(),
            ),
            Part(
                "restart",
                "Restarted inside a round as printed, from the model after step t_0, the models "
                "follow the law of retraining (total variation 0)",
                _ZERO,
            ),
            Part(
                "restart_before",
                "Restarted from the model before step t_0 they do",
                _ZERO,
                role="corrected",
                erratum=18,
                corrects=("restart",),
            ),
        ],
        "one history with another probability, or a total variation above 0",
        "an algorithm",
    ),
    Claim(
        "fats-alg2",
        "A sample is forgotten exactly by calling Algorithm 1 from the first step that used it: "
        "the history afterwards has the law of training without the sample. We enumerate all "
        "histories of fifteen tiny federations as fractions, and estimate the distance at Table "
        "2's sizes. Which model a restart inside a round goes on from is fats-alg1.",
        "Algorithm 2, Theorem 2",
        [
            Part("tiny", "The distance to retraining is 0 in every tiny federation", _ZERO),
            Part("table_2", "It is 0 at Table 2's sizes", WithinErrors()),
            Part(
                "kept",
                "With the clients of the hit round kept, and the hit client's mini-batches drawn "
                "again from the hit on, it is 0 in every tiny federation",
                _ZERO,
                role="corrected",
                erratum=13,
                corrects=("tiny", "table_2"),
            ),
            Part(
                "kept_twice",
                "So it is after two requests in a row",
                _ZERO,
                role="corrected",
                erratum=13,
                corrects=("tiny",),
            ),
            Part(
                "minimal",
                "So it is if the sample alone is replaced inside hit mini-batches (ERRATA 16)",
                _ZERO,
                role="beyond",
            ),
            Part(
                "claim1",
                "So it is if hit mini-batches are drawn anew and all clients stay, the operator of "
                "Claim 1 in the paper's own proof",
                _ZERO,
                role="beyond",
            ),
        ],
        "one federation with a distance above 0, however small: exactness is a claim about "
        "fractions",
        "0",
    ),
    Claim(
        "fats-alg3",
        "A client is forgotten exactly by calling Algorithm 1 from the first round that drew it.",
        "Algorithm 3, Theorem 2",
        [
            Part("tiny", "The distance to retraining is 0 in every tiny federation", _ZERO),
            Part("two_in_a_row", "It is 0 after two requests in a row", _ZERO),
        ],
        "one federation with a distance above 0",
        "0",
    ),
    Claim(
        "fats-rem1",
        "If learning is rho TV-stable, its laws with and without w samples (w clients) differ by "
        "at most w rho, by the triangle inequality. We count for tiny federations and w up to "
        "three.",
        "Remark 1",
        [
            Part("samples", "Without w samples the laws differ by at most w rho_S", AtMost()),
            Part("clients", "Without w clients they differ by at most w rho_C", AtMost()),
        ],
        "one federation with a larger distance",
        "w rho_S, w rho_C",
    ),
    Claim(
        "fats-lem1",
        "The laws of learning with and without a sample (a client) differ by at most min(rho_S, "
        "1), rho_S = b K T / (M N), and min(rho_C, 1), rho_C = K R / M.",
        "Lemma 1",
        [
            Part("sample", "So it is for a sample in every tiny federation", AtMost()),
            Part("client", "So it is for a client in every tiny federation", AtMost()),
            Part("table_2", "So it is at Table 2's sizes", AtMost()),
            Part(
                "simulated_samples",
                "Simulated histories of Table 2's sizes use the share of samples that we computed",
                WithinErrors(),
            ),
            Part(
                "simulated_clients",
                "They use the share of clients that we computed",
                WithinErrors(),
            ),
            Part(
                "equal",
                "The distance is exactly the probability of being used (ERRATA 20)",
                Holds(),
                role="beyond",
            ),
        ],
        "one distance above its bound, or simulated shares off by four standard errors",
        "min(rho_S, 1), min(rho_C, 1)",
    ),
    Claim(
        "fats-thm2",
        "Algorithms 2 and 3 are exact, and w requests cause a re-computation with probability at "
        "most w rho_S (samples) and w rho_C (clients). Exact is judged for the history of draws, "
        "and for the models that a restart inside a round goes on from.",
        "Theorem 2",
        [
            Part("sample_exact", "Algorithm 2 is exact in every tiny federation", _ZERO),
            Part("client_exact", "Algorithm 3 is exact in every tiny federation", _ZERO),
            Part(
                "models_exact",
                "Restarted inside a round as printed, the models follow the law of retraining",
                _ZERO,
            ),
            Part(
                "sample_probability",
                "w samples cause a re-computation with probability at most w rho_S, w = 1 to 10, "
                "at Table 2's sizes",
                AtMost(),
            ),
            Part("client_probability", "So do w clients with at most w rho_C", AtMost()),
            Part(
                "sample_simulated",
                "Simulated histories of MNIST's sizes are hit by samples as often as we computed",
                WithinErrors(),
            ),
            Part("client_simulated", "They are hit by clients as often", WithinErrors()),
            Part(
                "sample_kept",
                "With the clients of the hit round kept, forgetting a sample is exact in every "
                "tiny federation",
                _ZERO,
                role="corrected",
                erratum=13,
                corrects=("sample_exact",),
            ),
            Part(
                "models_before",
                "Restarted from the model before the step, the models do",
                _ZERO,
                role="corrected",
                erratum=18,
                corrects=("models_exact",),
            ),
        ],
        "one federation with a distance above 0, or a probability above w rho",
        "exact; w rho_S, w rho_C",
    ),
    Claim(
        "fats-tab2",
        "Six settings M, K, R, E, b, for which the stability rho_S and rho_C that they imply lies "
        "in (0, 1], as Algorithm 1 asks.",
        "Table 2, Section 6.1",
        [
            Part("rho", "Both rho are at most 1 in all six settings", AtMost()),
            Part("line_3", "Line 3 of Algorithm 1 gives back K and b", Equal()),
            Part(
                "samples",
                "The numbers of samples are those of the training sets (four image sets)",
                Equal(),
            ),
            Part(
                "clients",
                "The numbers of clients of the image sets are the text's 100",
                Equal(),
            ),
            Part(
                "training_images",
                "With CIFAR's 50,000 training images both rho are at most 1 still, and line 3 "
                "gives back K and b",
                Holds(),
                role="corrected",
                erratum=21,
                corrects=("samples",),
            ),
            Part(
                "text_clients",
                "The table's numbers of clients are the ones meant: with the text's 100 a rho is "
                "above 1 in each of the four settings",
                Holds(),
                role="corrected",
                erratum=21,
                corrects=("clients",),
            ),
            Part(
                "plan",
                "Rounded down, K first, line 3 in whole numbers keeps every promise (ERRATA 22)",
                Holds(),
                role="beyond",
            ),
        ],
        "a rho above 1, another K or b from line 3, or a number that the text contradicts",
        "Table 2",
    ),
]

_RATES = [
    Claim(
        "fats-lem4",
        "For every step size eta that (7) allows, the mean squared gradient over T steps is at "
        "most (8), which is (9) in terms of rho_S and rho_C. Judged on problems whose constants "
        "and means are known exactly.",
        "Lemma 4, (7)-(9)",
        [
            Part("algebra", "(8) equals (9) in random settings", Equal()),
            Part(
                "noisy",
                "In a noisy problem the exact mean lies below the bound for every allowed eta, "
                "with one and with several local steps",
                AtMost(),
            ),
            Part(
                "disagreeing",
                "So it does for clients that pull in opposite directions",
                AtMost(),
            ),
            Part(
                "simulated",
                "Training on histories of the library shows the mean that we computed",
                WithinErrors(),
            ),
        ],
        "one exact mean above the bound where (7) holds",
        "(8), (9)",
    ),
    Claim(
        "fats-thm5",
        "With Gamma = G^2 / (L Delta rho_S M N) and eta = 1 / (L sqrt(Gamma) T) the mean squared "
        "gradient is at most (10), the cost of stability plus a term of order E / T, if T >= 2 "
        "lambda / sqrt(Gamma) and E / T < sqrt(Gamma / lambda) / 2.",
        "Theorem 5, (10)",
        [
            Part("substitution", "(10) is (9) at this eta, in random settings", Equal()),
            Part("implies_7", "Wherever the conditions hold, so does (7)", AtMost()),
            Part("run", "The exact mean lies below (10) in every feasible setting", AtMost()),
            Part(
                "table_2",
                "With unit constants Table 2's own settings meet the conditions",
                Holds(),
                role="beyond",
            ),
        ],
        "one exact mean above (10) where its conditions hold, or conditions without (7)",
        "(10)",
    ),
    Claim(
        "fats-rem2",
        "The cost of stability depends on rho_S alone and not on rho_C, since K b, the samples of "
        "a step, decides it, and rho_C cancels there, as long as clients hold enough samples. "
        "Judged on the law: K times b held, K from 1 to 20. What that means for accuracy in "
        "training is fats-rem2-accuracy; communication, 2 K models a round, is not judged.",
        "Remark 2 (II)",
        [
            Part(
                "exact",
                "At Theorem 5's step the exact mean squared gradient varies by at most 5 % over "
                "all K with K b held",
                AtMost(),
            ),
            Part(
                "enough_samples",
                "It ends where b would exceed a client's samples: at rho_C = rho_S / E Algorithm 1 "
                "still reaches rho_S, at half of that it does not",
                Holds(),
            ),
        ],
        "an exact mean that moves with rho_C at fixed rho_S",
        "a remark without numbers",
    ),
    Claim(
        "fats-rem3",
        "rho_S trades accuracy against unlearning: the smaller it is, the more efficient is "
        "unlearning, and where every request may cause a retraining it can be made larger than 1 "
        "for an arbitrarily small error. Judged on a problem whose means are known exactly, over "
        "more and more rounds.",
        "Remark 3",
        [
            Part(
                "falls",
                "At Theorem 5's step the exact mean squared gradient falls whenever rho_S grows, "
                "from 0.02 to 1000",
                AtMost(),
            ),
            Part("small", "At rho_S = 1000 it is below a hundredth of its start", AtMost()),
            Part(
                "efficient",
                "The smaller rho_S, the smaller the mean share of a training that one sample's "
                "request repeats",
                AtMost(),
            ),
        ],
        "an error that does not fall with rho_S, or a request that costs less at a larger one",
        "O(1 / sqrt(rho_S M N)); no numbers",
    ),
    Claim(
        "fats-cor6",
        "For E = T^(1 - alpha) and large T, or E = c T and few clients, the mean squared gradient "
        "is at most 4 sqrt(L G^2 Delta / (rho_S M N)): of order 1 / sqrt(rho_S M N), whatever "
        "rho_C is.",
        "Corollary 6",
        [
            Part(
                "alpha_case",
                "It lies above Theorem 5 in every random setting that meets the first conditions",
                AtMost(rtol=1e-9),
            ),
            Part(
                "c_case",
                "It lies above Theorem 5 in every random setting that meets the second ones",
                AtMost(rtol=1e-9),
            ),
            Part(
                "order",
                "Its log-log slopes are -1/2 in rho_S, M and N, and 0 in rho_C",
                Equal(),
            ),
        ],
        "one setting in which Theorem 5 is larger although the conditions hold",
        "4 sqrt(L G^2 Delta / (rho_S M N))",
    ),
    Claim(
        "fats-thm7",
        "w requests cost at most 4 w min(rho, 1) re-computations on average, hence time of order "
        "max(min(rho, 1) w x training, w). Judged is the number behind the order, with the exact "
        "law of first uses. The theorem names no limit on w. Time is what is recomputed; Figs. 6b "
        "and 7b plot another one (ERRATA 86).",
        "Theorem 7, Section 5.3.1",
        [
            Part(
                "clients",
                "w = 1 to 10 clients cause at most 4 w rho_C re-computations, at Table 2's sizes",
                AtMost(),
            ),
            Part("samples", "w = 1 to 10 samples cause at most 4 w rho_S", AtMost()),
            Part("time", "The steps repeated are at most that number of trainings", AtMost()),
            Part(
                "direction",
                "The mean time rises with rho_S and with rho_C",
                Holds(),
            ),
            Part(
                "simulated",
                "Streams of requests cause as many re-computations and repeat as many steps as we "
                "computed",
                WithinErrors(),
            ),
            Part(
                "nearly_all",
                "It also holds when all samples but one are forgotten, one after another",
                AtMost(),
            ),
            Part(
                "quarter_clients",
                "It holds for clients as long as a quarter of them is left, at Table 2's sizes "
                "and at the smallest ones",
                AtMost(),
                role="corrected",
                erratum=59,
                corrects=("nearly_all",),
            ),
            Part(
                "quarter_samples",
                "It holds for the samples of a client as long as a quarter of them is left",
                AtMost(),
                role="corrected",
                erratum=59,
                corrects=("nearly_all",),
            ),
        ],
        "one exact number above 4 w min(rho, 1)",
        "4 w rho",
    ),
    Claim(
        "fats-lookup",
        "A table from each sample and client to the step or round of its first use answers a "
        "request in O(1) time: whether anything has to be recomputed does not depend on the size "
        "of the history.",
        "Section 5.3.1",
        [
            Part(
                "flat",
                "What a look-up reads does not grow with the history (log-log slope of the counted "
                "entries over the number of draws)",
                Near(0.0, 0.1),
            ),
            Part(
                "right",
                "The table's answer is the first use that a search through all draws finds",
                Holds(),
            ),
            Part(
                "search",
                "What a search through the mini-batches reads grows with the draws (slope)",
                Near(1.0, 0.25),
                role="beyond",
            ),
        ],
        "a look-up that reads more the longer the history, or answers otherwise than the search",
        "O(1)",
    ),
    Claim(
        "fats-space",
        "A device stores at most T b words of mini-batches and T d of local models (d "
        "parameters), the server R K words of clients and R d of models, with b = rho_S N / "
        "(rho_C E) and R K = rho_C M. A variant that trains again from the beginning on a hit "
        "needs O(N + d) and O(M + d) only, and forgets as well. Judged on histories drawn at "
        "Table 2's sizes and, for the variant, by enumeration.",
        "Section 5.3.2",
        [
            Part(
                "device",
                "No device takes part more than R times in a training, so that it stores at most "
                "T b words of mini-batches and T local models",
                AtMost(),
            ),
            Part(
                "identities",
                "b = rho_S N / (rho_C E) and R K = rho_C M at Table 2's sizes",
                Equal(),
            ),
            Part(
                "variant",
                "The variant is exact: total variation to retraining 0 in each tiny federation",
                _ZERO,
            ),
            Part(
                "variant_kept",
                "It is exact if it trains again with the same clients in every round",
                _ZERO,
                role="corrected",
                erratum=15,
                corrects=("variant",),
            ),
            Part(
                "kept_clients",
                "The clients to be kept for that, R K numbers, are at most M at Table 2's sizes",
                AtMost(),
                role="corrected",
                erratum=15,
                corrects=("variant",),
            ),
        ],
        "a device or server that stores more, or a variant with a total variation above 0",
        "O(T max(b, d)), O(R max(K, d)); O(N + d), O(M + d)",
    ),
]

CLAIMS_LIST = [*_EXACTNESS, *_RATES]
