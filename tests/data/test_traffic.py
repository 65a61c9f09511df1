"""Synthetic packets: their form, their seeds, and that labels can be learned but not perfectly."""

import numpy as np
import pytest

from sflkit.data import traffic


@pytest.fixture(scope="module")
def packets():
    return traffic.generate(6000)


def big_endian(x, at):
    return x[:, at].astype(int) * 256 + x[:, at + 1]


def test_form(packets):
    x, y = packets
    assert x.shape == (6000, 39, 39) and x.dtype == np.uint8 and y.dtype == np.int64
    assert np.bincount(y).tolist() == [600] * 10
    assert len(np.unique(x.reshape(6000, -1), axis=0)) == 6000


def test_headers_are_consistent(packets):
    x = packets[0].reshape(6000, -1)
    udp = x[:, 9] == 17
    assert set(x[:, 9].tolist()) == {6, 17} and (x[:, 0] == 0x45).all()
    assert (x[:, 12:20] == 0).all()  # masked addresses
    total = big_endian(x, 2)
    payload = total - np.where(udp, 28, 40)
    assert payload.min() >= 0 and payload.max() <= traffic.PAYLOAD
    assert (big_endian(x[udp], 24) == payload[udp] + 8).all() and (x[udp, 28:40] == 0).all()
    assert (x[~udp, 32] == 0x50).all() and set(x[~udp, 33].tolist()) == {0x10, 0x18}
    # One port is the client's, ephemeral, the other the server's.
    assert (np.maximum(big_endian(x, 20), big_endian(x, 22)) >= 32768).all()
    # Nothing but zeros behind the payload, and something in it.
    behind = np.arange(traffic.PAYLOAD) >= payload[:, None]
    assert not x[:, 40:1500][behind].any() and not x[:, 1500:].any()
    assert (x[:, 40:1500][~behind] != 0).mean() > 0.99


def test_applications_use_several_kinds_of_flow(packets):
    x, y = packets
    lengths = big_endian(x.reshape(6000, -1), 2)
    for label in range(10):
        assert len(np.unique(x[y == label].reshape(600, -1)[:, 8])) > 5  # TTL
        assert lengths[y == label].std() > 20


def test_seeded_and_open_to_other_sizes():
    first, again, other = (traffic.generate(50, seed=s) for s in (3, 3, 4))
    np.testing.assert_array_equal(first[0], again[0])
    np.testing.assert_array_equal(first[1], again[1])
    assert (first[0] != other[0]).any()
    x, y = traffic.generate(7, n_classes=3)
    assert x.shape == (7, 39, 39) and sorted(y) == [0, 0, 0, 1, 1, 2, 2]
    assert traffic.generate(1)[0].shape == (1, 39, 39)


def test_learnable_but_not_perfectly(packets):
    # An independent learner, nearest neighbour on the bytes of header and preamble: far above
    # chance (0.1), below the ceiling 1 - 0.9 * COMMON that the shared services set, up to three
    # standard errors of 1500 test packets.
    from sklearn.neighbors import KNeighborsClassifier

    x, y = packets
    x = x.reshape(6000, -1)[:, 40:400].astype(np.float32)
    accuracy = KNeighborsClassifier(1).fit(x[:4500], y[:4500]).score(x[4500:], y[4500:])
    ceiling = 1 - 0.9 * traffic.COMMON
    assert 0.5 < accuracy < ceiling + 3 * np.sqrt(ceiling * (1 - ceiling) / 1500)
    few = KNeighborsClassifier(1).fit(x[:200], y[:200]).score(x[4500:], y[4500:])
    assert few < accuracy - 0.05  # within-class variety: more packets teach more


def test_more_flows_make_a_cache_show_fewer_of_them():
    # Every flow has a client port of its own. Among 300 packets of one application, 270 of them its
    # own, 60 flows are nearly all seen, 60 (1 - (59/60)^270) = 59; of 600 about
    # 600 (1 - (599/600)^270) = 218 with a standard deviation of 6. The 30 packets of the common
    # services add at most 30 to either.
    seen = {}
    for flows in (60, 600):
        x, y = traffic.generate(600, n_classes=2, n_flows=flows)
        x = x[y == 0].reshape(300, -1)
        seen[flows] = len(np.unique(np.maximum(big_endian(x, 20), big_endian(x, 22))))
    assert 55 <= seen[60] <= 60 + 30
    assert 218 - 3 * 6 <= seen[600] <= 218 + 30 + 3 * 6
