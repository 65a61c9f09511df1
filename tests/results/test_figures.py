"""Figures, passports, tables: what is written, and that it is stable."""

import hashlib
import io
import json

import matplotlib

matplotlib.use("agg")
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from scipy import stats

from companion import figures
from companion.app.readme import tally, with_blocks
from companion.judging import claims, rules, tables
from sflkit import paths
from sflkit.registry import Look, Registry, Rule
from sflkit.runs import sums
from sflkit.sfl.caches import RULES


@pytest.fixture
def clone(tmp_path, monkeypatch):
    """A stand-in for a clone, so that nothing here touches the tracked folders."""
    (tmp_path / "notebooks").mkdir()
    (tmp_path / "pyproject.toml").write_text('[project]\nname = "sflkit"\n')
    monkeypatch.chdir(tmp_path)
    for name in ("SFLKIT_FIGURES", "SFLKIT_CACHE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv(paths.PUBLISH, "1")
    return tmp_path


def frame(seeds=4, rounds=30, rules=("lazy", "drsr", "fifo")):
    rng = np.random.default_rng(0)
    return pd.DataFrame(
        [
            {
                "rule": rule,
                "seed": seed,
                "round": t,
                "accuracy": (i + 1) * (1 - 0.9**t) / 4 + 0.05 * rng.normal(),
            }
            for i, rule in enumerate(rules)
            for seed in range(seeds)
            for t in range(1, rounds + 1)
        ]
    )


@pytest.mark.parametrize("inches", [3.0, 6.4, 9.6])
def test_a_notebook_shows_a_figure_at_full_width_in_few_colours(inches):
    from PIL import Image

    fig, ax = plt.subplots(figsize=(inches, 2.5), dpi=40)
    ax.imshow(np.random.default_rng(0).random((20, 30)), cmap="viridis")
    ax.legend([], title="beside the axes", loc="center left", bbox_to_anchor=(1, 0.5))
    image = Image.open(io.BytesIO(figures.embedded(fig)))
    assert figures.LEAST_WIDTH <= image.width <= 1.03 * figures.EMBEDDED_WIDTH
    assert image.mode == "P"
    assert fig.dpi == 40  # showing a figure changes nothing of it
    plt.close(fig)


def test_an_almost_empty_figure_keeps_its_border():
    """Enlarged, a dot of some pixels took gigabytes, and a kernel that never answered again."""
    from PIL import Image

    fig = plt.figure(figsize=(8.6, 3))
    fig.add_axes((0.5, 0.5, 0.01, 0.02)).set(xticks=[], yticks=[])
    assert Image.open(io.BytesIO(figures.embedded(fig))).width == figures.EMBEDDED_WIDTH
    plt.close(fig)


def draw(data, **options):
    fig, ax = plt.subplots()
    figures.curves(ax, data, "round", "accuracy", "rule", **{"rules": RULES} | options)
    return fig, ax


def test_curves_draw_mean_and_students_interval():
    data = frame()
    fig, ax = draw(data)
    # one order in every figure, whatever the rows'
    assert [line.get_label() for line in ax.lines] == ["DRSR", "FIFO", "LAZY"]
    drsr = data[data["rule"] == "drsr"].pivot(index="round", columns="seed", values="accuracy")
    np.testing.assert_allclose(ax.lines[0].get_ydata(), drsr.mean(axis=1))
    band = ax.collections[0].get_paths()[0].vertices
    low, high = stats.t.interval(0.95, 3, drsr.mean(axis=1), stats.sem(drsr, axis=1))
    at_ten = band[band[:, 0] == 10, 1]
    np.testing.assert_allclose([at_ten.min(), at_ten.max()], [low[9], high[9]])
    plt.close(fig)
    fig, ax = draw(frame(seeds=1))  # one seed: no band
    assert not ax.collections and len(ax.lines) == 3
    plt.close(fig)
    numbers = data.replace({"rule": {"lazy": 0.1, "drsr": 0.5, "fifo": 1.0}})
    fig, ax = draw(numbers, interval=None, labels={0.1: "theta = 0.1"})
    assert [line.get_label() for line in ax.lines] == ["theta = 0.1", "0.5", "1.0"]
    assert not ax.collections
    plt.close(fig)


def save(data, artefact="sfl-fig4a", **changes):
    fig, _ = draw(data)
    try:
        options = {
            "data": data,
            "parameters": {"rounds": 30, "seeds": [0, 1]},
            "keys": ["b", "a", "b"],
            "caption": "Accuracy",
            "notebook": "12",
        } | changes
        return figures.save_figure(fig, artefact, **options)
    finally:
        plt.close(fig)


def test_what_is_drawn_is_what_the_csv_holds(clone):
    """Numbers that differ behind the seven digits of the csv make one picture."""

    def drawn(artefact, factor):
        rng = np.random.default_rng(0)
        x, y = np.arange(8.0) * factor, rng.random(8) * factor
        fig, axes = plt.subplots(1, 5, figsize=(9.6, 3))
        axes[0].plot(x, y)
        axes[0].fill_between(x, y, y + 0.1 * factor)
        axes[1].scatter(x, y)
        axes[2].bar(x, y)
        axes[3].imshow(rng.random((5, 5)) * factor)
        axes[4].semilogy(x, 1e-9 * y)
        axes[4].vlines(x, 1e-10 * factor, 1e-9 * y)
        save = figures.save_figure
        file = save(fig, artefact, data={"y": y}, parameters={}, folder=clone / "figures")
        shown = figures.embedded(fig)
        plt.close(fig)
        return file.read_bytes(), shown

    once, again, other = (
        drawn(name, 1 + gap) for name, gap in (("x-a", 0), ("x-b", 2e-9), ("x-c", 0.01))
    )
    assert once == again
    assert once != other


def test_figure_passport_and_index_are_stable(clone, monkeypatch):
    data = frame()
    png = save(data)
    folder = clone / "figures"
    assert png == folder / "sfl-fig4a.png" and png.stat().st_size < 300_000
    passport = json.loads((folder / "sfl-fig4a.json").read_text())
    assert passport["results"] == ["a", "b"]
    assert passport["parameters"] == {"rounds": 30, "seeds": [0, 1]}
    drawn = (folder / "sfl-fig4a.csv").read_bytes()
    assert passport["data_sha256"] == hashlib.sha256(drawn).hexdigest()
    pd.testing.assert_frame_equal(pd.read_csv(io.BytesIO(drawn)), data, rtol=1e-6)
    assert passport["versions"]["matplotlib"] == matplotlib.__version__
    before = {p.name: p.read_bytes() for p in folder.iterdir()}
    # Drawn again by other versions: the figure is the same, so nothing changes.
    monkeypatch.setattr(figures, "versions_at_hand", lambda: {"python": "3.99"})
    save(data)
    assert {p.name: p.read_bytes() for p in folder.iterdir()} == before
    save(data, parameters={"rounds": 31, "seeds": [0, 1]})  # other parameters: the passport alone
    after = json.loads((folder / "sfl-fig4a.json").read_text())
    assert after["parameters"]["rounds"] == 31 and after["versions"]["python"] == "3.99"
    assert (folder / "sfl-fig4a.png").read_bytes() == before["sfl-fig4a.png"]
    save(data.assign(accuracy=data["accuracy"] + 1e-3))
    after = json.loads((folder / "sfl-fig4a.json").read_text())
    assert after["data_sha256"] != passport["data_sha256"]
    assert (folder / "sfl-fig4a.png").read_bytes() != before["sfl-fig4a.png"]
    assert sums.read(folder) == sums.of(
        folder, [f"sfl-fig4a.{end}" for end in ("png", "csv", "json")]
    )


def test_a_pdf_is_made_on_demand_and_holds_no_date(clone, monkeypatch):
    monkeypatch.setenv("SFLKIT_PDF", "1")
    assert not save(frame()).with_suffix(".pdf").exists()
    pdf = (clone / "out" / "figures" / "sfl-fig4a.pdf").read_bytes()
    assert pdf.startswith(b"%PDF") and b"CreationDate" not in pdf and b"Producer" not in pdf


def test_data_as_text():
    assert figures.data_text(np.array([1.5, 2.0])) == "0\n1.5\n2\n"
    named = {"a": pd.DataFrame({"x": [1]}), "b": pd.DataFrame({"y": [2.0]}, index=["row"])}
    assert figures.data_text(named) == "table,x,index,y\na,1,,\nb,,row,2\n"
    # the last bits of a float do not count, the seventh digit does
    third = figures.data_text(np.array([1 / 3]))
    assert figures.data_text(np.array([1 / 3 + 1e-12])) == third
    assert figures.data_text(np.array([1 / 3 + 1e-6])) != third


def test_data_above_a_megabyte_are_refused(clone):
    with pytest.raises(ValueError, match=r"the data of sfl-fig4a take 1\.\d MB; hand over what is"):
        save(frame(seeds=40, rounds=500))


def verdict(artefact, held=True, level="full", note=""):
    """Return a verdict on a claim that is declared here: "reproduced" or "not reproduced"."""
    part = claims.Part("order", "DRSR ends above FIFO", rules.Holds())
    claim = claims.Claim(artefact, "DRSR is best.", "Fig. 4", [part], "FIFO above DRSR")
    claims.Claims("test", [claim])
    evidence = claims.NotRun("no time") if held is None else held
    setting = claims.Setting(level, "small" if level != "full" else "")
    return claim.judge({"order": evidence}, setting=setting, note=note)


@pytest.fixture
def two():
    """Two claims, declared for this test."""
    part = claims.Part("order", "DRSR ends above FIFO", rules.Holds())
    named = ("sfl-fig2", "sfl-fig10")
    made = [claims.Claim(n, "DRSR is best.", "Fig.", [part], "FIFO above DRSR") for n in named]
    return claims.Claims("test", made)


def test_claims_are_judged_recorded_and_shown_together(clone, two):
    page = tables.judge(
        two,
        {"sfl-fig2": {"order": True}, "sfl-fig10": {"order": False}},
        setting={
            "sfl-fig2": claims.Setting("full"),
            "sfl-fig10": claims.Setting("reduced", "small"),
        },
        notes={"sfl-fig10": "a cause"},
    )
    lines = page._repr_markdown_().splitlines()
    assert [line for line in lines if line.startswith("**")] == [
        "**sfl-fig2: reproduced** (full). DRSR ends above FIFO: yes.",
        "**sfl-fig10: not reproduced** (reduced). DRSR ends above FIFO: no.",
    ]
    assert "a cause" in lines
    found = tables.all_verdicts().set_index("artefact")
    assert found["verdict"].to_dict() == {"sfl-fig2": "reproduced", "sfl-fig10": "not reproduced"}
    assert found.loc["sfl-fig10", ["setting", "note"]].tolist() == ["reduced", "a cause"]


FULL = claims.Setting("full")
TOY = claims.Setting("stand-in", "labels alone")


def test_the_nearest_run_judges_and_the_others_are_looked_at(clone, two):
    runs = [claims.Run({"order": True}, TOY), claims.Run({"order": False}, FULL)]
    page = tables.judge(two, {"sfl-fig2": runs, "sfl-fig10": {"order": True}}, setting={
        "sfl-fig10": TOY})  # fmt: skip
    found = tables.all_verdicts().set_index("artefact")
    assert found["verdict"].to_dict() == {"sfl-fig2": "not reproduced", "sfl-fig10": "reproduced"}
    assert found.loc["sfl-fig2", "setting"] == "full"
    looked = page.split("Looked at, decides nothing (stand-in: labels alone):")
    assert len(looked) == 2 and looked[1].startswith("\n\n- DRSR ends above FIFO: yes")


@pytest.mark.parametrize(
    ("evidence", "options", "message"),
    [
        ({"sfl-fig2": {"order": True}}, {"setting": {}}, "has none for .'sfl-fig2'"),
        ({}, {"setting": FULL, "notes": {"sfl-fgi2": "why"}}, "test declares no .'sfl-fgi2'"),
        (
            {"sfl-fig2": {"order": True}, "sfl-fig10": {}},
            {"setting": FULL},
            "no evidence for 'order'",
        ),
        (
            {"sfl-fig2": [claims.Run({"order": True}, FULL), claims.Run({"order": False}, TOY)]},
            {"setting": {"sfl-fig2": TOY}},
            "setting of sfl-fig2 is that of another run than the nearest",
        ),
    ],
)
def test_nothing_is_recorded_unless_all_can_be(clone, two, evidence, options, message):
    with pytest.raises(ValueError, match=message):
        tables.judge(two, evidence, **options)
    assert tables.all_verdicts().empty


def test_a_part_that_is_gone_leaves_no_row(clone):
    tables.record(verdict("sfl-fig2"))
    part = claims.Part("other", "SRSR ends above FIFO", rules.Holds())
    claim = claims.Claim("sfl-fig2", "SRSR is better.", "Fig. 4", [part], "FIFO above SRSR")
    with pytest.raises(ValueError, match="artefact='sfl-fig2' is not a declared claim"):
        tables.record(claim.judge({"other": True}, setting=claims.Setting("full")))
    claims.Claims("test", [claim])
    tables.record(claim.judge({"other": True}, setting=claims.Setting("full")))
    assert tables.all_parts()["part"].tolist() == ["other"]


def test_comparison_and_markdown():
    table = tables.comparison(
        [
            {"quantity": "accuracy, B = 100", "ours": [0.70, 0.72, 0.74], "paper": 0.72},
            {"quantity": "accuracy, B = 300", "ours": 0.80, "paper": 0.83},
            {"quantity": "theta | grid", "ours": "0.1\n0.5", "paper": None},
        ]
    )
    # half width of 0.70, 0.72, 0.74: 4.302653 * 0.02 / sqrt(3) = 0.0497
    assert table.to_numpy().tolist() == [
        ["accuracy, B = 100", "0.72 ± 0.05", "0.72", "+0", "100 %"],
        ["accuracy, B = 300", "0.8", "0.83", "-0.03", "96 %"],  # 0.8 / 0.83 = 0.9639
        ["theta | grid", "0.1\n0.5", "not stated", "", ""],
    ]
    text = tables.markdown(table).splitlines()
    assert text[:2] == ["| quantity | ours | paper | difference | share |", "|---|---|---|---|---|"]
    assert text[4] == "| theta \\| grid | 0.1 0.5 | not stated |  |  |" and len(text) == 5


def test_readme_tables(clone):
    old = (
        "top\n<!-- verdicts:begin -->\nold\n<!-- verdicts:end -->\nmiddle\n"
        "<!-- notebooks:begin --><!-- notebooks:end -->\nend\n"
    )
    tables.record(verdict("sfl-fig2"))
    tables.record(verdict("ds-fig3", held=None))
    blocks = {"verdicts": tally, "notebooks": lambda: "| 00 |"}
    text = with_blocks(old, blocks)
    assert text.startswith(
        "top\n<!-- verdicts:begin -->\n2 claims; of those that were run 1 at a full"
    )
    assert "old" not in text
    for line in ("| paper | reproduced | open |", "| SFL | 1 | 0 |", "| Data streams | 0 | 1 |"):
        assert line in text
    assert text.endswith("middle\n<!-- notebooks:begin -->\n| 00 |\n<!-- notebooks:end -->\nend\n")
    assert with_blocks(text, blocks) == text
    tables.record(verdict("ds-fig3"))
    assert with_blocks(text, blocks) != text
    for broken in (
        "nothing",
        "<!-- x:end --><!-- x:begin -->",
        "<!-- x:begin --><!-- x:begin --><!-- x:end -->",
    ):
        with pytest.raises(ValueError, match="must hold <!-- x:begin -->"):
            with_blocks(broken, {"x": tally})


def test_paper_values_are_transcribed(request, monkeypatch):
    monkeypatch.chdir(request.config.rootpath)
    table = tables.paper_values("sfl")
    assert list(table.columns) == ["artefact", "quantity", "value", "source"]
    assert not table.isna().any().any()
    assert not table.duplicated(["artefact", "quantity"]).any()
    assert np.issubdtype(table["value"].dtype, np.number)
    assert tables.paper_value("sfl", "sfl-fig7", "accuracy at round 200 with B = 300") == 0.83
    with pytest.raises(ValueError, match=r"paper='nobody' must be one of .*'sfl'"):
        tables.paper_values("nobody")
    with pytest.raises(ValueError, match="quantity='loss' must be one of 'ratio"):
        tables.paper_value("sfl", "sfl-fig7", "loss")


def test_a_printed_number_without_source_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(tables.paths, "paper_values", lambda: tmp_path)
    (tmp_path / "sfl.csv").write_text("artefact,quantity,value,source\nsfl,a,1,here\nsfl,b,2,\n")
    with pytest.raises(ValueError, match=r"sfl.csv: sfl, 'b' has no source"):
        tables.paper_value("sfl", "sfl", "a")
    curve = "# error: 1\n# axes: x\npanel,series,x,y\na,A,0,1\n"
    (tmp_path / "sfl-fig1.csv").write_text(curve)
    with pytest.raises(ValueError, match=r"sfl-fig1.csv has no line '# source: ...'"):
        tables.paper_curve("sfl-fig1")
    (tmp_path / "sfl-fig1.csv").write_text("# source: s\n" + curve + "a,A,1,\n")
    with pytest.raises(ValueError, match="no finite number"):
        tables.paper_curve("sfl-fig1")


def test_the_authors_curves(request, monkeypatch):
    monkeypatch.chdir(request.config.rootpath)
    for figure in ("sfl-fig9", "sfl-fig10", "fats-fig5", "fats-fig6", "fats-fig7", "fats-fig8"):
        curve = tables.paper_curve(figure)
        assert list(curve.columns[:4]) == ["panel", "series", "x", "y"] and len(curve) > 30
        assert not curve.isna().any(axis=None) and {"source", "error", "axes"} == set(curve.attrs)
    fig9 = tables.paper_curve("sfl-fig9")  # the shares of a client's five classes fill its bar
    assert fig9.groupby("panel")["y"].sum().to_numpy() == pytest.approx(np.ones(10), abs=2e-3)
    assert (fig9["high"] - fig9["low"]).to_numpy() == pytest.approx(fig9["y"], abs=1e-5)
    fig10 = tables.paper_curve("sfl-fig10")
    late = fig10[fig10["x"].round().between(540, 600)].groupby("series")["y"].mean()
    for rule, mean in late.items():
        quantity = f"mean accuracy over rounds 540 to 600 {rule}"
        assert tables.paper_value("sfl", "sfl-fig10", quantity) == round(mean, 4)
    with pytest.raises(ValueError, match="figure='sfl-fig4a' must be one of 'fats-fig5'"):
        tables.paper_curve("sfl-fig4a")
    with pytest.raises(ValueError, match=r"paper='sfl-fig10' must be one of .*'sfl'$"):
        tables.paper_values("sfl-fig10")


def test_data_streams_values_agree_with_each_other(request, monkeypatch):
    monkeypatch.chdir(request.config.rootpath)
    table = tables.paper_values("datastreams")
    assert not table.duplicated(["artefact", "quantity"]).any() and table.notna().all(axis=None)
    value = table.set_index(["artefact", "quantity"])["value"]
    for tab, share in (("ds-tab4", 5), ("ds-tab2", 20), ("ds-tab5", 50)):
        # Fig. 3's gaps, from the text, are differences of the tables' accuracies
        for strategy in ("historical", "uniform"):
            gap = value[tab, "CIFAR-10 optimal"] - value[tab, f"CIFAR-10 {strategy}"]
            assert gap == pytest.approx(value["ds-fig3", f"gap {strategy} to optimal at {share} %"])
        # the ranking the paper claims
        for data in ("synthetic", "CIFAR-10", "CIFAR-100", "FEMNIST", "Shakespeare"):
            fresh, old, uniform, ours, best = (
                value[tab, f"{data} {s}"]
                for s in ("fresh", "historical", "uniform", "ours", "optimal")
            )
            assert max(fresh, old, uniform) <= ours <= best and fresh < max(old, uniform)


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"artefact": "Fig 4"}, "artefact='Fig 4'"),
        ({"artefact": "verdicts"}, "names another file of figures"),
        ({"artefact": "overview"}, "names another file of figures"),
        ({"parameters": {"rate": np.nan}}, r"parameters=.*nan.* must be made of finite"),
    ],
)
def test_bad_figures(clone, changes, message):
    with pytest.raises((ValueError, TypeError), match=message):
        save(frame(seeds=2, rounds=3), **changes)
    assert not (clone / "figures").exists()


