"""One round by hand: the library agrees, a broken rule does not, and every part gets evidence."""

import numpy as np
import pytest

from companion.claims import OSAFL as CLAIMS
from companion.judging.claims import Setting
from companion.notebooks import rules_by_hand
from sflkit.osafl.rules import MAFACD, RULES

SIX = ("osafl", "m_fedavg", "m_afa_cd", "m_fednova", "m_fedprox", "m_feddisco")


@pytest.fixture(scope="module")
def found():
    return rules_by_hand.rounds()


@pytest.fixture(scope="module")
def needs():
    return rules_by_hand.private_needs(SIX)


def test_every_rule_of_the_paper_gives_what_the_hand_gives(found):
    assert set(found.checked) == {RULES[rule].label for rule in SIX}
    assert all(held for checks in found.checked.values() for held in checks.values())
    table = found.table.set_index(["rule", "form"])
    # d_2 = w / eta = (2, 4) has the direction of the mean (1, 2): score 1, and a third of it counts
    scores = (1 + np.array([1, 2]) / 5**0.5) / 2
    expected = np.array([1.0, 2.0]) - (scores @ np.array([[1, 0], [0, 2]]) + [2, 4]) / 3
    assert set(found.table["form"]) == set(
        rules_by_hand.FORMS.values()
    )  # words, not names of the code
    assert ("FedNova", "as its authors define it") in table.index
    assert table.loc[("OSAFL", "as printed"), "sflkit"] == "({:.4f}, {:.4f})".format(*expected)


def test_the_expected_models_are_reached_without_the_library():
    """M-FedAvg, M-AFA-CD and both forms of FedNova, from the clients' moves alone."""
    moves, w = np.array(rules_by_hand.SENT), np.array(rules_by_hand.MODEL)
    gradients = -moves / (0.5 * np.array([[2], [1]]))
    known = rules_by_hand.cases()
    assert known["M-FedAvg", "exclude"].expected == pytest.approx((w + moves).mean(0))
    assert known["M-AFA-CD", "exclude"].expected == pytest.approx(w - 0.3 * gradients.mean(0))
    sizes = np.array(rules_by_hand.SIZES[:2])
    printed = w + 0.5 * (sizes / 8) @ moves
    assert known["M-FedNova", "printed"].expected == pytest.approx(printed)
    p = sizes / sizes.sum()
    true = w + (p @ [2, 1]) * (p / [2, 1]) @ moves
    assert known["M-FedNova", "true"].expected == pytest.approx(true)


def test_m_fednova_goes_elsewhere(found):
    # (-3, -1) / 16 and (-21, -14) / 32 are not parallel
    assert not found.same_direction


def test_a_rule_that_differs_from_the_hand_is_found(monkeypatch):
    monkeypatch.setattr(MAFACD, "next_params", lambda self, params, rate: params - 0.1)
    checked = rules_by_hand.rounds().checked
    assert not checked["M-AFA-CD"]["exclude"] and not checked["M-AFA-CD"]["stale"]
    assert checked["M-AFA-CD"]["exclude, nobody joins"]
    assert all(checked["M-FedAvg"].values())


def test_m_fedprox_and_m_feddisco_by_hand():
    assert rules_by_hand.pulled_client() == pytest.approx([0.5])
    expected = [3 / 8 - 0.2 * 2**0.5 / 4 + 0.1, 1 / 8 - 0.2 * 2**0.5 / 2 + 0.1, 0.6]
    assert rules_by_hand.disco_weights() == pytest.approx(expected)


def test_the_evidence_answers_every_part_that_is_judged_by_hand(found, needs):
    evidence = rules_by_hand.evidence(found, needs)
    for artefact in ("osafl-alg6", "osafl-alg7", "osafl-alg8", "osafl-alg10", "osafl-private"):
        assert set(evidence[artefact]) == {part.key for part in CLAIMS[artefact].parts}
    verdict = CLAIMS["osafl-alg8"].judge(evidence["osafl-alg8"], setting=Setting("full"))
    assert verdict.verdict == "corrected"


def test_which_server_needs_what(needs):
    assert needs.loc["m_feddisco"].tolist() == [True, False, True]
    assert not needs.loc["osafl"].any()
