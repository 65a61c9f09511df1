"""What you may bring to a run, and how it is built.

A server rule keeps something between rounds, so that every run needs one of its own. That is why a
run asks for a class or a function that makes it, and refuses a finished object.

=======  ===========================  =========================
keyword  class, built as              function, called as
=======  ===========================  =========================
server   cls()                        f(config, shares)
model    cls(input_shape, n_classes)  f(input_shape, n_classes)
=======  ===========================  =========================

`shares` (n_clients,) are the clients' parts of all stored samples; they sum to 1. A model may also
be a finished `torch.nn.Module`, whose weights are not used.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from torch import nn

    from sflkit.federated import ServerRule


def build_server(server: Callable, config: Any, shares: np.ndarray) -> ServerRule:
    """Return the server rule that the class or function `server` makes.

    Parameters
    ----------
    server : class or function
        See the table above.
    config : OSAFLConfig
    shares : array (n_clients,)

    Raises
    ------
    ValueError
        If `server` is an object or cannot be called as the table says, or makes no server rule.
    """
    is_class = inspect.isclass(server)
    if not callable(server) or (not is_class and hasattr(server, "local_options")):
        raise ValueError(
            f"server={server!r} is an object, which would carry what it keeps from one run to the "
            "next; pass its class, built as cls(), or a function (config, shares) -> rule"
        )
    arguments = {} if is_class else {"config": config, "shares": shares}
    rule = _make("server", server, arguments, "a function (config, shares) -> rule")
    if not callable(rule) or not callable(getattr(rule, "local_options", None)):
        raise ValueError(
            f"server={_name(server)} made {rule!r}, which is no server rule; derive yours from "
            "sflkit.federated.FedAvg"
        )
    return rule


def build_model(
    model: nn.Module | Callable, input_shape: tuple[int, ...], n_classes: int
) -> nn.Module:
    """Return the network: `model` itself, or what the class or function `model` makes.

    Raises
    ------
    ValueError
        If `model` is no module and cannot be called as the table says, or makes no module.
    """
    from torch import nn

    if isinstance(model, nn.Module):
        return model
    way_out = "a module, or a function (input_shape, n_classes) -> module"
    if not callable(model):
        raise ValueError(f"model={model!r} is no network; pass {way_out}")
    made = _make("model", model, {"input_shape": input_shape, "n_classes": n_classes}, way_out)
    if not isinstance(made, nn.Module):
        raise ValueError(f"model={_name(model)} made {made!r}, which is no torch.nn.Module")
    return made


def _make(keyword: str, maker: Callable, arguments: dict[str, Any], way_out: str) -> Any:
    """Return maker(*arguments); ValueError if it does not take so many."""
    try:
        inspect.signature(maker).bind(*arguments.values())
    except TypeError as error:
        raise ValueError(
            f"{keyword}={_name(maker)} cannot be called with ({', '.join(arguments)}): {error}; "
            f"pass {way_out}"
        ) from None
    return maker(*arguments.values())


def _name(thing: Any) -> str:
    return getattr(thing, "__name__", repr(thing))
