"""Metrics of transactions and the ids they run under."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Final

from service.domain.transaction_log.states import EXPIRED as GONE
from service.domain.transaction_log.states import NAMES, OPEN
from service.metrics import catalogue
from service.metrics.series import Series
from service.store.queries.metrics import ClusterFacts
from service.store.writers import counters as stored

CAUSES: Final = ("client", "timeout", "fenced", "admin", "unattributed")


def transactions(facts: ClusterFacts) -> Iterator[Series]:
    """States, outcomes, causes, and the oldest open ones."""
    ids: Counter[int] = Counter()
    for place in facts.states:
        ids[place.state] += place.ids
    for state, name in NAMES.items():
        if state != GONE:
            yield Series(catalogue.TRANSACTIONS, (name,), ids[state])
    yield Series(catalogue.TRANSACTIONAL_IDS, (), sum(ids.values()) - ids[GONE])
    aborts = {cause: facts.counters.get((f"aborts_{cause}", ""), 0) for cause in CAUSES}
    yield Series(catalogue.COMPLETED, ("commit",), facts.counters.get((stored.COMMITS, ""), 0))
    yield Series(catalogue.COMPLETED, ("abort",), facts.counters.get((stored.ABORTS, ""), 0))
    for cause, count in aborts.items():
        yield Series(catalogue.ABORTS, (cause,), count)
    for within, count in facts.expiring.items():
        yield Series(catalogue.EXPIRING, (within,), count)
    for protocol, epoch in facts.highest_epochs.items():
        yield Series(catalogue.EPOCH_MAX, (str(protocol),), epoch)
    yield Series(catalogue.EXPIRED, (), facts.counters.get((stored.EXPIRED, ""), 0))
    yield Series(catalogue.PRODUCER_IDS, (), facts.counters.get((stored.PRODUCER_IDS_ASSIGNED, ""), 0))
    for state in sorted(OPEN):
        yield Series(catalogue.OLDEST_STATE_ENTRY, (NAMES[state],), facts.oldest.get(state, 0) / 1000)
    yield Series(catalogue.FENCED, (), aborts["fenced"] + aborts["admin"])
    for row in facts.top_open:
        yield Series(catalogue.TOP_OPEN, (row.display,), row.started_at_ms / 1000)
