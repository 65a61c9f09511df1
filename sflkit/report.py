"""What a reader sees: house style, curves with intervals, figures with passports, tables ours | paper, the README's tables.

Every figure is a png and a pdf under figures/<profile>/ with a passport (json) that names its parameters, the keys of the results
behind it, the commit and a sha256 of the data drawn. Files hold no dates, and a figure whose data and parameters did not change
keeps its passport, so that drawing again changes nothing. Verdict rules live in `sflkit.verdicts`.
"""

from __future__ import annotations

import hashlib
import io
import json
import math
import re
import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pandas as pd

from sflkit import checks, paths
from sflkit.intervals import mean_interval
from sflkit.results import FLOAT_FORMAT, commit, device, plain, versions
from sflkit.verdicts import VERDICTS, Verdict

# One look per cache rule in every figure: colours from the colour-blind-safe palette of Okabe and Ito, dark to light, and a
# line and a marker of its own for grey print.
RULE_STYLE = {
    "full": {"color": "#000000", "linestyle": "-", "marker": "None"},
    "drsr": {"color": "#0072B2", "linestyle": "-", "marker": "o"},
    "srsr": {"color": "#D55E00", "linestyle": (0, (5, 1.5)), "marker": "s"},
    "fifo": {"color": "#009E73", "linestyle": (0, (4, 1.5, 1, 1.5)), "marker": "^"},
    "lazy": {"color": "#CC79A7", "linestyle": (0, (1, 1.2)), "marker": "D"},
    "reservoir": {"color": "#E69F00", "linestyle": (0, (3, 1, 1, 1, 1, 1)), "marker": "v"},
    "full_refreshed": {"color": "#666666", "linestyle": (0, (8, 2)), "marker": "x"},
}
RULE_LABEL = {rule: rule.upper() for rule in RULE_STYLE} | {"reservoir": "Reservoir", "full_refreshed": "FULL, refreshed"}
_SERIES = [look for rule, look in RULE_STYLE.items() if not rule.startswith("full")] + [
    {"color": "#56B4E9", "linestyle": (0, (6, 1, 1, 1, 1, 1)), "marker": "P"}, RULE_STYLE["full"]]
MAX_PNG_BYTES = 300_000
# seaborn 0.13's theme "whitegrid" for notebooks, which differs from matplotlib's own in these; importing seaborn for them takes
# a second in every notebook, most of it for scipy.stats.
_TICKS = {"labelsize": 11.0, "color": ".15", "major.size": 6.0, "major.width": 1.25, "minor.size": 4.0, "minor.width": 1.0}
_THEME = {f"{axis}tick.{name}": value for axis in "xy" for name, value in _TICKS.items()} | {
    "xtick.bottom": False, "ytick.left": False, "axes.axisbelow": True, "axes.edgecolor": ".8", "axes.facecolor": "white",
    "axes.grid": True, "axes.labelcolor": ".15", "axes.labelsize": 12.0, "axes.linewidth": 1.25, "figure.facecolor": "white",
    "font.sans-serif": ["Arial", "DejaVu Sans", "Liberation Sans", "Bitstream Vera Sans", "sans-serif"], "grid.color": ".8",
    "grid.linestyle": "-", "legend.fontsize": 11.0, "legend.title_fontsize": 12.0, "lines.solid_capstyle": "round",
    "patch.edgecolor": "w", "patch.force_edgecolor": True, "patch.linewidth": 1.0, "text.color": ".15"}
_VERDICT_COLUMNS = ["artefact", "verdict", "claim", "rule", "ours", "interval", "paper", "n_seeds", "profile", "note"]


# --- drawing -------------------------------------------------------------------------------------------------------------------

def style() -> None:
    """Set the house style: seaborn's theme, colour-blind-safe colours, sizes that survive a two-column print."""
    import matplotlib

    matplotlib.rcParams.update(_THEME | {
        "axes.prop_cycle": matplotlib.cycler(color=[look["color"] for look in _SERIES]),
        "figure.figsize": (6.4, 3.8), "figure.dpi": 100, "figure.constrained_layout.use": True,
        "axes.spines.right": False, "axes.spines.top": False, "axes.titlesize": "medium",
        "legend.frameon": False, "legend.handlelength": 2.8,
        "grid.linewidth": 0.6, "lines.linewidth": 1.8, "lines.markersize": 5, "image.cmap": "cividis",
        "font.family": "DejaVu Sans", "font.size": 10, "pdf.fonttype": 42})


