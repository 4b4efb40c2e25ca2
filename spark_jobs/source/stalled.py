"""Reads stalled partitions, in an executor: finds the writer of the batch at the LSO, and the open entries.

A broker that does not answer is reported at once, and not tried again: the next sample comes soon, and is requested
from the broker that leads the partition by then.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from operator import attrgetter
from typing import Final

from service.domain.partitions.facts import OpenEntry, PartitionEnds, StalledRead
from service.domain.reasons.reason import Reason, combined
from service.domain.reasons.unread import READ, ErrorAnswer, NoPermission
from service.kafka import errors
from service.kafka.client import KafkaClient
from service.kafka.cluster import by_topic
from service.kafka.errors import KafkaFailure, KafkaRefused
from service.kafka.producers import Producers, describe_producers
from service.kafka.settings import ClientSettings
from spark_jobs.source.reader import close_client, shared_client
from spark_jobs.source.window import WindowCache
from spark_jobs.source.window_fetcher import LARGE, SMALL, WindowFetcher, WindowRead

_TIMEOUT_MS: Final = 5_000
_fetchers: dict[str, WindowFetcher] = {}  # kept between tasks, as connections are


def read_stalled(
    settings: ClientSettings, requests: Sequence[PartitionEnds], window_file: str, now_ms: Callable[[], int]
) -> Iterator[StalledRead]:
    """Yields the result for each of `requests`, except partitions whose LSO has moved meanwhile. If a leader does not
    answer, the results of its partitions contain only the reason. `window_file`: the file with the windows that were
    read before."""
    if window_file not in _fetchers:
        _fetchers.clear()  # windows of a query that has ended
        _fetchers[window_file] = WindowFetcher(WindowCache(window_file))
    fetcher = _fetchers[window_file]
    leader = attrgetter("leader")
    anybody_answered = False
    for node, of_node in groupby(sorted(requests, key=leader), key=leader):
        some = list(of_node)
        read_at_ms = now_ms()
        try:
            client = shared_client(settings)
            described = _describe(client, node, some)
            limits = {
                request: SMALL if _is_described(described.get(request.topic_partition)) else LARGE for request in some
            }
            reads = fetcher.read(client, node, some, limits)
        except KafkaFailure as e:
            yield from (_read(request, read_at_ms, WindowRead(None, e.reason), None) for request in some)
            continue
        anybody_answered = True
        for request in some:
            if not reads[request].has_moved:
                yield _read(request, read_at_ms, reads[request], described.get(request.topic_partition))
    if requests and not anybody_answered:  # not for one frozen broker: a new client may hang on it again
        close_client(settings)


def _is_described(described: Producers | None) -> bool:
    return described is not None and not described.error


def _describe(client: KafkaClient, node: int, requests: Sequence[PartitionEnds]) -> dict[tuple[str, int], Producers]:
    """Returns the producers of each partition. Returns an empty dict if the broker does not know DescribeProducers
    (before Kafka 2.8) or refuses it. Raises KafkaUnavailable."""
    try:
        return describe_producers(client, node, by_topic(request.topic_partition for request in requests), _TIMEOUT_MS)
    except KafkaRefused:
        return {}


def _read(request: PartitionEnds, read_at_ms: int, read: WindowRead, described: Producers | None) -> StalledRead:
    window = read.window
    is_whole = window is not None and window.first is not None and window.next_offset >= request.high_watermark
    seen = window.entries(is_whole=is_whole) if window else ()
    whys = read.why, None if described is None or not described.error else _why(request, described.error)
    return StalledRead(
        *request[:3],
        request.last_stable_offset,
        read_at_ms,
        first=window.first if window else None,
        described=_is_described(described),
        entries=_entries(described, seen) if described is not None and not described.error else seen,
        is_whole=is_whole,
        lag_bytes=window.size if window and is_whole else None,
        why=combined(whys),
    )


def _why(request: PartitionEnds, error: int) -> Reason:
    if error == errors.TOPIC_AUTHORIZATION_FAILED:
        return NoPermission(request.topic, (READ,))
    return ErrorAnswer(request.leader, "DescribeProducers", error)


def _entries(described: Producers, seen: Sequence[OpenEntry]) -> tuple[OpenEntry, ...]:
    """Returns the entries that the broker reports. The numbers of records and bytes come from `seen`; they are None for
    an entry that is not in `seen`."""
    written = {(entry.producer_id, entry.start_offset): (entry.records, entry.bytes) for entry in seen}
    return tuple(
        OpenEntry(
            p.producer_id,
            p.producer_epoch,
            p.transaction_start_offset,
            p.coordinator_epoch,
            p.last_timestamp_ms,
            *written.get((p.producer_id, p.transaction_start_offset), (None, None)),
        )
        for p in described.producers
        if p.transaction_start_offset >= 0
    )
