"""What caches held: the record itself, drawing from it, and withholding a sample from it."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sflkit.fats import state as states
from sflkit.fats import unlearning
from sflkit.fats.baselines import draw_fedavg, redraw_fedavg
from sflkit.fats.enumeration import drawn_law, forgotten_law, retrained_law, total_variation
from sflkit.fats.forgetting import RULES, forget_client, forget_sample
from sflkit.fats.held import Held
from sflkit.fats.history import Crowd, Draws, History, draw_batches, draw_history
from sflkit.registry import Rule
from tests.fats.fats_cases import line, setup, sizes


def windows(rounds=4, width=3):
    """Two clients; the first holds a window of `width` samples that moves by one every round."""
    own = [np.arange(r, r + width) for r in range(rounds)]
    return Held.of([own, [np.arange(width)] * rounds], [rounds + width - 1, width])


def draw(held, seed=0, k=2, e=2, b=2):
    given = sizes(k=k, e=e, r=held.rounds, n=held.samples_per_client, b=b)
    return draw_history(**given, rng=np.random.default_rng(seed), held=held)


def test_what_is_held_by_hand():
    """Client 0 holds {2, 0}, then {0, 1}, then {1}: sample 0 in rounds 0 and 1, so [0, 2); sample 1
    in rounds 1 and 2, so [1, 3); sample 2 in round 0, so [0, 1); sample 3 never."""
    held = Held.of([[[2, 0], [0, 1], [1]]], [4])
    assert held.entered.tolist() == [0, 1, 0, 0] and held.left.tolist() == [2, 3, 1, 0]
    assert [held.samples(0, r).tolist() for r in range(3)] == [[0, 2], [0, 1], [1]]
    assert held.counts().tolist() == [[2, 2, 1]]
    assert held.counts({(0, 0)}).tolist() == [[1, 1, 1]]
    assert held.counts({(0, None)}).tolist() == [[0, 0, 0]]
    fewer = held.without({(0, 0)})  # samples 1, 2, 3 become 0, 1, 2
    assert [fewer.samples(0, r).tolist() for r in range(3)] == [[1], [0], [0]]
    other = held.replaced(0, [[3], [3], []])
    assert [other.samples(0, r).tolist() for r in range(3)] == [[3], [3], []]


@pytest.mark.parametrize(
    ("contents", "message"),
    [
        ([[[0], [1], [0]]], "sample 0, which it had dropped"),
        ([[[0, 0], [0], [0]]], "different samples"),
        ([[[0], [4], []]], r"different samples in \[0, 3\]"),
        ([[[0], [1], []], [[0]]], "2 clients"),
    ],
)
def test_what_cannot_be_held_is_refused(contents, message):
    with pytest.raises(ValueError, match=message):
        Held.of(contents, [4])


def test_bad_spans_are_refused():
    with pytest.raises(ValueError, match="entered <= left"):
        Held.between([1], [0], [1], 2)
    with pytest.raises(ValueError, match="contents of client 1 has 1 rounds, not 2"):
        Held.of([[[0], [0]], [[0]]], [1, 1])


@given(seed=st.integers(0, 1000), k=st.integers(1, 3), e=st.integers(1, 3), n=st.integers(3, 6))
@settings(max_examples=25)
def test_a_cache_that_holds_everything_changes_no_bit(seed, k, e, n):
    """Drawing, and then forgetting by every rule, take the same numbers of the same generator."""
    given = sizes(k=k, e=e, r=3, m=3, n=n, b=2)
    held = Held.everything(np.full(3, n), 3)
    plain, kept = (
        draw_history(**given, rng=np.random.default_rng(seed), held=h) for h in (None, held)
    )
    np.testing.assert_array_equal(plain.clients, kept.clients)
    np.testing.assert_array_equal(plain.batches, kept.batches)
    for forget in (
        *(lambda h, rng, rule=rule: forget_sample(h, 0, 1, rng, rule) for rule in RULES),
        lambda h, rng: forget_client(h, 1, rng),
    ):
        one, two = (forget(h, np.random.default_rng(seed)) for h in (plain, kept))
        assert one.first == two.first
        np.testing.assert_array_equal(one.history.clients, two.history.clients)
        np.testing.assert_array_equal(one.history.batches, two.history.batches)


@given(seed=st.integers(0, 1000), sample=st.integers(0, 5), rule=st.sampled_from(list(RULES)))
@settings(max_examples=40)
def test_every_mini_batch_holds_what_its_client_held_then(seed, sample, rule):
    held = windows()
    history = draw(held, seed)
    after, first = forget_sample(history, 0, sample, np.random.default_rng(seed), rule)
    for h, gone in ((history, None), (after, sample)):
        for r, slot in np.ndindex(h.clients.shape):
            allowed = set(held.samples(h.clients[r, slot], r).tolist())
            used = set(h.batches[r, slot].ravel().tolist())
            assert used <= allowed - ({gone} if h.clients[r, slot] == 0 else set())
    assert first is None or held.holds(np.array(0), np.array(first[0]), np.array(sample))
    assert after.held is held


@pytest.mark.parametrize("rule", ["exact", "minimal"])
@pytest.mark.parametrize("k, e", [(1, 1), (2, 1), (1, 2)])
def test_withholding_is_exact_given_what_was_held(k, e, rule):
    held = Held.of([[[0, 1], [1, 2]], [[0], [0]]], [3, 1])
    given = sizes(k=k, e=e, r=2, n=[3, 1])
    for sample in range(3):
        law = drawn_law(**given, held=held)
        goal = retrained_law([(0, sample)], **given, held=held)
        assert total_variation(forgotten_law(law, (0, sample), rule), goal) == 0
    gone = retrained_law([(0, None)], **given, held=held)
    assert total_variation(forgotten_law(drawn_law(**given, held=held), (0, None)), gone) == 0


def test_a_client_that_could_not_fill_a_mini_batch_is_refused():
    own = [np.arange(r, r + 3) for r in range(4)]
    held = Held.of([own, [np.arange(5)] * 4], [6, 5])
    with pytest.raises(ValueError, match=r"client=0 would hold 3 samples in round 0.*batch_size=4"):
        draw(held, b=4)
    history = draw(held, b=3)
    with pytest.raises(ValueError, match="client=0 would hold 2 samples in round 2"):
        forget_sample(history, 0, 4, np.random.default_rng(0))


def test_what_does_not_fit_is_refused():
    held = windows()
    with pytest.raises(ValueError, match="held is about 4 rounds; it must be about 3"):
        draw_history(**sizes(r=3, n=[6, 3]), rng=np.random.default_rng(0), held=held)
    with pytest.raises(ValueError, match="held is about"):
        Crowd.of([5, 3], held=held)
    batches = np.array([[[[0]]], [[[0]]], [[[2]]], [[[3]]]])
    with pytest.raises(ValueError, match="sample=0 of client=0 in round 1"):
        History.of([[0]] * 4, batches, [6, 3], held=held)
    with pytest.raises(ValueError, match="rounds=None"):
        draw_batches(Crowd.of([6, 3], held=held), np.zeros((2, 1), int), 1, 1, None)


def test_a_rule_that_draws_what_was_not_held_is_refused(monkeypatch):
    monkeypatch.setattr(RULES, "_rules", dict(RULES._rules))

    def all_samples(hit, rng):
        crowd = Crowd.of(hit.crowd.samples_per_client, hit.crowd.forgotten)
        batches = draw_batches(crowd, hit.history.clients, *hit.history.batches.shape[2:], rng)
        return Draws.of(hit.history.clients.copy(), batches, hit.history.samples_per_client)

    RULES.add("all_samples", Rule(all_samples, "all samples"))
    with pytest.raises(ValueError, match="did not hold then"):
        forget_sample(draw(windows()), 0, 2, np.random.default_rng(1), "all_samples")


def test_the_baselines_refuse_caches():
    with pytest.raises(ValueError, match="held must be None for FedAvg"):
        redraw_fedavg(draw(windows()), np.random.default_rng(0))
    assert draw_fedavg(**sizes(), rng=np.random.default_rng(0)).held is None


def test_a_model_learns_and_forgets_from_caches_and_its_state_keeps_what_was_held(tmp_path):
    held = windows(rounds=5, width=4)
    history = draw(held, b=2)
    task, clients, _, rng = setup(n_clients=2)
    clients = [
        (rng.standard_normal((n, 3)).astype(np.float32), rng.integers(2, size=n)) for n in (8, 4)
    ]
    state = unlearning.learn(task, clients, history, 0.1, start=task.init(0))
    target = int(history.batches[history.clients == 0][0, 0, 0])
    asked = unlearning.request(state, [(0, target)], np.random.default_rng(3))
    assert asked.status == "pending"
    states.save(asked, tmp_path / "state")
    read = states.load(tmp_path / "state")
    np.testing.assert_array_equal(read.history.held.entered, held.entered)
    np.testing.assert_array_equal(read.history.held.left, held.left)
    done = unlearning.resume(task, clients, read)
    again = unlearning.learn(task, clients, asked.history, 0.1, start=task.init(0))
    assert done.params.equal(again.params) and not done.params.equal(state.params)


def test_adopting_the_history_of_a_request_is_the_request(tmp_path):
    task, clients, history, rng = setup()
    state = unlearning.learn(task, clients, history, 0.1, start=task.init(0))
    for targets in ([(1, 2)], [(0, None)], [(3, 1), (2, 0)]):
        asked = unlearning.request(state, targets, np.random.default_rng(5))
        ours = unlearning.adopt(state, asked.history)
        assert (ours.status, ours.owed, ours.rounds_done) == (
            asked.status,
            asked.owed,
            asked.rounds_done,
        )
        assert ours.ledger.entries == asked.ledger.entries and set(ours.models) == set(asked.models)
        assert ours.history is asked.history


def test_adopting_by_hand():
    """x = 1, loss (w - y)^2, rate 1/4: a step is w <- (w + y) / 2. Client 0 has y = 8, 0.

    The first round uses sample 0 (w = 4), the second sample 1 (w = 2). A history whose second round
    uses sample 0 instead ends in (4 + 8) / 2 = 6, and only that round is owed.
    """
    task, data = line([[8.0, 0.0, 1.0]])
    one, two = (History.of([[0], [0]], [[[[0]]], [[[s]]]], [3]) for s in (1, 0))
    state = unlearning.learn(task, data, one, 0.25, start=[0.0], every=1)
    assert state.params.tolist() == [2.0]
    with pytest.raises(ValueError, match="at least one more"):
        unlearning.adopt(state, two)
    forgot = History.of(two.clients, two.batches, [3], {(0, 1)})
    pending = unlearning.adopt(state, forgot)
    assert (pending.status, pending.rounds_done, pending.owed) == ("pending", 1, 2)
    assert unlearning.resume(task, data, pending).params.tolist() == [6.0]
    with pytest.raises(ValueError, match="sizes"):
        unlearning.adopt(state, History.of([[0]], [[[[0]]]], [3], {(0, 1)}))


def test_adopting_keeps_what_caches_held():
    """Without it, later requests would draw samples that had not arrived."""
    held = Held.of([[[0], [0, 1]]], [3])
    task, data = line([[8.0, 0.0, 1.0]])
    given = sizes(m=1, k=1, e=1, r=2, n=[3], b=1)
    one = draw_history(**given, rng=np.random.default_rng(0), held=held)
    state = unlearning.learn(task, data, one, 0.25, start=[0.0], every=1)
    lost = History.of(one.clients, one.batches, [3], {(0, 2)})
    with pytest.raises(ValueError, match="held is None"):
        unlearning.adopt(state, lost)
