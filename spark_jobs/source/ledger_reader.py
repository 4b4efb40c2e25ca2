"""Reads the ranges of tailed partitions to their ends, in an executor. Only batch headers and markers are decoded."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby
from operator import attrgetter

import pyarrow as pa

from service.domain.partitions.ledger import TopicRange
from service.domain.reasons.reason import Reason
from service.domain.reasons.unread import NoBatch
from service.domain.transaction_log.facts import RangeRead
from service.kafka.settings import ClientSettings
from service.wire.log_columns import Chunk
from spark_jobs.fold.ledger import Tail, facts_to_rows, ranges_to_rows
from spark_jobs.fold.rows import trouble_to_rows
from spark_jobs.source.reader import MAX_FETCH_BYTES, RangeReader


def read_tails(
    settings: ClientSettings, ranges: Iterable[TopicRange], now_ms: Callable[[], int]
) -> Iterator[pa.RecordBatch]:
    """Yields rows of `spark_jobs.fold.ledger` for all of `ranges`. Raises as `read_ranges` does."""
    done: list[TopicRange] = []
    for topic, of_topic in groupby(sorted(ranges, key=attrgetter("topic")), attrgetter("topic")):
        reading = _TailReader(settings, topic, [topic_range.read for topic_range in of_topic], now_ms)
        while reading.unfinished:
            reading.step()
        done += (TopicRange(topic, read) for read in reading.done())
        if reading.tail.volumes:
            yield facts_to_rows("volume", reading.tail.volumes)
            yield facts_to_rows("marker", reading.tail.markers)
            yield facts_to_rows("unended", reading.tail.unended)
        for broken in reading.broken:
            yield trouble_to_rows(broken)
    yield ranges_to_rows(done)


class _TailReader(RangeReader):
    """Reads the ranges of one tailed topic. `broken`: a reason for the first batch that cannot be read; empty if there
    is none."""

    def __init__(
        self, settings: ClientSettings, topic: str, ranges: Sequence[RangeRead], now_ms: Callable[[], int]
    ) -> None:
        super().__init__(settings, topic, ranges)
        self._now_ms = now_ms
        self.tail = Tail(topic)
        self.broken: list[Reason] = []

    def _keep(self, chunks: Sequence[Chunk]) -> None:
        for chunk in chunks:
            p = chunk.partition
            reached, records = self.tail.add(chunk, self._ranges[p].generation, self._now_ms())
            if reached > chunk.lo:
                self._next_offsets[p] = reached
                self._bytes[p] += len(chunk.data)
                self._records[p] += records
            else:
                self._handle_partial_batch(chunk)

    def _handle_partial_batch(self, chunk: Chunk) -> None:
        """Handles a chunk without a whole batch. If the chunk fills the fetch limit, its batch is larger than this
        limit. Otherwise the bytes are no valid batch, because a broker sends the first batch whole."""
        p = chunk.partition
        if len(chunk.data) >= self._max_bytes[p]:
            self._max_bytes[p] = min(self._max_bytes[p] * 2, MAX_FETCH_BYTES)
        elif (p, chunk.lo) not in self._suspects:
            self._suspects.add((p, chunk.lo))  # fetched once more: the bytes may have been damaged on the way
        else:
            if not self.broken:
                self.broken.append(NoBatch(self._topic, p, chunk.lo))
            self._next_offsets[p] += 1  # the start of the next batch is unknown: try the next offset
