"""Generates random transaction logs from a seed: records as coordinators write them, unusual but valid ones, and
damaged ones.

Uses `random` instead of hypothesis strategies, so that every log has many kinds of records.
"""

from __future__ import annotations

import struct
from random import Random
from typing import TypeVar

import google_crc32c

from service.wire.log_columns import Chunk
from tests.helpers.builders import transaction_log as build
from tests.helpers.builders.batches import COMMIT, LOG_APPEND_TIME, Rec, batch, control_batch

NOW = 1_700_000_000_000
T = TypeVar("T")
LONGS = (-1, 0, 4001, 2**53 + 1, 2**63 - 1, -(2**63))
TOPICS = ("orders", "", "__consumer_offsets", "t" * 249, "caf\udce9")
IDS = (b"a", b"order-tx-1", b"", "é-ü".encode(), b"\0\xff" * 40)


def random_chunks(seed: int) -> list[Chunk]:
    """Returns one, two or four Fetch answers, which may be of the same partition."""
    rng = Random(seed)
    return [_chunk(rng) for _ in range(rng.choice([1, 1, 2, 4]))]


def _often(rng: Random, usual: T, unusual: T, *, one_in: int = 8) -> T:
    return rng.choice([usual] * (one_in - 1) + [unusual])


def _chunk(rng: Random) -> Chunk:
    """Returns a chunk of up to 19 batches, some with gaps between their offsets. In about half of all chunks, a fifth
    of the batches are damaged. About half of all chunks are cut at a random byte."""
    lo = offset = rng.choice([0, 1000, 2**40])
    damage = _often(rng, 0.0, 0.2, one_in=2)
    pieces = []
    for _ in range(rng.randrange(20)):
        data, offset = _batch(rng, offset + _often(rng, 0, 5))
        pieces.append(damaged(rng, data) if rng.random() < damage else data)
    log = b"".join(pieces)
    if rng.random() < 0.5:
        log = log[: rng.randint(0, len(log))]
    return Chunk(rng.randrange(3), lo + _often(rng, 0, 2), rng.choice([offset, offset - 1, 2**62]), log)


def damaged(rng: Random, data: bytes) -> bytes:
    """Returns a batch in which one or two bytes are overwritten, rarely in the first 21 bytes, which contain the
    length.

    The checksum is mostly corrected, so that the decoders of records read the damaged bytes.
    """
    raw = bytearray(data)
    for _ in range(rng.randint(1, 2)):
        raw[rng.randrange(_often(rng, 21, 0), len(raw))] = rng.choice([0, 1, 2, 0x7F, 0x80, 0xFF, rng.randrange(256)])
    if rng.random() < 0.8:
        raw[17:21] = struct.pack(">I", google_crc32c.value(bytes(raw[21:])))
    return bytes(raw)


def _batch(rng: Random, offset: int) -> tuple[bytes, int]:
    kind = rng.choice(["data"] * 30 + ["control", "empty", "codec", "append time"])
    if kind == "control":
        return control_batch(COMMIT, offset), offset + 1
    if kind == "empty":
        return batch([], offset, last_offset_delta=3), offset + 4
    deltas = rng.sample(range(9), _often(rng, 1, rng.randint(2, 5)))
    records = [_record(rng, delta) for delta in _often(rng, sorted(deltas), deltas, one_in=20)]
    data = batch(
        records,
        offset,
        timestamp_ms=_often(rng, NOW, rng.choice([-1, 2**63 - 1])),
        max_timestamp_ms=NOW,
        attributes={"codec": rng.randint(1, 4), "append time": LOG_APPEND_TIME}.get(kind, 0),
        leader_epoch=rng.randrange(4),
    )
    return data, offset + max(deltas) + 1


def _record(rng: Random, offset_delta: int) -> Rec:
    value = _often(rng, _often(rng, _value(rng), None), _odd_value(rng))
    key = _often(rng, build.key(rng.choice(IDS)), _odd_key(rng))
    timestamp_delta = _often(rng, 0, rng.choice([7, -1, 2**20, 2**21, 2**40]))
    return Rec(key, value, offset_delta, timestamp_delta, _often(rng, (), ((b"h", b"x"),), one_in=30))


def _value(rng: Random) -> bytes:
    tagged = build.tags(
        *(rng.choice([None, *LONGS]) for _ in range(2)),
        *(rng.choice([None, 0, 2, -(2**15), 2**15 - 1]) for _ in range(2)),
    )
    tagged = _often(rng, build.tags(4001, client_transaction_version=2), tagged, one_in=2)
    unknown = {rng.choice([*range(6), 200, 2**31 - 1]): rng.randbytes(rng.randrange(9)) for _ in range(2)}
    return build.value(
        rng.randrange(2),
        producer_id=rng.choice(LONGS),
        producer_epoch=rng.randrange(-(2**15), 2**15),
        timeout_ms=rng.choice([1, 60_000, 2**31 - 1]),
        status=_often(rng, rng.randrange(6), rng.choice([6, 7, -1]), one_in=30),
        topics=_topics(rng),
        last_update_ms=rng.choice(LONGS),
        start_ms=rng.choice(LONGS),
        tagged=_often(rng, tagged, _often(rng, tagged | unknown, dict.fromkeys(range(4, 20), b""))),
        topic_tagged=_often(rng, {}, {rng.randrange(3): rng.randbytes(rng.randrange(3))}),
    )


def _topics(rng: Random) -> build.Topics | None:
    if rng.random() < 0.3:
        return rng.choice([None, (), (), [("t", [1])] * 70])
    return [
        (rng.choice(TOPICS), [rng.randrange(200) for _ in range(_often(rng, rng.randrange(4), 200, one_in=20))])
        for _ in range(rng.randint(1, 3))
    ]


def _odd_value(rng: Random) -> bytes:
    value = _value(rng)
    return rng.choice(
        [rng.randbytes(rng.randrange(60)), value[: rng.randrange(len(value))], value + b"more", b"\0\7" + value[2:]]
    )


def _odd_key(rng: Random) -> bytes | None:
    key = build.key(rng.choice(IDS))
    return rng.choice(
        [None, rng.randbytes(rng.randrange(8)), b"\0\5" + key[2:], key + b"more", key[:-1], b"\0\0\xff\xff"]
    )
