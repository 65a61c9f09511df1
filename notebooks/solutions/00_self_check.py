"""A solution of the self-checking exercise of notebook 00."""


def answer(counts, long_term):
    shares = counts / counts.sum()
    return ((shares - long_term) ** 2).sum()
