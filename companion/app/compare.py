"""Ours against the committed: what a run of the notebooks changed in figures/<profile>/.

Where the committed files are from is said in `committed`.

Figures are the same byte for byte, or close (the numbers drawn agree within `RELATIVE`, and the
pictures look the same), or redrawn (these numbers in another picture), or they differ; a page shows
the last two with both pictures side by side. Runs with seeds may move trained numbers; they neither
redraw a figure nor take it away, so that both fail. Parts of claims that no random run decides are
theory: they must be the same on every processor, up to the last digits that are shown. The others
must lie within the interval over seeds that is committed, with the same answer.
"""

from __future__ import annotations

import base64
import contextlib
import io
import re
from collections.abc import Iterable, Mapping
from html import escape
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

from companion.app import committed
from companion.judging import seals
from sflkit import paths

# Numbers drawn are close where they differ by no more than this share of the larger one, or by
# 1e-8 of the largest in their column; csv files hold seven digits.
RELATIVE = 1e-5
# Pictures look the same where a colour differs by more than a tenth in no more than this share of
# the pixels that are drawn on, so that the edge of a line may move by a rounding error.
PIXELS = 0.01
# Numbers in the words of a theory part have three digits. Below NOTHING they are rounding errors.
SHOWN = 0.01
NOTHING = 1e-9
FIGURE_FILES = (".png", ".csv")
_NUMBER = re.compile(r"[-+]?\d+(?:\.\d+)?(?:e[-+]?\d+)?")


class Picture(NamedTuple):
    """A figure of ours against the committed one.

    Attributes
    ----------
    artefact : str
    state : str
        "same", "close", "redrawn", "differs", "new" (not committed) or "gone" (not ours).
    trained : bool
        Whether runs with seeds are behind it; a figure of theory must be the same everywhere.
    why : str
        What differs most.
    """

    artefact: str
    state: str
    trained: bool
    why: str


class Change(NamedTuple):
    """A verdict or a part of a claim that is not as committed; part is empty for the verdict."""

    artefact: str
    part: str
    before: str
    after: str


class Report(NamedTuple):
    """What differs from the committed.

    Attributes
    ----------
    profile, against : str
        Whose figures, and what they were compared with; empty where there was nothing.
    pictures : list of Picture
    verdicts : list of Change
        Verdicts and settings that changed, with the parts that did.
    parts : dict
        Number of parts by state: "same", "within" the committed interval, and "outside".
    outside : list of Change
        Parts whose verdict is the same, and which are not what they must be.
    damaged : list of seals.Damage
    """

    profile: str
    against: str
    pictures: list[Picture]
    verdicts: list[Change]
    parts: dict[str, int]
    outside: list[Change]
    damaged: list[seals.Damage]

    @property
    def as_committed(self) -> bool:
        """Whether nothing differs but trained figures, and trained numbers within intervals."""
        moved = any(
            picture.state in ("redrawn", "gone")
            or (picture.state in ("differs", "new") and not picture.trained)
            for picture in self.pictures
        )
        return not (moved or self.verdicts or self.outside or self.damaged)


# --- comparing ------------------------------------------------------------------------------------


def compare(profile: str = "quick") -> Report:
    """Return how figures/<profile>/ differs from what is committed.

    Raises
    ------
    gate.GateError
        Outside a clone.
    committed.GitFailed
        If git cannot say what is committed.
    """
    folder = paths.figures(profile)
    theirs, against = committed.read(profile)
    ours = committed.files_in(folder) if folder.is_dir() else {}
    verdicts, parts, outside = _verdicts(theirs, ours) if against else ([], {}, [])
    pictures = _pictures(theirs, ours) if against else []
    return Report(profile, against, pictures, verdicts, parts, outside, seals.damages(folder))


def _pictures(theirs: Mapping[str, bytes], ours: Mapping[str, bytes]) -> list[Picture]:
    names = {Path(name).stem for name in (*theirs, *ours) if name.endswith(".png")}
    return [_picture(name, theirs, ours) for name in sorted(names, key=seals.natural_key)]


def _picture(artefact: str, theirs: Mapping[str, bytes], ours: Mapping[str, bytes]) -> Picture:
    old = {end: theirs.get(artefact + end) for end in FIGURE_FILES}
    new = {end: ours.get(artefact + end) for end in FIGURE_FILES}
    # a passport without result keys: computed in the notebook, without a run that has a seed
    trained = not re.search(rb'"results": \[\]', theirs.get(f"{artefact}.json", b""))
    if old == new:
        return Picture(artefact, "same", trained, "")
    if new[".png"] is None or old[".png"] is None:
        return Picture(artefact, "gone" if new[".png"] is None else "new", trained, "")
    why = numbers_differ(old[".csv"] or b"", new[".csv"] or b"")
    if why:
        return Picture(artefact, "differs", trained, why)
    if looks_the_same(old[".png"], new[".png"]):
        return Picture(artefact, "close", trained, "")
    return Picture(artefact, "redrawn", trained, "the same numbers, and another picture")


