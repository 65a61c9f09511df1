"""Many runs, each computed once: in parallel, cached, resumable.

A run is a module-level function `run(config) -> pandas.DataFrame` in a module that has an
`EXPERIMENT`, the name under which its results are kept, and a `RESULT_VERSION`; a config is a
frozen dataclass with a `seed`. Every answer is read back from its result file
(`sflkit.runs.store`), so a run that was just computed and one found in the store agree to the
last bit, whatever the number of jobs and the joblib back end. The back end is the caller's, threads
by default:

    with joblib.parallel_config(backend="loky"):    # processes; or "dask" with a Client of dask
        frame = run_many(training.run, configs, jobs=2)

Workers in other processes or on other machines must see the same `store` folder. Each run holds a
lock of its own that dies with its process: two sweeps over the same configs share the work, and
after a kill -9 the same call computes only what is missing.
"""

from __future__ import annotations

import inspect
import os
import warnings
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from sflkit import checks, machine, paths
from sflkit.runs import origin
from sflkit.runs.identity import own_code
from sflkit.runs.keys import canonical, config_dict, describe, experiment_name
from sflkit.runs.store import OnDisk, is_running, look, parse
from sflkit.runs.workers import Task, checked_jobs, compute

_SAID = 5  # damaged results that a warning names


class DamagedResult(UserWarning):
    """A result file was damaged or changed; its numbers are not used."""


