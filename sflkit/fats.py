"""FATS under its own name: everything of `sflkit.histories`."""

from sflkit.histories import *  # noqa: F403
from sflkit.histories import __all__  # noqa: F401
