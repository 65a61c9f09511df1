"""Ways to change one's own code: each is in the key, or refused, or said not to be seen."""

import functools
import itertools
import os
import subprocess
import sys
import textwrap
import types
from typing import Annotated

import numpy as np
import pytest

from sflkit import models, registry
from sflkit.config import OneOf, Seed, settings
from sflkit.datastreams import strategies
from sflkit.datastreams import training as datastreams
from sflkit.datastreams.config import DataStreamsConfig
from sflkit.fats import forgetting, membership, methods
from sflkit.fats import training as fats
from sflkit.fats.config import FATSConfig, MembershipConfig
from sflkit.osafl import rules as osafl_rules
from sflkit.osafl import training as osafl
from sflkit.osafl.config import OSAFLConfig
from sflkit.runs.identity import identity
from sflkit.runs.keys import describe, result_key
from sflkit.sfl import caches, training
from sflkit.sfl.config import SFLConfig
from tests.helpers import ROOT

CODE = """
import functools
from sflkit.sfl.caches import FIFO, SRSR

RATE = 1
def helper():
    return 1

class Base:
    share = 0.5

class Mixin:
    pass

def traced(times):
    def decorate(function):
        @functools.wraps(function)
        def wrapper(*args):
            return times * function(*args)
        return wrapper
    return decorate

def weight(x, gain=1.0, *, power=2):
    return x

class Mine(Base):
    '''What it does.'''

    size: int = 3

    def __init__(self, capacity, batch_size):
        self.capacity = capacity  # how many

    def held(self, by=1):
        return self.size * helper() * RATE

    @property
    def half(self):
        return self.size / 2

    @staticmethod
    def twice(x):
        return [2 * y for y in range(x)]

    @functools.cached_property
    def slow(self):
        return 3

    @traced(2)
    def shown(self):
        return 5

    class Inner:
        depth = 1

# later
"""
# What is written otherwise -> its text before and after.
SEEN = {
    "a method": ("self.size * helper()", "self.size + helper()"),
    "a constant in a method": ("self.size / 2", "self.size / 4"),
    "a name that is called": ("* helper()", "* len('a')"),
    "a class attribute": ("size: int = 3", "size: int = 4"),
    "an attribute set later": ("# later", "Mine.size = 4"),
    "a method put in later": ("# later", "Mine.held = lambda self: 7"),
    "a base class": ("share = 0.5", "share = 0.25"),
    "the bases": ("class Mine(Base)", "class Mine(Base, Mixin)"),
    "a default": ("by=1", "by=2"),
    "a property": ("return self.size / 2", "return self.size"),
    "a static method": ("range(x)", "range(1, x)"),
    "a comprehension": ("2 * y", "3 * y"),
    "a cached property": ("return 3", "return 4"),
    "what is wrapped": ("return 5", "return 6"),
    "a wrapper": ("times * function", "times + function"),
    "what a decorator is given": ("@traced(2)", "@traced(3)"),
    "a decorator more": ("    def held(", "    @traced(1)\n    def held("),
    "a class within": ("depth = 1", "depth = 2"),
    "a parameter's name": ("capacity, batch_size", "capacity, batches"),
}
HARMLESS = {
    "a comment": ("# how many", "# the most"),
    "a docstring": ("What it does.", "What it does now."),
    "an annotation": ("size: int", "size: float"),
    "another place in the file": ("import functools", "import functools\n\n\n"),
    "another class": ("class Mixin:\n    pass", "class Mixin:\n    x = 1"),
}
# What `run_many` says that it does not see.
NOT_SEEN = {
    "a global name": ("RATE = 1", "RATE = 2"),
    "a helper that is called": ("def helper():\n    return 1", "def helper():\n    return 2"),
}
_numbers = itertools.count()


def loaded(change=("", "")):
    """Return a module with the code after a change, under a name of its own."""
    assert change[0] in CODE
    module = types.ModuleType(f"own_code_{next(_numbers)}")
    exec(compile(CODE.replace(*change, 1), f"{module.__name__}.py", "exec"), vars(module))
    return module


