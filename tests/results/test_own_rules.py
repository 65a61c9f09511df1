"""A user's own rules and runs in sweeps: found again while their source stands, computed anew when
it changed, whatever the back end and the moment of a kill -9.
"""

from __future__ import annotations

import dataclasses
import functools
import importlib
import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import filelock
import numpy as np
import pytest

from companion import shelf
from sflkit import registry
from sflkit.federated import FedAvg
from sflkit.results import sources, sweep
from sflkit.results.store import describe, result_key
from sflkit.sfl import caches

# An experiment that takes all that a user may bring, and logs every run that ends. Seeds >= 2 wait
# while the file `hold` exists.
PROBE = """
import os, time
from dataclasses import dataclass
from pathlib import Path
import pandas as pd
EXPERIMENT = "own-rules-probe"
RESULT_VERSION = 1
FOLDER = Path(__file__).parent

@dataclass(frozen=True)
class Config:
    seed: int = 0

def log(word, config):
    with open(FOLDER / "log", "a") as file:
        file.write(f"{word} {config.seed}\\n")

def run(config, *, cache=None, server=None, model=None, stream=None):
    log("start", config)
    while config.seed >= 2 and (FOLDER / "hold").exists():
        time.sleep(0.01)
    held = 100 if cache is None else cache(4, 2).held()
    moved = 10 if server is None else server()(config.seed)
    made = 0 if model is None else model((1, 28, 28), 10)
    start = 0 if stream is None else stream(config, 10)
    log("end", config)
    answer = {"held": [held], "moved": moved, "made": made, "start": start, "pid": os.getpid()}
    return pd.DataFrame(answer)

def plain(config):
    return pd.DataFrame({"held": [1]})
"""

# A script of a user: his own cache rule, server rule and model, one of each kind of thing.
SCRIPT = """
import sys
import joblib
import own_rules_probe as probe
from sflkit.results import sweep

class Base:
    share = 0.5

class Mine(Base):
    def __init__(self, capacity, batch_size):
        self.capacity = capacity

    def held(self):
        return int(self.capacity * self.share)

class Server:
    def __call__(self, value):
        return value + 1

def network(input_shape, n_classes):
    return n_classes

def main(backend):
    configs = [probe.Config(seed) for seed in range(4)]
    with joblib.parallel_config(backend=backend):
        return sweep.run_many(probe.run, configs, cache=Mine, server=Server, model=network,
                              store=str(probe.FOLDER / "store"), jobs=2)

if __name__ == "__main__":
    if sys.argv[1] == "dask":
        import distributed
        cluster = distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None
        )
        client = distributed.Client(cluster)
    frame = main(sys.argv[1])
    assert frame["moved"].tolist() == [1, 2, 3, 4] and set(frame["made"]) == {10}
    print(frame.attrs["computed"], *sorted(set(frame["held"])))
    if sys.argv[1] == "dask":
        import os
        assert os.getpid() not in set(frame["pid"])
        client.close()
        cluster.close()
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    (tmp_path / "own_rules_probe.py").write_text(PROBE)
    (tmp_path / "study.py").write_text(SCRIPT)
    root = str(Path(sweep.__file__).parents[2])
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), root]))
    monkeypatch.setenv("SFLKIT_THREADS", "2")
    return tmp_path


@pytest.fixture
def probe(folder, monkeypatch):
    monkeypatch.syspath_prepend(str(folder))
    sys.modules.pop("own_rules_probe", None)
    import own_rules_probe

    yield own_rules_probe
    sys.modules.pop("own_rules_probe", None)


def study(folder, backend):
    """Run the user's script; answer how many runs it computed and what its caches held."""
    done = subprocess.run(
        [sys.executable, str(folder / "study.py"), backend],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def change(folder, old, new):
    text = (folder / "study.py").read_text()
    assert text.count(old) == 1
    (folder / "study.py").write_text(text.replace(old, new))


def seeds(folder, word):
    log = folder / "log"
    lines = log.read_text().splitlines() if log.exists() else []
    return sorted(int(line.split()[1]) for line in lines if line.startswith(word))


def wait_for(condition, seconds=60.0):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "timed out"
        time.sleep(0.02)


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["threading", "loky", "dask"])
def test_killed_resumed_found_again_and_computed_anew_when_the_source_changes(folder, backend):
    if backend == "dask":
        pytest.importorskip("distributed")
    (folder / "hold").touch()  # seeds 0 and 1 finish; 2 and 3 are in the middle of their run
    process = subprocess.Popen([sys.executable, str(folder / "study.py"), backend])
    store = folder / "store"
    wait_for(lambda: seeds(folder, "start") == [0, 1, 2, 3])
    wait_for(lambda: len(list(store.rglob("*.json"))) == 2)
    process.send_signal(signal.SIGKILL)
    process.wait()
    for lock in (store / ".locks").rglob("*.lock"):  # orphaned workers notice and let go
        filelock.FileLock(lock).acquire(timeout=30).lock.release()
    (folder / "hold").unlink()
    assert study(folder, backend) == "2 2"
    assert seeds(folder, "end") == [0, 1, 2, 3]
    assert study(folder, backend) == "0 2"
    assert seeds(folder, "end") == [0, 1, 2, 3]
    change(folder, "return int(self.capacity * self.share)", "return self.capacity")
    assert study(folder, backend) == "4 4"


