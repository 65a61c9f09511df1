"""What a run will cost, by the seconds that finished runs took.

The price of a run is the median over the runs of the same experiment whose configs differ from its
own in the seed alone. Where there are none, it is the median over the runs that share most fields
with it, each scaled by the ratio of the two lengths (`LENGTHS`), to which seconds are about
proportional. Where no run shares a field, it is the experiment's median; where the experiment has
no run yet, the price is unknown.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

from sflkit.results import shelf
from sflkit.results.store import canonical

LENGTHS = ("rounds", "episodes", "repeats")


class Prices:
    """Prices in seconds, from the records in some folders and from those learnt later."""

    def __init__(self, folders: Sequence[Path]):
        self._folders = list(folders)
        # experiment -> config without seed, as text -> that config and the seconds of its runs
        self._seen: dict[str, dict[str, tuple[dict, list[float]]]] = {}
        self._prices: dict[tuple[str, str], float | None] = {}
        self._texts: dict[str, str] = {}  # key of a run -> its config without seed, as text

    def of(self, head: dict) -> float | None:
        """Return the price of the run that `store.describe` describes, or None if unknown."""
        key, experiment = head["key"], head["experiment"]
        if key not in self._texts:
            self._texts[key] = canonical(_without_seed(head["config"]))
        asked = (experiment, self._texts[key])
        if asked not in self._prices:
            seen = self._experiment(experiment)
            self._prices[asked] = (
                median(seen[asked[1]][1].values())
                if asked[1] in seen
                else _nearest(_without_seed(head["config"]), list(seen.values()))
            )
        return self._prices[asked]

    def learn(self, record: dict) -> None:
        """Take note of a finished run's record; without config and seconds it says nothing."""
        experiment = record.get("experiment")
        if not isinstance(experiment, str):
            return
        text = self._note(self._experiment(experiment), record)
        exact = (experiment, text)
        if exact in self._prices:
            del self._prices[exact]
        # What was priced by the nearest may now have a nearer one.
        seen = self._seen[experiment]
        self._prices = {
            asked: price
            for asked, price in self._prices.items()
            if asked[0] != experiment or asked[1] in seen
        }

    def _experiment(self, name: str) -> dict[str, tuple[dict, dict[str, float]]]:
        """Return what was seen of an experiment, read when first asked for."""
        if name not in self._seen:
            self._seen[name] = {}
            for folder in self._folders:
                for record in shelf.records_of(name, folder):
                    self._note(self._seen[name], record)
        return self._seen[name]

    @staticmethod
    def _note(seen: dict[str, tuple[dict, dict[str, float]]], record: dict) -> str:
        """Note the seconds of a record, once for each key; return its config without seed as text.

        The text is "" where the record has no config or no seconds.
        """
        config, seconds = record.get("config"), record.get("seconds")
        if not isinstance(config, dict) or not isinstance(seconds, int | float):
            return ""
        config = _without_seed(config)
        text = canonical(config)
        seen.setdefault(text, (config, {}))[1].setdefault(str(record.get("key")), float(seconds))
        return text


def in_words(prices: Sequence[float | None], jobs: int = 1) -> str:
    """Return how long runs of these prices will take, `jobs` at a time, and how many are unknown.

    The sum is shared out evenly, but nothing ends before the dearest run does.
    """
    known = [price for price in prices if price is not None]
    unknown = len(prices) - len(known)
    parts = []
    if known or not prices:
        parts.append(f"about {span(max(sum(known) / jobs, max(known, default=0.0)))}")
    if unknown:
        parts.append(f"{unknown} unknown")
    return " + ".join(parts)


def span(seconds: float) -> str:
    """Return a number of seconds as people say it: 0.4 s, 38 s, 12 min, 3.4 h."""
    if seconds < 99.5:
        return f"{seconds:.1f} s" if seconds < 9.95 else f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 99.5 * 60 else f"{seconds / 3600:.1f} h"


def _without_seed(config: dict) -> dict:
    return {name: value for name, value in config.items() if name != "seed"}


def _nearest(config: dict, seen: list[tuple[dict, dict[str, float]]]) -> float | None:
    """Return the median seconds of the configs that share most fields with `config`."""
    if not seen:
        return None
    shared = [
        sum(name in other and other[name] == value for name, value in config.items())
        for other, _ in seen
    ]
    most = max(shared)
    if most == 0:
        return median([seconds for _, all_seconds in seen for seconds in all_seconds.values()])
    return median(
        [
            seconds * _ratio(config, other)
            for share, (other, all_seconds) in zip(shared, seen, strict=True)
            for seconds in all_seconds.values()
            if share == most
        ]
    )


def _ratio(config: dict, other: dict) -> float:
    """Return how many times as long as `other` a run of `config` is."""
    ratio = 1.0
    for name in LENGTHS:
        ours, theirs = config.get(name), other.get(name)
        if _is_length(ours) and _is_length(theirs):
            ratio *= ours / theirs
    return ratio


def _is_length(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and value > 0
