"""The stages that notebooks 33 and 34 ask for, driven with invented results."""

import numpy as np
import pandas as pd
import pytest

from companion.claims import OSAFL as CLAIMS
from companion.judging.claims import NotRun, Setting
from companion.notebooks import n33, n34, osafl_shared
from tests.osafl.osafl_plans import ONE, TWO, drive


@pytest.fixture(scope="module")
def first():
    return drive(n33.dataset1(**ONE))


def test_the_readings_come_first_and_buffers_one_seed_after_the_other(first):
    stages, found = first
    order = ["readings", "best reading", "best reading, OSAFL", "best reading, score"]
    order += ["as printed", "centralised steps"]
    assert list(stages)[:9] == [*order, "buffer", "buffers", "scale"]
    start = [(c.rule, c.never_joined, c.seed, c.top_k) for c in stages["buffers"][:3]]
    without = ("osafl", "m_afa_cd_printed", "m_afa_cd")
    assert start == [(*osafl_shared.ARMS[arm], 10, 1) for arm in without]
    assert [c.seed for c in stages["buffers"]] == [s for s in ONE["seeds"] for _ in without]
    assert {c.seed for c in stages["buffer"]} == {10, 11}  # few
    counts = found.buffers.groupby("arm")["seed"].nunique().to_dict()
    assert counts == dict.fromkeys(without, 4) | {"osafl_printed": 2, "osafl_zero": 2}
    base = stages["buffers"][0]
    assert base.payload_bits == 33 * 1_779_556  # the full network's stragglers
    whole = osafl_shared.fcn_base([512, 256], 20, 8, "synthetic", 10.0, "none", 1, 9)
    assert not {"hidden", "payload_bits"} & set(whole)


KNOWN = pd.Series(0.66, index=ONE["seeds"])
BEST = pd.Series(0.66, index=ONE["reading_seeds"])


def answers_of(found, artefact):
    """Today's answers to the parts of a claim, by part."""
    evidence = n33.evidence(found, KNOWN, BEST)[artefact]
    verdict = CLAIMS[artefact].judge(evidence, setting=Setting("full"))
    return {a.part.key: a.judged.answer for a in verdict.answers}


def test_tables_and_curves_are_judged_under_the_reading_on_seeds_that_chose_nothing(first):
    stages, found = first
    assert {c.seed for c in stages["readings"]} == {100}
    assert {(c.seed, c.top_k) for c in stages["best reading"]} == {
        (seed, K) for seed in (205, 206, 207) for K in (1, 2)
    }
    assert {c.test_size for c in stages["readings"]} == {300}
    names = {"osafl": "m_fedavg", "m_fedavg": "osafl"}
    turned = found.read._replace(
        runs=found.read.runs.assign(arm=found.read.runs["arm"].replace(names))
    )
    for artefact, part in (
        ("osafl-tab2", "best_m_fedavg"),
        ("osafl-tab3", "best_m_fedavg"),
        ("osafl-fig4", "K2_m_fedavg"),
        ("osafl-fig5", "K1_m_fedavg"),
    ):
        assert answers_of(found, artefact)[part] == "yes"  # 0.6 against 0.4
        assert answers_of(found._replace(read=turned), artefact)[part] == "no"
        none = found._replace(read=found.read._replace(runs=pd.DataFrame()))
        assert answers_of(none, artefact)[part] == "not run"


def test_columns_of_the_tables_run_all_rounds_with_both_k_on_seeds_of_their_own():
    stages, found = drive(n33.dataset1(**ONE | {"rounds": 100, "networks": ["FCN", "CNN"]}))
    configs = stages["CNN, tables"]
    assert len(configs) == 6 * 3 * 2 and {c.rounds for c in configs} == {100}
    assert {c.evaluate_every for c in configs} == {1} and {c.seed for c in configs} == {40, 41, 42}
    verdict = CLAIMS["osafl-cnn"].judge(
        n33._checkpoint("CNN", found.checkpoints["CNN"], None)
        | n33._column("CNN", found.columns["CNN"]),
        setting=Setting("full"),
    )
    answers = {a.part.key: a.judged.answer for a in verdict.answers}
    assert answers["K1_m_fedavg"] == answers["K2_m_feddisco"] == "yes"  # 0.6 against 0.4
    assert answers["level_m_fedavg"] == "no" and answers["ahead_m_fedavg"] == "not run"
    names = {"osafl": "m_fedavg", "m_fedavg": "osafl"}
    turned = found.columns["CNN"].replace({"arm": names})
    verdict = CLAIMS["osafl-cnn"].judge(
        n33._checkpoint("CNN", found.checkpoints["CNN"], None) | n33._column("CNN", turned),
        setting=Setting("full"),
    )
    answers = {a.part.key: a.judged.answer for a in verdict.answers}
    assert answers["K1_m_fedavg"] == answers["K2_m_fedavg"] == "no"
    assert answers["level_m_fedavg"] == "yes"


