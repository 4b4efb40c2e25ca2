"""Acknowledgements of findings that stay until somebody has seen them. The service adds them; the judge, which alone
writes findings, resolves what they cover."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Final

from sqlalchemy import Connection, insert, select

from service.domain.findings.catalogue import UNTIL_ACKNOWLEDGED
from service.domain.findings.finding import Acknowledgement, Finding
from service.store import audit_events
from service.store.audit_events import AuditEvent
from service.store.escaped_text import printable
from service.store.schema import acknowledgements

_A: Final = acknowledgements.c


def acknowledge(
    connection: Connection, cluster_id: int, finding: Finding, reason: str, event: AuditEvent
) -> Acknowledgement:
    """Adds the acknowledgement of all that the finding has counted so far, and `event` to the audit."""
    given = Acknowledgement(event.at_ms, event.who, printable(reason))
    values = {"finding_id": finding.id, "count": finding.life.count, **given._asdict()}
    connection.execute(insert(acknowledgements).values(cluster_id=cluster_id, **values))
    audit_events.add(connection, cluster_id, event)
    return given


def with_acknowledgements(connection: Connection, cluster_id: int, found: Sequence[Finding]) -> list[Finding]:
    """Returns the findings, each with the newest acknowledgement that covers it."""
    theirs = read_acknowledgements(connection, cluster_id, [one for one in found if one.kind in UNTIL_ACKNOWLEDGED])
    return [replace(one, acknowledgement=theirs[one.id]) if one.id in theirs else one for one in found]


def read_acknowledgements(
    connection: Connection, cluster_id: int, found: Collection[Finding]
) -> dict[str, Acknowledgement]:
    """Returns, by finding, the newest acknowledgement that covers all that it has counted; without one it is absent.
    The comparison is of numbers, never of two machines' clocks."""
    if not found:
        return {}
    counts = {one.id: one.life.count for one in found}
    rows = connection.execute(
        select(_A.finding_id, _A["count"], _A.at_ms, _A.by, _A.reason)
        .where(_A.cluster_id == cluster_id, _A.finding_id.in_(counts))
        .order_by(_A.id)
    )
    return {row[0]: Acknowledgement(*row[2:]) for row in rows if row[1] >= counts[row[0]]}
