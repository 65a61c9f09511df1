"""The layers of a drawn network: every block once, with its shape and its parameters."""

import torch

from companion.notebooks import network_pictures
from sflkit import models


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
