"""The case of one open entry without an owner, from its first observation to its end.

A case has the observations of the entry, and two states. The confirmation is the progress of the proof that no
transaction will end the entry (`service.domain.findings.confirmation`). The decision is the marker that would be right
(`service.domain.worlds.verdict`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from service.domain.findings.confirmation import (
    ADD_IN_FLIGHT_MS,
    Confirmation,
    Confirmed,
    EndsKnown,
    Open,
    Released,
    Unowned,
    move,
    step_2,
)
from service.domain.findings.context import Context
from service.domain.findings.finding import Evidence, Subject
from service.domain.findings.hanging import can_still_write, is_certain
from service.domain.partitions.open_entries import DescribedOwner, Entry, Owner, Relation, can_be_of, will_end
from service.domain.reasons.hanging import ForeignRecords
from service.domain.transaction_log.states import PREPARED
from service.domain.worlds.facts import EntryQuery, entry_query
from service.domain.worlds.order import Sample
from service.domain.worlds.verdict import Decided, Decision, State, Verdict
from service.kafka.leader_check import CheckedPartition
from service.store.escaped_text import display_id
from spark_jobs.judge.ended_transactions import EarlierCompletion, EarlierOwner, may_grow, may_have_grown
from spark_jobs.judge.partition_prober import CoordinatorAnswers

FACTS_TAKE_MS: Final = 10_000
"""Time (ms) for which a finding waits for the facts about its entry, if Kafka neither gives nor refuses these facts."""

GROWN_AGAIN_MS: Final = 5_000
"""Shortest interval (ms) between two reads of the facts about an entry that keeps growing."""

ASK_AGAIN_MS: Final = 5_000
"""Minimum interval (ms) between two questions to the coordinators about the same entry. Coordinators are asked only if
the log cannot be read. Only the second question of confirmation step 2 may come earlier."""

_NO_COMPLETION: Final = EarlierCompletion()


@dataclass(slots=True)
class HangingCase:
    """The case of one open entry without an owner: the observations so far, and two states (`confirmation`,
    `decision`). Confirmation step 1 was made before `begun_ms`.

    The partition and the observations:

    - `topic_id`: "" if it is not known.
    - `stalled_since_ms`: as in PartitionObservation; None if the entry is not at the LSO.
    - `observed_ms`, `log_start`, `last_stable_offset`, `high_watermark`: from the last observation that showed the
      entry open.
    - `closed_ms`: time of the first observation that showed the entry closed; None while the entry is open.

    The coordinators:

    - `has_log`: whether the transaction log can be read. If it cannot, the coordinators are asked.
    - `coordinators_asked_ms`: the time of the last question that the coordinators answered; -1 if there is none.
    - `earlier`: the completion of the transaction that was in PrepareX when the entry was written.

    The facts about the entry's records:

    - `grown_ms`: the last time at which a record of the owner showed that a transaction may have written to the entry
      (`may_have_grown`), or at which the owner became known.
    - `reported_owner`: the owner in the finding from before a restart; None if no finding shows one.
    - `read_newest_ms`: the timestamp of the entry's newest record when the facts were last read; None if they were
      never read.
    - `is_without_facts`: True if Kafka refused to give the facts.
    """

    entry: Entry
    owner: Owner | None
    subject: Subject
    topic_id: str
    stalled_since_ms: int | None
    samples: tuple[Sample, ...]
    log_start: int
    last_stable_offset: int
    high_watermark: int
    begun_ms: int
    has_log: bool = True
    confirmation: Confirmation = field(default_factory=Open)
    decision: Decision = field(default_factory=Decision)
    observed_ms: int = -1
    closed_ms: int | None = None
    coordinators_asked_ms: int = -1
    earlier: EarlierCompletion = _NO_COMPLETION
    grown_ms: int = -1
    reported_owner: EarlierOwner | None = None
    read_newest_ms: int | None = None
    is_without_facts: bool = False

    @property
    def is_unowned(self) -> bool:
        """Returns whether confirmation step 2 holds: no transaction will end the entry."""
        return step_2(self.confirmation) is not None

    def is_reportable(self, now_ms: int) -> bool:
        """Returns whether the case may be reported: confirmation step 2 holds, and the facts about the entry were read
        or are not needed.

        Without these facts, the case is reported after FACTS_TAKE_MS, or once Kafka refuses them. The owner is then
        inferred from the producer id alone. A case is also reportable if its finding is from before a restart, and the
        finding's decision has changed.
        """
        if self.decision.state is State.RECALLED and self.reported != self.decision.verdict:
            return True  # the finding of before the restart names a marker that may be wrong by now
        if self.unowned_ms is None:
            return False
        is_read = self.owner is None or not self.has_log or self.decision.state is not State.UNREAD
        return is_read or self.is_without_facts or now_ms - self.unowned_ms >= FACTS_TAKE_MS

    @property
    def holds_committed(self) -> bool:
        """Returns whether records of a committed transaction are proven to be in the entry."""
        return self.decision.verdict.decision == Decided.COMMIT or self.decision.verdict.holds_committed

    @property
    def reported(self) -> Verdict:
        """Returns the verdict to report. The verdict is unknown while the entry may grow, or if the entry may have
        grown since its facts were read."""
        if self.owner is None:
            return self.decision.reported(self.grown_ms)
        # the left-behind transaction adds no records, as no coordinator knows it: only a later one may add some
        may_be_known = not self.owner.is_left_behind or self.grown_ms >= 0
        return self.decision.reported(self.grown_ms, is_growing=may_be_known and may_grow(self.entry, self.owner))

    @property
    def is_foreign(self) -> bool:
        """Returns whether the facts show that no id of this cluster wrote the entry."""
        return isinstance(self.decision.newest.open_question, ForeignRecords)

    @property
    def is_confirmed(self) -> bool:
        return isinstance(self.confirmation, Confirmed)

    @property
    def evidence(self) -> tuple[Evidence, ...]:
        """Returns the evidence of the confirmation steps made so far."""
        return self.confirmation.evidence if isinstance(self.confirmation, (Unowned, Confirmed)) else ()

    @property
    def unowned_ms(self) -> int | None:
        unowned = step_2(self.confirmation)
        return None if unowned is None else unowned.since_ms

    @property
    def there_since_ms(self) -> int:
        """Returns the earliest time (ms) at which the entry is known to have been in the log, because the LSO was
        stalled at the entry, or the entry was seen open."""
        first_ms = self.entry.first_seen_ms
        return first_ms if self.stalled_since_ms is None else min(self.stalled_since_ms, first_ms)

    @property
    def addable_since_ms(self) -> int:
        """Returns the earliest time (ms) for which two facts are known: the entry was in the log, and the coordinator
        accepted new partitions. A coordinator that is completing a transaction accepts no partition
        (CONCURRENT_TRANSACTIONS), and the client asks again."""
        return max(self.there_since_ms, self.earlier.until_ms)

    def must_begin_anew(self, relation: Relation, *, has_log: bool) -> bool:
        """Returns whether a new case must begin, because the transaction log has become readable again, or has become
        unreadable before confirmation step 2 held."""
        if not self.has_log:
            return not relation.is_unread
        return not has_log and not self.is_unowned

    # step 2: no transaction will end the entry

    def log_partitions_needed(self, log_partitions: Iterable[int]) -> frozenset[int]:
        """Returns the partitions of the transaction log to read before confirmation step 2. If the owner is known, only
        the partition with the owner's record is needed, because a producer id belongs to one id for ever. Returns no
        partitions if the log cannot be read, or once the end offsets are known."""
        if not self.has_log or not isinstance(self.confirmation, Open):
            return frozenset()
        return frozenset(log_partitions) if self.owner is None else frozenset({self.owner.log_partition})

    def note_owner(self, owner: Owner | None, now_ms: int) -> None:
        """Notes the owner's newest state in the log. Does nothing if `owner` is None: the log has no record of an
        owner, or no longer has one.

        Before confirmation step 2 holds, an owner that may have written the entry also gives the subject its
        transactional.id, because the entry may have been seen before the record of this id was read.
        """
        if owner is None:
            return
        before = self.reported_owner if self.owner is None else EarlierOwner.of(self.entry, self.owner)
        if may_have_grown(self.entry, before, owner):
            self.grown_ms = now_ms
        self.owner = owner
        if not self.is_unowned or self.earlier.start_ms is not None:
            self.earlier = self.earlier.after(owner, self.there_since_ms, self.begun_ms, now_ms)
        if not self.is_unowned and can_be_of(self.entry, owner):
            self._name_subject(owner)

    def note_newest(self, entry: Entry) -> None:
        """Notes the timestamp and the epoch of the entry's newest record, from a new observation."""
        self.entry = self.entry._replace(last_timestamp_ms=entry.last_timestamp_ms, producer_epoch=entry.producer_epoch)

    def apply_log_ends(self, asked_at_ms: int, ends: Mapping[int, int], log_partitions: Iterable[int]) -> None:
        """Notes the end offsets of the transaction log if they were requested after step 1, and no needed partition is
        missing."""
        needed = self.log_partitions_needed(log_partitions)
        if asked_at_ms > self.begun_ms and needed and needed <= ends.keys():
            self._move(EndsKnown(asked_at_ms, {p: ends[p] for p in needed}))

    def apply_log_read(self, read_to: Mapping[int, int], now_ms: int) -> None:
        """Makes confirmation step 2 if the log is stored up to the requested ends. `read_to`: a mapping from log
        partition to the offset up to which it is stored. Call this method only if no stored transaction will end the
        entry."""
        ends = self.confirmation
        if not isinstance(ends, EndsKnown) or any(read_to.get(p, -1) < end for p, end in ends.ends.items()):
            return
        only = None if self.owner is None else self.owner.log_partition
        self._move(Unowned.by_log(self.entry, ends, only, now_ms))

    def discard_log_read_before(self, before_ms: int) -> None:
        """Sets an unconfirmed case back to confirmation step 1 if its log ends were requested before `before_ms`. A
        disturbance that became known later shows that an AddPartitionsToTxn may have been in flight at the time of the
        request."""
        state = self.confirmation
        log = state if isinstance(state, EndsKnown) else state.log if isinstance(state, Unowned) else None
        if log is not None and log.asked_at_ms < before_ms:
            self._move(Open())

    def had_ended(self, owner: Owner) -> bool:
        """Returns True if the owner's last PrepareX was among the records read for confirmation step 2. Its transaction
        was then complete, because step 2 found no transaction that would end the entry. A complete transaction gets no
        further marker."""
        unowned = step_2(self.confirmation)
        return unowned is not None and unowned.has_read(owner.log_partition, owner.ended_offset)

    def must_ask_coordinators(self, now_ms: int) -> bool:
        """Returns whether the coordinators are to be asked now. They are never asked if the log can be read. The second
        of two questions comes ADD_IN_FLIGHT_MS after the first answer: by then, an AddPartitionsToTxn in flight has
        been accepted."""
        if self.has_log:
            return False
        if isinstance(self.confirmation, Released):
            return now_ms >= self.confirmation.since_ms + ADD_IN_FLIGHT_MS
        return self.coordinators_asked_ms < 0 or now_ms - self.coordinators_asked_ms >= ASK_AGAIN_MS

    def apply_coordinators(self, answer: CoordinatorAnswers, from_ms: int) -> bool:
        """Makes confirmation step 2 from the coordinators' answers if the log cannot be read. Returns True if step 2
        held, but the coordinator will end the entry after all.

        Step 2 needs two answers. The second answer counts only if it was requested at `from_ms` or later, because a
        client may have been waiting before that time. An answer without an owner proves nothing, because a hidden id
        may own the entry. An answer with an owner in PrepareX proves nothing either: until the coordinator has
        completed the transaction, the coordinator adds no partition, and the client asks again.
        """
        if self.has_log or self.entry.producer_id not in answer.by_producer_id or answer.asked_at_ms <= self.begun_ms:
            return False
        self.coordinators_asked_ms = answer.asked_at_ms
        state, found = self.confirmation, answer.by_producer_id[self.entry.producer_id]
        if found is None or found.state in PREPARED or will_end(self.entry, found):
            if isinstance(state, Released):
                self._move(Open())
            return found is not None and will_end(self.entry, found) and self.is_unowned
        self._name_subject(found)
        match state:
            case Open():
                self._move(Released(answer.answered_at_ms))
            case Released(since_ms) if answer.asked_at_ms >= max(since_ms + ADD_IN_FLIGHT_MS, from_ms):
                times = answer.asked_at_ms, answer.answered_at_ms
                self._move(Unowned.by_coordinator(self.entry, found, display_id(found.transactional_id), *times))
        return False

    # step 3: the partition still shows the entry open; or it has ended

    def apply_open(self, seen: CheckedPartition) -> None:
        """Notes that an observation showed the entry open. The observation makes confirmation step 3, unless it was
        requested before step 2. If the log cannot be read, only an answer to DescribeProducers makes step 3."""
        ends = seen.ends
        self.observed_ms, self.high_watermark = seen.asked_at_ms, ends.high_watermark
        self.closed_ms = None
        self.log_start, self.last_stable_offset = ends.log_start, ends.last_stable_offset
        unowned = self.confirmation
        if not isinstance(unowned, Unowned) or not (self.has_log or seen.described):
            return
        if seen.asked_at_ms < unowned.since_ms:
            return
        self._move(Confirmed.by_leader(unowned, seen.leader.node, seen.asked_at_ms, described=seen.described))

    def apply_closed(self, seen: CheckedPartition) -> int:
        """Notes that an observation found the entry closed. Returns the time of the first such observation (ms)."""
        if self.closed_ms is None:
            self.closed_ms = seen.asked_at_ms
        return self.closed_ms

    def may_be_added(self, context: Context, now_ms: int) -> bool:
        """Returns whether an AddPartitionsToTxn for the entry may still be in flight."""
        return can_still_write(self.entry, self.owner) and not self.is_certain(context, now_ms)

    def is_certain(self, context: Context, now_ms: int) -> bool:
        """Returns whether it is certain that no coordinator will end the entry. Returns False if the log cannot be
        read, if the entry `is_foreign`, or if confirmation step 3 was made without DescribeProducers."""
        is_described = not isinstance(self.confirmation, Confirmed) or self.confirmation.described
        is_known = is_described and self.has_log and not self.is_foreign
        return is_known and is_certain(self.entry, self.owner, context, now_ms)

    # the decision: which marker would be right

    def facts_to_read(self, now_ms: int) -> EntryQuery | None:
        """Returns the query for the facts that a verdict needs. Returns None if the log cannot be read, or if there is
        no reason to read the facts now."""
        is_again = self._is_newer(self.entry.last_timestamp_ms) and now_ms - self.decision.read_at_ms >= GROWN_AGAIN_MS
        if not self.has_log or not self.decision.is_due(now_ms, self.unowned_ms, now_ms if is_again else self.grown_ms):
            return None
        # an entry without an owner: not read yet, or known from before a restart and not seen again yet
        if self.owner is None and (not self.is_unowned or self.subject.transactional_id is not None):
            return None
        is_deep = self.decision.state is State.UNKNOWN
        return entry_query(self.entry, self.owner, self.samples, is_deep=is_deep)

    def apply_verdict(self, verdict: Verdict, asked: EntryQuery, at_ms: int) -> bool:
        """Applies a verdict. Returns False if this verdict is the first that contradicts an earlier one, else True.
        After a contradiction, the decision stays unknown."""
        has_grown = self.decision.read_at_ms < self.grown_ms or self._is_newer(asked.newest_ms)
        was_contradicted = self.decision.verdict.is_contradiction
        self.decision = self.decision.after(verdict, at_ms, self.unowned_ms, is_deep=asked.is_deep, has_grown=has_grown)
        self.read_newest_ms = asked.newest_ms
        if self.is_foreign:
            self.subject = self.subject._replace(transactional_id=None)
        return was_contradicted or not self.decision.verdict.is_contradiction

    def _is_newer(self, newest_ms: int) -> bool:
        """Returns True if the timestamp of the entry's newest record has changed since the facts were last read; False
        if the facts were never read."""
        return self.read_newest_ms not in (None, newest_ms)

    def _name_subject(self, owner: Owner | DescribedOwner) -> None:
        if self.subject.transactional_id is None and not self.is_foreign:
            self.subject = self.subject._replace(transactional_id=owner.transactional_id)

    def _move(self, state: Confirmation) -> None:
        self.confirmation = move(self.confirmation, state)
