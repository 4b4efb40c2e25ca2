"""Reads the next notifications of one receiver from the store, and writes back which of them the receiver has taken.

The events of findings are the outbox. The judge writes an event in the database transaction that stores the finding.
The store keeps each receiver's position in the events. While no new events come, the open findings are compared every
10 s with those that the receiver knows. Events alone do not show that a mute has ended, or that a finding is older than
the receiver.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final, NamedTuple

from sqlalchemy import Engine

from service.domain.findings.finding import Finding
from service.domain.findings.lifecycle import OPENED, RESOLVED
from service.notifications.feed import start_after
from service.notifications.notification import MUTED, Notification, Selection
from service.store import receivers
from service.store.finding_events import FindingEvent, events_after, findings_with_events_after
from service.store.lease import Lease, check
from service.store.queries import findings

AT_ONCE: Final = 500
"""Maximum number of events that are read at once. People get one message about an outage of up to this many ids."""


class Batch(NamedTuple):
    """The next notifications of a receiver, from the events with numbers above `after` and up to `sequence`. In a batch
    of `Outbox.overlooked`, `after` equals `sequence`, and no notification comes from an event. `dropped`: the maximum
    number of events that are skipped, because the store no longer has all events after the receiver's position.
    `is_all`: True if there are no later events."""

    notifications: tuple[Notification, ...]
    after: int
    sequence: int
    dropped: int = 0
    is_all: bool = True

    @property
    def is_news(self) -> bool:
        return bool(self.notifications or self.dropped) or self.sequence != self.after


class Outbox:
    """One receiver's notifications. `render`: a function that returns a finding's body and the address of its page.
    `reading`: an engine that cannot write to the store. If a method raises StoreError or LeaseLost, it has written
    nothing."""

    def __init__(
        self,
        reading: Engine,
        writing: Engine,
        name: str,
        kind: str,
        wanted: Selection,
        render: Callable[[str, Finding], tuple[str, str]],
    ) -> None:
        self._reading, self._writing, self.name, self.kind = reading, writing, name, kind
        self._wanted, self._render = wanted, render

    def begin(self, lease: Lease) -> None:
        """Adds the receiver to the store, with the newest event as the receiver's position. Does nothing if the store
        has the receiver already."""
        with self._writing.begin() as connection:
            check(connection, lease)
            if receivers.position_of(connection, self.name) is None:
                start = start_after(connection, None)
                receivers.add_receiver(connection, self.name, self.kind, start.sequence)

    def next(self, now_ms: int) -> Batch:
        """Returns the notifications of the events after the receiver's position, AT_ONCE events at most."""
        with self._reading.connect() as connection:
            known = receivers.position_of(connection, self.name) or 0
            start = start_after(connection, known)
            events = events_after(connection, start.sequence, AT_ONCE)
            knows = receivers.notified_of(connection, self.name) if events else frozenset()
        return Batch(
            tuple(self._of_events(events, knows, now_ms)),
            known,
            events[-1].sequence if events else start.sequence,
            max(start.sequence - known, 0) if start.is_reset else 0,
            len(events) < AT_ONCE,
        )

    def overlooked(self, sequence: int, now_ms: int, *, with_mutes: bool) -> Batch:
        """Returns notifications of findings that have no event after `sequence`.

        - OPENED: the finding is open and not muted; the receiver wants it and does not know it.
        - RESOLVED: the receiver knows the finding, which has ended.
        - MUTED (only `with_mutes`): the receiver knows the finding, which is muted now.
        """
        with self._reading.connect() as connection:
            knows = receivers.notified_of(connection, self.name)
            standing = findings.standing(connection)
            ended = findings.resolved(connection, knows)
            have_events = findings_with_events_after(connection, sequence)
        notifications = [
            self._notification(sequence, RESOLVED, now_ms, cluster, finding)
            for cluster, finding in ended
            if finding.id not in have_events
        ]
        for cluster, finding in standing:
            is_muted = _is_muted(finding, now_ms)
            if finding.id in have_events:
                continue
            if finding.id in knows:
                if is_muted and with_mutes:
                    notifications.append(self._notification(sequence, MUTED, now_ms, cluster, finding))
            elif not is_muted and self._wanted.includes(cluster, finding):
                notifications.append(self._notification(sequence, OPENED, now_ms, cluster, finding))
        return Batch(tuple(notifications), sequence, sequence)

    def known_open(self, sequence: int, now_ms: int) -> list[Notification]:
        """Returns notifications (OPENED) of the open findings that the receiver knows and that are not muted."""
        with self._reading.connect() as connection:
            knows = receivers.notified_of(connection, self.name)
            standing = findings.standing(connection) if knows else []
        return [
            self._notification(sequence, OPENED, now_ms, cluster, finding)
            for cluster, finding in standing
            if finding.id in knows and not _is_muted(finding, now_ms)
        ]

    def check(self, lease: Lease) -> None:
        """Raises LeaseLost if another service notifies now."""
        with self._writing.begin() as connection:
            check(connection, lease)

    def done(self, lease: Lease, batch: Batch, now_ms: int, taken: int | None = None, refused: int = 0) -> None:
        """Writes the receiver's progress to the store: the receiver has taken the first `taken` notifications of the
        batch, or all if `taken` is None. `refused`: the number of notifications that are dropped after the taken
        ones."""
        gone = len(batch.notifications) if taken is None else taken + refused
        took = batch.notifications[: gone - refused]
        is_whole = gone == len(batch.notifications)
        sequence = batch.sequence if is_whole else batch.notifications[gone - 1].sequence
        knows = {notification.finding.id: notification.event not in (RESOLVED, MUTED) for notification in took}
        with self._writing.begin() as connection:
            check(connection, lease)
            receivers.note_delivery(
                connection,
                self.name,
                sequence,
                now_ms,
                delivered=len(took),
                dropped=refused + batch.dropped,
                begun=[one for one, is_open in knows.items() if is_open],
                ended=[one for one, is_open in knows.items() if not is_open],
            )

    def failed(self, lease: Lease, error: str, now_ms: int) -> None:
        with self._writing.begin() as connection:
            check(connection, lease)
            receivers.note_failure(connection, self.name, error, now_ms)

    def _of_events(self, events: Iterable[FindingEvent], knows: frozenset[str], now_ms: int) -> Iterator[Notification]:
        known = set(knows)
        for event in events:
            finding = event.finding
            if not event.is_confirmed:  # a candidate is no finding yet
                continue
            if event.event == RESOLVED:
                if finding.id not in known:
                    continue
                known.discard(finding.id)
            elif _is_muted(finding, now_ms) or not (
                finding.id in known or self._wanted.includes(event.cluster, finding)
            ):
                continue
            else:
                known.add(finding.id)
            yield self._notification(event.sequence, event.event, event.at_ms, event.cluster, finding)

    def _notification(self, sequence: int, event: str, at_ms: int, cluster: str, finding: Finding) -> Notification:
        return Notification(sequence, event, at_ms, cluster, finding, *self._render(cluster, finding))


def _is_muted(finding: Finding, now_ms: int) -> bool:
    return (finding.observation.muted_until_ms or 0) > now_ms
