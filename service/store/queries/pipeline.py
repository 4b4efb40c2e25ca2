"""Reads facts that show how far the stored data can be trusted, and the recent activity of the whole cluster.

The facts: rejects, partitions that do not answer, the times of the last requests for groups and configs, and signs of
transactions without a transaction log.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from sqlalchemy import Connection, func, select

from service.domain.reasons.coding import decode, decode_if
from service.domain.reasons.reason import Reason
from service.domain.reasons.unread import NoTransactionLog, TransactionsSeen, is_log_absent
from service.domain.source_state import SourceName
from service.domain.transaction_log.id_delta import COUNTED_AS, MINUTE_MS
from service.domain.transaction_log.outcomes import BOUNDS_MS, MARKER, OPEN
from service.domain.transaction_log.states import PREPARE_ABORT
from service.store.queries.clusters import has_log
from service.store.schema import (
    cluster_minutes,
    clusters,
    counters,
    data_partitions,
    group_offsets,
    open_entries,
    rejects,
    source_status,
    transitions,
)
from service.store.schema.history import SUM

REJECTS_READ: Final = 20

APPEARS_WITHIN_MS: Final = 10_000
"""Longest time (ms) from the start of a cluster's first transaction until brokers of Apache Kafka list
`__transaction_state`. The coordinator needs the topic before the transaction begins, but brokers may list it later."""

_E, _R, _S = open_entries.c, rejects.c, source_status.c


class RejectRow(NamedTuple):
    """A record that could not be decoded. `transactional_id`: the key under which the store has the id. `bytes_kept`:
    the number of bytes of the record's key and value that the store has."""

    source: str
    topic: str
    partition: int
    offset: int
    reason: str
    transactional_id: bytes | None
    seen_at_ms: int
    bytes_kept: int


class RequestTimes(NamedTuple):
    """The times of the last requests for groups and for the brokers' configs. `groups_ms`: None if the store has no
    offsets of groups. `groups`: the number of groups with stored offsets. `configs_ms`: None if the store has no
    description of the cluster."""

    groups_ms: int | None
    groups: int
    configs_ms: int | None


def rejects_since(connection: Connection, cluster_id: int, since_ms: int) -> list[RejectRow]:
    """Returns the newest REJECTS_READ rejects seen since `since_ms`, newest first."""
    kept = func.coalesce(func.length(_R.key), 0) + func.coalesce(func.length(_R.value), 0)
    rows = connection.execute(
        select(_R.source, _R.topic, _R.partition, _R.offset, _R.reason, _R.transactional_id, _R.seen_at_ms, kept)
        .where(_R.cluster_id == cluster_id, _R.seen_at_ms >= since_ms)
        .order_by(_R.id.desc())
        .limit(REJECTS_READ)
    )
    return [RejectRow(*row) for row in rows]


def count_rejects(connection: Connection, cluster_id: int, since_ms: int) -> dict[tuple[str, int], int]:
    """Returns a mapping from (source, partition) to the number of stored rejects that were seen since `since_ms`."""
    rows = connection.execute(
        select(_R.source, _R.partition, func.count())
        .where(_R.cluster_id == cluster_id, _R.seen_at_ms >= since_ms)
        .group_by(_R.source, _R.partition)
    )
    return {(source, partition): number for source, partition, number in rows}


def request_times(connection: Connection, cluster_id: int) -> RequestTimes:
    of_cluster = group_offsets.c.cluster_id == cluster_id
    groups_ms, groups = connection.execute(
        select(func.max(group_offsets.c.observed_at_ms), func.count(func.distinct(group_offsets.c.group))).where(
            of_cluster
        )
    ).one()
    configs_ms = connection.scalar(select(clusters.c.described_at_ms).where(clusters.c.id == cluster_id))
    return RequestTimes(groups_ms, groups, configs_ms)


UNANSWERED_READ: Final = 200

_D = data_partitions.c


class UnansweredTopic(NamedTuple):
    """Those partitions of a topic that do not answer, for the reason `why`: their number, and the first and the last of
    them."""

    topic: str
    why: Reason
    partitions: int
    first: int
    last: int

    @property
    def name(self) -> str:
        """A name for these partitions, such as `orders-0` or `orders-0 to -5`. Some partitions in between may not be
        among them."""
        return f"{self.topic}-{self.first}" + (f" to -{self.last}" if self.last != self.first else "")


def read_unanswered(connection: Connection, cluster_id: int, topic: str) -> list[UnansweredTopic]:
    """Returns the watched partitions that did not answer the last request and were not stalled before. Each item stands
    for all such partitions of one topic with one reason. Returns at most UNANSWERED_READ items, sorted by topic.
    `topic`: a text that the topic's name contains, "" for all topics."""
    chosen = [
        _D.cluster_id == cluster_id,
        _D.is_gone.is_(False),
        _D.why.is_not(None),
        _D.stalled_since_ms.is_(None),
    ]
    if topic:
        chosen.append(_D.topic.contains(topic.replace("\0", ""), autoescape=True))
    rows = connection.execute(
        select(_D.topic, _D.why, func.count(), func.min(_D.partition), func.max(_D.partition))
        .where(*chosen)
        .group_by(_D.topic, _D.why)
        .order_by(_D.topic, _D.why)
        .limit(UNANSWERED_READ)
    )
    return [UnansweredTopic(topic, decode(why), *more) for topic, why, *more in rows]


