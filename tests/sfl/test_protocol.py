"""What users bring to a run: built as documented, checked in every round, or refused."""

import subprocess
import sys
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch
from torch import nn

from sflkit import data, federated
from sflkit.randomness import model_seed
from sflkit.registry import Rule
from sflkit.sfl import cache_paths
from sflkit.sfl.caches import FIFO, RULES, SRSR, Cache, SharesRule
from sflkit.sfl.clients import Clients
from sflkit.sfl.config import SFLConfig
from sflkit.sfl.streams import GivenStream, LabelStream
from sflkit.sfl.training import run

BARE = SFLConfig(
    train=False, n_clients=3, n_states=4, capacity=20, batch_size=10, rounds=4, n_classes=5
)
TINY = replace(BARE, train=True, data="digits", model="linear", n_classes=10, test_size=100)


class Newest(Cache):
    """FIFO, written with the public hooks."""

    def take(self, ids, labels, rng):
        ids = np.concatenate([self.ids, ids])[-self.capacity :]
        labels = np.concatenate([self.labels, labels])[-self.capacity :]
        self.keep(ids, labels)


class RunningMean(SharesRule):
    """DRSR, written as a rule of shares: the weight of the arrivals is their part of all."""

    seen = 0

    def weight(self, n_arrivals):
        self.seen += n_arrivals
        return n_arrivals / self.seen


class Plain:
    """A cache by the protocol alone: the newest round, held as it came."""

    def __init__(self, capacity, batch_size):
        self.ids = np.empty(0, np.int64)
        self.labels = np.empty(0, np.int64)

    def update(self, ids, labels, rng):
        self.ids = ids
        self.labels = labels


class NoCache:
    def __init__(self, capacity, batch_size):
        pass


@pytest.fixture
def own_row():
    """A registry that a test may add rows to."""
    rules = dict(RULES)
    yield RULES
    for name in set(RULES) - set(rules):
        RULES._rules.pop(name)


# --- cache rules ------------------------------------------------------------------------------


@pytest.mark.parametrize(("own", "rule"), [(Newest, "fifo"), (RunningMean, "drsr")])
def test_the_public_hooks_are_all_that_a_rule_needs(own, rule):
    config = replace(BARE, rounds=30)
    reference = run(replace(config, rule=rule))
    pd.testing.assert_frame_equal(run(config, cache=own), reference, check_exact=True)
    pd.testing.assert_frame_equal(
        cache_paths.run(config, cache=own), cache_paths.run(replace(config, rule=rule))
    )


def test_a_new_row_is_a_rule_like_any_other(own_row):
    own_row.add("running_mean", Rule(RunningMean, "Running mean"))
    config = replace(BARE, rule="running_mean", rounds=30)
    frame = run(config)
    pd.testing.assert_frame_equal(frame, run(replace(config, rule="drsr")), check_exact=True)
    with pytest.raises(ValueError, match="'full_refreshed', 'running_mean'"):
        replace(BARE, rule="lru")


def test_a_function_sees_config_and_long_term_shares():
    seen = []

    def slow(config, long_term):
        seen.append(long_term)
        return SRSR(config.capacity, config.batch_size, theta=config.theta / 2)

    frame = run(replace(BARE, theta=0.5, rounds=30), cache=slow)
    reference = run(replace(BARE, rule="srsr", theta=0.25, rounds=30))
    pd.testing.assert_frame_equal(frame, reference, check_exact=True)
    assert len(seen) == 3
    np.testing.assert_allclose(np.sum(seen, axis=1), 1)


def test_a_cache_by_the_protocol_alone():
    frame = run(replace(BARE, rounds=6), cache=Plain)
    reference = run(replace(BARE, rule="fifo", capacity=10, rounds=6))
    np.testing.assert_array_equal(frame.discrepancy, reference.discrepancy)


@pytest.mark.parametrize("run_it", [run, cache_paths.run])
@pytest.mark.parametrize("cache", [FIFO(20, 10), Newest(20)])
def test_a_finished_object_is_refused_with_the_way_out(cache, run_it):
    # FIFO(20, 10) is empty and therefore false: it used to be ignored, and the built-in rule ran
    with pytest.raises(ValueError, match=r"finished object.*def make\(config, long_term\): return"):
        run_it(BARE, cache=cache)


