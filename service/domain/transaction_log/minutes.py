"""What a pair of neighbouring records adds to the minute it happened in."""

from __future__ import annotations

from typing import Final, NamedTuple

from service.domain.transaction_log import journal, outcomes
from service.domain.transaction_log.facts import LogRecord
from service.domain.transaction_log.states import PREPARE_COMMIT

MINUTE_MS: Final = 60_000


class Told(NamedTuple):
    """`commits` is 0 or 1; durations are None where the pair tells none. Aborts are the journal's."""

    minute_ms: int
    commits: int
    open_ms: int | None
    marker_ms: int | None


FIRST_MS: Final = -(2**62)
LAST_MS: Final = 2**62
"""What lies before or behind counts for this minute: a minute at the limits of int64 would begin or end beyond them."""


def minute_of(ms: int) -> int:
    return min(max(ms, FIRST_MS), LAST_MS) // MINUTE_MS * MINUTE_MS


def told(before: LogRecord, after: LogRecord) -> Told | None:
    """What the pair tells of a commit; None for nothing. For columns of pairs: `spark_jobs.fold.transitions`."""
    commits = int(outcomes.commits(before, after))
    open_ms = journal.open_ms(before, after) if after.state == PREPARE_COMMIT else None
    if not commits and open_ms is None:
        return None
    return Told(minute_of(after.timestamp_ms), commits, open_ms, journal.marker_ms(before, after) if commits else None)
