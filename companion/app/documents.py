"""The two kinds of files that the command reads and people write: notebooks and profiles.yaml.

Whatever is wrong with one is said by its name, before anything runs.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import yaml
from pydantic import BaseModel, StringConstraints, TypeAdapter, ValidationError


class GateError(ValueError):
    """A request that must not reach a kernel; the command turns it into exit code 2."""


class _Tags(BaseModel):
    tags: list = []


class _Cell(BaseModel):
    cell_type: str
    source: str | list[str]
    metadata: _Tags


class _Own(BaseModel):
    artefacts: list[str] = []
    minutes: float | None = None
    plan: str | None = None


class _About(BaseModel):
    sflkit: _Own = _Own()


class _Notebook(BaseModel):
    cells: list[_Cell]
    metadata: _About


_Profile = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9_-]*$")]
_Number = Annotated[str, StringConstraints(pattern=r"^\d\d$")]
_NOTEBOOK = TypeAdapter(_Notebook)
_PROFILES = TypeAdapter(dict[_Profile, dict[_Number, dict]])


def read_notebook(path: Path) -> dict[str, Any]:
    """Return the content of a notebook.

    Raises
    ------
    GateError
        If the file cannot be read, is no JSON, or lacks what every notebook has.
    """
    return _read(path, json.loads, _NOTEBOOK)


def read_profiles(file: Path) -> dict[str, dict[str, dict]]:
    """Return overrides by profile and notebook number.

    Raises
    ------
    GateError
        If the file cannot be read, or is not of the form that its own head describes.
    """
    return _read(file, yaml.safe_load, _PROFILES)


def _read(path: Path, parse: Callable[[str], Any], form: TypeAdapter) -> Any:
    name = f"{path.parent.name}/{path.name}"
    try:
        content = parse(path.read_text(encoding="utf-8"))
        form.validate_python(content)
    except OSError as error:
        raise GateError(f"{name} cannot be read: {error.strerror}") from None
    except ValidationError as error:
        wrong = error.errors()[0]
        place = ", ".join(map(str, wrong["loc"])) or "content"
        raise GateError(f"{name}, {place}: {wrong['msg']}") from None
    except (ValueError, yaml.YAMLError, RecursionError) as error:
        said = " ".join(str(error).split())
        raise GateError(f"{name} cannot be read: {said}") from None
    return content
