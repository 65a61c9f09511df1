"""What the papers' explorers share: sliders beside a small figure that follows every move.

ipywidgets and matplotlib load when an explorer is called. A live widget has no state in a saved
file, so every notebook shows a static figure of the same thing as well."""

from __future__ import annotations

SLIDER = {"continuous_update": False, "style": {"description_width": "initial"}}
