"""The plans of the FATS notebooks: which runs they name."""

import pandas as pd
import pytest

from companion.app import gate, paper
from companion.notebooks import n42, n44
from companion.plans import Stage


def stages(plan):
    """The stages of a plan whose frames nobody looks into."""
    found, given = [], None
    while True:
        try:
            found.append(plan.send(given))
        except StopIteration as end:
            return found, end.value
        assert isinstance(found[-1], Stage)
        given = pd.DataFrame()


@pytest.mark.parametrize("profile", ["", "small"])
@pytest.mark.parametrize("number", ["42", "43", "44", "45"])
def test_plans_take_the_parameters_of_their_notebook(number, profile):
    found, value = stages(paper.begin(gate.find(number), profile))
    assert all(stage.configs for stage in found) and len(found) == len(value)
    for stage in found:
        assert len(set(stage.configs)) >= len(stage.configs) * 0.5  # settings may occur twice
        if not profile:  # seeds that chose do not judge
            trained = [c for c in stage.configs if getattr(c, "train", True)]
            assert not trained or min(c.seed for c in trained) >= 10


def test_table_2_gives_sizes_and_requests_of_the_papers_data_sets_alone():
    own = dict(images=[60, 3, 20, 4, 3], natural=[50, 10, 30, 10, 3], min_samples=10, test_size=100)
    own |= dict(model="linear", model_natural="cnn", rate=0.1, rate_natural=0.2, fisher_rate=0.01)
    own |= dict(n_requests=7, n_requests_natural=1)

    def sizes(data, table_2):
        found = n42.settings_of(data, table_2=table_2, **own)
        return [found[name] for name in (*n42.COLUMNS, "n_requests")]

    # Table 2, and "5 (10 for MNIST and FEMNIST)" of Section 6.2.1
    assert sizes("mnist", True) == [300, 5, 30, 10, 10, 10]
    assert sizes("cifar10", True) == [600, 5, 50, 10, 10, 5]
    assert sizes("femnist", True) == [3556, 5, 350, 20, 10, 10]
    assert sizes("digits", True) == sizes("mnist", False) == [60, 3, 20, 4, 3, 7]
    assert sizes("writers", True) == sizes("femnist", False) == [50, 10, 30, 10, 3, 1]


def test_the_grid_holds_rho_s_where_rho_c_is_alone():
    grid = n44.tradeoff_grid(
        n_clients=120,
        samples_per_client=12,
        local_steps=3,
        rounds_fig7=12,
        rounds_fig4=20,
        draws_fig7=5,
        draws_fig4=3,
        batches_fig7=[1, 4, 8],
        batches_fig4=[1, 8],
        batch_size=2,
        clients_fig7=[2, 5, 10],
        clients_fig4=[2, 6],
    )
    fixed = grid[grid["over"] == "fixed"]
    # K b = 20 twice; rho_S = 20 * 36 / 1440 = 1/2, rho_C = 2 * 12 / 120 = 1/5 and 1.
    assert (fixed["K"] * fixed["b"]).tolist() == [20, 20]
    assert fixed["rho_S"].tolist() == [0.5, 0.5] and fixed["rho_C"].tolist() == [0.2, 1.0]
    line = grid.query("artefact == 'fats-fig7' and over == 'rho_S'")
    assert line["rho"].tolist() == [0.125, 0.5, 1.0] and line["end"].tolist() == [True, False, True]
    with pytest.raises(ValueError, match="batch size"):
        n44.tradeoff_grid(
            n_clients=4,
            samples_per_client=4,
            local_steps=1,
            rounds_fig7=2,
            rounds_fig4=2,
            draws_fig7=1,
            draws_fig4=1,
            batches_fig7=[1, 4],
            batches_fig4=[1],
            batch_size=1,
            clients_fig7=[1],
            clients_fig4=[1],
        )
