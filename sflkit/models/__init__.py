"""Networks of the papers by name: `create("lenet", input_shape=(1, 28, 28), n_classes=10)`.

All models keep every number that training changes in `parameters()`, since a flat vector of these
is what clients and the server exchange. Batch normalisation is therefore in none of them: its
running statistics are no parameters, and they differ between clients. GroupNorm stands in where a
paper's network has it (a deviation that the network's docstring states).

`NETWORKS` is the one table of networks. A network of your own is a function
`build(input_shape, n_classes, **options)` that returns an `nn.Module`, and one row:

    models.NETWORKS.add("my_net", Rule(build, "My network"))
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any

from torch import nn

from sflkit import checks, torch_draws
from sflkit.models import images, side_features, tabular, text
from sflkit.registry import Registry, Rule

NETWORKS = Registry(
    "network",
    {
        "lenet": Rule(images.lenet, "LeNet"),
        "cnn": Rule(images.cnn, "CNN"),
        "small_cnn": Rule(images.cnn, "CNN of McMahan et al."),  # which are the defaults of "cnn"
        "vgg16": Rule(images.vgg16, "VGG16"),
        "mobilenetv2": Rule(images.mobilenetv2, "MobileNetV2"),
        "char_rnn": Rule(text.char_rnn, "Character RNN"),
        "char_mlp": Rule(text.char_mlp, "Character MLP"),
        "linear": Rule(tabular.linear, "Linear"),
        "mlp": Rule(tabular.mlp, "MLP"),
        "osafl_fcn": Rule(side_features.fcn, "FCN"),
        "osafl_squeezenet1": Rule(side_features.squeezenet1, "SqueezeNet1"),
        "osafl_cnn": Rule(side_features.cnn, "CNN"),
        "osafl_lstm": Rule(side_features.lstm, "LSTM"),
    },
)


def create(name: str, *, input_shape: Sequence[int], n_classes: int, **options: Any) -> nn.Module:
    """Return a freshly built network.

    Its first weights are torch's own random ones; `Task.init` draws them anew from a seed.

    Parameters
    ----------
    name : str
        A name in `NETWORKS`.
    input_shape : tuple of int
        Shape of one sample without the batch axis: (channels, height, width) for images, (length,)
        for text, (n_features,) or any other shape for the tabular models, which flatten it.
    n_classes : int
        Number of outputs (logits), >= 1.
    **options
        Keywords of the function that builds the network, such as `hidden=(512, 256)` for "mlp",
        `width=0.25` for "mobilenetv2" or `cell="lstm"` for "char_rnn".

    Raises
    ------
    ValueError
        If the name or an option is unknown, the network cannot take the shape, or there is fewer
        than one class.
    """
    checks.choice("name", name, NETWORKS)
    try:
        shape = tuple(checks.integer("input_shape entry", n, 1) for n in input_shape)
    except TypeError:
        raise ValueError(
            f"input_shape={input_shape!r} must be a tuple of positive integers"
        ) from None
    if not shape:
        raise ValueError(f"input_shape={input_shape!r} must have at least one axis")
    n_classes = checks.integer("n_classes", n_classes, 1)
    build = NETWORKS[name].build
    allowed = [
        p for p in inspect.signature(build).parameters if p not in ("input_shape", "n_classes")
    ]
    for option, value in options.items():
        if option not in allowed:
            raise ValueError(
                f"{option}={value!r} is no option of model {name!r}; its options are {allowed}"
            )
    with torch_draws.lock:
        return build(shape, n_classes, **options)
