"""What a reader sees: house style, curves with intervals, figures with passports, tables ours |
paper, the README's tables.

Every figure is a png and a pdf under figures/<profile>/ with a passport (json) that names its
parameters, the keys of the results behind it, the commit and a sha256 of the data drawn. Files hold
no dates, and a figure whose data and parameters did not change keeps its passport, so that drawing
again changes nothing. Verdict rules live in `sflkit.results.verdicts`."""

from __future__ import annotations

import hashlib
import io
import json
import re
import warnings
from collections.abc import Iterable, Mapping
from pathlib import Path

import numpy as np
import pandas as pd

from sflkit import checks, paths
from sflkit.results.store import FLOAT_FORMAT, commit, plain, versions
from sflkit.results.tables import upsert_row

# One look per cache rule in every figure: colours from the colour-blind-safe palette of Okabe and
# Ito, dark to light, and a line and a marker of its own for grey print.
RULE_STYLE = {
    "full": {"color": "#000000", "linestyle": "-", "marker": "None"},
    "drsr": {"color": "#0072B2", "linestyle": "-", "marker": "o"},
    "srsr": {"color": "#D55E00", "linestyle": (0, (5, 1.5)), "marker": "s"},
    "fifo": {"color": "#009E73", "linestyle": (0, (4, 1.5, 1, 1.5)), "marker": "^"},
    "lazy": {"color": "#CC79A7", "linestyle": (0, (1, 1.2)), "marker": "D"},
    "reservoir": {"color": "#E69F00", "linestyle": (0, (3, 1, 1, 1, 1, 1)), "marker": "v"},
    "full_refreshed": {"color": "#666666", "linestyle": (0, (8, 2)), "marker": "x"},
}


RULE_LABEL = {rule: rule.upper() for rule in RULE_STYLE} | {
    "reservoir": "Reservoir",
    "full_refreshed": "FULL, refreshed",
}


_SERIES = [look for rule, look in RULE_STYLE.items() if not rule.startswith("full")] + [
    {"color": "#56B4E9", "linestyle": (0, (6, 1, 1, 1, 1, 1)), "marker": "P"},
    RULE_STYLE["full"],
]


MAX_PNG_BYTES = 300_000


# seaborn 0.13's theme "whitegrid" for notebooks, which differs from matplotlib's own in these;
# importing seaborn for them takes a second in every notebook, most of it for scipy.stats.
_TICKS = {
    "labelsize": 11.0,
    "color": ".15",
    "major.size": 6.0,
    "major.width": 1.25,
    "minor.size": 4.0,
    "minor.width": 1.0,
}


_THEME = {f"{axis}tick.{name}": value for axis in "xy" for name, value in _TICKS.items()} | {
    "xtick.bottom": False,
    "ytick.left": False,
    "axes.axisbelow": True,
    "axes.edgecolor": ".8",
    "axes.facecolor": "white",
    "axes.grid": True,
    "axes.labelcolor": ".15",
    "axes.labelsize": 12.0,
    "axes.linewidth": 1.25,
    "figure.facecolor": "white",
    "font.sans-serif": [
        "Arial",
        "DejaVu Sans",
        "Liberation Sans",
        "Bitstream Vera Sans",
        "sans-serif",
    ],
    "grid.color": ".8",
    "grid.linestyle": "-",
    "legend.fontsize": 11.0,
    "legend.title_fontsize": 12.0,
    "lines.solid_capstyle": "round",
    "patch.edgecolor": "w",
    "patch.force_edgecolor": True,
    "patch.linewidth": 1.0,
    "text.color": ".15",
}


# --- drawing -------------------------------------------------------------------------------------------------------------------


