"""The claim about data that change while they are trained on: Figure 1."""

from sflkit.results.claims import Claim, Part
from sflkit.results.rules import POINTS, Above

STATIC_VS_STREAMING = [
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
                "frozen_accuracy",
                "At equal size, batches and rates, stores that never change give a higher "
                "accuracy than time-varying ones",
                Above(0.005, **POINTS),
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