def as_near_as_print(artefact):
    """Evidence of levels that are the printed shares of the best possible."""
    rules = {part.key: part.rule for part in CLAIMS[artefact].parts}
    return {
        key: (np.full(3, rule.target / rule.ceiling), 1.0)
        for key, rule in rules.items()
        if key.startswith("level_")
    }


@pytest.mark.parametrize(
    ("artefact", "as_printed", "with_another"),
    [
        ("osafl-tab2", "partly", "partly"),  # the reading was fitted to it
        ("osafl-tab3", "corrected", "reproduced"),
        ("osafl-fig4", "partly", "partly"),
    ],
)
def test_the_printed_buffer_is_judged_and_what_was_fitted_confirms_nothing(
    first, artefact, as_printed, with_another
):
    stages, found = first
    assert {(c.rule, c.never_joined) for c in stages["as printed"]} == {("osafl", "literal")}
    assert {c.seed for c in stages["as printed"]} == {205, 206, 207}
    for accuracy, answer, verdict in ((0.0, "no", as_printed), (0.9, "yes", with_another)):
        columns = ("accuracy", "best_accuracy")
        own = found.as_printed.assign(**dict.fromkeys(columns, accuracy))
        evidence = n33.evidence(found._replace(as_printed=own), KNOWN, BEST)[artefact]
        whole = evidence | as_near_as_print(artefact)
        judged = CLAIMS[artefact].judge(whole, setting=Setting("full"))
        answers = {a.part.key: a.judged.answer for a in judged.answers}
        assert answers["printed"] == answer and judged.verdict == verdict
        if levels := [key for key in answers if key.startswith("level_")]:
            judged = CLAIMS[artefact].judge(evidence, setting=Setting("full"))
            answers = {a.part.key: a.judged.answer for a in judged.answers}
            assert answers[levels[-1]] == "no"  # 0.38 of 0.66 or 0.58


def test_the_steps_are_chosen_by_the_cnn_and_judged_on_other_seeds(first):
    """Invented accuracies after five rounds: OSAFL 0.58 (1 - 0.8^5), with the printed buffer 0.03
    of it, M-FedAvg 0.38 of it, whatever the scale: of equal cells the smaller scale is taken.
    """
    stages, found = first
    # OSAFL in three cells; M-FedAvg in two, as the printed buffer is too far off whatever it does
    assert {c.seed for c in stages["32 steps"]} == {100} and len(stages["32 steps"]) == 5
    assert {c.local_round for c in stages["32 steps"]} == {"minibatches"}
    table = found.steps.table
    assert found.steps.best.norm == 5.0 and found.steps.best.buffer == "OSAFL without w/eta"
    end = 1 - 0.8**5
    away = (abs(0.58 * end - 0.63) + abs(0.38 * end - 0.53)) / 2
    assert table.loc[0, "distance"] == pytest.approx(away)
    assert table["distance"].count() == 2
    assert table.loc[2, "osafl"] == pytest.approx(0.03 * end)
    assert set(n33.judging(found.steps)["seed"]) == {305, 306}
    assert answers_of(found, "osafl-cnn")["ahead_m_feddisco"] == "open"  # one reading
    names = {"osafl": "m_feddisco", "m_feddisco": "osafl"}
    one = found.read.runs.query("K == 1")
    for runs, answer in ((one, "yes"), (one.replace({"arm": names}), "open")):
        own = found._replace(checkpoints=found.checkpoints | {"CNN": runs})
        assert answers_of(own, "osafl-cnn")["ahead_m_feddisco"] == answer
    with pytest.raises(ValueError, match="must not hold 100, which chooses the scale"):
        drive(n33.dataset1(**ONE | {"step_seeds": [100, 305]}))


def test_osafl_is_best_in_print_but_for_the_loss_of_squeezenet1(first):
    found = n33.evidence(first[1], KNOWN, BEST)["osafl-superior"]
    assert len(found["accuracy"]) == 8 and all(found["accuracy"].values())
    behind = [column for column, best in found["loss"].items() if not best]
    assert behind == ["SqueezeNet1, K = 1", "SqueezeNet1, K = 2"]


def test_what_the_score_adds_is_judged_under_the_reading(first):
    stages, found = first
    assert {(c.seed, c.chi) for c in stages["best reading, score"]} == {
        (seed, 1e9) for seed in (204, 205, 206, 207)
    }
    for by, answer in ((0.1, "yes"), (-0.1, "no"), (0.0, "too small to see")):
        even = found.read.no_score
        own = found.read.scored["accuracy"].to_numpy()
        read = found.read._replace(no_score=even.assign(accuracy=own - by))
        assert answers_of(found._replace(read=read), "osafl-score") == {"printed": answer}


