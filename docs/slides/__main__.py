"""`python -m docs.slides`: a deck per paper into out/slides. `make slides` calls it.

nbconvert writes reveal.js slides. Its own template takes reveal.js, MathJax and two more scripts
from other hosts. Here they lie beside the decks, as the packages sphinx-revealjs and
sphinx-mathjax-offline bring them, so that the decks open from the file system without a network.
"""

from __future__ import annotations

import shutil
import sys
from importlib.util import find_spec
from pathlib import Path

from docs.slides import deck
from sflkit import paths

# What is copied: folder beside the decks, package, folder in it, parts of that.
ASSETS = (
    ("reveal", "sphinx_revealjs", "_static/revealjs", ("dist", "plugin/notes", "LICENSE")),
    ("mathjax", "sphinx-mathjax-offline", "static/mathjax", ("tex-svg.js", "input/tex")),
)
TEMPLATE = """
{%- extends 'index.html.j2' -%}
{%- block html_head_js -%}{%- endblock -%}
{%- block html_head_js_mathjax -%}
<script>
MathJax = {tex: {inlineMath: [['$', '$']], displayMath: [['$$', '$$']], processEscapes: true},
           options: {ignoreHtmlClass: 'highlight'}};
</script>
<script src="mathjax/tex-svg.js" defer></script>
{%- endblock -%}
{%- block html_head_css -%}
<meta name="viewport" content="width=device-width, initial-scale=1">
<style>
.reveal { font-size: 26px; text-align: left; }
.reveal .slides section { text-align: left; }
.reveal .jp-Cell, .reveal .jp-RenderedHTMLCommon { padding: 0;
  font-size: calc(24px * var(--shrink, 1)); }
:root { --r-heading-text-transform: none; }
.reveal h1, .reveal h2, .reveal h3 { text-transform: none !important; }
.reveal h1 { font-size: 1.9em; }
.reveal h2, .reveal h3 { font-size: 1.4em; }
.reveal .slides section section { max-height: 750px; overflow-y: auto; }
.reveal .jp-InputPrompt, .reveal .jp-OutputPrompt, .reveal .jp-Cell-inputCollapser,
.reveal .jp-Cell-outputCollapser, .reveal .jp-CodeCell .jp-Cell-inputWrapper { display: none; }
.reveal .jp-RenderedImage img { width: 1040px; max-width: 100%; max-height: 470px;
  object-fit: contain; margin: 0; }
.reveal table { font-size: calc(20px * var(--shrink, 1)); }
@media (max-width: 600px) {
  .reveal .slides section section { max-height: 1180px; }
  .reveal h1 { font-size: 1.5em; overflow-wrap: anywhere; }
}
</style>
{%- endblock -%}
{%- block footer_js -%}
<script src="reveal/dist/reveal.js"></script>
<script src="reveal/plugin/notes/notes.js"></script>
<script>
// On a phone a slide is as narrow as the screen, so that its letters stay as large as text.
const phone = window.matchMedia('(max-width: 600px)').matches;
Reveal.initialize({width: phone ? 560 : 1200, height: phone ? 1180 : 750, hash: true,
                   slideNumber: 'c/t', center: false, plugins: [RevealNotes]});
// Where a slide is too full its picture gives way, and then the letters.
function fit() {
  const slide = Reveal.getCurrentSlide();
  const full = () => slide.scrollHeight > Reveal.getConfig().height;
  const pictures = slide.querySelectorAll('.jp-RenderedImage img');
  for (let room = 470; full() && pictures.length && room >= 280; room -= 10)
    pictures.forEach(picture => { picture.style.maxHeight = room + 'px'; });
  for (let size = 1; full() && size >= 0.6; size -= 0.04)
    slide.style.setProperty('--shrink', size);
}
Reveal.on('slidechanged', fit);
Reveal.on('ready', () => {
  const formulas = window.MathJax && MathJax.startup && MathJax.startup.promise;
  Promise.resolve(formulas).then(fit);
});
</script>
{%- endblock -%}
"""


def main() -> int:
    """Write all decks and an index, and return the exit code."""
    root = paths.clone_root()
    if root is None:
        print("no notebooks here: call it inside the clone", file=sys.stderr)
        return 2
    target = paths.out() / "slides"
    try:
        copy_assets(target)
    except ModuleNotFoundError as error:
        print(error, file=sys.stderr)
        return 1
    for paper in deck.PAPERS:
        file = write(paper, root / "notebooks", target)
        print(f"{file.relative_to(root)}: {file.stat().st_size / 1e6:.1f} MB")
    links = "".join(
        f'<li><a href="{paper}.html">{title}</a></li>' for paper, (_, title) in deck.PAPERS.items()
    )
    page = (
        "<!DOCTYPE html><html lang=en><meta charset=utf-8><title>Slides</title>"
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<ul>{links}</ul>"
    )
    paths.write_atomic(target / "index.html", page)
    return 0


def write(paper: str, books: Path, target: Path) -> Path:
    """Write the deck of a paper and return its file."""
    import jinja2
    from nbconvert import SlidesExporter

    exporter = SlidesExporter(
        template_file="deck.html.j2",
        extra_loaders=[jinja2.DictLoader({"deck.html.j2": TEMPLATE})],
        reveal_url_prefix="reveal",
        reveal_theme="white",
    )
    body, _ = exporter.from_notebook_node(deck.deck(paper, books))
    file = target / f"{paper}.html"
    paths.write_atomic(file, body)
    return file


def copy_assets(target: Path) -> None:
    """Copy the scripts that the decks need beside them.

    Raises
    ------
    ModuleNotFoundError
        If a package that brings them is not installed; the message says which.
    """
    for name, package, folder, parts in ASSETS:
        spec = find_spec(package)
        if spec is None or spec.origin is None:
            missing = package.replace("_", "-")
            raise ModuleNotFoundError(f"slides need {missing}: pip install -r requirements.lock")
        for part in parts:
            source, copy = Path(spec.origin).parent / folder / part, target / name / part
            copy.parent.mkdir(parents=True, exist_ok=True)
            if source.is_dir():
                shutil.copytree(source, copy, dirs_exist_ok=True)
            else:
                shutil.copyfile(source, copy)


if __name__ == "__main__":
    sys.exit(main())
