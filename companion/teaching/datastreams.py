"""The exercises of notebooks 20 to 23: importance, strategies, optimisers and their theory."""

from __future__ import annotations

import itertools

import numpy as np

from companion.teaching.exercise import Exercise, close, number, vector

weights = Exercise(
    "20",
    "an aggregation weight for old and for new data",
    "Write `weights(samples, historical, p_hist)`. `samples[m]` is the number of samples of client "
    "m, `historical[m]` says whether its data are old. Return each client's weight in the "
    "aggregation: the historical clients get `p_hist` together and the fresh ones the rest, and "
    "within each group every sample counts the same.",
    "weights(samples, historical, p_hist)",
    vector("a vector with one weight per client", lambda samples, *_: len(samples)),
)


def _crowds(rng):
    for size in (2, 3, 6):
        historical = np.arange(size) < max(1, size // 2)
        for p_hist in (0.0, 0.3, 1.0):
            yield rng.integers(1, 50, size).astype(float), historical, p_hist


@weights.must(hint="What do the fresh clients get when the historical ones get p_hist?")
def the_weights_add_up_to_one(f, rng):
    "All weights together are one."
    return all(close(f(*crowd).sum(), 1) for crowd in _crowds(rng))


@weights.must(hint="Divide by the samples of the group, not by those of all clients.")
def the_historical_clients_get_their_part(f, rng):
    "The weights of the historical clients add up to p_hist."
    return all(close(f(n, old, p)[old].sum(), p) for n, old, p in _crowds(rng))


@weights.must(hint="A client with twice the samples gets twice the weight of its neighbour.")
def samples_of_a_group_count_the_same(f, rng):
    "Within a group, weight divided by samples is the same for all clients."
    for n, old, p in _crowds(rng):
        each = f(n, old, p) / n
        if not all(close(each[group], each[group].mean()) for group in (old, ~old)):
            return False
    return True


choose = Exercise(
    "21",
    "choosing without looking at what is judged",
    "Write `choose(scores)`. `scores[s, j]` is the accuracy of seed s with the j-th importance of "
    "the historical clients. For each seed, return the number j of the importance that has the "
    "best mean over all *other* seeds, so that no seed chooses what it judges.",
    "choose(scores)",
    vector("one column number per seed", len, integers=True),
)


@choose.must(hint="Which numbers are there to choose from?")
def the_choice_is_a_column(f, rng):
    "Every choice is the number of a column, counted from 0."
    for shape in ((3, 2), (5, 4), (8, 5)):
        chosen = f(rng.random(shape))
        if chosen.min() < 0 or chosen.max() >= shape[1]:
            return False
    return True


@choose.must(hint="Leave the seed's own row out of the mean.", shows=2)
def the_own_scores_do_not_choose(f, rng):
    "Whatever happens to a seed's own scores, its own choice stays the same."
    for _ in range(10):
        scores = rng.random((4, 3))
        before = f(scores)
        for s in range(4):
            changed = scores.copy()
            changed[s] = 10 * rng.permutation(3)
            if f(changed)[s] != before[s]:
                return False
    return True


@choose.must(hint="Take the mean of the other seeds' scores, and the column where it is largest.")
def no_other_column_was_better_for_the_others(f, rng):
    "The mean score of the other seeds is largest in the chosen column."
    for _ in range(10):
        scores = rng.random((5, 3))
        for s, j in enumerate(f(scores)):
            others = np.delete(scores, s, axis=0).mean(0)
            if others[j] < others.max() - 1e-12:
                return False
    return True


prox_step = Exercise(
    "22",
    "a step of FedProx",
    "Write `prox_step(params, gradient, anchor, rate, mu)`. FedProx adds the penalty "
    "mu/2 * |params - anchor|^2 to a client's loss, where `anchor` is the model that the server "
    "sent, and takes ordinary gradient steps on the sum. Return the parameters after one step of "
    "length `rate`, where `gradient` is that of the loss alone.",
    "prox_step(params, gradient, anchor, rate, mu)",
    vector("a vector as long as params", lambda params, *_: len(params)),
)


def _steps(rng):
    for _ in range(5):
        yield (*rng.normal(size=(3, 4)), rng.uniform(0.01, 0.5), rng.uniform(0.1, 2))


@prox_step.must(hint="With mu = 0 there is no penalty; what remains?")
def without_a_penalty_it_is_a_plain_step(f, rng):
    "For mu = 0 it is an ordinary gradient step, as FedAvg's clients take it."
    return all(close(f(w, g, a, rate, 0.0), w - rate * g) for w, g, a, rate, _ in _steps(rng))


@prox_step.must(hint="The penalty pulls to the anchor, not to zero.", shows=2)
def nothing_pulls_at_the_anchor(f, rng):
    "A client that stands at the anchor feels no pull, however large mu is."
    return all(
        close(f(a, g, a, rate, mu), f(a, g, a, rate, 0.0)) for _, g, a, rate, mu in _steps(rng)
    )


@prox_step.must(hint="What is the gradient of mu/2 |w - a|^2, and which sign does a step have?")
def it_rests_where_both_forces_balance(f, rng):
    "Where the pull to the anchor is as strong as the gradient and opposite, nothing moves."
    return all(
        close(f(a - g / mu, g, a, rate, mu), a - g / mu) for _, g, a, rate, mu in _steps(rng)
    )


effective_samples = Exercise(
    "23",
    "how many samples do weights leave?",
    "Write `effective_samples(weights, samples)`. Client m has the weight `weights[m]`; they all "
    "add up to one, and a client's weight is spread evenly over its `samples[m]` samples. Return "
    "the effective number of samples of Lemma 4.2, one over the sum of the squared weights of all "
    "samples.",
    "effective_samples(weights, samples)",
    number,
)


@effective_samples.must(hint="First find the weight of a single sample.")
def samples_that_count_alike_all_count(f, rng):
    "If each sample has the same weight, the effective number is the number of samples."
    return all(
        close(f(n / n.sum(), n), n.sum()) for n in (rng.integers(1, 30, m) for m in (1, 2, 5))
    )


@effective_samples.must(hint="The squares are those of samples, not of clients.", shows=2)
def splitting_a_client_changes_nothing(f, rng):
    "Two clients with half the samples and half the weight each are as good as one."
    whole = f(np.array([0.7, 0.3]), np.array([10, 4]))
    halves = f(np.array([0.35, 0.35, 0.3]), np.array([5, 5, 4]))
    return close(whole, halves)


@effective_samples.must(hint="Which mean of the samples' weights does the variance take?")
def it_says_how_noise_averages_out(f, rng):
    """If every sample is a fair coin, 1 or -1, the weighted mean of all has the variance one over
    the effective number, as listing all throws shows."""
    for p, n in (([0.6, 0.4], [2, 3]), ([0.1, 0.2, 0.7], [1, 2, 2])):
        each = np.repeat(np.array(p) / n, n)
        throws = np.array(list(itertools.product((-1, 1), repeat=len(each))))
        if not close(1 / f(np.array(p), np.array(n)), ((throws @ each) ** 2).mean()):
            return False
    return True
