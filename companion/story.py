"""One story: a notebook shows the published runs; whatever else it computes goes to out/.

figures/parameters.json says with which parameters the published figures were made. `make figures`
and `sflkit refresh` write it from the parameters cells, so that an edited cell is noticed.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, MutableMapping
from pathlib import Path
from typing import Any

import pandas as pd

from companion.app import gate
from companion.judging import tables
from sflkit import checks, paths
from sflkit.runs import Complete, sums
from sflkit.runs.keys import plain

SOURCES = ("published", "compute")
# They choose where numbers come from, or what is tried beside them, but no published number.
_FREE = ("source", "jobs", "audit")
_computes: list[str] = []  # not empty where nothing published is to be taken


def begin(notebook: str, values: MutableMapping[str, Any]) -> os.PathLike | None:
    """Return where a notebook's published runs lie; None where it is to compute all of them.

    Its parameters are checked first, and put right where they came in another form: `gate.take`.

    With other parameters than the published ones a line says which, figures go to out/, even where
    $SFLKIT_PUBLISH is set, and `tables.judge` gives no verdict. Nor is anything published of a
    notebook whose published parameters are not known.

    Parameters
    ----------
    notebook : str
        Its name, such as "12_sfl_training".
    values : mutable mapping
        Parameter -> value: a notebook hands over its `globals()`.

    Returns
    -------
    path or None
        For `run_many(..., published=...)`. With unchanged parameters it is `sweep.Complete`, which
        lets nothing be computed in the place of a published run that is missing.

    Raises
    ------
    ValueError
        If a parameter is of another type or out of range, or papermill gave one that is not there;
        the message names it.
    """
    gate.take(gate.find(notebook), values)
    source = checks.choice("source", values.get("source", "published"), SOURCES)
    said = changes(notebook, values)
    if said or source == "compute" or notebook not in published_parameters():
        os.environ.pop(paths.PUBLISH, None)
    tables.explored[:] = said
    _computes[:] = [source] if source == "compute" else []
    if said:
        print(
            f"other parameters than the published ones: {'; '.join(said)}. What was not published "
            f"is computed here; figures go to {_shown(paths.drawn())}, and there is no verdict"
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
    gate.GateError
        If the file cannot be read; the message names it and the way out.
    """
    return _values(_file())


def keep(books: list[gate.Notebook]) -> None:
    """Write down the parameters cells of notebooks as those of the published figures."""
    names = {book.name for book in gate.notebooks()}
    kept = {name: said for name, said in published_parameters().items() if name in names}
    paths.write_atomic(_file(), as_text(kept | of_cells(books)))
    sums.put(_file().parent, [_file().name])


def of_cells(books: list[gate.Notebook]) -> dict[str, dict[str, Any]]:
    """Return what the parameters cells of notebooks say of their published figures."""
    return {
        book.name: {
            name: parameter.default for name, parameter in book.parameters.items() if decides(name)
        }
        for book in books
    }


def decides(name: str) -> bool:
    """Return whether a parameter of this name decides a published number."""
    return name not in _FREE and not name.startswith("try_")


def given(notebook: str, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a plan that takes all parameters is called with; arguments as in `begin`."""
    return {name: values[name] for name in gate.find(notebook).parameters if decides(name)}


def as_text(values: Mapping[str, Any]) -> str:
    """Return values by name as parameters.json and derived.json hold them, one a line."""
    lines = (f"{json.dumps(name)}: {json.dumps(values[name])}" for name in sorted(values))
    return "{\n" + ",\n".join(lines) + "\n}\n"


def kept(name: str, settings: Mapping[str, Any], make: Callable[[], Any]) -> Any:
    """Return a small result that needs a data set: the published one, else what `make` returns.

    data/results/derived.json holds them by name and settings. What is missing there is computed,
    and written where figures are published.

    Parameters
    ----------
    name : str
        What it is.
    settings : mapping
        All that it depends on, of numbers, texts and lists.
    make : function
        Returns numbers, lists, dicts of them, or a DataFrame.
    """
    file = paths.published() / "derived.json"
    key = f"{name}: {json.dumps(plain(dict(settings), 'settings'), sort_keys=True)}"
    there = _values(file)
    if key in there and not _computes:
        found = there[key]
        is_frame = isinstance(found, dict) and set(found) == {"columns", "index", "data"}
        return _frame(found) if is_frame else found
    found = make()
    is_frame = isinstance(found, pd.DataFrame)
    if is_frame:  # JSON has no NaN
        table = found.astype(object).where(found.notna(), None).to_dict(orient="split")
    value = plain(table if is_frame else found, name)
    if os.environ.get(paths.PUBLISH) == "1":
        with paths.lock(file):
            there = _values(file) | {key: value}
            paths.write_atomic(file, as_text(there))
            sums.put(file.parent, [file.name])
    return found if is_frame else value


def _frame(split: dict[str, list]) -> pd.DataFrame:
    """Return the frame that was written down; rows that were only numbered are so again."""
    frame = pd.DataFrame(**split)
    numbered = split["index"] == list(range(len(frame)))
    return frame.reset_index(drop=True) if numbered else frame


def _values(file: Path) -> dict[str, Any]:
    """Return what a file of values by name holds; nothing where it is missing."""
    try:
        found = json.loads(paths.read(file))
        if not isinstance(found, dict):
            raise ValueError(f"it holds {type(found).__name__}, and no values by name")
        return found
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, RecursionError) as error:
        raise gate.GateError(f"{file}: {error}; `git checkout -- {file}` brings it back") from None


def _file() -> Path:
    """Return the file of the published parameters: the clone's, wherever figures go."""
    return gate.root() / "figures" / "parameters.json"


def _shown(folder: Path) -> str:
    root = gate.root()
    return str(folder.relative_to(root) if folder.is_relative_to(root) else folder)


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 40 else text[:37] + "..."
