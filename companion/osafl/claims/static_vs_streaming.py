"""Claims about data that change while they are trained on: Figure 1 and the sentence behind it."""

from companion.judging.claims import Claim, Part
from companion.judging.rules import POINTS, Above

STATIC_VS_STREAMING = [
    Claim(
        "osafl-fig1",
        "Centralised SGD on CIFAR-10: when the data set changes while it is trained on, the "
        "performance degrades and the curve is less stable than on a static data set. The paper's "
        "two runs differ in size, batches, rates and steps as well, so that they do not show what "
        "the change alone does (osafl-frozen).",
        "Section I, Fig. 1, Appendix A",
        [
            Part(
                "accuracy",
                "Static data give a higher test accuracy than time-varying ones (mean over the "
                "last tenth of the episodes)",
                Above(0.005, **POINTS),
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
    Claim(
        "osafl-frozen",
        "Keeping the data set static by ignoring newly arrived samples, and training on the few "
        "that a small store holds, can degrade the test performance. Judged by centralised SGD on "
        "stores that never change beside the same stores with arrivals, at equal size, batches and "
        "rates.",
        "Section I",
        [
            Part(
                "accuracy",
                "Stores with arrivals give a higher test accuracy than frozen ones (mean over the "
                "last tenth of the episodes)",
                Above(0.005, **POINTS),
            ),
        ],
        "frozen stores that are as good",
    ),
]
