"""Sweeps: each run once, whatever the back end and the number of processes."""

import contextlib
import dataclasses
import json
import lzma
import os
import re
import subprocess
import sys
import textwrap
import threading
import time
import warnings
from pathlib import Path

import joblib
import numpy as np
import pandas as pd
import psutil
import pytest

from companion.shelf import publish
from sflkit import paths
from sflkit.runs import archive, sweep, workers
from sflkit.runs.keys import describe, result_key
from sflkit.runs.store import look, read_result, write_result

pytestmark = pytest.mark.usefixtures("committed")

# A run that logs when it starts and ends, waits while the file `hold` exists (seeds >= 3), fails on
# request, and answers with the threads it was given. It lies in a module of its own because worker
# processes must be able to import it.
PROBE = """
import os, time
from dataclasses import dataclass
from pathlib import Path
import numpy as np, pandas as pd
EXPERIMENT = "sweep-probe"
RESULT_VERSION = 1

@dataclass(frozen=True)
class Config:
    folder: str
    seed: int = 0
    rate: float = 0.1
    fail: bool = False

def log(config, word):
    with open(Path(config.folder) / "log", "a") as file:
        file.write(f"{word} {config.seed}\\n")

def run(config):
    log(config, "start")
    while config.seed >= 3 and (Path(config.folder) / "hold").exists():
        time.sleep(0.01)
    if config.fail:
        raise ArithmeticError(f"seed {config.seed} diverged")
    x = np.random.default_rng(config.seed).random(4) * config.rate
    frame = pd.DataFrame({"round": np.arange(1, 5), "x": x, "n": [1, 2, 3, 4],
                          "whole": np.ones(4), "gap": np.ones(4),
                          "ok": x > 0.05, "code": "01", "name": ["a", "", "nan", 'b,"c"'],
                          "threads": int(os.environ["SFLKIT_THREADS"]), "pid": os.getpid()})
    frame.loc[1, "gap"] = np.nan
    frame.attrs["data"] = {"name": "probe", "digest": "abc", "size": 4}
    log(config, "end")
    return frame

def answer(config):
    return ANSWER
"""

SWEEP = """
    import sys
    import joblib
    from sflkit.runs import sweep
    import sweep_probe as probe
    if __name__ == "__main__":
        folder, backend = sys.argv[1:]
        with joblib.parallel_config(backend=backend):
            configs = [probe.Config(folder, seed) for seed in range(6)]
            sweep.run_many(probe.run, configs, store=folder + "/store", jobs=2)
"""


@pytest.fixture
def probe(tmp_path, monkeypatch):
    code = tmp_path / "code"
    code.mkdir()
    (code / "sweep_probe.py").write_text(PROBE)
    (code / "run_sweep.py").write_text(textwrap.dedent(SWEEP))
    monkeypatch.syspath_prepend(str(code))
    monkeypatch.setenv(
        "PYTHONPATH", os.pathsep.join([str(code), str(Path(sweep.__file__).parents[2])])
    )
    monkeypatch.setenv("SFLKIT_THREADS", "4")
    sys.modules.pop("sweep_probe", None)
    import sweep_probe

    yield sweep_probe
    sys.modules.pop("sweep_probe", None)


def configs(probe, folder, seeds=range(4), **fields):
    return [probe.Config(str(folder), seed, **fields) for seed in seeds]


def lines(folder, word):
    return sorted(
        int(line.split()[1])
        for line in (folder / "log").read_text().splitlines()
        if line.startswith(word)
    )


