"""Defines a notification, the selection of findings that a receiver wants, the base of receivers, and the finding that
tests a receiver."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from typing import Any, Final, NamedTuple

from service.domain.findings.finding import Facts, Finding, Life, Observation, Subject, Words
from service.domain.findings.kinds import Kind, Severity, Status

MUTED: Final = "muted"
"""The event of a finding that was muted after the receiver was notified of it. Only receivers that repeat get this
event."""

TEST: Final = "test"
"""The event of a notification that only tests a receiver."""


class Notification(NamedTuple):
    """An event of a confirmed finding. `sequence`: the event's number in the store or, for an event that is not in the
    store, the receiver's position (0 for a test). `event`: a word of service.domain.findings.lifecycle, MUTED, or TEST.
    `finding`: the finding's present state, which may be newer than the event. `body`: the finding as REST shows it
    (JSON). `link`: the address of the finding's page."""

    sequence: int
    event: str
    at_ms: int
    cluster: str
    finding: Finding
    body: str
    link: str

    @property
    def id(self) -> str:
        """The notification's id. For an event in the store, the id is the same in each attempt at delivery, and
        different from the ids of other events."""
        return f"{self.finding.id}-{self.sequence}-{self.event}"

    def as_json(self) -> dict[str, Any]:
        """Returns the notification as JSON values: event, number, time, the finding as REST shows it, and its page."""
        return {
            "event": self.event,
            "sequence": self.sequence,
            "at": datetime.fromtimestamp(self.at_ms / 1000, UTC).isoformat(),
            "cluster": self.cluster,
            "link": self.link,
            "finding": json.loads(self.body),
        }


@dataclass(frozen=True, slots=True)
class Selection:
    """The findings that a receiver wants: those that fit every filter. A filter that is None or an empty set selects
    all findings. A filter that is a text is a glob."""

    min_severity: Severity = Severity.WARNING
    kinds: frozenset[Kind] = frozenset()
    owner: str | None = None
    topic: str | None = None
    cluster: str | None = None
    application: str | None = None

    def includes(self, cluster: str, finding: Finding) -> bool:
        globs = (
            (self.owner, finding.observation.owner),
            (self.topic, finding.subject.topic),
            (self.cluster, cluster),
            (self.application, finding.application),
        )
        return (
            finding.severity.rank <= self.min_severity.rank
            and (not self.kinds or finding.kind in self.kinds)
            and all(glob is None or fnmatchcase(text or "", glob) for glob, text in globs)
        )


class Undelivered(Exception):
    """The receiver did not take a notification; the message says why, in one line without secrets.

    `taken`: the number of notifications, from the first, that the receiver took before this one. `is_refused`: True if
    the receiver refuses this notification, so sending it again would not help. `retry_after_s`: the pause that the
    receiver asked for; 0: none.
    """

    def __init__(self, text: str, *, taken: int = 0, is_refused: bool = False, retry_after_s: float = 0.0) -> None:
        super().__init__(text)
        self.taken, self.is_refused, self.retry_after_s = taken, is_refused, retry_after_s


class Receiver(ABC):
    """The base of receivers. A new kind of receiver is a subclass, and an entry in service.notifications.receivers.

    - `repeats_every_s`: the interval at which the open findings that the receiver knows are sent to it again; None:
      never.
    - `gathers_s`: the shortest time between two messages. Later events are sent together in the next message. 0: no
      limit.
    """

    repeats_every_s: float | None = None
    gathers_s: float = 0.0

    @abstractmethod
    def send(self, notifications: Sequence[Notification]) -> None:
        """Delivers the notifications, oldest first. Some may have been delivered before. Raises Undelivered."""

    def repeat(self, notifications: Sequence[Notification]) -> None:
        """Delivers again the open findings that the receiver knows and that are not muted, at the interval
        `repeats_every_s`. Raises Undelivered."""
        self.send(notifications)

    def close(self) -> None:
        """Releases what the receiver holds open, such as a connection."""
        return


TRIAL_CLUSTER: Final = "test"


@dataclass(frozen=True, slots=True)
class TrialFacts(Facts):
    """The facts of the test finding; findings of the judge never have them."""

    def words(self, _: Observation, /) -> Words:
        return Words("this is a test of notifications by txnscope: nothing is wrong", "No action is needed.")


def trial_finding(now_ms: int) -> Finding:
    """Returns the finding that tests a receiver. This finding is in no store."""
    seen = Observation(Kind.COVERAGE_GAP, Severity.INFO, Subject(), TrialFacts(), ())
    life = Life(Status.CONFIRMED, now_ms, now_ms, now_ms, 1)
    return Finding("test", seen, life)
