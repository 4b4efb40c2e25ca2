"""Makes Arrow arrays of the byte strings that the decoder found. `service` does without Arrow, whose libraries would be
the largest part of its image."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from service.wire.log_columns import Slices


def byte_strings(slices: Slices) -> pa.BinaryArray:
    """Returns an Arrow array of the slices. The slices may have any order, and must neither overlap nor be null.

    In an Arrow array, strings lie back to back. So the function first makes an array in which the bytes between two
    slices are elements, too. Then it takes every second element, in one pass in C++.
    """
    data, start, size = slices
    count = len(start)
    if not count:
        return pa.array([], pa.binary())
    picked = np.arange(0, 2 * count, 2)
    order = None
    if (start[1:] < start[:-1]).any():
        order = np.argsort(start, kind="stable")
        start, size = start[order], size[order]
        picked[order] = picked.copy()
    borders = np.empty(2 * count, np.int64)
    borders[0::2] = start
    borders[1::2] = start + size
    everything = pa.Array.from_buffers(
        pa.large_binary(), 2 * count - 1, [None, pa.py_buffer(borders), pa.py_buffer(data)]
    )
    return everything.take(pa.array(picked)).cast(pa.binary())
