"""Stores findings, and their events for listeners. Only the judge uses this module."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Final

from sqlalchemy import Connection, Engine, delete, func, insert, or_, select

from service.domain.findings.finding import Finding, Key
from service.domain.findings.kinds import Kind, Status
from service.domain.findings.lifecycle import REOPENS_WITHIN_MS, Change
from service.store.backends import backend_of
from service.store.backends.backend import Lock
from service.store.lease import Lease, check
from service.store.many_rows import Upsert
from service.store.queries.applications import with_applications
from service.store.rows.findings import findings_of, row_of
from service.store.schema import finding_events, findings, findings_truncated, torn_transactions
from service.store.writers.history import count_contradictions, count_detection

EVENTS_KEPT: Final = 10_000
"""Maximum number of events kept, of all clusters together; a listener that missed more has to read all findings
again."""

_KEPT: Final = ("cluster_id", "id", "application")
_ROWS = Upsert(findings, replace=[c.name for c in findings.c if c.name not in _KEPT], fill=("application",))
_F = findings.c


class FindingWriter:
    """Writes findings under the lease. A method that raises LeaseLost or StoreUnavailable has written nothing. After
    LeaseLost, the writer has to stop."""

    def __init__(self, engine: Engine, lease: Lease) -> None:
        self._engine, self._lease = engine, lease

    def save(
        self, changes: Sequence[Change], now_ms: int, detected: Sequence[int] = (), contradictions: int = 0
    ) -> None:
        """Writes all changes or none. Does nothing if `changes` is empty. `detected`: for each hanging transaction
        confirmed now, the time (ms) at which its partition's stall began. `contradictions`: the number of decisions
        that have just become contradictory."""
        if not changes:
            return
        cluster_id = self._lease.cluster_id
        with self._engine.begin() as connection:
            check(connection, self._lease)
            named = with_applications(connection, cluster_id, [change.finding for change in changes])
            _ROWS.write(connection, [row_of(cluster_id, finding, connection) for finding in named])
            for since_ms in detected:
                count_detection(connection, cluster_id, since_ms, now_ms)
            count_contradictions(connection, cluster_id, contradictions)
            events = [
                {
                    "cluster_id": cluster_id,
                    "finding_id": c.finding.id,
                    "event": c.event,
                    "at_ms": now_ms,
                    "is_confirmed": c.finding.life.confirmed_at_ms is not None,
                }
                for c in changes
                if c.event is not None
            ]
            if events:
                backend_of(connection).lock(connection, Lock.NUMBER_EVENTS)
                connection.execute(insert(finding_events), events)
                newest = connection.scalar(select(func.max(finding_events.c.sequence))) or 0
                connection.execute(delete(finding_events).where(finding_events.c.sequence <= newest - EVENTS_KEPT))

    def forget_torn(self, sequences: Collection[int]) -> None:
        """Deletes the rows of the torn transactions with these numbers. Stored findings must report them already."""
        t = torn_transactions.c
        with self._engine.begin() as connection:
            check(connection, self._lease)
            connection.execute(
                delete(torn_transactions).where(t.cluster_id == self._lease.cluster_id, t.id.in_(sequences))
            )

    def save_truncated(self, counts: Mapping[Kind, int]) -> None:
        """Replaces the stored numbers of findings that were not opened, and of conditions that were not read, because a
        bound was reached. `counts`: a mapping from kind to number."""
        cluster_id = self._lease.cluster_id
        with self._engine.begin() as connection:
            check(connection, self._lease)
            connection.execute(delete(findings_truncated).where(findings_truncated.c.cluster_id == cluster_id))
            rows = [{"cluster_id": cluster_id, "kind": kind, "number": n} for kind, n in sorted(counts.items())]
            if rows:
                connection.execute(insert(findings_truncated), rows)


def load(connection: Connection, cluster_id: int, now_ms: int) -> dict[Key, Finding]:
    """Returns a mapping from key (kind and subject) to the newest finding that is open or may still reopen."""
    rows = connection.execute(
        select(findings)
        .where(
            _F.cluster_id == cluster_id,
            or_(_F.status != Status.RESOLVED, _F.resolved_at_ms >= now_ms - REOPENS_WITHIN_MS),
        )
        .order_by(_F.opened_at_ms)
    )
    return {(found.kind, found.subject): found for found in findings_of(rows)}
