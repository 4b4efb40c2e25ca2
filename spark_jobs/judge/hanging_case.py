"""Keeps what the judge has observed of one open entry without an owner, from the first observation to its end."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from service.domain.findings.context import Context
from service.domain.findings.finding import Evidence, Finding, Subject
from service.domain.findings.hanging import NOT_YET, SETTLES_MS, can_still_write, entry_place, is_certain, subject_of
from service.domain.partitions.open_entries import Entry, Owner, Relation, will_close
from service.domain.transaction_log.states import NAMES, TOPIC
from service.domain.worlds.facts import EntryAsk, ask_about
from service.domain.worlds.order import Sample, decode
from service.domain.worlds.verdict import Verdict, World, contradictory, undecided
from service.kafka.leader_check import Seen
from service.store.display import display_id
from service.store.queries.partitions import PartitionRow
from spark_jobs.judge.partition_prober import Heard

ASK_AGAIN_MS: Final = 5_000
"""Interval of asking coordinators about unsuspected entries: long transactions are many, and ids may be hidden."""

DECIDE_AGAIN_MS: Final = 30_000
"""A decision that is still unknown is derived again after this time."""

UNDECIDED: Final = undecided(f"{TOPIC} cannot be read, and nothing else remembers how a transaction ended")


@dataclass(slots=True)
class OpenCase:
    """All that the judge has observed of one open entry without an owner, in the three looks of docs/hanging.md.

    Look 1 was before `begun_ms`. For look 2 the transaction log has to be read to `log_ends`, which were requested
    after look 1, at `log_asked_ms`; look 2 holds since `unowned_ms`. `confirmed_by` is look 3, requested after look 2.

    `topic_id` is "" if not known. `stalled_since_ms` is as in PartitionLook; None for an entry that is not at the LSO.
    `samples` are of the partition. `looked_at_ms` and the offsets are of the last look that showed the entry open.

    `decided` is the verdict that is reported, derived at `judged_ms`. `early` is a verdict from before look 2 held; it
    is not reported.

    `closed_ms` is the time of the first look that showed the entry closed; None while the entry is open.

    `is_blind`: the log cannot be read, so look 2 is the coordinator's answer, given twice. Since `let_go_ms` the
    coordinator does not mean to end the entry; it was asked last at `heard_at_ms`.
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
    log_ends: dict[int, int] | None = None
    log_asked_ms: int = -1
    unowned_ms: int | None = None
    confirmed_by: Seen | None = None
    closed_ms: int | None = None
    looked_at_ms: int = -1
    decided: Verdict | None = None
    early: Verdict | None = None
    judged_ms: int = -1
    is_deep: bool = False
    evidence: list[Evidence] = field(default_factory=list)
    is_blind: bool = False
    heard_at_ms: int = -1
    let_go_ms: int | None = None

    def be_blind(self, said: Iterable[Subject]) -> None:
        """Continues without the log. `said`: the subjects of findings; one of them may be this entry, with an id that
        is hidden by now."""
        self.is_blind, self.owner = True, None
        if not self.is_contradicted and (self.decided is None or not self.decided.is_known):
            self.decided = UNDECIDED
        same = (subject for subject in said if entry_place(subject) == entry_place(self.subject))
        self.subject = next(same, self.subject)

    def begins_anew(self, relation: Relation, *, is_blind: bool) -> bool:
        """Returns whether a new case must begin: the log is readable again, or became unreadable before look 2 held."""
        return not relation.is_unread if self.is_blind else is_blind and self.unowned_ms is None

    def needed(self, log_partitions: Mapping[int, int]) -> frozenset[int]:
        """Returns the partitions of the log that could name an owner: that of the owner if one is known, because a
        producer id belongs to one id for ever; else all; none without log access."""
        if self.is_blind:
            return frozenset()
        return frozenset(log_partitions) if self.owner is None else frozenset({self.owner.log_partition})

    def take_ends(self, asked_at_ms: int, ends: Mapping[int, int], log_partitions: Mapping[int, int]) -> None:
        needed = self.needed(log_partitions)
        if self.log_ends is None and asked_at_ms > self.begun_ms and needed and needed <= ends.keys():
            self.log_ends, self.log_asked_ms = {p: ends[p] for p in needed}, asked_at_ms

    def forget_the_log(self, before_ms: int) -> None:
        """Discards look 2 of an unconfirmed case if its log ends were requested before `before_ms`: a client may have
        been waiting then, as is known by now."""
        if self.confirmed_by is None and 0 <= self.log_asked_ms < before_ms:
            self.log_ends, self.log_asked_ms, self.unowned_ms = None, -1, None

    def take_log(self, read_to: Mapping[int, int], now_ms: int) -> None:
        """Makes look 2 if the log is stored to the requested ends: the entry had no owner when `read_to` was read."""
        if self.unowned_ms is not None or self.log_ends is None:
            return
        if any(read_to.get(p, -1) < end for p, end in self.log_ends.items()):
            return
        self.unowned_ms = now_ms
        entry = self.entry
        where = "all partitions" if self.owner is None else f"partition {self.owner.log_partition}"
        self.evidence = [
            _seen_open(entry),
            Evidence(self.log_asked_ms, TOPIC, f"{where} read to the end of then: no transaction there will end it"),
        ]

    def had_ended(self, owner: Owner) -> bool:
        """Returns whether look 2 had read the owner's last PrepareX. Nobody owned the entry then, so that transaction
        was complete: its coordinator writes no marker any more."""
        if self.unowned_ms is None or self.log_ends is None or owner.ended_offset is None:
            return False
        return owner.ended_offset < self.log_ends.get(owner.log_partition, -1)

    def asks_coordinators(self, now_ms: int) -> bool:
        """Returns whether the coordinators are to be asked now. The second question comes SETTLES_MS after the first
        answer: an AddPartitionsToTxn in flight has been accepted by then."""
        if not self.is_blind:
            return False
        if self.let_go_ms is not None and self.unowned_ms is None:
            return now_ms >= self.let_go_ms + SETTLES_MS
        return self.heard_at_ms < 0 or now_ms - self.heard_at_ms >= ASK_AGAIN_MS

    def take_word(self, heard: Heard, from_ms: int) -> bool:
        """Makes look 2 from the coordinators' answers, where the log cannot be read. Returns True if look 2 held and
        the coordinator will end the entry after all.

        The second answer counts only if it was requested at `from_ms` or later: before that a client may have been
        waiting. A producer id without an answer proves nothing: a hidden id may own the entry.
        """
        if not self.is_blind or self.entry.producer_id not in heard.told or heard.asked_at_ms <= self.begun_ms:
            return False
        self.heard_at_ms = heard.asked_at_ms
        told = heard.told[self.entry.producer_id]
        if told is None or will_close(self.entry, told):
            self.let_go_ms = None
            return told is not None and self.unowned_ms is not None
        if self.subject.transactional_id is None:
            self.subject = self.subject._replace(transactional_id=told.transactional_id)
        if self.let_go_ms is None:
            self.let_go_ms = heard.answered_at_ms
        elif self.unowned_ms is None and heard.asked_at_ms >= max(self.let_go_ms + SETTLES_MS, from_ms):
            self.unowned_ms = heard.answered_at_ms
            name = display_id(told.transactional_id)
            text = f"{name} is {NAMES[told.state]} and does not list the partition, asked twice"
            source = f"DescribeTransactions, broker {told.coordinator}"
            self.evidence = [_seen_open(self.entry), Evidence(heard.asked_at_ms, source, text)]
        return False

    def take_open(self, seen: Seen, context: Context) -> None:
        """Notes that a look showed the entry open. It counts as look 3 if it was requested late enough after look 2."""
        ends = seen.ends
        self.looked_at_ms, self.high_watermark = seen.asked_at_ms, ends.high_watermark
        self.closed_ms = None
        self.log_start, self.last_stable_offset = ends.log_start, ends.last_stable_offset
        if self.confirmed_by is not None or (self.is_blind and not seen.described):
            return
        if not self.can_confirm(context, seen.asked_at_ms):
            return
        self.confirmed_by = seen
        question, text = (
            ("DescribeProducers", "still open") if seen.described else ("ListOffsets", "the LSO still there")
        )
        self.evidence.append(Evidence(seen.asked_at_ms, f"{question}, broker {seen.leader.node}", text))

    def can_confirm(self, context: Context, asked_at_ms: int) -> bool:
        """Returns whether a look that was requested at `asked_at_ms` is late enough after look 2 to count as look 3."""
        if self.unowned_ms is None:
            return False
        return asked_at_ms >= self.unowned_ms + (SETTLES_MS if self.may_be_early(context, asked_at_ms) else 0)

    def take_closed(self, seen: Seen) -> int:
        """Notes that a look found the entry closed. Returns the time of the first such look (ms)."""
        if self.closed_ms is None:
            self.closed_ms = seen.asked_at_ms
        return self.closed_ms

    @property
    def there_since_ms(self) -> int:
        """Returns a time (ms) by which the entry was written: the LSO was stalled at it, or it was seen open."""
        first_ms = self.entry.first_seen_ms
        return first_ms if self.stalled_since_ms is None else min(self.stalled_since_ms, first_ms)

    def may_be_early(self, context: Context, now_ms: int) -> bool:
        """Returns whether an AddPartitionsToTxn for the entry may still be in flight."""
        return can_still_write(self.entry, self.owner) and not self.is_certain(context, now_ms)

    @property
    def was_listed(self) -> bool:
        """Returns whether a transaction that had added the partition, and has ended, wrote the entry. Then no client
        waits for a broker to add the partition."""
        found = self.decided or self.early
        return found is not None and World.NONE not in found.possible and bool(found.proofs)

    def is_certain(self, context: Context, now_ms: int) -> bool:
        can_ask = self.confirmed_by is None or self.confirmed_by.described
        return can_ask and not self.is_blind and is_certain(self.entry, self.owner, context, now_ms)

    @property
    def is_contradicted(self) -> bool:
        return self.decided is not None and self.decided.is_contradiction

    @property
    def shown(self) -> Verdict:
        """Returns the verdict to report. Nothing is decided before look 2 holds; a decision known from before stays."""
        return self.decided or NOT_YET

    def recall(self, finding: Finding) -> None:
        """Takes over what a finding from before a restart says: a known decision, which is derived again once, or a
        contradiction, which stays."""
        if finding.contradiction is not None:
            self.decided = contradictory(finding.contradiction)
        elif finding.decision in tuple(World) and finding.possible and not self.is_contradicted:
            self.decided = Verdict(frozenset(map(World, finding.possible)), finding.decision, finding.proofs, None)

    def question(self, now_ms: int) -> EntryAsk | None:
        """Returns the facts to be read for a verdict; None while the decision is known, or was tried a moment ago."""
        if not self._is_due(now_ms):
            return None
        is_deep = self.decided is not None and not self.decided.is_known
        return ask_about(self.entry, self.owner, self.samples, is_deep=is_deep)

    def _is_due(self, now_ms: int) -> bool:
        if self.is_blind or self.is_contradicted:
            return False
        if self.owner is None and self.subject.transactional_id is not None:
            return False  # remembered from before a restart, and not seen again yet
        if self.unowned_ms is None:  # an early verdict shows whether a client may be waiting (`was_listed`)
            return self.owner is not None and self.early is None
        if self.decided is None or self.judged_ms < self.unowned_ms:
            return True
        return not self.decided.is_known and (not self.is_deep or now_ms - self.judged_ms >= DECIDE_AGAIN_MS)

    def take_verdict(self, found: Verdict, asked: EntryAsk, at_ms: int) -> bool:
        """Takes a verdict: a decision may become known, but never flips. Returns False if two verdicts contradict each
        other; the decision is unknown from then on."""
        if self.unowned_ms is None or at_ms < self.unowned_ms:
            self.early = found
            return True
        if self.is_contradicted:
            return True
        self.judged_ms, self.is_deep = at_ms, asked.is_deep
        known = self.decided
        if known is None or not known.is_known or known.decision == found.decision:
            self.decided = found
            return True
        if not found.is_known or World.COMMIT not in known.possible | found.possible:
            return True
        self.decided = contradictory(f"two readings contradict each other: first {known.why}; now {found.why}")
        return False


