"""Loading: what is at hand, where files lie and in which forms, and the errors a user meets."""

import hashlib
import os
import pickle
import warnings

import numpy as np
import pytest
import torch

from sflkit import data, paths
from sflkit.data import catalogue, files
from sflkit.data.datasets import obtain
from sflkit.data.files import write
from tests.data.conftest import batches, idx_files, put, rows_of, small


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
    coarse = digits.with_coarse_labels()
    assert coarse.n_classes == 5 and coarse.y_test.tolist() == (digits.y_test // 2).tolist()
    assert coarse.x_train is digits.x_train
    # Enlargement maps corner to corner. Values 0..16 become multiples of 255 / 16; halves (8 ->
    # 127.5) go down.
    corners = (slice(None), [0, 0, -1, -1], [0, -1, 0, -1])
    enlarged = np.concatenate([digits.x_train, digits.x_test])[corners].astype(float)
    originals = np.ceil(load_digits().images[corners] * 255 / 16 - 0.5)
    np.testing.assert_array_equal(np.sort(enlarged, axis=0), np.sort(originals, axis=0))


@pytest.mark.parametrize("name", ["digits", "cifar10"])
def test_inputs_are_normalised_as_a_whole_and_row_by_row(folder, name):
    write(folder / "cifar10.npz", small(shape=(32, 32, 3)))
    loaded = data.load(name)
    whole, lazy = loaded.inputs("train"), loaded.lazy_inputs("train")
    pixels = loaded.x_train.reshape(*loaded.x_train.shape[:3], -1)
    expected = np.moveaxis((pixels / 255 - loaded.mean) / loaded.std, -1, 1)
    np.testing.assert_allclose(whole, expected, atol=2e-6)
    assert whole.dtype == np.float32 and whole.flags.c_contiguous and whole.flags.writeable
    assert lazy.shape == whole.shape and len(lazy) == len(whole) and lazy.dtype == whole.dtype
    rows = np.array([7, 2, 7])
    mask = np.arange(len(whole)) % 3 == 0
    for index in (rows, mask, slice(3, 9, 2), slice(None), 5, np.int64(-1), [1, 4], rows[:0]):
        assert lazy[index].tobytes() == whole[index].tobytes()
        assert lazy[index].shape == whole[index].shape and lazy[index].flags.c_contiguous
    assert np.asarray(lazy).tobytes() == np.array(lazy).tobytes() == whole.tobytes()
    assert np.asarray(lazy, dtype=np.float64).dtype == np.float64
    assert loaded.inputs("train", rows).tobytes() == whole[rows].tobytes()
    with pytest.raises(IndexError, match="indexed by rows only"):
        lazy[:, 0]
    with pytest.raises(ValueError, match="copy=False is not possible"):
        np.array(lazy, copy=False)


@pytest.mark.parametrize("make", [torch.as_tensor, torch.tensor, torch.from_dlpack])
def test_lazy_inputs_become_a_tensor_at_once(make):
    """Without DLPack torch would take them for a sequence, and convert number by number."""
    loaded = data.load("digits")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        tensor = make(loaded.lazy_inputs("train"))
    assert tensor.dtype == torch.float32 and tensor.shape == (1442, 1, 28, 28)
    assert tensor.numpy().tobytes() == loaded.inputs("train").tobytes()


def test_arrays_are_read_only_labels_a_copy_and_rows_checked():
    digits = data.load("digits")
    with pytest.raises(ValueError, match="read-only"):
        digits.x_train[0] = 0
    digits.labels("train")[:] = 0
    assert digits.y_train.any()
    with pytest.raises(ValueError, match="split='valid' must be one of 'train', 'test'"):
        digits.inputs("valid")
    for take in (digits.inputs, digits.labels):
        with pytest.raises(ValueError, match="integers >= 0 and <= 354"):
            take("test", [355])


def test_traffic_is_at_hand():
    traffic = data.load("traffic")
    assert traffic.x_train.shape == (36000, 39, 39) and traffic.x_test.shape == (9000, 39, 39)
    # (byte - 60) / 4, as sflkit.data.traffic says
    expected = (traffic.x_test[5].astype(float) - 60) / 4
    np.testing.assert_allclose(traffic.inputs("test", [5])[0, 0], expected, atol=1e-4)
    with pytest.raises(ValueError, match="no superclasses"):
        traffic.with_coarse_labels()


def test_names_that_load_does_not_take(folder):
    with pytest.raises(ValueError, match=r"name='MNIST' must be one of 'digits', .*'plays'"):
        data.load("MNIST")
    for name in catalogue.CLIENT_SETS:
        with pytest.raises(ValueError, match=f"name={name!r} has clients of its own.*data_streams"):
            data.load(name)


def test_where_data_are_looked_for(folder, tmp_path, monkeypatch):
    """$SFLKIT_DATA, data/, a package of the system; in a folder npz before torchvision's form."""
    places = [tmp_path / "installed", tmp_path / "home" / "fmnist.npz"]
    places += [folder / "FashionMNIST" / "raw", folder / "fmnist.npz"]
    monkeypatch.setattr(catalogue, "SYSTEM", {"fmnist": places[0]})
    assert catalogue.find("fmnist") is None
    for k, place in enumerate(places):
        arrays = small(seed=k)
        if place.suffix:
            write(place, arrays)
        else:
            put(place, idx_files(arrays))
        loaded = data.load("fmnist")
        assert loaded.source == str(place) == data.available()["fmnist"]
        np.testing.assert_array_equal(loaded.x_train, arrays["x_train"])
    at_hand = data.available()
    assert {"digits", "traffic", "logistic", "writers", "plays"} <= at_hand.keys()
    assert not {"femnist", "shakespeare"} & at_hand.keys()
    assert obtain("plays") == at_hand["plays"] and at_hand["plays"].startswith("made on the spot")
    (folder / "femnist").mkdir()
    assert catalogue.find("femnist") is None  # an empty folder is no data set
    put(folder / "femnist", {"all_data_0.json": b"{}"})
    assert obtain("femnist") == folder / "femnist"


def test_absent_data_name_the_variable_the_file_and_the_folders(folder):
    """Everything that a user needs who has the file elsewhere, or has none."""
    with pytest.raises(data.DataUnavailableError) as error:
        data.load("cifar10", download=False)
    for part in (
        "data set 'cifar10' is not available: it is on none of the disks looked at",
        f"Put cifar10.npz into {folder} or {paths.data()}",
        "or set the environment variable SFLKIT_DATA to the folder that holds it",
        "fetch it by: sflkit data cifar10",
        "At hand: digits, traffic",
    ):
        assert part in str(error.value)
    with pytest.raises(data.DataUnavailableError, match=r"not downloadable: data/README.md"):
        data.load("ntc")


def test_a_written_file_loads_back(folder):
    arrays = small()
    digest = write(folder / "mnist.npz", arrays)
    loaded = data.load("mnist")
    content = (folder / "mnist.npz").read_bytes()
    assert loaded.digest == digest == hashlib.sha256(content).hexdigest()
    for key, values in arrays.items():
        np.testing.assert_array_equal(getattr(loaded, key), values)
    assert loaded.y_train.dtype == np.int64 and not loaded.canonical
    assert loaded.note == "subset: 20 training and 10 test samples, canonical are 60,000 and 10,000"
    assert loaded is data.load("mnist")
    assert [p.name for p in folder.iterdir()] == ["mnist.npz"]
    write(folder / "mnist.npz", small(seed=1))
    assert data.load("mnist").digest != digest


class Bomb:
    def __init__(self, *call):
        self.call = call

    def __reduce__(self):
        return self.call[0], self.call[1:]


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("mnist", b"PK\x03\x04 not a zip", r"mnist\.npz cannot be read: "),
        ("mnist", {"y_train": np.full(20, 10)}, "y_train holds 10; .* <= 9"),
        ("mnist", {"y_test": np.full(10, -1)}, "y_test holds -1"),
        ("mnist", {"y_test": np.zeros(9, int)}, "y_test has 9 labels; .* 10 images"),
        ("mnist", {"y_test": np.zeros(10)}, "y_test=.* must be a vector of integers"),
        ("mnist", {"x_train": np.zeros((20, 28, 28))}, "x_train is float64"),
        ("mnist", {"x_train": np.zeros((20, 784), np.uint8)}, r"uint8 of shape \(n, 28, 28\)"),
        ("mnist", {"x_test": np.zeros((0, 28, 28), np.uint8)}, "n >= 1"),
        ("cifar10", {"y_train": None}, "lacks y_train"),
        ("cifar100", {}, "lacks y_train_coarse"),
        ("cifar100", {"y_train_coarse": np.full(20, 20)}, "y_train_coarse holds 20; .* <= 19"),
    ],
)
def test_files_of_another_form(folder, name, change, message):
    arrays = small(shape=catalogue.SPECS[name].shape)
    if name == "cifar100" and change:
        arrays["y_test_coarse"] = np.zeros(10, int)
    if isinstance(change, bytes):
        put(folder, {f"{name}.npz": change})
    else:
        write(folder / f"{name}.npz", {k: v for k, v in (arrays | change).items() if v is not None})
    with pytest.raises(data.DataCorruptError, match=message):
        data.load(name)


