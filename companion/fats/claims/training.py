"""What FATS claims of its figures and Table 1, and the remarks that training or drawing can test.

Source: FATS, Sections 5.2, 6.2, Appendices A.2 to A.5. Written before the runs that they judge;
what had been a rule before is in docs/changed_rules.md.

Accuracies are fractions, so that 0.005 is half a point. Unlearning time is a share of a whole
training. `HALF_POINT` is the smallest difference of accuracies that we look for.
"""

from __future__ import annotations

from companion.judging.claims import Claim, Part
from companion.judging.rules import (
    Above,
    AtMost,
    Each,
    Falls,
    Holds,
    Near,
    NotBelow,
    Rises,
    Similar,
    WithinErrors,
)

HALF_POINT = 0.005
POINTS = dict(scale=100, unit="points")


def _and_on(parts: list[Part], **others: str) -> list[Part]:
    """Return the parts on a figure's first data set, and one part for each of its other sets."""
    same = Each({part.key: part.rule for part in parts})
    return parts + [
        Part(key, f"the same comparisons come out the same way on {name}", same)
        for key, name in others.items()
    ]


def _at_once(name: str) -> list[Part]:
    """Return the parts of Figs. 1 and 5 on the data set that is judged part by part."""
    higher = Above(HALF_POINT, **POINTS)
    equal = NotBelow(HALF_POINT, **POINTS)
    sooner = Above(0.5, unit="rounds")
    parts = [
        Part("before", f"{name}: before a request FATS is as accurate as FedAvg or more", equal),
        Part("speed", f"{name}: FATS learns as fast as FedAvg, mean over all rounds", equal),
    ]
    for level in ("samples", "clients"):
        parts += [
            Part(
                f"after_{level}",
                f"{name}, {level}: at the request FATS falls to a higher accuracy than FRS and FR²",
                higher,
            ),
            Part(
                f"sooner_{level}_frs",
                f"{name}, {level}: FRS needs more rounds than FATS to be back within two points",
                sooner,
            ),
            Part(
                f"sooner_{level}_fr2",
                f"{name}, {level}: FR² needs more rounds than FATS to be back within two points",
                sooner,
            ),
        ]
    return [
        *parts,
        Part(
            "fluctuates",
            "FR²'s accuracy moves more from round to round than FRS's, over the last half of "
            "retraining",
            higher,
        ),
    ]


_AT_ONCE = (
    "FATS learns as well and as fast as FedAvg{more}; when {w} samples or clients are to be "
    "forgotten at once it loses less accuracy than FRS and FR², and it recovers in fewer rounds. "
    "FR² converges badly, with large fluctuations. The model that FATS falls back to is that "
    "before the round of the first use, whose law is known: its accuracy and the rounds back are "
    "means over that law, along the recomputed path of each seed; FRS and FR² both start from the "
    "first model. Back means within two points of the same method's mean over the last quarter of "
    "learning, or that recomputing is finished."
)

FIG5 = Claim(
    "fats-fig5",
    _AT_ONCE.format(w="10 (MNIST) or 5", more=""),
    "Section 6.2.1, Appendix A.2, Figure 5",
    _and_on(_at_once("MNIST"), fmnist="Fashion-MNIST", cifar10="CIFAR-10"),
    refuted_by="a 95 % interval over the seeds on the wrong side of a part",
    printed="orderings read from curves; no numbers printed",
)

# Part of Fig. 1 -> the data set on which the paper finds FATS superior to FedAvg.
SUPERIOR = {"superior": "FEMNIST", "superior_shakespeare": "Shakespeare"}

FIG1 = Claim(
    "fats-fig1",
    _AT_ONCE.format(w="10 (FEMNIST) or 5", more=", and better on FEMNIST and Shakespeare"),
    "Section 6.2.1, Figure 1",
    [
        *(
            Part(
                key,
                f"{name}: before a request FATS is more accurate than FedAvg",
                Above(HALF_POINT, **POINTS),
            )
            for key, name in SUPERIOR.items()
        ),
        *_and_on(_at_once("FEMNIST"), cifar100="CIFAR-100", shakespeare="Shakespeare"),
    ],
    refuted_by="a 95 % interval over the seeds on the wrong side of a part",
    printed="orderings read from curves; no numbers printed",
)


