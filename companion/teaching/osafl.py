"""The exercises of notebooks 30 to 35: requests, devices, scores and stores that change."""

from __future__ import annotations

import numpy as np

from companion.teaching.exercise import Exercise, close, number, vector, whole

ceiling = Exercise(
    "30",
    "the best that any predictor can do",
    "Write `ceiling(transition)`. `transition[f, g]` is the probability that a user asks for file "
    "g after file f; every file can follow every other one sooner or later. Return the share of "
    "requests that somebody who knows these numbers, and the last request, guesses right in the "
    "long run.",
    "ceiling(transition)",
    number,
)


def _chains(rng):
    for size in (2, 3, 5):
        yield rng.dirichlet(np.full(size, 0.5), size) * 0.95 + 0.05 / size


@ceiling.must(hint="The best guess after each file is the likeliest next one.")
def a_fixed_order_is_always_guessed(f, rng):
    "If every file has one successor, every guess is right."
    return all(close(f(np.roll(np.eye(n), 1, axis=1)), 1) for n in (2, 3, 6))


@ceiling.must(hint="Which file would you guess if the last request told you nothing?")
def without_memory_it_is_the_favourite(f, rng):
    "If the last request says nothing about the next, the best guess is the favourite file."
    shares = rng.dirichlet(np.ones(4), 5)
    return all(close(f(np.tile(row, (4, 1))), row.max()) for row in shares)


@ceiling.must(hint="How often is each file the last request? Iterate the chain to find out.")
def files_count_as_often_as_they_are_asked_for(f, rng):
    "Files that are asked for more often count for more, as a very long walk would show."
    return all(
        close(f(chain), np.linalg.matrix_power(chain, 4096)[0] @ chain.max(1))
        for chain in _chains(rng)
    )


local_steps = Exercise(
    "31",
    "how many steps can a weak device take?",
    "Write `local_steps(cycles, cpu_hz, upload_s, upload_j, deadline_s, budget_j, capacitance, "
    "max_steps)`. A local step takes `cycles` processor cycles at `cpu_hz` cycles per second, and "
    "costs capacitance / 2 * cycles * cpu_hz^2 joule. Sending the result takes `upload_s` seconds "
    "and `upload_j` joule. Return the largest number of steps, at most `max_steps`, with which the "
    "client keeps deadline and energy budget (Lemma 1), and 0 for a straggler that can take none.",
    "local_steps(cycles, cpu_hz, upload_s, upload_j, deadline_s, budget_j, capacitance, max_steps)",
    whole,
)


def _devices(rng):
    for _ in range(60):
        cycles, cpu_hz = rng.uniform(1e9, 6e9), rng.uniform(5e8, 2e9)
        upload = rng.uniform(0, 30), rng.uniform(0, 1)
        limits = rng.uniform(5, 40), rng.uniform(0.5, 4)
        yield cycles, cpu_hz, *upload, *limits, 2e-28, 5


def _fits(steps, device):
    cycles, cpu_hz, upload_s, upload_j, deadline_s, budget_j, capacitance, _ = device
    seconds = upload_s + steps * cycles / cpu_hz
    joule = upload_j + steps * capacitance / 2 * cycles * cpu_hz**2
    return seconds <= deadline_s, joule <= budget_j


@local_steps.must(hint="A device that misses the deadline by sending alone takes no step.")
def between_none_and_the_most(f, rng):
    "The number of steps lies between 0 and max_steps."
    return all(0 <= f(*device) <= device[-1] for device in _devices(rng))


@local_steps.must(hint="Sending takes time too; part of a step is no step.")
def the_deadline_is_kept(f, rng):
    "A client that takes any steps has computed and sent them before the deadline."
    return all(steps == 0 or _fits(steps, d)[0] for d in _devices(rng) for steps in [f(*d)])


@local_steps.must(hint="Sending costs energy too, and every step costs the same.")
def the_energy_lasts(f, rng):
    "A client that takes any steps has energy for all of them and for sending."
    return all(steps == 0 or _fits(steps, d)[1] for d in _devices(rng) for steps in [f(*d)])


@local_steps.must(hint="Compare with one step more. Is there a factor that should not be there?")
def no_step_is_wasted(f, rng):
    "One step more would break the deadline, the budget or max_steps."
    return all(
        steps == d[-1] or not all(_fits(steps + 1, d)) for d in _devices(rng) for steps in [f(*d)]
    )


scores = Exercise(
    "32",
    "OSAFL's score",
    "Write `scores(updates, chi)`. Row u of `updates` is what client u contributes. OSAFL compares "
    "its direction with that of the mean of all rows: with the cosine c of the angle between both, "
    "the score is (chi + c) / (chi + 1). Return all scores; no row and no mean is zero here.",
    "scores(updates, chi)",
    vector("a vector with one score per client", lambda updates, chi: len(updates)),
)


@scores.must(hint="What is the cosine of a vector with itself?")
def clients_that_agree_have_score_1(f, rng):
    "If all clients contribute the same, each has the score 1."
    return all(close(f(np.tile(rng.normal(size=4), (n, 1)), 1.5), 1) for n in (1, 2, 5))


