"""A solution of the self-checking exercise of notebook 44."""

import math


def answer(rho_s, n_clients, samples, clients_per_round, steps):
    return math.floor(rho_s * n_clients * samples / (clients_per_round * steps))
