"""sflkit: executable companion to four papers on federated learning with streams, small caches, weak devices and forgetting.

Submodules load on first use, so `import sflkit` costs milliseconds and torch is imported only when something trains.
"""

from importlib import import_module

__version__ = "0.1.0"

_SUBMODULES = ("attacks", "bounds", "caches", "checks", "data", "engine", "histories", "importance", "models", "partitions",
               "randomness", "report", "runs", "servers", "streams", "sweep", "traffic", "unlearning", "video", "wireless")
_ALIASES = {"fats": "histories"}


def __getattr__(name):
    target = _ALIASES.get(name, name)
    if target in _SUBMODULES:
        try:
            return import_module(f"sflkit.{target}")
        except ModuleNotFoundError as error:
            if error.name != f"sflkit.{target}":
                raise
    raise AttributeError(f"module 'sflkit' has no attribute {name!r}")


def __dir__():
    return sorted([*globals(), *_SUBMODULES, *_ALIASES])
