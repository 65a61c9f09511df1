"""A solution of the self-checking exercise of notebook 14.

Both gradients are weighted means of the same rows, so that their difference is a weighted sum whose
weights, the errors of the shares, add up to zero. What all rows have in common therefore cancels.
"""


def answer(shares, long_term, gradients):
    difference = (shares - long_term) @ gradients
    return difference @ difference
