"""A name stands for one Kafka cluster, and counting begins once."""

from __future__ import annotations

import pytest
from sqlalchemy import Engine, select

from service.store import clusters, schema
from service.store.engine import ClusterMismatch
from tests.service.store.conftest import Cluster
from tests.service.store.logs import NOW_MS


def test_a_name_is_bound_at_first_use(engine: Engine) -> None:
    first = clusters.bind(engine, "prod", "abc", NOW_MS)
    assert clusters.bind(engine, "prod", "abc", NOW_MS + 1) == first
    with pytest.raises(ClusterMismatch, match="'prod' belongs to Kafka cluster 'abc'; these brokers are 'xyz'"):
        clusters.bind(engine, "prod", "xyz", NOW_MS)
    assert clusters.bind(engine, "other", "abc", NOW_MS) != first


def test_the_description_is_replaced(cluster: Cluster) -> None:
    clusters.describe(cluster.engine, cluster.id, {"brokers": [1, 2]}, NOW_MS)
    clusters.describe(cluster.engine, cluster.id, {"brokers": [1], "features": {"transaction.version": 2}}, NOW_MS + 5)
    with cluster.engine.connect() as connection:
        row = connection.execute(select(schema.clusters).where(schema.clusters.c.id == cluster.id)).one()
    assert row.description == {"brokers": [1], "features": {"transaction.version": 2}}
    assert row.described_at_ms == NOW_MS + 5


def test_counting_begins_once(cluster: Cluster) -> None:
    with cluster.engine.begin() as connection:
        assert clusters.begin_counting(connection, cluster.id, NOW_MS)
        assert not clusters.begin_counting(connection, cluster.id, NOW_MS + 9)
        since = connection.scalar(select(schema.clusters.c.counted_since_ms))
    assert since == NOW_MS
