"""The gate in front of every notebook run: what may be set, and to what.

papermill ignores misspelt names and wrong types, overlooks some annotated parameters and exits 0.
So the cell tagged `parameters` is read here with `ast`, and an unknown name, a wrong type or a
value out of range stops before a kernel starts.

The grammar of that cell, one parameter a line::

    rounds: int = 60  # in [1, 5000]; communication rounds T
    rule: str = "drsr"  # in {"fifo", "srsr", "drsr"}; cache rule
    seeds: list[int] = [0, 1, 2]  # in [0, 1000000]; one run each

Types are int, float, bool, str and lists of int, float or str. A range is optional; `(` and `)`
exclude the end; for a list it applies to each entry. An int is taken for a float, never a bool for
an int, and an empty list never.
"""

from __future__ import annotations

import ast
import difflib
import math
import os
import re
from collections.abc import MutableMapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from companion.app.documents import GateError, read_notebook, read_profiles
from sflkit import paths

KINDS = ("int", "float", "bool", "str", "list[int]", "list[float]", "list[str]")
_NUMBER = r"[-+]?(?:inf|\d+\.?\d*(?:e[-+]?\d+)?)"
_LINE = re.compile(r"([A-Za-z_]\w*): ([\w\[\]]+) = (.+?)\s+#\s*(\S.*)")
_INTERVAL = re.compile(rf"in ([\[(])({_NUMBER}), *({_NUMBER})([\])]); *(\S.*)")
_CHOICES = re.compile(r"in \{([^}]*)\}; *(\S.*)")
OUTSIDE = (
    "no notebooks here: they come with sflkit's repository, not with the installed package; "
    "clone it and call sflkit inside the clone"
)


@dataclass(frozen=True)
class Parameter:
    """One line of a `parameters` cell."""

    name: str
    kind: str
    default: Any
    text: str
    interval: tuple[str, float, float, str] | None = None  # "[" or "(", low, high, "]" or ")"
    choices: tuple = ()

    @property
    def allowed(self) -> str:
        """What may be given, in words."""
        each = "each " if self.kind.startswith("list") else ""
        if self.choices:
            return f"{self.kind}, {each}in {{{', '.join(repr(c) for c in self.choices)}}}"
        if self.interval:
            left, low, high, right = self.interval
            return f"{self.kind}, {each}in {left}{low:.12g}, {high:.12g}{right}"
        return self.kind

    def check(self, value: Any) -> Any:
        """Return `value`, with an int for a float as float.

        Raises
        ------
        GateError
            If its type is another or it is out of range.
        """
        if self.kind.startswith("list"):
            if not isinstance(value, (list, tuple)) or not value:
                raise self._refusal(value)
            return [self._check_one(entry, self.kind[5:-1], value) for entry in value]
        return self._check_one(value, self.kind, value)

    def parse(self, text: str) -> Any:
        """Return the checked value of `text`, a Python literal or plain text for a str.

        Raises
        ------
        GateError
            As `check`.
        """
        value = self._read(text)
        if self.kind == "str" and not isinstance(value, str):
            value = text
        return self.check(value)

    def taken(self, value: Any) -> Any:
        """Return the checked value of one that papermill or a cell of one's own put there.

        papermill's `-p` passes a list as text, its Python interface a tuple, and YAML reads 1e-2 as
        text. A text that is a number or a tuple is taken for it, and a list that is text is refused
        with the form that works.

        Raises
        ------
        GateError
            As `check`.
        """
        value = _plain(value)
        if self.kind.startswith("list") and str(value).startswith("("):  # a tuple, papermill's text
            value = self._read(value)
        if isinstance(value, list | tuple):
            return self.check([self._number(_plain(entry)) for entry in value])
        if not self.kind.startswith("list"):
            return self.check(self._number(value))
        what, meant = "text" if isinstance(value, str) else "no list", self._read(value)
        form = meant if isinstance(meant, list) and meant else self.default
        raise GateError(
            f"{self.name}={value!r} is {what}; it must be {self.allowed} ({self.text}), with "
            f'papermill -y "{self.name}: {form}"'
        )

    def _number(self, entry: Any) -> Any:
        """Return the number that a text is, where a number is asked for; else what was given."""
        numbers = self.kind.removeprefix("list[").rstrip("]") in ("int", "float")
        return self._read(entry) if numbers else entry

    def _read(self, value: Any) -> Any:
        """Return the literal that a text is; else what was given."""
        if not isinstance(value, str):
            return value
        try:
            return ast.literal_eval(value.strip())
        except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
            return value

    def _check_one(self, entry: Any, kind: str, value: Any) -> Any:
        if kind == "float" and type(entry) is int and abs(entry) < 2**53:
            entry = float(entry)
        allowed = type(entry).__name__ == kind and (kind != "float" or math.isfinite(entry))
        if allowed and self.choices:
            allowed = entry in self.choices
        if allowed and self.interval:
            left, low, high, right = self.interval
            allowed = low <= entry <= high
            allowed &= (left == "[" or entry > low) and (right == "]" or entry < high)
        if not allowed:
            raise self._refusal(value)
        return entry

    def _refusal(self, value: Any) -> GateError:
        return GateError(f"{self.name}={value!r} is not allowed: {self.allowed} ({self.text})")