def test_bases_and_functions_count_too(folder):
    assert study(folder, "threading") == "4 2"
    change(folder, "share = 0.5", "share = 0.25")  # in a base class
    assert study(folder, "threading") == "4 1"
    change(folder, "return n_classes", "return n_classes + 0")
    assert study(folder, "threading") == "4 1"
    change(folder, "return n_classes + 0", "return n_classes")
    assert study(folder, "threading") == "0 1"


@pytest.mark.slow
def test_every_back_end_finds_the_results_of_the_others(folder):
    assert study(folder, "loky") == "4 2"
    assert study(folder, "threading") == "0 2"
    imported = "import study; print(study.main('threading').attrs['computed'])"
    done = subprocess.run(
        [sys.executable, "-c", imported], capture_output=True, text=True, check=True
    )
    assert done.stdout == "0\n"  # __main__.Mine and study.Mine are one


def test_what_is_given_reaches_the_run_its_key_and_its_record(probe, folder):
    store = folder / "store"
    config = probe.Config(1)
    plain = sweep.run_many(probe.run, [config], store=store)
    frame = sweep.run_many(probe.run, [config], cache=Rule, stream=a_stream, store=store)
    assert frame["held"].tolist() == [7] and frame["start"].tolist() == [11]
    assert frame.attrs["computed"] == 1 and frame.attrs["keys"] != plain.attrs["keys"]
    key = result_key(probe.run, config, {"stream": a_stream, "cache": Rule})
    assert frame.attrs["keys"] == [key]
    record = json.loads((store / f"{key}.json").read_text())
    assert set(record["sources"]) == {"run", "cache", "stream"}
    assert record["sources"]["cache"] == sources.identity("cache", Rule)
    assert record["sources"]["cache"]["name"] == "Rule" and record["config"] == {"seed": 1}
    assert frame.attrs["sources"] == record["sources"]
    others = [{"cache": OtherRule}, {"server": Rule}, {"cache": Rule, "server": Rule}, {}]
    keys = {result_key(probe.run, config, given) for given in others}
    assert len(keys | {key}) == 5


def test_a_run_of_this_library_without_own_code_has_the_key_it_always_had():
    from sflkit.sfl import training
    from sflkit.sfl.config import SFLConfig

    head = describe(training.run, SFLConfig())
    assert "sources" not in head


def test_published_results_have_the_keys_that_their_records_give(root, monkeypatch):
    """Whatever class the config is of: the key hashes experiment, version and fields alone."""
    from sflkit.sfl import training

    records = shelf.survey(root / "data" / "results").records.values()
    assert len(records) > 100
    for record in records:
        monkeypatch.setattr(training, "EXPERIMENT", record["experiment"])
        monkeypatch.setattr(training, "RESULT_VERSION", record["result_version"])
        config = dataclasses.make_dataclass("Config", record["config"], frozen=True)
        assert result_key(training.run, config(**record["config"])) == record["key"]


