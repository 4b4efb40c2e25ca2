"""Headers of record batches, without their records: enough to know who wrote, how much, and what was closed."""

from __future__ import annotations

from collections.abc import Iterator

from service.wire.batches import HEADER_SIZE, LAYOUT, LENGTH_END, MAGIC, BatchHeader
from service.wire.starts import SHORTEST


def read_headers(data: bytes) -> Iterator[BatchHeader]:
    """In order, also of a last batch of which only the header is there. Ends at what cannot be a header of format 2.

    Checksums are of whole batches, and so not looked at.
    """
    position = 0
    while len(data) - position >= HEADER_SIZE:
        header = BatchHeader._make(LAYOUT.unpack_from(data, position))
        if header.magic != MAGIC or header.length < SHORTEST or header.last_offset_delta < 0 or header.base_offset < 0:
            return
        yield header
        position += LENGTH_END + header.length
