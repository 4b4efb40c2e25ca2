"""The demo broker's settings: everything that takes hours or days in a real cluster happens while somebody looks."""

from __future__ import annotations

PROPERTIES = {
    # who overstays the timeout is aborted a second later at most (Kafka's default: 10 s)
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",
    # an id unused for a minute expires (7 days), and is swept away within 5 s (1 h)
    "transactional.id.expiration.ms": "60000",
    "transaction.remove.expired.transaction.cleanup.interval.ms": "5000",
    "transaction.state.log.num.partitions": "10",
    "offsets.topic.num.partitions": "10",
}
WORKLOAD_TIMEOUT_MS = 10_000
"""How long the transactions stay open that are left to time out: long enough to be seen."""