def looks_the_same(old: bytes, new: bytes) -> bool:
    """Return whether two png files show the same, as far as `PIXELS` tells; no broken one does."""
    if old == new:
        return True
    from PIL import Image

    try:
        before, after = (
            np.asarray(Image.open(io.BytesIO(content)).convert("RGBA"), dtype=float) / 255
            for content in (old, new)
        )
    except (OSError, ValueError, SyntaxError):
        return False
    if before.shape != after.shape:
        return False
    changed = np.abs(before - after).max(axis=-1) > 0.1
    drawn = np.minimum(before, after).min(axis=-1) < 0.9  # neither white nor empty
    return bool(changed.sum() <= PIXELS * drawn.sum())


def numbers_differ(old: bytes, new: bytes) -> str:
    """Return what differs most between two csv files, or nothing where all is close.

    Texts must be equal, and numbers within `RELATIVE`.
    """
    if old == new:
        return ""
    try:
        before, after = (pd.read_csv(io.BytesIO(content)) for content in (old, new))
    except (ValueError, UnicodeDecodeError):
        return "one of the csv files cannot be read"
    if list(before) != list(after) or len(before) != len(after):
        return f"{before.shape} rows and columns, now {after.shape}"
    worst, said = 0.0, ""
    for name in before:
        share, row = _largest_difference(before[name], after[name])
        if share > worst:
            worst = share
            said = f"column {name}, row {row + 1}: {before[name][row]}, now {after[name][row]}"
    return said


def _largest_difference(old: pd.Series, new: pd.Series) -> tuple[float, int]:
    """Return the largest relative difference of two columns that counts, and its row."""
    if not (pd.api.types.is_numeric_dtype(old) and pd.api.types.is_numeric_dtype(new)):
        other = (old.astype(str) != new.astype(str)).to_numpy()
        return (np.inf if other.any() else 0.0), int(other.argmax())
    a, b = old.to_numpy(float), new.to_numpy(float)
    size = np.maximum(np.abs(a), np.abs(b))
    finite = size[np.isfinite(size)]
    floor = 1e-8 * finite.max(initial=0.0)
    with np.errstate(invalid="ignore"):
        close = np.isclose(a, b, rtol=RELATIVE, atol=floor, equal_nan=True)
        share = np.where(close, 0.0, np.abs(a - b) / np.maximum(size, 1e-300))
    share = np.where(np.isnan(share), np.inf, share)  # a gap in one of them
    return float(share.max(initial=0.0)), int(share.argmax()) if len(share) else 0


def _verdicts(
    theirs: Mapping[str, bytes], ours: Mapping[str, bytes]
) -> tuple[list[Change], dict[str, int], list[Change]]:
    """Return changed verdicts with their parts, parts by state, and other parts that differ."""
    old, new = (_by(files, "verdicts.csv", ["artefact"]) for files in (theirs, ours))
    keys = ["artefact", "part"]
    old_parts, new_parts = (_by(files, "parts.csv", keys) for files in (theirs, ours))
    changed = {}
    for key in {**old, **new}:
        before, after = (_said(rows.get(key)) for rows in (old, new))
        if before != after:
            changed[key[0]] = [Change(key[0], "", before, after)]
    counts = {"same": 0, "within": 0, "outside": 0}
    outside = []
    for key in {**old_parts, **new_parts}:
        before, after = old_parts.get(key), new_parts.get(key)
        state = part_state(before, after)
        counts[state] += 1
        if state == "outside":
            change = Change(*key, _said(before), _said(after))
            changed.get(key[0], outside).append(change)
    return [change for group in changed.values() for change in group], counts, outside


def _by(files: Mapping[str, bytes], name: str, keys: list[str]) -> dict[tuple, dict[str, str]]:
    """Return the rows of a table, as far as it can be read, by some of their entries."""
    with contextlib.suppress(ValueError, UnicodeDecodeError):
        table = pd.read_csv(io.BytesIO(files.get(name, b"")), dtype=str, keep_default_na=False)
        return {tuple(row[key] for key in keys): row for row in table.to_dict("records")}
    return {}


def _said(row: Mapping[str, str] | None) -> str:
    """Return a verdict with its setting, or a part's answer with its number, in words."""
    if row is None:
        return "not there"
    if "verdict" in row:
        return f"{row['verdict']} ({row['setting']})"
    interval = f" {row['interval']}" if row["interval"] else ""
    return f"{row['answer']}: {row['ours']}{interval}"


