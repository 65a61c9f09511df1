"""Counter-examples: what an erratum shows, as a table of readings of one statement.

Notebook 91 makes a `CounterExample` of every erratum that numbers can show: one sentence of the
paper, the values that its printed reading and the corrected one lead to in a small case, and what
the sentence asks of them, found on a way of its own.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pandas as pd

from companion.judging import tables
from companion.judging.claims import Page

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# What may stand between a value and what is asked of it.
RELATIONS: dict[str, Callable[[float, float], bool]] = {
    "=": lambda value, needed: math.isclose(value, needed, rel_tol=1e-9, abs_tol=1e-12),
    "≤": lambda value, needed: value <= needed + 1e-12 * abs(needed),
    "≥": lambda value, needed: value >= needed - 1e-12 * abs(needed),
    ">": lambda value, needed: value > needed,
}


@dataclass(frozen=True)
class Reading:
    """One reading of a statement in a small case.

    Parameters
    ----------
    role : {"printed", "corrected"}
        Whose reading it is.
    words : str
        The reading, and what its value is.
    value : float
        What it leads to; may be infinite.
    relation : {"=", "≤", "≥", ">"}
        How the value must compare with `needed` for the reading to be right.
    needed : float
        What was computed independently of the reading.
    """

    role: str
    words: str
    value: float
    relation: str
    needed: float

    @property
    def holds(self) -> bool:
        """Whether the value is as it must be."""
        return bool(RELATIONS[self.relation](self.value, self.needed))


def printed(words: str, value: float, relation: str, needed: float) -> Reading:
    """Return the reading of what the paper prints."""
    return Reading("printed", words, float(value), relation, float(needed))


def corrected(words: str, value: float, relation: str, needed: float) -> Reading:
    """Return the reading of what an erratum puts in its place."""
    return Reading("corrected", words, float(value), relation, float(needed))


@dataclass(frozen=True)
class CounterExample:
    """What one erratum shows.

    Parameters
    ----------
    number : int
        That of ERRATA.md.
    statement : str
        What every reading is asked for, a sentence.
    readings : tuple of Reading
        At least one of what is printed.
    """

    number: int
    statement: str
    readings: tuple[Reading, ...]

    def of(self, role: str) -> list[Reading]:
        """Return the readings of a role."""
        return [reading for reading in self.readings if reading.role == role]

    def holds(self, role: str) -> bool:
        """Return whether every reading of a role holds, and there is one."""
        readings = self.of(role)
        return bool(readings) and all(reading.holds for reading in readings)

    def fails(self, role: str) -> bool:
        """Return whether every reading of a role fails."""
        return not any(reading.holds for reading in self.of(role))

    def _repr_markdown_(self) -> str:
        rows = [f"| {r.role} | {r.words} | {_shown(r)} |" for r in self.readings]
        head = ["| reading | what is computed | value | must be | holds |", "|---|---|---|---|---|"]
        return "\n".join([self.statement, "", *head, *rows])

    def __repr__(self) -> str:
        told = "; ".join(
            f"{r.role} {_number(r.value)} {r.relation} {_number(r.needed)} "
            f"{'holds' if r.holds else 'fails'}"
            for r in self.readings
        )
        return f"<erratum {self.number}: {told}>"


class Examples(dict[int, CounterExample]):
    """The counter-examples of a paper by the number of their erratum."""

    def show(self, number: int, statement: str, *readings: Reading) -> CounterExample:
        """Return a counter-example, and keep it."""
        self[number] = CounterExample(number, statement, readings)
        return self[number]


class Erratum(NamedTuple):
    """An entry of ERRATA.md: its paper's heading, number, and bold title."""

    paper: str
    number: int
    title: str


def entries(text: str) -> list[Erratum]:
    """Return the entries of ERRATA.md's `text` in their order."""
    found, paper = [], ""
    for line in text.splitlines():
        if line.startswith("## "):
            paper = line[3:].split(":")[0]
        elif match := re.match(r"(\d+)\. \*\*(.+?)\*\*", line):
            found.append(Erratum(paper, int(match[1]), match[2].rstrip(".,")))
    return found


def summary(examples: Iterable[CounterExample]) -> str:
    """Return a sentence: how many examples there are, and in how many the print fails or holds."""
    examples = list(examples)
    failing = sum(example.fails("printed") for example in examples)
    confirmed = sum(example.holds("printed") for example in examples)
    mended = sum(example.holds("corrected") for example in examples)
    return (
        f"{len(examples)} errata shown: in {failing} what is printed fails, in {mended} a "
        f"correction holds; {confirmed} printed statement is confirmed"
    )


def not_shown(reasons: Mapping[str, Mapping[int, str]], titles: Mapping[int, str]) -> Page:
    """Return a table of the entries that have nothing to compute: paper -> number -> why."""
    rows = [
        [paper, number, titles[number], why]
        for paper, of in reasons.items()
        for number, why in of.items()
    ]
    frame = pd.DataFrame(rows, columns=["paper", "entry", "title", "why there is nothing to show"])
    return Page(tables.markdown(frame))


def picture(
    examples: Iterable[CounterExample],
    titles: Mapping[int, str],
    *,
    title: str = "",
    largest: float = 1000.0,
) -> Figure:
    """Draw how far off the readings are: values over what they must be, one line per example.

    Parameters
    ----------
    examples : iterable of CounterExample
        Drawn from the top down.
    titles : mapping
        What stands beside each number.
    title : str
        Above the picture.
    largest : float
        > 1; ratios beyond it, and those that do not exist, stand at the edge.
    """
    import matplotlib.pyplot as plt

    examples = list(examples)
    fig, ax = plt.subplots(figsize=(9.6, 0.6 + 0.3 * len(examples)))
    looks = {"printed": ("s", "#D55E00"), "corrected": ("o", "#0072B2")}
    for role, (marker, color) in looks.items():
        points = [
            (float(np.clip(ratio(reading), 1 / largest, largest)), place)
            for place, example in enumerate(examples)
            for reading in example.of(role)
        ]
        look = dict(color=color, markersize=7, label=role, alpha=0.85)
        ax.plot(*np.transpose(points), marker, **look)
    ax.axvline(1, color="black", linewidth=1)
    ax.set_yticks(range(len(examples)), [f"{e.number} · {titles[e.number]}" for e in examples])
    ax.invert_yaxis()
    ax.set(xscale="log", xlabel="value over what it must be")
    ax.set_title(title, loc="left")
    ax.legend(loc="lower right", bbox_to_anchor=(1, 1), ncols=2)
    plt.show()
    return fig


def ratio(reading: Reading) -> float:
    """Return the factor by which a reading is off, above 1 for a wrong one with ≤, ≥ or >.

    Where there is none, since 0 is asked for or one of the two is negative, it is infinite, or 1
    for a reading that holds.
    """
    value, needed = reading.value, reading.needed
    if reading.relation in ("≥", ">"):
        value, needed = needed, value
    if value == needed:
        return 1.0
    if needed > 0 and value >= 0:
        return value / needed
    if needed < 0 and value < 0:
        return needed / value
    return 1.0 if reading.holds else math.inf  # no factor leads from one to the other


def _shown(reading: Reading) -> str:
    must = f"{reading.relation} {_number(reading.needed)}"
    return f"{_number(reading.value)} | {must} | {'yes' if reading.holds else '**no**'}"


def _number(value: float) -> str:
    if math.isinf(value):
        return "infinite" if value > 0 else "minus infinite"
    return f"{value:.6g}"
