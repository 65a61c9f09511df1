"""Synthetic network packets of ten applications, our stand-in for ISCXVPN2016.

The captures of ISCXVPN2016 need a registration. The SFL paper (journal, Section VI) classifies
45,000 packets of 10 applications by 39 x 39 = 1521 bytes each. The packets made here have that
form, laid out as in common preprocessing of those captures: no Ethernet header, addresses masked,
UDP headers padded to the length of TCP's, then the payload, zeros behind.

| bytes | content                                                                            |
|-------|------------------------------------------------------------------------------------|
| 0-19  | IPv4: version, service, total length, identification, flags, TTL, protocol,        |
|       | checksum, masked addresses                                                         |
| 20-39 | TCP: ports, sequence, acknowledgement, offset, flags, window, checksum; or UDP:    |
|       | ports, length, checksum, zeros                                                     |
| 40-   | payload: a session preamble (handshake, request or container fields), then         |
|       | records. A record is a header with type and length as in TLS or RTP, and a body    |
|       | that looks encrypted or is text in the application's alphabet                      |

What makes the task neither trivial nor hopeless:

- An application has habits: how often it uses each kind of flow, and for each kind its server port,
  type of service, packet lengths, preamble, record length and record header.
- A packet belongs to one of the application's flows. A flow has its own client port, TTL, window
  and packet length, and replaces a share `ALTERED` of the habitual fields by its own. A small cache
  shows few flows, so that a larger cache is worth something. With `FLOWS` flows (data set
  "traffic") the paper's cache of 300 samples already shows nearly all of them, so that renewing it
  is worth nothing; with `MANY_FLOWS` ("traffic600") it shows a sixth.
- A share `COMMON` of every application's packets belongs to services that all of them use alike
  (name look-ups, content delivery, telemetry). Nobody can tell those apart: the best accuracy
  possible is 1 - 0.9 COMMON for 10 applications.
- Encrypted bodies are random bytes: there is nothing to learn from them, only something to overfit
  to.

Scale. The paper states a local rate of 0.01 and no scaling of the bytes. With bytes scaled to unit
range or unit variance, two full-batch steps per round at that rate leave LeNet close to chance for
200 rounds. (byte - 60) / 4 gives curves like the paper's, about 100 rounds to learn and 0.8 at
round 200; `catalogue.TRAFFIC_MEAN` and `TRAFFIC_STD` say it in units of byte / 255.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sflkit import checks

SIDE = 39
HEADER = 40  # bytes of the IP header and the one behind it
PAYLOAD = 1460  # bytes
FLOWS = 60
MANY_FLOWS = 600
ALTERED = 0.6
COMMON = 0.1
_RECORD_HEADER = 40  # longest header of a record, bytes
_FIELD = 4  # a flow replaces fields of so many bytes


class _Kind(NamedTuple):
    """A kind of flow, from which applications choose."""

    protocol: int
    ports: tuple[int, ...]  # of servers; an application has one of them
    text: bool  # whether bodies are text
    payload: tuple[int, int]  # range of lengths, bytes


_KINDS = (
    _Kind(6, (443, 993, 8443), False, (60, 1460)),  # TLS
    _Kind(6, (80, 8080, 3128), True, (80, 1300)),  # web, plain
    _Kind(6, (5222, 5190, 6667), True, (60, 900)),  # chat
    _Kind(17, (3478, 5060, 19302), False, (60, 320)),  # voice
    _Kind(17, (443, 3480, 9000), False, (700, 1350)),  # video, QUIC
    _Kind(6, (21, 22, 990), False, (900, 1460)),  # file transfer
)


# Arrays with one entry per flow, or per packet what its flow has; `_application` says which.
_Flows = dict[str, np.ndarray]


def generate(
    n_packets: int = 45000, *, seed: int = 0, n_classes: int = 10, n_flows: int = FLOWS
) -> tuple[np.ndarray, np.ndarray]:
    """Return packets and the applications that they belong to.

    The packets are in random order, and every application has equally many (up to one packet).

    Parameters
    ----------
    n_packets : int
        At least 1; the paper has 45,000.
    seed : int
        Non-negative; fixes habits, flows and packets. Another seed is another set of applications.
    n_classes : int
        Number of applications, 2 to 100; the paper has 10.
    n_flows : int
        Flows of each application, at least 1.

    Returns
    -------
    x : uint8, (n_packets, 39, 39)
    y : int64, (n_packets,)

    Raises
    ------
    ValueError
        If an argument is out of range.
    """
    n_packets = checks.integer("n_packets", n_packets, 1)
    seed = checks.integer("seed", seed, 0, any_size=True)
    n_classes = checks.integer("n_classes", n_classes, 2, 100)
    n_flows = checks.integer("n_flows", n_flows, 1)
    habits_rng, choice_rng, byte_rng = (
        np.random.default_rng(s) for s in np.random.SeedSequence(seed).spawn(3)
    )
    # The last "application" holds the services that all applications share.
    drawn = [_application(habits_rng, n_flows) for _ in range(n_classes + 1)]
    flows = {name: np.concatenate([one[name] for one in drawn]) for name in drawn[0]}
    y = choice_rng.permutation(np.arange(n_packets) % n_classes)
    owner = np.where(choice_rng.random(n_packets) < COMMON, n_classes, y)
    flow = owner * n_flows + choice_rng.integers(0, n_flows, n_packets)
    x = np.zeros((n_packets, SIDE * SIDE), np.uint8)
    # In blocks: the byte arrays of all packets at once would take gigabytes.
    for start in range(0, n_packets, 1024):
        block = slice(start, start + 1024)
        _fill(x[block], {name: values[flow[block]] for name, values in flows.items()}, byte_rng)
    return x.reshape(-1, SIDE, SIDE), y


def _application(rng: np.random.Generator, n_flows: int) -> _Flows:
    """Draw an application's habits and its `n_flows` flows."""
    n_kinds = len(_KINDS)
    usage = rng.dirichlet(np.full(n_kinds, 0.2))
    port = np.array([rng.choice(kind.ports) for kind in _KINDS])
    tos = rng.choice((0, 0, 40, 72, 136, 184), n_kinds)
    modes = np.array([rng.integers(*kind.payload, 2) for kind in _KINDS])
    preamble = rng.integers(300, 1400, n_kinds)
    period = rng.integers(20, 160, n_kinds)
    header = np.minimum(rng.integers(8, _RECORD_HEADER, n_kinds), period // 2)
    template = rng.integers(0, 256, (n_kinds, PAYLOAD))
    record = rng.integers(0, 256, (n_kinds, _RECORD_HEADER))
    letters = rng.permutation(np.arange(32, 127))[: rng.integers(8, 40)]
    alphabet = np.tile(np.arange(256), (n_kinds, 1))
    for k in np.flatnonzero([kind.text for kind in _KINDS]):
        alphabet[k] = rng.choice(letters, 256)
        template[k] = rng.choice(letters, PAYLOAD)

    k = rng.choice(n_kinds, n_flows, p=usage)
    altered_fields = rng.random((n_flows, -(-PAYLOAD // _FIELD))) < ALTERED
    altered = np.repeat(altered_fields, _FIELD, axis=1)[:, :PAYLOAD]
    own = np.take_along_axis(alphabet[k], rng.integers(0, 256, (n_flows, PAYLOAD)), axis=1)
    return {
        "protocol": np.array([kind.protocol for kind in _KINDS])[k],  # 6 is TCP and 17 UDP
        "ports": np.stack([port[k], rng.integers(32768, 61000, n_flows)], axis=1),  # server, client
        "tos": tos[k],  # type of service
        "ttl": rng.choice((64, 128, 255), n_flows) - rng.integers(0, 20, n_flows),
        "window": rng.integers(200, 65535, n_flows),
        # mean and standard deviation of the length of the payload, bytes
        "length": modes[k, rng.integers(0, 2, n_flows)] * rng.uniform(0.9, 1.1, n_flows),
        "spread": rng.choice((2.0, 20.0, 80.0), n_flows),
        "preamble": preamble[k],  # length of the session preamble, bytes
        "period": period[k],  # length of a record, bytes
        "record_header": record[k].astype(np.uint8),  # (n, _RECORD_HEADER) bytes
        "header": header[k],  # how many of them are used
        # (n, PAYLOAD) the habitual bytes as altered by this flow
        "template": np.where(altered, own, template[k]).astype(np.uint8),
        "text": np.array([kind.text for kind in _KINDS])[k],  # whether bodies are text
        "alphabet": alphabet[k].astype(np.uint8),  # (n, 256) what stands for each random byte
    }


def _fill(x: np.ndarray, flow: _Flows, rng: np.random.Generator) -> None:
    """Write one packet into each row of zeros `x` (n, 1521); `flow` holds the flow of each."""
    length = np.clip(np.rint(rng.normal(flow["length"], flow["spread"])), 0, PAYLOAD).astype(
        np.int64
    )
    place = np.arange(PAYLOAD, dtype=np.int32)
    body = rng.integers(0, 256, (len(x), PAYLOAD), np.uint8)
    body[flow["text"]] = np.take_along_axis(
        flow["alphabet"][flow["text"]], body[flow["text"]].astype(np.intp), axis=1
    )
    in_record = place % flow["period"][:, None].astype(np.int32)
    headers = np.take_along_axis(
        flow["record_header"], np.minimum(in_record, _RECORD_HEADER - 1), axis=1
    )
    body = np.where(in_record < flow["header"][:, None], headers, body)
    body = np.where(place < flow["preamble"][:, None], flow["template"], body)
    x[:, HEADER : HEADER + PAYLOAD] = np.where(place < length[:, None], body, 0)
    _fill_headers(x, flow, length, rng)


def _fill_headers(
    x: np.ndarray, flow: _Flows, length: np.ndarray, rng: np.random.Generator
) -> None:
    """Write the headers of packets whose payloads have the given lengths, (n,), in bytes."""
    n = len(x)
    udp = flow["protocol"] == 17
    x[:, 0] = 0x45  # version 4, five words of header
    x[:, 1] = flow["tos"]
    x[:, 2:4] = _big_endian(length + np.where(udp, 28, 40))
    x[:, 4:6] = rng.integers(0, 256, (n, 2))
    x[:, 6] = 0x40  # not to be fragmented
    x[:, 8] = flow["ttl"]
    x[:, 9] = flow["protocol"]
    x[:, 10:12] = rng.integers(0, 256, (n, 2))
    upward = rng.random(n) < 0.4  # from the client to the server
    source, target = np.where(upward[:, None], flow["ports"][:, ::-1], flow["ports"]).T
    x[:, 20:22] = _big_endian(source)
    x[:, 22:24] = _big_endian(target)
    x[:, 24:32] = rng.integers(0, 256, (n, 8))
    x[:, 32] = 0x50  # five words of header
    x[:, 33] = np.where(rng.random(n) < 0.4, 0x18, 0x10)  # acknowledgement, with push or without
    x[:, 34:36] = _big_endian(flow["window"])
    x[:, 36:38] = rng.integers(0, 256, (n, 2))
    x[udp, 24:26] = _big_endian(length[udp] + 8)
    x[udp, 28:HEADER] = 0


def _big_endian(values: np.ndarray) -> np.ndarray:
    """Return the two bytes of each value, (n, 2)."""
    return np.stack([values >> 8, values & 255], axis=1)
