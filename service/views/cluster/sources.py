"""The sources of a cluster: the progress of reading and sampling, the age of the data, and the reason why a source
stalls."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import Final, NamedTuple

from sqlalchemy import Connection

from service.domain.findings.formatting import join_names, utc
from service.domain.findings.formatting import join_partitions as named
from service.domain.reasons.reason import Reason, text_of
from service.domain.source_state import SourceName, Stall, StallCause, stall_of
from service.domain.transaction_log.states import EXPIRED, OPEN
from service.store.queries import clusters
from service.store.queries.clusters import LogPartitionRow, StateCount, StatusRow
from service.views import words
from service.views.partitions.judged import Coverage


class ReadSoFar(NamedTuple):
    """Numbers of partitions of a source. `judged`: partitions whose log is read to its end, or sampled partitions that
    can be judged. `unknown`: all other partitions. `why`: the reason why partitions are unknown, or why none is
    watched; None if there is no reason."""

    watched: int
    judged: int
    unknown: int
    why: str | None


class Source(NamedTuple):
    """The progress of a source. `position`, `end` and `lag` are sums over its partitions, in offsets; None for the data
    partitions, which are sampled and not read. `as_of_ms`: the time of its last success. `error`: why its last read
    failed, None if the read succeeded."""

    source: str
    position: int | None
    end: int | None
    lag: int | None
    caught_up: bool
    coverage: ReadSoFar
    as_of_ms: int | None
    error: Reason | None
    stall: Stall | None = None
    stalled_why: str | None = None


class Coordinator(NamedTuple):
    """A partition of the transaction log. `ids`: the number of ids in it that are not expired; `open`: the number of
    ids in it with an open transaction."""

    log: LogPartitionRow
    ids: int
    open: int


def coordinators_of(logs: Iterable[LogPartitionRow], counts: Iterable[StateCount]) -> list[Coordinator]:
    """Returns the partitions of the transaction log. `logs`: the partitions of all sources."""
    ids: Counter[int] = Counter()
    open_: Counter[int] = Counter()
    for count in counts:
        ids[count.partition] += count.ids * (count.state != EXPIRED)
        open_[count.partition] += count.ids * (count.state in OPEN)
    own = (log for log in logs if log.source == SourceName.TRANSACTION_LOG)
    return [Coordinator(log, ids[log.partition], open_[log.partition]) for log in own]


def sources_of(
    partitions: Sequence[LogPartitionRow],
    statuses: Mapping[str, StatusRow],
    coverage: Coverage,
    stalls: Mapping[str, Stall],
    now_ms: int,
) -> list[Source]:
    """Returns the sources, sorted by name. `coverage`: the coverage of the data partitions. `stalls`: a mapping from
    source to its stall."""
    read_of = {source: list(rows) for source, rows in groupby(partitions, lambda row: row.source)}
    found = []
    for name in sorted(read_of.keys() | statuses.keys()):
        status, stall = statuses.get(name, StatusRow(name, None, None)), stalls.get(name)
        of_name = _sampled(status, coverage) if name == SourceName.PARTITIONS else _read(read_of.get(name, []), status)
        found.append(of_name._replace(stall=stall, stalled_why=None if stall is None else why_stalled(stall, now_ms)))
    return found


def _read(partitions: Sequence[LogPartitionRow], status: StatusRow) -> Source:
    behind = [row.partition for row in partitions if row.next_offset < row.end_offset]
    why = None
    if behind:
        of = words.plural(len(partitions), "partition")
        have = "has not been read to its end" if len(behind) == 1 else "have not been read to their ends"
        why = f"{len(behind)} of {of} {have} yet"
    elif not partitions:
        why = text_of(status.error) or ("nothing has been read yet" if status.as_of_ms is None else None)
    return Source(
        source=status.source,
        position=sum(row.next_offset for row in partitions),
        end=sum(row.end_offset for row in partitions),
        lag=sum(row.lag for row in partitions),
        caught_up=not behind and why is None,
        coverage=ReadSoFar(len(partitions), len(partitions) - len(behind), len(behind), why),
        as_of_ms=status.as_of_ms,
        error=status.error,
    )


def _sampled(status: StatusRow, coverage: Coverage) -> Source:
    """Returns the source of the data partitions. This source has no position, because the partitions are sampled. A
    broker that does not answer is reported in `error`; the other brokers are still sampled."""
    has_looked = coverage.observed_at_ms is not None
    return Source(
        source=SourceName.PARTITIONS,
        position=None,
        end=None,
        lag=None,
        caught_up=has_looked and coverage.answering == coverage.watched and not coverage.hides_all,
        coverage=ReadSoFar(coverage.watched, coverage.judged, coverage.unknown, _why(status, coverage)),
        as_of_ms=coverage.answered_at_ms,
        error=status.error,
    )


def _why(status: StatusRow, coverage: Coverage) -> str | None:
    """Returns why partitions are not judged: the most common reason, its partitions, and the number of other reasons.
    Returns None if all are judged."""
    if coverage.observed_at_ms is None:
        return text_of(status.error) or "no partition has been sampled yet"
    if coverage.hides_all:
        if coverage.not_covered:
            return "no partition is watched: --topics or --mirrored excludes them all"
        return text_of(status.error) or "no topic is visible: there is none, or DESCRIBE is denied"
    if not coverage.unknown:
        return None
    if not coverage.missing:
        return text_of(status.error) or "the partitions have not answered recently"
    first, *others = coverage.missing
    more = f"; {len(others)} other reasons for other partitions" if len(others) > 1 else ""
    if len(others) == 1:
        more = "; another reason for other partitions"
    return f"{named(first.places) if first.places else words.plural(first.partitions, 'partition')}: {first.why}{more}"


_ALWAYS_READ: Final = (SourceName.TRANSACTION_LOG, SourceName.PARTITIONS)
_ENDED: Final = {
    StallCause.STOPPED: "the last application was stopped",
    StallCause.LOST: "the last application died or makes no progress",
}
_OTHERS: Final = {
    StallCause.NO_APPLICATION: "no streaming application has read this cluster yet",
    StallCause.NOT_YET: "the streaming application is starting; no read has succeeded yet",
    StallCause.NO_PROGRESS: "the streaming application runs but reads nothing new: it is starting, busy or"
    " short of CPU",
}


def read_stalls(
    connection: Connection,
    cluster_id: int,
    statuses: Mapping[str, StatusRow],
    coverage: Coverage,
    now_ms: int,
) -> dict[str, Stall]:
    """Returns a mapping from the name of a source to its stall. The mapping may contain a source of which nothing was
    ever stored. `coverage`: the coverage of the data partitions."""
    lease = clusters.lease_state(connection, cluster_id)
    found: dict[str, Stall] = {}
    for source in dict.fromkeys((*_ALWAYS_READ, *statuses)):
        status = statuses.get(source, StatusRow(source, None, None))
        # one partition without an answer holds back the sampler's last success, but all others are still sampled
        as_of_ms = coverage.answered_at_ms if source == SourceName.PARTITIONS else status.as_of_ms
        stall = stall_of(as_of_ms, status.error, lease, now_ms)
        if stall is not None:
            found[source] = stall
    return found


def why_stalled(stall: Stall, now_ms: int, *, is_dated: bool = True) -> str:
    """Returns the reason of a stall in one line, without a full stop.

    If no application reads the cluster, the line says since when, if this time is known and `is_dated` is True. Pass
    `is_dated=False` if the caller itself shows this time.
    """
    if stall.error is not None:
        gone = "" if stall.unread_since_ms is None else f"; {_unread(stall, now_ms, is_dated)}"
        return f"{stall.error}{gone}"
    if stall.cause is StallCause.CLOCK_SET_BACK and stall.until_ms is not None:
        return f"the clock was set back: until {_time(stall.until_ms, now_ms)} every read counts as old"
    if (ended := _ENDED.get(stall.cause)) is not None:
        return f"{_unread(stall, now_ms, is_dated)}; {ended}"
    return _OTHERS[stall.cause]


def _unread(stall: Stall, now_ms: int, is_dated: bool) -> str:
    if stall.unread_since_ms is None or not is_dated:
        return "no streaming application reads this cluster"
    return f"no streaming application has read this cluster since {_time(stall.unread_since_ms, now_ms)}"


def _time(ms: int, now_ms: int) -> str:
    """Returns a time like "10:34:12 UTC", with its date if `now_ms` is on another day."""
    return utc(ms).removeprefix(utc(now_ms)[: len("2026-03-14 ")])


_NAMES: Final[Mapping[str, str]] = {
    SourceName.TRANSACTION_LOG: "the transaction log",
    SourceName.PARTITIONS: "the data partitions",
    SourceName.LEDGER: "the ledger of markers",
}
_TOGETHER_MS: Final = 5_000
"""If two sources stall for the same reason, and their last successes are at most this time (ms) apart, they are shown
as one stall. The last successes of two sources are rarely at exactly the same time."""


class StallLine(NamedTuple):
    """Sources that stall together, shown as the line "`lead` since `since_ms`: `why`." `names`: the sources' names,
    joined for a sentence.

    `since_ms`: the last success of the source that succeeded least recently; None if the sources were never read, or if
    the time is not known because a clock was set back. `is_starting`: True if the application is about to read the
    sources for the first time.
    """

    sources: tuple[str, ...]
    names: str
    lead: str
    since_ms: int | None
    why: str
    is_starting: bool


def stall_lines(stalls: Mapping[str, Stall], now_ms: int) -> tuple[StallLine, ...]:
    """Returns a line for each group of sources that stall together, in the order of `stalls`."""
    groups: list[dict[str, Stall]] = []
    for source, stall in stalls.items():
        for group in groups:
            if _are_together(stall, next(iter(group.values()))):
                group[source] = stall
                break
        else:
            groups.append({source: stall})
    return tuple(_line(group, now_ms) for group in groups)


def _are_together(stall: Stall, other: Stall) -> bool:
    if (stall.cause, stall.error) != (other.cause, other.error):
        return False
    return stall.since_ms == other.since_ms or _is_near(stall.since_ms, other.since_ms)


def _is_near(one_ms: int | None, other_ms: int | None) -> bool:
    return one_ms is not None and other_ms is not None and abs(one_ms - other_ms) <= _TOGETHER_MS


def _line(group: Mapping[str, Stall], now_ms: int) -> StallLine:
    stall = next(iter(group.values()))
    since_ms = min((stall.since_ms for stall in group.values() if stall.since_ms is not None), default=None)
    names = join_names([_NAMES.get(source, source) for source in group])
    # despite an error, a part of the source may still be read: a log with one partition that has no leader
    lead = f"No complete read of {names}" if stall.cause is StallCause.FAILING else f"Nothing new of {names}"
    return StallLine(
        sources=tuple(group),
        names=names,
        lead=lead,
        since_ms=since_ms,
        why=why_stalled(stall, now_ms, is_dated=not _is_near(since_ms, stall.unread_since_ms)),
        is_starting=stall.cause is StallCause.NOT_YET,
    )
