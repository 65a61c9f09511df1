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

`in_full` says which kind of verdict it is, such as "open, no headroom here". A part that was not
run says why, and where it could be run at what price. What cannot decide a claim does not:

| what | becomes |
|---|---|
| a reading that was chosen by the claim's own numbers (`fitted`) | at most partly |
| a part that needs a control which does not win (`needs`) | open, no headroom here |
| a part about a figure that nobody here has seen (`seen: false`) | open |
| a run beside another that is nearer to the paper (`Run`, `nearest`) | shown, not judged |
| a seed that chose something (`Setting.chose`) | refused among those that judge |

The setting says how far a run is from the paper's: `full` (its data, network, federation and
rounds, as far as it states them), `reduced` (the differences are named, and the effect can still
show) or `stand-in` (other data or a much smaller network, which shows the mechanism).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from companion.judging.rules import DISAGREE, TOO_SMALL, Judged, Rule, decisive
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
_CONFIRMED = ("reproduced", "corrected")

FITTED = "under a reading fitted to it"
NO_HEADROOM = "no headroom here"
NOT_SEEN = "figure not seen"
# The shades of a verdict by what the hint of a part begins with, the first that applies.
_SHADES = {"open": (NO_HEADROOM, DISAGREE, NOT_SEEN), "partly": (FITTED,)}

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
    """How far a run is from the paper's.

    Parameters
    ----------
    level : {"full", "reduced", "stand-in"}
    differs : str
        What is not as in the paper, in words.
    fitted : str
        The reading that was chosen by the claim's own numbers, and how; "" where none was.
    chose, judges : sequence of int
        The seeds that chose something, and those that judge.

    Raises
    ------
    ValueError
        On an unknown level, without words where the level is not "full", and if a seed that chose
        judges.
    """

    level: str
    differs: str = ""
    fitted: str = ""
    chose: Sequence[int] = ()
    judges: Sequence[int] = ()

    def __post_init__(self):
        checks.choice("level", self.level, SETTINGS)
        if self.level != "full" and not self.differs.strip():
            raise ValueError(f"a setting {self.level!r} must say what differs from the paper's")
        if both := sorted(set(self.chose) & set(self.judges)):
            raise ValueError(f"judges={[*self.judges]}: seeds {both} chose, so that they judge not")

    @property
    def words(self) -> str:
        """What differs, which reading was fitted, which seeds chose and which judge."""
        fitted = f"fitted: {self.fitted}" if self.fitted else ""
        chose = f"chosen on {_seeds(self.chose)}" if self.chose else ""
        judges = f"judged on {_seeds(self.judges)}" if self.judges else ""
        return "; ".join(text for text in (self.differs, fitted, chose, judges) if text)


@dataclass(frozen=True)
class Run:
    """Evidence with the setting of its run, where a claim has several; see `nearest`."""

    evidence: Any
    setting: Setting


def _seeds(seeds: Sequence[int]) -> str:
    """Return seeds in words, such as "seeds 203 to 209" or "seed 100"."""
    low, high = min(seeds), max(seeds)
    if low < high and sorted(seeds) == [*range(low, high + 1)]:
        return f"seeds {low} to {high}"
    return f"seed{'s' if len(seeds) > 1 else ''} {', '.join(map(str, sorted(seeds)))}"


def nearest(runs: Sequence[Run]) -> Run:
    """Return the run that judges: the nearest to the paper, of equally near ones the first."""
    if not runs:
        raise ValueError("runs=[] must hold at least one run")
    return min(runs, key=lambda run: SETTINGS.index(run.setting.level))


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
    fitted : bool, optional
        Whether the reading was chosen by this part's numbers; as claim and setting say by default.
    needs : str
        The key of the control that must win, such as FULL against FIFO, so that this part has
        something to find; "" for none.
    seen : bool
        Whether we have seen the figure that the part is about.

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
    fitted: bool | None = None
    needs: str = ""
    seen: bool = True

    def __post_init__(self):
        for name in ("key", "sentence", "needs"):
            checks.instance(name, getattr(self, name), str)
        if not self.key or not self.sentence:
            raise ValueError(f"part {self.key!r} needs a key and a sentence")
        checks.choice("role", self.role, ROLES)
        for name in ("fitted", "seen"):
            if getattr(self, name) is not None:
                checks.flag(name, getattr(self, name))
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
    fitted : bool
        Whether a reading that judges it was chosen by its own numbers; a part may say otherwise.
    contrast : str
        The key of the part whose numbers stand for the claim in a table of all claims, such as the
        method minus the best of its opponents; "" takes the part that decides the verdict.

    Raises
    ------
    ValueError
        If a text is missing or too long, the parts are not as described, a part needs a control
        that is no part or needs one itself, or the contrast is no part.
    """

    artefact: str
    text: str
    source: str
    parts: Sequence[Part]
    refuted_by: str
    printed: str = ""
    fitted: bool = False
    contrast: str = ""

    def __post_init__(self):
        checks.flag("fitted", self.fitted)
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
        if self.contrast and self.contrast not in keys:
            raise ValueError(
                f"claim {self.artefact!r}: contrast={self.contrast!r} must be one of {keys}"
            )
        if not any(part.role == "paper" for part in self.parts):
            raise ValueError(f"claim {self.artefact!r} has no part with a rule for what is claimed")
        printed = {part.key for part in self.parts if part.role == "paper"}
        for part in self.parts:
            if not printed.issuperset(part.corrects):
                raise ValueError(
                    f"claim {self.artefact!r}: part {part.key!r} corrects {part.corrects}, which "
                    f"are not all among the paper's parts {sorted(printed)}"
                )
        with_needs = {part.key for part in self.parts if part.needs}
        for part in self.parts:
            if part.needs and part.needs not in set(keys) - with_needs:
                raise ValueError(
                    f"claim {self.artefact!r}: part {part.key!r} needs the control {part.needs!r}, "
                    f"which must be one of {[key for key in keys if key not in with_needs]}"
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
            Part key -> what its rule takes, `NotRun(reason)`, `Undecided(found)`, or a `Run` of
            these; every part must be there.
        setting : Setting
            How far the run was from the paper's.
        note : str
            A cause that was found, or a deviation.

        Raises
        ------
        ValueError
            If parts are missing or unknown, a rule cannot take its evidence, or a part has a run
            farther from the paper than the setting says; the message names artefact and part.
        """
        keys = [part.key for part in self.parts]
        unknown = [key for key in evidence if key not in keys]
        missing = [key for key in keys if key not in evidence]
        if unknown or missing:
            raise ValueError(
                f"{self.artefact}: no part {', '.join(map(repr, unknown)) or 'is unknown'}; "
                f"no evidence for {', '.join(map(repr, missing)) or 'none'}; parts are {keys}"
            )
        fitted = self.fitted or bool(setting.fitted)
        answers = answers_to(self.artefact, self.parts, evidence, setting, fitted)
        return Verdict(self, overall(answers), setting, answers, note)


