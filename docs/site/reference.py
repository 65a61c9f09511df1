"""The API reference: a page per module from its docstrings, and sources with line numbers."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
from pathlib import Path, PurePosixPath
from typing import Any

from docs.site.sources import Sources, code_page, templates

_TABLE = re.compile(r"^\|.*\|[ ]*\n\|[-:| ]+\|[ ]*\n(?:\|.*(?:\n|$))+", re.M)
# A paragraph that is not indented, and behind an empty line code that is.
_CODE = re.compile(r"(^(?![\s.]).*(?<!::)\n)(?=\n    \S)", re.M)
_AS_IT_IS = re.compile(r"\s*(?:>>>|\.\.|\* |\|.*\|\s*$)")  # a doctest, a directive, an item, a row
_SPECIAL = re.compile(r"(`+)[^`]*\1|(\*{1,2})(?=\S)[^*`]+(?<=\S)\2|([*|])")
_HALLS = {
    "sflkit.sfl": "SFL: streams, caches and their bounds",
    "sflkit.datastreams": "Data streams: how much old data should count",
    "sflkit.osafl": "OSAFL: weak devices, wireless links and scores",
    "sflkit.fats": "FATS: exact forgetting",
    "sflkit.federated": "Federated learning: tasks, clients and servers",
    "sflkit.data": "Data sets and how clients share them",
    "sflkit.models": "Models",
    "sflkit.runs": "Results, claims, verdicts and figures",
    "companion.teaching": "Exercises that check themselves",
    "companion.app": "The command and the runner",
}


def add(sources: Sources) -> None:
    """Add the reference's pages."""
    modules = {
        _dotted(path.relative_to(sources.root)): path
        for path in sorted((sources.root / "sflkit").rglob("*.py"))
    }
    packages = [name for name in modules if modules[name].name == "__init__.py" and "." in name]
    for name, path in modules.items():
        below = [other for other in modules if other.rpartition(".")[0] == name]
        if name == "sflkit":
            continue
        sources.add(f"api/{name}.rst", _module(name, below))
        sources.code.add(path.relative_to(sources.root).as_posix())
    sources.add("api/index.md", _index(modules, packages))


def add_code(sources: Sources) -> None:
    """Add a page with line numbers for every file that another page links to as code."""
    from pygments import highlight
    from pygments.formatters import HtmlFormatter
    from pygments.lexers import TextLexer, get_lexer_for_filename
    from pygments.util import ClassNotFound

    for file in sorted(sources.code):
        text = (sources.root / file).read_text(encoding="utf-8")
        try:
            lexer = get_lexer_for_filename(file)
        except ClassNotFound:
            lexer = TextLexer()
        html = highlight(
            text,
            lexer,
            HtmlFormatter(linenos="inline", lineanchors="line", anchorlinenos=True),
        )
        module = _dotted(PurePosixPath(file))
        page = code_page(file)
        up = "../" * page.count("/")
        shown = f"\n[What it offers]({up}api/{module}.rst)\n" if _has_page(module, sources) else ""
        sources.add(
            page,
            f"---\norphan: true\nnosearch: true\nhtml_theme.sidebar_secondary.remove: true\n---\n\n"
            f"# {file}\n{shown}\n``````````{{raw}} html\n{html}\n``````````\n",
            file,
        )


def source_of(domain: str, info: dict[str, str]) -> str | None:
    """Return where the source of an object is shown, as `sphinx.ext.linkcode` asks."""
    if domain != "py" or not info["module"]:
        return None
    found: Any = importlib.import_module(info["module"])
    try:
        for name in info["fullname"].split("."):
            found = getattr(found, name)
        found = inspect.unwrap(found.fget if isinstance(found, property) else found)
        line = inspect.getsourcelines(found)[1]
        file = Path(inspect.getsourcefile(found))
    except (AttributeError, TypeError, OSError):
        return None
    package = Path(inspect.getsourcefile(importlib.import_module("sflkit"))).parent
    if not file.is_relative_to(package):
        return None
    page = code_page(file.relative_to(package.parent).as_posix()).removesuffix(".md")
    return f"../{page}.html#line-{line}"


def as_rst(app: Any, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
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


def _escaped(text: str) -> str:
    """Return a line whose bars and stars mean themselves, but for emphasis and code."""
    return _SPECIAL.sub(lambda match: match[0] if match[3] is None else f"\\{match[0]}", text)


def _list_table(table: str) -> str:
    head, _, *rows = [
        [cell.strip().replace(r"\|", "|") for cell in re.split(r"(?<!\\)\|", line.strip())[1:-1]]
        for line in table.strip().splitlines()
    ]
    lines = ["", ".. list-table::", "   :header-rows: 1", ""]
    for row in [head, *rows]:
        lines += [f"   {' *'[i == 0]} - {_escaped(cell)}" for i, cell in enumerate(row)]
    return "\n".join([*lines, "", ""])


def _index(modules: dict[str, Path], packages: list[str]) -> str:
    found = [name for name in _HALLS if name in modules]
    found += [name for name in packages if name.count(".") == 1 and name not in found]
    rest = [name for name in modules if name.count(".") == 1 and name not in packages]
    halls = [
        (_HALLS.get(hall, hall), [hall, *(n for n in modules if n.startswith(f"{hall}."))])
        for hall in found
    ]
    halls.append(("What all of it uses", rest))
    told = [
        {"title": title, "modules": [(name, _about(modules[name])) for name in names]}
        for title, names in halls
    ]
    return templates().get_template("reference.md.j2").render(halls=told, entries=[*found, *rest])


def _about(file: Path) -> str:
    """Return the first paragraph of a module's docstring, without its full stop."""
    docstring = ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) or ""
    return " ".join(docstring.split("\n\n")[0].split()).removesuffix(".")


def _module(name: str, below: list[str]) -> str:
    lines = [name, "=" * len(name), "", f".. automodule:: {name}", "   :members:", ""]
    if below:
        lines += [".. rubric:: Modules", "", ".. toctree::", "   :maxdepth: 1", ""]
        lines += [f"   {other}" for other in below]
    return "\n".join([*lines, ""])


def _has_page(module: str, sources: Sources) -> bool:
    return f"api/{module}.rst" in sources.files


def _dotted(path: PurePosixPath | Path) -> str:
    return ".".join(path.with_suffix("").parts).removesuffix(".__init__")
