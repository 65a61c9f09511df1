"""The buffered server rules: rounds by hand, limits, an independent reference, and bad input."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from sflkit import models
from sflkit.federated import LocalWork, Task, local_sgd, servers
from sflkit.osafl import rules
from sflkit.registry import Registry, Rule

MAKE = {
    "osafl": lambda n, never: rules.OSAFL(n, 2.0, never_joined=never),
    "m_afa_cd": lambda n, never: rules.MAFACD(n, 0.2, never),
    "m_fedavg": rules.MFedAvg,
    "m_fedprox": lambda n, never: rules.MFedProx(n, 0.9, never),
    "m_feddisco": rules.MFedDisco,
    "m_fednova": lambda n, never: rules.MFedNova(np.arange(1, n + 1), 0.5),
    "fednova": lambda n, never: rules.MFedNova(np.arange(1, n + 1), form="true"),
    "m_fednova_latest": lambda n, never: rules.MFedNovaLatest(np.arange(1, n + 1), 0.5, never),
}
W, UPDATES = np.array([1.0, 0.0]), np.array([[-0.5, 0.0], [0.0, -2.0]])
WORK = LocalWork(
    np.array([0, 1]), np.array([1, 2]), 0.5
)  # so that d_0 = (1, 0), d_1 = (0, 2) by (16)


def test_osafl_by_hand():
    # round 1: w - 0.5 * 2 * (s_0 (1, 0) + s_1 (0, 2)) / 2; round 2, client 0 alone with 4 steps,
    # update (0, 2): d_0 = (0, 2) / -(0.5 * 4) = (0, -1), d_1 = (0, 2) stays: mean (0, 0.5), cosines
    # -1 and 1, scores 0 and 1: step - (0, 2) / 2
    rule = rules.OSAFL(2, 2.0)
    s = (1 + np.array([1, 2]) / np.sqrt(5)) / 2
    w = rule(W, UPDATES, work=WORK)
    np.testing.assert_allclose(w, [1 - s[0] / 2, -s[1]], rtol=1e-14)
    new = rule(w, np.array([[0.0, 2.0]]), work=LocalWork(np.array([0]), np.array([4]), 0.5))
    np.testing.assert_allclose(new, w - [0, 1], rtol=1e-14)
    assert rule.scores.tolist() == [0, 1]


def test_baselines_by_hand():
    def play(rule, **given):
        return rule(W, UPDATES, work=WORK, **given)

    # AFA: w - 0.2 ((1, 0) + (0, 2)) / 2
    np.testing.assert_allclose(play(rules.MAFACD(2, 0.2)), [0.9, -0.2])
    # FedAvg: local models (0.5, 0) and (1, -2), mean (0.75, -1); then client 0 alone sends (1.75,
    # 0): with (1, -2) (1.375, -1)
    rule = rules.MFedAvg(2)
    np.testing.assert_allclose(w := play(rule), [0.75, -1])
    np.testing.assert_allclose(
        rule(w, np.array([[1.0, 1.0]]), work=LocalWork([0], [1], 0.5)), [1.375, -1]
    )
    # FedDisco: weights 0.1 and 0.3 -> (0.5, 0) / 4 + 3 (1, -2) / 4
    np.testing.assert_allclose(play(rules.MFedDisco(2), weights=[0.1, 0.3]), [0.875, -1.5])
    # FedNova, p = (1/4, 3/4). Printed with tau 0.5: w + 0.5 (u_0 / 4 + 3 u_1 / 4). True: sum p
    # kappa = 1/4 + 3/2 = 1.75, sum p u / kappa = (-0.125, -0.75): w + 1.75 (-0.125, -0.75)
    np.testing.assert_allclose(play(rules.MFedNova([1, 3], 0.5)), [1 - 0.0625, -0.75])
    np.testing.assert_allclose(play(rules.MFedNova([1, 3], form="true")), [1 - 0.21875, -1.3125])
    # client 0 alone: printed keeps p_0 = 1/4, true normalises over the participants
    alone = LocalWork(np.array([0, 1]), np.array([1, 0]), 0.5)
    np.testing.assert_allclose(
        rules.MFedNova([1, 3], 0.5)(W, UPDATES, work=alone), W + 0.125 * UPDATES[0]
    )
    np.testing.assert_allclose(
        rules.MFedNova([1, 3], form="true")(W, UPDATES, work=alone), W + UPDATES[0]
    )


def test_fednova_with_the_latest_contributions_by_hand():
    # D = (1, 3, 4), tau = 0.5. Round 1, clients 0 and 1: w + 0.5 (u_0 + 3 u_1) / 8, over those who
    # joined / 4. Round 2, client 0 alone with (0, 4): client 1's (0, -2) goes on counting, by its
    # own kappa: (0, 4) + 3 (0, -2) = (0, -2)
    for never, whole in (("zero", 8), ("literal", 8), ("exclude", 4)):
        rule = rules.MFedNovaLatest([1, 3, 4], 0.5, never)
        w = rule(W, UPDATES, work=WORK)
        np.testing.assert_allclose(w, [1 - 0.25 / whole, -3 / whole], rtol=1e-14)
        new = rule(w, np.array([[0.0, 4.0]]), work=LocalWork([0], [5], 0.5))
        np.testing.assert_allclose(new, w - [0, 1 / whole], rtol=1e-14)
        # Algorithm 8 with this round's kappa drops client 1, which is a straggler now
        printed = rules.MFedNova([1, 3, 4], 0.5)
        np.testing.assert_allclose(printed(W, UPDATES, work=WORK), [1 - 0.25 / 8, -3 / 8])
        alone = printed(w, np.array([[0.0, 4.0]]), work=LocalWork([0], [5], 0.5))
        np.testing.assert_allclose(alone, w + [0, 2 / 8], rtol=1e-14)


def test_disco_gives_clients_that_never_joined_weights_of_their_own():
    # (83) with a = 0, b = 0 and D = (2, 6, 12): weights 0.1, 0.3, 0.6. Client 0 alone: the present
    # model has 0.9 in literal mode, the mean weight's 2/3 with "zero"
    counts, work = np.ones((3, 2)), LocalWork([0], [1], 0.5)
    for never, moved in (("literal", 0.1), ("zero", 1 / 3), ("exclude", 1.0)):
        rule = rules.MFedDisco(3, never, a=0.0, b=0.0)
        weights = rule.round_weights(work, np.array([2, 6, 12]), lambda: counts)
        np.testing.assert_allclose(weights, [0.1])
        new = rule(W, UPDATES[:1], weights, work)
        np.testing.assert_allclose(new, W + moved * UPDATES[0], rtol=1e-14, err_msg=never)


def test_disco_without_any_weight_leaves_the_model():
    assert rules.MFedDisco(2)(W, UPDATES, [0, 0], WORK).tolist() == W.tolist()


@pytest.mark.parametrize(("global_rate", "factor"), [(35.0, -16.5), (20.0, -9.0)])
def test_literal_start_multiplies_the_model(global_rate, factor):
    # ERRATA 37: one of two clients never joined, the other's gradient is 0. Rows 0 and w / eta,
    # mean w / (2 eta): cosine of the second 1, score 1: w - eta eta~ (w / eta) / 2 = (1 - eta~ / 2)
    # w
    w, work = np.array([1.0, -2.0]), LocalWork([0], [1], 0.2)
    literal = rules.OSAFL(2, global_rate, never_joined="literal")
    np.testing.assert_allclose(literal(w, np.zeros((1, 2)), work=work), factor * w, rtol=1e-12)
    for never in ("exclude", "zero"):
        np.testing.assert_array_equal(
            rules.OSAFL(2, global_rate, never_joined=never)(w, np.zeros((1, 2)), work=work), w
        )


def test_literal_start_of_afa():
    # ERRATA 38: 1 - eta share / eta_L = 1 - 0.2 * 0.5 / 0.1 = 0 (FCN), 1 - 0.05 * 0.5 / 0.1 = 0.75
    # (CNN)
    w, work = np.array([1.0, -2.0]), LocalWork([0], [1], 0.1)
    for rate, factor in ((0.2, 0.0), (0.05, 0.75)):
        rule = rules.MAFACD(2, rate, "literal")
        np.testing.assert_allclose(rule(w, np.zeros((1, 2)), work=work), factor * w, atol=1e-15)


def test_who_is_averaged_while_three_of_four_never_joined():
    # ERRATA 42: client 2 alone, update u = (1, 3): exclude takes the whole step, zero a quarter of
    # it
    work, u = LocalWork([2], [2], 0.5), np.array([[1.0, 3.0]])
    for name, whole in (
        ("osafl", 2 * 0.5 * u[0]),
        ("m_afa_cd", 0.2 * u[0]),
        ("m_fedavg", u[0]),
        ("m_feddisco", u[0]),
    ):
        for never, part in (("exclude", 1), ("zero", 0.25)):
            new = MAKE[name](4, never)(W, u, [0.3], work)
            np.testing.assert_allclose(new, W + part * whole, rtol=1e-14, err_msg=f"{name} {never}")
    # OSAFL and AFA work with d = -u / (0.5 * 2) = -u: eta eta~ d = 0.5 * 2 u = u; eta d = 0.2 u


def rounds_of(seed, n_rounds=8, n=6, size=30):
    """Random participation, with steps 0 among it, updates and weights of some rounds."""
    rng = np.random.default_rng(seed)
    for _ in range(n_rounds):
        clients = rng.permutation(np.flatnonzero(rng.random(n) < 0.5))
        steps = rng.integers(0, 4, len(clients))
        yield (
            0.1 * rng.standard_normal((len(clients), size)),
            rng.random(len(clients)) + 0.1,
            LocalWork(clients, steps, 0.1),
        )


def printed(name, n, w, rounds):
    """Algorithms 2, 6, 9, 10 line by line: every client's buffer, the participation indicators, and
    nothing clever.
    """
    buffer, weight, gradients = [None] * n, np.zeros(n), name in ("osafl", "m_afa_cd")
    for updates, weights, work in rounds:
        steps = dict(zip(work.clients, work.steps))
        place = {k: i for i, k in enumerate(work.clients)}
        if not any(steps.values()):
            continue
        for k in range(n):
            if steps.get(k, 0) > 0:
                u = updates[place[k]]
                buffer[k], weight[k] = (
                    -u / (work.rate * steps[k]) if gradients else w + u,
                    weights[place[k]],
                )
        full = np.array([b if b is not None else w / work.rate if gradients else w for b in buffer])
        if name == "osafl":
            mean = full.mean(0)
            cosine = [d @ mean / np.linalg.norm(d) / np.linalg.norm(mean) for d in full]
            w = w - 2.0 * work.rate * np.mean(
                [(1 + c) / 2 * d for c, d in zip(cosine, full)], axis=0
            )
        elif name == "m_afa_cd":
            w = w - 0.2 * full.mean(0)
        elif name == "m_fedavg":
            w = full.mean(0)
        else:
            there = np.array([b is not None for b in buffer])
            alpha = np.where(there, weight, weight[there].mean())
            w = alpha / alpha.sum() @ full
        yield w


@pytest.mark.parametrize("name", ["osafl", "m_afa_cd", "m_fedavg", "m_feddisco"])
@pytest.mark.parametrize("seed", range(3))
def test_literal_rules_follow_the_printed_algorithms(name, seed):
    w = start = np.random.default_rng(99).standard_normal(30)
    rule, got = MAKE[name](6, "literal"), []
    for updates, weights, work in rounds_of(seed):
        w = rule(w, updates, None if name in ("osafl", "m_afa_cd", "m_fedavg") else weights, work)
        if np.any(work.steps):
            got.append(w)
    expected = list(printed(name, 6, start, rounds_of(seed)))
    assert len(got) == len(expected) > 3
    np.testing.assert_allclose(got, expected, rtol=1e-9, atol=1e-12)


def test_equal_updates_make_osafl_fedavg():
    # equal d: scores 1, so that the step is eta eta~ d = update for one step each and eta~ = 1
    g = torch.Generator().manual_seed(0)
    w, u = torch.randn(50, generator=g), torch.randn(50, generator=g).expand(4, -1)
    work = LocalWork(np.arange(4), np.ones(4), 0.3)
    torch.testing.assert_close(rules.OSAFL(4, 1.0)(w, u, work=work), servers.FedAvg()(w, u))
    torch.testing.assert_close(rules.MFedAvg(4)(w, u, work=work), servers.FedAvg()(w, u))


def test_fednova_with_equal_steps_is_weighted_fedavg():
    rng = np.random.default_rng(3)
    w, u, sizes = (
        rng.standard_normal(20),
        rng.standard_normal((3, 20)),
        np.array([5.0, 1.0, 2.0, 9.0]),
    )
    work = LocalWork(np.array([2, 0, 3]), np.full(3, 4), 0.1)
    new = rules.MFedNova(sizes, form="true")(w, u, work=work)
    np.testing.assert_allclose(new, servers.FedAvg()(w, u, sizes[[2, 0, 3]]), rtol=1e-13)


def test_fedprox_reaches_the_local_steps():
    task = Task(models.create("linear", input_shape=(3,), n_classes=2))
    rng, w = np.random.default_rng(0), torch.ones(8)
    batches = [[(rng.standard_normal((5, 3)), rng.integers(0, 2, 5))] * 3 for _ in range(2)]
    work = LocalWork(np.arange(2), np.full(2, 3), 0.5)
    ends = []
    for rule in (rules.MFedAvg(2), rules.MFedProx(2, 0.0), rules.MFedProx(2, 0.9)):
        updates = local_sgd(task, w, batches, work.rate, **rule.local_options(work)) - w
        ends.append(rule(w, updates, work=work))
    torch.testing.assert_close(ends[0], ends[1])
    assert (ends[2] - w).norm() < 0.9 * (ends[0] - w).norm()


def test_presets_are_the_papers():
    # OSAFL, Section V-A.4 and Appendix D-B, read by column: FCN, SqueezeNet1, CNN, LSTM
    networks = ("fcn", "squeezenet1", "cnn", "lstm")
    table = {
        ("osafl", "rate"): (0.2, 0.01, 0.08, 0.2),
        ("osafl", "global_rate"): (35, 20, 22, 35),
        ("m_fedavg", "rate"): (0.15, 0.01, 0.1, 0.6),
        ("m_fedprox", "rate"): (0.1, 0.01, 0.05, 0.5),
        ("m_fedprox", "mu"): (0.9, 0.9, 0.9, 0.1),
        ("m_fednova", "rate"): (0.01, 0.03, 0.15, 0.5),
        ("m_fednova", "slowdown"): (0.1, 0.05, 0.35, 0.12),
        ("m_afa_cd", "rate"): (0.1, 0.02, 0.1, 0.5),
        ("m_afa_cd", "global_rate"): (0.2, 0.01, 0.05, 1),
        ("m_feddisco", "rate"): (0.15, 0.01, 0.1, 0.5),
        ("m_feddisco", "a"): (0.2,) * 4,
        ("m_feddisco", "b"): (0.1,) * 4,
    }
    found = {
        (name, option): tuple(rules.RULES[name].presets[network][option] for network in networks)
        for name in ("osafl", "m_fedavg", "m_fedprox", "m_fednova", "m_afa_cd", "m_feddisco")
        for option in rules.RULES[name].presets["fcn"]
    }
    assert found == table
    # the paper prints nothing for these two: M-FedAvg's rates
    for name in ("fednova", "genie"):
        assert rules.RULES[name].presets == rules.RULES["m_fedavg"].presets
    with pytest.raises(TypeError, match="does not support item assignment"):
        rules.RULES["osafl"].presets["fcn"]["rate"] = 1.0


def test_a_rule_of_ones_own_is_one_class_and_one_row():
    class LastUpdates(rules.BufferedRule):
        """Moves by the mean of the last updates: M-FedAvg's mean, taken of updates."""

        def contribution(self, params, update, steps, rate):
            return update

        def next_params(self, params, rate):
            return params + self.buffer[: self.joined].mean(0)

    table = Registry("OSAFL server rule", rules.RULES)
    table.add("last_updates", Rule(LastUpdates, "last updates", options=("n_clients",)))
    rule = table["last_updates"].build(n_clients=2)
    # updates (-0.5, 0) and (0, -2), mean (-0.25, -1); then client 0 alone sends (1, 1), and the
    # other's stays: mean (0.5, -0.5)
    w = rule(W, UPDATES, work=WORK)
    np.testing.assert_allclose(w, W + [-0.25, -1])
    np.testing.assert_allclose(
        rule(w, np.array([[1.0, 1.0]]), work=LocalWork([0], [1], 0.5)), w + [0.5, -0.5]
    )
    with pytest.raises(ValueError, match="row 0"):  # the checks are those of every rule
        rule(w, np.array([[np.nan, 1.0]]), work=LocalWork([0], [1], 0.5))


def test_the_weights_of_m_feddisco_are_those_of_its_labels():
    # label shares (1, 0) and (1/2, 1/2), sizes 1 and 3: as in test_disco_weights_by_hand, for a
    # round of client 1 alone
    counts = np.array([[1, 0], [3, 3]])
    rule = rules.MFedDisco(2, a=0.2, b=0.1)
    got = rule.round_weights(LocalWork([1], [2], 0.5), np.array([1, 3]), lambda: counts)
    np.testing.assert_allclose(got, [0.85])
    both = rules.MFedDisco(2, a=0.0, b=0.0).round_weights(WORK, np.array([1, 3]), lambda: counts)
    np.testing.assert_allclose(both, [0.25, 0.75])  # a = b = 0: the shares of the samples
    assert rules.MFedAvg(2).round_weights(WORK, np.array([1, 3]), lambda: counts) is None
