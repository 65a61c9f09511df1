"""A solution of the self-checking exercise of notebook 23.

Each of a client's n samples has the weight p / n, and n times (p / n)^2 is p^2 / n.
"""


def answer(weights, samples):
    return 1 / (weights**2 / samples).sum()
