"""Decodes the data from which an offset is explained: batches of a partition's log, and the transactions that the store
has of a producer id's owner."""

from __future__ import annotations

from typing import Final

from service.domain.partitions.facts import BatchOffsets, MarkerType, TopicPartition
from service.domain.partitions.offset_spans import SpanBuilder
from service.domain.partitions.open_entries import Owner
from service.domain.partitions.own_transactions import LoggedTransaction
from service.domain.transaction_log.states import ONGOING, PREPARE_COMMIT
from service.wire import records
from service.wire.batches import Batch, read_batches
from service.wire.errors import DecodeError
from service.wire.transaction_log import decode_value

_MARKERS: Final = {records.ABORT: MarkerType.ABORT, records.COMMIT: MarkerType.COMMIT}


def walk_through(walk: SpanBuilder, data: bytes, lo: int) -> int | None:
    """Adds the batches of `data` to the walk until the walk is done. Returns the offset at which reading continues: the
    offset after the last whole batch, or `lo` if no batch is whole. Returns None if no batch can be found after a
    damaged place.

    `lo` lies in the first batch or before it. A batch that cannot be decoded may hold the marker of any transaction, so
    the outcome of every transaction without a marker so far becomes unknown (`SpanBuilder.add_unreadable`). Zeros at
    the end of a file have no such effect: they are preallocated space.
    """
    position = lo
    for batch in read_batches(data, lo):
        if isinstance(batch, Batch):
            walk.add_batch(piece_of(batch))
            position = batch.header.next_offset
        elif batch.size is None and not any(data[batch.position :]):
            break
        else:
            walk.add_unreadable()
            if batch.size is None:
                return None
            if batch.base_offset >= position:  # a broken batch that claims to lie before has wrong offsets
                position = max(position, batch.next_offset)
        if walk.is_done:
            break
    return position


def control_of(batch: Batch) -> records.ControlRecord | None:
    """Returns the record of a control batch; None if compaction emptied the batch, or if the record is broken although
    the batch has a good checksum."""
    try:
        return records.read_control(batch)
    except DecodeError:
        return None


def piece_of(batch: Batch) -> BatchOffsets:
    """Reduces the batch to the values from which an offset is explained. `marker` is None for data, for a control
    record of another type, and for a control batch that compaction emptied or that cannot be decoded."""
    header = batch.header
    marker, at_ms = None, header.base_timestamp_ms
    if header.is_control:
        at_ms = header.max_timestamp_ms
        if (record := control_of(batch)) is not None:
            marker, at_ms = _MARKERS.get(record.type), record.timestamp_ms
    return BatchOffsets(
        header.base_offset,
        header.next_offset,
        header.producer_id,
        header.producer_epoch,
        header.is_transactional,
        header.is_control,
        marker,
        at_ms,
        header.records_count,
    )


def logged_transactions(owner: Owner, producer_id: int, place: TopicPartition) -> list[LoggedTransaction]:
    """Returns the owner's last decided transaction, and the owner's open transaction if the open one has `producer_id`.
    Leaves out a transaction that is not in the store. Returns an empty list if the record of the decided transaction
    cannot be decoded."""
    found = []
    if owner.ended_value is not None:
        try:
            value = decode_value(owner.ended_value)
        except DecodeError:
            return []
        topic, partition = place
        lists = any(name == topic and partition in numbers for name, numbers in value.partitions or ())
        marker = MarkerType.COMMIT if owner.ended_state == PREPARE_COMMIT else MarkerType.ABORT
        found.append(LoggedTransaction(marker, value.producer_epoch, None, value.last_update_ms, None, lists))
    if owner.state == ONGOING and owner.producer_id == producer_id:
        epoch = owner.producer_epoch
        found.append(LoggedTransaction(None, epoch, epoch, -1, None, place in owner.partitions))
    return found
