"""A cluster as the store describes it: counts of ids by state, ended transactions, the progress of each source, and
unknowns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from sqlalchemy import Connection

from service.domain.findings.kinds import Kind, Status
from service.domain.releases import release_of
from service.domain.source_state import Stall
from service.domain.transaction_log import states
from service.domain.transaction_log.id_delta import minute_of
from service.domain.transaction_log.states import CONFIG_DEFAULTS
from service.store.queries import clusters, findings
from service.store.queries.clusters import ClusterRow, StatusRow
from service.store.queries.findings import FindingCount
from service.store.queries.pipeline import ended_minutes
from service.store.schema.history import ABORTS, CONTRADICTIONS
from service.views.cluster import unknowns
from service.views.cluster.sources import Source, read_stalls, sources_of
from service.views.cluster.unknowns import Unknown
from service.views.partitions.judged import Coverage, coverage
from service.views.words import COUNTED

RATE_WINDOW_MS: Final = 300_000


class Broker(NamedTuple):
    """A broker. `release`: the Kafka release, without its patch number, according to the broker's newest
    `metadata.version`. None if the broker does not report that version, or if this txnscope does not know it."""

    id: int
    host: str
    port: int
    release: str | None


class Rates(NamedTuple):
    """Rates over `window_ms`: the five minutes before the minute in which a source of the cluster last succeeded, or
    less if counting began later. `window_ms` is 0 if counting began in that minute, or has not begun yet."""

    window_ms: int
    commits_per_s: float
    aborts_per_s: float


NO_RATES: Final = Rates(0, 0.0, 0.0)


class Description(NamedTuple):
    """A cluster.

    - `as_of_ms`: time of the newest success of any of the cluster's sources.
    - `ids`: a mapping from state to the number of ids in this state.
    - `counts`: the number of findings of each kind and status.
    - `truncated`: a mapping from kind to the number of conditions that have no finding because there are too many.
    - `ended`: a mapping from the name of a counter (in `service.store.schema.history`) to its value. Contains only the
      counters without a label.
    - `configs`: a mapping from the name of a config to its value and the source of the value.
    """

    cluster: ClusterRow
    as_of_ms: int | None
    ids: Mapping[int, int]
    counts: Sequence[FindingCount]
    truncated: Mapping[str, int]
    ended: Mapping[str, int]
    rates: Rates
    brokers: Sequence[Broker]
    features: Mapping[str, int]
    configs: Mapping[str, Mapping[str, str]]
    coverage: Coverage
    statuses: Mapping[str, StatusRow]
    stalls: Mapping[str, Stall]
    sources: Sequence[Source]
    unknown: Sequence[Unknown]

    @property
    def states(self) -> dict[str, int]:
        """Returns a mapping from the name of a state to the number of ids in it; leaves out expired ids."""
        return {states.NAMES[state]: number for state, number in self.ids.items() if state != states.EXPIRED}

    @property
    def open(self) -> int:
        """Returns the number of ids that have an open transaction."""
        return sum(self.ids[state] for state in states.OPEN)

    @property
    def hanging(self) -> int:
        return sum(row.findings for row in self.counts if (row.kind, row.status) == (Kind.HANGING, Status.CONFIRMED))

    @property
    def confirmed(self) -> int:
        return sum(row.findings for row in self.counts if row.status == Status.CONFIRMED)

    @property
    def aborts(self) -> dict[str, int]:
        """Returns a mapping from cause to the number of aborts. An abort whose cause is not known yet counts as
        unattributed."""
        found = {cause: self.ended.get(f"aborts_{cause}", 0) for cause in COUNTED if cause != "unattributed"}
        return found | {"unattributed": self.ended.get(ABORTS, 0) - sum(found.values())}

    @property
    def contradictions(self) -> int:
        return self.ended.get(CONTRADICTIONS, 0)


def configs_of(cluster: ClusterRow) -> dict[str, dict[str, str]]:
    """Returns `{name: {"value", "source"}}` for every config that txnscope uses. A config that no broker reported has
    Kafka's default."""
    assumed = {name: {"value": value, "source": "assumed"} for name, value in CONFIG_DEFAULTS.items()}
    return assumed | dict((cluster.description or {}).get("configs", {}))


def describe_cluster(
    connection: Connection, cluster: ClusterRow, now_ms: int, covered: Coverage | None = None
) -> Description:
    """Describes a cluster by the data in the store. `now_ms` is used only to find out which sources stall, and why.

    `covered`: the cluster's coverage, if the caller has it already.
    """
    statuses = clusters.statuses(connection, cluster.id)
    as_of_ms = max((status.as_of_ms for status in statuses.values() if status.as_of_ms is not None), default=None)
    covered = covered or coverage(connection, cluster.id)
    description = cluster.description or {}
    ids = dict.fromkeys(states.NAMES, 0)
    for count in clusters.state_counts(connection, cluster.id):
        ids[count.state] += count.ids
    configs, truncated = configs_of(cluster), findings.truncated(connection, cluster.id)
    stalls = read_stalls(connection, cluster.id, statuses, covered, now_ms)
    return Description(
        cluster=cluster,
        as_of_ms=as_of_ms,
        ids=ids,
        counts=findings.counts(connection, cluster.id),
        truncated=truncated,
        ended=clusters.unlabelled_counters(connection, cluster.id),
        rates=_rates(connection, cluster, as_of_ms),
        brokers=[_broker(one) for one in description.get("brokers", [])],
        features=dict(description.get("features", {})),
        configs=configs,
        coverage=covered,
        statuses=statuses,
        stalls=stalls,
        sources=sources_of(clusters.partitions(connection, cluster.id), statuses, covered, stalls, now_ms),
        unknown=unknowns.of_cluster(
            statuses=statuses.values(),
            gaps=clusters.gaps_since(connection, cluster.id, (as_of_ms or 0) - unknowns.GAPS_KEPT_MS),
            unknown_ids=ids[states.UNKNOWN],
            configs=configs,
            coverage=covered,
            truncated=truncated,
        ),
    )


def _broker(stored: Mapping[str, Any]) -> Broker:
    return Broker(stored["id"], stored["host"], stored["port"], release_of(stored.get("newest_metadata_version")))


def _rates(connection: Connection, cluster: ClusterRow, as_of_ms: int | None) -> Rates:
    """Returns the rates over at most five minutes before the minute of `as_of_ms`. The time before counting began is
    left out."""
    if as_of_ms is None or cluster.counted_since_ms is None:
        return NO_RATES
    to_ms = minute_of(as_of_ms)
    window_ms = max(0, min(RATE_WINDOW_MS, to_ms - cluster.counted_since_ms))
    if window_ms == 0:
        return NO_RATES
    # counting may have begun within a minute: the row of that minute begins before the window
    minutes = ended_minutes(connection, cluster.id, minute_of(to_ms - window_ms), to_ms)
    commits, aborts = sum(minute.commits for minute in minutes), sum(minute.aborts for minute in minutes)
    seconds = window_ms / 1000
    return Rates(window_ms, round(commits / seconds, 3), round(aborts / seconds, 3))
