"""Metrics of data partitions: what hangs, what stands, and how much of what is watched can be judged."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from service.domain.findings.kinds import CONFIRMED, HANGING
from service.domain.partitions.coverage import ANSWERS_WITHIN_MS
from service.metrics import catalogue
from service.metrics.series import Series
from service.store.display import display_id
from service.store.queries.metrics import ClusterFacts

_OF_ONE: Final = (
    catalogue.PARTITION_LSO,
    catalogue.PARTITION_HIGH_WATERMARK,
    catalogue.PARTITION_LSO_LAG,
    catalogue.PARTITION_LSO_LAST_ADVANCE,
)


def partitions(facts: ClusterFacts, now_ms: int) -> Iterator[Series]:
    """The longest first. Nothing is judged any more when nobody has looked for ANSWERS_WITHIN_MS."""
    yield Series(catalogue.HANGING, (), facts.findings.get((HANGING, CONFIRMED), 0))
    for finding in facts.hanging:
        subject = finding.subject
        name = "" if subject.transactional_id is None else display_id(subject.transactional_id)
        labels = (finding.id, subject.topic or "", str(subject.partition), name, finding.owner or "")
        yield Series(catalogue.HANGING_INFO, labels, 1)
    is_fresh = now_ms - (facts.coverage.looked_at_ms or 0) <= ANSWERS_WITHIN_MS
    judged = facts.coverage.judged if is_fresh else 0
    yield Series(catalogue.PARTITIONS, ("yes",), judged)
    yield Series(catalogue.PARTITIONS, ("no",), facts.coverage.watched - judged)
    yield Series(catalogue.PARTITIONS_BLOCKED, (), facts.coverage.blocked)
    for row in facts.standing:
        values = (row.last_stable_offset, row.high_watermark, row.lag, row.stalled_since_ms / 1000)
        for metric, value in zip(_OF_ONE, values, strict=True):
            yield Series(metric, (row.topic, str(row.partition)), value)
    unread = facts.coverage.blocked - len(facts.standing)
    yield Series(catalogue.SERIES_DROPPED, (), max(unread, 0) * len(_OF_ONE))
