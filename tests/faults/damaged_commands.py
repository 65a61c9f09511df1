"""Damaged calls of the command and of notebooks' parameters, generated in one fixed order.

Each must be refused before anything runs: exit code 2, and a message that names the argument. A
parameter may also be accepted, where what it was given is right after all.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

from companion.app import gate

# Texts that no number, list or choice can be, and some that one of them is.
TEXTS = (
    "",
    "nan",
    "-inf",
    "1e999",
    "-1e300",
    "-1",
    "1.5",
    "True",
    "None",
    "nonsense",
    "[]",
    "[[1]]",
    "[1, 'a']",
    "[1, True]",
    "{1: 2}",
    "1j",
    "'quoted'",
    "__import__('os')",
    f"{10**400}",
    "(" * 200,
    "\x00",
    "ä; rm",
)
PROFILES = ("smal", "SMALL", "../small", "small ", "a b", "0", "\x00")
JOBS = ("0", "-1", "1.5", "two", "", "nan", "1e300", f"{10**22}", "True", "[2]")
NUMBERS = ("77", "10 77", "1.0", "nonsense", "../10", "10;12", "-1", "[10]")
OPTIONS = {"--profile": PROFILES, "--jobs": JOBS, "--only": NUMBERS, "notebook": NUMBERS}
# What each command takes; `notebook` is an argument without a name.
COMMANDS = {
    "run": ("notebook", "--profile"),
    "figures": ("--jobs", "--only"),
    "paper": ("--jobs", "--only"),
    "status": ("--only",),
    "refresh": ("notebook", "--jobs"),
    "verdicts": (),
    "doctor": (),
}


class Setting(NamedTuple):
    """A parameter of a notebook, and the text that it is set to."""

    book: gate.Notebook
    name: str
    text: str


def commands() -> Iterator[tuple[str, list[str]]]:
    """Yield the damaged option and the command line, which holds nothing else that is wrong."""
    for command, options in COMMANDS.items():
        for option in options:
            for value in OPTIONS[option]:
                given = [value] if option == "notebook" else [option, value]
                first = ["10"] if command == "run" and option != "notebook" else []
                # an option's value may start with a dash, an argument needs two before it
                dashes = ["--"] if option == "notebook" else []
                yield option, [command, *first, *dashes, *given]
        yield "nonsense", [command, *(["10"] if command == "run" else []), "--nonsense", "1"]
    for name in ("nonsense", "../mnist", "MNIST", "mnist ", "\x00"):
        yield "data set", ["data", "--", name]


def settings(books: list[gate.Notebook]) -> Iterator[Setting]:
    """Yield every parameter of some notebooks with every text, and just beyond its range."""
    for book in books:
        for name, parameter in book.parameters.items():
            texts = [*TEXTS, *_beyond(parameter)]
            for text in texts:
                yield Setting(book, name, text)
        for name in ("rownds", "", "rounds ", "__class__", "rounds\n"):
            if name.strip() not in book.parameters:
                yield Setting(book, name, "1")


def _beyond(parameter: gate.Parameter) -> list[str]:
    if parameter.interval is None:
        return []
    _, low, high, _ = parameter.interval
    step = 0.5 if "float" in parameter.kind else 1
    ends = [end for end in (low - step, high + step) if math.isfinite(end)]
    number = float if "float" in parameter.kind else int
    one = [repr(number(end)) for end in ends]
    return one if not parameter.kind.startswith("list") else [f"[{text}]" for text in one]


def is_right(parameter: gate.Parameter, value: Any) -> bool:
    """Return whether a value is of a parameter's kind and in its range, by a rule of our own."""
    entries = value if parameter.kind.startswith("list") else [value]
    kind = {"int": int, "float": float, "bool": bool, "str": str}[
        parameter.kind.removeprefix("list[").removesuffix("]")
    ]
    if not isinstance(entries, list) or not entries or {type(e) for e in entries} != {kind}:
        return False
    if parameter.choices:
        return set(entries) <= set(parameter.choices)
    if parameter.interval:
        return all(parameter.interval[1] <= e <= parameter.interval[2] for e in entries)
    return kind is not float or all(map(math.isfinite, entries))
