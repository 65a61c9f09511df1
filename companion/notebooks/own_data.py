"""Your own data: an archive against the stream, with a cache rule, model and server of your choice.

The rows of a table (`sflkit.data.own`), in the order of time, are split in two. The first ones
are the *archive*: one historical client holds them all, throughout. The later ones are the
*stream*: each client of the table receives its own, a few per round, and keeps what its cache rule
says. A part of the stream is held out, spread over all of it, as the test set. So the question is
how good a model is on what arrives, and how much the archive should count for it.

This is Algorithm 1 of FDS (Federated Learning for Data Streams), by `sflkit.datastreams.training`,
with caches at the fresh clients. All values of p_hist are arms of one run: they see the same
arrivals, caches, mini-batches and first model.

Your own cache rule, server rule, model or order of arrival goes in by keyword, also in a sweep:

    run_many(own_data.run, configs, cache=MyRule, server=MyServer, model=my_network)

"""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pandas as pd

from sflkit import checks, paths
from sflkit.config import Count, Number, OneOf, Positive, Seed, Share, settings
from sflkit.data import own
from sflkit.data.federations import Federation
from sflkit.datastreams import training
from sflkit.datastreams.config import DataStreamsConfig
from sflkit.randomness import generator

EXPERIMENT = "own-data"
RESULT_VERSION = 1


@settings
class OwnDataConfig:
    """One run on a table of your own. Make one by `config_for`, which fills in `digest`.

    Parameters
    ----------
    file : str
        The CSV or npz file: inside the clone as a path from its root, elsewhere in full. So the
        keys of results do not depend on where a clone lies.
    digest : str
        sha256 of the file, so that results of other data are never mistaken for these.
    label, client : str
        Columns of a CSV file, see `own.read`.
    archive : float
        In (0, 1): share of the rows, the oldest, that the archive holds.
    test : float
        In (0, 1): share of the stream's rows that is held out for testing.
    shares : tuple of float
        Values of p_hist in [0, 1], one arm each: how much the archive counts in the aggregation. 0
        leaves it out, 1 trains on it alone.
    order : {"file", "shuffled"}
        Whether the rows of a client arrive as they stand in the file, or in random order.
    memory : int
        Rounds of arrivals that a cache has room for, >= 1.
    rounds, local_steps, batch_size : int
        T, E and K (samples of a mini-batch).
    rate : float
        Local rate > 0.
    model : str
        A name in `sflkit.models.NETWORKS` that fits the samples, such as "linear" or "mlp".
    server : str
        A name in `sflkit.federated.servers.RULES`.
    seed : int
        Of the split, the first model and the mini-batches.
    """

    file: str
    digest: str
    label: str = "label"
    client: str = "client"
    archive: Annotated[float, Number(above=0, below=1)] = 0.3
    test: Annotated[float, Number(above=0, below=1)] = 0.2
    shares: tuple[Share, ...] = (0.0, 0.2, 0.5, 0.8, 1.0)
    order: Annotated[str, OneOf(("file", "shuffled"))] = "file"
    memory: Count = 5
    rounds: Count = 40
    local_steps: Count = 5
    batch_size: Count = 16
    rate: Positive = 0.1
    model: str = "linear"
    server: str = "fedavg"
    seed: Seed = 0


def config_for(path: Path | str, **fields: Any) -> OwnDataConfig:
    """Return a config for a file, with the file's digest; the other fields by keyword.

    Raises
    ------
    FileNotFoundError, ValueError
        As `own.read`, or if a field is out of range.
    """
    columns = {name: fields[name] for name in ("label", "client") if name in fields}
    path = Path(path).expanduser().resolve()
    digest = own.read(path, **columns).digest
    base = paths.out().parent.resolve()
    file = path.relative_to(base).as_posix() if path.is_relative_to(base) else str(path)
    return OwnDataConfig(file=file, digest=digest, **fields)


def table_of(config: OwnDataConfig) -> own.Table:
    """Return the table that a config names.

    Raises
    ------
    FileNotFoundError, ValueError
        As `own.read`, or if the file has changed since the config was made.
    """
    path = paths.out().parent / config.file  # a full path stays as it is
    changed = path.stat().st_mtime_ns if path.is_file() else 0
    table = _read(path, changed, config.label, config.client)
    if table.digest != config.digest:
        raise ValueError(
            f"file={config.file!r} has changed since its config was made; make it anew"
        )
    return table


@functools.lru_cache(maxsize=4)
def _read(path: Path, changed: int, label: str, client: str) -> own.Table:
    """Read a table once for all runs of a sweep, and again when its file has `changed`."""
    return own.read(path, label=label, client=client)


def federation(config: OwnDataConfig, stream: Callable | None = None) -> Federation:
    """Return the archive (client 0) and the clients of the stream (1, 2, ...).

    Every feature is shifted and scaled to mean 0 and variance 1 over the training rows.

    Parameters
    ----------
    config : OwnDataConfig
    stream : function, optional
        Your own order of arrival: (rows, labels, rng) -> the same rows in another order, called
        once for each client.

    Raises
    ------
    ValueError
        As `table_of` and `split`, or if `stream` does not return the rows that it was given.
    """
    table = table_of(config)
    old, streams, test = split(config, table)
    if stream is not None or config.order == "shuffled":
        streams = [_ordered(config, table, rows, k, stream) for k, rows in enumerate(streams)]
    train = np.concatenate([old, *streams])
    flat = table.x.reshape(len(table), -1).astype(np.float64)
    spread = flat[train].std(0)
    scaled = (flat - flat[train].mean(0)) / np.where(spread > 0, spread, 1)
    x = scaled.astype(np.float32).reshape(table.x.shape)
    return Federation(
        name=Path(config.file).name,
        x=x,
        y=table.y,
        clients=(old, *streams),
        x_test=x[test],
        y_test=table.y[test],
        test_weights=np.full(len(test), 1 / len(test)),
        n_classes=len(table.labels),
        historical=np.arange(1 + len(streams)) == 0,
        digest=table.digest,
    )


