"""A solution of the self-checking exercise of notebook 92.

The shares stay as they are when everybody asks once more, and add up to 1: a system of linear
equations with one equation too many, and one solution.
"""

import numpy as np


def answer(P):
    n = len(P)
    system = np.vstack([np.transpose(P) - np.eye(n), np.ones(n)])
    return np.linalg.lstsq(system, np.append(np.zeros(n), 1.0), rcond=None)[0]