def style() -> None:
    """Set the house style: seaborn's theme, colour-blind-safe colours, sizes that survive a
    two-column print.
    """
    import matplotlib

    matplotlib.rcParams.update(
        _THEME
        | {
            "axes.prop_cycle": matplotlib.cycler(color=[look["color"] for look in _SERIES]),
            "figure.figsize": (6.4, 3.8),
            "figure.dpi": 100,
            "figure.constrained_layout.use": True,
            "axes.spines.right": False,
            "axes.spines.top": False,
            "axes.titlesize": "medium",
            "legend.frameon": False,
            "legend.handlelength": 2.8,
            "grid.linewidth": 0.6,
            "lines.linewidth": 1.8,
            "lines.markersize": 5,
            "image.cmap": "cividis",
            "font.family": "DejaVu Sans",
            "font.size": 10,
            "pdf.fonttype": 42,
        }
    )


def series_style(name, index: int = 0) -> dict:
    """Return colour, line and marker of a cache rule, or of the `index`-th series when `name` is no
    rule.
    """
    key = name.lower() if isinstance(name, str) else name
    return dict(RULE_STYLE[key] if key in RULE_STYLE else _SERIES[index % len(_SERIES)])


def curves(
    ax,
    frame: pd.DataFrame,
    x: str,
    y: str,
    hue: str,
    *,
    interval: float | None = 0.95,
    labels: Mapping | None = None,
    markers: int = 8,
):
    """Draw one line per value of `hue`: the mean over seeds, with Student's interval as a band
    (None: no band).

    `frame` has one row per seed, x and hue; every row of one (hue, x) counts as an independent
    seed. Missing values are left out. Cache rules get their `RULE_STYLE`; `markers` is the number
    of markers on a line. Returns `ax`. Raises ValueError on an unknown column or an interval
    outside (0, 1)."""
    from scipy import special

    for column in (x, y, hue):
        checks.choice("column", column, frame.columns)
    if interval is not None:
        checks.real("interval", interval, above=0.0, below=1.0)
    names = list(dict.fromkeys(frame[hue]))
    if all(name in RULE_STYLE for name in names):
        names.sort(key=list(RULE_STYLE).index)
    for index, name in enumerate(names):
        part = (
            frame.loc[frame[hue] == name]
            .groupby(x)[y]
            .agg(["mean", "std", "count"])
            .dropna(subset="mean")
        )
        look = series_style(name, index)
        every = max(1, len(part) // max(1, markers))
        label = (labels or RULE_LABEL).get(name, str(name))
        ax.plot(
            part.index,
            part["mean"],
            label=label,
            markevery=(index * every // max(1, len(names)), every),
            zorder=3,
            **look,
        )
        if interval is not None and (part["count"] > 1).any():
            half = (
                special.stdtrit(part["count"] - 1, 0.5 + interval / 2)
                * part["std"]
                / np.sqrt(part["count"])
            )
            ax.fill_between(
                part.index,
                part["mean"] - half,
                part["mean"] + half,
                color=look["color"],
                alpha=0.18,
                linewidth=0,
            )
    ax.set(xlabel=x, ylabel=y)
    if len(names) > 1:
        ax.legend()
    return ax


def save_figure(
    fig,
    artefact: str,
    *,
    profile: str,
    data,
    parameters: Mapping,
    keys: Iterable[str] = (),
    caption: str = "",
    notebook: str = "",
    folder: Path | str | None = None,
) -> Path:
    """Write `<artefact>.png` (150 dpi, at most 300 kB), `.pdf` and the passport `.json`, and the
    figure's row of index.csv.

    Parameters
    ----------
    data : what is drawn: a DataFrame, an array, or a dict of them; its digest goes into the passport.
    parameters : the notebook's parameters (numbers, strings, booleans, lists).
    keys : the result keys behind the figure, `run_many(...).attrs["keys"]`.
    folder : default `paths.figures(profile)`.

    Returns the png's path. Raises ValueError on an artefact or profile that is no id, TypeError on
    parameters json cannot hold."""
    if not re.fullmatch(r"[a-z0-9][a-z0-9-]*", str(artefact)):
        raise ValueError(
            f"artefact={artefact!r} must be an id of lower-case letters, digits and -, such as 'sfl-fig5a'"
        )
    folder = paths.figures(profile) if folder is None else Path(folder)
    passport = {
        "artefact": artefact,
        "profile": paths.check_profile(profile),
        "caption": caption,
        "notebook": notebook,
        "parameters": plain(dict(parameters), "parameters"),
        "results": sorted(set(keys)),
        "data_sha256": data_digest(data),
        "versions": versions() | {"matplotlib": _matplotlib_version()},
    }
    with paths.lock(folder / "index.csv"):
        paths.write_atomic(folder / f"{artefact}.png", _png(fig, artefact))
        paths.write_atomic(folder / f"{artefact}.pdf", _pdf(fig))
        _write_passport(folder / f"{artefact}.json", passport)
        row = {
            "artefact": artefact,
            "notebook": notebook,
            "caption": caption,
            "results": len(passport["results"]),
            "data_sha256": passport["data_sha256"],
        }
        upsert_row(folder / "index.csv", row)
    return folder / f"{artefact}.png"


def data_digest(data) -> str:
    """Return the sha256 of drawn data (DataFrame, array, or dict of them) at 7 significant digits."""
    digest = hashlib.sha256()
    for name, value in data.items() if isinstance(data, Mapping) else [("", data)]:
        if not isinstance(value, pd.DataFrame):
            array = np.asarray(value)
            value = pd.DataFrame(array.reshape(array.shape[0] if array.ndim else 1, -1))
        digest.update(
            f"{name}\n{value.to_csv(index=False, float_format=FLOAT_FORMAT, lineterminator=chr(10))}".encode()
        )
    return digest.hexdigest()


def _png(fig, artefact: str) -> bytes:
    buffer = io.BytesIO()
    fig.savefig(buffer, format="png", dpi=150, metadata={"Software": None})
    if buffer.tell() > MAX_PNG_BYTES:  # 256 colours are plenty for a plot and a third of the bytes
        from PIL import Image

        image = Image.open(buffer).convert("RGB").quantize(256, dither=Image.Dither.NONE)
        buffer = io.BytesIO()
        image.save(buffer, format="png", optimize=True, dpi=(150, 150))
        if buffer.tell() > MAX_PNG_BYTES:
            warnings.warn(
                f"{artefact}.png has {buffer.tell()} bytes; figures should stay below {MAX_PNG_BYTES}",
                stacklevel=3,
            )
    return buffer.getvalue()


def _pdf(fig) -> bytes:
    buffer = io.BytesIO()
    fig.savefig(
        buffer,
        format="pdf",
        metadata={"CreationDate": None, "ModDate": None, "Creator": None, "Producer": None},
    )
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
    # The commit that first drew this figure stays, unless its source differed from it ("+") and a
    # clean one draws the same.
    if not same or (
        str(old.get("commit")).endswith("+") and not commit().endswith("+") and commit() != "none"
    ):
        paths.write_atomic(
            file, json.dumps(passport | {"commit": commit()}, indent=1, sort_keys=True) + "\n"
        )


def end_intervals(ax, frame, x: str, y: str, hue: str) -> None:
    """Draw right of each line of `figures.curves` the 95 % interval of its last point over the
    seeds, for lines whose bands would hide one another. `frame` and names as there; the lines
    come in the order in which `frame` names them.
    """
    from sflkit.results import intervals

    last = frame[frame[x] == frame[x].max()]
    for i, (name, line) in enumerate(zip(dict.fromkeys(frame[hue]), ax.get_lines(), strict=True)):
        sample = last.loc[last[hue] == name, y].dropna()
        if len(sample) > 1:
            at, place = (
                intervals.mean_interval(sample.to_numpy()),
                frame[x].max() * (1.02 + 0.02 * i),
            )
            ax.plot([place, place], [at.low, at.high], color=line.get_color(), linewidth=2)
