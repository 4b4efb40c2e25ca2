"""The data of a cluster that every page shows: counts, the age of the data, and the reasons why the data are old."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from sqlalchemy import Connection

from service.domain.findings.formatting import describe_counts
from service.domain.findings.kinds import Severity, Status
from service.domain.reasons.reason import Reason
from service.domain.source_state import SourceName, Stall, StallCause
from service.domain.transaction_log.known_log import Limits, limits_of
from service.store.queries import clusters as read
from service.store.queries import expiring as read_expiring
from service.store.queries import findings as read_findings
from service.store.queries.clusters import ClusterRow, FirstRead, StatusRow, first_read
from service.store.queries.findings import FindingSelection
from service.views.cluster.description import Description, describe_cluster
from service.views.cluster.sources import StallLine, stall_lines
from service.views.partitions.judged import (
    Coverage,
    JudgedPartition,
    coverage,
    judged_stalled,
    log_unread_reason,
)

_DAY_MS: Final = 86_400_000


class Rights(NamedTuple):
    """The actions that the viewer of a page may take in the cluster. Pages offer no other actions. `audit`: reading the
    audit; `write`: muting and acknowledging findings."""

    audit: bool = False
    write: bool = False


class Frame(NamedTuple):
    """The data of a cluster that every page shows.

    - `seen`: the description of the cluster.
    - `standing`: stalled partitions, the longest stalled first.
    - `stalls`: a mapping from source to its stall; only the stalls that pages show.
    - `first_read`: progress of the first read of the transaction log; None once the first read is complete.
    - `expiring`: number of ids that expire within 24 hours.
    - `log_unread`: the result of `log_unread_reason`.
    - `has_log`: whether the brokers have, or once had, a transaction log.
    - `newer`: a sentence for people, if a newer version of txnscope has added to the store; else None.
    """

    clusters: tuple[str, ...]
    cluster: ClusterRow
    seen: Description
    standing: Sequence[JudgedPartition]
    freshness: Freshness
    stalls: Mapping[str, Stall]
    critical: int
    expiring: int
    first_read: FirstRead | None = None
    rights: Rights = Rights()
    log_unread: Reason | None = None
    has_log: bool = True
    newer: str | None = None

    @property
    def name(self) -> str:
        return self.cluster.name

    @property
    def now_ms(self) -> int:
        return self.freshness.now_ms

    @property
    def limits(self) -> Limits:
        """Returns the brokers' limits on which verdicts depend."""
        return limits_of(self.seen.configs)

    def as_of_ms(self, source: str) -> int | None:
        """Returns the time of the last success of `source`, as REST reports it; None if there was no success."""
        status = self.seen.statuses.get(source)
        return self.seen.coverage.answered_at_ms if source == SourceName.PARTITIONS else status and status.as_of_ms

    @property
    def left_out(self) -> str:
        """Returns a sentence about the conditions that have no finding because there are too many; an empty text if
        there are no such conditions."""
        if not self.seen.truncated:
            return ""
        counts = describe_counts(self.seen.truncated)
        return f"Left out, because there are too many at once: {counts}. These have no finding."

    @property
    def stall_lines(self) -> tuple[StallLine, ...]:
        """Returns one line for each group of sources that stall together; no lines if no stall is shown."""
        return stall_lines(self.stalls, self.now_ms)


def read_frame(connection: Connection, cluster: ClusterRow, now_ms: int) -> Frame:
    standing = judged_stalled(connection, cluster.id)
    covered = coverage(connection, cluster.id, standing)
    seen = describe_cluster(connection, cluster, now_ms, covered)
    log_unread = log_unread_reason(connection, cluster.id)
    needed = _needed(seen.statuses, covered, log_unread)
    critical = FindingSelection(statuses=frozenset({Status.CONFIRMED}), severities=frozenset({Severity.CRITICAL}))
    (expiring,) = read_expiring.count_expiring(connection, cluster.id, [now_ms + _DAY_MS - cluster.expiration_ms])
    progress = first_read(connection, cluster.id)
    freshness = Freshness(now_ms, _oldest(needed), None if progress is None else progress.share)
    return Frame(
        clusters=tuple(cluster.name for cluster in read.all_clusters(connection)),
        cluster=cluster,
        seen=seen,
        standing=standing,
        freshness=freshness,
        stalls={
            source: stall
            for source, stall in seen.stalls.items()
            if _is_shown(source, stall, seen.statuses, needed, freshness.word)
        },
        critical=read_findings.count(connection, cluster.id, critical),
        expiring=expiring,
        first_read=progress,
        log_unread=log_unread,
        has_log=read.has_log(connection, cluster.id),
    )


