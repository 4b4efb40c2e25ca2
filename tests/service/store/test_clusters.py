"""Tests that one name belongs to one Kafka cluster, and that the start of counting is recorded once. Only one driver at
a time holds the lease."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
from sqlalchemy import Engine, select

from service.domain.reasons.unread import UnresponsiveBroker
from service.store import clusters, lease, schema
from service.store.engine import open_engine
from service.store.errors import ClusterMismatch, LeaseLost
from service.store.progress import start_positions
from service.store.writers.transaction_log import TransactionLogWriter
from tests.helpers.waiting import LIMIT_S
from tests.service.store.conftest import Cluster, patient, take_over
from tests.service.store.logs import NOW_MS, batch, everything, read, transaction


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


def test_a_renamed_cluster_continues_under_its_new_name(engine: Engine) -> None:
    """The test renames the cluster as docs/running.md describes."""
    number = clusters.bind(engine, "old", "abc", NOW_MS)
    with engine.begin() as connection:
        connection.exec_driver_sql("UPDATE clusters SET name = 'new' WHERE name = 'old'")
    assert clusters.bind(engine, "new", "abc", NOW_MS) == number
    with pytest.raises(ClusterMismatch, match="--cluster new "):
        clusters.bind(engine, "old", "abc", NOW_MS)


def test_one_of_two_names_bound_at_once_gets_the_kafka_cluster(engine: Engine, url: str) -> None:
    engines = [open_engine(patient(url)) for _ in range(6)]
    with ThreadPoolExecutor(len(engines)) as at_once:
        asked = [at_once.submit(clusters.bind, engine, f"name-{n}", "abc", NOW_MS) for n, engine in enumerate(engines)]
        refused = [isinstance(future.exception(LIMIT_S), ClusterMismatch) for future in asked]
    assert sorted(refused) == [False, True, True, True, True, True]
    assert names(engine) == [f"name-{refused.index(False)}"]
    for one in engines:
        one.dispose()


def names(engine: Engine) -> list[str]:
    with engine.connect() as connection:
        return list(connection.scalars(select(schema.clusters.c.name)))


def test_the_description_of_a_cluster_is_replaced(cluster: Cluster) -> None:
    clusters.describe(cluster.engine, cluster.id, {"brokers": [1, 2]}, NOW_MS)
    clusters.describe(cluster.engine, cluster.id, {"brokers": [1], "features": {"transaction.version": 2}}, NOW_MS + 5)
    with cluster.engine.connect() as connection:
        row = connection.execute(select(schema.clusters).where(schema.clusters.c.id == cluster.id)).one()
    assert row.description == {"brokers": [1], "features": {"transaction.version": 2}}
    assert row.described_at_ms == NOW_MS + 5


def test_counting_of_a_cluster_begins_once(cluster: Cluster) -> None:
    with cluster.engine.begin() as connection:
        assert clusters.begin_counting(connection, cluster.id, NOW_MS)
        assert not clusters.begin_counting(connection, cluster.id, NOW_MS + 9)
        since = connection.scalar(select(schema.clusters.c.counted_since_ms))
    assert since == NOW_MS


HOUR_MS = 3_600_000


def test_a_cluster_that_was_never_read_has_no_renewal(cluster: Cluster) -> None:
    assert lease.newest_renewal(cluster.engine, cluster.id + 1) is None


@pytest.mark.parametrize("ahead_ms", [-HOUR_MS, 0, HOUR_MS])
def test_a_held_lease_is_never_given_away_because_of_the_clock(cluster: Cluster, ahead_ms: int) -> None:
    assert lease.acquire(cluster.engine, cluster.id, "standby", NOW_MS + ahead_ms) is None


@pytest.mark.parametrize("ahead_ms", [-HOUR_MS, 1_000, HOUR_MS])
def test_a_lease_that_was_renewed_is_not_free_for_a_takeover(cluster: Cluster, ahead_ms: int) -> None:
    before = lease.newest_renewal(cluster.engine, cluster.id)
    lease.renew(cluster.engine, cluster.lease, NOW_MS + ahead_ms)
    assert lease.newest_renewal(cluster.engine, cluster.id) == ("driver", 1, NOW_MS + ahead_ms) != before
    assert lease.acquire(cluster.engine, cluster.id, "standby", NOW_MS, expired=before) is None


def test_two_standbys_do_not_both_take_over(cluster: Cluster) -> None:
    expired = lease.newest_renewal(cluster.engine, cluster.id)
    assert lease.acquire(cluster.engine, cluster.id, "standby", NOW_MS, expired=expired) is not None
    assert lease.acquire(cluster.engine, cluster.id, "another", NOW_MS, expired=expired) is None


def test_a_released_lease_is_free_at_once(cluster: Cluster) -> None:
    lease.release(cluster.engine, cluster.lease)
    assert lease.newest_renewal(cluster.engine, cluster.id) is None
    taken = lease.acquire(cluster.engine, cluster.id, "standby", NOW_MS)
    assert taken == (cluster.id, "standby", 2)
    lease.release(cluster.engine, cluster.lease)  # has no effect: the lease has another holder
    assert lease.acquire(cluster.engine, cluster.id, "driver", NOW_MS) is None


def test_the_same_owner_comes_back_under_a_new_epoch(cluster: Cluster) -> None:
    again = lease.acquire(cluster.engine, cluster.id, "driver", NOW_MS)
    assert again is not None
    assert again.epoch == cluster.lease.epoch + 1
    with pytest.raises(LeaseLost):
        lease.renew(cluster.engine, cluster.lease, NOW_MS)


def test_a_driver_that_was_replaced_writes_nothing_more(cluster: Cluster) -> None:
    first, second = transaction(0, start_ms=1), transaction(3, start_ms=2)
    cluster.writer.apply(batch(first, read(0, 3)), NOW_MS)
    later_ms = NOW_MS + 1
    taken = take_over(cluster.engine, cluster.id, now_ms=later_ms)
    assert taken is not None
    before = everything(cluster.engine, cluster.id)
    for stale in (batch(second, read(3, 6)), batch(first, read(0, 3)), batch([], read(3, 3))):
        with pytest.raises(LeaseLost, match="'driver' at epoch 1 was lost; the newest holder is 'standby' at epoch 2"):
            cluster.writer.apply(stale, later_ms)
    with pytest.raises(LeaseLost):
        cluster.writer.report_trouble(UnresponsiveBroker(1))
    with pytest.raises(LeaseLost):
        start_positions(cluster.engine, cluster.lease, "s", "t", [], later_ms)
    assert everything(cluster.engine, cluster.id) == before
    TransactionLogWriter(cluster.engine, taken).apply(batch(second, read(3, 6)), later_ms)
    assert cluster.positions()[0].next_offset == 6


def test_the_error_names_host_and_process_of_the_new_holder(cluster: Cluster) -> None:
    assert take_over(cluster.engine, cluster.id, "b:7:1:0123456789ab") is not None
    with pytest.raises(LeaseLost, match=r"the newest holder is 'b:7' at epoch 2$"):
        lease.renew(cluster.engine, cluster.lease, NOW_MS)


def test_a_batch_does_not_renew_the_lease(cluster: Cluster) -> None:
    """If a batch renewed the lease, one source could keep the lease while another source is stuck, and no standby could
    take over."""
    before = lease.newest_renewal(cluster.engine, cluster.id)
    cluster.writer.apply(batch([], read(0, 0)), NOW_MS + 5_000)
    assert lease.newest_renewal(cluster.engine, cluster.id) == before
