"""The two kinds of files that the command reads and people write: notebooks and profiles.yaml.

Whatever is wrong with one is said by file and line, before anything runs.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import yaml


class GateError(ValueError):
    """A request that must not reach a kernel; the command turns it into exit code 2."""


def read_notebook(path: Path) -> dict[str, Any]:
    """Return the content of a notebook.

    Raises
    ------
    GateError
        If the file cannot be read, is no JSON, or lacks what every notebook has.
    """
    text = _text(path)
    try:
        content = json.loads(text)
    except json.JSONDecodeError as error:
        raise GateError(
            f"{_name(path)}, line {error.lineno}, column {error.colno}: it is no notebook, since "
            f"it is not JSON ({error.msg})"
        ) from None
    except RecursionError:
        raise GateError(f"{_name(path)}: it is no notebook, since it nests too deeply") from None
    metadata = content.get("metadata") if isinstance(content, dict) else None
    cells = content.get("cells") if isinstance(content, dict) else None
    if not isinstance(metadata, dict) or not isinstance(cells, list):
        raise GateError(f"{_name(path)}: a notebook must have `cells` and `metadata`")
    if not isinstance(metadata.get("sflkit", {}), dict):
        raise GateError(f"{_name(path)}: `sflkit` in the metadata must hold `name: value`")
    for number, cell in enumerate(cells, start=1):
        if not _is_cell(cell):
            raise GateError(
                f"{_name(path)}, cell {number}: a cell must have `cell_type`, `metadata` and "
                "`source`"
            )
    return content


def read_profiles(file: Path) -> dict[str, dict[str, dict]]:
    """Return overrides by profile and notebook number.

    Raises
    ------
    GateError
        If the file cannot be read or is not of the form that its own head describes.
    """
    import yaml

    where = _name(file)
    try:
        tree = yaml.compose(_text(file), Loader=yaml.SafeLoader)
        loader = yaml.SafeLoader("")
        profiles = {
            _profile(name, where): _books(books, loader, where)
            for name, books in _pairs(tree, where, "the file must hold profiles by name")
        }
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f", line {mark.line + 1}" if mark else ""
        problem = getattr(error, "problem", None) or str(error).splitlines()[0]
        raise GateError(f"{where}{line}: it is not YAML ({problem})") from None
    except RecursionError:
        raise GateError(f"{where}: it nests too deeply") from None
    return profiles


def _books(node: yaml.Node, loader: yaml.SafeLoader, where: str) -> dict[str, dict[str, Any]]:
    """Return the overrides of one profile by the number of the notebook."""
    books = {}
    rule = "a profile must hold notebooks by quoted two-digit number, such as '12'"
    for number, values in _pairs(node, where, rule):
        quoted = number.tag == "tag:yaml.org,2002:str"
        if not quoted or not re.fullmatch(r"\d\d", number.value) or not _is_mapping(values):
            raise GateError(
                f"{_at(number, where)}: {number.value!r} must be a quoted two-digit number with "
                "`name: value` below"
            )
        books[number.value] = {
            name.value: _value(value, loader, where)
            for name, value in _pairs(values, where, "must hold `name: value`")
        }
    return books


def _value(node: yaml.Node, loader: yaml.SafeLoader, where: str) -> Any:
    import yaml

    try:
        return loader.construct_object(node, deep=True)
    except yaml.YAMLError:
        raise
    except Exception as error:  # such as a date that there never was; yaml lets all kinds through
        said = error if isinstance(error, ValueError) else f"{node.value!r} is no {node.tag}"
        raise GateError(f"{_at(node, where)}: {said}") from None


def _profile(node: yaml.Node, where: str) -> str:
    if not re.fullmatch(r"[a-z0-9][a-z0-9_-]*", str(node.value)):
        raise GateError(
            f"{_at(node, where)}: {node.value!r} must be a name of lower-case letters, digits, _ "
            "and -, such as 'small'"
        )
    return node.value


def _pairs(node: yaml.Node | None, where: str, rule: str) -> list[tuple[yaml.Node, yaml.Node]]:
    """Return the entries of a mapping, none of one that is empty; no name may be there twice."""
    if node is None or node.tag == "tag:yaml.org,2002:null":
        return []
    if not _is_mapping(node):
        raise GateError(f"{_at(node, where)}: {rule}")
    seen = set()
    for name, _ in node.value:
        if not isinstance(name.value, str):
            raise GateError(f"{_at(name, where)}: a name must be text")
        if name.value in seen:
            raise GateError(f"{_at(name, where)}: {name.value!r} is there twice")
        seen.add(name.value)
    return node.value


def _is_mapping(node: yaml.Node) -> bool:
    return node.tag == "tag:yaml.org,2002:map"


def _at(node: yaml.Node, where: str) -> str:
    return f"{where}, line {node.start_mark.line + 1}"


def _is_cell(cell: Any) -> bool:
    """Return whether something has what every cell of a notebook has."""
    if not isinstance(cell, dict) or not isinstance(cell.get("cell_type"), str):
        return False
    source, metadata = cell.get("source"), cell.get("metadata")
    lines = [source] if isinstance(source, str) else source
    return (
        isinstance(lines, list)
        and all(isinstance(line, str) for line in lines)
        and isinstance(metadata, dict)
        and isinstance(metadata.get("tags", []), list)
    )


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        raise GateError(f"{_name(path)}, line {line}: it is not UTF-8 ({error.reason})") from None
    except OSError as error:
        raise GateError(f"{_name(path)} cannot be read: {error.strerror}") from None


def _name(path: Path) -> str:
    """Return folder and name, such as notebooks/profiles.yaml."""
    return f"{path.parent.name}/{path.name}"
