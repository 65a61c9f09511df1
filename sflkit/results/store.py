"""Result files: one computed run is one `<key>.csv` (the numbers) and one `<key>.json` (its
record).

Published results lie together instead, per experiment in one table and one file of records
(`sflkit.results.archive`). Every reader here takes either form from a folder.

A key is `<experiment>/<16 hexadecimal digits>`, so that the results of an experiment lie in a
folder of their own. An experiment names itself: the module of its `run` function has `EXPERIMENT =
"sfl-training"` (a second function `pilot` there would be "sfl-training-pilot"), and moving or
renaming that module changes no key.

The digits hash the experiment's name, the `RESULT_VERSION` of its module and the config. Code of a
user's own counts as well: a `run` function from outside this library, the rules, models and streams
given to a sweep, and rules that a user added to a registry and that the config names, by name and
source (`sflkit.results.sources`). The source of a run of this library is recorded, not hashed: its
`RESULT_VERSION` is raised when its numbers change. What is published must come from a commit, so
that an edit that was taken back leaves nothing there.

The record holds config, versions, commit, device, threads, data set, seconds, the columns' types,
the sha256 of the csv and one of the record itself. The csv is
put in place first and the json last, so the json makes a result complete. One that is incomplete,
truncated or altered, or whose key is not that of its own config, is never used; `look` says what is
wrong with it. Floats are kept
to 7 significant digits: small files, and far below any effect we report.
"""

from __future__ import annotations

import copy
import dataclasses
import functools
import hashlib
import io
import json
import platform
import re
import sys
import typing
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd

from sflkit import checks, paths
from sflkit.config import registries
from sflkit.results import archive, origin, sources

if TYPE_CHECKING:
    import filelock

# Where the locks of runs lie in a folder of results; git ignores it.
LOCKS = ".locks"
FLOAT_FORMAT = "%.7g"
_EXPERIMENT = re.compile(r"[a-z0-9][a-z0-9-]*")
_DTYPES = {"i": "int64", "u": "int64", "f": "float64", "b": "bool"}


def own_code(run: Callable, given: Mapping[str, Any] | None = None) -> dict[str, dict[str, str]]:
    """Return name and source digest of a user's own code: of what is given to `run`, and of `run`.

    A `run` of this library is left out. Raises ValueError as `sources.identity`.
    """
    own = dict(given or {}) if sources.of_this_library(run) else {"run": run, **(given or {})}
    return {name: sources.identity(name, own[name]) for name in sorted(own)}


def registered_code(config: Any) -> dict[str, dict[str, str]]:
    """Return name and source digest of each rule of a user's own that the config names.

    Such a rule is a row that the user added to a registry; the rows of this library are left out.
    Raises ValueError as `sources.identity`.
    """
    found = {}
    for field, rules in registries(type(config)).items():
        row = rules.get(getattr(config, field))
        if row is not None and not sources.of_this_library(row.build):
            found[field] = sources.identity(field, row.build)
    return found


def describe(run: Callable, config: Any, code: Mapping[str, dict] | None = None) -> dict:
    """Return what a result's record says before anything has run.

    Parameters
    ----------
    run : function
        See `experiment_name`.
    config : frozen dataclass with a seed
        See `config_dict`.
    code : mapping, optional
        What `own_code` says of `run` and of what a user hands to it besides the config; looked up
        for `run` alone unless given.

    Returns
    -------
    dict
        key, experiment, result_version, config, sources (only where code of a user's own takes
        part: name and source digest of each) and source_sha256 of the run's module.

    Raises
    ------
    TypeError, ValueError
        If `run` or the config is not as described.
    """
    head = {
        "experiment": experiment_name(run),
        "result_version": _result_version(run),
        "config": _keyed(config),
    }
    code = (own_code(run) if code is None else dict(code)) | registered_code(config)
    if code:
        head["sources"] = dict(code)
    return {"key": key_of(head), **head, "source_sha256": _source_sha256(run)}


def key_of(head: Mapping[str, Any]) -> str:
    """Return the key of what a record says of its run.

    Raises
    ------
    KeyError, TypeError, ValueError
        If experiment, result_version or config are missing, or hold what JSON cannot.
    """
    parts = [head[name] for name in ("experiment", "result_version", "config")]
    parts += [head["sources"]] if "sources" in head else []
    digits = hashlib.sha256(canonical(parts).encode()).hexdigest()[:16]
    return f"{head['experiment']}/{digits}"


