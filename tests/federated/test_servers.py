"""The server step by hand, its limiting cases, and bad input."""

import numpy as np
import pytest
import torch

from sflkit import models
from sflkit.federated import Task, local_sgd
from sflkit.federated.servers import (
    RULES,
    FedAvg,
    FedProx,
    LocalWork,
    Scaffold,
    check_work,
    weighted_average,
)


def test_fedavg_by_hand():
    # w = (1, 2); updates (2, 0), (0, 4): mean (1, 2); eta = 0.5: w + (0.5, 1) = (1.5, 3).
    # Weights (3, 1): mean (1.5, 1), w + (0.75, 0.5).
    w, updates = torch.tensor([1.0, 2.0]), torch.tensor([[2.0, 0.0], [0.0, 4.0]])
    assert torch.equal(FedAvg(0.5)(w, updates), torch.tensor([1.5, 3.0]))
    assert torch.equal(FedAvg(0.5)(w, updates, [3, 1]), torch.tensor([1.75, 2.5]))
    assert torch.equal(w, torch.tensor([1.0, 2.0]))
    np.testing.assert_array_equal(
        FedAvg(0.5)(w.numpy(), updates.numpy(), torch.tensor([3.0, 1.0])), [1.75, 2.5]
    )


def test_global_rate_one_is_the_mean_of_the_local_models():
    g = torch.Generator().manual_seed(0)
    w, local = torch.randn(50, generator=g), torch.randn(4, 50, generator=g)
    torch.testing.assert_close(FedAvg()(w, local - w), local.mean(0))


def test_paper_step_with_the_missing_rate():
    # (5)-(6) as ERRATA 2 reads them: w + eta eta_L mean_k Delta_k with Delta_k = -sum of the E
    # gradients. For l = (v - y)^2 with one bias-only weight v (x = 0 kills the slope): gradient 2
    # (v - y). v = 0, eta_L = 0.1, E = 2, y = 1 and y = -3: client 1: g = -2, v = 0.2, g = -1.6,
    # Delta = 3.6; client 2: g = 6, v = -0.6, g = 4.8, Delta = -10.8; mean -3.6. w + 0.5 * 0.1 *
    # -3.6 = -0.18.
    task = Task(models.create("linear", input_shape=(1,), n_classes=1), "mse")
    w = torch.zeros(2)
    batches = [[(np.array([[0.0]]), np.array([[y]]))] * 2 for y in (1.0, -3.0)]
    new = FedAvg(0.5)(w, local_sgd(task, w, batches, 0.1) - w)
    torch.testing.assert_close(new, torch.tensor([0.0, -0.18]))


def test_weights():
    updates = torch.tensor([[1.0, 1.0], [float("nan"), 0.0], [3.0, 5.0]])
    assert torch.equal(
        weighted_average(updates, [1, 0, 1]), torch.tensor([2.0, 3.0])
    )  # weight 0: no influence, even as NaN
    g = torch.Generator().manual_seed(0)
    u = torch.randn(5, 7, generator=g)
    torch.testing.assert_close(weighted_average(u, np.full(5, 0.3)), weighted_average(u))
    torch.testing.assert_close(weighted_average(u, [2, 0, 0, 0, 0]), u[0])


@pytest.mark.parametrize("name", RULES)
@pytest.mark.parametrize("kind", [torch.tensor, np.array])
def test_a_round_does_not_start_from_parameters_that_diverged(name, kind):
    # without the check a NaN went through every rule into the next model
    options = {"n_clients": 2} if name == "scaffold" else {}
    work = LocalWork([0, 1], [1, 1], 0.1)
    for bad in (np.nan, np.inf):
        with pytest.raises(ValueError, match=f"params holds {bad} at entry 1; entries must be fin"):
            RULES[name].build(**options)(kind([1.0, bad]), kind([[1.0, 1], [2, 2]]), None, work)
    # whereas an update that diverged is seen by the model that it makes
    new = RULES[name].build(**options)(
        kind([1.0, 1]), kind([[1.0, 1], [np.nan, 2]]), None, LocalWork([0, 1], [1, 1], 0.1)
    )
    assert np.isnan(float(new[0])) and np.isfinite(float(new[1]))


