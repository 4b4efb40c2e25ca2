"""Decides whether records were written by the id that has their producer id in this cluster, or come from another
cluster.

Every cluster assigns its producer ids from 0 on, so an equal producer id proves nothing about a partition that was
copied byte for byte. If one sign shows that no id of this cluster can have written an entry, the finding names no owner
and advises no marker."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from service.domain.reasons.hanging import ForeignRecords, ForeignSign
from service.domain.transaction_log.facts import NO_ID, LogRecord
from service.domain.transaction_log.states import COMPLETE, EMPTY, PREPARED
from service.domain.worlds.facts import EntryRead
from service.domain.worlds.transactions import TV2, Epochs, LogHistory, Transaction, position_of

OLDER_BY_MS: Final = 60_000
"""Allowance (ms) for clocks that differ: a record counts as older than its producer id and epoch only if its timestamp
is earlier by more than this allowance."""


def foreign_records(
    entry: EntryRead, history: LogHistory | None, transactions: Sequence[Transaction]
) -> ForeignRecords | None:
    """Returns a sign that the entry comes from another cluster, or from a copy; None if there is no sign.

    `history`: the records of the id that has the entry's producer id in this cluster; None if no id has it.
    `transactions`: the transactions of that id. Call this only if the transaction log has no hole that could hide the
    entry's transaction. A producer may set any timestamp, so timestamps are a sign only if neither samples nor a
    transaction show that the id wrote the entry.
    """
    return _without_owner(entry) if history is None else _of_owner(entry, history, transactions)


def _without_owner(entry: EntryRead) -> ForeignRecords | None:
    """For a producer id that no id of this cluster had: returns a sign that it is a producer id of another cluster;
    None if there is no sign. A COMMIT marker is such a sign: a coordinator writes it only for an id in its log. (A
    COMMIT that was written by hand looks the same; in this case, too, the finding advises no marker.)"""
    committed = next((marker for marker in reversed(entry.facts.markers) if marker.is_commit), None)
    if committed is not None:
        return ForeignRecords(ForeignSign.COMMITTED, committed.offset, 0)
    return _by_leader_epoch(entry) or _by_sequence(entry)


def _of_owner(entry: EntryRead, history: LogHistory, transactions: Sequence[Transaction]) -> ForeignRecords | None:
    first = entry.facts.batches.first
    if first is None:
        return None
    if (later := _by_leader_epoch(entry)) is not None:
        return later
    producer_id = entry.query.producer_id
    highest = max(
        (record.producer_epoch for record in history.records if record.producer_id == producer_id), default=None
    )
    if highest is not None and first.producer_epoch > highest:
        return ForeignRecords(ForeignSign.EPOCH, first.producer_epoch, highest)
    if (begun := _by_sequence(entry)) is not None:
        return begun
    given = _given_by(producer_id, first.producer_epoch, history)
    if given is None:
        return None
    if entry.was_written_before(history.partition, position_of(given)):
        return ForeignRecords(ForeignSign.ORDER, 0, 0)
    absence = entry.newest_absence_proof(history.partition)
    was_absent = absence is not None and absence.log_end > given.offset
    is_older = first.first_timestamp_ms < given.timestamp_ms - OLDER_BY_MS
    if was_absent or not is_older or _has_listed(entry, first.producer_epoch, history.partition, transactions):
        return None
    return ForeignRecords(ForeignSign.OLDER, first.first_timestamp_ms, given.timestamp_ms)


def _by_leader_epoch(entry: EntryRead) -> ForeignRecords | None:
    first, leader_epoch = entry.facts.batches.first, entry.facts.leader_epoch
    if first is None or not first.leader_epoch > leader_epoch >= 0:
        return None
    return ForeignRecords(ForeignSign.LEADER_EPOCH, first.leader_epoch, leader_epoch)


def _by_sequence(entry: EntryRead) -> ForeignRecords | None:
    first = entry.facts.batches.first
    if first is None or not first.is_first_of_epoch or first.sequence <= 0:
        return None
    return ForeignRecords(ForeignSign.SEQUENCE, first.sequence, 0)


def _has_listed(entry: EntryRead, producer_epoch: int, log_partition: int, transactions: Sequence[Transaction]) -> bool:
    """Returns whether a transaction under `producer_epoch` lists the partition, or may list it, and may have begun
    before the entry was complete."""
    epoch = Epochs(producer_epoch, producer_epoch)
    return any(
        transaction.lists_partition is not False
        and transaction.data_epochs.overlaps(epoch)
        and not entry.was_written_before(log_partition, transaction.began)
        for transaction in transactions
    )


def _given_by(producer_id: int, producer_epoch: int, history: LogHistory) -> LogRecord | None:
    """Returns the record with which the id got `producer_epoch`, or a higher epoch, under the producer id; None if that
    record is gone.

    An earlier record with a lower epoch proves that the returned record raised the epoch. Without such an earlier
    record, the returned record has exactly `producer_epoch`, and is of one of three kinds: an Empty (from an
    InitProducerId), the end of a transaction under TV2, or a CompleteX with a new producer id and epoch 0."""
    before: LogRecord | None = None
    for record in history.records:
        if record.producer_id != producer_id:
            continue
        if record.producer_epoch < producer_epoch:
            before = record
            continue
        is_end = record.state in PREPARED or record.state in COMPLETE
        is_raised = is_end and record.client_transaction_version >= TV2
        is_rotated = record.state in COMPLETE and record.previous_producer_id not in (NO_ID, producer_id)
        gives = record.state == EMPTY or is_raised or (is_rotated and record.producer_epoch == 0)
        return record if before is not None or (gives and record.producer_epoch == producer_epoch) else None
    return None
