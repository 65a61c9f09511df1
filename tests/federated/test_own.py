"""Server rules and networks that users bring to a run: built as documented, or refused."""

from functools import partial

import numpy as np
import pytest
import torch
from torch import nn

from sflkit.federated import FedAvg, Scaffold, ServerRule
from sflkit.federated.own import build_each, build_server, maker, network, next_params

SHARES = np.array([0.25, 0.75])


class Small(nn.Sequential):
    def __init__(self, input_shape, n_classes):
        super().__init__(nn.Flatten(), nn.Linear(int(np.prod(input_shape)), n_classes))


class NoRule:
    """It has nothing of a server rule."""


class Named(FedAvg):
    local_options = "prox"  # must be a method


def small(input_shape, n_classes):
    return Small(input_shape, n_classes)


# --- servers ----------------------------------------------------------------------------------


def test_a_class_is_built_without_arguments():
    first, second = (build_server(FedAvg, "config", SHARES) for _ in range(2))
    assert type(first) is type(second) is FedAvg and first is not second


def test_a_function_gets_config_and_shares():
    seen = []

    def make(config, shares):
        seen.append((config, shares))
        return Scaffold(len(shares), shares)

    assert isinstance(build_server(make, "config", SHARES), Scaffold)
    assert seen == [("config", SHARES)]
    with_option = partial(lambda config, shares, rate: FedAvg(rate), rate=0.5)
    assert build_server(with_option, "config", SHARES).global_rate == 0.5


@pytest.mark.parametrize(
    ("server", "message"),
    [
        (FedAvg(0.5), r"server=FedAvg\(.*finished object.*def make\(config, shares\): return Fed"),
        ("fedavg", r"server='fedavg' must be a class, .* or a function \(config, shares"),
        (None, "server=None must be a class"),
        (
            Scaffold,
            r"server=Scaffold cannot be called with \(\): .*'n_clients'. It must be a class",
        ),
        (lambda config: FedAvg(), r"cannot be called with \(config, shares\): too many"),
        (partial(lambda config: FedAvg()), r"server=partial cannot be called with \(config, sh"),
        (NoRule, r"server=NoRule made .* lacks local_options, __call__; see sflkit.*\.ServerRule"),
        (Named, "server=Named made .* which lacks local_options"),
        (list, r"server=list made \[\], which lacks local_options"),
        (lambda config, shares: None, "server=<lambda> made None, which lacks local_options"),
    ],
)
def test_bad_servers(server, message):
    with pytest.raises(ValueError, match=message):
        build_server(server, "config", SHARES)


# --- models -----------------------------------------------------------------------------------


def test_models_by_object_class_and_function():
    built = Small((2, 3), 4)
    assert network(built, "mlp", (5,), 7) is built
    for model in (Small, small, partial(small)):
        made = network(model, "mlp", (2, 3), 4)
        assert isinstance(made, Small) and made[1].weight.shape == (4, 6)


@pytest.mark.parametrize(
    ("model", "message"),
    [
        ("lenet", r"model='lenet' must be a torch\.nn\.Module, or a class or function \(input_sh"),
        (lambda: Small((2,), 3), r"cannot be called with \(input_shape, n_classes\): too many"),
        (nn.Conv2d, r"model=Conv2d cannot be called with .*: missing .*'kernel_size'"),
        (lambda input_shape, n_classes: None, r"made None, which is no torch\.nn\.Module"),
        (lambda input_shape, n_classes: "mlp", "made 'mlp', which is no"),
    ],
)
def test_bad_models(model, message):
    with pytest.raises(ValueError, match=message):
        network(model, "mlp", (2,), 3)


# --- what both stand on -----------------------------------------------------------------------


def test_where_no_class_is_allowed():
    make = partial(maker, "stream", of_class=None, of_function=("config", "n_classes"))
    assert make(small) is small
    with pytest.raises(ValueError, match=r"stream=Small is a class; it must be a function \(conf"):
        make(Small)
    with pytest.raises(ValueError, match=r"stream=7 must be a function \(config, n_classes\) that"):
        make(7)


def test_a_callable_that_does_not_tell_what_it_takes_is_taken_at_its_word():
    assert maker("cache", dict, of_class=("pairs",), of_function=()) is dict


def test_no_object_stands_for_two():
    pool = [FedAvg(), FedAvg()]

    def build(*numbers):
        given = {f"run {k}": ((), (number,)) for k, number in enumerate(numbers)}
        return build_each("server", pool.__getitem__, given, (), ("number",), ServerRule)

    assert build(0, 1) == pool
    message = "server made one FedAvg object for run 0 and run 2; it must make a new one for each"
    with pytest.raises(ValueError, match=message):
        build(0, 1, 0)


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (torch.ones(3, dtype=torch.complex64), "torch.complex64; it must hold real numbers"),
        (torch.ones(3) > 0, "torch.bool; it must hold real numbers"),
        (torch.ones(2), r"has shape \(2,\)"),
        ("model", "='model' must be a tensor or an array of numbers"),
        (None, "=None must be a tensor or an array of numbers"),
    ],
)
def test_what_a_server_rule_may_not_answer(answer, message):
    class Mine(FedAvg):
        def __call__(self, params, updates, weights=None, work=None):
            return answer

    with pytest.raises(ValueError, match=f"what server rule Mine returned.*{message}"):
        next_params(Mine(), torch.zeros(3), torch.ones(2, 3), None, None)
