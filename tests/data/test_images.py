"""Loading: what is at hand, files and their checks, and the errors a user meets."""

import dataclasses
import errno
import gzip
import hashlib
import os
import warnings

import numpy as np
import pytest
import torch

from sflkit import data
from sflkit.data import catalogue, files
from sflkit.data.files import check, write
from sflkit.data.images import obtain


def small(n_train=20, n_test=10, shape=(28, 28), n_classes=10, seed=0):
    rng = np.random.default_rng(seed)
    return {
        "x_train": rng.integers(0, 256, (n_train, *shape), np.uint8),
        "y_train": np.arange(n_train, dtype=np.uint8) % n_classes,
        "x_test": rng.integers(0, 256, (n_test, *shape), np.uint8),
        "y_test": np.arange(n_test, dtype=np.uint8) % n_classes,
    }


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("SFLKIT_DATA", str(tmp_path))
    return tmp_path


def test_digits_are_real_stratified_and_always_the_same():
    from sklearn.datasets import load_digits

    digits = data.load("digits")
    assert digits is data.load("digits") and digits.canonical and digits.input_shape == (1, 28, 28)
    # Each class is cut 4 : 1, so 1797 samples give 1442 + 355 with every class within one sample of
    # 80 %.
    assert digits.x_train.shape == (1442, 28, 28) and digits.x_test.shape == (355, 28, 28)
    sizes = np.bincount(load_digits().target)
    assert np.abs(np.bincount(digits.y_train) - 0.8 * sizes).max() < 1
    np.testing.assert_array_equal(np.bincount(digits.y_train) + np.bincount(digits.y_test), sizes)
    assert digits.y_test_coarse.tolist() == (digits.y_test // 2).tolist()
    coarse = digits.with_coarse_labels()
    assert coarse.n_classes == 5
    assert set(coarse.y_train.tolist()) == set(range(5))
    assert coarse.x_train is digits.x_train


def test_digits_enlarged_keep_their_corners():
    # Enlargement maps corner to corner. Values 0..16 become multiples of 255 / 16; halves (8 ->
    # 127.5) go down.
    from sklearn.datasets import load_digits

    images = load_digits().images
    digits = data.load("digits")
    corners = np.concatenate([digits.x_train, digits.x_test])[
        :, [0, 0, -1, -1], [0, -1, 0, -1]
    ].astype(float)
    originals = np.ceil(images[:, [0, 0, -1, -1], [0, -1, 0, -1]] * 255 / 16 - 0.5)
    np.testing.assert_array_equal(np.sort(corners, axis=0), np.sort(originals, axis=0))


def test_inputs_are_normalised():
    digits = data.load("digits")
    x = digits.inputs("train")
    assert x.dtype == np.float32
    assert x.shape == (1442, 1, 28, 28)
    assert x.flags.c_contiguous
    assert x.flags.writeable
    assert abs(x.mean()) < 1e-4 and abs(x.std() - 1) < 1e-4
    expected = (digits.x_test[[3, 1]].astype(float) / 255 - digits.mean[0]) / digits.std[0]
    np.testing.assert_allclose(digits.inputs("test", [3, 1])[:, 0], expected, atol=2e-6)
    assert digits.inputs("test", []).shape == (0, 1, 28, 28)


def test_inputs_in_colour(folder):
    arrays = small(shape=(32, 32, 3))
    write(folder / "cifar10.npz", arrays)
    loaded = data.load("cifar10")
    assert loaded.input_shape == (3, 32, 32)
    x = loaded.inputs("train")
    for channel, (mean, std) in enumerate(zip(loaded.mean, loaded.std, strict=True)):
        np.testing.assert_allclose(
            x[:, channel], (arrays["x_train"][..., channel] / 255 - mean) / std, atol=2e-6
        )
    assert x.flags.c_contiguous


@pytest.mark.parametrize("name", ["grey", "colour"])
def test_lazy_inputs_are_the_same_numbers(folder, name):
    if name == "colour":
        write(folder / "cifar10.npz", small(shape=(32, 32, 3)))
    loaded = data.load("cifar10" if name == "colour" else "digits")
    whole = loaded.inputs("train")
    lazy = loaded.lazy_inputs("train")
    assert lazy.shape == whole.shape and len(lazy) == len(whole) and lazy.dtype == whole.dtype
    assert lazy.pixels is loaded.x_train
    rows = np.array([7, 2, 7])
    mask = np.arange(len(whole)) % 3 == 0
    for index in (rows, mask, slice(3, 9, 2), slice(None), 5, np.int64(-1), [1, 4]):
        assert lazy[index].tobytes() == whole[index].tobytes()
        assert lazy[index].shape == whole[index].shape and lazy[index].flags.c_contiguous
    assert np.asarray(lazy).tobytes() == np.array(lazy).tobytes() == whole.tobytes()
    assert np.asarray(lazy, dtype=np.float64).dtype == np.float64
    some = loaded.lazy_inputs("train", rows)
    assert some[:].tobytes() == whole[rows].tobytes()
    assert [x.shape for x in some] == [whole.shape[1:]] * 3


@pytest.mark.parametrize("make", [torch.as_tensor, torch.tensor, torch.from_dlpack])
def test_lazy_inputs_become_a_tensor_at_once(make):
    """Without DLPack torch would take them for a sequence, and convert number by number."""
    loaded = data.load("digits")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        tensor = make(loaded.lazy_inputs("train"))
    assert tensor.dtype == torch.float32 and tensor.shape == (1442, 1, 28, 28)
    assert tensor.numpy().tobytes() == loaded.inputs("train").tobytes()


def test_lazy_inputs_refuse_what_an_array_would_take():
    lazy = data.load("digits").lazy_inputs("test")
    with pytest.raises(IndexError, match="355 is out of bounds"):
        lazy[355]
    with pytest.raises(IndexError, match="indexed by rows only"):
        lazy[:, 0]
    with pytest.raises(ValueError, match="copy=False is not possible"):
        np.array(lazy, copy=False)


def test_arrays_are_read_only_and_labels_a_copy():
    digits = data.load("digits")
    with pytest.raises(ValueError, match="read-only"):
        digits.x_train[0] = 0
    labels = digits.labels("train")
    labels[:] = 0
    assert digits.y_train.any()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda d: d.inputs("valid"), "split='valid' must be one of 'train', 'test'"),
        (lambda d: d.inputs("test", [355]), r"\[0, 354\]"),
        (lambda d: d.inputs("test", [-1]), r"\[0, 354\]"),
        (lambda d: d.inputs("test", [0.5]), "integers"),
        (lambda d: d.labels("test", [0.5]), "integers"),
    ],
)
def test_bad_requests(call, message):
    with pytest.raises(ValueError, match=message):
        call(data.load("digits"))


