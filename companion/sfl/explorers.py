"""Sliders over caches and over the bounds on their discrepancy. Source: SFL, Sections IV and V."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from companion.widgets import SLIDER, picture

if TYPE_CHECKING:
    import ipywidgets


def cache_explorer() -> ipywidgets.VBox:
    """Return sliders over the discrepancy and the composition of a cache.

    They set rule, B, B_s, theta, temperature and classes per client. Left: the discrepancy of four
    clients' caches, the chosen rule and FIFO on the same stream; right: what the cache of the first
    client holds, label by label, with the long-term shares dashed.
    """
    import ipywidgets
    import matplotlib.pyplot as plt
    import numpy as np

    from companion.sfl.pictures import shared as pictures
    from sflkit.sfl.caches import RULES
    from sflkit.sfl.clients import Clients
    from sflkit.sfl.config import SFLConfig

    n_classes, rounds = 6, 60

    @lru_cache(maxsize=16)  # a move of one slider asks for FIFO's path again
    def follow(config):
        clients = Clients(config, np.arange(n_classes).repeat(config.capacity), n_classes)
        shares = []
        for t in range(1, rounds + 1):
            clients.arrive(t)
            counts = clients.cached_counts()
            shares.append(counts / counts.sum(axis=1, keepdims=True))
        return clients.stream.long_term, np.stack(shares)

    def draw(rule, capacity, batch_size, theta, temperature, classes_per_client, seed):
        settings = {
            "seed": seed,
            "n_clients": 4,
            "n_classes": n_classes,
            "classes_per_client": classes_per_client,
            "temperature": temperature,
            "capacity": capacity,
            "batch_size": batch_size,
            "theta": theta,
            "rounds": rounds,
            "train": False,
        }
        _, (left, right) = plt.subplots(1, 2, figsize=(8.6, 3.0))
        time = np.arange(1, rounds + 1)
        for name in dict.fromkeys(("fifo", rule)):
            long_term, shares = follow(SFLConfig(rule=name, **settings))
            left.plot(
                time,
                ((shares - long_term) ** 2).sum(axis=(1, 2)),
                label=pictures.label(name),
                **pictures.line(name),
            )
        held = np.flatnonzero(long_term[0])
        right.stackplot(time, shares[:, 0, held].T, labels=[f"class {r}" for r in held])
        for edge in np.cumsum(long_term[0, held])[:-1]:
            right.axhline(edge, color="black", linestyle="--", linewidth=1)
        left.set(xlabel="round t", ylabel="discrepancy", ylim=(0, None))
        right.set(
            xlabel="round t",
            ylabel="share of the cache",
            ylim=(0, 1),
            xlim=(1, rounds),
            title=f"one client, {pictures.label(rule)}",
        )
        left.legend()
        right.legend(loc="center left", bbox_to_anchor=(1, 0.5))
        plt.show()

    # FULL is no choice of a client: it knows the long-term shares.
    menu = [(rule.label, name) for name, rule in RULES.items() if "long_term" not in rule.options]
    controls = {
        "rule": ipywidgets.Dropdown(options=menu, value="drsr", description="rule"),
        "capacity": ipywidgets.IntSlider(300, 20, 600, 20, description="capacity B", **SLIDER),
        "batch_size": ipywidgets.IntSlider(150, 10, 300, 10, description="arrivals B_s", **SLIDER),
        "theta": ipywidgets.FloatSlider(
            2 / 3, min=0, max=1, step=0.05, description="theta (SRSR)", **SLIDER
        ),
        "temperature": ipywidgets.FloatLogSlider(
            0.2, min=-2, max=1, step=0.1, description="temperature", **SLIDER
        ),
        "classes_per_client": ipywidgets.IntSlider(
            3, 1, n_classes, description="classes per client", **SLIDER
        ),
        "seed": ipywidgets.IntSlider(0, 0, 20, description="seed", **SLIDER),
    }
    ipywidgets.dlink(
        (controls["capacity"], "value"), (controls["batch_size"], "max")
    )  # no more arrivals than the cache holds
    columns = list(controls.values())
    return ipywidgets.VBox(
        [
            ipywidgets.HBox([ipywidgets.VBox(columns[:4]), ipywidgets.VBox(columns[4:])]),
            picture(draw, controls),
        ]
    )


def discrepancy_explorer() -> ipywidgets.VBox:
    """Return sliders for Gamma, delta^2, M, theta and pi over the bounds.

    Those are the bounds of Propositions 1-3 and Corollary 1.
    """
    import ipywidgets
    import matplotlib.pyplot as plt
    import numpy as np

    from companion.sfl.pictures import shared as pictures
    from sflkit.sfl import bounds

    t = np.unique(np.geomspace(1, 500, 80).astype(int))

    def draw(corr_rounds, deviation, cache_rounds, theta, share):
        delta2 = deviation**2
        _, ax = plt.subplots(figsize=(8.6, 3.4))
        limit = bounds.srsr_discrepancy_limit(cache_rounds, theta, corr_rounds, delta2)
        lines = {
            "fifo": np.full(len(t), bounds.fifo_discrepancy(cache_rounds, corr_rounds, delta2)),
            "srsr": bounds.srsr_discrepancy(t, cache_rounds, theta, corr_rounds, delta2, share),
            "drsr": bounds.drsr_discrepancy(t, corr_rounds, delta2),
        }
        for rule, bound in lines.items():
            ax.plot(
                t,
                bound,
                label=pictures.label(rule),
                **pictures.line(rule),
            )
        ax.axhline(delta2, color="gray", linewidth=1, label="one round")
        shown = f"{limit:.2g}" if np.isfinite(limit) else "infinite (ERRATA 6)"
        ax.set(
            xscale="log",
            yscale="log",
            xlabel="round t",
            ylabel="bound on the discrepancy",
            title=f"SRSR's limit: {shown}",
        )
        ax.legend(loc="center left", bbox_to_anchor=(1, 0.5))
        plt.show()

    controls = {
        "corr_rounds": ipywidgets.FloatSlider(
            1.0, min=0, max=10, step=0.5, description="memory Gamma (rounds)", **SLIDER
        ),
        "deviation": ipywidgets.FloatSlider(
            0.15, min=0.01, max=0.5, step=0.01, description="deviation delta", **SLIDER
        ),
        "cache_rounds": ipywidgets.IntSlider(
            10, 1, 100, description="cache size M (rounds)", **SLIDER
        ),
        "theta": ipywidgets.FloatSlider(
            2 / 3, min=0.05, max=1, step=0.05, description="theta (SRSR)", **SLIDER
        ),
        "share": ipywidgets.FloatSlider(
            0.3, min=0.01, max=1, step=0.01, description="share pi (SRSR)", **SLIDER
        ),
    }
    return ipywidgets.VBox([*controls.values(), picture(draw, controls)])