def result_key(run: Callable, config: Any, given: Mapping[str, Any] | None = None) -> str:
    """Return what names the result of `run(config, **given)`.

    It is the experiment's name, a slash and 16 hexadecimal digits. `given` holds what a user hands
    to `run` besides the config, keyword -> class or function. Errors are those of `describe` and
    `own_code`.
    """
    return describe(run, config, own_code(run, given))["key"]


def read_result(key: str, folder: Path | str) -> tuple[pd.DataFrame, dict] | None:
    """Return frame and record of a complete result.

    None stands for a result that `folder` does not hold, or holds half-written or altered; `look`
    tells these apart.
    """
    found = look(key, folder)
    if found.wrong or found.record is None:
        return None
    published = archive.read(key.partition("/")[0], folder)
    types = tuple(found.record["columns"].items())
    try:
        if found.content is published.contents.get(key):
            if types not in published.frames:
                _parse_alike(published, types)
            frame = published.frames[types][key].copy()
        else:
            frame = parse(found.content, types)
    except (ValueError, TypeError, KeyError):
        return None
    return (frame, copy.copy(found.record)) if len(frame) == found.record["rows"] else None


def _parse_alike(published: archive.Archive, types: tuple[tuple[str, str], ...]) -> None:
    """Parse all sound runs of an archive that have the same columns at once: `archive.frames`."""
    contents = {
        key: published.contents[key]
        for key, record in published.records.items()
        if tuple(record.get("columns", {}).items()) == types
        and not _wrong(key, record, published.contents.get(key))
    }
    table = parse(archive.together(contents.values()), types)
    frames, start = {}, 0
    for key in contents:
        stop = start + published.records[key]["rows"]
        frames[key] = table.iloc[start:stop].reset_index(drop=True)
        start = stop
    published.frames[types] = frames


class OnDisk(NamedTuple):
    """What a folder holds under a key.

    Attributes
    ----------
    record : dict or None
        The record, as far as it can be read.
    content : bytes
        The csv file.
    wrong : str
        What is wrong with the result; nothing where it is complete, or where there is none.
    """

    record: dict | None
    content: bytes
    wrong: str


def look(key: str, folder: Path | str) -> OnDisk:
    """Return what a folder holds under a key, without a look at the numbers themselves.

    A result is complete when its record can be read and is of this key, by what it says and by what
    follows from its own config; when it has its own digest; and when the csv has the digest that
    the record says.

    Of a result that is published and lies in a file of its own as well, the whole one is taken.
    """
    published = look_in_archive(key, folder)
    if published.record is not None and not published.wrong:
        return published
    single = look_at_files(key, folder)
    return single if single.record is not None or single.wrong else published


def look_in_archive(key: str, folder: Path | str) -> OnDisk:
    """Return what the archive of a key's experiment holds; see `look`."""
    experiment = key.partition("/")[0]
    found = archive.read(experiment, folder)
    if found.wrong:
        return OnDisk(None, b"", found.wrong)
    csv, record = found.contents.get(key), found.records.get(key)
    if record is None:
        return OnDisk(None, csv or b"", "" if csv is None else "numbers without a record")
    return OnDisk(record, csv or b"", _wrong(key, record, csv))


def look_at_files(key: str, folder: Path | str) -> OnDisk:
    """Return what the two files of a key hold; see `look`."""
    folder = Path(folder)
    try:
        csv = _bytes(folder / f"{key}.csv")
        text = _bytes(folder / f"{key}.json")
    except OSError as error:
        return OnDisk(None, b"", f"a file that cannot be read: {error.strerror}")
    if text is None:
        return OnDisk(None, csv or b"", "" if csv is None else "numbers without a record")
    try:
        record = json.loads(text)
    except (ValueError, RecursionError):  # it may nest too deeply
        record = None
    if not isinstance(record, dict):
        return OnDisk(None, csv or b"", "a record that cannot be read")
    return OnDisk(record, csv or b"", _wrong(key, record, csv))


def _bytes(file: Path) -> bytes | None:
    try:
        return paths.read(file)
    except (FileNotFoundError, NotADirectoryError):
        return None


def _wrong(key: str, record: dict, csv: bytes | None) -> str:
    """Return what is wrong with a record that could be read and its numbers, or nothing."""
    if record.get("key") != key:
        return f"the record is of {record.get('key')}"
    if csv is None:
        return "a record without numbers"
    if missing := [name for name in ("sha256", "record_sha256") if name not in record]:
        return f"the record lacks {', '.join(missing)}"
    if hashlib.sha256(csv).hexdigest() != record["sha256"]:
        return "the numbers differ from the record's digest"
    if record["record_sha256"] != record_sha256(record):
        return "the record differs from its own digest"
    try:
        own = key_of(record)
    except (KeyError, TypeError, ValueError):
        own = "none"
    if own != key:
        return f"the record's config, experiment or result version are those of another key, {own}"
    return ""


