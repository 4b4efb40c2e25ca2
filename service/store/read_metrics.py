"""Reads what the metrics of a cluster are made of. Nothing here grows with the number of ids."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from sqlalchemy import Connection, func, select

from service.domain.states import ONGOING, PREPARE_ABORT, PREPARE_COMMIT
from service.store.read import StateCount, StatusRow, all_clusters, state_counts, statuses
from service.store.schema import counters, log_partitions, transactional_ids

TOP_OPEN: Final = 20


class LogRow(NamedTuple):
    """One partition of a source's log; `records` and `bytes` never fall."""

    source: str
    partition: int
    next_offset: int
    end_offset: int
    end_asked_at_ms: int
    records: int
    bytes: int


class OpenRow(NamedTuple):
    """An open transaction, as people see its id."""

    display: str
    started_at_ms: int


class ClusterFacts(NamedTuple):
    """A cluster at one moment. `counters` by (name, label); `oldest`: when an open state was entered first, by state;
    `top_open`: oldest first."""

    name: str
    kafka_cluster_id: str
    description: Mapping[str, Any]
    states: tuple[StateCount, ...]
    counters: Mapping[tuple[str, str], int]
    logs: tuple[LogRow, ...]
    statuses: Mapping[str, StatusRow]
    oldest: Mapping[int, int]
    top_open: tuple[OpenRow, ...]


_T = transactional_ids.c
_COUNTERS = select(counters.c.name, counters.c.label, counters.c.value)
_LOGS = select(*(log_partitions.c[name] for name in LogRow._fields)).order_by(
    log_partitions.c.source, log_partitions.c.partition
)
# a start before 1970 is a broken record, and would be the oldest for ever; the condition also picks the index
_OLDEST_FIRST = (
    select(_T.display, _T.started_at_ms)
    .where(_T.started_at_ms.is_not(None), _T.started_at_ms > 0)
    .order_by(_T.started_at_ms, _T.transactional_id)
)
_PREPARED = (
    select(_T.state, func.min(_T.state_since_ms))
    .where(_T.state.in_((PREPARE_COMMIT, PREPARE_ABORT)))
    .group_by(_T.state)
)


def all_facts(connection: Connection) -> list[ClusterFacts]:
    """Of every cluster, by name."""
    return [
        ClusterFacts(
            name=cluster.name,
            kafka_cluster_id=cluster.kafka_cluster_id,
            description=cluster.description or {},
            states=tuple(state_counts(connection, cluster.id)),
            counters=_counters(connection, cluster.id),
            logs=_logs(connection, cluster.id),
            statuses=statuses(connection, cluster.id),
            oldest=_oldest(connection, cluster.id),
            top_open=_top_open(connection, cluster.id),
        )
        for cluster in all_clusters(connection)
    ]


def _counters(connection: Connection, cluster_id: int) -> dict[tuple[str, str], int]:
    rows = connection.execute(_COUNTERS.where(counters.c.cluster_id == cluster_id))
    return {(row.name, row.label): row.value for row in rows}


def _logs(connection: Connection, cluster_id: int) -> tuple[LogRow, ...]:
    rows = connection.execute(_LOGS.where(log_partitions.c.cluster_id == cluster_id))
    return tuple(LogRow(*row) for row in rows)


def _oldest(connection: Connection, cluster_id: int) -> dict[int, int]:
    """Ongoing is entered when the transaction starts; in a Prepare state there are few ids at a time."""
    ongoing = connection.execute(_OLDEST_FIRST.where(_T.cluster_id == cluster_id, _T.state == ONGOING).limit(1)).first()
    prepared = connection.execute(_PREPARED.where(_T.cluster_id == cluster_id))
    found = {int(state): int(since_ms) for state, since_ms in prepared}
    return found if ongoing is None else found | {ONGOING: ongoing.started_at_ms}


def _top_open(connection: Connection, cluster_id: int) -> tuple[OpenRow, ...]:
    rows = connection.execute(_OLDEST_FIRST.where(_T.cluster_id == cluster_id).limit(TOP_OPEN))
    return tuple(OpenRow(*row) for row in rows)
