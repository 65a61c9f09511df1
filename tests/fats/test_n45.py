"""The evidence of notebook 45 with invented attacks: which way it is judged."""

import pandas as pd
import pytest

from companion.claims import FATS as CLAIMS
from companion.notebooks import n45
from tests.invented import answers, drive, noise

ASKED = dict(
    seeds=range(6), seeds_ordinary=range(2), data=["digits", "writers"], model="mlp", hidden=4,
    n_clients=4, samples_per_client=30, clients_per_round=2, local_steps=1, batch_size=2, rounds=2,
    rate=0.1, model_over="mlp", n_clients_over=4, samples_over=30, clients_over=2, rounds_over=2,
    rate_over=0.1, noise=0.3, forget_share=0.3, n_shadows=1, repeats=2,
)  # fmt: skip
LEVELS, METHODS = ("sample", "client"), ("fats", "frs", "fr2")
ROWS = {
    f"{what}_{level}_{method}": (level, method, f"whole_{what}")
    for level in LEVELS
    for method in METHODS
    for what in ("accuracy", "precision")
}


@pytest.fixture(scope="module")
def results():
    """Attacks that win before forgetting and guess afterwards.

    It is the other way round where no claim looks: the loss attack and the ordinary federations.
    """

    def invented(stage, config):
        judged = stage.name == "mirror pairs"
        rows = []
        for level in config.levels:
            for state in ("before", *config.methods):
                for attack in ("shadow", "loss"):
                    wins = (state == "before") == (judged and attack == "shadow")
                    found = (0.8 if wins else 0.5) + noise((config, level, state, attack), 2)
                    names = ("whole_accuracy", "whole_precision")
                    rows.append({"level": level, "state": state, "attack": attack})
                    rows[-1] |= dict(zip(names, found))
        return pd.DataFrame(rows)

    return n45.results_of(drive(n45.attacks_on(**ASKED), invented))


def answered(results):
    found = answers(CLAIMS["fats-tab1"], n45.evidence(results, "digits"))
    assert {found.pop(part) for part in ("low", "others")} == {"not run"}
    return found


def moved(results, by, level, state, column):
    """Change what the judged attack finds at a level and state."""
    here = (results["attack"] == "shadow") & (results["setting"] == "overfitted")
    here &= (results["level"] == level) & (results["state"] == state)
    return results.assign(**{column: results[column] + by * here})


def test_what_is_claimed(results):
    powers = [f"power_{level}" for level in LEVELS]
    assert answered(results) == dict.fromkeys([*ROWS, "consistent", *powers], "yes")


@pytest.mark.parametrize("part", ROWS)
def test_an_attack_that_is_right_too_often(part, results):
    found = answered(moved(results, 0.1, *ROWS[part]))
    failed = {key for key, answer in found.items() if answer == "no"}
    both = part in ("accuracy_sample_fats", "accuracy_sample_frs")
    assert failed == ({part, "consistent"} if both else {part})


@pytest.mark.parametrize("level", LEVELS)
def test_an_attack_without_power_proves_nothing(level, results):
    found = answered(moved(results, -0.4, level, "before", "whole_accuracy"))
    blind = {part for part, (of, _, _) in ROWS.items() if of == level}
    assert found[f"power_{level}"] == "no"
    assert {part for part, answer in found.items() if answer == "not run"} == blind
    assert {found[part] for part in set(ROWS) - blind} == {"yes"}