@dataclass(frozen=True)
class Notebook:
    """A numbered notebook of the clone."""

    path: Path

    @property
    def name(self) -> str:
        return self.path.stem

    @property
    def number(self) -> str:
        return self.name[:2]

    @cached_property
    def content(self) -> dict:
        """What is in the file. Raises GateError as `documents.read_notebook`."""
        return read_notebook(self.path)

    @property
    def title(self) -> str:
        """The text of the first heading, without its own number."""
        for cell in self.content["cells"]:
            for line in "".join(cell["source"]).splitlines():
                if cell["cell_type"] == "markdown" and line.startswith("# "):
                    return re.sub(rf"^{self.number}\W+", "", line[2:].strip())
        return self.name

    @property
    def _about(self) -> dict[str, Any]:
        return self.content["metadata"].get("sflkit", {})

    @property
    def artefacts(self) -> list[str]:
        return list(self._about.get("artefacts", []))

    @property
    def minutes(self) -> float | None:
        return self._about.get("minutes")

    @property
    def plan(self) -> str | None:
        """Where the plan of its runs lies, `module:function`; None where there is none."""
        return self._about.get("plan")

    @cached_property
    def parameters(self) -> dict[str, Parameter]:
        """The parameters by name, in order.

        Raises
        ------
        GateError
            If the cell is missing, there twice, or not of the grammar.
        """
        cells = [
            "".join(c["source"])
            for c in self.content["cells"]
            if "parameters" in c["metadata"].get("tags", [])
        ]
        if len(cells) != 1:
            raise GateError(
                f"{self.path.name} has {len(cells)} cells tagged `parameters`; it must have one"
            )
        return read_parameters(cells[0], self.path.name)


def read_parameters(source: str, where: str = "parameters cell") -> dict[str, Parameter]:
    """Return the parameters that a `parameters` cell declares, in order.

    Raises
    ------
    GateError
        If a line holds anything but an annotated literal with a comment, or a default breaks its
        own range.
    """
    found: dict[str, Parameter] = {}
    for number, text in enumerate(source.splitlines(), 1):
        if not text.strip():
            continue
        line = f"{where}, line {number}"
        match = _LINE.fullmatch(text)
        if not match:
            raise GateError(
                f"{line}: each line must read `name: type = literal  # in [low, high]; meaning`"
            )
        name, kind, literal, comment = match.groups()
        if kind not in KINDS:
            raise GateError(f"{line}: {name} has type {kind}; allowed are {', '.join(KINDS)}")
        if name in found:
            raise GateError(f"{line}: {name} is there twice")
        default = _literal(literal, f"{line}: the default of {name}")
        interval, choices, meaning = _range(comment, kind, f"{line}: {name}")
        found[name] = Parameter(name, kind, default, meaning, interval, choices)
        found[name].check(default)
    return found


def _range(comment: str, kind: str, where: str) -> tuple[tuple | None, tuple, str]:
    """Return interval, choices and meaning of a parameter's comment."""
    if match := _INTERVAL.fullmatch(comment):
        left, low, high, right, text = match.groups()
        interval = (left, float(low), float(high), right)
        if "str" in kind or kind == "bool" or interval[1] > interval[2]:
            raise GateError(f"{where}: a {kind} cannot lie in {left}{low}, {high}{right}")
        return interval, (), text
    if match := _CHOICES.fullmatch(comment):
        return None, tuple(_literal(f"[{match[1]}]", f"{where}: {{{match[1]}}}")), match[2]
    if re.match(r"in\s*[\[({]", comment):
        raise GateError(f"{where}: cannot read the range of {comment!r}; `; meaning` follows it")
    return None, (), comment


def _literal(text: str, what: str) -> Any:
    try:
        return ast.literal_eval(text)
    except (ValueError, TypeError, SyntaxError):
        raise GateError(f"{what} must be a literal, not {text}") from None


def root() -> Path:
    """Return the clone's root, or raise GateError saying where notebooks come from."""
    folder = paths.clone_root()
    if folder is None:
        raise GateError(OUTSIDE)
    return folder


