"""Server rules that keep each client's last contribution, for rounds in which some clients are
stragglers.

Source: OSAFL, Algorithm 2 with (16), and its baselines, Algorithms 6 to 10; ERRATA 37, 38, 41, 42.
A client takes kappa_u steps in a round, a straggler none; the server goes on using what it sent
last. A round that nobody joins leaves the model as it is: Algorithm 8 is then 0/0, and the others
would repeat a stale step.

A client that has sent nothing yet has no contribution. `never_joined` says what stands for it:

- "exclude" (default): nothing. Means and weights run over the clients that ever joined, with
  alpha_u = 1 / #joined.
- "zero": what would not change the model, a gradient of 0 or the present model; alpha_u = 1 / U.
- "literal": what is printed. For the rules that keep models that is "zero", but that M-FedDisco
  gives each such client a weight of its own. For those that keep gradients it is d[u] = w / eta,
  which multiplies the model by 1 - global_rate * (share of such clients) in OSAFL and lets it
  diverge (ERRATA 37).

`RULES` at the end is the one list of rules: configs, the search for step sizes, legends and menus
read it. A rule of your own is one class and one row:

    class Mean(BufferedRule):
        def contribution(self, params, update, steps, rate):
            return update

        def next_params(self, params, rate):
            return params + self.buffer[: self.joined].mean(0)

    RULES.add("mean", Rule(Mean, "mean update", options=("n_clients",)))

The options are keywords of the class, out of n_clients, sizes, never_joined, chi, and the
hyper-parameters of `config.HYPER`.

| code        | symbol              | shape                 | meaning                              |
|-------------|---------------------|-----------------------|--------------------------------------|
| params      | w^t                 | (n_params,)           | global model before the round        |
| updates     | w_u^(t,kappa) - w^t | (n_part, n_params)    | local model minus global model of    |
|             |                     |                       | the round's work.clients             |
| work        | kappa_u, eta        | (n_part,), scalar     | local steps (0: straggler) and local |
|             |                     |                       | rate, a `LocalWork`                  |
| buffer      | d[u] or w[u]        | (n_clients, n_params) | last contributions, in the order of  |
|             |                     |                       | first participation: mean gradients  |
|             |                     |                       | d_u = -update / (eta kappa_u), (16), |
|             |                     |                       | or local models                      |
| global_rate | eta-tilde, AFA: eta | scalar                | server step size                     |
| chi         | chi                 | scalar                | shift of the cosine, >= 1            |
| sizes       | D_u                 | (n_clients,)          | samples of the clients               |
| slowdown    | tau-tilde           | scalar                | M-FedNova's factor                   |
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from sflkit import checks
from sflkit.federated.arrays import array_of, check_finite, finite_vector, rows_of
from sflkit.federated.servers import LocalWork, check_work
from sflkit.osafl.scores import disco_weights, label_discrepancy, osafl_scores
from sflkit.registry import Look, Registry, Rule

NEVER_JOINED = ("exclude", "zero", "literal")


class RoundRule:
    """What all rules here share: checked arguments, and no change in a round that nobody joins.

    A rule overrides `aggregate`, and `local_options` or `round_weights` where it asks more of a
    round than plain local steps.

    Parameters
    ----------
    n_clients : int
        U >= 1; ids of clients run from 0 to U - 1.
    """

    def __init__(self, n_clients: int):
        self.n_clients = checks.integer("n_clients", n_clients, 1)

    def local_options(self, work: LocalWork) -> dict[str, Any]:
        """Return the keywords that the round's `local_sgd` gets; none unless a rule says so."""
        return {}

    def round_weights(
        self, work: LocalWork, sizes: np.ndarray, label_counts: Callable[[], np.ndarray]
    ) -> np.ndarray | None:
        """Return the weights of the round's participants, which the rule is then called with.

        Parameters
        ----------
        work : LocalWork
            Who takes part.
        sizes : array (n_clients,)
            Samples that each client holds.
        label_counts : callable
            It returns how many samples of each label each client holds, (n_clients, n_classes). It
            is a function because counting takes time and most rules do not ask.

        Returns
        -------
        array (n_part,) or None
            None, unless a rule says otherwise, means that the rule takes no weights.
        """
        return None

    def __call__(
        self, params: Any, updates: Any, weights: Any = None, work: LocalWork | None = None
    ) -> Any:
        """Return the next global parameters (n_params,), of the kind of `params`.

        Raises
        ------
        ValueError
            If `work` is missing or does not fit the updates, if a shape does not fit, or if the
            parameters or an update hold NaN or infinity.
        """
        model = finite_vector("params", params)
        rows = rows_of("updates", updates)
        work = check_work(work, self.n_clients, rows)
        checks.shape("params", model, tuple(rows.shape[1:]), like="each of updates")
        if weights is not None:
            weights = checks.array("weights", array_of(weights), low=0)
            checks.shape("weights", weights, (len(rows),))
        check_finite("updates", rows)
        if not work.steps.any():
            return params
        new = self.aggregate(model, rows, weights, work)
        return new if isinstance(params, Tensor) else new.numpy()

    def aggregate(
        self, params: Tensor, updates: Tensor, weights: np.ndarray | None, work: LocalWork
    ) -> Tensor:
        """Return the next global parameters from checked arguments; the rule's own formula.

        It is called only if a client of `work` took a step. A client with 0 steps is a straggler,
        whose row of `updates` must not count.
        """
        raise NotImplementedError


