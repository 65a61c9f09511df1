import matplotlib
import numpy as np
import pytest

matplotlib.use("Agg")

from matplotlib.colors import to_rgb
from matplotlib.figure import Figure

from companion import figures
from companion.notebooks import n10, n20, n43, sfl_shared
from sflkit.sfl import cache_paths, training
from sflkit.sfl.caches import RULES
from sflkit.sfl.config import SFLConfig


def axes():
    return Figure().subplots()


def test_squares_show_every_sample_once_and_cross_out_what_leaves():
    ax = axes()
    n10.squares(
        ax,
        [2, 0, 1, 1],
        columns=3,
        new=[True, False, False, False],
        gone=[False, False, True, True],
    )
    assert [text.get_text() for text in ax.texts] == ["2", "0", "1", "1"]
    # the fourth sample starts the second row, one unit below the first
    assert [patch.get_xy() for patch in ax.patches] == [(0, -1), (1, -1), (2, -1), (0, -2)]
    assert [patch.get_linewidth() > 1 for patch in ax.patches] == [True, False, False, False]
    assert len(ax.lines) == 2


def test_ten_classes_have_ten_colors_that_the_text_reads_on():
    rgb = [matplotlib.colors.to_rgb(sfl_shared.label_color(r)) for r in range(10)]
    assert len(set(rgb)) == 10
    for r, color in enumerate(rgb):
        # contrast ratio of WCAG 2: relative luminances (L1 + 0.05) / (L2 + 0.05), 3 is the least
        # for bold or large text
        linear = [c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in color]
        luminance = np.dot(linear, [0.2126, 0.7152, 0.0722])
        white, black = 1.05 / (luminance + 0.05), (luminance + 0.05) / 0.05
        assert (white if sfl_shared.text_color(r) == "white" else black) >= 3


def test_share_bars_stack_to_one_and_name_large_parts_only():
    ax = axes()
    sfl_shared.share_bars(ax, [[0.5, 0.46, 0.04], [0.0, 0.3, 0.7]])
    tops = {}
    for patch in ax.patches:
        place = round(patch.get_x() + patch.get_width() / 2)
        tops[place] = max(tops.get(place, 0), patch.get_y() + patch.get_height())
    assert tops == pytest.approx({0: 1.0, 1: 1.0})
    assert sorted(text.get_text() for text in ax.texts) == [
        "0",
        "1",
        "1",
        "2",
    ]  # 0.04 is too small for a name


def test_hollow_share_bars_stand_where_they_are_told():
    ax = axes()
    sfl_shared.share_bars(ax, [[0.5, 0.5]], at=[3.2], width=0.4, hollow=True)
    assert {patch.get_facecolor()[:3] for patch in ax.patches} == {(1.0, 1.0, 1.0)}
    assert [patch.get_x() for patch in ax.patches] == pytest.approx([3.0, 3.0])


def test_a_round_is_drawn_from_as_many_clients_as_given():
    ax = axes()
    n10.sfl_round(ax, [[0, 1]] * 2, [[0, 0, 1]] * 2, [[False, True, True]] * 2)
    texts = [text.get_text() for text in ax.texts]
    assert [t for t in texts if t.startswith("client")] == ["client 1", "client 2"]
    assert sum(t in ("0", "1") for t in texts) == 2 * 5
    with pytest.raises(ValueError, match="2, 1 and 2 clients"):
        n10.sfl_round(ax, [[0]] * 2, [[0]], [[True]] * 2)


def test_the_cache_explorer_draws_for_every_rule(monkeypatch):
    import matplotlib.pyplot as plt

    drawn = []
    monkeypatch.setattr(
        plt,
        "show",
        lambda: drawn.append([len(ax.lines) + len(ax.collections) for ax in plt.gcf().axes]),
    )
    explorer = sfl_shared.cache_explorer()
    first, second = (box.children for box in explorer.children[0].children)
    assert len(drawn) == 1
    for _, rule in first[0].options:
        first[0].value = rule
    assert len(drawn) == len(first[0].options)  # the first option was there already
    second[0].value = 0.01  # a slow stream
    second[1].value = 1  # a single class: no edge to draw
    assert first[2].description.startswith("arrivals") and (first[2].value, first[2].max) == (
        150,
        300,
    )
    first[1].value = 20  # a capacity below the arrivals, which follow: no more than the cache holds
    assert (first[2].value, first[2].max) == (20, 20)
    assert len(drawn) == len(first[0].options) + 4
    # discrepancy: FIFO and the rule, or FIFO alone; composition: three areas and two edges, or one
    # area
    assert drawn[0] == [2, 5] and drawn[2] == [1, 5] and drawn[-1] == [2, 1]
    plt.close("all")


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
    assert fifo.get_ydata() == pytest.approx(
        3 * 0.0225 / 10
    ) and one_round.get_ydata() == pytest.approx([0.0225] * 2)
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


