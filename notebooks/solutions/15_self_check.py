"""A solution of the self-checking exercise of notebook 15.

One client misses a given superclass with chance 1 - C / R, and K independent clients all miss it
with that to the power of K. Expectations add up over the superclasses, although these events are
not independent.
"""


def answer(n_clients, n_superclasses, per_client):
    return n_superclasses * (1 - per_client / n_superclasses) ** n_clients
