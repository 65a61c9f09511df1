"""A solution of the self-checking exercise of notebook 92.

Each sample that is gone gives its place in every batch to one new sample, always the same one: a
change of names, which leaves a uniform draw uniform. If there is one new sample too few, a gone one
has nobody to take its name, and its place is filled by a sample that the batch does not hold yet.
"""

import numpy as np


def answer(batch, before, after, rng):
    gone, new = np.setdiff1d(before, after), np.setdiff1d(after, before)
    names = dict(zip(gone, new, strict=False))
    renamed = [names.get(sample, sample) for sample in batch]
    kept = [sample for sample in renamed if sample in after]
    unused = np.setdiff1d(after, kept)
    return np.array(kept + list(rng.choice(unused, len(batch) - len(kept), replace=False)))