@pytest.mark.parametrize(
    ("cache", "message"),
    [
        ("fifo", r"cache='fifo' must be a class, .* or a function \(config, long_term\)"),
        (SRSR, r"SRSR cannot be called with \(config.capacity, config.batch_size\).*'theta'"),
        (lambda shares: FIFO(20, 10), r"cannot be called with \(config, long_term\)"),
        (lambda config, long_term: None, r"made None, which lacks ids, labels, update"),
        (NoCache, "lacks ids, labels, update; see sflkit.sfl.protocol.CacheLike"),
    ],
)
def test_what_makes_no_cache_is_refused(cache, message):
    with pytest.raises(ValueError, match=message):
        run(BARE, cache=cache)


def test_clients_and_runs_share_no_cache():
    shared = FIFO(20, 10)
    with pytest.raises(ValueError, match="one FIFO object for client 0 and client 1"):
        run(BARE, cache=lambda config, long_term: shared)

    class Begun(FIFO):
        def __init__(self, *sizes):
            super().__init__(*sizes)
            self.update([0], [0], np.random.default_rng(0))

    with pytest.raises(ValueError, match="holds 1 samples before round 1"):
        run(BARE, cache=Begun)


def refuse(ids, labels):
    raise ValueError("no more room")


# What a cache holds in round 2 in place of the arrivals -> what is said of it.
SPOILT = {
    "too large": (
        lambda ids, labels: (np.resize(ids, 21), np.resize(labels, 21)),
        "holds 21 samples; it may hold at most capacity=20",
    ),
    "relabels": (
        lambda ids, labels: (ids, (labels + (np.arange(len(labels)) == 4)) % 5),
        r"gives sample \d+ the label \d; its label is \d",
    ),
    "outside": (
        lambda ids, labels: (ids - 1000, labels),
        r"holds id -\d+, a sample that never",
    ),
    "beyond": (
        lambda ids, labels: (ids + 100, labels),
        r"holds id 1\d\d, a sample that never",
    ),
    "misaligned": (lambda ids, labels: (ids[1:], labels), "has 9 ids but 10 labels"),
    "lists": (lambda ids, labels: (ids.tolist(), labels), "ids is a list; it must be a numpy"),
    "narrow": (lambda ids, labels: (ids.astype(np.int32), labels), "ids is a ndarray of int32"),
    "refuses": (refuse, "no more room"),
}


class Spoilt(Plain):
    """Takes the arrivals as they are until the second round, and then breaks one promise."""

    spoil = None

    def update(self, ids, labels, rng):
        late = len(self.ids) > 0
        self.ids, self.labels = self.spoil(ids, labels) if late and self.spoil else (ids, labels)


class Invents(Spoilt):
    def spoil(self, ids, labels):
        never = np.setdiff1d(np.arange(100), np.concatenate([self.ids, ids]))[:1]
        return never, never // 20  # the right label, of a sample that never came


SPOILT["invents"] = (None, r"holds id \d+, a sample that never arrived at this client")


@pytest.mark.parametrize("promise", SPOILT)
def test_broken_promises_name_rule_client_and_round(promise):
    spoil, message = SPOILT[promise]
    made = []

    def third(config, long_term):
        cls = Invents if spoil is None else Spoilt
        made.append(cls(config.capacity, config.batch_size))
        if len(made) < 3:
            made[-1].spoil = None
        elif spoil:
            made[-1].spoil = spoil
        return made[-1]

    place = rf"cache rule {'Invents' if spoil is None else 'Spoilt'}, client 2, round 2: "
    with pytest.raises(ValueError, match=place + ".*" + message):
        run(BARE, cache=third)


