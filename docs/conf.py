"""How Sphinx builds the site; `docs.site` calls it on the sources that it has laid out."""

import shutil
from importlib.util import find_spec
from pathlib import Path

import sflkit
from docs.site import reference

project = "sflkit"
author = "the sflkit authors"
version = release = sflkit.__version__
extensions = [
    "myst_nb",
    "sphinx_design",
    "sphinx.ext.autodoc",
    "sphinx.ext.linkcode",
    "sphinx.ext.mathjax",
    "numpydoc",
]
default_role = "py:obj"  # `name` in a docstring is code, and a link where it is one of ours

# notebooks: nothing is executed, and nothing is fetched
nb_execution_mode = "off"
nb_merge_streams = True
nb_ipywidgets_js = {}
nb_output_stderr = "remove"
myst_enable_extensions = ["dollarmath", "amsmath", "colon_fence", "html_image"]
myst_heading_anchors = 4

# docstrings
autodoc_member_order = "bysource"
autodoc_typehints = "none"  # the docstrings name types, shapes and units
autosummary_generate = False  # numpydoc brings the extension; the pages are `docs.site`'s
numpydoc_show_class_members = False
linkcode_resolve = reference.source_of

# pages
html_theme = "pydata_sphinx_theme"
html_context = {"default_mode": "auto"}
html_title = "sflkit"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_js_files = ["filter.js"]
html_copy_source = False
html_show_sourcelink = False
html_show_sphinx = False
html_show_search_summary = False  # a browser reads no other page from disk
# These are found from a table or a picture, and not from a list of all their neighbours.
html_sidebars = {page: [] for page in ("code/**", "verdicts/**", "gallery/**", "errata", "index")}
html_theme_options = {
    "collapse_navigation": True,
    "navigation_depth": 2,
    "navbar_align": "left",
    "header_links_before_dropdown": 8,
    "navigation_with_keys": False,
    "show_nav_level": 1,
    "show_toc_level": 2,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
}
copyright = "the sflkit authors"

# Formulas are set by MathJax, which a package of pip brings, so that the site reads offline. One
# script with its own glyphs is enough, and the extensions that a formula may ask for.
mathjax_path = "mathjax/tex-svg.js"
_MATHJAX = ("tex-svg.js", "input/tex/extensions")


def _copy_mathjax(app, error):
    if error is not None:
        return
    package = Path(find_spec("sphinx-mathjax-offline").origin).parent / "static" / "mathjax"
    for name in _MATHJAX:
        source, target = package / name, Path(app.outdir) / "_static" / "mathjax" / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, target, dirs_exist_ok=True)
        else:
            shutil.copyfile(source, target)


def setup(app):
    """Connect what happens between Sphinx's steps."""
    app.connect("autodoc-process-docstring", reference.as_rst, priority=400)
    app.connect("build-finished", _copy_mathjax)
