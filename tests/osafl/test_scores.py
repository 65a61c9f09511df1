"""OSAFL's score and the weights of FedDisco: by hand, at the edges, and bad input."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from sflkit.osafl import scores
from sflkit.osafl.scores import osafl_scores


def test_scores_by_hand():
    # mean of (1, 0) and (0, 2): (0.5, 1), length sqrt(5)/2: cosines 0.5 / (sqrt(5)/2) = 1/sqrt(5),
    # 1 / (sqrt(5)/2) = 2/sqrt(5)
    d = np.array([[1.0, 0.0], [0.0, 2.0]])
    cosine = np.array([1, 2]) / np.sqrt(5)
    np.testing.assert_allclose(osafl_scores(d), (1 + cosine) / 2, rtol=1e-14)
    np.testing.assert_allclose(osafl_scores(d, chi=3.0), (3 + cosine) / 4, rtol=1e-14)
    torch.testing.assert_close(
        osafl_scores(torch.tensor(d, dtype=torch.float32)), torch.tensor((1 + cosine) / 2).float()
    )


@pytest.mark.parametrize("chi", [1.0, 2.0, 10.0])
def test_scores_are_21_and_lie_between_0_and_1(chi):
    draw = np.random.default_rng(4)
    for _ in range(20):
        d = draw.normal(size=(draw.integers(2, 30), draw.integers(1, 50)))
        mean = d.mean(axis=0)
        cosine = d @ mean / np.linalg.norm(d, axis=1) / np.linalg.norm(mean)
        found = osafl_scores(d, chi)
        np.testing.assert_allclose(found, (chi + cosine) / (chi + 1), rtol=0, atol=1e-12)
        assert found.min() >= 0 and found.max() <= 1


def test_scores_at_the_edges():
    # a zero row: cosine 0, 1/2; equal rows: 1; a row against the mean: 0; rows that cancel: mean 0,
    # all 1/2
    np.testing.assert_allclose(osafl_scores(np.array([[1.0, 1.0], [0.0, 0.0]])), [1, 0.5])
    np.testing.assert_allclose(osafl_scores(np.full((3, 4), -2.5)), 1)
    np.testing.assert_allclose(osafl_scores(np.array([[3.0, 0.0], [-1.0, 0.0]])), [1, 0])
    np.testing.assert_allclose(osafl_scores(np.array([[1.0, -2.0], [-1.0, 2.0]])), 0.5)
    assert osafl_scores(np.zeros((2, 3)), chi=3).tolist() == [0.75, 0.75]
    assert osafl_scores(np.array([[1, 0], [0, 2]])).dtype == np.float64


@pytest.mark.parametrize("scale", [1e-30, 1e-12, 1.0, 1e18, 3e37])
def test_scores_do_not_depend_on_the_scale(scale):
    rows = np.random.default_rng(0).standard_normal((5, 40)).astype(np.float32)
    rows[2] = 0
    np.testing.assert_allclose(
        osafl_scores(rows * np.float32(scale)), osafl_scores(rows.astype(float)), rtol=1e-5
    )


def test_scores_of_rows_of_very_different_length():
    # the long row is the mean's direction: cosines 1 and cos 45 degrees, though the short row's
    # square underflows
    rows = torch.tensor([[1e30, 0.0], [1e-30, 1e-30]])
    torch.testing.assert_close(osafl_scores(rows), torch.tensor([1.0, (1 + 0.5**0.5) / 2]))


def test_disco_weights_by_hand():
    # shares (1, 0) against (1/2, 1/2): sqrt(1/4 + 1/4); p = (1/4, 3/4): 0.25 - 0.2 * 0.5 + 0.1,
    # 0.75 + 0.1; 0.25 - 1 + 0.1 < 0
    found = scores.label_discrepancy([[2, 0], [3, 3], [0, 5]])  # three clients, two labels
    np.testing.assert_allclose(found, [np.sqrt(0.5), 0, np.sqrt(0.5)])
    np.testing.assert_allclose(scores.disco_weights([1, 3], [0.5, 0]), [0.25, 0.85])
    np.testing.assert_allclose(scores.disco_weights([1, 3], [5, 5]), [0, 0])
    with pytest.raises(ValueError, match="a sample in each row"):
        scores.label_discrepancy([[1, 0], [0, 0]])
