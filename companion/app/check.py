"""Whether what is published is what was computed, drawn, judged and transcribed: `sflkit check`.

| what | against |
|---|---|
| data/results: runs, small results, benchmarks | SHA256SUMS; each run's record and its digests |
| data/paper_values | SHA256SUMS; sources and numbers in each table |
| figures: pictures, numbers, passports | SHA256SUMS; the notebook, and its runs, published |
| figures/verdicts.csv, parts.csv | SHA256SUMS; the declared claims; the answers |
| figures/parameters.json | the notebooks' parameters cells |
| VERDICTS.md, tables of README and guides | what the templates make of the verdicts |

Digests tell damage and slips. Of a changed sentence in a guide or another output of a notebook only
git knows.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from companion import story
from companion.app import front_picture, gate, readme
from companion.claims import declared
from companion.judging import recorded, tables
from companion.judging.claims import Answer, Claim, overall
from companion.judging.rules import Judged
from sflkit import paths
from sflkit.runs import archive, store, sums

_BACK = "`git checkout -- {}` brings it back"
_RESULTS, _PRINTED, _FIGURES = "data/results", "data/paper_values", "figures"
_ANEW = {  # digests of what lies in a folder
    folder: f"cd {folder} && sha256sum {files} > {sums.NAME}"
    for folder, files in {
        _RESULTS: "*.xz derived.json bench/*.csv",
        _PRINTED: "*.csv",
        _FIGURES: "*.csv *.json *.png",
    }.items()
}
_WHOLE = "its runs are whole, so where they were published since: {}; else"  # as after a kill
_DRAW = "`make figures` makes it anew"
# what nothing makes anew where it differs
_KEPT = (sums.NAME, *recorded.COLUMNS, "overview.png", "parameters.json")

_WRITE = "`sflkit verdicts --write-readme` writes it anew"


class Damage(NamedTuple):
    """A file, what is wrong with it, and the way out."""

    file: Path
    wrong: str
    way: str

    def __str__(self) -> str:
        root = gate.root()
        name = self.file.relative_to(root) if self.file.is_relative_to(root) else self.file
        return f"{name}: {self.wrong}; {self.way.format(name)}"


def damages() -> list[Damage]:
    """Return all that is wrong with what the clone publishes; [] where nothing is.

    Nothing is written. $SFLKIT_FIGURES does not count: looked at is the clone's own folder. Raises
    GateError outside a clone.
    """
    root, found = gate.root(), []
    elsewhere = os.environ.pop("SFLKIT_FIGURES", None)
    try:
        for part in PARTS:
            try:
                found += part(root)
            except Exception as error:  # a damaged file fails in any library, in ways of its own
                said = f"{part.__name__} cannot be checked: {error!r}"
                found.append(Damage(root, said, "mend what is named above, and check again"))
    finally:
        if elsewhere is not None:
            os.environ["SFLKIT_FIGURES"] = elsewhere
    return found


def _way(folder: str, file: Path, said: str, way: str) -> str:
    """Return the way out where a file differs from its digest, `way`, or has none, or is gone."""
    if said == sums.UNKNOWN or file.name == sums.NAME:
        back = _BACK.format(f"{folder}/{sums.NAME}")
        return f"{back}; where what lies there is meant: {_ANEW[folder]}"
    return way if file.exists() else f"{way}; where it is to be gone: {_ANEW[folder]}"


def in_short(found: list[Damage]) -> str:
    """Return one line on what `damages` found."""
    if not found:
        return "what is published is whole"
    files = len({damage.file for damage in found})
    return f"{files} published file{'s are' if files > 1 else ' is'} damaged: `sflkit check`"


# --- numbers --------------------------------------------------------------------------------------


def runs(root: Path) -> Iterator[Damage]:
    """Compare data/results with its digests, and each run with its record."""
    folder = paths.published()
    files = [f for end in ("*.xz", "*.json", "bench/*.csv") for f in folder.glob(end)]
    names = [file.relative_to(folder).as_posix() for file in files]
    wrong = dict(sums.damages(folder, names))
    for experiment in archive.experiments(folder):
        rows, records = archive.files_of(experiment, folder)
        said = _in_archive(experiment, folder)
        if said and not {rows, records} & wrong.keys():
            yield Damage(records, said, _BACK)
        for file in {rows, records} & wrong.keys():
            differs, whole = wrong.pop(file), f"{_WHOLE.format(_ANEW[_RESULTS])} {_BACK}"
            way = _BACK if said else _way(_RESULTS, file, differs, whole)
            yield Damage(file, differs, way)
    for file, said in wrong.items():
        yield Damage(file, said, _way(_RESULTS, file, said, _BACK))


def _in_archive(experiment: str, folder: Path) -> str:
    """Return what is wrong with the published runs of an experiment by their own digests."""
    found = archive.read(experiment, folder)
    keys = sorted({*found.records, *found.contents})
    bad = [f"{key}: {said}" for key in keys if (said := store.look_in_archive(key, folder).wrong)]
    return found.wrong or (f"{len(bad)} of {len(keys)} runs, such as {bad[0]}" if bad else "")


def paper_values(root: Path) -> Iterator[Damage]:
    """Compare data/paper_values with its digests, and read every table."""
    folder = paths.paper_values()
    way = f"{_BACK}; where the change is meant: {_ANEW[_PRINTED]}"
    files = sorted(folder.glob("*.csv"))
    wrong = dict(sums.damages(folder, [file.name for file in files]))
    for file, said in wrong.items():
        yield Damage(file, said, _way(_PRINTED, file, said, way))
    for file in files:
        read = tables.paper_curve if "-fig" in file.stem else tables.paper_values
        try:
            read(file.stem)
        except (OSError, ValueError, KeyError) as error:
            if file not in wrong:
                yield Damage(file, f"it cannot be read: {error}", _BACK)


# --- figures and verdicts -------------------------------------------------------------------------


def figures(root: Path) -> Iterator[Damage]:
    """Compare the files of figures/ with their digests, and passports with notebooks and runs."""
    folder = root / "figures"
    files = [file.name for end in ("png", "csv", "json") for file in folder.glob(f"*.{end}")]
    wrong = dict(sums.damages(folder, [*files, *recorded.COLUMNS]))
    for file, said in wrong.items():
        way = _BACK if file.name in _KEPT else f"{_BACK}, {_DRAW}"
        yield Damage(file, said, _way(_FIGURES, file, said, way))
    if not front_picture.is_current():
        said = "it, or overview.json, is not what was drawn from the numbers beside it"
        yield Damage(folder / "overview.png", said, _WRITE)
    books, damaged = _books()
    there = paths.published()
    read = (archive.read(name, there).records for name in archive.experiments(there))
    published = {key for records in read for key in records}
    for file in sorted(set(folder.glob("*.json")) - set(wrong)):
        if file.name in ("overview.json", "parameters.json"):
            continue
        passport = json.loads(paths.read(file))
        if passport["notebook"] in damaged:  # which `parameters` names
            continue
        book = books.get(passport["notebook"])
        if book is None or (book.artefacts and file.stem not in book.artefacts):
            yield Damage(file, f"{passport['notebook']} is no notebook that draws it", _BACK)
        elif book.plan and (lost := sorted(set(passport["results"]) - published)):
            # notebooks without a plan compute as they run
            said = f"{len(lost)} of its {len(passport['results'])} runs are not published, such as"
            way = f"`make paper ONLY={book.number}` computes them"
            yield Damage(file, f"{said} {lost[0]}", way)


def verdicts(root: Path) -> Iterator[Damage]:
    """Compare the recorded verdicts with the claims as they are declared today."""
    file = root / "figures" / "verdicts.csv"
    claims, parts = declared(), {}
    try:
        found = [recorded.read_table(file.with_name(name)) for name in recorded.COLUMNS]
    except recorded.DamagedTable:  # which `figures` names
        return
    said, judged = (table.to_dict("records") for table in found)
    for part in judged:
        parts.setdefault(part["artefact"], []).append(part)
    rows = {row["artefact"]: row for row in said}
    if lost := sorted(claims.keys() - rows.keys()):
        said = f"there is no verdict on {len(lost)} claims, such as {lost[0]}"
        yield Damage(file, said, _DRAW)
    for artefact, row in rows.items():
        if artefact not in claims:
            yield Damage(file, f"{artefact} is no declared claim", _DRAW)
        elif said := _differs(claims[artefact], row, parts.get(artefact, [])):
            yield Damage(file, f"{said} of {artefact} differ from the declared claim", _DRAW)


def _differs(claim: Claim, row: Mapping[str, str], parts: list[Mapping[str, str]]) -> str:
    """Return in words what a recorded verdict says otherwise than its claim and its answers."""
    fields = {"claim": claim.text, "source": claim.source, "refuted_by": claim.refuted_by,
              "printed": claim.printed}  # fmt: skip
    other = [name for name, text in fields.items() if row[name] != text]
    wanted = [
        (part.key, part.sentence, part.rule.words, part.role, str(part.erratum or ""))
        for part in claim.parts
    ]
    names = ("part", "sentence", "rule", "role", "erratum")
    if [tuple(part[name] for name in names) for part in parts] != wanted:
        return ", ".join([*other, "parts"])
    answers = zip(
        claim.parts,
        (Judged(part["answer"], part["ours"], hint=part["hint"]) for part in parts),
        strict=True,
    )
    if overall(Answer(*answer) for answer in answers) != row["verdict"]:
        other.append("verdict and answers")
    return ", ".join(other)


# --- notebooks and pages --------------------------------------------------------------------------


def parameters(root: Path) -> Iterator[Damage]:
    """Compare figures/parameters.json with the notebooks' parameters cells."""
    books, damaged = _books()
    yield from damaged.values()
    file = root / "figures" / "parameters.json"
    try:
        known, cells = story.published_parameters(), story.of_cells(list(books.values()))
    except gate.GateError:
        yield Damage(file, "it holds no parameters by notebook", _BACK)
        return
    names = sorted((known | cells).keys() - damaged.keys())
    if other := [name for name in names if known.get(name) != cells.get(name)]:
        said = f"the parameters cells say otherwise of {', '.join(other)}"
        only = " ".join(name[:2] for name in other)
        way = f'{_BACK}, `make figures ONLY="{only}"` publishes what they say'
        yield Damage(file, said, way)


def _books() -> tuple[dict[str, gate.Notebook], dict[str, Damage]]:
    """Return by name the notebooks that can be read, and what is wrong with the others."""
    books, damaged = {}, {}
    for book in gate.notebooks():
        try:
            _ = book.parameters
            books[book.name] = book
        except gate.GateError as error:
            damaged[book.name] = Damage(book.path, str(error), _BACK)
    return books, damaged


def pages(root: Path) -> Iterator[Damage]:
    """Compare the generated pages with what their templates make of the verdicts."""
    for page, make in readme.pages().items():
        try:
            content = paths.read(page)
            if make(content.decode("utf-8")).encode() != content:
                yield Damage(page, "its generated part is out of date", _WRITE)
        except recorded.DamagedTable:
            yield Damage(page, "it hangs on verdicts that are damaged", "mend these first")
        except (OSError, ValueError) as error:
            if not (isinstance(error, gate.GateError) and _books()[1]):  # which `parameters` names
                yield Damage(page, str(error), _BACK)


PARTS: tuple[Callable[[Path], Iterator[Damage]], ...] = (
    runs,
    paper_values,
    figures,
    verdicts,
    parameters,
    pages,
)
