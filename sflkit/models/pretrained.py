"""Pre-trained convolution weights from a file of the user's own, put into a flat parameter vector.

FATS, Section 6.1.2, starts its VGG16 from ImageNet weights. `Task.init` draws every parameter
afresh and reads no weights from the model that it was made of, so that a seed says all. Pre-trained
weights therefore come afterwards, where a reader sees them:

    task = Task(models.create("vgg16", input_shape=(3, 32, 32), n_classes=10))
    w = pretrained.load(task, task.init(seed=0), "vgg16.npz")

The classifier and GroupNorm stay as drawn: the classifier has other classes, and the original has
no normalisation. With GroupNorm behind each convolution (our deviation, see `images.vgg16`) the
network does not compute what the pre-trained one did, and training has to adapt the scales; with
norm="none" the convolutions do compute the same.

The file is written once, with torchvision:

    net = torchvision.models.vgg16(weights="IMAGENET1K_V1")
    arrays = {name: value.numpy() for name, value in net.state_dict().items()}
    numpy.savez("vgg16.npz", **arrays)

| code   | shape | meaning                                                                    |
|--------|-------|----------------------------------------------------------------------------|
| params | (P,)  | flat parameters of the task, in the order of `model.parameters()`          |
| path   |       | .npz or .safetensors, with features.N.weight and .bias as torchvision's    |

Neither form can run code when it is read, unlike a pickle.
"""

from __future__ import annotations

import json
import os
import re
import zipfile
import zlib
from pathlib import Path
from typing import Protocol

import torch
from torch import Tensor

from sflkit import checks, npzfiles

_CONVOLUTION = re.compile(r"features\.\d+\.(weight|bias)")
_DTYPES = {"F64": torch.float64, "F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16}


class Layout(Protocol):
    """What `load` asks of a task: where each parameter lies in the flat vector.

    `sflkit.federated.Task` has it. Lengths of the three sequences are equal.
    """

    names: tuple[str, ...]
    shapes: tuple[torch.Size, ...]
    sizes: tuple[int, ...]
    n_params: int


def load(task: Layout, params: Tensor, path: str | os.PathLike) -> Tensor:
    """Return a copy of `params` in which every convolution has the file's weights and biases.

    Parameters
    ----------
    task : federated.Task
        Of a model with parameters named features.N.weight and features.N.bias, such as "vgg16".
    params : tensor (P,)
        Usually `task.init(seed)`. What is no convolution (the classifier, GroupNorm) stays.
    path : path
        A file .npz or .safetensors. Other arrays in it, such as a classifier of 1000 classes, are
        not read.

    Returns
    -------
    Tensor (P,) of float32.

    Raises
    ------
    ValueError
        If the model has no such names, `params` has another shape, the file is damaged or of
        another form, or an array is missing, of another shape than the model's, or not of finite
        floating-point numbers.
    FileNotFoundError
        If there is no such file.
    """
    wanted = {name for name in task.names if _CONVOLUTION.fullmatch(name)}
    if not wanted:
        raise ValueError(
            "the model has no parameters named features.N.weight; "
            "pre-trained weights are for 'vgg16'"
        )
    out = torch.as_tensor(params).detach().to(torch.float32, copy=True)
    if out.shape != (task.n_params,):
        raise ValueError(f"params has shape {tuple(out.shape)}; it must be ({task.n_params},)")
    arrays = _read(Path(path), wanted)
    for name, view, shape in zip(task.names, out.split(task.sizes), task.shapes, strict=True):
        if name in wanted:
            view.copy_(_fitting(arrays, name, shape, path).flatten())
    return out


def _read(path: Path, wanted: set[str]) -> dict[str, Tensor]:
    """Return those of the `wanted` arrays that the file has."""
    readers = {".npz": _npz, ".safetensors": _safetensors}
    if path.suffix not in readers:
        raise ValueError(f"path={str(path)!r} must end in .npz or .safetensors")
    try:
        return readers[path.suffix](path, wanted)
    except (
        ValueError,
        KeyError,
        TypeError,
        EOFError,
        RuntimeError,
        zipfile.BadZipFile,
        zlib.error,
    ) as error:
        raise ValueError(f"{path} is no readable {path.suffix} file of numbers: {error}") from error


def _fitting(
    arrays: dict[str, Tensor], name: str, shape: torch.Size, path: str | os.PathLike
) -> Tensor:
    """Return the array `name` of a file, or raise ValueError unless it fits the model."""
    if name not in arrays:
        raise ValueError(
            f"{path} has no {name}; it must hold features.N.weight and features.N.bias of "
            "torchvision's vgg16 (not vgg16_bn, which numbers its layers otherwise)"
        )
    value = arrays[name]
    if (
        value.shape != shape
        or not value.is_floating_point()
        or not torch.isfinite(value.float()).all()
    ):
        raise ValueError(
            f"{path}: {name} has shape {tuple(value.shape)} and dtype {value.dtype}; it must hold "
            f"floating-point numbers, finite in float32, of shape {tuple(shape)}"
        )
    return value


def _npz(path: Path, wanted: set[str]) -> dict[str, Tensor]:
    arrays = npzfiles.read_npz(path, names=wanted, largest=2**30)
    return {name: torch.as_tensor(values) for name, values in arrays.items()}


def _safetensors(path: Path, wanted: set[str]) -> dict[str, Tensor]:
    """Read the form by hand, since it is short and the library that reads it is not needed else.

    First come 8 bytes, a little-endian n; then n bytes of JSON, which give dtype, shape and
    data_offsets of every name; then the numbers.
    """
    data = path.read_bytes()
    start = 8 + int.from_bytes(data[:8], "little")
    if len(data) < max(8, start):
        raise ValueError(f"it has {len(data)} bytes and its header ends at {start}")
    out = {}
    header = json.loads(data[8:start])
    for name in wanted.intersection(header):
        entry = header[name]
        first, last = (
            start + checks.integer("data_offsets", offset, 0, len(data) - start)
            for offset in entry["data_offsets"]
        )
        dtype = _DTYPES[checks.choice(f"dtype of {name}", entry["dtype"], _DTYPES)]
        values = torch.frombuffer(bytearray(data[first:last]), dtype=dtype)
        out[name] = values.reshape(entry["shape"])
    return out
