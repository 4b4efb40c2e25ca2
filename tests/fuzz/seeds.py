"""Makes the healthy batches that are mutated: every kind of batch that the log may hold, and batches that brokers
wrote."""

from __future__ import annotations

from functools import cache
from itertools import islice

from tests.fuzz.pieces import Batch, take_apart
from tests.helpers.builders import transaction_log as build
from tests.helpers.builders.batches import COMMIT, DELETE_HORIZON, LOG_APPEND_TIME, Rec, batch, control_batch
from tests.service.wire.dumps import segments

TOPICS: tuple[build.Topics | None, ...] = (
    None,
    (),
    [("orders", [0, 3])],
    [("a", [1]), ("caf\udce9", [0, 1, 2]), ("", [])],
)
TAGS: tuple[dict[int, bytes], ...] = (
    {},
    build.tags(4000),
    build.tags(4000, 4002, 2, 0),
    build.tags(2**63 - 1, -1, 1, 2**15 - 1),
    build.tags(4000, client_transaction_version=2) | {9: b"future", 200: b""},
)
IDS = (b"bad", b"", "é-ü".encode(), b"\0\xff'\";--", b"i" * 300)
GOLDEN_OF_A_SEGMENT = 12


@cache
def seeds() -> tuple[Batch, ...]:
    """Returns uncompressed batches, then some of these batches in every codec."""
    plain = [take_apart(data) for data in (*_built(), *_golden())]
    squeezed = []
    for number, seed in enumerate(plain[::6]):
        for codec in (1, 2, 3, 4):
            other = seed.copy()
            other.codec, other.xerial = codec, number % 2 == 1
            attributes = other.header["attributes"]
            attributes.data = bytes([attributes.data[0], attributes.data[1] & 0xF8 | codec])
            squeezed.append(other)
    return (*plain, *squeezed)


def _built() -> list[bytes]:
    found = []
    for version in (0, 1):
        for number, topics in enumerate(TOPICS):
            for status in range(6):
                tagged = TAGS[(number + status) % len(TAGS)]
                extra = {0: b"x"} if status == 5 else {}
                value = build.value(version, status=status, topics=topics, tagged=tagged, topic_tagged=extra)
                found.append(batch([Rec(build.key(IDS[status % len(IDS)]), value)]))
    value = build.value(topics=TOPICS[2], tagged=TAGS[2])
    records = [Rec(build.key(transactional_id), value, delta) for delta, transactional_id in enumerate(IDS)]
    sweep = [Rec(build.key(b"expired-%d" % delta), None, delta, -delta) for delta in range(20)]
    found += [
        batch(records, timestamp_ms=2**63 - 1),
        batch(sweep),
        batch(sweep[::7], attributes=DELETE_HORIZON, last_offset_delta=19),
        batch(records[:1], attributes=LOG_APPEND_TIME),
        batch([Rec(build.key(b"bad"), value, 0, 2**40, ((b"h", b"x"), (b"null", None)))]),
        batch([], last_offset_delta=3),
    ]
    return found * 2 + [_as_data(control_batch(COMMIT))]


def _as_data(control: bytes) -> bytes:
    """Returns the batch of a marker as a data batch: without the flags of a control batch. Its key and value are
    unknown to the decoder."""
    return control[:21] + b"\0\0" + control[23:]


def _golden() -> list[bytes]:
    found: list[bytes] = []
    for log in segments("*/__transaction_state-*"):
        data = log.read_bytes()
        found += islice(_each(data), GOLDEN_OF_A_SEGMENT)
    return found


def _each(data: bytes) -> list[bytes]:
    found, at = [], 0
    while at < len(data):
        end = at + 12 + int.from_bytes(data[at + 8 : at + 12], "big")
        found.append(data[at:end])
        at = end
    return found
