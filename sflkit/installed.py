"""Which of the packages that sflkit names are installed: what `sflkit doctor` says of them."""

from __future__ import annotations

import functools
import re
from importlib import metadata

# What the extras of pyproject.toml are for; the peers of the benchmark have an environment of
# their own.
USES = {
    "": "the library",
    "lab": "running notebooks",
    "test": "`make test`",
    "docs": "`make site`",
}


@functools.cache  # a package's metadata take a millisecond to read
def version(name: str) -> str | None:
    """Return the version of a package, or None where it is not installed."""
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def missing() -> dict[str, list[str]]:
    """Return what is not installed, such as "papermill<3,>=2.6", by extra.

    The extra "" stands for what the library itself needs.
    """
    found: dict[str, list[str]] = {}
    for text in metadata.requires("sflkit") or []:
        requirement, _, marker = map(str.strip, text.partition(";"))
        extra = re.search(r"extra == ['\"](\w+)['\"]", marker)
        wanted = extra[1] if extra else ""
        if wanted in USES and version(re.match(r"[A-Za-z0-9._-]+", requirement)[0]) is None:
            found.setdefault(wanted, []).append(requirement)
    return found


def told(extra: str, requirements: list[str]) -> str:
    """Return what one use lacks, and how to get it."""
    quoted = " ".join(f'"{requirement}"' for requirement in requirements)
    return f"missing    {USES[extra]} needs more: python -m pip install {quoted}"
