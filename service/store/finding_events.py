"""The events of findings, in order, and each notification receiver's position in them."""

from __future__ import annotations

from typing import NamedTuple

from sqlalchemy import Connection, func, insert, select, update

from service.domain.findings.finding import Finding
from service.store.queries.findings import present
from service.store.rows.findings import finding_of
from service.store.schema import clusters, finding_events, findings, receiver_positions

_E, _F, _R = finding_events.c, findings.c, receiver_positions.c


class FindingEvent(NamedTuple):
    """An event of a finding, and the finding in its present state."""

    sequence: int
    event: str
    cluster: str
    finding: Finding


def known_sequences(connection: Connection) -> tuple[int, int]:
    """Returns the (oldest, newest) stored sequence; (1, 0) if no event is stored."""
    oldest, newest = connection.execute(select(func.min(_E.sequence), func.max(_E.sequence))).one()
    return (1, 0) if oldest is None else (oldest, newest)


def events_after(connection: Connection, sequence: int, limit: int) -> list[FindingEvent]:
    """Returns at most `limit` events after `sequence`, oldest first."""
    statement = (
        select(_E.sequence, _E.event, clusters.c.name, *findings.c)
        .join(findings, (_F.cluster_id == _E.cluster_id) & (_F.id == _E.finding_id))
        .join(clusters, clusters.c.id == _E.cluster_id)
        .where(_E.sequence > sequence)
        .order_by(_E.sequence)
        .limit(limit)
    )
    return [
        FindingEvent(row[0], row[1], row[2], present(connection, row._mapping[_F.cluster_id], finding_of(row)))
        for row in connection.execute(statement).all()
    ]


def position_of(connection: Connection, receiver: str) -> int | None:
    """Returns the sequence of the last event that the receiver took; None for an unknown receiver."""
    return connection.scalar(select(_R.sequence).where(_R.receiver == receiver))


def save_position(connection: Connection, receiver: str, sequence: int) -> None:
    """Stores `sequence` as that of the last event that the receiver took."""
    changed = connection.execute(update(receiver_positions).where(_R.receiver == receiver).values(sequence=sequence))
    if not changed.rowcount:
        connection.execute(insert(receiver_positions).values(receiver=receiver, sequence=sequence))
