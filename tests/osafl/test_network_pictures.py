"""Drawings of networks: every block once, with its shape and its parameters."""

import torch

from companion.notebooks import network_pictures
from sflkit import models
from sflkit.osafl.networks import SIZES


def test_layers_of_a_network_by_hand():
    cnn = models.create("osafl_cnn", input_shape=(3168,), n_classes=100, channels=(4,), hidden=8)
    # 3 x 3 x 3 x 4 + 4; pooled to 4 x 16 x 16 = 1024, with 96 side features 1120 x 8 + 8; 8 x 100 +
    # 100
    assert network_pictures.layers(cnn, torch.zeros(1, 3168)) == [
        ("Convolution 3x3", "4 x 32 x 32", 112),
        ("MaxPool", "4 x 16 x 16", 0),
        ("Dense", "8", 8968),
        ("Dense", "100", 900),
    ]
    lstm = models.create(
        "osafl_lstm", input_shape=(10,), n_classes=100, hidden=5, layers=2, embedding=4
    )
    rows = network_pictures.layers(lstm, torch.zeros(1, 10, dtype=torch.int64))
    assert [name for name, *_ in rows] == ["Embedding", "LSTM, 2 layers", "Dense"]
    assert sum(n for *_, n in rows) == sum(p.numel() for p in lstm.parameters())
    assert not any(m._forward_hooks for m in lstm.modules())


def test_fire_modules_are_one_block_each():
    net = models.create("osafl_squeezenet1", input_shape=(3168,), n_classes=100)
    rows = network_pictures.layers(net, torch.zeros(1, 3168))
    assert [name for name, *_ in rows].count("Fire") == 8 and sum(n for *_, n in rows) == 783_396


def test_the_papers_networks_are_drawn_at_our_full_sizes():
    blocks = network_pictures.blocks_of(("FCN", "LSTM"))
    for name, rows in blocks.items():
        assert sum(row.parameters for row in rows) == SIZES[name].parameters
        assert rows[-1].shape == "100"
    fig = network_pictures.side_by_side(blocks, "numbers")
    assert [ax.get_title() for ax in fig.axes] == [
        "FCN: 1.78 million parameters",
        "LSTM: 1.32 million parameters",
    ]
    # one scale: an axes has room for as many boxes as the longest network
    assert len({ax.get_ylim() for ax in fig.axes}) == 1
