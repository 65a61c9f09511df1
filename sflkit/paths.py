"""Where files live: in the clone that the user works in, else in the user's cache folder.

| function | in a clone | outside one | moved by |
|---|---|---|---|
| `figures()` | figures | <cache>/figures | $SFLKIT_FIGURES |
| `drawn()` | out/figures | <cache>/out/figures | see `drawn` |
| `out()` | out | <cache>/out | |
| `data()` | data | <cache>/data | $SFLKIT_DATA is looked in before, see `data_folders` |
| `paper_values()` | data/paper_values | <cache>/data/paper_values | |
| `published()` | data/results | <cache>/data/results | |
| `results_store()` | out/results | <cache>/out/results | $SFLKIT_CACHE |

Asking for a folder does not create it; `write_atomic` and `lock` create what they need.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import os
import platform
import re
import stat
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

# Whether this process may write to the published figures, see `drawn`.
PUBLISH = "SFLKIT_PUBLISH"
PATIENCE = 5.0  # seconds after which whoever waits for a lock says who holds it
_PROJECT = re.compile(r"^name\s*=\s*[\"']sflkit[\"']\s*(#.*)?$", re.MULTILINE)


class CannotWrite(OSError):
    """A file could not be written, as on a full disk; what lay there before is untouched."""

    def __str__(self) -> str:
        return f"cannot write {self.filename}: {self.strerror}"


def clone_root(start: Path | str | None = None) -> Path | None:
    """Return the folder of the clone that the user works in, or None outside one.

    A clone is a folder with notebooks/ and sflkit's own pyproject.toml. Searched are `start`
    (default: the working directory) and the folders above it, then the folder that the package
    lies in.
    """
    start = Path.cwd() if start is None else Path(start).resolve()
    for folder in (start, *start.parents, Path(__file__).resolve().parents[1]):
        if _is_clone(folder):
            return folder
    return None


def user_cache() -> Path:
    """Return the user's cache folder for sflkit, which every operating system has elsewhere."""
    import platformdirs

    return Path(platformdirs.user_cache_dir("sflkit", appauthor=False))


def figures() -> Path:
    """Return the folder of the published figures, passports and verdicts."""
    return _env("SFLKIT_FIGURES") or _base() / "figures"


def drawn() -> Path:
    """Return the folder that a run writes its figures and verdicts to.

    Exploring never overwrites what is published: a notebook that is run by hand, or with parameters
    of one's own, writes under `out()`. Only where $SFLKIT_PUBLISH is 1, which `make figures` and
    `sflkit refresh` set, or where $SFLKIT_FIGURES names a folder, this is `figures()`.
    """
    if _env("SFLKIT_FIGURES") or os.environ.get(PUBLISH) == "1":
        return figures()
    return out() / "figures"


def out() -> Path:
    """Return the folder of executed notebooks, figures of one's own and logs."""
    return _base() / "out"


def data() -> Path:
    """Return the folder that downloads go to.

    The papers' transcribed tables and the published results lie inside it.
    """
    return _base() / "data"


def data_folders() -> list[Path]:
    """Return the folders in which data sets are looked for, the first one first.

    They are $SFLKIT_DATA where it is set, then `data()`.
    """
    return [folder for folder in (_env("SFLKIT_DATA"), data()) if folder is not None]


def paper_values() -> Path:
    """Return the folder of the papers' transcribed numbers."""
    return data() / "paper_values"


def published() -> Path:
    """Return the folder of the tracked results behind the published figures."""
    return data() / "results"


def results_store() -> Path:
    """Return the folder in which sweeps keep their results: $SFLKIT_CACHE, else out/results."""
    return _env("SFLKIT_CACHE") or out() / "results"


def write_atomic(
    path: Path | str, content: str | bytes | Callable[[IO[bytes]], Any], *, durable: bool = False
) -> None:
    """Write a file so that no reader ever sees half of it; an old one keeps its permissions.

    The content, or what a function writes to the file, goes to a temporary name beside `path`,
    which is then renamed; `durable` asks that both survive a power cut. The temporary name is
    always the same, so that a killed writer leaves at most one behind; writers of one file must
    therefore hold one `lock`. A link that lies at that name is removed, not followed.

    Raises
    ------
    CannotWrite
        If the disk is full or the folder cannot be written; the temporary file is gone then.
    """
    path = Path(path)
    temporary = path.with_name(f".{path.name}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        mode = stat.S_IMODE(path.stat().st_mode) if path.is_file() else None
        temporary.unlink(missing_ok=True)
        with open(temporary, "xb", opener=new_file(mode)) as file:
            if callable(content):
                content(file)
            else:
                file.write(content.encode("utf-8") if isinstance(content, str) else content)
            if durable:
                file.flush()
                os.fsync(file.fileno())
        os.replace(temporary, path)
        if durable:
            _flush_folder(path.parent)
    except OSError as error:
        raise CannotWrite(error.errno, error.strerror or str(error), str(path)) from error
    finally:
        with contextlib.suppress(OSError):  # it is there only after an error
            temporary.unlink(missing_ok=True)


def _flush_folder(folder: Path) -> None:
    """Put the names in a folder on the disk, as after a rename."""
    number = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)