def _needed(statuses: Mapping[str, StatusRow], covered: Coverage, log_unread: Reason | None) -> dict[str, int | None]:
    """Returns the time of the last success of each source on which verdicts depend; None before the first success. The
    ledger is left out, because no verdict depends on it.

    For the data partitions, the time is `Coverage.answered_at_ms`: a partition that does not answer is unknown, but
    does not make the page old. A transaction log that cannot be read is left out unless it is the only source, because
    pages report everything that depends on it as unknown.
    """
    answered = {source: status.as_of_ms for source, status in statuses.items() if source != SourceName.LEDGER}
    if SourceName.PARTITIONS in answered:
        answered[SourceName.PARTITIONS] = covered.answered_at_ms
    if len(answered) > 1 and log_unread is not None:
        answered.pop(SourceName.TRANSACTION_LOG, None)
    return answered


def _oldest(needed: Mapping[str, int | None]) -> int | None:
    """Returns the last success (ms) of the source that succeeded least recently, because verdicts need all sources.
    Returns None if a source has not succeeded yet, or if there is no source."""
    times_ms = needed.values()
    return None if None in times_ms else min((one for one in times_ms if one is not None), default=None)


def _is_shown(
    source: str, stall: Stall, statuses: Mapping[str, StatusRow], needed: Mapping[str, int | None], word: str
) -> bool:
    """Returns whether pages show the stall. During the first read of the transaction log, missing progress is not
    shown, because batches take long. No stall is shown for a transaction log that cannot be read, because pages report
    everything that depends on this log as unknown; but if the log is the only source, its stall is shown. `word`: the
    page's `Freshness.word`."""
    if word == READING and stall.cause is StallCause.NO_PROGRESS:
        return False
    return source in needed or source == SourceName.LEDGER or source not in statuses


LATE_MS: Final = 5_000
OLD_MS: Final = 30_000
UNKNOWN_MS: Final = 120_000

LIVE: Final = "live"
LATE: Final = "late"
OLD: Final = "old"
UNKNOWN: Final = "unknown"
READING: Final = "reading"
NEVER: Final = "never"


class Freshness(NamedTuple):
    """The age of the data on a page. The page depends on some sources; `as_of_ms` is the last success of the one that
    succeeded least recently, None until all of them have succeeded. `read`: during the first read of the
    transaction log, the share that has been read, 0 to 1; else None."""

    now_ms: int
    as_of_ms: int | None
    read: float | None = None

    @property
    def age_ms(self) -> int:
        """Returns the age (ms), at least 0. `as_of_ms` comes from the clock of the host that wrote the store, and that
        clock may be ahead of ours."""
        return 0 if self.as_of_ms is None else max(self.now_ms - self.as_of_ms, 0)

    @property
    def word(self) -> str:
        """Returns the age in a word. `live`: pages mark nothing. `late`: pages mark the age. `old`: pages show the last
        known state in grey. `unknown`: pages give no verdict. `reading`, `never`: nothing is judged yet."""
        age_ms = self.age_ms
        if self.as_of_ms is not None and age_ms >= UNKNOWN_MS:
            return UNKNOWN  # also a first read that came to a halt
        if self.read is not None:
            return READING
        if self.as_of_ms is None:
            return NEVER
        return OLD if age_ms >= OLD_MS else LATE if age_ms >= LATE_MS else LIVE

    @property
    def is_old(self) -> bool:
        """Returns True if pages show the last known state."""
        return self.word in (OLD, UNKNOWN)
