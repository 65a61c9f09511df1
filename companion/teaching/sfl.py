"""The exercises of notebooks 00 to 15: streams, caches, and what training makes of them."""

from __future__ import annotations

import itertools

import numpy as np

from companion.teaching.exercise import Exercise, close, number, vector, whole

discrepancy = Exercise(
    "00",
    "how far is a cache from the long run?",
    "Write `discrepancy(counts, long_term)`. `counts` says how many samples of each label a cache "
    "holds, `long_term` which share each label has in the long run. Return the sum over the labels "
    "of the squared difference between the share in the cache and the share in the long run.",
    "discrepancy(counts, long_term)",
    number,
)


@discrepancy.must(hint="Turn the counts into shares before you compare them.")
def zero_when_the_shares_agree(f, rng):
    "A cache with exactly the long-term shares is not off at all."
    return all(
        close(f(np.array(c), np.array(c) / sum(c)), 0) for c in ([1, 1], [6, 3, 1], [2, 0, 8])
    )


@discrepancy.must(hint="Divide by the number of samples in the cache.", shows=2)
def a_larger_cache_with_the_same_mix_is_as_far_off(f, rng):
    "Doubling all counts changes nothing, since only the mix counts."
    counts, long_term = np.array([7, 2, 1]), np.array([0.2, 0.5, 0.3])
    return close(f(2 * counts, long_term), f(counts, long_term))


@discrepancy.must(hint="Which power of the difference does the sum take?", shows=2)
def twice_as_far_is_four_times_as_much(f, rng):
    "When every share is twice as far from the long run, the discrepancy is four times as large."
    long_term = np.array([0.5, 0.3, 0.2])
    near, far = f(np.array([55, 25, 20]), long_term), f(np.array([60, 20, 20]), long_term)
    return near > 0 and close(far, 4 * near)


@discrepancy.must(hint="It is a sum, not a mean.")
def each_label_counts_once(f, rng):
    "A cache of one label, while the stream brings only another, is off by 1 in each of the two."
    return close(f(np.array([5, 0]), np.array([0.0, 1.0])), 2)


remember = Exercise(
    "10",
    "a cache rule that weighs all of the past alike",
    "Write `remember(shares, arrived, t)`, the heart of DRSR. `shares` is the label mix that the "
    "cache aimed at after round t - 1 (all zeros before the first round), `arrived` the label mix "
    "of the samples that arrive in round t, which counts from 1. Return the mix to aim at now, so "
    "that every round so far counts the same.",
    "remember(shares, arrived, t)",
    vector("a vector with one share per label", lambda shares, arrived, t: len(shares)),
)


def _mixes(rng, rounds, labels=3):
    return rng.dirichlet(np.ones(labels), rounds)


def _aim(f, arrivals):
    shares = np.zeros(arrivals.shape[1])
    for t, arrived in enumerate(arrivals, start=1):
        shares = f(shares, arrived, t)
    return shares


@remember.must(hint="How many rounds are there to count in round 1?")
def the_first_round_is_all_there_is(f, rng):
    "After the first round the cache aims at what arrived in it."
    return all(close(f(np.zeros(3), mix, 1), mix) for mix in _mixes(rng, 5))


@remember.must(hint="Should the weight of a new round stay the same for ever?", shows=1)
def the_order_of_the_rounds_does_not_matter(f, rng):
    "If every round counts the same, the same rounds in another order lead to the same mix."
    arrivals = _mixes(rng, 6)
    return all(close(_aim(f, arrivals), _aim(f, arrivals[rng.permutation(6)])) for _ in range(5))


@remember.must(hint="Write down the mean of t rounds by the mean of t - 1 of them.")
def it_is_the_mean_of_all_rounds(f, rng):
    "After any number of rounds the cache aims at the plain mean of all that arrived."
    return all(close(_aim(f, a), a.mean(0)) for a in (_mixes(rng, n) for n in (1, 2, 3, 8)))


fifo_variance = Exercise(
    "11",
    "what a FIFO cache averages out",
    "Write `fifo_variance(covariance, cache_rounds)`. A FIFO cache holds the last `cache_rounds` "
    "rounds, and its share of a label is the mean of the shares of these rounds. "
    "`covariance[lag]` is the covariance of the shares of two rounds that lie `lag` rounds apart, "
    "so `covariance[0]` is the variance of one round; beyond the end of the array it is 0. Return "
    "the variance of the cache's share, exactly and not as a bound.",
    "fifo_variance(covariance, cache_rounds)",
    number,
)