def new_file(mode: int | None) -> Callable[[str, int], int]:
    """Return an opener for `open(..., "x")`, which follows no link: from the start the file has
    these permissions, by default those that the umask leaves.
    """

    def opened(name: str, flags: int) -> int:
        number = os.open(name, flags, 0o666 if mode is None else mode)
        if mode is not None:
            os.fchmod(number, mode)  # whatever the umask is
        return number

    return opened


def read(path: Path | str) -> bytes:
    """Return what a file holds.

    Raises
    ------
    OSError
        If it cannot be read, or is a pipe or a device, which might never end.
    """
    check_regular(path)
    return Path(path).read_bytes()


def check_regular(path: Path | str) -> None:
    """Make sure that what lies at a path, behind links, is a file and no pipe, device or folder.

    Raises
    ------
    OSError
        If it is not, or cannot be looked at.
    """
    if not stat.S_ISREG(os.stat(path).st_mode):
        raise OSError(errno.EINVAL, "it is no regular file", str(path))


def check_writable(folder: Path | str) -> None:
    """Make sure that files can be written to a folder, which is made where it is missing.

    Raises
    ------
    CannotWrite
        If they cannot: the message gives the operating system's reason.
    """
    import tempfile

    folder = Path(folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=folder, prefix=".writable") as file:
            file.write(b"yes")
    except OSError as error:
        raise CannotWrite(error.errno, error.strerror or str(error), str(folder)) from error


class Lock:
    """A lock that one process at a time holds, inside `with`; `lock` makes it.

    The operating system drops it when its process dies, and a forked child does not inherit it. Its
    file says who holds it, and is gone afterwards.
    """

    def __init__(self, file: Path, *, wait: bool):
        self.file = file
        self.wait = wait
        self._number: int | None = None

    def acquire(self) -> None:
        """Take the lock.

        Raises
        ------
        CannotWrite
            If its file cannot be made.
        TimeoutError
            If it is held elsewhere and `wait` is False.

        Warns
        -----
        UserWarning
            Who holds it, after `PATIENCE` seconds.
        """
        began = time.monotonic()
        _locks.add(self)
        try:
            while not self._taken():
                if not self.wait:
                    raise TimeoutError(f"{self.file} is held by {self._holder()}")
                if began is not None and time.monotonic() - began > PATIENCE:
                    began = None
                    warnings.warn(
                        f"waiting for {self.file}, held by {self._holder()}", stacklevel=3
                    )
                time.sleep(0.02)
        except BaseException:
            _locks.discard(self)
            raise

    def _taken(self) -> bool:
        """Try to take the lock, and say in its file who did."""
        try:
            self.file.parent.mkdir(parents=True, exist_ok=True)
            self._number = os.open(self.file, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o666)
            fcntl.flock(self._number, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # Whoever held it may have removed the file that was opened here.
            if os.path.samestat(os.fstat(self._number), os.stat(self.file)):
                with contextlib.suppress(OSError):  # on a full disk nobody is named
                    said = f"process {os.getpid()} on {platform.node()}".encode()
                    os.truncate(self._number, os.write(self._number, said))
                return True
        except (BlockingIOError, FileNotFoundError):
            pass
        except OSError as error:
            self._close()
            raise CannotWrite(error.errno, error.strerror or str(error), str(self.file)) from error
        self._close()
        return False

    def _holder(self) -> str:
        with contextlib.suppress(OSError):
            return self.file.read_text(encoding="utf-8", errors="replace") or "another process"
        return "another process"

    def _close(self) -> None:
        number, self._number = self._number, None
        if number is not None:
            os.close(number)

    def release(self) -> None:
        """Give the lock back, if it is held by this process."""
        _locks.discard(self)
        if self._number is not None:
            with contextlib.suppress(OSError):
                self.file.unlink()
            self._close()

    def __enter__(self) -> Lock:
        self.acquire()
        return self

    def __exit__(self, *error: object) -> None:
        self.release()


_locks: set[Lock] = set()


def _forget_locks() -> None:
    """Let go of what a parent holds: a child would keep it after the parent's death."""
    for held in _locks:
        held._close()  # which leaves the parent's own alone
    _locks.clear()


os.register_at_fork(after_in_child=_forget_locks)


def lock(path: Path | str, *, wait: bool = True, folder: Path | None = None) -> Lock:
    """Return a lock on `path`, which is held inside `with`; see `Lock`.

    Parameters
    ----------
    path : path
        What is locked; it need not exist.
    wait : bool
        Whether to wait for a lock that another process holds.
    folder : path, optional
        Where the lock file lies: a folder that all contenders see. By default it is one under
        $SFLKIT_FIGURES, which several clones may share, else one under `out()`. Jobs on several
        hosts of a cluster share that one as they share the clone, and tracked folders stay clean.
    """
    path = Path(os.path.realpath(path))  # unlike `resolve` it bears a link to itself
    name = path.name
    if folder is None:
        folder = (_env("SFLKIT_FIGURES") or out()) / ".locks"
        name = hashlib.sha256(str(path).encode()).hexdigest()[:24]
    return Lock(folder / f"{name}.lock", wait=wait)


def _is_clone(folder: Path) -> bool:
    project = folder / "pyproject.toml"
    return (
        (folder / "notebooks").is_dir()
        and project.is_file()
        and bool(_PROJECT.search(project.read_text(encoding="utf-8")))
    )


def _env(name: str) -> Path | None:
    value = os.environ.get(name)
    return Path(os.path.realpath(Path(value).expanduser())) if value else None


def _base() -> Path:
    return clone_root() or user_cache()
