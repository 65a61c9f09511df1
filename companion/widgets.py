"""What the papers' explorers share: sliders beside a figure that follows every move.

ipywidgets and matplotlib load when an explorer is called. A live widget has no state in a saved
file. Where nobody moves it, since notebooks are executed in one go, `picture` therefore shows its
first figure as an ordinary output as well, and that is what a saved notebook and the site show.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import ipywidgets

SLIDER = {"continuous_update": False, "style": {"description_width": "initial"}}
BUSY = "drawing …"
# JupyterLab may have a kernel answer two moves in two threads, and pyplot knows only one figure at
# a time: each showed, or closed, what the other had half drawn (jupyterlab/jupyterlab#19719).
_PYPLOT = threading.RLock()


def picture(draw: Callable[..., None], controls: Mapping[str, Any]) -> ipywidgets.VBox:
    """Return a figure that is drawn anew when a control moves, below a line that says when it is.

    Parameters
    ----------
    draw : function
        Takes the controls' values by their names, draws with pyplot and calls `plt.show`.
    controls : mapping
        Name -> widget with a `value`.

    Returns
    -------
    VBox
        The line, which reads `BUSY` while `draw` runs and is empty otherwise, and the figure. What
        `draw` raises is shown in the figure's place.
    """
    import ipywidgets
    import matplotlib.pyplot as plt

    busy, shown = ipywidgets.Label(""), ipywidgets.Output()

    def redraw(change: Any = None) -> None:
        with _PYPLOT:
            busy.value = BUSY
            shown.clear_output(wait=True)
            with shown:
                try:
                    draw(**{name: control.value for name, control in controls.items()})
                except BaseException:
                    plt.close("all")  # what is half drawn would be shown with the next picture
                    raise
                finally:
                    busy.value = ""

    if _nobody_moves_it():
        draw(**{name: control.value for name, control in controls.items()})
    for control in controls.values():
        control.observe(redraw, "value")
    redraw()
    return ipywidgets.VBox([busy, shown])


def _nobody_moves_it() -> bool:
    """Whether this is a notebook that is executed without a reader."""
    ipython = sys.modules.get("IPython")
    in_notebook = ipython is not None and ipython.get_ipython() is not None
    return in_notebook and bool(os.environ.get("SFLKIT_BATCH"))
