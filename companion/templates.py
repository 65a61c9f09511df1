"""Pages are Jinja2 templates with named values. One that is gone stops the page, with its name."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import jinja2


def environment(folder: Path | str) -> jinja2.Environment:
    """Return an environment for the templates in a folder, which write Markdown.

    A name that has no value raises `jinja2.UndefinedError`. The filter `cell` brings a text into
    one line for a cell of a table.
    """
    pages = jinja2.Environment(
        loader=jinja2.FileSystemLoader(folder),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    pages.filters["cell"] = _cell
    return pages


def _cell(text: Any) -> str:
    return re.sub(r"\s+", " ", str(text)).replace("|", "\\|")
