"""Observes conditions: the present state of ids and of sources, and the coordinators' answers about ids."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from sqlalchemy import Connection

from service.domain.application_rules import NO_RULES, ApplicationRules
from service.domain.findings import ids_running_out, open_too_long, unreadable
from service.domain.findings.advice import Answer
from service.domain.findings.conditions import MOST_IDS, IdState, place_of
from service.domain.findings.context import Context
from service.domain.findings.finding import Finding, Key, Observation, RoundResult
from service.domain.findings.kinds import QUIET_MS, Kind
from service.domain.findings.mismatch import (
    Compared,
    CoordinatorAnswer,
    WithoutMarker,
    answer_of,
    is_comparable,
    mismatches,
)
from service.domain.findings.open_too_long import Surroundings
from service.domain.findings.unreadable import SourceReport
from service.domain.source_state import SourceName
from service.domain.transaction_log.deadlines import overdue_timed_out_by_ms
from service.domain.transaction_log.states import COMPLETE_ABORT, COMPLETE_COMMIT, EMPTY, TOPIC
from service.store.queries import clusters, judge_inputs
from spark_jobs.judge.coordinator_prober import IDS_AT_ONCE, CoordinatorProber, LeftBehindAnswer, Question
from spark_jobs.judge.left_behind import LeftBehindObserver
from spark_jobs.judge.makers import Makers

RUNNING_OUT_EVERY_MS: Final = 30_000
ASK_EVERY_MS: Final = 10_000
IDS_OF_EACH_KIND: Final = 7
"""This number has two uses. A round asks about at most this many suspects, and it keeps at least this many places for
idle ids. A round has IDS_AT_ONCE places: suspects get them first, then stuck and open ids, then idle ids. In addition,
a round asks about at most IDS_AT_ONCE ids that were left behind."""

_IDLE: Final = (COMPLETE_COMMIT, EMPTY, COMPLETE_ABORT)


class ConditionObserver:
    """Observes conditions round by round. Keeps the coordinators' answers until they can be compared with the store.
    Also keeps the place that its walk through idle ids has reached."""

    def __init__(
        self,
        cluster_id: int,
        prober: CoordinatorProber | None,
        gaps: Callable[[], list[Observation]] = list,
        applications: ApplicationRules = NO_RULES,
    ) -> None:
        """`gaps` returns the coverage gaps that other parts of the judge have found."""
        self._cluster_id, self._prober, self._gaps = cluster_id, prober, gaps
        self._running_out_at_ms = self._ask_at_ms = 0
        self._began_ms: int | None = None
        self._answers: list[CoordinatorAnswer] = []
        self._missing: dict[bytes, tuple[WithoutMarker, ...] | None] = {}
        self._idle_cursor: tuple[int, bytes] = (0, b"")
        self._makers = Makers(cluster_id, applications)
        self.left_behind = LeftBehindObserver(cluster_id)
        self._agrees: dict[bytes, Answer] = {}
        """The coordinators' answers about overdue ids."""

    def looks(
        self, connection: Connection, context: Context, known: Mapping[Key, Finding], now_ms: int
    ) -> list[RoundResult]:
        self._began_ms = self._began_ms or now_ms
        open_, prepared, left_behind, found = self._open(connection, context, now_ms)
        looks = [found, self._sources(connection, context, now_ms)]
        looks += self.left_behind.look(connection, context, now_ms)
        if now_ms >= self._running_out_at_ms:
            self._running_out_at_ms = now_ms + RUNNING_OUT_EVERY_MS
            looks.append(self._ids_running_out(connection, context, now_ms))
        if self._prober is not None:
            suspects = [
                subject.transactional_id
                for (kind, subject), finding in known.items()
                if kind == Kind.COORDINATOR_MISMATCH and finding.is_open and subject.transactional_id is not None
            ]
            looks.append(self._compare(connection, context, suspects, now_ms))
            if now_ms >= self._ask_at_ms and self._ask(connection, context, suspects, [*prepared, *open_], left_behind):
                self._ask_at_ms = now_ms + ASK_EVERY_MS
        return looks

    def _open(
        self, connection: Connection, context: Context, now_ms: int
    ) -> tuple[list[IdState], list[IdState], list[IdState], RoundResult]:
        shortest = context.rules.shortest_long_ms
        long_ms = min(open_too_long.LONG_AFTER_MS, open_too_long.LONG_AFTER_MS if shortest is None else shortest)
        open_ = judge_inputs.open_ids(connection, self._cluster_id, now_ms - long_ms)
        due_ms = overdue_timed_out_by_ms(now_ms, context.log.limits.scan_ms)
        timed_out = judge_inputs.timed_out_ids(connection, self._cluster_id, due_ms)
        left_open = judge_inputs.left_open(connection, self._cluster_id)
        left_behind = self.left_behind.to_ask(timed_out.read, left_open.read, context)
        prepared = judge_inputs.prepared_ids(connection, self._cluster_id, now_ms - open_too_long.STUCK_AFTER_MS)
        self._missing = {
            id_state.transactional_id: self._missing.get(id_state.transactional_id) for id_state in prepared.read
        }
        undecoded = judge_inputs.undecoded(connection, self._cluster_id, now_ms - QUIET_MS)
        makers = self._makers.of(connection, open_too_long.long_open(open_.read, context)[: MOST_IDS + 1], now_ms)
        found: list[Observation] = [
            *open_too_long.overdue(timed_out.read, context, self._surroundings(connection, timed_out.read)),
            *open_too_long.stuck(prepared.read, self._missing, context),
            *open_too_long.long_running(open_.read, context, makers),
            *unreadable.undecodable(undecoded.read, context),
        ]
        unread = {
            Kind.OVERDUE: timed_out.unread,
            Kind.STUCK_COMPLETION: prepared.unread,
            Kind.LONG_RUNNING: open_.unread,
            Kind.UNDECODABLE: undecoded.unread,
        }
        return open_.read, prepared.read, left_behind, _result(found, unread, context)

    def _surroundings(self, connection: Connection, timed_out: Sequence[IdState]) -> Surroundings:
        """Returns the facts by which a transaction is judged after its timeout: the newest writes in each log
        partition, and the coordinators' answers. If no transaction has a start time, the facts are empty."""
        self._agrees = {
            id_state.transactional_id: self._agrees.get(id_state.transactional_id, Answer.NONE)
            for id_state in timed_out
        }
        started = [
            id_state.started_at_ms + id_state.timeout_ms for id_state in timed_out if id_state.started_at_ms is not None
        ]
        if not started:
            return Surroundings()
        written_ms = judge_inputs.newest_writes(connection, self._cluster_id, min(started))
        return Surroundings(written_ms, self._agrees)

    def _sources(self, connection: Connection, context: Context, now_ms: int) -> RoundResult:
        statuses = clusters.statuses(connection, self._cluster_id)
        sources = []
        for name, topic in ((SourceName.TRANSACTION_LOG, TOPIC), (SourceName.PARTITIONS, None)):
            if (status := statuses.get(name)) is not None:
                since_ms = self._began_ms if status.as_of_ms is None else status.as_of_ms
                sources.append(SourceReport(name, topic, status.as_of_ms, status.error, since_ms))
        gaps = judge_inputs.gaps(connection, self._cluster_id, now_ms - QUIET_MS)
        found = [*unreadable.coverage_gaps(sources, now_ms), *unreadable.data_gaps(gaps.read), *self._gaps()]
        judged, unread = frozenset({Kind.COVERAGE_GAP}), {Kind.DATA_GAP: gaps.unread}
        # `is_log_complete` is True: whether a source answers is known, also if it fails
        return RoundResult(tuple(found), judged, frozenset(context.log.known_until_ms), True, unread=unread)

    def _ids_running_out(self, connection: Connection, context: Context, now_ms: int) -> RoundResult:
        limits = context.log.limits
        soon_ms = ids_running_out.soon_ms(limits.expiration_ms)
        # ids that should have been removed two sweeps ago are a problem of their coordinator, and may be many
        oldest_ms = now_ms - limits.expiration_ms - 2 * limits.sweep_ms
        idle = judge_inputs.expiring_ids(
            connection, self._cluster_id, oldest_ms, now_ms - limits.expiration_ms + soon_ms
        )
        near_exhaustion = judge_inputs.high_epoch_ids(connection, self._cluster_id, context.log.leaders)
        found = [
            *ids_running_out.expiring(idle.read, context),
            *ids_running_out.epoch_exhaustion(near_exhaustion.read, context),
        ]
        unread = {Kind.EXPIRING: idle.unread, Kind.EPOCH_EXHAUSTION: near_exhaustion.unread}
        return _result(found, unread, context)

    def _compare(self, connection: Connection, context: Context, suspects: list[bytes], now_ms: int) -> RoundResult:
        """Compares the coordinators' answers with the stored rows. If an answer cannot be compared yet, because the
        id's log partition has not been read past the time of the answer, it is kept for later rounds: for at most
        ASK_EVERY_MS, and only while the id has no newer record."""
        assert self._prober is not None
        for answer in self._prober.answers():
            if isinstance(answer, LeftBehindAnswer):
                self.left_behind.apply(answer)
                continue
            if answer.transactional_id in self._missing:
                self._missing[answer.transactional_id] = answer.missing
            self._answers.append(answer)
        if not self._answers:
            return RoundResult((), frozenset())
        rows = judge_inputs.id_states(connection, self._cluster_id, [a.transactional_id for a in self._answers])
        compared, waiting = [], []
        for answer in self._answers:
            row = rows.get(answer.transactional_id)
            if row is not None and is_comparable(answer, row, context):
                compared.append(Compared(answer, row))
                if answer.transactional_id in self._agrees:
                    self._agrees[answer.transactional_id] = answer_of(compared[-1], context)
            elif row is not None and row.offset == answer.offset and now_ms - answer.answered_at_ms < ASK_EVERY_MS:
                waiting.append(answer)
        self._answers = waiting
        return mismatches(compared, suspects, context)

    def _ask(
        self,
        connection: Connection,
        context: Context,
        suspects: list[bytes],
        busy: list[IdState],
        left_behind: list[IdState],
    ) -> bool:
        assert self._prober is not None
        first = judge_inputs.id_states(connection, self._cluster_id, suspects[:IDS_OF_EACH_KIND]) if suspects else {}
        chosen = {**first, **{one.transactional_id: one for one in busy[: IDS_AT_ONCE - IDS_OF_EACH_KIND - len(first)]}}
        for id_state in self._idle(connection, IDS_AT_ONCE - len(chosen)):
            chosen.setdefault(id_state.transactional_id, id_state)
        questions = [
            Question(one, context.log.leaders[one.partition])
            for one in chosen.values()
            if context.log.leaders.get(one.partition, -1) >= 0
            and (one.transactional_id in first or not place_of(one, context).was_left_behind)
        ]
        questions += [Question(one, -1, was_left_behind=True) for one in left_behind[:IDS_AT_ONCE]]
        return not questions or self._prober.ask(questions)

    def _idle(self, connection: Connection, limit: int) -> list[IdState]:
        number, after = self._idle_cursor
        found = judge_inputs.idle_ids(connection, self._cluster_id, _IDLE[number], after, limit)
        self._idle_cursor = (number, found[-1].transactional_id) if found else ((number + 1) % len(_IDLE), b"")
        return found


def _result(found: Iterable[Observation], unread: dict[Kind, int], context: Context) -> RoundResult:
    """Returns the round's result for the kinds in `unread`, a mapping from kind to the number of cases that were not
    read. The result covers findings about log partitions that can be judged now. If all log partitions can be judged,
    it also covers findings without a log partition."""
    known = frozenset(context.log.known_until_ms), context.log.is_complete
    return RoundResult(tuple(found), frozenset(unread), *known, unread=unread)
