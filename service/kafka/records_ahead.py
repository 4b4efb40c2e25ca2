"""Reads the log behind a committed offset, within bounds, until it is known whether the group has a record to read."""

from __future__ import annotations

import time
from typing import Final

from service.domain.partitions.records_ahead import AnyRecords, CommittedRecords
from service.kafka.client import KafkaClient
from service.kafka.fetch import fetch_piece
from service.kafka.metadata import Leader
from service.partition_log import piece_of
from service.wire.batches import BadBatch, read_batches

FIRST_BYTES: Final = 64 << 10
MOST_BYTES: Final = 4 << 20
MOST_S: Final = 0.5


def has_records_ahead(
    client: KafkaClient, topic: str, partition: int, leader: Leader, offset: int, lso: int, hi: int
) -> bool | None:
    """Returns whether a group with this committed offset has a record to read: below the LSO, a committed one before
    the LSO; above it, any one before `hi` (the high watermark). None: not known within MOST_BYTES and MOST_S, or
    because the offset is not in the log any more, or a batch is damaged.

    Raises KafkaUnavailable, or KafkaRefused (READ on the topic).
    """
    search = CommittedRecords(offset, lso) if offset < lso else AnyRecords(offset)
    at, size, total = offset, FIRST_BYTES, 0
    give_up = time.monotonic() + MOST_S
    while at < hi and total < MOST_BYTES and time.monotonic() < give_up:
        data = fetch_piece(client, topic, leader, partition, at, size)
        if data is None:
            return None
        total += len(data)
        before = at
        for one in read_batches(data, at):
            if isinstance(one, BadBatch):
                return None
            search.add(piece_of(one), one.header.records_count)
            if search.found is not None:
                return search.found
            at = max(at, one.header.next_offset)
        if at == before and len(data) < size:  # no whole batch came, although there was room for one
            return None
        size = min(size * 4, MOST_BYTES)
    return None if offset < lso or at < hi else False
