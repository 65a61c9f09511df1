"""companion/claims: loops, shared rules and texts, and what is refused, with its place."""

import textwrap

import pytest

from companion import claims
from companion.judging import rules

CLAIM = """
claims:
  - artefact: sfl-fig4a
    text: The rules end in this order.
    source: Fig. 4(a)
    refuted_by: another order
    parts:
"""
PART = """
      - key: order
        sentence: DRSR ends above FIFO
        rule: holds
"""


@pytest.fixture
def read(tmp_path):
    """Return the claims of a file with this text."""

    def written(text):
        file = tmp_path / "sfl.yaml"
        file.write_text(textwrap.dedent(text), encoding="utf-8")
        return claims.load(file)

    return written


def parts_of(book):
    return {part.key: part for part in book["sfl-fig4a"].parts}


def test_every_paper_is_declared_and_every_part_has_a_sentence_and_a_rule():
    named = [claims.SFL, claims.DATASTREAMS, claims.OSAFL, claims.FATS]
    assert len(claims.declared()) == sum(map(len, named))  # no artefact in two papers
    books = [*named, claims.BEYOND]
    assert all(len(book) for book in books) and claims.SFL is claims.SFL
    for claim in (claim for book in books for claim in book.values()):
        for part in claim.parts:
            assert "{" not in part.key + part.sentence and "  " not in part.sentence
            assert isinstance(part.rule, rules.Rule) and part.rule.words
    assert not hasattr(claims, "OTHER")


def test_a_loop_makes_a_part_for_every_row(read):
    loops = """
      - for: caches
        key: "{rule}"
        sentence: "{name} {above} FIFO"
        rule: holds
      - for: {size: [few, many], rule: [drsr, srsr]}
        key: "{rule} {size}"
        sentence: "{rule}, {size}"
        rule: holds
      - for: [{size: few, of: [{n: 1}, {n: 2}]}, {size: many, of: []}]
        parts:
          - key: "{size}"
            sentence: at once
            rule: holds
          - for: "{of}"
            key: "{size} {n}"
            sentence: one by one
            rule: holds
    """
    shared = """
texts: {above: ends above}
lists: {caches: [{rule: drsr, name: DRSR}, {rule: srsr, name: SRSR}]}
"""
    parts = parts_of(read(shared + CLAIM + loops))
    assert [*parts] == ["drsr", "srsr", "drsr few", "srsr few", "drsr many", "srsr many",
                        "few", "few 1", "few 2", "many"]  # fmt: skip
    assert parts["srsr"].sentence == "SRSR ends above FIFO"


def test_a_loop_makes_a_claim_for_every_row(read):
    looped = CLAIM.replace(
        "artefact: sfl-fig4a", 'for: {panel: [a, b]}\n    artefact: "sfl-{panel}"'
    )
    book = read(looped + PART.replace("DRSR", "'{panel}: DRSR").replace("FIFO", "FIFO'"))
    assert [*book] == ["sfl-a", "sfl-b"]
    assert book["sfl-b"].parts[0].sentence == "b: DRSR ends above FIFO"


@pytest.mark.parametrize(
    ("said", "rule"),
    [
        ("holds", rules.Holds()),
        ("{near: {target: 2, within: 0.5}}", rules.Near(target=2, within=0.5)),
        ("higher", rules.Above(0.005, **rules.POINTS)),
        ("{higher: {printed: 12.3}}", rules.Above(0.005, printed=0.123, **rules.POINTS)),
        ("{higher: {printed: [40.2, 27.9]}}", rules.Above(0.005, printed=0.123, **rules.POINTS)),
        ("{similar: {within: 1, points: true}}", rules.Similar(0.01, **rules.POINTS)),
        ("{above: {smallest: 0.1, printed: [3, 1]}}", rules.Above(0.1, printed=2)),
        ("{each: {rules: higher}}", rules.Each(rules.Above(0.005, **rules.POINTS))),
        ("both", rules.Each({"a": rules.Holds(), "b": rules.Above(0.005, **rules.POINTS)})),
        ("{every_reading: {rules: holds}}", rules.EveryReading(rules.Holds())),
        ("not_below", rules.NotBelow()),
        ("{not_below: {points: true, printed: 2}}", rules.NotBelow(printed=0.02)),
        ("{at_most_below: {by: 1, points: true}}", rules.AtMostBelow(0.01, **rules.POINTS)),
        (
            "{of_ceiling: {target: 62.8, ceiling: 66.3, within: 3, points: true}}",
            rules.OfCeiling(0.628, 0.663, 0.03, **rules.POINTS),
        ),
    ],
)
def test_rules_by_name_with_arguments_and_in_points(read, said, rule):
    shared = """
rules:
  higher: {above: {smallest: 0.5, points: true}}
  both: {each: {rules: {a: holds, b: higher}}}
"""
    found = parts_of(read(shared + CLAIM + PART.replace("holds", said)))["order"].rule
    assert found == rule and type(found) is type(rule)


