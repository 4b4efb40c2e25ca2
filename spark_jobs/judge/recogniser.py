"""Recognises the application of each transactional.id, again and again, and stores it.

New ids come first. Then the recogniser walks through all ids, page by page: rules change, and the application of an id
may become known only when the id, or one of the other ids that show its framework (`sibling_names`), is used. A walk
takes at most a twentieth of a processor. The first examination of new ids takes at most a fifth, because people wait
for the names.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Final

from sqlalchemy import Connection, Engine

from service.domain.application_rules import UNASSIGNED, ApplicationRules, Assigned
from service.domain.applications import (
    NOTHING,
    Application,
    Framework,
    application_of,
    connect_task_prefix,
    may_be_recognised,
    sibling_names,
)
from service.domain.id_behaviour import Behaviour
from service.store.engine import open_reader
from service.store.lease import Lease
from service.store.queries.application_inputs import IdToExamine, ids_after, new_ids, partition_counts
from service.store.queries.behaviours import behaviours
from service.store.writers.applications import ApplicationWriter
from spark_jobs.judge.makers import FlinkJobs
from spark_jobs.runtime.liveness import Liveness
from spark_jobs.runtime.periodic import repeated
from spark_jobs.settings import IngestSettings

AT_ONCE: Final = 500
"""Maximum number of ids that one call examines."""

TASKS_READ: Final = 20
"""Maximum number of ids that are read to find a source task of a Kafka Connect cluster."""

LOOK_EVERY_MS: Final = 500
"""Pause (ms) between two searches for new ids. An id of a Flink job appears one whole checkpoint before its transaction
ends."""

WALK_EVERY_MS: Final = 10_000
"""Shortest time (ms) from the end of one walk through all ids to the start of the next walk."""

PAUSE_FACTOR: Final = 20
"""Pause after an examination of ids that were examined before, as a multiple of the processor time that the examination
took. With this factor, such examinations use at most a twentieth of a processor."""

FIRST_PAUSE_FACTOR: Final = 4
"""The factor in place of PAUSE_FACTOR if some of the ids were examined for the first time."""


class Recogniser:
    """Examines the ids of one cluster. `knows_all_topics`: whether all topics are watched. If some topic is not
    watched, a producer that was made for one input partition is not recognised, because its id may contain the name of
    a topic that is not watched. `processor_s`: returns the processor time of this thread."""

    def __init__(
        self,
        reader: Engine,
        writer: ApplicationWriter,
        cluster_id: int,
        rules: ApplicationRules,
        *,
        knows_all_topics: bool = True,
        totals_kept_ms: int = 0,
        processor_s: Callable[[], float] = time.thread_time,
    ) -> None:
        self._reader, self._writer, self._cluster_id, self._rules = reader, writer, cluster_id, rules
        self._knows_all_topics, self._totals_kept_ms = knows_all_topics, totals_kept_ms
        self._processor_s = processor_s
        self._after = b""
        self._pause_factor = PAUSE_FACTOR
        self._walk_at_ms = self._walk_ended_ms = 0
        self._jobs, self._jobs_before = FlinkJobs(), FlinkJobs()  # of this walk, and of the one before

    def work(self, now_ms: int) -> float:
        """Examines some ids. Returns the number of seconds until the next call. If the writer raises LeaseLost or
        StoreUnavailable, raises the same; the ids are then examined again."""
        began_s = self._processor_s()
        has_more = self.examine_some(now_ms)
        pause_s = (self._processor_s() - began_s) * self._pause_factor
        return pause_s if has_more else max(pause_s, LOOK_EVERY_MS / 1000)

    def examine_some(self, now_ms: int) -> bool:
        """Examines new ids. If there are none, and a walk is due, examines the next ids of the walk. Returns whether
        there may be more to examine now."""
        with self._reader.connect() as connection:
            some = new_ids(connection, self._cluster_id, AT_ONCE)
            is_walking = not some and not self._walk_ended_ms <= now_ms < self._walk_at_ms
            if is_walking:
                some = ids_after(connection, self._cluster_id, self._after, AT_ONCE)
            assigned = self._assigned(connection, some)
        is_first = any(not to_examine.is_examined for to_examine in some)
        self._pause_factor = FIRST_PAUSE_FACTOR if is_first else PAUSE_FACTOR
        changed = {
            to_examine.transactional_id: new
            for to_examine, new in zip(some, assigned, strict=True)
            if _differs(to_examine, new)
        }
        if changed:
            self._writer.assign(changed, now_ms)
        if not is_walking:
            return bool(some)
        if len(some) == AT_ONCE:
            self._after = some[-1].transactional_id
            return True
        self._end_walk(now_ms)
        return False

    def _end_walk(self, now_ms: int) -> None:
        self._writer.forget(now_ms - self._totals_kept_ms)
        self._after = b""
        self._jobs_before, self._jobs = self._jobs, FlinkJobs()
        self._walk_ended_ms, self._walk_at_ms = now_ms, now_ms + WALK_EVERY_MS

    def _assigned(self, connection: Connection, some: Sequence[IdToExamine]) -> list[Assigned]:
        # an id that is no text was made by no framework; a rule may name its application all the same
        texts = [to_examine for to_examine in some if to_examine.display.encode() == to_examine.transactional_id]
        makers = self._makers(connection, texts)
        return [
            self._rules.assign(to_examine.display, makers.get(to_examine.transactional_id, NOTHING))
            for to_examine in some
        ]

    def _makers(self, connection: Connection, some: Sequence[IdToExamine]) -> Mapping[bytes, Application]:
        """Returns a mapping from id to its maker. Leaves out ids whose maker is not recognised."""
        of_jobs = {one.transactional_id: self._of_known_job(one) for one in some}
        unknown = [one for one in some if of_jobs[one.transactional_id] == NOTHING and may_be_recognised(one.name)]
        siblings = {one.name: (*sibling_names(one.name), *self._tasks(connection, one.name)) for one in unknown}
        names = dict.fromkeys(name for one in unknown for name in (one.name, *siblings[one.name]))
        found = {b.name: b for b in behaviours(connection, self._cluster_id, [name.encode() for name in names])}
        topics = partition_counts(connection, self._cluster_id) if unknown and self._knows_all_topics else {}
        makers = {key: maker for key, maker in of_jobs.items() if maker != NOTHING}
        for to_examine in unknown:
            maker = self._of_known_job(to_examine)
            if maker == NOTHING and to_examine.name in found:
                maker = application_of(found[to_examine.name], _existing(siblings[to_examine.name], found), topics)
            if maker != NOTHING:
                makers[to_examine.transactional_id] = maker
            self._jobs.note(maker, to_examine.timeout_ms)
        return makers

    def _tasks(self, connection: Connection, leader: str) -> list[str]:
        """Returns the names of ids that may be source tasks of the Kafka Connect workers whose leader has the id
        `leader`; at most TASKS_READ names. Returns an empty list if `leader` cannot be the id of such a leader."""
        prefix = connect_task_prefix(leader)
        if prefix is None:
            return []
        first = ids_after(connection, self._cluster_id, prefix.encode(), TASKS_READ)
        return [to_examine.name for to_examine in first if to_examine.transactional_id.startswith(prefix.encode())]

    def _of_known_job(self, to_examine: IdToExamine) -> Application:
        maker = self._jobs.of(to_examine)
        return self._jobs_before.of(to_examine) if maker == NOTHING else maker


def _existing(names: Sequence[str], found: Mapping[str, Behaviour]) -> list[Behaviour]:
    return [found[name] for name in names if name in found]


def _differs(to_examine: IdToExamine, new: Assigned) -> bool:
    return not to_examine.is_examined or (to_examine.application, to_examine.framework or Framework.UNKNOWN) != (
        (None, Framework.UNKNOWN) if new == UNASSIGNED else new
    )


@contextmanager
def recognising(settings: IngestSettings, engine: Engine, lease: Lease, liveness: Liveness) -> Iterator[None]:
    """Keeps the applications of ids up to date in the background, until the block ends or the lease is lost."""
    reader = open_reader(settings.store)
    recogniser = Recogniser(
        reader,
        ApplicationWriter(engine, lease),
        lease.cluster_id,
        settings.applications,
        knows_all_topics=not settings.watch.topics,
        totals_kept_ms=settings.keep.history,
    )
    try:
        with repeated("the recognition of applications", recogniser.work, liveness):
            yield
    finally:
        with suppress(Exception):
            reader.dispose()
