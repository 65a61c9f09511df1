"""What notebook 40 shows and judges: by hand, against the library, and complete."""

import numpy as np
import pandas as pd
import pytest

from companion.claims import FATS as CLAIMS
from companion.judging.claims import Setting
from companion.notebooks import n40
from companion.notebooks.fats_shared import paper_sizes, table_2
from sflkit.fats import stability

HERE = Setting("reduced", "few histories")


@pytest.fixture(scope="module")
def found():
    table = table_2()
    sizes = paper_sizes(table)
    return dict(
        exact=n40.enumerated(n40.FEDERATIONS[8:12]),
        restart=n40.restart_distances(),
        two=n40.two_requests(),
        rho=pd.DataFrame([stability.stability(**s) for s in sizes.values()], index=sizes),
        printed=n40.printed_distances(sizes, seed=0, repeats=200),
        rates=n40.used_shares(table, seed=0, repeats=2, repeats_large=2),
        hits=n40.any_hit(sizes, seed=0, repeats=5, requests=3),
        table=table,
        plans=n40.planned(sizes),
        trained=n40.cifar(sizes),
    )


def test_every_part_of_the_claims_gets_evidence(found):
    evidence = n40.exactness(**found)
    verdicts = {
        name: CLAIMS[name].judge(parts, setting=HERE).verdict for name, parts in evidence.items()
    }
    assert verdicts["fats-alg2"] == verdicts["fats-thm2"] == "corrected"
    assert verdicts["fats-alg3"] == verdicts["fats-rem1"] == "reproduced"


def test_any_hit_of_one_request_is_the_probability_of_use(found):
    for name, exact in found["hits"].exact.items():
        rho = found["rho"].loc[name]
        np.testing.assert_allclose(exact[:, 0], [rho["p_sample"], rho["p_client"]], rtol=1e-9)


def test_a_large_federation_has_the_same_columns_as_a_counted_one(monkeypatch):
    """The published table holds fractions as texts; here the kept way is taken for a small one."""
    counted = n40.enumerated(n40.FEDERATIONS[8:9])
    monkeypatch.setattr(n40, "LIVE", 0)
    pd.testing.assert_frame_equal(n40.enumerated(n40.FEDERATIONS[8:9]), counted)


def test_the_published_counts_need_no_counting(monkeypatch):
    monkeypatch.setattr(n40, "_enumerated", None)
    largest = n40.enumerated([(2, 2, 2, 1, 2, 2)]).iloc[0]
    assert largest["histories"] == 2 ** (2 * 2) * 2 ** (2 * 2 * 2) and largest["uniform"]
    assert (largest["exact"], largest["claim1"], largest["minimal"]) == (0, 0, 0)
    assert largest["printed"] > 0
