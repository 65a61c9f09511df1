"""How Sphinx builds the site; `docs.site` calls it on a copy of the clone's texts."""

import importlib
import re
from pathlib import Path

from docutils import nodes
from sphinx.addnodes import pending_xref

import sflkit

project = "sflkit"
author = copyright = "the sflkit authors"
version = release = sflkit.__version__
extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
    "sphinx.ext.viewcode",
    "numpydoc",
]
root_doc = "README"
# answers are for the lecturer, off the page that a class reads
exclude_patterns = ["docs/labs/answers/*", "docs/templates/*"]
templates_path = [str(Path(__file__).parent / "templates")]
default_role = "py:obj"  # `name` in a docstring is code, and a link where it is one of ours

# notebooks: nothing is executed, and nothing is fetched
nb_execution_mode = "off"
nb_merge_streams = True
nb_ipywidgets_js = {}
nb_output_stderr = "remove"
nb_render_markdown_format = "myst"  # links in outputs are followed as those of texts
myst_enable_extensions = ["dollarmath", "amsmath", "colon_fence", "html_image"]
myst_heading_anchors = 4

# docstrings
autodoc_member_order = "bysource"
autodoc_typehints = "none"  # the docstrings name types, shapes and units
numpydoc_show_class_members = False
viewcode_line_numbers = True
viewcode_follow_imported_members = False  # else it leads back to a place that is not there
mathjax_path = "mathjax/tex-svg.js"  # with its own glyphs; a package of pip has it

# pages
html_theme = "pydata_sphinx_theme"
html_context = {"default_mode": "auto"}
html_title = "sflkit"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sourcelink = False
html_show_sphinx = False
html_show_search_summary = False  # a browser reads no other page from disk
html_sidebars = {page: [] for page in ("README", "VERDICTS", "ERRATA")}
html_theme_options = {
    "collapse_navigation": True,
    "navigation_depth": 2,
    "navbar_align": "left",
    "header_links_before_dropdown": 8,
    "navigation_with_keys": False,
    "show_toc_level": 2,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
}

_TABLE = re.compile(r"^\|.*\|[ ]*\n\|[-:| ]+\|[ ]*\n(?:\|.*(?:\n|$))+", re.M)
# A paragraph that is not indented, and behind an empty line code that is.
_CODE = re.compile(r"(^(?![\s.]).*(?<!::)\n)(?=\n    \S)", re.M)
_AS_IT_IS = re.compile(r"\s*(?:>>>|\.\.|\* |\|.*\|\s*$)")  # a doctest, a directive, an item, a row
_SPECIAL = re.compile(r"(`+)[^`]*\1|(\*{1,2})(?=\S)[^*`]+(?<=\S)\2|([*|])")
_CITED = re.compile(r"ERRATA (?:\d+(?:, | and )?)+")


def as_rst(app, what, name, obj, options, lines):
    """Turn what is Markdown in a docstring into reStructuredText, as autodoc hands it over.

    That are tables, code that is only indented, and bars and stars that mean themselves.
    """
    text = _CODE.sub(r"\1\n::\n", "\n".join(lines))
    found, literal = [], None  # literal: how far the paragraph is indented that announced code
    for line in text.split("\n"):
        indent = len(line) - len(line.lstrip())
        if line.strip() and literal is not None and indent <= literal:
            literal = None
        if literal is None and not _AS_IT_IS.match(line):
            line = _escaped(line)
        if line.endswith("::"):
            literal = indent
        found.append(line)
    text = _TABLE.sub(lambda match: _list_table(match[0]), "\n".join(found))
    lines[:] = text.split("\n")


def _escaped(text):
    """Return a line whose bars and stars mean themselves, but for emphasis and code."""
    return _SPECIAL.sub(lambda match: match[0] if match[3] is None else f"\\{match[0]}", text)


def _list_table(table):
    head, _, *rows = [
        [cell.strip().replace(r"\|", "|") for cell in re.split(r"(?<!\\)\|", line.strip())[1:-1]]
        for line in table.strip().splitlines()
    ]
    lines = ["", ".. list-table::", "   :header-rows: 1", ""]
    for row in [head, *rows]:
        lines += [f"   {' *'[i == 0]} - {_escaped(cell)}" for i, cell in enumerate(row)]
    return "\n".join([*lines, "", ""])


def link_errata(app, doctree):
    """Turn the numbers in each "ERRATA 12 and 13" of a text into links to these errata."""
    how = {"refdomain": "std", "reftype": "ref", "refexplicit": True, "refwarn": True}
    how["refdoc"] = app.env.docname
    for node in list(doctree.findall(nodes.Text)):
        if not isinstance(node.parent, nodes.paragraph | nodes.entry):
            continue
        pieces = []
        for text in re.split(f"({_CITED.pattern})", node):
            for piece in re.split(r"(\d+)", text) if _CITED.fullmatch(text) else [text]:
                found = nodes.Text(piece)
                if piece.isdigit() and _CITED.fullmatch(text):
                    found = pending_xref("", nodes.inline("", piece), **how)
                    found["reftarget"] = f"erratum-{piece}"
                pieces.append(found)
        node.parent.replace(node, pieces)


def setup(app):
    """Connect what happens between Sphinx's steps."""
    mathjax = importlib.import_module("sphinx-mathjax-offline")  # no name that `import` takes
    app.connect("build-finished", mathjax.copy_mathjax_files)
    app.connect("autodoc-process-docstring", as_rst, priority=400)
    app.connect("doctree-read", link_errata)
