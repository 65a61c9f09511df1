"""How the papers call what we judge: numbers, headings and anchors of artefacts.

An artefact's id is the paper's short name and what the paper calls it: "sfl-fig4a" is Figure 4a of
SFL, "ds-tab2-cifar10" the line CIFAR-10 of Table 2 of data streams. A statement without a number of
its own has a word, such as "sfl-speed", and is called by what it says (`in_short`).
"""

from __future__ import annotations

import re
from collections.abc import Collection
from functools import cache
from pathlib import Path
from typing import Any

import pandas as pd
import yaml

from companion.judging import recorded

PAPERS = {"sfl": "SFL", "ds": "Data streams", "osafl": "OSAFL", "fats": "FATS"}
# What an artefact's id begins with behind the paper's -> its name, and that in a narrow cell.
_KINDS = {
    "fig": ("Figure", "Fig."),
    "tab": ("Table", "Tab."),
    "alg": ("Algorithm", "Alg."),
    "thm": ("Theorem", "Thm."),
    "prop": ("Proposition", "Prop."),
    "lem": ("Lemma", "Lem."),
    "cor": ("Corollary", "Cor."),
    "rem": ("Remark", "Rem."),
    "remark": ("Remark", "Rem."),
    "eq": ("Equation", "Eq."),
    "app": ("Appendix", "App."),
}
_SHORT = dict(_KINDS.values())
# Drawings without numbers, whose claims say that there is little to refute.
DRAWINGS = ("sfl-fig1", "sfl-fig2", "sfl-fig3", "sfl-fig9", "osafl-fig7", "osafl-fig8")
# Data sets that an id ends with, as people write them.
_DATA = {
    "cifar10": "CIFAR-10",
    "cifar100": "CIFAR-100",
    "femnist": "FEMNIST",
    "shakespeare": "Shakespeare",
}
_ROMAN = {"1": "I", "2": "II", "3": "III", "4": "IV", "5": "V"}  # OSAFL's tables


@cache
def in_short() -> dict[str, str]:
    """Return every claim in at most ten words, by its artefact."""
    return yaml.safe_load((Path(__file__).parent / "in_short.yaml").read_text(encoding="utf-8"))


def says(artefact: str) -> str:
    """Return what a claim says beside its name; "" for a statement, whose name it is."""
    numbered = _parsed(artefact.partition("-")[2])[0] is not None
    return in_short().get(artefact, "") if numbered else ""


def name_of(artefact: str) -> str:
    """Return how the paper calls an artefact, such as "Figure 4a" or "Table II"."""
    paper, _, rest = artefact.partition("-")
    kind, number, tail = _parsed(rest)
    if kind is None:
        return in_short().get(artefact, artefact)
    if paper == "osafl" and kind == "Table":
        number = _ROMAN.get(number, number)
    if paper == "ds" and kind in ("Theorem", "Lemma", "Corollary"):  # numbered by section
        number = f"{number[0]}.{number[1:]}"
    if kind == "Equation":
        number = f"({number})"
    return f"{kind} {number}" + (f", {_DATA.get(tail, tail)}" if tail else "")


def full_name(artefact: str) -> str:
    """Return how an artefact is called among four papers, such as "Figure 4a (SFL)"."""
    paper = artefact.partition("-")[0]
    return f"{name_of(artefact)} ({PAPERS.get(paper, paper)})"


def short_name(artefact: str) -> str:
    """Return the name for a narrow place, such as "Thm. 4.3"; a statement has only its own."""
    kind = _parsed(artefact.partition("-")[2])[0]
    name = name_of(artefact)
    return name if kind is None else name.replace(kind, _SHORT[kind], 1)


def anchor(artefact: str) -> str:
    """Return the heading of an artefact's block, which is its anchor.

    Code hosts and JupyterLab agree on the anchors of headings of one lower-case word alone.
    """
    return artefact.lower()


def as_cell(artefacts: Collection[str]) -> str:
    """Return artefacts by kind and number for a narrow cell, such as "Fig. 3, 5; Alg. 1"."""
    found: dict[str, list[str]] = {}
    for artefact in artefacts:
        kind, number, tail = _parsed(artefact.partition("-")[2])
        if kind is None:
            found.setdefault("", []).append(artefact)
        elif not tail or artefact.removesuffix(f"-{tail}") not in artefacts:
            name, _, rest = name_of(artefact).partition(" ")[2].partition(", ")
            name = f"{name} ({rest})" if rest else name
            found.setdefault(_SHORT[kind], []).append(name)
    others = len(found.pop("", []))
    cells = [f"{kind} {', '.join(numbers)}" for kind, numbers in found.items()]
    if others:
        cells.append(f"{others} statement{'' if others == 1 else 's'}")
    return "; ".join(cells)


def _parsed(rest: str) -> tuple[str | None, str, str]:
    """Return kind, number and what follows of an id behind the paper's, such as tab2-cifar10."""
    found = re.fullmatch(r"([a-z]+?)([0-9A-Z][0-9A-Z]*[a-z]?)(?:-(\w+))?", rest)
    if not found or found[1] not in _KINDS:
        return None, "", ""
    return _KINDS[found[1]][0], found[2], found[3] or ""


def paper_of(rows: pd.DataFrame) -> pd.Series:
    """Return the short name of the paper of each row of a table of verdicts, a key of `PAPERS`."""
    return rows["artefact"].str.split("-").str[0]


def by_paper(rows: pd.DataFrame) -> dict[str, list[Any]]:
    """Return the rows of a table of verdicts by paper, in the order of `PAPERS`.

    Of each paper figures come first, statements last, by number within a kind.
    """
    kinds = [*dict.fromkeys(kind for kind, _ in _KINDS.values()), None]

    def place(row: Any) -> tuple:
        kind = _parsed(row.artefact.partition("-")[2])[0]
        return kinds.index(kind), recorded.natural_key(row.artefact)

    of = paper_of(rows)
    return {
        name: sorted(rows[of == name].itertuples(), key=place)
        for name in PAPERS
        if (of == name).any()
    }