def test_an_edited_module_must_be_imported_anew(tmp_path, monkeypatch):
    file = tmp_path / "edited_rules.py"
    text = "class Mine:\n    def held(self):\n        return 1\n\ndef rule():\n    return 1\n"
    file.write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    module = importlib.import_module("edited_rules")
    before = sources.identity("cache", module.Mine)
    for edited in (text.replace("1", "2"), f"X = 1\n{text}"):
        file.write_text(edited)
        for thing in (module.Mine, module.rule):
            with pytest.raises(ValueError, match=r"edited_rules.py says, which has changed since"):
                sources.identity("cache", thing)
        module = importlib.reload(module)
        after = sources.identity("cache", module.Mine)
        assert (after == before) == edited.startswith("X")
    sys.modules.pop("edited_rules")


def test_code_that_was_replaced_in_place_is_seen(tmp_path, monkeypatch):
    """As IPython's autoreload does: the class object stays, what it holds is new."""
    file = tmp_path / "reloaded_rules.py"
    text = "class Mine:\n    size = 1\n\n    def held(self):\n        return self.size\n"
    file.write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    kept = importlib.import_module("reloaded_rules").Mine
    found = [sources.identity("cache", kept)["source_sha256"]]
    for edited in (text.replace("1", "2"), text.replace("self.size", "7")):
        file.write_text(edited)
        fresh = importlib.reload(sys.modules["reloaded_rules"]).Mine
        kept.size = fresh.size
        kept.held.__code__ = fresh.held.__code__
        found.append(sources.identity("cache", kept)["source_sha256"])
    sys.modules.pop("reloaded_rules")
    assert len(set(found)) == 3


@pytest.mark.slow
def test_two_scripts_that_each_define_run_do_not_share_results(tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(Path(sweep.__file__).parents[2]))
    script = """
        from dataclasses import dataclass
        import pandas as pd
        from sflkit.results import sweep
        EXPERIMENT = "my-study"
        RESULT_VERSION = 1

        @dataclass(frozen=True)
        class Config:
            seed: int = 0

        def run(config):
            return pd.DataFrame({"x": [VALUE]})

        frame = sweep.run_many(run, [Config()], store="store")
        print(frame.attrs["computed"], frame["x"][0])
    """

    def answer(name, value):
        (tmp_path / name).write_text(textwrap.dedent(script).replace("VALUE", value))
        return subprocess.run(
            [sys.executable, name], cwd=tmp_path, capture_output=True, text=True, check=True
        ).stdout

    assert answer("one.py", "1") == "1 1\n"
    assert answer("two.py", "2") == "1 2\n"  # not the other script's 1
    assert answer("one.py", "1") == answer("third.py", "1") == "0 1\n"
    assert answer("one.py", "3") == "1 3\n"  # its code changed


def test_rules_written_in_notebook_cells(tmp_path, probe):
    """A cell's source is kept by name in linecache, and a notebook's __main__ has no file."""
    import linecache

    def cell(text, name):
        linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
        space = {"__name__": "__main__"}
        exec(compile(text, name, "exec"), space)
        return space["Mine"]

    text = "class Mine:\n    size = 3\n\n    def held(self):\n        return self.size\n"
    first = sources.identity("cache", cell(text, "<cell 1>"))
    again = sources.identity("cache", cell(text, "<cell 2>"))
    other = sources.identity("cache", cell(text.replace("3", "4"), "<cell 3>"))
    assert first == again and first["name"] == "Mine" and first != other
    bare = "class Mine:\n    size = 3\n"  # without a method nothing names the cell
    looks = [sources.identity("cache", cell(bare.replace("3", n), "<c>")) for n in "334"]
    assert looks[0] == looks[1] != looks[2]


