"""Compares the columnar decoder with a decoder that decodes record by record."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields

import numpy as np

from service.wire import scalar
from service.wire.columns import decode
from service.wire.errors import DecodeError
from service.wire.log_columns import (
    RAW_LIMIT,
    TOMBSTONE,
    UNDECODABLE,
    VALUE,
    Chunk,
    LogColumns,
    Reject,
    Slices,
    ValueColumns,
)
from service.wire.records import Record
from service.wire.transaction_log import TransactionValue, decode_key, decode_value


def assert_same_as_scalar(chunks: Sequence[Chunk]) -> LogColumns:
    """Decodes the chunks by the columnar and by the scalar decoder, checks that both results are equal in every field,
    and returns the result of the columnar decoder."""
    fast, slow = decode(chunks), decode_scalar(chunks)
    for field in fields(LogColumns):
        left, right = getattr(fast, field.name), getattr(slow, field.name)
        if isinstance(left, np.ndarray):
            assert left.dtype == right.dtype, field.name
            assert left.tolist() == right.tolist(), field.name
        elif not isinstance(left, Slices):
            assert left == right, field.name
    for row in range(len(fast)):
        assert fast.values.get(row) == slow.values.get(row)
        assert fast.transactional_ids.get(row) == slow.transactional_ids.get(row)
        assert fast.participants(row) == slow.participants(row)
    return fast


def decode_scalar(chunks: Sequence[Chunk]) -> LogColumns:
    """Decodes the chunks record by record. Returns the columns that `columns.decode` has to return for them."""
    located = [scalar.locate(chunk) for chunk in chunks]
    rejects: list[Reject] = []
    rows: list[tuple[int, Record, bytes, int, TransactionValue | None]] = []
    next_offsets: dict[int, int] = {}
    for chunk, found in zip(chunks, located, strict=True):
        next_offsets[chunk.partition] = max(next_offsets.get(chunk.partition, 0), found.next_offset)
        for record in found.records:
            transactional_id = None
            try:
                transactional_id = decode_key(record.key)
                value = None if record.value is None else decode_value(record.value)
                rows.append((chunk.partition, record, transactional_id, TOMBSTONE if value is None else VALUE, value))
            except DecodeError as error:
                key, raw = (None if one is None else one[:RAW_LIMIT] for one in (record.key, record.value))
                rejects.append(Reject(chunk.partition, record.offset, error.reason, transactional_id, key, raw))
                if transactional_id is not None:
                    rows.append((chunk.partition, record, transactional_id, UNDECODABLE, None))
    fields = ValueColumns.blank(len(rows))
    for index, (*_, decoded) in enumerate(rows):
        if decoded is not None:
            fields.put(index, decoded)
    return LogColumns(
        **fields.by_name(),
        partition=np.array([partition for partition, *_ in rows], np.int32),
        offset=np.array([record.offset for _, record, *_ in rows], np.int64),
        timestamp_ms=np.array([record.timestamp_ms for _, record, *_ in rows], np.int64),
        leader_epoch=np.array([record.leader_epoch for _, record, *_ in rows], np.int32),
        kind=np.array([kind for *_, kind, _ in rows], np.int8),
        transactional_ids=_slices([one for _, _, one, *_ in rows]),
        rejects=tuple(rejects),
        next_offsets=next_offsets,
        broken=tuple(batch for found in located for batch in found.broken),
        batches=sum(found.batches for found in located),
        bytes=sum(found.bytes for found in located),
        values=_slices([record.value for _, record, *_ in rows]),
    )


def _slices(strings: Sequence[bytes | None]) -> Slices:
    size = np.array([-1 if string is None else len(string) for string in strings], np.int64)
    taken = np.maximum(size, 0)
    return Slices(b"".join(string or b"" for string in strings), np.cumsum(taken) - taken, size)
