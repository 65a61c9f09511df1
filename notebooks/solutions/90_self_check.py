"""A solution of the self-checking exercise of notebook 90.

Whether anybody would care is asked first, and then whether 0 lies in the interval.
"""


def answer(low, high, smallest):
    if -smallest <= low and high <= smallest:
        return "no visible effect"
    if low > 0:
        return "yes"
    return "no" if high < 0 else "open"
