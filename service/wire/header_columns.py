"""Reads the headers of record batches, one by one or as columns, and markers; never decodes data records."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

import numpy as np

from service.wire import batches
from service.wire.batches import HEADER_SIZE, LAYOUT, LENGTH_END, MAGIC, Batch, BatchHeader, read_batches
from service.wire.errors import DecodeError
from service.wire.locating import SHORTEST, batch_length, batch_starts
from service.wire.records import OTHER, ControlRecord, read_control
from service.wire.vectors import Bools, Ints, structs


def read_headers(data: bytes) -> Iterator[BatchHeader]:
    """Yields the headers in order, even that of a last batch that is cut after its header. Ends at the first bytes that
    cannot be a header of format 2.

    Checksums are not verified, because they cover whole batches.
    """
    position = 0
    while len(data) - position >= HEADER_SIZE:
        header = BatchHeader._make(LAYOUT.unpack_from(data, position))
        if header.magic != MAGIC or header.length < SHORTEST or header.last_offset_delta < 0 or header.base_offset < 0:
            return
        yield header
        position += LENGTH_END + header.length


_HEADER: Final = np.dtype(
    {
        "names": ["base", "length", "magic", "attributes", "delta", "max_ms", "producer_id", "epoch", "count"],
        "formats": [">i8", ">i4", "u1", ">i2", ">i4", ">i8", ">i8", ">i2", ">i4"],
        "offsets": [0, 8, 16, 21, 23, 35, 43, 51, 57],
        "itemsize": batches.HEADER_SIZE,
    }
)
_HIGHEST_BASE: Final = 2**63 - 2**31 - 1
"""Highest base offset accepted: above it, base + delta + 1 may not fit into an int64."""


class HeaderColumns(NamedTuple):
    """One row per whole batch, in log order; `position` and `size` are bytes of the buffer.

    `records` is the header's count, so that a compressed batch need not be decompressed; `max_timestamp_ms` may be -1.
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
    """Returns a row for each whole batch. Ends before the first batch that cannot be of format 2, or that begins before
    the end of its predecessor.

    Checksums are not verified, because they cover whole batches, payload included.
    """
    starts = _whole(data)
    if not starts.size:
        return HeaderColumns(*(np.zeros(0, np.int64),) * 8, *(np.zeros(0, np.bool_),) * 2)
    header = structs(np.frombuffer(data, np.uint8), starts, _HEADER)
    base, delta = header["base"].astype(np.int64), header["delta"].astype(np.int64)
    behind = np.minimum(base, _HIGHEST_BASE) + delta + 1
    bad = (header["magic"] != batches.MAGIC) | (delta < 0) | (header["count"] < 0)
    bad |= (base < 0) | (base > _HIGHEST_BASE)
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
        producer_epoch=header["epoch"].astype(np.int64),
        is_transactional=(attributes & batches.TRANSACTIONAL) != 0,
        is_control=(attributes & batches.CONTROL) != 0,
    )
    return columns.rows(~np.logical_or.accumulate(bad)) if bad.any() else columns


def marker_at(data: bytes, position: int, size: int) -> ControlRecord | None:
    """Returns the marker in the control batch at `position`; None if the batch is no marker, was emptied by compaction
    or is damaged."""
    try:
        for batch in read_batches(data[position : position + size]):
            if isinstance(batch, Batch):
                control = read_control(batch)
                return None if control is None or control.type == OTHER else control
    except DecodeError:
        pass
    return None


def _whole(data: bytes) -> Ints:
    """Returns the positions of whole batches, without a last one that the Fetch cut."""
    starts = batch_starts(data)
    if not starts.size:
        return starts
    last = int(starts[-1])
    return starts[:-1] if last + batches.LENGTH_END + batch_length(data, last) > len(data) else starts
