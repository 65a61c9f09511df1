"""Data sets by name: `load("mnist")`.

`catalogue` says what exists and where it may lie, `files` reads and checks the files, `downloads`
fetches them, `images` and `natural` turn them into arrays, `traffic` and `synthetic` make data on
the spot. `partitions` deals samples to clients and `federations` builds whole federations."""

from sflkit.data.catalogue import DataUnavailableError, available, names
from sflkit.data.files import DataCorruptError
from sflkit.data.images import Dataset, load

__all__ = ["DataCorruptError", "DataUnavailableError", "Dataset", "available", "load", "names"]
