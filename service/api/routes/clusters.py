"""The clusters: counts of ids by state, ended transactions, the progress of each source, and everything that could not
be read or judged. Also the transaction coordinators of a cluster, and its canary.
"""

from __future__ import annotations

from fastapi import Request, Response

from service.api.http.answers import KeptRouter, answer, answer_page
from service.api.http.paging import LIMIT, Cursor, Key, Limit, cut
from service.api.http.principals import principal_of
from service.api.http.problems import describe
from service.api.http.state import App, known_cluster
from service.api.schemas.canary import Canary
from service.api.schemas.clusters import Cluster, Clusters, CoordinatorPartition, Coordinators
from service.domain.source_state import SourceName
from service.store.queries import clusters
from service.store.queries.clusters import ClusterRow
from service.views.cluster.canary import read_health
from service.views.cluster.description import describe_cluster
from service.views.cluster.sources import coordinators_of

router = KeptRouter("clusters")


@router.get("/clusters", operation_id="listClusters", response_model=Clusters, responses=describe(400, 422, 503))
def list_clusters(request: Request, app: App, limit: Limit = LIMIT, cursor: Cursor = None) -> Response:
    """Lists all clusters that the store knows and the sender may see, by name. `as_of` is the newest `as_of` of the
    clusters on the page.
    """
    now_ms = app.now_ms()
    with app.store.read() as connection:
        seen = [cluster for cluster in clusters.all_clusters(connection) if principal_of(request).sees(cluster.name)]
        page, next_cursor = cut(sorted(seen, key=_place), _place, limit, cursor, "clusters")
        described = [describe_cluster(connection, cluster, now_ms) for cluster in page]
    as_of_ms = max(
        (description.as_of_ms for description in described if description.as_of_ms is not None), default=None
    )
    return answer_page(Clusters, [Cluster.of(description) for description in described], next_cursor, as_of_ms)


def _place(cluster: ClusterRow) -> Key:
    return (cluster.name,)


@router.read("/clusters/{cluster}", "getCluster", Cluster)
def get_cluster(app: App, cluster: str) -> Response:
    """Returns one cluster."""
    with app.store.read() as connection:
        described = describe_cluster(connection, known_cluster(connection, cluster), app.now_ms())
    return answer(Cluster.of(described), described.as_of_ms)


@router.read("/clusters/{cluster}/coordinators", "listCoordinators", Coordinators)
def list_coordinators(app: App, cluster: str, limit: Limit = LIMIT, cursor: Cursor = None) -> Response:
    """Lists all partitions of `__transaction_state`, by number. `ids` does not count expired ids."""
    with app.reading(cluster) as (connection, found):
        logs = clusters.partitions(connection, found.id, SourceName.TRANSACTION_LOG)
        coordinators = coordinators_of(logs, clusters.state_counts(connection, found.id))
        status = clusters.statuses(connection, found.id).get(SourceName.TRANSACTION_LOG)
    as_of_ms = None if status is None else status.as_of_ms
    page, next_cursor = cut(
        coordinators, lambda coordinator: (coordinator.log.partition,), limit, cursor, cluster, "coordinators"
    )
    return answer_page(
        Coordinators, [CoordinatorPartition.of(coordinator) for coordinator in page], next_cursor, as_of_ms
    )


@router.read("/clusters/{cluster}/canary", "getCanary", Canary)
def get_canary(app: App, cluster: str) -> Response:
    """Returns whether transactions can run now at each coordinator, as the canary's own transactions show."""
    now_ms = app.now_ms()
    with app.reading(cluster) as (connection, found):
        health = read_health(connection, found.id, now_ms)
    return answer(Canary.of(found.name, health), None if health is None else health.canary.as_of_ms)