def test_keep_takes_no_more_than_the_cache_holds():
    cache = Newest(2)
    for ids, labels, message in (
        ([1, 2, 3], [0, 0, 0], "keep got 3 ids and 3 labels; .* at most capacity=2"),
        ([1, 2], [0], "keep got 2 ids and 1 labels; they must be aligned"),
        ([1.5], [0], "ids holds 1.5; entries must be integers"),
    ):
        with pytest.raises(ValueError, match=message):
            cache.keep(ids, labels)
    assert len(cache) == 0
    cache.keep([4, 5], [1, 0])
    assert cache.ids.dtype == np.int64 and cache.labels.tolist() == [1, 0]


def test_a_sample_may_be_held_twice():
    class Twice(Cache):
        """Keeps the first half of the arrivals, each two times."""

        def take(self, ids, labels, rng):
            half = len(ids) // 2
            self.keep(ids[:half].repeat(2), labels[:half].repeat(2))

    assert run(BARE, cache=Twice).filter(like="count_").to_numpy().sum(axis=1).tolist() == [30] * 4


def test_a_cache_that_holds_nothing():
    class Nothing(Plain):
        def update(self, ids, labels, rng):
            pass

    # v = 0, so psi = sum of pi^2; and nobody trains, so that the model stays where it was
    frame = run(TINY, cache=Nothing)
    stream = LabelStream(np.full((3, 1, 10), 0.1), np.ones((3, 1, 1)))
    np.testing.assert_allclose(run(TINY, cache=Nothing, stream=stream).discrepancy, 3 * 10 * 0.01)
    assert frame.loss.nunique() == 1


# --- server rules -----------------------------------------------------------------------------


def test_fedavg_by_hand_is_the_default():
    config = replace(TINY, global_rate=0.5)
    pd.testing.assert_frame_equal(
        run(config), run(config, server=lambda c, shares: federated.FedAvg(c.global_rate))
    )
    shares = []
    run(TINY, server=lambda config, given: shares.append(given) or federated.FedAvg())
    np.testing.assert_array_equal(shares, [[1 / 3] * 3])


def test_scaffold_gets_its_clients_steps_and_corrections():
    def scaffold(config, shares):
        return federated.Scaffold(config.n_clients, shares)

    frame, plain = (run(replace(TINY, rounds=6), server=s) for s in (scaffold, None))
    assert frame.loss[0] == plain.loss[0] and (frame.loss[1:] != plain.loss[1:]).all()


class Silent(federated.FedAvg):
    def __call__(self, params, updates, weights=None, work=None):
        return None


class Short(federated.FedAvg):
    def __call__(self, params, updates, weights=None, work=None):
        return params[:-1]


class Asks(federated.FedAvg):
    def local_options(self, work):
        return {"momentum": 0.9}


@pytest.mark.parametrize(
    ("server", "message"),
    [
        (Silent, "rule Silent returned=None must be a tensor or an array of numbers"),
        (Short, r"rule Short returned has shape \(7849,\); it must be \(7850,\)"),
        (Asks, "local_options of Asks holds momentum; it may hold prox and corrections"),
    ],
)
def test_bad_servers(server, message):
    with pytest.raises(ValueError, match=message):
        run(TINY, server=server)


# --- models and streams -----------------------------------------------------------------------


class Small(nn.Sequential):
    def __init__(self, input_shape, n_classes):
        super().__init__(nn.Flatten(), nn.Linear(int(np.prod(input_shape)), n_classes))


def test_without_training_a_server_or_model_is_refused():
    for own in ({"server": federated.FedAvg}, {"model": Small}):
        with pytest.raises(ValueError, match="needs train=True"):
            run(BARE, **own)


