"""Reads a piece of a partition for the batches of one producer id: what it wrote there, and what ended it."""

from __future__ import annotations

import time
from typing import Final, NamedTuple

from service.domain.worlds.markers import Marker
from service.kafka.client import KafkaClient
from service.kafka.fetch import fetch_piece
from service.kafka.metadata import Leader
from service.wire import control
from service.wire.batches import BadBatch, Batch, read_batches
from service.wire.errors import DecodeError

FETCH_BYTES: Final = 4 << 20
MAX_BYTES: Final = 64 << 20
MAX_S: Final = 5.0
_OUTCOMES: Final = {control.ABORT: False, control.COMMIT: True}


class DataBatch(NamedTuple):
    """Offsets first to last, the producer epoch under which they were written, and the leader's."""

    first: int
    last: int
    producer_epoch: int
    leader_epoch: int


class BatchesRead(NamedTuple):
    """What one producer id has in [from, reached), in offset order. `is_whole`: all that was asked for was read, and
    nothing was damaged."""

    markers: tuple[Marker, ...]
    data: tuple[DataBatch, ...]
    reached: int
    is_whole: bool


def batches_between(
    client: KafkaClient, topic: str, partition: int, leader: Leader, producer_id: int, lo: int, hi: int
) -> BatchesRead:
    """Those of `producer_id` in [lo, hi), within MAX_BYTES and MAX_S. Offsets below the log start are not whole.

    Raises KafkaUnavailable, or KafkaRefused (READ on the topic).
    """
    markers: list[Marker] = []
    written: list[DataBatch] = []
    at, read, is_whole = lo, 0, True
    size = FETCH_BYTES
    give_up = time.monotonic() + MAX_S
    while at < hi:
        is_too_much = read >= MAX_BYTES or time.monotonic() > give_up
        data = None if is_too_much else fetch_piece(client, topic, leader, partition, at, size)
        if data is None:
            return BatchesRead(tuple(markers), tuple(written), at, False)
        read += len(data)
        before = at
        for one in read_batches(data, at):
            if isinstance(one, BadBatch):
                is_whole = False
                continue
            header = one.header
            if before <= header.base_offset < hi and header.producer_id == producer_id:
                if header.is_control:
                    markers.append(_marker(one))
                else:
                    written.append(
                        DataBatch(
                            header.base_offset, header.next_offset - 1, header.producer_epoch, header.leader_epoch
                        )
                    )
            at = max(at, header.next_offset)
        if at == before:
            if len(data) < size:  # nothing whole came, and it was not for want of room
                return BatchesRead(tuple(markers), tuple(written), at, False)
            size *= 2
    return BatchesRead(tuple(markers), tuple(written), min(at, hi), is_whole)


def _marker(batch: Batch) -> Marker:
    header = batch.header
    try:
        record = control.read_control(batch)
    except DecodeError:
        record = None
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
