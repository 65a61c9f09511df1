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
UNKNOWN = f"{NAME} has no digest of it"


def read(folder: Path | str) -> dict[str, str]:
    """Return the digests of a folder by name of the file; none where they are not kept.

    Raises
    ------
    ValueError
        If the file cannot be read, or a line is not of that form.
    """
    file = Path(folder) / NAME
    try:
        return parsed(paths.read(file), str(file))
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise ValueError(f"{file} cannot be read: {error}") from None


def parsed(content: bytes, name: str) -> dict[str, str]:
    """Return the digests that a file holds; ValueError, which calls it `name`, as `read`."""
    lines = re.findall(rb"([0-9a-f]{64})  ([\w./-]+)\n", content)
    found = {file.decode(): digest.decode() for digest, file in lines}
    if not found or len(found) < len(lines) or b"".join(map(b"%s  %s\n".__mod__, lines)) != content:
        raise ValueError(f"{name} must hold lines of a digest and a name, each name once")
    return found


def text(digests: Mapping[str, str]) -> str:
    """Return what such a file holds, sorted by name."""
    return "".join(f"{digests[name]}  {name}\n" for name in sorted(digests))


def of(folder: Path | str, names: Iterable[str]) -> dict[str, str]:
    """Return the digests of some files of a folder; OSError where one cannot be read."""
    return {n: hashlib.sha256(paths.read(Path(folder) / n)).hexdigest() for n in names}


def put(folder: Path | str, names: Iterable[str] | Mapping[str, bytes]) -> None:
    """Write the lines of some files of a folder anew.

    They are of what the files hold, or of the contents by name that they are about to be given. The
    line of a file that is gone stays, so that `damages` names it.

    Raises
    ------
    ValueError
        As `read`; the file stays as it is.
    paths.CannotWrite
        If the disk is full or the folder cannot be written.
    """
    folder = Path(folder)
    with paths.lock(folder / NAME):
        if isinstance(names, Mapping):
            new = {name: hashlib.sha256(content).hexdigest() for name, content in names.items()}
        else:
            new = of(folder, names)
        paths.write_atomic(folder / NAME, text(read(folder) | new))


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
        try:
            if name not in known:
                yield folder / name, UNKNOWN
            elif of(folder, [name]) != {name: known[name]}:
                yield folder / name, f"it differs from its digest in {NAME}"
        except FileNotFoundError:
            yield folder / name, "it is missing"
        except OSError as error:
            yield folder / name, f"it cannot be read: {error.strerror}"
