"""Nothing that anyone could have written is evaluated, and no pickle can call anything."""

from __future__ import annotations

import ast
import re

from sflkit.data import downloads
from tests.helpers import ROOT

# What runs code that it reads, or builds any object that a file names.
UNSAFE = {
    "pickle",
    "cPickle",
    "dill",
    "cloudpickle",
    "marshal",
    "shelve",
    "read_pickle",
    "extractall",
    "eval",
    "exec",
    "yaml.load",
    "torch.load",
    "np.load",
    "numpy.load",
    "joblib.load",
}


NO_PICKLE = "allow_pickle=False"  # numpy reads arrays then, and nothing else


def names(tree):
    """Yield what a file imports and calls, `a.b` and `b` for `a.b()`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module or ""
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.Call) and NO_PICKLE not in map(ast.unparse, node.keywords):
            parts = ast.unparse(node.func).split(".")
            yield ".".join(parts[-2:])
            if parts[-1] not in ("eval", "exec"):  # a network's eval() is another thing
                yield parts[-1]


def test_nothing_is_unpickled_or_evaluated():
    found = {
        str(path.relative_to(ROOT)): unsafe
        for folder in ("sflkit", "companion")
        for path in (ROOT / folder).rglob("*.py")
        if (unsafe := set(names(ast.parse(path.read_text(encoding="utf-8")))) & UNSAFE)
    }
    # CIFAR's batches, whose reader has stand-ins for what they call
    assert found == {"sflkit/data/files.py": {"pickle"}}


def test_every_address_without_tls_comes_after_those_with_it():
    for name, source in downloads.SOURCES.items():
        secure = [address.startswith("https://") for address in source.addresses]
        assert secure == sorted(secure, reverse=True) and secure[0], name
        assert all(len(digest.split(":")[-1]) in (32, 64) for digest in source.files.values())


def test_every_promise_names_a_test_that_is_there():
    text = (ROOT / "SECURITY.md").read_text(encoding="utf-8")
    table = text[: text.index("## What is not")].splitlines()
    rows = [line.split(" | ") for line in table if line.startswith("|")][2:]
    named = [re.findall(r"tests/[\w/]+\.py", row[-1]) for row in rows]
    assert len(rows) >= 9 and all(named)
    assert [name for names in named for name in names if not (ROOT / name).is_file()] == []
