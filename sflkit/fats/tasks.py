"""The task that an experiment trains: a network of the papers by name, or one of the user's own.

torch is imported when a task is made, so that the experiments without training do not need it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from sflkit.data.federations import Federation

if TYPE_CHECKING:
    from torch import nn

    from sflkit.federated import Task

    # A network, or what makes one: (input_shape, n_classes) -> network.
    Model = nn.Module | Callable[[tuple[int, ...], int], nn.Module]


def make_task(
    name: str, federation: Federation, model: Model | None = None, **options: Any
) -> Task:
    """Return the task of training a network on a federation.

    Parameters
    ----------
    name : str
        A name of `sflkit.models`; not looked at where `model` is given.
    federation : Federation
        Its samples' shape and number of classes are the network's.
    model : torch.nn.Module, or class or function, optional
        Your own network in place of the named one, see `sflkit.federated.own`.
    **options
        Of the named network, as in `models.create`.

    Raises
    ------
    ValueError
        If `model` is not what `sflkit.federated.own` asks for, or `models.create` or `Task` refuses
        the network.
    """
    from sflkit.federated import Task, own

    shape, n_classes = federation.input_shape, federation.n_classes
    return Task(own.network(model, name, shape, n_classes, **options))
