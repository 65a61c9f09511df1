"""The settings and remarks of notebooks 33 and 34, on invented runs."""

import pandas as pd
import pytest

from companion.notebooks import n33, n34
from companion.notebooks.osafl_shared import BASELINES
from companion.notebooks.table2_readings import name_of
from sflkit.osafl.networks import SIZES
from tests.osafl.osafl_plans import ONE, TWO, drive

FULL = SIZES["FCN"].options["hidden"]


@pytest.fixture(scope="module")
def one():
    return drive(n33.dataset1(**ONE))[1]


def test_settings_differ_by_size(one):
    base = {"features": "cifar100", "n_clients": 100, "rounds": 100, "input_norm": 10.0}
    runs = pd.DataFrame({"seed": [20, 20, 21]})
    early = one._replace(checkpoints=one.checkpoints | {"CNN": runs})
    asked = ["osafl-tab2", "osafl-alg2", "osafl-cnn", "osafl-alg8", "osafl-fig7"]
    full = n33.settings_1(asked, FULL, base, early)
    assert full["osafl-alg8"] is n33.BY_HAND and full["osafl-fig7"].level == "stand-in"
    assert full["osafl-tab2"].level == "full" and full["osafl-cnn"].level == "reduced"
    # what the paper leaves open is named, and it is not the same for all artefacts
    reading = "of 17 readings of what the paper leaves open the one that came nearest to Table II "
    reading += f"on another seed ({name_of(one.read.best)})"
    assert full["osafl-tab2"].differs == f"FCN of 512-256 units; {reading}"
    assert "inputs at the scale 10" in full["osafl-alg2"].differs
    said = f"CNN until the checkpoint in the text on 2 seeds; {reading}, by the FCN; the other: "
    said += "32 steps a local round at the scale 5, the nearest of 3 cells"
    assert full["osafl-cnn"].differs.startswith(said)
    assert full["osafl-cnn"].differs.endswith("judged on 2 other seeds")
    both = early._replace(columns=one.columns | {"CNN": runs})
    said = n33.settings_1(["osafl-cnn"], FULL, base, both)["osafl-cnn"]
    assert "on 2 seeds and over all rounds on 2 seeds" in said.differs and said.level == "full"
    second = n34.settings_2(["osafl-tab4", "osafl-fig8"], 3, 64, 100, 100, pd.DataFrame())
    assert second["osafl-tab4"].level == "reduced" and second["osafl-fig8"].level == "stand-in"
    said = "3 LSTM layers of 64 units, 100 clients, 100 rounds; the paper's width is not known"
    assert second["osafl-tab4"].differs.startswith(f"{said}; reading: means over the clients")
    assert "features: synthetic" in second["osafl-tab4"].differs


def test_the_remark_tells_the_reading_and_how_many_were_tried(one):
    notes = n33.notes_1(one)
    met = one.read.table.loc[0, "met"]
    said = f"It meets {met} of the twelve numbers, the most of 17 readings tried"
    assert "On the seeds that judge it meets " in notes["osafl-tab3"]
    for artefact in ("osafl-tab2", "osafl-tab3", "osafl-fig4", "osafl-score"):
        assert said in notes[artefact] and name_of(one.read.best) in notes[artefact]
    # best accuracies of the invented runs: 0.6 for OSAFL
    assert notes["osafl-tab2"].startswith("Ours: OSAFL 0.")
    assert "M-AFA-CD 0.0" in notes["osafl-tab2"]
    assert "with the buffer as printed OSAFL " in notes["osafl-alg9"]
    gone = one.buffers["best_accuracy"].where(one.buffers["arm"] != "osafl_printed", 0.0)
    gone = one._replace(buffers=one.buffers.assign(best_accuracy=gone))
    diverged = "with the buffer as printed OSAFL diverges (2 runs) and M-AFA-CD reaches 0."
    assert diverged in n33.notes_1(gone)["osafl-alg9"]
    bare = n33.notes_1(one._replace(buffers=one.buffers.query("arm != 'osafl_printed'")))
    assert "as printed" not in bare["osafl-alg9"] and "M-AFA-CD 0." in bare["osafl-alg9"]


def test_dataset_2_tells_its_accuracies_where_they_are_judged():
    found = drive(n34.dataset2(**TWO | {"top_k": [1]}))[1]
    notes = n34.notes_2(found)
    # 0.6, less 0.02 at the printed step, and the mean of 0, 1 and 2 thousandths by seed
    assert set(notes) == {"osafl-tab4", "osafl-datasets"}
    assert notes["osafl-tab4"].startswith("Ours: OSAFL 0.581")
    assert "first plateau" not in notes["osafl-tab4"]  # M-FedAvg is at 0.4
    stuck = found.tables["arm"].isin(BASELINES) | (found.tables["arm"] == "m_afa_cd_printed")
    low = found.tables.assign(accuracy=found.tables["accuracy"].where(~stuck, 0.05))
    told = n34.notes_2(found._replace(tables=low))["osafl-tab4"]
    assert "last quarter the highest is right in 5.0 % of the requests" in told
    both = n34.notes_2(found._replace(tables=low))
    assert both["osafl-fig6"].startswith("K = 1: No baseline leaves")
