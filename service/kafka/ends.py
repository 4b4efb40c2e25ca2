"""Requests log start, LSO and high watermark of very many partitions many times a minute, with ListOffsets v4 and v5.

| answer  | bytes                                                                          |
|---------|--------------------------------------------------------------------------------|
| all     | int32 throttle time, int32 n, n topics                                         |
| topic   | int16 size, name, int32 n, n partitions                                        |
| partition | int32 index, int16 error, int64 timestamp, int64 offset, int32 leader epoch  |

Source: `ListOffsetsRequest.json`, `ListOffsetsResponse.json`. v4 and v5 have leader epochs and throttling, and are the
last versions before compact encodings: every partition has the same size.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from service.kafka import errors
from service.kafka.client import KafkaClient
from service.kafka.cluster import TopicLayout
from service.kafka.errors import LEADER_NOT_AVAILABLE
from service.kafka.offsets import EARLIEST, LATEST
from service.kafka.raw import RawAnswer, RawRequest

TIMEOUT_MS: Final = 3_000
"""Time (ms) for which one `sample` waits for all brokers together."""

_UNCOMMITTED, _COMMITTED = 0, 1
_Kind = tuple[int, int]
_KINDS: Final[tuple[_Kind, ...]] = ((_COMMITTED, LATEST), (_UNCOMMITTED, LATEST), (_UNCOMMITTED, EARLIEST))
"""The (isolation level, timestamp) of each request to a broker, in the order of sending: LSO, high watermark, log
start."""
_CODE = len(_KINDS)  # the row of the error code, after the rows of the offsets
_NOTHING = -2  # neither an offset nor a code: differs from every first answer


class Ends(NamedTuple):
    """The offsets of one partition. With an error all three are -1. `log_start` is also -1 if it was not requested."""

    log_start: int
    last_stable_offset: int
    high_watermark: int
    error: int


class EndsWatcher:
    """Asks the leaders of all partitions at once (`sample`). Requests are reused while the layouts are the same."""

    def __init__(self, client: KafkaClient) -> None:
        self._client = client
        self._layouts: dict[str, TopicLayout] = {}
        self._places: list[tuple[str, int]] = []
        self._led: dict[int, _LedPartitions] = {}
        self._numbers = np.empty((len(_KINDS) + 1, 0), np.int64)
        self._ends: dict[tuple[str, int], Ends] = {}
        self.trouble: str | None = None
        """The error, in one line, of a broker without a usable answer to the last `sample`; None if all answered."""

    def sample(self, layouts: Mapping[str, TopicLayout], *, with_start: bool) -> dict[tuple[str, int], Ends]:
        """Returns the ends of every partition of the layouts. Needs DESCRIBE on the topics.

        The LSO is requested before the high watermark. So no open transaction is overlooked, but the offsets from the
        LSO to the high watermark may be of a transaction that began between the two requests.

        Does not raise if a broker does not answer within TIMEOUT_MS: its partitions get LEADER_NOT_AVAILABLE. Later
        calls ask that broker again once it is connected (`KafkaClient.ask_all`).
        """
        if layouts != self._layouts:  # cheap while the values are the same objects
            self._prepare(layouts)
        self._layouts = dict(layouts)
        kinds = _KINDS if with_start else _KINDS[:2]
        numbers = np.full((len(_KINDS) + 1, len(self._places)), -1, np.int64)
        numbers[_CODE] = errors.LEADER_NOT_AVAILABLE
        self.trouble = None
        requests = {node: [led.request(kind) for kind in kinds] for node, led in self._led.items()}
        for node, answers in self._client.ask_all(requests, TIMEOUT_MS).items():
            if isinstance(answers, errors.KafkaFailure):
                self.trouble = str(answers)
                continue
            led = self._led[node]
            try:
                rows = led.read(kinds, answers)
            except ValueError:
                self.trouble = str(self._client.distrust(node, "its answer to ListOffsets cannot be decoded"))
                continue
            numbers[: len(kinds), led.slots], numbers[_CODE, led.slots] = rows[:-1], rows[-1]
        is_missing = (numbers[: len(kinds)] < 0).any(axis=0)
        numbers[_CODE, is_missing & (numbers[_CODE] == errors.NONE)] = errors.OFFSET_NOT_AVAILABLE
        numbers[:_CODE, numbers[_CODE] != errors.NONE] = -1
        return self._updated_ends(numbers)

    def _updated_ends(self, numbers: npt.NDArray[np.int64]) -> dict[tuple[str, int], Ends]:
        """Returns the ends as objects. Makes new objects only for partitions that changed: making all objects would
        cost more than the rest of `sample`."""
        changed = np.flatnonzero((numbers != self._numbers).any(axis=0))
        for slot, (end, watermark, start, code) in zip(changed.tolist(), numbers[:, changed].T.tolist(), strict=True):
            self._ends[self._places[slot]] = Ends(start, end, watermark, code)
        self._numbers = numbers
        return self._ends.copy()

    def _prepare(self, layouts: Mapping[str, TopicLayout]) -> None:
        self._places = [(topic, p) for topic, layout in layouts.items() for p in layout.leaders]
        self._numbers = np.full((len(_KINDS) + 1, len(self._places)), _NOTHING, np.int64)
        self._ends = dict.fromkeys(self._places, Ends(-1, -1, -1, errors.LEADER_NOT_AVAILABLE))
        wanted: dict[int, dict[str, list[tuple[int, int]]]] = {}
        slots: dict[int, list[int]] = {}
        for slot, (topic, p) in enumerate(self._places):
            leader = layouts[topic].leaders[p]
            if leader.node >= 0:
                wanted.setdefault(leader.node, {}).setdefault(topic, []).append((p, leader.epoch))
                slots.setdefault(leader.node, []).append(slot)
        version = max(min(self._client.version_of(API_KEY), NEWEST), OLDEST)
        self._led = {node: _LedPartitions(of_node, slots[node], version) for node, of_node in wanted.items()}


class _LedPartitions:
    """The partitions that one broker leads, with the requests for them and the readers of the broker's answers.
    `slots`: positions of these partitions among all that are watched."""

    def __init__(self, wanted: Mapping[str, Sequence[tuple[int, int]]], slots: Sequence[int], version: int) -> None:
        self._version = version
        places = [(topic, p) for topic, of_topic in wanted.items() for p, _ in of_topic]
        self.slots = np.array(slots, np.int64)
        self.readers = {kind: AnswerReader(places) for kind in _KINDS}
        self._bodies = {kind: request_body(wanted, *kind) for kind in _KINDS}

    def request(self, kind: _Kind) -> RawRequest:
        return RawRequest(API_KEY, self._version, self._bodies[kind], is_flexible=False)

    def read(self, kinds: Sequence[_Kind], answers: Sequence[RawAnswer]) -> npt.NDArray[np.int64]:
        """Returns one row of offsets for each kind, and a last row with the first error code of each partition. Raises
        ValueError for bytes that are no answer."""
        rows = np.zeros((len(kinds) + 1, len(self.slots)), np.int64)
        for row, (kind, answer) in enumerate(zip(kinds, answers, strict=True)):
            codes, rows[row] = self.readers[kind].read(answer.body)
            rows[-1] = np.where(rows[-1], rows[-1], codes)
        return rows


API_KEY: Final = 2
OLDEST: Final = 4
NEWEST: Final = 5
"""Highest version of ListOffsets that is used. v4 and v5 have the same bytes; v5, of Kafka 2.2 and later, may answer
OFFSET_NOT_AVAILABLE."""

_NUMBERS = np.dtype([("error", ">i2"), ("timestamp", ">i8"), ("offset", ">i8"), ("leader_epoch", ">i4")])
_INDEX = 4  # bytes of a partition's index, which precedes its numbers
_ASKED = struct.Struct(">iiq")
_I16, _I32 = struct.Struct(">h"), struct.Struct(">i")


def request_body(wanted: Mapping[str, Sequence[tuple[int, int]]], isolation: int, which: int) -> bytes:
    """Returns the body of a request for the offset `which` (LATEST or EARLIEST) of partitions. `wanted`: a mapping from
    topic to pairs of a partition and its leader epoch."""
    parts = [struct.pack(">ibi", -1, isolation, len(wanted))]
    for topic, partitions in wanted.items():
        name = topic.encode()
        parts += [_I16.pack(len(name)), name, _I32.pack(len(partitions))]
        parts += [_ASKED.pack(partition, epoch, which) for partition, epoch in partitions]
    return b"".join(parts)


class AnswerReader:
    """Reads the answers to one request that is sent many times. A broker answers in the same order every time, so the
    positions of the error codes and offsets in the answer are computed once, and computed again only if another byte of
    the answer has changed."""

    def __init__(self, places: Sequence[tuple[str, int]]) -> None:
        """`places`: the partitions, in the order of the arrays that `read` returns."""
        self._order = {place: at for at, place in enumerate(places)}
        self._size = -1

    def read(self, body: bytes) -> tuple[npt.NDArray[np.int16], npt.NDArray[np.int64]]:
        """Returns the error codes and the offsets of the partitions, in the order of `places`. A partition that the
        answer omits gets LEADER_NOT_AVAILABLE and -1.
        Raises ValueError for bytes that are no answer."""
        data = np.frombuffer(body, np.uint8)
        if data.size != self._size or not np.array_equal(data[self._frame_at], self._frame):
            try:
                self._locate(body, data)
            except (struct.error, IndexError) as e:
                raise ValueError("no answer to ListOffsets") from e
        codes = np.full(len(self._order), LEADER_NOT_AVAILABLE, np.int16)
        offsets = np.full(len(self._order), -1, np.int64)
        if self._at.size:
            windows = np.lib.stride_tricks.sliding_window_view(data, _NUMBERS.itemsize)
            numbers = windows[self._at].view(_NUMBERS)[:, 0]
            codes[self._place] = numbers["error"]
            offsets[self._place] = numbers["offset"]
        return codes, offsets

    def _locate(self, body: bytes, data: npt.NDArray[np.uint8]) -> None:
        starts: list[int] = []
        places: list[int] = []
        topics = _count(_I32, body, 4)
        at = 8
        for _ in range(topics):
            size = _count(_I16, body, at)
            name = body[at + 2 : at + 2 + size].decode()
            at += 2 + size
            count = _count(_I32, body, at)
            at += 4
            for start in range(at, at + count * (_INDEX + _NUMBERS.itemsize), _INDEX + _NUMBERS.itemsize):
                place = self._order.get((name, _I32.unpack_from(body, start)[0]))
                if place is not None:
                    starts.append(start + _INDEX)
                    places.append(place)
            at += count * (_INDEX + _NUMBERS.itemsize)
        self._at, self._place = np.array(starts, np.int64), np.array(places, np.int64)
        is_frame = np.ones(data.size, bool)
        is_frame[:4] = False  # the throttle time
        is_frame[(self._at[:, None] + np.arange(_NUMBERS.itemsize)).ravel()] = False
        self._frame_at = np.flatnonzero(is_frame)
        self._size, self._frame = data.size, data[self._frame_at]


def _count(field: struct.Struct, body: bytes, at: int) -> int:
    """Returns the number of elements, or of bytes of a name, that is encoded at offset `at` of `body`. Raises
    ValueError if the number is negative or larger than the body, struct.error if the body ends too early."""
    (count,) = field.unpack_from(body, at)
    if not 0 <= count <= len(body):
        raise ValueError(f"a body of {len(body)} bytes claims to have {count} elements")
    return int(count)
