"""Removes, proof by proof, the worlds in which an open entry cannot have been written; the rest names the marker.

An entry was written within a transaction that its coordinator committed, within one that it aborted, or within none.
While a committed world is left, an ABORT marker may destroy committed records; while another one is left, a COMMIT
marker may publish records that were never committed. Timestamps of brokers and clients prove nothing here: they can
only keep a world that would otherwise go.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Final, NamedTuple

from service.domain.worlds.markers import Marker, ended_before, matches
from service.domain.worlds.order import Absent, LogPlace, Sample, absent, is_there_before
from service.domain.worlds.transactions import Epochs, Range, Transaction, Unseen


class World(StrEnum):
    """Within what the coordinator decided, or within nothing, an entry was written."""

    COMMIT = "commit"
    ABORT = "abort"
    NONE = "none"


class Kind(StrEnum):
    """What a proof rests on."""

    EPOCH = "epoch"
    LISTING = "listing"
    MARKER = "marker"
    ORDER = "order"
    COMPLETENESS = "completeness"


UNKNOWN: Final = "unknown"
DECISIONS: Final = (*World, UNKNOWN)
"""What a finding says was decided."""

_WHYS: Final[dict[str, str]] = {
    World.COMMIT: "its transaction was committed, and no marker of it was written to the partition",
    World.ABORT: "no committed transaction can have written it; the one that did was aborted, or it belongs to none",
    World.NONE: "no committed transaction can have written it: it belongs to none",
}

LATER_MS: Final = 10_000
"""A newest record that claims to be this much younger than the decision may have been written after it."""


class Proof(NamedTuple):
    """`source`: where the fact can be read again."""

    kind: Kind
    source: str
    text: str


class Batches(NamedTuple):
    """The producer id's data batches from the entry's start to the high watermark. `is_whole`: all were read; otherwise
    `epochs` are the bounds that the marker before and the producer state give.

    The leader epochs are those that the batches at `start_offset` and `last_offset` carry.
    """

    start_offset: int
    last_offset: int
    epochs: Epochs
    first_leader_epoch: int
    last_leader_epoch: int
    is_whole: bool


class Entry(NamedTuple):
    """An open entry and what was read around it.

    `newest_ms`: timestamp of its newest record, the producer's clock. `markers`: of the producer id, before the entry,
    oldest first; some may be missing at the beginning. `samples`: of the partition, in the order taken.
    """

    place: str
    newest_ms: int
    batches: Batches
    markers: tuple[Marker, ...]
    samples: tuple[Sample, ...] = ()

    @property
    def where(self) -> str:
        return f"{self.place}@{self.batches.start_offset}"

    def absent(self, log_partition: int) -> Absent | None:
        at = self.batches
        return absent(self.samples, log_partition, at.start_offset, at.first_leader_epoch)

    def is_there_before(self, log_partition: int, record: LogPlace) -> bool:
        """Whether all of it was written before that record of the transaction log could be known to a client."""
        at = self.batches
        return at.is_whole and is_there_before(
            self.samples, log_partition, at.last_offset, at.last_leader_epoch, record
        )


class Verdict(NamedTuple):
    """`decision`: a World's value, or UNKNOWN. `open_question`: what keeps it unknown; None where it is known."""

    possible: frozenset[World]
    decision: str
    proofs: tuple[Proof, ...]
    open_question: str | None

    @property
    def is_known(self) -> bool:
        return self.decision != UNKNOWN

    @property
    def why(self) -> str:
        """One line."""
        return self.open_question or _WHYS[self.decision]


def undecided(question: str) -> Verdict:
    """Nothing could be read that would remove a world."""
    return Verdict(frozenset(World), UNKNOWN, (), question)


def judge(entry: Entry, log_partition: int, transactions: Sequence[Transaction], unseen: Sequence[Unseen]) -> Verdict:
    """`transactions`: of the entry's producer id, oldest first; `unseen`: what else it may have had."""
    proofs: list[Proof] = []
    absent = entry.absent(log_partition)
    hidden = _hidden(entry, unseen, proofs)
    left = _by_listing(entry, transactions, proofs)
    over = _over(entry, absent, left, is_complete=not hidden)
    left = _by_epoch(entry, left, proofs)
    left = _by_order(entry, log_partition, absent, left, proofs)
    left = _by_marker(entry, left, over, proofs)
    possible = {World.COMMIT if one.is_commit else World.ABORT for one in left}
    possible |= {World.COMMIT, World.ABORT} if hidden else set()
    if _may_be_of_none(entry, log_partition, absent, left, proofs):
        possible.add(World.NONE)
    decision = _decide(possible)
    question = None if decision != UNKNOWN else _open_question(left, hidden)
    return Verdict(frozenset(possible), decision, tuple(proofs), question)


def _decide(possible: set[World]) -> str:
    if World.COMMIT not in possible:
        # without a marker of it there, an aborted transaction is the likelier of the two
        return World.ABORT if World.ABORT in possible else World.NONE
    return World.COMMIT if possible == {World.COMMIT} else UNKNOWN