class BufferedRule(RoundRule):
    """Keeps the last contribution of every client that ever joined, and moves by all of them.

    A rule overrides `contribution` and `next_params`. The contributions lie in the first rows of
    one array, so that those who ever joined are a view of it. The array (n_clients, n_params) is
    made at the first contribution and grows no more: 720 MB for 100 clients of 1.8 million float32
    parameters, of which a system with lazy allocation spends only the rows in use.

    Parameters
    ----------
    n_clients : int
        U >= 1.
    never_joined : {"exclude", "zero", "literal"}
        What stands for a client that has sent nothing yet; see the top of this module.

    Attributes
    ----------
    order : dict
        The row of `buffer` for each client that ever joined.
    buffer : Tensor (n_clients, n_params) or None
        Contributions; None before the first.
    shares : array (n_clients,)
        The weight that came with each row, 1 in rounds without weights.
    """

    def __init__(self, n_clients: int, never_joined: str = "exclude"):
        super().__init__(n_clients)
        self.never_joined = checks.choice("never_joined", never_joined, NEVER_JOINED)
        self.order: dict[int, int] = {}
        self.buffer: Tensor | None = None
        self.shares = np.zeros(self.n_clients)

    @property
    def joined(self) -> int:
        """How many clients ever joined."""
        return len(self.order)

    @property
    def counted(self) -> int:
        """Over how many clients a mean runs: those that ever joined, or all."""
        return self.joined if self.never_joined == "exclude" else self.n_clients

    def contribution(self, params: Tensor, update: Tensor, steps: float, rate: float) -> Tensor:
        """Return what is kept of a client that took `steps` > 0 local steps, (n_params,)."""
        raise NotImplementedError

    def next_params(self, params: Tensor, rate: float) -> Tensor:
        """Return the next global parameters (n_params,) from `buffer` and the local rate."""
        raise NotImplementedError

    def aggregate(
        self, params: Tensor, updates: Tensor, weights: np.ndarray | None, work: LocalWork
    ) -> Tensor:
        """Put the participants' contributions in the buffer, then return `next_params`."""
        if self.buffer is None:
            shape = (self.n_clients, len(params))
            self.buffer = torch.empty(shape, dtype=updates.dtype, device=updates.device)
        for i in np.flatnonzero(work.steps):
            row = self.order.setdefault(int(work.clients[i]), len(self.order))
            steps = float(work.steps[i])
            self.buffer[row] = self.contribution(params, updates[i], steps, work.rate)
            self.shares[row] = 1 if weights is None else weights[i]
        return self.next_params(params, work.rate)


class GradientRule(BufferedRule):
    """A `BufferedRule` that keeps mean gradients d_u = -update / (eta kappa_u), (16)."""

    def contribution(self, params: Tensor, update: Tensor, steps: float, rate: float) -> Tensor:
        """Return the mean gradient of the client's steps."""
        return update * (-1 / (rate * steps))


