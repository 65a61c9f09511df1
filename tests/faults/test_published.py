"""Corruptions of every kind of published file: `sflkit check` names each and exits with 1.

`make test` makes one of each of a few kinds, `make faults` N corruptions of all kinds together. Of
a page only the generated part is corrupted: the rest is prose, which nobody but git can know.
"""

from __future__ import annotations

import shutil

import pytest
from typer.testing import CliRunner

from companion.app import cli
from tests.faults import campaign, file_doors
from tests.helpers import ROOT

KINDS = {
    "rows of runs": "data/results/*.csv.xz",
    "records of runs": "data/results/*.jsonl.xz",
    "small results": "data/results/derived.json",
    "benchmarks": "data/results/bench/*.csv",
    "digests": "*/**/SHA256SUMS",
    "papers' numbers": "data/paper_values/*.csv",
    "pictures": "figures/*.png",
    "numbers and tables": "figures/*.csv",
    "tables": "figures/[ivp]*[xs].csv",
    "passports": "figures/*.json",
    "parameters": "figures/parameters.json",
    "verdicts": "VERDICTS.md",
    "README": "README.md",
    "guides": "docs/guides/[ns][op][te]*.md",
}
BLOCKS = {
    "README.md": ("findings", "verdicts", "notebooks"),
    "notebooks.md": ("notebooks",),
    "speed.md": ("bench",),
}


@pytest.fixture(scope="module")
def copy(tmp_path_factory):
    """What the clone publishes, in a folder of its own."""
    folder = tmp_path_factory.mktemp("copy")
    for name in ("data/results", "data/paper_values", "figures", "notebooks", "docs/guides"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns(".*", "*.pdf"))
    for name in ("pyproject.toml", "README.md", "VERDICTS.md"):
        shutil.copy(ROOT / name, folder)
    return folder


def checked():
    """Return the exit code and the lines of `sflkit check`, without its last one."""
    done = CliRunner().invoke(cli.app, ["check"])
    assert isinstance(done.exception, SystemExit | None) and "Traceback" not in done.output
    return done.exit_code, done.output.splitlines()[:-1]


def corrupted(file, rng):
    """Return a file's bytes with one corruption, of a page in a generated part of it."""
    content = file.read_bytes()
    if file.name not in BLOCKS:
        return campaign.damaged(content, rng)
    name = rng.choice(BLOCKS[file.name])
    begin, end = f"<!-- {name}:begin -->\n".encode(), f"<!-- {name}:end -->".encode()
    before, _, rest = content.partition(begin)
    block, _, after = rest.partition(end)
    return before + begin + campaign.damaged(block, rng) + end + after


def test_every_corruption_is_named(copy, monkeypatch):
    monkeypatch.chdir(copy)
    _, before = checked()  # nothing, in a clone that is whole
    kinds = list(KINDS) if campaign.N else ["rows of runs", "pictures", "tables", "README"]
    for number in campaign.tries(len(kinds), 0.3):
        kind = kinds[number % len(kinds)]
        rng = campaign.generator(f"published {kind}", number)
        file = rng.choice(sorted(copy.glob(KINDS[kind])))
        right = file.read_bytes()
        file.write_bytes(corrupted(file, rng))
        code, lines = checked()
        new = [line for line in lines if line not in before]
        assert code == 1 and any(file.name in line for line in new), (kind, file, new)
        file.write_bytes(right)
    assert checked()[1] == before


def test_what_is_no_file_of_its_kind_is_named(copy, monkeypatch):
    """Pipes, devices, folders, nested brackets: in place of one file of each kind, all at once."""
    monkeypatch.chdir(copy)
    ways = [way for name, way in file_doors.OTHER.items() if name != "items of no bytes"]
    for number in campaign.tries(1, 0.1):
        place, kept = {}, {}
        for kind, pattern in KINDS.items():
            rng = campaign.generator(f"no file {kind}", number)
            if "**" in pattern or kind in place:
                continue
            place[kind] = file = rng.choice(sorted(set(copy.glob(pattern)) - set(kept)))
            kept[file] = file.read_bytes()
            ways[(number + len(place)) % len(ways)](file)
        code, lines = checked()
        for file, content in kept.items():
            shutil.rmtree(file) if file.is_dir() else file.unlink()
            file.write_bytes(content)
        missed = [kind for kind, file in place.items() if not any(file.name in x for x in lines)]
        assert code == 1 and not missed, (missed, lines)