def record_sha256(record: Mapping[str, Any]) -> str:
    """Return the digest of a record without its own digest."""
    rest = {name: value for name, value in record.items() if name != "record_sha256"}
    return hashlib.sha256(json.dumps(rest, sort_keys=True).encode()).hexdigest()


def is_complete(key: str, folder: Path | str) -> bool:
    """Return whether `folder` holds a complete result of that key."""
    return read_result(key, folder) is not None


def write_result(
    folder: Path | str, head: dict, frame: pd.DataFrame, *, threads: int, seconds: float
) -> None:
    """Write the frame of the run that `head` describes, and its record.

    The caller holds the result's lock. `frame.attrs["data"]` (a dict) and `frame.attrs["device"]`
    go into the record.

    Raises
    ------
    TypeError
        If `frame` is no DataFrame of numbers, booleans and strings with at least one row.
    paths.CannotWrite
        If the disk is full or the folder cannot be written; no half of a result stays behind.
    """
    content, columns = _format(frame)
    record = head | {
        "rows": len(frame),
        "columns": columns,
        "sha256": hashlib.sha256(content).hexdigest(),
        "data": frame.attrs.get("data"),
        "device": frame.attrs.get("device") or origin.device(),
        "machine": platform.machine(),
        "threads": threads,
        "versions": origin.versions(),
        "commit": origin.commit(),
        "seconds": round(seconds, 3),
    }
    record = plain(record)
    record["record_sha256"] = record_sha256(record)
    text = json.dumps(record, indent=1) + "\n"
    write_pair(Path(folder), head["key"], content, text)


def write_pair(folder: Path, key: str, content: bytes, record: str | bytes) -> None:
    """Put the two files of a result in place, or none of them."""
    csv = folder / f"{key}.csv"
    paths.write_atomic(csv, content)
    try:
        # Last, since it makes the result complete.
        paths.write_atomic(folder / f"{key}.json", record)
    except paths.CannotWrite:
        csv.unlink(missing_ok=True)
        raise


def run_lock(key: str, folder: Path | str, *, wait: bool = True) -> filelock.BaseFileLock:
    """Return the lock that whoever computes the result of that key for `folder` holds.

    It dies with its process. See `paths.lock`.
    """
    folder = Path(folder)
    return paths.lock(folder / key, wait=wait, folder=folder / LOCKS)


def is_running(key: str, folder: Path | str) -> bool:
    """Return whether a living process holds the lock of a run, which says that it computes it."""
    folder = Path(folder)
    if not (folder / LOCKS / f"{Path(key).name}.lock").is_file():
        return False  # asking would make the file
    try:
        with run_lock(key, folder, wait=False):
            return False
    except OSError:  # held (filelock.Timeout is one), or not ours to open
        return True


def _format(frame: pd.DataFrame) -> tuple[bytes, dict[str, str]]:
    if not isinstance(frame, pd.DataFrame) or frame.empty:
        raise TypeError(
            f"the run must return a DataFrame with rows; it returned {type(frame).__name__}"
        )
    # an empty name is read back as another one
    if not frame.columns.is_unique or not all(isinstance(c, str) and c for c in frame.columns):
        raise TypeError(
            f"the columns of a result must be distinct strings, none empty; they are "
            f"{list(frame.columns)}"
        )
    columns = {}
    for name, column in frame.items():
        kind = column.dtype.kind
        if kind in _DTYPES:
            if kind != "f" and (column.isna().any() or column.max() > checks.LARGEST):
                raise TypeError(
                    f"column {name!r} of a result is {column.dtype}; outside float columns entries "
                    "must be there, and integers fit into 64 bits"
                )
            columns[name] = _DTYPES[kind]
        elif all(isinstance(v, str) and not set(v) & set("\r\0") for v in column):
            columns[name] = "str"
        else:
            raise TypeError(
                f"column {name!r} of a result must hold numbers, booleans or strings; "
                f"it holds {column.dtype}"
            )
    text = frame.to_csv(index=False, float_format=FLOAT_FORMAT, na_rep="nan", lineterminator="\n")
    return text.encode("utf-8"), columns


