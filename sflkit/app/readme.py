"""What is generated from results: the README's tables (notebooks, the tally of verdicts, speed) and
VERDICTS.md, a block for every claim.

The speed table is made from what `make bench` writes, data/results/bench/*.csv: one row per
workload and peer with its seconds per round, the ratio of the plain loop's seconds to its own, and
its share of the processor's measured peak.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from sflkit import paths
from sflkit.app import gate
from sflkit.results import tables
from sflkit.results.claims import SETTINGS, VERDICTS, told

# as tests/bench writes them
BENCH_COLUMNS = (
    "workload",
    "peer",
    "seconds",
    "seconds_min",
    "seconds_max",
    "speedup",
    "speedup_min",
    "speedup_max",
    "peak_share",
    "difference",
    "repeats",
    "threads",
    "load",
    "torch",
    "processor",
)
PAPERS = {
    "sfl": "SFL",
    "ds": "Data streams",
    "osafl": "OSAFL",
    "fats": "FATS",
}
WORKLOADS = {
    "W1": "W1: LeNet, 10 clients, 2 full-batch steps of 300",
    "W2": "W2: MLP 3168-512-256-100, 100 clients, 5 steps of 32",
    "W3": "W3: CNN of 1.7 M parameters, 5 of 300 clients, 10 steps of 10",
    "W4": "W4: logistic regression, 50 clients, 5 full-batch steps of 20",
}


def notebooks() -> str:
    """Return the table of notebooks as Markdown."""
    return tables.markdown(
        pd.DataFrame(
            [
                (
                    book.number,
                    f"[{book.title}](notebooks/{book.path.name})",
                    ", ".join(book.artefacts) or "-",
                    f"{book.minutes:g}" if book.minutes else "-",
                )
                for book in gate.notebooks()
            ],
            columns=["no.", "notebook", "reproduces", "minutes"],
        )
    )


def verdicts() -> str:
    """Return the verdicts as text for a terminal."""
    rows = tables.all_verdicts()
    if rows.empty:
        return "no verdicts yet: `make figures` writes them"
    width = max(map(len, rows["artefact"]))
    return "\n".join(
        f"{row.artefact:<{width}}  {row.verdict:<17}  {row.setting:<8}  {_short(row.claim)}"
        for row in rows.itertuples()
    )


def bench() -> str:
    """Return the speed tables as Markdown, one per machine, thread count and torch.

    Raises
    ------
    ValueError
        If a csv lacks columns.
    """
    files = sorted((gate.root() / "data" / "results" / "bench").glob("W*.csv"))
    if not files:
        return "No measurement yet: `make bench` writes it."
    rows = []
    for file in files:
        frame = pd.read_csv(file)
        if missing := [name for name in BENCH_COLUMNS if name not in frame]:
            raise ValueError(
                f"{file.name} lacks the columns {', '.join(missing)}; `make bench` writes it anew"
            )
        rows.append(frame)
    rows = pd.concat(rows, ignore_index=True)
    parts = [
        "Seconds of one federated round. The speedup is over a plain PyTorch loop, the median of "
        "measurements in turns (least to largest); Flower is measured after the others."
    ]
    for (processor, threads, torch), part in rows.groupby(
        ["processor", "threads", "torch"], sort=False
    ):
        parts.append(f"{processor}, {threads} thread{'' if threads == 1 else 's'}, torch {torch}:")
        parts.append(tables.markdown(_bench_table(part)))
    return "\n\n".join(parts)


def _bench_table(part: pd.DataFrame) -> pd.DataFrame:
    """Return the measurements of one machine as texts."""
    speedups = [
        f"{row.speedup:.2f} ({row.speedup_min:.2f} to {row.speedup_max:.2f})"
        for row in part.itertuples()
    ]
    return pd.DataFrame(
        {
            "workload": [WORKLOADS.get(name, name) for name in part["workload"]],
            "peer": part["peer"],
            "seconds": [f"{seconds:.3g}" for seconds in part["seconds"]],
            "speedup": speedups,
            "share of sgemm": [f"{share:.1%}" for share in part["peak_share"]],
        }
    )


def count_verdicts(profile: str) -> int:
    """Return how many verdicts a profile has."""
    file = paths.figures(profile) / "verdicts.csv"
    return len(pd.read_csv(file)) if file.is_file() else 0


def refresh_readme(check: bool = False) -> bool:
    """Bring the README's tables and VERDICTS.md up to date and return whether they were; with
    `check` only look.

    Raises
    ------
    gate.GateError
        Outside a clone, or where the README lacks a block or a file behind it cannot be read.
    """
    blocks = {"notebooks": notebooks, "verdicts": tally, "bench": bench}
    try:
        page = gate.root() / "VERDICTS.md"
        text = verdict_page()
        current = page.is_file() and page.read_text(encoding="utf-8") == text
        if not current and not check:
            paths.write_atomic(page, text)
        return write_blocks(gate.root() / "README.md", blocks, check=check) and current
    except (OSError, ValueError) as error:
        raise gate.GateError(f"cannot refresh the README's tables: {error}") from None


def refresh_block(text: str, name: str, content: str) -> str:
    """Return `text` with new content between `<!-- name:begin -->` and `<!-- name:end -->`.

    Raises
    ------
    ValueError
        Unless each of the two is there once, in that order.
    """
    begin = f"<!-- {name}:begin -->"
    end = f"<!-- {name}:end -->"
    if text.count(begin) != 1 or text.count(end) != 1 or text.index(begin) > text.index(end):
        raise ValueError(f"the text must hold {begin} and then {end}, once each")
    return f"{text[: text.index(begin)]}{begin}\n{content.strip()}\n{text[text.index(end) :]}"


def write_blocks(
    path: Path | str, blocks: Mapping[str, Callable[[], str]], *, check: bool = False
) -> bool:
    """Rewrite the generated blocks of a file and return whether they were up to date.

    Parameters
    ----------
    path : path
        The file, which names every block, see `refresh_block`.
    blocks : mapping
        Block name -> function that returns its Markdown.
    check : bool
        Only look.

    Raises
    ------
    ValueError
        If a block is missing from the file.
    """
    path = Path(path)
    old = new = path.read_text(encoding="utf-8")
    for name, content in blocks.items():
        new = refresh_block(new, name, content())
    if new != old and not check:
        paths.write_atomic(path, new)
    return new == old


def tally() -> str:
    """Return the table paper x verdict as Markdown, with how near to the papers' settings."""
    rows = tables.all_verdicts()
    if rows.empty:
        return "No verdicts yet: `make figures` writes them."
    paper = rows["artefact"].str.split("-").str[0]
    used = [name for name in VERDICTS if (rows["verdict"] == name).any()]
    lines = [
        [PAPERS.get(name, name), *((rows["verdict"][paper == name] == v).sum() for v in used)]
        for name in sorted(set(paper), key=lambda name: (*PAPERS, name).index(name))
    ]
    lines.append(["all", *((rows["verdict"] == v).sum() for v in used)])
    settings = rows[rows["verdict"] != "not run"]["setting"].value_counts()
    counts = ", ".join(f"{settings.get(level, 0)} at a {level} setting" for level in SETTINGS)
    table = tables.markdown(pd.DataFrame(lines, columns=["paper", *used]))
    return f"{len(rows)} claims; of those that were run {counts}.\n\n{table}"


