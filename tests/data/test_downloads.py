"""The download path against a server on the loopback, with small files in the canonical formats."""

import functools
import gzip
import hashlib
import http.server
import io
import tarfile
import threading

import numpy as np
import pytest

from sflkit import data, paths
from sflkit.data import catalogue, downloads, natural
from tests.data.conftest import batches, idx_files, put, small

LABELS = "t10k-labels-idx1-ubyte.gz"


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *args):
        self.server.asked.append(self.path)

    def do_GET(self):
        if self.path in self.server.busy:  # once
            self.server.busy.remove(self.path)
            self.send_error(503)
        else:
            super().do_GET()


class Web:
    """A folder served over HTTP, and what was asked of it."""

    def __init__(self, folder, monkeypatch):
        self.folder = put(folder, {})
        self.monkeypatch = monkeypatch
        handler = functools.partial(_Quiet, directory=folder)
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self.server.asked, self.server.busy = [], []
        self.asked, self.busy = self.server.asked, self.server.busy
        self.address = f"http://127.0.0.1:{self.server.server_port}/"

    def serve(self, files, name="mnist", addresses=None, wrong=()):
        """Serve files in place of a data set's own; of those in `wrong` the checksum is another."""
        put(self.folder, files)
        sums = {f: hashlib.md5(b"x" if f in wrong else raw) for f, raw in files.items()}
        known = downloads.SOURCES[name]._replace(
            addresses=addresses or (self.address,),
            files={file: f"md5:{digest.hexdigest()}" for file, digest in sums.items()},
        )
        self.monkeypatch.setitem(downloads.SOURCES, name, known)


