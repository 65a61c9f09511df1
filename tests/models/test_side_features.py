"""OSAFL's networks: sizes counted by hand, where the features go, an independent SqueezeNet, and
bad input.
"""

from itertools import pairwise

import numpy as np
import pytest
import torch
from torch import nn

from sflkit import models
from sflkit.federated import Task
from sflkit.models import side_features
from sflkit.osafl import networks, video

# layer by layer, (weights + bias)
FIRES = sum(
    n * s + s + s * e + e + 9 * s * e + e
    for n, s, e in (
        (64, 16, 64),
        (128, 16, 64),
        (128, 32, 128),
        (256, 32, 128),
        (256, 48, 192),
        (384, 48, 192),
        (384, 64, 256),
        (512, 64, 256),
    )
)
COUNTS = {
    "SqueezeNet1": 64 * (27 + 1) + FIRES + (512 + 96 + 1) * 100,
    "CNN": 32 * (27 + 1) + 64 * (288 + 1) + (64 * 8 * 8 + 96 + 1) * 224 + 225 * 100,
    # four gates with two biases each
    "LSTM": 100 * 128
    + 4 * (128 * 240 + 240 * 240 + 480)
    + 2 * 4 * (2 * 240 * 240 + 480)
    + 241 * 100,
    "FCN": 3169 * 512 + 513 * 256 + 257 * 100,
}


def build(name, n_classes=100):
    size = networks.SIZES[name]
    return models.create(
        size.model, input_shape=size.input_shape, n_classes=n_classes, **size.options
    )


def sample(name, n=3):
    g = torch.Generator().manual_seed(1)
    return (
        torch.randint(0, 100, (n, 10), generator=g)
        if name == "LSTM"
        else torch.randn(n, 3168, generator=g)
    )


@pytest.mark.parametrize("name", networks.SIZES)
def test_sizes_and_payloads(name):
    model = build(name)
    assert (
        sum(p.numel() for p in model.parameters())
        == networks.SIZES[name].parameters
        == COUNTS[name]
    )
    assert networks.SIZES[name].payload_bits == 33 * COUNTS[name]
    assert model(sample(name)).shape == (3, 100) and not list(model.buffers())


def test_payloads_rise_in_the_papers_order():
    assert list(networks.SIZES) == ["SqueezeNet1", "CNN", "LSTM", "FCN"]
    assert all(a.payload_bits < b.payload_bits for a, b in pairwise(networks.SIZES.values()))
    assert (
        64 * 28 + FIRES == 722_496
    )  # SqueezeNet 1.1 without its classifier, 1 235 496 - 513 * 1000


@pytest.mark.parametrize("name", ["SqueezeNet1", "CNN"])
def test_image_and_side_features_go_where_they_belong(name):
    """The maps see the first 3072 numbers as 3 x 32 x 32, the dense layers the maps and then the
    other 96.
    """
    model, x = build(name), sample(name)
    seen = {}
    model.maps.register_forward_hook(lambda _m, args, out: seen.update(image=args[0], maps=out))
    model.head.register_forward_hook(lambda _m, args, out: seen.update(joined=args[0]))
    out = model(x)
    assert torch.equal(seen["image"], x[:, :3072].reshape(3, 3, 32, 32))
    assert seen["maps"].shape == (3, {"SqueezeNet1": 512, "CNN": 4096}[name])
    assert torch.equal(seen["joined"], torch.cat([seen["maps"], x[:, 3072:]], dim=1))
    side = x.clone()
    side[:, -1] += 1
    assert not torch.equal(model(side), out)


def test_features_of_dataset_1_are_in_that_order():
    cat = video.catalogue(rng=np.random.default_rng(0))
    users = video.draw_users(2, 5, np.random.default_rng(1))
    x, _ = video.dataset_1(cat, users, 0, [7, 30])
    assert x.shape == (1, side_features.N_FEATURES)
    assert np.array_equal(
        x[0, :3072].reshape(side_features.IMAGE), cat.features[7].reshape(3, 32, 32)
    )


def test_squeezenet_against_functional_torch():
    """The forward pass written out from Iandola et al. in torch.nn.functional, with the same
    numbers.
    """
    model, x = build("SqueezeNet1", 7), sample("SqueezeNet1", 2)
    f, numbers = nn.functional, iter(list(model.parameters()))

    def conv(x, **options):
        return torch.relu(f.conv2d(x, next(numbers), next(numbers), **options))

    y, sides = conv(x[:, :3072].reshape(2, 3, 32, 32), stride=2), []
    for fires in (2, 2, 4):
        y = f.max_pool2d(y, 3, 2, ceil_mode=True)
        sides.append(y.shape[-1])
        for _ in range(fires):
            y = conv(y)
            y = torch.cat([conv(y), conv(y, padding=1)], dim=1)
    joined = torch.cat([y.mean(dim=(2, 3)), x[:, 3072:]], dim=1)
    torch.testing.assert_close(model(x), joined @ next(numbers).T + next(numbers))
    assert sides == [7, 3, 1] and next(numbers, None) is None


def test_the_signal_survives_squeezenet():
    """He's weights keep the spread of the maps; with torch's default it falls by some 0.4 in each
    of 17 layers.
    """
    task = Task(build("SqueezeNet1"))
    model = task.build(task.init(0))
    maps = model.maps(sample("SqueezeNet1", 16)[:, :3072].reshape(-1, 3, 32, 32))
    assert 0.05 < maps.std(dim=0).mean() < 5


def test_without_side_features_the_last_layer_sees_maps_alone():
    model = models.create("osafl_cnn", input_shape=(3072,), n_classes=2, channels=(2,), hidden=3)
    assert model.head[0].in_features == 2 * 16 * 16 and model(torch.zeros(1, 3072)).shape == (1, 2)
