"""Bytes of a partition's log as the pieces that spans of offsets are made of."""

from __future__ import annotations

from typing import Final

from service.domain.partitions.offset_spans import ABORT, COMMIT, Piece, SpanWalk
from service.wire import control
from service.wire.batches import BadBatch, Batch, read_batches
from service.wire.errors import DecodeError

_MARKERS: Final = {control.ABORT: ABORT, control.COMMIT: COMMIT}


def walk_through(walk: SpanWalk, data: bytes, lo: int) -> int | None:
    """Hands the batches of `data` to the walk until it is done: the offset to read on at, behind the last whole batch
    (`lo` if there is none). None: damage, behind which no batch can be found.

    `lo` lies in the first batch or before it. What cannot be decoded tears the walk; zeros at the end of a file do not,
    they are preallocated and not written yet.
    """
    position = lo
    for one in read_batches(data, lo):
        if isinstance(one, Batch):
            walk.take(piece_of(one))
            position = one.header.next_offset
        elif one.size is None and not any(data[one.position :]):
            break
        else:
            walk.tear()
            if one.size is None:
                return None
            position = max(position, _behind(one, position))
        if walk.is_done:
            break
    return position


def piece_of(batch: Batch) -> Piece:
    header = batch.header
    marker, at_ms = None, header.max_timestamp_ms
    if header.is_control:
        try:
            record = control.read_control(batch)
        except DecodeError:  # a good checksum around a record that is none: a marker of which nobody knows what it said
            record = None
        if record is not None:
            marker, at_ms = _MARKERS.get(record.type), record.timestamp_ms
    return Piece(
        header.base_offset,
        header.next_offset,
        header.producer_id,
        header.producer_epoch,
        header.is_transactional,
        header.is_control,
        marker,
        at_ms,
    )


def _behind(broken: BadBatch, position: int) -> int:
    """Its own offsets are not to be trusted: one that claims to lie before `position` is not believed."""
    return broken.next_offset if broken.base_offset >= position else position
