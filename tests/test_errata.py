"""Every erratum that the code, the tests or a notebook refers to is explained in ERRATA.md, and
notebook 91 shows each that numbers can show, in a cell that fails if the erratum were wrong.
"""

from __future__ import annotations

import json
import re
from dataclasses import replace
from functools import cache
from types import SimpleNamespace

import pytest

from companion.datastreams import errata as ds_errata
from companion.fats import errata as fats_errata
from companion.judging import errata
from companion.osafl import errata as osafl_errata
from companion.sfl import errata as sfl_errata
from tests.helpers import ROOT

FOLDERS = ("sflkit", "companion", "tests", "notebooks")
MODULES = {
    "sfl_errata": sfl_errata,
    "ds_errata": ds_errata,
    "osafl_errata": osafl_errata,
    "fats_errata": fats_errata,
}
SHOWN = [(name, number) for name, module in MODULES.items() for number in module.EXAMPLES]
CONFIRMED = (17,)  # an entry that says that the paper is right


@cache
def example(module: str, number: int) -> errata.CounterExample:
    return MODULES[module].EXAMPLES[number]()


@cache
def assertion_cells() -> dict[tuple[str, str], str]:
    """The code cells of notebook 91 that show an example, by module and function."""
    (path,) = (ROOT / "notebooks").glob("91_*.ipynb")
    cells = ["".join(c["source"]) for c in json.loads(path.read_text(encoding="utf-8"))["cells"]]
    found = {}
    for cell in cells:
        if match := re.match(r"example = (\w+)\.(\w+)\(\)\n", cell):
            found[match[1], match[2]] = cell
    return found


def run_cell(module: str, number: int, shown: errata.CounterExample) -> None:
    name = MODULES[module].EXAMPLES[number].__name__
    exec(assertion_cells()[module, name], {module: SimpleNamespace(**{name: lambda: shown})})


def with_values(shown: errata.CounterExample, role: str, *, right: bool) -> errata.CounterExample:
    """The example as if all readings of a role were right, or were wrong."""
    wrong = {"=": 1, "≤": 1, "≥": -1, ">": -1}
    readings = tuple(
        replace(r, value=r.needed + ((r.relation == ">") if right else wrong[r.relation]))
        if r.role == role
        else r
        for r in shown.readings
    )
    return replace(shown, readings=readings)


def test_every_entry_is_shown_or_says_why_not():
    entries = errata.entries((ROOT / "ERRATA.md").read_text(encoding="utf-8"))
    papers = dict(zip(dict.fromkeys(entry.paper for entry in entries), MODULES, strict=True))
    for entry in entries:
        module = MODULES[papers[entry.paper]]
        assert (entry.number in module.EXAMPLES) != (entry.number in module.NOT_SHOWN), entry
    assert len(SHOWN) + sum(len(m.NOT_SHOWN) for m in MODULES.values()) == len(entries)
    assert len(assertion_cells()) == len(SHOWN)


@pytest.mark.parametrize(("module", "number"), SHOWN)
def test_a_cell_of_notebook_91_fails_if_the_erratum_were_wrong(module, number):
    shown = example(module, number)
    assert shown.number == number
    run_cell(module, number, shown)
    if_wrong = with_values(shown, "printed", right=number not in CONFIRMED)
    with pytest.raises(AssertionError):
        run_cell(module, number, if_wrong)
    if shown.of("corrected"):
        with pytest.raises(AssertionError):
            run_cell(module, number, with_values(shown, "corrected", right=False))


def test_every_number_is_explained():
    explained = set(
        re.findall(r"^(\d+)\. \*\*", (ROOT / "ERRATA.md").read_text(encoding="utf-8"), re.M)
    )
    used = {}
    for folder in FOLDERS:
        for path in (ROOT / folder).rglob("*"):
            if path.suffix in (".py", ".ipynb"):
                for group in re.findall(
                    r"ERRATA (\d+(?:(?:, | and )\d+)*)", path.read_text(encoding="utf-8")
                ):
                    used |= dict.fromkeys(re.findall(r"\d+", group), path.name)
    assert len(used) >= 10
    assert {n: name for n, name in used.items() if n not in explained} == {}


def test_files_that_are_named_exist():
    named = re.findall(r"tests/[\w/]+\.py", (ROOT / "ERRATA.md").read_text(encoding="utf-8"))
    assert len(named) >= 40
    named += re.findall(r"sflkit/[\w/]+\.py", (ROOT / "ERRATA.md").read_text(encoding="utf-8"))
    assert [name for name in named if not (ROOT / name).is_file()] == []
