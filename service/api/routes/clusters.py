"""The clusters: counts of ids by state, ended transactions, the progress of each source, and unknowns; and the
transaction coordinators of a cluster.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Final, NamedTuple

from fastapi import APIRouter, Depends, Request, Response
from sqlalchemy import Connection

from service.api.http.answers import answer
from service.api.http.fields import text_of_time
from service.api.http.kept import KeptRoute
from service.api.http.paging import LIMIT, Cursor, Key, Limit, cut
from service.api.http.parameters import only_known
from service.api.http.principals import principal_of
from service.api.http.problems import NO_SUCH_CLUSTER, ProblemError, describe
from service.api.http.store import store_of
from service.api.schemas import unknowns
from service.api.schemas.clusters import (
    Broker,
    Cluster,
    Clusters,
    Config,
    CoordinatorPartition,
    Coordinators,
    FindingCount,
    PartitionCounts,
    Rates,
    States,
    Totals,
    TruncatedCount,
)
from service.api.schemas.sources import describe_sources, read_stalls
from service.api.schemas.transactions import Aborts
from service.api.schemas.unknowns import Unknown, UnknownThing
from service.domain.findings.kinds import Kind, Status
from service.domain.transaction_log import states
from service.domain.transaction_log.states import CONFIG_DEFAULTS, EXPIRED, OPEN, SOURCE
from service.store.queries import clusters, findings
from service.store.queries.clusters import ClusterRow
from service.store.queries.judged_partitions import Coverage, coverage
from service.store.schema.history import ABORTS, COMMITS, CONTRADICTIONS

RATE_WINDOW_MS: Final = 300_000

_MINUTE_MS: Final = 60_000

router = APIRouter(route_class=KeptRoute, tags=["clusters"], dependencies=[Depends(only_known)])


@router.get("/clusters", operation_id="listClusters", response_model=Clusters, responses=describe(400, 422, 503))
def list_clusters(request: Request, limit: Limit = LIMIT, cursor: Cursor = None) -> Response:
    """Lists all clusters that the store knows and the sender may see, by name. `as_of` is the newest of those on the
    page.
    """
    now_ms = request.app.state.now_ms()
    with store_of(request).read() as connection:
        seen = [one for one in clusters.all_clusters(connection) if principal_of(request).sees(one.name)]
        page, next_cursor = cut(sorted(seen, key=_place), _place, limit, cursor, "clusters")
        described = [describe_cluster(connection, cluster, now_ms) for cluster in page]
    as_of_ms = max((one.as_of_ms for one in described if one.as_of_ms is not None), default=None)
    items = [one.body for one in described]
    return answer(Clusters(items=items, next_cursor=next_cursor, as_of=text_of_time(as_of_ms)), as_of_ms)


def _place(cluster: ClusterRow) -> Key:
    return (cluster.name,)


@router.get("/clusters/{cluster}", operation_id="getCluster", response_model=Cluster, responses=describe(404, 422, 503))
def get_cluster(request: Request, cluster: str) -> Response:
    """Returns one cluster."""
    with store_of(request).read() as connection:
        described = describe_cluster(connection, known_cluster(connection, cluster), request.app.state.now_ms())
    return answer(described.body, described.as_of_ms)


def known_cluster(connection: Connection, name: str) -> ClusterRow:
    """Returns the cluster of that name. ProblemError (404) if the store has none."""
    found = clusters.find_cluster(connection, name)
    if found is None:
        names = ", ".join(repr(cluster.name) for cluster in clusters.all_clusters(connection))
        raise ProblemError(
            404, NO_SUCH_CLUSTER, f"there is no cluster {name!r}", for_all=f"; the store knows: {names or 'none'}"
        )
    return found


def configs_of(cluster: ClusterRow) -> dict[str, dict[str, str]]:
    """Returns `{name: {"value", "source"}}` for every config that matters; Kafka's default if none was reported."""
    assumed = {name: {"value": value, "source": "assumed"} for name, value in CONFIG_DEFAULTS.items()}
    return assumed | dict((cluster.description or {}).get("configs", {}))


class Described(NamedTuple):
    """A cluster described for an answer. `as_of_ms`: time of the newest success of any of its sources. `unknown`: the
    unknowns in the body, as values.
    """

    body: Cluster
    as_of_ms: int | None
    unknown: list[Unknown]


