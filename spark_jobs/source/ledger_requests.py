"""Requests of the ledger's planner to the brokers. The record size of a topic is measured only now and then."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple, Protocol

from service.domain.reasons.reason import Reason
from service.domain.reasons.unread import READ, NoPermission
from service.domain.transaction_log.facts import Gap
from service.kafka import errors
from service.kafka.client import KafkaClient
from service.kafka.cluster import TopicLayout
from service.kafka.errors import KafkaRefused, KafkaUnavailable
from service.kafka.fetch import PartitionFetch, fetch
from service.wire.batches import LENGTH_END
from service.wire.header_columns import read_headers
from spark_jobs.source.log_identity import LogObservation, LogPosition, divergence
from spark_jobs.source.requests import Brokers, ClusterRequests
from spark_jobs.source.watched import is_over

SAMPLE_BYTES: Final = 64 << 10


_TIMEOUT_MS: Final = 3_000


class LedgerRequests(ClusterRequests, Protocol):
    def divergence(self, seen: LogObservation, partition: int, position: LogPosition) -> Gap | None: ...

    def record_size(self, layout: TopicLayout, partition: int, offset: int) -> int | None:
        """Returns the bytes per record (strictly, per offset) at `offset`; None if no batch lies there. Raises
        KafkaRefused if the topic may not be read."""
        ...

    def close(self) -> None: ...


class LedgerBrokers(Brokers):
    """Asks the brokers of a real cluster."""

    def divergence(self, seen: LogObservation, partition: int, position: LogPosition) -> Gap | None:
        return self._ask(lambda client: divergence(client, seen, partition, position))

    def record_size(self, layout: TopicLayout, partition: int, offset: int) -> int | None:
        return self._ask(lambda client: _record_size(client, layout, partition, offset))


def _record_size(client: KafkaClient, layout: TopicLayout, partition: int, offset: int) -> int | None:
    leader = layout.leaders[partition]
    if leader.node < 0:
        raise KafkaUnavailable(f"{layout.topic}-{partition} has no leader now")
    wanted = PartitionFetch(partition, offset, leader.epoch, SAMPLE_BYTES)
    (answer,) = fetch(client, leader.node, layout.topic, [wanted], SAMPLE_BYTES, 0, _TIMEOUT_MS)
    if answer.error == errors.TOPIC_AUTHORIZATION_FAILED:
        raise KafkaRefused(NoPermission(layout.topic, (READ,)))
    if answer.error:
        raise KafkaUnavailable(f"{layout.topic}-{partition}: fetch error {answer.error}")
    headers = list(read_headers(answer.records))
    if not headers:
        return None
    size = sum(header.length + LENGTH_END for header in headers)
    return max(size // (headers[-1].next_offset - headers[0].base_offset), 1)


MEASURE_EVERY_MS: Final = 10_000


DEFAULT_SIZE: Final = 1_000
"""Bytes per record that are assumed until there is a batch to measure."""


class _Measured(NamedTuple):
    at_ms: int
    size: int
    refusal: Reason | None


class RecordSizes:
    """Record sizes by topic. One partition is measured for the whole topic."""

    def __init__(self, kafka: LedgerRequests, now_ms: Callable[[], int]) -> None:
        self._kafka, self._now_ms = kafka, now_ms
        self._known: dict[str, _Measured] = {}

    def of(self, layout: TopicLayout, partition: int, offset: int, *, is_news: bool) -> int:
        """Returns the size in bytes. The size is measured again after MEASURE_EVERY_MS if there `is_news` at that
        offset, or if the topic was refused.

        Raises KafkaRefused if the topic may not be read, and KafkaUnavailable.
        """
        known, now = self._known.get(layout.topic), self._now_ms()
        wants_more = known is not None and (is_news or known.refusal is not None)
        if known is None or (wants_more and is_over(known.at_ms, MEASURE_EVERY_MS, now)):
            size, refusal = (DEFAULT_SIZE if known is None else known.size), None
            try:
                size = self._kafka.record_size(layout, partition, offset) or size
            except KafkaRefused as e:
                refusal = e.reason
            self._known[layout.topic] = known = _Measured(now, size, refusal)
        if known.refusal is not None:
            raise KafkaRefused(known.refusal)
        return known.size
