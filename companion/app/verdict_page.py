"""VERDICTS.md: a table of all claims, then a short block for each, in the words of a reader.

A block has the claim, the verdict, one sentence of answer, another part that does not hold if there
is one, and the setting. All parts, and what is beyond the papers, stand in the notebooks.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from companion import templates
from companion.app import gate
from companion.app.artefacts import PAPERS, anchor, by_paper, full_name, name_of, says
from companion.claims import declared
from companion.judging import rules, tables
from companion.judging.claims import DECIDES_OPEN, NO_HEADROOM, NOT_SEEN, in_full, parts_held
from companion.judging.rules import TOO_SMALL

if TYPE_CHECKING:
    import jinja2

_ANSWERS = {
    "yes": "holds",
    "no": "fails",
    "partly": "holds in part",
    TOO_SMALL: TOO_SMALL,
    "open": "open",
    "not run": "not run",
}
# Which answer decides a claim, first of all, where they differ.
_ORDER = ("no", "partly", TOO_SMALL, "open", "not run", "yes")
_SYMBOLS = set("alpha beta chi delta epsilon eta kappa lambda mu phi psi rho sigma theta".split())
_NUMBER = r"[-+]?(?:\d[\d.]*(?:e[-+]?\d+)?|inf)"
_SIZE = r"(-?\d+ %.*) of the printed ([^\[]*)"  # as `rules` say it
# What leaves a part open though its own numbers may decide.
_LIMITS = (NO_HEADROOM, NOT_SEEN, rules.DISAGREE)
_MOST_ENTRIES = 2  # of a part that takes several comparisons as one; the notebook has them all
# What rules found, in their words -> the same for a reader.
_WORDS = (
    (rf"largest value / bound ({_NUMBER})", r"up to \1 times the bound"),
    (r"largest difference 0(?![\d.])", r"equal"),
    (rf"largest difference ({_NUMBER})", r"differs by up to \1"),
    (rf"largest \|z\| ({_NUMBER})", r"off by up to \1 standard errors"),
    (r"^0 of (\d+) hold(, not: .*)?", r"none of \1 holds"),
    (r"^(\d+) of (\d+) hold, not: (.*)$", r"\1 of \2 hold, not \3"),
    (r"\b(\d+) of \1 hold(?:, )?", r""),
    (r", (?=;|$)", r""),  # where all hold nothing is left of a count
)


def verdict_page(tally: str) -> str:
    """Return VERDICTS.md; `tally` is the table paper x verdict."""
    rows, parts = tables.all_verdicts(), tables.all_parts()
    books, papers = gate.by_artefact(), []
    for key, mine in by_paper(rows).items():
        settings = list(dict.fromkeys(map(_setting, mine)))
        above = f"settings-{key}"
        claims = []
        for row in mine:
            judged = _counted(parts[parts["artefact"] == row.artefact])
            same = ("yes", "open", "not run") if row.verdict == "open" else ("yes",)
            others = [part for part in _others(row, judged) if part.answer not in same]
            claims.append(
                _line(row, judged, books.get(row.artefact))
                | {
                    # the name of what has a number says where the paper has it
                    "says": says(row.artefact) or row.source,
                    "answer": answer(row.verdict, judged),
                    "also": others[0] if others else None,
                    "like": sum(part.answer == others[0].answer for part in others),
                    "setting": f"[Setting {settings.index(_setting(row)) + 1}](#{above}).",
                }
            )
        about = {"name": PAPERS[key], "above": above, "settings": settings}
        papers.append(about | {"claims": claims})
    page = pages().get_template("verdicts.md.j2")
    return page.render(tally=tally, papers=papers, answers=_ANSWERS).rstrip() + "\n"


@cache
def pages() -> jinja2.Environment:
    """Return the templates of this folder's pages."""
    found = templates.environment(Path(__file__).parent / "templates")
    found.filters["sentence"] = _sentence
    return found


def _line(row: Any, parts: list, book: gate.Notebook | None) -> dict[str, str]:
    """Return a claim's line of the table, and the names of its block.

    Its numbers are those of the claim's contrast, else of the part that decides.
    """
    first = next(iter(_ranked(row.verdict, parts)), None)
    contrast = declared()[row.artefact].contrast
    first = next((part for part in parts if part.part == contrast), first)
    printed, share = _effect(row, first)
    return {
        "name": name_of(row.artefact),
        "anchor": anchor(row.artefact),
        "full_name": full_name(row.artefact),
        "short": says(row.artefact),
        "verdict": _verdict(row, parts),
        "ours": _found(first, brief=True) if first is not None else "",
        "printed": printed,
        "share": share,
        "links": _links(row, book),
    }


def answer(verdict: str, parts: list) -> str:
    """Return in a sentence what decides a verdict or would settle it, and how many parts hold.

    Where all hold, as in what is reproduced, nothing is counted.
    """
    judged = [part for part in parts if part.role == "paper"]
    n, held = len(judged), sum(part.answer == "yes" for part in judged)
    if all(part.answer == "not run" for part in judged):
        return _sentence(judged[0].ours)
    first = _ranked(verdict, parts)[0]
    words = first.sentence.rstrip(".")
    if first.answer not in ("yes", verdict):
        words = f"{_ANSWERS[first.answer].capitalize()}: {words}"
    # what the verdict says already is not said again
    found = _found(first).removesuffix(f", {NO_HEADROOM}")
    text = _sentence(f"{words}: {found}" if found else words)
    if first.hint.startswith(NO_HEADROOM):
        control = first.hint.removeprefix(f"{NO_HEADROOM}: ")
        seen = "Whether there is anything to win is not seen"
        if "], open" not in control:
            seen = "There is nothing to win here, since this is not seen"
        text += f" {seen}: {_sentence(control)}"
    elif verdict == first.answer == "open" and first.hint not in ("", rules.DISAGREE, NOT_SEEN):
        text += f" {_sentence(first.hint)}"
    errata = sorted({str(int(part.erratum)) for part in parts if part.erratum}, key=int)
    listed = " and ".join(filter(None, [", ".join(errata[:-1]), *errata[-1:]]))
    named = f"[ERRATA](ERRATA.md) {listed}"
    if verdict == "corrected":
        return f"{text} Corrected by {named}."
    if verdict == "open" and errata and any(part.answer in ("no", "partly") for part in judged):
        text += f" What fails as printed is corrected by {named}."
    missing = sum(part.answer == "not run" for part in judged)
    return text if held == n or n == 1 else f"{text} {parts_held(held, n, missing)}"


