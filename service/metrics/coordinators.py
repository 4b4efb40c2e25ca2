"""Metrics of coordinators: one for each partition of `__transaction_state`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from service.domain.transaction_log.states import EXPIRED, OPEN
from service.domain.transaction_log.topic import SOURCE
from service.metrics import catalogue
from service.metrics.series import Series
from service.store.queries.metrics import ClusterFacts


def coordinators(facts: ClusterFacts) -> Iterator[Series]:
    """Worst first: those that are read late, then those with many open transactions."""
    lags = {log.partition: max(log.end_offset - log.next_offset, 0) for log in facts.logs if log.source == SOURCE}
    ids: Counter[int] = Counter()
    opened: Counter[int] = Counter()
    for count in facts.states:
        if count.state != EXPIRED:
            ids[count.partition] += count.ids
        if count.state in OPEN:
            opened[count.partition] += count.ids
    for partition in sorted(lags, key=lambda partition: (-lags[partition], -opened[partition], partition)):
        labels = (str(partition),)
        yield Series(catalogue.COORDINATOR_IDS, labels, ids[partition])
        yield Series(catalogue.COORDINATOR_OPEN, labels, opened[partition])
        yield Series(catalogue.COORDINATOR_LAG, labels, lags[partition])
