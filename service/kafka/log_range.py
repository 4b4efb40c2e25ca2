"""Reads the batches in a range of offsets of one partition, in order and up to a limit of bytes and of time: the
batches of all producers, or of one."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Final, NamedTuple

from service.domain.partitions.state import AnyRecords, CommittedRecords
from service.domain.worlds.markers import Marker
from service.kafka.client import KafkaClient
from service.kafka.cluster import Leader
from service.kafka.fetch import fetch_piece
from service.partition_log import control_of, piece_of
from service.wire import records
from service.wire.batches import BadBatch, Batch, read_batches

FETCH_BYTES: Final = 4 << 20
MAX_BYTES: Final = 64 << 20
MAX_S: Final = 5.0


class LogRange:
    """The batches that begin in [lo, hi) of a partition. Call `batches` at most once.

    `reached`: the offset up to which the range was read. `read_bytes`: the number of bytes fetched. `damaged`: the
    number of batches that could not be read. `is_whole`: False if a batch was damaged, if an offset was outside the
    log, or if reading ended at the limit of bytes or time, or at an answer without a whole batch. `unbroken_from`: from
    this offset to `reached` no offset is missing (compaction removes offsets).
    """

    def __init__(
        self,
        client: KafkaClient,
        topic: str,
        partition: int,
        leader: Leader,
        lo: int,
        hi: int,
        max_bytes: int = MAX_BYTES,
        max_s: float = MAX_S,
    ) -> None:
        self._client, self._topic, self._partition, self._leader = client, topic, partition, leader
        self._at, self._hi, self._max_bytes, self._max_s = lo, hi, max_bytes, max_s
        self.read_bytes = 0
        self.damaged = 0
        self.is_whole = True
        self.unbroken_from = lo

    @property
    def reached(self) -> int:
        return min(self._at, self._hi)

    def batches(self) -> Iterator[Batch]:
        """Yields the batches. Needs READ on the topic. Raises KafkaUnavailable or KafkaRefused."""
        size = min(FETCH_BYTES, self._max_bytes)
        give_up = time.monotonic() + self._max_s
        while self._at < self._hi:
            is_too_much = self.read_bytes >= self._max_bytes or time.monotonic() > give_up
            data = None
            if not is_too_much:
                data = fetch_piece(self._client, self._topic, self._leader, self._partition, self._at, size)
            if data is None:
                self.is_whole = False
                return
            self.read_bytes += len(data)
            before = self._at
            for batch in read_batches(data, before):
                if isinstance(batch, BadBatch):
                    self.damaged, self.is_whole = self.damaged + 1, False
                    continue
                if self._at < min(batch.base_offset, self._hi):
                    self.unbroken_from = batch.base_offset
                self._at = max(self._at, batch.header.next_offset)
                if before <= batch.base_offset < self._hi:
                    yield batch
            if self._at == before:
                if len(data) < size:  # no whole batch came, although there was room for one
                    self.is_whole = False
                    return
                size *= 2


_OUTCOMES: Final = {records.ABORT: False, records.COMMIT: True}


class DataBatch(NamedTuple):
    """A batch of data: its first and last offset, its producer epoch, and the leader epoch in which it was written.
    `first_timestamp_ms`: the timestamp of the batch's first record, by the producer's clock."""

    first: int
    last: int
    producer_epoch: int
    leader_epoch: int
    sequence: int
    first_timestamp_ms: int


class BatchesRead(NamedTuple):
    """Markers and data of one producer id from `lo` to `reached`, in offset order. `is_whole`: True if the whole range
    was read, and nothing was damaged. `unbroken_from`: from this offset to `reached` no offset is missing."""

    markers: tuple[Marker, ...]
    data: tuple[DataBatch, ...]
    reached: int
    is_whole: bool
    unbroken_from: int


def batches_between(
    client: KafkaClient, topic: str, partition: int, leader: Leader, producer_id: int, lo: int, hi: int
) -> BatchesRead:
    """Returns the batches of `producer_id` in [lo, hi), within the bounds of LogRange. The result is
    not whole if the range begins below the log start.

    Needs READ on the topic. Raises KafkaUnavailable or KafkaRefused.
    """
    markers: list[Marker] = []
    written: list[DataBatch] = []
    part = LogRange(client, topic, partition, leader, lo, hi)
    for batch in part.batches():
        header = batch.header
        if header.producer_id != producer_id:
            continue
        if header.is_control:
            markers.append(_marker(batch))
        else:
            written.append(
                DataBatch(
                    header.base_offset,
                    header.next_offset - 1,
                    header.producer_epoch,
                    header.leader_epoch,
                    header.base_sequence,
                    header.base_timestamp_ms,
                )
            )
    return BatchesRead(tuple(markers), tuple(written), part.reached, part.is_whole, part.unbroken_from)


def _marker(batch: Batch) -> Marker:
    header, record = batch.header, control_of(batch)
    if record is None or record.type not in _OUTCOMES:
        return Marker(header.base_offset, header.producer_epoch, header.max_timestamp_ms, None, header.leader_epoch)
    return Marker(
        header.base_offset,
        header.producer_epoch,
        record.timestamp_ms,
        _OUTCOMES[record.type],
        header.leader_epoch,
        record.coordinator_epoch,
    )


FIRST_BYTES: Final = 64 << 10
MOST_BYTES: Final = 4 << 20
MOST_S: Final = 0.5


def has_records_ahead(
    client: KafkaClient, topic: str, partition: int, leader: Leader, offset: int, lso: int, hi: int
) -> bool | None:
    """Returns whether a group with the committed offset `offset` has a record to read. If that offset is below the LSO,
    only a committed record below the LSO counts; otherwise any record below `hi` (the high watermark) counts. Returns
    None if the batches that were read do not decide this, for example because reading reached MOST_BYTES or MOST_S, the
    offset is not in the log any more, or a batch is damaged.

    Needs READ on the topic. Raises KafkaUnavailable or KafkaRefused.
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
        for batch in read_batches(data, at):
            if isinstance(batch, BadBatch):
                return None
            search.add(piece_of(batch), batch.header.records_count)
            if search.found is not None:
                return search.found
            at = max(at, batch.header.next_offset)
        if at == before and len(data) < size:  # no whole batch came, although there was room for one
            return None
        size = min(size * 4, MOST_BYTES)
    return None if offset < lso or at < hi else False
