"""Plans and runs for the tests of `make paper` and status; copied into a clone of their own.

A run says in the file `log` beside this one when it starts and ends. It takes PROBE_SECONDS, waits
while the file `hold` is there, raises if its rule is PROBE_FAILS, and kills its own process if it
is PROBE_DIES.
"""

from __future__ import annotations

import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from companion.plans import Stage

EXPERIMENT = "probe"
RESULT_VERSION = 1
HERE = Path(__file__).parent


@dataclass(frozen=True)
class Config:
    seed: int = 0
    rounds: int = 3
    rule: str = "fifo"


def say(word: str, config: Config) -> None:
    with open(HERE / "log", "a") as file:
        file.write(f"{word} {config.rule} {config.seed}\n")


def run(config: Config) -> pd.DataFrame:
    say("start", config)
    time.sleep(float(os.environ.get("PROBE_SECONDS", 0)))
    while (HERE / "hold").exists():
        time.sleep(0.01)
    if config.rule == os.environ.get("PROBE_FAILS"):
        raise ArithmeticError(f"seed {config.seed} diverged")
    if config.rule == os.environ.get("PROBE_DIES"):
        os.kill(os.getpid(), signal.SIGKILL)
    frame = pd.DataFrame(
        {
            "round": np.arange(config.rounds),
            "loss": float(config.seed),
            "threads": int(os.environ["SFLKIT_THREADS"]),
            "nice": os.nice(0),
        }
    )
    say("end", config)
    return frame


def study(*, rounds, seeds):
    """Search, then judge on seeds that follow from the worst of the search."""
    tried = yield Stage(run, [Config(seed, rounds) for seed in seeds], "search")
    worst = int(tried["loss"].max())
    judged = yield Stage(run, [Config(100 + worst + i, rounds, "drsr") for i in (0, 1)], "judge")
    return tried, judged


def rules(*, rule, rounds, seeds):
    """One stage of a rule."""
    yield Stage(run, [Config(seed, rounds, rule) for seed in seeds], rule)


def lengths(*, seeds):
    """Runs of several lengths, the longest first."""
    yield Stage(run, [Config(seed, rounds) for rounds in (40, 10, 20) for seed in seeds])


def on_gpu(*, rounds, seeds):
    """A stage that is marked for a GPU."""
    yield Stage(run, [Config(seed, rounds, "gpu") for seed in seeds], gpu=True)


def upset(*, seeds):
    """A plan that fails after its first stage."""
    yield Stage(run, [Config(seed, 1, "upset") for seed in seeds], "first")
    raise LookupError("no rate was best")


def misspelt(*, round):
    """An argument that no notebook has."""
    yield Stage(run, [Config(0, round)])


def no_plan(*, seeds):
    """Not a generator."""
    return seeds


def picky(*, rounds, seeds):
    """A plan that refuses odd numbers of rounds, as a config refuses two values together."""
    if rounds % 2:
        raise ValueError(f"rounds={rounds} must be even")
    yield Stage(run, [Config(seed, rounds) for seed in seeds])
