"""The demo broker's settings: events that take hours or days in a real cluster happen within a minute or so."""

from __future__ import annotations

PROPERTIES = {
    # a transaction is aborted at most a second after its timeout (Kafka's default: 10 s)
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",
    # an id expires when it was unused for a minute (default: 7 days), and is removed within 5 s (default: 1 h)
    "transactional.id.expiration.ms": "60000",
    "transaction.remove.expired.transaction.cleanup.interval.ms": "5000",
    "transaction.state.log.num.partitions": "10",
    "offsets.topic.num.partitions": "10",
}
WORKLOAD_TIMEOUT_MS = 10_000
"""Timeout of the transactions that are left to time out: long enough for people to see them open."""
