"""How `make lab` opens and saves notebooks, so that looking at one changes no file.

JupyterLab writes name and version of the interpreter into every notebook that it opens, marks it as
changed, and saves it after two minutes. A notebook would be changed by being looked at, and
differently on every machine.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ipykernel.ipkernel import IPythonKernel
from jupyter_server.services.contents.largefilemanager import AsyncLargeFileManager

from companion.app.documents import read_notebook
from companion.app.refresh import KERNEL

_WRITTEN = ("kernelspec", "language_info")


class Notebooks(AsyncLargeFileManager):
    """Files as they are, but for notebooks, which say of their kernel what JupyterLab would write
    into them. `keep_kernel` takes it out again.
    """

    async def get(self, path: str, content: bool = True, *args: Any, **options: Any) -> dict:
        """Return a file's model, as Jupyter Server describes it."""
        model = await super().get(path, content, *args, **options)
        if content and model["type"] == "notebook":
            metadata = model["content"]["metadata"]
            if (metadata.get("kernelspec") or {}).get("name") == KERNEL["name"]:
                metadata["kernelspec"] = dict(KERNEL)
                metadata["language_info"] = dict(IPythonKernel.language_info)
        return model


def keep_kernel(model: dict[str, Any], path: str, contents_manager: Any, **_: Any) -> None:
    """Save of a notebook's kernel what the file says of it already, unless the user chose another.

    See Jupyter Server's `pre_save_hook` for the arguments; `model` is changed in place.
    """
    file = Path(contents_manager.root_dir) / path.strip("/")
    if model.get("type") != "notebook" or not file.is_file():
        return
    old = read_notebook(file)["metadata"]
    new = model["content"]["metadata"]
    kernels = [metadata.get("kernelspec") or {} for metadata in (old, new)]
    if kernels[0].get("name") == kernels[1].get("name"):
        for name in _WRITTEN:
            new.pop(name, None)
            new |= {name: old[name]} if name in old else {}
