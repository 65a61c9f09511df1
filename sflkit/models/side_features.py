"""The four networks of OSAFL: FCN, SqueezeNet1 and CNN on Dataset-1, a three-layer LSTM on
Dataset-2.

Source: OSAFL, Section V-A, Appendix D-A.3; SqueezeNet: Iandola et al. 2016 in its version 1.1. The
text has no layer sizes, and we have not seen Figs. 3a, 7 and 8. All sizes are ours: SqueezeNet1
keeps its own, the others stand in the paper's order of payloads (`sflkit.osafl.networks`).

Dataset-1 is a row of 3168 features (`sflkit.osafl.video.dataset_1`). The two convolutional networks
read the first 3072 as the file's image, 3 x 32 x 32, and put the other 96 ("side features":
preferences, similarities, genre, stick probability) beside what the convolutions make of it, in
front of the dense layers. Appendix D-A repeats the genre 70 times "to have a particular shape", and
3168 = 3 x 32 x 33: the authors' convolutions may read the whole row as one image, which is not run.

| code     | shape     | meaning                                                       |
|----------|-----------|---------------------------------------------------------------|
| features | (n, 3168) | samples of Dataset-1: image, then side features               |
| labels   | (n, 10)   | samples of Dataset-2: the last L = 10 file ids, int64         |
"""

from __future__ import annotations

from itertools import pairwise
from math import prod

import torch
from torch import Tensor, nn

from sflkit import checks
from sflkit.models import tabular, text

N_FEATURES = 3168  # of a sample of Dataset-1
IMAGE = (3, 32, 32)  # its first numbers, as channels, height and width
PAST = 10  # file ids of a sample of Dataset-2


def fcn(
    input_shape: tuple[int, ...], n_classes: int, hidden: tuple[int, ...] = (512, 256)
) -> nn.Module:
    """Return the FCN: dense layers of `hidden` units with ReLU between them.

    Source: OSAFL, Fig. 7a; sizes ours.

    Raises
    ------
    ValueError
        As `tabular.mlp`.
    """
    return tabular.mlp(input_shape, n_classes, hidden)


def lstm(
    input_shape: tuple[int, ...],
    n_classes: int,
    embedding: int = 128,
    hidden: int = 240,
    layers: int = 3,
) -> nn.Module:
    """Return the LSTM over the last file ids, each one of `n_classes` files.

    Source: OSAFL, Fig. 8; sizes ours.

    Parameters
    ----------
    input_shape : (int,)
        Number of ids.
    n_classes : int
        Number of files.
    embedding, hidden, layers : int
        Width of the embedding, units of a layer, and number of layers (three in the paper), each
        >= 1.

    Raises
    ------
    ValueError
        As `text.char_rnn`.
    """
    return text.char_rnn(input_shape, n_classes, n_classes, embedding, hidden, layers, "lstm")


def cnn(
    input_shape: tuple[int, ...],
    n_classes: int,
    channels: tuple[int, ...] = (32, 64),
    hidden: int = 224,
) -> nn.Module:
    """Return the CNN: 3x3 convolutions, and two dense layers that see the side features as well.

    Each convolution has ReLU and 2x2 max-pooling behind it. Source: OSAFL, Fig. 7b, "a simple CNN";
    sizes ours.

    Parameters
    ----------
    input_shape : (int,)
        Number of features, the image's first.
    n_classes : int
    channels : tuple of int
        Of one to five convolutions, each >= 1.
    hidden : int
        Width of the first dense layer, >= 1.

    Raises
    ------
    ValueError
        For fewer features than the image has, or other sizes out of range.
    """
    hidden = checks.integer("hidden", hidden, 1)
    (n_in, *sides), n_side = IMAGE, _side_features(input_shape)
    try:
        widths = [checks.integer("channels", c, 1) for c in channels]
    except TypeError:
        widths = []
    if not 1 <= len(widths) <= 5:
        raise ValueError(f"channels={channels!r} must be a tuple of 1 to 5 positive integers")
    layers = []
    for before, after in pairwise([n_in, *widths]):
        # Pooling stands before its ReLU, as in `images`: the same function, at less cost.
        layers += [nn.Conv2d(before, after, 3, padding=1), nn.MaxPool2d(2), nn.ReLU()]
    n_maps = widths[-1] * prod(side >> len(widths) for side in sides)
    dense = nn.Sequential(
        nn.Linear(n_maps + n_side, hidden), nn.ReLU(), nn.Linear(hidden, n_classes)
    )
    return Beside(nn.Sequential(*layers, nn.Flatten()), dense)


