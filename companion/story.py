"""One story: a notebook shows the published runs; whatever else it computes goes to out/.

figures/parameters.json says with which parameters the published figures were made. `make figures`
and `sflkit refresh` write it from the parameters cells, so that an edited cell is noticed.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from companion.app import gate
from companion.judging import tables
from sflkit import checks, paths
from sflkit.results.sweep import Complete

SOURCES = ("published", "compute")
# They choose where numbers come from, or what is tried beside them, but no published number.
_FREE = ("source", "jobs", "audit")


def begin(notebook: str, values: Mapping[str, Any]) -> os.PathLike | None:
    """Return where a notebook's published runs lie; None where it is to compute all of them.

    With other parameters than the published ones a line says which, figures go to out/, even where
    $SFLKIT_PUBLISH is set, and `tables.judge` gives no verdict.

    Parameters
    ----------
    notebook : str
        Its name, such as "12_sfl_training".
    values : mapping
        Parameter -> value: a notebook hands over its `globals()`.

    Returns
    -------
    path or None
        For `run_many(..., published=...)`. With unchanged parameters it is `sweep.Complete`, which
        lets nothing be computed in the place of a published run that is missing.

    Raises
    ------
    ValueError
        If `source` is neither "published" nor "compute".
    """
    source = checks.choice("source", values.get("source", "published"), SOURCES)
    said = changes(notebook, values)
    if said or source == "compute":
        os.environ.pop(paths.PUBLISH, None)
    tables.explored[:] = said
    if said:
        print(
            f"other parameters than the published ones: {'; '.join(said)}. What was not published "
            "is computed here; figures go to out/figures, and there is no verdict"
        )
    if source == "compute":
        print("source='compute': runs are computed here, or come from out/results")
        return None
    if said:
        return paths.published()
    return Complete(paths.published(), f"make paper ONLY={notebook[:2]}")


def changes(notebook: str, values: Mapping[str, Any]) -> list[str]:
    """Return in words which of a notebook's parameters are not the published ones."""
    known = published_parameters().get(notebook, {})
    return [
        f"{name} = {_short(values[name])} in place of {_short(value)}"
        for name, value in known.items()
        if name in values and values[name] != value
    ]


def published_parameters() -> dict[str, dict[str, Any]]:
    """Return the parameters of the published figures by notebook; none where the file is missing.

    Raises
    ------
    ValueError
        If the file cannot be read; the message names it and the way out.
    """
    try:
        return json.loads(_file().read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise ValueError(
            f"{_file()}: {error}; `git checkout -- figures` brings it back, `make figures` makes "
            "it anew"
        ) from None


def keep(books: list[gate.Notebook]) -> None:
    """Write down the parameters cells of notebooks as those of the published figures."""
    kept = published_parameters()
    for book in books:
        kept[book.name] = {
            name: parameter.default
            for name, parameter in book.parameters.items()
            if name not in _FREE and not name.startswith("try_")
        }
    names = {book.name for book in gate.notebooks()}
    lines = (
        f"{json.dumps(name)}: {json.dumps(kept[name])}" for name in sorted(names & kept.keys())
    )
    paths.write_atomic(_file(), "{\n" + ",\n".join(lines) + "\n}\n")


def _file() -> Path:
    """Return the file of the published parameters: the clone's, wherever figures go."""
    return gate.root() / "figures" / "parameters.json"


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 40 else text[:37] + "..."