def _hidden(entry: Entry, unseen: Sequence[Unseen], proofs: list[Proof]) -> list[Unseen]:
    """What the log may hide of this entry."""
    left = [one for one in unseen if not _is_excluded(entry, one)]
    if not unseen:
        text = "the transaction log was read without a hole that could hide another transaction of the producer id"
        proofs.append(Proof(Kind.COMPLETENESS, "__transaction_state", text))
    elif not left:
        text = f"{_count(len(unseen), 'hole')} of the transaction log cannot hide one of the entry, by epochs and order"
        proofs.append(Proof(Kind.COMPLETENESS, "__transaction_state", text))
    return left


def _is_excluded(entry: Entry, one: Unseen) -> bool:
    absent = entry.absent(one.log_partition)
    return (
        not one.data_epochs.overlaps(entry.batches.epochs)
        or (absent is not None and one.decided.hi <= absent.log_end)
        or entry.is_there_before(one.log_partition, one.began)
    )


def _by_listing(entry: Entry, transactions: Sequence[Transaction], proofs: list[Proof]) -> list[Transaction]:
    left = [one for one in transactions if one.lists is not False]
    if gone := len(transactions) - len(left):
        text = f"{_count(gone, 'transaction')} of the producer id ended without listing {entry.place}"
        proofs.append(Proof(Kind.LISTING, "__transaction_state", text))
    return left


def _by_epoch(entry: Entry, left: Sequence[Transaction], proofs: list[Proof]) -> list[Transaction]:
    epochs = entry.batches.epochs
    kept = [one for one in left if one.data_epochs.overlaps(epochs)]
    if gone := len(left) - len(kept):
        text = f"the entry was written under epoch {_shown(epochs)}, {_count(gone, 'transaction')} under others"
        proofs.append(Proof(Kind.EPOCH, entry.where, text))
    return kept


def _by_order(
    entry: Entry, log_partition: int, absent: Absent | None, left: Sequence[Transaction], proofs: list[Proof]
) -> list[Transaction]:
    source = f"__transaction_state-{log_partition}"
    kept = list(left)
    if absent is not None:
        kept = [one for one in left if one.decided.offset >= absent.log_end]
        if gone := len(left) - len(kept):
            text = f"the entry was not there yet when {_count(gone, 'transaction')} had ended below {absent.log_end}"
            proofs.append(Proof(Kind.ORDER, source, text))
    begun = [one for one in kept if not entry.is_there_before(log_partition, one.began)]
    if gone := len(kept) - len(begun):
        text = f"all of the entry was there before {_count(gone, 'transaction')} began"
        proofs.append(Proof(Kind.ORDER, source, text))
    return begun


def _over(entry: Entry, absent: Absent | None, listing: Sequence[Transaction], *, is_complete: bool) -> set[LogPlace]:
    """Where the transactions were decided that ended on the partition before the entry began, as markers show."""
    markers, since = entry.markers, listing
    if absent is not None:
        markers = tuple(one for one in markers if one.offset >= absent.absent_at)
        since = [one for one in listing if one.completed is None or one.completed >= absent.log_end]
        # a new leader's high watermark may lag: what an older one wrote above it may belong to what completed before
        is_complete = is_complete and all(one.leader_epoch == absent.leader_epoch for one in markers)
    is_complete = is_complete and all(one.lists for one in since)
    return {one.decided for one in since[: ended_before(since, markers, is_complete=is_complete)]}


def _by_marker(
    entry: Entry, left: Sequence[Transaction], over: set[LogPlace], proofs: list[Proof]
) -> list[Transaction]:
    kept = [one for one in left if one.decided not in over]
    if gone := len(left) - len(kept):
        text = f"the marker there ended {_count(gone, 'transaction')} that could have written the entry"
        proofs.append(Proof(Kind.MARKER, f"{entry.place}@{entry.markers[-1].offset}", text))
    return kept


def _may_be_of_none(
    entry: Entry, log_partition: int, absent: Absent | None, left: Sequence[Transaction], proofs: list[Proof]
) -> bool:
    """Records outside of every transaction: written after all that could own them, or without AddPartitionsToTxn."""
    if any(one.lists and entry.is_there_before(log_partition, one.decided) for one in left):
        text = "all of the entry was there before its transaction was decided"
        proofs.append(Proof(Kind.ORDER, f"__transaction_state-{log_partition}", text))
        return False
    markers = [one for one in entry.markers if absent is None or one.offset >= absent.known_at]
    committed = [one for one in left if one.is_commit and one.lists and not any(matches(m, one) for m in markers)]
    if not committed or entry.newest_ms > committed[-1].decided_ms + LATER_MS:
        return True
    source = f"__transaction_state-{log_partition}@{committed[-1].decided.offset}"
    text = "a client that commits has written wherever it added a partition; no marker ended that here, so it lies here"
    proofs.append(Proof(Kind.LISTING, source, text))
    return False


def _open_question(left: Sequence[Transaction], hidden: Sequence[Unseen]) -> str:
    if hidden:
        where = hidden[0]
        return (
            f"records of __transaction_state-{where.log_partition} in {_range(where.decided)} are gone: a committed"
            " transaction of the producer id may have been among them"
        )
    outcomes = " and ".join(dict.fromkeys("a committed" if one.is_commit else "an aborted" for one in left))
    return f"{outcomes} transaction may have written it, and nothing tells which"


def _range(offsets: Range) -> str:
    return f"[{offsets.lo}, {offsets.hi})"


def _shown(epochs: Epochs) -> str:
    return str(epochs.first) if epochs.first == epochs.last else f"{epochs.first} to {epochs.last}"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
