"""The theory's claims are those of its notebooks, and what corrects them is in ERRATA.md."""

import json
import re

import pytest

from companion.datastreams.claims import theory as datastreams
from companion.sfl.claims import theory as sfl
from tests.helpers import ROOT

OWN = {"10": sfl, "11": sfl, "14": sfl, "20": datastreams, "23": datastreams}


@pytest.mark.parametrize("module", [sfl, datastreams], ids=["sfl", "datastreams"])
def test_every_claim_belongs_to_one_notebook(module):
    found = []
    for number in [number for number, owner in OWN.items() if owner is module]:
        (book,) = (ROOT / "notebooks").glob(f"{number}_*.ipynb")
        found += json.loads(book.read_text(encoding="utf-8"))["metadata"]["sflkit"]["artefacts"]
    assert sorted(found) == sorted(claim.artefact for claim in module.CLAIMS_LIST)


@pytest.mark.parametrize("module", [sfl, datastreams], ids=["sfl", "datastreams"])
def test_a_correction_corrects_something(module):
    """Its erratum is written down, and the claim says which of its printed parts fails."""
    errata = (ROOT / "ERRATA.md").read_text(encoding="utf-8")
    for claim in module.CLAIMS_LIST:
        numbers = {part.erratum for part in claim.parts if part.erratum}
        for number in numbers:
            assert re.search(rf"^{number}\. ", errata, re.M), (claim.artefact, number)
        assert len(numbers) <= 1, "one erratum corrects a claim"
