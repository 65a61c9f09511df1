"""A solution of the self-checking exercise of notebook 12."""

import numpy as np


def answer(labels, counts):
    kept = []
    for label, count in enumerate(counts):
        newest_first = np.flatnonzero(labels == label)[::-1]
        kept.extend(newest_first[:count])
    return kept