def test_pickled_objects_are_never_loaded(folder):
    bombs = np.array([Bomb(os.mkdir, str(folder / "exploded"))] * 20, dtype=object)
    np.savez(folder / "mnist.npz", **(small() | {"y_train": bombs}))
    with pytest.raises(data.DataCorruptError, match="Object arrays cannot be loaded"):
        data.load("mnist")
    assert not (folder / "exploded").exists()


def tiny(monkeypatch, name="cifar100", seed=3):
    """Arrays of a tiny data set of which the catalogue knows what they hold."""
    spec = catalogue.SPECS[name]
    arrays = small(40, 20, spec.shape, spec.n_classes, seed)
    held = {k: v.astype(np.int64) if k[0] == "y" else v for k, v in arrays.items()}
    contents = files.contents_digest(files.in_own_order(held) if spec.ordered else held)
    monkeypatch.setitem(catalogue.SPECS, name, spec._replace(sizes=(40, 20), contents=contents))
    return arrays


def test_any_faithful_copy_gives_the_same_order_and_digest(folder, monkeypatch):
    arrays = tiny(monkeypatch)
    rng = np.random.default_rng(0)
    loaded = []
    for _ in range(2):
        orders = {"train": rng.permutation(40), "test": rng.permutation(20)}
        write(folder / "cifar100.npz", {k: v[orders[k.split("_")[1]]] for k, v in arrays.items()})
        loaded.append(data.load("cifar100"))
        assert loaded[-1].canonical and loaded[-1].note == ""
    first, second = loaded
    assert first.digest == second.digest == catalogue.SPECS["cifar100"].contents
    for part in arrays:
        np.testing.assert_array_equal(getattr(first, part), getattr(second, part))
    # labels in order, and within a label the sha256 of the bytes; coarse labels went along
    images = zip(first.x_train, first.y_train, strict=True)
    keys = [(int(y), hashlib.sha256(x.tobytes()).hexdigest()) for x, y in images]
    assert keys == sorted(keys)
    np.testing.assert_array_equal(first.y_train_coarse, first.y_train // 5)
    complete = data.load("cifar100-complete")
    assert complete.name == "cifar100-complete" and complete.digest == first.digest
    assert complete is data.load("cifar100-complete")


def test_a_lossy_copy_and_a_subset_are_called_so_and_stay_as_they_are(folder, monkeypatch):
    arrays = tiny(monkeypatch)
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


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("name", ["mnist", "fmnist"])
def test_idx_folders_of_torchvision(folder, monkeypatch, name, packed):
    arrays = tiny(monkeypatch, name)
    where = catalogue.SPECS[name].folder
    put(folder / where, idx_files(arrays, packed=packed))
    loaded = data.load(name)
    for key, values in arrays.items():
        np.testing.assert_array_equal(getattr(loaded, key), values)
    # however it is packed, one digest
    assert loaded.canonical and loaded.digest == catalogue.SPECS[name].contents
    (folder / where / f"t10k-labels-idx1-ubyte{'.gz' * packed}").unlink()
    with pytest.raises(data.DataCorruptError, match=f"{where} .*lacks t10k-labels-idx1-ubyte"):
        data.load(name)


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (b"\x00\x00\x0d\x01\x00\x00\x00\x00", "starts with 00000d01"),
        (b"\x00\x00\x08\x03\x00", "lengths"),
        (b"\x00\x00\x08\x01\x00\x00\x00\x02a", r"holds 1 values; its head promises shape \(2,\)"),
        (b"", "starts with"),
    ],
)
def test_idx_heads(tmp_path, raw, message):
    put(tmp_path, {"a": raw})
    with pytest.raises(ValueError, match=message):
        files.read_idx(tmp_path / "a")


