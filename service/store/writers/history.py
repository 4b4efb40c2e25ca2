"""Writes counters that never fall, ended transactions by minute, records that could not be read, and the history of
ids: notable transitions, totals per minute, and causes of aborts that were settled later."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from sqlalchemy import Connection, bindparam, delete, func, select, update

from service.domain.transaction_log.causes import Cause
from service.domain.transaction_log.facts import Durations, Reject
from service.domain.transaction_log.id_delta import MINUTE_MS, IdDelta, IdMinute
from service.domain.transaction_log.outcomes import BATCH, DETECTION, bucket, duration_between
from service.store.escaped_text import id_key
from service.store.many_rows import Upsert
from service.store.rows.ids import IdRow
from service.store.schema import application_totals, cluster_minutes, counters, id_minutes, rejects, transitions
from service.store.schema.history import (
    ABORTED,
    ABORTS,
    AUDITED,
    COMMITS,
    CONFIRMED,
    CONTRADICTIONS,
    DECODE_ERRORS,
    EXPIRED,
    PRODUCER_IDS_ASSIGNED,
    SUM,
)
from service.store.writers.id_rows import EndedTotals

KEPT_REJECTS: Final = 10_000
"""Maximum number of rejects (records that could not be read) that are kept of a cluster: the newest ones. The counter
DECODE_ERRORS counts all rejects."""

KEPT_RAW_BYTES: Final = 32 << 20
"""Maximum total size (bytes) of the keys and values that are kept for the newest rejects of a cluster. Older rejects
keep only their place, reason and id."""


_COUNTERS = Upsert(counters, add=("value",))
_MINUTES = Upsert(cluster_minutes, add=("commits", "aborts"))
_TOTALS = Upsert(application_totals, add=(COMMITS, *ABORTED.values()), most=("last_ms",))
_REJECTS = Upsert(
    rejects,
    columns=[column.name for column in rejects.c if column.name != "id"],
    key=("cluster_id", "source", "topic", "partition", "generation", "offset"),
)


def count_ends(connection: Connection, cluster_id: int, ended: EndedTotals, now_ms: int) -> None:
    """Adds ended transactions to the counters, and to the minute in which they were read."""
    grown = {
        COMMITS: ended.commits,
        ABORTS: ended.aborts,
        EXPIRED: ended.expired,
        PRODUCER_IDS_ASSIGNED: ended.producer_ids_assigned,
    } | {ABORTED[word]: number for word, number in ended.by_cause.items()}
    _COUNTERS.write(connection, [(cluster_id, name, "", by) for name, by in grown.items() if by])
    count_ends_of_applications(connection, cluster_id, ended.by_application, now_ms)
    if ended.commits or ended.aborts:
        minute_ms = now_ms - now_ms % MINUTE_MS
        _MINUTES.write(connection, [(cluster_id, minute_ms, ended.commits, ended.aborts)])


def count_ends_of_applications(
    connection: Connection, cluster_id: int, grown: Mapping[tuple[str, str], int], now_ms: int
) -> None:
    """Adds ended transactions to the totals of applications. `grown`: a mapping from (application, column of
    `application_totals`) to the number to add."""
    applications = sorted({application for application, _ in grown})
    rows = [
        (
            cluster_id,
            application,
            now_ms,
            now_ms,
            *(grown.get((application, column), 0) for column in (COMMITS, *ABORTED.values())),
        )
        for application in applications
    ]
    _TOTALS.write(connection, [row for row in rows if any(row[4:])])


def count_durations(
    connection: Connection, cluster_id: int, histograms: Iterable[Durations], ended: EndedTotals
) -> None:
    """Adds durations to the stored histograms. `histograms`: durations of commits, already counted into buckets by
    executors. `ended`: durations that the driver derived."""
    grown: Counter[tuple[str, str]] = Counter()
    for histogram in histograms:
        name = f"{histogram.kind}_ms_commit"
        grown[name, SUM] += histogram.sum_ms
        grown.update({(name, str(index)): number for index, number in enumerate(histogram.buckets)})
    for outcome, kind, ms in ended.durations:
        name = f"{kind}_ms_{outcome}"
        grown[name, SUM] += ms
        grown[name, str(bucket(kind, ms))] += 1
    _COUNTERS.write(connection, [(cluster_id, *key, by) for key, by in sorted(grown.items()) if by])


def count_detection(connection: Connection, cluster_id: int, stalled_since_ms: int, confirmed_at_ms: int) -> None:
    """Adds the detection time of a hanging transaction that was confirmed just now. `stalled_since_ms`: the time at
    which the transaction's partition was first seen stalled. Call this function in the transaction that stores the
    finding, so that detection time and finding are written together."""
    _count_one(connection, cluster_id, DETECTION, CONFIRMED, duration_between(stalled_since_ms, confirmed_at_ms))


def count_contradictions(connection: Connection, cluster_id: int, number: int) -> None:
    """Adds the number of decisions that have just become unknown because proofs contradict each other. Call this
    function in the transaction that stores their findings, so that number and findings are written together."""
    if number:
        _COUNTERS.write(connection, [(cluster_id, CONTRADICTIONS, "", number)])


def count_audited(connection: Connection, cluster_id: int, results: Mapping[str, int]) -> None:
    """Adds numbers of audited transactions to the counters, by result of the audit. A transaction is audited when its
    markers were compared with its coordinator's decision."""
    _COUNTERS.write(connection, [(cluster_id, AUDITED, word, n) for word, n in sorted(results.items()) if n])


def count_batch(connection: Connection, cluster_id: int, source: str, took_ms: int | None) -> None:
    """Adds the duration (ms) of a batch of the source to the histogram; does nothing if `took_ms` is None."""
    if took_ms is not None:
        _count_one(connection, cluster_id, BATCH, source, took_ms)


