"""Running notebooks without a person: through papermill, through Snakemake, and in place."""

from __future__ import annotations

import asyncio
import json
import os
import platform
import re
import signal
import subprocess
import sys
import time
from queue import Empty

import nbclient
import nbformat
import psutil
import pytest
from typer.testing import CliRunner

from companion.app import cli, gate, kernels, links, refresh, regenerate, runner
from sflkit import paths
from tests.helpers import DRAW, write_notebook

SFLKIT = [sys.executable, "-m", "sflkit.cli"]
SNAKEMAKE = [sys.executable, "-m", "snakemake"]


def sflkit(*arguments, **kwargs):
    return subprocess.run(
        [*SFLKIT, *arguments], capture_output=True, text=True, timeout=120, **kwargs
    )


def test_a_run_with_settings_of_its_own_leaves_the_profile_alone(clone):
    write_notebook(
        clone / "notebooks" / "10_first.ipynb",
        "print(rounds, rate, rule, seeds, profile, paths.drawn(profile))",
    )
    result = sflkit(
        "run", "10", "--profile", "paper", "-p", "rounds=50", "-p", "rule=fifo", "-p", "seeds=[7]"
    )
    assert result.returncode == 0, result.stderr
    done = clone / "out" / "paper" / "10_first.custom.ipynb"
    assert str(done) in result.stdout
    output = nbformat.read(done, as_version=4).cells[-1].outputs[0].text
    assert output == f"50 0.001 fifo [7] paper {clone / 'out' / 'figures' / 'paper'}\n"
    assert sorted(p.name for p in done.parent.iterdir()) == [
        "10_first.custom.ipynb"
    ]  # no stamp, no part


def last_output(book):
    """What the last code cell prints; `sflkit refresh` adds a line of links behind it."""
    return [cell for cell in book.cells if cell.cell_type == "code"][-1].outputs[0].text.strip()


def test_only_a_profiles_own_run_may_publish(clone, monkeypatch):
    write_notebook(clone / "notebooks" / "10_first.ipynb", "print(paths.drawn(profile))")

    def printed(file):
        return last_output(nbformat.read(file, as_version=4))

    out = clone / "out" / "quick"
    by_hand = str(clone / "out" / "figures" / "quick")
    assert by_hand in sflkit("run", "10").stdout
    assert printed(out / "10_first.custom.ipynb") == by_hand
    assert [file.name for file in out.iterdir()] == ["10_first.custom.ipynb"]  # no stamp
    published = str(clone / "figures" / "quick")
    assert by_hand not in sflkit("run", "10", "--publish").stdout
    assert printed(out / "10_first.ipynb") == published
    refused = sflkit("run", "10", "--publish", "-p", "rounds=50")
    assert refused.returncode == 2
    assert "-p rounds=50 cannot be published; leave out -p, or --publish" in refused.stderr
    assert sflkit("refresh", "10").returncode == 0
    assert printed(clone / "notebooks" / "10_first.ipynb") == published
    # by hand, as in JupyterLab
    monkeypatch.delenv(paths.PUBLISH, raising=False)
    book = nbformat.read(clone / "notebooks" / "10_first.ipynb", as_version=4)
    nbclient.execute(book, cwd=str(clone / "notebooks"))
    assert last_output(book) == by_hand


def test_a_failing_cell_ends_in_1_and_names_itself(clone):
    write_notebook(
        clone / "notebooks" / "10_first.ipynb", run="raise RuntimeError('the cache is on fire')"
    )
    result = sflkit("run", "first")
    assert result.returncode == 1
    assert "10_first, cell [3]: RuntimeError: the cache is on fire" in result.stderr
    assert [p.name for p in (clone / "out" / "quick").iterdir()] == ["10_first.failed.ipynb"]


