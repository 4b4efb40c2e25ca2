"""Reads what may explain the end of a transaction on a partition: decisions of coordinators, and findings."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

from sqlalchemy import Connection, and_, func, or_, select

from service.domain.findings.kinds import Kind, Resolution, Severity, Status
from service.domain.partitions.facts import MarkerType
from service.domain.partitions.marker_causes import CLOCKS_MS, Decision, KnownPeriod
from service.domain.partitions.own_transactions import LostCommit
from service.domain.source_state import SourceName
from service.domain.transaction_log.causes import Cause, CauseCode, Confidence, confidence_of_commit
from service.domain.transaction_log.id_delta import MINUTE_MS
from service.domain.transaction_log.states import COMPLETE_COMMIT, PREPARE_ABORT, PREPARE_COMMIT
from service.domain.transaction_log.transitions import SLOW_MARKERS_MS
from service.store.escaped_text import id_key
from service.store.queries import clusters
from service.store.queries.clusters import ClusterRow
from service.store.schema import data_gaps, findings, id_minutes, transactional_ids, transitions

_MOST_ROWS: Final = 5_000

_BY_HAND: Final = {
    Resolution.OUR_MARKER: ((MarkerType.ABORT, MarkerType.COMMIT), Cause(CauseCode.ADMIN, Confidence.CERTAIN)),
    Resolution.FOREIGN_ABORT: ((MarkerType.ABORT,), Cause(CauseCode.ADMIN, Confidence.LIKELY)),
    Resolution.FOREIGN_COMMIT: ((MarkerType.COMMIT,), Cause(CauseCode.ADMIN, Confidence.LIKELY)),
}
"""Maps a resolution of a hanging transaction to the types of markers that may have ended the transaction, and to the
cause of these markers. Has only the resolutions in which no coordinator ended the transaction."""

_LIKELY_COMMIT: Final = Cause(CauseCode.COMMIT, Confidence.LIKELY)
_PREPARED: Final = {PREPARE_ABORT: MarkerType.ABORT, PREPARE_COMMIT: MarkerType.COMMIT}

_T, _M, _I, _F, _G = transitions.c, id_minutes.c, transactional_ids.c, findings.c, data_gaps.c


class CoordinatorDecisions(NamedTuple):
    """Decisions of a coordinator. `since_ms`: `decisions` has all stored decisions whose markers were written after
    this time."""

    decisions: tuple[Decision, ...]
    since_ms: int


class HangingTransaction(NamedTuple):
    """A transaction that is or was confirmed to hang. `start_offset`: the offset at which the transaction begins.
    `by_hand`: decisions of operators; one of these may have ended the transaction."""

    producer_id: int
    start_offset: int
    is_open: bool
    by_hand: tuple[Decision, ...]


def coordinator_decisions(
    connection: Connection, cluster_id: int, transactional_id: bytes, producer_id: int, first_ms: int, last_ms: int
) -> CoordinatorDecisions:
    """Returns the coordinator's decisions on transactions of the id under the producer id. The result may also contain
    commits under other producer ids, because ordinary commits are stored as counts by minute, without a producer id.

    `first_ms`, `last_ms`: the time span in which the marker in question was written. Decisions that cannot have led to
    that marker may be left out.
    """
    key = id_key(transactional_id)
    history = _history(connection, cluster_id, key, last_ms)
    found = list(_from_history(history, producer_id))
    found += _from_minutes(connection, cluster_id, key, first_ms, last_ms)
    state = connection.execute(
        select(_I.state, _I.state_since_ms, _I.client_transaction_version, _I.producer_epoch).where(
            _I.cluster_id == cluster_id, _I.transactional_id == key, _I.producer_id == producer_id
        )
    ).one_or_none()
    if state is not None and state.state == PREPARE_COMMIT:
        cause = Cause(CauseCode.COMMIT, confidence_of_commit(state.client_transaction_version))
        found.append(Decision(MarkerType.COMMIT, state.state_since_ms, None, cause, marker_epoch=state.producer_epoch))
    return CoordinatorDecisions(tuple(found), history[-1].at_ms if len(history) == _MOST_ROWS else 0)


def known_period(connection: Connection, cluster: ClusterRow) -> KnownPeriod | None:
    """Returns the period of which the store has all decisions. The period begins at the start of counting, at the
    oldest stored history, or at the newest gap, whichever is latest. The period ends at the time to which the
    transaction log has been read. Both ends are moved inwards by CLOCKS_MS. Returns None if counting has not begun,
    nothing of the log or of its history is stored, or the log is not read to its end."""
    oldest_ms = connection.scalar(select(func.min(_T.at_ms)).where(_T.cluster_id == cluster.id))
    as_of_ms = clusters.log_as_of_ms(connection, cluster.id)
    if cluster.counted_since_ms is None or oldest_ms is None or as_of_ms is None:
        return None
    if any(
        row.next_offset < row.end_offset
        for row in clusters.partitions(connection, cluster.id, SourceName.TRANSACTION_LOG)
    ):
        return None
    gap_ms = connection.scalar(
        select(func.max(_G.seen_at_ms)).where(_G.cluster_id == cluster.id, _G.source == SourceName.TRANSACTION_LOG)
    )
    return KnownPeriod(max(cluster.counted_since_ms, oldest_ms, gap_ms or 0) + CLOCKS_MS, as_of_ms - CLOCKS_MS)


def hanging_transactions(
    connection: Connection, cluster_id: int, topic: str, partition: int
) -> list[HangingTransaction]:
    """Returns the transactions that were confirmed to hang on the partition, open or resolved."""
    rows = connection.execute(
        select(_F.producer_id, _F.start_offset, _F.status, _F.opened_at_ms, _F.resolved_at_ms, _F.resolution)
        .where(
            _F.cluster_id == cluster_id,
            _F.kind == Kind.HANGING,
            _F.topic == topic,
            _F.partition == partition,
            _F.confirmed_at_ms.is_not(None),
        )
        .order_by(_F.opened_at_ms)
        .limit(_MOST_ROWS)
    )
    return [
        HangingTransaction(row.producer_id, row.start_offset, row.status == Status.CONFIRMED, _by_hand(row))
        for row in rows
        if row.producer_id is not None and row.start_offset is not None
    ]


def lost_commits(connection: Connection, cluster_id: int, topic: str, partition: int) -> list[LostCommit]:
    """Returns committed records that are, or will be, ended by the marker of a later transaction on the partition.
    Reads them from findings: `lost_records`, and those `adopted_records` that are known to be about committed
    records."""
    is_adopted = and_(_F.kind == Kind.ADOPTED, _F.severity == Severity.CRITICAL)
    rows = connection.execute(
        select(_F.producer_id, _F.start_offset)
        .where(
            _F.cluster_id == cluster_id,
            or_(_F.kind == Kind.LOST_RECORDS, is_adopted),
            _F.topic == topic,
            _F.partition == partition,
        )
        .order_by(_F.opened_at_ms)
        .limit(_MOST_ROWS)
    )
    return [LostCommit(*row) for row in rows if None not in row]


def _by_hand(row: Any) -> tuple[Decision, ...]:
    markers, cause = _BY_HAND.get(row.resolution, ((), None))
    if cause is None:
        return ()
    is_foreign = row.resolution != Resolution.OUR_MARKER
    return tuple(Decision(m, row.opened_at_ms, row.resolved_at_ms, cause, by_hand=is_foreign) for m in markers)


def _history(connection: Connection, cluster_id: int, key: bytes, last_ms: int) -> Sequence[Any]:
    """Returns the id's history rows, newest first. Leaves out decisions made after `last_ms` (plus 2 * CLOCKS_MS),
    because they cannot have led to the marker."""
    decided_ms = _T.at_ms - func.coalesce(_T.marker_ms, 0)
    return connection.execute(
        select(_T.at_ms, _T.to_state, _T.producer_id, _T.producer_epoch, _T.marker_ms, _T.cause, _T.confidence)
        .where(_T.cluster_id == cluster_id, _T.transactional_id == key, decided_ms <= last_ms + 2 * CLOCKS_MS)
        .order_by(_T.generation.desc(), _T.offset.desc())
        .limit(_MOST_ROWS)
    ).all()


def _from_history(newest_first: Sequence[Any], producer_id: int) -> Iterator[Decision]:
    """Yields the decisions in the rows. The markers of a PrepareX are written before the id's next row, unless the next
    row is the same PrepareX again. For a slow commit, the only row may be its CompleteCommit. This row does not contain
    the protocol of the commit, so the cause is only likely."""
    decisive = [row for row in newest_first if row.to_state not in _PREPARED or row.cause is not None]
    for following, row, earlier in zip([None, *decisive], decisive, [*decisive[1:], None], strict=False):
        if row.to_state in _PREPARED and row.producer_id == producer_id:
            until_ms = None if following is None else max(following.at_ms, row.at_ms)
            cause = Cause(row.cause, row.confidence)
            yield Decision(_PREPARED[row.to_state], row.at_ms, until_ms, cause, marker_epoch=row.producer_epoch)
        elif (
            row.to_state == COMPLETE_COMMIT
            and row.marker_ms is not None
            and (earlier is None or earlier.to_state != PREPARE_COMMIT)
        ):
            yield Decision(MarkerType.COMMIT, row.at_ms - row.marker_ms, row.at_ms, _LIKELY_COMMIT)


def _from_minutes(
    connection: Connection, cluster_id: int, key: bytes, first_ms: int, last_ms: int
) -> Sequence[Decision]:
    """Returns one decision to commit for each minute with ordinary commits. These commits have no history row of their
    own. Reads only minutes near [first_ms, last_ms]. A decision's period begins SLOW_MARKERS_MS before the first commit
    of the minute was complete, and ends when the last commit of the minute was complete. The minutes do not contain the
    protocol of the commits, so the confidence of these causes is only likely."""
    rows = connection.execute(
        select(_M.first_ms, _M.last_ms).where(
            _M.cluster_id == cluster_id,
            _M.transactional_id == key,
            _M.commits > 0,
            _M.minute_ms.between(first_ms - 2 * CLOCKS_MS - MINUTE_MS, last_ms + 2 * CLOCKS_MS),
        )
    )
    return [Decision(MarkerType.COMMIT, row.first_ms - SLOW_MARKERS_MS, row.last_ms, _LIKELY_COMMIT) for row in rows]
