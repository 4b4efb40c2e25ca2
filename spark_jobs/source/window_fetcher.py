"""Fetches windows of batch headers; a window begins at an LSO. A batch that was read is not fetched again, so that a
long stall costs little."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from service.domain.partitions.facts import PartitionEnds
from service.domain.reasons.reason import Reason
from service.domain.reasons.unread import READ, ErrorAnswer, NoBatchAtLso, NoPermission
from service.kafka import errors
from service.kafka.client import KafkaClient
from service.kafka.fetch import Fetched, PartitionFetch, fetch_many
from spark_jobs.source.window import Key, Window, WindowCache

SMALL: Final = 1 << 20
"""Approximate maximum number of bytes of one partition that are read to measure the data behind the LSO."""
LARGE: Final = 8 << 20
"""Replaces the limit SMALL if DescribeProducers failed, is denied, or is unknown to the broker (before Kafka 2.8),
because then only the batches show the open transactions."""
BUDGET: Final = 32 << 20
"""Approximate bytes that one task fetches from one leader; the next task continues from there."""

_FIRST_ROUNDS: Final = ((16 << 10, 256), (2 << 20, 4), (8 << 20, 1))
_MORE_ROUNDS: Final = ((256 << 10, 32), (2 << 20, 4), (8 << 20, 1))
"""Rounds of fetches after those of _FIRST_ROUNDS, each as (bytes of each partition, partitions in one request). A
broker sends a batch above the limit only as the first batch of its response (KIP-74). So partitions that returned
nothing are fetched again with a higher limit, and in the last round one at a time."""
_RESPONSE_BYTES: Final = 8 << 20
_TIMEOUT_MS: Final = 5_000
_NOTHING: Final = (0, False)


@dataclass(slots=True)
class WindowRead:
    """The result of one read of a partition. `window` is None if retention removed the records at the LSO, or if the
    broker did not answer. `why`: the reason for which not all bytes could be read.

    `has_moved`: True if the partition has another LSO by now.
    """

    window: Window | None
    why: Reason | None = None
    has_moved: bool = False


class WindowFetcher:
    """The windows of one cluster, keyed by (topic id, partition, LSO). They are extended as the high watermark
    advances."""

    def __init__(self, cache: WindowCache) -> None:
        self._cache = cache

    def read(
        self, client: KafkaClient, node: int, requests: Sequence[PartitionEnds], limits: Mapping[PartitionEnds, int]
    ) -> dict[PartitionEnds, WindowRead]:
        """Returns the result for each of `requests`, whose partitions `node` leads. Each window is read up to the
        number of bytes in `limits`. Raises KafkaUnavailable or KafkaRefused; the bytes read until then are kept."""
        known = self._cache.find(_key(request) for request in requests)
        before = {key: _progress(window) for key, window in known.items()}
        reads = {request: WindowRead(_window(request, known)) for request in requests}
        try:
            self._fetch(client, node, reads, limits)
        finally:
            windows = {_key(request): read.window for request, read in reads.items()}
            self._cache.keep({key: w for key, w in windows.items() if w and _progress(w) != before.get(key, _NOTHING)})
        return reads

    def _fetch(
        self,
        client: KafkaClient,
        node: int,
        reads: Mapping[PartitionEnds, WindowRead],
        limits: Mapping[PartitionEnds, int],
    ) -> None:
        fetching = _Fetching(client, node, reads)
        fetching.advance(
            [request for request, read in reads.items() if read.window and not read.window.first], _FIRST_ROUNDS
        )
        more = [*reads]
        while more := [request for request in more if _wants_more(request, reads[request], limits[request])]:
            more = fetching.advance(more, _MORE_ROUNDS)
        for read in reads.values():
            if read.window is not None and read.window.first is None:
                read.why = read.why or NoBatchAtLso()


def _key(request: PartitionEnds) -> Key:
    return Key(request.topic_id, request.partition, request.last_stable_offset)


def _window(request: PartitionEnds, known: Mapping[Key, Window]) -> Window | None:
    """Returns the known window, or an empty one. Returns None if retention removed the records at the LSO, so that
    there is nothing to fetch."""
    if request.last_stable_offset < request.log_start:
        return None
    return known.get(_key(request)) or Window(request.last_stable_offset)


def _progress(window: Window) -> tuple[int, bool]:
    """Returns a value that changes whenever something was read."""
    return window.size, window.is_broken


def _wants_more(request: PartitionEnds, read: WindowRead, limit: int) -> bool:
    window = read.window
    return (
        window is not None
        and not (window.is_broken or read.why or read.has_moved)
        and window.next_offset < request.high_watermark
        and window.size < limit
    )


class _Fetching:
    """The fetches of one task from one leader, within BUDGET."""

    def __init__(self, client: KafkaClient, node: int, reads: Mapping[PartitionEnds, WindowRead]) -> None:
        self._client, self._node, self._reads = client, node, reads
        self._spent = 0

    def advance(self, requests: Sequence[PartitionEnds], rounds: Sequence[tuple[int, int]]) -> list[PartitionEnds]:
        """Fetches for each of `requests`, until BUDGET is spent. `rounds`: for each round, the pair (bytes of each
        partition, partitions in one request). A round repeats the requests that returned nothing in the round before.
        Returns the requests whose window is longer now."""
        todo = list(requests)
        extended: list[PartitionEnds] = []
        for size, at_once in rounds:
            empty = []
            for begin in range(0, len(todo), at_once):
                if self._spent >= BUDGET:
                    return extended
                for request, answer in self._fetch(todo[begin : begin + at_once], size):
                    if self._apply(request, answer):
                        extended.append(request)
                    elif not answer.error:
                        empty.append(request)
            todo = empty
        return extended

    def _fetch(self, requests: Sequence[PartitionEnds], size: int) -> Iterator[tuple[PartitionEnds, Fetched]]:
        wanted: dict[str, list[PartitionFetch]] = {}
        for request in requests:
            window = self._reads[request].window
            assert window is not None
            wanted.setdefault(request.topic, []).append(
                PartitionFetch(request.partition, window.next_offset, request.leader_epoch, size)
            )
        asked = {request.topic_partition: request for request in requests}
        for answer in fetch_many(self._client, self._node, wanted, _RESPONSE_BYTES, 0, _TIMEOUT_MS):
            self._spent += len(answer.records)
            yield asked[answer.topic, answer.partition], answer

    def _apply(self, request: PartitionEnds, answer: Fetched) -> bool:
        """Applies one answer. Returns True if the window is longer now."""
        read = self._reads[request]
        if answer.error == errors.OFFSET_OUT_OF_RANGE:
            read.window = None
        elif answer.error == errors.TOPIC_AUTHORIZATION_FAILED:
            read.why = NoPermission(request.topic, (READ,))
        elif answer.error:
            read.why = ErrorAnswer(self._node, "a fetch", answer.error)
        elif answer.last_stable_offset != request.last_stable_offset:
            read.has_moved = True
        elif read.window is not None and answer.records:
            read.window.extend(answer.records)
            return not read.window.is_broken
        return False