# What follows the first convolution and pooling of SqueezeNet 1.1: (squeeze, expand) channels of a
# fire module, or None for 3x3 max-pooling with stride 2.
_FIRES = (
    (16, 64),
    (16, 64),
    None,
    (32, 128),
    (32, 128),
    None,
    (48, 192),
    (48, 192),
    (64, 256),
    (64, 256),
)


def squeezenet1(input_shape: tuple[int, ...], n_classes: int) -> nn.Module:
    """Return SqueezeNet 1.1 with the side features beside its 512 averaged maps.

    Source: OSAFL, Appendix D-A.3, "the same architecture as in [40]". Convolutions, fire modules
    and poolings are those of SqueezeNet 1.1 (722 496 parameters), whose maps go 15, 7, 3, 1 on 32 x
    32. Deviations: the last layer is dense on averages and side features, which without these and
    without the ReLU that the original puts on its outputs is the original's 1 x 1 convolution; no
    dropout. Weights start as He et al. 2015 have them, as usual for this network: it has no
    normalisation, and with torch's default the outputs hardly differ among samples.

    Parameters
    ----------
    input_shape : (int,)
        Number of features, the image's first.
    n_classes : int

    Raises
    ------
    ValueError
        For fewer features than the image has.
    """
    # The first pooling stands before its ReLU, as in `images`; the others follow fire modules,
    # which end in ReLU.
    layers = [Conv(IMAGE[0], 64, 3, stride=2), _pooling(), nn.ReLU()]
    n_maps = 64
    for fire in _FIRES:
        layers.append(Fire(n_maps, *fire) if fire else _pooling())
        n_maps = 2 * fire[1] if fire else n_maps
    maps = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten())
    return Beside(maps, nn.Linear(n_maps + _side_features(input_shape), n_classes))


class Beside(nn.Module):
    """A network for rows of features (n, n_features), an image and side features behind it.

    Parameters
    ----------
    maps : Module
        What is made of the images (n, *IMAGE), flat.
    head : Module
        What is made of that and of the side features beside it.
    """

    def __init__(self, maps: nn.Module, head: nn.Module):
        super().__init__()
        self.maps = maps
        self.head = head

    def forward(self, x: Tensor) -> Tensor:
        """Return the outputs for rows of features."""
        pixels, side = x[:, : prod(IMAGE)], x[:, prod(IMAGE) :]
        return self.head(torch.cat([self.maps(pixels.reshape(-1, *IMAGE)), side], dim=1))


def _pooling() -> nn.Module:
    return nn.MaxPool2d(3, 2, ceil_mode=True)


class Conv(nn.Conv2d):
    """A convolution that starts with the variance of He et al. 2015 and without bias."""

    def reset_parameters(self) -> None:
        """Draw the weights anew."""
        nn.init.kaiming_uniform_(self.weight, nonlinearity="relu")
        nn.init.zeros_(self.bias)


class Fire(nn.Module):
    """Squeeze to few channels (1x1), then expand by 1x1 and by 3x3, side by side.

    Source: Iandola et al. 2016, Section 3.2.
    """

    def __init__(self, n_in: int, squeeze: int, expand: int):
        super().__init__()
        self.squeeze = Conv(n_in, squeeze, 1)
        self.one = Conv(squeeze, expand, 1)
        self.three = Conv(squeeze, expand, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        """Return the maps of both expansions, one behind the other."""
        x = torch.relu(self.squeeze(x))
        return torch.relu(torch.cat([self.one(x), self.three(x)], dim=1))


def _side_features(input_shape: tuple[int, ...]) -> int:
    """Return the number of features behind the image."""
    if len(input_shape) != 1 or input_shape[0] < prod(IMAGE):
        raise ValueError(
            f"input_shape={input_shape!r} must be (n_features,) with at least the image's "
            f"{prod(IMAGE)}"
        )
    return input_shape[0] - prod(IMAGE)
