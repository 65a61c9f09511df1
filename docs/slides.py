"""`python -m docs.slides`: a deck per paper into out/slides, which `make slides` calls.

A slide is a claim in a headline, its picture and its verdict: figures and tables first, then the
statements that have a picture. The decks are reveal.js, which lies beside them as the package
sphinx-revealjs brings it, so that they open from the file system without a network.
"""

from __future__ import annotations

import shutil
import sys
from collections import Counter
from importlib.util import find_spec
from pathlib import Path

from companion.app.artefacts import PAPERS, by_paper, full_name, in_short
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


def write(paper: str, figures: Path, target: Path) -> Path:
    """Write the deck of a paper with its pictures beside it, and return its file."""
    mine = by_paper(tables.all_verdicts(figures))[paper]
    drawn = [row for row in mine if (figures / f"{row.artefact}.png").is_file()]
    (target / "figures").mkdir(parents=True, exist_ok=True)
    slides = []
    for row in drawn[: MOST - 2]:
        picture, said = f"{row.artefact}.png", f"{row.verdict}, {row.setting} setting"
        shutil.copyfile(figures / picture, target / "figures" / picture)
        headline, name = in_short()[row.artefact], full_name(row.artefact)
        slides.append({"headline": headline, "name": name, "verdict": said, "picture": picture})
    page = environment(Path(__file__).parent).get_template("slides.html.j2")
    counts = Counter(row.verdict for row in mine).most_common()
    text = page.render(title=TITLES[paper], paper=PAPERS[paper], slides=slides, counts=counts)
    paths.write_atomic(target / f"{paper}.html", text)
    return target / f"{paper}.html"


def copy_reveal(target: Path) -> None:
    """Copy reveal.js, which the package sphinx-revealjs brings, beside the decks."""
    package = Path(find_spec("sphinx_revealjs").origin).parent
    shutil.copytree(package / "_static" / "revealjs", target / "reveal", dirs_exist_ok=True)


def main() -> int:
    """Write all decks and an index, and return the exit code."""
    root, target = paths.clone_root(), paths.out() / "slides"
    if root is None:
        print("no figures here: call it inside the clone", file=sys.stderr)
        return 2
    copy_reveal(target)
    links = ""
    for paper, title in TITLES.items():
        print(write(paper, root / "figures", target).relative_to(root))
        links += f'<li><a href="{paper}.html">{title}</a></li>'
    head = "<!DOCTYPE html><html lang=en><meta charset=utf-8><title>Slides</title>"
    paths.write_atomic(target / "index.html", f"{head}<ul>{links}</ul>")
    return 0


if __name__ == "__main__":
    sys.exit(main())
