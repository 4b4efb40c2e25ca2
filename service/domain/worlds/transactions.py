"""Rebuilds the transactions of one producer id from the transaction log, and sets bounds to the transactions whose
records the log may have lost.

Compaction keeps the newest record of each transactional.id and may remove any other. The records that remain keep their
offsets, so an unseen transaction can only lie in a range of missing offsets (a hole). The records next to a hole limit
the epochs under which its transactions wrote.

Source: `TransactionMetadata.prepare*`, `TransactionStateManager`, KIP-890.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise, takewhile
from typing import Final, NamedTuple

from service.domain.transaction_log.facts import NO_ID, LogRecord
from service.domain.transaction_log.states import (
    COMPLETE,
    COMPLETE_COMMIT,
    EMPTY,
    EXPIRED,
    ONGOING,
    PREPARE_COMMIT,
    PREPARED,
)
from service.domain.transaction_log.transitions import LAST_EPOCH
from service.domain.worlds.order import NO_POSITION, LogPosition

TV2: Final = 2
"""The transaction version from which on each EndTxn of a client raises the epoch (KIP-890). An EndTxn of the old
protocol can also end a transaction of such a client, and keeps the epoch: the recovery of Flink's sink sends such an
EndTxn."""

UNDECIDED: Final = LogPosition((1 << 63) - 1, -1)
"""The position of a decision that has not been made; it sorts behind every record of the log."""

_COMMITS: Final = frozenset({PREPARE_COMMIT, COMPLETE_COMMIT})
_BEGINS: Final = PREPARED | {EMPTY}
"""States whose record is appended before InitProducerId or EndTxn is answered. A client can begin its next transaction
only after this answer."""


class Range(NamedTuple):
    """The offsets lo <= offset < hi."""

    lo: int
    hi: int


class Epochs(NamedTuple):
    """The producer epochs first <= epoch <= last; empty if last < first."""

    first: int
    last: int

    def overlaps(self, other: Epochs) -> bool:
        return self.first <= other.last and other.first <= self.last


ANY_EPOCH: Final = Epochs(0, LAST_EPOCH)


def position_of(record: LogRecord) -> LogPosition:
    return LogPosition(record.offset, record.leader_epoch)


class LogHistory(NamedTuple):
    """The records of the id that owns the producer id, in log order, as far as log partition `partition` was read.

    `listing`: offsets of the records that list the data partition in question. `holes`: ranges below `to_offset` whose
    records were not read: removed by compaction or retention, lost with a leader, or below the offset at which reading
    began. `unread`: offsets among which the newest record of the id may be, because their records could not be decoded,
    or were not read yet.
    """

    partition: int
    to_offset: int
    records: tuple[LogRecord, ...]
    listing: frozenset[int]
    holes: tuple[Range, ...]
    unread: tuple[Range, ...] = ()


class Transaction(NamedTuple):
    """A transaction of the producer id that is decided, or that is open and does not list the partition.

    - `is_commit`: True if it was committed, False if it was aborted, None while it is undecided.
    - `began`: the record after which its client began the transaction (NO_POSITION: the log does not show that record).
    - `decided`: the position of its PrepareX, or of its CompleteX if the PrepareX is gone; UNDECIDED while it is open.
      `decided_ms`: the timestamp of that record; while it is open, of its newest record.
    - `prepared`: the position of the first PrepareX with that outcome, after which its markers may be written
      (NO_POSITION: the log does not show that record).
    - `completed`: offset of its CompleteX; None if the log has no CompleteX of it.
    - `lists_partition`: whether the partition is among its participants, so that the coordinator writes a marker there;
      None if the records that would show it are gone.
    - `data_epochs`: epochs under which its client may have written.
    - `marker_ms`: the time from the first PrepareX with that outcome to CompleteX, by the coordinator's clock; None if
      one of these two records is missing.
    - `is_added_by_leaders`: True if leaders may have added its partitions (TV2). A leader adds its partition only if
      nothing of the producer id and epoch is open there (`UnifiedLog.hasOngoingTransaction`). So the transaction may
      have written behind an open entry without listing the partition. An older client adds each partition itself.
    """

    is_commit: bool | None
    lists_partition: bool | None
    data_epochs: Epochs
    marker_epoch: int
    began: LogPosition
    decided: LogPosition
    decided_ms: int
    prepared: LogPosition
    completed: int | None
    marker_ms: int | None
    is_added_by_leaders: bool = False


class HiddenTransactions(NamedTuple):
    """Transactions, with any outcome and any partitions, that the log may hide. Their decisions may lie at the offsets
    `decided`, which were not read. They began after the record at `began` was appended (NO_POSITION: at any time), and
    wrote under `data_epochs`."""

    log_partition: int
    began: LogPosition
    decided: Range
    data_epochs: Epochs


def transactions_of(producer_id: int, history: LogHistory) -> tuple[list[Transaction], list[HiddenTransactions]]:
    """Returns the transactions of the producer id, oldest first, and the transactions that the log may hide. An
    undecided transaction is returned only if it does not list the partition."""
    decided, began = [], NO_POSITION
    for group in _groups(history.records):
        lists = any(record.offset in history.listing for record in group)
        if transaction := _decided(producer_id, began, group, lists) or _undecided(producer_id, began, group, lists):
            decided.append(transaction)
        began = max([began, *(position_of(record) for record in group if record.state in _BEGINS)])
    return decided, list(_hidden(producer_id, history))


def _groups(records: Iterable[LogRecord]) -> Iterator[list[LogRecord]]:
    """Yields the records of each transaction as one group, and every other record alone."""
    group: list[LogRecord] = []
    for record in records:
        if group and not _is_same_transaction(group[-1], record):
            yield group
            group = []
        group.append(record)
    if group:
        yield group


def _is_same_transaction(before: LogRecord, after: LogRecord) -> bool:
    """Returns whether both records belong to one transaction, by its start time. The CompleteX may carry the next
    producer id (epoch exhaustion, TV2)."""
    if after.state in (EMPTY, EXPIRED) or before.start_ms < 0 or before.start_ms != after.start_ms:
        return False
    if before.producer_id == after.producer_id:
        return not (before.state in COMPLETE and after.state not in COMPLETE)
    return after.state in COMPLETE and before.producer_epoch == LAST_EPOCH


def _first_prepare(group: Sequence[LogRecord], decision: LogRecord) -> LogRecord:
    """Returns the earliest PrepareX with the decision's outcome. From that record on a coordinator may have sent the
    markers: a new coordinator sends them for the PrepareX in the log, and may append the same PrepareX again later."""
    before = reversed(group[: group.index(decision)])
    return [decision, *takewhile(lambda record: record.state == decision.state, before)][-1]


def _decided(producer_id: int, began: LogPosition, group: Sequence[LogRecord], lists: bool) -> Transaction | None:
    decisive = [record for record in group if record.state in PREPARED] or [
        record for record in group if record.state in COMPLETE
    ]
    if not decisive or group[-1].state == ONGOING or _written_under(group, decisive[-1]) != producer_id:
        return None  # Ongoing after PrepareX: the coordinator rolled back an append that had failed
    decision, last = decisive[-1], group[-1]
    has_prepare = decision.state in PREPARED
    completed = last if last.state in COMPLETE else None
    first = _first_prepare(group, decision)
    ongoing = [record for record in group if record.state == ONGOING]
    is_rotated = not has_prepare and decision.producer_id != producer_id
    return Transaction(
        is_commit=last.state in _COMMITS,
        lists_partition=lists if has_prepare or lists else None,
        data_epochs=_epochs_of(ongoing) if ongoing else _data_epochs(decision, is_rotated),
        marker_epoch=LAST_EPOCH if is_rotated else decision.producer_epoch,
        began=began,
        decided=position_of(decision),
        decided_ms=decision.timestamp_ms,
        prepared=position_of(first) if has_prepare else NO_POSITION,
        completed=None if completed is None else completed.offset,
        marker_ms=completed.timestamp_ms - first.timestamp_ms if completed is not None and has_prepare else None,
        is_added_by_leaders=_is_added_by_leaders(ongoing),
    )


def _undecided(producer_id: int, began: LogPosition, group: Sequence[LogRecord], lists: bool) -> Transaction | None:
    """Returns the transaction of the records `group` if it is undecided and does not list the partition; else None."""
    newest = group[-1]
    if newest.state != ONGOING or newest.producer_id != producer_id or lists:
        return None
    return Transaction(
        is_commit=None,
        lists_partition=False,
        data_epochs=_epochs_of(group),
        marker_epoch=newest.producer_epoch,
        began=began,
        decided=UNDECIDED,
        decided_ms=newest.timestamp_ms,
        prepared=NO_POSITION,
        completed=None,
        marker_ms=None,
        is_added_by_leaders=_is_added_by_leaders(group),
    )


def _is_added_by_leaders(ongoing: Sequence[LogRecord]) -> bool:
    """Returns whether leaders may have added partitions to the transaction. False only if there are Ongoing records and
    all show a client that adds partitions itself. A PrepareX proves nothing: if an old EndTxn ended the transaction,
    its PrepareX does not show TV2."""
    return not ongoing or any(record.client_transaction_version >= TV2 for record in ongoing)


def _epochs_of(records: Iterable[LogRecord]) -> Epochs:
    epochs = [record.producer_epoch for record in records]
    return Epochs(min(epochs), max(epochs))


def _written_under(group: Sequence[LogRecord], decision: LogRecord) -> int:
    first = group[0]
    if first is decision and decision.state in COMPLETE and decision.producer_epoch == 0:
        return decision.previous_producer_id if decision.previous_producer_id != NO_ID else decision.producer_id
    return first.producer_id


def _data_epochs(decision: LogRecord, is_rotated: bool) -> Epochs:
    """Returns the epochs under which the client may have written, from the decision alone. Under TV2, a commit raises
    the epoch once, and an abort raises it once (in 4.0.0: or twice). Under the old protocol, an end by the client keeps
    the epoch, and an abort by the coordinator raises it once."""
    if is_rotated:
        return Epochs(LAST_EPOCH - 2, LAST_EPOCH - 1)
    epoch, is_commit = decision.producer_epoch, decision.state in _COMMITS
    if decision.client_transaction_version >= TV2:
        return Epochs(epoch - 1 if is_commit else epoch - 2, epoch - 1)
    return Epochs(epoch if is_commit else epoch - 1, epoch)


def _hidden(producer_id: int, history: LogHistory) -> Iterator[HiddenTransactions]:
    for offsets in history.unread:
        yield HiddenTransactions(history.partition, NO_POSITION, offsets, ANY_EPOCH)
    began = begun = NO_POSITION
    neighbours: list[LogRecord | None] = [None, *history.records, None]
    previous: LogRecord | None = None
    for before, after in pairwise(neighbours):
        if before is not None and after is None:
            return  # compaction keeps the newest record of an id: nothing newer than this one was removed
        if before is not None:
            if previous is None or not _is_same_transaction(previous, before):
                begun = began
            # an Ongoing after PrepareX: the coordinator rolled back an append of the same transaction that had failed
            began = position_of(before) if before.state in _BEGINS else begun if before.state == ONGOING else began
        previous = before
        lo = 0 if before is None else before.offset + 1
        hi = history.to_offset if after is None else after.offset
        epochs = _hidden_epochs(producer_id, before, after)
        for hole in history.holes:
            if epochs.first <= epochs.last and hole.lo < hi and lo < hole.hi:
                yield HiddenTransactions(history.partition, began, Range(max(lo, hole.lo), min(hi, hole.hi)), epochs)


def _hidden_epochs(producer_id: int, before: LogRecord | None, after: LogRecord | None) -> Epochs:
    """Returns the epochs under which the producer id may have had transactions that ended between two neighbouring
    records of its id. The transaction of `after` does not count."""
    had_it_before = before is not None and before.producer_id == producer_id
    if after is None:
        return ANY_EPOCH
    if before is not None and _is_same_transaction(before, after):
        return Epochs(0, -1)
    first = before.producer_epoch if before is not None and had_it_before else 0
    if after.producer_id != producer_id and not (after.state in COMPLETE and after.previous_producer_id == producer_id):
        return Epochs(first, LAST_EPOCH)
    if after.state == EMPTY:
        # InitProducerId raised the previous epoch, or assigned a new producer id with epoch 0
        return Epochs(first, after.producer_epoch - 1)
    is_rotated = after.producer_id != producer_id
    # also under TV2: the transaction before may have been ended by an old request, which keeps the epoch
    return Epochs(first, after.producer_epoch if after.state == ONGOING else _data_epochs(after, is_rotated).last)
