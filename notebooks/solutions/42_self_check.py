"""A solution of the self-checking exercise of notebook 42.

A round misses the client if all of its K draws do, with chance (1 - 1 / M)^K.
"""


def answer(n_clients, clients_per_round, rounds):
    missed = (1 - 1 / n_clients) ** clients_per_round
    return [missed**r * (1 - missed) for r in range(rounds)] + [missed**rounds]
