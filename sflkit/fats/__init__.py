"""Exact federated unlearning (the FATS paper).

Start with `history` (who trained on what, Algorithm 1's sampling) and `forgetting` (Algorithms 2
and 3: how a history forgets a sample or a client). `stability` has Lemma 1, `enumeration` proves
laws on tiny cases, `first_uses` simulates the cost of requests.

`learning` trains, forgets and recomputes models, kept in a `state`; `clients` has the data that it
was trained on. `methods` is the table of FATS, FRS and FR2, and says how to add another; `sgd` has
their local steps, `attacks` membership inference.

`training` and `membership` are the experiments, with settings in `config`; `bounds` and
`expected_time` hold the rates and costs.
"""

from sflkit.exports import exports

_MODULES = """attacks bounds clients enumeration expected_time first_uses learning membership
methods sgd stability state"""

__getattr__, __dir__, __all__ = exports(
    __name__,
    {
        **dict.fromkeys(_MODULES.split(), ""),
        "history": "History draw_history",
        "forgetting": "forget_client forget_sample",
        "stability": "plan",
        "training": "run",
        "config": "FATSConfig",
    },
)
