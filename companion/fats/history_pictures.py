"""Who took part when, and what forgetting one of them recomputes. Source: FATS, Algorithm 3."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from sflkit.fats.history import History


def participation(ax: Axes, history: History, client: int) -> None:
    """Draw who takes part in each round of a history, and what forgetting `client` recomputes.

    A square is a client in a round. Those of `client` are filled with another colour, and all
    rounds from its first one on, which are trained anew without it, have a shaded background.
    Clients and rounds are counted from 0, as in `History`.
    """
    first = history.first_use(client)
    rounds = np.repeat(np.arange(len(history.clients)), history.clients_per_round)
    others = history.clients.ravel() != client
    ax.plot(rounds[others], history.clients.ravel()[others], "s", color="0.55", markersize=5)
    ax.plot(rounds[~others], history.clients.ravel()[~others], "s", color="#D55E00", markersize=7)
    ax.axhline(client, color="#D55E00", linewidth=1, zorder=0)
    if first is not None:
        ax.axvspan(first - 0.5, len(history.clients) - 0.5, color="#56B4E9", alpha=0.2, linewidth=0)
        ax.text(first, history.n_clients - 0.3, " trained anew", ha="left", va="bottom")
        ax.text(first - 1, history.n_clients - 0.3, "kept ", ha="right", va="bottom")
    ax.set(xlabel="round", ylabel="client", xlim=(-0.7, len(history.clients) - 0.3))
    ax.set_ylim(-0.8, history.n_clients + 1)
    ax.yaxis.get_major_locator().set_params(integer=True)
    ax.grid(visible=False)
