"""What tests of data share: empty folders, small data sets, and the forms others leave them in."""

from __future__ import annotations

import gzip
import json
import pickle
from pathlib import Path

import numpy as np
import pytest

from sflkit import paths
from sflkit.data.files import IDX


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The folder of $SFLKIT_DATA; `home` beside it stands for data/ of the clone."""
    monkeypatch.setattr(paths, "data", lambda: tmp_path / "home")
    monkeypatch.setenv("SFLKIT_DATA", str(tmp_path / "given"))
    (tmp_path / "given").mkdir()
    return tmp_path / "given"


def small(n_train=20, n_test=10, shape=(28, 28), n_classes=10, seed=0) -> dict[str, np.ndarray]:
    """Return the arrays of a small data set of images; of 100 classes 20 coarse ones."""
    rng = np.random.default_rng(seed)
    arrays = {}
    for part, n in (("train", n_train), ("test", n_test)):
        arrays[f"x_{part}"] = rng.integers(0, 256, (n, *shape), np.uint8)
        arrays[f"y_{part}"] = np.arange(n, dtype=np.uint8) % n_classes
        if n_classes == 100:
            arrays[f"y_{part}_coarse"] = arrays[f"y_{part}"] // 5
    return arrays


def idx(values: np.ndarray) -> bytes:
    """Return the bytes of MNIST's format."""
    head = bytes([0, 0, 8, values.ndim]) + b"".join(n.to_bytes(4, "big") for n in values.shape)
    return head + values.astype(np.uint8).tobytes()


def idx_files(arrays: dict[str, np.ndarray], *, packed: bool = True) -> dict[str, bytes]:
    """Return MNIST's four files, name -> content."""
    found = {name: idx(arrays[key]) for key, name in IDX.items()}
    return {f"{n}.gz": gzip.compress(raw) for n, raw in found.items()} if packed else found


def batches(arrays: dict[str, np.ndarray], protocol: int = 3) -> dict[str, bytes]:
    """Return the files of CIFAR's "python version", CIFAR-100 where there are superclasses."""
    found = {}
    for split in ("train", "test"):
        x = np.array(rows_of(arrays[f"x_{split}"]), order="C" if split == "train" else "F")
        y = arrays[f"y_{split}"].tolist()
        if f"y_{split}_coarse" in arrays:
            coarse = arrays[f"y_{split}_coarse"].tolist()
            found[split] = {b"data": x, b"fine_labels": y, b"coarse_labels": coarse}
        elif split == "test":
            found["test_batch"] = {b"data": x, b"labels": y}
        else:
            for k in range(5):
                cut = slice(k * len(y) // 5, (k + 1) * len(y) // 5)
                found[f"data_batch_{k + 1}"] = {b"data": x[cut], b"labels": y[cut]}
    return {name: pickle.dumps(batch, protocol) for name, batch in found.items()}


def rows_of(x: np.ndarray) -> np.ndarray:
    """Return images as CIFAR's rows, a colour after the other."""
    return x.transpose(0, 3, 1, 2).reshape(len(x), -1)


def put(folder: Path, files: dict[str, bytes]) -> Path:
    """Write files into a folder, which is made."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (folder / name).write_bytes(content)
    return folder


def leaf(folder: Path, users: dict[str, dict], name: str = "all_data_0.json") -> None:
    """Write a json file of LEAF's."""
    sizes = [len(user["y"]) for user in users.values()]
    content = {"users": list(users), "num_samples": sizes, "user_data": users}
    put(folder, {name: json.dumps(content).encode()})
