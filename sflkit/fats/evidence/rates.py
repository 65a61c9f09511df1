"""What learning and forgetting cost, computed: the evidence of FATS's Lemma 4 to Theorem 7.

Notebook 41 shows what these functions return, and `sflkit.fats.claims` judges it. The notation is
that of `sflkit.fats.history` and `sflkit.fats.bounds`.

The problem whose constants are known: client k has the loss a_k |theta|^2 / 2 - <theta, xi> for
each of its samples xi, which add up to 0; half of the clients have a_k = 1/2, half 3/2. Then the
gradient of the mean loss is theta, L = 3/2, and E|theta|^2 follows an exact recursion.
"""

from __future__ import annotations

import timeit
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from sflkit import checks
from sflkit.fats import bounds, enumeration, expected_time, forgetting, stability
from sflkit.fats.evidence.exactness import KEYWORDS, TINY, Sizes
from sflkit.fats.history import Crowd, History, draw_clients, draw_history
from sflkit.randomness import generator

GRAD_VAR = 4.0  # G^2
LOSS_GAP = 0.5  # |theta_0| = 1
LONG = 4000  # rounds of the clients that disagree
LEVELS = ("sample", "client")
UNIT = {"loss_gap": 1.0, "smoothness": 1.0, "grad_var": 1.0, "heterogeneity": 1.0}


# --- Lemma 4 on problems with known constants -----------------------------------------------------


class Case(NamedTuple):
    """The problem with E local steps: Lemma 4's arguments but for the rate and lambda, the rates
    (Theorem 5's first) and the exact mean squared gradient at each."""

    setting: dict[str, Any]
    rates: np.ndarray
    exact: np.ndarray


class Trained(NamedTuple):
    """The same with lambda as seen in training: mean and error at Theorem 5's rate, and Lemma 4's
    bound and condition (7) at all rates."""

    simulated: float
    error: float
    heterogeneity: float
    bound: np.ndarray
    feasible: np.ndarray


class Problem(NamedTuple):
    """The noisy problem: curvatures a_k (M,), the sizes without E, and Lemma 4's constants."""

    curvature: np.ndarray
    sizes: dict[str, int]
    constants: dict[str, float]

    @property
    def heterogeneity(self) -> float:
        """lambda where all clients stand at one point, as with E = 1."""
        return float((self.curvature**2).mean() / self.curvature.mean() ** 2)

    def setting(self, local_steps: int) -> dict[str, Any]:
        """Return the arguments that Lemma 4 and Theorem 5 share, without lambda."""
        rho = stability.stability(**self.sizes, local_steps=local_steps)
        steps = local_steps * self.sizes["rounds"]
        return {
            **self.constants, "local_steps": local_steps, "steps": steps,
            "rho_s": rho.rho_s, "rho_c": rho.rho_c,
        }  # fmt: skip

    def theorem5(self, local_steps: int) -> bounds.Theorem5:
        """Return Theorem 5 for the problem with lambda as at one point."""
        return bounds.theorem5(**self.setting(local_steps), heterogeneity=self.heterogeneity)


