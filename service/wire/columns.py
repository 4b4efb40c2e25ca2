"""Decodes bulk bytes of `__transaction_state` into columns: many chunks in one numpy pass, unusual ones one by one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from operator import itemgetter
from typing import Any

import numpy as np

from service.wire import locating, scalar
from service.wire.errors import DecodeError
from service.wire.locating import Located
from service.wire.log_columns import (
    RAW_LIMIT,
    TOMBSTONE,
    UNDECODABLE,
    VALUE,
    BrokenBatch,
    Chunk,
    LogColumns,
    Reject,
    Slices,
    ValueColumns,
)
from service.wire.scalar import ChunkTotals, LocatedChunk, chunk_totals, decode_scalar
from service.wire.transaction_log import KEY_VERSION, decode_key, decode_value
from service.wire.values import decode_values
from service.wire.vectors import PADDING, Bools, Ints, byte_strings, structs

__all__ = [
    "RAW_LIMIT",
    "TOMBSTONE",
    "UNDECODABLE",
    "VALUE",
    "BrokenBatch",
    "Chunk",
    "LogColumns",
    "Reject",
    "decode",
    "decode_scalar",
]

_KEY = np.dtype([("version", ">i2"), ("size", ">i2")])


def decode(chunks: Sequence[Chunk]) -> LogColumns:
    """Returns the records of all chunks, ordered by (chunk, offset).

    Input that the vector pass does not support (a compressed, broken or odd batch; a value of an unknown version, with
    tags on its elements, or with a number that is too long) goes through the scalar form. `decode_scalar` returns the
    same result more slowly.
    """
    walk = locating.locate(chunks)
    slow = {index: scalar.locate(chunks[index]) for index in np.flatnonzero(walk.needs_scalar).tolist()}
    records = _joined(walk.records, slow) if slow else walk.records
    readable, id_size = _keys(records)
    rejected = [_unreadable(chunks, records, row) for row in np.flatnonzero(~readable).tolist()]
    if rejected:
        records, id_size = records.rows(readable), id_size[readable]
    ids = byte_strings(records.data, records.key_start + _KEY.itemsize, id_size)
    kind = np.where(records.value_size < 0, TOMBSTONE, VALUE).astype(np.int8)
    values = Slices(records.data, records.value_start, records.value_size)
    fields = ValueColumns.blank(len(kind))
    for row in decode_values(np.frombuffer(records.data, np.uint8), values.start, values.size, fields).tolist():
        try:
            fields.put(row, decode_value(values.get(row) or b""))
        except DecodeError as error:
            kind[row] = UNDECODABLE
            rejected.append(_rejected(chunks, records, row, error, ids[row].as_py()))
    return LogColumns(
        **fields.by_name(),
        partition=np.array([chunk.partition for chunk in chunks], np.int32)[records.chunk],
        offset=records.offset,
        timestamp_ms=records.timestamp_ms,
        leader_epoch=records.leader_epoch,
        kind=kind,
        transactional_ids=ids,
        rejects=tuple(reject for _, reject in sorted(rejected, key=itemgetter(0))),
        **_ends(chunks, walk, slow)._asdict(),
        values=values,
    )


def _keys(records: Located) -> tuple[Bools, Ints]:
    """Returns (True if the key is good, size of the id in it) of every record."""
    head = structs(np.frombuffer(records.data, np.uint8), records.key_start, _KEY)
    size = head["size"].astype(np.int64)
    fits = (size >= 0) & (_KEY.itemsize + size <= records.key_size)
    return fits & (head["version"] == KEY_VERSION), size


PartitionOffset = tuple[int, int]
"""(chunk, offset): rejects are found in two rounds and sorted by this into log order."""


def _unreadable(chunks: Sequence[Chunk], records: Located, row: int) -> tuple[PartitionOffset, Reject]:
    try:
        decode_key(records.key(row))
    except DecodeError as error:
        return _rejected(chunks, records, row, error, None)
    raise AssertionError("the scalar form reads a key that the vector form does not")


def _rejected(
    chunks: Sequence[Chunk], records: Located, row: int, error: DecodeError, transactional_id: bytes | None
) -> tuple[PartitionOffset, Reject]:
    chunk, offset = int(records.chunk[row]), int(records.offset[row])
    key, value = records.key(row), records.value(row)
    return (chunk, offset), scalar.reject(chunks[chunk].partition, offset, error, transactional_id, key, value)


def _ends(chunks: Sequence[Chunk], walk: locating.LocatedChunks, slow: dict[int, LocatedChunk]) -> ChunkTotals:
    walked = zip(walk.next_offset.tolist(), walk.batches.tolist(), walk.bytes.tolist(), strict=True)
    return chunk_totals(chunks, [slow.get(index) or LocatedChunk([], [], *sums) for index, sums in enumerate(walked)])


def _joined(records: Located, slow: dict[int, LocatedChunk]) -> Located:
    """Adds the records that the scalar form found; their keys and values go after the other bytes."""
    ordered = [(index, record) for index, found in slow.items() for record in found.records]
    strings = [string for _, record in ordered for string in (record.key, record.value)]
    size = np.array([-1 if string is None else len(string) for string in strings], np.int64)
    taken = np.maximum(size, 0)
    start = len(records.data) + np.cumsum(taken) - taken
    added = (
        np.array([index for index, _ in ordered], np.int64),
        np.array([record.offset for _, record in ordered], np.int64),
        np.array([record.timestamp_ms for _, record in ordered], np.int64),
        np.array([record.leader_epoch for _, record in ordered], np.int32),
        start[0::2],
        size[0::2],
        start[1::2],
        size[1::2],
    )
    data = b"".join([records.data, *(string or b"" for string in strings), bytes(PADDING)])
    pairs: Iterator[tuple[Any, Any]] = zip(records[1:], added, strict=True)
    both = Located._make([data, *map(np.concatenate, pairs)])
    return both.rows(np.argsort(both.chunk, kind="stable"))