def test_a_run_without_training_loads_no_torch():
    code = f"""
import sys
from sflkit.sfl.config import SFLConfig
from sflkit.sfl.training import run
run({BARE!r})
print('torch' in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.strip() == "False", done.stderr


def test_streams_by_object_and_function():
    def season(config, n_classes):
        shares = np.stack([np.eye(n_classes)[0], np.full(n_classes, 1 / n_classes)])
        flip = [[0.0, 1.0], [1.0, 0.0]]
        clients = config.n_clients
        return LabelStream([shares] * clients, [flip] * clients, start=0, common=True)

    frame = run(BARE, cache=Plain, stream=season)
    # pi = (0.6, 0.1, ...): after a round of class 0 alone the newest round is off by
    # 0.4^2 + 4 * 0.1^2 = 0.2 at each of the 3 clients; rounds 1 and 3 are such rounds
    np.testing.assert_allclose(frame.discrepancy[[0, 2]], 3 * 0.2)
    again = run(BARE, cache=Plain, stream=season(BARE, 5))
    pd.testing.assert_frame_equal(frame, again, check_exact=True)


# --- data, shares, and caches that ask for more -----------------------------------------------


def test_shares_of_every_round_are_a_stream():
    # alternating all of class 0 and all of class 1, so that pi = (1/2, 1/2): the newest round is
    # off by 2 * (1/2)^2 at each client, and the average of an even number of rounds by nothing
    shares = np.stack([np.eye(5)[[t % 2] * 3] for t in range(4)])
    np.testing.assert_allclose(run(BARE, cache=Plain, stream=shares).discrepancy, 3 * 0.5)
    whole = run(BARE, stream=shares.tolist()).discrepancy
    np.testing.assert_allclose(whole[[1, 3]], 0, atol=1e-12)
    made = run(BARE, stream=lambda config, n_classes: shares)
    np.testing.assert_array_equal(made.discrepancy, whole)
    counts = GivenStream(shares).sample(3, [10, 7, 1], np.random.default_rng(0), exact=True)
    assert counts[:, 0, :2].tolist() == [[10, 0], [0, 7], [1, 0]]


# Three clients and five classes: client 0 is off in rounds 2 and 4, client 1 in round 1, and client
# 2 gets 10 samples of class 2 in every round.
COUNTS = np.zeros((4, 3, 5), np.int64)
COUNTS[0, 0, 0], COUNTS[2, 0, 1] = 4, 6
COUNTS[1:, 1, 3] = 1, 2, 3
COUNTS[:, 2, 2] = 10


def test_counts_of_every_round_are_a_stream_and_a_round_without_arrivals_leaves_the_cache():
    stream = GivenStream(COUNTS)
    np.testing.assert_allclose(
        stream.long_term[:, :4], [[0.4, 0.6, 0, 0], [0, 0, 0, 1], [0, 0, 1, 0]]
    )
    frame = run(BARE, cache=Plain, stream=COUNTS)  # `Plain` keeps the newest round
    assert frame.filter(like="count_").to_numpy().tolist() == [
        [4, 0, 10, 0, 0],
        [4, 0, 10, 1, 0],
        [0, 6, 10, 2, 0],
        [0, 6, 10, 3, 0],
    ]
    # client 0: (0.6^2 + 0.6^2), and (0.4^2 + 0.4^2) from round 3; client 1 lacks its share of 1 in
    # round 1
    np.testing.assert_allclose(frame.discrepancy, [0.72 + 1, 0.72, 0.32, 0.32])
    for same in (stream, COUNTS.tolist(), COUNTS.astype(">u2"), lambda config, n: COUNTS):
        pd.testing.assert_frame_equal(run(BARE, cache=Plain, stream=same), frame)


def test_shares_may_be_none_where_nothing_arrives():
    shares = COUNTS / np.maximum(COUNTS.sum(axis=-1, keepdims=True), 1)
    stream = GivenStream(shares)
    np.testing.assert_allclose(stream.long_term[0], [0.5, 0.5, 0, 0, 0])
    for exact in (False, True):
        drawn = stream.sample(4, 7, np.random.default_rng(0), exact=exact)
        np.testing.assert_array_equal(drawn, 7 * shares)
    # What arrives at the others is as if nobody had ever been off.
    on = np.where(shares.any(axis=-1, keepdims=True), shares, 0.2)
    mixed = [np.full((4, 1, 5), 0.2)]
    drawn, with_all = (
        GivenStream(np.concatenate([*mixed, given], axis=1)).sample(4, 7, np.random.default_rng(0))
        for given in (shares, on)
    )
    np.testing.assert_array_equal(drawn[:, 0], with_all[:, 0])


def test_a_round_in_which_nobody_has_anything_leaves_the_model():
    """A stream that begins a round later is the same run a round later."""
    config = replace(TINY, rounds=4, evaluate_every=1, rule="fifo")
    counts = np.zeros((4, config.n_clients, 10), np.int64)
    counts[0, :, :3], counts[1, 0, 4] = 2, 3
    now, later = run(config, stream=counts), run(config, stream=np.roll(counts, 1, axis=0))
    np.testing.assert_array_equal(later.loss[1:], now.loss[:-1])
    assert later.loss[0] > later.loss[1] > later.loss[2]
    assert later.filter(like="count_").to_numpy().sum(axis=1).tolist() == [0, 18, 21, 21]


def test_own_arrays_take_the_place_of_a_data_set():
    digits = data.load("digits")
    parts = digits.inputs("train"), digits.y_train, digits.inputs("test"), digits.y_test
    named, own = run(TINY), run(replace(TINY, data="mnist"), data=parts)
    pd.testing.assert_frame_equal(own, named, check_exact=True)
    assert own.attrs["data"]["name"] == "own arrays" and not own.attrs["data"]["canonical"]
    images = run(TINY, data=(digits.x_train, digits.y_train))
    made = data.Dataset.of(digits.x_train, digits.y_train)
    pd.testing.assert_frame_equal(images, run(TINY, data=made), check_exact=True)
    assert images.attrs["data"]["size"] == len(made.y_train) == 1154 and len(made.y_test) == 288
    x = made.inputs("train")
    assert abs(x.mean()) < 0.02 and abs(x.std() - 1) < 0.02


@pytest.mark.parametrize(
    ("own", "message"),
    [
        (([[1.0]], [0, 1]), r"x has shape \(1, 1\); .* as many as there are labels in y, 2"),
        (([[1.0], [-1e39], [1.0]], [0, 1, 0]), r"^x holds -1e\+39; .* float32"),
        ((torch.ones(2, 2).to_sparse(), [0, 1]), r"x=tensor\(indices.* must be an array of num"),
        (([1.0, 2.0], [0, 1]), "one sample a row"),
        (([[1.0]], [0], [[1.0, 2.0]], [0]), "x_test is float32"),
    ],
)
def test_bad_data(own, message):
    with pytest.raises(ValueError, match=message):
        run(TINY, data=own)


def test_a_cache_gets_the_inputs_and_losses_that_it_asks_for():
    digits, seen = data.load("digits"), []

    class Looks(FIFO):
        needs = ("losses", "inputs")

        def take(self, ids, labels, rng, losses, inputs):
            all_ids, all_labels = self.joined(ids, labels)
            np.testing.assert_array_equal(inputs, digits.inputs("train", all_ids))
            assert losses.shape == all_labels.shape
            seen.append(losses)
            super().take(ids, labels, rng)

    start = federated.Task(Small((1, 28, 28), 10)).init(model_seed(TINY.seed)).numpy()
    frame = run(TINY, cache=Looks)
    pd.testing.assert_frame_equal(frame, run(replace(TINY, rule="fifo")), check_exact=True)
    assert [len(losses) for losses in seen] == [10] * 3 + [20] * 3 + [30] * 6
    # by hand: softmax cross-entropy of the first model on the first client's first arrivals
    clients = Clients(TINY, digits.y_train, 10)
    clients.arrive(1)
    x = digits.inputs("train", clients.caches[0].ids).reshape(10, -1).astype(float)
    logits = x @ start[:7840].reshape(10, 784).T + start[7840:]
    chosen = logits[np.arange(10), clients.caches[0].labels]
    np.testing.assert_allclose(seen[0], np.log(np.exp(logits).sum(1)) - chosen, atol=1e-5)


def test_what_a_cache_cannot_get_is_said():
    class Wants(FIFO):
        needs = ("losses",)

    with pytest.raises(ValueError, match="Wants, client 0, round 1: needs losses, which only a"):
        run(BARE, cache=Wants)
    Wants.needs = ("gradients",)
    with pytest.raises(ValueError, match="needs of cache rule Wants holds gradients; it may hold"):
        run(TINY, cache=Wants)
