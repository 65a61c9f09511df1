"""Tables 2, 4, 5 beside ours, by hand."""

import pandas as pd

from companion.notebooks import datastreams_shared, n21
from companion.notebooks.datastreams_shared import ROWS, TABLES
from sflkit.datastreams.config import DataStreamsConfig

LINE = ("CIFAR-10", 0.2)  # prints 59.6, 59.8, 61.5, 66.9, 67.7


def scores(ours, uniform=0.60):
    """Two seeds of one line: Fresh 0.58, Historical 0.59, Uniform, Ours, and a grid of 0.5."""
    grid = {f"p_hist={x:g}": [0.5, 0.5] for x in n21.GRID}
    named = {"Fresh": 0.58, "Historical": 0.59, "Uniform": uniform, "Ours": ours}
    return {LINE: pd.DataFrame({name: [x - 0.01, x + 0.01] for name, x in named.items()} | grid)}


def test_every_cell_of_the_paper_is_transcribed():
    lines = [(row, fraction) for row in ROWS for fraction in TABLES]
    for line in lines:
        printed = datastreams_shared.printed_cells(*line)
        assert all(0 < half < 6 for _, half in printed.values())
    assert len(lines) * len(datastreams_shared.SHOWN) == 75


def test_a_table_has_both_readings_the_paper_and_both_differences():
    configs = {
        "CIFAR-10": DataStreamsConfig(data="cifar10-patches", model="linear", rounds=100),
        "synthetic": DataStreamsConfig(),
    }
    cases = {
        (row, 0.2): n21.Case(row, 0.2, config, {}, (0.1,), range(2), range(0))
        for row, config in configs.items()
    }
    table = n21.table_sheet(0.2, scores(0.61), scores(0.66), cases)
    assert table.columns.tolist() == ["c2/c1", "p*hist", *datastreams_shared.SHOWN]
    lines = table.loc["CIFAR-10 (Linear)"]  # no network of the paper's
    assert lines["c2/c1"].tolist() == ["", "", "0.15", ""]
    # mean 61 of the seeds 60 and 62: half of the interval is 12.7 standard errors of 1
    assert lines["Ours"].tolist() == ["61.0 ± 12.7", "66.0 ± 12.7", "66.9 ± 0.8", "-5.9,  -0.9"]
    assert lines["p*hist"].tolist() == ["0.45", "", "0.45", ""]
    assert lines.loc["paper", "Historical"] == "59.8 ± 2.2"
    line = {("synthetic", 0.2): scores(0.61)[LINE]}  # psi is least at 1, the paper reports 0.2
    column = n21.table_sheet(0.2, line, line, cases).loc["synthetic", "p*hist"]
    assert column.tolist() == ["0.20 (ψ: 1.00)", "", "0.20", ""]
