"""A solution of the self-checking exercise of notebook 32."""

import numpy as np


def answer(updates, chi):
    mean = updates.mean(axis=0)
    cosine = updates @ mean / (np.linalg.norm(updates, axis=1) * np.linalg.norm(mean))
    return (chi + cosine) / (chi + 1)