def test_runs_once_and_keeps_order_types_and_config(probe, tmp_path):
    wanted = configs(
        probe, tmp_path, [2, 0, 2, 1]
    )  # seed 2 is asked for twice: it runs once and appears twice
    first = sweep.run_many(probe.run, wanted, store=tmp_path / "store")
    assert lines(tmp_path, "end") == [0, 1, 2]
    assert first["seed"].tolist() == [2] * 4 + [0] * 4 + [2] * 4 + [1] * 4
    assert first.attrs["computed"] == 3 and first.attrs["reused"] == 0
    assert first.attrs["data"] == [{"name": "probe", "digest": "abc", "size": 4}]
    fields = "folder seed rate fail key round x n whole gap ok code name threads pid"
    assert list(first.columns) == fields.split()
    # 1.0 must stay a float though the file says 1, a gap a gap, and "01", "" and "nan" strings
    kinds = (first[c].dtype.kind for c in ("round", "x", "n", "whole", "gap", "ok"))
    assert "".join(kinds) == "ififfb"
    assert first["gap"].isna().sum() == 4 and set(first["code"]) == {"01"}
    assert first["name"][:4].tolist() == ["a", "", "nan", 'b,"c"']
    exact = np.random.default_rng(2).random(4) * 0.1
    np.testing.assert_allclose(first["x"][:4], exact, rtol=5e-7)  # 7 significant digits
    again = sweep.run_many(probe.run, wanted, store=tmp_path / "store")
    pd.testing.assert_frame_equal(first, again, check_exact=True)
    assert again.attrs["computed"] == 0
    assert again.attrs["reused"] == 3
    assert lines(tmp_path, "end") == [0, 1, 2]


def test_sweeps_beside_each_other_count_what_they_computed(probe, tmp_path):
    (tmp_path / "hold").touch()
    wanted, answers = configs(probe, tmp_path, range(3, 7)), []
    sweeps = [
        threading.Thread(
            target=lambda: answers.append(
                sweep.run_many(probe.run, wanted, store=tmp_path / "store").attrs
            )
        )
        for _ in range(3)
    ]
    for one in sweeps:
        one.start()
    time.sleep(0.3)  # all have seen that nothing is there
    (tmp_path / "hold").unlink()
    for one in sweeps:
        one.join()
    assert sum(attrs["computed"] for attrs in answers) == 4 == len(lines(tmp_path, "end"))
    assert all(attrs["computed"] + attrs["reused"] == 4 for attrs in answers)


def test_record_and_key(probe, tmp_path):
    config = probe.Config(str(tmp_path), 1)
    sweep.run_many(probe.run, [config], store=tmp_path / "store")
    key = result_key(probe.run, config)
    frame, record = read_result(key, tmp_path / "store")
    assert re.fullmatch("sweep-probe/[0-9a-f]{16}", key)
    assert record["experiment"] == "sweep-probe" and record["config"] == dataclasses.asdict(config)
    assert record["rows"] == len(frame) == 4
    assert record["data"]["digest"] == "abc"
    assert record["threads"] == 4
    assert record["versions"]["numpy"] == np.__version__
    assert record["seconds"] >= 0
    assert record["device"].startswith(("cpu", "cuda"))


@pytest.mark.parametrize(
    ("name", "error", "message"),
    [
        (None, TypeError, "module sweep_probe must have EXPERIMENT"),
        (7, ValueError, "EXPERIMENT=7 must be made of lower-case"),
        ("../out", ValueError, "EXPERIMENT='../out' must be made of"),
        ("", ValueError, "EXPERIMENT='' must be made of"),
    ],
)
def test_an_experiment_names_itself(probe, tmp_path, name, error, message):
    probe.EXPERIMENT = name
    with pytest.raises(error, match=message):
        sweep.run_many(probe.run, configs(probe, tmp_path), store=tmp_path / "store")


def test_damaged_result_is_named_and_redone(probe, tmp_path):
    store, config = tmp_path / "store", probe.Config(str(tmp_path), 1)
    good = sweep.run_many(probe.run, [config], store=store)
    key = result_key(probe.run, config)
    csv = store / f"{key}.csv"
    csv.write_bytes(csv.read_bytes().replace(b"1", b"2", 1))
    assert read_result(key, store) is None
    with pytest.warns(sweep.DamagedResult) as said:
        again = sweep.run_many(probe.run, [config], store=store)
    wrong = "the numbers differ from the record's digest; it is computed anew"
    assert f"{store / key}: {wrong}" in str(said[0].message)
    assert said[0].filename == __file__
    pd.testing.assert_frame_equal(good, again, check_exact=True)
    assert lines(tmp_path, "end") == [1, 1]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        sweep.run_many(probe.run, [config], store=store)


