"""Findings about open transactions that no coordinator is set to end: their owner, the cause, and the remediation.

The judge makes the three confirmation steps (`service.domain.findings.confirmation`); this module describes the result.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from service.domain.findings.advice import TwoPhase, checkpoint, two_phase_of
from service.domain.findings.context import Context
from service.domain.findings.finding import Evidence, Facts, Observation, Subject, Words
from service.domain.findings.formatting import join_names, join_partitions
from service.domain.findings.kinds import Kind, Severity
from service.domain.findings.rules import Rule
from service.domain.partitions.blocked_groups import AffectedGroup
from service.domain.partitions.facts import LogPlace, TopicPartition
from service.domain.partitions.open_entries import Entry, Owner
from service.domain.reasons.hanging import ForeignRecords, HangCause, HangReason
from service.domain.transaction_log.causes import Confidence
from service.domain.transaction_log.states import EMPTY, EXPIRED, NAMES, TOPIC
from service.domain.worlds.transactions import TV2
from service.domain.worlds.verdict import NOT_READ, Decided, Verdict, World


class Case(NamedTuple):
    """An open entry, with the facts that findings about it need. `owner`: the id that wrote the entry; None if that id
    is not known, or if the transaction log cannot be read. `name`: the owner's transactional.id as text; None if no
    owner was ever known.

    `log_start` and `last_stable_offset`: of the entry's partition; `step_evidence`: the evidence of each confirmation
    step so far; `groups`: the consumer groups that wait for the entry; `pending`: on a partition of
    `__consumer_offsets`, the groups whose offsets the entry's records commit; `can_still_write`,
    `may_write_unlisted`: as in HangingFacts.
    """

    entry: Entry
    owner: Owner | None
    name: str | None
    log_start: int
    last_stable_offset: int
    step_evidence: tuple[Evidence, ...]
    verdict: Verdict = NOT_READ
    groups: tuple[str, ...] = ()
    pending: tuple[AffectedGroup, ...] = ()
    can_still_write: bool = False
    may_write_unlisted: bool = False

    @property
    def subject(self) -> Subject:
        return subject_of(self.entry, self.owner)


@dataclass(frozen=True, slots=True)
class HangingFacts(Facts):
    """The facts about a hanging entry. `name`: the owner's transactional.id as text; None if not known.
    `can_still_write`: a living producer may have the entry's producer id and epoch. `was_left_behind`: the owner's
    record was left behind when partitions were added to the log. `is_foreign`: a sign shows that another cluster's
    producer wrote the records. `may_write_unlisted`: a living producer may write to the entry in a transaction that
    does not list the partition. `holds_committed`: True if the entry holds records of a committed transaction.
    `blocks_at`: the LSO that the entry pins; None while an older entry pins the LSO."""

    name: str | None
    can_still_write: bool
    was_left_behind: bool
    two_phase: TwoPhase
    is_foreign: bool = False
    may_write_unlisted: bool = False
    holds_committed: bool = False
    blocks_at: int | None = None

    def words(self, about: Observation, /) -> Words:
        subject = about.subject
        who = f"producer id {subject.producer_id}, epoch {subject.producer_epoch}"
        if self.name:
            who = f"{self.name} ({who})"
        elif about.possible == (World.NONE,):
            who += ", which no transactional.id in the transaction log had,"
        else:
            who += ", whose transactional.id is not known,"
        return Words(
            f"{subject.topic}-{subject.partition}: the transaction of {who} at offset {subject.start_offset} hangs: no"
            " coordinator is set to end it",
            self.advice(about.decision),
            "it will stop read_committed consumers once the transactions before it have ended"
            if self.blocks_at is None
            else f"read_committed consumers stop at {self.blocks_at}",
        )

    def advice(self, decision: Decided | None) -> str:
        if self.is_foreign:
            return (
                "Write no marker: it may decide about records of another cluster. If the topic is a mirror, or its"
                " files were copied, declare it with `--mirrored`; txnscope then leaves it out. If neither is true,"
                " find out who writes there with another cluster's producer ids."
            )
        if self.may_write_unlisted and decision in (Decided.ABORT, Decided.NONE):
            return (
                f"No committed transaction has written any of these records so far, but {self.name} may still add"
                " records under this epoch in a transaction that does not list the partition, and commit that"
                " transaction: stop the producer, or let it initialise again, which aborts the open transaction of the"
                " id and discards its records. Then, if the decision is still the same, write the ABORT marker with"
                " `txnscope resolve`: the marker discards the records of this finding."
            )
        if decision == Decided.COMMIT:
            text = (
                "Do not abort this transaction: it was committed, and `kafka-transactions.sh abort` would discard this"
                " part of it. Write the missing COMMIT marker with `txnscope resolve`; Kafka's tools cannot write it."
            )
        elif decision == Decided.ABORT:
            text = (
                "No committed transaction can have written these records: write the missing ABORT marker with the"
                " command of this finding, or with `txnscope resolve`. The marker discards these records."
                f"{checkpoint(self.two_phase)}"
            )
        elif decision == Decided.NONE:
            text = (
                "These records belong to no transaction that this cluster committed: write an ABORT marker with the"
                " command of this finding, or with `txnscope resolve`. The marker discards these records. A restart of"
                " the application alone does not end the hanging transaction."
                f"{self._copied()}{checkpoint(self.two_phase)}"
            )
        elif self.holds_committed:
            text = (
                "Do not abort these records: they include records of a committed transaction, and an ABORT marker"
                " destroys those. Whether they also include other records is not known: find out from the application"
                " before you write a marker."
            )
        else:
            text = (
                "Whether this transaction was committed is not known, and the wrong marker loses data: find out from"
                " the application before you write a marker."
            )
        return text + self._fence()

    def _copied(self) -> str:
        if self.name is not None:
            return ""
        return " But write no marker if the topic is copied from another cluster: declare the topic with `--mirrored`."

    def _fence(self) -> str:
        if self.name is None or not self.can_still_write:
            return ""
        if self.was_left_behind:
            return (
                f" A producer of {self.name} that was started before partitions were added to {TOPIC} can still"
                " write to the partition of this finding: stop that producer before you write the marker."
            )
        return (
            f" {self.name} can still write under this epoch: stop its producer before you write the marker, and start"
            " it again only if `txnscope resolve` asks for it. A start aborts the transaction that the id has open by"
            " then, and discards its records; the marker of the id's next transaction on this partition decides about"
            " these records, too."
        )


def subject_of(entry: Entry, owner: Owner | None) -> Subject:
    return Subject(
        topic=entry.topic,
        partition=entry.partition,
        transactional_id=None if owner is None else owner.transactional_id,
        producer_id=entry.producer_id,
        producer_epoch=entry.producer_epoch,
        start_offset=entry.start_offset,
    )


def entry_identity(subject: Subject) -> tuple[str | None, int | None, int | None, int | None]:
    """Returns the part of an entry's subject that stays the same while the entry is open: topic, partition, producer id
    and start offset. The other parts may change: a later writer of the producer id may raise the epoch, and the
    transactional.id may become hidden."""
    return subject.topic, subject.partition, subject.producer_id, subject.start_offset


def can_still_write(entry: Entry, owner: Owner | None) -> bool:
    """Returns whether a living producer may have the entry's producer id and epoch, so that the producer's transaction
    may still include the entry's records."""
    return (
        owner is not None
        and owner.state != EXPIRED
        and (owner.producer_id, owner.producer_epoch) == (entry.producer_id, entry.producer_epoch)
    )


