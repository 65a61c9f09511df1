"""Client drift on two quadratics: the fixed points by hand, and what the runs do."""

import pytest

from companion.notebooks.n22 import fixed_point, optimum, path


def test_optimum_and_fixed_point_by_hand():
    # Slope: 8 s + (s - 1) / 2 = 0, so s = 1/17. Intercept: equal curvature, the middle.
    assert optimum() == pytest.approx([1 / 17, 1 / 2])
    # Ten steps of 0.1: client 1 covers 1 - 0.2^10 of its way, client 2 1 - 0.95^10.
    near, far = 1 - 0.2**10, 1 - 0.95**10
    assert fixed_point()[0] == pytest.approx(far / (near + far))
    assert fixed_point()[1] == pytest.approx(1 / 2)
    # A band that holds so tight that steps are tiny leaves no drift: the optimum.
    tight = fixed_point(9.999999 / 1)  # 1 - 0.1 (0.5 + mu) and 1 - 0.1 (8 + mu) stay below 1
    assert abs(tight[0] - optimum()[0]) < abs(fixed_point()[0] - optimum()[0])


@pytest.mark.parametrize("mu", [0.0, 0.1, 4.0])
def test_runs_stop_where_the_closed_form_says(mu):
    assert path(mu, rounds=30)[-1] == pytest.approx(fixed_point(mu), abs=1e-4)


def test_scaffold_reaches_the_optimum_and_jitters_as_fedavg_does():
    assert path(None, rounds=60)[-1] == pytest.approx(optimum(), abs=1e-3)
    late = {mu: path(mu, rounds=120, jitter=0.5)[60:, 0] for mu in (0.0, None)}
    assert abs(late[None].mean() - optimum()[0]) < 0.05 < abs(late[0.0].mean() - optimum()[0])
    assert 0.7 < late[None].std() / late[0.0].std() < 1.5