def test_any_change_of_a_record_with_a_digest_is_seen(probe, tmp_path):
    store, config = tmp_path / "store", probe.Config(str(tmp_path), 1)
    sweep.run_many(probe.run, [config], store=store)
    key = result_key(probe.run, config)
    file = store / f"{key}.json"
    record = json.loads(file.read_text())
    versions = {"versions": record["versions"] | {"numpy": "1.0"}}
    for change in ({"seconds": record["seconds"] + 1}, {"machine": "other"}, versions):
        file.write_text(json.dumps(record | change))
        assert look(key, store).wrong == "the record differs from its own digest"
    del record["record_sha256"]
    file.write_text(json.dumps(record))
    assert look(key, store).wrong == "the record lacks record_sha256"


def test_a_damaged_published_result_is_named_with_what_happens_now(probe, tmp_path):
    store, public = tmp_path / "store", tmp_path / "public"
    config = probe.Config(str(tmp_path), 1)
    sweep.run_many(probe.run, [config], store=store)
    key = result_key(probe.run, config)
    publish([key], store, public)
    rows, _ = archive.files_of("sweep-probe", public)
    text = lzma.decompress(rows.read_bytes())
    rows.write_bytes(lzma.compress(text[:-1].replace(b"0.", b"1.", 1) + b"\n"))  # one digit
    with pytest.warns(sweep.DamagedResult, match=f"{public / key}: .*another folder has it whole"):
        sweep.run_many(probe.run, [config], store=store, published=public)
    assert lines(tmp_path, "end") == [1]
    with pytest.warns(sweep.DamagedResult, match="it is computed anew"):
        sweep.run_many(probe.run, [config], store=tmp_path / "new", published=public)
    assert lines(tmp_path, "end") == [1, 1]


def test_a_killed_worker_is_said_in_a_sentence(probe, tmp_path):
    # joblib's own error spoke of an executor and a segmentation fault, and named no run
    (tmp_path / "hold").touch()

    def kill():
        try:
            wait_for(lambda: (tmp_path / "log").exists() and 3 in lines(tmp_path, "start"), 120.0)
            for child in psutil.Process().children(recursive=True):
                if "LokyProcess" in " ".join(child.cmdline()):
                    child.kill()
        finally:
            (tmp_path / "hold").unlink()

    killer = threading.Thread(target=kill)
    killer.start()
    wanted = [probe.Config(str(tmp_path), seed) for seed in (3, 4)]
    with (
        joblib.parallel_config(backend="loky"),
        pytest.raises(workers.SweepError, match=r"seed=3.*a worker process ended before"),
    ):
        sweep.run_many(probe.run, wanted, store=tmp_path / "store", jobs=2)
    killer.join()
    assert sweep.run_many(probe.run, wanted, store=tmp_path / "store").attrs["computed"] == 2


def test_failing_run_lets_the_others_finish(probe, tmp_path):
    wanted = [probe.Config(str(tmp_path), seed, fail=seed in (0, 2)) for seed in range(4)]
    message = r"(?s)2 of the runs failed.*seed=0.*seed 0 diverged.*seed=2.*seed 2 diverged"
    with pytest.raises(workers.SweepError, match=message) as error:
        sweep.run_many(probe.run, wanted, store=tmp_path / "store")
    assert [config.seed for config, _ in error.value.failures] == [0, 2]
    assert lines(tmp_path, "end") == [1, 3]
    assert len(list((tmp_path / "store").rglob("*.json"))) == 2


@pytest.mark.parametrize("backend", [None, "threading", "loky"])
def test_backends_give_the_same_numbers_and_share_threads(probe, tmp_path, backend):
    one = sweep.run_many(probe.run, configs(probe, tmp_path), store=tmp_path / "one")
    with joblib.parallel_config(backend=backend) if backend else contextlib.nullcontext():
        two = sweep.run_many(probe.run, configs(probe, tmp_path), store=tmp_path / "two", jobs=2)
    assert set(one["threads"]) == {4}
    assert set(two["threads"]) == {2}
    assert os.environ["SFLKIT_THREADS"] == "4"
    assert set(one["pid"]) == {os.getpid()}
    assert (os.getpid() in set(two["pid"])) == (backend != "loky")
    pd.testing.assert_frame_equal(
        one.drop(columns=["threads", "pid"]), two.drop(columns=["threads", "pid"]), check_exact=True
    )
    assert lines(tmp_path, "end") == [0, 0, 1, 1, 2, 2, 3, 3]


