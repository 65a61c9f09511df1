"""A solution of the self-checking exercise of notebook 41.

The bound a / rate + b x rate is smallest where both terms are equal, at sqrt(a / b), here with
a = 2 gap / steps and b = smoothness x noise. Theorem 5's rate is smaller by the square root of 2,
which makes its constant 3 where 2 sqrt(2), about 2.83, would do.
"""

import math


def answer(gap, smoothness, noise, steps):
    return math.sqrt(2 * gap / (steps * smoothness * noise))
