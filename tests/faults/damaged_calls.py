"""Valid calls of the library, and all the ways in which one argument of each is damaged.

Everything is generated and in one fixed order: the n-th damaged call is the same in every process.
A damaged call is

| outcome | meaning |
|---------|---------|
| good    | ValueError or TypeError that names the argument, its value and what is allowed |
| vague   | ValueError or TypeError that does not, but for those in `KNOWN_AS_VAGUE` |
| right   | an answer to a kind of damage that the argument takes, by the table `TAKES` |
| silent  | any other answer; or one that holds NaN where that of the valid call holds none, but for
            arguments that take what is not finite |
| other   | any other error, such as AttributeError for an object of a wholly wrong type |
| slow    | more than a second |
"""

from __future__ import annotations

import fnmatch
import math
import re
import time
import warnings
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import torch

from tests.faults.valid import BEYOND, CALLS

NAN, INF = math.nan, math.inf
OBJECT = object()
# What replaces an argument of a kind.
NUMBERS = (
    *(NAN, INF, -INF, -1.5, 0, 1e30, -1e30, 10**400),
    *(1j, True, "abc", "1", [], [1.0, 2.0], OBJECT, None),
)
WRONG = {
    bool: ("no", "", 1, 0, 2.5, NAN, [], OBJECT, None),
    int: (*NUMBERS, 0.5, -1, np.zeros(2), b"1"),
    float: (*NUMBERS, np.zeros((2, 2)), b"1"),
    str: ("", "nonsense", 3, NAN, [], b"text", OBJECT, None),
    np.random.Generator: (0, "abc", [], NAN, OBJECT, None),
}
OF_OBJECTS = ("abc", 3, NAN, [], OBJECT, None)

