"""How large a record of each tailed topic is, measured now and then; and whether the topic may be read at all."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from service.kafka.errors import KafkaRefused
from service.kafka.metadata import TopicLayout
from spark_jobs.source.ledger_brokers import LedgerAsked
from spark_jobs.source.watched import is_over

EVERY_MS: Final = 10_000
USUAL: Final = 1_000
"""Bytes, until something lies there to measure."""


class _Measured(NamedTuple):
    at_ms: int
    size: int
    refusal: str | None


class RecordSizes:
    """Of a topic one partition stands for all."""

    def __init__(self, kafka: LedgerAsked, now_ms: Callable[[], int]) -> None:
        self._kafka, self._now_ms = kafka, now_ms
        self._known: dict[str, _Measured] = {}

    def of(self, layout: TopicLayout, partition: int, offset: int, *, is_news: bool) -> int:
        """In bytes; asked anew after EVERY_MS if there `is_news` at that offset, or the topic was refused.

        Raises KafkaRefused where the topic may not be read, and KafkaUnavailable.
        """
        known, now = self._known.get(layout.topic), self._now_ms()
        wants_more = known is not None and (is_news or known.refusal is not None)
        if known is None or (wants_more and is_over(known.at_ms, EVERY_MS, now)):
            size, refusal = (USUAL if known is None else known.size), None
            try:
                size = self._kafka.record_size(layout, partition, offset) or size
            except KafkaRefused as e:
                refusal = str(e)
            self._known[layout.topic] = known = _Measured(now, size, refusal)
        if known.refusal is not None:
            raise KafkaRefused(known.refusal)
        return known.size
