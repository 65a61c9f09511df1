"""Many runs, each computed once: in parallel, cached, resumable.

A run is a module-level function `run(config) -> pandas.DataFrame` in a module that has an
`EXPERIMENT`, the name under which its results are kept, and a `RESULT_VERSION`; a config is a
frozen dataclass with a `seed`. Every answer is read back from its result file
(`sflkit.results.store`), so a run that was just computed and one found in the store agree to the
last bit, whatever the number of jobs and the joblib back end. The back end is the caller's, threads
by default:

    with joblib.parallel_config(backend="loky"):    # processes; or "dask" with a Client of dask
        frame = sweep.run_many(training.run, configs, jobs=2)

Workers in other processes or on other machines must see the same `store` folder. Each run holds a
lock of its own that dies with its process: two sweeps over the same configs share the work, and
after a kill -9 the same call computes only what is missing.

**Rules of your own.** `run_many(run, configs, cache=MyRule)` hands the class `MyRule` to every run
as `run(config, cache=MyRule)`, and likewise `server`, `model`, `stream` and `data`, where `run`
takes them.
Its results are kept under the name and the source of `MyRule`: the same call finds them again, and
a change of the source computes them anew. The same holds for a `run` function of your own.
`sflkit.results.sources` says what counts as source and what is not seen.
"""

from __future__ import annotations

import contextlib
import inspect
import os
import sys
import warnings
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from concurrent.futures import BrokenExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import joblib
import pandas as pd

from sflkit import checks, machine, paths
from sflkit.results import archive
from sflkit.results.attempts import Item, Task, die_with_parent, execute
from sflkit.results.store import (
    canonical,
    config_dict,
    describe,
    experiment_name,
    is_complete,
    is_running,
    look,
    own_code,
    read_result,
)

_LOST = (
    "a worker process ended before this run did (killed, or out of memory?); the same call "
    "computes what is missing, with fewer jobs if memory was short"
)
_SAID = 5  # damaged results that a warning names


class DamagedResult(UserWarning):
    """A result file was damaged or changed; its numbers are not used."""


class SweepError(RuntimeError):
    """Some runs of a sweep failed.

    `failures` holds the config and the traceback of each; every other run is in the store.
    """

    def __init__(self, failures: Sequence[tuple[Any, str]]):
        self.failures = list(failures)
        alike: dict[str, list] = {}
        for config, trace in self.failures:
            alike.setdefault(trace.strip().splitlines()[-1], []).append(config)
        lines = [
            f"  {first!r}: {why}" + (f"\n  and {len(rest)} more likewise" if rest else "")
            for why, (first, *rest) in alike.items()
        ]
        super().__init__(
            f"{len(self.failures)} of the runs failed, the others are stored:\n"
            + "\n".join(lines)
            + "\nThe first failure in full:\n"
            + self.failures[0][1]
        )

    def __reduce__(self):
        return SweepError, (self.failures,)  # an exception is rebuilt from its message otherwise


class MissingResult(RuntimeError):
    """A published result that a figure stands on is missing or damaged."""


@dataclass(frozen=True)
class Complete(os.PathLike):
    """A folder of published results that holds all that is asked for: nothing may be computed.

    Parameters
    ----------
    folder : path
    maker : str
        The command that computes what it lacks.
    """

    folder: Path
    maker: str

    def __fspath__(self) -> str:
        return str(self.folder)

    def refuse(self, keys: Collection[str]) -> None:
        """Raise MissingResult that names the results in `keys`, with the way out."""
        wrong = [look(key, self.folder).wrong for key in keys]
        said = [f"  {key}: {why or 'missing'}" for key, why in zip(keys, wrong, strict=True)]
        rest = [f"  and {len(said) - _SAID} more"] if len(said) > _SAID else []
        raise MissingResult(
            f"{self.folder} lacks {len(said)} of the published results behind this notebook:\n"
            + "\n".join([*said[:_SAID], *rest])
            + f"\n`git checkout -- {self.folder}` brings back what was published, `{self.maker}` "
            "computes it"
        )