# What names a place inside a list of an argument at least as well as the argument's own name.
INSIDE = {
    "batches": r"client \d+, step \d+",
    "requests": "client|sample",
    "configs": "config",
    "name": "device|strategy",
    "stream": "shares|counts|rounds",
    "x": "samples",
    "rule": "theta",
    "channels": "convolutions",
    "input_shape": "context",
    "features": "order",
    "sizes": "capacity",
    "probability": "probabilities",
}
# What is no mistake: kind of damage -> arguments that take it, in all calls or in those named.
TAKES = {
    "zero": """
        a arrival_low b c0 c1 c2 c_ratio caps client corr_rounds delta2 digits discrepancy
        dissimilarity dissimilarity2 distance_m energy_budget_j gamma grad_norm2 key lag
        loss_decrease low max_arrivals max_cpu_hz max_disc max_lag max_tx_watt momentum most mu
        p_hist padding part payload_bits probability prox psi rho2 sample sample_importance
        score seed shadowing_db shift sigma0 sigma2 sigma_bar sigma_db sigma_g2 sigma_m2
        similarity skew slots snr snr_per_watt steps_done stick threshold user weight x
        remark1:* membership_metrics:*members GivenStream-of-counts:stream SampleSource.draw:counts
        label_discrepancy:counts costs:cpu_hz least_power:cpu_hz lemma1:cpu_hz objective:cpu_hz
        Fisher:decay fats-lemma4:grad_var *.update:ids sfl-lemma1:lambda2 sfl-lemma2:lambda2
        costs:local_steps finish:local_steps least_power:local_steps lemma2:local_steps
        objective:local_steps *_bound:loss_bound drift_constants:loss_bound fats-lemma4:loss_gap
        sfl-theorem1:loss_gap max_discrepancy:losses draw_distances:n_clients
        draw_shadowing_db:n_clients *()*:params Catalogue:q catalogue:q
        zipf_mandelbrot:q theorem7:requests learn:rounds srsr_discrepancy:s* *_bound:smoothness
        drift_constants:smoothness LocalWork:steps S*:theta DiscrepancyConfig:theta
        exact_path:theta rule_weights:theta srsr_discrepancy:theta lemma?:tx_watt costs:tx_watt
        objective:tx_watt uplink_rate:tx_watt *()*:updates
        osafl_scores:updates weighted_average:updates *()*:weights *_weights:weights
        effective_samples:weights evaluate:weights local_sgd-of-rows:weights
        one-step:weights relative_importance:weights weighted_average:weights
        difference_interval:y""",
    "negative": """
        features gradients ids loss_decrease low params rows shadowing_db value x
        Cache.keep:labels mean_interval:sample text:sample learn:start *()*:updates
        osafl_scores:updates weighted_average:updates difference_interval:y""",
    "large": """
        a b bandwidth_hz beta c0 c1 c2 c_ratio caps chi coarse concentration cpu_hz
        cycles_per_step damping deadline_s delta2 diameter discrepancy dissimilarity
        dissimilarity2 energy_budget_j features fine gamma global_rate grad_bound grad_norm2
        grad_var gradients heterogeneity high ids key lambda2 local_rate loss_bound
        loss_decrease loss_gap losses max_cpu_hz max_disc max_tx_watt memory mu n params
        payload_bits prox psi rate rho rho1 rho2 sample_importance score shadowing_db shift
        sigma0 sigma2 sigma_bar sigma_db sigma_g2 sigma_m2 similarity sizes skew slowdown
        smoothness snr snr_per_watt temperature threshold training_time tx_watt value x
        CentralisedConfig:alpha data_streams:alpha dirichlet:alpha pachinko:alpha static:alpha
        fifo_discrepancy:cache_rounds srsr_discrepancy:cache_rounds
        srsr_discrepancy_limit:cache_rounds windows-of-stores:capacity LocalWork:clients
        *_discrepancy*:corr_rounds GivenStream-of-counts:stream client_effective_samples:counts
        label_discrepancy:counts Cache.keep:labels DRSR.update:labels FIFO.update:labels
        Lazy.update:labels Reservoir.update:labels SampleSource:labels dirichlet:labels
        algorithm3:local_steps costs:local_steps least_power:local_steps lemma2:local_steps
        objective:local_steps optimal_scores:local_steps osafl-theorem1:local_steps
        score_objective:local_steps Catalogue:q catalogue:q zipf_mandelbrot:q theorem5:rho_*
        corollary6:rho_* fats-lemma4:rho_* mean_interval:sample text:sample
        History.of:samples_per_client corollary6:samples_per_client
        fats-lemma4:samples_per_client plan:samples_per_client
        printed_rule_distance:samples_per_client stability:samples_per_client
        theorem5:samples_per_client *Config:seed data_streams:seed estimate_constants:seed
        generate:seed generator:seed memories:seed model_seed:seed static:seed learn:start
        LocalWork:steps drsr_discrepancy:t srsr_discrepancy:t *()*:updates
        osafl_scores:updates weighted_average:updates *()*:weights *_weights:weights
        effective_samples:weights evaluate:weights local_sgd-of-rows:weights
        one-step:weights relative_importance:weights weighted_average:weights
        difference_interval:y""",
    "not finite": """
        high low evaluate:params FedAvg()-of-tensors:updates FedAvg():updates Scaffold():updates
        weighted_average:updates evaluate:x one-step:x""",
    "none": """
        cache caps every first_weight jobs participation server steps_done stop_after threads
        until ?RSR:batch_size FIFO:batch_size Lazy:batch_size Reservoir:batch_size
        kl_markov_stream:batch_size catalogue:features OSAFLConfig:hidden data_streams:n_samples
        static:n_samples optimization_bound:rate learn:rounds Scaffold:shares
        run-of-counts:stream run-of-shares:stream F*()*:weights MAFACD():weights
        MFedNova*():weights MFedAvg():weights MFedProx():weights OSAFL():weights
        Scaffold():weights evaluate:weights local_sgd-of-rows:weights
        weighted_average:weights""",
    "resized": """
        configs decay_at losses sample_importance shadowing_db value membership_metrics:*members
        uplink_rate:*t create:[hi]* *_sgd*:batches osafl_cnn:channels fisher_sgd:rows
        SampleSource.draw:counts label_discrepancy:counts costs:cpu_hz least_power:cpu_hz
        lemma1:cpu_hz objective:cpu_hz path_loss_db:distance_m catalogue:features
        OSAFLConfig:hidden osafl_fcn:hidden osafl_fcn:input_shape SampleSource:labels
        dirichlet:labels draw_test_set:labels costs:local_steps least_power:local_steps
        lemma2:local_steps objective:local_steps evaluate:params dataset_?:requests
        forget*:requests request:requests mean_interval:sample text:sample
        GivenStream-of-shares:stream
        MFedNova:sizes run-of-shares:stream drsr_discrepancy:t srsr_discrepancy:t lemma?:tx_watt
        costs:tx_watt objective:tx_watt osafl_scores:updates *_weights:weights
        effective_samples:weights relative_importance:weights""",
    # in another axis than the first; whatever may be resized may be widened
    "widened": """
        Dataset.of:x Catalogue:features sigma_bar2:gradients History.of:batches
        weighted_average:updates""",
    "entry": """
        data rates evaluate_attack:*members *_sgd*:batches forget*:requests request:requests""",
    "other": """
        cpu_share sample_importance tx_share forget_client:client OSAFLConfig:hidden
        Dataset.of:name local_sgd:rate forget_sample:sample""",
}
# Answers that hold NaN, as their docstrings say: nobody sends at 0 W, or ends without a step.
GIVES_NAN = "objective:tx_watt finish:local_steps"
# Messages that say less, of calls and arguments.
KNOWN_AS_VAGUE = """
    local_sgd:batches local_sgd-of-rows:data local_sgd-of-rows:rows fisher_sgd:data evaluate:[xy]
    exact_discrepancy*:* run-of-*:stream draw_devices:n_clients
    windows-of-stores:slots pachinko:fine pachinko:coarse
    draw_test_set:labels"""


