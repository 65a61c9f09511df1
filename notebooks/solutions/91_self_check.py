"""A solution of the self-checking exercise of notebook 91.

In the ratio of two values far out a factor drops out, and what falls faster has died away. If x
grows a hundredfold, the value grows by 100 ** a.
"""

import math


def answer(f):
    return math.log(f(1e14) / f(1e12)) / math.log(100)
