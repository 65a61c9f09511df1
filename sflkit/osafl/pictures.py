"""Drawings of networks, layer by layer. Source: OSAFL, Figs. 7 and 8."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def layers(model, example) -> list[tuple[str, str, int]]:
    """Return (name, shape of the output without the batch, number of parameters) of a network's
    blocks, in forward order.

    Blocks are layers with parameters and poolings; what stands in `Fire` modules or a recurrent
    network counts as one.

    Parameters
    ----------
    model : torch.nn.Module
    example : its input for one sample, with the batch axis.
    """
    import torch
    from torch import nn

    from sflkit.models import side_features

    blocks = (
        side_features.Fire,
        nn.Linear,
        nn.Conv2d,
        nn.MaxPool2d,
        nn.AdaptiveAvgPool2d,
        nn.Embedding,
        nn.RNNBase,
    )
    inside = {
        id(part)
        for m in model.modules()
        if isinstance(m, side_features.Fire)
        for part in m.modules()
        if part is not m
    }
    found, hooks = [], []

    def note(module, _, output):
        output = output[0] if isinstance(output, tuple) else output
        kind = (
            type(module)
            .__name__.replace("2d", "")
            .replace("AdaptiveAvg", "Mean")
            .replace("Conv", "Convolution")
        )
        if isinstance(module, nn.RNNBase):
            kind += f", {module.num_layers} layers"
        elif isinstance(module, nn.Conv2d):
            kind += " {}x{}".format(*module.kernel_size)
        found.append(
            (
                kind.replace("Linear", "Dense"),
                " x ".join(map(str, output.shape[1:])),
                sum(p.numel() for p in module.parameters()),
            )
        )

    try:
        for m in model.modules():
            if isinstance(m, blocks) and id(m) not in inside:
                hooks.append(m.register_forward_hook(note))
        with torch.no_grad():
            model(example)
    finally:
        for hook in hooks:
            hook.remove()
    return found


def chain(
    ax, rows: Sequence[tuple[str, str, int]], *, title: str, source: str, places: int | None = None
) -> None:
    """Draw `layers` from top to bottom: a box each, as wide as the logarithm of its parameters, its
    output's shape beside it.

    `places`: boxes for which the axes have room, at least as many as there are, so that several
    networks share one scale."""
    from matplotlib.patches import FancyBboxPatch

    if not rows:
        raise ValueError("rows=[] must hold at least one layer")
    most = np.log10(max(10, *(n for _, _, n in rows)))
    ax.text(0, 0.55, source, ha="center", va="center", fontsize=9)
    for i, (name, shape, n) in enumerate(rows):
        y, width = -1.0 * i - 0.5, 1.6 + 1.4 * np.log10(max(n, 1)) / most
        ax.annotate(
            "",
            (0, y + 0.38),
            (0, y + (0.85 if i == 0 else 0.62)),
            arrowprops={
                "arrowstyle": "-|>",
                "linewidth": 1.0,
                "color": "0.3",
                "shrinkA": 0,
                "shrinkB": 0,
            },
        )
        ax.add_patch(
            FancyBboxPatch(
                (-width / 2, y - 0.36),
                width,
                0.72,
                boxstyle="round,pad=0.02,rounding_size=0.1",
                facecolor="#56B4E9" if n else "white",
                edgecolor="black",
                linewidth=0.9,
            )
        )
        ax.text(
            0, y, f"{name}\n{n:,} parameters" if n else name, ha="center", va="center", fontsize=7
        )
        ax.text(1.65, y, shape, ha="left", va="center", fontsize=8, color="0.25")
    ax.set(xlim=(-1.8, 3.1), ylim=(-max(len(rows), places or 0) - 0.1, 0.9), title=title)
    ax.axis("off")
