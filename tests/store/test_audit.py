"""The audit says who had which marker written, and is only added to."""

from __future__ import annotations

from service.store import audit
from service.store.audit import Attempt
from tests.store.conftest import Cluster
from tests.store.logs import NOW_MS

ATTEMPT = Attempt(NOW_MS, "0123", "ops", True, "COMMIT", "orders", 3, 7, 2, 5, 100, "would write", None)


def test_attempts_on_a_transaction_are_told_the_newest_first(cluster: Cluster) -> None:
    """Two drivers and a service may be at it; none of them needs the lease."""
    executed = ATTEMPT._replace(at_ms=NOW_MS - 5, dry_run=False, outcome="failed", error="no\nleader")
    others = ATTEMPT._replace(producer_id=8), ATTEMPT._replace(partition=4), ATTEMPT._replace(start_offset=99)
    for attempt in (ATTEMPT, executed, *others):
        audit.record(cluster.engine, cluster.id, attempt)
    with cluster.engine.connect() as connection:
        told = audit.of_subject(connection, cluster.id, "orders", 3, 7, 100)
        assert told == [executed._replace(error="no\\nleader"), ATTEMPT]
        assert len(audit.of_subject(connection, cluster.id, "orders", 3, 7)) == 3
        assert audit.of_subject(connection, cluster.id + 1, "orders", 3, 7) == []
