"""A solution of the self-checking exercise of notebook 45."""


def answer(called_a, called_b):
    return (called_a.mean() + 1 - called_b.mean()) / 2
