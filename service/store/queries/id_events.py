"""Reads the recent events of ids, at most EVENTS_READ in one call: the history rows with a cause in REPORTED_CAUSES."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from sqlalchemy import Connection, Select, func, select

from service.domain.findings.events import Event
from service.domain.transaction_log.causes import CauseCode
from service.store.escaped_text import display_id
from service.store.schema import transitions

EVENTS_READ: Final = 10_000

REPORTED_CAUSES: Final = (CauseCode.TIMEOUT, CauseCode.FENCED, CauseCode.ADMIN, CauseCode.INITIALIZED, CauseCode.EXPIRY)
"""Causes that findings report."""


class NewEvents(NamedTuple):
    """The newest events. `unread`: a mapping from cause to the number of older events that were not read."""

    read: list[Event]
    unread: Mapping[str, int]


_S = transitions.c
_REPORTED = (_S.counted.is_(True), _S.cause.in_(REPORTED_CAUSES))
_EVENTS = select(_S.id, _S.transactional_id, *(_S[name] for name in Event._fields[3:]))


def newest_sequence(connection: Connection) -> int:
    """Returns the highest number of a history row of any cluster; 0 if there are no rows. A newer row has a higher
    number."""
    return connection.scalar(select(func.max(_S.id))) or 0


def new_events(connection: Connection, cluster_id: int, after: int, up_to: int) -> NewEvents:
    """Returns the events numbered in (after, up_to]; the newest EVENTS_READ if there are more."""
    statement = _EVENTS.where(_S.id > after, _S.id <= up_to, _S.cluster_id + 0 == cluster_id)
    found = _events(connection, statement.order_by(_S.id.desc()))
    if len(found) < EVENTS_READ:
        return NewEvents(found, {})
    by_cause = statement.where(*_REPORTED).with_only_columns(_S.cause, func.count()).group_by(_S.cause)
    counted = Counter({row[0]: row[1] for row in connection.execute(by_cause)})
    return NewEvents(found, counted - Counter(event.cause for event in found))


def recent_events(connection: Connection, cluster_id: int, since_ms: int) -> list[Event]:
    """Returns the events since `since_ms`, the newest EVENTS_READ if there are more."""
    statement = _EVENTS.where(_S.cluster_id == cluster_id, _S.at_ms >= since_ms)
    return _events(connection, statement.order_by(_S.at_ms.desc()))


def events_of(connection: Connection, cluster_id: int, ids: Sequence[bytes], since_ms: int) -> list[Event]:
    """Returns the events of some ids since `since_ms`, with their present causes."""
    statement = _EVENTS.where(_S.cluster_id == cluster_id, _S.transactional_id.in_(ids), _S.at_ms + 0 >= since_ms)
    return _events(connection, statement)


def _events(connection: Connection, statement: Select[Any]) -> list[Event]:
    rows = connection.execute(statement.where(*_REPORTED).limit(EVENTS_READ))
    return [Event(row[0], row[1], display_id(row[1]), *row[2:]) for row in rows]
