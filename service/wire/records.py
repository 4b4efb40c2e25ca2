"""Reads the records inside one batch.

| field          | type    | note                                            |
|----------------|---------|-------------------------------------------------|
| length         | varint  | bytes behind this field                         |
| attributes     | int8    | unused                                          |
| timestampDelta | varlong | to baseTimestamp                                |
| offsetDelta    | varint  | to baseOffset                                   |
| keyLength, key | varint  | -1: null                                        |
| valueLength, value | varint | -1: null                                     |
| headers        | varint n, n * (varint size, UTF-8; varint size, bytes; a value may be null) | stepped over |

Source: REC/DefaultRecord.java.
"""

from __future__ import annotations

from typing import NamedTuple

from service.wire.batches import Batch, BatchHeader
from service.wire.compression import LIMIT, decompress
from service.wire.cursor import Cursor, wrap
from service.wire.errors import MalformedBatch


class Record(NamedTuple):
    """One record. If the batch has LogAppendTime, `timestamp_ms` is the broker's time."""

    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None


def read_records(batch: Batch, limit: int = LIMIT) -> list[Record]:
    """Returns all records of a batch. Raises MalformedBatch or BadCodec if its bytes cannot be split into records.

    Offsets must rise and stay inside the batch, because positions in the log depend on them.
    """
    header = batch.header
    if header.records_count == 0:
        if batch.records:
            raise MalformedBatch(f"{len(batch.records)} bytes behind the header of an empty batch")
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
        raise MalformedBatch(f"{cursor.left} bytes behind the last record")
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
        raise MalformedBatch(f"a record of {length} bytes took {cursor.position - start}")
    timestamp = (
        header.max_timestamp_ms if header.is_log_append_time else wrap(header.base_timestamp_ms + timestamp_delta, 64)
    )
    return Record(header.base_offset + offset_delta, timestamp, key, value)


def _nullable(cursor: Cursor) -> bytes | None:
    size = cursor.varint()
    return None if size < 0 else cursor.take(size)


def _skip_headers(cursor: Cursor) -> None:
    count = cursor.varint()
    if not 0 <= count <= cursor.left:
        raise MalformedBatch(f"{count} record headers, {cursor.left} bytes left")
    for _ in range(count):
        cursor.skip(cursor.varint())
        cursor.skip(max(cursor.varint(), 0))
