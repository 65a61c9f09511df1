"""From streams, caches and bounds to what the rules of their claims take.

Source: SFL, Sections III to V; the claims are in `companion.sfl.claims.theory`, the pictures in
`companion.sfl.pictures.theory`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from sflkit.sfl import cache_paths
from sflkit.sfl.clients import Clients
from sflkit.sfl.config import SFLConfig

Evidence = dict[str, Any]


# --- notebook 10 ----------------------------------------------------------------------------------


def stream_evidence(
    config: SFLConfig, clients: Clients, frame: pd.DataFrame, seeds: Sequence[int]
) -> dict[str, Evidence]:
    """Return the evidence of Figs. 1, 3 and 5, artefact -> part -> what the rule takes.

    Parameters
    ----------
    config : SFLConfig
        Of the clients.
    clients : Clients
        Those of Figs. 1 and 3.
    frame : DataFrame
        Rows of the sweep over rules and `seeds`, with the columns discrepancy and accumulated.
    seeds : sequence of int
        "Throughout" is judged by the expectations on as many other streams: those of the next
        seeds, which no rule has seen.
    """
    long = clients.stream.long_term
    apart = [np.abs(a - b).sum() / 2 for i, a in enumerate(long) for b in long[:i]]
    logs = cache_paths.late_logs(frame, seeds, -(-config.capacity // config.batch_size))
    expected = cache_paths.expected_totals(config, [seed + len(seeds) for seed in seeds])
    others = np.stack([expected["srsr"], expected["fifo"]])
    return {
        "sfl-fig1": _wandering(config, clients),
        "sfl-fig3": {"apart": bool(np.mean(apart) > 0.5)},
        "sfl-fig5a": {
            f"{what} {rule}": (logs[what]["fifo"], logs[what][rule])
            for what in ("mean", "fluctuation")
            for rule in ("srsr", "drsr")
        }
        | {"falls": logs["falls"]},
        "sfl-fig5b": {
            "fifo srsr": (logs["total"]["fifo"], logs["total"]["srsr"]),
            "srsr drsr": (logs["total"]["srsr"], logs["total"]["drsr"]),
            "throughout": (np.stack([expected["drsr"]] * 2), others),
        },
    }


def _wandering(config: SFLConfig, clients: Clients) -> dict[str, bool]:
    """Return whether rounds are off the long-term shares, alike, and right on average."""
    shares, long = clients.counts / config.batch_size, clients.stream.long_term
    off = np.abs(shares - long).max(axis=2)  # (rounds, clients)
    mean_off = np.abs(shares.mean(axis=0) - long).max(axis=1)
    return {
        "off": bool((off > 0.05).mean() > 0.5),
        "alike": bool((clients.stream.autocovariance(1).sum(axis=1) > 0).all()),
        "average": bool((mean_off < off.mean(axis=0)).all()),
    }
