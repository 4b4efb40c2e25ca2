"""Finds the makers of transactional.ids by queries to the store, for findings whose words depend on the framework."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, Protocol

from sqlalchemy import Connection

from service.domain.application_rules import NO_RULES, ApplicationRules
from service.domain.applications import (
    NOTHING,
    Application,
    Framework,
    application_of,
    flink_name,
    may_be_two_phase,
    of_same_job,
    sibling_names,
)
from service.store.queries.behaviours import behaviours

IDS_AT_ONCE: Final = 10
"""Maximum number of ids whose makers are queried in a round. The query for an id also reads about ten other ids: those
that best show the framework of the id (`sibling_names`)."""

KEPT_MS: Final = 60_000
"""Time (ms) after which the maker of an id is queried again. By then, more of the other ids that show the framework of
this id may exist (`sibling_names`)."""

JOBS_KEPT: Final = 1_000


class Named(Protocol):
    """The fields of an id by which its maker is found; `IdState` and `Event` have these fields."""

    @property
    def transactional_id(self) -> bytes: ...
    @property
    def name(self) -> str: ...
    @property
    def timeout_ms(self) -> int: ...


class FlinkJobs:
    """The jobs of Apache Flink that were recognised. A job is recognised by some of its ids; its other ids then need no
    query."""

    def __init__(self) -> None:
        self._jobs: dict[tuple[str | None, int], Application] = {}

    def note(self, maker: Application, timeout_ms: int) -> None:
        """Keeps the maker if it is a Flink job. If there are more than JOBS_KEPT jobs, the one that was recognised
        first is dropped."""
        if maker.kind == Framework.FLINK:
            self._jobs[maker.name, timeout_ms] = maker
            if len(self._jobs) > JOBS_KEPT:
                del self._jobs[next(iter(self._jobs))]

    def of(self, named: Named) -> Application:
        """Returns the maker of the id if the id has the prefix and the timeout of a known job, else NOTHING."""
        parts = flink_name(named.name)
        job = None if parts is None else self._jobs.get((parts.prefix, named.timeout_ms))
        return NOTHING if job is None else of_same_job(job, named.name)


class Makers:
    """A cache of the makers of ids. Also keeps the known Flink jobs, because other ids of these jobs need no query."""

    def __init__(self, cluster_id: int, rules: ApplicationRules = NO_RULES) -> None:
        self._cluster_id, self._rules = cluster_id, rules
        self._kept: dict[bytes, tuple[int, Application]] = {}
        self._jobs = FlinkJobs()

    def of(self, connection: Connection, ids: Iterable[Named], now_ms: int) -> Mapping[bytes, Application]:
        """Returns a mapping from id to its maker. An id is looked up only if it may belong to a two-phase sink, or if a
        rule says that it belongs to Flink; all other ids are left out. A round queries at most IDS_AT_ONCE ids. An id
        whose first query has to wait for a later round is left out as well."""
        wanted = {
            transactional_id.transactional_id: transactional_id
            for transactional_id in ids
            if may_be_two_phase(transactional_id.name, transactional_id.timeout_ms)
            or self._rules.kind_of(transactional_id.name) == Framework.FLINK
        }
        self._kept = {key: kept for key, kept in self._kept.items() if key in wanted}
        looks = 0
        for key, named in wanted.items():
            if key in self._kept and now_ms - self._kept[key][0] < KEPT_MS:
                continue
            maker = self._jobs.of(named)
            if maker == NOTHING and looks < IDS_AT_ONCE:
                looks += 1
                maker = self._look_up(connection, named)
                self._kept[key] = now_ms, self._rules.corrected(named.name, maker)
            if maker.kind == Framework.FLINK:
                self._jobs.note(maker, named.timeout_ms)
                self._kept[key] = now_ms, self._rules.corrected(named.name, maker)
        return {key: self._kept[key][1] for key in wanted if key in self._kept}

    def _look_up(self, connection: Connection, named: Named) -> Application:
        if named.name.encode() != named.transactional_id:
            return NOTHING  # the id is no text, so no framework made it
        names = (named.name, *sibling_names(named.name))
        found = {b.name: b for b in behaviours(connection, self._cluster_id, [name.encode() for name in names])}
        own = found.get(named.name)
        return NOTHING if own is None else application_of(own, found.values())