def may_write_unlisted(entry: Entry, owner: Owner | None, transaction_version: int | None = 0) -> bool:
    """Returns whether a living producer may write to the entry in a transaction that does not list the partition. This
    happens under TV2, where the leader adds a partition to the transaction only if that producer id and epoch have
    nothing open on the partition.

    `transaction_version`: the highest version that a client may use, as in `Context`. It counts for a client that has
    not begun a transaction since it initialised its id: the Empty record has the version of the client before.
    """
    if owner is None or not can_still_write(entry, owner):
        return False
    is_tv2 = owner.record.client_transaction_version >= TV2
    return is_tv2 or (owner.state == EMPTY and may_use_tv2(transaction_version))


def may_use_tv2(transaction_version: int | None) -> bool:
    """Returns whether a client that begins a transaction now may use TV2. `transaction_version`: as in `Context`."""
    return transaction_version is None or transaction_version >= TV2


def is_certain(entry: Entry, owner: Owner | None, context: Context, now_ms: int) -> bool:
    """Returns whether it is certain that no coordinator will end the entry. For an entry without owner, this is certain
    if the whole transaction log is read, and the newest record of each id could be decoded. For an entry with an owner,
    one of these facts makes it certain:

    - The owner has expired, or has another producer id or a newer epoch.
    - The entry's transaction would have timed out by now, and the coordinator's next scan would have found it.
    """
    if owner is None:
        return context.log.is_complete and not context.has_undecodable
    if not can_still_write(entry, owner):
        has_producer_id = owner.state != EXPIRED and owner.producer_id == entry.producer_id
        return not has_producer_id or owner.producer_epoch > entry.producer_epoch
    return now_ms - entry.first_seen_ms > owner.record.timeout_ms + context.log.limits.scan_ms


