"""A visit to JupyterLab: notebooks that `make lab` offers are opened, run, changed and run again.

The clone is a fresh one of the working tree, with an own, empty data folder. Nothing that is
published may change, and git sees no change at all until the notebook is saved. JupyterLab does
this by itself every two minutes once something was changed; here it waits for the visitor.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.helpers import ROOT

# The notebook's panel in JupyterLab's own terms, for what a click cannot tell.
PANEL = "[...window.jupyterapp.shell.widgets('main')].find(w => w.context?.path === path)"
SECONDS = 600
NOTICE = "written; what is published in figures/ stays as it is"
# A notebook, its parameter as published and as the visitor sets it.
VISITS = [
    ("00_start_here", "rounds: int = 40", "rounds: int = 20"),
    ("10_sfl_streams_and_caches", "rounds: int = 150", "rounds: int = 60"),
    ("20_ds_importance_bound", "n_clients: int = 50", "n_clients: int = 30"),
]


@pytest.fixture(scope="module")
def fresh(tmp_path_factory) -> Path:
    """A clone of the working tree, all of it committed, with an environment that is up to date."""
    folder = tmp_path_factory.mktemp("fresh") / "sflkit"
    names = ("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
    listed = subprocess.run(names, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    for name in filter(None, listed.split("\0")):
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, folder / name)
    (folder / ".venv").mkdir()
    (folder / ".venv" / ".installed").touch()
    git = ("git", "-c", "user.name=x", "-c", "user.email=x@y.example")
    for arguments in (("init", "-q"), ("add", "--all"), ("commit", "-q", "-m", "all")):
        subprocess.run([*git, *arguments], cwd=folder, check=True)
    return folder


def changed(folder: Path) -> list[str]:
    """What git calls changed, new or gone."""
    command = ("git", "status", "--porcelain", "--untracked-files=all")
    done = subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True)
    return done.stdout.splitlines()


@pytest.fixture(scope="module")
def address(fresh, browser, tmp_path_factory):
    """JupyterLab's address with its token, from `make lab` with settings of nobody."""
    own = tmp_path_factory.mktemp("jupyter")
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("SFLKIT", "JUPYTER"))}
    for name in ("CONFIG", "DATA", "RUNTIME"):
        environment[f"JUPYTER_{name}_DIR"] = str(own / name.lower())
    environment |= {"IPYTHONDIR": str(own / "ipython"), "PYTHONPATH": str(fresh)}
    settings = own / "config" / "lab" / "user-settings" / "@jupyterlab" / "docmanager-extension"
    settings.mkdir(parents=True)
    (settings / "plugin.jupyterlab-settings").write_text('{"autosaveInterval": 7200}')
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    options = f"--no-browser --port {port} --allow-root --LabApp.expose_app_in_browser=True"
    log = (own / "log").open("w")
    lab = subprocess.Popen(
        ["make", "lab", f"PY={sys.executable}", f"LAB={options}"],
        cwd=fresh,
        env=environment,
        stdout=log,
        stderr=log,
    )
    try:
        until = time.monotonic() + 120
        while not (found := list((own / "runtime").glob("jpserver-*.json"))):
            alive = lab.poll() is None and time.monotonic() < until
            assert alive, (own / "log").read_text()
            time.sleep(0.5)
        time.sleep(1)  # the file is written in place
        server = json.loads(found[0].read_text())
        assert server["hostname"] == "127.0.0.1" and len(server["token"]) == 48
        yield server["url"] + "lab/tree/notebooks/{}?token=" + server["token"]
    finally:
        lab.terminate()
        lab.wait(60)
        log.close()


