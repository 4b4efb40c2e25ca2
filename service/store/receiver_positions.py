"""How far each receiver of notifications has come in the events of findings."""

from __future__ import annotations

from sqlalchemy import Connection, insert, select, update

from service.store.schema import receiver_positions

_R = receiver_positions.c


def read(connection: Connection, receiver: str) -> int | None:
    """Returns the sequence of the last event that the receiver took; None for one that was never there."""
    return connection.scalar(select(_R.sequence).where(_R.receiver == receiver))


def save(connection: Connection, receiver: str, sequence: int) -> None:
    changed = connection.execute(update(receiver_positions).where(_R.receiver == receiver).values(sequence=sequence))
    if not changed.rowcount:
        connection.execute(insert(receiver_positions).values(receiver=receiver, sequence=sequence))
