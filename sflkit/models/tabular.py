"""Models on flat features: multinomial logistic regression and the multilayer perceptron.

They are the "linear model" and the "2 FC" of FDS (Federated Learning for Data Streams), Tables 1
and 3. Inputs of any shape are taken and flattened.
"""

from __future__ import annotations

from itertools import pairwise
from math import prod

from torch import nn

from sflkit import checks


def linear(input_shape: tuple[int, ...], n_classes: int) -> nn.Module:
    """Return one dense layer with bias: (n_features + 1) n_classes parameters.

    The synthetic data of FDS, D.1.1, have 20 features and a target of 0 or 1. One output has Table
    3's 21 parameters. Two outputs with cross-entropy have 42 and can make the same predictions.
    """
    return nn.Sequential(nn.Flatten(), nn.Linear(prod(input_shape), n_classes))


def mlp(
    input_shape: tuple[int, ...], n_classes: int, hidden: tuple[int, ...] = (512, 256)
) -> nn.Module:
    """Return dense layers with ReLU between them.

    With hidden=(1024,), 784 features and 62 classes it is FDS's "2 FC" for FEMNIST: 867 390
    parameters, as Table 3 has.

    Parameters
    ----------
    input_shape, n_classes
        See `models.create`.
    hidden : tuple of int
        Widths of the hidden layers, each >= 1.

    Raises
    ------
    ValueError
        If a width is out of range.
    """
    try:
        widths = [prod(input_shape), *(checks.integer("hidden", h, 1) for h in hidden), n_classes]
    except TypeError:
        raise ValueError(f"hidden={hidden!r} must be a tuple of positive integers") from None
    layers: list[nn.Module] = [nn.Flatten()]
    for n_in, n_out in pairwise(widths):
        layers += [nn.Linear(n_in, n_out), nn.ReLU()]
    return nn.Sequential(*layers[:-1])
