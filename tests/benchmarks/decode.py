"""Measures the rate of decoding transaction-log bytes on one core: `python -m tests.benchmarks.decode [--records
N]`."""

from __future__ import annotations

import argparse
import statistics
import struct
import time

import google_crc32c
import numpy as np
import numpy.typing as npt

from service.wire.columns import decode
from service.wire.log_columns import Chunk
from tests.helpers.builders.transaction_log import (
    COMPLETE_COMMIT,
    EMPTY,
    ONGOING,
    PREPARE_COMMIT,
    Topics,
    tags,
    transition,
    value,
)

FETCH = 8 << 20
"""Maximum number of bytes that the source requests from a broker in one Fetch."""

Ints = npt.NDArray[np.int64]

START_MS = 1_700_000_000_000
ORDERS, OFFSETS = "orders", "__consumer_offsets"
TOPICS: tuple[Topics, ...] = (
    [(ORDERS, [0])],
    [(ORDERS, [3]), (OFFSETS, [12])],
    [(ORDERS, [1, 2]), (OFFSETS, [12])],
)
"""The partitions that a transaction writes to: one, two or three."""


def make_log(records: int, ids: int, first_id: int = 0) -> bytes:
    """Returns a log of about `records` records of `ids` transactional ids (numbered from `first_id`), one record a
    batch, at offsets from 0.

    The first record of every id has the state Empty. Then each transaction has three records: Ongoing, PrepareCommit
    and CompleteCommit (value v1 with tags 0 and 2, epochs as under TV2). Transactions of different ids overlap.
    """
    rng = np.random.default_rng(20)
    transactions = max(records - ids, 3) // 3
    owner = rng.permutation(ids)[np.arange(transactions) % ids]
    round_ = np.arange(transactions) // ids
    begin = np.arange(transactions) * (60 // ids + 1) + 10
    parts = rng.integers(0, len(TOPICS), transactions)
    who = np.concatenate([np.arange(ids), owner, owner, owner]) + first_id
    status = np.repeat([EMPTY, ONGOING, PREPARE_COMMIT, COMPLETE_COMMIT], [ids, *[transactions] * 3])
    variant = np.concatenate([np.zeros(ids, np.int64), parts, parts, np.zeros_like(parts)])
    started = np.concatenate([np.full(ids, -1 - START_MS), begin, begin, begin]) + START_MS
    written = np.concatenate([np.zeros(ids, np.int64), begin, begin + 40, begin + 55]) + START_MS
    epoch = np.concatenate([np.zeros(ids, np.int64), round_, round_ + 1, round_ + 1]) % 32_000
    order = np.argsort(written, kind="stable")
    return _write(*(column[order] for column in (who, status, variant, started, written, epoch)))


def _write(who: Ints, status: Ints, variant: Ints, started: Ints, written: Ints, epoch: Ints) -> bytes:
    """Returns the bytes of the batches. Each batch is a copy of the template for its (status, variant), in which the
    fields that vary are filled in."""
    kind = status * len(TOPICS) + variant
    templates = {int(k): _template(*divmod(int(k), len(TOPICS))) for k in np.unique(kind)}
    size = np.array([len(templates.get(k, (b"",))[0]) for k in range(kind.max() + 1)])[kind]
    end = np.cumsum(size)
    start = end - size
    log = np.empty(int(end[-1]), np.uint8)
    for number, (template, update_at) in templates.items():
        rows = np.flatnonzero(kind == number)
        copies = np.tile(np.frombuffer(template, np.uint8), (len(rows), 1))
        id_at = template.index(_ID)
        digits = np.char.zfill(who[rows].astype("S10"), 10).view("S1").reshape(len(rows), 10).view(np.uint8)
        copies[:, id_at + len(_ID) - 10 : id_at + len(_ID)] = digits
        value_at = template.index(_PRODUCER_ID) - 2
        for at, numbers, layout in (
            (0, rows, ">i8"),
            (27, written[rows], ">i8"),
            (35, written[rows], ">i8"),
            (value_at + 2, who[rows] + 5_000, ">i8"),
            (value_at + 10, epoch[rows], ">i2"),
            (update_at, written[rows], ">i8"),
            (update_at + 8, started[rows], ">i8"),
            (update_at + 19, who[rows] + 5_000, ">i8"),
        ):
            copies[:, at : at + int(layout[-1])] = numbers.astype(layout).view(np.uint8).reshape(len(rows), -1)
        log[start[rows][:, None] + np.arange(len(template))] = copies
    return _with_checksums(log, start.tolist(), end.tolist())


_ID = b"payments-service-eu-west-0000000000"
_PRODUCER_ID = bytes.fromhex("8877665544332211")
_UPDATED = bytes.fromhex("1122334455667788")
"""Placeholder values of three fields in a template. The positions of these fields are found by a search for the
values."""


def _template(status: int, variant: int) -> tuple[bytes, int]:
    """Returns a batch to copy, and the position in this batch of the time of the last update."""
    topics = {EMPTY: None, COMPLETE_COMMIT: ()}.get(status, TOPICS[variant])
    data = value(
        status=status,
        producer_id=int.from_bytes(_PRODUCER_ID, signed=True),
        topics=topics,
        last_update_ms=int.from_bytes(_UPDATED),
        tagged=tags(0, client_transaction_version=2),
    )
    template = transition(_ID, 0, timestamp_ms=0, data=data)
    return template, template.index(_UPDATED)


def _with_checksums(log: npt.NDArray[np.uint8], start: list[int], end: list[int]) -> bytes:
    raw = bytearray(log.tobytes())
    put = struct.Struct(">I").pack_into
    for first, last in zip(start, end, strict=True):
        put(raw, first + 17, google_crc32c.value(bytes(raw[first + 21 : last])))
    return bytes(raw)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=500_000)
    parser.add_argument("--runs", type=int, default=9)
    arguments = parser.parse_args()
    log = make_log(arguments.records, max(arguments.records // 20, 1))
    fetches = [[Chunk(0, 0, 2**62, piece)] for piece in cut(log, FETCH)]
    small_log = make_log(20, 5)
    small = [[Chunk(partition, 0, 2**62, small_log) for partition in range(50)]]
    print(f"{arguments.runs} runs, one core, {len(log) / arguments.records:.0f} bytes a record")
    _report(f"{len(fetches)} fetches of 8 MB", fetches, arguments.runs)
    _report("all in one chunk", [[Chunk(0, 0, 2**62, log)]], arguments.runs)
    _report("live: 50 chunks of 20", small, 20 * arguments.runs)


def cut(log: bytes, size: int) -> list[bytes]:
    """Returns the log in pieces, as Fetches of `size` bytes return it: each piece begins with a whole batch, and may
    end inside a batch."""
    pieces = []
    position = 0
    while position < len(log):
        pieces.append(log[position : position + size])
        position += decode([Chunk(0, 0, 2**62, pieces[-1])]).bytes
    return pieces


def _report(name: str, calls: list[list[Chunk]], runs: int) -> None:
    rows = sum(len(decode(chunks)) for chunks in calls)
    seconds = []
    for _ in range(runs):
        began = time.perf_counter()
        for chunks in calls:
            decode(chunks)
        seconds.append(time.perf_counter() - began)
    median, fastest, slowest = (
        spread / rows * 1e9 for spread in (statistics.median(seconds), min(seconds), max(seconds))
    )
    print(
        f"{name:24} {rows:8} records  {1e3 / median:5.2f} M records/s  ns a record: median {median:.0f},"
        f" min {fastest:.0f}, max {slowest:.0f}  ms a call: {median * rows / len(calls) / 1e6:.2f}"
    )


if __name__ == "__main__":
    main()
