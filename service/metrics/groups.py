"""Metrics of consumer groups that wait behind open transactions."""

from __future__ import annotations

from collections.abc import Iterator

from service.metrics import catalogue
from service.metrics.series import Series
from service.store.queries.metrics import ClusterFacts


def groups(facts: ClusterFacts) -> Iterator[Series]:
    """Those behind the LSO that stands longest first."""
    blocked = [one for one in facts.victims if one.is_blocked]
    for one in sorted(blocked, key=lambda one: (one.stalled_since_ms, one.key)):
        group, topic, partition = one.key
        yield Series(catalogue.GROUP_BLOCKED, (group, topic, str(partition)), 1)
