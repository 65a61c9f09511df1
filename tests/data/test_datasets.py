"""Loading: what is at hand, files and their checks, and the errors a user meets."""

import gzip
import hashlib
import os
import pickle
import warnings

import numpy as np
import pytest
import torch

from sflkit import data
from sflkit.data import catalogue, files
from sflkit.data.datasets import obtain
from sflkit.data.files import write


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
        (lambda d: d.inputs("test", [355]), "integers >= 0 and <= 354"),
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
    assert [p.name for p in folder.iterdir()] == ["mnist.npz"]


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04 not a zip", b"\x80\x04N.", None])
def test_unreadable_files(folder, content):
    if content is None:
        write(folder / "mnist.npz", small())
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
    with pytest.raises(data.DataCorruptError, match="lacks y_train_coarse"):
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


def tiny_cifar(monkeypatch, name="cifar100", seed=3):
    """Arrays of a tiny data set of which the catalogue knows what they hold."""
    spec = catalogue.SPECS[name]
    arrays = small(40, 20, (32, 32, 3), spec.n_classes, seed)
    if spec.n_coarse:
        arrays |= {f"y_{s}_coarse": arrays[f"y_{s}"] // 5 for s in ("train", "test")}
    arrays = {k: v.astype(np.int64) if k[0] == "y" else v for k, v in arrays.items()}
    contents = files.contents_digest(files.in_own_order(arrays))
    known = spec._replace(sizes=(40, 20), contents=contents)
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


def idx(values):
    head = bytes([0, 0, 8, values.ndim]) + b"".join(n.to_bytes(4, "big") for n in values.shape)
    return head + values.astype(np.uint8).tobytes()


IDX = {
    "train-images-idx3-ubyte": "x_train",
    "train-labels-idx1-ubyte": "y_train",
    "t10k-images-idx3-ubyte": "x_test",
    "t10k-labels-idx1-ubyte": "y_test",
}


def write_idx(place, arrays, packed):
    place.mkdir(parents=True)
    for file, key in IDX.items():
        content = idx(arrays[key])
        if packed:
            (place / f"{file}.gz").write_bytes(gzip.compress(content))
        else:
            (place / file).write_bytes(content)


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize(
    ("name", "where"), [("mnist", "MNIST/raw"), ("fmnist", "FashionMNIST/raw")]
)
def test_idx_folders_of_torchvision(folder, name, where, packed):
    arrays = small()
    write_idx(folder / where, arrays, packed)
    loaded = data.load(name)
    for key, values in arrays.items():
        np.testing.assert_array_equal(getattr(loaded, key), values)
    assert loaded.source == str(folder / where) == data.available()[name]
    assert loaded.note.startswith("subset: 20 training") and loaded.y_train.dtype == np.int64
    write_idx(folder / "plain" / where, arrays, not packed)  # however it is packed, one digest
    assert data.load(name, root=folder / "plain").digest == loaded.digest
    end = ".gz" if packed else ""
    (folder / where / f"t10k-labels-idx1-ubyte{end}").unlink()
    with pytest.raises(data.DataCorruptError, match=f"{where} .*lacks t10k-labels-idx1-ubyte"):
        data.load(name)


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (b"\x00\x00\x0d\x01\x00\x00\x00\x00", "starts with 00000d01"),
        (b"\x00\x00\x08\x03\x00", "promises shape"),
        (b"", "starts with"),
    ],
)
def test_idx_heads(tmp_path, raw, message):
    (tmp_path / "a.gz").write_bytes(gzip.compress(raw))
    with pytest.raises(ValueError, match=message):
        files.read_idx(tmp_path / "a.gz")


def rows_of(x):
    return x.transpose(0, 3, 1, 2).reshape(len(x), -1)


