"""The transactions that ended in the last hour: commits by minute, aborts by minute and cause."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from sqlalchemy import Connection

from service.domain.findings.finding import Finding
from service.domain.findings.kinds import Kind
from service.domain.source_state import SourceName
from service.domain.transaction_log.id_delta import MINUTE_MS, minute_of
from service.store.queries import findings, pipeline
from service.store.queries.findings import FindingSelection
from service.views import words
from service.views.cluster.frame import Frame
from service.views.words import COUNTED, WORDS, Word

MINUTES: Final = 60
_ALL_CAUSES: Final = "none"
"""The style in which aborts are drawn if they are not counted by cause."""


class LastHour(NamedTuple):
    """The transactions that ended in [from_ms, to_ms): whole minutes, at most an hour. Minutes before counting began
    are left out.

    A commit counts in the minute in which it was read, an abort in the minute of its record's timestamp. While reading
    lags, a record is read in a later minute than that of its timestamp. If there are too many aborts to count them by
    cause, an abort counts, like a commit, in the minute in which it was read.

    - `is_begun_late`: True if counting began within the first minute, which is then counted only in part.
    - `aborts`: for each minute, a mapping from the style of a cause to the number of aborts with this cause.
    - `totals`: (cause, number of aborts) for each cause; None if there are too many aborts to count them by cause.
    - `outage`: the finding about ids that timed out together, if there is one.
    """

    from_ms: int
    to_ms: int
    is_begun_late: bool
    commits: Sequence[int]
    aborts: Sequence[Mapping[str, int]]
    totals: Sequence[tuple[Word, int]] | None
    outage: Finding | None

    @property
    def committed(self) -> int:
        return sum(self.commits)

    @property
    def aborted(self) -> int:
        return sum(sum(minute.values()) for minute in self.aborts)

    @property
    def ended(self) -> int:
        return self.committed + self.aborted

    @property
    def length_ms(self) -> int:
        return self.to_ms - self.from_ms

    @property
    def begins_ms(self) -> int:
        """Returns the start (ms) of the drawing, which always covers an hour."""
        return self.to_ms - MINUTES * MINUTE_MS

    @property
    def missing(self) -> int:
        """Returns the number of minutes of the hour that were not counted."""
        return MINUTES - len(self.commits)

    @property
    def commits_text(self) -> str:
        whole = self.commits[1:] if self.is_begun_late else self.commits
        if not whole:
            return f"{words.plural(self.committed, 'commit')} since counting began"
        if min(whole) == max(whole):
            return f"{words.plural(whole[0], 'commit')} a minute"
        return f"between {min(whole):,} and {max(whole):,} commits a minute"

    @property
    def aborts_text(self) -> str:
        most = max(sum(minute.values()) for minute in self.aborts)
        return f"at most {words.plural(most, 'abort')} a minute" if most else "no aborts"


def read_last_hour(connection: Connection, frame: Frame) -> LastHour | None:
    """Returns the transactions of the last hour; None until the minute in which counting began has ended."""
    status, since_ms = frame.seen.statuses.get(SourceName.TRANSACTION_LOG), frame.cluster.counted_since_ms
    if status is None or status.as_of_ms is None or since_ms is None:
        return None
    to_ms = minute_of(status.as_of_ms)
    from_ms = max(to_ms - MINUTES * MINUTE_MS, minute_of(since_ms))
    if from_ms >= to_ms:
        return None
    cluster_id = frame.cluster.id
    found = {
        ended_minute.minute_ms: ended_minute
        for ended_minute in pipeline.ended_minutes(connection, cluster_id, from_ms, to_ms)
    }
    times = range(from_ms, to_ms, MINUTE_MS)
    causes = pipeline.aborts_by_cause(connection, cluster_id, from_ms, to_ms)
    aborts: list[dict[str, int]] = [{_ALL_CAUSES: found[at].aborts if at in found else 0} for at in times]
    totals = None
    if causes is not None:
        aborts, numbers = [{} for _ in times], Counter[str]()
        for (minute_ms, word), number in causes.items():
            aborts[(minute_ms - from_ms) // MINUTE_MS][WORDS[COUNTED[word]].style] = number
            numbers[word] += number
        totals = [(WORDS[cause], numbers[word]) for word, cause in COUNTED.items() if numbers[word] or word != "admin"]
    commits = [found[at].commits if at in found else 0 for at in times]
    return LastHour(
        from_ms, to_ms, from_ms < since_ms, commits, aborts, totals, _outage(connection, cluster_id, from_ms)
    )


def _outage(connection: Connection, cluster_id: int, since_ms: int) -> Finding | None:
    """Returns the newest finding about ids that timed out together; such a finding explains the aborts. Returns None if
    there is no such finding, or if it was last seen before `since_ms`."""
    selection = FindingSelection(kinds=frozenset({Kind.CORRELATED_TIMEOUTS}))
    found, _ = findings.read_page(connection, cluster_id, selection, None, 1)
    return found[0] if found and found[0].life.last_seen_ms >= since_ms else None