def test_traffic_is_at_hand():
    traffic = data.load("traffic")
    assert traffic.x_train.shape == (36000, 39, 39)
    assert traffic.x_test.shape == (9000, 39, 39)
    assert traffic.n_classes == 10
    # (byte - 60) / 4, as sflkit.data.traffic says
    np.testing.assert_allclose(
        traffic.inputs("test", [5])[0, 0], (traffic.x_test[5].astype(float) - 60) / 4, atol=1e-4
    )
    with pytest.raises(ValueError, match="no superclasses"):
        traffic.with_coarse_labels()


@pytest.mark.parametrize("bad", ["MNIST", "", "fashion", None, 3])
def test_unknown_names_are_repeated_and_the_known_listed(bad):
    with pytest.raises(ValueError) as error:
        data.load(bad)
    assert repr(bad) in str(error.value)
    assert all(repr(name) in str(error.value) for name in data.names())


def test_a_written_file_loads_back(folder):
    arrays = small()
    digest = write(folder / "mnist.npz", arrays)
    loaded = data.load("mnist")
    assert (
        loaded.digest == digest == hashlib.sha256((folder / "mnist.npz").read_bytes()).hexdigest()
    )
    assert loaded.source == str(folder / "mnist.npz") and loaded.y_train.dtype == np.int64
    for key, values in arrays.items():
        np.testing.assert_array_equal(getattr(loaded, key), values)
    assert not loaded.canonical
    assert loaded.note == "subset: 20 training and 10 test samples, canonical are 60,000 and 10,000"
    assert loaded is data.load("mnist")
    assert sorted(p.name for p in folder.iterdir()) == ["mnist.npz", "mnist.npz.sha256"]


def test_a_file_without_digest_is_accepted_with_a_note(folder):
    write(folder / "mnist.npz", small())
    (folder / "mnist.npz.sha256").unlink()
    loaded = data.load("mnist")
    assert loaded.digest == hashlib.sha256((folder / "mnist.npz").read_bytes()).hexdigest()
    assert "no mnist.npz.sha256 beside the file" in loaded.note and "subset" in loaded.note


