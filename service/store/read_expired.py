"""Reads which ids have expired lately and were not seen again: always by the index of those that have."""

from __future__ import annotations

from typing import Final, NamedTuple

from sqlalchemy import ColumnElement, Connection, TextClause, func, select, text

from service.domain.transaction_log.limits import LAST_TIME_MS
from service.store.schema import HAS_EXPIRED, transactional_ids

EXPIRED_READ: Final = 2_000

_T = transactional_ids.c


class ExpiredRow(NamedTuple):
    """`transactional_id` as the store keys it. `expired_at_ms`: of its tombstone; the rest is of the record before."""

    transactional_id: bytes
    display: str
    expired_at_ms: int
    producer_id: int
    producer_epoch: int
    last_outcome: int | None


def read_expired(connection: Connection, cluster_id: int, since_ms: int, limit: int = EXPIRED_READ) -> list[ExpiredRow]:
    """At most `limit`, the last first."""
    rows = connection.execute(
        select(_T.transactional_id, _T.display, _T.timestamp_ms, _T.producer_id, _T.producer_epoch, _T.last_outcome)
        .where(*_expired(cluster_id, since_ms))
        .order_by(_T.timestamp_ms.desc())
        .limit(limit)
    )
    return [ExpiredRow(*row) for row in rows]


def count_expired(connection: Connection, cluster_id: int, since_ms: int) -> int:
    found = connection.execute(
        select(func.count()).select_from(transactional_ids).where(*_expired(cluster_id, since_ms))
    )
    return int(found.scalar_one())


def _expired(cluster_id: int, since_ms: int) -> tuple[ColumnElement[bool] | TextClause, ...]:
    """What is no time is when nothing happened; ids without an offset did not expire, their log became another one."""
    return (
        _T.cluster_id == cluster_id,
        text(HAS_EXPIRED),
        _T.timestamp_ms.between(since_ms, LAST_TIME_MS),
        _T.offset >= 0,
    )