def test_figures_do_what_is_needed_go_on_after_a_failure_and_name_it(clone):
    draw = f"{DRAW}print(os.environ['SFLKIT_THREADS'])"
    write_notebook(clone / "notebooks" / "10_first.ipynb", run=draw, artefacts=["sfl-fig2"])
    write_notebook(clone / "notebooks" / "12_second.ipynb", run="1 / 0")
    result = sflkit("figures", env={**os.environ, "SFLKIT_THREADS": "6"})
    assert result.returncode == 1
    assert "failed: 12_second\n" in result.stderr and "ZeroDivisionError" in result.stderr
    assert "1 run, 0 up to date, 1 failed" in result.stdout and "1 figures" in result.stdout
    assert "figures/quick: nothing is committed" in result.stdout
    executed = nbformat.read(clone / "out" / "quick" / "10_first.ipynb", as_version=4)
    assert executed.cells[-1].outputs[0].text == "3\n"  # 6 threads shared by 2 jobs
    stamp = json.loads((clone / "out" / "quick" / "10_first.done.json").read_text())
    assert stamp["figures"] == stamp["verdicts"] == ["sfl-fig2"]
    assert "[Example](notebooks/10_first.ipynb)" in (clone / "README.md").read_text()

    write_notebook(clone / "notebooks" / "12_second.ipynb", artefacts=())  # mended
    assert "1 run, 1 up to date, 0 failed" in sflkit("figures").stdout
    with open(clone / "sflkit" / "sfl" / "caches.py", "a") as source:
        source.write("\n")
    assert "1 run, 0 up to date, 0 failed" in sflkit("figures", "--only", "12").stdout


