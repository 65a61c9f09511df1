"""What the papers claim, part by part: one YAML file a paper, and what reads it.

A file has claims, declared before the runs that judge them, and names what they share:

| field | holds |
|---|---|
| about | what a reader should know first |
| texts | name -> words that stand wherever `{name}` does |
| lists | name -> rows for a `for` |
| rules | name -> rule |
| claims | `artefact`, `text`, `source`, `parts`, `refuted_by`; `printed` if numbers are, `fitted` |
| | and `contrast`, the part whose numbers a table of all claims shows |
| questions | in place of claims: `name`, `text`, `parts`, `refuted_by`; no part is a paper's |

A part has `key`, `sentence` and `rule`, and where they apply `role`, `erratum`, `corrects`,
`fitted`, `needs` and `seen` (`companion.judging.claims`). A rule is the name of one of
`companion.judging.rules` in small letters, or of the file's own, alone or with arguments: `holds`,
`{near: {target: 1, within: 0.1}}`. With `points: true` its numbers are percentage points, as papers
print them, and `[66.1, 62.8]` is the difference of two printed numbers.

`for` makes a claim or a part once for each row of a list, such as `[{rule: drsr, name: DRSR}]`,
whose fields stand in braces: `"{name} ends above FIFO"`. `{rule: [drsr, srsr], size: [30, 150]}`
stands for all combinations. With `parts` in place of a key the whole group is made for each row,
and a loop inside may take its rows from a field: `for: "{others}"`.

`from companion.claims import SFL` reads a paper's file when it is first asked for; DATASTREAMS,
OSAFL and FATS are the others, and BEYOND has the questions.
"""

from __future__ import annotations

import dataclasses
import itertools
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from companion.judging import rules
from companion.judging.claims import Claim, Claims, Part
from companion.judging.questions import Question
from sflkit import checks

PAPERS = ("sfl", "datastreams", "osafl", "fats")
_RULES = {
    re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower(): rule
    for name, rule in vars(rules).items()
    if dataclasses.is_dataclass(rule) and hasattr(rule, "judge") and not name.startswith("_")
}
_SHARED = ("about", "texts", "lists", "rules")
_KINDS = {"claims": Claim, "questions": Question}
_IN_POINTS = ("smallest", "printed", "within", "target", "ceiling", "by")


class _Strict(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):
    """Reads plain data only, and refuses a field that stands twice."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict:
        fields = [key.value for key, _ in node.value]
        if twice := {field for field in fields if fields.count(field) > 1}:
            at = node.start_mark.line + 1
            raise ValueError(f"{sorted(twice)} stands twice in what begins in line {at}")
        return super().construct_mapping(node, deep)


@cache
def _read(name: str) -> Claims | dict[str, Question]:
    return load(Path(__file__).with_name(f"{name}.yaml"))


def __getattr__(name: str) -> Claims | dict[str, Question]:
    """Return a paper's claims by its name in capitals, or the questions as BEYOND."""
    if name in map(str.upper, (*PAPERS, "beyond")):
        return _read(name.lower())
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def declared() -> dict[str, Claim]:
    """Return the claims of all papers by artefact."""
    return {artefact: claim for paper in PAPERS for artefact, claim in _read(paper).items()}


def load(file: Path) -> Claims | dict[str, Question]:
    """Return the claims of a file, or the questions.

    Raises
    ------
    ValueError
        If the file is not as described in the module; it names file, claim and part.
    """
    with _named(file.name):
        try:
            content = _Strict(file.read_text(encoding="utf-8")).get_single_data()
        except yaml.YAMLError as error:
            raise ValueError(f"no YAML: {' '.join(str(error).split())}") from None
        kind = "questions" if "questions" in checks.instance("content", content, dict) else "claims"
        _fields(content, kind, *_SHARED)
        made = _File(content).made(content[kind], _KINDS[kind])
        if kind == "claims":
            return Claims(file.stem, made)
        return {question.name: question for question in made}


