"""The audit: the actions of people and programs, done or refused (table `audit_events`), and the details of attempts to
write markers (table `audit`).

The judge reads the attempts to decide whether txnscope wrote a marker. Rows are only added; retention deletes them
after more than a year.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from sqlalchemy import ColumnElement, Connection, Engine, delete, insert, or_, select

from service.access.actions import Action, Outcome
from service.domain.partitions.facts import MarkerType
from service.store.backends import backend_of
from service.store.backends.backend import Lock
from service.store.escaped_text import printable
from service.store.schema import audit, audit_events, clusters

_LONGEST: Final = 1_000
_E = audit_events.c


class AuditEvent(NamedTuple):
    """An action of a person or program, done or refused.

    `who`: name, "" if unknown. `address`: the sender's address, None for a command that opens the store itself.
    `subject`: name of the key, or id of the finding or mute. `times`: number of occurrences.
    """

    at_ms: int
    action: Action
    outcome: Outcome
    who: str
    address: str | None = None
    subject: str | None = None
    detail: str | None = None
    times: int = 1

    def __str__(self) -> str:
        about = "" if self.subject is None else f" {printable(self.subject)}"
        return f"{self.action}{about}: {self.outcome}, by {printable(self.who) or 'an unknown caller'}"


class AuditRow(NamedTuple):
    """A row of `audit_events`. `cluster`: None if the event concerns no cluster."""

    id: int
    cluster: str | None
    event: AuditEvent


class AuditSelection(NamedTuple):
    """Filters of a list of events; a filter that is None selects all. `with_service`: True to include events that
    concern no cluster."""

    action: Action | None = None
    outcome: Outcome | None = None
    who: str | None = None
    with_service: bool = False


def add(connection: Connection, cluster_id: int | None, *events: AuditEvent) -> None:
    """Adds the events. Their texts are escaped (`printable`) and cut to 1,000 characters."""
    rows: list[dict[str, object]] = [{"cluster_id": cluster_id, **event._asdict(), **_texts(event)} for event in events]
    connection.execute(insert(audit_events), rows)


def record(engine: Engine, cluster: str | None, events: Iterable[AuditEvent]) -> None:
    """Adds the events in a transaction of their own. `cluster`: a name; an unknown name counts as None. Raises
    StoreError if nothing was written."""
    with engine.begin() as connection:
        known = None if cluster is None else select(clusters.c.id).where(clusters.c.name == cluster)
        add(connection, None if known is None else connection.scalar(known), *events)


def read_page(
    connection: Connection, cluster_id: int, selection: AuditSelection, before: int | None, limit: int
) -> list[AuditRow]:
    """Returns at most `limit` rows that the selection contains, with ids below `before` (None: with any id), the newest
    first."""
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
    """Deletes at most `limit` events that are older than `before_ms` and concern no cluster; returns the number
    deleted."""
    old = select(_E.id).where(_E.cluster_id.is_(None), _E.at_ms < before_ms).order_by(_E.at_ms).limit(limit)
    return connection.execute(delete(audit_events).where(_E.id.in_(old))).rowcount


def _texts(event: AuditEvent) -> dict[str, str | None]:
    texts = {"who": event.who, "address": event.address, "subject": event.subject, "detail": event.detail}
    return {name: None if text is None else printable(text)[:_LONGEST] for name, text in texts.items()}


OUTCOME_WITHIN_MS: Final = 30_000
"""Longest time (ms) between an attempt's two rows: the row BEGUN, and the row with the outcome. If the process ended
between the two, the second row never comes."""

_SHOWN: Final = 100


class Attempt(NamedTuple):
    """An operator's attempt to write a marker; a dry run is not an attempt. `error`: one line; None if there was no
    error."""

    at_ms: int
    finding_id: str
    operator: str
    marker: MarkerType
    topic: str
    partition: int
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    start_offset: int
    outcome: Outcome
    error: str | None = None


_A = audit.c


def record_attempt(engine: Engine, cluster_id: int, attempt: Attempt, address: str | None = None) -> None:
    """Adds the attempt to `audit`, and an event to `audit_events`. `address`: the sender's address. The caller, a
    service, needs no lease. Raises StoreError if nothing was written.

    When the function returns, the rows survive the end of this process; in a store that is a file, a power cut may
    still lose them.
    """
    values = attempt._asdict() | {
        "operator": printable(attempt.operator),
        "error": None if attempt.error is None else printable(attempt.error),
    }
    why = "" if attempt.error is None else f": {attempt.error}"
    detail = f"{attempt.marker} to {attempt.topic}-{attempt.partition}{why}"
    who = attempt.operator, address, attempt.finding_id
    event = AuditEvent(attempt.at_ms, Action.RESOLVE, attempt.outcome, *who, detail)
    with engine.begin() as connection:
        connection.execute(insert(audit).values(cluster_id=cluster_id, **values))
        add(connection, cluster_id, event)


def wait_until_writable(engine: Engine) -> None:
    """Waits until a row can be added to `audit`, for at most the engine's lock timeout. Raises StoreUnavailable if the
    lock did not become free."""
    with engine.begin() as connection:
        backend_of(connection).lock(connection, Lock.AUDIT)


def of_subject(
    connection: Connection, cluster_id: int, topic: str, partition: int, producer_id: int, start_offset: int | None
) -> list[Attempt]:
    """Returns the newest _SHOWN attempts on one open transaction, the newest first. Without `start_offset`, returns
    attempts on all transactions of this producer id on the partition."""
    statement = select(*(_A[name] for name in Attempt._fields)).where(
        _A.cluster_id == cluster_id, _A.topic == topic, _A.partition == partition, _A.producer_id == producer_id
    )
    if start_offset is not None:
        statement = statement.where(_A.start_offset == start_offset)
    return [Attempt._make(row) for row in connection.execute(statement.order_by(_A.id.desc()).limit(_SHOWN))]


def is_under_way(attempts: Sequence[Attempt], is_commit: bool | None, now_ms: int) -> bool:
    """Returns whether one of the attempts has begun to write the marker and may still record its outcome. Attempts to
    write a marker of the other type do not count. If `is_commit` is None, the marker's type cannot be read, and
    attempts of both types count."""
    begun, outcomes = _begun_and_outcomes(attempts, is_commit)
    return len(begun) > len(outcomes) and max(attempt.at_ms for attempt in begun) + OUTCOME_WITHIN_MS > now_ms


def is_marker_ours(attempts: Sequence[Attempt], is_commit: bool | None) -> bool | None:
    """Returns True if one of the attempts wrote the marker; an unknown outcome counts as written. Returns None if one
    of the attempts may have written the marker, because its outcome was never recorded; else False. Attempts to
    write a marker of the other type do not count, as in `is_under_way`."""
    begun, outcomes = _begun_and_outcomes(attempts, is_commit)
    if any(outcome.outcome in (Outcome.WRITTEN, Outcome.UNKNOWN) for outcome in outcomes):
        return True
    return None if len(begun) > len(outcomes) else False


def _begun_and_outcomes(
    attempts: Sequence[Attempt], is_commit: bool | None
) -> tuple[Sequence[Attempt], Sequence[Attempt]]:
    of_type = [attempt for attempt in attempts if is_commit in (None, attempt.marker == MarkerType.COMMIT)]
    begun = [attempt for attempt in of_type if attempt.outcome == Outcome.BEGUN]
    return begun, [attempt for attempt in of_type if attempt.outcome != Outcome.BEGUN]
