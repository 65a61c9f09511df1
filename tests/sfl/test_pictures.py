"""Explorers and bars of the notebooks: the numbers that they draw, by hand."""

import matplotlib
import nbformat
import numpy as np
import pandas as pd
import pytest

matplotlib.use("Agg")


from companion import sheets
from companion.app import gate
from companion.notebooks import n15, sfl_shared
from sflkit.sfl import cache_paths, training
from sflkit.sfl.config import SFLConfig


def test_the_discrepancy_explorer_draws_the_three_bounds(monkeypatch):
    import matplotlib.pyplot as plt

    from sflkit.sfl import bounds

    drawn = []
    monkeypatch.setattr(plt, "show", lambda: drawn.append(plt.gca()))
    controls = {
        child.description.split()[0]: child
        for child in sfl_shared.discrepancy_explorer().children[:-1]
    }
    assert list(controls) == ["memory", "deviation", "cache", "theta", "share"] and len(drawn) == 1
    fifo, srsr, drsr, one_round = drawn[0].lines
    # Proposition 1 at Gamma = 1, delta^2 = 0.15^2, M = 10: min(2 + 1, 10) * 0.0225 / 10
    assert fifo.get_ydata() == pytest.approx(3 * 0.0225 / 10)
    assert one_round.get_ydata() == pytest.approx([0.0225] * 2)
    t = drsr.get_xdata()
    np.testing.assert_allclose(
        drsr.get_ydata(), np.minimum(3, t) * 0.0225 / t
    )  # Proposition 3, with the cap of ERRATA 8
    np.testing.assert_allclose(
        srsr.get_ydata(), bounds.srsr_discrepancy(t, 10, 2 / 3, 1.0, 0.15**2, 0.3)
    )
    controls["cache"].value = 1
    controls["theta"].value = 1.0
    assert len(drawn) == 3 and drawn[-1].get_title() == "SRSR's limit: infinite (ERRATA 6)"
    plt.close("all")


def test_caches_alone_have_the_discrepancy_of_a_full_run():
    config = SFLConfig(rule="srsr", rounds=6, capacity=20, batch_size=10, n_clients=3, train=False)
    frame = cache_paths.run(config)
    assert frame.columns.tolist() == ["round", "discrepancy"]
    assert frame.equals(training.run(config)[["round", "discrepancy"]])
    with pytest.raises(ValueError, match="train=True"):
        cache_paths.run(SFLConfig())


@pytest.mark.parametrize(
    ("rounds", "every", "said"),
    [
        (600, 20, ["540 to 600", "20 to 200"]),
        (60, 2, ["54 to 60 (paper: 540 to 600)", "2 to 20 (paper: 20 to 200)"]),
    ],
)
def test_the_table_of_notebook_15_names_the_rounds_that_were_read(rounds, every, said):
    book = nbformat.read(gate.find("15").path, as_version=4)
    (cell,) = [c.source for c in book.cells if c.metadata.get("tags") == ["table"]]
    *lines, last = cell.splitlines()
    found = {"mine": pd.DataFrame(0.5, [0, 1], list(n15.PRINTED_AS))}
    paper = dict.fromkeys(("540 to 600", "20 to 200"), dict.fromkeys(n15.PRINTED_AS, 0.4))
    space = dict(n15=n15, sheets=sheets, models=["mine"], score=found, early=found, paper=paper)
    space |= dict(rounds=rounds, evaluate_every=every)
    exec("\n".join(lines), space)
    named = list(dict.fromkeys(eval(last, space).index.get_level_values(0)))
    assert named == [f"mine, rounds {when}{less}" for when in said for less in ("", ", minus FIFO")]