def notebooks() -> list[Notebook]:
    """Return the clone's numbered notebooks in order. Raises GateError outside a clone."""
    return [Notebook(p) for p in sorted((root() / "notebooks").glob("[0-9][0-9]_*.ipynb"))]


def by_artefact() -> dict[str, Notebook]:
    """Return the notebook that draws and judges each artefact. Raises GateError as `notebooks`."""
    return {name: book for book in notebooks() for name in book.artefacts}


def find(name: str) -> Notebook:
    """Return the notebook of a number, a slug, a file name or a path.

    Raises
    ------
    GateError
        If there is no such notebook; the message names those there are.
    """
    books = notebooks()
    path = Path(name)
    wanted = path.name.removesuffix(".ipynb")
    for book in books:  # a path is that very file, not one of the same name elsewhere
        if len(path.parts) > 1 and os.path.abspath(path) != str(book.path):
            continue
        if wanted in (book.number, book.name, book.name[3:]):
            return book
    names = [book.name for book in books]
    raise GateError(f"no notebook {name!r}; there are: {', '.join(names) or 'none'}")


def select(only: str = "") -> list[Notebook]:
    """Return the notebooks named in `only`, numbers or names between blanks or commas.

    All of them, when it is empty. Raises GateError on a name that `find` does not know.
    """
    names = re.split(r"[\s,]+", only.strip())
    if names == [""]:
        return notebooks()
    return list({book.name: book for book in map(find, names)}.values())


def profiles() -> dict[str, dict[str, dict]]:
    """Return overrides by profile and notebook number, from notebooks/profiles.yaml.

    Raises GateError if the file is not of that form.
    """
    return read_profiles(root() / "notebooks" / "profiles.yaml")


def resolve(book: Notebook, profile: str = "", settings: Sequence[str] = ()) -> dict[str, Any]:
    """Return the values to inject into `book`.

    They are those of the profile, where one is named, then `settings` such as "rounds=50".

    Raises
    ------
    GateError
        On an unknown profile or name, a name set twice, a wrong type or a value out of range. The
        message lists what is valid.
    """
    parameters, named = book.parameters, {}
    if profile:
        known = profiles()
        if profile not in known:
            raise GateError(f"no profile {profile!r}; there are: {', '.join(known)}")
        named = known[profile].get(book.number, {})
    values = {name: _known(book, name).check(value) for name, value in named.items()}
    given = set()
    for setting in settings:
        name, equals, text = setting.partition("=")
        name = name.strip()
        if not equals:
            raise GateError(f"{setting!r} must read name=value, such as rounds=50")
        if name in given:
            raise GateError(f"{name} is set twice")
        given.add(name)
        values[name] = _known(book, name).parse(text)
    return {name: value for name, value in values.items() if value != parameters[name].default}


def values(book: Notebook, profile: str = "", settings: Sequence[str] = ()) -> dict[str, Any]:
    """Return the value of every parameter of `book`: its cell's, or those of profile and settings.

    Raises GateError as `resolve`.
    """
    defaults = {name: parameter.default for name, parameter in book.parameters.items()}
    return defaults | resolve(book, profile, settings)


def take(book: Notebook, values: MutableMapping[str, Any]) -> None:
    """Check the parameters of a running notebook by name, whatever way they came in.

    What was taken for another form, such as the text 1e-2 for a number, is put right.

    Parameters
    ----------
    book : Notebook
    values : mutable mapping
        Parameter -> value: the `globals()` of the notebook. Of the cells that ran, IPython's `In`,
        those that papermill put in begin with its own comment.

    Raises
    ------
    GateError
        On a wrong type, a value out of range, or a name that papermill gave and `book` has not; the
        message names the parameter, or the nearest one.
    """
    for cell in values.get("In", ()):
        if cell.startswith("# Parameters\n"):
            for name in re.findall(r"^(\w+) = ", cell, re.M):
                if name not in book.parameters:
                    near = difflib.get_close_matches(name, book.parameters, 1, 0.5)
                    hint = f"; did you mean {near[0]!r}?" if near else "."
                    known = ", ".join(book.parameters)
                    raise GateError(f"no parameter {name!r}{hint} {book.name} has: {known}")
    for name, parameter in book.parameters.items():
        if name in values:
            values[name] = parameter.taken(values[name])


def _plain(value: Any) -> Any:
    """Return Python's own numbers and lists in place of numpy's."""
    return value.tolist() if hasattr(value, "tolist") else value


def _known(book: Notebook, name: str) -> Parameter:
    if name not in book.parameters:
        lines = "\n".join(
            f"  {p.name} = {p.default!r}: {p.allowed}; {p.text}" for p in book.parameters.values()
        )
        raise GateError(f"{book.name} has no parameter {name!r}; its parameters are:\n{lines}")
    return book.parameters[name]
