"""Judges on a clock what the store knows, and keeps the findings: the only one who writes them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final

from sqlalchemy import Engine

from service.domain.findings import kinds
from service.domain.findings.context import Context, Limits, context_of, limits_of
from service.domain.findings.finding import Finding, Key
from service.domain.findings.lifecycle import QUIET_MS, REOPENS_WITHIN_MS, Look, reconcile
from service.domain.findings.rules import Rules
from service.kafka.settings import ClientSettings
from service.store import read_judge
from service.store.engine import open_reader
from service.store.lease import Lease
from service.store.writer_findings import FindingWriter, load
from spark_jobs.background import repeated
from spark_jobs.judge_events import EventLooks
from spark_jobs.judge_now import ConditionLooks
from spark_jobs.probe import Probe

ROUND_S: Final = 0.25
CONDITIONS_EVERY_MS: Final = 1_000
LIMITS_EVERY_MS: Final = 10_000
SHARE: Final = 20
"""What takes long is done less often: at most a twentieth of the time goes into one part."""


class Due:
    """When to do something again: after `every_ms`, or SHARE times as long as it took."""

    def __init__(self, every_ms: int) -> None:
        self._every_ms, self._at_ms = every_ms, 0

    def is_due(self, now_ms: int) -> bool:
        return now_ms >= self._at_ms

    @contextmanager
    def doing(self, now_ms: int) -> Iterator[None]:
        began = time.perf_counter()
        yield
        self._at_ms = now_ms + max(self._every_ms, int((time.perf_counter() - began) * 1000 * SHARE))


class Judge:
    """One round after another over a reading engine; `probe` None: coordinators are not asked."""

    def __init__(
        self, reader: Engine, writer: FindingWriter, cluster_id: int, rules: Rules, probe: Probe | None = None
    ) -> None:
        self._reader, self._writer, self._cluster_id, self._rules = reader, writer, cluster_id, rules
        self._known: dict[Key, Finding] | None = None
        self._kafka_id = ""
        self._limits: Limits = limits_of({})
        self._events = EventLooks(cluster_id)
        self._conditions = ConditionLooks(cluster_id, probe)
        self._conditions_due, self._limits_due = Due(CONDITIONS_EVERY_MS), Due(LIMITS_EVERY_MS)
        self._events_due = Due(0)

    def round(self, now_ms: int) -> int:
        """How many findings changed. LeaseLost and StoreUnavailable as the writer; what was seen is seen again."""
        with self._reader.connect() as connection:
            if self._known is None:
                known = load(connection, self._cluster_id, now_ms)
                self._kafka_id = read_judge.kafka_id(connection, self._cluster_id)
                self._events.begin(connection, now_ms - QUIET_MS)
                self._known = known
            if self._limits_due.is_due(now_ms):
                with self._limits_due.doing(now_ms):
                    self._limits = limits_of(read_judge.configs(connection, self._cluster_id))
            looks: list[Look] = []
            has_news = self._events.read(connection, now_ms - QUIET_MS) and self._events_due.is_due(now_ms)
            is_due = self._conditions_due.is_due(now_ms)
            if not (has_news or is_due):
                return 0
            context = context_of(self._limits, self._rules, read_judge.views(connection, self._cluster_id), now_ms)
            if has_news:
                with self._events_due.doing(now_ms):
                    looks.append(self._events.look(connection, context))
            if is_due:
                with self._conditions_due.doing(now_ms):
                    looks.append(_quiet(context))
                    looks += self._conditions.looks(connection, context, self._known, now_ms)
        changed = self._apply(looks, now_ms)
        if has_news:
            self._events.was_judged()
        return changed

    def _apply(self, looks: list[Look], now_ms: int) -> int:
        assert self._known is not None
        known = dict(self._known)
        changes = []
        for look in looks:
            for change in reconcile(known, look, now_ms, self._kafka_id):
                known[change.finding.kind, change.finding.subject] = change.finding
                changes.append(change)
        self._writer.save(changes, now_ms)
        forgotten_ms = now_ms - REOPENS_WITHIN_MS
        if changes:
            self._known = {k: f for k, f in known.items() if f.is_open or (f.resolved_at_ms or 0) >= forgotten_ms}
        return len(changes)


def _quiet(context: Context) -> Look:
    """Nothing new of what happens: it ends when it has been quiet for long enough."""
    return Look((), kinds.EVENTS, frozenset(context.seen_until), context.whole)


@contextmanager
def judging(store: str, engine: Engine, lease: Lease, client: ClientSettings, rules: Rules) -> Iterator[None]:
    """A judge works in the background until the block ends, or the lease is lost."""
    reader = open_reader(store)
    with Probe(client) as probe:
        judge = Judge(reader, FindingWriter(engine, lease), lease.cluster_id, rules, probe)

        def work(now_ms: int) -> float:
            judge.round(now_ms)
            return ROUND_S

        try:
            with repeated("the judge of findings", work):
                yield
        finally:
            with suppress(Exception):
                reader.dispose()