@fifo_variance.must(hint="The array ends where the covariance becomes 0.")
def independent_rounds_average_out(f, rng):
    "If rounds know nothing of each other, M of them have one M-th of the variance."
    return all(close(f(np.array([0.12]), m), 0.12 / m) for m in (2, 3, 10))


@fifo_variance.must(hint="Every pair of rounds counts, in both orders, and so does each round.")
def equal_rounds_do_not_average_out(f, rng):
    "If all rounds are alike, the mean of many is no better than one."
    return all(close(f(np.full(m, 0.07), m), 0.07) for m in (2, 3, 7))


@fifo_variance.must(hint="How many pairs of the M rounds lie exactly `lag` apart?")
def it_agrees_with_counting_all_coins(f, rng):
    """Let a share be the mean of the last few throws of a coin, 1 or -1. Listing all sequences of
    throws gives the variance by counting."""
    return all(
        close(f(_coin_covariance(gamma), m), _counted_variance(gamma, m))
        for gamma in (1, 2, 3)
        for m in (2, 3, 5)
    )


def _coin_covariance(gamma):
    return np.arange(gamma + 1, 0, -1) / (gamma + 1) ** 2


def _counted_variance(gamma, cache_rounds):
    throws = np.array(list(itertools.product((-1, 1), repeat=cache_rounds + gamma)))
    shares = np.stack([throws[:, t : t + gamma + 1].mean(1) for t in range(cache_rounds)])
    return (shares.mean(0) ** 2).mean()


keep_newest = Exercise(
    "12",
    "a cache rule with a mix to meet and fresh samples",
    "Write `keep_newest(labels, counts)`. `labels` lists the labels of all samples at hand, oldest "
    "first; `counts[r]` says how many samples of label r the cache should hold. Return the "
    "positions of the samples to keep, in any order: as many of each label as asked for, or all "
    "where there are fewer, and of each label the newest.",
    "keep_newest(labels, counts)",
    vector("a vector of positions", integers=True),
)


def _shelves(rng):
    yield np.array([0, 1, 0, 1, 1, 0]), np.array([2, 1])
    yield np.array([2, 2, 0, 2]), np.array([3, 1, 2])
    for _ in range(20):
        yield rng.integers(0, 3, 12), rng.integers(0, 5, 3)


@keep_newest.must(hint="A sample can be kept once; positions count from 0.")
def nothing_is_invented(f, rng):
    "Every position is one of those at hand, and none occurs twice."
    for labels, counts in _shelves(rng):
        kept = f(labels, counts)
        inside = ((kept >= 0) & (kept < len(labels))).all()
        if not inside or len(set(kept)) < len(kept):
            return False
    return True


@keep_newest.must(hint="Go through the labels one by one.")
def the_mix_is_met(f, rng):
    "Of each label as many are kept as asked for, or all where there are fewer."
    for labels, counts in _shelves(rng):
        have = np.bincount(labels, minlength=3)[: len(counts)]
        kept = np.bincount(labels[f(labels, counts)], minlength=len(counts))
        if not np.array_equal(kept, np.minimum(counts, have)):
            return False
    return True


@keep_newest.must(hint="The newest samples stand at the end.")
def the_newest_stay(f, rng):
    "No sample leaves while an older one of its label stays."
    for labels, counts in _shelves(rng):
        kept = set(f(labels, counts))
        for gone in set(range(len(labels))) - kept:
            if any(labels[i] == labels[gone] and i < gone for i in kept):
                return False
    return True


half_life = Exercise(
    "13",
    "how long does SRSR remember?",
    "Write `half_life(theta, capacity, batch_size)`. In every round SRSR gives the arrivals the "
    "weight x = theta * batch_size / capacity and all that was there before the weight 1 - x. "
    "Return the smallest number of rounds after which what the cache aimed at before counts for "
    "at most one half.",
    "half_life(theta, capacity, batch_size)",
    whole,
)
_SRSR = ((0.5, 100, 50), (0.3, 300, 150), (2 / 3, 300, 15), (0.1, 60, 30), (0.9, 40, 40))


