"""The clusters that the store knows: each name is bound to one Kafka cluster, for good."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlalchemy import Connection, Engine, select, update

from service.store.engine import ClusterMismatch
from service.store.many_rows import Upsert
from service.store.schema import clusters

_NAMES = Upsert(clusters, columns=("name", "kafka_cluster_id", "bound_at_ms"), key=("name",))


def bind(engine: Engine, name: str, kafka_cluster_id: str, now_ms: int) -> int:
    """Returns the store's number of the cluster; a new name is bound to this Kafka cluster id.

    ClusterMismatch: the name belongs to another Kafka cluster.
    """
    known = select(clusters.c.id, clusters.c.kafka_cluster_id).where(clusters.c.name == name)
    with engine.begin() as connection:
        _NAMES.write(connection, [(name, kafka_cluster_id, now_ms)])
        number, bound = connection.execute(known).one()
    if bound != kafka_cluster_id:
        raise ClusterMismatch(
            f"cluster name {name!r} belongs to Kafka cluster {bound!r}; these brokers are {kafka_cluster_id!r}:"
            " choose another --cluster name or another --store"
        )
    return int(number)


def describe(engine: Engine, cluster_id: int, description: Mapping[str, Any], now_ms: int) -> None:
    """Stores what the cluster reported of itself (brokers, features, effective configs), as JSON."""
    with engine.begin() as connection:
        connection.execute(
            update(clusters)
            .where(clusters.c.id == cluster_id)
            .values(description=dict(description), described_at_ms=now_ms)
        )


def begin_counting(connection: Connection, cluster_id: int, now_ms: int) -> bool:
    """Sets `counted_since_ms` if it is not set yet; returns whether this is the very first start."""
    begun = connection.execute(
        update(clusters)
        .where(clusters.c.id == cluster_id, clusters.c.counted_since_ms.is_(None))
        .values(counted_since_ms=now_ms)
    )
    return begun.rowcount == 1
