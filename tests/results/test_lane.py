"""The lane: a list is computed in a bare folder, taken and audited; what is damaged is refused."""

from __future__ import annotations

import dataclasses
import hashlib
import io
import json
import lzma
import os
import shutil
import subprocess
import sys
import tarfile
import time

import pytest

from sflkit.runs import lane, store, sums
from sflkit.runs.keys import result_key
from sflkit.sfl import cache_paths, discrepancy, training
from sflkit.sfl.config import SFLConfig
from tests.helpers import ROOT

TINY = SFLConfig(train=False, rounds=6, n_clients=3, capacity=4, batch_size=2)
CONFIGS = [dataclasses.replace(TINY, seed=seed) for seed in range(10)]


def order(config, seconds=0.1, run=cache_paths.run):
    return lane.Order(run, config, result_key(run, config), seconds)


@pytest.fixture(scope="module")
def bundle(tmp_path_factory):
    """Ten runs, computed by the command in a folder without git, notebooks and companion."""
    folder = tmp_path_factory.mktemp("bare")
    shutil.copytree(ROOT / "sflkit", folder / "sflkit", ignore=shutil.ignore_patterns("__pyc*"))
    (folder / "list.json").write_text(lane.as_list(map(order, CONFIGS)))
    command = [sys.executable, "-S", "-c"]  # -S: no installed companion
    site = next(path for path in sys.path if path.endswith("site-packages"))
    code = f"import sys; sys.path.append({site!r}); from sflkit.cli import app; app()"
    words = ["runs", "compute", "list.json", "--minutes", "2", "--out", "bundle.tar.xz"]
    environment = {"PATH": os.environ["PATH"], "HOME": "/proc", "PYTHONPATH": f"{folder}:{site}"}
    done = subprocess.run(
        [*command, code, *words], cwd=folder, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "10 of 10 runs are in bundle.tar.xz" in done.stdout
    return folder / "bundle.tar.xz"


def test_ten_runs_computed_in_a_bare_folder_are_taken(bundle, tmp_path):
    keys = lane.take(bundle, tmp_path / "store", audited=10)
    assert keys == [order(config).key for config in CONFIGS]
    for key, config in zip(keys, CONFIGS, strict=True):
        frame, record = store.read_result(key, tmp_path / "store")
        assert record["commit"] == "none" and record["device"] == "cpu"
        here = cache_paths.run(config)
        assert frame["discrepancy"].tolist() == pytest.approx(here["discrepancy"], rel=1e-6)
    assert lane.take(bundle, tmp_path / "store") == keys  # again


def unpacked(bundle):
    with tarfile.open(bundle) as files:
        return {name: files.extractfile(name).read() for name in files.getnames()}


def packed(content, file, *, digests=True, twice=()):
    """Write a bundle of these files; with right digests, unless told otherwise."""
    if digests:
        known = {n: hashlib.sha256(c).hexdigest() for n, c in content.items() if n != sums.NAME}
        content = content | {sums.NAME: sums.text(known).encode()}
    with tarfile.open(file, "w:xz") as files:
        for name in [*content, *twice]:
            member = tarfile.TarInfo(name)
            member.size = len(content[name])
            files.addfile(member, io.BytesIO(content[name]))
    return file


def changed(content, key, csv=lambda text: text, **record):
    """Return the files with another result under a key, whose record's own digests are right."""
    text = csv(content[f"{key}.csv"])
    said = json.loads(content[f"{key}.json"]) | {"sha256": hashlib.sha256(text).hexdigest()}
    said |= record
    said["record_sha256"] = store.record_sha256(said)
    return content | {f"{key}.csv": text, f"{key}.json": json.dumps(said).encode()}


KEY, OTHER = order(CONFIGS[3]).key, order(CONFIGS[4]).key


def other_config(content):
    said = json.loads(content[f"{KEY}.json"])
    return changed(content, KEY, config=said["config"] | {"rounds": 7})


def without(content, name):
    return {n: c for n, c in content.items() if n != name}


def other_column(text):
    return text.replace(b"discrepancy", b"accuracies", 1)


def one_number(text):
    rest, _, last = text[:-1].rpartition(b",")
    return b"%s,%.7g\n" % (rest, float(last) + 0.01)


# What was done to a bundle -> its files, or how they are packed; and what is said of the run.
DAMAGED = {
    "numbers altered": (lambda c: c | {f"{KEY}.csv": c[f"{KEY}.csv"] + b"7,1\n"}, "its digest in"),
    "a record altered": (lambda c: c | {f"{KEY}.json": b"{}"}, "its digest in"),
    "numbers missing": (lambda c: without(c, f"{KEY}.csv"), "is missing"),
    "another config": (other_config, "those of another key"),
    "another version": (
        lambda c: changed(c, KEY, result_version=99),
        "version are those of another",
    ),
    "another column": (lambda c: changed(c, KEY, other_column), "columns are not"),
    "rows fewer": (lambda c: changed(c, KEY, lambda t: t[: t.rindex(b"\n", 0, -1) + 1]), "rows"),
    "another type": (
        lambda c: changed(c, KEY, columns={"round": "int64", "discrepancy": "int64"}),
        "cannot be read as its record says",
    ),
    "another's result": (
        lambda c: c | {f"{KEY}{e}": c[f"{OTHER}{e}"] for e in (".csv", ".json")},
        "the record is of",
    ),
}


@pytest.mark.parametrize("how", DAMAGED)
def test_a_damaged_run_is_refused_by_name_and_the_others_are_filed(bundle, tmp_path, how):
    damage, why = DAMAGED[how]
    content = damage(unpacked(bundle))
    # a transport damages files, a mistaken or malicious sender gives right digests
    file = packed(
        content, tmp_path / "b.tar.xz", digests="digest in" not in why and "is m" not in why
    )
    with pytest.raises(ValueError, match=rf"1 runs are refused, 9 are in .*\n  {KEY}: .*{why}"):
        lane.take(file, tmp_path / "store", audited=1, seed=3)
    there = {p.stem for p in (tmp_path / "store" / "sfl-caches").iterdir()}
    assert len(there) == 9 and KEY.partition("/")[2] not in there


def test_numbers_that_no_digest_tells_are_found_by_the_audit(bundle, tmp_path):
    file = packed(changed(unpacked(bundle), KEY, one_number), tmp_path / "b.tar.xz")
    why = f"(?s)10 runs are refused, 0 .*{KEY} was audited: discrepancy is"
    with pytest.raises(ValueError, match=why):
        lane.take(file, tmp_path / "store", audited=10)
    assert not (tmp_path / "store").exists()


@pytest.mark.parametrize("how", ["cut", "no xz", "a path", "a link", "twice", "no sums", "no list"])
def test_what_is_no_whole_bundle_is_refused(bundle, tmp_path, how):
    content, file = unpacked(bundle), tmp_path / "b.tar.xz"
    if how == "cut":
        file.write_bytes(bundle.read_bytes()[:-50])
    elif how == "no xz":
        file.write_bytes(b"runs")
    elif how == "a path":
        packed(content | {"../sfl-caches/0123456789abcdef.csv": b"x"}, file)
    elif how == "a link":
        with tarfile.open(file, "w:xz") as files:
            member = tarfile.TarInfo("list.json")
            member.type, member.linkname = tarfile.SYMTYPE, "/etc/passwd"
            files.addfile(member)
    elif how == "twice":
        packed(content, file, twice=[f"{KEY}.csv"])
    else:
        name = sums.NAME if how == "no sums" else lane.LIST
        packed(without(content, name), file, digests=False)
    with pytest.raises(ValueError, match=r"b\.tar\.xz is no whole bundle: "):
        lane.take(file, tmp_path / "store")
    assert not (tmp_path / "store").exists()


def test_a_bundle_that_unpacks_to_too_much_is_not_unpacked(bundle, tmp_path, monkeypatch):
    monkeypatch.setattr("sflkit.runs.archive.MOST", 1000)
    with pytest.raises(ValueError, match="too large"):
        lane.take(bundle, tmp_path / "store")
    assert lzma.decompress(bundle.read_bytes())


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"run": "os:system"}, "'os:system' must be a name in sflkit or companion"),
        ({"run": "sflkit.sfl.training:nothing"}, "has no attribute 'nothing'"),
        ({"run": "sflkit.nowhere:run"}, "No module named"),
        ({"class": "sflkit.sfl.config:SFLConfig.x"}, "must be a name in sflkit"),
        ({"config": {"rounds": -1}}, "rounds=-1 must be"),
        ({"key": "sfl-caches/0000000000000000"}, "its config has the key sfl-caches/"),
        ({"seconds": -1}, "seconds=-1 must be"),
    ],
)
def test_a_list_that_is_none_is_refused_by_name(change, why):
    said = json.loads(lane.as_list([order(TINY)]))
    said["runs"][0] |= change
    with pytest.raises(ValueError, match=rf"{said['runs'][0]['key']}: .*{why}"):
        lane.orders(json.dumps(said))
    for text in ("", "[]", '{"runs": [3]}', "[" * 100_000):
        with pytest.raises(ValueError, match="this is no list of runs"):
            lane.orders(text)


