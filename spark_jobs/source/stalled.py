"""Reads stalled partitions, the executors' half of the sampler: the writer of the batch at the LSO, and open entries.

A broker that does not answer is reported, not waited for: the next sample comes soon, and asks the leader of then.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from typing import Final

from service.domain.partitions.facts import OpenEntry, StalledRead
from service.domain.reasons.reason import Reason, together
from service.domain.reasons.unread import READ, ErrorAnswer, NoPermission
from service.kafka import errors
from service.kafka.client import KafkaClient
from service.kafka.errors import KafkaFailure, KafkaRefused
from service.kafka.producers import Producers, describe_producers
from service.kafka.settings import ClientSettings
from spark_jobs.source.reader import connected, forget
from spark_jobs.source.requests import StalledAsk
from spark_jobs.source.window import KeptWindows
from spark_jobs.source.windows import LARGE, SMALL, Read, Windows

_TIMEOUT_MS: Final = 5_000
_windows: dict[str, Windows] = {}  # kept between tasks, as connections are


def read_stalled(
    settings: ClientSettings, asks: Sequence[StalledAsk], kept: str, now_ms: Callable[[], int]
) -> Iterator[StalledRead]:
    """Yields a read of each of `asks` that still has the same LSO. `kept`: the file with the windows read before."""
    if kept not in _windows:
        _windows.clear()  # windows of a query that is over
        _windows[kept] = Windows(KeptWindows(kept))
    windows = _windows[kept]
    anybody_answered = False
    for node, of_node in groupby(sorted(asks, key=_leader), key=_leader):
        some = list(of_node)
        read_at_ms = now_ms()
        try:
            client = connected(settings)
            told = _describe(client, node, some)
            limits = {ask: SMALL if _is_described(told.get(_place(ask))) else LARGE for ask in some}
            reads = windows.read(client, node, some, limits)
        except KafkaFailure as e:
            yield from (_read(ask, read_at_ms, Read(None, e.reason), None) for ask in some)
            continue
        anybody_answered = True
        for ask in some:
            if not reads[ask].has_moved:
                yield _read(ask, read_at_ms, reads[ask], told.get(_place(ask)))
    if asks and not anybody_answered:  # not for one frozen broker: a new client may hang on it again
        forget(settings)


def _leader(ask: StalledAsk) -> int:
    return ask.leader


def _place(ask: StalledAsk) -> tuple[str, int]:
    return ask.topic, ask.partition


def _is_described(told: Producers | None) -> bool:
    return told is not None and not told.error


def _describe(client: KafkaClient, node: int, asks: Sequence[StalledAsk]) -> dict[tuple[str, int], Producers]:
    """Returns the producers of each partition; nothing if the broker does not know the request (before Kafka 2.8).
    Raises KafkaUnavailable."""
    partitions: dict[str, list[int]] = {}
    for ask in asks:
        partitions.setdefault(ask.topic, []).append(ask.partition)
    try:
        return describe_producers(client, node, partitions, _TIMEOUT_MS)
    except KafkaRefused:
        return {}


def _read(ask: StalledAsk, read_at_ms: int, read: Read, told: Producers | None) -> StalledRead:
    window = read.window
    high_watermark = max(ask.high_watermark, window.next_offset) if window else ask.high_watermark
    is_whole = window is not None and window.first is not None and window.next_offset >= high_watermark
    seen = window.entries(is_whole=is_whole) if window else ()
    whys = read.why, None if told is None or not told.error else _why(ask, told.error)
    return StalledRead(
        topic=ask.topic,
        partition=ask.partition,
        topic_id=ask.topic_id,
        leader_epoch=ask.leader_epoch,
        last_stable_offset=ask.last_stable_offset,
        high_watermark=high_watermark,
        read_at_ms=read_at_ms,
        first=window.first if window else None,
        described=_is_described(told),
        entries=_entries(told, seen) if told is not None and not told.error else seen,
        is_whole=is_whole,
        lag_bytes=window.size if window and is_whole else None,
        why=together(whys),
    )


def _why(ask: StalledAsk, error: int) -> Reason:
    if error == errors.TOPIC_AUTHORIZATION_FAILED:
        return NoPermission(ask.topic, (READ,))
    return ErrorAnswer(ask.leader, "DescribeProducers", error)


def _entries(told: Producers, seen: Sequence[OpenEntry]) -> tuple[OpenEntry, ...]:
    """Returns the entries that the broker reports, with the records and bytes that were counted in their batches."""
    written = {(one.producer_id, one.start_offset): (one.records, one.bytes) for one in seen}
    return tuple(
        OpenEntry(
            p.producer_id,
            p.producer_epoch,
            p.transaction_start_offset,
            p.coordinator_epoch,
            p.last_timestamp_ms,
            *written.get((p.producer_id, p.transaction_start_offset), (None, None)),
        )
        for p in told.producers
        if p.transaction_start_offset >= 0
    )