def run_many(
    run: Callable[..., pd.DataFrame],
    configs: Iterable[Any],
    *,
    cache: type | Callable | None = None,
    server: type | Callable | None = None,
    model: type | Callable | None = None,
    stream: Any = None,
    data: Any = None,
    store: Path | str | None = None,
    published: os.PathLike | str | Sequence[os.PathLike | str] | None = None,
    jobs: int | None = None,
    progress: bool | None = None,
    description: str = "",
) -> pd.DataFrame:
    """Return the results of `run` for all `configs`, computing only those that no folder holds yet.

    Parameters
    ----------
    run : function
        At the top level of a module that has `EXPERIMENT` and `RESULT_VERSION`; config -> DataFrame
        of numbers, booleans and strings. `frame.attrs["data"]` (a dict, such as name, digest and
        size of the data set) and `frame.attrs["device"]` go into the record.
    configs : frozen dataclasses with a `seed`
        One that occurs twice runs once.
    cache, server, model, stream : class or function, or an array of shares as stream; optional
        Your own; what is given is passed to `run` as keyword. `run` says what it makes of a class
        and of a function; a stream may be an array of shares. Name and source are part of the
        results' keys, and the frame has the name in the column of the keyword.
    data : sflkit.data.Dataset, optional
        Your own data, such as `Dataset.of(x, y)`; its digest is part of the keys.
    store : path, optional
        Folder of the results; default `paths.results_store()`.
    published : path or paths, optional
        Tracked results, which are looked in before running and never written to. They count where
        `store` holds a result of the same key. `Complete(folder, maker)` computes nothing.
    jobs : int, optional
        Parallel runs; default what the surrounding `joblib.parallel_config` says, else 1. Each gets
        its share of SFLKIT_THREADS or, where that is not set, of the cores.
    progress : bool, optional
        Whether to show a bar; default: on a terminal or in JupyterLab, never where SFLKIT_BATCH is
        set.
    description : str
        What the bar is called; default the experiment's name.

    Returns
    -------
    DataFrame
        The rows of every config, in the order of `configs`; config fields as columns (compound ones
        as JSON) and `key`. `attrs`: keys, data (distinct records of the data sets), sources (name
        and digest of a user's own code), computed (by this call) and reused
        (numbers of runs).

    Raises
    ------
    TypeError, ValueError
        If `run`, a config or what is given is not as described, or `run` has no such keyword.
        Nothing has run then.
    SweepError
        If runs failed; the others are finished first.
    MissingResult
        If `published` is `Complete` and lacks one of the results, or has it damaged.

    Warns
    -----
    DamagedResult
        Of results in one of the folders that are incomplete or altered: which file, what is wrong,
        and what happens now.
    """
    configs = list(checks.instance("configs", configs, Iterable))
    jobs = _checked_jobs(jobs)
    progress = None if progress is None else checks.flag("progress", progress)
    if not configs:
        raise ValueError("configs=[] must hold at least one config")
    given = {"cache": cache, "server": server, "model": model, "stream": stream, "data": data}
    given = {name: thing for name, thing in given.items() if thing is not None}
    store = paths.results_store() if store is None else Path(store).expanduser()
    store = Path(os.path.realpath(store))
    folders = [*_folders(published), store]  # a stale result of one's own must not win
    experiment = experiment_name(run)  # is it a run function at all?
    code = own_code(run, given)
    heads = [describe(run, config, code) for config in configs]
    _check_keywords(run, given)
    missing = {
        head["key"]: (config, head)
        for config, head in zip(configs, heads, strict=True)
        if not any(is_complete(head["key"], folder) for folder in folders)
    }
    if isinstance(published, Complete):
        keys = dict.fromkeys(head["key"] for head in heads)
        if lost := [key for key in keys if not is_complete(key, published.folder)]:
            published.refuse(lost)
    _say_damage(dict.fromkeys(head["key"] for head in heads), missing, folders)
    computed = 0
    if missing:
        task = Task(run, given, store, machine.cores(), os.getpid())
        computed = _compute(task, missing, jobs, progress, description or experiment)
    frame = _assemble(configs, heads, folders, computed)
    for name in given:
        frame[name] = code[name]["name"]
    return frame


