"""Paths and scores of runs, by hand and against the runs themselves."""

from dataclasses import asdict, replace

import numpy as np
import pandas as pd
import pytest

from companion.notebooks import n42
from companion.notebooks.hit_rounds import hit_law
from sflkit.fats.config import FATSConfig
from sflkit.fats.training import choose_requests, federation_of

SMALL = FATSConfig(
    data="digits",
    model="linear",
    n_clients=20,
    clients_per_round=2,
    batch_size=3,
    local_steps=2,
    rounds=4,
    n_requests=1,
    level="client",
)


def rows(config, learning, recovered, start=0):
    """Rows as `sweep.run_many` gives them: learning after rounds 1.., recovery from `start` on."""
    table = [
        {"phase": phase, "model_round": r, "round": r, "requests": 1, "accuracy": a}
        for phase, first, values in (("learning", 1, learning), ("recovery", start, recovered))
        for r, a in enumerate(values, first)
    ]
    name = f"{config.method}{config.level}{config.seed}"
    return pd.DataFrame(table).assign(**asdict(config), key=name)


def made():
    """FATS goes back to round 2 of 4; FRS starts again."""
    return pd.concat(
        [
            rows(SMALL, [0.2, 0.3, 0.5, 0.6], [0.3, 0.55, 0.7], start=2),
            rows(replace(SMALL, method="frs"), [0.2, 0.3, 0.5, 0.6], [0.1, 0.2, 0.2, 0.4, 0.6]),
        ]
    )


def test_paths_by_hand():
    learning, recomputed = n42.paths_of(made())
    assert learning.index.get_level_values("method").tolist() == ["fats", "frs"]
    assert learning.to_numpy().tolist() == [[0.1, 0.2, 0.3, 0.5, 0.6]] * 2  # one first model
    assert recomputed.to_numpy().tolist() == [[0.1, 0.2, 0.3, 0.55, 0.7], [0.1, 0.2, 0.2, 0.4, 0.6]]


def test_scores_by_hand():
    table = n42.scores(made()).droplevel(["data", "level", "seed"])
    # One client of 20 in two slots a round: spared with (19/20)^2 = 0.9025 a round.
    law = np.append(0.0975 * 0.9025 ** np.arange(4), 0.9025**4)
    fats, frs = table.loc["fats"], table.loc["frs"]
    assert fats.after == pytest.approx(law @ [0.1, 0.2, 0.3, 0.55, 0.7])
    assert frs.after == 0.1 and frs.share == 1
    # The goal is 0.6 - 0.02: the path is there with its last model, from wherever it starts.
    assert fats.back == pytest.approx(law @ [4, 3, 2, 1, 0]) and frs.back == 4
    assert fats.share == pytest.approx(law @ [1, 3 / 4, 1 / 2, 1 / 4, 0])
    assert (fats.before, fats.kept, frs.kept) == (0.6, 0.7, 0.6)  # the last quarter is one round
    assert fats.speed == pytest.approx((0.2 + 0.3 + 0.5 + 0.6) / 4)
    assert frs.finished == pytest.approx((0.1 + 0.2 + 0.2 + 0.4) / 4)
    assert frs.moves == pytest.approx((0.2 + 0.2) / 2)


def test_the_laws_are_those_of_the_requests():
    frame = pd.concat([made(), *(rows(replace(SMALL, seed=s), [0] * 4, [0]) for s in (1, 2))])
    sizes = federation_of(SMALL).sizes
    for key, law in n42.laws_of(frame).iterrows():
        config = replace(SMALL, seed=key[2])
        exact = hit_law(
            choose_requests(config, sizes),
            n_clients=20,
            samples_per_client=sizes,
            clients_per_round=2,
            batch_size=3,
            local_steps=2,
            rounds=4,
        )
        assert law.tolist() == ([1, 0, 0, 0, 0] if key[3] == "frs" else exact.tolist())


def test_published_sizes_are_those_of_the_data_set(monkeypatch):
    # Kept where a data set must be fetched; digits are at hand, and computed.
    assert n42.sizes_of(SMALL).tolist() == federation_of(SMALL).sizes.tolist()
    monkeypatch.setattr(n42, "federation_of", None)  # nothing may be loaded
    sizes = n42.sizes_of(replace(SMALL, data="mnist", n_clients=300, batch_size=10, seed=15))
    assert len(sizes) == 300 and sizes.sum() == 60000


def test_a_stream_by_hand():
    # Two requests, two rounds apart: the first is hit at round 3 of 4 and done after a round, the
    # second hits nothing. Shown: 0.5, 0.7, then 0.7, 0.7. The last quarter of learning is round 4.
    table = pd.DataFrame(
        {
            "phase": ["learning"] * 4 + ["recovery"] * 3,
            "requests": [0, 0, 0, 0, 1, 1, 2],
            "round": [1, 2, 3, 4, 4, 5, 5],
            "model_round": [1, 2, 3, 4, 3, 4, 4],
            "accuracy": [0.1, 0.2, 0.3, 0.9, 0.5, 0.7, 0.7],
        }
    ).assign(**asdict(replace(SMALL, streaming=True, interval=2, n_requests=2)))
    score = n42.stream_scores(table).iloc[0]
    assert score["mean"] == pytest.approx((0.5 + 0.7 + 0.7 + 0.7) / 4)
    assert score["after"] == pytest.approx(0.6) and score["late"] == pytest.approx(0.9)


def test_what_does_not_fit_is_refused():
    with pytest.raises(ValueError, match="one data set"):
        n42.paths_of(pd.concat([made(), made().assign(data="mnist")]))
    with pytest.raises(ValueError, match="every round"):
        n42.paths_of(made().query("phase == 'recovery' or model_round != 2"))
