"""The lane: runs computed on another machine, which has neither git, notebooks nor network.

    sflkit runs missing --gpu > list.json                          # in a clone
    sflkit runs compute list.json --minutes 9 --out bundle.tar.xz  # where this library is
    sflkit runs take bundle.tar.xz                                 # in the clone again

A list says of every run its function, config and key, and what it will cost. A bundle holds a list
of what was computed, the results (`sflkit.runs.store`) and their digests (`SHA256SUMS`). Whoever
takes it believes nothing: digests, keys, result versions and columns are checked, and the first
rounds of some runs are computed anew (`sflkit.runs.audit`). A record says which device made it; two
processors never promise the same bits, so the audit has a tolerance.

A list names functions and classes of sflkit and companion alone, and nothing else is imported.
"""

from __future__ import annotations

import importlib
import io
import itertools
import json
import lzma
import multiprocessing
import os
import re
import tarfile
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from sflkit import checks, machine, paths
from sflkit.runs import archive, audit, store, sums, workers
from sflkit.runs.keys import config_dict, describe, result_key

LIST = "list.json"
_MEMBER = re.compile(rf"{sums.NAME}|{LIST}|[a-z0-9-]+/[0-9a-f]{{16}}\.(csv|json)")
_PLACE = re.compile(r"(sflkit|companion)(\.\w+)*:\w+")
_RESERVE = 2.0  # seconds in which a bundle is packed


class Order(NamedTuple):
    """A run that is asked for.

    Attributes
    ----------
    run : function
    config : frozen dataclass
    key : str
    seconds : float or None
        Its price, if that is known.
    """

    run: Callable
    config: Any
    key: str
    seconds: float | None

    def entry(self) -> dict[str, Any]:
        """Return what a list says of it."""
        places = [f"{t.__module__}:{t.__qualname__}" for t in (self.run, type(self.config))]
        said = {"run": places[0], "class": places[1], "config": config_dict(self.config)}
        return {"key": self.key, "seconds": self.seconds, **said}


def orders(text: str | bytes, refused: dict[str, str] | None = None) -> list[Order]:
    """Return the runs of a list.

    Where `refused` is given, an entry that cannot be used goes there with the reason, by its key.

    Raises
    ------
    ValueError
        If it is no list; if an entry names what is not there, or code that is neither sflkit's nor
        companion's; or if its key is not that of its config here. The message says which.
    """
    try:
        entries = {str(entry["key"]): entry for entry in json.loads(text)["runs"]}
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise ValueError(f"this is no list of runs: {type(error).__name__}: {error}") from None
    found = []
    for key, entry in entries.items():
        try:
            found.append(_order(key, entry))
        except ValueError as error:
            if refused is None:
                raise ValueError(f"{key}: {error}") from None
            refused[key] = str(error)
    return found


def _order(key: str, entry: Mapping[str, Any]) -> Order:
    try:
        run, cls = _found(entry["run"]), _found(entry["class"])
        config = cls(**entry["config"])
        own = result_key(run, config)
    except (KeyError, TypeError, ValueError, AttributeError, ImportError) as error:
        raise ValueError(f"its run cannot be made here: {error}") from None
    if own != key:
        raise ValueError(f"its config has the key {own} in this version of sflkit")
    seconds = entry.get("seconds")
    return Order(run, config, key, None if seconds is None else checks.real("seconds", seconds, 0))


def _found(place: Any) -> Any:
    if not isinstance(place, str) or not _PLACE.fullmatch(place):
        raise ValueError(f"{place!r} must be a name in sflkit or companion, such as 'sflkit.x:run'")
    module, _, name = place.partition(":")
    return getattr(importlib.import_module(module), name)


def as_list(wanted: Iterable[Order]) -> str:
    """Return a list of runs as JSON."""
    return json.dumps({"runs": [order.entry() for order in wanted]}, indent=1) + "\n"


# --- compute --------------------------------------------------------------------------------------