def _count_one(connection: Connection, cluster_id: int, kind: str, label: str, ms: int) -> None:
    name = f"{kind}_ms_{label}"
    _COUNTERS.write(connection, [(cluster_id, name, SUM, ms), (cluster_id, name, str(bucket(kind, ms)), 1)])


def keep_rejects(
    connection: Connection, cluster_id: int, source: str, topic: str, new: Sequence[Reject], now_ms: int
) -> None:
    """Counts every reject by its reason. Keeps the newest KEPT_REJECTS rejects, and at most KEPT_RAW_BYTES of their
    keys and values."""
    if not new:
        return
    reasons = Counter(reject.reason for reject in new)
    _COUNTERS.write(connection, [(cluster_id, DECODE_ERRORS, reason, n) for reason, n in sorted(reasons.items())])
    _REJECTS.write(connection, [(cluster_id, source, topic, *reject, now_ms) for reject in _bounded(new)])
    of_cluster = rejects.c.cluster_id == cluster_id
    newest = select(rejects.c.id).where(of_cluster).order_by(rejects.c.id.desc())
    last_kept = newest.offset(KEPT_REJECTS - 1).limit(1).scalar_subquery()
    connection.execute(delete(rejects).where(of_cluster, rejects.c.id < last_kept))
    size = func.coalesce(func.length(rejects.c.key), 0) + func.coalesce(func.length(rejects.c.value), 0)
    up_to = func.sum(size).over(order_by=rejects.c.id.desc())
    sizes = select(rejects.c.id, size.label("size"), up_to.label("up_to")).where(of_cluster).subquery()
    too_many = select(sizes.c.id).where(sizes.c.size > 0, sizes.c.up_to > KEPT_RAW_BYTES)
    connection.execute(update(rejects).where(rejects.c.id.in_(too_many)).values(key=None, value=None))


def _bounded(new: Sequence[Reject]) -> list[Reject]:
    """Returns the newest rejects, at most KEPT_REJECTS, with each id replaced by its `id_key`. If all keys and values
    together exceed KEPT_RAW_BYTES, the oldest rejects lose their keys and values."""
    kept = []
    size = 0
    for reject in reversed(new[-KEPT_REJECTS:]):
        size += len(reject.key or b"") + len(reject.value or b"")
        if reject.transactional_id is not None:
            reject = reject._replace(transactional_id=id_key(reject.transactional_id))
        kept.append(reject if size <= KEPT_RAW_BYTES else reject._replace(key=None, value=None))
    return kept[::-1]


MINUTES: Final = Upsert(
    id_minutes,
    add=("commits", *ABORTED.values(), "opened", "open_sum_ms", "marked", "marker_sum_ms"),
    most=("open_max_ms", "marker_max_ms", "last_ms"),
    least=("first_ms",),
)

_TRANSITIONS = Upsert(
    transitions,
    columns=[column.name for column in transitions.c if column.name != "id"],
    key=("cluster_id", "partition", "generation", "offset"),
)
_REVISE = (
    update(transitions)
    .where(
        transitions.c.cluster_id == bindparam("cluster"),
        transitions.c.partition == bindparam("log_partition"),
        transitions.c.generation == bindparam("log_generation"),
        transitions.c.offset == bindparam("at"),
    )
    .values(cause=bindparam("word"), confidence=bindparam("sure"))
)


class HistoryRows:
    """Collects the rows of history that new records add to ids (`IdDelta`); leaves out transitions and minutes that are
    older than `oldest_ms`."""

    def __init__(self, cluster_id: int, oldest_ms: int, counts: bool) -> None:
        self._cluster_id, self._oldest_ms, self._counts = cluster_id, oldest_ms, counts
        self._transitions: list[tuple[Any, ...]] = []
        self._minutes: list[tuple[Any, ...]] = []
        self._revised: list[dict[str, Any]] = []

    def add(self, row: IdRow, delta: IdDelta) -> None:
        place = (self._cluster_id, row.transactional_id, row.partition, row.generation)
        for transition in delta.transitions:
            if transition.at_ms >= self._oldest_ms:
                self._transitions.append((*place, *transition, self._counts))
        for minute in delta.minutes.values():
            if minute.minute_ms >= self._oldest_ms:
                self._minutes.append(minute_row(self._cluster_id, row.transactional_id, minute))
        self._revised += [revision(row, offset, cause) for offset, cause in delta.revised]

    def write(self, connection: Connection) -> None:
        _TRANSITIONS.write(connection, self._transitions)
        MINUTES.write(connection, self._minutes)
        revise(connection, self._revised)


def revision(row: IdRow, offset: int, cause: Cause) -> dict[str, Any]:
    """Returns the parameters for `revise` that give the id's history row at `offset` another cause."""
    return {
        "cluster": row.cluster_id,
        "log_partition": row.partition,
        "log_generation": row.generation,
        "at": offset,
        "word": cause.code,
        "sure": cause.confidence,
    }


def revise(connection: Connection, revisions: Sequence[Mapping[str, Any]]) -> None:
    """Gives history rows their new causes; rows that are not stored are ignored."""
    if revisions:
        connection.execute(_REVISE, revisions)


def minute_row(cluster_id: int, transactional_id: bytes, minute: IdMinute) -> tuple[Any, ...]:
    """Returns a row of `id_minutes`. If the minute has no commits, `first_ms` is the end of the minute and `last_ms`
    its start, so that any later commit replaces both values."""
    minute_ms, sums, aborts = minute
    if not sums.commits:
        sums = sums._replace(first_ms=minute_ms + MINUTE_MS - 1, last_ms=minute_ms)
    return (cluster_id, transactional_id, minute_ms, *sums, *aborts)
