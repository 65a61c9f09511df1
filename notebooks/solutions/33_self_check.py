"""A solution of the self-checking exercise of notebook 33.

If all clients contribute d, OSAFL moves by rate x mean(score) x d and the plain mean by its own
rate x d.
"""


def answer(server_rate, scores):
    return server_rate * scores.mean()
