"""Sizes of the networks counted by hand, shapes, what they must not contain, and bad input."""

import copy

import numpy as np
import pytest
import torch
from torch import nn

from sflkit import models
from sflkit.federated import Task, evaluate, local_sgd
from sflkit.registry import Rule


def count(model):
    return sum(p.numel() for p in model.parameters())


@pytest.mark.parametrize(
    ("name", "shape", "classes", "options", "parameters"),
    [
        # conv 6*(25+1), conv 16*(6*25+1), dense 400*120+120 (28 -> 28 -> 14 -> 10 -> 5), 120*84+84,
        # 84*10+10
        ("lenet", (1, 28, 28), 10, {}, 156 + 2416 + 48120 + 10164 + 850),
        # 39 -> 35 -> 17 -> 13 -> 6
        ("lenet", (1, 39, 39), 10, {}, 156 + 2416 + (16 * 6 * 6 * 120 + 120) + 10164 + 850),
        ("lenet", (1, 32, 32), 10, {}, 61706),  # the original's count, without padding
        ("small_cnn", (1, 28, 28), 10, {}, 1663370),  # as McMahan et al. state
        # conv 32*(3*25+1), conv 64*(32*25+1), dense 1600*2048+2048 (32 -> 28 -> 14 -> 10 -> 5),
        # 2048*C+C: FDS, Table 3
        ("cnn", (3, 32, 32), 10, {"padding": 0, "hidden": 2048}, 3353034),
        ("cnn", (3, 32, 32), 100, {"padding": 0, "hidden": 2048}, 3537444),
        ("cnn", (1, 28, 28), 10, {}, 1663370),  # FATS
        (
            "cnn",
            (1, 13, 11),  # 13 -> 11 -> 5 -> 3 -> 1, 11 -> 9 -> 4 -> 2 -> 1
            3,
            {"padding": 1, "hidden": 7, "channels": (4, 5)},
            4 * 26 + 5 * 101 + 5 * 7 + 7 + 7 * 3 + 3,
        ),
        # 3x3 convolutions 64*(27+1), 64*577, 128*577, 128*1153, 256*(1153+2305+2305),
        # 512*(2305+4609*5); GroupNorm 2*4224; 513*C
        ("vgg16", (3, 32, 32), 10, {}, 14714688 + 8448 + 5130),
        ("vgg16", (3, 32, 32), 100, {}, 14714688 + 8448 + 51300),
        ("linear", (20,), 1, {}, 21),  # FDS, Table 3
        ("linear", (20,), 2, {}, 42),
        ("mlp", (28, 28), 62, {"hidden": (1024,)}, 867390),  # FDS, Table 3: 785*1024 + 1025*62
        ("mlp", (3168,), 100, {}, 3168 * 512 + 512 + 512 * 256 + 256 + 256 * 100 + 100),
        ("mlp", (2, 3), 4, {"hidden": ()}, 6 * 4 + 4),
        # torchvision's MobileNetV2: GroupNorm has as many weights as batch norm
        ("mobilenetv2", (3, 32, 32), 1000, {}, 3504872),
        ("mobilenetv2", (3, 32, 32), 20, {}, 3504872 - 980 * 1281),
    ],
)
def test_parameter_counts(name, shape, classes, options, parameters):
    model = models.create(name, input_shape=shape, n_classes=classes, **options)
    assert count(model) == parameters
    assert model(torch.zeros(2, *shape)).shape == (2, classes)


# embedding 8*V, layers g*((8 + 256)*256 + 2*256) and g*(512*256 + 2*256) with g gates, output
# 257*C; FDS, Table 3 has 226 180
@pytest.mark.parametrize(
    ("cell", "symbols", "parameters"),
    [
        ("rnn", 100, 800 + 68096 + 131584 + 25700),
        ("rnn", 100, 226180),
        # the "stacked-LSTM" of FDS, Table 1: not Table 3's number (ERRATA 60)
        ("lstm", 100, 825220),
        ("lstm", 80, 640 + 4 * (68096 + 131584) + 20560),  # LEAF, FATS
        ("gru", 100, 800 + 3 * (68096 + 131584) + 25700),
    ],
)
def test_char_rnn_parameter_counts(cell, symbols, parameters):
    model = models.create(
        "char_rnn", input_shape=(80,), n_classes=symbols, vocabulary=symbols, cell=cell
    )
    assert count(model) == parameters
    assert model(torch.zeros(2, 80, dtype=torch.int64)).shape == (2, symbols)


