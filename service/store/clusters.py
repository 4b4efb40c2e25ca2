"""The clusters that the store knows: each name is bound to one Kafka cluster, and each Kafka cluster to one name."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any

from sqlalchemy import Connection, Engine, or_, select, update

from service.store.backends import backend_of
from service.store.backends.backend import Lock
from service.store.errors import ClusterMismatch
from service.store.many_rows import Upsert
from service.store.schema import clusters

_NAMES = Upsert(clusters, columns=("name", "kafka_cluster_id", "bound_at_ms"), key=("name",))


def bind(engine: Engine, name: str, kafka_cluster_id: str, now_ms: int) -> int:
    """Returns the store's number of the cluster. Binds a new name to this Kafka cluster id.

    Raises ClusterMismatch if the name belongs to another Kafka cluster, or if this Kafka cluster was bound to another
    name first.
    """
    wanted = or_(clusters.c.name == name, clusters.c.kafka_cluster_id == kafka_cluster_id)
    known = select(clusters.c.id, clusters.c.name, clusters.c.kafka_cluster_id).where(wanted).order_by(clusters.c.id)
    with engine.begin() as connection:
        backend_of(connection).lock(connection, Lock.BIND_CLUSTER)
        rows = connection.execute(known).all()
        if not rows:
            _NAMES.write(connection, [(name, kafka_cluster_id, now_ms)])
            rows = connection.execute(known).all()
    bound = next((row.kafka_cluster_id for row in rows if row.name == name), kafka_cluster_id)
    if bound != kafka_cluster_id:
        raise ClusterMismatch(
            f"cluster name {name!r} belongs to Kafka cluster {bound!r}; these brokers belong to {kafka_cluster_id!r}:"
            " choose another --cluster name or another --store"
        )
    first = next(row for row in rows if row.kafka_cluster_id == kafka_cluster_id)
    if first.name != name:
        raise ClusterMismatch(
            f"Kafka cluster {kafka_cluster_id!r} has the name {first.name!r} in this store, not {name!r}:"
            f" choose --cluster {shlex.quote(first.name)} or another --store"
        )
    return int(first.id)


def describe(engine: Engine, cluster_id: int, description: Mapping[str, Any], now_ms: int) -> None:
    """Stores the cluster's description (brokers, features, effective configs) as JSON."""
    with engine.begin() as connection:
        connection.execute(
            update(clusters)
            .where(clusters.c.id == cluster_id)
            .values(description=dict(description), described_at_ms=now_ms)
        )


def begin_counting(connection: Connection, cluster_id: int, now_ms: int) -> bool:
    """Sets `counted_since_ms` at the cluster's first start, when the value is not set yet. Returns True if this call
    has set the value."""
    begun = connection.execute(
        update(clusters)
        .where(clusters.c.id == cluster_id, clusters.c.counted_since_ms.is_(None))
        .values(counted_since_ms=now_ms)
    )
    return begun.rowcount == 1