def without_log(connection: Connection, cluster_id: int, now_ms: int) -> Reason | None:
    """Returns NoTransactionLog if there are signs of transactions, but the brokers list no transaction log. Returns
    None if the log was read before, or if there are no such signs.

    There are two signs. First, coordinators list transactions: the job that reads the log then stores NoTransactionLog,
    which stays stored after these transactions have ended. Second, by `now_ms`, an entry has been open on a partition
    for APPEARS_WITHIN_MS. Before that, the log may still be created.
    """
    if has_log(connection, cluster_id):
        return None
    stored = select(_S.error).where(_S.cluster_id == cluster_id, _S.source == SourceName.TRANSACTION_LOG)
    known = decode_if(connection.scalar(stored))
    if is_log_absent(known):
        return known
    is_open = select(_E.topic).where(_E.cluster_id == cluster_id, _E.first_seen_ms <= now_ms - APPEARS_WITHIN_MS)
    seen = connection.execute(is_open.limit(1)).first() is not None
    return NoTransactionLog(TransactionsSeen.OPEN) if seen else None


MOST_STEPS: Final = 50_000
"""Maximum number of aborts for which the causes are looked up (0.1 s of queries). Above this many only the total is
reported."""

_C, _M, _T = counters.c, cluster_minutes.c, transitions.c


class EndedMinute(NamedTuple):
    """The numbers of transactions whose end was read in one minute."""

    minute_ms: int
    commits: int
    aborts: int


class Medians(NamedTuple):
    """Medians, as upper bounds of buckets: half of the committed transactions were open for at most `open_ms`, and half
    of all ended transactions had their markers written within `marker_ms`. None if nothing was counted, or if the
    median is above the last bound."""

    open_ms: int | None
    marker_ms: int | None


def ended_minutes(connection: Connection, cluster_id: int, from_ms: int, to_ms: int) -> list[EndedMinute]:
    """Returns the minutes that begin in [from_ms, to_ms) and have a row, oldest first."""
    rows = connection.execute(
        select(_M.minute_ms, _M.commits, _M.aborts)
        .where(_M.cluster_id == cluster_id, _M.minute_ms >= from_ms, _M.minute_ms < to_ms)
        .order_by(_M.minute_ms)
    )
    return [EndedMinute(*row) for row in rows]


def aborts_by_cause(
    connection: Connection, cluster_id: int, from_ms: int, to_ms: int
) -> dict[tuple[int, str], int] | None:
    """Returns a mapping from (minute, cause as in `COUNTED_AS`) to the number of aborts that coordinators decided in
    [from_ms, to_ms); None if there are more than MOST_STEPS aborts. Aborts from before the first start are not
    counted."""
    some = (
        select((_T.at_ms - _T.at_ms % MINUTE_MS).label("minute_ms"), _T.cause)
        .where(
            _T.cluster_id == cluster_id,
            _T.at_ms >= from_ms,
            _T.at_ms < to_ms,
            _T.to_state == PREPARE_ABORT,
            _T.cause.in_(COUNTED_AS),
            _T.counted,
        )
        .limit(MOST_STEPS + 1)
        .subquery()
    )
    found_in = some.c.minute_ms, some.c.cause
    rows = connection.execute(select(*found_in, func.count()).group_by(*found_in))
    found = {(minute, COUNTED_AS[cause]): number for minute, cause, number in rows}
    return None if sum(found.values()) > MOST_STEPS else found


def medians(connection: Connection, cluster_id: int) -> Medians:
    """Returns the medians since counting began, from the histograms that the store keeps."""
    names = {f"{OPEN}_ms_commit": OPEN, f"{MARKER}_ms_commit": MARKER, f"{MARKER}_ms_abort": MARKER}
    rows = connection.execute(
        select(_C.name, _C.label, _C.value).where(_C.cluster_id == cluster_id, _C.name.in_(names), _C.label != SUM)
    )
    buckets: dict[str, dict[int, int]] = {OPEN: {}, MARKER: {}}
    for name, label, value in rows:
        of_kind = buckets[names[name]]
        of_kind[int(label)] = of_kind.get(int(label), 0) + value
    return Medians(_median(OPEN, buckets[OPEN]), _median(MARKER, buckets[MARKER]))


def _median(kind: str, buckets: Mapping[int, int]) -> int | None:
    half, seen = sum(buckets.values()) / 2, 0
    for index, bound_ms in enumerate(BOUNDS_MS[kind]):
        seen += buckets.get(index, 0)
        if seen and seen >= half:
            return bound_ms
    return None