def test_a_network_of_ones_own_is_one_row(monkeypatch):
    monkeypatch.setattr(models, "NETWORKS", copy.deepcopy(models.NETWORKS))

    def build(input_shape, n_classes, hidden=4):
        return nn.Sequential(
            nn.Linear(input_shape[0], hidden), nn.Tanh(), nn.Linear(hidden, n_classes)
        )

    models.NETWORKS.add("my_net", Rule(build, "My network"))
    mine = models.create("my_net", input_shape=(3,), n_classes=2, hidden=5)
    assert count(mine) == 4 * 5 + 6 * 2
    with pytest.raises(ValueError, match=r"width=2 is no option of model 'my_net'; .*\['hidden'\]"):
        models.create("my_net", input_shape=(3,), n_classes=2, width=2)


@pytest.mark.parametrize(
    ("name", "options"),
    [*(("char_rnn", {"cell": cell}) for cell in ("rnn", "lstm", "gru")), ("char_mlp", {})],
)
def test_text_model_step_is_torch_autograd(name, options):
    model = models.create(name, input_shape=(10,), n_classes=7, vocabulary=7, hidden=12, **options)
    task = Task(model)
    g = torch.Generator().manual_seed(1)
    x, y = torch.randint(0, 7, (8, 10), generator=g), torch.randint(0, 7, (8,), generator=g)
    w = task.init(3)
    nn.utils.vector_to_parameters(w.clone(), model.parameters())
    loss = nn.functional.cross_entropy(model(x), y)
    gradient = torch.cat([v.flatten() for v in torch.autograd.grad(loss, list(model.parameters()))])
    new = local_sgd(task, w, [[(x, y)]], 0.5, backend="pool")[0]
    torch.testing.assert_close(new, w - 0.5 * gradient, rtol=0, atol=1e-6)
    assert evaluate(task, w, x, y).loss == pytest.approx(float(loss.detach()), abs=1e-6)
    # what numpy holds, of several clients and odd batch sizes, goes the same way
    parts = [[(x[:3].numpy(), y[:3].numpy())], [(x[3:].numpy(), y[3:].numpy())]]
    both = local_sgd(task, w, parts, 0.5)
    torch.testing.assert_close(
        both, torch.stack([local_sgd(task, w, [p], 0.5)[0] for p in parts]), rtol=0, atol=1e-6
    )
    # One step each, weighted by samples, is a step of the mean.
    mean = (both * torch.tensor([[3 / 8], [5 / 8]])).sum(0)
    torch.testing.assert_close(mean, new, rtol=0, atol=1e-6)


def test_char_rnn_by_hand():
    # One unit, tanh, one layer, embedding e = (0.5, -1): h_1 = tanh(0.5 u), h_2 = tanh(-u + v h_1),
    # logits (h_2, 2 h_2 + 1).
    model = models.create(
        "char_rnn", input_shape=(2,), n_classes=2, vocabulary=2, embedding=1, hidden=1, layers=1
    )
    u, v = 0.3, 0.7
    # The embedding, u, v, the two biases, the output's weights, its biases.
    parts = [[0.5, -1.0], [u], [v], [0.0, 0.0], [1.0, 2.0], [0.0, 1.0]]
    nn.utils.vector_to_parameters(
        torch.tensor(np.concatenate(parts), dtype=torch.float32), model.parameters()
    )
    h = np.tanh(-u + v * np.tanh(0.5 * u))
    np.testing.assert_allclose(
        model(torch.tensor([[0, 1]])).detach(), [[h, 2 * h + 1]], rtol=0, atol=1e-6
    )


def test_char_mlp_by_hand():
    # Embedding e = (0.5, -1), the last two of three characters 1, 0, 1, so that the first is not
    # seen; units relu(2 e_0 - e_1 + 0.25) = 2.25 and relu(-e_0 + e_1) = 0, logits (h, 2 h + 1).
    model = models.create(
        "char_mlp", input_shape=(3,), n_classes=2, vocabulary=2, embedding=1, context=2, hidden=2
    )
    # The embedding, the units' weights and biases, the output's weights and biases.
    parts = [[0.5, -1.0], [2.0, -1.0, -1.0, 1.0], [0.25, 0.0], [1.0, 5.0, 2.0, 5.0], [0.0, 1.0]]
    nn.utils.vector_to_parameters(
        torch.tensor(np.concatenate(parts), dtype=torch.float32), model.parameters()
    )
    for first in (0, 1):
        logits = model(torch.tensor([[first, 0, 1]])).detach()
        np.testing.assert_allclose(logits, [[2.25, 5.5]], rtol=0, atol=1e-6)