def split(
    config: OwnDataConfig, table: own.Table
) -> tuple[np.ndarray, list[np.ndarray], np.ndarray]:
    """Return the rows of the archive, of each client's stream, and of the test set, oldest first.

    Raises
    ------
    ValueError
        If the archive, the test set or a client's stream has no row.
    """
    first = round(config.archive * len(table))
    later = np.arange(first, len(table))
    n_test = round(config.test * len(later))
    test = np.sort(generator(config.seed, "test_set").permutation(later)[:n_test])
    rest = np.setdiff1d(later, test)
    streams = [rest[table.client[rest] == k] for k in range(len(table.clients))]
    empty = [name for name, rows in zip(table.clients, streams, strict=True) if not len(rows)]
    if not first or not n_test or empty:
        raise ValueError(
            f"archive={config.archive} and test={config.test} leave {first} rows for the archive "
            f"and {n_test} for the test, and these clients without a stream: {empty or 'none'}; "
            "each needs at least one"
        )
    return np.arange(first), streams, test


def run(
    config: OwnDataConfig,
    *,
    cache: Callable | None = None,
    server: Callable | None = None,
    model: Callable | None = None,
    stream: Callable | None = None,
) -> pd.DataFrame:
    """Train one arm for each value of p_hist.

    Parameters
    ----------
    config : OwnDataConfig
    cache : class, optional
        Cache rule of the stream's clients, built as cls(capacity, batch_size), such as those of
        `sflkit.sfl.caches`; by default a client keeps the arrivals of one round.
    server, model : optional
        As of `training.run`.
    stream : function, optional
        As of `federation`.

    Returns
    -------
    DataFrame, one row per round and arm
        round (from 1), p_hist, accuracy and loss on the test set.

    Raises
    ------
    ValueError
        As `federation` and `training.run`.
    """
    clients = federation(config, stream)
    settings_of = DataStreamsConfig(
        arms=tuple(f"p_hist={value!r}" for value in config.shares),
        rates=(config.rate,) * len(config.shares),
        seed=config.seed,
        n_clients=clients.n_clients,
        n_historical=1,
        model=config.model,
        rounds=config.rounds,
        local_steps=config.local_steps,
        batch_size=config.batch_size,
        c_ratio=None,
        server=config.server,
        evaluate_every=1,
    )

    def memory(client: int, most: int) -> Any:
        return cache(min(config.memory * most, int(clients.sizes[client])), most)

    frame = training.run(
        settings_of,
        data=clients,
        cache=None if cache is None else memory,
        model=model,
        server=server,
    )
    answer = frame[["round"]].assign(
        p_hist=frame["arm"].map(dict(zip(settings_of.arms, config.shares, strict=True))),
        accuracy=frame["accuracy_last"],
        loss=frame["loss_last"],
    )
    answer.attrs = {"data": frame.attrs["data"]}
    return answer


def late_scores(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the mean accuracy over the last fifth of the rounds: rule, seed, p_hist, accuracy.

    `frame` is that of a sweep, with a column `rule`; an arm that diverged scores NaN.
    """
    late = frame[frame["round"] > 0.8 * frame["round"].max()]
    scores = late.groupby(["rule", "seed", "p_hist"], sort=False)["accuracy"]
    return scores.agg(lambda column: column.mean(skipna=False)).reset_index()


def chosen(scores: pd.DataFrame, rule: str) -> pd.Series:
    """Return for each seed the score of the p_hist that is best on average over the *other* seeds.

    No seed chooses what it judges. Ties go to the smaller p_hist.

    Raises
    ------
    ValueError
        If there is only one seed.
    """
    table = scores[scores["rule"] == rule].pivot(index="seed", columns="p_hist", values="accuracy")
    if len(table) < 2:
        raise ValueError(f"scores of {rule!r} have one seed; choosing needs at least two")
    best = {seed: table.drop(index=seed).mean().idxmax() for seed in table.index}
    return pd.Series({seed: table.loc[seed, best[seed]] for seed in table.index}, name=rule)


def _ordered(
    config: OwnDataConfig, table: own.Table, rows: np.ndarray, k: int, stream: Callable | None
) -> np.ndarray:
    """Return the rows of client k of the stream in their order of arrival."""
    rng = generator(config.seed, "stream", k)
    if stream is None:
        return rng.permutation(rows)
    ordered = checks.indices("stream", stream(rows.copy(), table.y[rows], rng), len(table))
    if not np.array_equal(np.sort(ordered), rows):
        raise ValueError(
            f"stream={stream.__name__} must return the {len(rows)} rows that it gets for client "
            f"{table.clients[k]!r}, each once, in another order"
        )
    return ordered