def _stream() -> list[Part]:
    """Return the parts of Fig. 8 on MNIST."""
    higher = Above(HALF_POINT, **POINTS)
    parts = []
    for level in ("samples", "clients"):
        for method, name in (("frs", "FRS"), ("fr2", "FR²")):
            parts += [
                Part(
                    f"mean_{level}_{method}",
                    f"MNIST, {level}: under a stream FATS's mean accuracy is above {name}'s",
                    higher,
                ),
                Part(
                    f"finished_{level}_{method}",
                    f"MNIST, {level}: the same against {name} where every request is served to its "
                    "end before the next one comes",
                    higher,
                ),
            ]
        parts += [
            Part(
                f"stable_{level}",
                f"MNIST, {level}: under a stream FATS's mean accuracy is not more than half a "
                "point below that of the last quarter of learning",
                NotBelow(HALF_POINT, **POINTS),
            ),
            Part(
                f"after_{level}",
                f"MNIST, {level}: the models that FATS falls back to are more accurate than the "
                "first one, to which FRS and FR² fall",
                higher,
            ),
        ]
    return parts


FIG8 = Claim(
    "fats-fig8",
    "When requests come one after another, FATS has the highest accuracy of the three methods and "
    "maintains a stable performance, while FRS and FR² fall at every request. Judged from the "
    "first request to one interval after the last. The interval is not stated: a short one, at "
    "which FRS never finishes, and one of R rounds, at which everyone does; for that one FATS's "
    "accuracy is the mean over the law of the hit round.",
    "Appendix A.5, Figure 8",
    _and_on(_stream(), femnist="FEMNIST"),
    refuted_by="a 95 % interval over the seeds on the wrong side of a part",
    printed="orderings read from curves; no numbers printed",
)

REMARK4 = Claim(
    "fats-rem4",
    "Unlearned models are almost as accurate as the original one, as long as most of the data "
    "remain. Judged by the mean over the last quarter of the rounds, before the requests, along "
    "the recomputed path of FATS, and of retraining from scratch, whose law FATS's exactness "
    "promises.",
    "Section 5.2, Remark 4; Section 6.2.1 (preserves more model utility after unlearning)",
    [
        Part(
            f"{key}_{level}",
            f"MNIST, {level}: {text}",
            rule,
        )
        for level in ("samples", "clients")
        for key, text, rule in (
            (
                "kept",
                "FATS is as accurate after unlearning as before, or more",
                NotBelow(HALF_POINT, **POINTS),
            ),
            (
                "retrained",
                "FATS's unlearned model is as accurate as one trained again from scratch",
                Similar(2 * HALF_POINT, **POINTS),
            ),
        )
    ],
    refuted_by="an unlearned model that is half a point worse than before, or a point off FRS's",
    printed="almost the same accuracy; no numbers",
)


# The rise of the straight line fitted through a line of Figs. 2, 3 and 6, from end to end.
_RISES = Rises(0.1, unit="of the line's mean time")
_TREND = Each(_RISES)
_TIME = "Time is what is recomputed; Figs. 6b and 7b plot another one (ERRATA 86)."


def _one_request(artefact: str, name: str, source: str) -> Claim:
    """Return the claim of Fig. 2 or 6: one request, over K."""
    return Claim(
        artefact,
        f"{name}, one request. Forgetting a sample takes less time than FRS, which repeats all "
        "steps, so that this cannot fail, and more with larger K (lines: several b); so does a "
        "client (lines: several M), whose largest mean time is less than half of FRS's. Time is "
        "counted in steps, so that nothing has to be trained. "
        "Exact means follow a formula and could not fail; trends are therefore judged on drawn "
        "histories, which know nothing of it. Along every line the rise of the straight line "
        "fitted through it is judged; less than a tenth of the line's mean time counts as none. "
        + _TIME,
        source,
        [
            Part("samples_rise_K", "a sample's time rises with K along every line", _TREND),
            Part("samples_rise_b", "a sample's time rises with b", _RISES),
            Part("clients_rise_K", "a client's time rises with K along every line", _TREND),
            Part("clients_fall_M", "a client's time falls with M", _RISES),
            Part(
                "half",
                "the largest exact mean time of a client is at most half of FRS's",
                AtMost(),
            ),
            Part("samples_drawn", "drawn sample times agree with the formula", WithinErrors()),
            Part("clients_drawn", "drawn client times agree with the formula", WithinErrors()),
        ],
        refuted_by="one line whose slope does not rise, or one mean above half of FRS's",
        printed="less than half of FRS (clients); ordering of lines",
    )


