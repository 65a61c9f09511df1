"""Claims of the papers, declared before the runs that judge them.

A claim is a sentence of the paper, taken apart into parts that each have a rule
(`companion.judging.rules`). `companion.claims` declares them; a notebook hands the evidence over
after its run and records the verdict. What the paper says, what corrects it, and what we add are
kept apart by the part's role:

| role | counts for the verdict | meaning |
|---|---|---|
| paper | yes | the paper says so |
| corrected | only for the verdict "corrected" | what holds in its place, by which erratum |
| beyond | no | a control, or what an erratum or an answer rests on |

| verdict | meaning |
|---|---|
| reproduced | every part of the claim holds |
| corrected | what fails as printed holds after the correction that an erratum names |
| partly | some parts hold and others do not |
| not reproduced | a part fails, or all are too small to see, and none holds |
| open | no part fails but what an erratum mends, and an interval or a part not run would decide |

`in_full` says which kind of "not reproduced" or "open" it is, such as "too small to see". A part
that was not run says why, and where it could be run at what price.

The setting says how far a run is from the paper's: `full` (its data, network, federation and
rounds, as far as it states them), `reduced` (the differences are named, and the effect can still
show) or `stand-in` (other data or a much smaller network, which shows the mechanism).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from companion.judging.rules import TOO_SMALL, Judged, Rule
from sflkit import checks

VERDICTS = ("reproduced", "corrected", "partly", "not reproduced", "open")
SETTINGS = ("full", "reduced", "stand-in")
ROLES = ("paper", "corrected", "beyond")
LONGEST_CLAIM = 120  # words

# Answers from the one that decides a verdict most to the one that decides it least. In a claim that
# is open what fails is mended by an erratum.
_DECIDES = ("no", TOO_SMALL, "partly", "open", "not run", "yes")
DECIDES_OPEN = ("open", "not run", TOO_SMALL, "no", "partly", "yes")

_FAIL = ("no", "partly", TOO_SMALL)

# Every claim that `companion.claims` has read, by artefact.
_declared: dict[str, Claim] = {}


class Page(str):
    """Markdown text that a notebook shows as such."""

    def _repr_markdown_(self) -> str:
        return str(self)

    def __repr__(self) -> str:
        return str(self)


@dataclass(frozen=True)
class NotRun:
    """Stands for the evidence of a part that was not run, with the reason."""

    reason: str


@dataclass(frozen=True)
class Undecided:
    """Stands for evidence that was computed and decides nothing, such as a range over readings.

    `found` says what was found and, after a semicolon, why that leaves the part open.
    """

    found: str


@dataclass(frozen=True)
class Setting:
    """How far a run is from the paper's. `differs` says in words what is not as in the paper.

    Raises ValueError on an unknown level, or without words where the level is not "full".
    """

    level: str
    differs: str = ""

    def __post_init__(self):
        checks.choice("level", self.level, SETTINGS)
        if self.level != "full" and not self.differs.strip():
            raise ValueError(f"a setting {self.level!r} must say what differs from the paper's")


@dataclass(frozen=True)
class Part:
    """One sentence that can be true or false, and the rule that decides it.

    Parameters
    ----------
    key : str
        Names the part in the evidence, such as "area m_fedavg".
    sentence : str
        What the part says, such as "OSAFL learns faster than M-FedAvg".
    rule : Rule
        See `companion.judging.rules`.
    role : {"paper", "corrected", "beyond"}
        See the module.
    erratum : int, optional
        The number in ERRATA.md of a corrected part.
    corrects : tuple of str
        The keys of the parts that a corrected part stands in for.

    Raises
    ------
    ValueError
        If there is no key or sentence, an unknown role, or a corrected part without its erratum or
        without what it corrects (and the other way round).
    """

    key: str
    sentence: str
    rule: Rule
    role: str = "paper"
    erratum: int | None = None
    corrects: tuple[str, ...] = ()

    def __post_init__(self):
        for name in ("key", "sentence"):
            checks.instance(name, getattr(self, name), str)
        if not self.key or not self.sentence:
            raise ValueError(f"part {self.key!r} needs a key and a sentence")
        checks.choice("role", self.role, ROLES)
        if {self.role == "corrected"} != {self.erratum is not None, bool(self.corrects)}:
            raise ValueError(
                f"part {self.key!r}: a corrected part, and no other, names its erratum and the "
                "parts that it corrects"
            )


@dataclass(frozen=True)
class Answer:
    """A part and what was found."""

    part: Part
    judged: Judged

    @property
    def sentence(self) -> str:
        """The part in words.

        Such as "OSAFL ends above M-FedAvg: 66.1 % against 39.2 %, +26.9 points [22.7, 31.1], yes;
        82 % of the printed 32.8 points [69, 95]".
        """
        said, judged = self.part.sentence, self.judged
        if judged.answer == "not run":
            return f"{said}: not run ({judged.ours})"
        ours = f"{judged.ours} {judged.interval}".strip()
        found = ", ".join(text for text in (judged.levels, ours, judged.answer) if text)
        hint = f" ({judged.hint})" if judged.hint else ""
        size = f"; {judged.size}" if judged.size else ""
        return f"{said}: {found}{hint}{size}"


@dataclass(frozen=True)
class Claim:
    """What a figure, table, theorem or algorithm of a paper claims.

    Parameters
    ----------
    artefact : str
        Id, such as "sfl-fig4a".
    text : str
        The claim in at most 120 words.
    source : str
        Where the paper says it, such as "Section V-B, Table II".
    parts : sequence of Part
        At least one of the role "paper", with different keys.
    refuted_by : str
        What would show that the claim is wrong.
    printed : str
        The numbers that the paper prints, in words.

    Raises
    ------
    ValueError
        If a text is missing or too long, or the parts are not as described.
    """

    artefact: str
    text: str
    source: str
    parts: Sequence[Part]
    refuted_by: str
    printed: str = ""

    def __post_init__(self):
        for name in ("artefact", "text", "source", "refuted_by"):
            if not getattr(self, name).strip():
                raise ValueError(f"claim {self.artefact!r} needs {name}")
        words = len(self.text.split())
        if words > LONGEST_CLAIM:
            raise ValueError(
                f"claim {self.artefact!r} has {words} words; it may have at most {LONGEST_CLAIM}"
            )
        keys = [part.key for part in self.parts]
        if len(set(keys)) < len(keys):
            raise ValueError(f"claim {self.artefact!r} has two parts of one key among {keys}")
        if not any(part.role == "paper" for part in self.parts):
            raise ValueError(f"claim {self.artefact!r} has no part with a rule for what is claimed")
        printed = {part.key for part in self.parts if part.role == "paper"}
        for part in self.parts:
            if not printed.issuperset(part.corrects):
                raise ValueError(
                    f"claim {self.artefact!r}: part {part.key!r} corrects {part.corrects}, which "
                    f"are not all among the paper's parts {sorted(printed)}"
                )

    def judge(
        self,
        evidence: Mapping[str, Any],
        *,
        setting: Setting,
        note: str = "",
    ) -> Verdict:
        """Return the verdict on this claim.

        Parameters
        ----------
        evidence : mapping
            Part key -> what its rule takes, `NotRun(reason)` or `Undecided(found)`; every part
            must be there.
        setting : Setting
            How far the run was from the paper's.
        note : str
            A cause that was found, or a deviation.

        Raises
        ------
        ValueError
            If parts are missing or unknown, or a rule cannot take its evidence; the message names
            artefact and part.
        """
        keys = [part.key for part in self.parts]
        unknown = [key for key in evidence if key not in keys]
        missing = [key for key in keys if key not in evidence]
        if unknown or missing:
            raise ValueError(
                f"{self.artefact}: no part {', '.join(map(repr, unknown)) or 'is unknown'}; "
                f"no evidence for {', '.join(map(repr, missing)) or 'none'}; parts are {keys}"
            )
        answers = tuple(
            Answer(part, _judged(self.artefact, part, evidence[part.key])) for part in self.parts
        )
        return Verdict(self, overall(answers), setting, answers, note)


@dataclass(frozen=True, repr=False)
class Verdict:
    """What became of a claim."""

    claim: Claim
    verdict: str
    setting: Setting
    answers: tuple[Answer, ...]
    note: str = ""

    @property
    def artefact(self) -> str:
        return self.claim.artefact

    @property
    def n_seeds(self) -> int:
        """The fewest seeds behind a part of the paper; 0 where nothing is random."""
        seeds = [a.judged.n_seeds for a in self.answers if a.part.role == "paper"]
        return min((n for n in seeds if n), default=0)

    @property
    def was_run(self) -> bool:
        """Whether anything was run for a part of the paper."""
        return any(answer.judged.answer != "not run" for answer in self.answers_of("paper"))

    @property
    def in_full(self) -> str:
        """The verdict with its shade, such as "not reproduced, too small to see"."""
        return in_full(self.verdict, [a.judged.answer for a in self.answers_of("paper")])

    def answers_of(self, role: str) -> list[Answer]:
        """Return the answers to the parts of a role."""
        return [answer for answer in self.answers if answer.part.role == role]

    @property
    def line(self) -> str:
        """The verdict in a line: what decides it, and how many parts hold."""
        paper = self.answers_of("paper")
        given = [answer.judged.answer for answer in paper]
        held = given.count("yes")
        order = DECIDES_OPEN if self.verdict == "open" else _DECIDES
        first = min(paper, key=lambda answer: order.index(answer.judged.answer))
        missing = given.count("not run")
        counted = f"; {parts_held(held, len(paper), missing)}" if len(paper) > 1 else "."
        errata = sorted({a.part.erratum for a in self.answers_of("corrected")})
        named = ", ".join(map(str, errata))
        if self.verdict == "corrected":
            counted += f" True as corrected by ERRATA {named}."
        elif self.verdict == "open" and errata and {"no", "partly"} & set(given):
            counted += f" What fails as printed is corrected by ERRATA {named}."
        verdict = f"**{self.artefact}: {self.in_full}** ({self.setting.level})"
        return f"{verdict}. {first.sentence}{counted}"

    def _repr_markdown_(self) -> str:
        claim, setting = self.claim, self.setting
        lines = [f"{claim.text} ({claim.source})", ""]
        for role, heading in (
            ("paper", "Parts and their rules:"),
            ("corrected", "As corrected:"),
            ("beyond", "Beyond the paper:"),
        ):
            if answers := self.answers_of(role):
                told = [f"- {a.sentence}. *{a.part.rule.words}*" for a in answers]
                lines += [heading, "", *told, ""]
        lines += [
            f"Setting: {setting.level}{f': {setting.differs}' if setting.differs else ''}.",
            "",
        ]
        lines += [f"Refuted by: {claim.refuted_by}.", ""]
        if claim.printed:
            lines += [f"The paper prints: {claim.printed}.", ""]
        if self.note:
            lines += [self.note, ""]
        summary = "<details><summary>Claim, parts, rules and setting</summary>"
        return "\n".join([self.line, "", summary, "", *lines, "</details>"])

    def __str__(self) -> str:
        return self._repr_markdown_()

    def __repr__(self) -> str:
        return f"<verdict on {self.artefact}: {self.verdict}>"


class Claims(dict):
    """The claims of one paper, by artefact.

    Parameters
    ----------
    paper : str
        The paper's name in messages, such as "osafl".
    claims : iterable of Claim

    Raises
    ------
    ValueError
        If an artefact is declared twice; on look-up of one that is not declared.
    """

    def __init__(self, paper: str, claims: Iterable[Claim]):
        self.paper = paper
        for claim in claims:
            if claim.artefact in self:
                raise ValueError(f"{paper}: {claim.artefact!r} is declared twice")
            self[claim.artefact] = claim
        _declared.update(self)

    def __missing__(self, artefact: Any) -> Claim:
        return checks.choice("artefact", artefact, self)


def check_declared(verdict: Verdict) -> None:
    """Raise ValueError unless a verdict's claim is one that `companion.claims` declares."""
    if _declared.get(verdict.artefact) != verdict.claim:
        raise ValueError(
            f"artefact={verdict.artefact!r} is not a declared claim; declare it in "
            "companion/claims before it is judged"
        )


