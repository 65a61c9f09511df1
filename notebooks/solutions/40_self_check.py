"""A solution of the self-checking exercise of notebook 40.

A batch without the sample already follows the law of a batch drawn from the others. A batch that
holds it is drawn again from the others. (Putting one of the others, which is not in the batch yet,
in its place is exact as well; the paper draws the whole batch again.)
"""

import numpy as np


def answer(batch, sample, n_samples, rng):
    if sample not in batch:
        return batch
    others = np.delete(np.arange(n_samples), sample)
    return rng.choice(others, len(batch), replace=False)