def _say_damage(keys: Iterable[str], missing: Collection[str], folders: list[Path]) -> None:
    """Warn of damaged results: which file, what is wrong with it, and what happens now.

    The last of the folders is the one that is written to.
    """
    said = []
    for key in keys:
        for folder in folders:
            found = look(key, folder)
            wrong = found.wrong
            if not wrong and key in missing and found.record is not None:
                wrong = "the numbers have other columns or rows than the record says"
            if not wrong or is_running(key, folder):  # half-written just now
                continue
            now = "it is not used: another folder has this result whole"
            if key in missing:
                seconds = (found.record or {}).get("seconds")
                cost = f" in about {seconds:g} s" if isinstance(seconds, int | float) else ""
                now = f"it is computed anew{cost}, into {folders[-1]}"
            files = [
                file for file in archive.files_of(key.partition("/")[0], folder) if file.exists()
            ]
            if folder != folders[-1]:
                way = " ".join(map(str, files)) or f"{folder / key}.*"
                now += f"; it was published, and may come back by: git checkout -- {way}"
            where = f"{folder / key}.csv and .json"
            if files:
                where = f"{key} in {' and '.join(map(str, files))}"
            said.append(f"{where}: {wrong}; {now}")
    if said:
        rest = f"\n... and {len(said) - _SAID} more" if len(said) > _SAID else ""
        warnings.warn(
            "damaged results:\n" + "\n".join(said[:_SAID]) + rest, DamagedResult, stacklevel=3
        )


def _check_keywords(run: Callable, given: dict[str, Any]) -> None:
    """Raise TypeError unless `run` takes what is given."""
    takes = inspect.signature(run).parameters
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in takes.values()):
        return
    if unknown := [name for name in given if name not in takes]:
        raise TypeError(
            f"{run.__module__}.{run.__qualname__} takes no {', '.join(unknown)}; "
            f"besides the config it takes {', '.join(list(takes)[1:]) or 'nothing'}"
        )


def _assemble(configs: list, heads: list[dict], folders: list[Path], computed: int) -> pd.DataFrame:
    """Return the frame of a sweep whose results are all in one of the folders."""
    results = {key: _find(folders, key) for key in dict.fromkeys(head["key"] for head in heads)}
    frames = [
        _with_config(results[head["key"]][0], config, head["key"])
        for head, config in zip(heads, configs, strict=True)
    ]
    records = [record for _, record in results.values()]
    data = {canonical(r["data"]): r["data"] for r in records if r.get("data")}
    frame = pd.concat(frames, ignore_index=True)
    frame.attrs = {
        "keys": list(results),
        "data": [data[text] for text in sorted(data)],
        "sources": heads[0].get("sources", {}),
        "computed": computed,
        "reused": len(results) - computed,
    }
    return frame


