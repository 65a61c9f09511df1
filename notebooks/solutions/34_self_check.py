"""A solution of the self-checking exercise of notebook 34."""

import itertools

import numpy as np


def answer(sequence, n_files):
    counts = np.zeros((n_files, n_files))
    for now, following in itertools.pairwise(sequence):
        counts[now, following] += 1
    return counts.argmax(axis=1)
