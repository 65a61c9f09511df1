"""A solution of the self-checking exercise of notebook 13.

What was there before counts for 1 - x after one round and for (1 - x)^n after n of them.
"""


def answer(theta, capacity, batch_size):
    rounds, weight = 0, 1.0
    while weight > 0.5:
        weight *= 1 - theta * batch_size / capacity
        rounds += 1
    return rounds
