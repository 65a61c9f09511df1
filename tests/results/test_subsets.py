"""Published runs on a part of a data set, or on a lossy copy, are called so by the verdicts."""

import json

import pytest

from companion.judging import tables
from sflkit import paths
from sflkit.data import catalogue
from sflkit.runs import archive


@pytest.fixture(scope="module")
def remarks():
    """What must be said of the data, by the key of a run."""
    found = {}
    for name in archive.experiments(paths.published()):
        for key, record in archive.read(name, paths.published()).records.items():
            found[key] = catalogue.remark(record.get("data") or {})
    return found


def test_every_verdict_on_a_subset_or_a_lossy_copy_says_so(root, remarks):
    differs = tables.all_verdicts(root / "figures").set_index("artefact")["differs"]
    met = set()
    for passport in (root / "figures").glob("*.json"):
        about = json.loads(passport.read_text(encoding="utf-8"))
        if passport.stem not in differs:
            continue
        for key in about["results"]:
            said = [part for part in remarks[key].split("; ") if part.startswith(("sub", "lossy"))]
            for part in said:
                assert part in differs[passport.stem], f"{passport.stem}, {key}"
                met.add(part.partition(":")[0])
    assert met == {"subset", "lossy copy"}
