"""The audit trail of markers that people had written: operator, marker, time and outcome.

Rows are only added, and deleted after more than a year.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from sqlalchemy import Connection, Engine, insert, select

from service.access.actions import Action, Outcome
from service.domain.partitions.batch_offsets import MarkerType
from service.store import audit_events
from service.store.audit_events import AuditEvent
from service.store.backends import backend_of
from service.store.backends.backend import Lock
from service.store.escaped_text import printable
from service.store.schema import audit

OUTCOME_WITHIN_MS: Final = 30_000
"""Longest time from BEGUN to an outcome, if there ever is one."""

_SHOWN: Final = 100


class Attempt(NamedTuple):
    """A marker that an operator asked for, or only tried out (`dry_run`). `error`: one line, None if all went well."""

    at_ms: int
    finding_id: str
    operator: str
    dry_run: bool
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


def record(engine: Engine, cluster_id: int, attempt: Attempt, address: str | None = None) -> None:
    """Adds the attempt, here and to the audit that people read (`service.store.audit_events`). `address`: of the
    sender. Once this returns, the rows outlive this process; in a file a power cut may still take them. No lease is
    needed: the service writes here when a person asks for a marker.

    StoreUnavailable: nothing was written.
    """
    values = attempt._asdict() | {
        "operator": printable(attempt.operator),
        "error": None if attempt.error is None else printable(attempt.error),
    }
    with engine.begin() as connection:
        connection.execute(insert(audit).values(cluster_id=cluster_id, **values))
        audit_events.add(connection, cluster_id, _event(attempt, address))


def _event(attempt: Attempt, address: str | None) -> AuditEvent:
    why = "" if attempt.error is None else f": {attempt.error}"
    return AuditEvent(
        attempt.at_ms,
        Action.RESOLVE,
        attempt.outcome,
        attempt.operator,
        address,
        subject=attempt.finding_id,
        detail=f"{attempt.marker} to {attempt.topic}-{attempt.partition}{why}",
    )


def wait_until_writable(engine: Engine) -> None:
    """Returns once a row could be added now; waits as long as the engine waits for a lock. StoreUnavailable, as
    `record`."""
    with engine.begin() as connection:
        backend_of(connection).lock(connection, Lock.AUDIT)


def of_subject(
    connection: Connection,
    cluster_id: int,
    topic: str,
    partition: int,
    producer_id: int,
    start_offset: int | None = None,
    limit: int = _SHOWN,
) -> list[Attempt]:
    """Returns the attempts on one open transaction, the newest first; without `start_offset`, those on all transactions
    of this producer id on the partition."""
    statement = select(*(_A[name] for name in Attempt._fields)).where(
        _A.cluster_id == cluster_id, _A.topic == topic, _A.partition == partition, _A.producer_id == producer_id
    )
    if start_offset is not None:
        statement = statement.where(_A.start_offset == start_offset)
    return [Attempt._make(row) for row in connection.execute(statement.order_by(_A.id.desc()).limit(limit))]


def is_marker_ours(attempts: Sequence[Attempt], is_commit: bool | None, now_ms: int) -> bool | None:
    """Returns whether one of the attempts wrote a marker on the partition (an unknown outcome counts as written); None
    while an attempt is under way that may have written it. `is_commit` None: the marker's kind cannot be read."""
    ours = [one for one in attempts if not one.dry_run and is_commit in (None, one.marker == MarkerType.COMMIT)]
    if any(one.outcome in (Outcome.WRITTEN, Outcome.UNKNOWN) for one in ours):
        return True
    begun = [one.at_ms for one in ours if one.outcome == Outcome.BEGUN]
    if len(begun) > len(ours) - len(begun) and max(begun) + OUTCOME_WITHIN_MS > now_ms:
        return None
    return False
