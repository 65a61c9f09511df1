"""Measure what the paper's estimate of c2/c1 needs, from a part of the historical samples.

Source: FDS (Federated Learning for Data Streams), Section 5, Appendix C.6 and Table 3; the estimate itself, (204), is
`sflkit.importance.estimate_c_ratio`.

| code       | symbol | meaning                                                                              |
|------------|--------|--------------------------------------------------------------------------------------|
| loss_bound | B      | largest loss                                                                         |
| grad_bound | G      | largest gradient norm; the paper takes sigma_0 = 2 G                                 |
| diameter   | D      | largest distance of a briefly trained local model from the initial one               |
| n_params   | d      | parameters of the model                                                              |
| n_samples  | N      | samples of all clients over the whole training                                       |
| n_fresh    | M - M_hist | fresh clients                                                                    |
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sflkit import checks
from sflkit.runs.datastreams_training import Tensors, initial, mini_batches


class Constants(NamedTuple):
    """What (204) needs, in `importance.estimate_c_ratio`'s own names: estimate_c_ratio(**constants._asdict())."""

    loss_bound: float
    grad_bound: float
    diameter: float
    n_params: int
    n_samples: int
    n_fresh: int


def estimate_constants(task, federation, *, seed, fraction=0.1, steps=10, rate=0.1, batch_size=32) -> Constants:
    """Measure B, G and D with a part of the historical samples; sigma_0 is 2 G. Source: FDS, Section 5, C.6.

    Each historical client trains the initial model on the first part of its samples. D is the largest distance of such a model
    from the start. How B and G are measured is not stated: here they are the largest mean loss, and norm of its gradient, of
    a client's part under the initial and the trained models. (Table 3's B is ln 10 and ln 100 for CIFAR: the untrained loss.)

    Parameters
    ----------
    task : sflkit.engine.Task
    federation : Federation
        With at least one historical and one fresh client.
    seed : int
        Gives the initial model and mini-batches of a run with this seed.
    fraction : float
        In (0, 1], share of each historical client's samples, at least one.
    steps, rate, batch_size
        Of the brief training ("few iterations"): >= 1, > 0, >= 1.
    """
    from sflkit import engine

    fraction, steps = checks.real("fraction", fraction, above=0, high=1), checks.integer("steps", steps, 1)
    rate, batch_size = checks.real("rate", rate, above=0), checks.integer("batch_size", batch_size, 1)
    historical = np.flatnonzero(federation.historical)
    n_fresh = federation.n_clients - len(historical)
    if not len(historical) or not n_fresh:
        raise ValueError(f"historical marks {len(historical)} of {federation.n_clients} clients; there must be one of each kind")
    data = Tensors(federation)
    parts = [federation.clients[m][: int(np.ceil(fraction * len(federation.clients[m])))] for m in historical]
    start = initial(task, seed).to(data.device)
    batches = [[data.batch(ids[pick]) for pick in mini_batches(len(ids), batch_size, steps, seed, m, 0)]
               for m, ids in zip(historical, parts, strict=True)]
    trained = engine.local_sgd(task, start, batches, rate)
    loss, gradient = 0.0, 0.0
    whole = [data.batch(ids) for ids in parts]
    for params in (start.expand(len(whole), -1), trained):
        # a step of rate 1 moves by the gradient
        gradients = params - engine.local_sgd(task, params, [[batch] for batch in whole], 1.0)
        gradient = max(gradient, float(gradients.norm(dim=1).max()))
        loss = max(loss, *(engine.evaluate(task, w, *batch).loss for w, batch in zip(params, whole, strict=True)))
    diameter = float((trained - start).norm(dim=1).max())
    return Constants(loss, gradient, diameter, task.n_params, int(federation.sizes.sum()), n_fresh)