def test_evidence_answers_every_part_of_every_claim(first):
    _, found = first
    evidence = n33.evidence(found, KNOWN, BEST)
    for artefact, parts in evidence.items():
        keys = {part.key for part in CLAIMS[artefact].parts}
        assert set(parts) | {"by_hand"} >= keys >= set(parts), artefact
    verdict = CLAIMS["osafl-tab2"].judge(evidence["osafl-tab2"], setting=Setting("full"))
    answers = {answer.part.key: answer.judged.answer for answer in verdict.answers}
    assert answers["best_m_fedavg"] == "yes" and answers["fails"] == "yes"
    for artefact in ("osafl-fig4", "osafl-alg9"):
        assert not any(isinstance(part, NotRun) for part in evidence[artefact].values())
    assert isinstance(evidence["osafl-saturation"]["osafl_K1"], NotRun)  # 8 rounds


def test_plateaus_and_convergence_as_claimed_and_turned():
    """Curves of 100 rounds by hand: a step up to the plateau, or a straight line that still rises.

    The middle of the first five rounds on the plateau is two rounds after the step.
    """
    rounds = np.arange(1, 101)
    step = {"osafl": {1: (25, 0.6), 2: (45, 0.3)}, "m_fednova": {1: (84, 0.6), 2: (81, 0.3)}}

    def run(rule, K, seed):
        accuracy = 0.003 * rounds if rule in ("m_fedavg", "m_fedprox", "m_feddisco") else 0 * rounds
        if rule in step:
            at, level = step[rule][K]
            accuracy = np.where(rounds > at, level, 0.01)
        loss = np.where(rounds > {1: 69, 2: 79}[K], 1.0, 4.0)
        if rule in ("m_fedavg", "m_fedprox", "m_feddisco", "m_fednova"):
            loss = 5 - 0.02 * rounds
        frame = pd.DataFrame({"round": rounds, "accuracy": accuracy + 1e-4 * seed, "loss": loss})
        best = frame["accuracy"].cummax()
        return frame.assign(arm=rule, K=K, seed=seed, best_accuracy=best, diverged=False)

    arms = [*step, "m_fedavg", "m_fedprox", "m_feddisco", "m_afa_cd"]
    tables = {K: pd.concat(run(a, K, s) for a in arms for s in range(3)) for K in (1, 2)}

    def answers(tables):
        verdict = CLAIMS["osafl-saturation"].judge(n33._saturation(tables), setting=Setting("full"))
        return {answer.part.key: answer.judged.answer for answer in verdict.answers}

    found = answers(tables)
    assert set(found.values()) == {"yes"}
    names = {"osafl": "m_afa_cd", "m_afa_cd": "osafl"}
    turned = answers({K: frame.replace({"arm": names}) for K, frame in tables.items()})
    wrong = {"osafl_K1", "osafl_K2", "afa_flat"}
    assert {key for key, answer in turned.items() if answer != "yes"} == wrong
    still = dict(accuracy=0.05, best_accuracy=0.05, loss=2.0)
    flat = answers({K: frame.assign(**still) for K, frame in tables.items()})
    assert not [key for key in flat if key[:6] in ("rising", "fallin") and flat[key] == "yes"]


def test_dataset_2_one_k_after_the_other():
    stages, found = drive(n34.dataset2(**TWO))
    assert list(stages) == ["LSTM, K = 1", "LSTM, K = 2", "Dataset-1", "Dataset-2"]
    assert [(c.rule, c.seed) for c in stages["LSTM, K = 1"][:8]] == [
        ("osafl", 10),
        ("m_fedavg", 10),
        ("m_afa_cd", 10),
        ("m_fednova", 10),
        ("m_fedprox", 10),
        ("m_feddisco", 10),
        ("genie", 10),
        ("osafl", 11),
    ]
    assert {c.never_joined for c in stages["LSTM, K = 1"] if c.rule == "m_afa_cd"} == {"literal"}
    for number in (1, 2):
        genies = stages[f"Dataset-{number}"]
        assert {(c.rule, c.dataset, c.seed) for c in genies} == {
            ("genie", number, seed) for seed in TWO["genie_seeds"]
        }
    deep, flat = (n34.evidence(found, layers) for layers in (3, 1))
    for artefact, parts in deep.items():
        assert set(parts) == {part.key for part in CLAIMS[artefact].parts}
        CLAIMS[artefact].judge(parts, setting=Setting("reduced", "invented"))
    assert all(isinstance(part, NotRun) for part in flat["osafl-tab4"].values())
    assert isinstance(flat["osafl-datasets"]["K1_gap"], NotRun)
    for lower, answer in (("names", "yes"), ("features", "no")):
        frame = getattr(found, lower)
        less = found._replace(**{lower: frame.assign(best_accuracy=frame["best_accuracy"] - 0.1)})
        parts = n34.evidence(less, 3)["osafl-datasets"]
        verdict = CLAIMS["osafl-datasets"].judge(parts, setting=Setting("full"))
        judged = {one.part.key: one.judged.answer for one in verdict.answers}
        assert judged["K1_gap"] == judged["K2_gap"] == answer
