"""Defines a notification, the selection of findings that a receiver wants, and the protocol of receivers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Final, NamedTuple, Protocol

from service.domain.findings.finding import Finding
from service.domain.findings.kinds import Kind, Severity

MUTED: Final = "muted"
"""The event of a finding that was muted after the receiver was notified of it. Only receivers that repeat get it."""

TEST: Final = "test"
"""The event of a notification that only tries a receiver."""

_SEVERITIES: Final = tuple(Severity)


class Notification(NamedTuple):
    """An event of a confirmed finding. `sequence`: the event's number in the store. `event`: a word of
    service.domain.findings.lifecycle, MUTED, or TEST. `finding`: the finding's present state, which may be newer than
    the event. `body`: the finding as REST shows it (JSON). `link`: the address of the finding's page."""

    sequence: int
    event: str
    at_ms: int
    cluster: str
    finding: Finding
    body: str
    link: str

    @property
    def is_over(self) -> bool:
        return not self.finding.is_open


@dataclass(frozen=True, slots=True)
class Selection:
    """The findings that a receiver wants: those that fit every filter. None, or an empty set, does not filter; texts
    are globs."""

    min_severity: Severity = Severity.WARNING
    kinds: frozenset[Kind] = frozenset()
    owner: str | None = None
    topic: str | None = None
    cluster: str | None = None

    def includes(self, cluster: str, finding: Finding) -> bool:
        globs = (self.owner, finding.observation.owner), (self.topic, finding.subject.topic), (self.cluster, cluster)
        return (
            _SEVERITIES.index(finding.severity) <= _SEVERITIES.index(self.min_severity)
            and (not self.kinds or finding.kind in self.kinds)
            and all(glob is None or fnmatchcase(text or "", glob) for glob, text in globs)
        )


class Undelivered(Exception):
    """The receiver did not take a notification; the message says why, in one line without secrets.

    `taken`: the number of notifications, from the first, that the receiver took before this one. `is_refused`: the
    receiver refused the notification as such, so that sending it again would not help. `retry_after_s`: the pause that
    the receiver asked for; 0: none.
    """

    def __init__(self, text: str, *, taken: int = 0, is_refused: bool = False, retry_after_s: float = 0.0) -> None:
        super().__init__(text)
        self.taken, self.is_refused, self.retry_after_s = taken, is_refused, retry_after_s


class Receiver(Protocol):
    """A receiver of notifications. A new kind of receiver is a class with these members, and an entry in
    service.notifications.receivers."""

    @property
    def repeats_every_s(self) -> float | None:
        """The interval (s) at which the receiver wants all open findings again; None: never."""

    @property
    def gathers_s(self) -> float:
        """The shortest time (s) between two messages. Events in between are sent in one message. 0: no such limit."""

    def send(self, notifications: Sequence[Notification]) -> None:
        """Delivers the notifications, oldest first. Some may have been delivered before. Raises Undelivered."""

    def repeat(self, notifications: Sequence[Notification]) -> None:
        """Delivers all open findings again, if `repeats_every_s` is not None. Raises Undelivered."""

    def close(self) -> None: ...
