"""What the runs of one id make of its row. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from service.domain import outcomes, states
from service.domain.facts import UNSEEN, LogRecord, Run
from service.store.display import display_id


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


class Advance(NamedTuple):
    """The row after the runs, and what ended in them (all of it, counted or not)."""

    row: IdRow
    commits: int
    aborts: int
    expired: int


def advance(cluster_id: int, stored: IdRow | None, generation: int, runs: Sequence[Run], *, counts: bool) -> Advance:
    """Put the runs of one id, in log order, onto its stored row; `counts`: the row's own counts grow too."""
    partition, transactional_id = runs[0].partition, runs[0].transactional_id
    before: LogRecord | IdRow = UNSEEN
    known: LogRecord | IdRow = UNSEEN
    outcome, old_commits, old_aborts = None, 0, 0
    if stored is not None:
        known = stored
        outcome, old_commits, old_aborts = stored.last_outcome, stored.commits, stored.aborts_unattributed
        if stored.partition == partition:  # a row of another log is no predecessor
            before = stored
    commits = aborts = expired = 0
    for run in runs:
        first, last = run.first, run.last
        ended, aborted = run.commits, run.aborts
        if not run.joined:
            ended += outcomes.commits(before, first)
            aborted += outcomes.aborts(before, first)
        commits += ended
        aborts += aborted
        if last.state < states.EXPIRED:
            known = last
        else:
            if first.state < states.EXPIRED:
                known = first
            expired += _expiries(before.state, first.state, last.state)
        outcome = _outcome(outcome, last, ended, aborted)
        before = last
    newest = runs[-1].last
    if not counts:
        counted_commits, counted_aborts = old_commits, old_aborts
    else:
        counted_commits, counted_aborts = old_commits + commits, old_aborts + aborts
    row = IdRow(
        cluster_id,
        transactional_id,
        display_id(transactional_id) if stored is None else stored.display,
        partition,
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
        newest.start_ms if newest.state == states.ONGOING else newest.timestamp_ms,
        newest.start_ms if newest.state in states.OPEN else None,
        outcome,
        counted_commits,
        *((0, 0, 0, 0) if stored is None else stored[21:25]),
        counted_aborts,
    )
    return Advance(row, commits, aborts, expired)


def _expiries(before: int, first: int, last: int) -> int:
    """Tombstones after something else; a repeated one removes nothing again."""
    removed = first == states.EXPIRED and before != states.EXPIRED
    return removed + (last == states.EXPIRED and first != states.EXPIRED)


def _outcome(known: int | None, last: LogRecord, commits: int, aborts: int) -> int | None:
    """The newest outcome, as well as first record, last record and two counts can tell.

    The abort of a transaction to which nothing was added is none (`outcomes.aborts`); its PrepareAbort has no
    partitions, its CompleteAbort was not counted.
    """
    state = last.state
    if state in (states.PREPARE_COMMIT, states.COMPLETE_COMMIT):
        return state
    if (state == states.PREPARE_ABORT and last.partition_count) or (state == states.COMPLETE_ABORT and aborts):
        return state
    if commits and not aborts:
        return states.COMPLETE_COMMIT
    if aborts and not commits:
        return states.COMPLETE_ABORT
    return known
