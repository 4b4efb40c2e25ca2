"""Detects entries that a later transaction of their producer id will end, and finds out whether committed records are
lost then.

Such an entry is left over if the marker of a committed transaction was skipped, or was lost with a leader, and the
client began its next transaction at once. Nothing hangs in this case: the marker of the present transaction also
decides about the committed records, and an ABORT loses them.

If an entry stays open, and its samples do not rule out committed records, the brokers are asked whether the entry holds
any, once for each transaction of the owner. An entry that holds committed records is followed to its end.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Final, NamedTuple

from service.domain.findings.adopted import adopted
from service.domain.findings.context import Context
from service.domain.findings.finding import Evidence, Finding, Observation, RoundResult, Subject
from service.domain.findings.hanging import subject_of
from service.domain.findings.kinds import Kind, Resolution, Severity
from service.domain.findings.lost_records import EndedBy, lost_records
from service.domain.findings.rules import Rules
from service.domain.partitions.open_entries import ADOPTED_AFTER_MS, Entry, Owner, RelationKind
from service.domain.partitions.state import PartitionState
from service.domain.worlds.facts import EntryFacts, EntryQuery, entry_query
from service.domain.worlds.markers import Marker
from service.domain.worlds.order import Sample, decode
from service.domain.worlds.proving import verdict_on
from service.domain.worlds.transactions import HiddenTransactions
from service.domain.worlds.verdict import Proof
from service.store.escaped_text import display_id
from service.views.partitions.judged import JudgedEntry
from spark_jobs.judge.hanging_case import HangingCase
from spark_jobs.judge.partition_prober import Answers, EntryKey, is_open
from spark_jobs.judge.resolution import cases_of

_CLOSING: Final = (RelationKind.OPEN, RelationKind.OVERDUE, RelationKind.COMPLETING)
"""Relations of an entry to the transaction that will end the entry, if this transaction may also have written the
entry. This is so if the transaction began at most ADOPTED_AFTER_MS after the entry was first seen, or at most
ADOPTED_AFTER_MS before the entry was last seen."""

READ_EVERY_MS: Final = 1_000
READ_AT_ONCE: Final = 4
"""Maximum number of entries that are read at once. The next entries are read READ_EVERY_MS later at the earliest,
because a busy cluster has thousands of long transactions."""

MOST_FOLLOWED: Final = 1_000

_ENDED_BY: Final = {
    Resolution.FOREIGN_ABORT: EndedBy.FOREIGN_ABORT,
    Resolution.ADOPTION: EndedBy.OTHER_TRANSACTION,
    Resolution.COORDINATOR_MARKER: EndedBy.OTHER_TRANSACTION,
}
"""A mapping from resolution to the writer of the marker that ended the entry. For all other resolutions, the writer is
not known."""


class OwnedEntry(NamedTuple):
    """An open entry with its partition (`row`) and its owner. The owner's present transaction will end the entry."""

    row: PartitionState
    entry: Entry
    owner: Owner


@dataclass(slots=True)
class _Followed:
    """An entry that holds committed records. `high_watermark`: the entry's marker lies at this offset or above.
    `last_offset`: the offset of the entry's newest record when the entry was read; None if not known. `decision`:
    evidence that the records were committed."""

    subject: Subject
    high_watermark: int
    last_offset: int | None
    decision: tuple[Evidence, ...]