def _weight_of_old(theta, capacity, batch_size, rounds):
    return (1 - theta * batch_size / capacity) ** rounds


@half_life.must(hint="With theta = 1 and a batch as large as the cache, what is left?")
def replaced_at_once(f, rng):
    "A cache that takes over a whole batch with weight 1 has forgotten everything after one round."
    return f(1.0, 50, 50) == 1


@half_life.must(hint="The old counts for (1 - x) after one round, and after n of them?")
def half_forgotten_by_then(f, rng):
    "After that many rounds what was there before counts for at most one half."
    return all(_weight_of_old(*case, f(*case)) <= 0.5 for case in _SRSR)


@half_life.must(hint="A time constant is not a half-life; take the smallest such number.")
def and_not_earlier(f, rng):
    "One round earlier it still counted for more than one half."
    return all(_weight_of_old(*case, f(*case) - 1) > 0.5 for case in _SRSR)


gradient_error = Exercise(
    "14",
    "what a wrong label mix does to a gradient",
    "Write `gradient_error(shares, long_term, gradients)`. `gradients[r]` is the mean gradient of "
    "the samples of label r, `shares` the label mix of the cache, `long_term` that of the long "
    "run. A gradient is the mean over labels, each weighted by its share. Return the squared "
    "length of the difference between the gradient with the cache's mix and that with the long "
    "run's, which Lemma 1 bounds.",
    "gradient_error(shares, long_term, gradients)",
    number,
)


def _gradient_cases(rng):
    for labels, size in ((2, 3), (3, 4), (5, 2)):
        mixes = rng.dirichlet(np.ones(labels), 2)
        yield mixes[0], mixes[1], rng.normal(size=(labels, size))


@gradient_error.must(hint="Return the square of the length.", shows=2)
def twice_as_wrong_is_four_times_the_error(f, rng):
    "When the shares are twice as far off, the squared error is four times as large."
    return all(close(f(v + (v - pi), pi, g), 4 * f(v, pi, g)) for v, pi, g in _gradient_cases(rng))


@gradient_error.must(hint="Shares add up to one, so their errors add up to zero.", shows=2)
def what_all_labels_share_cancels(f, rng):
    "Adding one and the same vector to the gradients of all labels changes nothing."
    return all(close(f(v, pi, g + 3.0), f(v, pi, g)) for v, pi, g in _gradient_cases(rng))


@gradient_error.must(hint="Take the sum over the coordinates, not their mean.")
def it_is_the_discrepancy_for_labels_of_their_own(f, rng):
    """If each label pulls by a length of 1 along a coordinate of its own, the error is the
    discrepancy, the sum of the squared errors of the shares."""
    return all(
        close(f(v, pi, np.eye(len(v))), ((v - pi) ** 2).sum()) for v, pi, _ in _gradient_cases(rng)
    )


uncovered = Exercise(
    "15",
    "superclasses that nobody has",
    "Write `uncovered(n_clients, n_superclasses, per_client)`. Every client draws `per_client` "
    "different superclasses of `n_superclasses`, independently of the others. Return the expected "
    "number of superclasses that no client has drawn, and which therefore nobody can learn.",
    "uncovered(n_clients, n_superclasses, per_client)",
    number,
)


@uncovered.must(hint="Multiply the chance of one superclass by the number of superclasses.")
def without_clients_nothing_is_covered(f, rng):
    "If nobody takes part, all superclasses are missing."
    return all(close(f(0, n, 2), n) for n in (2, 5, 20))


@uncovered.must(hint="A client's superclasses are all different.")
def a_client_with_all_covers_all(f, rng):
    "If each client draws all superclasses, none is missing."
    return all(close(f(k, n, n), 0) for k in (1, 3) for n in (2, 6))


@uncovered.must(hint="With which chance does one client not draw a given superclass?")
def it_agrees_with_counting(f, rng):
    "In small cases, listing all draws of all clients and counting gives the same number."
    for k, n, c in ((1, 3, 2), (2, 4, 2), (3, 4, 1), (3, 4, 3)):
        sets = [set(s) for s in itertools.combinations(range(n), c)]
        missing = [n - len(set().union(*drawn)) for drawn in itertools.product(sets, repeat=k)]
        if not close(f(k, n, c), np.mean(missing)):
            return False
    return True