def test_rules_in_a_file_that_is_no_module(tmp_path):
    """As the README's blocks are run by its test: the text around them is not Python."""
    file = tmp_path / "text.md"

    def rule(body):
        text = f"class Mine:\n    size = [1, 'a']\n\n    def held(self):\n        {body}\n"
        file.write_text("Some prose\n" + text)
        space = {"__name__": "somewhere"}
        exec(compile("\n" + text, str(file), "exec"), space)
        return sources.identity("cache", space["Mine"])

    first = rule("return 1")
    assert first == rule("return 1") and first != rule("return 2")


class Rule:
    def __init__(self, capacity, batch_size):
        pass

    def held(self):
        return 7


class OtherRule(Rule):
    pass


class Nested:
    class Inner(Rule):
        @property
        def size(self):
            return 1

        @staticmethod
        def helper():
            return 2


def a_stream(config, n_classes):
    return config.seed + n_classes


def test_one_thing_has_one_identity_and_two_things_have_two():
    things = [Rule, OtherRule, Nested, Nested.Inner, a_stream, caches.FIFO, caches.DRSR]
    found = [sources.identity("cache", thing) for thing in things]
    assert found == [sources.identity("cache", thing) for thing in things]
    assert len({one["source_sha256"] for one in found}) == len(things)
    assert sources.identity("cache", Nested.Inner)["name"] == "Nested.Inner"
    # a base of this library counts by name alone, one of the user's with its text
    assert "def held" in sources._text(OtherRule)
    assert "def held" not in sources._text(type("Empty", (caches.FIFO,), {"size": 1}))


def inner_function():
    def rule(config, long_term):
        return None

    return rule


@pytest.mark.parametrize(
    ("thing", "message"),
    [
        (lambda capacity, batch_size: None, "must be a class or function with a name of its own"),
        (functools.partial(Rule, 4), "must be a class or function with a name of its own"),
        (Rule(4, 2), "must be a class or function with a name of its own"),
        (inner_function(), "must be a class or function with a name of its own"),
        (7, "cache=7 must be a class or function"),
        ("drsr", "cache='drsr' must be a class or function"),
        (dict, "has no source that can be read"),
        (
            eval(compile("type('Made', (), {'held': lambda self: 1})", "<made>", "eval")),
            "no source",
        ),
    ],
)
def test_what_could_not_be_found_again_is_refused_with_the_way_out(probe, folder, thing, message):
    with pytest.raises(ValueError, match=message) as error:
        sweep.run_many(probe.run, [probe.Config()], cache=thing, store=folder / "store")
    assert str(error.value).startswith("cache=")
    assert str(error.value).endswith(
        "write it as a class or function with a name in a module, script or cell"
    )
    assert not (folder / "log").exists() and not (folder / "store").exists()


def test_a_run_without_that_keyword_says_so_before_anything_starts(probe, folder):
    with pytest.raises(TypeError, match="plain takes no cache, model; besides the config it takes"):
        sweep.run_many(
            probe.plain, [probe.Config()], cache=Rule, model=a_stream, store=folder / "store"
        )
    assert not (folder / "store").exists()


def test_own_rules_in_sweeps_of_training(tmp_path):
    from sflkit.sfl import training
    from sflkit.sfl.config import SFLConfig

    configs = [
        SFLConfig(
            data="digits", model="linear", n_clients=3, n_states=4, capacity=20, batch_size=10,
            rounds=3, test_size=60, seed=seed,
        )
        for seed in range(2)
    ]  # fmt: skip
    given = {"cache": OwnFIFO, "server": OwnServer, "model": own_network, "stream": own_stream}
    for count in (2, 0):
        frame = sweep.run_many(training.run, configs, **given, store=tmp_path)
        assert frame.attrs["computed"] == count
        assert {name: set(frame[name]) for name in given} == {
            name: {thing.__name__} for name, thing in given.items()
        }
    # FIFO by another name, and the default server, answer like the built-in ones
    built_in = [SFLConfig(**{**vars(config), "rule": "fifo"}) for config in configs]
    own = sweep.run_many(training.run, built_in, cache=OwnFIFO, store=tmp_path)
    theirs = sweep.run_many(training.run, built_in, store=tmp_path)
    assert own.drop(columns=["key", "cache"]).equals(theirs.drop(columns="key"))
    assert set(own["key"]).isdisjoint(theirs["key"])