def series_style(name, index: int = 0) -> dict:
    """Return colour, line and marker of a cache rule, or of the `index`-th series when `name` is no rule."""
    key = name.lower() if isinstance(name, str) else name
    return dict(RULE_STYLE[key] if key in RULE_STYLE else _SERIES[index % len(_SERIES)])


def curves(ax, frame: pd.DataFrame, x: str, y: str, hue: str, *, interval: float | None = 0.95, labels: Mapping | None = None,
           markers: int = 8):
    """Draw one line per value of `hue`: the mean over seeds, with Student's interval as a band (None: no band).

    `frame` has one row per seed, x and hue; every row of one (hue, x) counts as an independent seed. Missing values are left out.
    Cache rules get their `RULE_STYLE`; `markers` is the number of markers on a line. Returns `ax`.
    Raises ValueError on an unknown column or an interval outside (0, 1).
    """
    from scipy import special

    for column in (x, y, hue):
        checks.choice("column", column, frame.columns)
    if interval is not None:
        checks.real("interval", interval, above=0.0, below=1.0)
    names = list(dict.fromkeys(frame[hue]))
    if all(name in RULE_STYLE for name in names):
        names.sort(key=list(RULE_STYLE).index)
    for index, name in enumerate(names):
        part = frame.loc[frame[hue] == name].groupby(x)[y].agg(["mean", "std", "count"]).dropna(subset="mean")
        look = series_style(name, index)
        every = max(1, len(part) // max(1, markers))
        label = (labels or RULE_LABEL).get(name, str(name))
        ax.plot(part.index, part["mean"], label=label, markevery=(index * every // max(1, len(names)), every), zorder=3, **look)
        if interval is not None and (part["count"] > 1).any():
            half = special.stdtrit(part["count"] - 1, 0.5 + interval / 2) * part["std"] / np.sqrt(part["count"])
            ax.fill_between(part.index, part["mean"] - half, part["mean"] + half, color=look["color"], alpha=0.18, linewidth=0)
    ax.set(xlabel=x, ylabel=y)
    if len(names) > 1:
        ax.legend()
    return ax


def save_figure(fig, artefact: str, *, profile: str, data, parameters: Mapping, keys: Iterable[str] = (), caption: str = "",
                notebook: str = "", folder: Path | str | None = None) -> Path:
    """Write `<artefact>.png` (150 dpi, at most 300 kB), `.pdf` and the passport `.json`, and the figure's row of index.csv.

    Parameters
    ----------
    data : what is drawn: a DataFrame, an array, or a dict of them; its digest goes into the passport.
    parameters : the notebook's parameters (numbers, strings, booleans, lists).
    keys : the result keys behind the figure, `run_many(...).attrs["keys"]`.
    folder : default `paths.figures(profile)`.

    Returns the png's path. Raises ValueError on an artefact or profile that is no id, TypeError on parameters json cannot hold.
    """
    if not re.fullmatch(r"[a-z0-9][a-z0-9-]*", str(artefact)):
        raise ValueError(f"artefact={artefact!r} must be an id of lower-case letters, digits and -, such as 'sfl-fig5a'")
    folder = paths.figures(profile) if folder is None else Path(folder)
    passport = {"artefact": artefact, "profile": paths.check_profile(profile), "caption": caption, "notebook": notebook,
                "parameters": plain(dict(parameters), "parameters"), "results": sorted(set(keys)),
                "data_sha256": data_digest(data), "versions": versions() | {"matplotlib": _matplotlib_version()}}
    with paths.lock(folder / "index.csv"):
        paths.write_atomic(folder / f"{artefact}.png", _png(fig, artefact))
        paths.write_atomic(folder / f"{artefact}.pdf", _pdf(fig))
        _write_passport(folder / f"{artefact}.json", passport)
        row = {"artefact": artefact, "notebook": notebook, "caption": caption, "results": len(passport["results"]),
               "data_sha256": passport["data_sha256"]}
        _upsert(folder / "index.csv", row)
    return folder / f"{artefact}.png"


def data_digest(data) -> str:
    """Return the sha256 of drawn data (DataFrame, array, or dict of them) at 7 significant digits."""
    digest = hashlib.sha256()
    for name, value in (data.items() if isinstance(data, Mapping) else [("", data)]):
        if not isinstance(value, pd.DataFrame):
            array = np.asarray(value)
            value = pd.DataFrame(array.reshape(array.shape[0] if array.ndim else 1, -1))
        digest.update(f"{name}\n{value.to_csv(index=False, float_format=FLOAT_FORMAT, lineterminator=chr(10))}".encode())
    return digest.hexdigest()


# --- verdicts and tables -------------------------------------------------------------------------------------------------------

def record(verdict: Verdict, profile: str | None = None, *, folder: Path | str | None = None) -> Path:
    """Put a verdict into figures/<profile>/verdicts.csv, one row an artefact; return the file (`profile`: its own).

    Raises ValueError on a profile that is no id.
    """
    verdict = replace(verdict, profile=paths.check_profile(verdict.profile if profile is None else profile))
    folder = paths.figures(verdict.profile) if folder is None else Path(folder)
    with paths.lock(folder / "verdicts.csv"):
        _upsert(folder / "verdicts.csv", {name: asdict(verdict)[name] for name in _VERDICT_COLUMNS})
    return folder / "verdicts.csv"


def all_verdicts(root: Path | str | None = None) -> pd.DataFrame:
    """Return the recorded verdicts of all profiles, one row an artefact: paper wins over quick where it was run."""
    root = paths.figures_root() if root is None else Path(root)
    rows = [row for file in sorted(root.glob("*/verdicts.csv")) for row in _read_table(file).to_dict("records")]
    rank = {"paper": 0, "quick": 1}
    rows.sort(key=lambda row: (natural_key(row["artefact"]), row["verdict"] == "not run", rank.get(row["profile"], 2)))
    return pd.DataFrame(rows, columns=_VERDICT_COLUMNS).drop_duplicates("artefact").reset_index(drop=True)


def comparison(rows: Iterable) -> pd.DataFrame:
    """Return the table quantity | ours | paper | difference | verdict.

    Each row is a `Verdict`, or a dict with quantity, ours, paper and perhaps verdict, where ours is a number, one number a seed
    (shown as mean +- half of the 95 % interval) or text, and paper a number, text or None.
    """
    return pd.DataFrame([_comparison_row(row) for row in rows], columns=["quantity", "ours", "paper", "difference", "verdict"])


def markdown(frame: pd.DataFrame) -> str:
    """Return a frame of texts and numbers as a Markdown table."""
    def line(cells):
        texts = [re.sub(r"\s+", " ", str(cell)).replace("|", "\\|") for cell in cells]
        return "| " + " | ".join(texts) + " |"

    return "\n".join([line(frame.columns), "|" + "---|" * len(frame.columns), *map(line, frame.itertuples(index=False))])


def paper_values(paper: str) -> pd.DataFrame:
    """Return the numbers transcribed from a paper: artefact, quantity, value, source. Raises ValueError on an unknown paper."""
    file = paths.paper_values() / f"{paper}.csv"
    if not file.is_file():
        known = sorted(p.stem for p in file.parent.glob("*.csv"))
        raise ValueError(f"paper={paper!r} must be one of {', '.join(map(repr, known)) or f'the tables in {file.parent}: none'}")
    return pd.read_csv(file)


def paper_value(paper: str, artefact: str, quantity: str) -> float:
    """Return one transcribed number. Raises ValueError on an unknown paper, artefact or quantity."""
    table = paper_values(paper)
    table = table[table["artefact"] == checks.choice("artefact", artefact, sorted(set(table["artefact"])))]
    return float(table.set_index("quantity")["value"][checks.choice("quantity", quantity, table["quantity"])])


def provenance(profile: str = "quick") -> str:
    """Return one line that says what produced the numbers: versions, commit, profile, device.

    Raises ValueError on a profile that is no id.
    """
    found = versions()
    others = [f"{name} {found[name]}" for name in found if name != "sflkit"]
    first = [f"sflkit {found['sflkit']}", f"commit {commit()}", f"profile {paths.check_profile(profile)}"]
    return " · ".join([*first, *others, device()])


def refresh_block(text: str, name: str, content: str) -> str:
    """Return `text` with what stands between `<!-- name:begin -->` and `<!-- name:end -->` replaced by `content`.

    Raises ValueError unless each of the two is there once, in that order.
    """
    begin, end = f"<!-- {name}:begin -->", f"<!-- {name}:end -->"
    if text.count(begin) != 1 or text.count(end) != 1 or text.index(begin) > text.index(end):
        raise ValueError(f"the text must hold {begin} and then {end}, once each")
    return f"{text[:text.index(begin)]}{begin}\n{content.strip()}\n{text[text.index(end):]}"


def refresh_readme(path: Path | str | None = None, *, check: bool = False,
                   blocks: Mapping[str, Callable[[], str]] | None = None) -> bool:
    """Rewrite the README's tables and return whether they were up to date; with `check=True` only look.

    `verdicts` is made here from figures/*/verdicts.csv; `blocks` adds others, name -> function that returns Markdown.
    Raises ValueError without a path outside a clone, or when a block is missing from the file.
    """
    if path is None:
        root = paths.clone_root()
        if root is None:
            raise ValueError("path=None needs a clone of sflkit as the working directory; give the README's path")
        path = root / "README.md"
    path = Path(path)
    old = new = path.read_text(encoding="utf-8")
    for name, content in ({"verdicts": verdict_table} | dict(blocks or {})).items():
        new = refresh_block(new, name, content())
    if new != old and not check:
        paths.write_atomic(path, new)
    return new == old


def verdict_table() -> str:
    """Return the README's verdict table: tallies, then one line an artefact."""
    rows = all_verdicts()
    if rows.empty:
        return "No verdicts yet: `make figures` writes them."
    tally = rows["verdict"].value_counts()
    summary = ", ".join(f"{tally[name]} {name}" for name in VERDICTS if name in tally)
    columns = ["artefact", "verdict", "claim", "ours", "paper", "profile", "note"]
    return f"{len(rows)} claims: {summary}.\n\n{markdown(rows[columns])}"


def natural_key(text: str) -> tuple:
    """Return a sort key that puts sfl-fig2 before sfl-fig10."""
    return tuple(int(part) if part.isdigit() else part for part in re.split(r"(\d+)", text))


# --- helpers -------------------------------------------------------------------------------------------------------------------

def _comparison_row(row) -> dict:
    if isinstance(row, Verdict):
        return {"quantity": row.claim, "ours": row.ours, "paper": row.paper, "difference": "", "verdict": row.verdict}
    ours, paper = row["ours"], row.get("paper")
    if isinstance(ours, str):
        value, text = None, ours
    elif np.ndim(ours) == 0:
        value, text = float(ours), f"{ours:.4g}"
    else:
        estimate = mean_interval(ours)
        value, text = estimate.mean, f"{estimate.mean:.4g}"
        text += f" ± {estimate.high - estimate.mean:.2g}" if estimate.n > 1 else " (one seed)"
    number = isinstance(paper, int | float | np.number) and not isinstance(paper, bool)
    difference = ""
    if number and value is not None:
        digits = 3 - math.floor(math.log10(max(abs(value), abs(paper), 1e-300)))  # as many as the two numbers are shown with
        difference = f"{round(value - paper, digits) + 0.0:+.3g}"
    return {"quantity": row["quantity"], "ours": text, "paper": f"{paper:.4g}" if number else paper or "not stated",
            "difference": difference, "verdict": row.get("verdict", "")}


def _png(fig, artefact: str) -> bytes:
    buffer = io.BytesIO()
    fig.savefig(buffer, format="png", dpi=150, metadata={"Software": None})
    if buffer.tell() > MAX_PNG_BYTES:  # 256 colours are plenty for a plot and a third of the bytes
        from PIL import Image

        image = Image.open(buffer).convert("RGB").quantize(256, dither=Image.Dither.NONE)
        buffer = io.BytesIO()
        image.save(buffer, format="png", optimize=True, dpi=(150, 150))
        if buffer.tell() > MAX_PNG_BYTES:
            warnings.warn(f"{artefact}.png has {buffer.tell()} bytes; figures should stay below {MAX_PNG_BYTES}", stacklevel=3)
    return buffer.getvalue()


def _pdf(fig) -> bytes:
    buffer = io.BytesIO()
    fig.savefig(buffer, format="pdf", metadata={"CreationDate": None, "ModDate": None, "Creator": None, "Producer": None})
    return buffer.getvalue()


def _matplotlib_version() -> str:
    import matplotlib

    return matplotlib.__version__


def _write_passport(file: Path, passport: dict) -> None:
    try:
        old = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        old = {}
    same = {k: v for k, v in old.items() if k != "commit"} == passport
    # The commit that first drew this figure stays, unless its source differed from it ("+") and a clean one draws the same.
    if not same or (str(old.get("commit")).endswith("+") and not commit().endswith("+") and commit() != "none"):
        paths.write_atomic(file, json.dumps(passport | {"commit": commit()}, indent=1, sort_keys=True) + "\n")


def _read_table(file: Path) -> pd.DataFrame:
    return pd.read_csv(file, dtype=str, keep_default_na=False)


def _upsert(file: Path, row: Mapping) -> None:
    """Replace the artefact's row in a sorted table; the caller holds the lock."""
    row = {name: str(value) for name, value in row.items()}
    rows = {r["artefact"]: r for r in _read_table(file).to_dict("records")} if file.is_file() else {}
    rows[row["artefact"]] = row
    table = pd.DataFrame([rows[artefact] for artefact in sorted(rows, key=natural_key)], columns=list(row)).fillna("")
    paths.write_atomic(file, table.to_csv(index=False, lineterminator="\n"))