class SharedFates:
    """Reads the facts about entries that have an owner, and follows entries with committed records of an earlier
    transaction."""

    def __init__(self) -> None:
        self._taken_over_ms: dict[EntryKey, int] = {}
        """A mapping from entry to the time (ms) at which an owner's transaction was seen that will end the entry.
        Contains only entries for which confirmation step 2 held until then. An entry that is seen open after this time
        is older than the owner's present transaction."""
        self._lost: list[Observation] = []
        self._read: dict[EntryKey, int] = {}
        """A mapping from entry to the start time (ms) that the owner's transaction had when the facts about the entry
        were last requested."""
        self._followed: dict[EntryKey, _Followed] = {}
        self._read_ms = 0

    def note_taken_over(self, key: EntryKey, now_ms: int) -> None:
        self._taken_over_ms[key] = now_ms

    def forget_others(self, there: Set[EntryKey]) -> None:
        """Forgets the owners of entries that are not open any more. `there`: the open entries. Continues to follow the
        entries that are being followed."""
        self._taken_over_ms = {key: ms for key, ms in self._taken_over_ms.items() if key in there}

    def adopted(
        self, shown: Sequence[tuple[PartitionState, JudgedEntry]], context: Context, unread: int
    ) -> RoundResult:
        """Returns the round's result on entries that will end with a transaction to which they do not belong. `unread`:
        the number of stalled partitions that were not read, or not read completely."""
        closing = [case for word in _CLOSING for case in cases_of(shown, word, context)]
        cases = [
            *cases_of(shown, RelationKind.ADOPTED, context),
            *(case for case in closing if self._is_older(case.entry)),
        ]
        return RoundResult(
            tuple(adopted(case, context.rules, is_committed=key_of(case.subject) in self._followed) for case in cases),
            frozenset({Kind.ADOPTED}),
            frozenset(context.log.known_until_ms),
            context.log.is_complete,
            unread={Kind.ADOPTED: unread},
        )

    def _is_older(self, entry: Entry) -> bool:
        """Returns whether the entry is proven to be older than the transaction that will end it."""
        key = entry_key(entry)
        was_seen = entry.seen_at_ms > self._taken_over_ms.get(key, entry.seen_at_ms)
        return was_seen or key in self._followed

    def lost(self) -> RoundResult:
        """Returns the round's result on lost records: the committed records that ABORT markers have ended since the
        last call."""
        lost, self._lost = self._lost, []
        return RoundResult(tuple(lost), frozenset({Kind.LOST_RECORDS}), resolutions={})

    def note_end(self, case: HangingCase, marker: Marker, how: Resolution, rules: Rules) -> None:
        """Notes that a marker has ended a hanging entry. If an ABORT marker that we did not write has ended committed
        records, they are lost. `how`: the resolution of the entry."""
        if case.holds_committed and marker.is_commit is False and how != Resolution.OUR_MARKER:
            by = _ENDED_BY.get(how, EndedBy.NOT_KNOWN)
            self._lost.append(_lost_by(case.subject, marker, by, _as_evidence(case.decision.verdict.proofs), rules))

    def resume(self, findings: Iterable[Finding]) -> None:
        """Follows entries with committed records again, for example after a restart. `findings`: the open findings
        about adopted records. Of these findings, only the critical ones are about committed records."""
        for finding in findings:
            if finding.severity == Severity.CRITICAL:
                self._follow(key_of(finding.subject), finding.subject, finding.observation.evidence)

    def follow(self, owned: OwnedEntry, proofs: Sequence[Proof], last_offset: int | None = None) -> None:
        """Follows an entry that is proven to hold committed records."""
        subject = subject_of(owned.entry, owned.owner)
        self._follow(key_of(subject), subject, _as_evidence(proofs), last_offset)

    def _follow(
        self, key: EntryKey, subject: Subject, evidence: tuple[Evidence, ...], last_offset: int | None = None
    ) -> None:
        if key not in self._followed and len(self._followed) < MOST_FOLLOWED:
            self._followed[key] = _Followed(subject, key.start_offset, last_offset, evidence)

    @property
    def observed(self) -> Mapping[EntryKey, int]:
        """Returns the entries to observe, in the form of `Questions.entries`."""
        return {key: followed.high_watermark for key, followed in self._followed.items()}

    def facts_to_read(self, owned: Mapping[EntryKey, OwnedEntry], now_ms: int) -> dict[EntryKey, EntryQuery]:
        """Returns the queries to ask now, about at most READ_AT_ONCE entries: those that have been open longest."""
        self._read = {key: start_ms for key, start_ms in self._read.items() if key in owned}
        if 0 <= now_ms - self._read_ms < READ_EVERY_MS:
            return {}
        due = [key for key, one in owned.items() if self._is_due(key, one)]
        due.sort(key=lambda key: owned[key].entry.first_seen_ms)
        if due:
            self._read_ms = now_ms
        facts = {}
        for key in due[:READ_AT_ONCE]:
            entry = owned[key]
            self._read[key] = entry.owner.record.start_ms
            facts[key] = entry_query(entry.entry, entry.owner, decode(entry.row.samples), is_deep=False)
        return facts

    def _is_due(self, key: EntryKey, owned_entry: OwnedEntry) -> bool:
        entry, owner = owned_entry.entry, owned_entry.owner
        if key in self._followed or self._read.get(key) == owner.record.start_ms or owner.ended_offset is None:
            return False
        is_long = entry.seen_at_ms - entry.first_seen_ms >= ADOPTED_AFTER_MS
        return is_long and not _began_after(
            entry, decode(owned_entry.row.samples), owner.log_partition, owner.ended_offset
        )

    def apply_facts(
        self, owned: OwnedEntry, asked: EntryQuery, facts: EntryFacts, hidden: Sequence[HiddenTransactions]
    ) -> None:
        """Follows the entry if the facts show that it holds committed records."""
        verdict = verdict_on(asked, facts, hidden)
        if verdict.holds_committed:
            self.follow(owned, verdict.proofs, facts.batches.last_offset if facts.batches.is_whole else None)

    def apply_answers(self, answers: Answers, rules: Rules) -> None:
        """Stops following the entries that have ended. If an ABORT marker has ended committed records, notes the
        loss."""
        for key, followed in list(self._followed.items()):
            seen = answers.seen.get(key.place)
            if seen is None or not seen.described:
                continue
            if is_open(key, seen):
                followed.high_watermark = seen.ends.high_watermark
            elif (found := answers.ended.get(key)) is not None and (found.markers or found.is_whole):
                del self._followed[key]
                if found.markers and found.markers[0].is_commit is False:
                    by = EndedBy.NOT_KNOWN  # an operator may have written it, too
                    self._lost.append(
                        _lost_by(followed.subject, found.markers[0], by, followed.decision, rules, followed.last_offset)
                    )


