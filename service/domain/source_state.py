"""Decides whether a source of data stalls, since when, and why: from its last success, its error and the lease.

`_ms` are milliseconds since the epoch. `as_of_ms` and `renewed_at_ms` come from the clock of the host that reads Kafka,
`now_ms` from the clock of the host that answers; the two may differ.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, StrEnum
from typing import Final

from service.domain.reasons.reason import Reason

LEASE_LAPSES_AFTER_MS: Final = 10_000
"""The age above which an unrenewed lease counts as lost; equal to `service.store.lease.EXPIRES_AFTER_MS` (a test
compares them)."""

STALLED_AFTER_MS: Final = LEASE_LAPSES_AFTER_MS
"""A source counts as stalled if its last success is older than this (ms). A healthy source succeeds at least once a
second, so ten successes in a row are missing then. A shorter time could not distinguish an application that is gone
from one that makes no progress, because a lease needs this time to lapse."""

COVERED_WITHIN_MS: Final = 30_000
"""Maximum age (ms) of the last answer of a partition that counts as covered, in metrics and on the pipeline page.
Answers are stored about once a second, but less often during a long batch of the first read."""


class SourceName(StrEnum):
    """The sources of facts about a cluster, in the words of the API and the metrics."""

    TRANSACTION_LOG = "transaction_state"
    PARTITIONS = "partitions"
    LEDGER = "ledger"
    """The ledger, for which data partitions are read batch by batch."""


class StallCause(Enum):
    """The reason why no new data of a source is stored."""

    FAILING = "failing"
    """The application reported an error: a broker is away, a permission or a topic is missing."""
    STOPPED = "stopped"
    """No application reads the cluster: the last one released its lease when it was stopped."""
    LOST = "lost"
    """No application reads the cluster: the last one died, or makes so little progress that its lease lapsed."""
    NO_APPLICATION = "no application"
    """No application ever held the lease."""
    NO_PROGRESS = "no progress"
    """An application renews its lease but does not read this source: it is starting, is busy, or has no CPU."""
    NOT_YET = "not yet"
    """An application renews its lease, and no read of this source has succeeded yet."""
    CLOCK_SET_BACK = "clock set back"
    """The last success lies in the future, by the clock of the host that reads Kafka and by the clock of the host that
    answers. Until these clocks reach the time of the last success, every read counts as older than the last success."""


@dataclass(frozen=True, slots=True)
class LeaseState:
    """The state of a lease, which is the right to store the data of one cluster. `released`: the application gave the
    lease back after its last renewal."""

    renewed_at_ms: int
    released: bool


@dataclass(frozen=True, slots=True)
class Stall:
    """The stall of a source: no new data of the source is stored.

    - `since_ms`: the source's last success; None if there was none, or if a clock was set back, so that the time is
      unknown.
    - `error`: the source's error, for the cause FAILING.
    - `unread_since_ms`: if the application is gone, the last time at which it renewed its lease or read this source;
      may be given together with an error. None while an application reads the cluster, or if none ever held the lease.
    - `until_ms`: for the cause CLOCK_SET_BACK, the time from which reads count as new again.
    """

    cause: StallCause
    since_ms: int | None
    error: Reason | None = None
    unread_since_ms: int | None = None
    until_ms: int | None = None


def stall_of(as_of_ms: int | None, error: Reason | None, lease: LeaseState | None, now_ms: int) -> Stall | None:
    """Returns the stall of the source; None while it does not stall.

    `as_of_ms`: the source's last success, None if there was none. `error`: the error in the source's last report; None
    if the report was a success.

    The clock of the application that reads Kafka may be ahead of `now_ms`. The age of the last success is then measured
    against the lease's last renewal, because both times come from the application's clock. If the application is gone,
    its absence is noticed only once `now_ms` has caught up with that clock."""
    latest_ms = now_ms if lease is None else max(now_ms, lease.renewed_at_ms)
    if as_of_ms is not None and abs(latest_ms - as_of_ms) <= STALLED_AFTER_MS:
        return None
    gone = _why_gone(lease, now_ms)
    is_ahead = as_of_ms is not None and as_of_ms > latest_ms
    since_ms = None if is_ahead else as_of_ms
    unread_since_ms = max(lease.renewed_at_ms, since_ms or 0) if lease is not None and gone is not None else None
    if error is not None:
        return Stall(StallCause.FAILING, since_ms, error, unread_since_ms)
    if gone is not None:
        return Stall(gone, since_ms, unread_since_ms=unread_since_ms)
    if is_ahead:
        return Stall(StallCause.CLOCK_SET_BACK, None, until_ms=as_of_ms)
    return Stall(StallCause.NOT_YET if as_of_ms is None else StallCause.NO_PROGRESS, since_ms)


def _why_gone(lease: LeaseState | None, now_ms: int) -> StallCause | None:
    """Returns the reason why no application reads the cluster; None if an application reads it."""
    if lease is None:
        return StallCause.NO_APPLICATION
    if lease.released:
        return StallCause.STOPPED
    return StallCause.LOST if now_ms - lease.renewed_at_ms > LEASE_LAPSES_AFTER_MS else None
