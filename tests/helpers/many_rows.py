"""Inserts many rows at once, without the store's writers, for tests of limits on reads."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Engine, insert

from service.domain.transaction_log import states
from service.store import schema
from tests.service.store.logs import NOW_MS


def open_ids(engine: Engine, count: int) -> None:
    """Inserts `count` open transactions of cluster 1. Number n, counted from 0, began n seconds before NOW_MS."""
    blank = dict.fromkeys((c.name for c in schema.transactional_ids.c), 0) | dict.fromkeys(schema.OF_APPLICATION)
    blank |= {"cluster_id": 1, "state": states.ONGOING}
    rows: list[dict[str, Any]] = [
        blank
        | {"transactional_id": b"id-%05d" % n, "display": f"id-{n:05d}", "started_at_ms": NOW_MS - 1_000 * n}
        | {"state_since_ms": NOW_MS - 1_000 * n}
        for n in range(count)
    ]
    with engine.begin() as connection:
        connection.execute(insert(schema.transactional_ids), rows)


def stalled(engine: Engine, count: int) -> None:
    """Inserts `count` stalled partitions of cluster 1. The first has been stalled for 1 s, the second for 2 s, and so
    on."""
    blank: dict[str, Any] = {c.name: 0 for c in schema.data_partitions.c if not c.nullable}
    rows = [
        blank
        | {"cluster_id": 1, "topic": f"t{n % 10}", "partition": n, "topic_id": "T", "is_gone": False, "log_start": 1}
        | {"last_stable_offset": 100, "high_watermark": 100 + n, "observed_at_ms": NOW_MS, "answered_at_ms": NOW_MS}
        | {"stalled_since_ms": NOW_MS - 1_000 * n}
        for n in range(1, count + 1)
    ]
    with engine.begin() as connection:
        connection.execute(insert(schema.data_partitions), rows)
        connection.execute(
            insert(schema.partition_watch), {"cluster_id": 1, "observed_at_ms": NOW_MS, "not_covered": 0}
        )
