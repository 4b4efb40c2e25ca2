"""Stores the receivers of notifications: each with its position in the events, the findings that it knows to be open,
and the state of its deliveries."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

from sqlalchemy import Connection, delete, func, insert, select, update

from service.store.schema import finding_events, notified_findings, receivers

_R, _N = receivers.c, notified_findings.c


class ReceiverState(NamedTuple):
    """A receiver. `sequence`: its position in the events. `delivered`: the number of notifications that it took.
    `dropped`: the number of notifications that it refused, and of events that were skipped (an upper limit:
    `notifications.delivery.Batch`). `failed`: the number of failed attempts. `failing_since_ms`, `error`: None while
    deliveries succeed. `pending`: the number of newer events, some of which may cause no notification."""

    name: str
    kind: str
    sequence: int
    delivered: int
    failed: int
    dropped: int
    delivered_at_ms: int | None
    failing_since_ms: int | None
    error: str | None
    pending: int


def read_receivers(connection: Connection) -> list[ReceiverState]:
    """Returns all receivers, sorted by name."""
    waiting = select(func.count()).where(finding_events.c.sequence > _R.sequence).scalar_subquery()
    rows = connection.execute(select(*receivers.c, waiting).order_by(_R.name))
    return [ReceiverState(*tuple(row)) for row in rows]


def position_of(connection: Connection, name: str) -> int | None:
    """Returns the receiver's position: the sequence after which its next event comes; None for an unknown receiver."""
    return connection.scalar(select(_R.sequence).where(_R.name == name))


def add_receiver(connection: Connection, name: str, kind: str, sequence: int) -> None:
    """Adds a receiver that has taken the events up to `sequence`."""
    values = {"name": name, "kind": kind, "sequence": sequence, "delivered": 0, "failed": 0, "dropped": 0}
    connection.execute(insert(receivers).values(values))


def keep_only(connection: Connection, names: Collection[str]) -> None:
    """Deletes all receivers except those in `names`."""
    connection.execute(delete(receivers).where(_R.name.not_in(names)))
    connection.execute(delete(notified_findings).where(_N.receiver.not_in(names)))


def note_delivery(
    connection: Connection,
    receiver: str,
    sequence: int,
    now_ms: int,
    *,
    delivered: int,
    dropped: int,
    begun: Collection[str],
    ended: Collection[str],
) -> None:
    """Moves the receiver's position to `sequence`, and clears its error. `delivered`: the number of notifications that
    the receiver took since the last call. `dropped`: the number of events dropped since that call. `begun`: ids of
    findings that the receiver now knows to be open. `ended`: ids of findings that the receiver now knows to have
    ended."""
    values: dict[str, Any] = {"sequence": sequence, "failing_since_ms": None, "error": None}
    values |= {"delivered": _R.delivered + delivered, "dropped": _R.dropped + dropped}
    if delivered:
        values["delivered_at_ms"] = now_ms
    connection.execute(update(receivers).where(_R.name == receiver).values(values))
    if changed := [*begun, *ended]:
        connection.execute(delete(notified_findings).where(_N.receiver == receiver, _N.finding_id.in_(changed)))
    if begun:
        connection.execute(
            insert(notified_findings), [{"receiver": receiver, "finding_id": one} for one in sorted(begun)]
        )


def note_failure(connection: Connection, receiver: str, error: str, now_ms: int) -> None:
    """Counts a failed attempt, and stores its error. `failing_since_ms` keeps the time of the first failure after the
    last success."""
    since_ms = func.coalesce(_R.failing_since_ms, now_ms)
    values: Mapping[str, Any] = {"failed": _R.failed + 1, "error": error, "failing_since_ms": since_ms}
    connection.execute(update(receivers).where(_R.name == receiver).values(values))


def notified_of(connection: Connection, receiver: str) -> frozenset[str]:
    """Returns the ids of the findings that the receiver knows to be open."""
    return frozenset(connection.scalars(select(_N.finding_id).where(_N.receiver == receiver)))
