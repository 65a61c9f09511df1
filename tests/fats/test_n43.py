"""The evidence of notebook 43 with invented histories that take about the exact mean time, and with
the sizes along a line in the reverse order: which way it is judged.
"""

import numpy as np
import pandas as pd
import pytest

from companion.claims import FATS as CLAIMS
from companion.notebooks import n43
from sflkit.fats.expected_time import client_time, sample_time
from tests.invented import answers, drive, noise

LINES = dict(femnist_b=[5, 20], femnist_m=[1400, 3556])
LINES |= dict(shakespeare_b=[30, 120], shakespeare_m=[390, 630], shakespeare_rounds=50)
DRAWN_CLIENTS, REQUESTS = [2, 6, 10], [1, 2, 3]
K = "clients_per_round"
# Part of Figs. 2 and 6 -> level of the requests, what tells lines apart, what is turned along them.
ONE_REQUEST = {
    "samples_rise_K": ("sample", ["data", "batch_size"], K),
    "samples_rise_b": ("sample", ["data"], "batch_size"),
    "clients_rise_K": ("client", ["data", "n_clients"], K),
    "clients_fall_M": ("client", ["data"], "n_clients"),
}
# Part of Fig. 3 -> whether requests come one by one, and the same.
SEVERAL = {
    f"{way}_{part}": (streaming, ["data", line], column)
    for streaming, way in ((False, "at_once"), (True, "one_by_one"))
    for part, line, column in (("requests", K, "n_requests"), ("K", "n_requests", K))
}


@pytest.fixture(scope="module")
def found():
    def invented(stage, config):
        sizes = {name: getattr(config, name) for name in ("n_clients", "local_steps", "rounds", K)}
        if config.level == "sample":
            own = dict(samples_per_client=config.samples_per_client, batch_size=config.batch_size)
            mean = sample_time(**sizes, **own)
        else:
            mean = client_time(**sizes, requests=config.n_requests, one_by_one=config.streaming)
        off = noise(config, 6)
        return pd.DataFrame({"run": range(6), "steps": mean * (1 + 5 * (off - off.mean()))})

    asked = dict(seed=10, runs=6, points=3, drawn_clients=DRAWN_CLIENTS, requests=REQUESTS)
    return drive(n43.efficiency(**LINES, **asked), invented)


@pytest.fixture(scope="module")
def exact():
    return n43.exact_means(n43.lines_of(**LINES))


@pytest.fixture(scope="module")
def exact_several():
    return n43.exact_several(DRAWN_CLIENTS, max(REQUESTS))


def reversed_along(frame, rows, line, column):
    """Let the sizes in a column change places, the first with the last, along each line."""
    frame = frame.copy()
    for _, part in frame[rows].groupby(line):
        places = np.sort(part[column].unique())
        turned = part[column].map(dict(zip(places, places[::-1])))
        frame.loc[part.index, column] = turned
    return frame


# What Fig. 6 would plot if it were what is said: the recomputed steps, which are those of no first
# participation by chance.
PLOTTED = n43.beside_figure6().assign(paper=lambda points: points["recomputed"])
POINTS = {"samples_level": "yes", "clients_level": "yes", "clients_first": "no"}


def one_answers(artefact, one, exact, given=None, points=PLOTTED):
    """The answers on Fig. 2 or 6; the evidence may be `given` other exact times than `drawn`."""
    drawn = n43.drawn_means(one, exact)
    data = n43.FIGURES[artefact]
    parts = n43.one_request(one, exact if given is None else given, drawn, data)
    if artefact == "fats-fig6":
        parts |= n43.points_evidence(points)
    return answers(CLAIMS[artefact], parts)


def several_answers(several, exact):
    parts = n43.several_requests(several, n43.drawn_means(several, exact))
    return answers(CLAIMS["fats-fig3"], parts)


@pytest.mark.parametrize("artefact", n43.FIGURES)
def test_one_request_as_claimed_and_turned(artefact, found, exact):
    one = found.one
    points = POINTS if artefact == "fats-fig6" else {}
    keys = [part.key for part in CLAIMS[artefact].parts]
    assert one_answers(artefact, one, exact) == dict.fromkeys(keys, "yes") | points
    # the authors' own points: neither is what is recomputed, clients are first participations
    turned = {
        part: one_answers(artefact, one, exact, None, n43.beside_figure6())[part] for part in points
    }
    assert turned.pop("clients_first", "yes") == "yes"
    for part, (level, line, column) in ONE_REQUEST.items():
        frame = reversed_along(one, one["level"] == level, line, column)
        turned[part] = one_answers(artefact, frame, exact)[part]
    slow = one_answers(artefact, one.assign(steps=2 * one["steps"]), exact)
    turned |= {part: slow[part] for part in ("samples_drawn", "clients_drawn")}
    longer = exact.assign(exact=10 * exact["exact"])
    turned["half"] = one_answers(artefact, one, exact, longer)["half"]
    assert turned == dict.fromkeys(set(keys) - {"clients_first"}, "no")


def test_several_requests_as_claimed_and_turned(found, exact_several):
    several = found.several
    claimed = several_answers(several, exact_several)
    assert set(claimed.values()) == {"yes"}
    for part, (streaming, line, column) in SEVERAL.items():
        turned = reversed_along(several, several["streaming"] == streaming, line, column)
        judged = several_answers(turned, exact_several)
        assert {key for key in SEVERAL if judged[key] != "yes"} == {part}
        assert judged[part] == "no"
    for streaming, way in ((False, "at_once"), (True, "one_by_one")):
        twice = several["steps"].where(several["streaming"] != streaming, 2 * several["steps"])
        judged = several_answers(several.assign(steps=twice), exact_several)
        assert [part for part in judged if judged[part] == "no"] == [f"{way}_drawn"]


def test_bytes_as_claimed_and_turned():
    shares = pd.DataFrame(0.3, index=range(6), columns=[p.key for p in CLAIMS["fats-bytes"].parts])
    for part in shares:
        for share, answer in ((0.3, "yes"), (0.8, "no")):
            known = {
                key: (of, np.full(6, 0.5)) for key, of in shares.assign(**{part: share}).items()
            }
            judged = answers(CLAIMS["fats-bytes"], known)
            assert judged == dict.fromkeys(shares, "yes") | {part: answer}


def test_the_authors_points_of_figure_6_beside_exact_means():
    beside = n43.beside_figure6()
    assert beside.groupby("level").size().to_dict() == {"client": 42, "sample": 28}
    row = beside[(beside["line"] == 390) & (beside["K"] == 2)].iloc[0]
    spared = (1 - 1 / 390) ** (2 * np.arange(1, 51))
    assert row["paper"] == pytest.approx(550.061)
    assert row["recomputed"] == pytest.approx(100 * (1 - spared).sum(), rel=1e-9)
    assert row["first"] == pytest.approx(100 * (1 + spared[:-1].sum() - 50 * spared[-1]), rel=1e-9)
    clients = beside[beside["level"] == "client"]
    off = clients[["recomputed", "first"]].div(clients["paper"], axis=0) - 1
    assert off["first"].abs().max() < 0.015 and off["recomputed"].mean() > 0.15
