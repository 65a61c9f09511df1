"""Client drift on two quadratics: what FedAvg, FedProx and SCAFFOLD do with it.

Two clients fit a line y = slope x + intercept by least squares. Client 1 sees x = +-2 and its
points lie on y = 0; client 2 sees x = +-1/2 and its points lie on y = x + 1. Their losses have the
curvatures 8 and 1/2 in the slope, and 2 in the intercept.

With E steps of size eta a client covers the share A_k = eta sum over j < E of
(1 - eta (h_k + mu))^j h_k of the way to its own line (h_k: curvature, mu: FedProx's penalty), so
that the average stands still where sum_k A_k (w - a_k) = 0, which is not the optimum where the
curvatures differ.

Source: Li et al. (2020) for FedProx, Karimireddy et al. (2020) for SCAFFOLD; FDS (Federated
Learning for Data Streams), Appendix E, compares the two with FedAvg. The example is ours.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from sflkit.randomness import generator

RATE, STEPS = 0.1, 10
OWN_BEST = np.array([[0.0, 0.0], [1.0, 1.0]])  # (slope, intercept) of each client's own line
CURVATURE = np.array([[8.0, 2.0], [0.5, 2.0]])
PLACES = (2.0, 0.5)  # the clients' points lie at plus and minus this
START = (1.5, -0.5)
JITTER = 0.5  # error of client 2's points where they are new in each round


def optimum() -> np.ndarray:
    """Return (slope, intercept) at which the gradients of both clients cancel."""
    return (CURVATURE * OWN_BEST).sum(axis=0) / CURVATURE.sum(axis=0)


def fixed_point(mu: float = 0.0) -> np.ndarray:
    """Return (slope, intercept) at which FedAvg, or FedProx with penalty mu, stands still."""
    left = 1 - RATE * (CURVATURE + mu)
    share = RATE * CURVATURE * sum(left**j for j in range(STEPS))
    return (share * OWN_BEST).sum(axis=0) / share.sum(axis=0)


def optimisers(penalties: Sequence[float]) -> dict[str, float | None]:
    """Return name -> FedProx's penalty, 0 for FedAvg and None for SCAFFOLD."""
    prox = {f"FedProx {mu:g}": float(mu) for mu in penalties}
    return {"FedAvg": 0.0, **prox, "SCAFFOLD": None}


def path(mu: float | None, *, rounds: int, jitter: float = 0.0) -> np.ndarray:
    """Return the global models of a run, (rounds + 1, 2) of slope and intercept.

    Parameters
    ----------
    mu : float or None
        FedProx's penalty, or None for SCAFFOLD.
    rounds : int
    jitter : float
        Standard deviation of the errors that client 2's two points have anew in each round, as a
        fresh client's would.
    """
    import torch

    from sflkit import federated, models
    from sflkit.federated import servers

    task = federated.Task(models.create("linear", input_shape=(1,), n_classes=1), "mse")
    x = [torch.tensor([[-place], [place]]) for place in PLACES]
    error = torch.as_tensor(generator(0, "samples").normal(size=(rounds, 2, 1)) * jitter)
    rule = servers.Scaffold(2) if mu is None else servers.FedProx(mu)
    w = torch.tensor(START)
    models_so_far = [w.numpy()]
    for t in range(rounds):
        y = [x[k] * OWN_BEST[k, 0] + OWN_BEST[k, 1] for k in (0, 1)]
        y[1] = y[1] + error[t]
        batches = [[(x[k], y[k].float())] * STEPS for k in (0, 1)]
        work = servers.LocalWork(clients=np.arange(2), steps=np.full(2, STEPS), rate=RATE)
        local = federated.local_sgd(task, w, batches, RATE, **rule.local_options(work))
        w = rule(w, local - w, None, work)
        models_so_far.append(w.numpy())
    return np.array(models_so_far)


def limits(
    fixed: dict[str, np.ndarray], streaming: dict[str, np.ndarray], names: dict[str, float | None]
) -> pd.DataFrame:
    """Return where each optimiser stops, the closed form, and bias and spread on streaming data.

    Parameters
    ----------
    fixed, streaming : dict of name -> path
        Runs without jitter, and with it; bias and spread are those of the second half.
    names : dict
        `optimisers` of the same penalties.
    """
    rows = []
    for name, mu in names.items():
        theory = optimum() if mu is None else fixed_point(mu)
        late = streaming[name][len(streaming[name]) // 2 :] - optimum()
        rows.append(
            {
                "": name,
                "limit, slope": fixed[name][-1][0],
                "theory": theory[0],
                "intercept": fixed[name][-1][1],
                "streaming: bias": late[:, 0].mean(),
                "streaming: std": late[:, 0].std(),
            }
        )
    return pd.DataFrame(rows)
