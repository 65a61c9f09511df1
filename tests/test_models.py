"""Sizes of the networks counted by hand, shapes, what they must not contain, and bad input."""

import pytest
import torch
from torch import nn

from sflkit import models
from sflkit.engine import Task, evaluate, local_sgd


def count(model):
    return sum(p.numel() for p in model.parameters())


@pytest.mark.parametrize(("name", "shape", "classes", "options", "parameters"), [
    # conv 6*(25+1), conv 16*(6*25+1), dense 400*120+120 (28 -> 28 -> 14 -> 10 -> 5), 120*84+84, 84*10+10
    ("lenet", (1, 28, 28), 10, {}, 156 + 2416 + 48120 + 10164 + 850),
    ("lenet", (1, 39, 39), 10, {}, 156 + 2416 + (16 * 6 * 6 * 120 + 120) + 10164 + 850),  # 39 -> 35 -> 17 -> 13 -> 6
    ("lenet", (1, 32, 32), 10, {}, 61706),  # the original's count, without padding
    ("small_cnn", (1, 28, 28), 10, {}, 1663370),  # as McMahan et al. state
    ("linear", (20,), 2, {}, 42),
    ("mlp", (3168,), 100, {}, 3168 * 512 + 512 + 512 * 256 + 256 + 256 * 100 + 100),
    ("mlp", (2, 3), 4, {"hidden": ()}, 6 * 4 + 4),
    ("mobilenetv2", (3, 32, 32), 1000, {}, 3504872),  # torchvision's MobileNetV2: GroupNorm has as many weights as batch norm
    ("mobilenetv2", (3, 32, 32), 20, {}, 3504872 - 980 * 1281),
])
def test_parameter_counts(name, shape, classes, options, parameters):
    model = models.create(name, input_shape=shape, n_classes=classes, **options)
    assert count(model) == parameters
    assert model(torch.zeros(2, *shape)).shape == (2, classes)


@pytest.mark.parametrize("name", models.NAMES)
def test_every_model_fits_a_task_and_learns(name):
    options = {"width": 0.25} if name == "mobilenetv2" else {}
    task = Task(models.create(name, input_shape=(1, 28, 28), n_classes=3, **options))
    g = torch.Generator().manual_seed(0)
    y = torch.arange(6) % 3
    x = torch.randn(3, 1, 28, 28, generator=g)[y] + 0.1 * torch.randn(6, 1, 28, 28, generator=g)
    w = task.init(0)
    trained = local_sgd(task, w, [[(x, y)] * 30], 0.1)[0]
    assert evaluate(task, trained, x, y).loss < 0.8 * evaluate(task, w, x, y).loss


def test_mobilenet_strides_and_norms():
    model = models.create("mobilenetv2", input_shape=(3, 32, 32), n_classes=20)
    sides = []
    for i, module in enumerate(model):
        if i == 0 or isinstance(module, models.images.InvertedResidual):
            module.register_forward_hook(lambda _m, _i, out: sides.append(out.shape[-1]))
    model(torch.zeros(1, 3, 32, 32))
    # stem; 1 block at 32; 2 at stride 1; 3 and 4 at stride 2 each; 3 at stride 1; 3 at stride 2; 1
    assert sides == [32] + [32] + [32] * 2 + [16] * 3 + [8] * 4 + [8] * 3 + [4] * 3 + [4]
    norms = [m for m in model.modules() if isinstance(m, nn.GroupNorm)]
    assert len(norms) == 52 and all(m.num_channels == 8 * m.num_groups for m in norms)  # 1 + 2 + 16 * 3 + 1
    assert not list(model.buffers())


def test_mobilenet_width_shrinks():
    sizes = [count(models.create("mobilenetv2", input_shape=(1, 28, 28), n_classes=5, width=w)) for w in (0.25, 0.5, 1.0)]
    assert sizes == sorted(sizes) and sizes[0] < 200_000


@pytest.mark.parametrize(("kwargs", "message"), [
    (dict(name="resnet", input_shape=(1, 28, 28), n_classes=2), "name='resnet' must be one of 'lenet'"),
    (dict(name="lenet", input_shape=(28, 28), n_classes=2), r"input_shape=\(28, 28\) must be \(channels, height, width\)"),
    (dict(name="lenet", input_shape=(1, 8, 8), n_classes=2), "at least 12"),
    (dict(name="small_cnn", input_shape=(1, 3, 8), n_classes=2), "at least 4"),
    (dict(name="linear", input_shape=(0,), n_classes=2), "input_shape entry=0"),
    (dict(name="linear", input_shape=(), n_classes=2), "at least one axis"),
    (dict(name="linear", input_shape=5, n_classes=2), "input_shape=5 must be a tuple"),
    (dict(name="linear", input_shape=(5,), n_classes=0), "n_classes=0"),
    (dict(name="linear", input_shape=(5,), n_classes=2, width=2), r"width=2 is no option of model 'linear'; .* \[\]"),
    (dict(name="mlp", input_shape=(5,), n_classes=2, hidden=(4, -1)), "hidden=-1"),
    (dict(name="mlp", input_shape=(5,), n_classes=2, hidden=4), "hidden=4 must be a tuple"),
    (dict(name="mobilenetv2", input_shape=(3, 32, 32), n_classes=2, width=0), "width=0"),
    (dict(name="mobilenetv2", input_shape=(3, 32, 32), n_classes=2, width=float("nan")), "width=nan"),
])
def test_bad_input(kwargs, message):
    with pytest.raises(ValueError, match=message):
        models.create(**kwargs)


def test_lenet_takes_the_smallest_images_it_names():
    assert models.create("lenet", input_shape=(1, 12, 12), n_classes=2)(torch.zeros(1, 1, 12, 12)).shape == (1, 2)
