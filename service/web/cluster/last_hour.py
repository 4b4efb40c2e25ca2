"""The transactions that ended in the last hour, as the overview draws them: commits by minute, aborts by minute and
cause."""

from __future__ import annotations

from collections import Counter
from typing import Final, NamedTuple

from sqlalchemy import Connection

from service.domain.findings.finding import Finding
from service.domain.findings.kinds import Kind
from service.domain.source_state import SourceName
from service.domain.transaction_log.id_delta import MINUTE_MS, minute_of
from service.store.queries import findings, pipeline
from service.store.queries.findings import FindingSelection
from service.views import words
from service.views.words import COUNTED, WORDS
from service.web.charts.minutes import Area, Bars, area, stacked
from service.web.shared.frame import Frame

MINUTES: Final = 60

_STYLES: Final = tuple(WORDS[cause].style for cause in COUNTED.values())
_ALL_CAUSES: Final = "none"
"""The colour of aborts that are not split by cause."""


class Total(NamedTuple):
    """The aborts of one cause: its letter, the style of its square, its words, and their number."""

    letter: str
    style: str
    text: str
    number: int


class LastHour(NamedTuple):
    """The transactions that ended in the whole minutes of [from_ms, to_ms): an hour at most, and nothing before
    counting began. Commits count in the minute they were read in, aborts by the transaction log's own time; the two
    differ while reading lags. `totals`: None if there are too many aborts to split them by cause here."""

    from_ms: int
    to_ms: int
    commits: int
    aborts: int
    commits_area: Area
    commits_text: str
    aborts_bars: Bars
    aborts_text: str
    totals: tuple[Total, ...] | None
    outage: Finding | None

    @property
    def ended(self) -> int:
        return self.commits + self.aborts

    @property
    def length_ms(self) -> int:
        return self.to_ms - self.from_ms

    @property
    def begins_ms(self) -> int:
        """Returns the start of the drawing, which always covers an hour."""
        return self.to_ms - MINUTES * MINUTE_MS


def read_last_hour(connection: Connection, frame: Frame) -> LastHour | None:
    """Returns the last hour; None before a whole minute was counted."""
    status, since_ms = frame.statuses.get(SourceName.TRANSACTION_LOG), frame.cluster.counted_since_ms
    if status is None or status.as_of_ms is None or since_ms is None:
        return None
    to_ms = minute_of(status.as_of_ms)
    from_ms = max(to_ms - MINUTES * MINUTE_MS, minute_of(since_ms))
    if from_ms >= to_ms:
        return None
    cluster_id = frame.cluster.id
    found = {one.minute_ms: one for one in pipeline.ended_minutes(connection, cluster_id, from_ms, to_ms)}
    times = range(from_ms, to_ms, MINUTE_MS)
    commits = [found[at].commits if at in found else 0 for at in times]
    aborts = [found[at].aborts if at in found else 0 for at in times]
    missing = MINUTES - len(times)
    causes = pipeline.aborts_by_cause(connection, cluster_id, from_ms, to_ms)
    bars, totals = _by_cause(causes, times) if causes is not None else (_uncaused(aborts), None)
    most = max(sum(bar.values()) for bar in bars)
    return LastHour(
        from_ms=from_ms,
        to_ms=to_ms,
        commits=sum(commits),
        aborts=sum(aborts) if totals is None else sum(one.number for one in totals),
        commits_area=area(commits, missing),
        commits_text=f"between {min(commits):,} and {max(commits):,} commits a minute",
        aborts_bars=stacked(
            [*({} for _ in range(missing)), *bars], [*(WORDS[cause].style for cause in COUNTED.values())]
        ),
        aborts_text=f"at most {words.plural(most, 'abort')} a minute" if most else "no aborts",
        totals=totals,
        outage=_outage(connection, cluster_id, from_ms),
    )


def _by_cause(causes: dict[tuple[int, str], int], times: range) -> tuple[list[dict[str, int]], tuple[Total, ...]]:
    minutes: list[dict[str, int]] = [{} for _ in times]
    numbers: Counter[str] = Counter()
    for (minute_ms, word), number in causes.items():
        minutes[(minute_ms - times.start) // MINUTE_MS][WORDS[COUNTED[word]].style] = number
        numbers[word] += number
    told = ((WORDS[cause], numbers[word]) for word, cause in COUNTED.items() if numbers[word] or word != "admin")
    return minutes, tuple(Total(word.letter, word.style, word.text, number) for word, number in told)


def _uncaused(aborts: list[int]) -> list[dict[str, int]]:
    return [{_ALL_CAUSES: number} for number in aborts]


def _outage(connection: Connection, cluster_id: int, since_ms: int) -> Finding | None:
    """Returns the finding about ids that timed out together, if it was last seen at `since_ms` or later, since it
    explains the aborts; else None."""
    selection = FindingSelection(kinds=frozenset({Kind.CORRELATED_TIMEOUTS}))
    found, _ = findings.read_page(connection, cluster_id, selection, None, 1)
    return found[0] if found and found[0].life.last_seen_ms >= since_ms else None