class _File:
    """What the claims of a file share, and how its entries become objects."""

    def __init__(self, content: Mapping[str, Any]):
        self._texts, self._lists, self._rules = (
            checks.instance(name, content.get(name, {}), dict) for name in _SHARED[1:]
        )
        if taken := sorted(set(self._rules) & set(_RULES)):
            raise ValueError(f"rules: {taken} are names of companion.judging.rules; take others")

    def made(self, entries: list, kind: type) -> list:
        """Return the claims or questions that the entries describe, in order."""
        return [
            self._made(entry, kind, scope) for entry, scope in self._unrolled(entries, self._texts)
        ]

    def _made(self, entry: Mapping, kind: type, scope: Mapping) -> Claim | Question:
        first, *others = (field.name for field in dataclasses.fields(kind) if field.name != "parts")
        with _named(f"claim {_filled(entry.get(first), scope)!r}"):
            _fields(entry, "for", first, *others, "parts")
            given = {
                name: _filled(entry[name], scope) for name in entry if name in (first, *others)
            }
            for name, text in given.items():
                if name != "fitted":
                    checks.instance(name, text, str)
            role = "beyond" if kind is Question else "paper"
            parts = self._unrolled(entry["parts"], scope)
            return kind(**given, parts=tuple(self._part(*part, role) for part in parts))

    def _unrolled(self, entries: list, scope: Mapping) -> Iterator[tuple[dict, dict]]:
        """Yield each entry once for every row of its loop, with what its braces stand for."""
        for entry in checks.instance("entries", entries, list):
            loop = checks.instance("entry", entry, dict).get("for", [{}])
            for row in self._rows(_filled(loop, scope)):
                inner = {**scope, **checks.instance("row", row, dict)}
                if set(entry) == {"for", "parts"}:
                    yield from self._unrolled(entry["parts"], inner)
                else:
                    yield entry, inner

    def _rows(self, loop: Any) -> list:
        """Return the rows of a loop: a list, the name of one, or all combinations of several."""
        if isinstance(loop, str):
            loop = self._lists[checks.choice("for", loop, self._lists)]
        if isinstance(loop, Mapping):
            return [dict(zip(loop, row, strict=True)) for row in itertools.product(*loop.values())]
        return loop

    def _part(self, entry: Mapping, scope: Mapping, role: str) -> Part:
        with _named(f"part {_filled(entry.get('key'), scope)!r}"):
            _fields(entry, "for", *(field.name for field in dataclasses.fields(Part)))
            said = {"role": role, **entry, "rule": self._rule(entry["rule"], scope)}
            given = {name: _filled(said[name], scope) for name in said if name != "for"}
            corrects = given.get("corrects", [])
            given["corrects"] = (corrects,) if isinstance(corrects, str) else tuple(corrects)
            return Part(**given)

    def _rule(self, said: Any, scope: Mapping) -> rules.Rule:
        """Return a rule from its name, alone or with arguments, which go before the file's own."""
        name, given = _named_rule(said)
        name = checks.choice("rule", _filled(name, scope), [*_RULES, *self._rules])
        if name in self._rules:
            name, first = _named_rule(self._rules[name])
            given = {**first, **given}
        kind = _RULES[checks.choice("rule", name, _RULES)]
        given = {field: _filled(value, scope) for field, value in given.items()}
        points = checks.flag("points", given.pop("points", False))
        _fields(given, *(field.name for field in dataclasses.fields(kind)))
        for field, value in given.items():
            if field == "rules":
                given[field] = self._each(value, scope)
            elif isinstance(value, list):
                given[field] = _difference(field, value)
            if points and field in _IN_POINTS:
                given[field] = round(given[field] / 100, 9)
        return kind(**given, **(rules.POINTS if points else {}))

    def _each(self, said: Any, scope: Mapping) -> rules.Rule | dict[str, rules.Rule]:
        """Return one rule for all comparisons, or from a mapping one for each."""
        one = isinstance(said, Mapping) and len(said) == 1 and {*said} <= {*_RULES, *self._rules}
        if isinstance(said, Mapping) and not one:
            return {key: self._rule(one, scope) for key, one in said.items()}
        return self._rule(said, scope)


def _difference(field: str, value: list) -> float:
    """Return the first of two printed numbers minus the second."""
    if len(value) != 2:
        raise ValueError(f"{field}={value} must be a number or two, of which it is the difference")
    first, second = (checks.real(field, one) for one in value)
    return round(first - second, 9)


def _named_rule(said: Any) -> tuple[str, dict[str, Any]]:
    """Return name and arguments of a rule."""
    if not isinstance(said, Mapping):
        return said, {}
    if len(said) != 1:
        raise ValueError(f"rule={said} must be one name with its arguments")
    ((name, given),) = said.items()
    return name, checks.instance(name, given, dict)


def _filled(value: Any, scope: Mapping) -> Any:
    """Return a value with all fields in braces filled in; a field alone keeps its kind."""
    if isinstance(value, Mapping):
        return {_filled(key, scope): _filled(one, scope) for key, one in value.items()}
    if isinstance(value, list):
        return [_filled(one, scope) for one in value]
    if not isinstance(value, str) or "{" not in value:
        return value
    names = re.findall(r"\{(\w+)\}", value)
    if unknown := [name for name in names if name not in scope]:
        raise ValueError(f"{value!r}: nothing stands for {unknown}; known are {sorted(scope)}")
    if names and value == f"{{{names[0]}}}":
        return _filled(scope[names[0]], scope)
    return re.sub(r"\{(\w+)\}", lambda found: str(_filled(found[0], scope)), value)


def _fields(entry: Mapping, *known: str) -> None:
    """Raise ValueError unless an entry has fields of these names only."""
    if unknown := [name for name in entry if name not in known]:
        raise ValueError(f"unknown field {unknown}; known are {[*known]}")


@contextmanager
def _named(place: str) -> Iterator[None]:
    """Name the place in what goes wrong inside."""
    try:
        yield
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        what = f"{error} is missing" if isinstance(error, KeyError) else error
        raise ValueError(f"{place}: {what}") from None
