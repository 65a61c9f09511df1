"""Flipped bits, cut files, blocks of zeros: read as they were or named, never read otherwise."""

from __future__ import annotations

import shutil

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
import torch

from companion import figures
from companion.claims import SFL as CLAIMS
from companion.judging import seals, tables
from companion.judging.claims import Setting
from sflkit.data import catalogue, files
from sflkit.fats.learning import learn
from sflkit.fats.state import load
from sflkit.runs import store
from sflkit.runs.keys import describe
from sflkit.sfl import cache_paths
from sflkit.sfl.config import SFLConfig
from tests.faults import campaign


def corruptions(kind, path):
    """Yield after each corruption of a file, which is put right again."""
    right = path.read_bytes()
    for number in campaign.tries(20, 10):
        path.write_bytes(campaign.damaged(right, campaign.generator(kind, number)))
        with campaign.attempt(f"corruption of {kind}"):
            yield
        path.write_bytes(right)


@pytest.mark.parametrize("end", [".csv", ".json"])
def test_results(tmp_path, end):
    config = SFLConfig(train=False, rounds=3, n_clients=3, capacity=4, batch_size=2)
    head = describe(cache_paths.run, config)
    frame = pd.DataFrame({"round": [1, 2, 3], "loss": [0.5, 0.25, 0.125], "rule": ["a", "b", "c"]})
    store.write_result(tmp_path, head, frame, threads=1, seconds=1.0)
    right, record = store.read_result(head["key"], tmp_path)
    for _ in corruptions(f"a result's {end[1:]}", tmp_path / f"{head['key']}{end}"):
        found = store.read_result(head["key"], tmp_path)
        if found is None:
            assert store.look(head["key"], tmp_path).wrong
        else:  # a blank between two entries of the json, for example
            pd.testing.assert_frame_equal(found[0], right)
            assert found[1] == record


def test_states(tmp_path):
    from tests.fats.fats_cases import setup

    task, clients, history, _ = setup(0)
    path = tmp_path / "state.npz"
    right = learn(task, clients, history, 0.3, start=task.init(0), path=path)
    for _ in corruptions("a state", path):
        try:
            found = load(path)
        except ValueError as error:
            assert str(path) in str(error)
        else:
            assert torch.equal(found.params, right.params)
            assert found.history.forgotten == right.history.forgotten
            np.testing.assert_array_equal(found.history.batches, right.history.batches)
            assert (found.status, found.owed, found.log) == (
                right.status,
                right.owed,
                right.log,
            )


def test_data_files(tmp_path):
    spec = catalogue.SPECS["mnist"]
    rng = np.random.default_rng(0)
    content = {
        "x_train": rng.integers(0, 256, (8, *spec.shape), np.uint8),
        "y_train": np.arange(8),
        "x_test": rng.integers(0, 256, (4, *spec.shape), np.uint8),
        "y_test": np.arange(4),
    }
    path = tmp_path / "mnist.npz"
    files.write(path, content)
    for _ in corruptions("a data file", path):
        try:
            found = files.read(path, spec)
        except files.DataCorruptError as error:
            assert str(path) in str(error)
        else:
            for name, values in content.items():
                np.testing.assert_array_equal(found[name], values)


@pytest.fixture(scope="module")
def published(tmp_path_factory):
    folder = tmp_path_factory.mktemp("figures") / "published"
    for artefact in ("sfl-fig2", "sfl-fig3"):
        fig, ax = plt.subplots(figsize=(2, 2))
        ax.plot([0, 1])
        data = [[0.0, 0.0], [1.0, 1.0]]
        figures.save_figure(fig, artefact, data=data, parameters={"rounds": 3}, folder=folder)
        plt.close(fig)
    judged = CLAIMS["sfl-fig2"].judge({"mixes": True}, setting=Setting("full"))
    tables.record(judged, folder=folder)
    return folder


@pytest.mark.parametrize(
    "name",
    [*(f"sfl-fig2{end}" for end in (".png", ".csv", ".json")), *seals.COLUMNS],
)
def test_what_is_published(published, tmp_path, name):
    folder = shutil.copytree(published, tmp_path / "published")
    right = campaign.contents(folder)
    rows = seals.rows(folder / name) if name in seals.COLUMNS else []
    for _ in corruptions(f"{name}", folder / name):
        found = seals.damages(folder)
        if not found:  # such as a quote around an entry, which changes no entry
            assert rows and seals.rows(folder / name) == rows
            continue
        assert all(damage.file.parent == folder and damage.wrong for damage in found)
        seals.mend(folder, found)
        # what is left is of a figure that its notebook draws anew
        assert {d.artefact for d in seals.damages(folder)} <= {"sfl-fig2", "sfl-fig3"}
        for file, content in right.items():
            (folder / file).write_bytes(content)
