"""What the runs of Figs. 1, 5 and 8 say, averaged over the law of the hit round.

Source: FATS, Section 6.2.1, Appendix A.5. A run tells one draw of the hit round; `hit_rounds` knows
the law of it. Here the accuracies of a run become two paths of R + 1 models each, and `scores` are
means over that law along them. FRS and FR2 always go back to the first model.

==========  ==============  ===============================================================
code        shape           meaning
==========  ==============  ===============================================================
learning    (runs, R + 1)   accuracy of the model after 0..R rounds of learning
recomputed  (runs, R + 1)   that of the models that stand after the request: what was kept,
                            then what was made again
laws        (runs, R + 1)   of the round that recomputing starts from
==========  ==============  ===============================================================
"""

from __future__ import annotations

from dataclasses import fields
from typing import NamedTuple

import numpy as np
import pandas as pd

from companion import story
from companion.fats import hit_rounds
from sflkit.fats.config import FATSConfig
from sflkit.fats.methods import METHODS
from sflkit.fats.training import choose_requests, federation_of

RUN = ["data", "level", "seed", "method"]


class Paths(NamedTuple):
    """Accuracies of the runs in `index`, each (runs, R + 1); see the module."""

    index: pd.MultiIndex
    learning: np.ndarray
    recomputed: np.ndarray


def paths_of(frame: pd.DataFrame) -> Paths:
    """Return the paths of runs of one data set, whose requests came all at once after R rounds.

    Parameters
    ----------
    frame : DataFrame
        Rows of `training.run` with the columns of their configs, every round evaluated, among them
        a run of "frs" for each level and seed: it shows the first model, which all methods share.

    Raises
    ------
    ValueError
        If there are several data sets or numbers of rounds, or a round was not evaluated.
    """
    rounds = frame["rounds"].unique()
    if len(rounds) != 1 or frame["data"].nunique() != 1:
        raise ValueError("frame must hold runs of one data set with one number of rounds")
    learning = _wide(frame[frame["phase"] == "learning"], int(rounds[0]))
    made = _wide(frame[frame["phase"] == "recovery"], int(rounds[0]))
    first = made.xs("frs", level="method")[0]
    places = learning.index.droplevel("method")
    learning[0] = first.reindex(places).to_numpy()
    recomputed = made.reindex(learning.index).fillna(learning)
    if learning.isna().any(axis=None):
        raise ValueError("every round must be evaluated, and each level and seed needs a frs run")
    return Paths(learning.index, learning.to_numpy(), recomputed.to_numpy())


def laws_of(frame: pd.DataFrame, *, streaming: bool = False) -> tuple[np.ndarray, pd.MultiIndex]:
    """Return the law of the start of each run, (runs, R + 1), and the runs, sorted.

    FATS has that of its own requests (a seed decides them), the others start from round 0. With
    `streaming` the law is the mean over requests that are served one after another.

    Parameters
    ----------
    frame : DataFrame
        Rows of `training.run` with the columns of their configs.
    """
    configs = {tuple(getattr(config, name) for name in RUN): config for config in configs_of(frame)}
    index = pd.MultiIndex.from_tuples(sorted(configs), names=RUN)
    laws = []
    for key in index:
        config = configs[key]
        if METHODS[config.method].build().from_scratch:
            laws.append(np.eye(1, config.rounds + 1)[0])
            continue
        sizes = sizes_of(config)
        shared = dict(
            n_clients=len(sizes),
            samples_per_client=sizes,
            clients_per_round=config.clients_per_round,
            batch_size=config.batch_size,
            local_steps=config.local_steps,
            rounds=config.rounds,
        )
        targets = choose_requests(config, sizes)
        if streaming:
            laws.append(hit_rounds.stream_laws(targets, **shared).mean(axis=0))
        else:
            laws.append(hit_rounds.hit_law(targets, **shared))
    return np.array(laws), index


