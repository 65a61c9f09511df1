"""What several test modules build on; pytest's fixtures are in `conftest`."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import nbformat

ROOT = Path(__file__).resolve().parents[1]
PARAMETERS = """\
rounds: int = 3  # in [1, 5000]; communication rounds T
rate: float = 0.1  # in (0, 1]; local rate
seeds: list[int] = [0, 1]  # in [0, 1000]; one run each
rule: str = "drsr"  # in {"fifo", "drsr"}; cache rule
label: str = "x"  # free text
flag: bool = False  # take tracked results
source: str = "published"  # in {"published", "compute"}; where runs come from
"""
# A `run` cell that draws and judges sfl-fig2: the picture shows `rounds`, the verdict hangs on it.
DRAW = """\
from companion import story
story.begin("10_first", globals())
import matplotlib.figure
from companion import figures
from companion.judging import tables
from companion.judging.claims import Setting
from companion.claims import SFL as CLAIMS
fig = matplotlib.figure.Figure(figsize=(2, 2))
fig.subplots().plot([0, 1], [0, rounds])
data = {"line": [[0.0, 0.0], [1.0, float(rounds)]]}
figures.save_figure(
    fig, "sfl-fig2", data=data, parameters={"rounds": rounds}, notebook="10_first"
)
judged = CLAIMS["sfl-fig2"].judge({"mixes": rounds < 9}, setting=Setting("full"))
tables.record(judged)
"""


def write_notebook(
    path: Path,
    run: str = "print(rounds)",
    artefacts=("x-fig1",),
    plan: str | None = None,
    values: dict | None = None,
) -> Path:
    """Write a small unexecuted notebook whose `run` cell holds the code `run`; `values` are other
    defaults of its parameters.
    """
    parameters = PARAMETERS
    for name, value in (values or {}).items():
        line = rf"^({name}: [\w\[\]]+ = ).*?(  #.*)$"
        parameters = re.sub(line, rf"\g<1>{value!r}\2", parameters, flags=re.M)
    cells = [
        nbformat.v4.new_markdown_cell(f"# {path.stem[:2]} · Example", metadata={"tags": ["title"]}),
        *(
            nbformat.v4.new_code_cell(source, metadata={"tags": [tag]})
            for tag, source in (
                ("imports", "import os, time\nfrom sflkit import paths"),
                ("parameters", parameters),
                ("run", run),
            )
        ),
    ]
    for i, cell in enumerate(cells):
        cell.id = f"cell-{i}"
    nbformat.write(
        nbformat.v4.new_notebook(
            cells=cells,
            metadata={
                "kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"},
                "sflkit": {"artefacts": list(artefacts), "minutes": 0.1}
                | ({"plan": plan} if plan else {}),
            },
        ),
        path,
    )
    return path


def git(*arguments: str) -> str:
    """Call git in the working directory, as somebody, and return what it prints."""
    name = ("-c", "user.name=x", "-c", "user.email=x@y.example")
    command = ["git", *name, *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout
