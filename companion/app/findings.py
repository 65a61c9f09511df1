"""The README's five findings, each in plain sentences with the numbers of today's verdicts.

A finding is written for certain answers to certain parts of claims, and takes its numbers from
them. Where an answer has changed since, the finding says so and nothing else, until somebody writes
it anew; a test notices.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import pandas as pd

from companion.app.artefacts import anchor, name_of

CHANGED = (
    "The verdicts behind this finding have changed since it was written; what holds today is said "
    "behind the links."
)


class Parts:
    """Today's judged parts, asked for as `artefact/part`."""

    def __init__(self, parts: pd.DataFrame):
        keys = parts["artefact"] + "/" + parts["part"]
        self._rows = dict(zip(keys, parts.to_dict("records"), strict=True))

    def answer(self, key: str) -> str:
        """Return the answer to a part, "" where there is no such part."""
        return self._rows.get(key, {}).get("answer", "")

    def value(self, key: str) -> float:
        """Return the first number of what was found."""
        return float(re.search(r"[-+]?\d[\d.]*(?:e[-+]?\d+)?", self._rows[key]["ours"])[0])

    def size(self, key: str) -> str:
        """Return what was found without its sign, such as "1.12 points"."""
        return self._rows[key]["ours"].lstrip("+-")

    def interval(self, key: str) -> str:
        """Return the interval in words."""
        low, high = re.fullmatch(r"\[(.*), (.*)\]", self._rows[key]["interval"]).groups()
        return f"95 % interval from {low} to {high}"

    def n_seeds(self, key: str) -> int:
        """Return over how many seeds the interval is."""
        return int(self._rows[key]["n_seeds"])


@dataclass(frozen=True)
class Finding:
    """One finding.

    Parameters
    ----------
    title : str
        The finding in a sentence.
    artefacts : tuple of str
        The claims whose verdicts it links to; the first one's notebook is linked as well.
    answers : mapping
        `artefact/part` -> the answer that the text is written for.
    text : callable
        Takes `Parts` and returns the finding.
    """

    title: str
    artefacts: tuple[str, ...]
    answers: Mapping[str, str]
    text: Callable[[Parts], str]

    def stale(self, parts: Parts) -> list[str]:
        """Return the parts whose answers are no longer those that the text is written for."""
        return [key for key, answer in self.answers.items() if parts.answer(key) != answer]


def _forgetting(parts: Parts) -> str:
    farthest = parts.size("fats-alg2/tiny").rsplit(" ", 1)[1]
    return (
        "FATS's Algorithm 2 draws the affected round's clients again. That the sample was used "
        f"says that its client took part, so the draws end up to {farthest} (total variation) away "
        "from those of training without the sample. Where the clients stay, as the paper's own "
        "proof has it, the distance is 0 in all fifteen federations that we counted out."
    )


def _caches(parts: Parts) -> str:
    gap = parts.value("sfl-fig5a/mean drsr")
    gain = "sfl-fig4a/drsr fifo"
    return (
        "DRSR keeps a cache's labels near their long-term mix, as printed: its squared distance is "
        f"{gap:.0f} times smaller than FIFO's late in the run. Yet a linear model ends only "
        f"{parts.value(gain):.2g} points above FIFO's ({parts.interval(gain)}), while LAZY, which "
        f"takes no new samples, ends {parts.size('sfl-fig4a/fifo lazy')} below FIFO. "
        "All on stand-in data."
    )


def _old_data(parts: Parts) -> str:
    return (
        "On the paper's synthetic task with 20 % of old data, the weight that the paper reports "
        f"beats fresh data alone by {parts.size('ds-tab2/ours, Fresh')} and old data alone by "
        f"{parts.size('ds-tab2/ours, Historical')}. But the paper's bound ψ, at the ratio that it "
        "reports for this task, asks for all weight on the old data. For CIFAR and FEMNIST "
        "the reported weights do minimise ψ."
    )


def _stragglers(parts: Parts) -> str:
    return (
        "Algorithm 1 never moves the transmit power away from its start. The paper does not state "
        "the start, and it decides how near the best value the algorithm ends. Larger networks "
        "leave out more clients, as printed; on our channel most of these could do a step within "
        "their energy and deadline."
    )


def _readings(parts: Parts) -> str:
    ahead = "osafl-tab2/best_m_fedavg"
    return (
        "As printed OSAFL diverges, since a client that never joined enters its mean as the model "
        "divided by the rate. With nothing in that place most of Table II comes out: on "
        f"{parts.n_seeds(ahead)} seeds that chose nothing OSAFL's best accuracy is "
        f"{parts.size(ahead)} above M-FedAvg's ({parts.interval(ahead)}; the paper: 3.3 points)."
    )


FINDINGS = (
    Finding(
        "Forgetting a sample is not exact as printed; what the paper's proof says is.",
        ("fats-alg2", "fats-thm2"),
        {
            "fats-alg2/tiny": "no",
            "fats-alg2/kept": "yes",
        },
        _forgetting,
    ),
    Finding(
        "Cache rules move the labels in a cache, and hardly the accuracy.",
        ("sfl-fig4a", "sfl-fig5a"),
        {
            "sfl-fig5a/mean drsr": "yes",
            "sfl-fig4a/drsr fifo": "yes",
            "sfl-fig4a/fifo lazy": "yes",
        },
        _caches,
    ),
    Finding(
        "Old data help, but on synthetic data not with the weight that the paper's bound asks for.",
        ("ds-tab2", "ds-c2c1"),
        {
            "ds-tab2/ours, Fresh": "yes",
            "ds-tab2/ours, Historical": "yes",
            "ds-tab2/psi, Uniform": "no",
            "ds-c2c1/p_hist synthetic": "no",
            **{f"ds-c2c1/p_hist {data}": "yes" for data in ("CIFAR-10", "CIFAR-100", "FEMNIST")},
        },
        _old_data,
    ),
    Finding(
        "Who can take part is decided by a starting point that the paper does not state.",
        ("osafl-alg1", "osafl-fig3"),
        {
            "osafl-alg1/moves": "no",
            "osafl-fig3/infeasible": "no",
            "osafl-fig3/FCN_over_LSTM": "yes",
        },
        _stragglers,
    ),
    Finding(
        "Table II cannot be had as printed, and most of it can under one reading of the text.",
        ("osafl-tab2", "osafl-alg2", "osafl-alg8"),
        {"osafl-tab2/best_m_fedavg": "yes", "osafl-alg2/printed_buffer": "no"},
        _readings,
    ),
)


def as_markdown(rows: pd.DataFrame, parts: pd.DataFrame, books: Mapping[str, object]) -> str:
    """Return the findings as a numbered list with links to verdicts and notebooks.

    Parameters
    ----------
    rows, parts : DataFrame
        Those of `tables.all_verdicts` and `tables.all_parts`.
    books : mapping
        Artefact -> its `gate.Notebook`.
    """
    verdicts = dict(zip(rows["artefact"], rows["verdict"], strict=True))
    judged = Parts(parts)
    lines = []
    for number, finding in enumerate(FINDINGS, start=1):
        text = CHANGED if finding.stale(judged) else finding.text(judged)
        links = [
            f"[{name_of(artefact)}: {verdicts[artefact]}](VERDICTS.md#{anchor(artefact)})"
            for artefact in finding.artefacts
            if artefact in verdicts
        ]
        if book := books.get(finding.artefacts[0]):
            links.append(f"[notebook {book.number}](notebooks/{book.path.name})")
        ends = f" ({', '.join(links)})" if links else ""
        lines.append(f"{number}. **{finding.title}** {text}{ends}")
    return "\n".join(lines)
