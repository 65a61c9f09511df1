"""How `make lab` starts JupyterLab: on this machine alone, and so that opening a notebook changes
no file. The token, which keeps other users of the machine out, is Jupyter's own."""

from companion.app.lab import Notebooks, keep_kernel

c = get_config()  # noqa: F821
c.ServerApp.ip = "127.0.0.1"
c.ServerApp.contents_manager_class = Notebooks
c.FileContentsManager.pre_save_hook = keep_kernel
