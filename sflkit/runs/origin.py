"""Where numbers come from: the commit of the clone, the versions of libraries, the device."""

from __future__ import annotations

import functools
import platform
import subprocess
import sys
from pathlib import Path

from sflkit import installed, paths


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


@functools.cache
def _git(folder: Path, *arguments: str) -> str | None:
    """Return what git printed in `folder` at the first call, or None where it cannot answer."""
    command = ["git", "-C", str(folder), *arguments]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()
