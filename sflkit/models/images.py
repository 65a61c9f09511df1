"""Image classifiers: LeNet, the small CNN of federated-learning benchmarks, VGG16, MobileNetV2.

Sources: LeCun et al. 1998 (LeNet-5); McMahan et al. 2017 (CNN on MNIST); Simonyan & Zisserman 2015
(VGG16); Sandler et al. 2018 (MobileNetV2); Wu & He 2018 (GroupNorm).

The papers name their networks and give few sizes. SFL, Section VI, has LeNet "specifically modified
according to the different datasets" and, for CIFAR-100, MobileNetV2; FDS (Federated Learning for
Data Streams), Table 1, has "2 CNN + 2 FC"; FATS, Section 6.1.2, has CNN and VGG16. The docstring of
each network says what we chose.

Where a network has ReLU and then max-pooling, the pooling comes first here. The outputs and the
gradients are the same to the last bit, since ReLU keeps the order of numbers. ReLU then has a
quarter of the numbers to see, which saves a third of LeNet's training.
"""

from __future__ import annotations

from torch import Tensor, nn

from sflkit import checks


def lenet(input_shape: tuple[int, ...], n_classes: int) -> nn.Module:
    """Return LeNet-5 with ReLU and max-pooling: the backbone of the SFL paper.

    It has convolutions 5 x 5 of 6 and 16 channels and dense layers of 120 and 84 units. The first
    convolution pads by 2 where the image is smaller than the original's 32 x 32, and not otherwise:
    28 x 28 then gives 16 maps of 5 x 5, as in 1998, and 39 x 39 gives 16 maps of 6 x 6. That makes
    61 706 parameters for 1 x 28 x 28 and ten classes.

    Raises
    ------
    ValueError
        If the shape is not (channels, height, width) or a side is below 12.
    """
    channels, height, width = _image(input_shape, "lenet", 12)
    padding = 2 if min(height, width) < 32 else 0
    h, w = (((side + 2 * padding - 4) // 2 - 4) // 2 for side in (height, width))
    return nn.Sequential(
        nn.Conv2d(channels, 6, 5, padding=padding),
        nn.MaxPool2d(2),
        nn.ReLU(),
        nn.Conv2d(6, 16, 5),
        nn.MaxPool2d(2),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(16 * h * w, 120),
        nn.ReLU(),
        nn.Linear(120, 84),
        nn.ReLU(),
        nn.Linear(84, n_classes),
    )


def cnn(
    input_shape: tuple[int, ...],
    n_classes: int,
    channels: tuple[int, int] = (32, 64),
    hidden: int = 512,
    padding: int = 2,
) -> nn.Module:
    """Return two 5 x 5 convolutions, each with ReLU and 2 x 2 max-pooling, and two dense layers.

    The defaults are the CNN of McMahan et al., 1 663 370 parameters for 1 x 28 x 28 and ten
    classes. We take it for FATS, Section 6.1.2, which names "the CNN model" without sizes.

    With padding=0 and hidden=2048 it is the "2 CNN + 2 FC" of FDS, Table 1, on 3 x 32 x 32. That
    text gives no sizes, but this network has exactly Table 3's 3 353 034 parameters (ten classes)
    and 3 537 444 (hundred).

    Parameters
    ----------
    input_shape, n_classes
        See `models.create`.
    channels : (int, int)
        Channels of the two convolutions, each >= 1.
    hidden : int
        Width of the first dense layer, >= 1.
    padding : int
        0 (each convolution takes four off a side), 1 (two) or 2 (sides stay).

    Raises
    ------
    ValueError
        If the shape is not (channels, height, width), a side is below 16 - 6 padding, or another
        argument is out of range.
    """
    hidden = checks.integer("hidden", hidden, 1)
    padding = checks.integer("padding", padding, 0, 2)
    n_in, height, width = _image(input_shape, "cnn", 16 - 6 * padding)
    try:
        first, second = (checks.integer("channels", c, 1) for c in channels)
    except (TypeError, ValueError):
        raise ValueError(f"channels={channels!r} must be two positive integers") from None
    h, w = (((side + 2 * padding - 4) // 2 + 2 * padding - 4) // 2 for side in (height, width))
    return nn.Sequential(
        nn.Conv2d(n_in, first, 5, padding=padding),
        nn.MaxPool2d(2),
        nn.ReLU(),
        nn.Conv2d(first, second, 5, padding=padding),
        nn.MaxPool2d(2),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(second * h * w, hidden),
        nn.ReLU(),
        nn.Linear(hidden, n_classes),
    )


# Channels of the convolutions between two poolings (configuration D of Simonyan & Zisserman 2015).
VGG16 = ((64,) * 2, (128,) * 2, (256,) * 3, (512,) * 3, (512,) * 3)


def vgg16(input_shape: tuple[int, ...], n_classes: int, width: float = 1.0) -> nn.Module:
    """Return VGG16 for small images.

    Thirteen 3 x 3 convolutions with five 2 x 2 max-poolings between them and one dense layer on 512
    averages: 14 728 266 parameters for 3 x 32 x 32 and ten classes, 14 774 436 for hundred. FATS,
    Section 6.1.2, takes VGG16 "pre-trained on ImageNet1K" for CIFAR-10 and CIFAR-100; such weights
    enter a run by its `model` or `start`.

    Deviations from the original:

    - GroupNorm with 8 channels per group follows each convolution. The original has no
      normalisation (its later variant has batch normalisation, which is not possible here), but
      fresh weights then let the signal die out: the outputs differ by less than 1e-6 among samples.
    - One dense layer stands in place of three, which would hold 120 of 134 million parameters.
      There is thus no dropout either.

    Fourteen layers take small steps only: at rate 0.1 training from fresh weights fails. FATS has
    0.001.

    Parameters
    ----------
    input_shape, n_classes
        See `models.create`.
    width : float
        Multiplier of all channel counts, 0 < width <= 2; they are rounded to multiples of 8.
        Pre-trained weights need 1.

    Raises
    ------
    ValueError
        If the shape is not (channels, height, width), a side is below 32, or another argument is
        out of range.
    """
    n_in, *_ = _image(input_shape, "vgg16", 32)
    width = checks.real("width", width, above=0.0, high=2.0)
    layers: list[nn.Module] = []
    for block in VGG16:
        for i, n_out in enumerate(block, 1):
            n_out = _multiple_of_8(n_out * width)
            pooling = [nn.MaxPool2d(2)] if i == len(block) else []
            layers += [nn.Conv2d(n_in, n_out, 3, padding=1), _norm(n_out), *pooling, nn.ReLU()]
            n_in = n_out
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(n_in, n_classes))


# (expansion, channels, blocks, stride of the first block): Table 2 of Sandler et al. with the two
# early strides set to 1, the usual choice for 32 x 32 images: the maps go 32, 32, 32, 16, 8, 8, 4,
# 4 instead of 224 down to 7.
_MOBILENET_STAGES = (
    (1, 16, 1, 1),
    (6, 24, 2, 1),
    (6, 32, 3, 2),
    (6, 64, 4, 2),
    (6, 96, 3, 1),
    (6, 160, 3, 2),
    (6, 320, 1, 1),
)


def mobilenetv2(input_shape: tuple[int, ...], n_classes: int, width: float = 1.0) -> nn.Module:
    """Return MobileNetV2 for small images, with GroupNorm in place of batch normalisation.

    Deviations from the original: the stem and the second stage have stride 1, the usual choice for
    images of 32 x 32 (three halvings in all); GroupNorm with 8 channels per group stands in for
    batch normalisation, whose statistics are no parameters; there is no dropout before the
    classifier.

    Parameters
    ----------
    input_shape, n_classes
        See `models.create`.
    width : float
        Multiplier of all channel counts, 0 < width <= 2; they are rounded to multiples of 8 as in
        the paper. 0.25 makes the small stand-in that a notebook trains in seconds. Below 1 the
        reference code keeps the last convolution at 1280 channels; here it shrinks too (a
        deviation: on small images it would hold most of the parameters).

    Raises
    ------
    ValueError
        If the shape is not (channels, height, width) or the width is out of range.
    """
    channels, *_ = _image(input_shape, "mobilenetv2", 1)
    width = checks.real("width", width, above=0.0, high=2.0)
    n_in = _multiple_of_8(32 * width)
    layers = _conv(channels, n_in, 3)
    for expansion, n_out, blocks, stride in _MOBILENET_STAGES:
        n_out = _multiple_of_8(n_out * width)
        for block in range(blocks):
            layers.append(InvertedResidual(n_in, n_out, stride if block == 0 else 1, expansion))
            n_in = n_out
    last = _multiple_of_8(1280 * width)
    layers += [
        *_conv(n_in, last, 1),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(last, n_classes),
    ]
    return nn.Sequential(*layers)


class InvertedResidual(nn.Module):
    """The block of MobileNetV2: expand (1 x 1), filter each channel (3 x 3), project (1 x 1).

    The projection is linear, and the input is added to it where the shape stays the same.
    """

    def __init__(self, n_in: int, n_out: int, stride: int, expansion: int):
        super().__init__()
        hidden = n_in * expansion
        expand = _conv(n_in, hidden, 1) if expansion != 1 else []
        self.layers = nn.Sequential(
            *expand,
            *_conv(hidden, hidden, 3, stride, groups=hidden),
            nn.Conv2d(hidden, n_out, 1, bias=False),
            _norm(n_out),
        )
        self.residual = stride == 1 and n_in == n_out

    def forward(self, x: Tensor) -> Tensor:
        """Return the block's maps of the maps `x`."""
        out = self.layers(x)
        return x + out if self.residual else out


def _conv(n_in: int, n_out: int, kernel: int, stride: int = 1, groups: int = 1) -> list[nn.Module]:
    return [
        nn.Conv2d(n_in, n_out, kernel, stride, kernel // 2, groups=groups, bias=False),
        _norm(n_out),
        nn.ReLU6(),
    ]


def _norm(channels: int) -> nn.Module:
    return nn.GroupNorm(channels // 8, channels)


def _multiple_of_8(channels: float) -> int:
    """Return the nearest multiple of 8, at least 8 and never more than 10 % below.

    This is what `_make_divisible` of the reference code does.
    """
    rounded = max(8, int(channels + 4) // 8 * 8)
    return rounded + 8 if rounded < 0.9 * channels else rounded


def _image(input_shape: tuple[int, ...], network: str, least: int) -> tuple[int, int, int]:
    """Return channels, height and width, refused where a side is below what the network takes."""
    if len(input_shape) != 3:
        raise ValueError(
            f"input_shape={input_shape!r} must be (channels, height, width); "
            "rows of numbers are for 'linear' and 'mlp'"
        )
    if input_shape[2] in (1, 3) and input_shape[0] > 3:
        raise ValueError(
            f"input_shape={input_shape!r} must be (channels, height, width), and the channels seem "
            "to be last"
        )
    if min(input_shape[1:]) < least:
        raise ValueError(
            f"input_shape={input_shape!r} is too small for {network}; height and width must be at "
            f"least {least}"
        )
    return input_shape
