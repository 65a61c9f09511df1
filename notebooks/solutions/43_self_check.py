"""A solution of the self-checking exercise of notebook 43.

Round r is trained again if the client was drawn in one of the rounds 0 to r, so that the expected
share is the mean over r of one minus the chance that r + 1 rounds all miss it.
"""


def answer(n_clients, clients_per_round, rounds):
    missed = (1 - 1 / n_clients) ** clients_per_round
    return sum(1 - missed ** (r + 1) for r in range(rounds)) / rounds
