"""The row of an id, and how new runs of the id change it. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from service.domain.transaction_log import states
from service.domain.transaction_log.causes import Cause, CauseCode, Confidence
from service.domain.transaction_log.facts import NO_RECORD, LogRecord, Run
from service.domain.transaction_log.id_delta import IdDelta
from service.domain.transaction_log.journal import NO_ABORT, LastAbort
from service.store.escaped_text import display_id
from service.store.id_key import is_cut


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
    """Returns the record the row was made of; a PrepareX has the append time of the first one of its transaction."""
    if row.state >= states.EXPIRED:  # it named no producer: the row has the values of the record before
        return NO_RECORD._replace(
            offset=row.offset, timestamp_ms=row.timestamp_ms, leader_epoch=row.leader_epoch, state=row.state
        )
    record = LogRecord._make(getattr(row, name) for name in LogRecord._fields)
    is_prepared = row.state in states.PREPARED
    return record._replace(timestamp_ms=row.state_since_ms) if is_prepared else record


def last_abort(row: IdRow) -> LastAbort:
    """Returns the last abort of the id, which the journal has to remember."""
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
