"""Reads the records of one transactional.id in a range of a transaction log partition, and finds the offsets that are
missing."""

from __future__ import annotations

import time
from typing import Final

from service.domain.partitions.facts import TopicPartition
from service.domain.transaction_log.facts import LogRecord
from service.domain.transaction_log.states import EXPIRED, TOPIC
from service.domain.worlds.transactions import LogHistory, Range
from service.kafka.client import KafkaClient
from service.kafka.cluster import Leader, TopicLayout
from service.kafka.fetch import fetch_piece
from service.kafka.offsets import EARLIEST, list_offsets
from service.wire.columns import decode
from service.wire.log_columns import TOMBSTONE, UNDECODABLE, Chunk, LogColumns, holes

MAX_RECORDS: Final = 300_000
"""Maximum number of offsets to read before `hi`. That number of records is some 40 MB, and is read in less than a
second."""
MAX_S: Final = 5.0
_FETCH_BYTES: Final = 8 << 20


def id_history(
    client: KafkaClient,
    leader: Leader,
    partition: int,
    transactional_id: bytes,
    place: TopicPartition,
    lo: int,
    hi: int,
) -> LogHistory:
    """Returns the records of the id in [lo, hi) of a log partition. `listing`: the offsets of those records that name
    the partition `place` as part of the transaction.

    `holes`: the offsets below `lo`, the offsets more than MAX_RECORDS before `hi`, and the offsets at which no record
    with a readable key was found. `unread`: the offsets of the id's records that cannot be decoded. If reading ended
    early (MAX_S had passed, no whole batch came, or the log ended), `unread` also has the offsets from there to `hi`.
    Needs READ on the transaction log. Raises KafkaUnavailable or KafkaRefused.
    """
    at = max(lo, hi - MAX_RECORDS)
    missing = [Range(0, at)] if at > 0 else []
    topic, number = place
    records: list[LogRecord] = []
    listing: set[int] = set()
    unread: list[Range] = []
    give_up = time.monotonic() + MAX_S
    size = _FETCH_BYTES
    while at < hi and time.monotonic() < give_up:
        data = fetch_piece(client, TOPIC, leader, partition, at, size)
        if data is None:
            start = list_offsets(client, TopicLayout(TOPIC, "", {partition: leader}), EARLIEST).found.get(partition, at)
            if start <= at:
                break  # the log ends before `at`: this is not the log that was read so far
            missing.append(Range(at, start))
            at = start
            continue
        columns = decode([Chunk(partition, at, hi, data)])
        reached = max([columns.next_offsets.get(partition, at), *(b.resume_offset or 0 for b in columns.broken)])
        if reached <= at:
            if len(data) < size:
                break  # no whole batch came, although there was room for one
            size *= 2
            continue
        starts, ends = holes(columns.offset, at, min(reached, hi))
        missing += map(Range, starts.tolist(), ends.tolist())
        for row in columns.transactional_ids.equal(transactional_id).tolist():
            if columns.kind[row] == UNDECODABLE:
                unread.append(Range(int(columns.offset[row]), int(columns.offset[row]) + 1))
            else:
                records.append(_record(columns, row))
                if any(name == topic and number in ids for name, ids in columns.participants(row)):
                    listing.add(records[-1].offset)
        at = reached
    if at < hi:
        unread.append(Range(at, hi))
    return LogHistory(partition, hi, tuple(records), frozenset(listing), tuple(missing), tuple(unread))


def _record(columns: LogColumns, row: int) -> LogRecord:
    fields = {name: int(getattr(columns, name)[row]) for name in LogRecord._fields if name != "state"}
    return LogRecord(state=EXPIRED if columns.kind[row] == TOMBSTONE else int(columns.status[row]), **fields)
