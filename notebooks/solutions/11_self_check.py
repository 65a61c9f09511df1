"""A solution of the self-checking exercise of notebook 11.

The variance of a mean of M rounds is the mean of the covariances of all M x M pairs. Two rounds
that lie `lag` apart occur M - lag times in each order.
"""


def answer(covariance, cache_rounds):
    total = cache_rounds * covariance[0]
    for lag in range(1, min(cache_rounds, len(covariance))):
        total += 2 * (cache_rounds - lag) * covariance[lag]
    return total / cache_rounds**2
