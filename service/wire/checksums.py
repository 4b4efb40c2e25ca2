"""Checks the CRC-32C of many batches with one call of the C library.

A CRC is linear, and a call costs ten times as much as the bytes of a small batch. So the headers between the
checksummed parts are replaced, in a copy, by bytes that take the CRC register from the value it must have at the end of
the batch before (its written CRC) to the value it has at the start of a message; then one CRC over everything ends in
the CRC of the last batch exactly if all are right. Any wrong batch leaves a difference in the register that later bytes
move around but never clear, except where two errors cancel, which is as likely as one CRC missing an error.

Patch of the 21 bytes: the register (4 bytes, which bring it to zero), 13 zeros (it stays zero), WAKE (4 bytes that
bring it from zero to all ones).
"""

from __future__ import annotations

from typing import Final

import google_crc32c
import numpy as np
import numpy.typing as npt

from service.wire.batches import CRC_FROM
from service.wire.vectors import Bools, Bytes, Ints

ALL_ONES: Final = 0xFFFFFFFF
BLOCK: Final = 1 << 20
"""Bytes that one call checks, approximately: few enough that copies stay in the cache and a bad batch is found soon."""


def _wake() -> int:
    """Returns the 4 bytes (little-endian) that take a zero register to all ones: runs the CRC backwards, bit by bit."""
    register = ALL_ONES
    for _ in range(32):
        register = ((register ^ 0x82F63B78) << 1 | 1) if register & 0x80000000 else register << 1
    return register


_PATCH = np.dtype([("register", "<u4"), ("zeros", "V13"), ("wake", "<u4")])
_WAKE: Final = _wake()


def wrong(data: Bytes, start: Ints, size: Ints, crc: npt.NDArray[np.uint32]) -> Bools:
    """Returns True for each batch with a CRC-32C other than `crc`. The batches lie back to back in `data`."""
    bad = np.zeros(len(start), np.bool_)
    first = 0
    while first < len(start):
        last = int(np.searchsorted(start, start[first] + BLOCK))
        block = slice(first, max(last, first + 1))
        if not _all_right(data, start[block], size[block], crc[block]):
            for row in range(*block.indices(len(start))):
                begin = int(start[row])
                covered = data[begin + CRC_FROM : begin + int(size[row])].tobytes()
                bad[row] = google_crc32c.value(covered) != crc[row]
        first = block.stop
    return bad


def _all_right(data: Bytes, start: Ints, size: Ints, crc: npt.NDArray[np.uint32]) -> bool:
    begin = start[0]
    copy = data[begin : start[-1] + size[-1]].copy()
    patches = np.zeros(len(start), _PATCH)
    patches["register"][0] = ALL_ONES
    patches["register"][1:] = crc[:-1] ^ np.uint32(ALL_ONES)
    patches["wake"] = _WAKE
    raw = np.dtype(f"V{CRC_FROM}")
    everywhere: npt.NDArray[np.void] = np.ndarray((len(copy) - CRC_FROM + 1,), raw, copy, 0, (1,))
    everywhere[start - begin] = patches.view(raw)
    found: int = google_crc32c.value(copy)
    return found == int(crc[-1])
