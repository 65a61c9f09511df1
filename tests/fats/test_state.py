"""The file of a state: it holds everything, and what is no state is neither read nor replaced; and
a small part of the attacks on states, of which tests/faults has the rest.
"""

import copy
import os
from dataclasses import replace

import numpy as np
import pytest
import torch

from sflkit.fats.learning import forget, learn, request, resume
from sflkit.fats.sgd import SGD, Fisher
from sflkit.fats.state import load, save
from tests.fats.fats_cases import setup
from tests.fats.state_attacks import ATTACKS, BAD, attacked, world


@pytest.fixture(scope="module")
def states(tmp_path_factory):
    return world(tmp_path_factory.mktemp("states"), 0)


@pytest.mark.parametrize("kind", ATTACKS)
def test_no_attack_makes_a_dirty_state_clean(states, tmp_path, kind):
    for number in range(2):
        (tmp_path / str(number)).mkdir()
        rng = np.random.default_rng([number, *kind.encode()])
        assert attacked(states, tmp_path / str(number), kind, rng) not in BAD


def test_parts_of_two_states_are_refused_at_every_door(states, tmp_path):
    """The models of before under a history that has forgotten were saved, and loaded as clean."""
    before, after = states.states["before"], states.states["after"]
    both = dict(models=before.models, digests=before.digests)
    lies = [
        replace(after, models=before.models),
        replace(after, **both),
        replace(after, **both, digest=before.digest),
        replace(before, history=after.history),
        replace(after, data=after.data + np.uint64(1)),
        replace(copy.deepcopy(after), history=before.history, log=()),
        replace(states.states["pending"], owed=0),
    ]
    for lie in lies:
        for use in (
            lambda lie=lie: lie.params,
            lambda lie=lie: save(lie, tmp_path / "s"),
            lambda lie=lie: resume(states.task, states.clients, lie),
            lambda lie=lie: request(lie, [(4, 5)], np.random.default_rng(0)),
        ):
            with pytest.raises(ValueError, match="parts do not belong together"):
                use()
    assert not (tmp_path / "s").exists()


def test_what_the_attacks_try_is_refused_or_exact(states, tmp_path):
    """Not all is refused: `world` makes states that may go on, and data are copied."""
    before, after = states.states["before"], states.states["after"]
    save(before, tmp_path / "a")
    save(after, tmp_path / "a")
    assert load(tmp_path / "a").status == "clean"
    rng = np.random.default_rng(0)
    assert attacked(states, tmp_path, "data changed meanwhile", rng) == "exact"


def test_files_hold_everything(tmp_path):
    task, clients, history, rng = setup(6)
    settings = dict(every=2, sgd=SGD("sum", 0.5, 0.01), fisher=Fisher(rate=0.5, decay=0.25))
    state = learn(task, clients, history, 0.1, start=task.init(0), **settings)
    state = forget(task, clients, state, [(0, 1), (2, None)], rng)
    pending = request(state, [(int(state.history.clients[0, 0]), None)], rng)
    for written in state, pending:
        save(written, tmp_path / "state")
        read = load(tmp_path / "state")
        names = ("status", "log", "fisher", "sgd", "rate", "every", "owed", "method", "digest")
        assert all(getattr(read, name) == getattr(written, name) for name in names)
        assert read.models.keys() == written.models.keys()
        assert all(torch.equal(read.models[r], written.models[r]) for r in written.models)
        assert np.array_equal(read.history.clients, written.history.clients)
        assert np.array_equal(read.history.batches, written.history.batches)
        assert read.history.forgotten == written.history.forgotten
        assert {path.name for path in tmp_path.iterdir()} == {"state"}
    assert torch.equal(resume(task, clients, read).params, resume(task, clients, pending).params)


def test_files_that_are_no_states(tmp_path):
    task, clients, history, _ = setup(6)
    with pytest.raises(FileNotFoundError, match="none"):
        load(tmp_path / "none")
    state = learn(task, clients, history, 0.3, start=task.init(0), path=tmp_path / "whole")
    with np.load(tmp_path / "whole") as file:
        parts = dict(file)
    (tmp_path / "text").write_text("not a state")
    (tmp_path / "half").write_bytes((tmp_path / "whole").read_bytes()[:1500])
    np.save(open(tmp_path / "array", "wb"), np.zeros(3))
    np.savez(open(tmp_path / "sparse", "wb"), **{k: v for k, v in parts.items() if k != "batches"})
    np.savez(open(tmp_path / "pickle", "wb"), **parts | {"sizes": np.array([{}])})
    np.savez_compressed(open(tmp_path / "small", "wb"), **parts | {"x": np.zeros(10**8, np.uint8)})
    np.savez(open(tmp_path / "old", "wb"), **{k: v for k, v in parts.items() if k != "about"})
    os.mkfifo(tmp_path / "pipe")
    for name in ("text", "half", "array", "sparse", "pickle", "small", "old", "pipe"):
        with pytest.raises(ValueError, match=f"{name}' is not a state that can be read"):
            load(tmp_path / name)
        with pytest.raises(ValueError, match=f"{name}' exists and is not a state"):
            save(state, tmp_path / name)
    with pytest.raises(ValueError, match="make it anew, with `learn` and then `forget`"):
        load(tmp_path / "old")
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
    save(new, path)
    # the same request, served by another process: what is finished is not replaced by a beginning
    pending = request(old, [(0, None), (1, 0)], np.random.default_rng(1))
    with pytest.raises(ValueError, match="has gone on since this one: 5 rounds done"):
        save(pending, path)
    # a whole client covers its samples
    forget(task, clients, new, [(1, None)], rng, path=path)
    assert load(path).history.forgotten >= {(0, None), (1, None)}


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


def test_links_lead_to_the_file_and_none_that_was_planted_is_followed(tmp_path):
    task, clients, history, rng = setup(1)
    path, link, victim = tmp_path / "real" / "s", tmp_path / "link", tmp_path / "victim"
    learn(task, clients, history, 0.3, start=task.init(0), path=path)
    path.chmod(0o600)
    link.symlink_to(path)
    victim.write_text("precious")
    path.with_name(".s.tmp").symlink_to(victim)
    forget(task, clients, load(link), [(0, None)], rng, path=link)
    assert link.is_symlink() and load(path).history.forgotten == {(0, None)}
    assert victim.read_text() == "precious" and path.stat().st_mode & 0o777 == 0o600
