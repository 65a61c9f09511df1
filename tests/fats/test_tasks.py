"""Networks of one's own in the experiments: as a network, a class, or a function."""

from dataclasses import replace

import numpy as np
import pytest
from torch import nn

from sflkit import models
from sflkit.fats import membership, training
from sflkit.fats.config import MembershipConfig
from tests.fats.fats_cases import TINY_RUN, federation


class Net(nn.Sequential):
    """A linear model, made from what an experiment hands to a class."""

    def __init__(self, input_shape, n_classes):
        super().__init__(nn.Flatten(), nn.Linear(int(np.prod(input_shape)), n_classes))


def net(input_shape, n_classes):
    return models.create("linear", input_shape=input_shape, n_classes=n_classes)


@pytest.mark.parametrize("own", [Net, net, net((4,), 3)], ids=["class", "function", "network"])
def test_networks_of_ones_own(own):
    made = federation()
    frame = training.run(TINY_RUN, data=made, model=own)
    named = training.run(TINY_RUN, data=made)
    shown = [name for name in frame if name != "unlearning_seconds"]
    assert frame[shown].equals(named[shown])


def test_a_network_of_ones_own_is_attacked():
    made = federation(n_clients=8, each=9)
    config = MembershipConfig(
        data="digits",
        model="mlp",
        batch_size=3,
        clients_per_round=2,
        local_steps=2,
        rounds=3,
        rate=0.1,
        n_shadows=1,
        repeats=5,
    )
    own = membership.run(config, data=made, model=net)
    assert own.equals(membership.run(replace(config, model="linear"), data=made))


@pytest.mark.parametrize(
    ("own", "message"),
    [
        ("cnn", r"model='cnn' must be a torch\.nn\.Module, or a class or function"),
        (nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3)), "the model has buffers"),
    ],
)
def test_what_is_no_network_is_refused(own, message):
    with pytest.raises(ValueError, match=message):
        training.run(TINY_RUN, data=federation(), model=own)
