"""Measure what the paper's estimate of c2 / c1 needs, from a part of the historical samples.

Source: FDS (Federated Learning for Data Streams), Section 5, Appendix C.6 and Table 3. The estimate
itself, (204), is `sflkit.datastreams.psi.estimate_c_ratio`.

| code       | symbol     | meaning                                                                |
|------------|------------|------------------------------------------------------------------------|
| loss_bound | B          | largest loss                                                           |
| grad_bound | G          | largest gradient norm; the paper takes sigma_0 = 2 G                   |
| diameter   | D          | largest distance of a briefly trained local model from the initial one |
| n_params   | d          | parameters of the model                                                |
| n_samples  | N          | samples of all clients over the whole training                         |
| n_fresh    | M - M_hist | fresh clients                                                          |
"""

from __future__ import annotations

from typing import Annotated, NamedTuple

import numpy as np
from torch import Tensor

from sflkit import federated
from sflkit.config import Count, Number, Positive, checked
from sflkit.data.federations import Federation
from sflkit.datastreams.arms import Tensors, mini_batches
from sflkit.federated import Task
from sflkit.randomness import model_seed


class Constants(NamedTuple):
    """What (204) needs, by the names of `psi.estimate_c_ratio`, which takes
    `**constants._asdict()`.
    """

    loss_bound: float
    grad_bound: float
    diameter: float
    n_params: int
    n_samples: int
    n_fresh: int


@checked
def estimate_constants(
    task: Task,
    federation: Federation,
    *,
    seed: int,
    fraction: Annotated[float, Number(above=0, high=1)] = 0.1,
    steps: Count = 10,
    rate: Positive = 0.1,
    batch_size: Count = 32,
) -> Constants:
    """Measure B, G and D with a part of the historical samples.

    Each historical client trains the initial model on the first part of its samples. D is the
    largest distance of such a model from the start. The paper does not say how it measures B and G:
    here they are the largest mean loss, and the largest norm of its gradient, of a client's part
    under the initial and the trained models. (Table 3's B is ln 10 and ln 100 for CIFAR, which is
    the untrained loss.)

    The bound's own B and G are suprema over single samples and over all of Theta, so these means
    are smaller. The paper's sigma_0 = 2 G then need not bound the sigma_0 of (203). Source: FDS,
    Section 5, C.6.

    Parameters
    ----------
    task : Task
        The model and its loss.
    federation : Federation
        With at least one historical and one fresh client.
    seed : int
        Gives the initial model and the mini-batches of a run with this seed.
    fraction : float
        In (0, 1], share of each historical client's samples, of which at least one is used.
    steps, rate, batch_size
        Of the brief training (the paper: "few iterations"); >= 1, > 0 and >= 1.

    Raises
    ------
    ValueError
        If an argument is out of range, or one of the two kinds of clients is missing.
    """
    historical = np.flatnonzero(federation.historical).tolist()
    if not 0 < len(historical) < federation.n_clients:
        raise ValueError(
            f"historical marks {len(historical)} of {federation.n_clients} clients; there must be "
            "one of each kind"
        )
    data = Tensors(federation)
    batches, parts = [], []
    for m in historical:
        ids = federation.clients[m]
        ids = ids[: int(np.ceil(fraction * len(ids)))]
        picks = mini_batches(len(ids), batch_size, steps, seed, m, 0)
        batches.append([data.batch(ids[pick]) for pick in picks])
        parts.append(data.batch(ids))
    start = task.init(model_seed(seed)).to(data.device)
    trained = federated.local_sgd(task, start, batches, rate)
    loss, gradient = 0.0, 0.0
    for params in (start.expand(len(parts), -1), trained):
        gradient = max(gradient, float(_gradients(task, params, parts).norm(dim=1).max()))
        losses = (
            federated.evaluate(task, w, *part).loss for w, part in zip(params, parts, strict=True)
        )
        loss = max(loss, *losses)
    return Constants(
        loss_bound=loss,
        grad_bound=gradient,
        diameter=float((trained - start).norm(dim=1).max()),
        n_params=task.n_params,
        n_samples=int(federation.sizes.sum()),
        n_fresh=int((~federation.historical).sum()),
    )


def _gradients(task: Task, params: Tensor, batches: list[tuple[Tensor, Tensor]]) -> Tensor:
    """Return the gradient of each batch's mean loss, (len(batches), P).

    A local step of rate 1 moves by minus the gradient.
    """
    return -federated.local_sgd(task, params, [[batch] for batch in batches], 1.0, updates=True)
