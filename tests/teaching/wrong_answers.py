"""Wrong answers to the exercises, each with the property that refuses it.

They are the mistakes that a reader may well make: a mean for a sum, a bound for an expectation, a
rule that looks at what it is judged by.
"""

from __future__ import annotations

import math

import numpy as np

from sflkit.sfl.caches import FIFO, Cache

WRONG: dict[str, list] = {}


def wrong(exercise: str, failed: str):
    """Note a wrong answer to an exercise and the name of the property that must refuse it."""

    def note(answer):
        WRONG.setdefault(exercise, []).append((failed, answer))
        return answer

    return note


def noted(exercise: str, answers: dict) -> None:
    for failed, answer in answers.items():
        wrong(exercise, failed)(answer)


noted(
    "00",
    {
        "zero when the shares agree": lambda c, pi: ((c - pi) ** 2).sum(),
        "twice as far is four times as much": lambda c, pi: abs(c / c.sum() - pi).sum(),
        "a larger cache with the same mix is as far off": lambda c, pi: (
            ((c / c.sum() - pi) ** 2).sum() * c.sum()
        ),
        "each label counts once": lambda c, pi: ((c / c.sum() - pi) ** 2).mean(),
    },
)
noted(
    "10",
    {
        "the first round is all there is": lambda old, new, t: 0.5 * old + 0.5 * new,
        "the order of the rounds does not matter": lambda old, new, t: new,
        # the order does not matter to a cache that never looks
        "it is the mean of all rounds": lambda old, new, t: new if t == 1 else np.ones(3) / 3,
    },
)
noted(
    "11",
    {
        "independent rounds average out": lambda c, m: c[0],
        "equal rounds do not average out": lambda c, m: c[0] / m,
        # Proposition 1's bound is no expectation
        "it agrees with counting all coins": lambda c, m: min(2 * len(c) - 1, m) * c[0] / m,
    },
)


@wrong("12", "the newest stay")
def the_oldest(labels, counts):
    return np.concatenate([np.flatnonzero(labels == r)[:n] for r, n in enumerate(counts)])


@wrong("12", "the mix is met")
def the_last_ones(labels, counts):
    return np.arange(len(labels))[-counts.sum() :] if counts.sum() else []


noted("12", {"nothing is invented": lambda labels, counts: np.arange(1, len(labels) + 1)})
noted(
    "13",
    {
        "half forgotten by then": lambda theta, b, bs: 1,
        "replaced at once": lambda theta, b, bs: math.ceil(2 * b / (theta * bs)),
        "and not earlier": lambda theta, b, bs: math.ceil(b / (theta * bs)),
    },
)
noted(
    "14",
    {
        "twice as wrong is four times the error": lambda v, pi, g: np.linalg.norm((v - pi) @ g),
        "what all labels share cancels": lambda v, pi, g: (((v - pi) ** 2) @ (g**2)).sum(),
        "it is the discrepancy for labels of their own": lambda v, pi, g: (
            ((v - pi) @ g) ** 2
        ).mean(),
    },
)
noted(
    "15",
    {
        "without clients nothing is covered": lambda k, n, c: (1 - c / n) ** k,
        "a client with all covers all": lambda k, n, c: n * (1 - 1 / n) ** (k * c),
        "it agrees with counting": lambda k, n, c: max(0, n - k * c),
    },
)


def group(n, old, p):
    return np.where(old, p, 1 - p)


noted(
    "20",
    {
        "the weights add up to one": lambda n, old, p: n / n.sum() * group(n, old, p),
        "the historical clients get their part": lambda n, old, p: n / n.sum(),
        "samples of a group count the same": lambda n, old, p: (
            group(n, old, p) / np.where(old, old.sum(), (~old).sum())
        ),
    },
)
noted(
    "21",
    {
        "the choice is a column": lambda s: s.argmax(1) + 1,
        "the own scores do not choose": lambda s: s.argmax(1),
        "no other column was better for the others": lambda s: (s.sum(0) - s).argmin(1),
    },
)
noted(
    "22",
    {
        "without a penalty it is a plain step": lambda w, g, a, rate, mu: w + rate * g,
        "nothing pulls at the anchor": lambda w, g, a, rate, mu: w - rate * (g + mu * w),
        "it rests where both forces balance": lambda w, g, a, rate, mu: (
            w - rate * (g - mu * (w - a))
        ),
    },
)
noted(
    "23",
    {
        "samples that count alike all count": lambda p, n: 1 / (p**2).sum(),
        "splitting a client changes nothing": lambda p, n: (
            n.sum() if (p == n / n.sum()).all() else n[p.argmax()]
        ),
        # the exponential of the entropy is another effective number
        "it says how noise averages out": lambda p, n: np.exp(
            -(p[p > 0] * np.log(p[p > 0] / n[p > 0])).sum()
        ),
    },
)
noted(
    "30",
    {
        "a fixed order is always guessed": lambda P: np.diag(P).mean(),
        "without memory it is the favourite": lambda P: 1.0,
        "files count as often as they are asked for": lambda P: P.max(1).mean(),
    },
)