class Damaged(NamedTuple):
    """A valid call whose argument `argument` is `value`."""

    call: str
    argument: str
    value: Any

    def __str__(self) -> str:
        shown = " ".join(repr(self.value).split())
        shown = re.sub(r"0x[0-9a-f]+", "...", shown)
        return f"{self.call}({self.argument}={shown[:60]})"


class Outcome(NamedTuple):
    """How a damaged call ended: a word of the table above, and what was said."""

    word: str
    said: str
    seconds: float


def damaged(*calls: str) -> Iterator[Damaged]:
    """Yield every damaged call, or those of some calls, in a fixed order."""
    for call in calls or CALLS:
        for argument, value in CALLS[call]()[1].items():
            for wrong in (*damages(value), *BEYOND.get(call, {}).get(argument, ())):
                yield Damaged(call, argument, wrong)


def damages(value: Any) -> list[Any]:
    """Return what a valid argument is replaced by, in turn."""
    for kind, wrong in WRONG.items():
        if type(value) is kind or (kind is np.random.Generator and isinstance(value, kind)):
            return list(wrong)
    if isinstance(value, (np.ndarray, torch.Tensor)):
        return _of_array(value)
    of_list = _of_list(value) if type(value) in (list, tuple) and len(value) else []
    return [*OF_OBJECTS, *of_list]


def _of_list(value: list | tuple) -> list[Any]:
    """Return damaged copies of a list: its length, its first entry, and that one's first."""
    kind = type(value)
    first, rest = value[0], list(value[1:])
    inner = damages(first) if not hasattr(first, "_fields") else list(OF_OBJECTS)
    return [kind(rest), kind([first, first, *rest]), *(kind([new, *rest]) for new in inner)]


def _of_array(value: np.ndarray | torch.Tensor) -> list[Any]:
    """Return damaged copies of an array: entries, shape, length and type."""
    plain = np.asarray(value)
    out: list[Any] = []
    for entry in (NAN, INF, -INF, -1.5, 0, 1e30):
        changed = plain.astype(float)
        changed.flat[0] = entry
        out.append(changed)
    column = plain.reshape(-1, 1)
    twice = np.concatenate([plain, plain])
    out += [plain[:0], twice, plain[None], column, plain + 1j * np.ones(plain.shape)]
    for axis, n in enumerate(plain.shape):  # one entry too few, one too many
        out += [plain.take(range(n - 1), axis), plain.take([*range(n), n - 1], axis)] if n else []
    if isinstance(value, torch.Tensor):
        out = [torch.as_tensor(part) for part in out]
    if plain.dtype.kind == "i" and plain.ndim:
        out += [np.where(plain == plain.flat[0], most, plain) for most in (-1, 10**6, 2**63 - 1)]
        out += [np.full_like(plain, plain.flat[0])]
    texts = plain.astype(str)
    return [*out, texts, texts.astype(object), "abc", [[1], [1, 2]], 10**400, OBJECT, None]


