"""Finds out who wrote the marker that ended a hanging transaction, and builds the observation of a transaction that
still hangs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from sqlalchemy import Connection

from service.domain.findings.context import Context
from service.domain.findings.ended_hang import resolution_of
from service.domain.findings.finding import Observation
from service.domain.findings.hanging import Case, can_still_write, may_use_tv2, may_write_unlisted, observe
from service.domain.findings.kinds import Resolution
from service.domain.partitions.open_entries import Entry, Owner
from service.domain.partitions.state import PartitionState
from service.kafka.leader_check import CheckedPartition
from service.kafka.log_range import BatchesRead
from service.store import audit_events
from service.store.escaped_text import display_id
from service.store.queries.owners import owners
from service.views.partitions.judged import JudgedEntry
from spark_jobs.judge.ended_transactions import ended_of
from spark_jobs.judge.hanging_case import HangingCase
from spark_jobs.source.watched import is_over

MARKER_WAIT_MS: Final = 5_000
"""Maximum wait (ms) for the marker of an entry to become readable, once DescribeProducers reports the entry as closed.
The marker may lie above the high watermark, which was requested a moment earlier and waits for the followers."""

LOG_WAIT_MS: Final = 120_000
"""Maximum wait (ms) until the transaction log is read past the time of a marker, if this marker may belong to the
producer's next transaction. After this wait, the resolution names no writer. On a starved machine, reading may lag by
more than half a minute."""


def how_it_ended(
    connection: Connection,
    cluster_id: int,
    case: HangingCase,
    seen: CheckedPartition,
    found: BatchesRead | None,
    context: Context,
) -> Resolution | None:
    """Returns how the entry ended. Returns None while the marker cannot be read, or while the marker's writer is not
    known yet. Returns HEALED if it will not become known how the entry ended."""
    if not seen.described:
        return Resolution.HEALED
    if found is None:
        return None
    entry = case.entry
    closed_ms = case.apply_closed(seen)
    known = owners(connection, cluster_id, [entry.producer_id]).get(entry.producer_id, [])
    owner = known[0] if known else None
    attempts = audit_events.of_subject(
        connection, cluster_id, entry.topic, entry.partition, entry.producer_id, entry.start_offset
    )
    first = found.markers[0].is_commit if found.markers else None
    if audit_events.is_under_way(attempts, first, seen.asked_at_ms):
        return None
    how = resolution_of(
        entry,
        found.markers,
        log_start=seen.ends.log_start,
        high_watermark=seen.ends.high_watermark,
        ended=None if owner is None or case.had_ended(owner) else ended_of(owner),
        by_us=audit_events.is_marker_ours(attempts, first),
    )
    if how in (Resolution.HEALED, Resolution.RETENTION):
        return how if is_over(closed_ms, MARKER_WAIT_MS, seen.asked_at_ms) else None
    if how in (Resolution.FOREIGN_COMMIT, Resolution.FOREIGN_ABORT):
        if not case.has_log:
            return Resolution.HEALED  # without the log, the marker may be a coordinator's
        if _may_be_a_younger_ones(entry, owner, context, closed_ms):
            return Resolution.HEALED if is_over(closed_ms, LOG_WAIT_MS, seen.asked_at_ms) else None
    return how


def _may_be_a_younger_ones(entry: Entry, owner: Owner | None, context: Context, closed_ms: int) -> bool:
    """Returns whether the marker that closed the entry may belong to the producer's next transaction, because the
    decision about that transaction may lie in a part of the transaction log that has not been read yet."""
    if owner is None or not can_still_write(entry, owner):
        return False
    return context.log.known_until_ms.get(owner.log_partition, -1) < closed_ms


def observed(case: HangingCase, context: Context, bootstrap: str, now_ms: int) -> Observation:
    """Returns the present observation of a hanging entry. `bootstrap`: servers that the command in the finding
    names."""
    transactional_id = case.subject.transactional_id
    name = None if transactional_id is None else display_id(transactional_id)
    shown = Case(
        case.entry,
        None if name is None else case.owner,
        name,
        case.log_start,
        case.last_stable_offset,
        case.evidence,
        case.reported,
        context.groups.waiting_for([case.entry.topic_partition], case.entry.producer_id),
        context.groups.pending(case.entry.topic_partition, case.entry.producer_id),
        *(_writers(case, context.transaction_version) if name is not None else (False, False)),
    )
    return observe(
        shown,
        context.rules.of(name or "", (case.entry.topic,)),
        context,
        bootstrap,
        confirmed=case.is_confirmed,
        certain=case.is_certain(context, now_ms),
    )._replace(subject=case.subject)


def _writers(case: HangingCase, transaction_version: int | None) -> tuple[bool, bool]:
    """Returns `can_still_write` and `may_write_unlisted` of the entry, as defined in HangingFacts. While the owner is
    not known, for example without access to the transaction log, both are derived from the owner in the finding from
    before a restart, if there is one."""
    before = case.reported_owner
    if case.owner is not None or before is None:
        can_write = can_still_write(case.entry, case.owner)
        return can_write, may_write_unlisted(case.entry, case.owner, transaction_version)
    return before.had_epoch, before.had_epoch and (before.is_tv2 or may_use_tv2(transaction_version))


def cases_of(shown: Iterable[tuple[PartitionState, JudgedEntry]], word: str, context: Context) -> Iterator[Case]:
    """Yields a case (`Case`) for each entry whose relation has the kind `word`."""
    for row, (entry, relation) in shown:
        if relation.kind == word:
            name = None if relation.owner is None else display_id(relation.owner.transactional_id)
            waiting = context.groups.waiting_for([entry.topic_partition], entry.producer_id)
            yield Case(entry, relation.owner, name, row.log_start, row.last_stable_offset, (), groups=waiting)
