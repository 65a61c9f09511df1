"""The file of a state: it holds everything, and what is no state is neither read nor replaced."""

import hashlib
import os
import resource

import numpy as np
import pytest
import torch

from sflkit.fats.baselines import Fisher
from sflkit.fats.state import load, save
from sflkit.fats.unlearning import forget, learn, request, resume
from tests.fats.fats_cases import setup


def rewrite(path, parts):
    """Write a state's entries as a valid npz, with the digests that belong to them."""
    parts = {name: np.asarray(values) for name, values in parts.items() if name != "digests"}
    lines = [
        hashlib.sha256(f"{v.dtype.str} {v.shape} ".encode() + v.tobytes()).hexdigest() + f" {name}"
        for name, v in sorted(parts.items())
    ]
    with open(path, "wb") as file:
        np.savez(file, **parts, digests=np.array(lines))


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
        assert read.status == written.status
        assert read.ledger == written.ledger
        assert read.fisher == written.fisher
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
    rewrite(
        tmp_path / "lie",
        parts | {"rounds": parts["rounds"][:3], "numbers": np.array([0.3, 1, 5, 1, 0, 0, 1])},
    )
    rewrite(tmp_path / "sparse", {k: v for k, v in parts.items() if k != "batches"})
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
        rewrite(tmp_path / "numbers", parts | {"numbers": changed})
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
        rewrite(tmp_path / "models", parts | change)
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
    branch = forget(task, clients, old, [(0, None), (1, None)], rng)
    for state in learn(task, clients, history, 0.3, start=start), branch:
        save(state, tmp_path / "other")
        save(state, tmp_path / "other")
    # one that has forgotten more, but on another branch: the request that the file served is lost
    with pytest.raises(ValueError, match="holds a state that has gone on since this one: 1 req"):
        save(branch, path)
    assert path.read_bytes() == before
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


def test_one_request_served_twice_leaves_one_answer(tmp_path):
    """Two processes that load one state and forget one client draw different histories."""
    task, clients, history, _ = setup(1)
    path = tmp_path / "s"
    learn(task, clients, history, 0.3, start=task.init(0), path=path)
    one, other, target = load(path), load(path), [(int(history.clients[0, 0]), None)]
    forget(task, clients, one, target, np.random.default_rng(1), path=path)
    content = path.read_bytes()
    with pytest.raises(ValueError, match="gone on since this one: 1 requests served, 5 rounds"):
        forget(task, clients, other, target, np.random.default_rng(2), path=path)
    assert path.read_bytes() == content
    # the pending state of the same request does not take the finished one's place either
    pending = request(one, target, np.random.default_rng(1))
    with pytest.raises(ValueError, match="gone on since this one"):
        save(pending, path)
    assert path.read_bytes() == content


def test_links_lead_to_the_file(tmp_path):
    task, clients, history, rng = setup(1)
    path, link = tmp_path / "real" / "s", tmp_path / "link"
    state = learn(task, clients, history, 0.3, start=task.init(0), path=path)
    link.symlink_to(path)
    forget(task, clients, load(link), [(0, None)], rng, path=link)
    assert link.is_symlink() and load(path).history.forgotten == {(0, None)}
    # a second name would keep what is forgotten
    other = tmp_path / "second"
    learn(task, clients, history, 0.3, start=task.init(0), path=other)
    os.link(other, tmp_path / "third")
    for name in "second", "third":
        with pytest.raises(ValueError, match=r"has 2 names \(hard links\)"):
            forget(task, clients, state, [(0, None)], rng, path=tmp_path / name)
    assert load(other).history.forgotten == set()
    os.mkfifo(tmp_path / "pipe")
    for use in (lambda: load(tmp_path / "pipe"), lambda: save(state, tmp_path / "pipe")):
        with pytest.raises(ValueError, match="it is no regular file"):
            use()


def test_files_keep_their_permissions_and_no_planted_link_is_followed(tmp_path):
    task, clients, history, rng = setup(1)
    path, victim = tmp_path / "s", tmp_path / "victim"
    state = learn(task, clients, history, 0.3, start=task.init(0), path=path)
    path.chmod(0o600)
    victim.write_text("precious")
    (tmp_path / ".s.tmp").symlink_to(victim)  # the fixed name that writers once had
    (tmp_path / ".s.1.tmp").write_text("of a killed writer")
    forget(task, clients, state, [(0, None)], rng, path=path)
    assert path.stat().st_mode & 0o777 == 0o600 and not path.is_symlink()
    assert victim.read_text() == "precious" and not (tmp_path / ".s.1.tmp").exists()


