"""What a notebook was made of, so that nothing is executed twice.

A kernel that executes a notebook in place writes down which files of the clone it read: the modules
that it loaded, and data, claims and published runs. `keep` puts their digests into
out/.fingerprints, with the packages and data sets at hand and what the notebook left behind;
`is_current` says whether all of that is as it was. Then executing the notebook again would change
nothing.

What is read of a table that all notebooks write, such as verdicts.csv, counts only for notebook 90,
which shows what the others found. A process that a kernel starts may load what the modules of
sflkit that are loaded import somewhere; so these belong to them.
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
import sys
from collections.abc import Iterable
from importlib import metadata
from pathlib import Path
from typing import Any

from sflkit import paths
from sflkit.runs import origin, sums

_LIBRARY = os.path.dirname(os.path.abspath(paths.__file__)) + os.sep

ALL_VERDICTS = "90"  # the notebook that shows what the others have found
_TABLES = ("verdicts.csv", "parts.csv")
_PACKAGES = ("sflkit", "companion")
_NOT_READ = ("out", ".git", ".venv")  # folders of a clone in which nothing is a source


# --- in the kernel --------------------------------------------------------------------------------


def kernel_arguments(file: Path) -> list[str]:
    """Return what makes ipykernel follow itself into that notebook's list of files."""
    line = f"__import__('companion.app.fingerprints').app.fingerprints.follow({str(_list(file))!r})"
    return [f"--IPKernelApp.exec_lines={line}"]


def follow(target: str) -> None:
    """Write to `target`, after every cell, which files of the clone this process has read."""
    root = str(paths.clone_root()) + os.sep
    roots = (root, *(str(folder.absolute()) + os.sep for folder in paths.data_folders()))
    opened: set[str] = set()

    def hook(event: str, arguments: tuple) -> None:
        if event == "open" and isinstance(arguments[0], str):
            opened.add(arguments[0])

    def write(*_: Any) -> None:
        loaded = {
            file
            for name, module in list(sys.modules.items())
            if (file := getattr(module, "__file__", None))
            and (name.partition(".")[0] in _PACKAGES or file.startswith(root))
        }
        read = {os.path.abspath(name) for name in list(opened)}
        inside = {name for name in read if name.startswith(roots)}
        found = sorted(name for name in loaded | inside if not name.endswith(".pyc"))
        paths.write_atomic(target, json.dumps(found))

    sys.addaudithook(hook)
    sys.modules["IPython"].get_ipython().events.register("post_run_cell", write)


# --- around it ------------------------------------------------------------------------------------


def keep(file: Path, began: float, seconds: float) -> None:
    """Write down what a notebook was made of, after it was executed in place.

    Nothing is written where a source changed since it `began`, a time in seconds: which of the two
    was read, nobody knows.
    """
    listed = _list(file)
    try:
        read = json.loads(paths.read(listed))
    except OSError:  # it has no cells to run
        return
    listed.unlink(missing_ok=True)
    sources = {name for name in read if _counts(Path(name), file)}
    inside = {Path(name) for name in sources if name.startswith(_LIBRARY) and name.endswith(".py")}
    sources |= set(map(str, origin.imported(inside)))
    if any(os.stat(name).st_mtime >= began for name in sources):
        return
    kept = _state(file, sources) | {"seconds": round(seconds, 1)}
    paths.write_atomic(_record(file), json.dumps(kept, indent=1))


def is_current(file: Path) -> bool:
    """Return whether executing a notebook in place would change nothing."""
    kept = _read(file)
    return "sources" in kept and kept == kept | _state(file, kept["sources"])


def _state(file: Path, sources: Iterable[str]) -> dict[str, Any]:
    """Return what a notebook is made of today, by the files that it read."""
    return {
        "sources": {name: _digest(name) for name in sorted(sources)},
        "made": _made(file),
        "packages": packages(),
        "data": _data(),
    }


def seconds(file: Path) -> float | None:
    """Return how long a notebook took when it was executed last; None where nobody knows."""
    return _read(file).get("seconds")


@functools.cache
def packages() -> str:
    """Return a digest of the interpreter and all packages at hand, with their versions."""
    found = sorted(f"{one.name} {one.version}" for one in metadata.distributions())
    return _sha256("\n".join([sys.version, *found]).encode())


def _data() -> list[str]:
    """Return the names of what lies in the folders of data: notebooks say what is at hand."""
    folders = [folder for folder in paths.data_folders() if folder.is_dir()]
    return sorted({file.name for folder in folders for file in folder.iterdir()})


def _read(file: Path) -> dict[str, Any]:
    try:
        kept = json.loads(paths.read(_record(file)))
    except (OSError, ValueError):
        return {}
    return kept if isinstance(kept, dict) else {}


def _counts(read: Path, file: Path) -> bool:
    """Return whether a file that was read is one that the notebook's outputs come from."""
    root = paths.clone_root()
    inside = read.relative_to(root).parts if read.is_relative_to(root) else ()
    if not read.is_file() or read.suffix == ".ipynb" or (inside and inside[0] in _NOT_READ):
        return False
    if inside[:1] == ("figures",):
        return file.name.startswith(ALL_VERDICTS) and read.name != sums.NAME
    return True


def _made(file: Path) -> dict[str, str]:
    """Return digests of what a notebook left: itself, its figures, its rows of the tables."""
    import pandas as pd

    folder, name = paths.clone_root() / "figures", file.stem
    about = json.loads(file.read_text(encoding="utf-8"))["metadata"].get("sflkit", {})
    said = f'"notebook": "{name}"'.encode()
    drawn = {passport.stem for passport in folder.glob("*.json") if said in passport.read_bytes()}
    mine = drawn | set(about.get("artefacts", ()))
    rows = []
    for table in filter(Path.is_file, map(folder.joinpath, _TABLES)):
        found = pd.read_csv(table, dtype=str, keep_default_na=False)
        rows.append(found[found["artefact"].isin(mine)].to_csv(index=False))
    figures = sorted(one for name in mine for one in folder.glob(f"{name}.*"))
    return {
        "notebook": _digest(str(file)),
        "rows": _sha256("\n".join(rows).encode()),
        **{one.name: _digest(str(one)) for one in figures},
    }


def _digest(name: str) -> str:
    """Return the digest of a file; "" where it is gone."""
    try:
        there = os.stat(name)
    except OSError:
        return ""
    return _digest_of(name, there.st_mtime_ns, there.st_size)


@functools.cache
def _digest_of(name: str, changed: int, size: int) -> str:
    return _sha256(Path(name).read_bytes())


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _record(file: Path) -> Path:
    return paths.out() / ".fingerprints" / f"{file.parent.name}-{file.stem}.json"


def _list(file: Path) -> Path:
    return _record(file).with_suffix(".read")
