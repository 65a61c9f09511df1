"""A solution of the self-checking exercise of notebook 90.

The sign is asked first, and then whether anybody would care.
"""


def answer(low, high, smallest):
    if low > 0:
        return "yes"
    if high < 0:
        return "no"
    return "too small to see" if -smallest <= low and high <= smallest else "open"
