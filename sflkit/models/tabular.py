"""Models on flat features: multinomial logistic regression and the multilayer perceptron.

Sources: FDS (Federated Learning for Data Streams), Tables 1 and 3: "linear model" and "2 FC".
"""

from __future__ import annotations

from itertools import pairwise
from math import prod

from torch import nn

from sflkit import checks


def linear(input_shape: tuple[int, ...], n_classes: int) -> nn.Module:
    """Return flatten + one dense layer with bias: (n_features + 1) * n_classes parameters.

    FDS's synthetic data have 20 features and a Bernoulli target, D.1.1: one output has Table 3's 21
    parameters, two with cross-entropy 42 and the same family of predictors."""
    return nn.Sequential(nn.Flatten(), nn.Linear(prod(input_shape), n_classes))


def mlp(
    input_shape: tuple[int, ...], n_classes: int, hidden: tuple[int, ...] = (512, 256)
) -> nn.Module:
    """Return flatten + dense layers with ReLU between them; `hidden` are the widths of the hidden
    layers, each >= 1.

    hidden=(1024,) on 784 features with 62 classes is FDS's "2 FC" for FEMNIST: 867 390 parameters,
    as Table 3 has. Raises ValueError on other widths."""
    try:
        widths = [prod(input_shape), *(checks.integer("hidden", h, 1) for h in hidden), n_classes]
    except TypeError:
        raise ValueError(f"hidden={hidden!r} must be a tuple of positive integers") from None
    layers: list[nn.Module] = [nn.Flatten()]
    for n_in, n_out in pairwise(widths):
        layers += [nn.Linear(n_in, n_out), nn.ReLU()]
    return nn.Sequential(*layers[:-1])
