"""The README's five findings, each in plain sentences with the numbers of today's verdicts.

`findings.yaml` has them: templates with named values, which come from rows of figures/parts.csv. A
finding is written for certain answers. Where one has changed since, or its claim was not judged,
the finding says so and nothing else, until somebody writes it anew; a test notices.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd
import yaml

from companion import templates
from companion.app import gate
from companion.app.artefacts import anchor, name_of
from companion.judging import tables

CHANGED = (
    "The verdicts behind this finding have changed since it was written; what holds today is said "
    "behind the links."
)
_HERE = Path(__file__).parent
_NUMBER = re.compile(r"[-+]?\d[\d.]*(?:e[-+]?\d+)?")


class Part(NamedTuple):
    """A judged part, as a finding names it."""

    answer: str
    size: str
    number: float | None
    low: str
    high: str
    n_seeds: str
    readings: list[str]


@cache
def findings() -> list[dict[str, Any]]:
    """Return the findings as `findings.yaml` has them."""
    return yaml.safe_load((_HERE / "findings.yaml").read_text(encoding="utf-8"))


def _part(row: pd.Series) -> Part:
    numbers = _NUMBER.findall(row["ours"])
    low, _, high = row["interval"].strip("[]").partition(", ")
    number = float(numbers[-1]) if numbers else None
    readings = re.findall(r"(?:^|; )[a-z ]+: [a-z ]+, ([-+][\d.]+)", row["ours"])
    return Part(
        row["answer"], row["ours"].lstrip("+-"), number, low, high, row["n_seeds"], readings
    )


def text(finding: Mapping[str, Any], parts: pd.DataFrame) -> str:
    """Return what a finding says of today's parts, or `CHANGED`."""
    judged = {f"{row['artefact']}/{row['part']}": row for _, row in parts.iterrows()}
    found = {}
    for name, (key, answer) in finding["values"].items():
        if key not in judged or judged[key]["answer"] != answer:
            return CHANGED
        found[name] = _part(judged[key])
    return templates.environment(_HERE).from_string(finding["text"]).render(found)


def as_markdown() -> str:
    """Return the findings as a numbered list with links to verdicts and notebooks."""
    rows, parts, books = tables.all_verdicts(), tables.all_parts(), gate.by_artefact()
    verdicts = dict(zip(rows["artefact"], rows["verdict"], strict=True))
    told = []
    for number, finding in enumerate(findings(), 1):
        links = [
            f"[{name_of(artefact)}: {verdicts[artefact]}](VERDICTS.md#{anchor(artefact)})"
            for artefact in finding["claims"]
            if artefact in verdicts
        ]
        if book := books.get(finding["claims"][0]):
            links.append(f"[notebook {book.number}](notebooks/{book.path.name})")
        more = f" ({', '.join(links)})" if links else ""
        told.append(f"{number}. **{finding['title']}** {text(finding, parts)}{more}")
    return "\n".join(told)