class OSAFL(GradientRule):
    """w <- w - eta eta-tilde sum_u alpha_u Delta_u d[u], with the scores Delta_u of `osafl_scores`.

    Source: OSAFL, Algorithm 2.

    Parameters
    ----------
    n_clients : int
        U >= 1.
    global_rate : float
        eta-tilde > 0; the paper's is 20 to 35.
    chi : float
        >= 1; not stated in the paper's simulations. 1 gives scores from 0 to 1.
    never_joined : {"exclude", "zero", "literal"}
        With "zero" the scores are those of "exclude", and the step is #joined / U of it.

    Attributes
    ----------
    scores : Tensor or None
        The last round's scores, in the order of the buffer's rows: (#joined,), in literal mode
        (n_clients,).
    """

    def __init__(
        self, n_clients: int, global_rate: float, chi: float = 1.0, never_joined: str = "exclude"
    ):
        super().__init__(n_clients, never_joined)
        self.global_rate = checks.real("global_rate", global_rate, above=0)
        self.chi = checks.real("chi", chi, 1)
        self.scores: Tensor | None = None

    def next_params(self, params: Tensor, rate: float) -> Tensor:
        """Return the model moved against the score-weighted mean of the gradients."""
        used = self.joined
        if self.never_joined == "literal":  # ERRATA 37: lines 2 and 17 of Algorithm 2
            self.buffer[used:] = params / rate
            used = self.n_clients
        self.scores = osafl_scores(self.buffer[:used], self.chi)
        step = rate * self.global_rate / self.counted
        return params - step * (self.scores @ self.buffer[:used])


class MAFACD(GradientRule):
    """w <- w - eta sum_u d[u] / U. Source: OSAFL, Algorithm 9 (M-AFA-CD).

    In literal mode w is divided by the local rate, as the initialisation does; line 16 of the
    algorithm divides it by eta (ERRATA 38).

    Parameters
    ----------
    n_clients : int
        U >= 1.
    global_rate : float
        eta > 0.
    never_joined : {"exclude", "zero", "literal"}
        See the top of this module.
    """

    def __init__(self, n_clients: int, global_rate: float, never_joined: str = "exclude"):
        super().__init__(n_clients, never_joined)
        self.global_rate = checks.real("global_rate", global_rate, above=0)

    def next_params(self, params: Tensor, rate: float) -> Tensor:
        """Return the model moved against the mean of the gradients."""
        total = self.buffer[: self.joined].sum(0)
        if self.never_joined == "literal":
            total += (self.n_clients - self.joined) / rate * params
        return params - self.global_rate / self.counted * total


class MFedAvg(BufferedRule):
    """w <- mean of the last local models w[u].

    Source: OSAFL, Algorithm 6 (M-FedAvg), which is never_joined="literal". A round's `weights`, if
    given, stay with the models they came with; a client has no influence while its weight is 0.

    Parameters
    ----------
    n_clients : int
        U >= 1.
    never_joined : {"exclude", "zero", "literal"}
        "zero" and "literal": the present model stands for those who never joined, at the mean
        weight of those who did.
    """

    def contribution(self, params: Tensor, update: Tensor, steps: float, rate: float) -> Tensor:
        """Return the client's local model."""
        return params + update

    def next_params(self, params: Tensor, rate: float) -> Tensor:
        """Return the weighted mean of the local models and, where it counts, the present one."""
        shares = self.shares[: self.joined]
        if not shares.any():
            return params
        absent = self.absent_share()
        shares = shares / shares.sum() * (1 - absent)
        mean = torch.as_tensor(shares).to(self.buffer) @ self.buffer[: self.joined]
        return mean + absent * params

    def absent_share(self) -> float:
        """Return the part of the present model, which stands for clients that never joined."""
        return 1 - self.joined / self.counted


class MFedProx(MFedAvg):
    """`MFedAvg` whose local gradients get mu (w_u - w). Source: OSAFL, Algorithm 7 (M-FedProx).

    Parameters
    ----------
    n_clients : int
        U >= 1.
    mu : float
        >= 0; 0 is M-FedAvg.
    never_joined : {"exclude", "zero", "literal"}
        As in `MFedAvg`.
    """

    def __init__(self, n_clients: int, mu: float, never_joined: str = "exclude"):
        super().__init__(n_clients, never_joined)
        self.mu = checks.real("mu", mu, 0)

    def local_options(self, work: LocalWork) -> dict[str, Any]:
        """Return mu as the factor of the proximal term."""
        return {"prox": self.mu}


