"""Tests that the recogniser names the applications of new and of known ids. If the later behaviour of an id shows more,
the recogniser names its application again."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Engine

from service.domain.application_rules import ApplicationRule, ApplicationRules
from service.domain.applications import STREAMS_TIMEOUT_MS
from service.domain.transaction_log import states
from service.store import schema
from service.store.writers.applications import ApplicationWriter
from spark_jobs.judge import recogniser as module
from spark_jobs.judge.recogniser import WALK_EVERY_MS, Recogniser
from tests.service.domain.test_applications import INCREMENTING_LOG
from tests.service.store.conftest import Cluster
from tests.service.store.logs import NOW_MS, Entry, batch, entry, read, rows
from tests.spark_jobs.judge.test_judge import Judged, judged
from tests.spark_jobs.judge.test_sinks import replay, with_timeout

__all__ = ["judged"]

UUID = "7b0c3a52-1c1e-4f0a-9f57-00c04fd430c8"


def log(cluster: Cluster, entries: Sequence[Entry], lo: int = 0) -> None:
    cluster.writer.apply(batch(entries, read(lo, lo + len(entries))), NOW_MS)


def new(cluster: Cluster, reader: Engine, *rules: ApplicationRule) -> Recogniser:
    writer = ApplicationWriter(cluster.engine, cluster.lease)
    return Recogniser(reader, writer, cluster.id, ApplicationRules(rules), processor_s=lambda: 0.0)


def named(cluster: Cluster) -> dict[str, str | None]:
    stored = rows(cluster.engine, schema.transactional_ids, cluster.id)
    return {row["display"]: row["application"] for row in stored}


def settle(recogniser: Recogniser, now_ms: int) -> None:
    while recogniser.examine_some(now_ms):
        pass


def test_a_new_id_gets_its_application_at_once(cluster: Cluster, reader: Engine) -> None:
    cluster.start({0: 0})
    recogniser = new(cluster, reader)
    settle(recogniser, NOW_MS)
    thread = with_timeout(entry(0, states.EMPTY, f"shop-{UUID}-1".encode()), STREAMS_TIMEOUT_MS)
    log(cluster, [thread, entry(1, states.EMPTY, b"billing", pid=8)])
    settle(recogniser, NOW_MS + 1)
    assert named(cluster) == {f"shop-{UUID}-1": "shop", "billing": None}


def test_a_task_shows_the_group_of_a_leader_with_a_number(cluster: Cluster, reader: Engine) -> None:
    """`connect-cluster-east-1` may belong to the leader of the group `east-1`, or to a task of the group
    `connect-cluster`. A known task of the group `east-1` shows that the group exists."""
    cluster.start({0: 0})
    recogniser = new(cluster, reader)
    log(cluster, [entry(0, states.EMPTY, b"connect-cluster-east-1"), entry(1, states.EMPTY, b"east-1-x", pid=8)])
    settle(recogniser, NOW_MS)
    assert named(cluster) == {"connect-cluster-east-1": None, "east-1-x": None}
    log(cluster, [entry(2, states.EMPTY, b"east-1-orders-0", pid=9)], 2)
    settle(recogniser, NOW_MS + WALK_EVERY_MS)
    assert named(cluster) == {
        "connect-cluster-east-1": "east-1",
        "east-1-x": None,
        "east-1-orders-0": "east-1-orders",
    }


def test_a_rule_names_plain_ids(cluster: Cluster, reader: Engine) -> None:
    cluster.start({0: 0})
    log(cluster, [entry(0, states.EMPTY, b"billing"), entry(1, states.EMPTY, b"bill\xff", pid=8)])
    settle(new(cluster, reader, ApplicationRule(prefix="bill", name="Billing")), NOW_MS)
    assert named(cluster) == {"billing": "Billing", "bill\\x{ff}": "Billing"}


def test_new_rules_reach_ids_that_have_an_application(cluster: Cluster, reader: Engine) -> None:
    cluster.start({0: 0})
    log(cluster, [entry(0, states.EMPTY, b"billing")])
    settle(new(cluster, reader, ApplicationRule(prefix="bill", name="Billing")), NOW_MS)
    settle(new(cluster, reader, ApplicationRule(prefix="bill", name="Invoices")), NOW_MS)
    assert named(cluster) == {"billing": "Invoices"}
    settle(new(cluster, reader), NOW_MS)
    assert named(cluster) == {"billing": None}


def test_a_job_of_flink_is_named_when_it_shows_itself(judged: Judged) -> None:
    recogniser = new(judged.cluster, judged.reader)
    replay(judged, INCREMENTING_LOG, 2_000)
    settle(recogniser, NOW_MS)
    assert named(judged.cluster) == {"flink-0-1": None}
    replay(judged, INCREMENTING_LOG, 20_000)
    settle(recogniser, NOW_MS + WALK_EVERY_MS)
    settle(recogniser, NOW_MS + 2 * WALK_EVERY_MS)
    found = named(judged.cluster)
    assert len(found) == 9
    assert set(found.values()) == {"flink"}


def test_an_id_of_a_known_job_needs_no_behaviour_of_its_own(judged: Judged) -> None:
    recogniser = new(judged.cluster, judged.reader)
    replay(judged, INCREMENTING_LOG, 20_000)
    settle(recogniser, NOW_MS)
    assert named(judged.cluster)["flink-0-9"] == "flink"
    fresh = with_timeout(entry(judged.next_offset, states.EMPTY, b"flink-3-1", pid=99), 900_000)
    judged.log([fresh], NOW_MS)
    settle(recogniser, NOW_MS + 1)
    assert named(judged.cluster)["flink-3-1"] == "flink"


def test_every_page_of_a_walk_is_read(cluster: Cluster, reader: Engine, monkeypatch) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.setattr(module, "AT_ONCE", 3)
    cluster.start({0: 0})
    log(cluster, [entry(n, states.EMPTY, b"id-%d" % n, pid=n) for n in range(10)])
    settle(new(cluster, reader), NOW_MS)
    settle(new(cluster, reader, ApplicationRule(prefix="id-", name="ids")), NOW_MS)
    assert set(named(cluster).values()) == {"ids"}


def test_a_walk_begins_again_only_after_a_pause(cluster: Cluster, reader: Engine) -> None:
    recogniser = new(cluster, reader)
    cluster.start({0: 0})
    settle(recogniser, NOW_MS)
    assert recogniser.work(NOW_MS + 1) == module.LOOK_EVERY_MS / 1000
    log(cluster, [entry(0, states.EMPTY, b"etl-0-1")])
    settle(recogniser, NOW_MS + 2)
    assert named(cluster) == {"etl-0-1": None}


def test_a_producer_for_each_partition_is_named_only_if_all_topics_are_known(cluster: Cluster, reader: Engine) -> None:
    cluster.start({0: 0})
    log(cluster, [entry(n, states.EMPTY, b"tx-billing.orders.%d" % n, pid=n) for n in range(2)])
    with cluster.engine.begin() as connection:
        connection.execute(schema.data_partitions.insert(), [partition(cluster.id, n) for n in range(2)])
    writer = ApplicationWriter(cluster.engine, cluster.lease)
    some_topics = Recogniser(reader, writer, cluster.id, ApplicationRules(), knows_all_topics=False)
    settle(some_topics, NOW_MS)
    assert set(named(cluster).values()) == {None}
    settle(new(cluster, reader), NOW_MS)
    assert set(named(cluster).values()) == {"tx-billing"}


def partition(cluster_id: int, number: int) -> dict[str, object]:
    """Returns a row of `data_partitions` with a value in every column that needs one."""
    zeros = {
        column.name: column.type.python_type()
        for column in schema.data_partitions.c
        if not column.nullable and column.default is None
    }
    return {**zeros, "cluster_id": cluster_id, "topic": "orders", "partition": number}


def test_ids_that_were_never_examined_come_faster(cluster: Cluster, reader: Engine) -> None:
    ticks = iter(range(100))
    writer = ApplicationWriter(cluster.engine, cluster.lease)
    recogniser = Recogniser(reader, writer, cluster.id, ApplicationRules(), processor_s=lambda: float(next(ticks)))
    cluster.start({0: 0})
    log(cluster, [entry(0, states.EMPTY, b"billing")])
    assert recogniser.work(NOW_MS) == module.FIRST_PAUSE_FACTOR
    assert recogniser.work(NOW_MS) == module.PAUSE_FACTOR
