"""Pre-trained convolution weights from a file of the user's own, put into a flat parameter vector.

FATS, Section 6.1.2, starts its VGG16 from ImageNet weights. `Task.init` draws every parameter
afresh and reads no weights from the model it was made of, so that a seed says all; pre-trained
weights therefore come afterwards and visibly:

    task = Task(models.create("vgg16", input_shape=(3, 32, 32), n_classes=10))
    w = pretrained.load(task, task.init(seed=0), "vgg16.npz")      # the classifier (and GroupNorm) stays as drawn

The file is written once, with torchvision:

    net = torchvision.models.vgg16(weights="IMAGENET1K_V1")
    numpy.savez("vgg16.npz", **{name: value.numpy() for name, value in net.state_dict().items()})

| code   | shape              | meaning                                                                         |
|--------|--------------------|---------------------------------------------------------------------------------|
| params | (P,)               | flat parameters of the task, in the order of `model.parameters()`                |
| path   |                    | .npz or .safetensors file with features.N.weight, features.N.bias as torchvision |

Neither form can run code when read, unlike a pickle.
"""

from __future__ import annotations

import json
import os
import re
import zipfile
import zlib
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from sflkit import checks

_CONVOLUTION = re.compile(r"features\.\d+\.(weight|bias)")


_DTYPES = {"F64": torch.float64, "F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16}


def load(task, params: Tensor, path: str | os.PathLike) -> Tensor:
    """Return a copy of `params` in which every convolution has the file's weights and biases (FATS,
    Section 6.1.2).

    Parameters
    ----------
    task : federated.Task of a model with parameters named features.N.weight and features.N.bias, as "vgg16".
    params : (P,) float32, usually `task.init(seed)`; all that the file need not have (classifier, GroupNorm) stays.
    path : .npz, or .safetensors; other arrays in it (the classifier of 1000 classes) are not read.

    Returns
    -------
    (P,) float32 tensor.

    Raises
    ------
    ValueError
        A model without such names, params of another shape, a damaged file or one of another form;
        an array that is missing, of another shape than the model's, or not of finite floating-point
        numbers.
    FileNotFoundError
        There is no such file.
    """
    if not any(map(_CONVOLUTION.fullmatch, task.names)):
        raise ValueError(
            "the model has no parameters named features.N.weight; pre-trained weights are for 'vgg16'"
        )
    out = torch.as_tensor(params).detach().to(torch.float32, copy=True)
    if out.shape != (task.n_params,):
        raise ValueError(f"params has shape {tuple(out.shape)}; it must be ({task.n_params},)")
    path = Path(path)
    readers = {".npz": _npz, ".safetensors": _safetensors}
    if path.suffix not in readers:
        raise ValueError(f"path={str(path)!r} must end in .npz or .safetensors")
    wanted = {name for name in task.names if _CONVOLUTION.fullmatch(name)}
    try:
        arrays = readers[path.suffix](path, wanted)
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
    for name, view, shape in zip(task.names, out.split(task.sizes), task.shapes, strict=True):
        if name not in wanted:
            continue
        if name not in arrays:
            raise ValueError(
                f"{path} has no {name}; it must hold features.N.weight and features.N.bias of torchvision's vgg16 "
                "(not vgg16_bn, which numbers its layers otherwise)"
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
        view.copy_(value.flatten())
    return out


def _npz(path: Path, wanted: set[str]) -> dict[str, Tensor]:
    with np.load(path, allow_pickle=False) as file:
        return {name: torch.as_tensor(file[name]) for name in wanted.intersection(file.files)}


def _safetensors(path: Path, wanted: set[str]) -> dict[str, Tensor]:
    """Read the form by hand: 8 bytes little-endian n, n bytes of JSON {name: dtype, shape,
    data_offsets}, the numbers.
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
        out[name] = torch.frombuffer(bytearray(data[first:last]), dtype=dtype).reshape(
            entry["shape"]
        )
    return out