def scores(frame: pd.DataFrame, *, band: float = 0.02) -> pd.DataFrame:
    """Return what the claims of Figs. 1, 5 and 8 and of Remark 4 are judged by, one row per run.

    Parameters
    ----------
    frame : DataFrame
        As for `paths_of`.
    band : float
        A method is back when its accuracy is within this of its late mean before the request.

    Returns
    -------
    DataFrame
        Indexed by `RUN`. before, kept: mean over the last quarter of the rounds, of learning and of
        the recomputed path. speed: mean over all rounds of learning. after, back, share: expected
        accuracy of the model that is fallen back to, expected rounds until it is back, expected
        share of the rounds that is recomputed. finished: mean accuracy over the R rounds after a
        request, in a stream of which every request is served to its end. moves: mean absolute
        change of accuracy from round to round, over the last half of the recomputed path.
    """
    paths = paths_of(frame)
    laws, index = laws_of(frame)
    stream, _ = laws_of(frame, streaming=True)
    order = paths.index.get_indexer(index)
    learning, recomputed = paths.learning[order], paths.recomputed[order]
    rounds = learning.shape[1] - 1
    late = np.arange(rounds + 1) > 0.75 * rounds
    before = learning[:, late].mean(axis=1)
    table = {
        "before": before,
        "speed": learning[:, 1:].mean(axis=1),
        "after": hit_rounds.expected(laws, recomputed),
        "back": hit_rounds.expected(laws, hit_rounds.rounds_back(recomputed, before - band)),
        "share": hit_rounds.expected_share(laws),
        "kept": recomputed[:, late].mean(axis=1),
        "finished": hit_rounds.expected(stream, hit_rounds.mean_after(recomputed, rounds)),
        "moves": np.abs(np.diff(recomputed[:, rounds // 2 :], axis=1)).mean(axis=1),
    }
    return pd.DataFrame(table, index=index)


def stream_scores(frame: pd.DataFrame) -> pd.DataFrame:
    """Return what the streams of Fig. 8 are judged by, one row per run, indexed by `RUN`.

    late: the mean accuracy over the last quarter of learning. mean: the accuracy from the first
    request to one interval after the last, on a clock on which a request comes every `interval`
    rounds and a method with nothing to do keeps its model. after: the accuracy of the models
    fallen back to, mean over the requests.
    """
    learning = frame[frame["phase"] == "learning"]
    late = learning[learning["round"] > 0.75 * learning["round"].max()]
    made = frame[frame["phase"] == "recovery"].copy()
    made["since"] = made["round"] - made.groupby([*RUN, "requests"])["round"].transform("min")
    fallen = made[made["since"] == 0].groupby(RUN)["accuracy"].mean()
    held = {}
    for key, run in made.groupby(RUN):
        interval = int(run["interval"].iloc[0])
        kept = [
            part.set_index("since")["accuracy"].reindex(range(interval)).ffill().mean()
            for _, part in run.groupby("requests")
        ]
        held[key] = np.mean(kept)
    mean = pd.Series(held).rename_axis(RUN)
    found = {"late": late.groupby(RUN)["accuracy"].mean(), "mean": mean, "after": fallen}
    return pd.DataFrame(found).sort_index()


def sizes_of(config: FATSConfig) -> np.ndarray:
    """Return how many samples each client of a config holds, int (n_clients,).

    The published numbers where they are there, so that no data set is needed.
    """
    names = ("data", "n_clients", "seed", "alpha", "n_samples", "samples_per_client")
    settings = {name: getattr(config, name) for name in names}
    settings |= {"min_samples": max(config.min_samples, config.batch_size)}
    return np.array(
        story.kept("samples of each client", settings, lambda: federation_of(config).sizes.tolist())
    )


def configs_of(frame: pd.DataFrame) -> list[FATSConfig]:
    """Return the configs whose fields are columns of a frame of `sweep.run_many`, each once."""
    names = [field.name for field in fields(FATSConfig)]
    rows = frame.drop_duplicates("key")[names].to_dict("records")
    return [
        FATSConfig(**{name: None if pd.isna(value) else value for name, value in row.items()})
        for row in rows
    ]


def _wide(rows: pd.DataFrame, rounds: int) -> pd.DataFrame:
    """Return the last accuracy of each model round as columns 0..R, one row per run."""
    wide = rows.pivot_table(index=RUN, columns="model_round", values="accuracy", aggfunc="last")
    return wide.reindex(columns=range(rounds + 1))