def overall(answers: Iterable[Answer]) -> str:
    """Return the verdict on a claim from the answers to its parts, see the table of the module.

    Where a part that fails has a corrected part in its place, and all corrected parts hold, the
    failure does not count: the claim is "corrected", or "open" while another part is.
    """
    answers = list(answers)
    paper = {a.part.key: a.judged.answer for a in answers if a.part.role == "paper"}
    corrected = [a for a in answers if a.part.role == "corrected"]
    failed = {key for key, answer in paper.items() if answer in _FAIL}
    mended = {key for a in corrected for key in a.part.corrects}
    if failed and failed <= mended and all(a.judged.answer == "yes" for a in corrected):
        return "corrected" if set(paper.values()) <= {"yes", *_FAIL} else "open"
    return _plain_verdict(list(paper.values()))


def _plain_verdict(answers: list[str]) -> str:
    if not answers:
        raise ValueError("a verdict needs the answer to at least one part of the paper's claim")
    found = set(answers)
    if found == {"yes"}:
        return "reproduced"
    if found & set(_FAIL):
        if found & {"yes", "partly"}:
            return "partly"
        if "no" in found or not found & {"open", "not run"}:
            return "not reproduced"
    return "open"


def parts_held(held: int, parts: int, missing: int) -> str:
    """Say how many parts of a claim hold, and how many were not run."""
    return f"{held} of {parts} parts hold{f', {missing} not run' if missing else ''}."


def in_full(verdict: str, answers: Iterable[str]) -> str:
    """Return a verdict and which kind of "not reproduced" or "open" it is.

    Such as "not reproduced, too small to see"; `answers` are those to the parts of the paper.
    """
    found = set(answers)
    if verdict == "not reproduced" and "no" not in found:
        return f"{verdict}, {TOO_SMALL}"
    if verdict == "open" and found == {"not run"}:
        return f"{verdict}, not run"
    return f"{verdict}, undecided" if verdict == "open" and "open" in found else verdict


def _judged(artefact: str, part: Part, evidence: Any) -> Judged:
    if isinstance(evidence, NotRun):
        return Judged("not run", evidence.reason)
    if isinstance(evidence, Undecided):
        return Judged("open", evidence.found)
    try:
        return part.rule.judge(evidence)
    except ValueError as error:
        raise ValueError(f"{artefact}, part {part.key!r}: {error}") from None
