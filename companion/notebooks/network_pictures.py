"""Drawings of networks, layer by layer. Source: OSAFL, Figs. 7 and 8."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from matplotlib.axes import Axes
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


def chain(
    ax: Axes,
    rows: Sequence[tuple[str, str, int]],
    *,
    title: str,
    source: str,
    places: int,
    beside: str = "",
) -> None:
    """Draw a network from top to bottom, a box for each layer and the output's shape beside it.

    A box is as wide as the logarithm of its number of parameters.

    Parameters
    ----------
    ax : Axes
    rows : sequence of (name, shape, parameters)
        As `layers` returns them, at least one.
    title, source : str
        What the network is called, and what goes into it.
    places : int
        Boxes for which the axes have room, at least as many as there are, so that several networks
        share one scale.
    beside : str
        What else goes into the first dense layer, "" for nothing.
    """
    from matplotlib.patches import FancyBboxPatch

    most = np.log10(max(10, *(n for _, _, n in rows)))
    ax.text(0, 0.55, source, ha="center", va="center", fontsize=9)
    joins = next((i for i, (name, _, _) in enumerate(rows) if name == "Dense"), None)
    arrow = {"arrowstyle": "-|>", "linewidth": 1.0, "color": "0.3"}
    box = {"boxstyle": "round,pad=0.02,rounding_size=0.1", "edgecolor": "black", "linewidth": 0.9}
    for i, (name, shape, n) in enumerate(rows):
        y = -1.0 * i - 0.5
        width = 1.6 + 1.4 * np.log10(max(n, 1)) / most
        ends = (0, y + 0.38), (0, y + (0.85 if i == 0 else 0.62))
        ax.annotate("", *ends, arrowprops=arrow | {"shrinkA": 0, "shrinkB": 0})
        color = "#56B4E9" if n else "white"
        ax.add_patch(FancyBboxPatch((-width / 2, y - 0.36), width, 0.72, facecolor=color, **box))
        words = f"{name}\n{n:,} parameters" if n else name
        ax.text(0, y, words, ha="center", va="center", fontsize=8)
        ax.text(1.65, y, shape, ha="left", va="center", fontsize=9, color="0.25")
        if beside and i == joins:
            place = {"ha": "left", "va": "center", "fontsize": 9}
            ax.annotate(beside, (0.04, y + 0.5), (1.65, y + 0.5), arrowprops=arrow, **place)
    ax.set(xlim=(-1.8, 3.1), ylim=(-places - 0.1, 0.9))
    ax.text(0, 1.1, title, ha="center", fontsize=11)
    ax.axis("off")


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
    """Draw networks beside one another with boxes of one height.

    Parameters
    ----------
    blocks : mapping
        As `blocks_of` returns them.
    source, beside : mapping
        Name of a network -> what goes into it, and what joins in front of its first dense layer.
    """
    import matplotlib.pyplot as plt

    most = max(map(len, blocks.values()))
    height = 0.8 + 0.42 * most
    fig, axes = plt.subplots(1, len(blocks), figsize=(9.6, height), squeeze=False)
    for ax, (name, rows) in zip(axes[0], blocks.items(), strict=True):
        total = sum(row.parameters for row in rows) / 1e6
        title = f"{name}: {total:.2f} million parameters"
        joins = beside.get(name, "")
        chain(ax, rows, title=title, source=source[name], places=most, beside=joins)
    return fig
