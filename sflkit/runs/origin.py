"""Where numbers come from: the commit of the clone, the versions of libraries, the device, and the
code of this library as it stands in the clone.

A result of one's own says what code made it: its commit, and the files behind its run that differed
from that commit (`edits`). It counts only while these files say the same (`is_of_this_code`);
comments, docstrings and layout do not matter. The files behind a run are those that its module
imports by name, and what they import in turn, as far as they are modules of this clone. What is
published counts by its `RESULT_VERSION` alone, see CONTRIBUTING.
"""

from __future__ import annotations

import ast
import functools
import hashlib
import platform
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import sflkit
from sflkit import installed, paths

# Stands for the code of a file that was written since this process began: which of its states was
# loaded, nobody knows.
UNKNOWN = "unknown"
_ROOT = Path(__file__).resolve().parents[2]
_OURS = ("sflkit", "companion")


def commit() -> str:
    """Return the short commit of the clone, with `+` when sflkit/, companion/ or notebooks/ differ.

    The `+` also stands where git does not say whether they differ. Outside a clone it is "none".
    """
    root = paths.clone_root()
    head = None if root is None else _git(root, "rev-parse", "--short=10", "HEAD")
    if root is None or head is None:
        return "none"
    changed = _git(root, "status", "--porcelain", "--", "sflkit", "companion", "notebooks")
    return head + ("" if changed == "" else "+")


def was_edited(commit: str) -> bool:
    """Return whether a record's commit says that sflkit/, companion/ or notebooks/ differed.

    Of "none", which stands where git could not be asked, nobody knows.
    """
    return commit.endswith("+")


def versions() -> dict[str, str]:
    """Return the versions that numbers depend on (torch only where it is loaded)."""
    names = ["sflkit", "numpy", "pandas", "scipy"] + (["torch"] if "torch" in sys.modules else [])
    versions = {name: installed.version(name) or "not installed" for name in names}
    return {"python": platform.python_version()} | versions


def device() -> str:
    """Return the name of the GPU that torch would use, else "cpu".

    torch is not loaded for the question: where nothing has loaded it, nothing computed on a GPU.
    """
    torch = sys.modules.get("torch")
    return (
        f"cuda ({torch.cuda.get_device_name()})"
        if torch is not None and torch.cuda.is_available()
        else "cpu"
    )


def edits(run: Callable, commit: str = "HEAD") -> Iterator[tuple[str, str]]:
    """Yield the files behind a run whose code differs from that of a commit.

    Parameters
    ----------
    run : function
        Of one that has no file, such as a notebook's, all files of the clone count.
    commit : str
        None differs where git does not know it, or this library does not lie in a clone.

    Yields
    ------
    str, str
        Its name in the clone, and a digest of its code as it is now, or `UNKNOWN`.
    """
    root = paths.clone_root(_ROOT)
    if root != _ROOT:
        return
    said = _ask(root, "diff", "--name-only", "--relative", commit, "--", *_OURS)
    if said is None:
        return
    new = _ask(root, "ls-files", "--others", "--exclude-standard", "--", *_OURS) or ""
    behind = _behind(run)
    late = {file.relative_to(_ROOT).as_posix() for file in behind if _is_late(file)}
    for name in dict.fromkeys([*said.splitlines(), *new.splitlines(), *sorted(late)]):
        file = _ROOT / name
        if file.suffix != ".py" or (behind and file not in behind):
            continue
        now = _code(file.read_text(encoding="utf-8") if file.is_file() else "")
        if name in late or now != _code(_ask(root, "show", f"{commit}:./{name}") or ""):
            yield name, UNKNOWN if _is_late(file) else now


def _is_late(file: Path) -> bool:
    """Return whether a file was written since this process began, which may have loaded either."""
    return file.is_file() and file.stat().st_mtime > sflkit.STARTED


def is_of_this_code(run: Callable, record: Mapping[str, Any]) -> bool:
    """Return whether the code behind a run is that which made a result, by the result's record.

    So it is where the record's commit is unknown here and nothing had been edited.
    """
    said, same = record.get("edited", {}), 0
    for name, digest in edits(run, record["commit"].removesuffix("+")):
        if digest == UNKNOWN or said.get(name) != digest:
            return False
        same += 1
    return same == len(said)


def _behind(run: Callable) -> set[Path]:
    """Return the file of a run and what it imports, whatever way; nothing where it has no file."""
    file = getattr(sys.modules.get(run.__module__), "__file__", None)
    return imported([Path(file).resolve()]) if file else set()


def imported(files: Iterable[Path]) -> set[Path]:
    """Return some files and the modules of sflkit and companion that they import, and these."""
    found, todo = set(), set(files)
    while todo:
        found |= todo
        todo = {name for file in todo for name in _imports(file)} - found
    return found


@functools.cache
def _imports(file: Path) -> frozenset[Path]:
    """Return the modules of this clone that a file imports, at its top or later."""
    modules, members = set(), set()
    try:
        tree = ast.parse(file.read_text(encoding="utf-8"))
    except (SyntaxError, ValueError):  # it is being written, or no module
        return frozenset()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            modules |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            modules.add(node.module)
            members |= {(node.module, alias.name) for alias in node.names}
    found = {file for name in modules for file in _files(name)}
    for package, name in members:  # a module of it, or what one of its modules offers
        inside = _files(package) and _place(package).glob("*.py")
        found |= set(_files(f"{package}.{name}") or inside)
    return frozenset(found)


def _files(module: str) -> list[Path]:
    files = (_place(module).with_suffix(".py"), _place(module) / "__init__.py")
    return [file for file in files if module.partition(".")[0] in _OURS and file.is_file()]


def _place(module: str) -> Path:
    return _ROOT.joinpath(*module.split("."))


@functools.lru_cache(maxsize=512)
def _code(text: str) -> str:
    """Return a digest of a module's code without comments and docstrings."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError):
        return hashlib.sha256(text.encode()).hexdigest()
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(body, list) and body and isinstance(body[0], ast.Expr):
            if isinstance(body[0].value, ast.Constant):
                del body[0]
    return hashlib.sha256(ast.dump(tree).encode()).hexdigest()


def _ask(folder: Path, *arguments: str) -> str | None:
    """Return what git prints in `folder`, or None where it cannot answer."""
    command = ["git", "-C", str(folder), *arguments]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()


_git = functools.cache(_ask)  # as a process found it at first