def _counted(parts: pd.DataFrame) -> list:
    """Return the parts that count for a verdict, which are not ours."""
    return list(parts[parts["role"] != "beyond"].itertuples())


def _others(row: Any, parts: list) -> list:
    """Return the parts beside the one that decides, those last that hold."""
    if all(part.answer == "not run" for part in parts):
        return []
    return sorted(_ranked(row.verdict, parts)[1:], key=lambda part: part.answer == "yes")


def _ranked(verdict: str, parts: list) -> list:
    """Return the parts, those first that decide the verdict; numbers before bare facts.

    Of bounds that decide alike the one that is nearest to its value, or exceeded most, comes first.
    """

    def ratio(part: Any) -> float:
        found = re.search(rf"largest value / bound ({_NUMBER})", part.ours)
        return float(found[1]) if found else 0.0

    return sorted(
        parts,
        key=lambda part: (
            (part.role == "corrected") != (verdict == "corrected"),
            (DECIDES_OPEN if verdict == "open" else _ORDER).index(part.answer),
            not part.hint.startswith(_LIMITS),
            not (part.interval or part.levels),
            rules.decisive(part.size),
            -ratio(part),
        ),
    )


def _verdict(row: Any, parts: list) -> str:
    paper, corrected = (
        [part for part in parts if part.role == role] for role in ("paper", "corrected")
    )
    return in_full(row.verdict, paper, corrected)


def _found(part: Any, brief: bool = False) -> str:
    """Return what was found: ours first, then the difference, its interval and its size."""
    if part.answer == "not run":
        return "" if brief else part.ours
    ours = part.ours
    for pattern, words in _WORDS:
        ours = re.sub(pattern, words, ours)
    if "bound" not in part.sentence.lower():  # of a part that is about another limit
        ours = ours.replace("times the bound", "times the limit")
    ours = re.sub(r"\d[\d.]*e\+\d+", lambda found: f"{float(found[0]):,.0f}", ours)
    several = part.hint.startswith((rules.DISAGREE, rules.UNDECIDED, rules.THE_SAME))
    if several and (brief or part.hint.startswith(rules.THE_SAME)):
        ours = _side_by_side(ours)
    if brief:  # the block has the intervals
        ours = re.sub(r" \[[^\]]*\]", "", ours) if several else ours.partition(";")[0]
        return f"{ours} {part.interval}".strip()
    count, *entries = ours.split("; ")
    if len(entries) > _MOST_ENTRIES:
        more = f"and {len(entries) - _MOST_ENTRIES} more"
        ours = "; ".join([count, *entries[:_MOST_ENTRIES], more])
    found = f"{ours} {part.interval}".strip()
    why = part.hint if part.answer == "yes" or part.hint.startswith(_LIMITS) else ""
    why = NO_HEADROOM if why.startswith(NO_HEADROOM) else why
    why = "" if several else why
    return ", ".join(text for text in (part.levels, found, part.size, why) if text)


def _side_by_side(ours: str) -> str:
    """Return what was found under several readings without the answers, which are said once."""
    entries = ours.split("; ")
    counts = [entry for entry in entries if entry.endswith(" hold")]
    plain = (re.sub(r": [a-z ]+, ", " ", entry, count=1) for entry in counts or entries)
    return "; ".join(plain)


def _effect(row: Any, part: Any) -> tuple[str, str]:
    """Return the printed difference of a part, or what the paper prints where that is short, and
    ours as a share of it.
    """
    if part is not None and (size := re.search(_SIZE, part.size)):
        return size[2].strip(), size[1].strip()
    return row.printed if len(row.printed.split()) <= 4 else "", ""


def _setting(row: Any) -> str:
    """Return how far the run of a verdict is from the paper's, in words."""
    if row.differs == "nothing was run":
        return "Nothing was run."
    text = row.setting.capitalize()
    if row.differs:
        text += f": {row.differs.rstrip('.')}"
    if row.n_seeds not in ("", "0") and "seeds" not in row.differs:
        text += f"; {row.n_seeds} seeds"
    return f"{text}."


def _links(row: Any, book: gate.Notebook | None) -> str:
    links = []
    figure = f"figures/{row.artefact}.png"
    if (gate.root() / figure).is_file():
        links.append(f"[figure]({figure})")
    if book:
        links.append(f"[{book.number}](notebooks/{book.path.name})")
    return ", ".join(links)


def _sentence(text: str) -> str:
    """Return a text with a capital letter at its beginning and a full stop at its end.

    A symbol, such as b or rho, stays as it is.
    """
    text = text.strip()
    word = re.match(r"(a|[a-z]{2,})(?=[ ,:.']|$)", text)
    first = text[:1].upper() if word and word[0] not in _SYMBOLS else text[:1]
    return first + text[1:] + ("" if text.endswith((".", ":", "?")) else ".")
