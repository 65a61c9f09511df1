"""Measure what the paper's estimate of c2/c1 needs, from a part of the historical samples.

Source: FDS (Federated Learning for Data Streams), Section 5, Appendix C.6 and Table 3; the estimate
itself, (204), is `sflkit.datastreams.psi.estimate_c_ratio`.

| code       | symbol | meaning                                                                              |
|------------|--------|--------------------------------------------------------------------------------------|
| loss_bound | B      | largest loss                                                                         |
| grad_bound | G      | largest gradient norm; the paper takes sigma_0 = 2 G                                 |
| diameter   | D      | largest distance of a briefly trained local model from the initial one               |
| n_params   | d      | parameters of the model                                                              |
| n_samples  | N      | samples of all clients over the whole training                                       |
| n_fresh    | M - M_hist | fresh clients                                                                    |
| sigma0     | sigma_0 | per-sample deviation from the client's mean gradient, (203); `estimate_sigma0`      |
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sflkit import checks
from sflkit.datastreams.arms import Tensors, initial, mini_batches

_GRADIENT_NUMBERS = 2**26  # numbers of the per-sample gradients held at once, 256 MiB


class Constants(NamedTuple):
    """What (204) needs, in `psi.estimate_c_ratio`'s own names:
    estimate_c_ratio(**constants._asdict()).
    """

    loss_bound: float
    grad_bound: float
    diameter: float
    n_params: int
    n_samples: int
    n_fresh: int


def estimate_constants(
    task, federation, *, seed, fraction=0.1, steps=10, rate=0.1, batch_size=32
) -> Constants:
    """Measure B, G and D with a part of the historical samples; sigma_0 is 2 G. Source: FDS,
    Section 5, C.6.

    Each historical client trains the initial model on the first part of its samples. D is the
    largest distance of such a model from the start. How B and G are measured is not stated: here
    they are the largest mean loss, and norm of its gradient, of a client's part under the initial
    and the trained models. (Table 3's B is ln 10 and ln 100 for CIFAR: the untrained loss.) The
    bound's B and G are suprema over single samples and over all of Theta, so these means are
    smaller; sigma_0 = 2 G then need not bound the per-sample sigma_0 of (203), which
    `estimate_sigma0` measures.

    Parameters
    ----------
    task : sflkit.federated.Task
    federation : Federation
        With at least one historical and one fresh client.
    seed : int
        Gives the initial model and mini-batches of a run with this seed.
    fraction : float
        In (0, 1], share of each historical client's samples, at least one.
    steps, rate, batch_size
        Of the brief training ("few iterations"): >= 1, > 0, >= 1.
    """
    from sflkit import federated

    whole, start, trained = _brief_training(
        task, federation, seed, fraction, steps, rate, batch_size
    )
    loss, gradient = 0.0, 0.0
    for params in (start, trained):
        gradient = max(gradient, float(_gradients(task, params, whole).norm(dim=1).max()))
        loss = max(
            loss,
            *(
                federated.evaluate(task, w, *batch).loss
                for w, batch in zip(params, whole, strict=True)
            ),
        )
    diameter = float((trained - start).norm(dim=1).max())
    n_fresh = int((~federation.historical).sum())
    return Constants(loss, gradient, diameter, task.n_params, int(federation.sizes.sum()), n_fresh)


def estimate_sigma0(
    task, federation, *, seed, fraction=0.1, steps=10, rate=0.1, batch_size=32, max_samples=64
) -> float:
    """Measure sigma_0 of (203): how far the gradient of one sample is from its client's mean
    gradient. Source: FDS, C.6.

    The root of the largest, over the historical clients, mean over the samples z of the client's
    part of the largest, over the initial model and the client's briefly trained one, of ||grad l(z)
    - grad L_m||^2. (203) has the supremum over Theta in place of two models, so this is a lower
    estimate; the paper takes 2 G instead. ERRATA 26: (203)'s own bound on it is misprinted.

    Parameters
    ----------
    task, federation, seed, fraction, steps, rate, batch_size
        As `estimate_constants`.
    max_samples : int
        >= 1; of a client's part, the mean is over the first ones, so many at most. grad L_m is that
        of the whole part.
    """
    import torch

    max_samples = checks.integer("max_samples", max_samples, 1)
    whole, start, trained = _brief_training(
        task, federation, seed, fraction, steps, rate, batch_size
    )
    means = [_gradients(task, params, whole) for params in (start, trained)]
    at_once, worst = max(1, _GRADIENT_NUMBERS // task.n_params), 0.0
    for m, (x, y) in enumerate(whole):
        squares = []
        for first in range(0, min(len(x), max_samples), at_once):
            rows = range(first, min(first + at_once, len(x), max_samples))
            single = [(x[i : i + 1], y[i : i + 1]) for i in rows]
            squares.append(
                torch.stack(
                    [
                        (
                            (_gradients(task, params[m].expand(len(single), -1), single) - mean[m])
                            ** 2
                        ).sum(dim=1)
                        for params, mean in zip((start, trained), means, strict=True)
                    ]
                ).amax(dim=0)
            )
        worst = max(worst, float(torch.cat(squares).mean()))
    return worst**0.5


def _brief_training(task, federation, seed, fraction, steps, rate, batch_size) -> tuple:
    """Return the part (x, y) of each historical client, and its initial and trained models (M_hist,
    P).
    """
    from sflkit import federated

    fraction, steps = (
        checks.real("fraction", fraction, above=0, high=1),
        checks.integer("steps", steps, 1),
    )
    rate, batch_size = (
        checks.real("rate", rate, above=0),
        checks.integer("batch_size", batch_size, 1),
    )
    historical = np.flatnonzero(federation.historical)
    if not 0 < len(historical) < federation.n_clients:
        raise ValueError(
            f"historical marks {len(historical)} of {federation.n_clients} clients; there must be one of each kind"
        )
    data = Tensors(federation)
    parts = [
        federation.clients[m][: int(np.ceil(fraction * len(federation.clients[m])))]
        for m in historical
    ]
    start = initial(task, seed).to(data.device)
    batches = [
        [data.batch(ids[pick]) for pick in mini_batches(len(ids), batch_size, steps, seed, m, 0)]
        for m, ids in zip(historical, parts, strict=True)
    ]
    trained = federated.local_sgd(task, start, batches, rate)
    return [data.batch(ids) for ids in parts], start.expand(len(parts), -1), trained


def _gradients(task, params, batches):
    """Return the gradient of each batch's mean loss (len(batches), P): a step of rate 1 moves by
    it.
    """
    from sflkit import federated

    return -federated.local_sgd(task, params, [[batch] for batch in batches], 1.0, updates=True)
