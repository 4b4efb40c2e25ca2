"""Reads the headers of record batches, one by one or as columns, and markers; never decodes data records."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from service.wire import batches
from service.wire.batches import HEADER_SIZE, LAYOUT, LENGTH_END, MAGIC, Batch, BatchHeader, read_batches
from service.wire.errors import DecodeError
from service.wire.locating import HEADER, HIGHEST_BASE, SHORTEST, walk
from service.wire.records import OTHER, ControlRecord, read_control
from service.wire.vectors import Bools, Ints, structs


def read_headers(data: bytes) -> Iterator[BatchHeader]:
    """Yields the headers in order, even if the last batch is cut after its header. Ends at the first bytes that cannot
    be a header of format 2. Checksums are not verified, because they cover whole batches."""
    position = 0
    while len(data) - position >= HEADER_SIZE:
        header = BatchHeader._make(LAYOUT.unpack_from(data, position))
        if header.magic != MAGIC or header.length < SHORTEST or header.last_offset_delta < 0 or header.base_offset < 0:
            return
        yield header
        position += LENGTH_END + header.length


class HeaderColumns(NamedTuple):
    """Columns with a row for each whole batch, in log order. `position` and `size`: the place of the batch in the
    buffer, in bytes.

    `records`: the number of records according to the header; nothing is decompressed. `max_timestamp_ms` may be -1.
    """

    position: Ints
    size: Ints
    base_offset: Ints
    next_offset: Ints
    records: Ints
    max_timestamp_ms: Ints
    producer_id: Ints
    producer_epoch: Ints
    is_transactional: Bools
    is_control: Bools

    def rows(self, which: Bools) -> HeaderColumns:
        return HeaderColumns._make(column[which] for column in self)


def header_columns(data: bytes) -> HeaderColumns:
    """Returns a row for each whole batch. Ends before the first batch that is not of format 2, that has an impossible
    offset or count, or that begins below the end of the batch before it.

    Checksums are not verified, because they cover whole batches, payload included.
    """
    starts, _, _ = walk(data)
    if not starts.size:
        return HeaderColumns(*(np.zeros(0, np.int64),) * 8, *(np.zeros(0, np.bool_),) * 2)
    header = structs(np.frombuffer(data, np.uint8), starts, HEADER)
    base, delta = header["base"].astype(np.int64), header["delta"].astype(np.int64)
    behind = np.minimum(base, HIGHEST_BASE) + delta + 1
    bad = (header["magic"] != batches.MAGIC) | (delta < 0) | (header["count"] < 0)
    bad |= (base < 0) | (base > HIGHEST_BASE)
    bad[1:] |= base[1:] < behind[:-1]
    attributes = header["attributes"]
    columns = HeaderColumns(
        position=starts,
        size=header["length"].astype(np.int64) + batches.LENGTH_END,
        base_offset=base,
        next_offset=behind,
        records=header["count"].astype(np.int64),
        max_timestamp_ms=header["max_ms"].astype(np.int64),
        producer_id=header["producer_id"].astype(np.int64),
        producer_epoch=header["producer_epoch"].astype(np.int64),
        is_transactional=(attributes & batches.TRANSACTIONAL) != 0,
        is_control=(attributes & batches.CONTROL) != 0,
    )
    return columns.rows(~np.logical_or.accumulate(bad)) if bad.any() else columns


def marker_at(data: bytes, position: int, size: int) -> ControlRecord | None:
    """Returns the marker in the control batch at `position`. Returns None if the batch has no marker, was emptied by
    compaction, or is damaged."""
    try:
        for batch in read_batches(data[position : position + size]):
            if isinstance(batch, Batch):
                control = read_control(batch)
                return None if control is None or control.type == OTHER else control
    except DecodeError:
        pass
    return None