class Visit:
    """A notebook in a tab, as its visitor has it."""

    def __init__(self, tab, address: str, stem: str):
        self.tab, self.path = tab, f"notebooks/{stem}.ipynb"
        tab.set_default_timeout(SECONDS * 1000)
        tab.goto(address.format(f"{stem}.ipynb"), wait_until="load")
        tab.wait_for_function(
            f"path => {{ const panel = window.jupyterapp && {PANEL};"
            " return panel && panel.context.isReady"
            " && panel.sessionContext.session?.kernel?.status === 'idle'; }",
            arg=self.path,
        )

    def ask(self, code: str, value: object = None):
        """What JavaScript says, where `panel` is the notebook's and `value` what is passed."""
        return self.tab.evaluate(
            f"async ([path, value]) => {{ const panel = {PANEL}; {code} }}", [self.path, value]
        )

    @property
    def dirty(self) -> bool:
        """Whether JupyterLab calls the notebook changed, with a dot in its tab."""
        here = self.tab.locator("#jp-main-dock-panel .lm-TabBar-tab", has_text=Path(self.path).name)
        dotted = "jp-mod-dirty" in here.get_attribute("class")
        assert dotted == self.ask("return panel.context.model.dirty")
        return dotted

    def run_all(self) -> list[str]:
        """Run all cells; return the notices that the visitor reads in them."""
        self.ask("await window.jupyterapp.commands.execute('notebook:run-all-cells')")
        cells = self.ask("return panel.context.model.toJSON().cells")
        outputs = [output for cell in cells for output in cell.get("outputs", [])]
        wrong = [f"{o['ename']}: {o['evalue']}" for o in outputs if o["output_type"] == "error"]
        assert wrong == []
        code = [cell for cell in cells if cell["cell_type"] == "code"]
        assert all(cell["execution_count"] for cell in code)
        texts = ["".join(o["text"]) for o in outputs if o["output_type"] == "stream"]
        return [line for text in texts for line in text.splitlines() if NOTICE in line]

    def set_parameter(self, before: str, after: str) -> None:
        """Type another value into the parameters cell."""
        code = """
        const cells = panel.content.widgets.map(cell => cell.model);
        const cell = cells.find(c => (c.getMetadata('tags') || []).includes('parameters'));
        const source = cell.sharedModel.getSource();
        cell.sharedModel.setSource(source.replace(...value));
        return cell.sharedModel.getSource() !== source;
        """
        assert self.ask(code, [before, after])

    def save(self) -> None:
        """Press Save."""
        self.ask("await window.jupyterapp.commands.execute('docmanager:save')")
        self.tab.wait_for_function(
            f"path => !{PANEL}.context.model.dirty", arg=self.path, timeout=60_000
        )


@pytest.fixture
def visit(browser, address):
    """A function that opens a notebook, in a browser of its own."""
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    yield lambda stem: Visit(context.new_page(), address, stem)
    context.close()


def written(folder: Path) -> dict[str, bytes]:
    """What runs by hand have drawn and judged."""
    drawn = folder / "out" / "figures"
    files = (path for path in drawn.rglob("*") if path.is_file())
    return {path.relative_to(drawn).as_posix(): path.read_bytes() for path in files}


@pytest.mark.parametrize(("stem", "before", "after"), VISITS, ids=[v[0][:2] for v in VISITS])
def test_only_what_the_visitor_saves_is_changed(fresh, visit, stem, before, after):
    there = set(written(fresh))
    here = visit(stem)
    time.sleep(3)  # whatever JupyterLab does to a notebook after opening it
    assert not here.dirty and changed(fresh) == []
    here.save()
    assert not here.dirty and changed(fresh) == []

    as_published = here.run_all()
    first = written(fresh)
    assert changed(fresh) == []
    here.set_parameter(before, after)
    assert here.dirty
    with_own = here.run_all()
    assert changed(fresh) == []
    assert as_published == with_own
    said = {line.removesuffix(NOTICE).strip() for line in with_own}
    drawn = {name for name in written(fresh) if name.endswith(".png")} - there
    assert drawn and {name for name in said if name.endswith(".png")} == {
        f"out/figures/{name}" for name in drawn
    }
    artefacts = json.loads((fresh / here.path).read_text())["metadata"]["sflkit"]["artefacts"]
    assert ("out/figures/quick/verdicts.csv" in said) == bool(artefacts)
    assert any(written(fresh)[name] != first[name] for name in drawn)  # it is the second run's

    here.save()
    assert changed(fresh) == [f" M {here.path}"]
    saved = json.loads((fresh / here.path).read_text())
    assert any(after in "".join(cell["source"]) for cell in saved["cells"])
    git = ("git", "checkout", "-q", "--", here.path)
    subprocess.run(git, cwd=fresh, check=True)
