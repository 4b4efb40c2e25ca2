"""Finds where the batches of a chunk begin: walks from many guessed places at once, then checks that the walks join."""

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
"""Bytes that one walk covers, approximately."""
FEWEST_WALKS: Final = 64
"""Minimum number of walks side by side; with fewer, the loop is faster."""
MOST_STEPS: Final = 2 * STRETCH // HEADER_SIZE
"""Maximum steps of one walk. More are needed only where no header is found for long; there the loop is faster too."""

_LENGTH = struct.Struct(">8xi")
_USUAL_END: Final = b"\xff" * 14 + b"\0\0\0\1"
"""The end of the headers that coordinators write: no producer id, epoch and sequence (all -1), one record."""


def batch_length(data: bytes, position: int) -> int:
    """Returns the batchLength of the batch that begins at `position`."""
    length: int = _LENGTH.unpack_from(data, position)[0]
    return length


def batch_starts(data: bytes) -> Ints:
    """Returns the positions of the batches, up to the first bytes that cannot be a batch; the last batch may be cut.

    Each batch gives only the start of the next one, so only a Python loop over all of them is certain to find them. The
    guess takes a quarter of the loop's time. Its result is used if it proves equal to the loop's.
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
    """Walks from each place that looks like a header to the next one; returns None if they do not join into one."""
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
    """Yields positions where headers seem to begin, one in each stretch; a value may contain the same bytes."""
    position = 0
    while (found := data.find(_USUAL_END, position + STRETCH)) >= 0:
        position = found + len(_USUAL_END) - HEADER_SIZE
        yield position