def test_char_mlp_parameter_count():
    # 100 * 8 of the embedding, (8 * 8 + 1) * 128 of the units, (128 + 1) * 100 of the output
    assert count(models.create("char_mlp", input_shape=(80,), n_classes=100)) == 22020


@pytest.mark.parametrize(
    ("tokens", "message"),
    [
        (torch.tensor([[0, 4]]), r"token 4 is out of range; tokens must lie in \[0, 3\]"),
        (torch.tensor([[-1, 0]]), "token -1"),
        (torch.tensor([[0.0, 1.0]]), "dtype torch.float32 must be integers"),
    ],
)
@pytest.mark.parametrize(("name", "options"), [("char_rnn", {}), ("char_mlp", {"context": 2})])
def test_wrong_tokens(name, options, tokens, message):
    task = Task(
        models.create(name, input_shape=(2,), n_classes=4, vocabulary=4, hidden=4, **options)
    )
    w = task.init(0)
    with pytest.raises(ValueError, match=message):
        local_sgd(task, w, [[(tokens, torch.tensor([0]))]], 0.1)
    # A task tries out the first sample of its input at once; the wrong one comes second here.
    rows = torch.cat([torch.zeros_like(tokens), tokens])
    with pytest.raises(ValueError, match=message):
        evaluate(task, w, rows, torch.tensor([0, 0]))


def test_vgg16_layers():
    model = models.create("vgg16", input_shape=(3, 32, 32), n_classes=10)
    kinds = [type(m).__name__ for m in model]
    # the channels of Simonyan & Zisserman 2015, Table 1, column D; M is a pooling
    column = "64 64 M 128 128 M 256 256 256 M 512 512 512 M 512 512 512 M"
    found = []
    for module in model:
        if isinstance(module, nn.Conv2d):
            assert module.kernel_size == (3, 3) and module.padding == (1, 1)
            found.append(str(module.out_channels))
        elif isinstance(module, nn.MaxPool2d):
            found.append("M")
    assert " ".join(found) == column
    assert [kinds.count(name) for name in ("GroupNorm", "ReLU", "Linear")] == [13, 13, 1]
    assert all(m.num_channels == 8 * m.num_groups for m in model if isinstance(m, nn.GroupNorm))
    small = models.create("vgg16", input_shape=(1, 70, 40), n_classes=2, width=0.1)
    assert small(torch.zeros(1, 1, 70, 40)).shape == (1, 2)


def test_vgg16_needs_its_norms_to_pass_a_signal():
    x = torch.randn(8, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    whole = models.create("vgg16", input_shape=(3, 32, 32), n_classes=10)
    bare = nn.Sequential(*(m for m in whole if not isinstance(m, nn.GroupNorm)))
    tasks = (Task(network) for network in (whole, bare))
    spread, without = (task.build(task.init(0))(x).std(0).mean() for task in tasks)
    assert spread > 0.01 and without < 1e-5


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
    assert len(norms) == 1 + 2 + 16 * 3 + 1
    assert all(m.num_channels == 8 * m.num_groups for m in norms)
    assert not list(model.buffers())


def test_mobilenet_width_shrinks():
    sizes = [
        count(models.create("mobilenetv2", input_shape=(1, 28, 28), n_classes=5, width=w))
        for w in (0.25, 0.5, 1.0)
    ]
    assert sizes == sorted(sizes) and sizes[0] < 200_000


@pytest.mark.parametrize(("padding", "side"), [(0, 16), (1, 10), (2, 4)])
def test_cnn_takes_the_smallest_images_it_names(padding, side):
    model = models.create("cnn", input_shape=(1, side, side), n_classes=2, padding=padding)
    assert model(torch.zeros(1, 1, side, side)).shape == (1, 2)


def test_lenet_takes_the_smallest_images_it_names():
    assert models.create("lenet", input_shape=(1, 12, 12), n_classes=2)(
        torch.zeros(1, 1, 12, 12)
    ).shape == (1, 2)
