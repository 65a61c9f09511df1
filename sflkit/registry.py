"""One table per family of rules: cache rules, server rules, networks, whatever a reader may extend.

A registry maps the name of a rule to everything that the rest of the library needs to know of it.
Configs take the allowed names from it, pictures the colours and labels, widgets the menus. Adding a
rule is therefore one class and one row:

    RULES = Registry("cache rule", {"fifo": Rule(FIFO, "FIFO", Look("#009E73", "-", "^"))})
    RULES["fifo"].build(300, 30)                 # an empty cache
    RULES.add("mine", Rule(MyRule, "My rule"))   # "mine" is now a cache rule like any other

A row lives as long as the process does. A script that adds one must add it again in every process
that it starts.
"""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Look:
    """How a rule is drawn in every figure: matplotlib's colour, line style and marker."""

    color: str
    linestyle: Any = "-"
    marker: str = "None"


@dataclass(frozen=True)
class Rule:
    """One row of a registry.

    Parameters
    ----------
    build : callable
        The rule's class, or a function that returns one of its objects.
    label : str
        What legends and tables call it.
    look : Look, optional
        How pictures draw it; without one a figure gives it the next look that no other rule has.
    options : tuple of str
        The config fields that `build` takes as keywords, such as ("theta",).
    presets : mapping
        The values that a paper prints for those options, by the paper's own heading.

    Raises
    ------
    ValueError
        If `build` cannot be called or `label` is no text.
    """

    build: Callable
    label: str
    look: Look | None = None
    options: tuple[str, ...] = ()
    presets: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not callable(self.build):
            raise ValueError(f"build={self.build!r} of a Rule must be a class or a function")
        if not isinstance(self.label, str) or not self.label:
            raise ValueError(f"label={self.label!r} of a Rule must be the text of a legend")

    def make(self, *args: Any, **given: Any) -> Any:
        """Return what `build` makes of `args` and of those of `given` that the options name.

        Raises
        ------
        ValueError
            If an option is none of `given`.
        """
        if unknown := [name for name in self.options if name not in given]:
            raise ValueError(
                f"options={unknown} of {self.label!r} must be among {', '.join(map(repr, given))}"
            )
        return self.build(*args, **{name: given[name] for name in self.options})


_tables: list[weakref.ref[Registry]] = []


def tables() -> list[Registry]:
    """Return every table that was made in this process and is still in use."""
    return [table for reference in _tables if (table := reference()) is not None]


class Registry(Mapping[str, Rule]):
    """An ordered table, name -> `Rule`; the order is that of legends and menus.

    `module` is the name of the module that made it.

    Parameters
    ----------
    family : str
        What one entry is, for error messages: "cache rule".
    rules : mapping
        The rows.

    Raises
    ------
    ValueError
        If a row is not allowed; see `add`.
    """

    def __init__(self, family: str, rules: Mapping[str, Rule]):
        self.family = family
        self._rules: dict[str, Rule] = {}
        for name, rule in rules.items():
            self.add(name, rule)
        self._first = frozenset(rules)
        self.module = str(sys._getframe(1).f_globals.get("__name__"))
        _tables.append(weakref.ref(self))

    def __repr__(self) -> str:
        return f"Registry({self.family!r}: {', '.join(self)})"

    def __getitem__(self, name: str) -> Rule:
        if name not in self:
            known = ", ".join(map(repr, self))
            raise ValueError(f"{self.family} {name!r} must be one of {known}")
        return self._rules[name]

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and name in self._rules

    def __iter__(self) -> Iterator[str]:
        return iter(self._rules)

    def __len__(self) -> int:
        return len(self._rules)

    def get(self, name: str, default: Any = None) -> Any:
        """Return the row of `name`, or `default` where there is none."""
        return self._rules[name] if name in self else default

    def add(self, name: str, rule: Rule) -> None:
        """Add a row at the end.

        Raises
        ------
        ValueError
            If `name` is no identifier in lower case or is taken, or `rule` is no `Rule`.
        """
        if not isinstance(name, str) or not name.isidentifier() or name != name.lower():
            raise ValueError(
                f"name={name!r} of a {self.family} must be an identifier in lower case, "
                "such as 'my_rule'"
            )
        if name in self:
            raise ValueError(f"name={name!r} is taken: there is a {self.family} of that name")
        if not isinstance(rule, Rule):
            raise ValueError(f"rule={rule!r} must be a registry.Rule")
        self._rules[name] = rule

    @property
    def added(self) -> list[str]:
        """The names of the rows that were added after the table was made."""
        return [name for name in self if name not in self._first]

    def labels(self) -> dict[str, str]:
        """Return what legends call each rule, name -> label."""
        return {name: rule.label for name, rule in self.items()}