def describe_cluster(
    connection: Connection, cluster: ClusterRow, now_ms: int, covered: Coverage | None = None
) -> Described:
    """Describes a cluster by the data in the store. `now_ms` decides only whether its sources stall.

    `covered`: its coverage, if the caller has read it already.
    """
    statuses = clusters.statuses(connection, cluster.id)
    as_of_ms = max((status.as_of_ms for status in statuses.values() if status.as_of_ms is not None), default=None)
    covered = covered or coverage(connection, cluster.id)
    found = findings.counts(connection, cluster.id)
    description = cluster.description or {}
    ids = dict.fromkeys(states.NAMES, 0)
    for count in clusters.state_counts(connection, cluster.id):
        ids[count.state] += count.ids
    configs = configs_of(cluster)
    truncated = findings.truncated(connection, cluster.id)
    counted = clusters.unlabelled_counters(connection, cluster.id)
    unknown = unknowns.of_cluster(
        statuses=statuses.values(),
        gaps=clusters.gaps_since(connection, cluster.id, (as_of_ms or 0) - unknowns.GAPS_KEPT_MS),
        unknown_ids=ids[states.UNKNOWN],
        configs=configs,
        coverage=covered,
        truncated=truncated,
    )
    body = Cluster(
        cluster=cluster.name,
        cluster_id=cluster.kafka_cluster_id,
        states=States(
            Empty=ids[states.EMPTY],
            Ongoing=ids[states.ONGOING],
            PrepareCommit=ids[states.PREPARE_COMMIT],
            PrepareAbort=ids[states.PREPARE_ABORT],
            CompleteCommit=ids[states.COMPLETE_COMMIT],
            CompleteAbort=ids[states.COMPLETE_ABORT],
            Unknown=ids[states.UNKNOWN],
        ),
        open=sum(ids[state] for state in states.OPEN),
        hanging=sum(row.findings for row in found if (row.kind, row.status) == (Kind.HANGING, Status.CONFIRMED)),
        partitions=PartitionCounts(
            watched=covered.watched,
            judged=covered.judged,
            unknown=covered.unknown,
            blocked=covered.blocked,
            not_covered=covered.not_covered,
        ),
        findings=[FindingCount(kind=row.kind, status=row.status, count=row.findings) for row in found],
        truncated=[TruncatedCount(kind=kind, count=number) for kind, number in truncated.items()],
        contradictions=counted.get(CONTRADICTIONS, 0),
        totals=Totals(
            counted_since=text_of_time(cluster.counted_since_ms),
            commits=counted.get(COMMITS, 0),
            aborts=_aborts(counted),
        ),
        rates=_rates(connection, cluster, as_of_ms),
        brokers=[Broker.of(broker) for broker in description.get("brokers", [])],
        features=dict(description.get("features", {})),
        configs={name: Config(value=config["value"], source=config["source"]) for name, config in configs.items()},
        sources=describe_sources(
            clusters.partitions(connection, cluster.id),
            statuses,
            covered,
            read_stalls(connection, cluster.id, statuses, covered, now_ms),
            now_ms,
        ),
        unknown=[UnknownThing.of(one) for one in unknown],
    )
    return Described(body, as_of_ms, unknown)


def _aborts(counted: Mapping[str, int]) -> Aborts:
    """Returns aborts by cause. An abort that has no cause yet (for some seconds at most) counts as unattributed."""
    aborts = Aborts(
        client=counted.get("aborts_client", 0),
        timeout=counted.get("aborts_timeout", 0),
        fenced=counted.get("aborts_fenced", 0),
        admin=counted.get("aborts_admin", 0),
        unattributed=0,
    )
    aborts.unattributed = counted.get(ABORTS, 0) - aborts.client - aborts.timeout - aborts.fenced - aborts.admin
    return aborts


def _rates(connection: Connection, cluster: ClusterRow, as_of_ms: int | None) -> Rates:
    """Returns the rates over the last whole minutes before `as_of`: five at most, and none from before counting
    began.
    """
    if as_of_ms is None or cluster.counted_since_ms is None:
        return Rates(window_ms=0, commits_per_s=0.0, aborts_per_s=0.0)
    to_ms = as_of_ms - as_of_ms % _MINUTE_MS
    window_ms = max(0, min(RATE_WINDOW_MS, to_ms - cluster.counted_since_ms))
    if window_ms == 0:
        return Rates(window_ms=0, commits_per_s=0.0, aborts_per_s=0.0)
    # counting may have begun within a minute: the row of that minute begins before the window
    first_ms = to_ms - window_ms
    ends = clusters.ended_between(connection, cluster.id, first_ms - first_ms % _MINUTE_MS, to_ms)
    seconds = window_ms / 1000
    return Rates(
        window_ms=window_ms,
        commits_per_s=round(ends.commits / seconds, 3),
        aborts_per_s=round(ends.aborts / seconds, 3),
    )


@router.get(
    "/clusters/{cluster}/coordinators",
    operation_id="listCoordinators",
    response_model=Coordinators,
    responses=describe(400, 404, 422, 503),
)
def list_coordinators(request: Request, cluster: str, limit: Limit = LIMIT, cursor: Cursor = None) -> Response:
    """Lists all partitions of `__transaction_state`, by number. `ids` does not count expired ids."""
    with store_of(request).read() as connection:
        found = known_cluster(connection, cluster)
        partitions = clusters.partitions(connection, found.id, SOURCE)
        counts = clusters.state_counts(connection, found.id)
        status = clusters.statuses(connection, found.id).get(SOURCE)
    ids: Counter[int] = Counter()
    open_: Counter[int] = Counter()
    for count in counts:
        ids[count.partition] += 0 if count.state == EXPIRED else count.ids
        open_[count.partition] += count.ids if count.state in OPEN else 0
    as_of_ms = None if status is None else status.as_of_ms
    page, next_cursor = cut(partitions, lambda row: (row.partition,), limit, cursor, cluster, "coordinators")
    items = [CoordinatorPartition.of(row, ids[row.partition], open_[row.partition]) for row in page]
    return answer(Coordinators(items=items, next_cursor=next_cursor, as_of=text_of_time(as_of_ms)), as_of_ms)
