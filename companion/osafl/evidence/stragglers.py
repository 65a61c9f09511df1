"""Whom problem (5) leaves out, from which start of the alternation: Fig. 3 and its claims.

Source: OSAFL, Section V-A (Fig. 3), with ERRATA 35. The claim is in
`companion.claims`. A *straggler* is a client for which an allocation finds no step
within its energy and deadline; fleets and starts are those of `resources`.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from companion.judging import tables
from companion.osafl.evidence.resources import NETWORKS, SAMPLE_BITS, SHARES, Evidence, links
from sflkit.osafl import allocation, alternation
from sflkit.osafl.devices import Allocation, Devices

FEW_BITS = (77, 7)  # of Dataset-2: ten past ids and the next one, or one id
_ALTERNATING = "alternating"
# Causes that were found, by artefact.
NOTES = {
    "osafl-fig3": "The shares are those of an unstated start and channel, and most clients left "
    "out could take part."
}


class Stragglers(NamedTuple):
    """Who is left out, how often, on every fleet.

    Attributes
    ----------
    often : dict
        (start or "exact", network) -> share of the rounds in which a client is a straggler,
        (n_seeds, n_clients).
    wrongly : dict
        Network -> clients left out although they could do a step, and all left out, over seeds and
        rounds, from the judged start.
    few_bits : dict
        Bits of a sample -> share of stragglers in half of the rounds with the LSTM, (n_seeds,).
    seconds : float
        Of the fastest exact allocation of a fleet.
    start : float
        The judged start.
    """

    often: dict[tuple[Any, str], np.ndarray]
    wrongly: dict[str, tuple[int, int]]
    few_bits: dict[int, np.ndarray]
    seconds: float
    start: float

    def half(self, kind: float | str, network: str) -> np.ndarray:
        """Return the share of clients out in at least half of the rounds, (n_seeds,)."""
        return np.mean(self.often[kind, network] >= 0.5, axis=1)

    @property
    def kinds(self) -> tuple:
        """The starts, the judged one first, and "exact"."""
        return (self.start, *SHARES, "exact")


def stragglers(fleets: Sequence[Devices], n_clients: int, start: float) -> Stragglers:
    """Return who is a straggler with the exact allocation and with the alternation."""
    often: dict[tuple, list] = {}
    wrongly, seconds = {name: np.zeros(2, int) for name in NETWORKS}, []
    for fleet in fleets:
        for name, link in links().items():
            begin = time.perf_counter()
            exact = allocation.allocate(fleet, link)
            seconds.append(time.perf_counter() - begin)
            often.setdefault(("exact", name), []).append(_out(exact, n_clients))
            for share in (start, *SHARES):
                found = allocation.allocate(
                    fleet, link, _ALTERNATING, start=alternation.Start(1.0, share)
                )
                often.setdefault((share, name), []).append(_out(found, n_clients))
                if share == start:
                    out = ~found.feasible
                    wrongly[name] += (exact.feasible & out).sum(), out.sum()
    few = {bits: _few_bits(fleets, n_clients, start, bits) for bits in FEW_BITS}
    shares = {key: np.array(rows) for key, rows in often.items()}
    pairs = {name: (int(able), int(out)) for name, (able, out) in wrongly.items()}
    return Stragglers(shares, pairs, few, min(seconds), start)


def _out(found: Allocation, n_clients: int) -> np.ndarray:
    """Return the share of the rounds in which each client is left out, (n_clients,)."""
    return np.mean(~found.feasible.reshape(-1, n_clients), axis=0)


def _few_bits(fleets: Sequence[Devices], n_clients: int, start: float, bits: int) -> np.ndarray:
    """Return the LSTM's stragglers in half of the rounds if a sample has so few bits."""
    shares = []
    for fleet in fleets:
        cycles = fleet.cycles_per_step * bits / SAMPLE_BITS
        found = allocation.allocate(
            dataclasses.replace(fleet, cycles_per_step=cycles),
            links()["LSTM"],
            _ALTERNATING,
            start=alternation.Start(1.0, start),
        )
        shares.append(np.mean(_out(found, n_clients) >= 0.5))
    return np.array(shares)


def printed_shares() -> dict[str, float]:
    """Return the paper's shares of stragglers in at least half of the rounds, by network."""
    what = "share of stragglers in at least half of the rounds"
    return {name: tables.paper_value("osafl", "osafl-fig3", f"{what} {name}") for name in NETWORKS}


def overview(found: Stragglers) -> pd.DataFrame:
    """Return the paper's shares beside ours, means over seeds, and who was left out wrongly."""
    rows = []
    for name, paper in printed_shares().items():
        row = {"network": name, "paper": paper}
        for kind in found.kinds:
            key = kind if kind == "exact" else f"start {kind:g}"
            row[key] = found.half(kind, name).mean()
        able, out = found.wrongly[name]
        rows.append(row | {"left out, but able": able / max(out, 1)})
    return pd.DataFrame(rows).set_index("network")


def evidence(out: Stragglers) -> dict[str, Evidence]:
    """Return the evidence of Fig. 3: artefact -> part -> what its rule takes."""
    paper = printed_shares()
    means = {key: np.mean(np.mean(rows >= 0.5, axis=1)) for key, rows in out.often.items()}
    pairs = list(pairwise((*SHARES, SHARES[0])))
    apart = [max(np.abs(means[a, name] - means[c, name]) for a, c in pairs) for name in NETWORKS]
    off = [abs(means[out.start, name] - paper[name]) for name in NETWORKS]
    lstm = means[out.start, "LSTM"]
    judged: Evidence = {
        f"{larger}_over_{smaller}": (out.half(out.start, larger), out.half(out.start, smaller))
        for smaller, larger in pairwise(NETWORKS)
    }
    judged |= {
        "infeasible": {name: not able for name, (able, _) in out.wrongly.items()},
        "starts": (np.array(apart), 0.05),
        "fitted": (np.array(off), 0.1),
        "sample_bits": (max(np.abs(lstm - np.mean(v)) for v in out.few_bits.values()), 0.01),
    }
    return {"osafl-fig3": judged}