def kind_of(case: Damaged) -> str:
    """Return the kind of a damage, a key of `TAKES`, or what cannot be taken."""
    valid = CALLS[case.call]()[1][case.argument]
    if any(case.value is wrong for wrong in BEYOND.get(case.call, {}).get(case.argument, ())):
        return "beyond"
    if case.value is None:
        return "none"
    if type(valid) in (list, tuple) and type(case.value) in (list, tuple):
        return _kind_in_list(valid, case.value)
    kind = np.asarray(valid).dtype.kind if isinstance(valid, (np.ndarray, torch.Tensor)) else ""
    if not kind or not isinstance(case.value, (np.ndarray, torch.Tensor)):
        number = type(valid) in (int, float) and type(case.value) in (int, float)
        return _kind_of_number(case.value) if number else "other"
    old, new = np.asarray(valid), np.asarray(case.value)
    if new.dtype.kind == old.dtype.kind == "i" and new.size and (new == old.flat[0]).all():
        return "same"
    if new.dtype.kind not in "if":
        return "other"
    if new.shape != old.shape:
        return "resized" if new.ndim != old.ndim or len(new) != len(old) else "widened"
    changed = (new != old).ravel()
    return _kind_of_number(float(new.ravel()[changed][0])) if changed.any() else "same"


def _kind_in_list(valid: list | tuple, value: list | tuple) -> str:
    return "resized" if len(value) != len(valid) else "entry"


def _kind_of_number(value: float) -> str:
    if not -INF < value < INF:
        return "not finite"
    return "negative" if value < 0 else "zero" if value == 0 else "large"


def is_taken(case: Damaged) -> bool:
    """Return whether an argument takes a damage of this kind."""
    kind = kind_of(case)
    names = TAKES.get(kind, "") + (TAKES["resized"] if kind == "widened" else "")
    return kind == "same" or _is_among(case, names)


def _is_among(case: Damaged, names: str) -> bool:
    place = f"{case.call.replace(' ', '-')}:{case.argument}"
    patterns = (name if ":" in name else f"*:{name}" for name in names.split())
    return any(fnmatch.fnmatchcase(place, pattern) for pattern in patterns)


def outcome(case: Damaged) -> Outcome:
    """Make the damaged call and return how it ended."""
    function, options = CALLS[case.call]()
    began = time.perf_counter()
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            answer = function(**options | {case.argument: case.value})
    except (ValueError, TypeError) as error:
        word, said = ("good" if is_good(case, str(error)) else "vague"), str(error)
    except Exception as error:
        word, said = "other", f"{type(error).__name__}: {error}"
    else:
        word, said = ("silent" if _is_wrong(case, answer) else "right"), repr(answer)[:200]
    seconds = time.perf_counter() - began
    return Outcome("slow" if seconds > 1 else word, said, seconds)


# A value is shown as it is, or by what is wrong with it; then comes what is allowed.
VALUE = r"=|'|\d|\b(has|have|holds?|shapes?|dtype|type|sum|is|are)\b"
ALLOWED = (
    r"\b(must|needs?|takes?|asks for|belongs|agree|fit|one of|at (least|most)|finite|already|twice"
    r"|too|leave)\b"
)


def is_good(case: Damaged, said: str) -> bool:
    """Return whether a message names the argument, shows its value and says what is allowed."""
    names = f"{re.escape(case.argument)}|{INSIDE.get(case.argument, case.argument)}"
    whole = all(re.search(part, said) for part in (rf"\b({names})\b", VALUE, ALLOWED))
    return whole or _is_among(case, KNOWN_AS_VAGUE)


def _is_wrong(case: Damaged, answer: Any) -> bool:
    """Return whether an answer to a damaged call may be wrong without a word."""
    if not is_taken(case):
        return True
    said = kind_of(case) in ("not finite", "entry") or _is_among(case, GIVES_NAN)
    if said or not _holds_nan(answer):
        return False
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        function, options = CALLS[case.call]()
        return not _holds_nan(function(**options))


def _holds_nan(answer: Any) -> bool:
    """Return whether an answer, an array or a tuple of them holds NaN."""
    if isinstance(answer, tuple):
        return any(map(_holds_nan, answer))
    if isinstance(answer, torch.Tensor):
        return bool(torch.isnan(answer).any()) if answer.is_floating_point() else False
    if isinstance(answer, (float, np.ndarray, np.floating)):
        array = np.asarray(answer)
        return array.dtype.kind in "fc" and bool(np.isnan(array).any())
    return False