def test_damage_to_what_is_published_is_said_and_made_anew(clone):
    write_notebook(clone / "notebooks" / "10_first.ipynb", run=DRAW, artefacts=["sfl-fig2"])
    assert sflkit("figures", "--only", "10").returncode == 0
    folder = clone / "figures" / "quick"
    right = {file.name: file.read_bytes() for file in folder.iterdir()}
    by_hand = {
        "sfl-fig2.png": (b"IEND", b""),
        "sfl-fig2.json": (b'"data_sha256": "', b'"data_sha256": "0'),
        "verdicts.csv": (b"fig2,reproduced", b"fig2,partly"),
    }
    for name, (old, new) in by_hand.items():
        assert old in right[name]
        (folder / name).write_bytes(right[name].replace(old, new))
    checked = CliRunner().invoke(cli.app, ["verdicts", "--write-readme"])
    assert checked.exit_code == 2 and "the row of sfl-fig2, or its parts" in checked.stderr
    assert "partly" not in (clone / "README.md").read_text()
    shown = CliRunner().invoke(cli.app, ["verdicts"])
    assert shown.exit_code == 1 and isinstance(shown.exception, SystemExit)
    assert f"sflkit: {folder / 'verdicts.csv'}: the row of sfl-fig2" in shown.stderr
    result = sflkit("figures", "--only", "10")
    for name in by_hand:
        assert f"damaged: {folder / name}: " in result.stdout, result.stdout
    assert result.stdout.count("made anew by 10_first") == 3
    assert "1 run, 0 up to date, 0 failed" in result.stdout
    assert {file.name: file.read_bytes() for file in folder.iterdir()} == right

    verdicts = right["verdicts.csv"]
    (folder / "verdicts.csv").write_bytes(verdicts[: len(verdicts) // 2])
    os.truncate(clone / "out" / "quick" / "10_first.done.json", 20)
    result = sflkit("figures", "--only", "10")
    assert f"damaged: {folder / 'verdicts.csv'}: line 2: " in result.stdout
    assert "1 run, 0 up to date, 0 failed" in result.stdout and "Traceback" not in result.stderr
    assert {file.name: file.read_bytes() for file in folder.iterdir()} == right


def test_what_is_damaged_of_another_notebook_stays_and_so_does_the_readme(clone):
    write_notebook(clone / "notebooks" / "10_first.ipynb", run=DRAW, artefacts=["sfl-fig2"])
    assert sflkit("figures").returncode == 0
    folder = clone / "figures" / "quick"
    for name in ("verdicts.csv", "parts.csv"):
        (folder / name).write_text((folder / name).read_text().replace("fig2,", "fig2,not ", 1))
    index = (folder / "index.csv").read_bytes()
    before = {f: f.read_bytes() for f in (*folder.iterdir(), *clone.glob("*.md"))}
    result = sflkit("figures", "--only", "12")
    assert result.returncode == 1 and "0 run, 1 up to date, 0 failed" in result.stdout
    tables = f"{folder / 'verdicts.csv'} {folder / 'parts.csv'}"
    assert f"`git checkout -- {tables}` or `make figures ONLY=10` mends it" in result.stdout
    assert "README and VERDICTS.md stay" in result.stderr
    assert {file: file.read_bytes() for file in before} == before
    assert sflkit("figures", "--only", "10").returncode == 0

    # a cut line is of nobody knows whom: nothing runs that would rewrite the table
    (folder / "index.csv").write_bytes(index[:-40])
    result = sflkit("figures", "--only", "12")
    assert result.returncode == 1 and "run," not in result.stdout
    assert f"`git checkout -- {folder / 'index.csv'}` or `make figures` mends it" in result.stdout
    assert "nothing was run, since lines of a table are damaged" in result.stderr
    assert (folder / "index.csv").read_bytes() == index[:-40]
    assert sflkit("figures").returncode == 0
    assert (folder / "index.csv").read_bytes() == index


def test_a_stamp_knows_what_it_was_made_from_whatever_the_clock_says(clone):
    book = gate.find("10")
    stamp = runner.stamp(book, "quick")
    for name in ("data/paper_values/sfl.csv", "data/paper_values/fats.csv", "ERRATA.md"):
        paths.write_atomic(clone / name, "")
    made = {"figures": [], "verdicts": [], "made_from": runner.made_from(book, {})}
    paths.write_atomic(stamp, json.dumps(made))
    os.utime(stamp, (2**32, 2**32))  # newer than all that will be changed
    for changed, lost in (
        ("sflkit/fats/bounds.py", False),  # another paper's
        ("sflkit/sfl/caches.py", True),
        ("sflkit/checks.py", True),
        ("notebooks/10_first.ipynb", True),
        ("notebooks/12_second.ipynb", False),
        ("data/paper_values/sfl.csv", True),
        ("data/paper_values/fats.csv", False),
        ("ERRATA.md", False),  # notebook 91 reads it
    ):
        text = (clone / changed).read_text()
        (clone / changed).write_text(text + "\n")
        assert regenerate.is_lost(gate.find("10"), "quick") is lost, changed
        (clone / changed).write_text(text)
        assert not regenerate.is_lost(gate.find("10"), "quick")
    paths.write_atomic(stamp, json.dumps(made | {"verdicts": ["x-fig1"]}))  # and its row is gone
    assert regenerate.is_lost(book, "quick")
    stamp.unlink()
    assert not regenerate.is_lost(book, "quick")  # it has not run


def test_figures_of_a_profile_are_those_it_names(clone):
    result = sflkit("figures", "--profile", "paper")
    assert result.returncode == 0, result.stderr
    assert (
        "not run, since notebooks/profiles.yaml says nothing of them for 'paper': 12_second\n"
        in result.stdout
    )
    assert "1 run, 0 up to date, 0 failed" in result.stdout
    assert sorted(p.name for p in (clone / "out" / "paper").iterdir()) == [
        "10_first.done.json",
        "10_first.ipynb",
    ]


def test_a_broken_snakemake_is_no_success(clone):
    for book in (
        gate.notebooks()
    ):  # old stamps: no notebook has failed, but nothing was brought up to date either
        runner.stamp(book, "quick").parent.mkdir(parents=True, exist_ok=True)
        runner.stamp(book, "quick").write_text('{"figures": []}')
    with open(clone / "Snakefile", "a") as file:
        file.write("\nraise RuntimeError('the workflow is on fire')\n")
    result = sflkit("figures")
    assert result.returncode == 1 and "run," not in result.stdout
    assert (
        "sflkit: Snakemake ended with exit code 1, though no notebook failed:\nRuntimeError in file"
        in result.stderr
    )
    assert "the workflow is on fire" in result.stderr


def test_what_never_ran_has_not_failed_and_the_reason_is_said(clone):
    (clone / ".snakemake").write_text("a file where a folder must be")
    result = sflkit("figures")
    assert result.returncode == 1 and "failed:" not in result.stderr
    said = "Snakemake ended with exit code 1; not run: 10_first, 12_second:\n"
    assert said in result.stderr and ".snakemake'" in result.stderr.split(said)[1]
    (clone / ".snakemake").unlink()

    write_notebook(clone / "notebooks" / "12_second.ipynb", run="1 / 0")
    write_notebook(clone / "notebooks" / "90_verdicts.ipynb", artefacts=())
    old = clone / "out" / "quick" / "90_verdicts.failed.ipynb"
    old.parent.mkdir(parents=True, exist_ok=True)
    old.touch()
    result = sflkit("figures", "--only", "12 90")
    assert result.returncode == 1 and "0 run, 0 up to date, 1 failed" in result.stdout
    assert "sflkit: failed: 12_second\nsflkit: not run: 90_verdicts\n" in result.stderr


def test_kill_9_leaves_no_orphans_and_only_the_rest_is_run_again(clone):
    write_notebook(
        clone / "notebooks" / "12_second.ipynb",
        run=(
            "open('../kernel', 'w').write(str(os.getpid()))\n"
            "time.sleep(0 if os.path.exists('../mended') else 600)"
        ),
    )
    driver = subprocess.Popen(
        [*SFLKIT, "figures", "--jobs", "2"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    deadline = time.monotonic() + 60
    # Snakemake marks both outputs of a job as incomplete until it has noted the job's end.
    while not (
        (clone / "kernel").exists()
        and (clone / "out" / "quick" / "10_first.done.json").exists()
        and sum(p.is_file() for p in (clone / ".snakemake" / "incomplete").rglob("*")) <= 2
    ):
        assert time.monotonic() < deadline and driver.poll() is None, "the notebooks did not start"
        time.sleep(0.1)
    kernel = psutil.Process(int((clone / "kernel").read_text()))
    below = psutil.Process(driver.pid).children(recursive=True)
    assert kernel in below
    os.kill(driver.pid, signal.SIGKILL)
    driver.wait()
    _, alive = psutil.wait_procs(below, timeout=15)
    assert not [p for p in alive if p.status() != psutil.STATUS_ZOMBIE]
    (clone / "mended").touch()
    result = sflkit("figures")
    assert "1 run, 1 up to date, 0 failed" in result.stdout, result.stderr
    assert sorted(
        p.name for p in (clone / "out" / "quick").iterdir()
    ) == [  # the part of the killed run is gone
        "10_first.done.json",
        "10_first.ipynb",
        "12_second.done.json",
        "12_second.ipynb",
    ]


@pytest.mark.parametrize("command", [("run", "10", "--publish"), ("refresh", "10")])
def test_what_is_published_without_git_is_kept_first(clone, command):
    write_notebook(clone / "notebooks" / "10_first.ipynb", run=DRAW, artefacts=["sfl-fig2"])
    assert sflkit("run", "10", "--publish").returncode == 0
    assert not (clone / "out" / "published").exists()  # there was nothing
    before = {file.name: file.read_bytes() for file in (clone / "figures" / "quick").iterdir()}
    for height in (4, 5):  # the second overwrites no copy
        run = DRAW.replace("[0, rounds]", f"[0, {height}]")
        write_notebook(clone / "notebooks" / "10_first.ipynb", run=run, artefacts=["sfl-fig2"])
        assert sflkit(*command).returncode == 0
    kept = clone / "out" / "published" / "quick"
    assert {file.name: file.read_bytes() for file in kept.iterdir()} == before
    assert "sfl-fig2 (THEORY) is redrawn" in sflkit("compare").stdout


def test_refresh_gives_the_same_file_twice_and_keeps_a_failed_one(clone):
    path = write_notebook(
        clone / "notebooks" / "10_first.ipynb",
        run=(
            "import sys\nprint(rounds)\n"
            "print('100%|###| 3/3 [00:00<00:00, 9.0it/s]', file=sys.stderr)\n"
            "print('sweep: 100%|###| 3/3 [00:00<00:00, 9.0run/s]', file=sys.stderr)\n"
            "print('sweep: 100%|###| 3/3 [00:09<00:00, 3.0s/run]', file=sys.stderr)"
        ),
    )
    assert refresh.refresh(path)
    first = path.read_text()
    assert not refresh.refresh(path) and path.read_text() == first
    content = nbformat.read(path, as_version=4)
    assert [o.text for o in content.cells[-2].outputs] == ["3\n"]
    assert content.metadata.sflkit.artefacts == ["x-fig1"] and [
        c.execution_count for c in content.cells[1:-1]
    ] == [1, 2, 3]
    broken = write_notebook(clone / "notebooks" / "12_second.ipynb", run="1 / 0")
    before = broken.read_text()
    said = []
    assert refresh.refresh_all([gate.find("12")], echo=said.append) is False
    assert "ZeroDivisionError" in said[0] and broken.read_text() == before


def test_clean_drops_what_changes_from_run_to_run():
    cell = nbformat.v4.new_code_cell(
        "x", execution_count=1, metadata={"tags": ["widget"], "execution": {"busy": "10:00"}}
    )
    widget = {"application/vnd.jupyter.widget-view+json": {}, "text/plain": "HBox()"}
    cell.outputs = [
        nbformat.v4.new_output("display_data", widget),
        nbformat.v4.new_output("execute_result", {"text/plain": "1"}, execution_count=1),
    ]
    content = nbformat.v4.new_notebook(
        cells=[cell],
        metadata={
            "widgets": {},
            "sflkit": {"minutes": 1},
            "papermill": {},
            "language_info": {"name": "python", "version": "3.11.7"},
        },
    )
    cleaned = refresh.clean(content)
    assert set(cleaned.metadata) == {"kernelspec", "language_info", "sflkit"}
    assert cleaned.metadata.language_info == {"name": "python"}
    assert cleaned.cells[0].metadata == {"tags": ["widget"]}
    assert [o.output_type for o in cleaned.cells[0].outputs] == ["execute_result"]


@pytest.mark.parametrize(
    "metadata",
    [{"tags": ["run", "hide-input"]}, {"tags": ["run"], "jupyter": {"source_hidden": True}}],
)
def test_a_folded_cell_is_folded_for_both_readers(metadata):
    """JupyterLab reads the metadata, the site the tag; either is enough, and twice is once."""
    content = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("1", metadata=metadata)])
    for _ in range(2):
        content = refresh.clean(content)
        assert content.cells[0].metadata == {
            "tags": ["run", "hide-input"],
            "jupyter": {"source_hidden": True},
        }


def test_links_follow_the_folder(clone):
    """The clone has notebooks 10 and 12; 11 comes later and both are told."""
    books = clone / "notebooks"
    first, second = books / "10_first.ipynb", books / "12_second.ipynb"
    assert links.line(first) == "[all notebooks](README.md) · [12 second](12_second.ipynb) →"
    assert links.write(first) and links.write(second) and not links.write(first)
    write_notebook(books / "11_sfl_between.ipynb")
    assert links.write(first) and links.write(second)
    cells = nbformat.read(second, as_version=4).cells
    expected = "← [11 SFL between](11_sfl_between.ipynb) · [all notebooks](README.md)"
    assert cells[-1].source == expected and cells[-1].metadata.tags == ["links"]
    assert cells[0].source.splitlines()[-1] == expected
    assert cells[0].source.count("all notebooks") == 1  # the old line is gone
    solution = books / "solutions" / "12_second.ipynb"
    solution.parent.mkdir()
    write_notebook(solution)
    assert not links.write(solution)


def test_a_cell_that_hangs_is_named_and_its_kernel_gone(clone, monkeypatch):
    write_notebook(
        clone / "notebooks" / "10_first.ipynb",
        run=("open('../kernel', 'w').write(str(os.getpid()))\nprint('asleep')\ntime.sleep(600)"),
    )
    path = write_notebook(clone / "notebooks" / "12_second.ipynb", run="time.sleep(600)")
    before = path.read_text()
    monkeypatch.setenv("SFLKIT_CELL_SECONDS", "3")
    result = sflkit("run", "10")
    assert result.returncode == 1
    assert (
        "sflkit: 10_first, cell [3]: no end after 3 s, or its outputs did not arrive; "
        "SFLKIT_CELL_SECONDS sets another bound, 0 none\n" in result.stderr
    )
    failed = clone / "out" / "quick" / "10_first.failed.ipynb"
    assert str(failed) in result.stderr and [p.name for p in failed.parent.iterdir()] == [
        failed.name
    ]
    assert (
        nbformat.read(failed, as_version=4).cells[-1].outputs[0].text == "asleep\n"
    )  # what it said before is kept
    assert not psutil.pid_exists(int((clone / "kernel").read_text()))
    result = sflkit("refresh", "12")
    assert (
        result.returncode == 1 and "FAILED 12_second, cell [3]: no end after 3 s" in result.stdout
    )
    assert path.read_text() == before


def test_a_kernel_that_dies_is_named(clone):
    write_notebook(clone / "notebooks" / "10_first.ipynb", run="os.kill(os.getpid(), 9)")
    result = sflkit("run", "10")
    assert result.returncode == 1 and "Traceback" not in result.stderr
    assert (
        "sflkit: 10_first, cell [3]: the kernel died or fell silent; did memory run out?\n"
        in result.stderr
    )


def test_which_cells_may_take_how_long(monkeypatch):
    monkeypatch.delenv("SFLKIT_CELL_SECONDS", raising=False)
    assert kernels.cell_seconds("quick") == 900 and kernels.cell_seconds("paper") is None
    for text, seconds in (("40", 40), ("0", None), (" 7 ", 7), ("", 900)):
        monkeypatch.setenv("SFLKIT_CELL_SECONDS", text)
        assert kernels.cell_seconds("quick") == seconds
    monkeypatch.setenv("SFLKIT_CELL_SECONDS", "40")
    assert kernels.cell_seconds("paper") == 40


@pytest.mark.parametrize("command", [["run", "10"], ["figures"], ["refresh", "10"]])
@pytest.mark.parametrize("value", ["-1", "ten", "1.5", "²"])
def test_a_malformed_bound_is_refused(clone, monkeypatch, value, command):
    monkeypatch.setenv("SFLKIT_CELL_SECONDS", value)
    result = CliRunner().invoke(cli.app, command)
    assert (
        result.exit_code == 2
        and f"SFLKIT_CELL_SECONDS={value!r} must be an integer >= 0" in result.stderr
    )
    assert not (clone / "out").exists()


def test_a_message_that_nobody_announced_is_found():
    """The first look waits for an announcement in vain, as when a file descriptor's edge is missed;
    the second finds it.
    """
    waits = []

    async def get_message(timeout):
        waits.append(timeout)
        if len(waits) == 1:
            raise Empty
        return "reply"

    assert asyncio.run(kernels._look_often(get_message)) == "reply" and waits == [1.0, 1.0]

    async def silence(timeout):
        await asyncio.sleep(timeout)
        raise Empty

    began = time.monotonic()
    with pytest.raises(Empty):
        asyncio.run(kernels._look_often(silence, timeout=1.2))
    assert 1.2 <= time.monotonic() - began < 5
    waits.clear()
    with pytest.raises(Empty):
        asyncio.run(kernels._look_often(get_message, timeout=0))  # one look, no wait
    assert waits == [0.0]


def test_the_kernels_client_looks_often():
    with kernels.watched("x", None) as options:
        client = options["kernel_manager_class"](kernel_name="python3").client()
    for channel in (client.shell_channel, client.iopub_channel):
        assert channel.get_msg.func is kernels._look_often
        channel.close()


def test_worker_processes_end_with_the_kernel(clone):
    write_notebook(
        clone / "notebooks" / "10_first.ipynb",
        run=(
            "import joblib\nfrom sflkit.results import sweep\nfrom sflkit.sfl import cache_paths\n"
            "from sflkit.sfl.config import SFLConfig\n"
            "small = dict(train=False, rounds=1, n_clients=3, capacity=4, batch_size=2)\n"
            "configs = [SFLConfig(**small, seed=s) for s in (0, 1)]\n"
            "with joblib.parallel_config(backend='loky'):\n"
            "    sweep.run_many(cache_paths.run, configs, jobs=2)\n"
            "import psutil\nprint(*[p.pid for p in psutil.Process().children(recursive=True)])"
        ),
    )
    assert sflkit("run", "10").returncode == 0
    output = (
        nbformat.read(clone / "out" / "quick" / "10_first.custom.ipynb", as_version=4)
        .cells[-1]
        .outputs[-1]
        .text
    )
    pids = [int(pid) for pid in output.split()]
    assert len(pids) >= 2
    deadline = time.monotonic() + 15
    while any(
        psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
        for pid in pids
    ):
        assert time.monotonic() < deadline, "workers outlive their kernel"
        time.sleep(0.2)


@pytest.mark.parametrize("host", ["", f"{platform.node()}:"])  # the Makefile gives a pid alone
def test_die_with_ends_a_process_whose_starter_is_gone(host):
    starter = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    code = (
        "import sys, time; from companion.app import runner\n"
        "runner.die_with(sys.argv[1]); print('watching', flush=True); time.sleep(60)"
    )
    child = subprocess.Popen(
        [sys.executable, "-c", code, f"{host}{starter.pid}"], stdout=subprocess.PIPE
    )
    assert child.stdout.readline() == b"watching\n"
    starter.kill()  # not waited for: a zombie counts as gone
    assert child.wait(timeout=10) == 1
    starter.wait()
    child.stdout.close()
    runner.die_with(None)
    runner.die_with("")


def test_a_process_of_another_host_is_not_watched():
    """A cluster job inherits SFLKIT_WATCH; the pid means nothing there, and this one is not in use
    here.
    """
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    code = (
        "import sys; from companion.app import runner; runner.die_with(sys.argv[1]); print('alive')"
    )
    said = [
        subprocess.run(
            [sys.executable, "-c", code, f"{host}:{gone.pid}"], capture_output=True, text=True
        )
        for host in (f"not-{platform.node()}", platform.node())
    ]
    assert [(p.returncode, p.stdout) for p in said] == [(0, "alive\n"), (1, "")]
    assert runner.this_process() == f"{platform.node()}:{os.getpid()}"


@pytest.mark.parametrize("value", ["two", "-5", "host:", "host:two", "1.5", "3 4"])
def test_a_malformed_watch_is_refused(clone, monkeypatch, value):
    monkeypatch.setenv(runner.WATCH, value)
    for arguments in (["run", "10"], ["figures"]):
        result = CliRunner().invoke(cli.app, arguments)
        assert (
            result.exit_code == 2 and f"SFLKIT_WATCH={value!r} must read host:pid" in result.stderr
        )
    assert not (clone / "out").exists()


def test_threads_and_jobs_are_checked(clone, monkeypatch):
    for value in ("0", "-1", "two", "1.5", "²"):
        monkeypatch.setenv("SFLKIT_THREADS", value)
        result = CliRunner().invoke(cli.app, ["figures"])
        assert result.exit_code == 2 and value in result.stderr
    monkeypatch.setenv("SFLKIT_THREADS", "3")
    assert runner.cores() == 3
    for command in ("figures", "refresh"):
        assert CliRunner().invoke(cli.app, [command, "--jobs", "0"]).exit_code == 2
    for jobs in (0, -1, 1.5, "two", True, None):
        for start in (
            lambda jobs: regenerate.figures(jobs=jobs),
            lambda jobs: refresh.refresh_all([], jobs=jobs),
        ):
            with pytest.raises(gate.GateError, match=f"jobs={jobs!r} must be an integer >= 1"):
                start(jobs)
    assert refresh.refresh_all([], jobs=1000)  # more than there are cores


def test_list_shows_number_title_artefacts_and_minutes(clone):
    result = CliRunner().invoke(cli.app, ["list"])
    assert result.exit_code == 0
    assert (
        "10  Example" in result.stdout and "0.1 min" in result.stdout and "x-fig1" in result.stdout
    )


def test_readme_check_goes_stale_and_fresh(clone):
    assert CliRunner().invoke(cli.app, ["verdicts", "--check"]).exit_code == 1
    assert CliRunner().invoke(cli.app, ["verdicts", "--write-readme"]).exit_code == 0
    assert CliRunner().invoke(cli.app, ["verdicts", "--check"]).exit_code == 0


def jobs_to_do():
    """The notebooks that Snakemake would run."""
    command = [*SNAKEMAKE, "--cores", "1", "--nolock", "--dry-run", "--quiet", "progress"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    return sorted(set(re.findall(r"input: notebooks/(\w+)\.ipynb", done.stdout + done.stderr)))


def test_a_notebook_depends_on_its_own_papers_package_and_the_shared_ones(clone):
    books = ["00_tour", "10_first", "12_second", "20_third", "30_fourth", "40_fifth"]
    for name in ("data/paper_values/sfl.csv", "ERRATA.md"):
        paths.write_atomic(clone / name, "")
    for name in books:
        write_notebook(clone / "notebooks" / f"{name}.ipynb")
    command = [*SNAKEMAKE, "--cores", "1", "--nolock", "--touch", "--quiet", "all"]
    for name in books:
        for suffix in (".ipynb", ".done.json"):
            (clone / "out" / "quick").mkdir(parents=True, exist_ok=True)
            (clone / "out" / "quick" / f"{name}{suffix}").write_text('{"figures": []}')
    subprocess.run(command, capture_output=True, timeout=120, check=True)
    assert jobs_to_do() == []
    sfl, fats = ["10_first", "12_second"], ["40_fifth"]
    for changed, expected in (
        ("sfl/caches.py", ["00_tour", *sfl]),
        ("fats/bounds.py", ["00_tour", *fats]),
        ("osafl/rules.py", ["00_tour", "30_fourth"]),
        ("datastreams/psi.py", ["00_tour", "20_third"]),
        ("results/sweep.py", books),
        ("checks.py", books),
        ("../data/paper_values/sfl.csv", ["00_tour", *sfl]),
        ("../ERRATA.md", ["00_tour"]),
    ):
        source = clone / "sflkit" / changed
        text, times = source.read_text(), source.stat()
        source.write_text(text + "\n")
        assert jobs_to_do() == expected, changed
        source.write_text(text)
        os.utime(source, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert jobs_to_do() == []
