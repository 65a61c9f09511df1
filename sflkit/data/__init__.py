"""Data sets by name, and federations made of them: `load("mnist")`.

| module                 | what it does                                                 |
|------------------------|--------------------------------------------------------------|
| `catalogue`            | knows names, shapes and where files may lie                  |
| `files`                | reads, checks and writes the files                           |
| `downloads`            | fetches the canonical files and converts them                |
| `images`               | loads data sets of images, `load` and `Dataset`              |
| `patches`              | computes features of images for linear models                |
| `natural`              | loads data sets that come with clients of their own          |
| `traffic`, `synthetic` | make data on the spot                                        |
| `partitions`           | deals the samples of a data set to clients                   |
| `federations`          | builds the clients of an experiment, their samples and tests |
"""

from sflkit.data.catalogue import DataUnavailableError, available, names
from sflkit.data.files import DataCorruptError
from sflkit.data.images import Dataset, dataset, load

__all__ = [
    "DataCorruptError",
    "DataUnavailableError",
    "Dataset",
    "available",
    "dataset",
    "load",
    "names",
]