FIG2 = _one_request("fats-fig2", "FEMNIST", "Section 6.2.2, Figure 2")
FIG6 = _one_request("fats-fig6", "Shakespeare", "Appendix A.3, Figure 6")

FIG3 = Claim(
    "fats-fig3",
    "Forgetting 1 to 10 clients takes longer the more there are and the larger K is (2 to 10), on "
    "FEMNIST with 3550 and Shakespeare with 630 clients; with a suitable K it stays significantly "
    "smaller than FRS. The paper does not say whether requests come at once or one by one: both. "
    "What significantly smaller means is not said either. That some K needs less time than FRS "
    "follows from the formula and cannot fail, so that the trends are judged, FATS's share of "
    "FRS's time is in the remark, and a threshold of ours stands beyond the paper. " + _TIME,
    "Section 6.2.3, Figure 3",
    [
        *(
            part
            for way, text in (("at_once", "at once"), ("one_by_one", "one by one"))
            for part in (
                Part(
                    f"{way}_requests",
                    f"{text}: the time rises with the number of requests at every K",
                    _TREND,
                ),
                Part(
                    f"{way}_K",
                    f"{text}: the time rises with K at every number of requests",
                    _TREND,
                ),
                Part(f"{way}_drawn", f"{text}: drawn times agree with the formula", WithinErrors()),
                Part(
                    f"{way}_best",
                    f"{text}: for every number of requests some K needs three quarters of FRS's "
                    "time or less",
                    AtMost(),
                    role="beyond",
                ),
            )
        )
    ],
    refuted_by="one line along which the time does not rise",
    printed="orderings read from curves; no numbers printed",
)

SIX_SETS = ("MNIST", "Fashion-MNIST", "CIFAR-10", "CIFAR-100", "FEMNIST", "Shakespeare")
BYTES = Claim(
    "fats-bytes",
    "Unlearning lowers communication and computation drastically, for samples and clients, on all "
    "six data sets. A recomputed round costs the same bytes and gradients as one of retraining, so "
    "that the share of both is the expected share of recomputed rounds, exact at Table 2's sizes. "
    "What drastic means is not said: half is our threshold, after Section 6.2.2's less than half "
    "for one client's time. The sentence is about single requests; batches stand beyond the paper.",
    "Abstract, Sections 1 and 6.2.1",
    [
        Part(
            f"{which}_{level}",
            f"{text}, {level}: the expected bytes are at most half of retraining's on all six sets",
            AtMost(),
            role=role,
        )
        for which, text, role in (
            ("one", "one request", "paper"),
            ("batch", "Section 6.2.1's 10 or 5 at once", "beyond"),
        )
        for level in ("samples", "clients")
    ],
    refuted_by="one data set whose expected share is above one half",
    printed="drastically reduce, considerably lowering; no numbers",
)


def _tradeoff(artefact: str, name: str, low: str, source: str) -> Claim:
    """Return the claim of Fig. 4 or 7."""
    gain = Above(HALF_POINT, **POINTS)
    slope = Above(2 * HALF_POINT, scale=100, unit="points per unit of rho")
    return Claim(
        artefact,
        f"{name}: accuracy rises with rho_S (0.125 to 1) and with rho_C ({low} to 1) and levels "
        "off; over rho_C it runs ahead of the unlearning time at first and flattens beyond 0.5; "
        "rho_S matters more than rho_C. Unlearning time keeps rising with rho_C and falls with "
        "rho_S, as printed. Accuracy is the mean over the last fifth of the rounds. Times are "
        "those of drawn histories, one request. " + _TIME,
        source,
        [
            Part("rises_S", "accuracy rises from the smallest to the largest rho_S", gain),
            Part("rises_C", "accuracy rises from the smallest to the largest rho_C", gain),
            Part("flattens_S", "accuracy rises more steeply below rho_S = 0.5 than above", slope),
            Part("flattens_C", "accuracy rises more steeply below rho_C = 0.5 than above", slope),
            Part(
                "ahead",
                "by rho_C = 0.5 accuracy has made a larger share of its gain than time",
                gain,
            ),
            Part("impact", "accuracy gains more over rho_S than over rho_C", gain),
            Part("time_C_low", "the time rises with rho_C up to 0.5", Rises(0.01)),
            Part("time_C_high", "the time rises with rho_C from 0.5 on", Rises(0.01)),
            Part("time_falls_S", "the time falls with rho_S (as printed)", Falls(0.01)),
            Part(
                "time_rises_S",
                "the time rises with rho_S, as Theorem 7 and the curve of Fig. 7 say",
                Rises(0.01),
                role="corrected",
                erratum=46,
                corrects=("time_falls_S",),
            ),
            Part(
                "time_flattens_S",
                "the rise is steeper below rho_S = 0.5 than above",
                Above(0.01, unit="trainings per unit of rho"),
                role="beyond",
            ),
        ],
        refuted_by="a 95 % interval, over seeds or histories, on the wrong side of a part",
        printed="best trade at rho_C = 0.5; orderings in words",
    )


