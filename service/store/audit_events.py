"""The audit: what people and programs did or tried, and what they were refused. Rows are only added.

The table `audit` (service.store.audit) has the attempts to write markers in more detail: the judge asks it whether a
marker is ours.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from sqlalchemy import ColumnElement, Connection, Engine, delete, insert, or_, select

from service.access.actions import Action, Outcome
from service.store.escaped_text import printable
from service.store.schema import audit_events, clusters

_LONGEST: Final = 1_000
_E = audit_events.c


class AuditEvent(NamedTuple):
    """Something that somebody did or was refused.

    `who`: a name, "" if it is not known. `address`: of the sender, None for a command line at the store. `subject`: the
    id of the finding, key or mute that it is about. `times`: how often it happened.
    """

    at_ms: int
    action: Action
    outcome: Outcome
    who: str
    address: str | None = None
    subject: str | None = None
    detail: str | None = None
    times: int = 1


class AuditRow(NamedTuple):
    """A row of the audit. `cluster` None: it is about no cluster."""

    id: int
    cluster: str | None
    event: AuditEvent


class AuditSelection(NamedTuple):
    """The rows that a list is about; None excludes none. `with_service`: also rows that are about no cluster."""

    action: Action | None = None
    outcome: Outcome | None = None
    who: str | None = None
    with_service: bool = False


def add(connection: Connection, cluster_id: int | None, *events: AuditEvent) -> None:
    """Adds the events; texts are cut to 1,000 characters that print."""
    rows: list[dict[str, object]] = [{"cluster_id": cluster_id, **event._asdict(), **_texts(event)} for event in events]
    connection.execute(insert(audit_events), rows)


def record(engine: Engine, cluster: str | None, events: Iterable[AuditEvent]) -> None:
    """Adds the events, in a transaction of their own. `cluster`: a name; one that the store does not know counts as
    none. StoreError: nothing was written."""
    with engine.begin() as connection:
        known = None if cluster is None else select(clusters.c.id).where(clusters.c.name == cluster)
        add(connection, None if known is None else connection.scalar(known), *events)


def read_page(
    connection: Connection, cluster_id: int, selection: AuditSelection, before: int | None, limit: int
) -> list[AuditRow]:
    """Returns at most `limit` rows with ids below `before`, the newest first."""
    named = (
        (_E.action, selection.action),
        (_E.outcome, selection.outcome),
        (_E.who, selection.who),
    )
    wanted: list[ColumnElement[bool]] = [column == value for column, value in named if value is not None]
    of_it = _E.cluster_id == cluster_id
    wanted.append(or_(of_it, _E.cluster_id.is_(None)) if selection.with_service else of_it)
    if before is not None:
        wanted.append(_E.id < before)
    statement = (
        select(_E.id, clusters.c.name, *(_E[name] for name in AuditEvent._fields))
        .outerjoin(clusters, clusters.c.id == _E.cluster_id)
        .where(*wanted)
        .order_by(_E.id.desc())
        .limit(limit)
    )
    return [
        AuditRow(row[0], row[1], AuditEvent(row[2], Action(row[3]), Outcome(row[4]), *row[5:]))
        for row in connection.execute(statement)
    ]


def delete_of_service(connection: Connection, before_ms: int, limit: int) -> int:
    """Deletes at most `limit` rows that are about no cluster and older; returns how many."""
    old = select(_E.id).where(_E.cluster_id.is_(None), _E.at_ms < before_ms).order_by(_E.at_ms).limit(limit)
    return connection.execute(delete(audit_events).where(_E.id.in_(old))).rowcount


def _texts(event: AuditEvent) -> dict[str, str | None]:
    texts = {"who": event.who, "address": event.address, "subject": event.subject, "detail": event.detail}
    return {name: None if text is None else printable(text)[:_LONGEST] for name, text in texts.items()}
