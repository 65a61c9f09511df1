"""Every erratum that the code, the tests or a notebook refers to is explained in ERRATA.md, and
notebook 91 shows each that numbers can show, in a cell that fails if the erratum were wrong.
"""

from __future__ import annotations

import ast
import json
import math
import re
from dataclasses import replace
from functools import cache
from itertools import product

import pytest

from companion.judging import errata
from companion.notebooks import n14
from tests.helpers import ROOT

FOLDERS = ("sflkit", "companion", "tests", "notebooks")
CONFIRMED = (17,)  # an entry that says that the paper is right
(NOTEBOOK,) = (ROOT / "notebooks").glob("91_*.ipynb")
CODE = [
    "".join(cell["source"])
    for cell in json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]
    if cell["cell_type"] == "code" and {"imports", "run"} & set(cell["metadata"]["tags"])
]
ITEM = re.compile(r"^example = \w+\.show\(\s*(\d+),", re.M)
SHOWN = [int(match[1]) for match in map(ITEM.search, CODE) if match]


@cache
def notebook() -> tuple[dict[int, errata.CounterExample], dict[int, str]]:
    """What the cells of notebook 91 show, and what each of them asserts, by number."""
    names, examples, asserted = {}, {}, {}
    for cell in CODE:
        exec(cell, names)
        if ITEM.search(cell):
            of = names["example"]
            examples[of.number] = of
            tests = [n for n in ast.parse(cell).body if isinstance(n, ast.Assert)]
            asserted[of.number] = "\n".join(map(ast.unparse, tests))
    assert len(set(SHOWN)) == len(SHOWN) == len(examples)
    return examples, asserted


def with_values(shown: errata.CounterExample, role: str, *, right: bool) -> errata.CounterExample:
    """The example as if all readings of a role were right, or were wrong."""
    wrong = {"=": 1, "≤": 1, "≥": -1, ">": -1}
    readings = tuple(
        replace(r, value=r.needed + ((r.relation == ">") if right else wrong[r.relation]))
        if r.role == role
        else r
        for r in shown.readings
    )
    return replace(shown, readings=readings)


@pytest.mark.parametrize("number", SHOWN)
def test_a_cell_of_notebook_91_fails_if_the_erratum_were_wrong(number):
    examples, asserted = notebook()
    shown = examples[number]

    def check(example):
        exec(asserted[number], {"example": example})

    check(shown)
    with pytest.raises(AssertionError):
        check(with_values(shown, "printed", right=number not in CONFIRMED))
    if shown.of("corrected"):
        with pytest.raises(AssertionError):
            check(with_values(shown, "corrected", right=False))


def values(number, role="printed"):
    return [reading.value for reading in notebook()[0][number].of(role)]


@pytest.mark.parametrize(
    ("number", "printed", "corrected"),
    [
        # SFL: half of 300 and two thirds of 150; (1 - 1/3) of 300 and two thirds of 150
        (1, [150 + 100], [200 + 100]),
        # client 1: gradients -2, -1.6; client 2: 6, 4.8; sums 3.6 and -10.8, mean -3.6; rate 0.1
        (2, [-3.6], [-0.36]),
        # 7 * 0.04, and the variance of one round
        (8, [0.28], [0.04]),
        # eta_L = 1/400, E L = 50: 1/2 - 60 * (1/8)^2
        (10, [-0.4375], [0.5 - 60 * (0.999 / math.sqrt(120)) ** 2]),
        # Phi_G T is as (eta_L E)^2 T: E / 1 with the root, 1 without
        (50, [4], [1]),
        # data streams: (0.7 + sqrt(21 / 200)) / (0.4 * 1.9) = 1.347; 2 sqrt(2) 0.02, 2 sqrt(0.04)
        (26, [2 * math.sqrt(2) * 0.02, (0.7 + math.sqrt(0.105)) / 0.76], [0.4]),
        # ten rounds of 20 old samples and 20 new ones: 200 / 220
        (27, [200 / 220], [1 / 2]),
        # (1 + q) (b - a)^2 / (2 (2 + q)) with q = 1/2, a = -1/3, b = 0: 1.5 / 9 / 5 = 1/30
        (28, [1 / 30], None),
        # 1 / (1/4 + 3/36) = 3
        (29, [3], [4]),
        # |0.6| + |0.1| + |0.5|, and half of it
        (54, [1.2], [0.6]),
        # D = 2, T = 10^4, eta' = 1 / (4 * 100): 4 / 200 and 4 * 400 / 20000
        (56, [0.02], [0.08]),
        # 12 / 1000, and 12
        (62, [0.012], [12]),
        # OSAFL: A = 1 - 16 * 0.06^2 * 25; the loss rises from 1/2 to 9/8: 2 (-5/8) / (1/2) / 0.36;
        # on the old data it falls from 1/2 to 1/8: 2 * (3/8) / (1/2) / 0.36
        (33, [-0.44, -2.5 / 0.36], [1.5 / 0.36]),
        # steps per J are as 1 / steps along the deadline: a fifth for five
        (34, [0.2], [5]),
        (40, [math.log2(100), 0.5], [7, 1]),
        # 1 - 35 / 2 with half of the clients absent
        (37, [-16.5], [1]),
        # 1 - 0.2 * 0.5 / 0.1
        (38, [0], [1]),
        (41, [4], [1]),
        # 0.2 * 35 against 0.01 * 20
        (44, [7], [0.2]),
        # eta = 1e-3: A = 1 - 16e-6 / 4; decreases 1/2 and 1/4 times 2 over 1
        (66, [1 / (1 - 4e-6)], [0.5 / (1 - 4e-6)]),
        # 0.2, and 0.1 * 0.01 * 5 steps; 35 * 0.2
        (69, [0.2, 0.005], [7]),
        # FATS: one history of four is hit; half of its 1/4 goes to the other client: 1/8. Two
        # requests with three samples and two rounds: ERRATA 13
        (13, [1 / 8, 19 / 96], [0, 0]),
        (14, [1 / 8], [0]),
        (15, [1 / 8], None),
        # a hit at the second of two steps has probability 2/3 * 1/3, and its model has seen the
        # sample
        (18, [2 / 9], [0]),
        (19, [3 / 8], None),
        # b K T / (M N) = 2 / 4
        (20, [1 / 2], None),
        # 60,000 samples; 5 * 30 / 100
        (21, [60_000, 1.5], None),
        # two of 40 clients in each of four rounds
        (22, [0.2], None),
        # 1/100 + ... + 1/2
        (59, [sum(1 / k for k in range(2, 101))], None),
    ],
)
def test_by_hand(number, printed, corrected):
    assert values(number) == pytest.approx(printed, abs=1e-6 if number == 28 else 1e-12)
    if corrected is not None:
        assert values(number, "corrected") == pytest.approx(corrected)


