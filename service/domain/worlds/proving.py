"""Removes, proof by proof, the worlds in which an open entry cannot have been written. The worlds that are left decide
the marker.

An entry was written within a transaction that its coordinator committed, within one that it aborted, or within none.
While the world `commit` is left, an ABORT marker may destroy committed records. While the world `abort` or the world
`none` is left, a COMMIT marker may publish records that were never committed. Timestamps of brokers and clients prove
nothing here: they can only keep a world that a proof would otherwise remove."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from service.domain.partitions.facts import LogPlace
from service.domain.reasons.hanging import RecordsGone, SeveralLeft, UnlistedWriter
from service.domain.reasons.reason import Reason
from service.domain.transaction_log.states import TOPIC
from service.domain.worlds.facts import EntryFacts, EntryQuery, EntryRead
from service.domain.worlds.markers import Marker, ended_before, matches
from service.domain.worlds.order import AbsenceProof, LogPosition
from service.domain.worlds.ownership import foreign_records
from service.domain.worlds.transactions import Epochs, HiddenTransactions, Transaction, transactions_of
from service.domain.worlds.verdict import Decided, Proof, ProofKind, Verdict, World, decision_of, undecided

LATER_MS: Final = 10_000
"""Margin (ms) for the difference of clocks. If an entry's newest record has a timestamp later than a decision by more
than this margin, the record may have been written after the decision."""


def verdict_on(query: EntryQuery, facts: EntryFacts, hidden: Sequence[HiddenTransactions]) -> Verdict:
    """Returns the verdict on an entry. `hidden`: transactions of any id that the transaction log may hide; used only if
    the producer id has no known owner."""
    entry, history = EntryRead(query, facts), facts.history
    transactions: Sequence[Transaction] = ()
    if history is not None:
        transactions, hidden = transactions_of(query.producer_id, history)
    proofs = _Proofs(facts.read_at_ms)
    holes = _hidden(entry, hidden, proofs)
    left = _possible_writers(entry, transactions, hidden, proofs)
    if not holes:
        foreign = foreign_records(entry, history, transactions)
        if foreign is not None:
            return undecided(foreign)
    possible = {World.COMMIT for transaction in left if transaction.is_commit is not False}
    possible |= {World.ABORT for transaction in left if not transaction.is_commit}
    possible |= {World.COMMIT, World.ABORT} if holes else set()
    committed = _committed_within(entry, left, proofs)
    is_all_its = committed is not None and _ends_with(entry, committed)
    if not is_all_its and not _is_of_transactions(entry, left, proofs):
        possible.add(World.NONE)
    decision = decision_of(possible)
    holds_committed = committed is not None
    question = None if decision != Decided.UNKNOWN else _open_question(left, holes, holds_committed=holds_committed)
    leader_changed = facts.leader_epoch > facts.batches.last_leader_epoch
    return Verdict(frozenset(possible), decision, tuple(proofs.found), question, holds_committed, leader_changed)


def _possible_writers(
    entry: EntryRead, transactions: Sequence[Transaction], hidden: Sequence[HiddenTransactions], proofs: _Proofs
) -> list[Transaction]:
    """Returns the transactions that may have written to the entry. `transactions`: the transactions of its producer id,
    oldest first. `hidden`: further transactions that the producer id may have had."""
    log_partition, batches = entry.query.log_partition, entry.facts.batches
    log, absence = f"{TOPIC}-{log_partition}", entry.newest_absence_proof(log_partition)
    writers = proofs.keep(
        transactions,
        lambda transaction: transaction.lists_partition is not False or _may_be_unlisted(entry, transaction),
        ProofKind.LISTING,
        log,
        f"{{gone}} of the producer id ended without listing {entry.location.topic}-{entry.location.partition}",
    )
    left = proofs.keep(
        writers,
        lambda transaction: transaction.data_epochs.overlaps(batches.epochs),
        ProofKind.EPOCH,
        entry.location,
        f"the entry was written under epoch {_shown(batches.epochs)}, and {{gone}} under other epochs",
    )
    if absence is not None:
        left = proofs.keep(
            left,
            lambda transaction: transaction.decided.offset >= absence.log_end,
            ProofKind.ORDER,
            log,
            f"{{gone}} had ended before the entry existed: below offset {absence.log_end} of the transaction log",
        )
    left = proofs.keep(
        left,
        lambda transaction: not entry.was_written_before(log_partition, transaction.began),
        ProofKind.ORDER,
        log,
        "the entry was complete before {gone} began",
    )
    listing = [writer for writer in writers if writer.lists_partition is not False]
    over = _ended_before_entry(entry, listing, hidden)
    return proofs.keep(
        left,
        lambda transaction: transaction.decided not in over,
        ProofKind.MARKER,
        entry.location._replace(offset=entry.facts.markers[-1].offset) if over else "",
        "the marker at this offset ended {gone} that could have written the entry",
    )


class _Proofs:
    """Collects the proofs found on the way to a verdict."""

    def __init__(self, at_ms: int) -> None:
        self._at_ms = at_ms
        self.found: list[Proof] = []

    def add(self, kind: ProofKind, source: LogPlace | str, text: str) -> None:
        self.found.append(Proof(kind, self._at_ms, source, text))

    def keep(
        self,
        those: Sequence[Transaction],
        is_kept: Callable[[Transaction], bool],
        kind: ProofKind,
        source: LogPlace | str,
        text: str,
    ) -> list[Transaction]:
        """Returns the transactions of `those` for which `is_kept` is True, and adds a proof if some are removed.
        `text`: the reason why the removed transactions did not write the entry. `{gone}` in the text is replaced by
        their number and noun, such as `3 transactions`."""
        kept = [transaction for transaction in those if is_kept(transaction)]
        if gone := len(those) - len(kept):
            self.add(kind, source, text.format(gone=_count(gone, "transaction")))
        return kept


def _hidden(entry: EntryRead, hidden: Sequence[HiddenTransactions], proofs: _Proofs) -> list[HiddenTransactions]:
    """Returns the hidden transactions (holes of the transaction log) that may have written the entry. Adds a proof of
    completeness if there is no such hole."""
    left = [
        transactions
        for transactions in hidden
        if _may_hide(entry, transactions, entry.newest_absence_proof(transactions.log_partition))
    ]
    if not left:
        text = "the transaction log was read without a hole that could hide another transaction of the producer id"
        if hidden:
            holes = _count(len(hidden), "hole")
            text = (
                f"epochs and the order of writes rule out that the entry's transaction is hidden in {holes} of the"
                " transaction log"
            )
        proofs.add(ProofKind.COMPLETENESS, TOPIC, text)
    return left


def _may_hide(entry: EntryRead, transactions: HiddenTransactions, absence: AbsenceProof | None) -> bool:
    return (
        transactions.data_epochs.overlaps(entry.facts.batches.epochs)
        and (absence is None or transactions.decided.hi > absence.log_end)
        and not entry.was_written_before(transactions.log_partition, transactions.began)
    )


def _ended_before_entry(
    entry: EntryRead, listing: Sequence[Transaction], hidden: Sequence[HiddenTransactions]
) -> set[LogPosition]:
    """Returns the transactions that ended on the partition before the entry began, as the partition's markers prove.
    Each transaction is named by the position of its decision.

    All markers are matched with all transactions. For each proof of absence, the markers and transactions after this
    proof are matched once more. A newer proof leaves fewer transactions to match, an older proof leaves more markers.
    Each match is valid by itself, so the results are joined.
    """
    over = _ended(
        listing,
        entry.facts.markers,
        is_complete=not any(_may_hide(entry, transactions, None) for transactions in hidden),
    )
    for absence in entry.absence_proofs(entry.query.log_partition):
        markers = [marker for marker in entry.facts.markers if marker.offset >= absence.high_watermark]
        since = [
            transaction
            for transaction in listing
            if transaction.completed is None or transaction.completed >= absence.log_end
        ]
        is_complete = not any(_may_hide(entry, transactions, absence) for transactions in hidden)
        # a new leader's high watermark may lag: markers of completed transactions, by an older leader, may lie above it
        by_its_leader = all(marker.leader_epoch == absence.leader_epoch for marker in markers)
        over |= _ended(since, markers, is_complete=is_complete and by_its_leader)
    return over


def _ended(transactions: Sequence[Transaction], markers: Sequence[Marker], *, is_complete: bool) -> set[LogPosition]:
    is_complete = is_complete and all(transaction.lists_partition for transaction in transactions)
    return {
        transaction.decided
        for transaction in transactions[: ended_before(transactions, markers, is_complete=is_complete)]
    }


def _may_be_unlisted(entry: EntryRead, transaction: Transaction) -> bool:
    """Returns whether the transaction may have written to the entry without listing the partition. This needs an
    earlier batch of another transaction: had the transaction written the entry's first batch, the leader would have
    added the partition to it."""
    return transaction.is_added_by_leaders and not entry.facts.batches.is_single


def _is_of_transactions(entry: EntryRead, left: Sequence[Transaction], proofs: _Proofs) -> bool:
    """Returns whether every record of the entry is proven to have been written within a transaction. If so, adds the
    proof."""
    log_partition = entry.query.log_partition
    if any(
        transaction.lists_partition and entry.was_written_before(log_partition, transaction.decided)
        for transaction in left
    ):
        text = "the entry was complete before its transaction was decided"
        proofs.add(ProofKind.ORDER, f"{TOPIC}-{log_partition}", text)
        return True
    return False


def _committed_within(entry: EntryRead, left: Sequence[Transaction], proofs: _Proofs) -> Transaction | None:
    """Returns the newest committed transaction whose records are proven to be in the entry, and adds the proof; None if
    there is no such transaction."""
    log_partition = entry.query.log_partition
    committed = [
        transaction
        for transaction in left
        if transaction.is_commit
        and transaction.lists_partition
        and _began_before(entry, transaction)
        and _has_no_marker(entry, transaction)
    ]
    if not committed:
        return None
    text = (
        "a committed transaction has records on each partition that it added; no marker ended it here, so its records"
        " are in this entry"
    )
    proofs.add(ProofKind.LISTING, LogPlace(TOPIC, log_partition, committed[-1].decided.offset), text)
    return committed[-1]


def _began_before(entry: EntryRead, transaction: Transaction) -> bool:
    """Returns whether the entry's first record may be older than the decision of the transaction. If the record is not
    older, the transaction wrote to an earlier log of the partition, and the topic was deleted and created again
    since."""
    first = entry.facts.batches.first
    return first is None or first.first_timestamp_ms <= transaction.decided_ms + LATER_MS


def _ends_with(entry: EntryRead, transaction: Transaction) -> bool:
    """Returns whether the transaction's records are the last records of the entry. Returns False if the
    entry's newest timestamp is more than LATER_MS after the decision. Returns False, too, if leaders add the partitions
    and the transaction's end kept the epoch: the client's next transaction may then write to the entry before the
    transaction log has a record of this next transaction."""
    keeps_epoch = transaction.data_epochs.first <= transaction.marker_epoch <= transaction.data_epochs.last
    may_go_on = transaction.is_added_by_leaders and keeps_epoch and not entry.facts.batches.is_single
    return not may_go_on and entry.query.newest_ms <= transaction.decided_ms + LATER_MS


def _has_no_marker(entry: EntryRead, transaction: Transaction) -> bool:
    """Returns whether it is proven that no marker before the entry ended the transaction."""
    markers_from, read_from = _lowest_marker_offset(entry, transaction), entry.facts.markers_from
    markers = [marker for marker in entry.facts.markers if marker.offset >= max(markers_from, read_from)]
    # a producer id's markers lie in the order of epochs: if one of an older epoch was read, so were all of this epoch
    are_all_read = read_from <= markers_from or any(m.producer_epoch < transaction.marker_epoch for m in markers)
    return are_all_read and not any(matches(m, transaction) for m in markers)


def _lowest_marker_offset(entry: EntryRead, transaction: Transaction) -> int:
    """Returns an offset below which no marker of the transaction can lie, as samples prove; 0 if they prove nothing."""
    offsets = (
        absence.earlier_high_watermark
        for absence in entry.absence_proofs(entry.query.log_partition)
        if absence.log_end <= transaction.prepared.offset
        and absence.log_leader_epoch == transaction.prepared.leader_epoch
    )
    return max(offsets, default=0)


def _open_question(
    left: Sequence[Transaction], hidden: Sequence[HiddenTransactions], *, holds_committed: bool
) -> Reason:
    if hidden:
        where = hidden[0]
        return RecordsGone(where.log_partition, where.decided.lo, where.decided.hi)
    unlisted = [transaction.is_commit for transaction in left if transaction.lists_partition is False]
    if unlisted:
        return UnlistedWriter(None if None in unlisted else any(unlisted), holds_committed)
    committed, others = (
        any(transaction.is_commit for transaction in left),
        any(not transaction.is_commit for transaction in left),
    )
    return SeveralLeft(committed, others, holds_committed)


def _shown(epochs: Epochs) -> str:
    return str(epochs.first) if epochs.first == epochs.last else f"{epochs.first} to {epochs.last}"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
