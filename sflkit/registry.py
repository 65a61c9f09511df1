"""One table per family of rules: cache rules, server rules, whatever a reader may want to extend.

A registry maps a rule's name to everything the rest of the library needs to know of it, so that
adding a rule is one class and one row. Configs take their allowed names from it, pictures their
colours and labels, widgets their menus.

    RULES = Registry("cache rule", {"fifo": Rule(FIFO, label="FIFO", look=Look("#009E73", "-",
    "^"))})
    RULES["fifo"].build(300, 30)                       # an empty cache
    RULES.add("mine", Rule(MyRule, label="My rule"))   # from here on "mine" is a cache rule like any other
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
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
    """

    build: Callable
    label: str
    look: Look | None = None
    options: tuple[str, ...] = ()
    presets: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))


class Registry(Mapping[str, Rule]):
    """An ordered table, name -> `Rule`; the order is that of legends and menus.

    Parameters
    ----------
    family : str
        What one entry is, for error messages: "cache rule".
    rules : mapping
        The rows.
    """

    def __init__(self, family: str, rules: Mapping[str, Rule]):
        self.family = family
        self._rules = dict(rules)

    def __getitem__(self, name: str) -> Rule:
        try:
            return self._rules[name]
        except (KeyError, TypeError):
            raise ValueError(
                f"{self.family} {name!r} must be one of {', '.join(map(repr, self._rules))}"
            ) from None

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
                f"name={name!r} of a {self.family} must be an identifier in lower case, such as 'my_rule'"
            )
        if name in self:
            raise ValueError(f"name={name!r} is taken: there is a {self.family} of that name")
        if not isinstance(rule, Rule):
            raise ValueError(f"rule={rule!r} must be a registry.Rule")
        self._rules[name] = rule

    def labels(self) -> dict[str, str]:
        """Return what legends call each rule, name -> label."""
        return {name: rule.label for name, rule in self.items()}