def wait_for(condition, seconds=20.0):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "timed out"
        time.sleep(0.02)


def test_two_processes_share_the_work(probe, tmp_path):
    (tmp_path / "hold").touch()
    command = [sys.executable, str(tmp_path / "code" / "run_sweep.py"), str(tmp_path), "threading"]
    processes = [subprocess.Popen(command) for _ in range(2)]
    wait_for(lambda: (tmp_path / "log").exists() and lines(tmp_path, "start") == list(range(6)))
    (tmp_path / "hold").unlink()
    assert [p.wait(timeout=30) for p in processes] == [0, 0]
    assert lines(tmp_path, "start") == lines(tmp_path, "end") == list(range(6))


def test_published_results_are_read_not_written(probe, tmp_path):
    wanted = configs(probe, tmp_path, range(3))
    first = sweep.run_many(probe.run, wanted, store=tmp_path / "store")
    written = publish(first.attrs["keys"][:2], tmp_path / "store", tmp_path / "tracked")
    assert written == sorted((tmp_path / "tracked").glob("*.xz")) and len(written) == 2
    again = sweep.run_many(
        probe.run, wanted, store=tmp_path / "fresh", published=tmp_path / "tracked"
    )
    pd.testing.assert_frame_equal(first, again, check_exact=True)
    assert again.attrs["computed"] == 1 and lines(tmp_path, "end") == [0, 1, 2, 2]
    assert len(list((tmp_path / "fresh").rglob("*.csv"))) == 1
    assert sorted((tmp_path / "tracked").glob("*.xz")) == written
    publish(
        first.attrs["keys"][:2], tmp_path / "elsewhere", tmp_path / "tracked"
    )  # already there: nothing to copy
    with pytest.raises(ValueError, match="key='0123' must name a complete result"):
        publish(["0123"], tmp_path / "store", tmp_path / "tracked")


def test_a_published_result_wins_over_a_stale_one_of_the_same_key(probe, tmp_path):
    (config,) = wanted = configs(probe, tmp_path, [0])
    store, public = tmp_path / "store", tmp_path / "tracked"
    right = sweep.run_many(probe.run, wanted, store=store)
    publish(right.attrs["keys"], store, public)
    key = result_key(probe.run, config)
    frame, _ = read_result(key, store)
    for file in (store / f"{key}.csv", store / f"{key}.json"):
        file.unlink()
    stale = frame.assign(**{frame.columns[-1]: frame[frame.columns[-1]] + 1})
    write_result(store, describe(probe.run, config), stale, threads=1, seconds=1.0)
    found = sweep.run_many(probe.run, wanted, store=store, published=public)
    pd.testing.assert_frame_equal(found, right, check_exact=True)
    own = sweep.run_many(probe.run, wanted, store=store)
    assert not own.equals(right)


def test_default_store_follows_the_environment(probe, tmp_path, monkeypatch):
    monkeypatch.setenv("SFLKIT_CACHE", str(tmp_path / "cache"))
    sweep.run_many(probe.run, configs(probe, tmp_path, [0]))
    assert len(list((tmp_path / "cache").rglob("*.json"))) == 1


def test_bad_input(probe, tmp_path, monkeypatch):
    @dataclasses.dataclass(frozen=True)
    class NoSeed:
        rate: float = 0.1

    @dataclasses.dataclass
    class Thawed:
        seed: int = 0

    store, good = tmp_path / "store", configs(probe, tmp_path, [0])
    for bad, message in [
        (Thawed(), "frozen dataclass"),
        (probe.Config, "must be an instance"),
        (NoSeed(), "seed=None must be an integer"),
        (probe.Config("x", -1), "seed=-1 must be an integer >= 0"),
        (probe.Config("x", rate=float("nan")), r"Config.rate=nan must be made of finite numbers"),
        (probe.Config(object()), "Config.folder=<object"),
    ]:
        with pytest.raises((TypeError, ValueError), match=message):
            sweep.run_many(probe.run, [*good, bad], store=store)
    with pytest.raises(TypeError, match="top level of a module"):
        sweep.run_many(lambda config: None, good, store=store)
    with pytest.raises(TypeError, match="module textwrap must have EXPERIMENT"):
        sweep.run_many(textwrap.dedent, good, store=store)
    monkeypatch.setenv("SFLKIT_THREADS", "many")
    with pytest.raises(ValueError, match="SFLKIT_THREADS='many' must be an integer >= 1"):
        sweep.run_many(probe.run, good, store=store)
    assert not (tmp_path / "log").exists()