def test_a_damaged_digest_file_is_named(folder):
    write(folder / "mnist.npz", small())
    (folder / "mnist.npz.sha256").write_text("see the README\n")
    with pytest.raises(
        data.DataCorruptError, match=r"mnist\.npz\.sha256 must start with the 64 hex digits"
    ):
        data.load("mnist")


@pytest.mark.parametrize("name", ["mnist.npz", "mnist.npz.sha256"])
@pytest.mark.parametrize("kind", ["a pipe", "a device", "a link to nowhere"])
def test_what_is_no_regular_file_is_neither_waited_for_nor_left_out(folder, name, kind):
    """A pipe was waited for, and a digest that is a dangling link counted as none."""
    file = folder / "mnist.npz"
    write(file, small())
    (folder / name).unlink()
    if kind == "a pipe":
        os.mkfifo(folder / name)
    else:
        (folder / name).symlink_to("/dev/zero" if kind == "a device" else "nowhere")
    expected = FileNotFoundError if name == file.name and "link" in kind else data.DataCorruptError
    with pytest.raises(expected, match=f"{name}"):
        check(file)


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04 not a zip", b"\x80\x04N.", None])
def test_unreadable_files_without_digest(folder, content):
    if content is None:
        write(folder / "mnist.npz", small())
        (folder / "mnist.npz.sha256").unlink()
        content = (folder / "mnist.npz").read_bytes()[:-500]
    (folder / "mnist.npz").write_bytes(content)
    with pytest.raises(data.DataCorruptError, match=r"mnist\.npz cannot be read as npz"):
        data.load("mnist")


def test_pickled_objects_are_never_loaded(folder):
    class Bomb:
        def __reduce__(self):
            return os.mkdir, (str(folder / "exploded"),)

    np.savez(folder / "mnist.npz", **(small() | {"y_train": np.array([Bomb()] * 20, dtype=object)}))
    with pytest.raises(data.DataCorruptError, match="without pickled objects"):
        data.load("mnist")
    assert not (folder / "exploded").exists()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"y_train": np.full(20, 10, np.uint8)},
            r"y_train holds the label 10; labels must be integers in \[0, 9\]",
        ),
        ({"y_test": np.full(10, -1)}, "y_test holds the label -1"),
        ({"y_test": np.zeros(9, int)}, r"y_test is int64 of shape \(9,\); it must be 10"),
        ({"y_test": np.zeros(10)}, "y_test is float64"),
        ({"x_train": np.zeros((20, 28, 28))}, "x_train is float64"),
        ({"x_train": np.zeros((20, 784), np.uint8)}, r"must be uint8 of shape \(n, 28, 28\)"),
        ({"x_test": np.zeros((0, 28, 28), np.uint8), "y_test": np.zeros(0, int)}, "n >= 1"),
        ({"x_test": None}, "lacks x_test"),
    ],
)
def test_schema(folder, change, message):
    write(folder / "mnist.npz", {k: v for k, v in (small() | change).items() if v is not None})
    with pytest.raises(data.DataCorruptError, match=message):
        data.load("mnist")


def test_cifar100_needs_its_superclasses(folder):
    arrays = small(shape=(32, 32, 3))
    write(folder / "cifar100.npz", arrays)
    with pytest.raises(data.DataCorruptError, match="superclasses"):
        data.load("cifar100")
    arrays |= {"y_train_coarse": np.full(20, 20), "y_test_coarse": np.zeros(10, int)}
    write(folder / "cifar100.npz", arrays)
    with pytest.raises(
        data.DataCorruptError,
        match=r"y_train_coarse holds the label 20; labels must be integers in \[0, 19\]",
    ):
        data.load("cifar100")


def test_where_data_are_looked_for(folder, tmp_path, monkeypatch):
    other = tmp_path / "other"
    write(other / "fmnist.npz", small(seed=5))
    with pytest.raises(data.DataUnavailableError, match=f"Put fmnist.npz into {folder}, or pass"):
        data.load("fmnist", root=folder, download=False)
    assert data.load("fmnist", root=other).mean == (0.1307,)
    monkeypatch.setenv("SFLKIT_DATA", str(other))
    assert data.available()["fmnist"] == str(other / "fmnist.npz")
    assert {"digits", "traffic"} <= data.available().keys()