def answers_to(
    name: str,
    parts: Sequence[Part],
    evidence: Mapping[str, Any],
    setting: Setting,
    fitted: bool = False,
) -> tuple[Answer, ...]:
    """Return the answers to the parts of a claim, or question, none stronger than it may be."""
    found = {part.key: _judged(name, part, evidence[part.key], setting) for part in parts}
    return tuple(Answer(part, _limited(part, found, fitted, parts)) for part in parts)


@dataclass(frozen=True, repr=False)
class Verdict:
    """What became of a claim.

    Raises ValueError where a reading that was fitted to the claim is given as deciding it.
    """

    claim: Claim
    verdict: str
    setting: Setting
    answers: tuple[Answer, ...]
    note: str = ""

    def __post_init__(self):
        fitted = [a.part.key for a in self.answers if a.judged.hint == FITTED]
        if fitted and self.verdict in _CONFIRMED:
            raise ValueError(
                f"{self.artefact}: {self.verdict} cannot rest on a reading fitted to {fitted}"
            )

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
        paper, corrected = (
            [a.judged for a in self.answers_of(role)] for role in ("paper", "corrected")
        )
        return in_full(self.verdict, paper, corrected)

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
        first = min(paper, key=lambda a: (order.index(a.judged.answer), decisive(a.judged.size)))
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
            f"Setting: {setting.level}{f': {setting.words}' if setting.words else ''}.",
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
    failure does not count: the claim is "corrected", or "open" while another part is. What holds
    under a reading that was fitted to it makes the claim "partly" at most.
    """
    answers = list(answers)
    verdict = _overall([answer for answer in answers if answer.part.role != "beyond"])
    fitted = any(a.judged.hint == FITTED for a in answers if a.part.role != "beyond")
    return "partly" if fitted and verdict in _CONFIRMED else verdict


def _overall(answers: list[Answer]) -> str:
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


def in_full(verdict: str, paper: Sequence[Any], corrected: Sequence[Any] = ()) -> str:
    """Return a verdict and which kind of it it is, such as "not reproduced, too small to see".

    `paper` and `corrected` are the answers to the parts of these roles, each with `answer` and
    `hint`, such as `Judged` or a row of parts.csv.
    """
    for shade in _SHADES.get(verdict, ()):
        if any(one.hint.startswith(shade) for one in (*paper, *corrected)):
            return f"{verdict}, {shade}"
    found = {one.answer for one in paper}
    if verdict == "not reproduced" and "no" not in found:
        return f"{verdict}, {TOO_SMALL}"
    if verdict == "open" and found == {"not run"}:
        return f"{verdict}, not run"
    return f"{verdict}, undecided" if verdict == "open" and "open" in found else verdict


def _judged(artefact: str, part: Part, evidence: Any, setting: Setting) -> Judged:
    place = f"{artefact}, part {part.key!r}"
    if isinstance(evidence, Run):
        level = evidence.setting.level
        if SETTINGS.index(level) > SETTINGS.index(setting.level):
            raise ValueError(f"{place}: its run is {level!r}, and {setting.level!r} judges")
        evidence = evidence.evidence
    if isinstance(evidence, NotRun):
        return Judged("not run", evidence.reason)
    if isinstance(evidence, Undecided):
        return Judged("open", evidence.found)
    try:
        return part.rule.judge(evidence)
    except ValueError as error:
        raise ValueError(f"{place}: {error}") from None


def _limited(
    part: Part, found: Mapping[str, Judged], fitted: bool, parts: Sequence[Part]
) -> Judged:
    """Return what was found, no stronger than control, figure and reading allow."""
    judged = found[part.key]
    if judged.answer == "not run":
        return judged
    if not part.seen:
        return replace(judged, answer="open", hint=NOT_SEEN)
    if part.needs and found[part.needs].answer != "yes":
        (control,) = (other for other in parts if other.key == part.needs)
        told = Answer(control, replace(found[part.needs], hint="")).sentence
        words = f"{NO_HEADROOM}: {told}"
        return replace(judged, answer="open", hint=words)
    if judged.answer in ("yes", "partly") and (fitted if part.fitted is None else part.fitted):
        return replace(judged, hint=FITTED)
    return judged
