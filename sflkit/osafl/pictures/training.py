"""Drawings of networks, layer by layer, and the papers' numbers beside curves.

Source: OSAFL, Figs. 4 to 8.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pandas as pd

from sflkit.results import figures

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from torch import Tensor, nn


def labels() -> dict[str, str]:
    """Return what the arms of `plans` are called, in the order in which they are drawn."""
    from sflkit.osafl.rules import RULES  # it loads torch

    return RULES.labels() | {"m_afa_cd_printed": "M-AFA-CD, printed buffer"}


class Layer(NamedTuple):
    """One block of a network.

    Attributes
    ----------
    name : str
        What it does.
    shape : str
        The shape of its output for one sample, such as "32 x 16 x 16".
    parameters : int
        How many parameters it has.
    """

    name: str
    shape: str
    parameters: int


def layers(model: nn.Module, example: Tensor) -> list[Layer]:
    """Return a network's blocks in forward order.

    Blocks are layers with parameters and poolings; what stands in `Fire` modules or a recurrent
    network counts as one.

    Parameters
    ----------
    model : torch.nn.Module
    example : Tensor
        Its input for one sample, with the batch axis.
    """
    import torch

    found: list[Layer] = []

    def note(module: nn.Module, _: tuple, output: Tensor | tuple) -> None:
        output = output[0] if isinstance(output, tuple) else output
        shape = " x ".join(map(str, output.shape[1:]))
        found.append(Layer(_kind(module), shape, sum(p.numel() for p in module.parameters())))

    hooks = [block.register_forward_hook(note) for block in _blocks(model)]
    try:
        with torch.no_grad():
            model(example)
    finally:
        for hook in hooks:
            hook.remove()
    return found


def _blocks(model: nn.Module) -> list[nn.Module]:
    from torch import nn

    from sflkit.models.side_features import Fire

    kinds = (
        Fire,
        nn.Linear,
        nn.Conv2d,
        nn.MaxPool2d,
        nn.AdaptiveAvgPool2d,
        nn.Embedding,
        nn.RNNBase,
    )
    fires = [module for module in model.modules() if isinstance(module, Fire)]
    inside = {id(part) for fire in fires for part in fire.modules() if part is not fire}
    return [m for m in model.modules() if isinstance(m, kinds) and id(m) not in inside]


def _kind(module: nn.Module) -> str:
    """Return what a block does, in a reader's words."""
    from torch import nn

    name = type(module).__name__.replace("2d", "").replace("AdaptiveAvg", "Mean")
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
    places: int | None = None,
) -> None:
    """Draw a network from top to bottom, a box for each layer and the output's shape beside it.

    A box is as wide as the logarithm of its number of parameters.

    Parameters
    ----------
    ax : Axes
    rows : sequence of (name, shape, parameters)
        As `layers` returns them.
    title, source : str
        What the network is called, and what goes into it.
    places : int, optional
        Boxes for which the axes have room, at least as many as there are, so that several networks
        share one scale.

    Raises
    ------
    ValueError
        If there are no rows.
    """
    from matplotlib.patches import FancyBboxPatch

    if not rows:
        raise ValueError("rows=[] must hold at least one layer")
    most = np.log10(max(10, *(n for _, _, n in rows)))
    ax.text(0, 0.55, source, ha="center", va="center", fontsize=9)
    for i, (name, shape, n) in enumerate(rows):
        y = -1.0 * i - 0.5
        width = 1.6 + 1.4 * np.log10(max(n, 1)) / most
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


def compared(
    ax: Axes, runs: pd.DataFrame, what: str, printed: Mapping[str, float] | None = None
) -> None:
    """Draw one curve per arm, the mean over seeds, and right of them what is known of their ends.

    First the 95 % intervals of the last round, as far as the axes reach; then what the paper
    prints, as hollow marks in the colour and shape of each rule (a star for centralised SGD).

    Parameters
    ----------
    ax : Axes
    runs : DataFrame
        Runs of `plans`, with the column `arm`.
    what : {"accuracy", "loss"}
    printed : mapping, optional
        Name of a rule -> the paper's number.
    """
    from sflkit.osafl.rules import RULES

    names = labels()
    part = runs.dropna(subset=[what])
    part = part.sort_values("arm", key=lambda arms: arms.map(list(names).index), kind="stable")
    figures.curves(ax, part, "round", what, "arm", rules=RULES, interval=None, labels=names)
    for line in ax.get_lines():
        if line.get_label() == names["m_afa_cd_printed"]:
            line.set(color="#8B5A2B", linestyle=":", marker="x", markeredgecolor="#8B5A2B")
    figures.end_intervals(ax, part, "round", what, "arm")
    end = int(runs["round"].max())
    for i, (rule, value) in enumerate((printed or {}).items()):
        look = RULES[rule].look
        ax.plot(
            [end * (1.22 + 0.03 * i)],
            [value],
            marker="*" if look.marker == "None" else look.marker,
            markersize=7,
            markerfacecolor="none",
            markeredgecolor=look.color,
            markeredgewidth=1.5,
            linestyle="none",
            clip_on=False,
            zorder=5,
            label="printed in the paper (hollow)" if i == 0 else None,
        )
    ax.set(xlabel="round", ylabel=f"test {what}", xlim=(0, end * 1.45))
    ax.set_xticks(np.unique(np.linspace(0, end, 6).round()))
    ax.legend().remove()


def one_legend(fig: Figure, ncols: int = 4) -> None:
    """Put one legend above a figure, with every label of its panels once."""
    found = {}
    for ax in fig.axes:
        for handle, label in zip(*ax.get_legend_handles_labels(), strict=True):
            found.setdefault(label, handle)
    fig.legend(found.values(), found.keys(), loc="outside upper center", ncols=ncols)


def drawn(runs: pd.DataFrame, what: str, names: Sequence[str]) -> pd.DataFrame:
    """Return what `compared` draws: means by round, and every seed in the last round.

    `names` are the columns that tell panels and arms apart; a mean has no seed (-1).
    """
    means = runs.groupby([*names, "round"], sort=False)[what].mean().reset_index().assign(seed=-1)
    last = runs.loc[runs["round"] == runs["round"].max(), [*names, "round", what, "seed"]]
    return pd.concat([means, last], ignore_index=True)