def test_absent_data_name_the_variable_the_file_and_the_folders(folder, tmp_path, monkeypatch):
    """Everything that a user needs who has the file elsewhere, or has none."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(data.DataUnavailableError) as error:
        data.load("cifar10", download=False)
    said = str(error.value)
    for part in (
        "data set 'cifar10' is not available: it is on none of the disks looked at",
        "Put cifar10.npz into",
        str(folder),
        str(catalogue.paths.data()),
        "or set the environment variable SFLKIT_DATA to the folder that holds it",
        "fetch it by: sflkit data cifar10",
        "At hand: digits, traffic",
    ):
        assert part in said
    with pytest.raises(
        data.DataUnavailableError, match=r"or pass no folder and set the environment .* SFLKIT_DATA"
    ):
        data.load("cifar10", root=tmp_path / "other", download=False)


def test_sets_with_clients_are_listed_and_refused(folder):
    assert {"logistic", "writers", "plays", "femnist", "shakespeare"} <= set(data.names())
    for name in catalogue.CLIENT_SETS:
        with pytest.raises(
            ValueError,
            match=f"name={name!r} has clients of its own.*federations.data_streams.*'?digits",
        ):
            data.load(name)
    at_hand = data.available()
    assert {"logistic", "writers", "plays"} <= at_hand.keys()
    assert (
        not {
            "femnist",
            "shakespeare",
        }
        & at_hand.keys()
    )
    assert obtain("plays") == at_hand["plays"] and at_hand["plays"].startswith("made on the spot")
    (folder / "femnist").mkdir()
    assert catalogue.find("femnist") is None  # an empty folder is no data set
    (folder / "femnist" / "all_data_0.json").write_text("{}")
    (folder / "tinyshakespeare.txt").write_text("A:\nx\n")
    assert obtain("femnist") == folder / "femnist"
    assert data.available()["shakespeare"] == str(folder / "tinyshakespeare.txt")


def test_bytes_are_written_with_their_record(folder):
    digest = write(folder / "a.txt", b"abc")
    assert digest == hashlib.sha256(b"abc").hexdigest()
    assert check(folder / "a.txt") == (
        digest,
        True,
    )
    (folder / "a.txt.sha256").unlink()
    assert check(folder / "a.txt") == (digest, False)


def test_the_form_is_looked_at_before_anything_is_unpacked(folder):
    # 256 MiB of zeros take 260 kB packed; numpy unpacked them before anyone asked for the form
    import resource
    import zipfile

    arrays = small()
    np.savez_compressed(folder / "mnist.npz", **arrays)

    with zipfile.ZipFile(folder / "mnist.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        for name, values in arrays.items():
            with archive.open(f"{name}.npy", "w") as file:
                shape = (2**28,) if name == "x_train" else values.shape
                head = {"shape": shape, "fortran_order": False, "descr": values.dtype.str}
                np.lib.format.write_array_header_1_0(file, head)
                if name == "x_train":
                    for _ in range(256):
                        file.write(bytes(2**20))
                else:
                    file.write(values.tobytes())
    assert (folder / "mnist.npz").stat().st_size < 1e6
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(data.DataCorruptError, match=r"x_train is uint8 of shape \(268435456,\)"):
        data.load("mnist", root=folder)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 50_000  # KiB


def tiny_cifar(monkeypatch, name="cifar100", seed=3):
    """Arrays of a tiny data set of which the catalogue knows what they hold."""
    spec = catalogue.SPECS[name]
    arrays = small(40, 20, (32, 32, 3), spec.n_classes, seed)
    if spec.n_coarse:
        arrays |= {f"y_{s}_coarse": arrays[f"y_{s}"] // 5 for s in ("train", "test")}
    arrays = {k: v.astype(np.int64) if k[0] == "y" else v for k, v in arrays.items()}
    contents = files.contents_digest(files.in_own_order(arrays))
    known = dataclasses.replace(spec, sizes=(40, 20), contents=contents)
    monkeypatch.setitem(catalogue.SPECS, name, known)
    return arrays


def reordered(arrays, rng):
    orders = {"train": rng.permutation(40), "test": rng.permutation(20)}
    return {key: values[orders[key.split("_")[1]]] for key, values in arrays.items()}


def test_any_faithful_copy_gives_the_same_order_and_digest(folder, tmp_path, monkeypatch):
    arrays = tiny_cifar(monkeypatch)
    rng = np.random.default_rng(0)
    loaded = []
    for copy in range(2):
        write(tmp_path / str(copy) / "cifar100.npz", reordered(arrays, rng))
        loaded.append(data.load("cifar100", root=tmp_path / str(copy)))
        assert loaded[-1].canonical and loaded[-1].note == ""
    first, second = loaded
    assert first.digest == second.digest == catalogue.SPECS["cifar100"].contents
    for part in ("x_train", "y_train", "y_train_coarse", "x_test", "y_test", "y_test_coarse"):
        np.testing.assert_array_equal(getattr(first, part), getattr(second, part))
    # labels in order, and within a label the sha256 of the bytes; coarse labels went along
    keys = [
        (int(y), hashlib.sha256(x.tobytes()).hexdigest())
        for x, y in zip(first.x_train, first.y_train, strict=True)
    ]
    assert keys == sorted(keys)
    np.testing.assert_array_equal(first.y_train_coarse, first.y_train // 5)
    complete = data.load("cifar100-complete", root=tmp_path / "0")
    assert complete.name == "cifar100-complete" and complete.digest == first.digest


def test_a_lossy_copy_and_a_subset_are_called_so_and_stay_as_they_are(folder, monkeypatch):
    arrays = tiny_cifar(monkeypatch)
    lossy = arrays | {"x_train": arrays["x_train"] // 2 * 2}
    digest = write(folder / "cifar100.npz", lossy)
    loaded = data.load("cifar100")
    assert not loaded.canonical and loaded.digest == digest
    assert loaded.note.startswith("lossy or altered copy")
    np.testing.assert_array_equal(loaded.x_train, lossy["x_train"])  # draws as they were
    with pytest.raises(data.DataUnavailableError, match=r"cifar100.npz is no complete .*lossy"):
        data.load("cifar100-complete")
    write(folder / "cifar100.npz", {key: values[:20] for key, values in arrays.items()})
    assert data.load("cifar100").note.startswith("subset: 20 training and 20 test")
    with pytest.raises(data.DataUnavailableError, match=r"no complete .*subset: 20 training"):
        data.load("cifar100-complete")


def test_what_a_package_of_the_system_installed_is_found_last(folder, tmp_path, monkeypatch):
    arrays = small(6, 3)
    place = tmp_path / "installed"
    place.mkdir()
    monkeypatch.setattr(catalogue, "SYSTEM", {"fmnist": place})
    monkeypatch.setattr(catalogue.paths, "data_folders", lambda: [folder])
    with pytest.raises(data.DataUnavailableError):
        data.load("fmnist", download=False)
    for file, key in zip(
        catalogue.IDX_FILES, ("x_train", "y_train", "x_test", "y_test"), strict=True
    ):
        head = bytes([0, 0, 8, arrays[key].ndim])
        head += b"".join(n.to_bytes(4, "big") for n in arrays[key].shape)
        (place / file).write_bytes(gzip.compress(head + arrays[key].astype(np.uint8).tobytes()))
    with pytest.raises(data.DataCorruptError, match=r"installed does not hold fmnist: expected"):
        data.load("fmnist")
    held = {k: v.astype(np.int64) if k[0] == "y" else v for k, v in arrays.items()}
    known = dataclasses.replace(
        catalogue.SPECS["fmnist"], sizes=(6, 3), contents=files.contents_digest(held)
    )
    monkeypatch.setitem(catalogue.SPECS, "fmnist", known)
    found = data.load("fmnist")
    np.testing.assert_array_equal(found.x_train, arrays["x_train"])
    assert found.canonical and found.source == str(place) == data.available()["fmnist"]
    write(folder / "fmnist.npz", arrays)  # the same arrays as npz: the same digest
    assert data.load("fmnist").digest == found.digest
    assert data.load("fmnist").source == str(folder / "fmnist.npz")


def test_remarks_on_the_data_of_published_runs():
    lossy, subset = list(catalogue.COPIES)[::2]
    assert catalogue.remark({"digest": lossy}).startswith("lossy copy: CIFAR-10 as JPEG")
    note = "features; subset: 20,000 training and 4,000 test samples, canonical are more"
    assert catalogue.remark({"digest": subset, "note": note}) == (
        "subset: 20,000 of CIFAR-100's 50,000 training samples; features"
    )
    assert catalogue.remark({"digest": "0", "note": "stand-in"}) == "stand-in"
    assert catalogue.remark({"digest": "0"}) == ""


def test_a_file_that_breaks_off_while_read_is_named(tmp_path, monkeypatch):
    write(tmp_path / "mnist.npz", b"some bytes")

    def broken(*_):
        raise OSError(errno.EIO, os.strerror(errno.EIO))  # as read() does: without a name

    monkeypatch.setattr(hashlib, "file_digest", broken)
    with pytest.raises(data.DataCorruptError, match=r"/mnist\.npz cannot be read: Input/output"):
        check(tmp_path / "mnist.npz")