class MFedDisco(MFedAvg):
    """`MFedAvg` whose weights are those of (83). Source: OSAFL, Algorithm 10 (M-FedDisco).

    The round's weights must be given, as `round_weights` returns them. If those of all clients in
    the buffer are 0, (83) is 0/0 and the model stays.

    Parameters
    ----------
    n_clients : int
        U >= 1.
    never_joined : {"exclude", "zero", "literal"}
        As in `MFedAvg`, but "literal" gives the present model the weights (83) of the clients that
        never joined, each its own, as of the last call of `round_weights`; before the first call
        they have the mean weight.
    a, b : float
        >= 0; how much a client's label discrepancy takes from its weight, and what all get on top.
    """

    def __init__(
        self, n_clients: int, never_joined: str = "exclude", a: float = 0.2, b: float = 0.1
    ):
        super().__init__(n_clients, never_joined)
        self.a = checks.real("a", a, 0)
        self.b = checks.real("b", b, 0)
        self._everyone: np.ndarray | None = None

    def round_weights(
        self, work: LocalWork, sizes: np.ndarray, label_counts: Callable[[], np.ndarray]
    ) -> np.ndarray:
        """Return the participants' weights (83)."""
        apart = label_discrepancy(label_counts())
        self._everyone = disco_weights(sizes, apart, a=self.a, b=self.b)
        return self._everyone[work.clients]

    def absent_share(self) -> float:
        """Return the part of the clients that never joined, by their own weights if literal."""
        if self.never_joined != "literal" or self._everyone is None:
            return super().absent_share()
        absent = np.delete(self._everyone, list(self.order)).sum()
        return float(absent / (absent + self.shares[: self.joined].sum()))

    def aggregate(
        self, params: Tensor, updates: Tensor, weights: np.ndarray | None, work: LocalWork
    ) -> Tensor:
        """Return what `MFedAvg` returns; ValueError if there are no weights."""
        if weights is None:
            raise ValueError("weights=None; M-FedDisco needs the participants' disco_weights")
        return super().aggregate(params, updates, weights, work)


class MFedNova(RoundRule):
    """FedNova as the paper prints it, or as its authors define it.

    Source: OSAFL, Algorithm 8; Wang et al. 2020. Both forms move the model by the participants'
    updates only, and keep nothing between rounds:

    - "printed" (M-FedNova, ERRATA 41): w <- w - tau-tilde eta sum_u p_u kappa_u d_u, with p_u = D_u
      over the sum of all clients. A straggler's kappa_u = 0 drops what it sent before, so that no
      buffer is needed, and clients that never joined have no part.
    - "true": w <- w - tau-tilde eta (sum_v p_v kappa_v) sum_u p_u d_u with p normalised over the
      participants.

    Parameters
    ----------
    sizes : array (n_clients,)
        D_u > 0.
    slowdown : float
        tau-tilde > 0; 1 in FedNova, 0.05 to 0.35 in the paper.
    form : {"printed", "true"}
    """

    def __init__(self, sizes: ArrayLike, slowdown: float = 1.0, form: str = "printed"):
        self.sizes = _sizes(sizes)
        super().__init__(len(self.sizes))
        self.slowdown = checks.real("slowdown", slowdown, above=0)
        self.form = checks.choice("form", form, ("printed", "true"))

    def aggregate(
        self, params: Tensor, updates: Tensor, weights: np.ndarray | None, work: LocalWork
    ) -> Tensor:
        """Return the model moved by the participants' updates, each in its form's proportion."""
        p = np.where(work.steps > 0, self.sizes[work.clients], 0)
        if self.form == "printed":  # eta kappa_u d_u = -update
            factors = p / self.sizes.sum()
        else:
            p /= p.sum()
            factors = (p @ work.steps.astype(float)) * p / np.maximum(work.steps, 1)
        return params + torch.as_tensor(self.slowdown * factors).to(updates) @ updates


class MFedNovaLatest(BufferedRule):
    """M-FedNova as the comment of Algorithm 8 has it: with every client's latest contribution.

    w <- w - tau-tilde eta sum_u p_u kappa_u d[u], where kappa_u belongs to d[u], so that a
    straggler goes on counting. ERRATA 41: read with this round's kappa_u, as `MFedNova` does, the
    same line drops what it keeps in d[u]. A client that never joined has kappa_u = 0 and no part.

    Parameters
    ----------
    sizes : array (n_clients,)
        D_u > 0.
    slowdown : float
        tau-tilde > 0. Algorithm 8 without its rate eta is tau-tilde / eta here.
    never_joined : {"exclude", "zero", "literal"}
        With "exclude" p_u = D_u over the sum of the clients that ever joined, else of all.
    """

    def __init__(self, sizes: ArrayLike, slowdown: float = 1.0, never_joined: str = "exclude"):
        self.sizes = _sizes(sizes)
        super().__init__(len(self.sizes), never_joined)
        self.slowdown = checks.real("slowdown", slowdown, above=0)

    def contribution(self, params: Tensor, update: Tensor, steps: float, rate: float) -> Tensor:
        """Return the client's update, which is -eta kappa_u d_u."""
        return update

    def next_params(self, params: Tensor, rate: float) -> Tensor:
        """Return the model moved by the latest updates, each in its client's part of the data."""
        sizes = self.sizes[list(self.order)]
        whole = sizes if self.never_joined == "exclude" else self.sizes
        factors = torch.as_tensor(self.slowdown * sizes / whole.sum()).to(self.buffer)
        return params + factors @ self.buffer[: self.joined]


