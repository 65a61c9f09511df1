"""Claims about requests for videos and the data sets made of them: Algorithm 5, Fig. 2, Table I."""

from companion.judging.claims import Claim, Part
from companion.judging.rules import POINTS, Above, AtMost, Equal, Holds, Similar, WithinErrors

_LAW = WithinErrors(z=5)

VIDEO = [
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
                Above(0.005, **POINTS),
            ),
            Part(
                "top_2",
                "The share of the first top-2 files moves by more than two points within the run "
                "(margin over two points)",
                Above(0.005, **POINTS),
            ),
            Part(
                "least_2",
                "For more than half of the users the share of the first least-2 files moves "
                "(margin over one half)",
                Above(0.005, **POINTS),
            ),
            Part(
                "fixed",
                "That is chance alone: once a store has been replaced as a whole, the first top-2 "
                "files have their exact long-run share in it",
                Similar(0.01, **POINTS),
            ),
            Part(
                "drift",
                "The average store is farther from the first one at the end than after a tenth of "
                "the rounds",
                Above(0.005, **POINTS),
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