def quadratic_rounds(
    rule, curvature, centres, start, rate, steps, rounds, weights=None, participants=None
):
    """Gradient descent on h_k/2 (w - a_k)^2 in numpy; yields each round's global model."""
    w = np.array([float(start)])
    for t in range(rounds):
        clients = np.arange(len(centres)) if participants is None else np.asarray(participants[t])
        work = LocalWork(clients, np.full(len(clients), steps), rate)
        options = rule.local_options(work)
        updates = []
        for i, k in enumerate(clients):
            y = w.copy()
            for _ in range(steps):
                gradient = curvature[k] * (y - centres[k]) + options.get("prox", 0.0) * (y - w)
                if "corrections" in options:
                    gradient = gradient + options["corrections"][i].numpy()
                y = y - rate * gradient
            updates.append(y - w)
        w = rule(
            w, np.array(updates), None if weights is None else np.asarray(weights)[clients], work
        )
        yield float(w[0])


def test_scaffold_two_rounds_by_hand():
    # f_1 = (w - 1)^2 / 2, f_2 = 2 w^2 / 2; start w = 0, eta_L = 0.5, E = 2, equal weights.
    # Round 1 (no corrections): client 1: 0 -> 0.5 -> 0.75; client 2 stays at 0. w = 0.375.
    #   c_1 = (0 - 0.75) / (2 * 0.5) = -0.75, c_2 = 0, c = -0.375.
    # Round 2, corrections c - c_1 = 0.375, c - c_2 = -0.375:
    #   client 1: g = -0.625 + 0.375 = -0.25, y = 0.5; g = -0.5 + 0.375 = -0.125, y = 0.5625;
    #   client 2: g = 0.75 - 0.375 = 0.375, y = 0.1875; g = 0.375 - 0.375 = 0, y = 0.1875; w =
    # 0.375.
    #   c_1+ = -0.75 + 0.375 + (0.375 - 0.5625) = -0.5625; c_2+ = 0 + 0.375 + (0.375 - 0.1875) =
    # 0.5625; c = 0.
    rule = Scaffold(2)
    assert list(quadratic_rounds(rule, [1, 2], [1, 0], 0, 0.5, 2, 2)) == [0.375, 0.375]
    assert (float(rule.controls[0][0]), float(rule.controls[1][0]), float(rule.mean[0])) == (
        -0.5625,
        0.5625,
        0.0,
    )


@pytest.mark.parametrize(("shares", "optimum"), [((0.5, 0.5), 1 / 3), ((0.25, 0.75), 1 / 7)])
def test_scaffold_finds_the_optimum_and_fedavg_does_not(shares, optimum):
    # sum p_k h_k (w - a_k) = 0 with h = (1, 2), a = (1, 0): w = p_1 / (p_1 + 2 p_2).
    # FedAvg's fixed point: E steps map w to a_k + (1 - eta h_k)^E (w - a_k), so with r_k = 1 - (1 -
    # eta h_k)^E it is sum p_k r_k a_k / sum p_k r_k; eta = 0.2, E = 5: r = (0.67232, 0.92224).
    case = dict(
        curvature=[1, 2], centres=[1, 0], start=5, rate=0.2, steps=5, rounds=200, weights=shares
    )
    assert list(quadratic_rounds(Scaffold(2, shares), **case))[-1] == pytest.approx(
        optimum, abs=1e-10
    )
    r = 1 - (1 - 0.2 * np.array([1, 2])) ** 5
    biased = shares[0] * r[0] / (shares @ r)
    assert list(quadratic_rounds(FedAvg(), **case))[-1] == pytest.approx(biased, abs=1e-10)
    assert abs(biased - optimum) > 0.05


