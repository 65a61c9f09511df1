"""All verdicts on one page, to be filtered: what notebook 90 shows.

The rows are those of VERDICTS.md, one per claim, each with links to its block there, to its
notebook and to its figure. `Filter` says which rows are wanted. The page is plain Markdown, so that
it reads without a kernel, and `explorer` puts menus over the same table.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from companion.app import gate
from companion.app.artefacts import PAPERS, anchor, paper_of
from companion.judging import tables
from companion.judging.claims import SETTINGS, VERDICTS, Page
from sflkit import checks

if TYPE_CHECKING:
    import ipywidgets
    from matplotlib.figure import Figure

ALL = "all"
# One colour per verdict, from the palette of Okabe and Ito: what holds is blue, what does not is
# red, what is not known is grey.
COLORS = {
    "reproduced": "#0072B2",
    "corrected": "#56B4E9",
    "partly": "#F0E442",
    "not reproduced": "#D55E00",
    "open": "#999999",
}


@dataclass(frozen=True)
class Filter:
    """Which claims are wanted; "all" and an empty text let everything pass.

    Parameters
    ----------
    paper : "all", "sfl", "ds", "osafl" or "fats"
    verdict : "all" or one of `claims.VERDICTS`
    setting : "all" or one of `claims.SETTINGS`
    text : str
        Must stand in the claim's id or text, in upper or lower case.

    Raises
    ------
    ValueError
        For anything else; the message names what is allowed.
    """

    paper: str = ALL
    verdict: str = ALL
    setting: str = ALL
    text: str = ""

    def __post_init__(self):
        checks.choice("paper", self.paper, (ALL, *PAPERS))
        checks.choice("verdict", self.verdict, (ALL, *VERDICTS))
        checks.choice("setting", self.setting, (ALL, *SETTINGS))

    def chosen(self, rows: pd.DataFrame) -> pd.DataFrame:
        """Return the rows of `tables.all_verdicts` that pass."""
        told = (rows["artefact"] + " " + rows["claim"]).str.lower()
        return rows[
            paper_of(rows).isin([self.paper] if self.paper != ALL else PAPERS)
            & rows["verdict"].isin([self.verdict] if self.verdict != ALL else VERDICTS)
            & rows["setting"].isin([self.setting] if self.setting != ALL else SETTINGS)
            & told.str.contains(self.text.lower(), regex=False)
        ]


def table(rows: pd.DataFrame) -> pd.DataFrame:
    """Return what the page shows of some rows of `tables.all_verdicts`, in Markdown.

    A claim is told by its first sentence; links are relative to the folder of the notebooks.
    """
    books = gate.by_artefact()
    shown = [
        (
            f"**{row.artefact}**",
            re.split(r"(?<=[.!?]) ", row.claim)[0],
            row.verdict,
            row.setting,
            _links(row.artefact, books.get(row.artefact)),
        )
        for row in rows.itertuples()
    ]
    return pd.DataFrame(shown, columns=["claim", "what it says", "verdict", "setting", "evidence"])


def page(rows: pd.DataFrame) -> Page:
    """Return `table` as Markdown, below how many claims it has."""
    count = f"{len(rows)} claim{'' if len(rows) == 1 else 's'}."
    return Page(f"{count}\n\n{tables.markdown(table(rows))}" if len(rows) else "No claim passes.")


def counts(rows: pd.DataFrame) -> pd.DataFrame:
    """Return how many claims of each paper got each verdict, papers and verdicts in their order."""
    found = pd.crosstab(paper_of(rows), rows["verdict"])
    return found.reindex(index=list(PAPERS), columns=list(VERDICTS), fill_value=0)


def bottom_line(rows: pd.DataFrame) -> Page:
    """Return in words what became of the claims."""
    of = rows["verdict"].value_counts()
    held, refuted = of.get("reproduced", 0) + of.get("corrected", 0), of.get("not reproduced", 0)
    open_, part = of.get("open", 0), of.get("partly", 0)
    full = ((rows["setting"] == "full") & rows["ran"]).sum()
    return Page(
        f"**Bottom line.** Of {len(rows)} claims {held} hold, {of.get('corrected', 0)} of them "
        f"after a correction, and {refuted} {'was' if refuted == 1 else 'were'} not reproduced. "
        f"{part} hold in part, and {open_} are open: undecided or not run. {full} were judged at a "
        "full setting; for the others the setting says how much the verdict is worth."
    )


def picture(rows: pd.DataFrame) -> Figure:
    """Draw for each paper a bar of its verdicts, a number in each part."""
    import matplotlib.pyplot as plt

    found = counts(rows)
    fig, ax = plt.subplots(figsize=(9.6, 3.2))
    left = np.zeros(len(found))
    for verdict in VERDICTS:
        width = found[verdict].to_numpy()
        bars = ax.barh([PAPERS[name] for name in found.index], width, left=left, label=verdict,
                       color=COLORS[verdict], edgecolor="white")  # fmt: skip
        dark = verdict in ("reproduced", "not reproduced")
        ax.bar_label(bars, [n or "" for n in width], label_type="center",
                     color="white" if dark else "black")  # fmt: skip
        left += width
    ax.invert_yaxis()
    ax.grid(False)
    ax.set(xlabel="claims")
    ax.legend(ncols=4, loc="lower left", bbox_to_anchor=(0, 1), fontsize=9)
    plt.show()
    return fig


def explorer(rows: pd.DataFrame) -> ipywidgets.VBox:
    """Return menus for paper, verdict and setting and a field for a text, over the table."""
    import ipywidgets

    values = {"paper": PAPERS, "verdict": VERDICTS, "setting": SETTINGS}
    controls = {
        name: ipywidgets.Dropdown(options=[ALL, *several], description=name)
        for name, several in values.items()
    }
    controls["text"] = ipywidgets.Text(description="text", placeholder="such as theorem")
    shown = ipywidgets.HTML()

    def show(**wanted: str) -> None:
        shown.value = _html(Filter(**wanted).chosen(rows))

    ipywidgets.interactive_output(show, controls)
    return ipywidgets.VBox([ipywidgets.HBox(list(controls.values())), shown])


def _links(artefact: str, book: gate.Notebook | None) -> str:
    """Return links to the claim's block in VERDICTS.md, its notebook and its figure."""
    figure = f"figures/{artefact}.png"
    links = {
        "parts": f"../VERDICTS.md#{anchor(artefact)}",
        f"notebook {book and book.number}": book and book.path.name,
        "figure": f"../{figure}" if (gate.root() / figure).is_file() else None,
    }
    return " · ".join(f"[{name}]({target})" for name, target in links.items() if target)


def _html(rows: pd.DataFrame) -> str:
    """Return the table as HTML, for a widget."""
    frame = table(rows).replace(
        {r"\*\*(.+?)\*\*": r"<b>\1</b>", r"\[(.+?)\]\((.+?)\)": r'<a href="\2">\1</a>'}, regex=True
    )
    with pd.option_context("display.max_colwidth", None):
        return f"<p>{len(rows)} of the claims</p>" + frame.to_html(index=False, escape=False)
