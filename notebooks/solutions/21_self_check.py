"""A solution of the self-checking exercise of notebook 21.

The sum over the other seeds is the sum over all of them, less the seed's own row.
"""


def answer(scores):
    others = scores.sum(axis=0) - scores
    return others.argmax(axis=1)
