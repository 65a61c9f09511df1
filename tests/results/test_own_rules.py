"""A user's own rules and runs in sweeps: found again while their source stands, computed anew when
it changed, whatever the back end and the moment of a kill -9.
"""

from __future__ import annotations

import functools
import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import numpy as np
import pytest

from sflkit import paths
from sflkit.federated import FedAvg
from sflkit.runs import identity, sweep
from sflkit.runs.keys import result_key
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
from sflkit.runs import sweep

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
        with paths.Lock(lock, wait=True):
            pass
    (folder / "hold").unlink()
    assert study(folder, backend) == "2 2"
    assert seeds(folder, "end") == [0, 1, 2, 3]
    assert study(folder, backend) == "0 2"
    assert seeds(folder, "end") == [0, 1, 2, 3]
    change(folder, "return int(self.capacity * self.share)", "return self.capacity")
    assert study(folder, backend) == "4 4"


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
    assert record["sources"]["cache"] == identity.identity("cache", Rule)
    assert record["sources"]["cache"]["name"] == "Rule" and record["config"] == {"seed": 1}
    assert frame.attrs["sources"] == record["sources"]
    others = [{"cache": OtherRule}, {"server": Rule}, {"cache": Rule, "server": Rule}, {}]
    keys = {result_key(probe.run, config, given) for given in others}
    assert len(keys | {key}) == 5


@pytest.mark.slow
def test_two_scripts_that_each_define_run_do_not_share_results(tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(Path(sweep.__file__).parents[2]))
    script = """
        from dataclasses import dataclass
        import pandas as pd
        from sflkit.runs import sweep
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


class Rule:
    def __init__(self, capacity, batch_size):
        pass

    def held(self):
        return 7


class OtherRule(Rule):
    pass


def a_stream(config, n_classes):
    return config.seed + n_classes


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