def _sizes(sizes: ArrayLike) -> np.ndarray:
    sizes = checks.array("sizes", sizes, ndim=1, above=0)
    if not len(sizes):
        raise ValueError("sizes must hold at least one client's number of samples")
    return sizes


class Genie:
    """No server rule, but what the paper compares all of them with: centralised SGD.

    A run whose rule is the genie trains one model on the union of all stores and asks no client for
    anything, so that nobody is a straggler. Source: OSAFL, Section V-B ("centralized SGD").
    """


def fednova(sizes: ArrayLike) -> MFedNova:
    """Return FedNova as its authors define it, for clients of `sizes` (n_clients,) samples."""
    return MFedNova(sizes, form="true")


# The headings under which the paper prints its rates.
NETWORKS = ("fcn", "squeezenet1", "cnn", "lstm")


def _printed(**options: tuple[float, ...]) -> Mapping[str, Mapping[str, float]]:
    """Turn values by option, one for each of `NETWORKS`, into read-only presets by network."""
    columns = {
        network: MappingProxyType({name: values[i] for name, values in options.items()})
        for i, network in enumerate(NETWORKS)
    }
    return MappingProxyType(columns)


_FEDAVG = _printed(rate=(0.15, 0.01, 0.1, 0.6))
_FEDNOVA = _printed(rate=(0.01, 0.03, 0.15, 0.5), slowdown=(0.1, 0.05, 0.35, 0.12))

# Every rule of the paper's comparison. `options` are what the class takes: n_clients, sizes,
# never_joined and chi come from the run, the others are the rule's own hyper-parameters.
# `presets` are the printed rates of OSAFL, Section V-A.4 and Appendix D-B. The paper prints none
# for FedNova and the genie, which take M-FedAvg's local rate.
RULES = Registry(
    "OSAFL server rule",
    {
        "osafl": Rule(
            OSAFL,
            "OSAFL",
            Look("#0072B2", "-", "o"),
            ("n_clients", "global_rate", "chi", "never_joined"),
            _printed(rate=(0.2, 0.01, 0.08, 0.2), global_rate=(35.0, 20.0, 22.0, 35.0)),
        ),
        "m_fedavg": Rule(
            MFedAvg,
            "M-FedAvg",
            Look("#D55E00", (0, (5, 1.5)), "s"),
            ("n_clients", "never_joined"),
            _FEDAVG,
        ),
        "m_fedprox": Rule(
            MFedProx,
            "M-FedProx",
            Look("#009E73", (0, (4, 1.5, 1, 1.5)), "^"),
            ("n_clients", "mu", "never_joined"),
            _printed(rate=(0.1, 0.01, 0.05, 0.5), mu=(0.9, 0.9, 0.9, 0.1)),
        ),
        "m_fednova": Rule(
            MFedNova,
            "M-FedNova",
            Look("#CC79A7", (0, (1, 1.2)), "D"),
            ("sizes", "slowdown"),
            _FEDNOVA,
        ),
        "m_fednova_latest": Rule(
            MFedNovaLatest,
            "M-FedNova, latest",
            Look("#882255", (0, (4, 1.2, 1, 1.2)), "d"),
            ("sizes", "slowdown", "never_joined"),
            _FEDNOVA,
        ),
        "fednova": Rule(fednova, "FedNova", Look("#666666", (0, (8, 2)), "x"), ("sizes",), _FEDAVG),
        "m_afa_cd": Rule(
            MAFACD,
            "M-AFA-CD",
            Look("#E69F00", (0, (3, 1, 1, 1, 1, 1)), "v"),
            ("n_clients", "global_rate", "never_joined"),
            _printed(rate=(0.1, 0.02, 0.1, 0.5), global_rate=(0.2, 0.01, 0.05, 1.0)),
        ),
        "m_feddisco": Rule(
            MFedDisco,
            "M-FedDisco",
            Look("#56B4E9", (0, (6, 1, 1, 1, 1, 1)), "P"),
            ("n_clients", "never_joined", "a", "b"),
            _printed(rate=(0.15, 0.01, 0.1, 0.5), a=(0.2,) * 4, b=(0.1,) * 4),
        ),
        "genie": Rule(Genie, "centralised SGD", Look("#000000", "-"), (), _FEDAVG),
    },
)