@pytest.mark.parametrize(
    "answer, message",
    [
        (None, "returned NoneType"),
        (pd.DataFrame(), "DataFrame with rows"),
        (pd.DataFrame({"x": [[1]]}), "column 'x' of a result must hold numbers"),
        (pd.DataFrame({"x": ["a", None]}), "column 'x'"),
        (pd.DataFrame({1: [1]}), "distinct strings"),
        (pd.DataFrame({"": [1]}), "distinct strings, none empty"),
        (pd.DataFrame({"x": pd.to_datetime(["2020-01-01"])}), "column 'x'"),
        (
            pd.DataFrame({"x": pd.array([1, None], "Int64")}),
            "'x' of a result is Int64; .* be there",
        ),
        (pd.DataFrame({"x": pd.array([True, None], "boolean")}), "'x' of a result is boolean"),
        (pd.DataFrame({"x": np.array([2**63], np.uint64)}), "integers fit into 64 bits"),
    ],
)
def test_results_that_a_csv_cannot_hold_are_refused(probe, tmp_path, answer, message):
    probe.ANSWER = answer
    with pytest.raises(workers.SweepError, match=message):
        sweep.run_many(probe.answer, configs(probe, tmp_path, [0]), store=tmp_path / "store")


def test_clone_root_and_folders(tmp_path, monkeypatch):
    clone = tmp_path / "clone"
    (clone / "notebooks" / "deep").mkdir(parents=True)
    (clone / "pyproject.toml").write_text('[project]\nname = "sflkit"\n')
    assert paths.clone_root(clone / "notebooks" / "deep") == clone
    (tmp_path / "other" / "notebooks").mkdir(parents=True)
    (tmp_path / "other" / "pyproject.toml").write_text('[project]\nname = "sflkit-fork"\n')
    assert paths.clone_root(tmp_path / "other") != tmp_path / "other"
    monkeypatch.chdir(clone / "notebooks")
    for name in ("SFLKIT_CACHE", "SFLKIT_DATA", "SFLKIT_FIGURES", paths.PUBLISH):
        monkeypatch.delenv(name, raising=False)
    assert paths.drawn() == clone / "out" / "figures"
    monkeypatch.setenv(paths.PUBLISH, "1")
    assert paths.drawn() == clone / "figures"
    monkeypatch.setenv(paths.PUBLISH, "yes")
    assert paths.drawn() == clone / "out" / "figures"
    assert paths.figures() == clone / "figures"
    assert paths.results_store() == clone / "out" / "results"
    assert paths.published() == clone / "data" / "results"
    assert paths.data_folders() == [clone / "data"]
    monkeypatch.setenv("SFLKIT_DATA", str(tmp_path / "mine"))
    monkeypatch.setenv("SFLKIT_FIGURES", str(tmp_path / "drawn"))
    assert paths.data_folders() == [tmp_path / "mine", clone / "data"]
    assert paths.figures() == paths.drawn() == tmp_path / "drawn"


def test_an_unreadable_result_is_a_failure_and_frees_its_lock(probe, tmp_path, monkeypatch):
    def deny(key, folder):
        raise PermissionError(f"no access to {key}")

    configs = [probe.Config(str(tmp_path), 1)]
    with monkeypatch.context() as patch:
        patch.setattr(workers, "look", deny)
        with pytest.raises(workers.SweepError, match="no access"):
            sweep.run_many(probe.run, configs, store=tmp_path / "store")
    assert sweep.run_many(probe.run, configs, store=tmp_path / "store").attrs["computed"] == 1