def test_shares_are_told_apart_by_their_values_in_a_sweep(tmp_path):
    from sflkit.sfl import SFLConfig, run

    config = SFLConfig(train=False, n_clients=2, n_classes=3, rounds=2, capacity=4, batch_size=2)
    shares = np.full((2, 2, 3), 1 / 3)
    other = np.eye(3)[[[0, 1], [0, 1]]]
    for given, computed in ((shares, 1), (shares.copy(), 0), (other, 1)):
        frame = sweep.run_many(run, [config], stream=given, store=tmp_path)
        assert frame.attrs["computed"] == computed and set(frame["stream"]) == {"array"}
    with pytest.raises(ValueError, match=r"data=.* pass Dataset.of\(x, y\)"):
        sweep.run_many(run, [config], data=(np.zeros((9, 2)), np.zeros(9)), store=tmp_path)


def test_own_data_in_sweeps_are_known_by_their_digest(tmp_path):
    from sflkit.data import Dataset
    from sflkit.sfl import SFLConfig, run

    rng = np.random.default_rng(0)
    y = rng.integers(0, 4, 200)
    x = rng.normal(size=(200, 3)) + y[:, None]
    config = SFLConfig(
        model="linear", n_clients=2, capacity=20, batch_size=10, rounds=2, local_rate=0.01
    )
    keys = set()
    for made, count in ((Dataset.of(x, y), 1), (Dataset.of(x, y), 0), (Dataset.of(2 * x, y), 1)):
        frame = sweep.run_many(run, [config], data=made, store=tmp_path)
        assert frame.attrs["computed"] == count
        keys |= set(frame["key"])
    assert len(keys) == 2
    with pytest.raises(ValueError, match=r"y begins with class 1; classes must be 0, 1, \.\.\."):
        Dataset.of(x, y + 1)


class OwnFIFO(caches.FIFO):
    """The oldest samples leave, under another name."""


class OwnServer(FedAvg):
    def __call__(self, params, updates, weights=None, work=None):
        return params + updates.mean(dim=0)


def own_network(input_shape, n_classes):
    import math

    from torch import nn

    return nn.Sequential(nn.Flatten(), nn.Linear(math.prod(input_shape), n_classes))


def own_stream(config, n_classes):
    import numpy as np

    from sflkit.sfl import streams

    return streams.kl_markov_stream(
        n_clients=config.n_clients,
        n_classes=n_classes,
        classes_per_client=3,
        n_states=4,
        temperature=0.5,
        rng=np.random.default_rng(config.seed),
    )


def test_a_rule_added_to_a_registry_is_keyed_by_its_source(tmp_path, monkeypatch):
    """A config names such a rule; before, only that name was in the key."""
    from sflkit.sfl import training
    from sflkit.sfl.config import SFLConfig

    monkeypatch.syspath_prepend(tmp_path)
    code = "from sflkit.sfl.caches import FIFO\n\n\nclass Newest(FIFO):\n    version = {}\n"
    keys = []
    for version in (1, 2):
        (tmp_path / f"newest{version}.py").write_text(code.format(version))
        module = importlib.import_module(f"newest{version}")
        monkeypatch.setattr(caches.RULES, "_rules", dict(caches.RULES))
        caches.RULES.add("newest", registry.Rule(module.Newest, "Newest"))
        config = SFLConfig(rule="newest", train=False, rounds=2, n_clients=3)
        keys.append(result_key(training.run, config))
        sources = describe(training.run, config)["sources"]
        assert sources["rule"]["name"] == "Newest"
        monkeypatch.undo()
        monkeypatch.syspath_prepend(tmp_path)
    assert keys[0] != keys[1]
    assert "sources" not in describe(training.run, SFLConfig(train=False))
