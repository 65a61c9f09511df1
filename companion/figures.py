"""What a reader sees: the house style, curves with intervals, and figures with passports.

Every figure is a png under figures/ with a passport (json) that names its
parameters, the keys of the results behind it, versions and a sha256 of the data drawn. Files hold
neither dates nor commits, and a figure that did not change keeps its passport, so that drawing
again changes nothing. Tables are in `companion.judging.tables`, claims and their verdicts in
`companion.judging.claims`.
"""

from __future__ import annotations

import base64
import hashlib
import io
import itertools
import json
import os
import re
import sys
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from companion.judging.tables import say_if_unpublished, versions_at_hand
from sflkit import intervals, paths
from sflkit.registry import Registry
from sflkit.runs import sums
from sflkit.runs.keys import plain
from sflkit.runs.store import FLOAT_FORMAT

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from PIL import Image

# The looks of series that are no rule of a registry, in this order: colours from the
# colour-blind-safe palette of Okabe and Ito, dark to light, and a line and a marker of its own for
# grey print.
_SERIES = [
    {"color": "#0072B2", "linestyle": "-", "marker": "o"},
    {"color": "#D55E00", "linestyle": (0, (5, 1.5)), "marker": "s"},
    {"color": "#009E73", "linestyle": (0, (4, 1.5, 1, 1.5)), "marker": "^"},
    {"color": "#CC79A7", "linestyle": (0, (1, 1.2)), "marker": "D"},
    {"color": "#E69F00", "linestyle": (0, (3, 1, 1, 1, 1, 1)), "marker": "v"},
    {"color": "#56B4E9", "linestyle": (0, (6, 1, 1, 1, 1, 1)), "marker": "P"},
    {"color": "#000000", "linestyle": "-", "marker": "None"},
]
# What the house changes in seaborn's theme: sizes that survive a two-column print.
_HOUSE = {
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
MAX_PNG_BYTES = 300_000
EMBEDDED_WIDTH, LEAST_WIDTH = 960, 900  # pixels of a figure in a notebook
_MARGIN = 8  # pixels around an embedded figure
PDF = "SFLKIT_PDF"  # 1 has every figure drawn as a pdf as well
LARGEST_CSV = 1_000_000  # characters
OTHERS = ("overview", "parameters", "verdicts", "parts")  # files of no artefact
_saved: WeakKeyDictionary[Figure, bytes] = WeakKeyDictionary()  # the png of each saved figure
Drawn = pd.DataFrame | ArrayLike | Mapping[str, pd.DataFrame | ArrayLike]


# --- drawing --------------------------------------------------------------------------------------


def style() -> None:
    """Set the house style: seaborn's theme, colour-blind-safe colours, our own sizes.

    Tables of pandas are shown with whole cells and all columns. In a notebook, figures are shown as
    `embedded` draws them, whatever their size in inches and their `dpi`.
    """
    import matplotlib
    import seaborn

    _embed_in_notebooks()
    pd.set_option("display.max_colwidth", None, "display.max_columns", None)
    colors = matplotlib.cycler(color=[look["color"] for look in _SERIES])
    seaborn.set_theme(
        context="notebook",
        style="whitegrid",
        color_codes=False,
        rc=_HOUSE | {"axes.prop_cycle": colors},
    )


def embedded(fig: Figure) -> bytes:
    """Return the png that a notebook shows of a figure: 960 pixels wide, in at most 256 colours.

    One that `save_figure` wrote is shown as it was drawn there. An empty border is cut off, but a
    figure of at least 900 pixels remains; one of which less than a tenth would remain keeps its
    border. Lines and letters keep their sizes in proportion to the figure's width, so a figure that
    is 6.4 inches wide has larger letters than one of 9.6 inches.
    """
    if fig in _saved:  # one drawing for notebook and file
        image = _without_border(io.BytesIO(_saved[fig]))
        if image.width >= LEAST_WIDTH:
            height = round(image.height * EMBEDDED_WIDTH / image.width)
            return _in_few_colours(image.resize((EMBEDDED_WIDTH, height)))
    dpi = EMBEDDED_WIDTH / fig.get_figwidth()
    buffer = _drawn(fig, dpi)
    image = _without_border(buffer)
    if image.width < EMBEDDED_WIDTH / 10:  # enlarged, it would have a hundred times the pixels
        return _in_few_colours(_pixels(buffer))
    if image.width < LEAST_WIDTH:
        dpi *= (EMBEDDED_WIDTH - 2 * _MARGIN) / (image.width - 2 * _MARGIN)
        image = _without_border(_drawn(fig, dpi))
    return _in_few_colours(image)


def small_png(fig: Figure, dpi: int) -> bytes:
    """Return the png of a whole figure, in at most 256 colours."""
    return _in_few_colours(_pixels(_drawn(fig, dpi)), optimize=True, dpi=(dpi, dpi))


def _drawn(fig: Figure, dpi: float) -> io.BytesIO:
    buffer = io.BytesIO()
    _round(fig)
    fig.savefig(buffer, format="png", dpi=dpi, metadata={"Software": None})
    return buffer


def _round(fig: Figure) -> None:
    """Round what a figure shows, and its axes' limits, to the seven digits of its csv.

    What lies behind these digits differs from processor to processor, and would move a pixel.
    """
    from matplotlib.collections import LineCollection, PolyCollection

    for ax in fig.axes:
        limits = [_digits(ax.get_xlim()), _digits(ax.get_ylim())]
        for line in ax.lines:
            line.set_data(*(_digits(line.get_data(orig=False)[i]) for i in (0, 1)))
        for collection in ax.collections:
            collection.set_offsets(_digits(collection.get_offsets()))
            if isinstance(collection, PolyCollection | LineCollection):
                for path in collection.get_paths():
                    path.vertices = _digits(path.vertices)
        for shown in (*ax.images, *ax.collections):
            if shown.get_array() is not None:
                shown.set_array(_digits(shown.get_array()))
        for patch in ax.patches:
            if hasattr(patch, "set_bounds"):
                patch.set_bounds(*_digits(patch.get_bbox().bounds))
        ax.set_xlim(limits[0], auto=None)
        ax.set_ylim(limits[1], auto=None)


def _digits(values: ArrayLike) -> np.ndarray:
    """Return numbers rounded to the digits of a csv; masks, missing and infinite ones stay."""
    rounded = np.ma.array(values, dtype=float, copy=True)
    flat = [float(FLOAT_FORMAT % value) for value in rounded.data.ravel()]
    rounded.data[...] = np.reshape(flat, rounded.shape)
    return rounded if np.ma.is_masked(rounded) else rounded.data


def _pixels(png: io.BytesIO) -> Image.Image:
    from PIL import Image

    return Image.open(png).convert("RGB")


def _without_border(png: io.BytesIO) -> Image.Image:
    """Return a png's pixels without the border that has the colour of its first pixel."""
    from PIL import Image, ImageChops

    image = _pixels(png)
    paper = Image.new("RGB", image.size, image.getpixel((0, 0)))
    box = ImageChops.difference(image, paper).getbbox()
    if box is None:
        return image
    left, top = (max(end - _MARGIN, 0) for end in box[:2])
    right, bottom = (min(end + _MARGIN, size) for end, size in zip(box[2:], image.size))
    return image.crop((left, top, right, bottom))


def _embed_in_notebooks() -> None:
    """Tell IPython, where a notebook runs in it, to show figures as `embedded` draws them."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython else None
    if shell is None:
        return
    import matplotlib
    import matplotlib.pyplot as plt
    from matplotlib.figure import Figure

    plt.switch_backend(matplotlib.get_backend())  # it sets a formatter of its own when it loads
    shell.display_formatter.formatters["image/png"].for_type(
        Figure, lambda fig: base64.b64encode(embedded(fig)).decode() if fig.axes else None
    )


def series_style(name: Any, index: int = 0, rules: Registry | None = None) -> dict[str, Any]:
    """Return colour, line and marker of one series, as keywords for matplotlib.

    Parameters
    ----------
    name : str or other
        The look of a rule is its own in every figure.
    index : int
        Which look a series gets that is no rule: the `index`-th of the house's seven, then from the
        first again. `curves` knows all series of a figure and leaves out the looks of its rules.
    rules : Registry, optional
        Where rules and their looks stand.
    """
    looks = _rule_looks(rules)
    return dict(looks[name] if name in looks else _SERIES[index % len(_SERIES)])


def curves(
    ax: Axes,
    frame: pd.DataFrame,
    x: str,
    y: str,
    hue: str,
    *,
    rules: Registry | None = None,
    interval: float | None = 0.95,
    labels: Mapping | None = None,
    markers: int = 8,
) -> Axes:
    """Draw one line per value of `hue`: the mean over seeds, and a band around it.

    Parameters
    ----------
    ax : matplotlib Axes
    frame : DataFrame
        One row per seed, x and hue; every row of one (hue, x) counts as an independent seed.
        Missing values are left out.
    x, y, hue : str
        Columns.
    rules : Registry, optional
        Rules that `hue` may name. They get their own looks and labels, and stand in the registry's
        order where `hue` names nothing else. Another value gets the next look that no rule in the
        figure has.
    interval : float or None
        Confidence of the band, which is Student's interval of the mean; None draws no band.
    labels : mapping, optional
        What the legend calls each value, in place of the registry's labels.
    markers : int
        How many markers a line has, about.

    Returns
    -------
    Axes
        `ax`.
    """
    labels = labels or _rule_labels(rules)
    names = list(dict.fromkeys(frame[hue]))
    order = list(_rule_labels(rules))
    if all(name in order for name in names):
        names.sort(key=order.index)
    looks = _looks(names, _rule_looks(rules))
    for index, (name, look) in enumerate(looks.items()):
        part = frame.loc[frame[hue] == name, [x, y]].dropna()
        every = max(1, part[x].nunique() // max(1, markers))
        _mean_line(
            ax,
            part.rename(columns={x: "x", y: "y"}),
            interval,
            label=labels.get(name, str(name)),
            markevery=(index * every // max(1, len(looks)), every),
            markeredgecolor=look["color"],
            **look,
        )
    ax.set(xlabel=x, ylabel=y)
    if len(looks) > 1:
        ax.legend()
    return ax


def _mean_line(ax: Axes, part: pd.DataFrame, interval: float | None, **line: Any) -> None:
    """Draw the mean of the column y over x, with Student's interval where it is known."""
    import seaborn

    def band(sample: pd.Series) -> tuple[float, float]:
        estimate = intervals.mean_interval(sample, interval)
        return estimate.low, estimate.high

    alone = not part["x"].duplicated().any()  # one seed: its interval has no end
    seaborn.lineplot(
        part,
        x="x",
        y="y",
        ax=ax,
        errorbar=None if interval is None or alone else band,
        err_kws={"alpha": 0.18, "linewidth": 0},
        legend=False,
        zorder=3,
        markeredgewidth=1.0,
        **line,
    )


def _looks(names: list, known: Mapping[str, dict]) -> dict[Any, dict]:
    """Return the look of each name of a figure: a rule's own, else the next that no rule has."""
    taken = {known[name]["color"] for name in names if name in known}
    free = [look for look in _SERIES if look["color"] not in taken] or _SERIES
    others = (free[i % len(free)] for i in itertools.count())
    return {name: known[name] if name in known else next(others) for name in names}


def _rule_looks(rules: Registry | None) -> dict[str, dict]:
    if rules is None:
        return {}
    return {name: asdict(rule.look) for name, rule in rules.items() if rule.look is not None}


def _rule_labels(rules: Registry | None) -> dict[str, str]:
    return {} if rules is None else rules.labels()


def save_figure(
    fig: Figure,
    artefact: str,
    *,
    data: Drawn,
    parameters: Mapping,
    keys: Iterable[str] = (),
    caption: str = "",
    notebook: str = "",
    folder: Path | str | None = None,
) -> Path:
    """Write a figure, its passport and their digests.

    The files are `<artefact>.png` (150 dpi, at most 300 kB), the drawn numbers `<artefact>.csv` (at
    most 1 MB) and the passport `<artefact>.json`. Where $SFLKIT_PDF is 1, as under `sflkit figures
    --pdf`, `<artefact>.pdf` is written to out/figures.

    Parameters
    ----------
    fig : matplotlib Figure
    artefact : str
        Its id, such as "sfl-fig5a".
    data : DataFrame, array, or a dict of them
        What is drawn: it is written as csv, and its digest goes into the passport.
    parameters : mapping
        The notebook's parameters (numbers, strings, booleans, lists).
    keys : strings
        The result keys behind the figure, `run_many(...).attrs["keys"]`.
    caption, notebook : str
        For the passport.
    folder : path, optional
        Default `paths.drawn()`; where that is not the folder of the published figures, a
        line says so.

    Returns
    -------
    Path
        That of the png.

    Raises
    ------
    ValueError
        If `artefact` is no id, or names a table of the folder, or the data take more than 1 MB.
    TypeError
        If JSON cannot hold the parameters.
    """
    if not re.fullmatch(r"[a-z0-9][A-Za-z0-9-]*", str(artefact)):
        raise ValueError(
            f"artefact={artefact!r} must be an id of letters, digits and -, such as 'sfl-fig5a'"
        )
    if artefact in OTHERS:
        raise ValueError(f"artefact={artefact!r} names another file of figures/; take another id")
    folder = paths.drawn() if folder is None else Path(folder)
    drawn = data_text(data)
    if len(drawn) > LARGEST_CSV:
        raise ValueError(
            f"the data of {artefact} take {len(drawn) / 1e6:.1f} MB; hand over what is drawn, such "
            f"as means and intervals, in at most {LARGEST_CSV / 1e6:g} MB"
        )
    passport = {
        "artefact": artefact,
        "caption": caption,
        "notebook": notebook,
        "parameters": plain(dict(parameters), "parameters"),
        "results": sorted(set(keys)),
        "data_sha256": hashlib.sha256(drawn.encode()).hexdigest(),
        "versions": versions_at_hand(),
    }
    if os.environ.get(PDF) == "1":
        paths.write_atomic(paths.out() / "figures" / f"{artefact}.pdf", _pdf(fig))
    files = {".png": _png(fig, artefact), ".csv": drawn.encode()}
    with paths.lock(folder / f"{artefact}.json"):
        files[".json"] = _passport(folder / artefact, passport, files)
        for suffix, content in files.items():
            paths.write_atomic(folder / f"{artefact}{suffix}", content)
        sums.put(folder, (f"{artefact}{suffix}" for suffix in files))
    say_if_unpublished(folder / f"{artefact}.png")
    return folder / f"{artefact}.png"


def data_text(data: Drawn) -> str:
    """Return drawn data (DataFrame, array, or dict of them) as the text of a csv file, 7 digits.

    The frames of a dict follow one another; the column `table` says which row is whose. The column
    `key` of a sweep's frame is left out: it names results, and the passport lists them.
    """
    named = isinstance(data, Mapping)
    frames = []
    for name, value in data.items() if named else [("", data)]:
        if not isinstance(value, pd.DataFrame):
            array = np.asarray(value)
            value = pd.DataFrame(array.reshape(array.shape[0] if array.ndim else 1, -1))
        elif not isinstance(value.index, pd.RangeIndex):
            value = value.reset_index()
        value = value.drop(columns="key", errors="ignore")
        value.columns = [str(column) for column in value.columns]
        frames.append(value.assign(table=str(name)) if named else value)
    drawn = pd.concat(frames, ignore_index=True)
    if named:
        drawn.insert(0, "table", drawn.pop("table"))
    return drawn.to_csv(index=False, float_format=FLOAT_FORMAT, lineterminator="\n")


def _png(fig: Figure, artefact: str) -> bytes:
    buffer = _drawn(fig, 150)
    _saved[fig] = buffer.getvalue()
    if buffer.tell() <= MAX_PNG_BYTES:
        return buffer.getvalue()
    png = _in_few_colours(_pixels(buffer), optimize=True, dpi=(150, 150))
    if len(png) > MAX_PNG_BYTES:
        warnings.warn(
            f"{artefact}.png has {len(png)} bytes; figures should stay below {MAX_PNG_BYTES}",
            stacklevel=3,
        )
    return png


def _in_few_colours(image: Image.Image, **options: Any) -> bytes:
    """Return a png in 256 colours, which are plenty for a plot and a third of the bytes."""
    from PIL import Image

    buffer = io.BytesIO()
    few = image.quantize(256, dither=Image.Dither.NONE)
    few.save(buffer, format="png", **options)
    return buffer.getvalue()


def _pdf(fig: Figure) -> bytes:
    buffer = io.BytesIO()
    fig.savefig(
        buffer,
        format="pdf",
        metadata={"CreationDate": None, "ModDate": None, "Creator": None, "Producer": None},
    )
    return buffer.getvalue()


def _passport(stem: Path, passport: dict, files: Mapping[str, bytes]) -> bytes:
    """Return the passport of a figure as a file: the old one, unless the figure or what is said of
    it changed.

    The versions are those that first drew the figure as it is; other versions that draw the same
    bytes change nothing.
    """
    file = stem.with_name(f"{stem.name}.json")
    try:
        content = paths.read(file)
        old = json.loads(content)
        same = (
            sums.read(file.parent).get(file.name) == hashlib.sha256(content).hexdigest()
            and all(old.get(name) == said for name, said in passport.items() if name != "versions")
            and all(paths.read(stem.with_name(stem.name + end)) == files[end] for end in files)
        )
    except (OSError, ValueError, AttributeError, RecursionError):
        same = False
    return content if same else (json.dumps(passport, indent=1, sort_keys=True) + "\n").encode()