@pytest.fixture
def web(folder, tmp_path, monkeypatch):
    monkeypatch.setattr(downloads, "RETRIES", 0)
    monkeypatch.setattr(downloads, "TIMEOUT", 5.0)
    web = Web(tmp_path / "web", monkeypatch)
    thread = threading.Thread(target=web.server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    yield web
    web.server.shutdown()
    web.server.server_close()
    thread.join()


def test_fetch_converts_and_is_not_repeated(web, capsys):
    arrays = small()
    web.serve(idx_files(arrays))
    loaded = data.load("mnist")
    path = paths.data() / "mnist.npz"
    for key, values in arrays.items():
        np.testing.assert_array_equal(getattr(loaded, key), values)
    assert loaded.digest == hashlib.sha256(path.read_bytes()).hexdigest()
    assert loaded.note.startswith("subset: 20 training and 10 test")
    assert "fetching mnist" in capsys.readouterr().err
    assert len(web.asked) == 4
    assert downloads.fetch("mnist") == path and len(web.asked) == 4
    assert [p.name for p in path.parent.iterdir()] == ["mnist.npz"]


def test_a_mirror_is_tried_where_an_address_sends_other_bytes_and_a_busy_one_again(
    web, monkeypatch
):
    files = idx_files(small())
    put(web.folder / "bad", dict.fromkeys(files, b"a captive portal"))
    web.serve(files, addresses=(web.address + "bad/", web.address))
    downloads.fetch("mnist")
    np.testing.assert_array_equal(data.load("mnist").y_train, small()["y_train"])
    (paths.data() / "mnist.npz").unlink()
    web.serve(files)
    web.asked.clear()
    web.busy.append(f"/{LABELS}")
    monkeypatch.setattr(downloads, "RETRIES", 1)
    downloads.fetch("mnist")
    assert len(web.asked) == 4 + 2 and not web.busy  # the error is logged besides the request


def test_a_wrong_checksum_names_file_expected_and_found_and_leaves_no_npz(web):
    files = idx_files(small())
    web.serve(files, wrong=(LABELS,))
    with pytest.raises(data.DataCorruptError) as error:
        downloads.fetch("mnist")
    for part in (LABELS, hashlib.md5(b"x").hexdigest(), hashlib.md5(files[LABELS]).hexdigest()):
        assert part in str(error.value)
    assert not (paths.data() / "mnist.npz").exists()


def test_files_that_arrived_are_not_fetched_again(web):
    files = idx_files(small())
    web.serve(files)
    (web.folder / LABELS).unlink()
    with pytest.raises(data.DataUnavailableError, match=r"'mnist' .* the download failed"):
        downloads.fetch("mnist")
    before = len(web.asked)
    put(web.folder, files)
    downloads.fetch("mnist")
    assert len(web.asked) == before + 1


def test_what_does_not_convert_is_refused_in_spite_of_its_checksum(web):
    files = idx_files(small())
    images = "train-images-idx3-ubyte.gz"
    short = gzip.compress(gzip.decompress(files[images])[:-1])
    for content, message in (
        (short, rf"{images} holds 15679 values; its head promises shape \(20, 28, 28\)"),
        (files[images][:-30], "not of the documented form"),
    ):
        web.serve(files | {images: content})
        with pytest.raises(data.DataCorruptError, match=message):
            downloads.fetch("mnist")
    assert not (paths.data() / "mnist.npz").exists()


def test_offline_says_what_to_put_where_and_what_is_at_hand(web, folder):
    web.serve({"a.gz": b""}, addresses=("http://127.0.0.1:9/",))
    with pytest.raises(FileNotFoundError) as error:
        data.load("mnist")
    needed = ("mnist.npz", str(folder), "sflkit data mnist", "digits", "http://127.0.0.1:9/a.gz")
    assert all(part in str(error.value) for part in needed)
    assert not (paths.data() / "mnist.npz").exists()


def tar(members):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as archive:
        for name, content in members.items():
            info = tarfile.TarInfo(f"folder/{name}")
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return out.getvalue()


@pytest.mark.parametrize("name", ["cifar10", "cifar100"])
def test_cifar_is_the_same_as_torchvisions_folder(web, folder, name):
    arrays = small(shape=(32, 32, 3), n_classes=catalogue.SPECS[name].n_classes)
    (file,) = downloads.SOURCES[name].files
    web.serve({file: tar({"train": b"\x80\x04N."})}, name)
    with pytest.raises(data.DataCorruptError, match=r"lacks data_batch_1|train is no batch"):
        data.load(name)
    (paths.data() / f".{name}.download" / file).unlink()
    web.serve({file: tar(batches(arrays))}, name)
    loaded = data.load(name)
    assert [path.name for path in paths.data().iterdir()] == [f"{name}.npz"]
    put(folder / catalogue.SPECS[name].folder, batches(arrays))
    same = data.load(name)
    for key in arrays:
        np.testing.assert_array_equal(getattr(loaded, key), arrays[key])
        np.testing.assert_array_equal(getattr(same, key), arrays[key])


def test_shakespeare_arrives_as_it_is(web, monkeypatch):
    content = b"ROMEO:\nBut, soft!\nwhat light?\n\nJULIET:\nAy me!\n"
    known = downloads.SOURCES["shakespeare"]
    web.serve({"input.txt": content}, "shakespeare")
    found = natural.load("shakespeare")
    path = paths.data() / "tinyshakespeare.txt"
    assert path.read_bytes() == content and found.clients == ("ROMEO",)
    assert found.digest == hashlib.sha256(content).hexdigest()
    # The canonical checksum refuses any other text.
    path.unlink()
    monkeypatch.setitem(downloads.SOURCES, "shakespeare", known._replace(addresses=(web.address,)))
    with pytest.raises(data.DataCorruptError, match=catalogue.SHAKESPEARE):
        downloads.fetch("shakespeare")
    assert not path.exists()


def test_a_folder_that_cannot_be_written_is_named_before_anything_is_fetched(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("no folder")
    monkeypatch.setattr(paths, "data", lambda: tmp_path / "file")
    with pytest.raises(paths.CannotWrite, match=r"cannot write .*/file: "):
        downloads.fetch("mnist")
    with pytest.raises(ValueError, match="name='mnst' must be one of 'mnist'"):
        downloads.fetch("mnst")