@pytest.mark.parametrize("name", ["cifar10", "cifar100"])
def test_batches_of_torchvision(folder, monkeypatch, name):
    arrays = tiny(monkeypatch, name)
    put(folder / catalogue.SPECS[name].folder, batches(arrays))
    found = data.load(name)
    assert found.canonical and found.source == str(folder / catalogue.SPECS[name].folder)
    write(folder / f"{name}.npz", arrays)  # the same as npz: the same draws
    same = data.load(name)
    for key in arrays:
        np.testing.assert_array_equal(getattr(found, key), getattr(same, key))
    assert same.digest == found.digest == data.load(f"{name}-complete").digest


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
    put(tmp_path, {f"data_batch_{k}": batch for k in range(1, 6)} | {"test_batch": batch})
    arrays = files.read_batches(tmp_path, coarse=False)
    assert arrays["y_test"].tolist() == [7, 2] and len(arrays["y_train"]) == 10
    assert rows_of(arrays["x_test"]).tobytes() == raw
    # pixel (5, 7) of the second picture: the red, green and blue planes of 1024 bytes
    assert arrays["x_test"][1, 5, 7].tolist() == [x[1, p * 1024 + 5 * 32 + 7] for p in range(3)]


LABELS = {b"fine_labels": [0] * 4, b"coarse_labels": [0] * 4}


@pytest.mark.parametrize(
    "what",
    [
        lambda folder: Bomb(os.mkdir, str(folder / "exploded")),
        lambda folder: LABELS | {b"data": Bomb(eval, "1")},
        lambda folder: LABELS | {b"data": np.zeros((4, 3072))},
        lambda folder: LABELS | {b"data": np.zeros((4, 3072), object)},
        lambda folder: LABELS | {b"data": np.zeros((3, 3072), np.uint8)},
        lambda folder: LABELS | {b"data": np.zeros((4, 3071), np.uint8)},
        lambda folder: {b"data": np.zeros((4, 3072), np.uint8)},
        lambda folder: [],
    ],
)
def test_a_pickle_calls_nothing_and_must_be_a_batch(folder, what):
    place = put(folder / "cifar-100-python", batches(small(shape=(32, 32, 3), n_classes=100)))
    for content in (pickle.dumps(what(folder), 4), b"", b"\x80", b"(((((("):
        put(place, {"train": content})
        with pytest.raises(data.DataCorruptError, match=r"cifar-100-python .*train is no batch"):
            data.load("cifar100")
    assert not (folder / "exploded").exists()


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
