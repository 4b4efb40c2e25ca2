"""Where the batches of a chunk begin: a guess walks from many places at once, and counts only when it is proven."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from service.wire.batches import HEADER_SIZE, LENGTH_END
from service.wire.vectors import Ints

SHORTEST: Final = HEADER_SIZE - LENGTH_END
"""The smallest batchLength that leaves room for a header."""
STRETCH: Final = 1 << 12
"""Bytes, about, of one walk."""
FEWEST_WALKS: Final = 64
"""With fewer side by side the loop is faster."""
MOST_STEPS: Final = 2 * STRETCH // HEADER_SIZE
"""Of one walk; it takes more only where no header is found for long, and there the loop is faster too."""

_LENGTH = struct.Struct(">8xi")
_USUAL_END: Final = b"\xff" * 14 + b"\0\0\0\1"
"""How the headers that coordinators write end: no producer id, epoch and sequence (all -1), one record."""


def batch_length(data: bytes, position: int) -> int:
    """batchLength of what begins at `position`."""
    length: int = _LENGTH.unpack_from(data, position)[0]
    return length


def batch_starts(data: bytes) -> Ints:
    """Where batches begin, from 0 on, up to what cannot be one; the last may be cut.

    Each batch says where the next begins, so only a Python loop over all of them is sure to find them. A guess costs a
    quarter of it, and is taken if it turns out to be what the loop would have found.
    """
    guessed = _guess(data) if len(data) >= FEWEST_WALKS * STRETCH else None
    return np.fromiter(_loop(data), np.int64) if guessed is None else guessed


def _loop(data: bytes) -> Iterator[int]:
    position, last = 0, len(data) - HEADER_SIZE
    while position <= last:
        length = batch_length(data, position)
        if length < SHORTEST:
            return
        yield position
        position += length + LENGTH_END


def _guess(data: bytes) -> Ints | None:
    """Walks from every place that looks like a header up to the next such place; None if that is not one walk."""
    begin = np.array([0, *_lookalikes(data)], np.int64)
    end = np.append(begin[1:], len(data) - HEADER_SIZE + 1)
    length_at: npt.NDArray[Any] = np.ndarray((len(data) - LENGTH_END + 1,), ">i4", data, LENGTH_END - 4, (1,))
    places: list[Ints] = []
    lengths: list[npt.NDArray[Any]] = []
    at = begin
    while (at < end).any():
        if len(places) == MOST_STEPS:
            return None
        places.append(at)
        lengths.append(length_at[at])
        at = np.minimum(at + np.maximum(lengths[-1], SHORTEST) + LENGTH_END, end)
    place = np.stack(places, axis=1)
    walked = place < end[:, None]
    starts, length = place[walked], np.stack(lengths, axis=1)[walked]
    is_one_walk = (starts[1:] == (starts + length + LENGTH_END)[:-1]).all()
    return starts if is_one_walk and length.min() >= SHORTEST else None


def _lookalikes(data: bytes) -> Iterator[int]:
    """Where headers seem to begin, one in each stretch; the same bytes may lie in a value."""
    position = 0
    while (found := data.find(_USUAL_END, position + STRETCH)) >= 0:
        position = found + len(_USUAL_END) - HEADER_SIZE
        yield position
