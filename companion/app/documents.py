"""The two kinds of files that the command reads and people write: notebooks and profiles.yaml.

Whatever is wrong with one is said by its name, before anything runs.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any


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
        If the file cannot be read, or is not of the form that its own head describes.
    """
    import yaml

    try:
        profiles = yaml.safe_load(_text(file)) or {}
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        if isinstance(error, GateError):
            raise
        said = " ".join(str(error).split())
        raise GateError(f"{_name(file)}: it is not YAML ({said})") from None
    for name, books in profiles.items() if isinstance(profiles, dict) else [("", None)]:
        if not re.fullmatch(r"[a-z0-9][a-z0-9_-]*", str(name)) or not _are_overrides(books):
            raise GateError(
                f"{_name(file)}: {name!r} must be a name of lower-case letters, digits, _ and -, "
                "with notebooks by quoted two-digit number below, such as '12': {rounds: 4}"
            )
    return {name: books or {} for name, books in profiles.items()}


def _are_overrides(books: Any) -> bool:
    """Return whether something has names and values by the quoted number of a notebook."""
    return books is None or (
        isinstance(books, dict)
        and all(re.fullmatch(r"\d\d", n) if isinstance(n, str) else False for n in books)
        and all(isinstance(values, dict) for values in books.values())
    )


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
