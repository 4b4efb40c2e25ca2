"""Decodes bytes of `__transaction_state` into columns: many chunks in one numpy pass, and unusual chunks and values one
by one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from operator import itemgetter
from typing import Any, Final

import numpy as np

from service.wire import locating, scalar
from service.wire.errors import DecodeError
from service.wire.locating import Located
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
from service.wire.scalar import LocatedChunk
from service.wire.transaction_log import (
    CLIENT_TRANSACTION_VERSION,
    KEY_VERSION,
    LAST_STATUS,
    NEXT_PRODUCER_EPOCH,
    NEXT_PRODUCER_ID,
    PREVIOUS_PRODUCER_ID,
    decode_key,
    decode_value,
)
from service.wire.vectors import PADDING, Bools, Bytes, Ints, blocks, structs, uvarint

_FIXED = np.dtype([("version", ">i2"), ("pid", ">i8"), ("epoch", ">i2"), ("timeout", ">i4"), ("status", "i1")])
_TIMES = np.dtype([("update", ">i8"), ("start", ">i8")])
_I16 = np.dtype(">i2")
_I32 = np.dtype(">i4")
_I64 = np.dtype(">i8")

_TAGS: Final[dict[int, tuple[str, np.dtype[Any], int]]] = {
    PREVIOUS_PRODUCER_ID: ("previous_producer_id", _I64, -1),
    NEXT_PRODUCER_ID: ("next_producer_id", _I64, -1),
    CLIENT_TRANSACTION_VERSION: ("client_transaction_version", _I16, 0),
    NEXT_PRODUCER_EPOCH: ("next_producer_epoch", _I16, -1),
}
_USUAL_TAGS = np.dtype(
    [
        ("first", ">u2"),
        ("size", "u1"),
        ("previous_producer_id", ">i8"),
        ("second", ">u2"),
        ("client_transaction_version", ">i2"),
    ]
)
"""The layout of a section with two tagged fields: tag 0 (8 bytes) and tag 2 (2 bytes). Kafka 4.3 and later write such a
section for every client of transaction.version 2. Reading the section in one step makes decoding a tenth faster."""

SHORTEST: Final = 35
"""Size (bytes) of the smallest value: version 1, a null array and no tags. The smallest value of version 0 has 37."""
MOST_TOPICS: Final = 64
MOST_TAGS: Final = 8
"""If a value has more than MOST_TOPICS topics or MOST_TAGS tags, a Python loop over this value is cheaper than a numpy
pass for each topic or tag."""


def decode_values(data: Bytes, start: Ints, size: Ints, into: ValueColumns) -> Ints:
    """Decodes every ordinary value into `into`, and skips null values (size below 0). Returns the rows of all other
    values."""
    done = size < 0
    for block in blocks(len(size)):
        begin, length = start[block], size[block]
        written = structs(data, begin, _I16)
        for version in (0, 1):
            rows = np.flatnonzero((written == version) & (length >= SHORTEST))
            if rows.size:
                _decode_version(version, data, begin[rows], length[rows], into.rows(block), rows, done[block])
    return np.flatnonzero(~done)


def _decode_version(
    version: int, data: Bytes, start: Ints, size: Ints, into: ValueColumns, rows: Ints, done: Bools
) -> None:
    """Decodes values of one version into the rows `rows` of `into`. Marks the decoded rows in `done`."""
    end = start + size
    fixed = structs(data, start, _FIXED)
    odd: Bools = (fixed["status"] < 0) | (fixed["status"] > LAST_STATUS)
    topics, at = _length(version, data, start + _FIXED.itemsize, _I32, odd)
    odd |= topics > MOST_TOPICS
    partitions = _skip_partitions(version, data, at, end, topics, odd)
    times = structs(data, np.minimum(at, end), _TIMES)
    at += _TIMES.itemsize
    tagged = _tagged(data, at, end, odd) if version else {}
    odd |= at > end
    good = np.flatnonzero(~odd)
    done[rows[good]] = True
    columns = {
        "producer_id": fixed["pid"],
        "producer_epoch": fixed["epoch"],
        "timeout_ms": fixed["timeout"],
        "status": fixed["status"],
        "last_update_ms": times["update"],
        "start_ms": times["start"],
        "partition_count": partitions,
        **tagged,
    }
    target = slice(None) if len(good) == len(done) else rows[good]
    for name, column in columns.items():
        getattr(into, name)[target] = column if len(good) == len(rows) else column[good]


def _length(version: int, data: Bytes, at: Ints, v0: np.dtype[Any], odd: Bools) -> tuple[Ints, Ints]:
    """Returns the length of an array or text (below 0: null), and the position after the length. `v0`: the type of the
    length in version 0."""
    if version == 0:
        return structs(data, at, v0).astype(np.int64), at + v0.itemsize
    number, behind = uvarint(data, at, odd)
    return number - 1, behind


def _skip_partitions(version: int, data: Bytes, at: Ints, end: Ints, topics: Ints, odd: Bools) -> Ints:
    """Moves `at` past the topics; each pass skips one topic of every row. Returns the number of partitions per row."""
    partitions = np.zeros(len(at), np.int64)
    active = np.flatnonzero((topics > 0) & ~odd)
    while active.size:
        here, stop = at[active], end[active]
        strange = np.zeros(len(active), np.bool_)
        size, here = _length(version, data, here, _I16, strange)
        strange |= (size < 0) | (size > stop - here)
        count, here = _length(version, data, np.where(strange, stop, here + size), _I32, strange)
        strange |= (count < 0) | (count > (stop - here) >> 2)
        here = np.where(strange, stop, here + 4 * count)
        if version:
            strange |= data[here] != 0
            here += 1
        partitions[active] += count
        at[active] = here
        odd[active[strange]] = True
        topics[active] -= 1
        active = active[(topics[active] > 0) & ~strange]
    return partitions


def _tagged(data: Bytes, at: Ints, end: Ints, odd: Bools) -> dict[str, Ints]:
    """Moves `at` past the tagged fields; returns the columns of the known tags."""
    here = np.minimum(at, end)
    usual = structs(data, here, _USUAL_TAGS)
    is_usual = (usual["first"] == 0x0200) & (usual["size"] == 8) & (usual["second"] == 0x0202)
    found = {name: np.full(len(at), default, np.int64) for name, _, default in _TAGS.values()}
    for name in ("previous_producer_id", "client_transaction_version"):
        np.copyto(found[name], usual[name], where=is_usual)
    here[is_usual] += _USUAL_TAGS.itemsize
    _tag_by_tag(data, here, end, odd, np.flatnonzero(~is_usual), found)
    at[:] = here
    return found


def _tag_by_tag(data: Bytes, at: Ints, end: Ints, odd: Bools, rows: Ints, found: dict[str, Ints]) -> None:
    """Moves `at` past the tagged fields of `rows`. Each pass reads the next field of every row. Fills `found`."""
    strange = np.zeros(len(rows), np.bool_)
    tags, at[rows] = uvarint(data, at[rows], strange)
    odd[rows] |= strange | (tags > MOST_TAGS)
    more = (tags > 0) & ~odd[rows]
    while more.any():
        rows, tags = rows[more], tags[more] - 1
        here, stop = at[rows], end[rows]
        strange = np.zeros(len(rows), np.bool_)
        tag, here = uvarint(data, here, strange)
        size, here = uvarint(data, here, strange)
        strange |= size > stop - here
        for number, (name, layout, _) in _TAGS.items():
            mine = np.flatnonzero(tag == number)
            if mine.size:
                strange[mine] |= size[mine] != layout.itemsize
                found[name][rows[mine]] = structs(data, here[mine], layout)
        at[rows] = np.where(strange, stop, here + size)
        odd[rows[strange]] = True
        more = (tags > 0) & ~strange


_KEY = np.dtype([("version", ">i2"), ("size", ">i2")])


def decode(chunks: Sequence[Chunk]) -> LogColumns:
    """Returns the records of all chunks, ordered by (chunk, offset).

    The scalar form decodes what the vector pass does not support: a whole chunk that is not ordinary
    (`service.wire.locating`), or a single value. Such a value is malformed, or has an unknown version or status,
    tags on its array elements, more than MOST_TOPICS topics or MOST_TAGS tags, or a number of more than LONGEST_VARINT
    bytes.
    """
    walk = locating.locate(chunks)
    slow = {index: scalar.locate(chunks[index]) for index in np.flatnonzero(walk.needs_scalar).tolist()}
    records = _joined(walk.records, slow) if slow else walk.records
    readable, id_size = _keys(records)
    rejected = [_unreadable(chunks, records, row) for row in np.flatnonzero(~readable).tolist()]
    if rejected:
        records, id_size = records.rows(readable), id_size[readable]
    ids = Slices(records.data, records.key_start + _KEY.itemsize, id_size)
    kind = np.where(records.value_size < 0, TOMBSTONE, VALUE).astype(np.int8)
    values = Slices(records.data, records.value_start, records.value_size)
    fields = ValueColumns.blank(len(kind))
    for row in decode_values(np.frombuffer(records.data, np.uint8), values.start, values.size, fields).tolist():
        try:
            fields.put(row, decode_value(values.get(row) or b""))
        except DecodeError as error:
            kind[row] = UNDECODABLE
            rejected.append(_rejected(chunks, records, row, error, ids.get(row)))
    walked = zip(walk.next_offset.tolist(), walk.batches.tolist(), walk.bytes.tolist(), strict=True)
    located = [slow.get(index) or LocatedChunk([], [], *sums) for index, sums in enumerate(walked)]
    next_offsets: dict[int, int] = {}
    for chunk, found in zip(chunks, located, strict=True):
        next_offsets[chunk.partition] = max(next_offsets.get(chunk.partition, 0), found.next_offset)
    return LogColumns(
        **fields.by_name(),
        partition=np.array([chunk.partition for chunk in chunks], np.int32)[records.chunk],
        offset=records.offset,
        timestamp_ms=records.timestamp_ms,
        leader_epoch=records.leader_epoch,
        kind=kind,
        transactional_ids=ids,
        rejects=tuple(reject for _, reject in sorted(rejected, key=itemgetter(0))),
        next_offsets=next_offsets,
        broken=tuple(batch for found in located for batch in found.broken),
        batches=sum(found.batches for found in located),
        bytes=sum(found.bytes for found in located),
        values=values,
    )


def _keys(records: Located) -> tuple[Bools, Ints]:
    """Returns, for every record, (whether its key is good, size of the id in the key)."""
    head = structs(np.frombuffer(records.data, np.uint8), records.key_start, _KEY)
    size = head["size"].astype(np.int64)
    fits = (size >= 0) & (_KEY.itemsize + size <= records.key_size)
    return fits & (head["version"] == KEY_VERSION), size


PartitionOffset = tuple[int, int]
"""(chunk, offset) of a reject. Rejects are found in two passes, and then sorted into log order by these pairs."""


def _unreadable(chunks: Sequence[Chunk], records: Located, row: int) -> tuple[PartitionOffset, Reject]:
    try:
        decode_key(records.key(row))
    except DecodeError as error:
        return _rejected(chunks, records, row, error, None)
    raise AssertionError("the scalar form can read a key that the vector form rejected")


def _rejected(
    chunks: Sequence[Chunk], records: Located, row: int, error: DecodeError, transactional_id: bytes | None
) -> tuple[PartitionOffset, Reject]:
    chunk, offset = int(records.chunk[row]), int(records.offset[row])
    raw = (None if one is None else one[:RAW_LIMIT] for one in (records.key(row), records.value(row)))
    return (chunk, offset), Reject(chunks[chunk].partition, offset, error.reason, transactional_id, *raw)


def _joined(records: Located, slow: dict[int, LocatedChunk]) -> Located:
    """Returns `records` together with the records that the scalar form found (`slow`), ordered by chunk. In the
    result's buffer, the keys and values from `slow` follow the bytes of `records`."""
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
