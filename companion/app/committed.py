"""What of figures/<profile>/ is committed: the yardstick of `compare`.

It is what git's HEAD holds, so that neither a second run nor a damaged file moves it. Without git,
as in an unpacked archive, it is a copy that `keep` makes before anything is published.
"""

from __future__ import annotations

import io
import shutil
import subprocess
import tarfile
from pathlib import Path

from companion.app import gate
from sflkit import paths


class GitFailed(RuntimeError):
    """git knows this clone and cannot say what is committed in it."""


def keep(profile: str) -> None:
    """Copy the published figures before the first run, unless git's HEAD has them.

    Raises
    ------
    paths.CannotWrite
        If there is no room for the copy.
    """
    folder = paths.figures(profile)
    copy = _copy(profile)
    if not folder.is_dir() or copy.is_dir():
        return
    try:
        if _in_git(profile):
            return
    except GitFailed:  # which is no reason not to run; `read` says it
        pass
    part = copy.with_name(f".{copy.name}.tmp")
    with paths.lock(copy):
        if copy.is_dir():  # made by another run just now
            return
        try:
            shutil.rmtree(part, ignore_errors=True)
            shutil.copytree(folder, part)
            part.rename(copy)
        except OSError as error:
            shutil.rmtree(part, ignore_errors=True)
            said = error.strerror or str(error)
            raise paths.CannotWrite(error.errno, said, str(copy)) from error


def read(profile: str) -> tuple[dict[str, bytes], str]:
    """Return the committed files by name, and where they are from; nothing where there are none.

    Raises
    ------
    GitFailed
        If git cannot read the clone; the message holds what git says.
    """
    files = _from_git(profile)
    if files:
        return files, "git's HEAD"
    copy = _copy(profile)
    if not copy.is_dir():
        return {}, ""
    return files_in(copy), f"the copy in {copy.relative_to(gate.root())}"


def files_in(folder: Path) -> dict[str, bytes]:
    """Return the files of a folder by name, without hidden ones."""
    return {file.name: file.read_bytes() for file in sorted(folder.glob("[!.]*")) if file.is_file()}


def _copy(profile: str) -> Path:
    return paths.out() / "published" / paths.check_profile(profile)


def _from_git(profile: str) -> dict[str, bytes]:
    """Return the published files as git's HEAD has them; nothing where git does not know them."""
    if not _in_git(profile):
        return {}
    content = _git(gate.root(), "archive", "--format=tar", "HEAD", f"figures/{profile}")
    with tarfile.open(fileobj=io.BytesIO(content)) as archive:
        return {Path(m.name).name: archive.extractfile(m).read() for m in archive if m.isfile()}


def _in_git(profile: str) -> bool:
    """Return whether git's HEAD has published files of a profile."""
    root = gate.root()
    # A clone inside another repository is none of that one's business.
    if not (root / ".git").exists() or shutil.which("git") is None:
        return False
    top = _git(root, "rev-parse", "--show-toplevel").decode().strip()
    if Path(top).resolve() != root.resolve():
        raise GitFailed(f"git takes {top} for the clone that {root} is; is {root / '.git'} whole?")
    if not _git(root, "rev-list", "-n", "1", "--all"):  # no commit yet
        return False
    return bool(_git(root, "ls-tree", "HEAD", "--", f"figures/{paths.check_profile(profile)}"))


def _git(root: Path, *arguments: str) -> bytes:
    try:
        command = ["git", "-C", str(root), *arguments]
        return subprocess.run(command, capture_output=True, check=True, timeout=60).stdout
    except subprocess.CalledProcessError as error:
        said = error.stderr.decode(errors="replace").strip() or error
    except (OSError, subprocess.SubprocessError) as error:
        said = error
    raise GitFailed(
        f"git cannot say what is committed in {root}; mend that and call `sflkit compare` again. "
        f"`git {' '.join(arguments)}` says: {said}"
    )