def pending_state(tmp_path):
    """Return a task's state with a served and a pending request, and the entries of its file."""
    task, clients, history, rng = setup(6)
    state = learn(task, clients, history, 0.3, start=task.init(0), every=2)
    state = forget(task, clients, state, [(0, 1)], rng)
    state = request(state, [(int(state.history.clients[0, 0]), None)], rng)
    assert state.status == "pending"
    save(state, tmp_path / "s")
    with np.load(tmp_path / "s") as file:
        return state, dict(file)


def test_no_part_can_be_changed_alone(tmp_path):
    # a zip rewritten with other content has right checksums of its own, and was accepted
    state, parts = pending_state(tmp_path)
    first = f"model_{parts['rounds'][0]}"
    changes = {
        "forgotten": parts["forgotten"][:0],
        "numbers": parts["numbers"] - [0, 0, 1, 0, 0, 0, 0],
        first: 0 * parts[first],
        "batches": parts["batches"][::-1],
        "sizes": parts["sizes"] + 1,
        "ledger": parts["ledger"][:1],
        "status": np.array("clean"),
    }
    for name, value in changes.items():
        with open(tmp_path / "changed", "wb") as file:
            np.savez(file, **parts | {name: value})
        with pytest.raises(ValueError, match=f"{name} is not what its digest says"):
            load(tmp_path / "changed")
    with open(tmp_path / "changed", "wb") as file:
        np.savez(file, **parts | {"forgotten": parts["forgotten"][:0]})
    with pytest.raises(ValueError, match="exists and is not a state, so it is not replaced"):
        save(state, tmp_path / "changed")


def test_parts_that_contradict_one_another(tmp_path):
    # with digests that fit, as by a program that writes states of its own
    _, parts = pending_state(tmp_path)
    ledger = parts["ledger"]
    last = np.where(np.arange(len(ledger)) == len(ledger) - 1, 1.0, 0.0)[:, None]
    rounds = last * [0, 0, 0, 0, 1, 0]
    for change, message in (
        ({"forgotten": parts["forgotten"][:0]}, "2 requests, but nothing is forgotten"),
        ({"numbers": parts["numbers"] - [0, 0, 1, 0, 0, 0, 0]}, "rounds are owed; owed says"),
        ({"ledger": ledger[:0]}, "ledger says that 0 rounds are owed"),
        ({"ledger": ledger + rounds}, "rounds stand; its models say"),
        ({"ledger": ledger - last * [1, 0, 0, 0, 0, 0]}, "an entry without requests"),
        ({"numbers": parts["numbers"] * 0 + [0.3, 2, 0, 1, 0, 0, 1], "status": "clean"}, "owed"),
    ):
        rewrite(tmp_path / "changed", parts | change)
        with pytest.raises(ValueError, match=message):
            load(tmp_path / "changed")
    rewrite(tmp_path / "same", parts)
    assert load(tmp_path / "same").status == "pending"


def test_states_from_before_digests_say_the_way_out(tmp_path):
    state, parts = pending_state(tmp_path)
    with open(tmp_path / "old", "wb") as file:
        np.savez(file, **{name: v for name, v in parts.items() if name != "digests"})
    for call in (lambda: load(tmp_path / "old"), lambda: save(state, tmp_path / "old")):
        with pytest.raises(ValueError, match=r"no digests; .* make it anew, with `learn` and then"):
            call()


def test_a_state_that_inflates_is_not_unpacked(tmp_path):
    _, parts = pending_state(tmp_path)
    for name, entry in (("batches", 10**8), ("other", 10**8)):
        with open(tmp_path / "small", "wb") as file:
            np.savez_compressed(file, **parts | {name: np.zeros(entry, np.uint8)})
        assert (tmp_path / "small").stat().st_size < 2e6
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        with pytest.raises(ValueError, match="bytes unpacked; at most"):
            load(tmp_path / "small")
        assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 50_000  # KiB
