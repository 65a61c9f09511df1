"""JupyterLab in a real browser: a clone of its own, the server of `make lab`, and an open notebook.

What a click cannot tell is asked in JupyterLab's own terms: the application is exposed to the page.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.helpers import ROOT

PANEL = "[...window.jupyterapp.shell.widgets('main')].find(w => w.context?.path === path)"
SECONDS = 300


def fresh_clone(folder: Path) -> Path:
    """Copy the working tree without what git ignores; its environment counts as up to date."""
    names = ("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
    listed = subprocess.run(names, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    for name in filter(None, listed.split("\0")):
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, folder / name)
    (folder / ".venv").mkdir()
    (folder / ".venv" / ".installed").touch()
    return folder


@contextlib.contextmanager
def serve(clone: Path, own: Path) -> Iterator[str]:
    """Start `make lab` with settings of nobody and yield its address, with a place for a path."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("SFLKIT", "JUPYTER"))}
    for name in ("CONFIG", "DATA", "RUNTIME"):
        environment[f"JUPYTER_{name}_DIR"] = str(own / name.lower())
    environment |= {"IPYTHONDIR": str(own / "ipython"), "PYTHONPATH": str(clone)}
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    options = f"--no-browser --port {port} --allow-root --LabApp.expose_app_in_browser=True"
    with (own / "log").open("w") as log:
        command = ["make", "lab", f"PY={sys.executable}", f"LAB={options}"]
        lab = subprocess.Popen(command, cwd=clone, env=environment, stdout=log, stderr=log)
        try:
            until = time.monotonic() + 180
            while not (found := list((own / "runtime").glob("jpserver-*.json"))):
                alive = lab.poll() is None and time.monotonic() < until
                assert alive, (own / "log").read_text()
                time.sleep(0.5)
            time.sleep(1)  # the file is written in place
            server = json.loads(found[0].read_text())
            yield server["url"] + "lab/tree/{}?token=" + server["token"]
        finally:
            lab.terminate()
            lab.wait(60)


class Visit:
    """A notebook in a tab, on a kernel of its own."""

    def __init__(self, tab: Any, address: str, stem: str):
        self.tab, self.path = tab, f"notebooks/{stem}.ipynb"
        tab.set_default_timeout(SECONDS * 1000)
        tab.goto(address.format(self.path), wait_until="load")
        tab.wait_for_function(
            f"path => {{ const panel = window.jupyterapp && {PANEL};"
            " return panel && panel.context.isReady"
            " && panel.sessionContext.session?.kernel?.status === 'idle'; }",
            arg=self.path,
        )
        self.ask(  # whatever the kernel says on stderr, wherever a page shows it or not
            "window.said = [];"
            "panel.sessionContext.session.kernel.iopubMessage.connect((_, m) => {"
            " if (m.header.msg_type === 'error') window.said.push(m.content.evalue);"
            " if (m.content.name === 'stderr') window.said.push(m.content.text); });"
        )

    def ask(self, code: str, value: Any = None) -> Any:
        """Return what JavaScript says; `panel` is the notebook's and `value` what is passed."""
        return self.tab.evaluate(
            f"async ([path, value]) => {{ const panel = {PANEL}; {code} }}", [self.path, value]
        )

    @property
    def said(self) -> list[str]:
        """What the kernel has said on stderr so far, and its errors."""
        return self.tab.evaluate("window.said")

    def run(self, *tags: str) -> None:
        """Run the cells with some tags, from top to bottom; all cells where none is named."""
        code = """
        const execute = name => window.jupyterapp.commands.execute(name);
        if (!value.length) { await execute('notebook:run-all-cells'); return; }
        const cells = panel.content.widgets;
        for (let i = 0; i < cells.length; i++) {
          const tags = cells[i].model.getMetadata('tags') || [];
          if (!tags.some(tag => value.includes(tag))) continue;
          panel.content.deselectAll();
          panel.content.activeCellIndex = i;
          await execute('notebook:run-cell');
        }
        """
        self.ask(code, list(tags))

    def show(self, tag: str) -> None:
        """Scroll to the last cell with a tag: what is far away is not on the page."""
        code = """
        const is = cell => (cell.model.getMetadata('tags') || []).includes(value);
        const at = panel.content.widgets.map(is).lastIndexOf(true);
        panel.content.activeCellIndex = at;
        await panel.content.scrollToItem(at, 'start');
        """
        self.ask(code, tag)

    def kernel(self, expression: str) -> str:
        """Return what the kernel makes of an expression, as its representation."""
        code = """
        const kernel = panel.sessionContext.session.kernel;
        const asked = {code: '', user_expressions: {x: value}, silent: false, store_history: false};
        const reply = await kernel.requestExecute(asked).done;
        return reply.content.user_expressions.x.data['text/plain'];
        """
        return self.ask(code, expression)
