"""Drawings of networks, layer by layer. Source: OSAFL, Figs. 7 and 8."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from torch import Tensor, nn


class Layer(NamedTuple):
    """A block of a network: what it does, the shape of its output such as "32 x 16 x 16", and how
    many parameters it has.
    """

    name: str
    shape: str
    parameters: int


def layers(model: nn.Module, example: Tensor) -> list[Layer]:
    """Return a network's blocks in forward order.

    Blocks are layers with parameters and poolings; a recurrent network counts as one.

    Parameters
    ----------
    model : torch.nn.Module
    example : Tensor
        Its input for one sample, with the batch axis.
    """
    import torch
    from torch import nn

    kinds = (nn.Linear, nn.Conv2d, nn.MaxPool2d, nn.Embedding, nn.RNNBase)
    found: list[Layer] = []

    def note(module: nn.Module, _: tuple, output: Tensor | tuple) -> None:
        output = output[0] if isinstance(output, tuple) else output
        shape = " x ".join(map(str, output.shape[1:]))
        found.append(Layer(_kind(module), shape, sum(p.numel() for p in module.parameters())))

    blocks = [block for block in model.modules() if isinstance(block, kinds)]
    hooks = [block.register_forward_hook(note) for block in blocks]
    try:
        with torch.no_grad():
            model(example)
    finally:
        for hook in hooks:
            hook.remove()
    return found


def _kind(module: nn.Module) -> str:
    """Return what a block does, in a reader's words."""
    from torch import nn

    name = type(module).__name__.replace("2d", "")
    name = name.replace("Conv", "Convolution").replace("Linear", "Dense")
    if isinstance(module, nn.RNNBase):
        return f"{name}, {module.num_layers} layers"
    if isinstance(module, nn.Conv2d):
        return "{} {}x{}".format(name, *module.kernel_size)
    return name


def blocks_of(names: Sequence[str]) -> dict[str, list[Layer]]:
    """Return the blocks of the paper's networks at our full sizes, name -> `layers`.

    `names` are keys of `sflkit.osafl.networks.SIZES`, of networks whose layers form a chain: not
    SqueezeNet1.
    """
    import torch

    from sflkit import models
    from sflkit.osafl.networks import SIZES

    found = {}
    for name in names:
        size = SIZES[name]
        net = models.create(size.model, input_shape=size.input_shape, n_classes=100, **size.options)
        kind = torch.int64 if name == "LSTM" else torch.float32  # file numbers, or features
        found[name] = layers(net, torch.zeros(1, *size.input_shape, dtype=kind))
    return found


def side_by_side(
    blocks: Mapping[str, Sequence[Layer]],
    source: Mapping[str, str],
    beside: Mapping[str, str],
) -> Figure:
    """Draw networks from top to bottom, beside one another, with boxes of one height.

    A layer's box is as wide as the logarithm of its number of parameters, with the output's shape
    beside it.

    Parameters
    ----------
    blocks : mapping
        As `blocks_of` returns them.
    source, beside : mapping
        Name of a network -> what goes into it, and what joins in front of its first dense layer.
    """
    import matplotlib.pyplot as plt
    from matplotlib.patches import FancyBboxPatch

    longest = max(map(len, blocks.values()))
    fig, axes = plt.subplots(1, len(blocks), figsize=(9.6, 0.8 + 0.42 * longest), squeeze=False)
    arrow = {"arrowstyle": "-|>", "linewidth": 1.0, "color": "0.3"}
    box = {"boxstyle": "round,pad=0.02,rounding_size=0.1", "edgecolor": "black", "linewidth": 0.9}
    for ax, (net, rows) in zip(axes[0], blocks.items(), strict=True):
        most = np.log10(max(10, *(row.parameters for row in rows)))
        ax.text(0, 0.55, source[net], ha="center", va="center", fontsize=9)
        joins = (
            [i for i, row in enumerate(rows) if row.name == "Dense"][:1] if net in beside else []
        )
        for i, (name, shape, n) in enumerate(rows):
            y = -1.0 * i - 0.5
            width = 1.6 + 1.4 * np.log10(max(n, 1)) / most
            ends = (0, y + 0.38), (0, y + (0.85 if i == 0 else 0.62))
            ax.annotate("", *ends, arrowprops=arrow | {"shrinkA": 0, "shrinkB": 0})
            color = "#56B4E9" if n else "white"
            corner = (-width / 2, y - 0.36)
            ax.add_patch(FancyBboxPatch(corner, width, 0.72, facecolor=color, **box))
            words = f"{name}\n{n:,} parameters" if n else name
            ax.text(0, y, words, ha="center", va="center", fontsize=8)
            ax.text(1.65, y, shape, ha="left", va="center", fontsize=9, color="0.25")
            if i in joins:
                place = {"ha": "left", "va": "center", "fontsize": 9}
                at = (0.04, y + 0.5), (1.65, y + 0.5)
                ax.annotate(beside[net], *at, arrowprops=arrow, **place)
        total = sum(row.parameters for row in rows) / 1e6
        ax.set(xlim=(-1.8, 3.1), ylim=(-longest - 0.1, 0.9))
        ax.text(0, 1.1, f"{net}: {total:.2f} million parameters", ha="center", fontsize=11)
        ax.axis("off")
    return fig
