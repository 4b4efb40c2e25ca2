"""Numpy primitives that read the same field of many records from one byte buffer.

Positions are int64 arrays. A buffer has PADDING zero bytes after its last record, so that a fixed-size read that begins
inside a record never leaves the buffer. The caller checks afterwards, once per row, that the record was long enough.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
Bytes = npt.NDArray[np.uint8]

PADDING: Final = 64
LONGEST_VARINT: Final = 3
"""Maximum length (bytes) of a number that these functions read. Longer numbers do not occur in a healthy log; the
scalar form reads them."""


BLOCK: Final = 1 << 14
"""Number of rows of one pass: so few that all their columns fit into the cache."""


def blocks(rows: int) -> list[slice]:
    """Returns slices of at most BLOCK rows that cover `rows` rows; at least one slice, also for 0 rows."""
    return [slice(first, first + BLOCK) for first in range(0, max(rows, 1), BLOCK)]


def structs(data: Bytes, at: Ints, layout: np.dtype[Any]) -> npt.NDArray[Any]:
    """Returns the structs of `layout` (big-endian, packed) that begin at `at`, copied into one array."""
    whole = np.dtype(f"V{layout.itemsize}")
    everywhere: npt.NDArray[Any] = np.ndarray((len(data) - layout.itemsize + 1,), whole, data, 0, (1,))
    return everywhere[at].view(layout)


def uvarint(data: Bytes, at: Ints, odd: Bools) -> tuple[Ints, Ints]:
    """Returns (numbers, positions after them). Marks a row in `odd` if its number has more than LONGEST_VARINT
    bytes."""
    byte = data[at]
    number = (byte & 0x7F).astype(np.int64)
    behind = at + 1
    more = np.flatnonzero(byte > 0x7F)
    for shift in range(7, 7 * LONGEST_VARINT, 7):
        if not more.size:
            return number, behind
        byte = data[behind[more]]
        number[more] |= (byte & 0x7F).astype(np.int64) << shift
        behind[more] += 1
        more = more[byte > 0x7F]
    odd[more] = True
    return number, behind


def varint(data: Bytes, at: Ints, odd: Bools) -> tuple[Ints, Ints]:
    """Returns the same as `uvarint`, for zigzag numbers."""
    number, behind = uvarint(data, at, odd)
    return (number >> 1) ^ -(number & 1), behind
