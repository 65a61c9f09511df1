"""The task that an experiment trains: a network of the papers by name, or one of the user's own.

torch is imported when a task is made, so that the experiments without training do not need it.
"""

from __future__ import annotations

import inspect
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
        Your own network in place of the named one; a class or function is called with
        (input_shape, n_classes) and returns the network.
    **options
        Of the named network, as in `models.create`.

    Raises
    ------
    ValueError
        If `model` is or returns anything else, or `models.create` or `Task` refuses the network.
    """
    from torch import nn

    from sflkit import federated, models

    shape, n_classes = federation.input_shape, federation.n_classes
    if model is None:
        model = models.create(name, input_shape=shape, n_classes=n_classes, **options)
    elif not isinstance(model, nn.Module):
        try:
            inspect.signature(model).bind(shape, n_classes)
        except TypeError as error:
            raise ValueError(
                f"model={model!r} must be a torch.nn.Module, or a class or function (input_shape, "
                f"n_classes) that returns one ({error}); a network of the papers is chosen by the "
                "config's model"
            ) from None
        made = model(shape, n_classes)
        if not isinstance(made, nn.Module):
            raise ValueError(
                f"model={model!r} returned {made!r} for input_shape={shape}, "
                f"n_classes={n_classes}; it must return a torch.nn.Module"
            )
        model = made
    return federated.Task(model)