def steps(time, energy, rounded=math.floor):
    def answer(cycles, cpu_hz, upload_s, upload_j, deadline_s, budget_j, capacitance, most):
        by_time = (deadline_s - upload_s) * cpu_hz / cycles if time else math.inf
        by_energy = (budget_j - upload_j) / (capacitance / 2 * cycles * cpu_hz**2)
        by_energy *= energy
        return max(0, min(most, rounded(min(by_time, by_energy, 100))))

    return answer


noted(
    "31",
    {
        "the deadline is kept": steps(False, 1),
        "the energy lasts": steps(True, 100),
        "no step is wasted": steps(True, 0.5),
        "between none and the most": lambda cycles, hz, s, j, deadline, *_: math.floor(
            (deadline - s) * hz / cycles
        ),
    },
)


def cosine(updates, reference):
    lengths = np.linalg.norm(updates, axis=1) * np.linalg.norm(reference, axis=-1)
    return (updates * reference).sum(1) / lengths


noted(
    "32",
    {
        "clients that agree have score 1": lambda u, chi: chi + cosine(u, u.mean(0)),
        "half a right angle": lambda u, chi: (chi + cosine(u, u[0])) / (chi + 1),
        "who stands alone has the least score": lambda u, chi: (
            (chi + abs(cosine(u, u.mean(0)))) / (chi + 1)
        ),
    },
)
noted(
    "33",
    {
        "without effect when all scores are 1": lambda rate, s: rate * s.sum(),
        "steps are equally long": lambda rate, s: rate,
        "twice the rate is twice the rate": lambda rate, s: rate + 3 * (s.mean() - 1),
    },
)


@wrong("34", "a round trip is learnt")
def what_came_before(sequence, n_files):
    table = np.zeros(n_files)
    table[sequence[1:]] = sequence[:-1]
    return table


@wrong("34", "no other table is right more often")
def the_last_that_followed(sequence, n_files):
    table = np.zeros(n_files)
    table[sequence[:-1]] = sequence[1:]
    return table


