"""A table of one's own: how it is split, and what a run does with own rules."""

from __future__ import annotations

import importlib
import json
import re

import numpy as np
import pandas as pd
import pytest

from companion.notebooks import own_data
from sflkit.data import own
from sflkit.runs import run_many
from sflkit.sfl import caches
from tests.helpers import ROOT


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    return own.write_example(tmp_path_factory.mktemp("own") / "example.csv")


def config(file, **fields):
    fields = {
        "client": "machine",
        "rounds": 4,
        "shares": (0.0, 0.5, 1.0),
        "local_steps": 1,
    } | fields
    return own_data.config_for(file, **fields)


def test_the_split_keeps_every_row_once_and_the_order_of_time(file):
    made = config(file, archive=0.25, test=0.4)
    table = own_data.table_of(made)
    old, streams, test = own_data.split(made, table)
    assert sorted([*old, *np.concatenate(streams), *test]) == list(range(len(table)))
    assert old.tolist() == list(range(630)) and len(test) == round(0.4 * (2520 - 630))
    for k, rows in enumerate(streams):
        assert (np.diff(rows) > 0).all() and set(table.client[rows]) == {k}
    again = own_data.split(config(file, archive=0.25, test=0.4, seed=1), table)[2]
    assert test.tolist() != again.tolist()


def test_the_federation_has_the_archive_first_and_scales_by_training_rows(file):
    clients = own_data.federation(config(file))
    assert clients.historical.tolist() == [True] + [False] * 6 and clients.n_classes == 4
    rows = np.concatenate(clients.clients)
    np.testing.assert_allclose(clients.x[rows].mean(0), 0, atol=1e-5)
    np.testing.assert_allclose(clients.x[rows].std(0), 1, atol=1e-5)
    assert abs(clients.x_test.mean(0)).max() > 0.1  # the stream has drifted away from the archive


def test_a_constant_feature_is_no_division_by_zero(tmp_path):
    rows = "".join(f"{'ab'[i % 2]},5,{i}\n" for i in range(40))
    (tmp_path / "flat.csv").write_text("label,flat,i\n" + rows)
    clients = own_data.federation(own_data.config_for(tmp_path / "flat.csv"))
    assert np.isfinite(np.asarray(clients.x)).all() and (clients.x[:, 0] == 0).all()


def newest_first(rows, labels, rng):
    return rows[::-1]


def one_row_twice(rows, labels, rng):
    return np.full(len(rows), rows[0])


def test_orders_of_arrival(file):
    as_it_stands = own_data.federation(config(file)).clients
    shuffled = own_data.federation(config(file, order="shuffled")).clients
    own = own_data.federation(config(file), newest_first).clients
    for a, b, c in list(zip(as_it_stands, shuffled, own, strict=True))[1:]:
        assert a.tolist() != b.tolist() and sorted(a) == sorted(b)
        assert a[::-1].tolist() == c.tolist()
    assert as_it_stands[0].tolist() == shuffled[0].tolist() == own[0].tolist()
    with pytest.raises(ValueError, match=r"stream=one_row_twice must return the \d+ rows .* 'm1'"):
        own_data.federation(config(file), one_row_twice)


def test_a_changed_file_is_refused(tmp_path):
    file = tmp_path / "mine.csv"
    file.write_text("label,a\n" + "no,1\nyes,2\n" * 20)
    made = own_data.config_for(file)
    file.write_text("label,a\n" + "no,1\nyes,3\n" * 20)
    with pytest.raises(ValueError, match="has changed since its config was made"):
        own_data.run(made)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"archive": 0.0001, "test": 0.5}, "leave 0 rows for the archive"),
        ({"test": 0.0001, "archive": 0.5}, "0 for the test"),
        ({"archive": 0.999}, "without a stream"),
        ({"shares": (2.0,)}, "shares"),
        ({"archive": 1.0}, "archive"),
        ({"client": "label"}, "client"),
    ],
)
def test_bad_settings_are_refused(file, fields, message):
    with pytest.raises(ValueError, match=message):
        own_data.federation(config(file, **fields))


def test_limiting_cases_of_the_importance(file):
    """With p_hist = 1 no cache takes part; with p_hist = 0 the archive's own rows do not."""
    by_rule = {
        rule: own_data.run(config(file, memory=1), cache=rule)
        for rule in (caches.FIFO, caches.Reservoir)
    }
    ends = {rule: f[f["round"] == 4].set_index("p_hist") for rule, f in by_rule.items()}
    a, b = ends.values()
    assert a.loc[1.0, "loss"] == b.loc[1.0, "loss"]
    assert a.loc[0.0, "loss"] != b.loc[0.0, "loss"]
    assert list(by_rule[caches.FIFO]["round"].unique()) == [1, 2, 3, 4]


def test_a_cache_with_room_for_all_keeps_all(file):
    """No rule has to choose then, so that all rules are one."""
    fifo, other = (
        own_data.run(config(file, memory=4), cache=rule) for rule in (caches.FIFO, caches.Reservoir)
    )
    pd.testing.assert_frame_equal(fifo, other)


def test_the_notebook_s_own_rules_run(file, tmp_path, monkeypatch):
    """The block that notebook 93 shows a reader, as a module of the reader's."""
    book = json.loads((ROOT / "notebooks" / "93_your_own_data.ipynb").read_text(encoding="utf-8"))
    text = "".join(line for cell in book["cells"] for line in cell["source"])
    (block,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    *rules, call = block.strip().splitlines()
    (tmp_path / "my_rules.py").write_text("\n".join(rules))
    monkeypatch.syspath_prepend(tmp_path)
    space = vars(importlib.import_module("my_rules")) | {"run_many": run_many, "own_data": own_data}
    space["configs"] = [config(file, rounds=2)]
    monkeypatch.setenv("SFLKIT_CACHE", str(tmp_path / "results"))
    exec(call, space)
    assert space["frame"].attrs["computed"] == 1 and len(space["frame"]) == 2 * 3
    assert set(space["frame"].attrs["sources"]) >= {"cache", "server", "model", "stream"}


def scores(**by_rule):
    rows = [
        (rule, seed, share, value)
        for rule, table in by_rule.items()
        for share, values in table.items()
        for seed, value in enumerate(values)
    ]
    return pd.DataFrame(rows, columns=["rule", "seed", "p_hist", "accuracy"])


def test_no_seed_chooses_what_it_judges():
    """By hand: without seed 0 the means are 0.5 and 0.6, so that seed 0 gets p = 1's 0.1 although
    its own p = 0 has 0.9; the other two see a mean of 0.7 against 0.35 and get p = 0's 0.5.
    """
    found = own_data.chosen(scores(fifo={0.0: [0.9, 0.5, 0.5], 1.0: [0.1, 0.6, 0.6]}), "fifo")
    assert found.tolist() == [0.1, 0.5, 0.5]
    with pytest.raises(ValueError, match="'fifo' have one seed"):
        own_data.chosen(scores(fifo={0.0: [0.9]}), "fifo")


def test_late_scores_are_means_over_the_last_fifth():
    frame = pd.DataFrame(
        {
            "rule": "fifo",
            "seed": 0,
            "p_hist": np.repeat([0.0, 1.0], 10),
            "round": np.tile(np.arange(1, 11), 2),
            "accuracy": [*np.arange(10) / 10, *[0.5] * 9, np.nan],
        }
    )
    late = own_data.late_scores(frame)["accuracy"]
    assert late[0] == pytest.approx(0.85) and np.isnan(late[1])