@pytest.mark.parametrize("way", SEEN)
def test_a_change_that_is_seen(way):
    assert identity("cache", loaded(SEEN[way]).Mine) != identity("cache", loaded().Mine)


@pytest.mark.parametrize("way", HARMLESS | NOT_SEEN)
def test_a_change_that_is_not(way):
    change = (HARMLESS | NOT_SEEN)[way]
    assert identity("cache", loaded(change).Mine) == identity("cache", loaded().Mine)


@pytest.mark.parametrize("change", [("gain=1.0", "gain=2.0"), ("power=2", "power=3")])
def test_the_defaults_of_a_function(change):
    assert identity("model", loaded(change).weight) != identity("model", loaded().weight)


def test_two_things_have_two_identities_and_one_has_one():
    things = [caches.FIFO, caches.DRSR, *(vars(loaded())[name] for name in ("Mine", "Base"))]
    found = [identity("cache", thing) for thing in things]
    assert found == [identity("cache", thing) for thing in things]
    assert len({one["source_sha256"] for one in found}) == len(things)
    assert identity("cache", loaded().Mine.Inner)["name"] == "Mine.Inner"


def test_arrays_are_their_values():
    shares = np.array([[0.0, 1.0], [0.5, 0.5]])
    one = identity("stream", shares)
    assert one == identity("stream", -1 * (-1 * shares)) == identity("stream", shares.astype(">f8"))
    assert one == identity("stream", np.asfortranarray(shares))
    assert one != identity("stream", shares.T) != identity("stream", shares.astype(np.float32))


# --- rules that came in by a registry -------------------------------------------------------------

WAYS_IN = {
    "a network": (models.NETWORKS, training.run, lambda: SFLConfig(model="mine")),
    "a cache rule": (caches.RULES, training.run, lambda: SFLConfig(rule="mine")),
    "a strategy among the arms": (
        strategies.RULES,
        datastreams.run,
        lambda: DataStreamsConfig(arms=("uniform", "mine"), rates=(0.1, 0.1)),
    ),
    "a rule of OSAFL": (osafl_rules.RULES, osafl.run, lambda: OSAFLConfig(rule="mine")),
    "a rule of forgetting": (forgetting.RULES, fats.run, lambda: FATSConfig(rule="mine")),
    "a method of unlearning": (methods.METHODS, fats.run, lambda: FATSConfig(method="mine")),
    "a method in a tuple": (
        methods.METHODS,
        membership.run,
        lambda: MembershipConfig(methods=("fats", "mine")),
    ),
}


@pytest.fixture
def key(monkeypatch):
    """Return a function that gives the key of a config after a row was added to a registry."""

    def with_row(way, build, **row):
        table, run, config = WAYS_IN[way]
        with monkeypatch.context() as patch:
            patch.setattr(table, "_rules", dict(table))
            table.add("mine", registry.Rule(build, "Mine", **row))
            return result_key(run, config())

    return with_row


@pytest.mark.parametrize("way", WAYS_IN)
def test_a_registered_rule_is_in_the_key(key, way):
    before = key(way, loaded().Mine)
    assert before == key(way, loaded(HARMLESS["a comment"]).Mine)
    assert before != key(way, loaded(SEEN["a method"]).Mine)
    # a rule of this library in its place, and another one
    assert len({before, key(way, caches.FIFO), key(way, caches.SRSR)}) == 3


def test_lambdas_partials_and_options_of_a_row_are_in_the_key(key):
    functions = [lambda shape, n: 1, lambda shape, n: 2]
    functions += [functools.partial(loaded().weight, gain) for gain in (1, 2)]
    found = {key("a network", function) for function in functions}
    assert len(found | {key("a network", functions[0], options=("theta",))}) == 5
    again = lambda shape, n: 1  # noqa: E731
    again.__qualname__ = functions[0].__qualname__
    assert key("a network", again) in found