FIG7 = _tradeoff("fats-fig7", "MNIST", "0.2", "Section 6.2.4, Appendix A.4, Figure 7")
FIG4 = _tradeoff("fats-fig4", "Fashion-MNIST", "0.33", "Section 6.2.4, Figure 4")

REMARK2 = Claim(
    "fats-rem2-accuracy",
    "The cost of stability depends on rho_S alone: since K grows with rho_C and b falls with it, "
    'K b stays, and a high stability of clients (a small rho_C) costs no accuracy, "if each client '
    'has enough local data samples". Judged at rho_S = 0.5 between the smallest and the largest '
    "rho_C of Figure 7, K b fixed, on clients with different label mixes. As we read the figures, "
    "their own curves cannot show it, since rho_S varies along rho_C there.",
    "Section 5.2, Remark 2 (II)",
    [
        Part(
            "free",
            "at fixed rho_S the smallest rho_C costs less than half a point against rho_C = 1",
            NotBelow(HALF_POINT, **POINTS),
        ),
        Part(
            "mixes",
            "the smallest rho_C costs less where all clients have nearly the same label mix: a "
            "round of few clients then draws from all labels",
            Above(HALF_POINT, **POINTS),
            role="beyond",
        ),
    ],
    refuted_by="an interval of the loss of accuracy above half a point",
    printed="without compromising accuracy; no numbers",
)

_METHODS = (("fats", "FATS"), ("frs", "FRS"), ("fr2", "FR²"))
TABLE1 = Claim(
    "fats-tab1",
    "After unlearning by FATS, FRS or FR² a membership attack is right in about half of its "
    "answers, in accuracy and precision. After exact unlearning the expectation is one half by "
    "symmetry, whatever the attack, so that the rows test the implementation, and only where the "
    "attack has power: on a federation that learnt its samples by heart, where the same attack on "
    "the same samples wins before forgetting. Without that power they are not counted. Pairs of "
    "runs in which forgotten and unseen samples swap their roles are averaged.",
    "Section 6.2.5, Table 1",
    [
        *(
            Part(
                f"{what}_{level}_{method}",
                f"{level}s forgotten by {name}: the attack's {what} is within two points of 50 %",
                Near(0.5, 0.02),
            )
            for level in ("sample", "client")
            for method, name in _METHODS
            for what in ("accuracy", "precision")
        ),
        Part(
            "consistent",
            "the attack's accuracy after FATS is that after FRS within two points (samples)",
            Similar(0.02, **POINTS),
        ),
        Part(
            "power_sample",
            "before samples are forgotten the same attack is right in more than 55 %",
            Above(HALF_POINT, **POINTS),
            role="beyond",
        ),
        Part(
            "power_client",
            "before a client is forgotten the same attack is right in more than 55 %",
            Above(HALF_POINT, **POINTS),
            role="beyond",
        ),
        Part(
            "exception",
            "FATS's printed 53.30 +- 2.34 % on FEMNIST is chance: its mean over 100 attacks lies "
            "within 4 standard errors of 50 %",
            WithinErrors(),
            role="beyond",
        ),
        Part("others", "the same holds on the other five of the table's six data sets", Holds()),
    ],
    refuted_by="an interval of the attack's accuracy or precision beyond two points from 50 %",
    printed="accuracies 47.9 to 53.3 %, precisions 33.2 to 55.6 %; no attack before forgetting",
)

CLAIMS_LIST = [
    FIG1,
    FIG5,
    FIG8,
    REMARK4,
    FIG2,
    FIG6,
    FIG3,
    BYTES,
    FIG7,
    FIG4,
    REMARK2,
    TABLE1,
]
