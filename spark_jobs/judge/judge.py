"""Runs the judge, which derives findings from the stored data, round by round. Only the judge opens and ends
findings."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Final

from sqlalchemy import Connection, Engine

from service.clock import wall_clock_ms
from service.domain.application_rules import NO_RULES, ApplicationRules
from service.domain.findings.catalogue import EVENTS
from service.domain.findings.context import Context
from service.domain.findings.finding import Finding, Key, Observation, RoundResult
from service.domain.findings.kinds import Kind, Status
from service.domain.findings.lifecycle import REOPENS_WITHIN_MS, Change, Truncation, reconcile, without_canary
from service.domain.findings.rules import Rules
from service.domain.partitions.blocked_groups import AffectedGroup, BlockedGroupIndex
from service.domain.releases import may_skip_markers
from service.domain.transaction_log.known_log import Limits, known_log, limits_of
from service.store.engine import open_reader
from service.store.lease import Lease
from service.store.queries import judge_inputs
from service.store.queries.partitions import read_affected_groups
from service.store.writers.findings import FindingWriter, load
from spark_jobs.judge.coordinator_prober import CoordinatorProber
from spark_jobs.judge.current_state import ConditionObserver
from spark_jobs.judge.disturbances import disturbances_at_start
from spark_jobs.judge.events import EventObserver
from spark_jobs.judge.group_prober import GroupProber, probing_groups
from spark_jobs.judge.groups import BlockedGroupObserver
from spark_jobs.judge.open_entries import ROUND_MS, OpenEntryObserver
from spark_jobs.judge.partition_prober import PartitionProber
from spark_jobs.judge.until_acknowledged import TornObserver, acknowledged
from spark_jobs.runtime.liveness import JUDGE_S, Liveness
from spark_jobs.runtime.periodic import repeated
from spark_jobs.settings import IngestSettings

SHORTEST_PAUSE_MS: Final = 10
CONDITIONS_EVERY_MS: Final = 1_000
LIMITS_EVERY_MS: Final = 10_000
PAUSE_FACTOR: Final = 20
"""Shortest time between two starts of the same part of a round, as a multiple of the processor time that the part took.
With this factor, a part uses at most a twentieth of a processor."""

PARTITIONS_PAUSE_FACTOR: Final = 4
"""The factor in place of PAUSE_FACTOR for the judging of open entries on partitions. This judging may use up to a
quarter of a processor, because users wait for the verdict."""


class RoundTimer:
    """A timer for one part of a round. The time between two starts of the part is at least `every_ms`, and at least
    `pause_factor` times the processor time that the earlier run took. `processor_s`: returns the processor time of
    this thread."""

    def __init__(self, every_ms: int, processor_s: Callable[[], float], pause_factor: int = PAUSE_FACTOR) -> None:
        self._every_ms, self._done_ms, self._at_ms = every_ms, 0, 0
        self._processor_s, self._pause_factor = processor_s, pause_factor

    def is_due(self, now_ms: int) -> bool:
        """Returns whether the part is due. A part is also due if the clock was set back since its last run."""
        return not self._done_ms <= now_ms < self._at_ms

    @contextmanager
    def timed(self, now_ms: int) -> Iterator[None]:
        began = self._processor_s()  # not wall time: on a busy machine the thread waits enough already
        yield
        took_ms = (self._processor_s() - began) * 1000
        self._done_ms, self._at_ms = now_ms, now_ms + max(self._every_ms, int(took_ms * self._pause_factor))


class Judge:
    """The judge of one cluster. `round` reads through `reader` and writes findings. If `coordinators` is None,
    coordinators are not asked. If `partitions` is None, open entries on data partitions are not judged. `processor_s`:
    as in RoundTimer."""

    def __init__(
        self,
        reader: Engine,
        writer: FindingWriter,
        cluster_id: int,
        rules: Rules,
        coordinators: CoordinatorProber | None = None,
        partitions: OpenEntryObserver | None = None,
        groups: GroupProber | None = None,
        processor_s: Callable[[], float] = time.thread_time,
        applications: ApplicationRules = NO_RULES,
    ) -> None:
        self._reader, self._writer, self._cluster_id, self._rules = reader, writer, cluster_id, rules
        self._known: dict[Key, Finding] | None = None
        self._truncation = Truncation()
        self._truncated: dict[Kind, int] | None = None
        self._kafka_id = ""
        self._limits: Limits = limits_of({})
        self._may_skip_markers: bool | None = None
        self._transaction_version: int | None = None
        self._events = EventObserver(cluster_id, applications)
        self._partitions, self._groups = partitions, BlockedGroupObserver(cluster_id, groups)
        self._torn = TornObserver(cluster_id)
        self._conditions = ConditionObserver(cluster_id, coordinators, self._gaps, applications)
        self._conditions_due = RoundTimer(CONDITIONS_EVERY_MS, processor_s)
        self._limits_due = RoundTimer(LIMITS_EVERY_MS, processor_s)
        self._events_due = RoundTimer(0, processor_s)
        self._partitions_due = RoundTimer(0, processor_s, PARTITIONS_PAUSE_FACTOR)

    def next_round_ms(self, now_ms: int) -> int:
        """Returns the time (ms) at which the round after the one at `now_ms` should come."""
        wanted_ms = 0 if self._partitions is None else self._partitions.next_round_ms
        return wanted_ms if now_ms < wanted_ms < now_ms + ROUND_MS else now_ms + ROUND_MS

    def round(self, now_ms: int) -> int:
        """Runs one round, and returns the number of changes to findings. Raises LeaseLost or StoreUnavailable if the
        writer does; the next round then makes the same observations again."""
        with self._reader.connect() as connection:
            if self._known is None:
                known = load(connection, self._cluster_id, now_ms)
                self._kafka_id = judge_inputs.kafka_id(connection, self._cluster_id)
                self._events.begin(connection, now_ms)
                self._known = known
            if self._limits_due.is_due(now_ms):
                with self._limits_due.timed(now_ms):
                    self._limits = limits_of(judge_inputs.configs(connection, self._cluster_id))
                    versions = judge_inputs.metadata_versions(connection, self._cluster_id)
                    self._may_skip_markers = may_skip_markers(versions)
                    self._transaction_version = judge_inputs.transaction_version(connection, self._cluster_id)
            looks: list[RoundResult] = []
            has_news = self._events.read(connection, now_ms) and self._events_due.is_due(now_ms)
            is_due = self._conditions_due.is_due(now_ms)
            has_partitions = self._partitions is not None and self._partitions_due.is_due(now_ms)
            if not (has_news or is_due or has_partitions):
                return 0
            log = known_log(self._limits, judge_inputs.log_progress(connection, self._cluster_id), now_ms)
            blocked_groups = read_affected_groups(connection, self._cluster_id)
            context = Context(
                log,
                self._rules,
                groups=BlockedGroupIndex(blocked_groups),
                may_skip_markers=self._may_skip_markers,
                uncoordinated=self._conditions.left_behind.uncoordinated,
                transaction_version=self._transaction_version,
            )
            if has_news:
                with self._events_due.timed(now_ms):
                    looks.append(self._events.look(connection, context))
            if is_due:
                with self._conditions_due.timed(now_ms):
                    looks.append(_without_new_events(context, self._events))
                    looks += self._conditions.looks(connection, context, self._known, now_ms)
                    looks += acknowledged(connection, self._cluster_id, self._known)
                    looks.append(RoundResult(self._torn.observe(connection, context), frozenset({Kind.TORN})))
            known = dict(self._known)
            changes = self._reconcile(known, looks, now_ms)
            if has_partitions:
                with self._partitions_due.timed(now_ms):
                    changes += self._on_partitions(connection, context, known, blocked_groups, now_ms)
        self._keep(changes, known, now_ms)
        if reported := self._torn.reported(known):
            self._writer.forget_torn(reported)
        if has_news:
            self._events.mark_judged()
        return len(changes)

    def _gaps(self) -> list[Observation]:
        return [*self._groups.gaps(), *(self._partitions.gaps if self._partitions is not None else ())]

    def _on_partitions(
        self,
        connection: Connection,
        context: Context,
        known: dict[Key, Finding],
        blocked_groups: Sequence[AffectedGroup],
        now_ms: int,
    ) -> list[Change]:
        assert self._partitions is not None
        looks = self._partitions.looks(connection, context, known, now_ms)
        changes = self._reconcile(known, looks, now_ms)
        waiting = self._groups.look(connection, context, known, blocked_groups, self._partitions.judged)
        return changes + self._reconcile(known, [waiting], now_ms)

    def _reconcile(self, known: dict[Key, Finding], looks: Iterable[RoundResult], now_ms: int) -> list[Change]:
        """Returns the changes that the results of the round cause, and applies them to `known`."""
        changes = []
        for look in map(without_canary, looks):
            for change in reconcile(known, look, now_ms, self._kafka_id):
                known[change.finding.kind, change.finding.subject] = change.finding
                changes.append(change)
            self._truncation.apply_round(known, look, now_ms)
        return changes

    def _keep(self, changes: list[Change], known: Mapping[Key, Finding], now_ms: int) -> None:
        self._writer.save(changes, now_ms, self._detected(changes), self._contradicted(changes))
        truncated = self._truncation.counts()
        if truncated != self._truncated:
            self._writer.save_truncated(truncated)
            self._truncated = truncated
        forgotten_ms = now_ms - REOPENS_WITHIN_MS
        if changes:
            self._known = {k: f for k, f in known.items() if f.is_open or (f.life.resolved_at_ms or 0) >= forgotten_ms}

    def _detected(self, changes: Iterable[Change]) -> list[int]:
        """Returns the times (ms) at which the LSO began to stall at the entries that were confirmed as hanging in this
        round."""
        assert self._known is not None
        detected = []
        for finding, _ in changes:
            if self._partitions is None or finding.kind != Kind.HANGING or finding.status != Status.CONFIRMED:
                continue
            old = self._known.get((finding.kind, finding.subject))
            since_ms = self._partitions.stalled_since_ms(finding.subject)
            if since_ms is not None and (old is None or old.status != Status.CONFIRMED):
                detected.append(since_ms)
        return detected

    def _contradicted(self, changes: Iterable[Change]) -> int:
        """Returns the number of decisions that were contradicted for the first time in this round."""
        assert self._known is not None
        found = {(f.kind, f.subject) for f, _ in changes if f.contradiction is not None}
        return sum((old := self._known.get(key)) is None or old.contradiction is None for key in found)


def _without_new_events(context: Context, events: EventObserver) -> RoundResult:
    """Returns a round result without new events. This result ends the event findings that have been quiet for long
    enough."""
    seen = frozenset(context.log.known_until_ms), context.log.is_complete
    return RoundResult((), EVENTS, *seen, unsettled=events.held, unread=events.unread)


@contextmanager
def judging(
    settings: IngestSettings, engine: Engine, lease: Lease, liveness: Liveness, wake_judge: threading.Event
) -> Iterator[None]:
    """Runs a judge in the background until the block ends or the lease is lost. `wake_judge` starts a round at once."""
    store, client, rules = settings.store, settings.client, settings.rules
    with engine.connect() as connection:
        disturbances = disturbances_at_start(connection, lease.cluster_id, wall_clock_ms())
    reader = open_reader(store)
    with (
        CoordinatorProber(client, liveness) as coordinators,
        PartitionProber(client, liveness, wake_judge) as prober,
        probing_groups(store, engine, lease, client, liveness) as groups,
    ):
        servers = ",".join(client.bootstrap_servers)
        partitions = OpenEntryObserver(lease.cluster_id, prober, servers, disturbances, settings.watch)
        judge = Judge(
            reader,
            FindingWriter(engine, lease),
            lease.cluster_id,
            rules,
            coordinators,
            partitions,
            groups,
            applications=settings.applications,
        )

        def work(now_ms: int) -> float:
            judge.round(now_ms)
            pause_ms = judge.next_round_ms(now_ms) - wall_clock_ms()
            return min(max(pause_ms, SHORTEST_PAUSE_MS), ROUND_MS) / 1000  # the clock may have been set back

        try:
            with repeated("the judge of findings", work, liveness, limit_s=JUDGE_S, holds_lease=True, wake=wake_judge):
                yield
        finally:
            with suppress(Exception):
                reader.dispose()
