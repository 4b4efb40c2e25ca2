"""Reads the records inside one batch, and the control records that end transactions.

| field          | type    | note                                            |
|----------------|---------|-------------------------------------------------|
| length         | varint  | bytes after this field                          |
| attributes     | int8    | unused                                          |
| timestampDelta | varlong | to baseTimestamp                                |
| offsetDelta    | varint  | to baseOffset                                   |
| keyLength, key | varint  | -1: null                                        |
| valueLength, value | varint | -1: null                                     |
| headers        | varint n, n * (varint size, UTF-8; varint size, bytes; a value may be null) | skipped |

Source: DefaultRecord.java.

A control record has the key `int16 version, int16 type`. The value of an ABORT or COMMIT is `int16 version, int32
coordinatorEpoch`. Source: ControlRecordType.java, EndTxnMarker.json. A higher version is read like the highest known
version.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from service.wire.batches import Batch, BatchHeader
from service.wire.compression import LIMIT, decompress
from service.wire.cursor import Cursor, wrap
from service.wire.errors import MalformedBatch

ABORT: Final = 0
COMMIT: Final = 1
OTHER: Final = -1
"""Any type of control record other than ABORT and COMMIT: the types of KRaft's own log (2-6), and future types. These
types have nothing to do with transactions."""


class Record(NamedTuple):
    """One record. `timestamp_ms`: the broker's time if the batch has LogAppendTime, else the producer's.
    `leader_epoch`: the batch's partitionLeaderEpoch."""

    offset: int
    timestamp_ms: int
    leader_epoch: int
    key: bytes | None
    value: bytes | None


def read_records(batch: Batch, limit: int = LIMIT) -> list[Record]:
    """Returns all records of a batch. Raises MalformedBatch or BadCodec if the batch cannot be split into records.
    Offsets must rise and stay inside the batch, because positions in the log depend on them."""
    header = batch.header
    if header.records_count == 0:
        if batch.records:
            raise MalformedBatch(f"{len(batch.records)} bytes after the header of an empty batch")
        return []
    cursor = Cursor(decompress(header.codec, batch.records, limit), MalformedBatch)
    records: list[Record] = []
    floor = header.base_offset
    for _ in range(header.records_count):
        record = _read(cursor, header)
        if not floor <= record.offset <= header.last_offset:
            raise MalformedBatch(f"offset {record.offset} outside {floor}..{header.last_offset}")
        floor = record.offset + 1
        records.append(record)
    if cursor.left:
        raise MalformedBatch(f"{cursor.left} bytes after the last record")
    return records


def _read(cursor: Cursor, header: BatchHeader) -> Record:
    length = cursor.varint()
    start = cursor.position
    cursor.int8()
    timestamp_delta = cursor.varlong()
    offset_delta = cursor.varint()
    key = _nullable(cursor)
    value = _nullable(cursor)
    _skip_headers(cursor)
    if cursor.position - start != length:
        raise MalformedBatch(f"a record of {length} bytes has fields of {cursor.position - start} bytes")
    timestamp = (
        header.max_timestamp_ms if header.is_log_append_time else wrap(header.base_timestamp_ms + timestamp_delta, 64)
    )
    return Record(header.base_offset + offset_delta, timestamp, header.leader_epoch, key, value)


def _nullable(cursor: Cursor) -> bytes | None:
    size = cursor.varint()
    return None if size < 0 else cursor.take(size)


def _skip_headers(cursor: Cursor) -> None:
    count = cursor.varint()
    if not 0 <= count <= cursor.left:
        raise MalformedBatch(f"a record claims {count} headers, and {cursor.left} bytes are left")
    for _ in range(count):
        cursor.skip(cursor.varint())
        cursor.skip(max(cursor.varint(), 0))


class ControlRecord(NamedTuple):
    """A control record. `type` is ABORT, COMMIT or OTHER; `coordinator_epoch` is -1 for OTHER."""

    offset: int
    timestamp_ms: int
    type: int
    coordinator_epoch: int


def read_control(batch: Batch) -> ControlRecord | None:
    """Returns the control record of a control batch. The record is a marker unless its type is OTHER. Returns None if
    compaction emptied the batch, because the type is not known then. Raises MalformedBatch or BadCodec if the batch
    cannot be read."""
    records = read_records(batch)
    if not records:
        return None
    record = records[0]
    kind = _versioned(record.key).int16()
    if kind not in (ABORT, COMMIT):
        return ControlRecord(record.offset, record.timestamp_ms, OTHER, -1)
    return ControlRecord(record.offset, record.timestamp_ms, kind, _versioned(record.value).int32())


def _versioned(data: bytes | None) -> Cursor:
    """Returns a cursor at the first byte after the version, with which `data` begins. Raises MalformedBatch if `data`
    is None, or if the version is below 0."""
    if data is None:
        raise MalformedBatch("a control record without key or value")
    cursor = Cursor(data, MalformedBatch)
    version = cursor.int16()
    if version < 0:
        raise MalformedBatch(f"control record version {version} (0 or above expected)")
    return cursor
