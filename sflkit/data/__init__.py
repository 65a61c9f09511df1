"""Data sets by name, and federations made of them: `load("mnist")`.

| module                 | what it does                                                 |
|------------------------|--------------------------------------------------------------|
| `catalogue`            | knows names, shapes and where files may lie                  |
| `files`                | reads and writes the files, torchvision's included           |
| `downloads`            | fetches the canonical files and converts them                |
| `datasets`             | loads data sets by name, `load`                              |
| `arrays`               | holds a data set in memory, `Dataset`                        |
| `patches`              | computes features of images for linear models                |
| `natural`, `leaf`      | load data sets that come with clients of their own           |
| `traffic`, `synthetic` | make data on the spot                                        |
| `partitions`           | deals the samples of a data set to clients                   |
| `federations`          | builds the clients of an experiment, their samples and tests |
| `own`                  | reads a table of your own, `own.read`                        |
"""

from sflkit.data.arrays import Dataset
from sflkit.data.catalogue import DataUnavailableError, available, names
from sflkit.data.datasets import dataset, load
from sflkit.data.files import DataCorruptError

__all__ = [
    "DataCorruptError",
    "DataUnavailableError",
    "Dataset",
    "available",
    "dataset",
    "load",
    "names",
]
