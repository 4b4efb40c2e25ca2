"""Judges open entries on data partitions. Keeps a case for each entry without an owner, and asks Kafka for what the
next confirmation step of the case needs.

Step 1: the sampler saw the entry open (in the store). Step 2: the transaction log, read to an end offset requested
after step 1, has no transaction that will end the entry. Step 3: the partition, asked after step 2, still shows the
entry open. If the log cannot be read, step 2 asks the coordinator instead, twice.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Final

from sqlalchemy import Connection

from service.domain.findings.adopted import unreplicated
from service.domain.findings.blockers import SAMPLE_FRESH_MS
from service.domain.findings.confirmation import EndsKnown, Open, settled_at_ms
from service.domain.findings.context import Context
from service.domain.findings.finding import Finding, Key, Observation, RoundResult, Subject
from service.domain.findings.kinds import Kind, Resolution
from service.domain.findings.unreadable import NotJudged, unreadable_topics
from service.domain.partitions.open_entries import Entry, Relation, RelationKind, is_left_behind
from service.domain.partitions.state import PartitionState
from service.domain.worlds.facts import EntryFacts, EntryQuery
from service.domain.worlds.proving import verdict_on
from service.domain.worlds.verdict import Decided
from service.store.queries import partitions as read_partitions
from service.store.queries.clusters import LogRead
from spark_jobs.judge.disturbances import NEVER_MS, Disturbances
from spark_jobs.judge.entry_round import EntryRound, read_round
from spark_jobs.judge.hanging_case import HangingCase
from spark_jobs.judge.new_cases import case_of_finding, new_case
from spark_jobs.judge.partition_prober import Answers, EntryKey, PartitionProber, Questions, is_open
from spark_jobs.judge.resolution import cases_of, how_it_ended, observed
from spark_jobs.judge.shared_fate import SharedFates, entry_key, key_of
from spark_jobs.source.reader_settings import EVERYTHING, WatchedTopics

log = logging.getLogger(__name__)

ROUND_MS: Final = 250
SOON_MS: Final = 50
"""Pause (ms) between rounds while an entry is about to be confirmed as hanging."""

OBSERVE_AGAIN_MS: Final = 1_000
"""Interval (ms) at which a hanging entry is observed again, because it may end although the LSO does not move."""

ASK_COORDINATORS_MS: Final = 1_000
"""Shortest interval (ms) between questions to coordinators, because each question goes to every broker, and every
broker searches all its ids."""

MOST_CASES: Final = 2_000


class OpenEntryObserver:
    """Judges open entries round by round, and keeps a case for each entry without an owner. `bootstrap`: servers that
    the commands in findings name. `disturbances`: the disturbances known at the start. `watch`: the topics to judge."""

    def __init__(
        self,
        cluster_id: int,
        prober: PartitionProber,
        bootstrap: str,
        disturbances: Disturbances,
        watch: WatchedTopics = EVERYTHING,
    ) -> None:
        self._cluster_id, self._prober, self._bootstrap, self._watch = cluster_id, prober, bootstrap, watch
        self._disturbances = disturbances
        self._cases: dict[EntryKey, HangingCase] = {}
        self._closed_ms: dict[EntryKey, int] = {}
        self._fates = SharedFates()
        self._stored: set[EntryKey] = set()
        """The entries that are open according to the store."""
        self._coordinators_asked_ms = self._fates_asked_ms = 0
        self.judged: list[tuple[Entry, Relation]] = []
        """The entries that were open in the last round, each with its relation: which transaction will end the entry,
        if any."""
        self.gaps: list[Observation] = []
        """The coverage gaps of topics that txnscope has no permission to read, as of the last round."""
        self._without_case = 0
        self.next_round_ms = 0
        """The earliest time (ms) at which the next confirmation step of an entry may be made. The next round should
        come no later than this."""

    def stalled_since_ms(self, subject: Subject) -> int | None:
        """Returns the time (ms) at which the LSO began to stall at the hanging entry. Returns None if another entry
        held the LSO, or if the entry has no case."""
        return next((case.stalled_since_ms for case in self._cases.values() if case.subject == subject), None)

    def looks(
        self, connection: Connection, context: Context, known: Mapping[Key, Finding], now_ms: int
    ) -> list[RoundResult]:
        """Runs one round. Returns its results on hanging, adopted and unreplicated entries, and on lost records.
        `known`: all findings."""
        current = read_round(connection, self._cluster_id, context, known, now_ms)
        self.judged = [(entry.entry, entry.relation) for _, entry in current.shown]
        self.gaps = unreadable_topics(
            NotJudged(partition.row.topic, partition.row.partition, partition.row.stalled_since_ms, partition.why)
            for partition in current.partitions
        )
        self._note_disturbances(current)
        self._fates.resume(one for (kind, _), one in known.items() if kind == Kind.ADOPTED and one.is_open)
        ends = self._apply_answers(current) | self._apply_rows(current)
        self._cases = {key: case for key, case in self._cases.items() if case.subject not in ends}
        self._apply_log(current)
        self._ask(current)
        for subject, finding in current.hanging.items():
            if (
                finding.observation.decision == Decided.COMMIT
                and (owned := current.owned.get(key_of(subject))) is not None
            ):
                self._fates.follow(owned, finding.observation.proofs)
        return [
            self._hanging(current, ends),
            self._fates.adopted(current.shown, current.context, current.unread),
            self._unreplicated(current),
            self._fates.lost(),
        ]

    def _hanging(self, current: EntryRound, ends: Mapping[Subject, Resolution]) -> RoundResult:
        """Returns the round's result on hanging entries. `ends`: the resolutions of cases that have ended."""
        found = (case for case in self._cases.values() if case.is_reportable(current.now_ms))
        return RoundResult(
            tuple(observed(case, current.context, self._bootstrap, current.now_ms) for case in found),
            frozenset({Kind.HANGING}),
            resolutions=ends,
            unread={Kind.HANGING: current.unread + self._without_case},
        )

    def _unreplicated(self, current: EntryRound) -> RoundResult:
        """Returns the round's result on entries whose marker is written, but not replicated yet."""
        cases = cases_of(current.shown, RelationKind.UNREPLICATED_MARKER, current.context)
        observed_at_ms = read_partitions.observed_at_ms(current.connection, self._cluster_id) or 0
        return RoundResult(
            tuple(unreplicated(case, current.context.rules, current.now_ms) for case in cases),
            frozenset({Kind.UNREPLICATED}),
            is_log_complete=current.now_ms - observed_at_ms <= SAMPLE_FRESH_MS,
            unread={Kind.UNREPLICATED: current.unread},
        )

    def _note_disturbances(self, current: EntryRound) -> None:
        self._disturbances.note_leaders(current.read.leaders, current.now_ms)
        if read_partitions.is_some_broker_unresponsive(current.connection, self._cluster_id):
            self._disturbances.note_broker_failure(current.now_ms)

    def _log_from_ms(self, case: HangingCase, context: Context, now_ms: int) -> int:
        """Returns the earliest time (ms) at which a request can show whether any transaction will end the entry. Before
        this time, an AddPartitionsToTxn may be in flight. If the log can be read, the request asks for the end offsets
        of the log; otherwise it asks the coordinators."""
        if not case.has_log:
            return settled_at_ms(case.there_since_ms, self._disturbances.broker_failure_ms)
        if case.owner is None or not case.may_be_added(context, now_ms):
            return case.begun_ms
        newest_ms = self._disturbances.newest_ms(case.owner.log_partition)
        return settled_at_ms(case.addable_since_ms, NEVER_MS if case.decision.was_listed else newest_ms)

    def _apply_answers(self, current: EntryRound) -> dict[Subject, Resolution]:
        """Applies the prober's answers to the cases. Returns a mapping from subject to resolution, for the cases that
        have ended. If the entry of a case turns out to belong to another id, the former subject gets a resolution, too.

        Broker failures are noted first. If the log ends of a case were requested too early after a broker failure, the
        case goes back to confirmation step 1, and its log ends are requested again.
        """
        ends: dict[Subject, Resolution] = {}
        answered = self._prober.answers()
        for answers in answered:
            if answers.broker_failure_at_ms is not None:
                self._disturbances.note_broker_failure(answers.broker_failure_at_ms)
        for case in self._cases.values():
            case.discard_log_read_before(self._log_from_ms(case, current.context, current.now_ms))
        for answers in answered:
            for key, (asked, facts) in answers.facts.items():
                if (owned := current.owned.get(key)) is not None:
                    self._fates.apply_facts(owned, asked, facts, current.read.hidden)
            self._fates.apply_answers(answers, current.context.rules)
            for key, case in self._cases.items():
                subject = case.subject
                how = self._apply(current, answers, key, case)
                if how is not None or case.subject != subject:  # the finding named another id
                    ends[subject] = how or Resolution.NOT_HANGING
        return ends

    def _apply(self, current: EntryRound, answers: Answers, key: EntryKey, case: HangingCase) -> Resolution | None:
        """Applies the answers to one case. Returns the resolution of the entry; None if the entry has not ended, or if
        the resolution is not known yet."""
        read, asked_at_ms = current.read, answers.log_asked_at_ms
        from_ms = self._log_from_ms(case, current.context, asked_at_ms)
        seen = answers.seen.get(key.place)
        # the stored row may be older than the end of the transaction, so a later observation has to show the entry open
        if asked_at_ms >= from_ms and seen is not None and is_open(key, seen):
            # skip the end offset from a leader that the store does not have yet: the time of its takeover is not known
            leaders = answers.log_leaders
            ends = {p: end for p, end in answers.log_ends.items() if leaders.get(p) in (None, read.leaders.get(p))}
            case.apply_log_ends(asked_at_ms, ends, read.read_to)
        coordinators = answers.coordinator_answers
        if coordinators is not None and current.is_log_absent:
            coordinators = coordinators.without_ongoing(case.entry)
        if coordinators is not None and case.apply_coordinators(coordinators, from_ms):
            return Resolution.ADOPTION
        if seen is None or seen.asked_at_ms < case.begun_ms:
            return None
        if case.topic_id not in ("", seen.topic_id):
            return Resolution.TOPIC_DELETED
        if is_open(key, seen):
            case.apply_open(seen)
            case.is_without_facts |= key in answers.without_facts
            if key in answers.facts:
                _decide(case, *answers.facts[key], read)
            return None
        found = answers.ended.get(key)
        how = how_it_ended(current.connection, self._cluster_id, case, seen, found, current.context)
        if how is None:
            return None
        self._closed_ms[key] = seen.asked_at_ms
        if found is not None and found.markers:
            self._fates.note_end(case, found.markers[0], how, current.context.rules)
        return how

    def _apply_rows(self, current: EntryRound) -> dict[Subject, Resolution]:
        """Begins a case for each entry that no transaction will end. If the transaction log cannot be read, also begins
        a case if it is not known whether a transaction will end the entry. Returns the resolutions of the cases that
        end here, because a transaction will end the entry, the entry's partition is gone, or the topic is mirrored."""
        ends: dict[Subject, Resolution] = {}
        there = self._stored = set()
        self._without_case = 0
        for row, (entry, relation) in current.shown:
            key = entry_key(entry)
            there.add(key)
            case = self._cases.get(key)
            self._begin(current, row, entry, relation)
            if case is not None and (how := self._taken_up(current, case, entry, relation)) is not None:
                ends[case.subject] = how
        gone = {(row.topic, row.partition) for row in read_partitions.gone(current.connection, self._cluster_id)}
        for subject in current.findings.keys() - {case.subject for case in self._cases.values()}:
            case = case_of_finding(current.findings[subject], current.now_ms, has_log=current.has_log)
            if self._cases.setdefault(entry_key(case.entry), case) is not case:
                ends[subject] = Resolution.NOT_HANGING  # another finding is about the entry: its owner is known now
        for key, case in self._cases.items():
            if key.place in gone:
                ends[case.subject] = Resolution.TOPIC_DELETED
            if self._watch.mirrors(key.topic):  # since the last restart: its producer ids are another cluster's
                ends[case.subject] = Resolution.NOT_HANGING
        # drop entries that were gone before any finding was about them
        self._cases = {
            key: case for key, case in self._cases.items() if key in there or case.subject in current.findings
        }
        self._closed_ms = {key: ms for key, ms in self._closed_ms.items() if key in there}
        self._fates.forget_others(there)
        return ends

    def _begin(self, current: EntryRound, row: PartitionState, entry: Entry, relation: Relation) -> None:
        """Begins a case for the entry if no transaction will end it, or if that is not known without the transaction
        log. If the entry has a case, the new case replaces it only if the old one must begin anew. If there are already
        MOST_CASES cases, and none of them is about this entry, the entry gets no case and is only counted."""
        key, has_log = entry_key(entry), current.has_log_for(relation)
        case = self._cases.get(key)
        is_begun = case is not None and not case.must_begin_anew(relation, has_log=has_log)
        is_news = not is_begun and entry.seen_at_ms > self._closed_ms.get(key, -1)
        if not (is_news and row.why is None and (relation.is_unowned or not has_log)):
            return
        if case is None and len(self._cases) >= MOST_CASES:
            self._without_case += 1
            return
        self._cases[key] = new_case(row, entry, relation, current.now_ms, current.findings, has_log=has_log)

    def _taken_up(self, current: EntryRound, case: HangingCase, entry: Entry, relation: Relation) -> Resolution | None:
        """Returns how the case ends if a transaction will end the entry, or may end it before the case is confirmed;
        None if the case goes on."""
        if relation.is_unowned or not current.has_log_for(relation):
            return None
        if relation.kind not in (RelationKind.UNKNOWN, RelationKind.UNREPLICATED_MARKER):
            if case.is_unowned:
                self._fates.note_taken_over(entry_key(entry), current.now_ms)
            return Resolution.ADOPTION
        # the id was left behind, and has begun a transaction that some coordinator may still end
        may_end = is_left_behind(entry, relation.holder) and not current.is_confirmed(case.subject)
        return Resolution.NOT_HANGING if may_end else None

    def _apply_log(self, current: EntryRound) -> None:
        """Makes confirmation step 2 of each case for which the transaction log is stored up to the requested end
        offsets."""
        for _, (entry, relation) in current.shown:
            case = self._cases.get(entry_key(entry))
            if case is None or not case.has_log:
                continue
            case.note_newest(entry)
            case.note_owner(relation.holder, current.now_ms)
            if relation.is_unowned:
                case.discard_log_read_before(self._log_from_ms(case, current.context, current.now_ms))
                case.apply_log_read(current.read.read_to, current.now_ms)

    def _ask(self, current: EntryRound) -> None:
        now_ms, context = current.now_ms, current.context
        self.next_round_ms = now_ms + ROUND_MS
        may_ask = not current.has_log and now_ms - self._coordinators_asked_ms >= ASK_COORDINATORS_MS
        producers: set[int] = set()
        partitions: set[int] = set()
        entries: dict[EntryKey, int] = {}
        if now_ms - self._fates_asked_ms >= OBSERVE_AGAIN_MS:
            entries |= self._fates.observed
            self._fates_asked_ms = now_ms
        facts = self._fates.facts_to_read(current.owned, now_ms)
        for key, case in self._cases.items():
            from_ms = self._log_from_ms(case, context, now_ms)
            is_due = now_ms >= from_ms
            is_at_step_1 = isinstance(case.confirmation, Open)
            if is_due:
                partitions |= case.log_partitions_needed(current.read.read_to)
            if is_asked := may_ask and case.must_ask_coordinators(now_ms):
                producers.add(key.producer_id)
            if not case.has_log and not (case.subject in current.findings or (is_asked and not is_at_step_1)):
                continue  # without the log every long transaction has a case, and there are many
            is_wanted = False
            if case.has_log and not case.is_confirmed:
                self.next_round_ms = min(self.next_round_ms, now_ms + SOON_MS if is_due else from_ms)
                is_wanted = is_due and not isinstance(case.confirmation, EndsKnown)
            if is_wanted or key not in self._stored or now_ms - case.observed_ms >= OBSERVE_AGAIN_MS:
                entries[key] = case.high_watermark
            if (question := case.facts_to_read(now_ms)) is not None:
                facts[key] = question
        questions = Questions(frozenset(partitions), entries, facts, frozenset(producers))
        if questions and self._prober.ask(questions) and producers:
            self._coordinators_asked_ms = now_ms


def _decide(case: HangingCase, asked: EntryQuery, facts: EntryFacts, read: LogRead) -> None:
    if not case.apply_verdict(verdict_on(asked, facts, read.hidden), asked, facts.read_at_ms):
        log.warning("%s-%s@%s: %s", *case.entry.topic_partition, case.entry.start_offset, case.decision.verdict.why)
