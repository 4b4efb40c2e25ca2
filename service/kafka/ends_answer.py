"""ListOffsets v5 as bytes: what is asked of one broker, and the numbers out of its answers without an object for each.

| answer  | bytes                                                                          |
|---------|--------------------------------------------------------------------------------|
| all     | int32 throttle time, int32 n, n topics                                         |
| topic   | int16 size, name, int32 n, n partitions                                        |
| partition | int32 index, int16 error, int64 timestamp, int64 offset, int32 leader epoch  |

Source: `ListOffsetsRequest.json`, `ListOffsetsResponse.json`. v5 has leader epochs and throttling, and is the last but
one before compact encodings: every partition has the same size.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from service.kafka.errors import LEADER_NOT_AVAILABLE

API_KEY: Final = 2
VERSION: Final = 5

_NUMBERS = np.dtype([("error", ">i2"), ("timestamp", ">i8"), ("offset", ">i8"), ("leader_epoch", ">i4")])
_INDEX = 4  # bytes of a partition's index, which stands before its numbers
_ASKED = struct.Struct(">iiq")
_I16, _I32 = struct.Struct(">h"), struct.Struct(">i")


def question(wanted: Mapping[str, Sequence[tuple[int, int]]], isolation: int, which: int) -> bytes:
    """The body of a request for offset `which` (LATEST, EARLIEST) of (partition, leader epoch) by topic."""
    parts = [struct.pack(">ibi", -1, isolation, len(wanted))]
    for topic, partitions in wanted.items():
        name = topic.encode()
        parts += [_I16.pack(len(name)), name, _I32.pack(len(partitions))]
        parts += [_ASKED.pack(partition, epoch, which) for partition, epoch in partitions]
    return b"".join(parts)


class AnswerReader:
    """Reads the answers to one question, again and again. A broker gives them in the same order every time, so where
    each partition's numbers stand is found once, and anew when anything but the numbers differs.
    """

    def __init__(self, places: Sequence[tuple[str, int]]) -> None:
        """`places`: the partitions in the order that `read` tells them in."""
        self._order = {place: at for at, place in enumerate(places)}
        self._size = -1

    def read(self, body: bytes) -> tuple[npt.NDArray[np.int16], npt.NDArray[np.int64]]:
        """Error code and offset of each place; one that the answer leaves out has LEADER_NOT_AVAILABLE and -1."""
        data = np.frombuffer(body, np.uint8)
        if data.size != self._size or not np.array_equal(data[self._rest], self._said):
            self._learn(body, data)
        codes = np.full(len(self._order), LEADER_NOT_AVAILABLE, np.int16)
        offsets = np.full(len(self._order), -1, np.int64)
        if self._at.size:
            windows = np.lib.stride_tricks.sliding_window_view(data, _NUMBERS.itemsize)
            numbers = windows[self._at].view(_NUMBERS)[:, 0]
            codes[self._place] = numbers["error"]
            offsets[self._place] = numbers["offset"]
        return codes, offsets

    def _learn(self, body: bytes, data: npt.NDArray[np.uint8]) -> None:
        starts: list[int] = []
        places: list[int] = []
        (topics,) = _I32.unpack_from(body, 4)
        at = 8
        for _ in range(topics):
            (size,) = _I16.unpack_from(body, at)
            name = body[at + 2 : at + 2 + size].decode()
            at += 2 + size
            (count,) = _I32.unpack_from(body, at)
            at += 4
            for start in range(at, at + count * (_INDEX + _NUMBERS.itemsize), _INDEX + _NUMBERS.itemsize):
                place = self._order.get((name, _I32.unpack_from(body, start)[0]))
                if place is not None:
                    starts.append(start + _INDEX)
                    places.append(place)
            at += count * (_INDEX + _NUMBERS.itemsize)
        self._at, self._place = np.array(starts, np.int64), np.array(places, np.int64)
        is_rest = np.ones(data.size, bool)
        is_rest[:4] = False  # the throttle time
        is_rest[(self._at[:, None] + np.arange(_NUMBERS.itemsize)).ravel()] = False
        self._rest = np.flatnonzero(is_rest)
        self._size, self._said = data.size, data[self._rest]