class Gain:
    def __init__(self, by):
        self.by = by

    def scaled(self, x):
        return self.by * x

    @functools.wraps(helper := lambda x: x)
    def wrapped(self, x):
        return self.by * x


def test_parameters_of_what_is_wrapped_are_in_the_key(key):
    """A bound method has its object, a partial its arguments, whatever they wrap."""

    def base(gain, x):
        return gain * x

    def named(gain):
        return functools.update_wrapper(functools.partial(base, gain), base)

    kinds = [lambda by: Gain(by).scaled, lambda by: Gain(by).wrapped, named]
    kinds += [lambda by: functools.lru_cache(Gain(by).wrapped)]
    for kind in kinds:
        one, same, other = (key("a network", _held(kind(by))) for by in (1, 1, 2))
        assert one == same != other


def _held(value):
    return lambda shape, n: value


def test_a_row_whose_code_cannot_be_told_apart_is_refused(key):
    holds = open(os.devnull)
    with holds, pytest.raises(ValueError, match=r"config.rule='mine'.* holds .*TextIOWrapper"):
        key("a cache rule", lambda capacity, batch_size: holds)


def test_a_rule_of_this_library_leaves_no_trace():
    for run, config in [(training.run, SFLConfig()), (fats.run, FATSConfig())]:
        assert "sources" not in describe(run, config)


def test_a_table_of_the_users_counts_where_a_config_names_it():
    table = registry.Registry("own rule", {"drsr": registry.Rule(loaded().Mine, "Mine")})
    assert "sources" not in describe(training.run, SFLConfig(rule="drsr"))

    @settings
    class Study:
        rules: tuple[Annotated[str, OneOf(table)], ...] = ("drsr",)
        seed: Seed = 0

    assert list(describe(training.run, Study())["sources"]) == ["config.rules.0, own rule"]


def test_a_config_class_with_code_of_its_own():
    plain = SFLConfig(seed=3)

    class Renamed(SFLConfig):
        pass

    class Overridden(SFLConfig):
        @property
        def cache_rounds(self):
            return 7.0

    class Below(Overridden):
        pass

    keys = [result_key(training.run, cls(seed=3)) for cls in (Renamed, Overridden, Below)]
    assert keys[0] == result_key(training.run, plain)
    assert len(set(keys)) == 3
    assert list(describe(training.run, Below())["sources"]) == ["config"]


def test_a_wrapper_of_a_function_of_this_library_is_the_users():
    """`functools.wraps` gives it that library's module."""

    def run(config):
        return config

    own = functools.wraps(training.run)(run)
    assert own.__module__ == training.__name__
    assert result_key(own, SFLConfig()) != result_key(training.run, SFLConfig())


# --- one key in every process ---------------------------------------------------------------------


def test_the_same_in_every_process_and_without_asserts(tmp_path):
    (tmp_path / "own_rules_here.py").write_text(CODE.replace("'''What it does.'''", ""))
    script = """
        import sys
        from own_rules_here import Mine
        from sflkit.runs.identity import identity
        print(identity("cache", Mine)["source_sha256"])
    """
    environment = os.environ | {"PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT}"}
    said = {
        subprocess.run(
            [sys.executable, *flags, "-c", textwrap.dedent(script)],
            env=environment | {"PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for flags, seed in (([], "1"), (["-O"], "2"))
    }
    assert len(said) == 1


def test_what_was_imported_counts_not_what_its_file_says_now(tmp_path, monkeypatch):
    """Whatever the time of the file: an old one deceived an earlier version."""
    file = tmp_path / "edited_rules.py"
    file.write_text("class Mine:\n    size = 1\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    import edited_rules

    before = identity("cache", edited_rules.Mine)
    file.write_text("class Mine:\n    size = 2\n")
    os.utime(file, (0, 0))
    assert identity("cache", edited_rules.Mine) == before
    del sys.modules["edited_rules"]
    import edited_rules

    assert identity("cache", edited_rules.Mine) != before
    del sys.modules["edited_rules"]
