"""The exercises of notebooks 40 to 45: forgetting exactly, what it costs, and who can tell."""

from __future__ import annotations

import itertools
from collections import Counter

import numpy as np

from companion.teaching.exercise import Exercise, close, number, vector, whole

forget = Exercise(
    "40",
    "forget a sample so that nobody can tell",
    "Write `forget(batch, sample, n_samples, rng)`. `batch` holds different sample numbers out of "
    "0 to n_samples - 1, drawn uniformly. `sample` has to be forgotten. Return a batch of the same "
    "size whose law is that of a batch drawn uniformly from all samples but this one, and keep the "
    "batch as it is wherever that is possible. `rng` is a numpy generator.",
    "forget(batch, sample, n_samples, rng)",
    vector("a vector of sample numbers", integers=True),
)


def _draw(rng, n_samples, size):
    return rng.permutation(n_samples)[:size]


@forget.must(hint="What is there to do if the sample was never used?")
def what_was_not_used_stays(f, rng):
    "A batch that does not hold the sample stays as it is."
    for _ in range(20):
        batch = _draw(rng, 6, 3)
        absent = next(i for i in range(6) if i not in batch)
        if sorted(f(batch, absent, 6, rng)) != sorted(batch):
            return False
    return True


@forget.must(hint="A batch draws without replacement, and the size never changes.")
def it_is_a_batch_without_the_sample(f, rng):
    "The answer has as many different samples as before, and the forgotten one is not among them."
    for _ in range(50):
        batch = _draw(rng, 6, 4)
        new = f(batch, batch[0], 6, rng)
        if len(new) != 4 or len(set(new)) != 4 or not set(new) <= set(range(6)) - {batch[0]}:
            return False
    return True


@forget.must(hint="Which of the other samples may take the place, and how likely is each?")
def nobody_can_tell(f, rng):
    """Over many batches, each batch of the other samples is equally likely, whether the sample was
    in the batch or not (up to five standard errors)."""
    runs, n_samples, size = 6000, 5, 2
    found = Counter(
        tuple(sorted(f(_draw(rng, n_samples, size), 0, n_samples, rng))) for _ in range(runs)
    )
    possible = list(itertools.combinations(range(1, n_samples), size))
    share = 1 / len(possible)
    error = 5 * (runs * share * (1 - share)) ** 0.5
    return all(abs(found[batch] - runs * share) <= error for batch in possible)


best_rate = Exercise(
    "41",
    "the rate that makes a bound smallest",
    "Write `best_rate(gap, smoothness, noise, steps)`. For one local step per round, the bound of "
    "Lemma 4 has the form 2 * gap / (rate * steps) + rate * smoothness * noise plus a part that is "
    "small for small rates. Return the rate for which the sum of the two is smallest. Is it "
    "Theorem 5's, sqrt(gap / (smoothness * noise * steps))?",
    "best_rate(gap, smoothness, noise, steps)",
    number,
)


def _bound(rate, gap, smoothness, noise, steps):
    return 2 * gap / (rate * steps) + rate * smoothness * noise


def _problems(rng):
    return [(*rng.uniform(0.1, 10, 3), int(rng.integers(10, 1000))) for _ in range(10)]


@best_rate.must(hint="A step with rate 0 goes nowhere.")
def a_rate_is_positive(f, rng):
    "The rate is above 0."
    return all(f(*problem) > 0 for problem in _problems(rng))


@best_rate.must(hint="How do the two terms change with the number of steps?", shows=2)
def four_times_the_steps_half_the_rate(f, rng):
    "With four times the steps the best rate is half as large."
    return all(close(2 * f(d, s, n, 4 * t), f(d, s, n, t)) for d, s, n, t in _problems(rng))


@best_rate.must(hint="Set the derivative of the bound with respect to the rate to zero.")
def no_other_rate_is_better(f, rng):
    "A rate that is a little or much smaller or larger has no smaller bound."
    factors = (0.01, 0.5, 0.9, 0.999, 1.001, 1.1, 2, 100)
    for problem in _problems(rng):
        rate = f(*problem)
        least = _bound(rate, *problem) * (1 - 1e-12)
        if any(_bound(factor * rate, *problem) < least for factor in factors):
            return False
    return True


first_use = Exercise(
    "42",
    "when is a client first drawn?",
    "Write `first_use(n_clients, clients_per_round, rounds)`. A round draws `clients_per_round` "
    "times one of `n_clients` clients, uniformly and with replacement. Return the probabilities "
    "that a given client is drawn for the first time in round 0, 1, ..., and, as the last entry, "
    "that it is never drawn. FATS goes back to that round when the client is to be forgotten.",
    "first_use(n_clients, clients_per_round, rounds)",
    vector("a vector with rounds + 1 probabilities", lambda m, k, rounds: rounds + 1),
)
_TINY = ((2, 1, 3), (3, 2, 2), (4, 3, 2), (3, 1, 4), (1, 2, 2))


def _first_rounds(n_clients, clients_per_round, rounds):
    """List the round of client 0's first use in every possible history, `rounds` for never."""
    for slots in itertools.product(range(n_clients), repeat=clients_per_round * rounds):
        yield slots.index(0) // clients_per_round if 0 in slots else rounds


@first_use.must(hint="Something must happen: some round is the first, or none.")
def they_are_probabilities(f, rng):
    "The numbers are not negative and add up to one."
    answers = (f(*case) for case in ((5, 2, 6), *_TINY))
    return all(p.min() >= -1e-12 and close(p.sum(), 1) for p in answers)


