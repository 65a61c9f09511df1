"""A visit to JupyterLab: notebooks that `make lab` offers are opened, run, changed and run again.

The clone is a fresh one of the working tree, with an own, empty data folder. Nothing that is
published may change, and git sees no change at all until the notebook is saved. JupyterLab does
this by itself every two minutes once something was changed; here it waits for the visitor.
"""

from __future__ import annotations

import json
import re
import subprocess
import time
from pathlib import Path

import pytest

from tests.browser.lab import PANEL, Visit, fresh_clone, serve
from tests.teaching.test_worksheets import CASES

NOTICE = "written; what is published in figures/ stays as it is"
# A notebook, its parameter as published and as the visitor sets it.
VISITS = [
    ("00_start_here", "rounds: int = 40", "rounds: int = 20"),
    ("10_sfl_streams_and_caches", "rounds: int = 500", "rounds: int = 60"),
    ("20_ds_importance_bound", "n_clients: int = 50", "n_clients: int = 30"),
]


def git(folder: Path, *arguments: str) -> list[str]:
    """Call git as somebody, and return the lines that it prints."""
    command = ["git", "-c", "user.name=x", "-c", "user.email=x@y.example", *arguments]
    done = subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True)
    return done.stdout.splitlines()


def changed(folder: Path) -> list[str]:
    """What git calls changed, new or gone."""
    return git(folder, "status", "--porcelain", "--untracked-files=all")


@pytest.fixture(scope="module")
def fresh(browser, tmp_path_factory) -> Path:
    """A clone of the working tree, all of it committed."""
    folder = fresh_clone(tmp_path_factory.mktemp("fresh") / "sflkit")
    git(folder, "init", "-q")
    git(folder, "add", "--all")
    git(folder, "commit", "-q", "-m", "all")
    return folder


@pytest.fixture(scope="module")
def address(fresh, tmp_path_factory):
    """JupyterLab's address, which is this machine's alone and has a token."""
    own = tmp_path_factory.mktemp("jupyter")
    settings = own / "config" / "lab" / "user-settings" / "@jupyterlab" / "docmanager-extension"
    settings.mkdir(parents=True)
    (settings / "plugin.jupyterlab-settings").write_text('{"autosaveInterval": 7200}')
    with serve(fresh, own) as found:
        assert re.fullmatch(r"http://127\.0\.0\.1:\d+/lab/tree/\{\}\?token=[0-9a-f]{48}", found)
        yield found


@pytest.fixture
def visit(browser, address):
    """A function that opens a notebook, in a browser of its own."""
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    yield lambda stem: Visit(context.new_page(), address, stem)
    context.close()


def dirty(here: Visit) -> bool:
    """Whether JupyterLab calls the notebook changed, with a dot in its tab."""
    tab = here.tab.locator("#jp-main-dock-panel .lm-TabBar-tab", has_text=Path(here.path).name)
    dotted = "jp-mod-dirty" in tab.get_attribute("class")
    assert dotted == here.ask("return panel.context.model.dirty")
    return dotted


def run_all(here: Visit) -> list[str]:
    """Run all cells; return the files that notices in them name."""
    here.run()
    cells = here.ask("return panel.context.model.toJSON().cells")
    code = [cell for cell in cells if cell["cell_type"] == "code"]
    assert all(cell["execution_count"] for cell in code)
    outputs = [output for cell in code for output in cell["outputs"]]
    wrong = [f"{o['ename']}: {o['evalue']}" for o in outputs if o["output_type"] == "error"]
    assert wrong == []
    texts = ["".join(o["text"]) for o in outputs if o["output_type"] == "stream"]
    lines = [line for text in texts for line in text.splitlines() if line.endswith(NOTICE)]
    return [line.removesuffix(NOTICE).strip() for line in lines]


def set_parameter(here: Visit, before: str, after: str) -> None:
    """Type another value into the parameters cell."""
    code = """
    const cells = panel.content.widgets.map(cell => cell.model);
    const cell = cells.find(c => (c.getMetadata('tags') || []).includes('parameters'));
    const source = cell.sharedModel.getSource();
    cell.sharedModel.setSource(source.replace(...value));
    return cell.sharedModel.getSource() !== source;
    """
    assert here.ask(code, [before, after])


def save(here: Visit) -> None:
    """Press Save."""
    here.ask("await window.jupyterapp.commands.execute('docmanager:save')")
    here.tab.wait_for_function(f"path => !{PANEL}.context.model.dirty", arg=here.path)


def pictures(folder: Path) -> dict[str, bytes]:
    """What runs by hand have drawn."""
    drawn = folder / "out" / "figures"
    return {file.relative_to(folder).as_posix(): file.read_bytes() for file in drawn.rglob("*.png")}


@pytest.mark.parametrize(("stem", "before", "after"), VISITS, ids=[v[0][:2] for v in VISITS])
def test_only_what_the_visitor_saves_is_changed(fresh, visit, stem, before, after):
    old = pictures(fresh)
    here = visit(stem)
    time.sleep(3)  # whatever JupyterLab does to a notebook after opening it
    assert not dirty(here) and changed(fresh) == []
    save(here)
    assert not dirty(here) and changed(fresh) == []

    as_published = run_all(here)
    first = pictures(fresh)
    assert changed(fresh) == []
    set_parameter(here, before, after)
    assert dirty(here)
    named = run_all(here)
    assert changed(fresh) == []
    second = pictures(fresh)
    drawn = second.keys() - old
    tables = {name for name in as_published if not name.endswith(".png")}
    assert drawn and set(as_published) == {*named, *tables}
    assert {name for name in named if name.endswith(".png")} == drawn
    assert any(second[name] != first[name] for name in drawn)
    artefacts = json.loads((fresh / here.path).read_text())["metadata"]["sflkit"]["artefacts"]
    assert tables == ({"out/figures/verdicts.csv"} if artefacts else set())
    assert "out/figures/verdicts.csv" not in named, "other parameters give no verdict"

    save(here)
    assert changed(fresh) == [f" M {here.path}"]
    assert after in (fresh / here.path).read_text()
    git(fresh, "checkout", "-q", "--", here.path)


@pytest.mark.parametrize("name", CASES)
def test_a_class_works_through_a_worksheet(fresh, visit, name):
    words, line, other = CASES[name]
    here = visit(f"worksheets/{name}")
    run_all(here)
    assert words in printed(here)
    type_over(here, "my_guess = None", "my_guess = 0.5")
    type_over(here, line, other)
    run_all(here)
    assert "my guess: 0.5" in printed(here) and words not in printed(here)
    assert changed(fresh) == []


def type_over(here: Visit, before: str, after: str) -> None:
    """Type something else into the cell that has `before`."""
    code = """
    const cells = panel.content.widgets.map(cell => cell.model);
    const cell = cells.find(c => c.type === 'code' && c.sharedModel.getSource().includes(value[0]));
    cell.sharedModel.setSource(cell.sharedModel.getSource().replace(...value));
    """
    here.ask(code, [before, after])


def printed(here: Visit) -> str:
    """Return all that the cells print."""
    cells = here.ask("return panel.context.model.toJSON().cells")
    outputs = [o for cell in cells if cell["cell_type"] == "code" for o in cell["outputs"]]
    return "".join("".join(o["text"]) for o in outputs if o["output_type"] == "stream")
