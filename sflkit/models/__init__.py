"""Networks of the papers by name: `create("lenet", input_shape=(1, 28, 28), n_classes=10)`.

All models keep every number in `parameters()`: no batch normalisation, whose running statistics are
buffers that a flat parameter vector does not carry and that differ between clients. GroupNorm
stands in where a paper's network has it."""

from __future__ import annotations

import inspect

from torch import nn

from sflkit import checks
from sflkit.models import images, side_features, tabular, text

_BUILDERS = {
    "lenet": images.lenet,
    "cnn": images.cnn,
    "small_cnn": images.cnn,  # McMahan et al.'s, the defaults
    "vgg16": images.vgg16,
    "mobilenetv2": images.mobilenetv2,
    "char_rnn": text.char_rnn,
    "linear": tabular.linear,
    "mlp": tabular.mlp,
    "osafl_fcn": side_features.fcn,
    "osafl_squeezenet1": side_features.squeezenet1,
    "osafl_cnn": side_features.cnn,
    "osafl_lstm": side_features.lstm,
}
NAMES = tuple(_BUILDERS)


def create(name: str, *, input_shape: tuple[int, ...], n_classes: int, **options) -> nn.Module:
    """Return a freshly built network.

    Parameters
    ----------
    name : one of `NAMES`.
    input_shape : shape of one sample without the batch axis: (channels, height, width) for images, (length,) for text,
        (n_features,) or any shape for the tabular models, which flatten their input.
    n_classes : number of outputs (logits), >= 1.
    **options : of the builder, e.g. `hidden=(512, 256)` for "mlp", `width=0.25` for "mobilenetv2", `cell="lstm"` for
        "char_rnn".

    Raises
    ------
    ValueError
        Unknown name or option, a shape the network cannot take, or fewer than one class.
    """
    checks.choice("name", name, NAMES)
    try:
        shape = tuple(checks.integer("input_shape entry", n, 1) for n in input_shape)
    except TypeError:
        raise ValueError(
            f"input_shape={input_shape!r} must be a tuple of positive integers"
        ) from None
    if not shape:
        raise ValueError(f"input_shape={input_shape!r} must have at least one axis")
    n_classes = checks.integer("n_classes", n_classes, 1)
    build = _BUILDERS[name]
    allowed = [
        p for p in inspect.signature(build).parameters if p not in ("input_shape", "n_classes")
    ]
    for option, value in options.items():
        if option not in allowed:
            raise ValueError(
                f"{option}={value!r} is no option of model {name!r}; its options are {allowed}"
            )
    return build(shape, n_classes, **options)
