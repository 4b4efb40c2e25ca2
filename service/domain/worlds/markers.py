"""Matches the markers before an entry on its partition with the transactions that these markers ended."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from service.domain.worlds.transactions import Transaction


class Marker(NamedTuple):
    """A marker: a control batch of a producer id on a partition. `is_commit` is None if compaction emptied the batch.

    `at_ms`: the time by the clock of the leader that wrote the marker. `coordinator_epoch`: the epoch of the
    coordinator that requested the marker.
    """

    offset: int
    producer_epoch: int
    at_ms: int
    is_commit: bool | None
    leader_epoch: int = -1
    coordinator_epoch: int = -1


def ended_before(transactions: Sequence[Transaction], markers: Sequence[Marker], *, is_complete: bool) -> int:
    """Returns the number of transactions that ended before the entry began. `transactions`: those that list the
    partition, oldest first.

    `markers`: all markers before the entry that can belong to these transactions, or the newest of them. `is_complete`:
    True if the producer id has had no other transactions on the partition since the first of these began.

    Markers of a producer id are written in the order of its transactions, and each ends everything that the id has open
    there. So the earliest transaction to which the newest marker can belong is over, and so are all transactions before
    it."""
    by_epoch = _older_than_newest(transactions, markers)
    return max(by_epoch, _earliest(transactions, markers)) if is_complete else by_epoch


def _older_than_newest(transactions: Sequence[Transaction], markers: Sequence[Marker]) -> int:
    """Returns the number of transactions that have ended, as far as epochs alone prove this: after a marker, the
    partition's leader refuses records of an epoch lower than the marker's (`ProducerAppendInfo.checkProducerEpoch`)."""
    newest = max((marker.producer_epoch for marker in markers), default=-1)
    older = [i for i, transaction in enumerate(transactions, 1) if transaction.data_epochs.last < newest]
    return older[-1] if older else 0


def _earliest(transactions: Sequence[Transaction], markers: Sequence[Marker]) -> int:
    """Returns the least number of transactions that these markers can have ended. Returns 0 if a marker fits none of
    the transactions, because somebody must have written such a marker by hand."""
    at, previous = 0, None
    for marker in markers:
        if at and previous is not None and _may_be_copy(previous, marker, transactions[at - 1]):
            previous = marker
            continue
        found = next((i for i in range(at, len(transactions)) if matches(marker, transactions[i])), None)
        if found is None:
            return 0
        at, previous = found + 1, marker
    return at


def matches(marker: Marker, transaction: Transaction) -> bool:
    """Returns whether epoch and outcome allow that the marker belongs to the transaction."""
    return marker.producer_epoch == transaction.marker_epoch and marker.is_commit in (None, transaction.is_commit)


def _may_be_copy(first: Marker, second: Marker, transaction: Transaction) -> bool:
    """Returns whether both markers may belong to this transaction: a coordinator repeats a request that failed, and a
    new coordinator sends all markers again. All copies are written between PrepareX and CompleteX. So the time between
    two copies of one leader, by its clock, is at most the time between PrepareX and CompleteX, by the coordinator's
    clock."""
    if not matches(second, transaction) or (first.producer_epoch, first.is_commit) != (
        second.producer_epoch,
        second.is_commit,
    ):
        return False
    by_one_leader = (first.leader_epoch, first.coordinator_epoch) == (second.leader_epoch, second.coordinator_epoch)
    return (
        not by_one_leader or transaction.marker_ms is None or 0 <= second.at_ms - first.at_ms <= transaction.marker_ms
    )
