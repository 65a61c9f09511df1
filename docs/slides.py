"""`python -m docs.slides`: a deck per paper into out/slides, which `make slides` calls.

A slide is a claim in a headline, its picture and its verdict: figures and tables first, then the
statements that have a picture. The decks are reveal.js, which lies beside them as the package
sphinx-revealjs brings it, so that they open from the file system without a network.
"""

from __future__ import annotations

import shutil
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from companion.app import verdict_page
from companion.app.artefacts import PAPERS, full_name, ordered, paper_of
from companion.judging import tables
from companion.templates import environment
from sflkit import paths

TITLES = {
    "sfl": "On the local cache update rules in streaming federated learning",
    "ds": "Federated learning for data streams",
    "osafl": "Online-score-aided federated learning",
    "fats": "Communication efficient and provable federated unlearning",
}
MOST = 20  # slides of a deck, with its title and its table of verdicts
ASSETS = ("dist", "plugin/notes", "LICENSE")


def slides(paper: str, figures: Path) -> list[dict[str, str]]:
    """Return headline, name, verdict and picture of each claim that a deck shows.

    Raises
    ------
    ValueError
        If there is no such paper.
    """
    if paper not in TITLES:
        raise ValueError(f"paper={paper!r} must be one of {', '.join(map(repr, TITLES))}")
    rows = tables.all_verdicts(figures)
    shown = [
        row
        for row in ordered(rows[paper_of(rows) == paper])
        if (figures / f"{row.artefact}.png").is_file()
    ]
    return [_slide(row) for row in shown[: MOST - 2]]


def _slide(row: Any) -> dict[str, str]:
    return {
        "headline": verdict_page.in_short()[row.artefact],
        "name": full_name(row.artefact),
        "verdict": f"{row.verdict}, {row.setting} setting",
        "picture": f"{row.artefact}.png",
    }


def write(paper: str, figures: Path, target: Path) -> Path:
    """Write the deck of a paper with its pictures beside it, and return its file."""
    shown = slides(paper, figures)
    (target / "figures").mkdir(parents=True, exist_ok=True)
    for slide in shown:
        shutil.copyfile(figures / slide["picture"], target / "figures" / slide["picture"])
    rows = tables.all_verdicts(figures)
    counts = rows[paper_of(rows) == paper]["verdict"].value_counts().to_dict()
    page = environment(Path(__file__).parent).get_template("slides.html.j2")
    file = target / f"{paper}.html"
    text = page.render(title=TITLES[paper], paper=PAPERS[paper], slides=shown, counts=counts)
    paths.write_atomic(file, text)
    return file


def copy_assets(target: Path) -> None:
    """Copy reveal.js beside the decks.

    Raises
    ------
    ModuleNotFoundError
        If the package that brings it is not installed.
    """
    spec = find_spec("sphinx_revealjs")
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError("slides need sphinx-revealjs: pip install -r requirements.lock")
    for part in ASSETS:
        source = Path(spec.origin).parent / "_static" / "revealjs" / part
        copy = target / "reveal" / part
        copy.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, copy, dirs_exist_ok=True)
        else:
            shutil.copyfile(source, copy)


def main() -> int:
    """Write all decks and an index, and return the exit code."""
    root = paths.clone_root()
    if root is None:
        print("no figures here: call it inside the clone", file=sys.stderr)
        return 2
    target = paths.out() / "slides"
    try:
        copy_assets(target)
    except ModuleNotFoundError as error:
        print(error, file=sys.stderr)
        return 1
    links = ""
    for paper, title in TITLES.items():
        print(write(paper, root / "figures", target).relative_to(root))
        links += f'<li><a href="{paper}.html">{title}</a></li>'
    head = "<!DOCTYPE html><html lang=en><meta charset=utf-8><title>Slides</title>"
    paths.write_atomic(target / "index.html", f"{head}<ul>{links}</ul>")
    return 0


if __name__ == "__main__":
    sys.exit(main())
