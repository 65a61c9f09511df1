"""A visit to JupyterLab: opening and running a notebook changes nothing that is published."""

from __future__ import annotations

import nbformat
import pytest
from jupyter_server.auth import IdentityProvider
from jupyter_server.serverapp import ServerApp
from jupyter_server.services.contents.filemanager import FileContentsManager
from traitlets.config.loader import PyFileConfigLoader

from companion import story
from companion.app import gate, lab, refresh
from tests.helpers import DRAW, ROOT, git, write_notebook

CONFIG = PyFileConfigLoader("jupyter_server_config.py", str(ROOT / "docs" / "lab")).load_config()
# What ipykernel says of itself, which JupyterLab puts into every notebook that it opens.
OPENED = {
    "kernelspec": refresh.KERNEL,
    "language_info": {"name": "python", "version": "3.99.1", "mimetype": "text/x-python"},
}


@pytest.fixture
def committed(clone):
    """The clone with a notebook that draws, all of it in git."""
    path = write_notebook(clone / "notebooks" / "10_first.ipynb", DRAW, ["sfl-fig2"])
    story.keep([gate.Notebook(path)])
    git("init", "-q")
    git("add", "--all")
    git("commit", "-q", "-m", "all")
    return path


def test_opening_a_notebook_changes_no_file(committed):
    manager = FileContentsManager(root_dir=str(committed.parent), config=CONFIG)
    assert manager.pre_save_hook is lab.keep_kernel
    model = manager.get(committed.name)
    model["content"]["metadata"].update(OPENED)
    manager.save(model, committed.name)
    assert git("status", "--porcelain") == ""
    # What the user does is saved: another kernel, another cell, another notebook.
    other = {"kernelspec": {"name": "other", "display_name": "Other"}}
    model["content"]["metadata"].update(OPENED | other)
    model["content"]["cells"][-1]["source"] = "1 + 1"
    for name in (committed.name, "mine.ipynb"):
        manager.save(model, name)
        saved = nbformat.read(committed.parent / name, as_version=4)
        assert saved.metadata.kernelspec.name == "other" and saved.cells[-1].source == "1 + 1"
        assert saved.metadata.language_info.version == "3.99.1"


def test_jupyterlab_listens_to_this_machine_alone_and_asks_for_a_token():
    assert set(CONFIG) == {"ServerApp", "FileContentsManager"}
    assert ServerApp(config=CONFIG).ip == "127.0.0.1"
    guard = IdentityProvider(config=CONFIG)
    assert len(guard.token) == 48 and guard.token_generated
