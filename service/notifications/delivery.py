"""Hands the events of findings to a receiver, in order and at least once. The store keeps each receiver's position."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple, Protocol

from sqlalchemy import Engine

from service.notifications.feed import start_after
from service.store import finding_events
from service.store.finding_events import FindingEvent

AT_ONCE: Final = 100


class Undelivered(Exception):
    """The receiver did not take the events; the message says why."""


class Receiver(Protocol):
    """A receiver of findings. A new kind of receiver is a class with these two members."""

    @property
    def name(self) -> str:
        """The name under which the store keeps the receiver's position. It must not change between restarts."""

    def receive(self, events: Sequence[FindingEvent]) -> None:
        """Takes the events, oldest first, perhaps some of them again. Raises Undelivered."""


class Delivered(NamedTuple):
    """The result of one delivery. `events`: the number that the receiver took. `skipped`: True if some events were
    deleted before it could get them. `is_all`: True if it has every event that the store holds now."""

    events: int
    skipped: bool
    is_all: bool


def deliver(engine: Engine, receiver: Receiver) -> Delivered:
    """Hands over the next events, AT_ONCE at most, and stores the new position once they are taken. A new receiver
    begins after the newest event. Raises Undelivered, and then leaves the position as it is; StoreError.

    No connection to the store is held while the receiver takes the events."""
    with engine.begin() as connection:
        known = finding_events.position_of(connection, receiver.name)
        start = start_after(connection, known)
        if start.sequence != known:
            finding_events.save_position(connection, receiver.name, start.sequence)
        events = finding_events.events_after(connection, start.sequence, AT_ONCE)
    if events:
        receiver.receive(events)
        with engine.begin() as connection:
            finding_events.save_position(connection, receiver.name, events[-1].sequence)
    return Delivered(len(events), start.is_reset, len(events) < AT_ONCE)
