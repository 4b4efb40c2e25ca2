"""Reads the ids that expired recently and were not used again, and the ids that will expire. Each of the two reads has
its own index."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import Final, NamedTuple

from sqlalchemy import ColumnElement, Connection, TextClause, func, or_, select, text

from service.domain.transaction_log.states import FIRST_TIME_MS, LAST_TIME_MS
from service.store.escaped_text import id_key
from service.store.queries.transaction_pages import of_application
from service.store.queries.transactions import Page, id_row
from service.store.rows.ids import IdRow
from service.store.schema import CAN_EXPIRE, HAS_EXPIRED, transactional_ids

EXPIRED_READ: Final = 2_000

_T = transactional_ids.c


def read_expired(connection: Connection, cluster_id: int, since_ms: int) -> list[IdRow]:
    """Returns at most EXPIRED_READ ids that expired since `since_ms`, the last expired first. The `record` of each
    returned row has the time and the place of the id's tombstone."""
    newest = select(transactional_ids).where(*_expired(cluster_id, since_ms)).order_by(_T.timestamp_ms.desc())
    return [id_row(row) for row in connection.execute(newest.limit(EXPIRED_READ))]


def count_expired(connection: Connection, cluster_id: int, since_ms: int) -> int:
    return connection.execute(select(func.count()).where(*_expired(cluster_id, since_ms))).scalar_one()


def _expired(cluster_id: int, since_ms: int) -> tuple[ColumnElement[bool] | TextClause, ...]:
    """Returns the conditions for ids that expired since `since_ms`. Excludes times that are not valid, and ids without
    an offset, whose log was replaced."""
    return (
        _T.cluster_id == cluster_id,
        text(HAS_EXPIRED),
        _T.timestamp_ms.between(since_ms, LAST_TIME_MS),
        _T.offset >= 0,
    )


class ExpiringCursor(NamedTuple):
    """The place where a page ended: the last row's time of update, and its id."""

    last_update_ms: int
    transactional_id: bytes


def read_expiring(
    connection: Connection,
    cluster_id: int,
    until_ms: int,
    after: ExpiringCursor | None,
    limit: int,
    application: str | None = None,
) -> Page[ExpiringCursor]:
    """Returns at most `limit` ids that can expire and were last updated at `until_ms` or before, the longest unused
    first. `application`: returns only ids of this application; None: ids of all applications.

    Excludes ids whose update is no valid time (`service.domain.transaction_log.states`), because they do not expire.
    """
    statement = (
        select(transactional_ids)
        .where(
            _T.cluster_id == cluster_id,
            text(CAN_EXPIRE),
            _T.last_update_ms >= (FIRST_TIME_MS if after is None else after.last_update_ms),
            _T.last_update_ms <= until_ms,
        )
        .order_by(_T.last_update_ms, _T.transactional_id)
        .limit(limit + 1)
    )
    if application is not None:
        statement = statement.where(of_application(application))
    if after is not None:
        is_behind = or_(_T.last_update_ms != after.last_update_ms, _T.transactional_id > after.transactional_id)
        statement = statement.where(is_behind)
    found = [id_row(row) for row in connection.execute(statement)]
    if len(found) <= limit:
        return Page(tuple(found), None)
    last = found[limit - 1]
    return Page(tuple(found[:limit]), ExpiringCursor(last.record.last_update_ms, id_key(last.transactional_id)))


def count_expiring(connection: Connection, cluster_id: int, until_ms: Sequence[int]) -> list[int]:
    """Returns, for each time in `until_ms` (ascending), the number of ids that `read_expiring` would return without a
    limit. Reads each id once."""
    counted = select(func.count()).select_from(transactional_ids).where(_T.cluster_id == cluster_id, text(CAN_EXPIRE))
    spans = (
        (_T.last_update_ms > before_ms, _T.last_update_ms <= end_ms)
        for before_ms, end_ms in pairwise((FIRST_TIME_MS - 1, *until_ms))
    )
    return list(accumulate(connection.execute(counted.where(*span)).scalar_one() for span in spans))
