"""Files that appear whole or not at all."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time

import pytest

from sflkit import paths


def test_a_file_is_replaced_as_a_whole(tmp_path):
    file = tmp_path / "folder" / "file"
    paths.write_atomic(file, "one")
    paths.write_atomic(file, b"two")
    assert file.read_text() == "two" and list(file.parent.iterdir()) == [file]


def test_a_file_that_cannot_be_written_is_named_and_leaves_nothing(tmp_path):
    resource = pytest.importorskip("resource")
    file = tmp_path / "file"
    paths.write_atomic(file, "before")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, before[1]))
    try:
        with pytest.raises(OSError, match=f"cannot write {file}: File too large") as error:
            paths.write_atomic(file, "x" * 1000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert isinstance(error.value, paths.CannotWrite) and error.value.filename == str(file)
    assert file.read_text() == "before" and list(tmp_path.iterdir()) == [file]


def test_a_folder_that_is_a_file_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(paths.CannotWrite, match=r"cannot write .*inside"):
        paths.write_atomic(tmp_path / "file" / "inside", "x")


def test_an_old_file_keeps_its_permissions_and_a_planted_link_is_not_followed(tmp_path):
    file, other = tmp_path / "file", tmp_path / "other"
    file.write_text("before")
    file.chmod(0o600)
    other.write_text("another's")
    (tmp_path / ".file.tmp").symlink_to(other)
    paths.write_atomic(file, "after")
    assert file.stat().st_mode & 0o777 == 0o600 and file.read_text() == "after"
    assert other.read_text() == "another's" and sorted(tmp_path.iterdir()) == [file, other]


@pytest.mark.parametrize("kind", ["a pipe", "a device"])
def test_what_may_never_end_is_not_read(tmp_path, kind):
    file = tmp_path / "file"
    os.mkfifo(file) if kind == "a pipe" else file.symlink_to("/dev/zero")
    with pytest.raises(OSError, match="it is no regular file"):
        paths.read(file)


def test_a_link_to_itself_can_be_locked(tmp_path):
    """`resolve` raises RuntimeError there, until Python 3.13."""
    file = tmp_path / "file"
    file.symlink_to(file)
    with paths.lock(file, folder=tmp_path):
        assert file.is_symlink()


def test_a_lock_is_exclusive_and_leaves_nothing_in_the_folder(tmp_path):
    with paths.lock(tmp_path / "table.csv"), pytest.raises(TimeoutError):
        paths.lock(tmp_path / "table.csv", wait=False).acquire()
    with paths.lock(tmp_path / "table.csv", wait=False):
        assert not list(tmp_path.iterdir())


def test_a_forked_child_inherits_no_lock(tmp_path):
    """Nor does it give back what its parent holds; when the parent has died, the lock is free."""
    holds = f"""
        import os, time
        from sflkit import paths
        lock = paths.lock("file", folder=paths.Path({str(tmp_path)!r}))
        lock.acquire()
        child = os.fork()
        if child == 0:
            lock.release()
            time.sleep(60)
        print(child, flush=True)
        time.sleep(60)
    """
    command = [sys.executable, "-c", textwrap.dedent(holds)]
    parent = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    child = int(parent.stdout.readline())
    try:
        time.sleep(0.2)
        with pytest.raises(TimeoutError, match=f"file.lock is held by process {parent.pid} on "):
            paths.lock("file", folder=tmp_path, wait=False).acquire()
        parent.kill()
        parent.wait()
        with paths.lock("file", folder=tmp_path, wait=False):
            os.kill(child, 0)  # it lives
    finally:
        os.kill(child, signal.SIGKILL)
        parent.kill()
        parent.stdout.close()


def test_whoever_waits_for_long_is_told_for_whom(tmp_path, monkeypatch):
    monkeypatch.setattr(paths, "PATIENCE", 0.05)
    held = paths.lock("file", folder=tmp_path)
    held.acquire()
    threading.Timer(0.3, held.release).start()
    with pytest.warns(
        UserWarning, match=f"waiting for .*held by process {os.getpid()} on "
    ) as said:
        with paths.lock("file", folder=tmp_path):
            pass
    assert len(said) == 1 and not list(tmp_path.iterdir())


def test_locks_whose_files_come_and_go_are_exclusive(tmp_path):
    inside, most = [0], [0]

    def work():
        for _ in range(50):
            with paths.lock("file", folder=tmp_path):
                inside[0] += 1
                most[0] = max(most[0], inside[0])
                time.sleep(0)
                inside[0] -= 1

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == [1] and inside == [0] and not list(tmp_path.iterdir())
