"""The audit: the first rounds of published runs, computed anew and compared.

A published run is worth as much as the promise that this code makes it. Some of the runs behind a
notebook are picked at random, the first rounds of each are recomputed with its own config
(`stop_after`, since some arrivals depend on T), and every published column is compared, as
`sflkit.runs.audit` says.

A run of at most `WHOLE_SECONDS`, or without rounds to stop after, is recomputed whole. Its data set
must be at hand: nothing is downloaded for an audit.

The instructions of a processor decide how a network with hidden layers goes on: two runs that agree
in seven digits after a round may differ by 0.1 in accuracy some rounds later, while they learn
fastest. The published runs were made with AVX2 or AVX-512. `sflkit audit` computes with AVX2, and
says of which networks the numbers *drift* apart.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from companion import plans
from companion.app import gate, paper
from companion.judging.claims import Page
from sflkit import paths
from sflkit.data import catalogue
from sflkit.runs import store
from sflkit.runs.audit import TOLERANCE, begun, differences, last_round, until
from sflkit.runs.keys import result_key

# What torch reads when it is loaded.
INSTRUCTIONS = {"ATEN_CPU_CAPABILITY": "avx2", "ONEDNN_MAX_CPU_ISA": "AVX2"}
AS_PUBLISHED = INSTRUCTIONS | {"OMP_NUM_THREADS": "1", "SFLKIT_THREADS": "1"}


class Published(NamedTuple):
    """A published run that a notebook asks for; `wrong` says what of it is damaged, if anything."""

    key: str
    run: Callable[..., pd.DataFrame]
    config: Any
    record: dict
    wrong: str = ""

    @property
    def data(self) -> str:
        """The data set that it needs a file for; "" where none is needed."""
        config = self.record.get("config", {})
        name = config.get("data", config.get("features"))
        needs = self.record.get("data") is not None and name in catalogue.names()
        return name if needs and not catalogue.is_made(name) else ""

    @property
    def at_hand(self) -> bool:
        """Whether its data set is made on the spot or lies on a disk."""
        return not self.data or catalogue.find(self.data) is not None


class Finding(NamedTuple):
    """What the audit of a run found.

    Attributes
    ----------
    key : str
    state : {"equal", "differs", "drifts", "not audited"}
        "drifts" is a network whose trained numbers alone differ, by more and more from round to
        round, and not at the first evaluation.
    why : str
        What differs, or why it was not audited.
    last : int
        The round after which the recomputed run ended; 0 where it was recomputed whole.
    gaps : dict
        Trained column -> the largest difference, as a share of the published number above 1.
    seconds : float
    """

    key: str
    state: str
    why: str
    last: int
    gaps: dict[str, float]
    seconds: float


def as_published() -> None:
    """Let torch compute as it did for the published runs, unless the environment says otherwise.

    It has no effect once torch is loaded, and none on processors of another kind.
    """
    for name, value in AS_PUBLISHED.items():
        os.environ.setdefault(name, value)


def published_runs(book: gate.Notebook, folder: Path | str | None = None) -> list[Published]:
    """Return the published runs that a notebook's plan asks for, each once.

    `folder` holds them, `paths.published()` unless given. A stage that is not complete there is the
    last, since what follows is chosen by its runs. A notebook without a plan has no runs.
    """
    folder = paths.published() if folder is None else folder
    found: dict[str, Published] = {}
    if not book.plan:
        return []
    plan = paper.begin(book)
    said = plans.next_stage(plan, None)
    while isinstance(said, plans.Stage):
        keys = [result_key(said.run, config) for config in said.configs]
        for key, config in zip(keys, said.configs, strict=True):
            there = store.look(key, folder)
            if there.record or there.wrong:
                found[key] = Published(key, said.run, config, there.record or {}, there.wrong)
        if not all(key in found and not found[key].wrong for key in keys):
            break
        said = plans.next_stage(plan, plans.frame_of(said, store=folder, progress=False))
    return list(found.values())


def pick(
    runs: Iterable[Published], number: int, seed: int = 0, *, files: bool = True
) -> list[Published]:
    """Return the damaged ones of some runs and `number` others at random, each at most once.

    Those whose data set is not at hand are passed over, and without `files` all that need a file.
    """
    by_key = {run.key: run for run in runs}
    keys = [
        key
        for key in sorted(by_key)
        if not by_key[key].wrong and (by_key[key].at_hand if files else not by_key[key].data)
    ]
    number = min(number, len(keys))
    chosen = np.random.default_rng(seed).choice(len(keys), number, replace=False)
    damaged = [run for run in by_key.values() if run.wrong]
    return damaged + [by_key[keys[place]] for place in chosen]


def check(run: Published, rounds: int = 10, folder: Path | str | None = None) -> Finding:
    """Recompute the first rounds of a published run and compare them.

    They reach to the first evaluation where that comes later. An error of the run is a difference,
    and so is another digest of data that are made on the spot; a run on another copy of a data set
    that lies in a file is not audited.
    """
    folder = paths.published() if folder is None else folder
    began = time.perf_counter()
    last = 0 if run.wrong else last_round(run.run, run.record, rounds)

    def answer(state: str, why: str = "", gaps: dict | None = None) -> Finding:
        return Finding(run.key, state, why, last, gaps or {}, time.perf_counter() - began)

    if run.wrong:
        way = f"git checkout -- {folder}"
        return answer("differs", f"the published run is damaged: {run.wrong}; mend it by `{way}`")
    if not run.at_hand:
        return answer("not audited", f"{run.data} is not at hand")
    try:
        frame = begun(run.run, run.config, last)
    except catalogue.DataUnavailableError as error:
        return answer("not audited", str(error))
    except Exception as error:  # the published run had none, whatever it is
        return answer("differs", f"{type(error).__name__}: {error}")
    published, _ = store.read_result(run.key, folder)
    why, gaps, drifts = differences(frame, until(published, last))
    layers = run.record["config"].get("model", "linear") != "linear"
    state = ("drifts" if drifts and layers else "differs") if why else "equal"
    here, there = (data or {} for data in (frame.attrs.get("data"), run.record["data"]))
    if here.get("digest") != there.get("digest"):
        other = f"the {here.get('name')} at hand have another digest than those of the run"
        if run.data not in catalogue.FEATURES:  # features are rounded otherwise on each processor
            return answer("not audited" if run.data else "differs", other)
        state, why = ("not audited", f"{other}; {why}") if why else (state, why)
    return answer(state, why, gaps)


def line(findings: Sequence[Finding], runs: Sequence[Published], *, files: bool = True) -> str:
    """Return in a line what an audit of some of the `runs` found; `files` is that of `pick`.

    It is the same on every processor: trained numbers agree within the tolerance, or do not.
    """
    done = [finding for finding in findings if finding.state != "not audited"]
    damaged = {run.key for run in runs if run.wrong}
    ends = Counter(sorted(finding.last for finding in done if finding.key not in damaged))
    spans = [f"{f'rounds 1 to {end}' if end else 'all'} of {n}" for end, n in ends.items()]
    text = f"Audit: {' and '.join(spans) or 'none'} of {len(runs)} published runs recomputed"
    apart = sum(finding.state == "drifts" for finding in done)
    if differ := [f"{f.key}: {f.why}" for f in done if f.state == "differs"]:
        text += f"; **{len(differ)} wrong**: {'; '.join(differ)}"
    elif done:
        of = f" of {len(done) - apart}" if apart else ""
        within = f", trained numbers{of} within {TOLERANCE:g}" if apart < len(done) else ""
        text += f"; counts equal{within}"
    if apart:
        text += f"; {apart} drifting apart, as networks do on another processor"
    left = Counter(f.why for f in findings if f.state == "not audited")
    text += "".join(f"; {n} not audited: {why}" for why, n in left.items())
    away = Counter(run.data for run in runs if (not run.at_hand if files else run.data))
    why = "not at hand" if files else "not part of the install"
    return text + "".join(f"; {n} need {name}, which is {why}" for name, n in away.items()) + "."


def said(finding: Finding) -> str:
    """Return a finding in a line of its own."""
    span = f"rounds 1 to {finding.last}" if finding.last else "all"
    gaps = ", ".join(f"{name} within {gap:.1g}" for name, gap in finding.gaps.items())
    what = "; ".join(filter(None, [finding.state, finding.why, gaps]))
    return f"{finding.key} ({span}, {finding.seconds:.1f} s): {what}"


def cell(notebook: str, runs: int = 2, rounds: int = 10, seed: int = 0) -> Page:
    """Return the audit of a notebook, such as "12_sfl_training" or "12", as a line of Markdown.

    It takes runs that need no file of data, so that it says the same in every clone.
    """
    asked = published_runs(gate.find(notebook))
    chosen = pick(asked, runs, seed, files=False)
    return Page(line([check(run, rounds) for run in chosen], asked, files=False))
