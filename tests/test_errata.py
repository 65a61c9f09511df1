"""Every erratum that the code, the tests or a notebook refers to is explained in ERRATA.md."""

import re

from tests.helpers import ROOT

FOLDERS = ("sflkit", "tests", "notebooks")


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


def test_tests_that_are_named_exist():
    named = re.findall(r"tests/[\w/]+\.py", (ROOT / "ERRATA.md").read_text(encoding="utf-8"))
    assert len(named) >= 40
    assert [name for name in named if not (ROOT / name).is_file()] == []