def part_state(before: Mapping[str, str] | None, after: Mapping[str, str] | None) -> str:
    """Return whether a judged part is the "same" as the committed, "within" or "outside"."""
    if before is None or after is None or before["answer"] != after["answer"]:
        return "outside"
    if before["ours"] == after["ours"]:
        return "same"
    if before["interval"]:
        # one seed has the interval from -inf to inf, which float() reads and _NUMBER does not
        low, high = map(float, before["interval"].strip("[]").split(", "))
        found = _NUMBER.findall(after["ours"])
        return "within" if found and low <= float(found[0]) <= high else "outside"
    return "same" if _same_words(before["ours"], after["ours"]) else "outside"


def _same_words(old: str, new: str) -> bool:
    """Return whether two texts say the same, with numbers that agree in the digits shown.

    Whole numbers, such as "63 of 63 hold", must be equal.
    """
    if _NUMBER.sub("", old) != _NUMBER.sub("", new):
        return False
    for a, b in zip(_NUMBER.findall(old), _NUMBER.findall(new), strict=True):
        if a.isdigit() and b.isdigit():
            if a != b:
                return False
        elif not np.isclose(float(a), float(b), rtol=SHOWN, atol=NOTHING):
            return False
    return True


# --- saying it ------------------------------------------------------------------------------------


def page_file() -> Path:
    """Return where the page with the pictures lies."""
    return paths.out() / "compare.html"


def summary(report: Report) -> str:
    """Return the report in lines for a terminal."""
    if not report.against:
        return f"figures/{report.profile}: nothing is committed that it could be compared with"
    lines = [f"figures/{report.profile} against {report.against}: {_counted(report)}"]
    for damage in report.damaged:
        lines.append(f"  damaged: {damage}")
    for picture in report.pictures:
        if picture.state not in ("same", "close"):
            kind = "trained" if picture.trained else "THEORY"
            lines.append(f"  figure {picture.artefact} ({kind}) {_state(picture)}")
    for change in (*report.verdicts, *report.outside):
        name = f"part {change.part} of " if change.part else "verdict on "
        lines.append(f"  {name}{change.artefact}: {change.before} -> {change.after}")
    if any(p.state in ("redrawn", "differs") for p in report.pictures):
        lines.append(f"  both pictures of each, side by side: {page_file()}")
    return "\n".join(lines)


def _counted(report: Report) -> str:
    states = [picture.state for picture in report.pictures]
    names = {
        "same": "the same byte for byte",
        "close": f"with numbers within {RELATIVE:g} relatively",
        "redrawn": "with these numbers in another picture",
        "differs": "that differ",
        "new": "not committed",
        "gone": "not there",
    }
    counted = [f"{states.count(s)} {words}" for s, words in names.items() if s in states]
    changed = sum(not change.part for change in report.verdicts)
    parts = report.parts
    return (
        f"{len(states)} figures: {', '.join(counted) or 'none'}; {changed} verdicts changed; "
        f"{sum(parts.values())} parts: {parts['same']} the same, {parts['within']} trained within "
        f"the committed interval, {parts['outside']} not"
    )


def _state(picture: Picture) -> str:
    words = {"new": "is not committed", "gone": "is not there", "redrawn": "is redrawn"}
    return words.get(picture.state, picture.state) + (f": {picture.why}" if picture.why else "")


def write_page(report: Report) -> Path:
    """Write the report as one html file with all pictures inside, and return where it lies."""
    theirs, _ = committed.read(report.profile)
    ours = committed.files_in(paths.figures(report.profile)) if report.pictures else {}
    blocks = [f"<h1>Ours against the committed</h1><pre>{escape(summary(report))}</pre>"]
    for picture in report.pictures:
        if picture.state not in ("same", "close"):
            name = f"{picture.artefact}.png"
            pair = (("committed", theirs.get(name)), ("ours", ours.get(name)))
            blocks.append(f"<h2>{escape(picture.artefact)}</h2><p>{escape(_state(picture))}</p>")
            blocks.append(f"<div>{''.join(_shown(pair))}</div>")
    head = (
        '<!doctype html><html lang="en"><meta charset="utf-8"><title>Ours against the committed'
        "</title><style>body{font-family:sans-serif;margin:2em}div{display:flex;gap:1em}"
        "figure{flex:1;margin:0}img{width:100%}pre{white-space:pre-wrap}</style>"
    )
    paths.write_atomic(page_file(), f"{head}<body>{''.join(blocks)}</body></html>\n")
    return page_file()


def _shown(pair: Iterable[tuple[str, bytes | None]]) -> Iterable[str]:
    for label, content in pair:
        inside = "there is none"
        if content is not None:
            text = base64.b64encode(content).decode()
            inside = f'<img alt="{label}" src="data:image/png;base64,{text}">'
        yield f"<figure>{inside}<figcaption>{label}</figcaption></figure>"