noted(
    "34",
    {
        "predictions are files": lambda seen, n: np.arange(1, n + 1),
    },
)
noted(
    "35",
    {
        "the level does not matter": lambda a: np.median(a),
        "a straight line changes by its slope": lambda a: np.median(np.diff(a[len(a) // 4 :])),
        "one jump is no instability": lambda a: abs(np.diff(a[len(a) // 4 :])).mean(),
        "the first quarter is free": lambda a: np.median(abs(np.diff(a))),
    },
)


@wrong("40", "it is a batch without the sample")
def leave_it_out(batch, sample, n_samples, rng):
    return batch[batch != sample]


@wrong("40", "nobody can tell")
def the_next_free_one(batch, sample, n_samples, rng):
    free = [i for i in range(n_samples) if i not in batch]
    return np.where(batch == sample, free[0], batch)


@wrong("40", "what was not used stays")
def always_draw_again(batch, sample, n_samples, rng):
    others = np.delete(np.arange(n_samples), sample)
    return rng.choice(others, len(batch), replace=False)


noted(
    "41",
    {
        # Theorem 5's own rate: the right order, but not the smallest bound
        "no other rate is better": lambda gap, s, n, t: math.sqrt(gap / (s * n * t)),
        "four times the steps half the rate": lambda gap, s, n, t: 1 / s,
        "a rate is positive": lambda gap, s, n, t: -math.sqrt(2 * gap / (s * n * t)),
    },
)


def geometric(q, rounds):
    return [(1 - q) ** r * q for r in range(rounds)] + [(1 - q) ** rounds]


noted(
    "42",
    {
        "they are probabilities": lambda m, k, R: [min(1, k / m)] * R + [max(0, 1 - k / m)],
        "every round has the same chance": lambda m, k, R: np.full(R + 1, 1 / (R + 1)),
        "it agrees with counting histories": lambda m, k, R: geometric(min(1, k / m), R),
    },
)


def missed(m, k):
    return (1 - 1 / m) ** k


noted(
    "43",
    {
        "the only client costs everything": lambda m, k, R: (
            sum(1 - missed(m, k) ** r for r in range(R)) / R
        ),
        "it stays below what theorem 7 allows": lambda m, k, R: 1.0,
        "it agrees with counting all histories": lambda m, k, R: 1 - missed(m, k) ** R,
    },
)
noted(
    "44",
    {
        "the promise is kept": lambda r, m, n, k, t: round(r * m * n / (k * t)),
        "none larger keeps it": lambda r, m, n, k, t: max(1, math.floor(r * n / (k * t))),
        # strictly below the promise, where it may be met
        "twice the clients half the batch": lambda r, m, n, k, t: (
            math.ceil(r * m * n / (k * t)) - 1
        ),
    },
)
noted(
    "45",
    {
        "who knows is always right": lambda a, b: (a.mean() + b.mean()) / 2,
        "who never looks is right half of the time": lambda a, b: (
            (a.sum() + (1 - b).sum()) / (len(a) + len(b))
        ),
        "one right answer more counts by its set": lambda a, b: (
            (1 + np.sign(a.mean() - b.mean())) / 2
        ),
    },
)


def small(low, high, s):
    return -s <= low and high <= s


def sides(low, high):
    return "yes" if low > 0 else "no" if high < 0 else "open"


noted(
    "90",
    {
        "above zero is yes": lambda low, high, s: "open",
        "the other way round yes is no": lambda low, high, s: (
            "yes" if low > 0 else "too small to see" if small(low, high, s) else "open"
        ),
        "more runs open nothing again": lambda low, high, s: (
            "too small to see"
            if small(low, high, s) and low < 0 < high and high - low > 0.6 * s
            else sides(low, high)
        ),
        "around zero and small is too small to see": lambda low, high, s: sides(low, high),
        "an interval on both sides is open": lambda low, high, s: (
            "too small to see"
            if small(low, high, s) and low < 0 < high
            else "yes"
            if low + high > 0
            else "no"
        ),
        "units do not matter": lambda low, high, s: (
            "too small to see" if small(low, high, 0.5) and low < 0 < high else sides(low, high)
        ),
    },
)
noted(
    "91",
    {
        "a plain power is found": lambda f: math.log(f(1e14) / f(1e12)),
        "a factor does not matter": lambda f: math.log(f(1e12)) / math.log(1e12),
        "of a sum the larger power remains": lambda f: math.log2(f(2) / f(1)),
    },
)


noted(
    "92",
    {
        "they are shares": lambda P: np.ones(len(P)),
        "one more request changes nothing": lambda P: np.linalg.matrix_power(P, 100)[0],
    },
)
wrong("92", "one more request changes nothing")(lambda P: np.mean(P, axis=0))


wrong("93", "labels are in balance")(FIFO)


@wrong("93", "there is room for all it holds")
class Hoard(Cache):
    def take(self, ids, labels, rng):
        self._ids = np.concatenate([self._ids, ids])
        self._labels = np.concatenate([self._labels, labels])


@wrong("93", "no room is wasted")
class Newest(Cache):
    def take(self, ids, labels, rng):
        self.keep(ids, labels)


@wrong("93", "it holds only what arrived")
class Mislabelled(FIFO):
    @property
    def labels(self):
        return self._labels[::-1].copy()


@wrong("93", "labels are in balance")
class NoRoomForRare(Cache):
    def take(self, ids, labels, rng):
        ids, labels = np.concatenate([self.ids, ids]), np.concatenate([self.labels, labels])
        kept = np.argsort(-np.bincount(labels)[labels], kind="stable")[: self.capacity]
        self.keep(ids[kept], labels[kept])