def test_the_importance_explorer_draws_the_minimiser(monkeypatch):
    import matplotlib.pyplot as plt

    drawn = []
    monkeypatch.setattr(plt, "show", lambda: drawn.append(plt.gcf().axes))
    ratio, share, n_historical, n_clients = n20.importance_explorer().children[:-1]
    left, right = drawn[0]
    curve, point, level = left.lines
    # 25 + 25 clients, c2/c1 = 0.15, N_hist/N = 0.2: p_hist = 0.4522, reported as 0.45; the curve
    # starts at 1 and ends at 0.2
    assert point.get_xydata()[0] == pytest.approx(
        [0.15, 0.4522], abs=5e-5
    ) and level.get_ydata() == [0.2, 0.2]
    assert curve.get_ydata()[[0, -1]] == pytest.approx([1, 0.2], abs=1e-3)
    assert np.interp(0.15, *curve.get_data()) == pytest.approx(
        0.4522, abs=0.005
    )  # the point lies on the curve
    fresh, historical, uniform, ours = [bar.get_height() for bar in right.patches]
    # by hand, c1 = 1: 1/5 + 0.15/sqrt(0.8), 0.15/sqrt(0.2), 0.8/5 + 0.15
    assert (fresh, historical, uniform) == pytest.approx(
        (0.2 + 0.15 / 0.8**0.5, 0.15 / 0.2**0.5, 0.31)
    ) and ours < 0.31
    share.value = 0.8  # 0.15 < sqrt(0.8 / 25): fresh clients are out
    assert drawn[-1][0].lines[1].get_ydata()[0] == 1
    n_clients.value = (
        10  # fewer clients than were historical: the slider follows, one fresh client stays
    )
    assert (n_historical.value, n_historical.max) == (9, 9)
    ratio.value = 100.0
    assert [bar.get_height() for bar in drawn[-1][1].patches][2] == pytest.approx(
        0.01 * 0.2 + 1
    )  # Uniform, c1 = 0.01, c2 = 1
    plt.close("all")


def test_the_unlearning_explorer_draws_means_and_bounds(monkeypatch):
    import matplotlib.pyplot as plt

    drawn = []
    monkeypatch.setattr(plt, "show", lambda: drawn.append(plt.gcf().axes))
    rho_s, rho_c, requests = n43.unlearning_explorer().children[:-1]
    rho_c.value, requests.value = 1.0, 3
    left, right = drawn[-1]
    lines = {line.get_label(): line.get_ydata() for line in left.lines}
    # by hand, rho = 1: one request e^-1, three in a row 3/e, at once 1 - (1 - e^-3)/3, Theorem 7's
    # order 3
    assert lines["clients, one by one"][[0, 2]] == pytest.approx([0.367879, 1.103638], abs=1e-6)
    assert lines["clients, at once"][2] == pytest.approx(0.683262, abs=1e-6)
    assert lines["clients, order of Theorem 7"][2] == pytest.approx(3)
    assert (
        lines["samples, at once"][0]
        == lines["samples, one by one"][0]
        < lines["clients, at once"][0]
    )
    bars = [bar.get_height() for bar in right.patches]  # 3 (1 - e^-rho) and 4 w rho
    assert (
        bars[1:] == pytest.approx([12 * rho_s.value, 1.896362, 12], abs=1e-6) and bars[0] < bars[2]
    )
    plt.close("all")


def test_caches_alone_have_the_discrepancy_of_a_full_run():
    config = SFLConfig(rule="srsr", rounds=6, capacity=20, batch_size=10, n_clients=3, train=False)
    frame = cache_paths.run(config)
    assert frame.columns.tolist() == ["round", "discrepancy"]
    assert frame.equals(training.run(config)[["round", "discrepancy"]])
    with pytest.raises(ValueError, match="train=True"):
        cache_paths.run(SFLConfig())


def test_rules_look_different_in_colour_and_in_grey():
    looks = {name: rule.look for name, rule in RULES.items()}
    assert len({(str(look.linestyle), look.marker) for look in looks.values()}) == len(looks)
    assert len({look.color for look in looks.values()}) == len(looks)
    # the two rules with one solid line differ in grey by more than a quarter of the range
    grey = {
        name: np.dot(to_rgb(look.color), (0.2126, 0.7152, 0.0722)) for name, look in looks.items()
    }
    assert grey["drsr"] - grey["full"] > 0.25
    assert max(grey.values()) < 0.75  # none vanishes on white paper
    drawn = figures.series_style("DRSR", rules=RULES)
    assert (drawn["color"], drawn["marker"]) == (looks["drsr"].color, looks["drsr"].marker)
