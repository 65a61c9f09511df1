"""Claims and notebooks agree. That verdicts agree with the claims is part of `sflkit check`."""

from __future__ import annotations

import re

from companion.app import gate
from companion.claims import declared
from tests.helpers import ROOT

DECLARED = declared()


def owners():
    """Return the notebook of each artefact."""
    return {name: book for book in gate.notebooks() for name in book.artefacts}


def test_every_claim_has_a_notebook_and_every_artefact_a_claim():
    assert set(owners()) == set(DECLARED)


def test_errata_that_correct_a_claim_are_there():
    text = (ROOT / "ERRATA.md").read_text(encoding="utf-8")
    known = set(map(int, re.findall(r"^(\d+)\. \*\*", text, re.M)))
    named = {p.erratum for claim in DECLARED.values() for p in claim.parts if p.erratum}
    assert named and named <= known