def parse(content: bytes, types: tuple[tuple[str, str], ...]) -> pd.DataFrame:
    columns = dict(types)
    frame = pd.read_csv(
        io.BytesIO(content),
        dtype=columns,
        keep_default_na=False,
        na_values={name: ["nan"] for name, kind in columns.items() if kind == "float64"},
    )
    if list(frame.columns) != list(columns):
        raise ValueError("columns differ from the record")
    return frame


def experiment_name(run: Callable) -> str:
    """Return the name that the module of `run` gives its experiment.

    Another function than `run` adds its own name.

    Raises
    ------
    TypeError
        If `run` is no function at the top level of a module, or its module has no `EXPERIMENT`.
    ValueError
        If the name could not be that of a folder.
    """
    name = getattr(run, "__qualname__", None)
    if not callable(run) or name is None or "<" in name or not getattr(run, "__module__", None):
        raise TypeError(f"run={run!r} must be a function at the top level of a module")
    experiment = getattr(sys.modules.get(run.__module__), "EXPERIMENT", None)
    if experiment is None:
        raise TypeError(
            f"module {run.__module__} must have EXPERIMENT, the name under which the results of "
            f"{name} are kept, such as "
            "EXPERIMENT = 'my-study'"
        )
    if not isinstance(experiment, str) or not _EXPERIMENT.fullmatch(experiment):
        raise ValueError(
            f"EXPERIMENT={experiment!r} must be made of lower-case letters, digits and -, "
            "such as 'my-study'"
        )
    if name == "run":
        return experiment
    return f"{experiment}-{name.strip('_').replace('_', '-').lower()}"


def _result_version(run: Callable) -> int:
    module = sys.modules.get(run.__module__)
    if not hasattr(module, "RESULT_VERSION"):
        raise TypeError(
            f"module {run.__module__} must have RESULT_VERSION, an integer raised whenever its "
            "numbers change"
        )
    return checks.integer("RESULT_VERSION", module.RESULT_VERSION, 0)


def _source_sha256(run: Callable) -> str:
    file = getattr(sys.modules.get(run.__module__), "__file__", None)
    return (
        hashlib.sha256(Path(file).read_bytes()).hexdigest()
        if file and Path(file).is_file()
        else "none"
    )


def config_dict(config: Any) -> dict:
    """Return the fields of a config in JSON's own types.

    Raises
    ------
    TypeError
        If the config is no frozen dataclass, or a field holds what JSON cannot.
    ValueError
        If it has no field `seed` with an integer >= 0.
    """
    if (
        not dataclasses.is_dataclass(config)
        or isinstance(config, type)
        or not config.__dataclass_params__.frozen
    ):
        raise TypeError(f"config={config!r} must be an instance of a frozen dataclass")
    fields = {}
    for field in dataclasses.fields(config):
        value = getattr(config, field.name)
        if dataclasses.is_dataclass(value):
            value = dataclasses.asdict(value)
        # rate=1 and rate=1.0 are one config
        whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
        if whole and field.name in _float_fields(type(config)):
            value = float(value)
        fields[field.name] = plain(value, f"{type(config).__name__}.{field.name}")
    checks.integer("seed", fields.get("seed"), 0, any_size=True)
    return fields


def _keyed(config: Any) -> dict:
    """Return the fields that a key is made of.

    A config class may say in `LATER` which fields came after results had been published, and what
    all earlier runs had there: while a field has that value it leaves the key as it was.
    """
    later = getattr(type(config), "LATER", {})
    fields = config_dict(config)
    return {name: fields[name] for name in fields if fields[name] != later.get(name, ...)}


@functools.cache
def _float_fields(kind: type) -> frozenset[str]:
    """Return the names of the fields of a dataclass that hold a float, or a float or None."""
    try:
        hints = typing.get_type_hints(kind)
    except NameError:  # a name that only a type checker imports
        hints = {field.name: field.type for field in dataclasses.fields(kind)}
    floats = (float, float | None, "float", "float | None")
    return frozenset(name for name, hint in hints.items() if hint in floats)


def plain(value: Any, name: str = "record") -> Any:
    """Return `value` in JSON's own types.

    Raises
    ------
    TypeError
        If it holds anything but finite numbers, booleans, strings, None, lists and dicts.
    """
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, dict):
        return {str(k): plain(v, name) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [plain(v, name) for v in value]
    if (
        value is None
        or isinstance(value, bool | int | str)
        or (isinstance(value, float) and np.isfinite(value))
    ):
        return value
    raise TypeError(
        f"{name}={value!r} must be made of finite numbers, booleans, strings, None, lists and dicts"
    )


def canonical(value: Any) -> str:
    """Return the one JSON text of a value: keys sorted, no spaces."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)