class EditedCode(UserWarning):
    """The code of this library is another than that which made results; they are not used."""


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

    def results(self, keys: Collection[str], edited: Collection[str]) -> dict[str, OnDisk]:
        """Return the results in `keys`; MissingResult names those that lack, with the way out."""
        found = {key: look(key, self.folder) for key in keys}
        lost = {key: there.wrong for key, there in found.items() if not there.complete}
        if not lost:
            _say_edits(edited, "what is shown was published, and computed without the change")
            return found
        said = _first([f"  {key}: {why or 'missing'}" for key, why in lost.items()])
        raise MissingResult(
            f"{self.folder} lacks {len(lost)} of the published results behind this notebook:\n"
            f"{said}\n`git checkout -- {self.folder}` brings back what was published, "
            f"`{self.maker}` computes it"
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
        So are those of rules that you added to a registry and that a config names, and of config
        classes with methods of your own. Not seen is what such code uses in turn: helpers that it
        calls, global names, files. `sflkit.runs.identity` says it in full.
    data : sflkit.data.Dataset, optional
        Your own data, such as `Dataset.of(x, y)`; its digest is part of the keys.
    store : path, optional
        Folder of the results; default `paths.results_store()`.
    published : path or paths, optional
        Tracked results, which are looked in before running and never written to. They count where
        `store` holds a result of the same key, but not while code of this library behind the run
        differs from git's HEAD. `Complete(folder, maker)` computes nothing.
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
    EditedCode
        That the code of this library behind the run has changed: results of `store` that it made
        before are computed anew. It is not said where SFLKIT_BATCH is set.
    """
    configs = list(checks.instance("configs", configs, Iterable))
    jobs = checked_jobs(jobs)
    progress = None if progress is None else checks.flag("progress", progress)
    if not configs:
        raise ValueError("configs=[] must hold at least one config")
    given = {"cache": cache, "server": server, "model": model, "stream": stream, "data": data}
    given = {name: thing for name, thing in given.items() if thing is not None}
    store = paths.results_store() if store is None else Path(store).expanduser()
    store = Path(os.path.realpath(store))
    experiment = experiment_name(run)  # is it a run function at all?
    code = own_code(run, given)
    heads = [describe(run, config, code) for config in configs]
    _check_keywords(run, given)
    items = {head["key"]: (config, head) for config, head in zip(configs, heads, strict=True)}
    edited = dict(origin.edits(run))
    if isinstance(published, Complete):
        found = published.results(items, edited)
    else:
        single = published is None or isinstance(published, str | os.PathLike)
        folders = filter(None, [published] if single else published)
        found = _results(run, items, [*map(Path, folders)], store, edited)
    missing = {key: item for key, item in items.items() if key not in found}
    for _, head in missing.values():  # of the code that is loaded, whatever is committed meanwhile
        head |= {"commit": origin.commit()} | ({"edited": edited} if edited else {})
    computed = 0
    if missing:
        task = Task(run, given, store, machine.cores(), os.getpid())
        computed = compute(task, missing, jobs, progress, description or experiment)
        found |= {key: _computed(key, store) for key in missing}
    frame = _assemble(configs, heads, found)
    records = [found[key].record for key in items]
    said = {canonical(record["data"]): record["data"] for record in records if record.get("data")}
    frame.attrs = {
        "keys": list(items),
        "data": [said[text] for text in sorted(said)],
        "sources": heads[0].get("sources", {}),
        "computed": computed,
        "reused": len(items) - computed,
    }
    for name in given:
        frame[name] = code[name]["name"]
    return frame


def _results(
    run: Callable,
    keys: Collection[str],
    published: list[Path],
    store: Path,
    edited: Collection[str],
) -> dict[str, OnDisk]:
    """Return the complete results by key, each from the first folder that has it; of what is
    damaged, or was made by other code of this library, a warning tells.
    """
    if published and edited:
        _say_edits(edited, "published results are not used")
        published = []
    found, damaged, own = {}, {}, {}
    for key in keys:
        for folder in [*published, store]:  # a stale result of one's own must not win
            there = look(key, folder)
            if there.complete:
                (own if folder == store else found)[key] = there
                break
            if there.wrong:
                damaged[key, folder] = there
    _say_damage(damaged, found | own)
    old = set() if store == paths.published() else _of_other_code(run, own)
    if old:
        _say_edits(edited or ["the code of sflkit"], f"{len(old)} results are computed anew")
    return found | {key: there for key, there in own.items() if key not in old}


def _of_other_code(run: Callable, own: dict[str, OnDisk]) -> set[str]:
    """Return the keys of results of one's own that this library made while its code was another."""
    made: dict[str, list[str]] = {}
    for key, there in own.items():
        said = canonical([there.record["commit"], there.record.get("edited", {})])
        made.setdefault(said, []).append(key)
    groups = (k for k in made.values() if not origin.is_of_this_code(run, own[k[0]].record))
    return {key for keys in groups for key in keys}


def _say_damage(damaged: dict[tuple[str, Path], OnDisk], found: Collection[str]) -> None:
    """Warn of damaged results: which, where, what is wrong with it, and what happens now."""
    said = [
        f"{folder / key}: {there.wrong}; "
        + ("another folder has it whole" if key in found else "it is computed anew")
        for (key, folder), there in damaged.items()
        if not is_running(key, folder)  # half-written just now
    ]
    if said:
        warnings.warn(
            "damaged results, which are not used (`git checkout` brings back what was published):\n"
            + _first(said),
            DamagedResult,
            stacklevel=4,
        )


def _first(lines: Sequence[str]) -> str:
    """Return a few lines, and how many there are more."""
    more = [f"  and {len(lines) - _SAID} more"] if len(lines) > _SAID else []
    return "\n".join([*lines[:_SAID], *more])


def _say_edits(names: Iterable[str], what: str) -> None:
    """Warn of edited files, but where a notebook is executed to be published."""
    if names and "SFLKIT_BATCH" not in os.environ:
        warnings.warn(f"{', '.join(names)} has changed: {what}", EditedCode, stacklevel=4)


def _computed(key: str, store: Path) -> OnDisk:
    """Return what a worker has just written."""
    there = look(key, store)
    if there.complete:
        return there
    raise RuntimeError(
        f"result {key} was computed and is not in {store}: was something deleted there, or do not "
        "all workers see this folder? Called again, the sweep computes what is missing"
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


# --- the frame of a sweep -------------------------------------------------------------------------


def _assemble(
    configs: Sequence[Any], heads: Sequence[dict], found: dict[str, OnDisk]
) -> pd.DataFrame:
    """Return the rows of all runs in the order of the configs, with config fields and key."""
    alike: dict[tuple, dict[int, tuple[dict, OnDisk]]] = {}
    for place, (config, head) in enumerate(zip(configs, heads, strict=True)):
        fields, result = config_dict(config) | {"key": head["key"]}, found[head["key"]]
        columns = result.record["columns"].items()
        alike.setdefault((*fields, *columns), {})[place] = fields, result
    parts = [_rows(group) for group in alike.values()]
    return pd.concat(parts).sort_index(kind="stable").reset_index(drop=True)


def _rows(group: dict[int, tuple[dict, OnDisk]]) -> pd.DataFrame:
    """Return the rows of results with the same columns, under the config fields of each; the index
    says in which place a result stands.
    """
    fields, results = zip(*group.values(), strict=True)
    frame = parse([result.content for result in results], results[0].record["columns"])
    counts = [result.record["rows"] for result in results]
    frame.index = pd.Index(group).repeat(counts)
    for position, name in enumerate(fields[0]):
        values = [said[name] for said in fields]
        values = [canonical(v) if isinstance(v, list | dict) else v for v in values]
        kinds = {type(value) for value in values}
        alike = len(kinds) == 1 or kinds == {int, float}
        column = pd.Series(values, dtype=None if alike else object).repeat(counts).array
        if name in frame:
            own = frame.pop(name)
            if not (own == column).all():
                raise ValueError(
                    f"column {name!r} of a result must equal the config's field of that name, "
                    f"{values[0]!r} in the first"
                )
            column = own
        frame.insert(position, name, column)
    return frame