@scores.must(hint="Compare with the mean of all clients, the client itself included.")
def half_a_right_angle(f, rng):
    "Two contributions of equal length at a right angle lie at 45 degrees to their mean."
    return close(f(np.eye(2), 1.0) * 2 - 1, np.cos(np.pi / 4))


@scores.must(hint="What is the smallest cosine that there is?")
def who_stands_alone_has_the_least_score(f, rng):
    "A client that pulls against all others has the least score that chi allows."
    updates = np.array([[1.0, 2.0], [1.0, 2.0], [1.0, 2.0], [-1.0, -2.0]])
    return all(close(f(updates, chi)[3], (chi - 1) / (chi + 1)) for chi in (1.0, 3.0))


equal_rate = Exercise(
    "33",
    "steps of equal length, for a fair comparison",
    "Write `equal_rate(server_rate, scores)`. OSAFL moves the model by `server_rate` times the "
    "mean of score times contribution. A rule without scores takes the plain mean. Return the "
    "server rate with which its steps are as long as OSAFL's whenever all clients contribute the "
    "same, so that a comparison shows what scores do and not which step is longer.",
    "equal_rate(server_rate, scores)",
    number,
)


@equal_rate.must(hint="OSAFL takes a mean over the clients, not a sum.")
def without_effect_when_all_scores_are_1(f, rng):
    "If every score is 1, both rules are the same, and so are their rates."
    return all(close(f(rate, np.ones(n)), rate) for rate in (0.5, 7.0) for n in (1, 4))


@equal_rate.must(hint="Write down both steps for equal contributions and compare.")
def steps_are_equally_long(f, rng):
    "With equal contributions both rules move the model by the same."
    for _ in range(5):
        given, update = rng.random(4), rng.normal(size=3)
        step = 3.0 * np.mean([score * update for score in given], axis=0)
        if not close(np.linalg.norm(f(3.0, given) * update), np.linalg.norm(step)):
            return False
    return True


@equal_rate.must(hint="How do both steps change with the server rate?", shows=2)
def twice_the_rate_is_twice_the_rate(f, rng):
    "Twice OSAFL's server rate asks for twice the rate of the other rule."
    given = rng.random(5)
    return close(f(6.0, given), 2 * f(3.0, given))


next_table = Exercise(
    "34",
    "a table in place of a network",
    "Write `next_table(sequence, n_files)`. `sequence` lists the files, numbered from 0, that a "
    "user asked for, one after the other. Return for each file the one that followed it most "
    "often, as a prediction of the next request; for a file that nothing followed, any file.",
    "next_table(sequence, n_files)",
    vector("one file number per file", lambda sequence, n_files: n_files, integers=True),
)


def _sequences(rng):
    yield np.array([0, 1, 2, 0, 1, 2, 0]), 3
    for n_files in (2, 4, 6):
        yield rng.integers(0, n_files, 60), n_files


@next_table.must(hint="Number the files from 0.")
def predictions_are_files(f, rng):
    "Every prediction is the number of a file."
    return all(set(f(seen, n)) <= set(range(n)) for seen, n in _sequences(rng))


@next_table.must(hint="Look at what comes after a file, not before it.")
def a_round_trip_is_learnt(f, rng):
    "A user who always goes round the same files is always predicted right."
    for n in (3, 5):
        seen = np.tile(rng.permutation(n), 3)
        if (f(seen, n)[seen[:-1]] != seen[1:]).any():
            return False
    return True


@next_table.must(hint="Count all followers of a file before you choose.")
def no_other_table_is_right_more_often(f, rng):
    "On the sequence that was counted, no other prediction is right more often."
    for seen, n in _sequences(rng):
        counts = np.zeros((n, n))
        np.add.at(counts, (seen[:-1], seen[1:]), 1)
        if (counts[np.arange(n), f(seen, n)] < counts.max(1)).any():
            return False
    return True


instability = Exercise(
    "35",
    "how unstable is a curve?",
    "Write `instability(accuracy)`. `accuracy` holds the test accuracy after each episode; their "
    "number is a multiple of 4. Drop the first quarter, and return the median of the absolute "
    "changes from one of the remaining episodes to the next.",
    "instability(accuracy)",
    number,
)


@instability.must(hint="What changes from one episode to the next?", shows=2)
def the_level_does_not_matter(f, rng):
    "A curve that lies higher by the same everywhere is as unstable."
    curve = rng.random(12)
    return close(f(curve + 0.3), f(curve))


@instability.must(hint="A change counts by its size, whatever its direction.")
def a_straight_line_changes_by_its_slope(f, rng):
    "On a straight line, rising or falling, it is the size of the slope."
    return all(close(f(slope * np.arange(16)), abs(slope)) for slope in (0.02, -0.05, 0.0))


@instability.must(hint="A median, not a mean.")
def one_jump_is_no_instability(f, rng):
    "A single jump in an otherwise straight line changes nothing."
    line = 0.01 * np.arange(16)
    return close(f(line + 0.5 * (np.arange(16) >= 10)), 0.01)


@instability.must(hint="Which episodes are left out?", shows=2)
def the_first_quarter_is_free(f, rng):
    "What happens in the first quarter does not count."
    for _ in range(5):
        curve = rng.random(12)
        changed = curve.copy()
        changed[:3] = rng.random(3)
        if not close(f(changed), f(curve)):
            return False
    return True
