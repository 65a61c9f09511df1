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
from tests.data.test_datasets import small as small_images
from tests.data.test_datasets import write_batches


def idx(values):
    return (
        bytes([0, 0, 8, values.ndim])
        + b"".join(int(n).to_bytes(4, "big") for n in values.shape)
        + values.tobytes()
    )


def tar(members):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as archive:
        for name, content in members.items():
            info = tarfile.TarInfo(f"folder/{name}")
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return out.getvalue()


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *args):
        self.server.asked.append(self.path)

    def do_GET(self):
        if self.path in self.server.busy:  # once
            self.server.busy.remove(self.path)
            self.send_error(503)
        else:
            super().do_GET()


@pytest.fixture(autouse=True)
def fast(monkeypatch):
    monkeypatch.setattr(downloads, "RETRIES", 0)
    monkeypatch.setattr(downloads, "TIMEOUT", 5.0)


@pytest.fixture
def web(tmp_path):
    """A folder served over HTTP: (folder, address, requests, paths that are busy at first)."""
    folder = tmp_path / "web"
    folder.mkdir()
    server = http.server.ThreadingHTTPServer(
        ("127.0.0.1", 0), functools.partial(_Quiet, directory=folder)
    )
    server.asked, server.busy = [], []
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    yield folder, f"http://127.0.0.1:{server.server_port}/", server.asked, server.busy
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture
def small():
    """Arrays of a tiny MNIST and its four files."""
    rng = np.random.default_rng(0)
    arrays = {
        "x_train": rng.integers(0, 256, (20, 28, 28), np.uint8),
        "y_train": np.arange(20, dtype=np.uint8) % 10,
        "x_test": rng.integers(0, 256, (10, 28, 28), np.uint8),
        "y_test": np.arange(10, dtype=np.uint8),
    }
    keys = {
        "train-images-idx3": "x_train",
        "train-labels-idx1": "y_train",
        "t10k-images-idx3": "x_test",
        "t10k-labels-idx1": "y_test",
    }
    return arrays, {
        f"{name}-ubyte.gz": gzip.compress(idx(arrays[key])) for name, key in keys.items()
    }


def serve(monkeypatch, web, files, name="mnist", addresses=None, wrong=()):
    for file, content in files.items():
        (web[0] / file).write_bytes(content)
    sums = {
        file: f"md5:{hashlib.md5(b'x' if file in wrong else content).hexdigest()}"
        for file, content in files.items()
    }
    known = downloads.SOURCES[name]._replace(addresses=addresses or (web[1],), files=sums)
    monkeypatch.setitem(downloads.SOURCES, name, known)


def test_fetch_converts_and_is_not_repeated(monkeypatch, web, small, tmp_path, capsys):
    serve(monkeypatch, web, small[1])
    loaded = data.load("mnist", root=tmp_path / "home")
    path = tmp_path / "home" / "mnist.npz"
    for key, values in small[0].items():
        np.testing.assert_array_equal(getattr(loaded, key), values)
    assert loaded.digest == hashlib.sha256(path.read_bytes()).hexdigest()
    assert not loaded.canonical and loaded.note.startswith("subset: 20 training and 10 test")
    assert "fetching mnist" in capsys.readouterr().err
    assert len(web[2]) == 4
    assert downloads.fetch("mnist", folder=tmp_path / "home") == path and len(web[2]) == 4
    assert [p.name for p in path.parent.iterdir()] == ["mnist.npz"]


def test_mirror_is_tried_when_the_first_address_sends_other_bytes(
    monkeypatch, web, small, tmp_path
):
    (web[0] / "bad").mkdir()
    for file in small[1]:
        (web[0] / "bad" / file).write_bytes(b"a captive portal")
    serve(monkeypatch, web, small[1], addresses=(web[1] + "bad/", web[1]))
    downloads.fetch("mnist", folder=tmp_path / "home")
    np.testing.assert_array_equal(
        data.load("mnist", root=tmp_path / "home").y_train, small[0]["y_train"]
    )


def test_a_busy_server_is_asked_again(monkeypatch, web, small, tmp_path):
    serve(monkeypatch, web, small[1])
    web[3].append("/train-labels-idx1-ubyte.gz")
    monkeypatch.setattr(downloads, "RETRIES", 1)
    downloads.fetch("mnist", folder=tmp_path / "home")
    assert len(web[2]) == 4 + 2 and not web[3]  # the error is logged besides the request


def test_wrong_checksum_names_file_expected_and_found_and_leaves_no_npz(
    monkeypatch, web, small, tmp_path
):
    serve(monkeypatch, web, small[1], wrong=("t10k-labels-idx1-ubyte.gz",))
    with pytest.raises(data.DataCorruptError) as error:
        downloads.fetch("mnist", folder=tmp_path / "home")
    found = hashlib.md5(small[1]["t10k-labels-idx1-ubyte.gz"]).hexdigest()
    for part in ("t10k-labels-idx1-ubyte.gz", hashlib.md5(b"x").hexdigest(), found):
        assert part in str(error.value)
    assert not (tmp_path / "home" / "mnist.npz").exists()


def test_files_that_arrived_are_not_fetched_again(monkeypatch, web, small, tmp_path):
    serve(monkeypatch, web, small[1])
    (web[0] / "t10k-labels-idx1-ubyte.gz").unlink()
    with pytest.raises(data.DataUnavailableError, match=r"'mnist' .* the download failed"):
        downloads.fetch("mnist", folder=tmp_path / "home")
    before = len(web[2])
    (web[0] / "t10k-labels-idx1-ubyte.gz").write_bytes(small[1]["t10k-labels-idx1-ubyte.gz"])
    downloads.fetch("mnist", folder=tmp_path / "home")
    assert len(web[2]) == before + 1