def test_a_list_gives_back_the_runs_of_all_kinds():
    wanted = [order(TINY), order(discrepancy.DiscrepancyConfig(), None, discrepancy.run)]
    wanted.append(order(SFLConfig(data="digits"), 3.0, training.run))
    assert lane.orders(lane.as_list(wanted)) == wanted


def test_the_dearest_that_fits_goes_first_and_the_time_is_kept(tmp_path):
    """A run of a million rounds is promised to fit, and does not; one of an hour never starts."""
    endless = order(dataclasses.replace(TINY, rounds=1_000_000), 6.0)
    wanted = [order(TINY, 1.0), order(CONFIGS[1], None), order(CONFIGS[2], 3600.0), endless]
    said = []
    began = time.monotonic()
    keys = lane.compute(wanted, tmp_path / "b.tar.xz", minutes=0.4, jobs=2, echo=said.append)
    assert time.monotonic() - began < 40
    assert keys == [order(TINY).key, order(CONFIGS[1]).key]
    assert said[0].startswith(order(TINY).key) and said[-1].startswith("2 of 4 runs are in")
    assert lane.take(tmp_path / "b.tar.xz", tmp_path / "store") == keys
    again = lane.compute(wanted[:2], tmp_path / "b.tar.xz", minutes=0.4, echo=said.append)
    assert again == keys and len(said) == 4  # nothing was computed twice


@pytest.mark.parametrize(("minutes", "jobs"), [(0, 1), (-1, 1), ("9", 1), (1, 0)])
def test_bad_input(tmp_path, minutes, jobs):
    with pytest.raises(ValueError, match=r"(minutes|jobs)=.* must be"):
        lane.compute([order(TINY)], tmp_path / "b.tar.xz", minutes=minutes, jobs=jobs)
    assert not list(tmp_path.iterdir())
