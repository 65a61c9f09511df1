"""sflkit: executable companion to four papers on federated learning with streams, small caches, weak devices and forgetting.

Submodules load on first use, so `import sflkit` costs milliseconds and torch is imported only when something trains.
"""

from importlib import import_module

__version__ = "0.1.0"

_SUBMODULES = ("alternation", "attacks", "bounds", "buffered", "caches", "channels", "checks", "data", "engine", "enumeration",
               "fats", "federations", "histories", "importance", "ledgers", "models", "natural", "partitions", "paths",
               "randomness", "recomputation", "report", "retraining", "rounding", "runs", "scores", "servers", "states",
               "stores", "streams", "sweep", "synthetic", "traffic", "unlearning", "verdicts", "video", "wireless")


def __getattr__(name):
    if name in _SUBMODULES:
        return import_module(f"sflkit.{name}")
    raise AttributeError(f"module 'sflkit' has no attribute {name!r}")


def __dir__():
    return sorted([*globals(), *_SUBMODULES])