def compute(
    wanted: Sequence[Order],
    out: Path | str,
    *,
    minutes: float,
    jobs: int = 1,
    echo: Callable[[str], Any] = print,
) -> list[str]:
    """Compute what of a list can be had in some minutes, and pack it.

    The dearest run that fits into the time that is left goes first, one of unknown price last.
    Prices are scaled by what the first runs took. At the end of the time what is running is
    stopped. Results lie in a folder beside the bundle, `<out>.runs`: called again, it goes on from
    there. On a machine with several cards call it once a card, with CUDA_VISIBLE_DEVICES set.

    Parameters
    ----------
    wanted : list of Order
        See `orders`.
    out : path
        The bundle, a .tar.xz; an old one is replaced.
    minutes : float
        After which the bundle is there; > 0.
    jobs : int
        Runs at a time, each in a process of its own; the threads are shared out.
    echo : function
        Is told of each run that ended.

    Returns
    -------
    list of str
        The keys of what is in the bundle.

    Raises
    ------
    ValueError
        If a parameter is not as described.
    paths.CannotWrite
        If the bundle cannot be written.
    """
    end = time.monotonic() + 60 * checks.real("minutes", minutes, above=0) - _RESERVE
    jobs = checks.workers("jobs", jobs)
    out = Path(out)
    folder = Path(f"{out}.runs")
    paths.check_writable(folder)
    there = {order.key for order in wanted if store.is_complete(order.key, folder)}
    left = [order for order in wanted if order.key not in there]
    left.sort(key=lambda order: (order.seconds is None, -(order.seconds or 0.0)))
    threads = max(1, machine.cores() // max(1, min(jobs, len(left))))
    options = {"mp_context": multiprocessing.get_context("spawn"), "max_workers": 1}
    options |= {"initializer": workers.die_with_parent, "initargs": (os.getpid(),)}
    pools = [ProcessPoolExecutor(**options) for _ in range(min(jobs, len(left)))]
    others = set(multiprocessing.active_children())
    try:
        _share_out(left, pools, (folder, threads), end, echo)
    finally:
        for process in set(multiprocessing.active_children()) - others:
            process.kill()
    whole = [order for order in wanted if store.is_complete(order.key, folder)]
    _pack(out, whole, folder)
    echo(f"{len(whole)} of {len(wanted)} runs are in {out}")
    return [order.key for order in whole]


def _work(run: Callable, config: Any, folder: Path, threads: int) -> workers.Attempt:
    task = workers.Task(run, {}, folder, threads, os.getpid())
    return workers.execute(task, (config, describe(run, config)), False)


def _share_out(
    left: list[Order],
    pools: list[ProcessPoolExecutor],
    how: tuple[Path, int],
    end: float,
    echo: Callable[[str], Any],
) -> None:
    """Give processes, one a pool, runs until none is left that fits, or the time has come."""
    promised = spent = 0.0
    busy: dict[Future, tuple[ProcessPoolExecutor, Order, float]] = {}
    while True:
        seconds = (end - time.monotonic()) * (promised / spent if promised else 1.0)
        fits = [order for order in left if order.seconds is None or order.seconds <= seconds]
        for order, pool in zip(fits, [*pools]):
            left.remove(order)
            pools.remove(pool)
            busy[pool.submit(_work, order.run, order.config, *how)] = pool, order, time.monotonic()
        done, _ = wait(busy, max(0.0, end - time.monotonic()), FIRST_COMPLETED)
        if not done:
            return
        for future in done:
            pool, order, began = busy.pop(future)
            if future.exception() is None:
                attempt = future.result()
                pools.append(pool)
            else:  # the pool is broken
                attempt = workers.Attempt(order.key, "failed", "its process ended before it did")
            seconds = time.monotonic() - began
            if attempt.state == "computed" and order.seconds:
                promised, spent = promised + order.seconds, spent + seconds
            echo(f"{order.key} {attempt.state} {seconds:.1f} s {attempt.why}".rstrip())


def _pack(out: Path, whole: Sequence[Order], folder: Path) -> None:
    names = [LIST, *(f"{order.key}{end}" for order in whole for end in (".csv", ".json"))]
    paths.write_atomic(folder / LIST, as_list(whole))
    paths.write_atomic(folder / sums.NAME, sums.text(sums.of(folder, names)))
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:xz") as bundle:
        for name in [*names, sums.NAME]:
            member, text = tarfile.TarInfo(name), paths.read(folder / name)
            member.size = len(text)
            bundle.addfile(member, io.BytesIO(text))
    paths.write_atomic(out, packed.getvalue())


# --- take -----------------------------------------------------------------------------------------


def take(
    bundle: Path | str,
    folder: Path | str | None = None,
    *,
    audited: int = 2,
    rounds: int = 3,
    seed: int = 0,
) -> list[str]:
    """Check a bundle and file what is right.

    Parameters
    ----------
    bundle : path
        What `compute` wrote.
    folder : path, optional
        Where the results go; default `paths.results_store()`.
    audited : int
        How many runs of each experiment are computed anew; 0 for none. Where one of them differs,
        or cannot be recomputed here, no run of its experiment is filed.
    rounds : int
        How many rounds of each; to the first evaluation where that comes later.
    seed : int
        Which ones are chosen.

    Returns
    -------
    list of str
        The keys of what was filed, or was there already.

    Raises
    ------
    ValueError
        If the bundle cannot be read; or names the runs that were refused and why. What is right has
        been filed then, of what is refused nothing.
    paths.CannotWrite
        If the folder cannot be written.
    """
    folder = paths.results_store() if folder is None else Path(folder)
    audited, rounds = checks.integer("audited", audited, 0), checks.integer("rounds", rounds, 1)
    with tempfile.TemporaryDirectory() as opened:
        there = Path(opened)
        refused = _open(Path(bundle), there)
        good = {order.key: order for order in orders(paths.read(there / LIST), refused)}
        for file in there.glob("*/*.*"):
            if (key := f"{file.parent.name}/{file.stem}") not in good:
                refused.setdefault(key, "it is not in the bundle's list")
        refused |= {
            key: why for key in good.keys() - refused.keys() if (why := _wrong(good[key], there))
        }
        good = {key: order for key, order in good.items() if key not in refused}
        refused |= _audit(good, there, audited, rounds, seed)
        good = [key for key in good if key not in refused]
        for key in good:
            with store.run_lock(key, folder):
                if not store.is_complete(key, folder):
                    files = (paths.read(there / f"{key}{end}") for end in (".csv", ".json"))
                    store.write_pair(folder, key, *files)
    if refused:
        said = "\n".join(f"  {key}: {why}" for key, why in sorted(refused.items()))
        raise ValueError(
            f"{bundle}: {len(refused)} runs are refused, {len(good)} are in {folder}:\n{said}"
        )
    return good


def _open(bundle: Path, there: Path) -> dict[str, str]:
    """Put the files of a bundle into a folder; return the keys of those that differ from their
    digests, and how.

    Raises ValueError if it is damaged as a whole, or holds what no bundle does.
    """
    try:
        with tarfile.open(fileobj=io.BytesIO(archive.unpacked(bundle))) as files:
            for member in files:
                if not member.isfile() or not _MEMBER.fullmatch(member.name):
                    raise ValueError(f"it holds {member.name!r}, which is no file of a bundle")
                if (there / member.name).exists():
                    raise ValueError(f"it holds {member.name} twice")
                paths.write_atomic(there / member.name, files.extractfile(member).read())
        names = [file.relative_to(there).as_posix() for file in there.glob("*/*")]
        wrong = dict(sums.damages(there, [LIST, *names]))
        for name in (sums.NAME, LIST):
            if why := wrong.get(there / name):
                raise ValueError(f"of {name}, {why}")
    except (OSError, ValueError, lzma.LZMAError, tarfile.TarError) as error:
        raise ValueError(f"{bundle} is no whole bundle: {error}") from None
    return {f"{f.parent.name}/{f.stem}": f"of its {f.suffix}, {why}" for f, why in wrong.items()}


def _wrong(order: Order, there: Path) -> str:
    """Return what is wrong with a result of a bundle, or nothing."""
    found = store.look_at_files(order.key, there)
    if not found.complete:
        return found.wrong or "its record and its numbers are missing"
    try:
        frame = store.parse([found.content], found.record["columns"])
    except (KeyError, ValueError, TypeError) as error:
        return f"its numbers cannot be read as its record says: {error}"
    if len(frame) != found.record.get("rows"):
        return "its rows are not as many as its record says"
    experiment = order.key.partition("/")[0]
    published = archive.read(experiment, paths.published()).records.values()
    known = {name for one in published for name in one["columns"]}
    other = archive.kept(experiment, found.record["columns"]).keys() - known
    if known and other:
        return f"no published run of {experiment} has a column {', '.join(sorted(other))}"
    return ""


def _audit(
    good: Mapping[str, Order], there: Path, number: int, rounds: int, seed: int
) -> dict[str, str]:
    """Return the keys that an audit refuses, and why."""
    rng = np.random.default_rng(seed)
    refused = {}
    for _, group in itertools.groupby(sorted(good), lambda key: key.partition("/")[0]):
        keys = list(group)
        for place in rng.choice(len(keys), min(number, len(keys)), replace=False):
            if why := _differs(good[keys[place]], there, rounds):
                refused |= dict.fromkeys(keys, f"{keys[place]} was audited: {why}")
                break
    return refused


def _differs(order: Order, there: Path, rounds: int) -> str:
    theirs, record = store.read_result(order.key, there)
    last = audit.last_round(order.run, record, rounds)
    try:
        ours = audit.begun(order.run, order.config, last)
    except Exception as error:  # whatever it is, the run in the bundle had none
        return f"its rounds cannot be recomputed here: {type(error).__name__}: {error}"
    here, said = ours.attrs.get("data") or {}, record.get("data") or {}
    if here.get("digest") != said.get("digest"):
        return f"its data {said.get('name')} have another digest than those here"
    return audit.differences(ours, audit.until(theirs, last))[0]