def test_corrections_name_what_they_correct(read):
    mended = PART.replace("order", "mended").replace("DRSR", "SRSR")
    mended += "        role: corrected\n        erratum: 5\n        corrects: order\n"
    part = parts_of(read(CLAIM + PART + mended))["mended"]
    assert (part.role, part.erratum, part.corrects) == ("corrected", 5, ("order",))
    with pytest.raises(ValueError, match=r"sfl.yaml: claim 'sfl-fig4a': part 'mended': .* erratum"):
        read(CLAIM + PART + mended.replace("        erratum: 5\n", ""))


def test_what_cannot_decide_is_declared(read):
    more = "        fitted: true\n        seen: false\n        needs: full\n"
    control = PART.replace("order", "full").replace("DRSR", "FULL")
    looser = CLAIM.replace("    source", "    fitted: true\n    source")
    book = read(looser + PART + more + control)
    part = parts_of(book)["order"]
    assert (part.fitted, part.seen, part.needs) == (True, False, "full")
    assert book["sfl-fig4a"].fitted
    with pytest.raises(ValueError, match=r"'sfl-fig4a': part 'order' needs the control 'full'"):
        read(CLAIM + PART + more)


def test_questions_are_ours(read):
    text = CLAIM.replace("claims:", "questions:").replace("artefact", "name")
    book = read(text.replace("    source: Fig. 4(a)\n", "") + PART)
    assert book["sfl-fig4a"].parts[0].role == "beyond"


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("rule: holds", "rule: hold", r"'sfl-fig4a': part 'order': rule='hold' must be one of"),
        ("rule: holds", "rule: {near: {target: 1, size: 1}}", r"unknown field \['size'\]"),
        ("rule: holds", "rule: {above: 0.5}", r"above must be a"),
        ("rule: holds", "rule: {above: {smallest: -1}}", r"part 'order': smallest=-1 must be"),
        ("rule: holds", "rule: {above: {}}", r"missing .* 'smallest'"),
        ("rule: holds", "rule: {above: {smallest: 1, printed: [3, 1, 7]}}", r"printed=\[3, 1, 7\]"),
        ("rule: holds", "role: paper", r"part 'order': 'rule' is missing"),
        ("rule: holds", "rule: holds\n        wight: 1", r"unknown field \['wight'\]; known are"),
        ("rule: holds", "rule: holds\n        role: own", r"role='own' must be one of"),
        ("DRSR ends", '"{rule} ends', r"no YAML: .* line"),
        ("DRSR ends above FIFO", '"{rule} ends"', r"nothing stands for \['rule'\]"),
        ("      - key", "      - for: caches\n        key", r"for='caches' must be one of"),
        ("    source: Fig. 4(a)\n", "", r"source"),
        ("source: Fig. 4(a)", "text: Fig. 4(a)", r"\['text'\] stands twice in what begins in line"),
        ("claims:", "rules: {holds: above}\nclaims:", r"\['holds'\] are names of"),
        ("claims:", "lists: {a: 1}\nclaims: !!python/name:os.system\nx:", r"no YAML"),
    ],
)
def test_what_is_wrong_is_named_with_its_place(read, old, new, message):
    text = CLAIM + PART
    assert old in text
    with pytest.raises(ValueError, match=f"(?s)^sfl.yaml: .*{message}"):
        read(text.replace(old, new))


def test_what_is_declared_twice_is_refused(read):
    with pytest.raises(ValueError, match="two parts of one key"):
        read(CLAIM + PART + PART)
    with pytest.raises(ValueError, match="'sfl-fig4a' is declared twice"):
        read(CLAIM + PART + CLAIM.replace("claims:\n", "") + PART)
    with pytest.raises(ValueError, match="content must be a"):
        read("")
