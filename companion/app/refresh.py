"""Execute the committed notebooks in place, so that their outputs and figures are current, and
clean them.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from companion import story
from companion.app import fingerprints, gate, links, runner
from companion.app.documents import read_notebook
from companion.app.kernels import NotebookFailed, cell_seconds, watched
from companion.judging import tables
from sflkit import paths

# What JupyterLab writes into a notebook that it opens with ipykernel's own kernel, so that opening
# one changes nothing here.
KERNEL = {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"}
FOLDED = "hide-input"  # the tag of a code cell whose source is folded
TRAINED = ("try",)  # tags of cells that train while the reader waits
ALIKE = 0.05
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?")
_BAR = re.compile(r"(it|run)/s|s/(it|run)\b")  # what tqdm writes behind a bar, fast or slow


def refresh_all(
    books: list[gate.Notebook],
    jobs: int = 1,
    echo: Callable[[str], Any] = print,
    solutions: bool = True,
    force: bool = False,
) -> bool:
    """Refresh the notebooks in `books` and their `solutions`, `jobs` at a time.

    Left as they are, without `force`, are those of which nothing changed that they were made of,
    see `fingerprints`. The longest comes first, and notebook 90, which shows what the others have
    found, last.

    `echo` is given one line per notebook. Returns whether none failed.

    Raises
    ------
    gate.GateError
        Before anything starts, when an environment variable is not allowed, or nothing
        can be written to `paths.out()`.
    recorded.DamagedTable
        Likewise, when the recorded verdicts are damaged.
    """
    cell_seconds()
    files = [book.path for book in books]
    if solutions:
        for book in books:
            files += sorted(book.path.parent.glob(f"solutions/{book.number}_*.ipynb"))
    for file in files:
        read_notebook(file)
    runner.quietly(max(1, runner.cores() // jobs))
    runner.check_writable(paths.out())

    def one(file: Path) -> bool:
        began, done = time.time(), True
        if not force and fingerprints.is_current(file):
            return True
        try:
            outcome = f"{file.stem}: {'changed' if refresh(file) else 'unchanged'}"
        except NotebookFailed as error:
            outcome, done = f"FAILED {error}", False
        echo(f"{outcome}, {time.time() - began:.0f} s")
        return done

    minutes = {book.path: book.minutes or 0.0 for book in books}

    def longest(file: Path) -> float:
        return -(fingerprints.seconds(file) or 60 * minutes.get(file, 0.0))

    last = [file for file in files if file.name.startswith(fingerprints.ALL_VERDICTS)]
    first = sorted((file for file in files if file not in last), key=longest)
    alone = paths.lock("figures", folder=paths.out() / ".locks")  # of all that publish here
    with alone, ThreadPoolExecutor(jobs) as pool, runner.environment(**{paths.PUBLISH: "1"}):
        tables.all_verdicts()
        story.keep(books)
        return all([*pool.map(one, first), *pool.map(one, last)])


def refresh(file: Path) -> bool:
    """Execute a notebook in place with its own defaults; return whether it changed.

    The line that leads to its neighbours is written anew, see `links`.

    Raises
    ------
    NotebookFailed
        When a cell raised or took longer than `cell_seconds()`; the file stays as it was.
    """
    import nbclient
    import nbformat

    limit, began = cell_seconds(), time.time()
    before = nbformat.read(file, as_version=4)
    content = nbformat.read(file, as_version=4)
    links.put(content, file)
    with watched(file.stem, limit) as options:
        options["extra_arguments"] += fingerprints.kernel_arguments(file)
        nbclient.NotebookClient(
            content, resources={"metadata": {"path": str(file.parent)}}, **options
        ).execute()
    keep_alike(clean(content), before)
    text = nbformat.writes(content) + "\n"
    changed = text != file.read_text(encoding="utf-8")
    if changed:
        paths.write_atomic(file, text)
    fingerprints.keep(file, began, time.time() - began)
    return changed


def clean(content: Any) -> Any:
    """Strip from an executed notebook what changes from run to run or shows nothing to a reader.

    Of a cell's metadata its tags stay, and whether JupyterLab folds its source. A folded cell has
    the tag `hide-input`, which the site reads, and `jupyter.source_hidden`, which JupyterLab reads;
    where a cell has one of them it is given the other. `content` is nbformat's NotebookNode; it is
    changed in place and returned.
    """
    content.metadata = {
        "kernelspec": KERNEL,
        "language_info": {"name": "python"},
        **{k: v for k, v in content.metadata.items() if k == "sflkit"},
    }
    for cell in content.cells:
        cell.metadata = _kept(cell.metadata)
        if cell.cell_type != "code":
            continue
        # A live widget has no state in a file and would read "model not found"; a progress bar is
        # of no use afterwards.
        cell.outputs = [
            o
            for o in cell.outputs
            if "application/vnd.jupyter.widget-view+json" not in o.get("data", {})
            and not (o.output_type == "stream" and o.name == "stderr" and _BAR.search(o.text))
        ]
        for output in cell.outputs:
            output.get("metadata", {}).clear()
        cell.outputs = _joined(cell.outputs)
    return content


def _joined(outputs: list) -> list:
    """Return outputs with what was printed in one piece, which a kernel may send in several."""
    found: list = []
    for output in outputs:
        last = found[-1] if found else {}
        if output.output_type == last.get("output_type") == "stream" and output.name == last.name:
            last.text += output.text
        else:
            found.append(output)
    return found


def keep_alike(content: Any, before: Any) -> None:
    """Keep the outputs from before where another processor or commit alone would change them.

    What is trained while the reader waits (`TRAINED`) is rounded differently on another processor:
    where code and words are the same, and numbers within `ALIKE`, the outputs from before stay. The
    line of provenance stays where nothing else changed, nor sflkit's version, with which it begins.
    `content`, NotebookNode, is changed in place.
    """
    if [cell.source for cell in content.cells] != [cell.source for cell in before.cells]:
        return
    pairs = [(new, old) for new, old in zip(content.cells, before.cells) if "outputs" in new]
    for new, old in pairs:
        if set(TRAINED) & set(new.metadata.get("tags", [])) and _alike(new.outputs, old.outputs):
            new.outputs = old.outputs
    lines = [(n, o) for n, o in pairs if "provenance" in n.metadata.get("tags", [])]
    if all(new.outputs == old.outputs for new, old in pairs if (new, old) not in lines):
        for new, old in lines:
            said = ["".join(o.get("text", "") for o in one.outputs) for one in (new, old)]
            if len({text.partition(" · ")[0] for text in said}) == 1:
                new.outputs = old.outputs


def _alike(outputs: list, before: list) -> bool:
    texts, numbers = zip(*map(_read, (outputs, before)), strict=True)
    return texts[0] == texts[1] and all(
        abs(a - b) <= ALIKE * max(1, abs(a), abs(b)) for a, b in zip(*numbers, strict=True)
    )


def _read(outputs: list) -> tuple[list[str], list[float]]:
    """Return what outputs say without its numbers, and the numbers."""
    said = ["".join(o.get("text") or o.get("data", {}).get("text/plain") or "") for o in outputs]
    numbers = [float(number) for text in said for number in _NUMBER.findall(text)]
    return [re.sub(r"[ ]+", " ", _NUMBER.sub("#", text)) for text in said], numbers


def _kept(metadata: dict[str, Any]) -> dict[str, Any]:
    """Return what `clean` keeps of a cell's metadata."""
    tags = list(metadata.get("tags", []))
    folded = FOLDED in tags or metadata.get("jupyter", {}).get("source_hidden", False)
    if folded:
        tags += [] if FOLDED in tags else [FOLDED]
        return {"jupyter": {"source_hidden": True}, "tags": tags}
    return {"tags": tags} if tags else {}
