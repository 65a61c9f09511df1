"""Which reading lies beside the authors' curve, with invented accuracies: how it is judged."""

import numpy as np
import pandas as pd
import pytest

from companion.claims import FATS as CLAIMS
from companion.notebooks import local_steps
from companion.notebooks.fats_shared import READINGS, authors_learning
from tests.invented import answers

MNIST, FASHION = authors_learning("ad", 30), authors_learning("be", 50)


def runs(reading, k, b, accuracy, data="mnist", rate=0.001):
    """Return learning of six seeds whose mean is `accuracy` after each round."""
    of = {"reduction": "mean", "momentum": 0.0} | READINGS[reading]
    rows = [
        (data, k, b, seed, r + 1, value + 0.01 * (seed - 2.5))
        for seed in range(6)
        for r, value in enumerate(accuracy)
    ]
    names = ["data", "clients_per_round", "batch_size", "seed", "round", "accuracy"]
    frame = pd.DataFrame(rows, columns=names).assign(phase="learning", method="fats", rate=rate)
    return frame.assign(level="sample", reduction=of["reduction"], momentum=of["momentum"])


def invented(shift=0.0, mean=-0.4):
    """Runs under the sum that lie `shift` above print, and others that lie `mean` above it."""
    every = [runs("mean", 5, 10, MNIST + mean), runs("released", 5, 10, MNIST + mean)]
    every += [runs("sum", 5, 10, MNIST + shift), runs("sum", 5, 10, FASHION + shift, "fmnist")]
    for (k, b), place in local_steps.UNSEEN.items():
        every.append(runs("sum", k, b, np.full(30, PRINTED[place] + shift)))
    return local_steps.learnt(pd.concat(every), 0.001)


# Learning utility of Figure 7, read from the digitised curves.
PRINTED = {("b", 0.3): 0.836149, ("b", 0.7): 0.876915, ("b", 1.0): 0.886738}
PRINTED |= {("a", 0.5): 0.917711, ("a", 0.75): 0.937095}


@pytest.mark.parametrize(("shift", "answer"), [(0.0, "yes"), (0.03, "yes"), (-0.2, "no")])
def test_only_what_the_trials_had_not_seen_counts_for_the_sum(shift, answer):
    found = local_steps.rate_evidence(invented(shift), "mnist", 30)
    judged = answers(CLAIMS["fats-rate"], found)
    assert judged.pop("mean") == judged.pop("released") == "no"
    assert judged.pop("sum") == answer
    assert len(judged) == 7 and set(judged.values()) == {answer}


def test_what_was_not_run_is_said():
    few = invented().query("reading != 'sum' or clients_per_round == 3")
    few = pd.concat(
        [few, invented().query("reading == 'sum' and batch_size == 10 and data == 'mnist'")]
    )
    judged = answers(CLAIMS["fats-rate"], local_steps.rate_evidence(few, "mnist", 30))
    assert {key for key, answer in judged.items() if answer == "not run"} == {
        "K5_b20",
        "K5_b30",
        "fmnist_late",
        "fmnist_all",
    }


def test_distances_to_the_authors_curve_by_hand():
    table = local_steps.beside_the_curve(invented(shift=0.02), "mnist", 30)
    apart = table["distance"].to_dict()
    assert apart["sum, 6 seeds"] == "2.0" and apart["mean (the text), 6 seeds"] == "40.0"
    # 0.346 and 0.255 are the two panels' accuracies at 4, where the curves begin at 0
    assert table.loc["the paper", 5] == f"{50 * (0.346 + 0.255):.0f}"
    # 0.01 times 0 to 5 has the deviation 1.87 points, Student's t is 2.571 with five degrees
    assert table.loc["sum, 6 seeds", 5] == f"32 ± {2.571 * 1.87 / 6**0.5:.0f}"


def test_a_larger_rate_is_a_row_of_its_own():
    faster = local_steps.learnt(
        pd.concat([runs("mean", 5, 10, MNIST, rate=0.1), runs("mean", 5, 10, MNIST - 0.3)]), 0.001
    )
    assert faster.index.get_level_values("reading").unique().tolist() == ["larger rate", "mean"]
    assert local_steps.points_of_figure7(invented(), "mnist")["seen"].tolist() == [True] + 5 * [
        False
    ]
