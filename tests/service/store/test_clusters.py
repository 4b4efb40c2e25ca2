"""A name stands for one Kafka cluster, a Kafka cluster has one name, and counting begins once."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
from sqlalchemy import Engine, select

from service.store import clusters, schema
from service.store.engine import open_engine
from service.store.errors import ClusterMismatch
from tests.helpers.waiting import LIMIT_S
from tests.service.store.conftest import Cluster, patient
from tests.service.store.logs import NOW_MS


def test_a_name_is_bound_at_first_use(engine: Engine) -> None:
    first = clusters.bind(engine, "prod", "abc", NOW_MS)
    assert clusters.bind(engine, "prod", "abc", NOW_MS + 1) == first
    with pytest.raises(ClusterMismatch, match="'prod' belongs to Kafka cluster 'abc'; these brokers belong to 'xyz'"):
        clusters.bind(engine, "prod", "xyz", NOW_MS)
    assert clusters.bind(engine, "other", "xyz", NOW_MS) != first


def test_a_second_name_for_one_kafka_cluster_is_refused_with_the_remedy(engine: Engine) -> None:
    clusters.bind(engine, "our prod", "abc", NOW_MS)
    with pytest.raises(ClusterMismatch) as refused:
        clusters.bind(engine, "other", "abc", NOW_MS)
    assert str(refused.value) == (
        "Kafka cluster 'abc' has the name 'our prod' in this store, not 'other':"
        " choose --cluster 'our prod' or another --store"
    )
    assert names(engine) == ["our prod"]


def test_a_cluster_that_was_renamed_goes_on_under_its_new_name(engine: Engine) -> None:
    """As docs/running.md says."""
    number = clusters.bind(engine, "old", "abc", NOW_MS)
    with engine.begin() as connection:
        connection.exec_driver_sql("UPDATE clusters SET name = 'new' WHERE name = 'old'")
    assert clusters.bind(engine, "new", "abc", NOW_MS) == number
    with pytest.raises(ClusterMismatch, match="--cluster new "):
        clusters.bind(engine, "old", "abc", NOW_MS)


def test_of_names_bound_at_the_same_moment_one_gets_the_kafka_cluster(engine: Engine, url: str) -> None:
    engines = [open_engine(patient(url)) for _ in range(6)]
    with ThreadPoolExecutor(len(engines)) as at_once:
        asked = [at_once.submit(clusters.bind, one, f"name-{n}", "abc", NOW_MS) for n, one in enumerate(engines)]
        refused = [isinstance(one.exception(LIMIT_S), ClusterMismatch) for one in asked]
    assert sorted(refused) == [False, True, True, True, True, True]
    assert names(engine) == [f"name-{refused.index(False)}"]
    for one in engines:
        one.dispose()


def names(engine: Engine) -> list[str]:
    with engine.connect() as connection:
        return list(connection.scalars(select(schema.clusters.c.name)))


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