def test_scaffold_with_wrong_shares_misses_the_optimum():
    # the plain mean of the controls under weights (0.25, 0.75) leaves sum p_k (c - c_k) != 0: what
    # `shares` is for
    case = dict(
        curvature=[1, 2],
        centres=[1, 0],
        start=5,
        rate=0.2,
        steps=5,
        rounds=200,
        weights=(0.25, 0.75),
    )
    assert abs(list(quadratic_rounds(Scaffold(2), **case))[-1] - 1 / 7) > 0.05


def test_scaffold_under_partial_participation():
    # with c = sum p_k c_k kept over all clients, drawing one of two clients a round still converges
    # to the optimum 1/3
    rng = np.random.default_rng(0)
    rule = Scaffold(2)
    drawn = rng.integers(0, 2, (600, 1))
    path = list(quadratic_rounds(rule, [1, 2], [1, 0], 5, 0.05, 4, 600, participants=drawn))
    assert path[-1] == pytest.approx(1 / 3, abs=1e-6)
    assert float(rule.mean[0]) == pytest.approx(
        float(rule.controls[0][0] + rule.controls[1][0]) / 2, abs=1e-12
    )


def test_scaffold_with_identical_clients_is_fedavg():
    case = dict(curvature=[2, 2, 2], centres=[1, 1, 1], start=5, rate=0.1, steps=3, rounds=10)
    np.testing.assert_allclose(
        list(quadratic_rounds(Scaffold(3), **case)),
        list(quadratic_rounds(FedAvg(), **case)),
        rtol=1e-12,
    )


def test_scaffold_ignores_clients_without_weight_or_steps():
    plain, other = Scaffold(3, (0.5, 0.5, 0)), Scaffold(3, (0.5, 0.5, 0))
    w, updates = torch.zeros(2), torch.tensor([[1.0, 0.0], [0.0, 2.0], [float("nan"), 0.0]])
    for _ in range(2):
        a = plain(w, updates[:2], [0.5, 0.5], LocalWork(np.array([0, 1]), np.array([2, 2]), 0.1))
        b = other(w, updates, [0.5, 0.5, 0.0], LocalWork(np.arange(3), np.array([2, 2, 2]), 0.1))
        assert torch.equal(a, b) and torch.equal(plain.mean, other.mean) and 2 not in other.controls
    idle = Scaffold(2)
    idle(
        w,
        torch.tensor([[1.0, 0.0], [0.0, 0.0]]),
        None,
        LocalWork(np.array([0, 1]), np.array([2, 0]), 0.5),
    )
    assert 1 not in idle.controls and torch.equal(
        idle.mean, torch.tensor([-0.5, 0.0])
    )  # -(1, 0)/(2 * 0.5) / N


def test_scaffold_takes_tensors():
    w, updates = torch.zeros(2), torch.tensor([[1.0, 0.0], [0.0, 2.0]])
    plain, other = Scaffold(2), Scaffold(2)
    want = plain(w, updates, [1.0, 3.0], LocalWork(np.array([0, 1]), np.array([2, 2]), 0.1))
    weights = torch.tensor(
        [1.0, 3.0], requires_grad=True
    )  # numpy refuses it as it is, as it refuses a tensor on a GPU
    got = other(w, updates, weights, LocalWork(torch.tensor([0, 1]), torch.tensor([2, 2]), 0.1))
    assert torch.equal(got, want)
    assert torch.equal(other.mean, plain.mean)
    assert set(other.controls) == {0, 1}


@pytest.mark.parametrize("backend", ["pool", "stacked"])
def test_local_options_reach_the_engine(backend):
    # one bias-only weight as above, l = (v - y)^2, g = 2 (v - y); E = 2, eta_L = 0.1, targets 1 and
    # -3, three rounds
    task = Task(models.create("linear", input_shape=(1,), n_classes=1), "mse")
    batches = [[(np.array([[0.0]]), np.array([[y]]))] * 2 for y in (1.0, -3.0)]
    for make in (lambda: Scaffold(2, (0.25, 0.75)), lambda: FedProx(0.7), FedAvg):
        rule, w, weights = make(), torch.zeros(2), [0.25, 0.75]
        hand = list(quadratic_rounds(make(), [2, 2], [1, -3], 0, 0.1, 2, 3, weights))
        for value in hand:
            work = LocalWork(np.arange(2), np.array([2, 2]), 0.1)
            w = rule(
                w,
                local_sgd(task, w, batches, 0.1, backend=backend, **rule.local_options(work)) - w,
                weights,
                work,
            )
            assert float(w[1]) == pytest.approx(value, abs=1e-6)


