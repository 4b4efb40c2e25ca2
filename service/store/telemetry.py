"""Stores the state of the export by OTLP: the name under which the store's data are exported, and the positions up to
which traces were sent."""

from __future__ import annotations

from typing import NamedTuple
from uuid import uuid4

from sqlalchemy import Connection, insert, select, update

from service.store import finding_events
from service.store.queries.id_events import newest_sequence
from service.store.schema import telemetry

_T = telemetry.c


class TracePosition(NamedTuple):
    """The positions up to which traces were sent. `transition`: number of the last history row; `finding_event`:
    sequence number of the last event of a finding."""

    transition: int
    finding_event: int


def instance_of(connection: Connection) -> str:
    """Returns the UUID under which the store's data are exported. The first call creates the UUID."""
    found = connection.scalar(select(_T.instance))
    if found is None:
        found = str(uuid4())
        connection.execute(insert(telemetry).values(instance=found))
    return found


def begin_traces(connection: Connection) -> TracePosition:
    """Returns the stored position. If no position is stored, stores and returns the newest position, so that earlier
    transactions and events are not sent. Call `instance_of` first, because it creates the row."""
    row = connection.execute(select(_T.transition, _T.finding_event)).one()
    if row.transition is not None:
        return TracePosition(*row)
    _, newest_event = finding_events.known_sequences(connection)
    position = TracePosition(newest_sequence(connection), newest_event)
    move_traces(connection, position)
    return position


def move_traces(connection: Connection, position: TracePosition | None) -> None:
    """Stores the position. With None, deletes the stored position, because no traces are sent."""
    values = dict.fromkeys(TracePosition._fields) if position is None else position._asdict()
    connection.execute(update(telemetry).values(values))