def _compute(
    task: Task,
    missing: dict[str, Item],
    jobs: int | None,
    progress: bool | None,
    description: str,
) -> int:
    """Compute what is missing, here or in workers; return how many runs were computed and not found
    since. SweepError is raised when all have ended.
    """
    from tqdm import tqdm

    paths.check_writable(task.store)
    workers = joblib.effective_n_jobs(jobs)
    task = task._replace(threads=max(1, task.threads // min(workers, len(missing))))
    pending = missing
    failures = {}
    computed = 0
    with (
        _own_threads(),
        tqdm(total=len(missing), desc=description, disable=not _show(progress), unit="run") as bar,
    ):
        # First what no other process is computing; then wait for the others, and compute what they
        # did not finish.
        for wait in (False, True):
            busy = {}
            calls = [joblib.delayed(execute)(task, item, wait) for item in pending.values()]
            try:
                for key, state, why in _parallel(jobs)(calls):
                    if state == "busy":
                        busy[key] = missing[key]
                        continue
                    if state in ("failed", "unwritable"):
                        failures[key] = why
                    computed += state == "computed"
                    bar.update()
            except _lost_workers() as error:
                failures |= {
                    key: _LOST
                    for key in missing
                    if key not in failures and not is_complete(key, task.store)
                }
                raise _failed(missing, failures) from error
            if not busy:
                break
            pending = busy
    if failures:
        raise _failed(missing, failures)
    return computed


def _failed(missing: dict[str, Item], failures: dict[str, str]) -> SweepError:
    """Return the error that names the runs which failed, in the order of the configs."""
    return SweepError(
        [(config, failures[key]) for key, (config, _) in missing.items() if key in failures]
    )


def _lost_workers() -> tuple[type[Exception], ...]:
    """Return the errors by which joblib's back ends say that a worker process was killed."""
    distributed = sys.modules.get("distributed")
    killed = getattr(distributed, "KilledWorker", None)
    return (BrokenExecutor,) if killed is None else (BrokenExecutor, killed)


def _checked_jobs(jobs: int | None) -> int | None:
    if jobs is None:
        return None
    backend = type(joblib.parallel.get_active_backend()[0]).__name__
    if backend == "DaskDistributedBackend":  # its workers are not on this machine's cores
        return checks.integer("jobs", jobs, 1)
    return checks.workers("jobs", jobs)


@contextlib.contextmanager
def _own_threads() -> Iterator[None]:
    """Put SFLKIT_THREADS back in the end; workers that are threads set this process's own."""
    before = os.environ.get(machine.THREADS_VARIABLE)
    try:
        yield
    finally:
        os.environ.pop(machine.THREADS_VARIABLE, None)
        if before is not None:
            os.environ[machine.THREADS_VARIABLE] = before


def _parallel(jobs: int | None) -> joblib.Parallel:
    # Where the caller names no back end: threads. Training leaves the interpreter's lock, and
    # processes would load torch anew.
    options = {"n_jobs": jobs, "prefer": "threads", "batch_size": 1}
    if type(joblib.parallel.get_active_backend()[0]).__name__ == "LokyBackend":
        # From their first moment on: without a task they would wait five minutes for one.
        options |= {"initializer": die_with_parent, "initargs": (os.getpid(),)}
    try:
        return joblib.Parallel(**options, return_as="generator_unordered")
    except ValueError:  # a back end that cannot hand results over as they come
        return joblib.Parallel(**options)


def _show(progress: bool | None) -> bool:
    if progress is not None:
        return progress
    # A Jupyter server names the notebook for its kernels; papermill and nbval do not, so their
    # outputs stay free of bars.
    return "SFLKIT_BATCH" not in os.environ and (
        sys.stderr.isatty() or "JPY_SESSION_NAME" in os.environ
    )


def _find(folders: Sequence[Path], key: str) -> tuple[pd.DataFrame, dict]:
    for folder in folders:
        result = read_result(key, folder)
        if result is not None:
            return result
    raise RuntimeError(
        f"result {key} was computed and is not in {folders[-1]}: was something deleted there, or "
        "do not all workers see this folder? Called again, the sweep computes what is missing"
    )


def _with_config(frame: pd.DataFrame, config: Any, key: str) -> pd.DataFrame:
    frame = frame.copy(deep=False)
    for position, (name, value) in enumerate([*config_dict(config).items(), ("key", key)]):
        if isinstance(value, list | dict):
            value = canonical(value)
        if name in frame and not (frame[name] == value).all():
            raise ValueError(
                f"column {name!r} of the result of {config!r} must equal the config's field of "
                "that name"
            )
        column = frame.pop(name) if name in frame else value
        frame.insert(position, name, column)
    return frame


def _folders(published: os.PathLike | str | Sequence[os.PathLike | str] | None) -> list[Path]:
    if published is None:
        return []
    return [
        Path(p) for p in ([published] if isinstance(published, str | os.PathLike) else published)
    ]
