"""What the ledger's planner asks, over one connection."""

from __future__ import annotations

from typing import Final, Protocol

from service.domain.transaction_log.facts import Gap
from service.kafka import errors
from service.kafka.client import KafkaClient
from service.kafka.errors import KafkaRefused, KafkaUnavailable
from service.kafka.fetch import Wanted, fetch
from service.kafka.metadata import TopicLayout
from service.wire.batches import LENGTH_END
from service.wire.headers import read_headers
from spark_jobs.source.log_identity import Look, other_log
from spark_jobs.source.position import LogPosition
from spark_jobs.source.requests import Asked, Brokers

SAMPLE_BYTES: Final = 64 << 10
_TIMEOUT_MS: Final = 3_000


class LedgerAsked(Asked, Protocol):
    def other_log(self, seen: Look, partition: int, position: LogPosition) -> Gap | None: ...

    def record_size(self, layout: TopicLayout, partition: int, offset: int) -> int | None:
        """Bytes of a record (of an offset, to be exact) at `offset`; None: nothing lies there. Raises KafkaRefused
        where the topic may not be read."""
        ...

    def close(self) -> None: ...


class LedgerBrokers(Brokers):
    """The cluster itself."""

    def other_log(self, seen: Look, partition: int, position: LogPosition) -> Gap | None:
        return self._ask(lambda client: other_log(client, seen, partition, position))

    def record_size(self, layout: TopicLayout, partition: int, offset: int) -> int | None:
        return self._ask(lambda client: _record_size(client, layout, partition, offset))


def _record_size(client: KafkaClient, layout: TopicLayout, partition: int, offset: int) -> int | None:
    leader = layout.leaders[partition]
    if leader.node < 0:
        raise KafkaUnavailable(f"{layout.topic}-{partition} has no leader now")
    wanted = Wanted(partition, offset, leader.epoch, SAMPLE_BYTES)
    (answer,) = fetch(client, leader.node, layout.topic, [wanted], SAMPLE_BYTES, 0, _TIMEOUT_MS)
    if answer.error == errors.TOPIC_AUTHORIZATION_FAILED:
        raise KafkaRefused(errors.no_permission(layout.topic, "READ"))
    if answer.error:
        raise KafkaUnavailable(f"{layout.topic}-{partition}: fetch error {answer.error}")
    headers = list(read_headers(answer.records))
    if not headers:
        return None
    size = sum(header.length + LENGTH_END for header in headers)
    return max(size // (headers[-1].next_offset - headers[0].base_offset), 1)
