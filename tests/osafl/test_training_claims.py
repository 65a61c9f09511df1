"""The numbers in the claims are those transcribed from the paper, and labels are the rules'."""

import math

import pytest

from companion.claims import OSAFL as CLAIMS
from companion.judging.rules import EveryReading
from companion.judging.tables import paper_value
from companion.notebooks.osafl_shared import BASELINES, LABELS
from companion.notebooks.table2_readings import CHECKPOINT_ROUND
from sflkit.osafl.rules import RULES


def printed(artefact, quantity):
    return paper_value("osafl", artefact, quantity)


def test_labels_are_the_rules():
    assert {name: RULES[name].label for name in LABELS} == LABELS
    assert set(BASELINES) <= set(LABELS)


def leads(artefact, prefix):
    """By how much OSAFL leads each baseline in print, as the claim has it."""
    rules = {part.key: part.rule for part in CLAIMS[artefact].parts}
    return {rule: rules[f"{prefix}_{rule}"].printed for rule in BASELINES}


@pytest.mark.parametrize(("network", "at"), CHECKPOINT_ROUND.items())
def test_checkpoints_of_dataset_1(network, at):
    said = {
        rule: printed("osafl-fig4", f"accuracy at round {at} {network} {name}")
        for rule, name in LABELS.items()
    }
    claim = CLAIMS[f"osafl-{network.lower()}"]
    for rule, name in LABELS.items():
        assert f"{name} {100 * said[rule]:.0f} %" in claim.printed
    rules = {part.key: part.rule for part in claim.parts}
    assert rules["value"].rules.target == said["osafl"]
    assert isinstance(rules["ahead_m_fedavg"], EveryReading)


@pytest.mark.parametrize("K", [1, 2])
def test_the_contrast_of_tables_2_and_3_is_with_the_best_opponent(K):
    artefact = f"osafl-tab{K + 1}"
    said = {r: printed(artefact, f"test accuracy {name} FCN") for r, name in LABELS.items()}
    for rule, lead in leads(artefact, "best").items():
        assert lead == pytest.approx(said["osafl"] - said[rule])
    best = max(BASELINES, key=said.get)
    assert CLAIMS[artefact].contrast == f"best_{best}"


@pytest.mark.parametrize("K", [1, 2])
def test_numbers_of_dataset_2(K):
    for artefact, prefix, quantity in (
        ("osafl-fig6", f"K{K}_ahead", f"accuracy at round 40 K = {K} {{}}"),
        (f"osafl-tab{3 + K}", "best", "test accuracy {} LSTM"),
    ):
        said = {rule: printed(artefact, quantity.format(name)) for rule, name in LABELS.items()}
        for rule, lead in leads(artefact, prefix).items():
            assert lead == pytest.approx(said["osafl"] - said[rule])
    rules = {part.key: part.rule for part in CLAIMS[f"osafl-tab{3 + K}"].parts}
    for key, quantity in (("factor", "accuracy"), ("losses", "loss")):
        said = printed(f"osafl-tab{3 + K}", f"{quantity} OSAFL over the second best")
        assert rules[key].printed == pytest.approx(abs(math.log(said)), abs=1e-4)


def test_numbers_of_tables_2_and_3():
    loss = {part.key: part.rule for part in CLAIMS["osafl-alg9"].parts}["loss"]
    assert loss.target == printed("osafl-tab2", "test loss M-AFA-CD FCN")
    plateau = {part.key: part.rule for part in CLAIMS["osafl-saturation"].parts}
    assert plateau["osafl_K2"].target == printed(
        "osafl-fig4", "rounds to the plateau OSAFL FCN K = 2"
    )
    for K in (1, 2):
        said = printed("osafl-fig5", f"rounds to the plateau of the loss OSAFL FCN K = {K}")
        assert plateau[f"loss_K{K}"].target == said
        said = printed("osafl-fig4", f"rounds to the plateau M-FedNova FCN K = {K}")
        assert plateau[f"fednova_plateau_K{K}"].target == said
    ends = [
        printed("osafl-fig4", f"rounds to {end} OSAFL FCN K = 1")
        for end in ("convergence", "the plateau")
    ]
    low, high = (n + side * 5.5 for n, side in zip(ends, (-1, 1), strict=True))
    rule = plateau["osafl_K1"]  # 15.5 to 37.5
    assert (rule.target - rule.within, rule.target + rule.within) == (low, high)
