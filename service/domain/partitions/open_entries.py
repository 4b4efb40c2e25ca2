"""Decides what will end an entry that is open on a partition: its own transaction, a later transaction of the same
producer id, or nothing."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Final, NamedTuple

from service.domain.reasons.reason import Reason
from service.domain.reasons.unjudged import BeingConfirmed, LogUnread, OwnerLeftBehind, OwnerUndecodable
from service.domain.transaction_log.deadlines import is_overdue
from service.domain.transaction_log.facts import LogRecord
from service.domain.transaction_log.known_log import KnownLog
from service.domain.transaction_log.states import EXPIRED, NAMES, ONGOING, OPEN, UNKNOWN, is_time, past_time


class RelationKind(StrEnum):
    """The relation of an open entry to the transaction that will end it, in the words of the API."""

    OPEN = "open"
    OVERDUE = "overdue"
    COMPLETING = "completing"
    ADOPTED = "adopted"
    UNREPLICATED_MARKER = "unreplicated_marker"
    HANGING = "hanging"
    UNKNOWN = "unknown"


ADOPTED_AFTER_MS: Final = 5_000
"""Margin (ms) around the start of a transaction. An entry that was seen open more than this margin before the start,
and more than this margin after the start, is left over from before the transaction. The margin allows for clocks that
differ, and for clients that write before AddPartitionsToTxn is accepted."""


class Entry(NamedTuple):
    """An open entry as stored: `service.domain.partitions.facts.OpenEntry`, its place, and the times of the first and
    of the last sample in which it was open (by txnscope's clock)."""

    topic: str
    partition: int
    producer_id: int
    producer_epoch: int
    start_offset: int
    coordinator_epoch: int
    last_timestamp_ms: int
    records: int | None
    bytes: int | None
    first_seen_ms: int
    seen_at_ms: int

    @property
    def topic_partition(self) -> tuple[str, int]:
        return self.topic, self.partition

    @property
    def last_write_ms(self) -> int | None:
        """Returns the time of the entry's newest batch, by the producer's clock; None if the timestamp is not valid, or
        lies more than a day in the future."""
        return past_time(self.last_timestamp_ms, self.seen_at_ms)


class Relation(NamedTuple):
    """The relation of an entry to the transaction that will end it.

    `owner`: the id that wrote the entry; None if it is not known. `holder`: the id that has, or last had, the entry's
    producer id. If there is a holder and no `owner`, the holder did not write the entry. `why`: what is missing if
    `kind` is unknown. `is_unowned`: the log, as far as it is read, has no transaction that will end the entry; only the
    three confirmation steps show whether that is final (`findings.confirmation`). `is_unread`: the holder's partition
    of the log or, without a holder, some partition of the log cannot be judged now (`KnownLog`)."""

    kind: RelationKind
    owner: Owner | None
    why: Reason | None = None
    is_unowned: bool = False
    is_unread: bool = False
    holder: Owner | None = None


def owner_of(entry: Entry, owners: Sequence[Owner]) -> Owner | None:
    """Returns the id that has the entry's producer id now, or else the id that had it last; None if no id ever had it.
    At most one id has a producer id at a time, because Kafka never assigns a producer id twice."""
    current = [owner for owner in owners if owner.producer_id == entry.producer_id and owner.state != EXPIRED]
    return max(current or owners, key=lambda owner: owner.last_seen_ms, default=None)


def can_be_of(entry: Entry, holder: Owner) -> bool:
    """Returns whether the id may have written the entry: the entry's epoch is at most the highest epoch that the id has
    had under the entry's producer id, as far as the log is read. A higher epoch comes from another cluster, because a
    coordinator writes an epoch to the log before a client gets the epoch. Returns True if the id's newest record cannot
    be decoded."""
    if holder.state == UNKNOWN:
        return True
    is_current = holder.producer_id == entry.producer_id
    return entry.producer_epoch <= (holder.producer_epoch if is_current else holder.last_epoch)


def will_end(entry: Entry, owner: Owner | DescribedOwner) -> bool:
    """Returns whether the owner's open transaction will end the entry. The coordinator will write a marker to every
    partition that the transaction lists, and a marker of the producer id ends the entry if its epoch is not below the
    entry's (`ProducerAppendInfo`). Returns False if the transaction's Ongoing record was left behind, because the end
    of such a transaction is not known."""
    return lists(entry, owner) and not (isinstance(owner, Owner) and owner.is_left_open)


def is_left_behind(entry: Entry, owner: Owner | None) -> bool:
    """Returns whether the entry belongs to an Ongoing transaction whose record was left behind when partitions were
    added to the transaction log. Only a coordinator that has not restarted since then still ends such a transaction."""
    return owner is not None and owner.is_left_open and lists(entry, owner)


def lists(entry: Entry, owner: Owner | DescribedOwner) -> bool:
    """Returns whether the owner's open transaction lists the entry's partition, under an epoch that ends the entry."""
    return (
        owner.producer_id == entry.producer_id
        and owner.state in OPEN
        and entry.topic_partition in owner.partitions
        and owner.producer_epoch >= entry.producer_epoch
    )


def is_stale(entry: Entry, owner: Owner) -> bool:
    """Returns whether the entry was open in a sample before the start of the owner's transaction and in a sample after
    the start, each more than ADOPTED_AFTER_MS away from the start. Without a sample after the start, the entry may have
    ended before the start, because the newest sample can be older than the record in the log."""
    start_ms = owner.record.start_ms
    return is_time(start_ms) and entry.first_seen_ms + ADOPTED_AFTER_MS < start_ms < entry.seen_at_ms - ADOPTED_AFTER_MS


def relate(
    entry: Entry,
    owners: Sequence[Owner],
    log: KnownLog,
    *,
    is_hanging: bool,
    is_foreign: bool = False,
    is_adopted: bool = False,
) -> Relation:
    """Returns the relation of an entry. `owners`: the owners of the entry's producer id. `is_hanging`: a confirmed
    finding reports that the entry hangs. `is_foreign`: that finding names no owner, although the producer id has one.
    `is_adopted`: a finding reports that the entry is older than its owner's present transaction."""
    holder = owner_of(entry, owners)
    if holder is None:
        return _unowned(None, None, is_hanging=is_hanging, is_unread=not log.is_complete)
    owner = holder if can_be_of(entry, holder) and not is_foreign else None
    if holder.state == UNKNOWN:
        return Relation(RelationKind.UNKNOWN, owner, OwnerUndecodable(), holder=holder)
    if will_end(entry, holder):
        kind = RelationKind.ADOPTED if is_adopted else _owned_relation(entry, holder, log)
        return Relation(kind, holder, holder=holder)
    is_unread = holder.log_partition not in log.known_until_ms
    if is_left_behind(entry, holder) and not is_hanging and not is_unread:
        # a coordinator that has not restarted since would end it by its timeout; the judge asks whether there is one
        why = OwnerLeftBehind(holder.log_partition)
        return Relation(RelationKind.UNKNOWN, owner, why, is_unowned=_is_overdue(holder, log), holder=holder)
    return _unowned(holder, owner, is_hanging=is_hanging, is_unread=is_unread)


def _unowned(holder: Owner | None, owner: Owner | None, *, is_hanging: bool, is_unread: bool) -> Relation:
    if is_hanging:
        return Relation(RelationKind.HANGING, owner, is_unowned=True, is_unread=is_unread, holder=holder)
    if is_unread:
        return Relation(RelationKind.UNKNOWN, owner, LogUnread(), is_unread=True, holder=holder)
    state = None if owner is None else NAMES[owner.state]
    why = BeingConfirmed(state, has_other_owner=holder is not None and owner is None)
    return Relation(RelationKind.UNKNOWN, owner, why, is_unowned=True, holder=holder)


def _owned_relation(entry: Entry, owner: Owner, log: KnownLog) -> RelationKind:
    if is_stale(entry, owner):
        return RelationKind.ADOPTED
    if owner.state != ONGOING:
        return RelationKind.COMPLETING
    return RelationKind.OVERDUE if _is_overdue(owner, log) else RelationKind.OPEN


def _is_overdue(owner: Owner, log: KnownLog) -> bool:
    return is_overdue(owner.state, owner.record.start_ms, owner.record.timeout_ms, owner.log_partition, log)


class DescribedOwner(NamedTuple):
    """An id as its coordinator describes it (DescribeTransactions). Used instead of Owner if the transaction log cannot
    be read."""

    transactional_id: bytes
    coordinator: int
    state: int
    producer_id: int
    producer_epoch: int
    partitions: tuple[tuple[str, int], ...]


class Owner(NamedTuple):
    """A transactional.id that has, or once had, the producer id in question.

    `record`: its newest record, with its present producer id. If a record that was left behind has the producer id in
    question, and the newest record has another one, `record` is the record that was left behind. `partitions`: (topic,
    partition) of the transaction that is open by this record.
    `first_seen_ms` to `last_epoch`: when, and with which epochs, it had the producer id in question. Fields `ended_…`:
    the newest PrepareX with partitions under that producer id (`ended_value` as Kafka wrote it); None if none was seen.
    `is_left_behind`: the record is in a partition of the log where no coordinator looks for the id
    (`coordinator_partition`).
    """

    transactional_id: bytes
    log_partition: int
    generation: int
    record: LogRecord
    partitions: tuple[tuple[str, int], ...]
    first_seen_ms: int
    last_seen_ms: int
    first_epoch: int
    last_epoch: int
    ended_offset: int | None
    ended_state: int | None
    ended_value: bytes | None
    is_left_behind: bool = False

    @property
    def state(self) -> int:
        return self.record.state

    @property
    def producer_id(self) -> int:
        return self.record.producer_id

    @property
    def producer_epoch(self) -> int:
        return self.record.producer_epoch

    @property
    def is_left_open(self) -> bool:
        """Returns whether the owner's record is an Ongoing record that was left behind."""
        return self.is_left_behind and self.state == ONGOING
