"""What of your own a run of any paper may take: a server rule and a network.

A server rule keeps something between rounds, so that every run needs one of its own. That is why a
run asks for a class or a function that makes it, and refuses a finished object.

=======  ===========================  =========================
keyword  class, built as              function, called as
=======  ===========================  =========================
server   cls()                        f(config, shares)
model    cls(input_shape, n_classes)  f(input_shape, n_classes)
=======  ===========================  =========================

`shares` (n_clients,) are the clients' weights; the `run` that takes the server says which. A model
may also be a finished `torch.nn.Module`, whose weights are not used.

`build_each` makes whatever else a paper lets its users bring for each client, such as cache rules,
and `next_params` is how every run asks a server for the next model.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from sflkit import checks, models, torch_draws
from sflkit.federated.arrays import numbers_of
from sflkit.federated.servers import LocalWork, ServerRule


def build_server(server: Callable[..., ServerRule], config: Any, shares: np.ndarray) -> ServerRule:
    """Return the server rule that the class or function `server` makes.

    Parameters
    ----------
    server : class or function
        See the table above.
    config : object
        The config of the run, which a function gets.
    shares : array (n_clients,)
        Weights of the clients, which a function gets.

    Raises
    ------
    ValueError
        If `server` is an object or cannot be called as the table says, or makes no server rule.
    """
    given = {"this run": ((), (config, shares))}
    return build_each("server", server, given, (), ("config", "shares"), ServerRule)[0]


def next_params(
    server: ServerRule, params: Tensor, updates: Tensor, weights: Any, work: LocalWork
) -> Tensor:
    """Return the next global parameters by a server rule, as a tensor like `params`.

    Raises
    ------
    ValueError
        If the rule answers with anything else than one number per parameter.
    """
    new, name = server(params, updates, weights, work), type(server).__name__
    name = f"what server rule {name} returned"
    new = numbers_of(name, new)
    if new.is_complex() or new.dtype == torch.bool:  # part of it would be lost without a word
        raise ValueError(f"{name} is {new.dtype}; it must hold real numbers")
    return checks.shape(name, new.to(params), tuple(params.shape))


def local_options(server: ServerRule, work: LocalWork) -> dict[str, Any]:
    """Return what a server rule asks of a round's local steps, as keywords of `local_sgd`.

    Raises
    ------
    ValueError
        If it asks for anything but prox and corrections.
    """
    asked = dict(server.local_options(work))
    unknown = asked.keys() - {"prox", "corrections"}
    if unknown:
        raise ValueError(
            f"local_options of {type(server).__name__} holds {', '.join(sorted(unknown))}; it may "
            "hold prox and corrections"
        )
    return asked


def network(
    model: nn.Module | Callable[..., nn.Module] | None,
    name: str,
    input_shape: tuple[int, ...],
    n_classes: int,
    **options: Any,
) -> nn.Module:
    """Return the network of a run: `model`, what it makes, or the network `name` of the papers.

    Parameters
    ----------
    model : torch.nn.Module, class, function or None
        See the table above.
    name, input_shape, n_classes, options
        See `models.create`; options that are None are left out, so that the network's own values
        stand.

    Raises
    ------
    ValueError
        As `models.create`, or if `model` is no module and cannot be called as the table says, or
        makes no module.
    """
    if model is None:
        given = {option: value for option, value in options.items() if value is not None}
        return models.create(name, input_shape=input_shape, n_classes=n_classes, **given)
    if isinstance(model, nn.Module):
        return model
    if not callable(model):
        raise ValueError(
            f"model={model!r} must be a torch.nn.Module, or a class or function (input_shape, "
            "n_classes) that returns one; a network of the papers is chosen by the config's model"
        )
    arguments = ("input_shape", "n_classes")
    make = maker("model", model, of_class=arguments, of_function=arguments)
    with torch_draws.lock:
        made = make(input_shape, n_classes)
    if not isinstance(made, nn.Module):
        raise ValueError(f"model={name_of(model)} made {made!r}, which is no torch.nn.Module")
    return made


def maker(
    name: str,
    value: Any,
    *,
    of_class: tuple[str, ...] | None,
    of_function: tuple[str, ...],
    finished: bool = False,
) -> Callable[..., Any]:
    """Return `value` if it is a class or a function that takes the given arguments.

    Parameters
    ----------
    name : str
        The keyword that took `value`.
    value : object
    of_class, of_function : tuple of str
        What a class and a function are called with, as the messages say it. `of_class` is None
        where no class is allowed.
    finished : bool
        Whether `value`, unless it is a class, is an object of the kind that it should make.

    Raises
    ------
    ValueError
        If `value` is anything else; the message says what it must be.
    """
    is_class = inspect.isclass(value)
    allowed = f"a function ({', '.join(of_function)}) that makes a new one"
    if of_class is not None:
        allowed = f"a class, which is built as cls({', '.join(of_class)}), or {allowed}"
    if is_class and of_class is None:
        raise ValueError(f"{name}={name_of(value)} is a class; it must be {allowed}")
    if finished and not is_class:
        raise ValueError(
            f"{name}={value!r} is a finished object; it must be {allowed}. Give the class itself, "
            f"or write: def make({', '.join(of_function)}): return {name_of(value)}(...)"
        )
    if not callable(value):
        raise ValueError(f"{name}={value!r} must be {allowed}")
    arguments = of_class if is_class else of_function
    try:
        signature = inspect.signature(value)
    except ValueError:  # some callables written in C do not tell what they take
        return value
    try:
        signature.bind(*arguments)
    except TypeError as error:
        raise ValueError(
            f"{name}={name_of(value)} cannot be called with ({', '.join(arguments)}): {error}. It "
            f"must be {allowed}"
        ) from None
    return value


def build_each(
    name: str,
    value: Any,
    given: Mapping[str, tuple[tuple, tuple]],
    of_class: tuple[str, ...],
    of_function: tuple[str, ...],
    protocol: type,
) -> list[Any]:
    """Return what the class or function `value` makes for each owner, a new object each.

    `given` are the arguments by owner, such as "client 0", of a class and of a function; all else
    is as in `maker`.

    Raises
    ------
    ValueError
        As `maker`, or if what is made lacks a member of `protocol`, or serves two owners.
    """
    has = [m for m in vars(protocol) if m == "__call__" or not m.startswith("_")]
    finished = not inspect.isclass(value) and hasattr(value, has[0])
    make = maker(name, value, of_class=of_class, of_function=of_function, finished=finished)
    owners: dict[int, str] = {}
    built = []
    for owner, both in given.items():
        made = make(*both[not inspect.isclass(value)])
        if lacks := [m for m in has if not _is_there(made, m, protocol)]:
            raise ValueError(
                f"{name}={name_of(value)} made {made!r}, which lacks {', '.join(lacks)}; see "
                f"{protocol.__module__}.{protocol.__name__}"
            )
        if id(made) in owners:
            raise ValueError(
                f"{name} made one {name_of(made)} object for {owners[id(made)]} and {owner}; it "
                "must make a new one for each, because it remembers the rounds"
            )
        owners[id(made)] = owner
        built.append(made)
    return built


def _is_there(made: Any, member: str, protocol: type) -> bool:
    """Return whether an object has a member of a protocol, a method where it is one there."""
    found = hasattr(made, member)
    return found and (callable(getattr(made, member)) or not callable(vars(protocol)[member]))


def name_of(value: Any) -> str:
    """Return the name of a class or function, or that of an object's class."""
    return value.__name__ if hasattr(value, "__name__") else type(value).__name__