def verdict_page() -> str:
    """Return VERDICTS.md: the tally, then a block for every claim with its parts as sentences."""
    rows = tables.all_verdicts()
    parts = tables.all_parts()
    books = {name: book for book in gate.notebooks() for name in book.artefacts}
    blocks = [
        "# Verdicts",
        "Every claim that we judge, its verdict and what decided it. The file is written by "
        "`sflkit verdicts --write-readme` from the tables beside the figures. *Full* is the "
        "paper's own setting, *reduced* says what differs, a *stand-in* shows the mechanism only. "
        "What the verdicts mean is said in the README.",
        tally(),
    ]
    for row in rows.itertuples():
        mine = parts[parts["artefact"] == row.artefact]
        blocks.append(_verdict_block(row, mine, books.get(row.artefact)))
    return "\n\n".join(blocks) + "\n"


def _verdict_block(row: Any, parts: pd.DataFrame, book: gate.Notebook | None) -> str:
    differs = f": {row.differs}" if row.differs else ""
    links = [f"[notebook {book.number}](notebooks/{book.path.name})"] if book else []
    figure = f"figures/{row.profile}/{row.artefact}.png"
    if (gate.root() / figure).is_file():
        links.append(f"[figure]({figure})")
    seeds = f" {row.n_seeds} seeds." if row.n_seeds not in ("", "0") else ""
    lines = [
        f"## {row.artefact}: {row.verdict}",
        f"{row.source}. {row.claim}",
        f"*Setting*: {row.setting}{differs}.{seeds} {' · '.join(links)}".rstrip(),
    ]
    for role, heading in (
        ("paper", ""),
        ("corrected", "As corrected:"),
        ("beyond", "Beyond the paper:"),
    ):
        chosen = parts[parts["role"] == role]
        if heading and len(chosen):
            lines.append(heading)
        if len(chosen):
            lines.append("\n".join(f"- {_part_sentence(part)}" for part in chosen.itertuples()))
    if row.printed:
        lines.append(f"*The paper prints*: {row.printed}")
    if row.note:
        lines.append(row.note)
    return "\n\n".join(lines)


def _part_sentence(part: Any) -> str:
    erratum = f" (ERRATA {part.erratum})" if part.erratum else ""
    answer = f"**{part.answer}**"
    return told(part.sentence + erratum, part.ours, part.interval, answer, part.hint)


def _short(text: str, width: int = 90) -> str:
    return text if len(text) <= width else text[: width - 1].rsplit(" ", 1)[0] + " …"
