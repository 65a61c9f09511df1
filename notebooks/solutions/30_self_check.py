"""A solution of the self-checking exercise of notebook 30.

After file f the best guess is right with the largest probability of its row. How often f is the
last request is the stationary law pi of the chain, which solves pi P = pi with entries that add up
to one.
"""

import numpy as np


def answer(transition):
    n_files = len(transition)
    equations = np.vstack([transition.T - np.eye(n_files), np.ones(n_files)])
    visits = np.linalg.lstsq(equations, np.eye(n_files + 1)[-1], rcond=None)[0]
    return visits @ transition.max(axis=1)
