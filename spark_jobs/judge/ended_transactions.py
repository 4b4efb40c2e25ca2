"""Decodes the last transaction that ended under a producer id, notes until when it was being completed, and decides
whether a transaction may have written to an open entry."""

from __future__ import annotations

from typing import NamedTuple

from service.domain.findings.ended_hang import EndedTransaction
from service.domain.findings.finding import Finding
from service.domain.findings.hanging import HangingFacts, may_write_unlisted
from service.domain.partitions.facts import LogPlace
from service.domain.partitions.open_entries import Entry, Owner, lists
from service.domain.transaction_log.states import COMPLETE, OPEN, PREPARE_COMMIT, PREPARED, TOPIC
from service.domain.worlds.transactions import TV2
from service.store.escaped_text import printable
from service.wire.errors import DecodeError
from service.wire.transaction_log import decode_value


def ended_of(owner: Owner) -> EndedTransaction | None:
    """Returns the owner's last ended transaction, decoded from the stored bytes of its PrepareX. Returns None if no
    ended transaction was seen, or if the bytes cannot be decoded."""
    if owner.ended_value is None:
        return None
    try:
        value = decode_value(owner.ended_value)
    except DecodeError:
        return None
    return EndedTransaction(
        is_commit=owner.ended_state == PREPARE_COMMIT,
        producer_epoch=value.producer_epoch,
        start_ms=value.start_ms,
        at_ms=value.last_update_ms,  # a PrepareX is stamped as it is written
        partitions=frozenset((topic_text(topic), p) for topic, ids in value.partitions or () for p in ids),
    )


def topic_text(topic: str) -> str:
    """Returns a topic's name, decoded from the log's bytes, in the form in which the store has it."""
    return printable(topic.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace"))


def may_grow(entry: Entry, owner: Owner) -> bool:
    """Returns whether the owner's open transaction may write to the entry: the transaction lists the partition, or has
    the entry's epoch under TV2."""
    return lists(entry, owner) or (owner.state in OPEN and may_write_unlisted(entry, owner))


class EarlierOwner(NamedTuple):
    """An earlier state of an entry's owner. `log_partition`, `offset`: the place of the owner's newest record at that
    time. `had_epoch`: True if the owner's producer could write under the entry's epoch. `is_tv2`: True if its client
    used TV2."""

    log_partition: int
    offset: int
    had_epoch: bool
    is_tv2: bool

    @staticmethod
    def of(entry: Entry, owner: Owner) -> EarlierOwner:
        had_epoch = owner.producer_id == entry.producer_id and owner.producer_epoch <= entry.producer_epoch
        is_tv2 = owner.record.client_transaction_version >= TV2
        return EarlierOwner(owner.log_partition, owner.record.offset, had_epoch, is_tv2)

    @staticmethod
    def in_finding(finding: Finding) -> EarlierOwner | None:
        """Returns the owner's state at the last time that the finding about the entry was observed; None if the finding
        names no owner. `log_partition` and `offset` are -1 if the transaction log could not be read at that time."""
        facts = finding.observation.facts
        if not isinstance(facts, HangingFacts) or facts.name is None:
            return None
        places = [one.source for one in finding.observation.evidence if isinstance(one.source, LogPlace)]
        record = next((place for place in places if place.topic == TOPIC), LogPlace(TOPIC, -1, -1))
        return EarlierOwner(record.partition, record.offset, facts.can_still_write, facts.may_write_unlisted)


def may_have_grown(entry: Entry, before: EarlierOwner | None, owner: Owner) -> bool:
    """Returns whether a transaction may have written to the entry since the owner was in the state `before`. Returns
    True if that state is not known (None), or if the owner's last ended transaction is new and cannot be decoded.
    Returns False if the owner has no newer record. Under TV2, any transaction of the entry's epoch may have written,
    also one that began and ended since `before`. Otherwise only a transaction that lists the partition, or listed it
    until its end, may have written."""
    if before is None:
        return True
    is_same_log = owner.log_partition == before.log_partition  # else partitions were added to the transaction log
    if is_same_log and owner.record.offset == before.offset:
        return False
    # a transaction that ended raised the epoch, so the newest record does not show the entry's epoch any more
    was_unlisted = before.had_epoch and (before.is_tv2 or owner.record.client_transaction_version >= TV2)
    if was_unlisted or may_write_unlisted(entry, owner) or lists(entry, owner):
        return True
    if owner.ended_offset is None or (is_same_log and owner.ended_offset <= before.offset):
        return False
    ended = ended_of(owner)
    return ended is None or (entry.topic_partition in ended.partitions and ended.producer_epoch >= entry.producer_epoch)


class EarlierCompletion(NamedTuple):
    """The completion of the transaction that was in PrepareX when an open entry was written. Later transactions do not
    matter: before a client can end its next transaction, it adds the partitions of that next transaction.

    - `until_ms`: the time until which the coordinator was completing the transaction; -1 if no such transaction is
      known.
    - `start_ms`: the start time of the transaction, if the coordinator is still completing it; otherwise None.
    """

    until_ms: int = -1
    start_ms: int | None = None

    def after(self, owner: Owner, there_since_ms: int, begun_ms: int, now_ms: int) -> EarlierCompletion:
        """Returns the completion, updated by the owner's newest state. `there_since_ms`: the time since which the entry
        is known to be in the log. `begun_ms`: the time at which the entry's case began."""
        until_ms, start_ms = self
        if start_ms is None:
            if until_ms >= 0:
                return self
            if owner.state in COMPLETE and owner.record.timestamp_ms > there_since_ms:
                until_ms = min(owner.record.timestamp_ms, begun_ms)  # the coordinator's clock may be ahead
            if owner.state not in PREPARED:
                return EarlierCompletion(until_ms)
            start_ms = owner.record.start_ms
        is_over = owner.state not in PREPARED or owner.record.start_ms != start_ms
        return EarlierCompletion(now_ms, None if is_over else start_ms)