def problem(
    *,
    n_clients: int,
    samples_per_client: int,
    clients_per_round: int,
    batch_size: int,
    rounds: int,
    local_steps: Sequence[int],
) -> Problem:
    """Return the noisy problem.

    Raises
    ------
    ValueError
        For an odd number of clients, or where Theorem 5's conditions fail for one of `local_steps`.
    """
    if checks.integer("n_clients", n_clients, 2) % 2:
        raise ValueError(
            f"n_clients={n_clients} must be even: half of the clients are flat, half are steep"
        )
    curvature = np.tile([0.5, 1.5], n_clients // 2)
    sizes = {
        "n_clients": n_clients,
        "samples_per_client": samples_per_client,
        "clients_per_round": clients_per_round,
        "batch_size": batch_size,
        "rounds": rounds,
    }
    constants = {
        "loss_gap": LOSS_GAP,
        "smoothness": 1.5,
        "grad_var": GRAD_VAR,
        "n_clients": n_clients,
        "samples_per_client": samples_per_client,
    }
    found = Problem(curvature, sizes, constants)
    for e in local_steps:
        if not found.theorem5(e).feasible:
            raise ValueError(
                f"rounds={rounds} are too few for Theorem 5 with local_steps={e}; raise rounds or "
                "lower batch_size"
            )
    return found


def exact_means(
    curvature: np.ndarray, sizes: Sizes, rates: Sequence[float], local_steps: int
) -> np.ndarray:
    """Return the exact mean squared gradient over all steps, for each step size.

    With q_k = 1 - eta a_k the second moment after i steps of a round is (mean(q^i)^2 + Var(q^i)/K)
    times that at its start, plus eta^2 V / K sum_{j<i} mean(q^2j), V = G^2/b (N - b)/(N - 1).
    """
    k, b, n = (sizes[key] for key in ("clients_per_round", "batch_size", "samples_per_client"))
    e, means = local_steps, []
    for rate in rates:
        q = (1 - rate * curvature[:, None]) ** np.arange(e + 1)
        kept = q.mean(axis=0) ** 2 + q.var(axis=0) / k
        variance = GRAD_VAR / b * (n - b) / (n - 1)
        noise = np.append(0, np.cumsum((q**2).mean(axis=0))[:-1])
        added = rate**2 * variance / k * noise
        second, summed = 2 * LOSS_GAP, 0.0
        for _ in range(sizes["rounds"]):
            summed += (second * kept + added)[:e].sum()
            second = second * kept[e] + added[e]
        means.append(summed / (e * sizes["rounds"]))
    return np.array(means)


def case(problem: Problem, local_steps: int) -> Case:
    """Return the problem's exact means at Theorem 5's step and at 25 others."""
    theorem = problem.theorem5(local_steps).rate
    rates = np.append(theorem, np.geomspace(theorem / 8, 0.9 / local_steps, 25))
    exact = exact_means(problem.curvature, problem.sizes, rates, local_steps)
    return Case(problem.setting(local_steps), rates, exact)


def train(
    problem: Problem, cases: Mapping[int, Case], *, seed: int, dimension: int, paths: int
) -> dict[int, Trained]:
    """Return what training on histories of the library gives at Theorem 5's step.

    The rounds of a history are independent, so that one long one is cut into `paths`.
    """
    sizes, found = problem.sizes, {}
    m, n, k, b, rounds = (sizes[key] for key in (*KEYWORDS[:4], "rounds"))
    noise = generator(seed, "data").normal(size=(m, n, dimension))
    noise -= noise.mean(axis=1, keepdims=True)
    noise *= np.sqrt(GRAD_VAR / (noise**2).sum(axis=2).mean(axis=1))[:, None, None]
    for e, of in cases.items():
        rng = generator(seed, "batches", e)
        history = draw_history(**sizes | {"rounds": rounds * paths}, local_steps=e, rng=rng)
        clients = history.clients.reshape(paths, rounds, k)
        batches = history.batches.reshape(paths, rounds, k, e, b)
        theta, summed = np.full((paths, dimension), dimension**-0.5), np.zeros(paths)
        spread = 1.0 if e > 1 else problem.heterogeneity
        for r in range(rounds):
            local = np.repeat(theta[:, None], k, axis=1)
            a = problem.curvature[clients[:, r], None]
            drawn = noise[clients[:, r, :, None, None], batches[:, r]].mean(axis=3)
            for i in range(e):
                summed += (local.mean(axis=1) ** 2).sum(axis=1)
                if e > 1:
                    apart = ((a * local) ** 2).sum(axis=2).mean(axis=1)
                    together = ((a * local).mean(axis=1) ** 2).sum(axis=1)
                    spread = max(spread, float((apart / together).max()))
                local = local - of.rates[0] * (a * local - drawn[:, :, i])
            theta = local.mean(axis=1)
        found[e] = _trained(of, summed / (rounds * e), spread)
    return found


def _trained(of: Case, means: np.ndarray, spread: float) -> Trained:
    limits = [bounds.lemma4(**of.setting, heterogeneity=spread, rate=rate) for rate in of.rates]
    return Trained(
        float(means.mean()),
        float(means.std(ddof=1) / len(means) ** 0.5),
        spread,
        np.array([bound.value for bound in limits]),
        np.array([bound.feasible for bound in limits]),
    )


def disagreeing() -> pd.DataFrame:
    """Return the value over the bound of Lemma 4 for clients that pull in opposite directions.

    Three of five have a_k = 1, two -1, full batches and one client a round, so that F = theta^2/10
    and lambda are exact. One row per E and rate: E, "eta E", value, bound, feasible, lambda, ratio.
    """
    rows, pull = [], np.array([1.0, 1.0, 1.0, -1.0, -1.0])
    for e in (1, 2, 5, 20, 100):
        sizes = dict(TINY, n_clients=5, samples_per_client=1, local_steps=e, rounds=LONG)
        rho = stability.stability(**sizes)
        for rate in np.geomspace(0.002 / e, 0.3 / e, 60):
            q = (1 - rate * pull[:, None]) ** np.arange(e + 1)
            own = pull[:, None] * q[:, :e]
            positive = (own.mean(axis=0) > 0).all()
            spread = ((own**2).mean(axis=0) / own.mean(axis=0) ** 2).max() if positive else np.inf
            factor = (q**2).mean(axis=0)
            sums = factor[:e].sum() * ((1 - factor[e] ** LONG) / (1 - factor[e]))
            bound = bounds.lemma4(
                loss_gap=0.1, smoothness=1.0, grad_var=0.0, heterogeneity=min(spread, 1e12),
                local_steps=e, n_clients=5, samples_per_client=1, steps=LONG * e,
                rho_s=rho.rho_s, rho_c=rho.rho_c, rate=rate,
            )  # fmt: skip
            value = 0.2**2 * sums / (LONG * e)
            rows.append((e, rate * e, value, bound.value, bound.feasible, spread))
    found = pd.DataFrame(rows, columns=["E", "eta E", "value", "bound", "feasible", "lambda"])
    return found.assign(ratio=found["value"] / found["bound"])


def one_jump() -> tuple[float, bounds.Bound]:
    """Return value and bound where Lemma 4 is tight: one parabola, E = 1, eta just below 1/L."""
    bound = bounds.lemma4(
        loss_gap=0.5, smoothness=1.0, grad_var=0.0, heterogeneity=1.0, local_steps=1, n_clients=1,
        samples_per_client=1, steps=LONG, rho_s=LONG, rho_c=LONG, rate=0.999,
    )  # fmt: skip
    return (1 - 0.001 ** (2 * LONG)) / (1 - 0.001**2) / LONG, bound


def eight_and_nine(seed: int) -> np.ndarray:
    """Return (8), computed from K and b, and (9), from rho_S and rho_C, in 200 random settings."""
    rng, pairs = generator(seed, "monte_carlo", 1), []
    for _ in range(200):
        e, r, k, b, m, n = (int(v) for v in rng.integers(1, 20, size=6))
        sizes = dict(zip(KEYWORDS, (m, n + b, k, b, e, r), strict=True))
        rho = stability.stability(**sizes)
        gap, big_l, g2, rate = rng.uniform(0.1, 5, size=4)
        drift = (rate * big_l) ** 2 * g2 * e * (k + 1) / (k * b)
        eight = 2 * gap / (rate * e * r) + drift + rate * big_l * g2 / (k * b)
        nine = bounds.lemma4(
            loss_gap=gap, smoothness=big_l, grad_var=g2, heterogeneity=1.0, local_steps=e,
            n_clients=m, samples_per_client=n + b, steps=e * r,
            rho_s=rho.rho_s, rho_c=rho.rho_c, rate=rate,
        )  # fmt: skip
        pairs.append((eight, nine.value))
    return np.array(pairs).T


# --- Theorem 5, Corollary 6 and Remark 2 ----------------------------------------------------------


def conditions(sizes: Mapping[str, Sizes]) -> pd.DataFrame:
    """Return the rounds that Theorem 5 asks for with unit constants, beside those of Table 2."""
    rows = []
    for name, each in sizes.items():
        rho = stability.stability(**each)
        rest = {key: each[key] for key in ("n_clients", "samples_per_client", "local_steps")}
        steps = each["local_steps"] * each["rounds"]
        theorem = bounds.theorem5(**UNIT, **rest, steps=steps, rho_s=rho.rho_s, rho_c=rho.rho_c)
        root = theorem.gamma**0.5
        rows.append((name, each["rounds"], 2 / root, theorem.value, 3 * root, theorem.feasible))
    columns = ["setting", "R", "R needed", "Theorem 5", "stability cost", "feasible"]
    return pd.DataFrame(rows, columns=columns)


def random_settings(seed: int, n: int = 20_000) -> pd.DataFrame:
    """Return Theorem 5, Lemma 4 at its step and both cases of Corollary 6 in random settings."""
    rng, rows = generator(seed, "monte_carlo", 2), []
    for _ in range(n):
        e, m, samples = (int(rng.integers(1, high)) for high in (41, 50, 200))
        total = e * int(np.exp(rng.uniform(0, 14)))
        gap, big_l, g2 = np.exp(rng.uniform(-3, 3, size=3))
        common = {
            "loss_gap": gap, "smoothness": big_l, "grad_var": g2,
            "heterogeneity": 1 + rng.exponential(), "n_clients": m, "samples_per_client": samples,
            "steps": total, "rho_s": rng.uniform(0.01, 1), "rho_c": rng.uniform(0.01, 1),
        }  # fmt: skip
        theorem = bounds.theorem5(**common, local_steps=e)
        lemma = bounds.lemma4(**common, local_steps=e, rate=theorem.rate)
        with_c = bounds.corollary6(**common, c=e / total)
        alpha = 1 - np.log(e) / np.log(total) if 1 < total and e < total else 1.0
        with_alpha = bounds.corollary6(**common, alpha=alpha)
        rows.append((theorem.value, lemma.value, theorem.feasible, lemma.feasible, with_c.value,
                     with_c.feasible, with_alpha.feasible and e < total))  # fmt: skip
    columns = ["theorem", "lemma", "theorem holds", "lemma holds", "corollary", "c holds"]
    return pd.DataFrame(rows, columns=[*columns, "alpha holds"])


def shared_steps(problem: Problem, local_steps: Sequence[int]) -> pd.DataFrame:
    """Return the exact mean at Theorem 5's step for K b = 20 with K from 1 to 20 (Remark 2).

    There are 8000 clients with 600 samples, so that rho_C stays below 1.
    """
    rows, many = [], {"n_clients": 8000, "samples_per_client": 600}
    for e in local_steps:
        for k in (1, 2, 4, 5, 10, 20):
            sizes = problem.sizes | many | {"clients_per_round": k, "batch_size": 20 // k}
            wide = Problem(problem.curvature, sizes, problem.constants | many)
            theorem, rho = wide.theorem5(e), stability.stability(**sizes, local_steps=e)
            mean = exact_means(problem.curvature, sizes, [theorem.rate], e)[0]
            cost = 3 * problem.constants["smoothness"] * LOSS_GAP * theorem.gamma**0.5
            rows.append((e, k, rho.rho_s, rho.rho_c, cost, mean))
    return pd.DataFrame(rows, columns=["E", "K", "rho_S", "rho_C", "stability cost", "exact"])


def few_samples() -> dict[float, stability.Plan]:
    """Return what Algorithm 1 plans for rho_S = 0.4 at rho_C = rho_S / E and at half of it."""
    sizes = {"n_clients": 1000, "samples_per_client": 20, "local_steps": 2, "rounds": 100}
    return {
        share: stability.plan(rho_s=0.4, rho_c=share * 0.4 / 2, **sizes) for share in (1.0, 0.5)
    }


# --- Theorem 7: what requests cost ----------------------------------------------------------------


def request_costs(sizes: Sizes, requests: int) -> dict[str, np.ndarray]:
    """Return what 1 to w requests cost on average, exactly, for clients and for samples.

    Requests come after training, each for another client, or for a sample of another client. The
    i-th client to leave finds M - i + 1 clients, and since forgetting is exact, the history of a
    run on these. Source: FATS, Theorem 7 and Section 5.3.1.

    Parameters
    ----------
    sizes : mapping
        As of `draw_history`; samples_per_client may be a mean.
    requests : int
        w in [1, M).

    Returns
    -------
    dict of arrays (w,)
        "client" and "sample": re-computations of requests one after another; with "_time": the
        steps that they repeat, in trainings; with "_once" and "_once_time": those of all requests
        at once.
    """
    m, k, r, e = (sizes[key] for key in ("n_clients", "clients_per_round", "rounds", "local_steps"))
    spare = 1 - sizes["batch_size"] / sizes["samples_per_client"]  # a step of the client spares it
    w, t, done = np.arange(1, requests + 1), np.arange(1, r + 1), np.arange(1, e + 1)
    left = m - w + 1  # clients that the i-th leaver finds
    client = 1 - (1 - 1 / left) ** (k * r)
    client_rounds = (1 - (1 - 1 / left[:, None]) ** (k * t)).sum(axis=1)
    together = 1 - (1 - w / m) ** (k * r)
    together_rounds = (1 - (1 - w[:, None] / m) ** (k * t)).sum(axis=1)
    whole = (1 - w / m * (1 - spare**e)) ** k  # a round spares w samples of different clients
    part = (1 - w[:, None] / m * (1 - spare**done)) ** k  # its first steps do
    at_once = 1 - whole**r
    steps = (1 - whole[:, None, None] ** (t[:, None] - 1) * part[:, None, :]).sum(axis=(1, 2))
    return {
        "client": np.cumsum(client),
        "client_time": np.cumsum(client_rounds) / r,
        "client_once": together,
        "client_once_time": together_rounds / r,
        "sample": w * at_once[0],
        "sample_time": w * steps[0] / (e * r),
        "sample_once": at_once,
        "sample_once_time": steps / (e * r),
    }


def costs_table(exact: Mapping[str, dict], sizes: Mapping[str, Sizes]) -> pd.DataFrame:
    """Return number and time of the last request of `request_costs`, beside 4 w rho."""
    rows = []
    for name, found in exact.items():
        rho = stability.stability(**sizes[name])
        for level, value in (("sample", rho.rho_s), ("client", rho.rho_c)):
            limit = bounds.theorem7(rho=value, requests=len(found[level])).recomputations
            last = (found[f"{level}{kind}"][-1] for kind in ("", "_time", "_once_time"))
            number, time, at_once = last
            rows.append((name, level, value, number, limit, time, at_once))
    columns = ["setting", "level", "rho", "exact number", "4 w rho", "trainings", "at once"]
    return pd.DataFrame(rows, columns=columns)


def nearly_all() -> pd.DataFrame:
    """Return the exact number of re-computations when all samples but one go, and 4 w rho.

    One client of N samples, one step, b = 1, requests in turn (ERRATA 59).
    """
    few = (10, 100, 1000, 10_000, 100_000)
    exact = [(1 / np.arange(2, n + 1)).sum() for n in few]
    allowed = [bounds.theorem7(rho=1 / n, requests=n - 1).recomputations for n in few]
    return pd.DataFrame({"N": few, "exact": exact, "4 w rho": allowed})


def quarter_left(sizes: Mapping[str, Sizes]) -> dict[str, np.ndarray]:
    """Return the exact number and 4 w rho for every w that leaves a quarter, arrays (cases, 2)."""
    smallest = [dict(TINY, n_clients=m, samples_per_client=m) for m in (1, 4, 9, 100, 10_000)]
    found: dict[str, list] = {"clients": [], "samples": []}
    for s in [*sizes.values(), *smallest]:
        m, n, batch = (s[key] for key in ("n_clients", "samples_per_client", "batch_size"))
        draws = s["clients_per_round"] * s["rounds"]
        left = np.arange(m, m / 4 - 1e-9, -1)
        hit = 1 - (1 - 1 / np.maximum(left, 1)) ** draws
        found["clients"].append(_summed(hit, draws / m))
        left = np.arange(n, max(n / 4, batch) - 1e-9, -1)
        hit = 1 - (1 - (1 - (1 - batch / left) ** s["local_steps"]) / m) ** draws
        found["samples"].append(_summed(hit, batch * draws * s["local_steps"] / (m * n)))
    return {level: np.concatenate(parts) for level, parts in found.items()}


def _summed(hit: np.ndarray, rho: float) -> np.ndarray:
    return np.stack([np.cumsum(hit), 4 * np.arange(1, len(hit) + 1) * min(rho, 1)], axis=1)


def over_rho(sizes: Sizes) -> dict[str, np.ndarray]:
    """Return the mean time of one request in trainings, over K (rho_C) and over b (rho_S)."""
    drawn, batch = np.arange(1, 11), np.arange(5, 41, 5)
    steps = sizes["local_steps"] * sizes["rounds"]
    of_clients = {key: sizes[key] for key in ("n_clients", "local_steps", "rounds")}
    of_samples = dict(sizes, samples_per_client=int(sizes["samples_per_client"]))
    client = [expected_time.client_time(**of_clients, clients_per_round=int(k)) for k in drawn]
    sample = [expected_time.sample_time(**of_samples | {"batch_size": int(b)}) for b in batch]
    return {
        "K": drawn,
        "client": np.array(client) / steps,
        "b": batch,
        "sample": np.array(sample) / steps,
    }


def busiest_devices(sizes: Mapping[str, Sizes], *, seed: int) -> dict[str, int]:
    """Return the most slots that a device had in any of 20 trainings, by setting."""
    rng, busiest = generator(seed, "monte_carlo", 7), {}
    for name, s in sizes.items():
        crowd = Crowd.of(np.ones(s["n_clients"], dtype=int))
        draws = (s["rounds"] * s["clients_per_round"],)
        slots = [draw_clients(crowd, draws, rng) for _ in range(20)]
        busiest[name] = max(int(np.bincount(one).max()) for one in slots)
    return busiest


def low_memory() -> dict[str, list]:
    """Return the distances to retraining of Section 5.3.2's variant, as printed and mended."""
    found: dict[str, list] = {"printed": [], "clients kept": []}
    for e, rounds in ((1, 1), (1, 2), (2, 1), (2, 2)):
        tiny = dict(TINY, local_steps=e, rounds=rounds)
        law, goal = enumeration.drawn_law(**tiny), enumeration.retrained_law([(0, 0)], **tiny)
        for name, distances in found.items():
            keep = name == "clients kept"
            after = enumeration.restarted_law(law, 0, 0, keep_clients=keep)
            distances.append(enumeration.total_variation(after, goal))
    return found


def serve(
    sizes: Sizes, rng: np.random.Generator, *, repeats: int, requests: int
) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Return mean and standard error of what simulated requests cost, by the names of
    `request_costs` without "_once": arrays (w,), and for "_once_time" numbers.

    Each history of the library serves one stream for samples of different clients, one for whole
    clients, and the same requests at once.
    """
    found: dict[str, list] = {}
    for _ in range(repeats):
        history = draw_history(**sizes, rng=rng)
        asked = rng.permutation(sizes["n_clients"])[:requests]
        photos = rng.integers(sizes["samples_per_client"], size=requests)
        for level in LEVELS:
            of = photos if level == "sample" else [None] * requests
            stream = list(zip(asked, of, strict=True))
            firsts = forgetting.forget_stream(history, stream, rng).first
            cost = np.array([_steps_again(history, first) for first in firsts])
            found.setdefault(level, []).append(np.cumsum(cost > 0))
            found.setdefault(f"{level}_time", []).append(np.cumsum(cost) / history.steps)
            if level == "sample":
                first = forgetting.forget_sample(history, asked, photos, rng).first
            else:
                first = forgetting.forget_client(history, asked, rng).first
            once = _steps_again(history, first) / history.steps
            found.setdefault(f"{level}_once_time", []).append(once)
    order = [f"{level}{kind}" for level in LEVELS for kind in ("", "_time", "_once_time")]
    return {
        name: (np.mean(found[name], axis=0), np.std(found[name], axis=0, ddof=1) / repeats**0.5)
        for name in order
    }


def _steps_again(history: History, first: Any) -> int:
    """Return the steps that a request repeats, from its first use on."""
    if first is None:
        return 0
    round_, step = first if isinstance(first, tuple) else (first, 0)
    return history.steps - (round_ * history.local_steps + step)


class LookUps(NamedTuple):
    """Seconds of a look-up and of a search by the history's draws, the log-log slopes, and whether
    both gave the same answer for 300 samples."""

    table: pd.DataFrame
    look_slope: float
    search_slope: float
    agrees: bool


def look_ups(rng: np.random.Generator) -> LookUps:
    """Time the question whether a request hits, in histories of 100 to 10,000 rounds."""
    crowd = {"n_clients": 100, "samples_per_client": 100, "clients_per_round": 5, "batch_size": 5}
    rows = []
    for length in (100, 1000, 10_000):
        history = draw_history(**crowd, local_steps=2, rounds=length, rng=rng)

        def look(history: History = history) -> Any:
            return history.first_use(7, 23)

        def search(history: History = history) -> bool:
            return bool(_uses(history, 7, 23).any())

        seconds = min(timeit.repeat(look, number=5000, repeat=7)) / 5000
        rows.append(
            (history.batches.size, seconds, min(timeit.repeat(search, number=3, repeat=5)) / 3)
        )
    table = pd.DataFrame(rows, columns=["draws", "look-up (s)", "search (s)"])
    slopes = (
        float(np.polyfit(np.log(table["draws"]), np.log(table[c]), 1)[0]) for c in table.columns[1:]
    )
    small = draw_history(
        n_clients=20, samples_per_client=50, clients_per_round=2, batch_size=3, local_steps=4,
        rounds=30, rng=rng,
    )  # fmt: skip
    agrees = []
    for k, photo in zip(rng.integers(20, size=300), rng.integers(50, size=300), strict=True):
        uses = np.argwhere(_uses(small, k, photo))
        first = min((int(r), int(e)) for r, _, e in uses) if len(uses) else None
        agrees.append(small.first_use(k, photo) == first)
    return LookUps(table, *slopes, all(agrees))


def _uses(history: History, client: int, sample: int) -> np.ndarray:
    """Return in which slots and steps a sample was used, searched for, (R, K, E)."""
    return (history.clients == client)[:, :, None] & (history.batches == sample).any(axis=-1)


# --- what the claims are judged by ----------------------------------------------------------------


class Rates(NamedTuple):
    """All that notebook 41 has found, as the functions above return it."""

    problem: Problem
    cases: dict[int, Case]
    trained: dict[int, Trained]
    hard: pd.DataFrame
    formulas: np.ndarray
    conditions: pd.DataFrame
    checked: pd.DataFrame
    shared: pd.DataFrame
    exact: dict[str, dict[str, np.ndarray]]
    measured: dict[str, tuple[np.ndarray, np.ndarray]]
    quarter: dict[str, np.ndarray]
    busiest: dict[str, int]
    variant: dict[str, list]
    looked_up: LookUps


def evidence(found: Rates, sizes: Mapping[str, Sizes]) -> dict[str, dict[str, Any]]:
    """Return the evidence of the claims of notebook 41, by artefact and part."""
    return {
        **_learning(found),
        **_corollary(found),
        "fats-thm7": _requests(found, sizes),
        "fats-lookup": {
            "flat": found.looked_up.look_slope,
            "right": found.looked_up.agrees,
            "search": found.looked_up.search_slope,
        },
        "fats-space": _space(found, sizes),
    }


def _learning(found: Rates) -> dict[str, dict[str, Any]]:
    pairs = [(found.cases[e], trained) for e, trained in found.trained.items()]
    hard = found.hard[found.hard["feasible"]]
    jump, jump_bound = one_jump()
    checked, run = found.checked, []
    for case, trained in pairs:
        theorem = bounds.theorem5(**case.setting, heterogeneity=trained.heterogeneity)
        if theorem.feasible:
            run.append((case.exact[0], theorem.value))
    eight, nine = found.formulas
    return {
        "fats-lem4": {
            "algebra": (nine, eight),
            "noisy": (
                np.concatenate([case.exact[trained.feasible] for case, trained in pairs]),
                np.concatenate([trained.bound[trained.feasible] for _, trained in pairs]),
            ),
            "disagreeing": (
                np.array([*hard["value"], jump]), np.array([*hard["bound"], jump_bound.value])
            ),
            "simulated": tuple(
                np.array([(t.simulated, t.error, case.exact[0]) for case, t in pairs]).T
            ),
        },
        "fats-thm5": {
            "substitution": (checked["theorem"].to_numpy(), checked["lemma"].to_numpy()),
            "implies_7": tuple(
                checked[name].astype(float).to_numpy() for name in ("theorem holds", "lemma holds")
            ),
            "run": tuple(np.transpose(run)),
            "table_2": {row.setting: bool(row.feasible) for row in found.conditions.itertuples()},
        },
    }  # fmt: skip


def _corollary(found: Rates) -> dict[str, dict[str, Any]]:
    shared, checked, reached = found.shared, found.checked, few_samples()
    varied = shared.groupby("E")["exact"].agg(["max", "min"])
    cost = shared["stability cost"]
    first = cost.groupby(shared["E"]).transform("first")
    constants, slopes = found.problem.constants, []
    held = dict(constants, heterogeneity=found.problem.heterogeneity, rho_s=0.5, rho_c=0.5)
    for key, ends in (
        ("rho_s", (0.01, 1.0)),
        ("n_clients", (10, 1000)),
        ("samples_per_client", (10, 1000)),
        ("rho_c", (0.01, 1.0)),
    ):
        low, high = (bounds.corollary6(**held | {key: v}, steps=10**6, alpha=1).value for v in ends)
        slopes.append(np.log(high / low) / np.log(ends[1] / ends[0]))
    cases = {
        name: tuple(
            checked.loc[checked[f"{name} holds"], c].to_numpy() for c in ("theorem", "corollary")
        )
        for name in ("alpha", "c")
    }
    return {
        "fats-rem2": {
            "bound": (cost.to_numpy(), first.to_numpy()),
            "exact": ((varied["max"] / varied["min"]).to_numpy(), 1.05),
            "enough_samples": {
                "at rho_S / E": abs(reached[1.0].rho_s - 0.4) < 1e-9,
                "not at half of it": reached[0.5].rho_s < 0.39,
            },
        },
        "fats-cor6": {
            "alpha_case": cases["alpha"],
            "c_case": cases["c"],
            "order": (np.array(slopes), np.array([-0.5, -0.5, -0.5, 0.0])),
        },
    }


def _requests(found: Rates, sizes: Mapping[str, Sizes]) -> dict[str, Any]:
    rho = {name: stability.stability(**each) for name, each in sizes.items()}
    w = np.arange(1, len(found.exact["MNIST"]["client"]) + 1)
    four = {
        level: np.stack([4 * w * min(getattr(rho[name], column), 1) for name in found.exact])
        for level, column in (("sample", "rho_s"), ("client", "rho_c"))
    }
    exact = found.exact.values()
    simulated = [
        (np.atleast_1d(mean), np.atleast_1d(error),
         np.atleast_1d(found.exact["MNIST"][name])[-np.size(mean) :])
        for name, (mean, error) in found.measured.items()
    ]  # fmt: skip
    one, last = over_rho(sizes["MNIST"]), nearly_all()
    return {
        "clients": (np.stack([x["client"] for x in exact]), four["client"]),
        "samples": (np.stack([x["sample"] for x in exact]), four["sample"]),
        "time": (
            np.stack([x[f"{level}_time"] for level in four for x in exact]),
            np.concatenate(list(four.values())),
        ),
        "direction": {
            "rises with rho_S": bool((np.diff(one["sample"]) > 0).all()),
            "rises with rho_C": bool((np.diff(one["client"]) > 0).all()),
        },
        "simulated": tuple(np.concatenate(side) for side in zip(*simulated, strict=True)),
        "nearly_all": (last["exact"].to_numpy(), last["4 w rho"].to_numpy()),
        "quarter_clients": tuple(found.quarter["clients"].T),
        "quarter_samples": tuple(found.quarter["samples"].T),
    }


def _space(found: Rates, sizes: Mapping[str, Sizes]) -> dict[str, Any]:
    columns = np.array([[s[key] for key in KEYWORDS] for s in sizes.values()]).T
    m, n, k, batch, e, r = columns
    rho_s, rho_c = batch * k * r * e / (m * n), k * r / m
    printed, kept = (np.array(of, dtype=float) for of in found.variant.values())
    return {
        "device": (np.array([found.busiest[name] for name in sizes]), r),
        "identities": (
            np.concatenate([batch, r * k]),
            np.concatenate([rho_s * n / (rho_c * e), rho_c * m]),
        ),
        "variant": (printed, 0.0),
        "variant_kept": (kept, 0.0),
        "kept_clients": (r * k, m),
    }


def notes(found: Rates) -> dict[str, str]:
    """Return what stands below each verdict of notebook 41."""
    shared = found.shared
    varied = shared.groupby("E")["exact"].agg(lambda mean: mean.max() / mean.min()).max()
    low, high = shared["rho_C"].min(), shared["rho_C"].max()
    return {
        "fats-lem4": "Tight for one quadratic and eta = 1/L. With noise and E > 1 no finite lambda "
        "exists; the largest seen is used (ERRATA 64).",
        "fats-thm5": "Its conditions ask for more rounds than Table 2 has, 245 against 30 for "
        "MNIST with unit constants; the balanced step would be sqrt(2) larger (ERRATA 23).",
        "fats-rem2": f"rho_C from {low:.3g} to {high:.3g}; the exact mean varies by "
        f"{100 * (varied - 1):.2g} % at most.",
        "fats-cor6": "Conditions as in Theorem 5.",
        "fats-thm7": "Generous at Table 2's sizes, and rising in rho, against Section 6.2.4 "
        "(ERRATA 46). When nearly all data are forgotten the number grows like ln N against a "
        "constant, 4.19 against 3.96; it holds while a quarter is left (ERRATA 59).",
        "fats-lookup": "The table is an array with the first step of every sample and the first "
        "round of every client.",
        "fats-space": "The variant's distances as printed: "
        f"{', '.join(map(str, found.variant['printed']))}. With the clients kept the server stores "
        "R K = rho_C M <= M numbers more, so that O(M + d) stands (ERRATA 15).",
    }


def numbers(found: Rates, costs: pd.DataFrame) -> list[dict[str, Any]]:
    """Return the rows of notebook 41's table, ours beside the paper's; `costs` is `costs_table`."""
    w = len(found.exact["MNIST"]["client"])
    rows = [
        {
            "quantity": f"mean squared gradient, E = {e}, trained | Lemma 4",
            "ours": trained.simulated,
            "paper": trained.bound[0],
        }
        for e, trained in found.trained.items()
    ]
    rows += [
        {
            "quantity": f"rounds in Table 2, {row.setting} | asked for by Theorem 5",
            "ours": row.R,
            "paper": row[3],
        }
        for row in found.conditions.itertuples()
    ]
    return rows + [
        {
            "quantity": f"{row.setting}, {w} {row.level}s one by one: re-computations | bound",
            "ours": row[4],
            "paper": row[5],
        }
        for row in costs.itertuples()
    ]