@pytest.mark.parametrize("number", [13, 14, 15, 16, 18])
def test_what_is_corrected_is_exact_to_the_fraction(number):
    assert set(values(number, "corrected")) == {0.0}


def test_what_is_needed_by_hand():
    found = {number: example.readings[0].needed for number, example in notebook()[0].items()}
    # 57: the variability of ten clients is (1 - 1/2) / 10; of three, over all 64 signs, 1/6
    squares = [
        (sum(signs[:3]) / 3 - sum(signs[3:]) / 3) ** 2 / 4 for signs in product((-1, 1), repeat=6)
    ]
    assert sum(squares) / 64 == pytest.approx(1 / 6)
    assert found[57] == pytest.approx(1 / 20)
    # 52: the squared gradient tends to 1/32 for two rounds in the cache (tests of `coin`), and is
    # never below 1/12 where the first two coins stay (74)
    assert found[52] == pytest.approx(1 / 32, rel=1e-4)
    assert found[74] >= 1 / 12
    # 58: (26) of the whole run is 2 * (1/2) / 1 = 1; the sum of all w^2 is 1 / (1 - k), k < 1
    c = (1 - (1 - 0.0245) ** 10) / 0.245
    assert values(58)[0] == pytest.approx(1)
    assert found[58] == pytest.approx(1 / (1 - (1 - c) ** 2))
    # 23: Gamma = 1 / (rho_S M N) = 1 / (b K T) = 1 / 15000
    assert found[23] == pytest.approx(2 * math.sqrt(15_000))
    # 61: 64 samples a side do not allow the spread: the variance is d (1/128 - d)
    least = 100 * math.sqrt(0.00095 * (1 / 128 - 0.00095) * 100 / 99)
    assert least > found[61] > values(61, "corrected")[0]


def test_the_coin_s_step_sizes_are_those_of_the_theorem():
    # eta eta_L is at most 1/(4EL), and the round's step is E times it for a tiny eta_L
    for local_steps, local_rate, global_rate in ((1, 1e-4, 2500.0), (50, 1e-6, 5000.0)):
        assert n14.bound(3, local_steps, local_rate, global_rate).feasible
        assert n14.step_of(local_steps, local_rate, global_rate) == pytest.approx(0.25, rel=1e-4)


def test_every_number_is_explained():
    explained = set(
        re.findall(r"^(\d+)\. \*\*", (ROOT / "ERRATA.md").read_text(encoding="utf-8"), re.M)
    )
    used = {}
    for folder in FOLDERS:
        for path in (ROOT / folder).rglob("*"):
            if path.suffix in (".py", ".ipynb"):
                for group in re.findall(
                    r"ERRATA (\d+(?:(?:, | and )\d+)*)", path.read_text(encoding="utf-8")
                ):
                    used |= dict.fromkeys(re.findall(r"\d+", group), path.name)
    assert len(used) >= 10
    assert {n: name for n, name in used.items() if n not in explained} == {}


def test_files_that_are_named_exist():
    named = re.findall(r"tests/[\w/]+\.py", (ROOT / "ERRATA.md").read_text(encoding="utf-8"))
    assert len(named) >= 40
    named += re.findall(r"sflkit/[\w/]+\.py", (ROOT / "ERRATA.md").read_text(encoding="utf-8"))
    assert [name for name in named if not (ROOT / name).is_file()] == []
