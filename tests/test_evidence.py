"""Claims, notebooks and recorded verdicts agree: nothing is judged that was not declared, and
nothing declared is left without a verdict.
"""

from __future__ import annotations

import importlib
import re

import pandas as pd

from companion.app import gate
from companion.judging import seals, tables
from companion.judging.claims import SETTINGS, VERDICTS
from tests.helpers import ROOT

PAPERS = ("sfl", "datastreams", "osafl", "fats")
DECLARED = {
    artefact: claim
    for paper in PAPERS
    for artefact, claim in importlib.import_module(f"companion.{paper}.claims").CLAIMS.items()
}
FIGURES = ROOT / "figures"


def owners():
    """Return the notebook of each artefact."""
    return {name: book for book in gate.notebooks() for name in book.artefacts}


def test_every_claim_has_a_notebook_and_every_artefact_a_claim():
    assert set(owners()) == set(DECLARED)


def test_every_claim_has_a_verdict():
    found = tables.all_verdicts(FIGURES)
    assert set(found["artefact"]) == set(DECLARED)
    assert set(found["verdict"]) <= set(VERDICTS) and set(found["setting"]) <= set(SETTINGS)


def test_recorded_verdicts_are_those_of_today_s_claims():
    """A verdict whose claim or parts were changed after it was recorded is out of date."""
    rows = seals.read_table(FIGURES / "verdicts.csv")
    parts = seals.read_table(FIGURES / "parts.csv")
    for row in rows.itertuples():
        claim = DECLARED[row.artefact]
        mine = parts[parts["artefact"] == row.artefact]
        told = [(part.key, part.sentence, part.rule.words, part.role) for part in claim.parts]
        kept = list(zip(mine["part"], mine["sentence"], mine["rule"], mine["role"], strict=True))
        told.append((claim.text, claim.source, claim.refuted_by, claim.printed))
        kept.append((row.claim, row.source, row.refuted_by, row.printed))
        errata = [str(part.erratum or "") for part in claim.parts]
        assert kept == told, f"run notebook of {row.artefact} again"
        assert list(mine["erratum"]) == errata, f"run notebook of {row.artefact} again"


def test_what_a_figure_draws_lies_beside_it():
    import hashlib
    import json

    index = pd.read_csv(FIGURES / "index.csv")
    pictures = {file.stem for file in FIGURES.glob("*.png")}
    assert set(index["artefact"]) == pictures - set(seals.OTHERS)
    for row in index.itertuples():
        drawn = (FIGURES / f"{row.artefact}.csv").read_bytes()
        passport = json.loads((FIGURES / f"{row.artefact}.json").read_text())
        digest = hashlib.sha256(drawn).hexdigest()
        assert digest == row.data_sha256 == passport["data_sha256"], row.artefact


def test_what_is_published_is_what_was_drawn_and_judged():
    assert list(map(str, seals.damages(FIGURES))) == []


def test_errata_that_correct_a_claim_are_there():
    text = (ROOT / "ERRATA.md").read_text(encoding="utf-8")
    known = set(map(int, re.findall(r"^(\d+)\. \*\*", text, re.M)))
    named = {p.erratum for claim in DECLARED.values() for p in claim.parts if p.erratum}
    assert named and named <= known
