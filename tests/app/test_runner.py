"""Running notebooks without a person: through papermill, and in place."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import time
from queue import Empty

import nbformat
import psutil
import pytest
from typer.testing import CliRunner

from companion.app import check, cli, gate, kernels, links, refresh
from sflkit import paths
from tests.helpers import DRAW, git, write_notebook

SFLKIT = [sys.executable, "-m", "sflkit.cli"]


def sflkit(*arguments, **kwargs):
    return subprocess.run(
        [*SFLKIT, *arguments], capture_output=True, text=True, timeout=120, **kwargs
    )


def test_a_run_with_settings_of_its_own_leaves_what_is_published_alone(clone):
    """Whatever the environment says: only parameters that are the published ones may be drawn to
    figures/.
    """
    write_notebook(clone / "notebooks" / "10_first.ipynb", run=DRAW, artefacts=["sfl-fig2"])
    assert sflkit("figures").returncode == 0
    for command in ("init -q", "add --all", "commit -q -m all"):
        git(*command.split())
    for settings in (["-p", "rounds=50"], ["--profile", "paper"], ["-p", "source=compute"]):
        result = sflkit("run", "10", *settings)
        assert result.returncode == 0, result.stderr
    executed = nbformat.read(clone / "out" / "paper" / "10_first.ipynb", as_version=4)
    assert "rounds = 4 in place of 3; rate = 0.001 in place of 0.1" in printed(executed)
    assert "figures go to out/figures, and there is no verdict" in printed(executed)
    # papermill, or JupyterLab, beside the gate
    import papermill

    for values in ({"rounds": 50}, {"source": "compute"}):
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv(paths.PUBLISH, "1")
            papermill.execute_notebook(
                clone / "notebooks" / "10_first.ipynb", clone / "out" / "mine.ipynb", values,
                progress_bar=False, cwd=clone / "notebooks",
            )  # fmt: skip
    assert git("status", "--porcelain") == ""
    assert (clone / "out" / "figures" / "sfl-fig2.png").is_file()


def test_every_run_has_a_folder_and_two_are_laid_side_by_side(clone):
    write_notebook(clone / "notebooks" / "10_first.ipynb", run=DRAW, artefacts=["sfl-fig2"])
    for rounds in (50, 70):
        result = sflkit("run", "10", "-p", f"rounds={rounds}")
        assert result.returncode == 0, result.stderr
        assert result.stdout.startswith("10_first -> ")  # before its kernel starts
    folders = [clone / "out" / "runs" / f"10-{n}" for n in (1, 2)]
    assert [sorted(p.name for p in folder.iterdir()) for folder in folders] == 2 * [
        ["10_first.ipynb", "figures", "settings.json"]
    ]
    pictures = {(folder / "figures" / "sfl-fig2.png").read_bytes() for folder in folders}
    assert len(pictures) == 2 and not (clone / "out" / "figures").exists()
    first = nbformat.read(folders[0] / "10_first.ipynb", as_version=4).cells[0].source
    assert first.startswith("**Run with `rounds = 50` in place of `3`.** The text tells of the pub")
    result = sflkit("compare", "10-1", "10-2")
    assert result.returncode == 0, result.stderr
    page = (clone / "out" / "runs" / "10-1-against-10-2.md").read_text()
    assert "| parameter | 10-1 | 10-2 |\n|---|---|---|\n| rounds | 50 | 70 |" in page
    assert "| ![](10-1/figures/sfl-fig2.png) | ![](10-2/figures/sfl-fig2.png) |" in page
    # the line from (0, 0) to (1, rounds): the mean height is rounds / 2
    assert "| mean of | 10-1 | 10-2 |" in page and "| 1 | 25 | 35 |" in page
    for names, said in (
        (("10-1", "10-9"), "no run '10-9' of `sflkit run`; there are: published, 10-1, 10-2"),
        (("published", "published"), "give two of one notebook"),
    ):
        result = sflkit("compare", *names)
        assert result.returncode == 2 and said in result.stderr


def test_two_runs_are_compared_line_by_line_where_words_tell_lines_apart(clone):
    write_notebook(clone / "notebooks" / "10_first.ipynb", run=DRAW, artefacts=["sfl-fig2"])
    for n, height in ((1, 10), (2, 30)):
        folder = clone / "out" / "runs" / f"10-{n}" / "figures"
        folder.mkdir(parents=True)
        said = {"notebook": "10_first", "settings": {"rounds": n}}
        (folder.parent / "settings.json").write_text(json.dumps(said))
        (folder / "sfl-fig2.png").touch()
        rows = f"fifo,1,{height},0,9,\nfifo,2,{3 * height},0,9,\ndrsr,1,1,0,9,\ndrsr,2,2,0,9,5\n"
        (folder / "sfl-fig2.csv").write_text("rule,round,sum,std,count,only drsr\n" + rows)
    result = sflkit("compare", "10-1", "10-2")
    assert result.returncode == 0, result.stderr
    page = (clone / "out" / "runs" / "10-1-against-10-2.md").read_text()
    assert "| rule | mean of | 10-1 | 10-2 |" in page
    _, _, *table = page.strip().split("| rule | mean of |")[1].splitlines()
    assert table == [
        "| fifo | sum | 20 | 60 |",
        "| drsr | sum | 1.5 | 1.5 |",
        "| drsr | only drsr | 5 | 5 |",
    ]


def test_settings_that_a_plan_refuses_start_no_kernel(planned, monkeypatch):
    import papermill

    planned({"10": ("picky", {})})
    monkeypatch.setattr(papermill, "execute_notebook", lambda *a, **k: pytest.fail("a kernel"))
    result = CliRunner().invoke(cli.app, ["run", "10", "-p", "rounds=7"])
    assert result.exit_code == 2 and "sflkit: 10_probe: rounds=7 must be even" in result.stderr
    assert not list(paths.out().glob("runs/*"))


def test_every_run_writes_to_the_folder_that_the_environment_names(clone, monkeypatch):
    """SECURITY.md: $SFLKIT_FIGURES takes figures as published and explored ones alike."""
    write_notebook(clone / "notebooks" / "10_first.ipynb", run=DRAW, artefacts=["sfl-fig2"])
    for i, command in enumerate((["figures"], ["run", "10"], ["run", "10", "-p", "rounds=50"])):
        mine = clone / f"mine{i}"
        monkeypatch.setenv("SFLKIT_FIGURES", str(mine))
        result = sflkit(*command)
        assert result.returncode == 0, result.stdout + result.stderr
        assert (mine / "sfl-fig2.png").is_file() and (mine / "sfl-fig2.json").is_file()
    elsewhere = [clone / "figures", clone / "out" / "figures"]
    assert not [file for folder in elsewhere for file in folder.glob("sfl-fig2*")]


def printed(book):
    """What the cells of a notebook print."""
    return "".join(o.get("text", "") for c in book.cells for o in c.get("outputs", []))


@pytest.mark.slow
def test_figures_go_on_after_a_failure_and_name_it_and_page_90_comes_last(clone):
    draw = f"{DRAW}print(os.environ['SFLKIT_THREADS'])"
    write_notebook(clone / "notebooks" / "10_first.ipynb", run=draw, artefacts=["sfl-fig2"])
    write_notebook(clone / "notebooks" / "12_second.ipynb", run="1 / 0")
    read = "print(open('../figures/verdicts.csv').read())"
    write_notebook(clone / "notebooks" / "90_all.ipynb", run=read, artefacts=())
    result = sflkit("figures", env={**os.environ, "SFLKIT_THREADS": "6"})
    assert result.returncode == 1
    assert "FAILED 12_second, cell [3]: ZeroDivisionError" in result.stdout
    executed = nbformat.read(clone / "notebooks" / "10_first.ipynb", as_version=4)
    assert last_output(executed).splitlines()[-1] == "3"  # 6 threads shared by 2 jobs
    assert "sfl-fig2,reproduced" in printed(
        nbformat.read(clone / "notebooks" / "90_all.ipynb", as_version=4)
    )
    guide = (clone / "docs" / "guides" / "notebooks.md").read_text()
    assert "[Example](../../notebooks/10_first.ipynb)" in guide
    write_notebook(clone / "notebooks" / "12_second.ipynb", artefacts=())  # mended
    result = sflkit("figures", "--only", "12")
    assert result.returncode == 0 and "12_second: changed" in result.stdout


@pytest.mark.slow
def test_figures_drawn_twice_are_the_same_bytes_and_pdfs_are_made_on_demand(clone):
    write_notebook(clone / "notebooks" / "10_first.ipynb", run=DRAW, artefacts=["sfl-fig2"])
    assert sflkit("figures").returncode == 0
    files = [*(clone / "figures").iterdir(), *clone.glob("*.md"), *clone.glob("notebooks/*")]
    before = {file: file.read_bytes() for file in files}
    assert sflkit("figures", "--pdf").returncode == 0
    assert {file: file.read_bytes() for file in files} == before
    assert not list((clone / "figures").glob("*.pdf"))
    assert (clone / "out" / "figures" / "sfl-fig2.pdf").read_bytes().startswith(b"%PDF")


def last_output(book):
    """What the last code cell prints; `sflkit refresh` adds a line of links behind it."""
    return [cell for cell in book.cells if cell.cell_type == "code"][-1].outputs[0].text.strip()


def test_a_failing_cell_ends_in_1_and_names_itself(clone):
    fails = "raise RuntimeError('the cache is on fire')"
    write_notebook(clone / "notebooks" / "10_first.ipynb", run=fails)
    result = sflkit("run", "first")
    assert result.returncode == 1
    assert "10_first, cell [3]: RuntimeError: the cache is on fire" in result.stderr
    there = [p.name for p in (clone / "out" / "runs" / "10-1").iterdir()]
    assert sorted(there) == ["10_first.failed.ipynb", "settings.json"]


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
    assert content.metadata.sflkit.artefacts == ["x-fig1"]
    assert [c.execution_count for c in content.cells[1:-1]] == [1, 2, 3]
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


@pytest.mark.slow
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
    failed = clone / "out" / "runs" / "10-1" / "10_first.failed.ipynb"
    assert str(failed) in result.stderr
    assert sorted(p.name for p in failed.parent.iterdir()) == [failed.name, "settings.json"]
    assert (
        nbformat.read(failed, as_version=4).cells[-1].outputs[0].text == "asleep\n"
    )  # what it said before is kept
    assert not psutil.pid_exists(int((clone / "kernel").read_text()))
    result = sflkit("refresh", "12")
    assert result.returncode == 1
    assert "FAILED 12_second, cell [3]: no end after 3 s" in result.stdout
    assert path.read_text() == before


@pytest.mark.slow
def test_a_kernel_that_dies_is_named(clone):
    write_notebook(clone / "notebooks" / "10_first.ipynb", run="os.kill(os.getpid(), 9)")
    result = sflkit("run", "10")
    assert result.returncode == 1 and "Traceback" not in result.stderr
    assert (
        "sflkit: 10_first, cell [3]: the kernel died or fell silent; did memory run out?\n"
        in result.stderr
    )


def test_a_folder_that_the_kernel_cannot_start_without_is_named(clone, monkeypatch):
    folder = clone / "ipython" / "profile_default"
    folder.parent.mkdir()
    folder.touch()
    monkeypatch.setenv("IPYTHONDIR", str(folder.parent))
    result = sflkit("run", "10")
    assert result.returncode == 1
    assert f"; cannot write {folder}: File exists; set IPYTHONDIR to a folder" in result.stderr


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


@pytest.mark.parametrize(
    ("name", "value"),
    [("SFLKIT_CELL_SECONDS", "1.5"), ("SFLKIT_THREADS", "0")],
)
def test_a_malformed_variable_of_the_environment_is_refused(clone, monkeypatch, name, value):
    monkeypatch.setenv(name, value)
    result = CliRunner().invoke(cli.app, ["figures"])
    assert result.exit_code == 2 and f"{name}={value!r} must " in result.stderr
    assert not (clone / "out").exists()


def test_pages_go_stale_and_fresh(clone, monkeypatch):
    monkeypatch.setattr(check, "PARTS", (check.pages,))
    found = CliRunner().invoke(cli.app, ["check"])
    assert found.exit_code == 1 and "\nREADME.md: " in found.output
    assert CliRunner().invoke(cli.app, ["verdicts", "--write-readme"]).exit_code == 0
    found = CliRunner().invoke(cli.app, ["check"])
    assert (found.exit_code, found.output[:26]) == (0, "what is published is whole")


def _book(commit, accuracy, word="late", version=1, source="train()"):
    v4 = nbformat.v4
    said = {"try": f"{word} {accuracy}\n", "provenance": f"sflkit {version} · on {commit}\n"}
    cells = [
        v4.new_code_cell(
            source, metadata={"tags": [tag]}, outputs=[v4.new_output("stream", text=text)]
        )
        for tag, text in said.items()
    ]
    return v4.new_notebook(cells=cells)


@pytest.mark.parametrize(
    ("now", "kept"),
    [
        (_book("b", 0.962), ["late 0.961\n", "sflkit 1 · on a\n"]),  # rounded differently
        (_book("b", 0.5), ["late 0.5\n", "sflkit 1 · on b\n"]),  # another result
        (_book("b", 0.961, "early"), ["early 0.961\n", "sflkit 1 · on b\n"]),  # another word
        (_book("b", 0.961, source="train(2)"), ["late 0.961\n", "sflkit 1 · on b\n"]),
        (_book("b", 0.961, version=2), ["late 0.961\n", "sflkit 2 · on b\n"]),
    ],
)
def test_outputs_that_differ_by_rounding_or_machine_alone_stay(now, kept):
    refresh.keep_alike(now, _book("a", 0.961))
    assert [cell.outputs[0].text for cell in now.cells] == kept
