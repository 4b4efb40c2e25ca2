"""Reads the events of findings, in the order of their sequence."""

from __future__ import annotations

from typing import Final, NamedTuple

from sqlalchemy import Connection, bindparam, func, select

from service.domain.findings.finding import Finding
from service.store.queries.findings import present
from service.store.rows.findings import finding_if_known
from service.store.schema import clusters, finding_events, findings

_E, _F = finding_events.c, findings.c
_EVENTS: Final = (
    select(_E.sequence, _E.event, _E.at_ms, _E.is_confirmed, clusters.c.name, *findings.c)
    .join(findings, (_F.cluster_id == _E.cluster_id) & (_F.id == _E.finding_id))
    .join(clusters, clusters.c.id == _E.cluster_id)
    .where(_E.sequence > bindparam("sequence"))
    .order_by(_E.sequence)
    .limit(bindparam("limit"))
)


class FindingEvent(NamedTuple):
    """An event of a finding, and the finding in its present state. `is_confirmed`: False if the finding had not been
    confirmed when the event was stored."""

    sequence: int
    event: str
    at_ms: int
    is_confirmed: bool
    cluster: str
    finding: Finding


def known_sequences(connection: Connection) -> tuple[int, int]:
    """Returns the (oldest, newest) stored sequence; (1, 0) if no event is stored."""
    oldest, newest = connection.execute(select(func.min(_E.sequence), func.max(_E.sequence))).one()
    return (1, 0) if oldest is None else (oldest, newest)


def events_after(connection: Connection, sequence: int, limit: int) -> list[FindingEvent]:
    """Returns at most `limit` events after `sequence`, oldest first. Leaves out events of findings with values that
    only a newer version of txnscope knows. Skips over the events that it leaves out: returns an empty list only if
    nothing but such events follows `sequence`."""
    while True:
        rows = connection.execute(_EVENTS, {"sequence": sequence, "limit": limit}).all()
        known = [
            FindingEvent(
                *(row[0], row[1], row[2], row[3], row[4]),
                present(connection, row._mapping[_F.cluster_id], finding),
            )
            for row in rows
            if (finding := finding_if_known(row)) is not None
        ]
        if known or len(rows) < limit:
            return known
        sequence = rows[-1].sequence


def findings_with_events_after(connection: Connection, sequence: int) -> frozenset[str]:
    """Returns the ids of the findings that have events after `sequence`."""
    return frozenset(connection.scalars(select(_E.finding_id).where(_E.sequence > sequence)))