def _seen_open(entry: Entry) -> Evidence:
    where = f"{entry.topic}-{entry.partition}@{entry.start_offset}"
    return Evidence(entry.first_seen_ms, where, f"open: producer id {entry.producer_id}, epoch {entry.producer_epoch}")


def begun(
    row: PartitionRow, entry: Entry, relation: Relation, now_ms: int, open_: Mapping[Subject, Finding]
) -> OpenCase:
    """Returns a new case. `open_`: open findings; one of them may be about the entry, from before a restart."""
    is_first = entry.start_offset == row.last_stable_offset
    case = OpenCase(
        entry=entry,
        owner=relation.owner,
        subject=subject_of(entry, relation.owner),
        topic_id=row.topic_id,
        stalled_since_ms=row.stalled_since_ms if is_first else None,
        samples=decode(row.samples),
        log_start=row.log_start,
        last_stable_offset=row.last_stable_offset,
        high_watermark=row.high_watermark,
        begun_ms=now_ms,
    )
    place = entry_place(case.subject)
    for subject, finding in open_.items():
        if entry_place(subject) == place:
            case.recall(finding)
    return case


def recalled(subject: Subject, now_ms: int, open_: Mapping[Subject, Finding]) -> OpenCase:
    """Returns the case of an entry that hung before a restart and is not in the store now. Its end is yet unknown."""
    start = subject.start_offset or 0
    entry = Entry(
        subject.topic or "",
        subject.partition or 0,
        subject.producer_id or 0,
        subject.producer_epoch or 0,
        start,
        coordinator_epoch=-1,
        last_timestamp_ms=-1,
        records=None,
        bytes=None,
        first_seen_ms=now_ms,
        seen_at_ms=now_ms,
    )
    case = OpenCase(entry, None, subject, "", None, (), -1, -1, high_watermark=start, begun_ms=now_ms)
    case.recall(open_[subject])
    return case