def look_of(line):
    return line.get_color(), line.get_marker()


def test_looks_labels_and_order_come_from_a_registry():
    rules = Registry(
        "rule",
        {
            "new": Rule(dict, "New", Look("#D55E00", "-", "s")),
            "plain": Rule(dict, "Plain"),
            "old": Rule(dict, "Old", Look("#111111")),
        },
    )
    data = frame(seeds=2, rules=("old", "plain", "new", "drsr"))
    fig, ax = draw(data, rules=rules)
    assert [(line.get_label(), *look_of(line)) for line in ax.lines] == [
        ("Old", "#111111", "None"),
        ("Plain", "#0072B2", "o"),  # the first look that none of them has
        ("New", "#D55E00", "s"),
        ("drsr", "#009E73", "^"),  # no rule of this registry
    ]
    plt.close(fig)
    fig, ax = draw(data[data["rule"].isin(["old", "new"])], rules=rules)
    assert [line.get_label() for line in ax.lines] == ["New", "Old"]  # the registry's order
    plt.close(fig)
    assert figures.series_style("old", rules=rules)["color"] == "#111111"
    assert figures.series_style("drsr", 2, rules=rules) == figures.series_style(None, 2)


def test_drawn_data_do_not_depend_on_how_results_are_called():
    drawn = frame(seeds=1)
    text = figures.data_text(drawn)
    assert figures.data_text(drawn.assign(key="sfl-training/0123")) == text
    assert figures.data_text(drawn.assign(accuracy=0.0)) != text
