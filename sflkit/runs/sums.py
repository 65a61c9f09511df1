"""Digests of the tracked files in a folder, as `sha256sum` writes and checks them.

`data/results`, `data/paper_values` and `figures` hold such a file: `sha256sum --check SHA256SUMS`
there says the same as `damages`. Whatever publishes a file writes its line.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from sflkit import paths

NAME = "SHA256SUMS"


def read(folder: Path | str) -> dict[str, str]:
    """Return the digests of a folder by name of the file; none where they are not kept.

    Raises
    ------
    ValueError
        If the file cannot be read, or a line is not of that form.
    """
    file = Path(folder) / NAME
    try:
        content = paths.read(file)
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise ValueError(f"{file} cannot be read: {error}") from None
    return parsed(content, str(file))


def parsed(content: bytes, name: str) -> dict[str, str]:
    """Return the digests that a file holds; ValueError, which calls it `name`, as `read`."""
    found: dict[str, str] = {}
    lines = content.decode("utf-8", errors="replace").split("\n")
    for number, line in enumerate(lines[:-1], start=1):
        match = re.fullmatch(r"([0-9a-f]{64})  ([\w./-]+)", line)
        if not match or match[2] in found:
            raise ValueError(f"{name}, line {number}: no digest and name, or a second one")
        found[match[2]] = match[1]
    if lines[-1] or not found:
        raise ValueError(f"{name} ends too early")
    return found


def text(digests: Mapping[str, str]) -> str:
    """Return what such a file holds, sorted by name."""
    return "".join(f"{digests[name]}  {name}\n" for name in sorted(digests))


def put(folder: Path | str, names: Iterable[str]) -> None:
    """Write the lines of some files of a folder anew.

    Raises
    ------
    ValueError
        As `read`; the file stays as it is.
    paths.CannotWrite
        If the disk is full or the folder cannot be written.
    """
    folder = Path(folder)
    with paths.lock(folder / NAME):
        found = read(folder) | {name: _digest(folder / name) for name in names}
        paths.write_atomic(folder / NAME, text(found))


def damages(folder: Path | str, names: Iterable[str] = ()) -> Iterator[tuple[Path, str]]:
    """Yield each file of a folder that differs from its digest, and how.

    So does one of `names` without a digest, and the file of the digests where it cannot be read.
    """
    folder = Path(folder)
    try:
        known = read(folder)
    except ValueError as error:
        yield folder / NAME, f"no file of digests can be read here: {error}"
        return
    if not known:
        yield folder / NAME, "it is missing, and with it the digests of the files beside it"
        return
    for name in sorted({*known, *names}):
        wrong = f"{NAME} has no digest of it" if name not in known else ""
        try:
            if not wrong and _digest(folder / name) != known[name]:
                wrong = f"it differs from its digest in {NAME}"
        except FileNotFoundError:
            wrong = "it is missing"
        except OSError as error:
            wrong = f"it cannot be read: {error.strerror}"
        if wrong:
            yield folder / name, wrong


def _digest(file: Path) -> str:
    return hashlib.sha256(paths.read(file)).hexdigest()
