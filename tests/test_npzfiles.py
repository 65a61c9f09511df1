"""Reading npz files: what numpy writes, and the one error of what is damaged or no npz."""

from __future__ import annotations

import io
import os
import zipfile

import numpy as np
import pytest

from sflkit import npzfiles


def header(shape, dtype="|u1"):
    """Return the start of an npy that promises numbers of that shape."""
    out = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        out, {"shape": shape, "fortran_order": False, "descr": dtype}
    )
    return out.getvalue()


def write(path, entries, compression=zipfile.ZIP_DEFLATED):
    with zipfile.ZipFile(path, "w", compression) as archive:
        for name, content in entries.items():
            archive.writestr(name, content)
    return path


def test_what_numpy_writes_is_read(tmp_path):
    parts = {"a": np.arange(6).reshape(2, 3).T, "b": np.array("text"), "c": np.zeros((0, 4))}
    for name, save in (("plain", np.savez), ("packed", np.savez_compressed)):
        save(tmp_path / f"{name}.npz", **parts)
        read = npzfiles.read_npz(tmp_path / f"{name}.npz")
        assert read.keys() == parts.keys()
        for key, value in parts.items():
            np.testing.assert_array_equal(read[key], value)
            assert read[key].dtype == value.dtype
    only = npzfiles.read_npz(tmp_path / "plain.npz", names=("a", "absent"))
    assert list(only) == ["a"]
    with pytest.raises(FileNotFoundError):
        npzfiles.read_npz(tmp_path / "none.npz")


@pytest.mark.parametrize(
    "entries",
    [
        {"x.npy": header((10**12,)) + b"abc"},  # numpy believes the header: a MemoryError
        {"x.npy": header((10**6, 10**6, 10**6)) + b"abc"},
        {"x.npy": header((-2,)) + b"ab"},
        {"x.npy": header((10**9,), "|S0")},  # as text 11 GiB
        {"x.npy": header((1,), "|O") + b"a"},
        {"x.npy": b"no npy at all"},
        {"x.npy": b"\x93NUMPY\x03\x00"},
    ],
)
def test_what_is_refused(tmp_path, entries):
    with pytest.raises(ValueError, match=r"\w"):
        npzfiles.read_npz(write(tmp_path / "bad.npz", entries))


def test_a_file_that_inflates_is_not_unpacked(tmp_path):
    path = write(tmp_path / "bomb.npz", {"x.npy": header((2**25,)) + bytes(2**25)})
    assert path.stat().st_size < 50_000
    with pytest.raises(
        ValueError, match=r"takes 33,554,\d+ bytes unpacked; at most 1,000 are read"
    ):
        npzfiles.read_npz(path, largest=1000)


def test_what_is_no_npz_is_refused(tmp_path):
    np.save(tmp_path / "one.npy", np.arange(3))
    (tmp_path / "empty.npz").write_bytes(b"")
    (tmp_path / "pickle.npz").write_bytes(b"\x80\x04N.")
    os.mkfifo(tmp_path / "pipe.npz")
    for path in tmp_path.iterdir():
        with pytest.raises(ValueError, match=r"\w"):
            npzfiles.read_npz(path)
