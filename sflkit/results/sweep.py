"""Many runs, each computed once: in parallel, cached, resumable.

A run is a module-level function `run(config) -> pandas.DataFrame` in a module that has an
`EXPERIMENT`, the name under which its results are kept, and a `RESULT_VERSION`; a config is a
frozen dataclass with a `seed`. Every answer is read back from its result file
(`sflkit.results.store`), so a run that was just computed and one found in the store agree to the
last bit, whatever the number of jobs and the joblib back end. The back end is the caller's, threads
by default:

    with joblib.parallel_config(backend="loky"):            # processes; or "dask" with a dask.distributed.Client
        frame = sweep.run_many(sfl.run, configs, jobs=2)    # the workers must see the same `store` folder

Each run holds a lock of its own that dies with its process: two sweeps over the same configs share
the work, and after a kill -9 the same call computes only what is missing.

A module may also offer `stack_key(config)` and `run_stacked(configs)` -> one `Outcome` per
config (`sflkit.sfl.training` does): missing configs of one key that is not None then run as one
batch of models, at most `stack` at a time. Every config keeps a result of its own, which is that of
`run` to rounding."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import sys
import threading
import time
import traceback
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import filelock
import joblib
import pandas as pd

from sflkit import checks, paths
from sflkit.results.store import (
    canonical,
    config_dict,
    describe,
    is_complete,
    read_result,
    write_result,
)

# Runs in one batch on a GPU, unless the caller says otherwise: 10 seeds of 5 rules. On a CPU each
# runs alone. There, ten runs of sfl with 10 clients, one thread, busy machine (seconds one by one
# over seconds in one batch, least and largest of three): linear model with 40 samples a client 1.7
# (1.1, 2.1), 100: 1.4 (1.2, 1.9), 300: 0.9 (0.9, 1.0); LeNet 1.0 (0.5, 1.1). That gain of tiny
# models is not worth numbers whose last digits depend on which other runs happened to be missing.
_STACK_ON_GPU = 50


class Outcome(NamedTuple):
    """What `run_stacked` answers for one config: its frame, or the error that ended its run.

    The other field is None.
    """

    frame: pd.DataFrame | None
    error: Exception | None


class SweepError(RuntimeError):
    """Some runs of a sweep failed; `failures` holds (config, traceback) of each, every other run is
    in the store.
    """

    def __init__(self, failures: Sequence[tuple]):
        self.failures = list(failures)
        lines = [
            f"  {config!r}: {trace.strip().splitlines()[-1]}" for config, trace in self.failures
        ]
        super().__init__(
            f"{len(lines)} of the runs failed, the others are stored:\n"
            + "\n".join(lines)
            + "\nThe first failure in full:\n"
            + self.failures[0][1]
        )


def run_many(
    run: Callable,
    configs: Iterable,
    *,
    store: Path | str | None = None,
    published: Path | str | Sequence | None = None,
    jobs: int | None = None,
    stack: int | None = None,
    progress: bool | None = None,
    description: str = "",
) -> pd.DataFrame:
    """Return the results of `run` for all `configs`, computing only those that no folder holds yet.

    Parameters
    ----------
    run : module-level function, config -> DataFrame of numbers, booleans and strings; its module has `EXPERIMENT` and
        `RESULT_VERSION`. `frame.attrs["data"]` (a dict, such as name, digest and size of the data
        set) and `attrs["device"]` go into the record.
    configs : frozen dataclasses with a `seed`; one that occurs twice runs once.
    store : folder of the results; default `paths.results_store()`.
    published : folder or folders of tracked results that are looked in before running, never written to.
    jobs : parallel runs; default what the surrounding `joblib.parallel_config` says, else 1. Each gets
        total/jobs threads through SFLKIT_THREADS, where total is SFLKIT_THREADS, else the number of
        cores.
    stack : most runs in one batch, 1 to 200, where the run's module offers batches; default 50 where this process sees a GPU,
        else 1 (each alone). Fewer where jobs would idle. A killed sweep loses the batches it was in
        the middle of; the record of a run says how many were `stacked`, on which its last digits
        depend.
    progress : show a bar; default: on a terminal or in JupyterLab, never where SFLKIT_BATCH is set.

    Returns
    -------
    DataFrame
        The rows of every config, in the order of `configs`; config fields as columns (compound ones
        as JSON) and `key`. `attrs`: keys, data (distinct records of the data sets), computed and
        reused (numbers of runs).

    Raises
    ------
    TypeError, ValueError
        If `run` or a config is not as described.
    SweepError
        If runs failed; the others are finished first.
    """
    configs = list(configs)
    if not configs:
        raise ValueError("configs=[] must hold at least one config")
    store = paths.results_store() if store is None else Path(store).expanduser().resolve()
    folders = [store, *_folders(published)]
    heads = [describe(run, config) for config in configs]
    keys = [head["key"] for head in heads]
    missing = {
        head["key"]: (config, head)
        for config, head in zip(configs, heads, strict=True)
        if not any(is_complete(head["key"], folder) for folder in folders)
    }
    if missing:
        _compute(run, missing, store, jobs, stack, progress, description or heads[0]["experiment"])
    results = {key: _find(folders, key) for key in dict.fromkeys(keys)}
    frames = [
        _with_config(results[key][0], config, key)
        for key, config in zip(keys, configs, strict=True)
    ]
    records = [record for _, record in results.values()]
    frame = pd.concat(frames, ignore_index=True)
    data = {json.dumps(r["data"], sort_keys=True): r["data"] for r in records if r.get("data")}
    frame.attrs = {
        "keys": list(results),
        "data": [data[k] for k in sorted(data)],
        "computed": len(missing),
        "reused": len(results) - len(missing),
    }
    return frame


def _compute(run, missing: dict, store: Path, jobs, stack, progress, description) -> None:
    from tqdm import tqdm

    if jobs is not None:
        elsewhere = (
            type(joblib.parallel.get_active_backend()[0]).__name__ == "DaskDistributedBackend"
        )
        jobs = checks.integer("jobs", jobs, 1) if elsewhere else checks.workers("jobs", jobs)
    if stack is not None:
        stack = checks.integer("stack", stack, 1, 200)  # each holds an open lock file
    before = os.environ.get("SFLKIT_THREADS")
    total = _integer("SFLKIT_THREADS", before) if before else joblib.cpu_count()
    store.mkdir(parents=True, exist_ok=True)
    workers = joblib.effective_n_jobs(jobs)
    batches = _batches(run, missing, stack, workers)
    threads = max(1, total // min(workers, len(batches)))
    failures = {}
    try:
        with tqdm(
            total=len(missing), desc=description, disable=not _show(progress), unit="run"
        ) as bar:
            # First what no other process is computing; then wait for the others, and compute what
            # they did not finish.
            for wait in (False, True):
                tasks = [
                    joblib.delayed(_execute)(run, batch, store, threads, os.getpid(), wait)
                    for batch in batches
                ]
                busy = {}
                for key, state, trace in (
                    answer for batch in _parallel(jobs)(tasks) for answer in batch
                ):
                    if state == "busy":
                        busy[key] = missing[key]
                        continue
                    if state == "failed":
                        failures[key] = trace
                    bar.update()
                if not busy:
                    break
                batches = _batches(run, busy, stack, workers)
    finally:  # workers that are threads set this process's environment
        os.environ.pop("SFLKIT_THREADS", None)
        if before is not None:
            os.environ["SFLKIT_THREADS"] = before
    if failures:
        raise SweepError(
            [(config, failures[key]) for key, (config, _) in missing.items() if key in failures]
        )


def _batches(run, pending: dict, stack: int | None, workers: int) -> list[list[tuple]]:
    """Split pending (config, head) into what one worker computes at a time: a single run, or one
    that `run_stacked` takes.
    """
    module = sys.modules[run.__module__]
    stackable = run.__name__ == "run" and hasattr(module, "run_stacked")
    groups: dict = {}
    for key, (config, head) in pending.items():
        same = module.stack_key(config) if stackable and stack != 1 else None
        groups.setdefault(("alone", key) if same is None else ("stacked", same), []).append(
            (config, head)
        )
    if stack is None:
        stack = (
            _STACK_ON_GPU if any(len(group) > 1 for group in groups.values()) and _has_gpu() else 1
        )
    sizes = {same: min(stack, -(-len(group) // workers)) for same, group in groups.items()}
    return [
        group[i : i + sizes[same]]
        for same, group in groups.items()
        for i in range(0, len(group), sizes[same])
    ]


def _has_gpu() -> bool:
    import torch

    return torch.cuda.is_available()


def _parallel(jobs) -> joblib.Parallel:
    # Where the caller names no back end: threads. Training leaves the interpreter's lock, and
    # processes would load torch anew.
    options = {"n_jobs": jobs, "prefer": "threads", "batch_size": 1}
    try:
        return joblib.Parallel(**options, return_as="generator_unordered")
    except ValueError:  # a back end that cannot hand results over as they come
        return joblib.Parallel(**options)


def _execute(
    run, batch: list[tuple], store: Path, threads: int, sweep_pid: int, wait: bool
) -> list[tuple[str, str, str]]:
    """Compute the results of a batch in a worker; answer (key, "done" | "busy" | "failed",
    traceback) of each.
    """
    if os.getppid() == sweep_pid:
        _die_with_parent(sweep_pid)
    os.environ["SFLKIT_THREADS"] = str(threads)
    answers, mine = [], []
    with contextlib.ExitStack() as locks:
        # Locks are taken in one order everywhere, so that no two workers ever wait for each other.
        for config, head in sorted(batch, key=lambda item: item[1]["key"]):
            try:
                lock = paths.lock(store / head["key"], wait=wait, folder=store / ".locks")
                lock.acquire()
                locks.callback(lock.release)
                if is_complete(head["key"], store):
                    answers.append((head["key"], "done", ""))
                else:
                    mine.append((config, head))
            except filelock.Timeout:
                answers.append((head["key"], "busy", ""))
            except Exception:
                answers.append((head["key"], "failed", traceback.format_exc()))
        for (_, head), (outcome, seconds, together) in zip(
            mine, _run_all(run, [config for config, _ in mine]), strict=True
        ):
            try:
                if outcome.error is not None:
                    raise outcome.error
                record = head | {"stacked": together} if together > 1 else head
                write_result(store, record, outcome.frame, threads=threads, seconds=seconds)
                answers.append((head["key"], "done", ""))
            except Exception:
                answers.append((head["key"], "failed", traceback.format_exc()))
    return answers


def _run_all(run, configs: list) -> Iterator[tuple[Outcome, float, int]]:
    """Yield of each config the result or the error, its seconds (in a batch: an equal share), and
    how many ran in its batch.
    """
    if len(configs) > 1:
        start = time.perf_counter()
        try:
            outcomes = list(sys.modules[run.__module__].run_stacked(configs))
            if len(outcomes) != len(configs):
                raise ValueError(
                    f"run_stacked gave {len(outcomes)} results for {len(configs)} configs"
                )
        except Exception as error:  # one may be at fault for all: alone, each answers for itself
            warnings.warn(
                f"a batch of {len(configs)} runs failed, each now runs alone: {error!r}",
                stacklevel=2,
            )
        else:
            seconds = (time.perf_counter() - start) / len(configs)
            yield from ((outcome, seconds, len(configs)) for outcome in outcomes)
            return
    for config in configs:
        start = time.perf_counter()
        try:
            outcome = Outcome(run(config), None)
        except Exception as error:
            outcome = Outcome(None, error)
        yield outcome, time.perf_counter() - start, 1


@functools.cache
def _die_with_parent(parent: int) -> None:
    """End this worker process when the sweep that started it was killed: an orphan would go on
    computing and hold its lock.
    """

    def watch():
        while os.getppid() == parent:
            time.sleep(0.5)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def _show(progress: bool | None) -> bool:
    if progress is not None:
        return progress
    # A Jupyter server names the notebook for its kernels; papermill and nbval do not, so their
    # outputs stay free of bars.
    return "SFLKIT_BATCH" not in os.environ and (
        sys.stderr.isatty() or "JPY_SESSION_NAME" in os.environ
    )


def _integer(name: str, text: str) -> int:
    try:
        value = int(text)
    except ValueError:
        value = text
    return checks.integer(name, value, 1)


def _find(folders: Sequence[Path], key: str) -> tuple[pd.DataFrame, dict]:
    for folder in folders:
        result = read_result(key, folder)
        if result is not None:
            return result
    raise RuntimeError(f"result {key} is not in {folders[0]}: do all workers see this folder?")


def _with_config(frame: pd.DataFrame, config, key: str) -> pd.DataFrame:
    frame = frame.copy(deep=False)
    for position, (name, value) in enumerate([*config_dict(config).items(), ("key", key)]):
        if isinstance(value, list | dict):
            value = canonical(value)
        if name in frame and not (frame[name] == value).all():
            raise ValueError(
                f"column {name!r} of the result of {config!r} must equal the config's field of that name"
            )
        column = frame.pop(name) if name in frame else value
        frame.insert(position, name, column)
    return frame


def _folders(published) -> list[Path]:
    if published is None:
        return []
    return [
        Path(p) for p in ([published] if isinstance(published, str | os.PathLike) else published)
    ]
