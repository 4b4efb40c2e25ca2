"""Control records: the markers that end transactions in data partitions.

Key `int16 version, int16 type`; value of ABORT and COMMIT `int16 version, int32 coordinatorEpoch`.
Source: REC/ControlRecordType.java, EndTxnMarker.json. A higher version is read as the highest known one.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from service.wire.batches import Batch
from service.wire.cursor import Cursor
from service.wire.errors import MalformedBatch
from service.wire.records import read_records

ABORT: Final = 0
COMMIT: Final = 1
OTHER: Final = -1
"""Any other type: those of KRaft's own log (2-6) and future ones. They have nothing to do with transactions."""


class ControlRecord(NamedTuple):
    """`type` is ABORT, COMMIT or OTHER; `coordinator_epoch` is -1 for OTHER."""

    offset: int
    timestamp_ms: int
    type: int
    coordinator_epoch: int


def read_control(batch: Batch) -> ControlRecord | None:
    """Returns the marker in a control batch; None if compaction emptied the batch, so that its type is unknown."""
    records = read_records(batch)
    if not records:
        return None
    record = records[0]
    kind = _type(record.key)
    epoch = -1 if kind == OTHER else _coordinator_epoch(record.value)
    return ControlRecord(record.offset, record.timestamp_ms, kind, epoch)


def _type(key: bytes | None) -> int:
    cursor = _versioned(key)
    kind = cursor.int16()
    return kind if kind in (ABORT, COMMIT) else OTHER


def _coordinator_epoch(value: bytes | None) -> int:
    return _versioned(value).int32()


def _versioned(data: bytes | None) -> Cursor:
    """Returns a cursor behind the version. Raises MalformedBatch for null or a version below 0."""
    if data is None:
        raise MalformedBatch("a control record without key or value")
    cursor = Cursor(data, MalformedBatch)
    version = cursor.int16()
    if version < 0:
        raise MalformedBatch(f"control record version {version}")
    return cursor
