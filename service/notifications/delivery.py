"""Hands the events of findings to a receiver, in order and at least once: the store keeps how far each has come."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple, Protocol

from sqlalchemy import Engine

from service.notifications.feed import start_after
from service.store import receiver_positions
from service.store.queries import findings
from service.store.queries.findings import FindingEvent

AT_ONCE: Final = 100


class Undelivered(Exception):
    """The receiver did not take the events; the message says why."""


class Receiver(Protocol):
    """Somebody who is told about findings. A new kind of receiver is a class of these two."""

    @property
    def name(self) -> str:
        """The name under which the store keeps its position: it stays over restarts."""

    def receive(self, events: Sequence[FindingEvent]) -> None:
        """Takes the events, oldest first, perhaps some of them again. Raises Undelivered."""


class Delivered(NamedTuple):
    """What a receiver got. `skipped`: the store kept some events no longer, which it never gets. `is_all`: nothing is
    left for it now."""

    events: int
    skipped: bool
    is_all: bool


def deliver(engine: Engine, receiver: Receiver) -> Delivered:
    """Hands over the next events, AT_ONCE at most, and stores the new position once they are taken. A receiver that was
    never there begins after the newest event. Raises Undelivered: the position stays; StoreError.

    No connection is held while the receiver takes them."""
    with engine.begin() as connection:
        known = receiver_positions.read(connection, receiver.name)
        start = start_after(connection, known)
        if start.sequence != known:
            receiver_positions.save(connection, receiver.name, start.sequence)
        events = findings.events_after(connection, start.sequence, AT_ONCE)
    if events:
        receiver.receive(events)
        with engine.begin() as connection:
            receiver_positions.save(connection, receiver.name, events[-1].sequence)
    return Delivered(len(events), start.is_reset, len(events) < AT_ONCE)