def observe(case: Case, rule: Rule, context: Context, bootstrap: str, *, confirmed: bool, certain: bool) -> Observation:
    """Returns the observation of a case. `bootstrap`: servers for the command. `certain`: whether it is certain that no
    coordinator will end the entry."""
    entry, verdict = case.entry, case.verdict
    blocks = is_blocking(entry, case.log_start, case.last_stable_offset)
    is_safe = verdict.decision in (Decided.ABORT, Decided.NONE) and not case.may_write_unlisted
    skips = context.may_skip_markers
    why = HangReason(_cause(case), case.log_start, skips, verdict.why, not blocks, verdict.leader_changed)
    return Observation(
        kind=Kind.HANGING,
        severity=Severity.CRITICAL,
        subject=case.subject,
        facts=_facts(case, case.last_stable_offset if blocks else None),
        evidence=(
            *owner_evidence(case),
            *case.step_evidence,
            *_pending_offsets(case),
            Evidence(entry.first_seen_ms, "txnscope", f"{why}. Decision: {verdict.decision}: {verdict.why}"),
        ),
        confidence=Confidence.CERTAIN if certain else Confidence.LIKELY,
        log_partition=None if case.owner is None else case.owner.log_partition,
        confirmed=confirmed,
        owner=rule.owner,
        muted_until_ms=rule.mute_until_ms,
        decision=verdict.decision,
        bootstrap=bootstrap if is_safe else None,
        blocked_groups=case.groups,
        possible=tuple(world for world in World if world in verdict.possible),
        proofs=verdict.proofs,
        reason=why,
    )


def is_blocking(entry: Entry, log_start: int, last_stable_offset: int) -> bool:
    """Returns whether the entry pins the LSO. If the entry's first records are deleted, brokers report the LSO at the
    log start (3.9) or below it (4.3)."""
    return entry.start_offset == last_stable_offset or (
        entry.start_offset < log_start and last_stable_offset <= log_start
    )


def owner_evidence(case: Case) -> tuple[Evidence, ...]:
    owner = case.owner
    if owner is None or case.name is None:
        return ()
    state = f"{NAMES[owner.state]}, producer id {owner.producer_id}, epoch {owner.producer_epoch}"
    text = f"newest record of {case.name}: {state}"
    return (Evidence(owner.record.timestamp_ms, LogPlace(TOPIC, owner.log_partition, owner.record.offset), text),)


def _pending_offsets(case: Case) -> tuple[Evidence, ...]:
    """Returns evidence that names the groups whose offsets the entry's records commit. Groups without members are
    included, because they wait as soon as they have a member."""
    if not case.pending:
        return ()
    places: dict[str, list[TopicPartition]] = {}
    for affected_group in case.pending:
        group, topic, partition = affected_group.key
        places.setdefault(group, []).append((topic, partition))
    groups = join_names([f"{group} ({join_partitions(of_group)})" for group, of_group in places.items()])
    entry = case.entry
    where = LogPlace(*entry.topic_partition, entry.start_offset)
    text = f"its records commit offsets of {groups}: a member that starts may wait until the transaction ends"
    return (Evidence(entry.first_seen_ms, where, text),)


def _cause(case: Case) -> HangCause:
    entry, owner, verdict = case.entry, case.owner, case.verdict
    if entry.start_offset < case.log_start:
        return HangCause.OUTLIVED
    if verdict.decision == Decided.COMMIT:
        return HangCause.NO_MARKER
    if verdict.decision == Decided.ABORT:
        return HangCause.NO_MARKER_OR_OUTSIDE
    if owner is None and case.name is not None:
        return HangCause.NO_LOG
    if owner is None:
        return HangCause.ORPHAN if verdict.possible == {World.NONE} else HangCause.WRITER_UNKNOWN
    if owner.state == EXPIRED:
        return HangCause.ID_EXPIRED
    if verdict.decision != Decided.NONE:
        return HangCause.NOT_KNOWN
    return HangCause.NEVER_ADDED if entry.coordinator_epoch == -1 else HangCause.LATE


def _facts(case: Case, blocks_at: int | None) -> HangingFacts:
    owner, name = case.owner, case.name
    two_phase = TwoPhase.NO
    if name is not None:
        two_phase = two_phase_of(name, 0 if owner is None else owner.record.timeout_ms)
    return HangingFacts(
        name,
        case.can_still_write,
        owner is not None and owner.is_left_behind,
        two_phase,
        is_foreign=isinstance(case.verdict.open_question, ForeignRecords),
        may_write_unlisted=case.may_write_unlisted,
        holds_committed=case.verdict.holds_committed,
        blocks_at=blocks_at,
    )
