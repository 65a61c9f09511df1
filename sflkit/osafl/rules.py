"""Server rules that keep each client's last contribution, for rounds in which some clients are
stragglers.

Source: OSAFL, Algorithm 2 with (16), and its baselines, Algorithms 6 to 10; ERRATA 37, 38, 41, 42.
A client takes kappa_u steps in a round, a straggler none; the server goes on using what it sent
last. A round that nobody joins leaves the model as it is: Algorithm 8 is then 0/0, and the others
would repeat a stale step.

A client that has sent nothing yet has no contribution. `never_joined` says what stands for it:

- "exclude" (default): nothing; means and weights run over the clients that ever joined, alpha_u = 1 / #joined.
- "zero": no change to the model, a gradient of 0 or the present model, with alpha_u = 1 / U.
- "literal": what is printed. For the rules that keep models that is "zero"; for those that keep gradients it is d[u] = w / eta,
  which multiplies the model by 1 - global_rate * (share of such clients) in OSAFL and lets it
  diverge (ERRATA 37).

| code         | symbol              | shape                 | meaning                                                          |
|--------------|---------------------|-----------------------|------------------------------------------------------------------|
| updates      | w_u^(t,kappa) - w^t | (n_part, n_params)    | local model minus global model of the round's work.clients       |
| work         | kappa_u, eta        | (n_part,), scalar     | local steps (0: straggler) and local rate, servers.LocalWork     |
| buffer       | d[u] or w[u]        | (n_clients, n_params) | last contributions, in the order of first participation: mean    |
|              |                     |                       | gradients d_u = -update / (eta kappa_u), (16), or local models   |
| global_rate  | eta-tilde, AFA: eta | scalar                | server step size                                                 |
| chi          | chi                 | scalar                | shift of the cosine, >= 1                                        |
| sizes        | D_u                 | (n_clients,)          | samples of the clients                                           |
| slowdown     | tau-tilde           | scalar                | M-FedNova's factor                                               |
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from sflkit import checks
from sflkit.federated.arrays import check_finite, rows_of
from sflkit.osafl.scores import osafl_scores

if TYPE_CHECKING:
    from sflkit.federated.servers import LocalWork


NEVER_JOINED = ("exclude", "zero", "literal")


def _presets(**columns) -> MappingProxyType:
    names = {
        "osafl": ("rate", "global_rate"),
        "m_fedavg": ("rate",),
        "m_fedprox": ("rate", "mu"),
        "m_fednova": ("rate", "slowdown"),
        "m_afa_cd": ("rate", "global_rate"),
        "m_feddisco": ("rate", "a", "b"),
    }
    return MappingProxyType(
        {
            model: MappingProxyType(
                {
                    rule: MappingProxyType(dict(zip(names[rule], values, strict=True)))
                    for rule, values in column.items()
                }
            )
            for model, column in columns.items()
        }
    )


# Hyper-parameters by model and rule. Source: OSAFL, Section V-A.4 and Appendix D-B.
PRESETS = _presets(
    fcn=dict(
        osafl=(0.2, 35.0),
        m_fedavg=(0.15,),
        m_fedprox=(0.1, 0.9),
        m_fednova=(0.01, 0.1),
        m_afa_cd=(0.1, 0.2),
        m_feddisco=(0.15, 0.2, 0.1),
    ),
    squeezenet1=dict(
        osafl=(0.01, 20.0),
        m_fedavg=(0.01,),
        m_fedprox=(0.01, 0.9),
        m_fednova=(0.03, 0.05),
        m_afa_cd=(0.02, 0.01),
        m_feddisco=(0.01, 0.2, 0.1),
    ),
    cnn=dict(
        osafl=(0.08, 22.0),
        m_fedavg=(0.1,),
        m_fedprox=(0.05, 0.9),
        m_fednova=(0.15, 0.35),
        m_afa_cd=(0.1, 0.05),
        m_feddisco=(0.1, 0.2, 0.1),
    ),
    lstm=dict(
        osafl=(0.2, 35.0),
        m_fedavg=(0.6,),
        m_fedprox=(0.5, 0.1),
        m_fednova=(0.5, 0.12),
        m_afa_cd=(0.5, 1.0),
        m_feddisco=(0.5, 0.2, 0.1),
    ),
)


class _Rule:
    """The checks, and the round that nobody joins; a rule adds `_aggregate`."""

    never_joined = "exclude"

    def __init__(self, n_clients: int):
        self.n_clients = checks.integer("n_clients", n_clients, 1)

    def local_options(self, work: LocalWork) -> dict:
        return {}

    def __call__(self, params, updates, weights=None, work: LocalWork | None = None):
        w, rows = torch.as_tensor(params), rows_of("updates", updates)
        clients, steps = self._participants(work, rows)
        if w.ndim != 1 or w.shape != rows.shape[1:]:
            raise ValueError(
                f"params has shape {tuple(w.shape)}; the updates need ({rows.shape[1]},)"
            )
        if weights is not None:
            weights = checks.array(
                "weights", weights.cpu() if isinstance(weights, Tensor) else weights, ndim=1, low=0
            )
            if len(weights) != len(rows):
                raise ValueError(
                    f"weights has {len(weights)} entries; it must have {len(rows)}, one per row of updates"
                )
        check_finite("updates", rows)
        joins = np.flatnonzero(steps)
        if not len(joins):
            return params
        new = self._aggregate(w, rows, weights, clients, steps, joins, work.rate)
        return new if isinstance(params, Tensor) else new.numpy()

    def _participants(self, work: LocalWork | None, rows: Tensor) -> tuple[list[int], np.ndarray]:
        if work is None:
            raise ValueError(
                "work=None; the rule needs the round's LocalWork(clients, steps, rate)"
            )
        clients = [
            checks.integer("work.clients entry", k, 0, self.n_clients - 1) for k in work.clients
        ]
        steps = checks.array("work.steps", work.steps, ndim=1, low=0)
        if not len(set(clients)) == len(clients) == len(steps) == len(rows):
            raise ValueError(
                f"work has {len(clients)} clients ({len(set(clients))} distinct) and {len(steps)} steps, updates "
                f"{len(rows)} rows; they must agree"
            )
        checks.real("work.rate", work.rate, above=0)
        return clients, steps


class _Buffered(_Rule):
    """Keeps the last contributions in the first rows of one array, so that those who ever joined
    are a view of it.

    The array (n_clients, n_params) is made at the first contribution and grows no more: 720 MB for
    100 clients of 1.8 million float32 parameters, of which a system with lazy allocation spends
    only the rows in use."""

    def __init__(self, n_clients: int, never_joined: str = "exclude"):
        super().__init__(n_clients)
        self.never_joined = checks.choice("never_joined", never_joined, NEVER_JOINED)
        self.order: dict[int, int] = {}  # client: its row
        self.buffer: Tensor | None = None
        self.shares = np.zeros(self.n_clients)  # weight that came with each row

    @property
    def joined(self) -> int:
        """Clients that ever joined."""
        return len(self.order)

    @property
    def _count(self) -> int:
        return self.joined if self.never_joined == "exclude" else self.n_clients

    def _aggregate(self, w, rows, weights, clients, steps, joins, rate):
        if self.buffer is None:
            self.buffer = torch.empty(self.n_clients, len(w), dtype=rows.dtype, device=rows.device)
        for i in joins:
            row = self.order.setdefault(clients[i], len(self.order))
            self._store(self.buffer[row], w, rows[i], float(steps[i]), rate)
            self.shares[row] = 1 if weights is None else weights[i]
        return self._move(w, rate)


class OSAFL(_Buffered):
    """w <- w - eta eta-tilde sum_u alpha_u Delta_u d[u], with the scores Delta_u of `osafl_scores`.
    Source: OSAFL, Algorithm 2.

    Parameters
    ----------
    n_clients : U >= 1.
    global_rate : eta-tilde > 0; the paper's is 20 to 35.
    chi : >= 1; not stated in the paper's simulations, 1 gives scores from 0 to 1.
    never_joined : one of NEVER_JOINED. With "zero" the scores are those of "exclude", and the step is #joined / U of it.

    `scores` holds the last round's, (#joined,), in literal mode (n_clients,); rows as in `order`.
    """

    def __init__(
        self, n_clients: int, global_rate: float, chi: float = 1.0, never_joined: str = "exclude"
    ):
        super().__init__(n_clients, never_joined)
        self.global_rate, self.chi = (
            checks.real("global_rate", global_rate, above=0),
            checks.real("chi", chi, 1),
        )
        self.scores: Tensor | None = None

    def _store(self, row, w, update, steps, rate):
        torch.mul(update, -1 / (rate * steps), out=row)  # (16)

    def _move(self, w, rate):
        used = self.joined
        if self.never_joined == "literal":  # ERRATA 37: lines 2 and 17 of Algorithm 2
            self.buffer[used:] = w / rate
            used = self.n_clients
        self.scores = osafl_scores(self.buffer[:used], self.chi)
        return w - (rate * self.global_rate / self._count) * (self.scores @ self.buffer[:used])


class MAFACD(_Buffered):
    """w <- w - eta sum_u d[u] / U. Source: OSAFL, Algorithm 9 (M-AFA-CD).

    Parameters
    ----------
    n_clients : U >= 1.
    global_rate : eta > 0.
    never_joined : one of NEVER_JOINED.
    literal_rate : ERRATA 38: the initialisation divides w by the local rate, line 16 by eta; None takes the local rate.
    """

    def __init__(
        self,
        n_clients: int,
        global_rate: float,
        never_joined: str = "exclude",
        literal_rate: float | None = None,
    ):
        super().__init__(n_clients, never_joined)
        self.global_rate = checks.real("global_rate", global_rate, above=0)
        self.literal_rate = (
            None if literal_rate is None else checks.real("literal_rate", literal_rate, above=0)
        )

    _store = OSAFL._store

    def _move(self, w, rate):
        total = self.buffer[: self.joined].sum(0)
        if self.never_joined == "literal":
            total += (self.n_clients - self.joined) / (self.literal_rate or rate) * w
        return w - self.global_rate / self._count * total


class MFedAvg(_Buffered):
    """w <- mean of the last local models w[u]. Source: OSAFL, Algorithm 6 (M-FedAvg), which is
    never_joined="literal".

    A round's `weights`, if given, stay with the models they came with. Client of weight 0: no
    influence while it has it.

    Parameters
    ----------
    n_clients : U >= 1.
    never_joined : "zero" and "literal": the present model stands for them, at the mean weight of those who joined.
    """

    def _store(self, row, w, update, steps, rate):
        torch.add(w, update, out=row)

    def _move(self, w, rate):
        shares = self.shares[: self.joined]
        if not shares.any():
            return w
        shares = shares / shares.sum() * (self.joined / self._count)
        mean = (
            torch.as_tensor(shares, dtype=self.buffer.dtype, device=self.buffer.device)
            @ self.buffer[: self.joined]
        )
        return mean + (1 - self.joined / self._count) * w


class MFedProx(MFedAvg):
    """`MFedAvg` whose local gradients get mu (w_u - w). Source: OSAFL, Algorithm 7 (M-FedProx); mu
    >= 0, 0 is M-FedAvg.
    """

    def __init__(self, n_clients: int, mu: float, never_joined: str = "exclude"):
        super().__init__(n_clients, never_joined)
        self.mu = checks.real("mu", mu, 0)

    def local_options(self, work: LocalWork) -> dict:
        return {"prox": self.mu}


class MFedDisco(MFedAvg):
    """`MFedAvg` whose weights are those of (83), from `disco_weights`. Source: OSAFL, Algorithm 10
    (M-FedDisco).

    The round's weights must be given, at least one of all clients in the buffer above 0; if all are
    0, (83) is 0/0 and the model stays."""

    def __call__(self, params, updates, weights=None, work: LocalWork | None = None):
        if weights is None:
            raise ValueError("weights=None; M-FedDisco needs the participants' disco_weights")
        return super().__call__(params, updates, weights, work)


class MFedNova(_Rule):
    """FedNova as the paper prints it, or as its authors define it. Source: OSAFL, Algorithm 8; Wang
    et al. 2020.

    "printed" (M-FedNova, ERRATA 41): w <- w - tau-tilde eta sum_u p_u kappa_u d_u over the
    participants, p_u = D_u over the sum of all clients; a straggler's kappa_u = 0 drops its buffer,
    so that none is kept and never-participants have no part. "true": w <- w - tau-tilde eta (sum_v
    p_v kappa_v) sum_u p_u d_u with p normalised over the participants.

    Parameters
    ----------
    sizes : (n_clients,) D_u > 0.
    slowdown : tau-tilde > 0; 1 in FedNova, 0.05 to 0.35 in the paper.
    form : {"printed", "true"}
    """

    def __init__(self, sizes, slowdown: float = 1.0, form: str = "printed"):
        self.sizes = checks.array("sizes", sizes, ndim=1, above=0)
        super().__init__(len(self.sizes))
        self.slowdown = checks.real("slowdown", slowdown, above=0)
        self.form = checks.choice("form", form, ("printed", "true"))

    def _aggregate(self, w, rows, weights, clients, steps, joins, rate):
        p, kappa = np.zeros(len(rows)), np.maximum(steps, 1)
        p[joins] = self.sizes[clients][joins]
        if self.form == "printed":  # eta kappa_u d_u = -update
            factors = p / self.sizes.sum()
        else:
            p /= p.sum()
            factors = (p @ steps) * p / kappa
        factors = torch.as_tensor(self.slowdown * factors, dtype=rows.dtype, device=rows.device)
        return w + factors @ rows