@first_use.must(hint="A round that is not the first one does not know how many came before.")
def every_round_has_the_same_chance(f, rng):
    "If the client was not drawn so far, the chance of the next round is always the same."
    p = f(10, 3, 6)
    left = 1 - np.concatenate([[0], np.cumsum(p[:-2])])
    return bool((left > 0).all()) and close(p[:-1] / left, p[0])


@first_use.must(hint="With which chance is a client missed by all draws of a round?")
def it_agrees_with_counting_histories(f, rng):
    "In tiny federations, listing all histories and counting gives the same probabilities."
    for case in _TINY:
        counts = np.bincount(list(_first_rounds(*case)), minlength=case[2] + 1)
        if not close(f(*case), counts / counts.sum()):
            return False
    return True


recomputed = Exercise(
    "43",
    "how much of a training is done again?",
    "Write `recomputed(n_clients, clients_per_round, rounds)`. As in notebook 42's exercise, each "
    "round draws `clients_per_round` of `n_clients` clients with replacement. To forget a client, "
    "FATS trains again from the first round that drew it to the end, or not at all if none did. "
    "Return the expected share of the rounds that are trained again.",
    "recomputed(n_clients, clients_per_round, rounds)",
    number,
)


@recomputed.must(hint="Does the round of the first use itself have to be done again?")
def the_only_client_costs_everything(f, rng):
    "Forgetting the only client starts in the first round and costs the whole training."
    return all(close(f(1, 2, rounds), 1) for rounds in (1, 2, 10))


@recomputed.must(hint="Can more be trained again than there is? Mind rounds that draw twice.")
def it_stays_below_what_theorem_7_allows(f, rng):
    "The share lies between 0 and the smaller of 1 and rho_C = K R / M."
    for case in ((100, 2, 5), (100, 10, 30), (50, 5, 9), (3, 2, 4)):
        m, k, rounds = case
        if not 0 <= f(*case) <= min(1, k * rounds / m):
            return False
    return True


@recomputed.must(hint="Weigh each possible first round by its probability.")
def it_agrees_with_counting_all_histories(f, rng):
    "In tiny federations, listing all histories and counting gives the same share."
    return all(
        close(f(*case), np.mean([1 - r / case[2] for r in _first_rounds(*case)])) for case in _TINY
    )


batch_size = Exercise(
    "44",
    "the largest batch that keeps a promise",
    "Write `batch_size(rho_s, n_clients, samples, clients_per_round, steps)`. A training promises "
    "to be stable towards one sample: b K T / (M N) must not exceed `rho_s`, where b is the batch "
    "size, K = `clients_per_round`, T = `steps`, M = `n_clients` and N = `samples` per client. "
    "Return the largest whole b that keeps the promise, so that K can be varied with rho_S held.",
    "batch_size(rho_s, n_clients, samples, clients_per_round, steps)",
    whole,
)


def _promises(rng):
    for _ in range(50):
        m, n = int(rng.integers(20, 300)), int(rng.integers(50, 300))
        k, steps = int(rng.integers(1, 10)), int(rng.integers(20, 300))
        rho = rng.uniform(1.5, 60) * k * steps / (m * n)
        yield rho, m, n, k, steps


@batch_size.must(hint="Which way may you round?")
def the_promise_is_kept(f, rng):
    "With that batch size the stability is not above rho_s."
    return all(
        f(*case) * k * t / (m * n) <= r for case in _promises(rng) for r, m, n, k, t in [case]
    )


@batch_size.must(hint="Solve the promise for b. Is every size in it?")
def none_larger_keeps_it(f, rng):
    "A batch with one sample more breaks the promise."
    return all(
        (f(*case) + 1) * k * t / (m * n) > r for case in _promises(rng) for r, m, n, k, t in [case]
    )


@batch_size.must(hint="What stays the same when K doubles and rho_S is held?", shows=2)
def twice_the_clients_half_the_batch(f, rng):
    "Where both are whole, twice the clients per round leave batches of half the size."
    return 2 * f(0.5, 64, 128, 4, 64) == f(0.5, 64, 128, 2, 64) > 0


accuracy = Exercise(
    "45",
    "an attack that is right half of the time",
    "Write `accuracy(called_a, called_b)`. An attacker is shown the samples of two sets: those of "
    "a were trained on, those of b were not. `called_a` and `called_b` hold 1 where it says "
    "*member* and 0 where it says *no member*. Return the share of right answers, where both sets "
    "count the same whatever their sizes.",
    "accuracy(called_a, called_b)",
    number,
)


def _calls(rng):
    for a, b in ((4, 4), (3, 9), (12, 5)):
        yield rng.integers(0, 2, a), rng.integers(0, 2, b)


@accuracy.must(hint="Which answer is right for a sample of b?")
def who_knows_is_always_right(f, rng):
    "An attacker who calls exactly the samples of a members has accuracy 1."
    return all(close(f(np.ones(a), np.zeros(b)), 1) for a, b in ((3, 3), (2, 7)))


@accuracy.must(hint="Which share of each set is right? Then take both sets together.")
def who_never_looks_is_right_half_of_the_time(f, rng):
    "An attacker who gives the same answer to every sample has accuracy one half."
    return all(
        close(f(np.full(a, call), np.full(b, call)), 0.5)
        for a, b in ((3, 3), (2, 7), (9, 1))
        for call in (0, 1)
    )


@accuracy.must(hint="Count single answers: half of the members found is half of that set.")
def one_right_answer_more_counts_by_its_set(f, rng):
    "One more member found among n raises the accuracy by half of 1/n."
    for a, b in _calls(rng):
        none, one = np.zeros(len(a)), np.eye(len(a))[0]
        if not close(f(one, b) - f(none, b), 0.5 / len(a)):
            return False
    return True