def test_fedprox_by_hand_and_limit():
    # f = (w - 1)^2 / 2, w = 0, eta_L = 0.5, E = 2, mu = 1: y = 0.5; g = -0.5 + 1 * 0.5 = 0, y = 0.5
    # (FedAvg: 0.75)
    assert next(quadratic_rounds(FedProx(1.0), [1], [1], 0, 0.5, 2, 1)) == 0.5
    task = Task(models.create("mlp", input_shape=(4,), n_classes=3, hidden=(5,)))
    g = torch.Generator().manual_seed(0)
    batches = [
        [(torch.randn(6, 4, generator=g), torch.randint(0, 3, (6,), generator=g))] * 3
        for _ in range(3)
    ]
    w, work = task.init(0), LocalWork(np.arange(3), np.full(3, 3), 0.1)
    got = [
        rule(w, local_sgd(task, w, batches, 0.1, **rule.local_options(work)) - w, None, work)
        for rule in (FedAvg(0.5), FedProx(0.0, 0.5), FedProx(5.0, 0.5))
    ]
    assert torch.equal(got[0], got[1]) and not torch.allclose(got[0], got[2])
    assert FedProx(0.3, 0.5) == FedProx(global_rate=0.5, mu=0.3) != FedProx(0.4, 0.5)
    assert FedProx(0.3).global_rate == 1.0


WORK = LocalWork(np.array([0, 1]), np.array([1, 1]), 0.1)
U = torch.zeros(2, 3)


def work(clients=(0, 1), steps=(1, 1), rate=0.1):
    return LocalWork(list(clients), list(steps), rate)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: weighted_average(U[:0]), "at least one client"),
        (
            lambda: Scaffold(2)(U[0], U[:1], None, WORK),
            "updates has 1 rows, but work names 2 clients",
        ),
        (lambda: Scaffold(3, [0.5, 0.5]), r"shares has shape \(2,\)"),
        (lambda: Scaffold(1).local_options(WORK), r"clients=\[0, 1\] must be integers in \[0, 0\]"),
        (lambda: work(clients=[1, 1]), r"work.clients=\[1, 1\] must be distinct integers"),
    ],
)
def test_what_the_campaign_of_damaged_calls_does_not_find(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_local_work_is_kept_as_whole_numbers():
    made = work(steps=torch.tensor([1.0, 2.0]))
    assert made.clients.dtype == made.steps.dtype == np.int64
    assert check_work(made, 2, U) is made
    assert check_work(LocalWork([], [], 0.1), 1, U[:0]).clients.shape == (0,)


@pytest.mark.parametrize("weights", [None, [1, 3]])
def test_integers_are_averaged_as_numbers(weights):
    # (1 + 2) / 2 = 1.5 and (4 + 8) / 2 = 6; with weights 1 and 3: (1 + 6) / 4 = 1.75 and (4 + 24) /
    # 4 = 7
    want = [1.5, 6.0] if weights is None else [1.75, 7.0]
    for updates in (
        torch.tensor([[1, 4], [2, 8]]),
        np.array([[1, 4], [2, 8]]),
        torch.tensor([[1, 4], [2, 8]]).int(),
    ):
        assert weighted_average(updates, weights).tolist() == want


MAKERS = {
    "fedavg": FedAvg,
    "fedprox": FedProx,
    "scaffold": lambda: Scaffold(4),
}


@pytest.mark.parametrize("name", MAKERS)
def test_nothing_moves_without_updates(name):
    rule, w = MAKERS[name](), torch.arange(3.0)
    for _ in range(2):
        assert torch.equal(rule(w, torch.zeros(2, 3), None, WORK), w)