def write_batches(place, arrays, protocol=3):
    """Write CIFAR's "python version", CIFAR-100 where there are superclasses."""
    place.mkdir(parents=True)
    for split in ("train", "test"):
        x, y = rows_of(arrays[f"x_{split}"]), arrays[f"y_{split}"].tolist()
        if f"y_{split}_coarse" in arrays:
            coarse = arrays[f"y_{split}_coarse"].tolist()
            batches = {split: {b"data": x, b"fine_labels": y, b"coarse_labels": coarse}}
        elif split == "test":
            batches = {"test_batch": {b"data": x, b"labels": y}}
        else:
            cuts = [slice(k * len(y) // 5, (k + 1) * len(y) // 5) for k in range(5)]
            batches = {
                f"data_batch_{k + 1}": {b"data": x[cut], b"labels": y[cut], b"batch_label": b"a"}
                for k, cut in enumerate(cuts)
            }
        for file, batch in batches.items():
            (place / file).write_bytes(pickle.dumps(batch, protocol))


@pytest.mark.parametrize(
    ("name", "where"), [("cifar10", "cifar-10-batches-py"), ("cifar100", "cifar-100-python")]
)
def test_batches_of_torchvision(folder, tmp_path, monkeypatch, name, where):
    arrays = tiny_cifar(monkeypatch, name)
    write_batches(folder / where, arrays)
    found = data.load(name)
    assert found.canonical and found.note == "" and found.source == str(folder / where)
    assert found.digest == catalogue.SPECS[name].contents
    write(tmp_path / "npz" / f"{name}.npz", arrays)  # the same as npz: the same draws
    same = data.load(name, root=tmp_path / "npz")
    for key in arrays:
        np.testing.assert_array_equal(getattr(found, key), getattr(same, key))
    assert data.load(f"{name}-complete").digest == found.digest


def test_a_batch_as_python_2_wrote_it(tmp_path):
    """The published files: text is bytes, and the array is made by numpy.core.multiarray."""
    x = np.arange(2 * 3072, dtype=np.uint8).reshape(2, 3072)
    raw = x.tobytes()
    batch = (
        b"\x80\x02}(U\x04datacnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85U\x01b\x87R"
        b"(K\x01K\x02M\x00\x0c\x86cnumpy\ndtype\nU\x02u1K\x00K\x01\x87R(K\x03U\x01|NNNJ\xff\xff\xff\xff"
        b"J\xff\xff\xff\xffK\x00tb\x89T" + len(raw).to_bytes(4, "little") + raw + b"tb"
        b"U\x06labels](K\x07K\x02eu."
    )
    for k in range(1, 6):
        (tmp_path / f"data_batch_{k}").write_bytes(batch)
    (tmp_path / "test_batch").write_bytes(batch)
    arrays = files.read_batches(tmp_path, coarse=False)
    assert arrays["y_test"].tolist() == [7, 2] and len(arrays["y_train"]) == 10
    assert rows_of(arrays["x_test"]).tobytes() == raw
    # pixel (5, 7) of the second picture: the red, green and blue planes of 1024 bytes
    assert arrays["x_test"][1, 5, 7].tolist() == [x[1, p * 1024 + 5 * 32 + 7] for p in range(3)]


class Bomb:
    def __init__(self, *call):
        self.call = call

    def __reduce__(self):
        return self.call[0], self.call[1:]


@pytest.mark.parametrize("file", ["train", "test"])
@pytest.mark.parametrize(
    "what",
    [
        lambda folder: Bomb(os.mkdir, str(folder / "exploded")),
        lambda folder: {b"data": Bomb(eval, "1"), b"fine_labels": [], b"coarse_labels": []},
        lambda folder: {b"data": np.zeros((4, 3072)), b"fine_labels": [0] * 4},
        lambda folder: {b"data": np.zeros((4, 3072), object), b"fine_labels": [0] * 4},
        lambda folder: {b"data": np.zeros((4, 3072), np.uint8), b"fine_labels": [0] * 3},
        lambda folder: {b"data": np.zeros((4, 3071), np.uint8), b"fine_labels": [0] * 4},
        lambda folder: {b"data": np.zeros((4, 3072), np.uint8)},
        lambda folder: [],
    ],
)
def test_a_pickle_calls_nothing_and_must_be_a_batch(folder, monkeypatch, file, what):
    arrays = tiny_cifar(monkeypatch)
    write_batches(folder / "cifar-100-python", arrays)
    content = what(folder)
    if isinstance(content, dict) and b"coarse_labels" not in content:
        content[b"coarse_labels"] = content.get(b"fine_labels", [])
    (folder / "cifar-100-python" / file).write_bytes(pickle.dumps(content, 4))
    with pytest.raises(data.DataCorruptError, match=f"cifar-100-python .*{file} (is no|holds)"):
        data.load("cifar100")
    assert not (folder / "exploded").exists()


@pytest.mark.parametrize("content", [b"", b"\x80", b"\x80\x04N.", b"(((((("])
def test_damaged_batches(folder, content):
    write_batches(folder / "cifar-10-batches-py", small(shape=(32, 32, 3)))
    (folder / "cifar-10-batches-py" / "data_batch_3").write_bytes(content)
    with pytest.raises(data.DataCorruptError, match="data_batch_3 is no batch of CIFAR"):
        data.load("cifar10")


def test_what_a_package_of_the_system_installed_is_found_last(folder, tmp_path, monkeypatch):
    arrays = small(6, 3)
    place = tmp_path / "installed"
    monkeypatch.setattr(catalogue, "SYSTEM", {"fmnist": place})
    monkeypatch.setattr(catalogue.paths, "data_folders", lambda: [folder])
    with pytest.raises(data.DataUnavailableError):
        data.load("fmnist", download=False)
    write_idx(place, arrays, packed=True)
    held = {k: v.astype(np.int64) if k[0] == "y" else v for k, v in arrays.items()}
    contents = files.contents_digest(held)
    known = catalogue.SPECS["fmnist"]._replace(sizes=(6, 3), contents=contents)
    monkeypatch.setitem(catalogue.SPECS, "fmnist", known)
    found = data.load("fmnist")
    np.testing.assert_array_equal(found.x_train, arrays["x_train"])
    assert found.canonical and found.source == str(place) == data.available()["fmnist"]
    write(folder / "fmnist.npz", arrays)  # the same arrays as npz: the same digest
    assert data.load("fmnist").digest == found.digest == contents
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


def test_equal_arrays_of_ones_own_are_one_data_set_however_they_come():
    x, y = np.array([[0.0, 1.5], [2.0, -3.0], [0.5, 0.0]]), np.array([0, 1, 1])
    first = data.Dataset.of(x, y, x, y)
    minus = np.where(x == 0, -0.0, x)
    for same in (x.tolist(), x.astype(np.float16), x.astype(np.longdouble), minus, torch.tensor(x)):
        other = data.Dataset.of(same, y.tolist(), same, torch.tensor(y))
        assert other.identity() == first.identity()
        assert other.x_train.tobytes() == first.x_train.tobytes()
