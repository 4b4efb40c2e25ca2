"""Metrics of the reading itself: how fresh, how far behind, how much of it, and what could not be read."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from service.domain.partitions import facts as partition_facts
from service.domain.transaction_log.topic import SOURCE
from service.metrics import catalogue
from service.metrics.series import Series
from service.store.queries.metrics import ClusterFacts
from service.store.writers.counters import DECODE_ERRORS
from service.wire.errors import DecodeError

ANSWERED_WITHIN_MS: Final = 30_000
"""Every partition that answers is asked each second; a long batch of the first read takes some more."""

REASONS: Final = tuple(sorted(error.reason for error in DecodeError.__subclasses__()))


def pipeline(facts: ClusterFacts, now_ms: int) -> Iterator[Series]:
    """For each source; a source that was never read stands at 0. Data partitions are looked at: nothing is read in
    order there, so nothing lags and nothing counts."""
    yield from _looked_at(facts, now_ms)
    for source in sorted({SOURCE, *facts.statuses} - {partition_facts.SOURCE}):
        logs = [log for log in facts.logs if log.source == source]
        status = facts.statuses.get(source)
        answering = sum(now_ms - log.end_asked_at_ms <= ANSWERED_WITHIN_MS for log in logs)
        as_of_ms = (status and status.as_of_ms) or 0
        yield Series(catalogue.LAST_SUCCESS, (source,), as_of_ms / 1000)
        yield Series(catalogue.LAG, (source,), sum(max(log.end_offset - log.next_offset, 0) for log in logs))
        yield Series(catalogue.RECORDS, (source,), sum(log.records for log in logs))
        yield Series(catalogue.BYTES, (source,), sum(log.bytes for log in logs))
        yield Series(catalogue.COVERAGE, (source,), _ratio(answering, len(logs), as_of_ms, now_ms))
    counted = {label: count for (name, label), count in facts.counters.items() if name == DECODE_ERRORS}
    for reason in sorted({*REASONS, *counted}):
        yield Series(catalogue.DECODE_ERRORS, (SOURCE, reason), counted.get(reason, 0))


def _looked_at(facts: ClusterFacts, now_ms: int) -> Iterator[Series]:
    status = facts.statuses.get(partition_facts.SOURCE)
    as_of_ms = (status and status.as_of_ms) or 0
    looked_at_ms = facts.coverage.looked_at_ms or 0
    is_fresh = now_ms - looked_at_ms <= ANSWERED_WITHIN_MS
    answering = facts.coverage.answering if is_fresh else 0
    ratio = 0 if facts.coverage.hides_all else _ratio(answering, facts.coverage.watched, looked_at_ms, now_ms)
    yield Series(catalogue.LAST_SUCCESS, (partition_facts.SOURCE,), as_of_ms / 1000)
    yield Series(catalogue.COVERAGE, (partition_facts.SOURCE,), ratio)


def _ratio(answering: int, partitions: int, as_of_ms: int, now_ms: int) -> float:
    """Of a cluster that has no such partition, all is covered while it answers."""
    return answering / partitions if partitions else float(now_ms - as_of_ms <= ANSWERED_WITHIN_MS)