def _lost_by(
    subject: Subject,
    marker: Marker,
    ended_by: EndedBy,
    decision: tuple[Evidence, ...],
    rules: Rules,
    last_offset: int | None = None,
) -> Observation:
    """Returns the observation of committed records that the ABORT marker has ended. `last_offset`: the offset of the
    newest of these records; None if not known."""
    name = None if subject.transactional_id is None else display_id(subject.transactional_id)
    rule = rules.of(name or "", (subject.topic or "",))
    return lost_records(subject, name, last_offset, ended_by, marker, decision, rule)


def _as_evidence(proofs: Sequence[Proof]) -> tuple[Evidence, ...]:
    return tuple(Evidence(proof.at_ms, proof.source, proof.text) for proof in proofs)


def owned_entries(shown: Sequence[tuple[PartitionState, JudgedEntry]]) -> dict[EntryKey, OwnedEntry]:
    """Returns the entries that a transaction will end."""
    return {
        entry_key(entry): OwnedEntry(row, entry, relation.owner)
        for row, (entry, relation) in shown
        if relation.kind in (*_CLOSING, RelationKind.ADOPTED) and relation.owner is not None
    }


def entry_key(entry: Entry) -> EntryKey:
    return EntryKey(entry.topic, entry.partition, entry.producer_id, entry.start_offset)


def key_of(subject: Subject) -> EntryKey:
    """Returns the key of the entry that a finding is about."""
    return EntryKey(subject.topic or "", subject.partition or 0, subject.producer_id or 0, subject.start_offset or 0)


def _began_after(entry: Entry, samples: Sequence[Sample], log_partition: int, ended_offset: int) -> bool:
    """Returns whether a sample proves that the entry began after the owner's last transaction had ended in the
    transaction log."""
    return any(
        sample.high_watermark <= entry.start_offset
        and log_partition in sample.ends_before_last
        and sample.ends_before_last[log_partition].offset > ended_offset
        for sample in samples
    )