def test_truncated_content_with_a_matching_checksum_is_refused(monkeypatch, web, small, tmp_path):
    files = dict(small[1])
    files["train-images-idx3-ubyte.gz"] = gzip.compress(idx(small[0]["x_train"])[:-1])
    serve(monkeypatch, web, files)
    with pytest.raises(
        data.DataCorruptError,
        match=r"train-images-idx3-ubyte.gz holds 15679 values; "
        r"its head promises shape \(20, 28, 28\)",
    ):
        downloads.fetch("mnist", folder=tmp_path / "home")
    files["train-images-idx3-ubyte.gz"] = small[1]["train-images-idx3-ubyte.gz"][:-30]
    serve(monkeypatch, web, files)
    with pytest.raises(data.DataCorruptError, match="not of the documented form"):
        downloads.fetch("mnist", folder=tmp_path / "home")
    assert not (tmp_path / "home" / "mnist.npz").exists()


def test_offline_says_what_to_put_where_and_what_is_at_hand(monkeypatch, web, small, tmp_path):
    known = downloads.SOURCES["mnist"]
    known = known._replace(addresses=("http://127.0.0.1:9/",), files={"a.gz": "md5:" + "0" * 32})
    monkeypatch.setitem(downloads.SOURCES, "mnist", known)
    with pytest.raises(FileNotFoundError) as error:
        data.load("mnist", root=tmp_path / "home")
    for part in (
        "mnist.npz",
        str(tmp_path / "home"),
        "sflkit data mnist",
        "digits",
        "traffic",
        "http://127.0.0.1:9/a.gz",
    ):
        assert part in str(error.value)
    assert not (tmp_path / "home" / "mnist.npz").exists()


@pytest.mark.parametrize("name", ["cifar10", "cifar100"])
def test_cifar_is_the_same_as_torchvisions_folder(monkeypatch, web, tmp_path, name):
    arrays = small_images(shape=(32, 32, 3))
    if name == "cifar100":
        arrays |= {f"y_{split}_coarse": arrays[f"y_{split}"] // 5 for split in ("train", "test")}
    folder = tmp_path / "there" / catalogue.SPECS[name].folder
    write_batches(folder, arrays)
    content = tar({path.name: path.read_bytes() for path in sorted(folder.iterdir())})
    (file,) = downloads.SOURCES[name].files
    serve(monkeypatch, web, {file: content}, name)
    loaded = data.load(name, root=tmp_path / "home")
    same = data.load(name, root=tmp_path / "there")
    for key in arrays:
        np.testing.assert_array_equal(getattr(loaded, key), arrays[key])
        np.testing.assert_array_equal(getattr(same, key), arrays[key])
    assert [path.name for path in (tmp_path / "home").iterdir()] == [f"{name}.npz"]


def test_a_cifar_archive_that_lacks_a_batch(monkeypatch, web, tmp_path):
    (file,) = downloads.SOURCES["cifar100"].files
    serve(monkeypatch, web, {file: tar({"train": b"\x80\x04N."})}, "cifar100")
    with pytest.raises(data.DataCorruptError, match="train is no batch of CIFAR"):
        downloads.fetch("cifar100", folder=tmp_path / "home")


def test_shakespeare_arrives_as_it_is(monkeypatch, web, tmp_path, capsys):
    content = b"ROMEO:\nBut, soft!\nwhat light?\n\nJULIET:\nAy me!\n"
    (web[0] / "input.txt").write_bytes(content)
    known = downloads.SOURCES["shakespeare"]
    sums = {"input.txt": f"sha256:{hashlib.sha256(content).hexdigest()}"}
    monkeypatch.setitem(
        downloads.SOURCES, "shakespeare", known._replace(addresses=(web[1],), files=sums)
    )
    found = natural.load("shakespeare", root=tmp_path / "home")
    path = tmp_path / "home" / "tinyshakespeare.txt"
    assert path.read_bytes() == content
    assert found.clients == ("ROMEO",)
    assert found.digest == sums["input.txt"][7:]
    assert "fetching shakespeare" in capsys.readouterr().err
    assert downloads.fetch("shakespeare", folder=tmp_path / "home") == path and len(web[2]) == 1
    # The canonical checksum refuses any other text.
    monkeypatch.setitem(downloads.SOURCES, "shakespeare", known._replace(addresses=(web[1],)))
    with pytest.raises(data.DataCorruptError, match=catalogue.SHAKESPEARE):
        downloads.fetch("shakespeare", folder=tmp_path / "other")
    assert not (tmp_path / "other" / "tinyshakespeare.txt").exists()


def test_bad_arguments_and_a_plain_table():
    with pytest.raises(ValueError, match="mnst"):
        downloads.fetch("mnst")
    for name, source in downloads.SOURCES.items():
        assert name in {*catalogue.SPECS, *catalogue.CLIENT_SETS}
        assert all(
            len(checksum) == (71 if checksum.startswith("sha256:") else len("md5:") + 32)
            for checksum in source.files.values()
        )
        assert all(address.endswith("/") for address in source.addresses)


def test_a_folder_that_cannot_be_written_is_named_before_anything_is_fetched(tmp_path):
    (tmp_path / "file").write_text("no folder")
    with pytest.raises(paths.CannotWrite, match=r"cannot write .*/file: "):
        downloads.fetch("mnist", folder=tmp_path / "file")
