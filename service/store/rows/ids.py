"""Computes the rows of ids: after new runs of a stored id, for new ids of a first read, and for ids with records in
several partitions of the transaction log. Pure.

After partitions were added to the transaction log, an id's coordinator is the leader of the partition to which the id
hashes now (`service.domain.transaction_log.coordinator_partition`), and older records of the id are left behind in its
former partition. `divide` chooses the record that counts: its row is in `transactional_ids`, with the counts of all
records of the id. The other records are in `left_behind_records`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import repeat
from typing import Any, Final, NamedTuple

import numpy as np

from service.domain.transaction_log import states
from service.domain.transaction_log.causes import Cause, CauseCode, Confidence
from service.domain.transaction_log.coordinator_partition import coordinator_partition
from service.domain.transaction_log.facts import NO_ID, NO_RECORD, Array, LogRecord, LoneRuns, Records, Run
from service.domain.transaction_log.id_delta import IdDelta
from service.domain.transaction_log.journal import NO_ABORT, LastAbort
from service.domain.transaction_log.states import EXPIRED
from service.store.escaped_text import display_id, full_id, is_cut


class IdRow(NamedTuple):
    """A row of `transactional_ids`: its columns in their order."""

    cluster_id: int
    transactional_id: bytes
    display: str
    partition: int
    generation: int
    offset: int
    timestamp_ms: int
    leader_epoch: int
    state: int
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    last_update_ms: int
    start_ms: int
    client_transaction_version: int
    previous_producer_id: int
    partition_count: int
    state_since_ms: int
    started_at_ms: int | None
    last_outcome: int | None
    commits: int
    aborts_client: int
    aborts_timeout: int
    aborts_fenced: int
    aborts_admin: int
    aborts_unattributed: int
    abort_offset: int | None
    abort_cause: str | None
    abort_confidence: str | None
    abort_is_open: bool | None
    abort_completed_ms: int | None
    abort_counts: bool | None
    settles_at_ms: int | None


def newest_record(row: IdRow) -> LogRecord:
    """Returns the record that the row was made of. A PrepareX has the append time of its transaction's first
    PrepareX."""
    if row.state >= states.EXPIRED:  # it names no producer: the row has the producer of an earlier record
        return NO_RECORD._replace(
            offset=row.offset, timestamp_ms=row.timestamp_ms, leader_epoch=row.leader_epoch, state=row.state
        )
    record = LogRecord._make(getattr(row, name) for name in LogRecord._fields)
    is_prepared = row.state in states.PREPARED
    return record._replace(timestamp_ms=row.state_since_ms) if is_prepared else record


def last_abort(row: IdRow) -> LastAbort:
    """Returns the last abort of the id, as the journal needs it."""
    if row.abort_offset is None or row.offset < 0:
        return NO_ABORT
    assert row.abort_cause is not None and row.abort_confidence is not None  # noqa: PT018 - a row has all three
    cause = Cause(CauseCode(row.abort_cause), Confidence(row.abort_confidence), bool(row.abort_is_open))
    return LastAbort(row.abort_offset, cause, row.abort_completed_ms, bool(row.abort_counts))


def new_row(cluster_id: int, stored: IdRow | None, generation: int, runs: Sequence[Run], delta: IdDelta) -> IdRow:
    """Returns the row after the runs of one id, which are in log order."""
    newest, key = runs[-1].last, runs[0].transactional_id
    known = _newest_decodable(runs) or stored or newest
    last = delta.last_abort if delta.last_abort != NO_ABORT else None
    return IdRow(
        cluster_id,
        key,
        stored.display if stored is not None and is_cut(key) else display_id(key),
        runs[0].partition,
        generation,
        newest.offset,
        newest.timestamp_ms,
        newest.leader_epoch,
        newest.state,
        known.producer_id,
        known.producer_epoch,
        known.timeout_ms,
        known.last_update_ms,
        known.start_ms,
        known.client_transaction_version,
        known.previous_producer_id,
        known.partition_count,
        _state_since_ms(newest, delta),
        newest.start_ms if newest.state in states.OPEN else None,
        delta.last_outcome if delta.last_outcome is not None else stored and stored.last_outcome,
        (stored.commits if stored else 0) + delta.commits,
        (stored.aborts_client if stored else 0) + delta.aborts["client"],
        (stored.aborts_timeout if stored else 0) + delta.aborts["timeout"],
        (stored.aborts_fenced if stored else 0) + delta.aborts["fenced"],
        (stored.aborts_admin if stored else 0) + delta.aborts["admin"],
        (stored.aborts_unattributed if stored else 0) + delta.aborts["unattributed"],
        last and last.offset,
        last and last.cause.code,
        last and last.cause.confidence,
        last and last.cause.is_open,
        last and last.completed_at_ms,
        last and last.counts,
        last and last.settles_at_ms,
    )


def _state_since_ms(newest: LogRecord, delta: IdDelta) -> int:
    if newest.state == states.ONGOING:
        return newest.start_ms
    is_newest_prepare = newest.offset == delta.newest_prepare.offset
    return delta.newest_prepare.timestamp_ms if is_newest_prepare else newest.timestamp_ms


def _newest_decodable(runs: Sequence[Run]) -> LogRecord | None:
    """Returns the newest record that is no tombstone and can be decoded: only such a record has facts about the id."""
    for run in reversed(runs):
        for record in (run.last, run.first):
            if record.state < states.EXPIRED:
                return record
    return None


_NOTHING_COUNTED: Final = (0, 0, 0, 0, 0, 0, None, None, None, None, None, None, None)
"""The columns of `transactional_ids` from `commits` on."""


def id_rows(cluster_id: int, generation: int, runs: LoneRuns) -> list[tuple[Any, ...]]:
    """Returns the rows of `transactional_ids` for new ids: the rows that `new_row` returns for each run without a
    stored row."""
    first, last = runs.first, runs.last
    # a tombstone, or a record that cannot be decoded, has no facts about the id
    has_facts = (last.state < states.EXPIRED) | (first.state >= states.EXPIRED)
    known = Records(*(np.where(has_facts, new, old) for new, old in zip(last, first, strict=True)))
    is_ended = np.array([value is not None for value in runs.ended_value], bool)
    outcome = np.where(is_ended, runs.ended_state, first.state)
    return list(
        zip(
            repeat(cluster_id),
            runs.transactional_id,
            map(display_id, runs.transactional_id),
            runs.partition.tolist(),
            repeat(generation),
            *(column.tolist() for column in last[:4]),
            *(column.tolist() for column in known[4:]),
            np.where(last.state == states.ONGOING, last.start_ms, last.timestamp_ms).tolist(),
            _or_null(last.start_ms, _is_in(last.state, states.OPEN)),
            _or_null(outcome, is_ended | _is_in(first.state, states.COMPLETE)),
            *map(repeat, _NOTHING_COUNTED),
        )
    )


def producer_rows(cluster_id: int, runs: LoneRuns) -> list[tuple[Any, ...]]:
    """Returns the rows of `producer_ids`; none for runs that name no producer."""
    runs = runs.take(np.flatnonzero(runs.first.producer_id != NO_ID))
    is_ended = np.array([value is not None for value in runs.ended_value], bool)
    return list(
        zip(
            repeat(cluster_id),
            runs.first.producer_id.tolist(),
            runs.transactional_id,
            runs.first.timestamp_ms.tolist(),
            runs.last.timestamp_ms.tolist(),
            runs.first.producer_epoch.tolist(),
            runs.last.producer_epoch.tolist(),
            _or_null(runs.ended_offset, is_ended),
            _or_null(runs.ended_state, is_ended),
            runs.ended_value,
        )
    )


def state_rows(cluster_id: int, runs: LoneRuns) -> Iterator[tuple[int, int, int, int]]:
    """Yields the rows of `coordinator_states`."""
    places, ids = np.unique(np.stack((runs.partition, runs.last.state)), axis=1, return_counts=True)
    for partition, state, number in zip(*places.tolist(), ids.tolist(), strict=True):
        yield cluster_id, partition, state, number


def _is_in(state: Array, some: frozenset[int]) -> Array:
    return np.isin(state, list(some))


def _or_null(column: Array, is_there: Array) -> list[int | None]:
    return [value if there else None for value, there in zip(column.tolist(), is_there.tolist(), strict=True)]


_COUNTS: Final = ("commits", "aborts_client", "aborts_timeout", "aborts_fenced", "aborts_admin", "aborts_unattributed")

_NOTHING: Final[dict[str, Any]] = dict.fromkeys(_COUNTS, 0)

Places = tuple[tuple[str, int], ...]
"""(topic, partition) of an open transaction."""


class Record(NamedTuple):
    """The row made of an id's newest record in one partition of the log. `places`: partitions of its open
    transaction."""

    row: IdRow
    places: Places


class Divided(NamedTuple):
    """The record of an id that counts, with the counts of all records of the id, and the others by log partition."""

    counting: Record
    others: dict[int, Record]


def divide(records: Iterable[Record], partition_count: int) -> Divided:
    """Chooses the record of an id that counts. A record that has not expired precedes expired ones; then the record in
    the partition to which the id hashes precedes others; then the one appended last counts. A row of a log that was
    replaced by another one (offset below 0) is dropped after its counts were added."""
    known = list(records)
    chosen = max(known, key=lambda one: _rank(one.row, partition_count))
    sums: dict[str, Any] = {name: sum(getattr(one.row, name) for one in known) for name in _COUNTS}
    others = {
        one.row.partition: one._replace(row=one.row._replace(**_NOTHING))
        for one in known
        if one is not chosen and one.row.offset >= 0
    }
    return Divided(chosen._replace(row=chosen.row._replace(**sums)), others)


def _rank(row: IdRow, partition_count: int) -> tuple[bool, bool, bool, int, int]:
    looked_for = coordinator_partition(full_id(row.transactional_id, row.display), partition_count)
    return row.offset >= 0, row.state != EXPIRED, row.partition == looked_for, row.timestamp_ms, row.partition
