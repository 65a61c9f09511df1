"""The file of a state: it holds everything, and what is no state is neither read nor replaced."""

import os

import numpy as np
import pytest
import torch

from sflkit.fats.baselines import Fisher
from sflkit.fats.state import load, save
from sflkit.fats.unlearning import forget, learn, request, resume
from tests.fats.fats_cases import setup


def test_files_hold_everything(tmp_path):
    task, clients, history, rng = setup(6)
    state = learn(
        task,
        clients,
        history,
        0.3,
        start=task.init(0),
        every=2,
        fisher=Fisher(rate=0.5, decay=0.25),
    )
    state = forget(task, clients, state, [(0, 1), (2, None)], rng)
    pending = request(state, [(int(state.history.clients[0, 0]), None)], rng)
    for written in state, pending:
        save(written, tmp_path / "state")
        read = load(tmp_path / "state")
        assert (
            read.status == written.status
            and read.ledger == written.ledger
            and read.fisher == written.fisher
        )
        assert (read.rate, read.every, read.owed, read.method) == (0.3, 2, written.owed, "fats")
        assert read.models.keys() == written.models.keys()
        assert all(torch.equal(read.models[r], written.models[r]) for r in written.models)
        assert np.array_equal(read.history.clients, written.history.clients)
        assert read.history.forgotten == written.history.forgotten
        assert np.array_equal(read.history.batches, written.history.batches)
        assert [path.name for path in tmp_path.iterdir()] == ["state"]
    assert torch.equal(resume(task, clients, read).params, resume(task, clients, pending).params)


def test_files_that_are_no_states(tmp_path):
    task, clients, history, rng = setup(6)
    with pytest.raises(FileNotFoundError, match="none"):
        load(tmp_path / "none")
    (tmp_path / "text").write_text("not a state")
    state = learn(task, clients, history, 0.3, start=task.init(0), path=tmp_path / "whole")
    (tmp_path / "half").write_bytes((tmp_path / "whole").read_bytes()[:1500])
    with np.load(tmp_path / "whole") as file:
        parts = dict(file)
    # a pending state that calls itself clean: its last models are missing
    np.savez(
        open(tmp_path / "lie", "wb"),
        **parts | {"rounds": parts["rounds"][:3], "numbers": np.array([0.3, 1, 5, 1, 0, 0, 1])},
    )
    np.savez(open(tmp_path / "sparse", "wb"), **{k: v for k, v in parts.items() if k != "batches"})
    np.save(open(tmp_path / "array", "wb"), np.zeros(3))
    whole = (tmp_path / "whole").read_bytes()
    entry = whole.index(
        b"PK\x01\x02"
    )  # the method of compression (2 bytes) stands 8 bytes into a local entry, 10 in the list
    (tmp_path / "method").write_bytes(
        whole[:8] + b"\x63\x00" + whole[10 : entry + 10] + b"\x63\x00" + whole[entry + 12 :]
    )
    for name in "text", "half", "lie", "sparse", "array", "method":
        with pytest.raises(ValueError, match=name):
            load(tmp_path / name)
    for name in "text", "half", "array":  # what may be someone's is not replaced
        before = (tmp_path / name).read_bytes()
        with pytest.raises(ValueError, match=f"{name}' exists and is not a state"):
            save(state, tmp_path / name)
        assert (tmp_path / name).read_bytes() == before
    numbers = parts["numbers"]
    for i, value in (0, 0.0), (0, np.nan), (1, 0.0), (1, 1.5), (2, -1.0), (2, 6.0), (6, 0.0):
        changed = np.where(np.arange(7) == i, value, numbers)
        np.savez(open(tmp_path / "numbers", "wb"), **parts | {"numbers": changed})
        with pytest.raises(ValueError, match=f"'{tmp_path}/numbers' is not a state"):
            load(tmp_path / "numbers")
    model = parts["model_3"]
    for change in (
        {"model_3": np.full_like(model, np.nan)},
        {"model_3": model.astype(float)},
        {"model_3": model[1:]},
        {"model_0": np.float32(0), "rounds": np.array([0])},
        {"rounds": parts["rounds"][1:]},
        {"rounds": parts["rounds"][:0]},
        {"rounds": np.array([0, -1, 5]), "model_-1": model},
        {"rounds": np.array([0, 6]), "model_6": model},
        {"method": np.array("sgd")},
    ):
        np.savez(open(tmp_path / "models", "wb"), **parts | change)
        with pytest.raises(ValueError, match=f"'{tmp_path}/models' is not a state"):
            load(tmp_path / "models")
    assert load(tmp_path / "whole").rounds_done == state.rounds_done == 5


def test_a_stale_state_does_not_bring_forgotten_data_back(tmp_path):
    task, clients, history, rng = setup(1)
    path, start = tmp_path / "s", task.init(0)
    old = learn(task, clients, history, 0.3, start=start, path=path)
    new = forget(task, clients, old, [(0, None), (1, 0)], rng, path=path)
    before, rounds = path.read_bytes(), []
    for stale in (
        lambda: save(old, path),
        lambda: forget(task, clients, old, [(0, None)], rng, path=path, on_round=rounds.append),
        lambda: forget(task, clients, old, [(1, None)], rng, path=path, on_round=rounds.append),
        lambda: resume(task, clients, old, path=path),
        lambda: learn(task, clients, history, 0.3, start=start, path=path, on_round=rounds.append),
    ):
        with pytest.raises(
            ValueError, match=r"has forgotten \(client, sample\)=\([01], (0|None)\) \([12] in all\)"
        ):
            stale()
        assert path.read_bytes() == before and not rounds  # refused before the work
    # a whole client covers its samples; the same or more may replace the file, and so may anything
    # a file that forgot nothing
    save(new, path)
    for state in (
        learn(task, clients, history, 0.3, start=start),
        forget(task, clients, old, [(0, None), (1, None)], rng),
    ):
        save(state, tmp_path / "other")
        save(state, tmp_path / "other")
    save(state, path)
    assert load(path).history.forgotten == {(0, None), (1, None)}


def test_the_file_is_flushed_before_it_gets_its_name(tmp_path, monkeypatch):
    task, clients, history, _ = setup()
    done = []
    for name in ("fsync", "replace"):
        real = getattr(os, name)
        monkeypatch.setattr(
            os, name, lambda *args, name=name, real=real: (done.append(name), real(*args))[1]
        )
    learn(task, clients, history, 0.3, start=task.init(0), path=tmp_path / "s", rounds=1)
    assert done == ["fsync", "replace", "fsync"]
