"""Reads a piece of a partition for the batches of one producer id: what it wrote there, and what ended it."""

from __future__ import annotations

from typing import Final, NamedTuple

from service.domain.worlds.markers import Marker
from service.kafka.client import KafkaClient
from service.kafka.log_range import LogRange
from service.kafka.metadata import Leader
from service.wire import control
from service.wire.batches import Batch
from service.wire.errors import DecodeError

_OUTCOMES: Final = {control.ABORT: False, control.COMMIT: True}


class DataBatch(NamedTuple):
    """Offsets first to last, the producer epoch under which they were written, and the leader's."""

    first: int
    last: int
    producer_epoch: int
    leader_epoch: int


class BatchesRead(NamedTuple):
    """What one producer id has in [from, reached), in offset order. `is_whole`: all that was asked for was read, and
    nothing was damaged. `unbroken_from`: no offset is missing from there to `reached`."""

    markers: tuple[Marker, ...]
    data: tuple[DataBatch, ...]
    reached: int
    is_whole: bool
    unbroken_from: int


def batches_between(
    client: KafkaClient, topic: str, partition: int, leader: Leader, producer_id: int, lo: int, hi: int
) -> BatchesRead:
    """Those of `producer_id` in [lo, hi), within the bounds of LogRange. Offsets below the log start are not whole.

    Raises KafkaUnavailable, or KafkaRefused (READ on the topic).
    """
    markers: list[Marker] = []
    written: list[DataBatch] = []
    part = LogRange(client, topic, partition, leader, lo, hi)
    for one in part.batches():
        header = one.header
        if header.producer_id != producer_id:
            continue
        if header.is_control:
            markers.append(_marker(one))
        else:
            written.append(
                DataBatch(header.base_offset, header.next_offset - 1, header.producer_epoch, header.leader_epoch)
            )
    return BatchesRead(tuple(markers), tuple(written), part.reached, part.is_whole, part.unbroken_from)


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
