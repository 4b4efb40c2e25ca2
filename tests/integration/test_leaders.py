"""Tests that counts stay exact if the transaction log's partitions move to other brokers, lose a broker, or grow in
number."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka.admin import NewTopic

from deploy.demo.broker import Broker
from service.clock import wall_clock_ms
from service.domain.transaction_log.states import TOPIC
from service.kafka.client import KafkaClient
from service.kafka.cluster import Leader, topic_layout
from service.kafka.offsets import LATEST, list_offsets
from service.store.schema import log_partitions
from tests.conftest import MakeBroker
from tests.helpers.brokers import Cluster, connect, elect
from tests.helpers.builders import transaction_log as records
from tests.helpers.waiting import ANSWER_S, wait_for, wait_until, wait_until_equal
from tests.integration.application import Ingest, ingesting
from tests.integration.kafka_tools import completed
from tests.integration.producers import (
    add_partitions,
    create_topic,
    create_topics,
    internal_producer,
    load,
    open_producer,
    transact,
)

pytestmark = [pytest.mark.broker, pytest.mark.spark, pytest.mark.in_turns]

ASKED_AGAIN_S = 15.0
"""Time limit (s) within which a client has to send a request again to a broker that was down. Our clients do so after a
second. By default, their library does so after half a minute."""
OTHER_LEADER = {1: 2, 2: 3, 3: 1}


def test_counts_stay_exact_when_leaders_move_and_a_leader_dies(tmp_path: Path) -> None:
    names = [f"moved-{n}" for n in range(3)]
    with Cluster("4.3.1", tmp_path / "kafka") as cluster:
        create_topics(cluster.bootstrap, NewTopic("moved", 3, 3))
        open_producer(cluster.bootstrap, names[0])  # creates the log
        with ingesting(cluster.bootstrap, tmp_path) as app:
            app.wait_until_read()
            with load(cluster.bootstrap, "moved", names):
                app.wait_for_more_commits(names)
                before = wait_for_leaders(app, cluster.bootstrap)

                chosen = {p: OTHER_LEADER[leader.node] for p, leader in before.items()}
                make_leaders(cluster.bootstrap, chosen)
                moved = wait_for_leaders(app, cluster.bootstrap)
                assert {p: leader.node for p, leader in moved.items()} == chosen
                assert all(moved[p].epoch > before[p].epoch for p in before)
                app.wait_for_more_commits(names)

                dead = chosen[0]
                cluster.nodes[dead].kill()
                wait_until(
                    lambda: {r.partition: r.leader for r in app.rows(log_partitions)},
                    lambda leaders: dead not in leaders.values(),
                    f"leaders other than broker {dead}; {app.log}",
                )
                app.wait_for_more_commits(names)

                with connect(cluster.bootstrap) as while_it_is_away:
                    cluster.nodes[dead].start()
                    make_leaders(cluster.bootstrap, chosen)
                    wait_for(
                        lambda: all_answer(while_it_is_away),
                        "a client to send requests to the restarted broker again",
                        ASKED_AGAIN_S,
                    )
                assert wait_for_leaders(app, cluster.bootstrap)[0].node == dead
                app.wait_for_more_commits(names)
            app.wait_for_counts(completed(cluster.nodes[1], cluster.bootstrap))
            assert app.gaps() == []
            assert app.rejects() == []
            assert "reading stopped" not in app.log.read_text()  # the source recovered without a restart of its job


def all_answer(client: KafkaClient) -> bool:
    layout = topic_layout(client, TOPIC)
    assert layout is not None
    return not list_offsets(client, layout, LATEST).errors


def leaders(bootstrap: str) -> dict[int, Leader]:
    with connect(bootstrap) as client:
        layout = topic_layout(client, TOPIC)
    assert layout is not None
    return layout.leaders


def stored_leaders(app: Ingest) -> dict[int, Leader]:
    return {row.partition: Leader(row.leader, row.leader_epoch) for row in app.rows(log_partitions)}


def wait_for_leaders(app: Ingest, bootstrap: str) -> dict[int, Leader]:
    """Waits until the store has the cluster's current leaders, and returns them."""
    both = wait_until(
        lambda: (stored_leaders(app), leaders(bootstrap)),
        lambda both: both[0] == both[1],
        f"the store to have the current leaders of the cluster; {app.log}",
    )
    return both[0]


def make_leaders(bootstrap: str, chosen: dict[int, int]) -> None:
    """Makes the chosen brokers the leaders of partitions of the transaction log. `chosen`: a mapping from partition to
    node."""
    order = {p: [node, *sorted({1, 2, 3} - {node})] for p, node in chosen.items()}

    def elected() -> dict[int, int]:
        """Requests the election, and returns the leaders. A restarted broker must catch up before it may lead."""
        with connect(bootstrap) as client:
            elect(client, {TOPIC: order})
        return {p: leader.node for p, leader in leaders(bootstrap).items()}

    wait_until_equal(elected, chosen, "the leaders of the transaction log")


def test_partitions_that_are_added_are_read_from_their_start_and_counted(
    make_broker: MakeBroker, tmp_path: Path
) -> None:
    """Brokers use added partitions only after their next restart. After that, ids may hash to another partition."""
    broker = make_broker("3.9.2", **{"transaction.state.log.num.partitions": 1})
    create_topic(broker.bootstrap, "grown")
    names = [f"grown-{n}" for n in range(3)]
    with ingesting(broker.bootstrap, tmp_path) as app:
        for name in names:
            transact(open_producer(broker.bootstrap, name), "grown")
        app.wait_for_counts(dict.fromkeys(names, (1, 0)))

        add_partitions(broker.bootstrap, TOPIC, 3)
        plant_a_commit(broker, "planted", partition=1)
        app.wait_for_counts(dict.fromkeys(names, (1, 0)) | {"planted": (1, 0)})
        assert app.positions().keys() == {0, 1, 2}

        broker.stop()
        broker.start()
        for name in names:
            transact(open_producer(broker.bootstrap, name), "grown", commit=False)
        app.wait_for_counts(dict.fromkeys(names, (1, 1)) | {"planted": (1, 0)})
        assert min(app.positions().values()) > 3
        assert app.gaps() == []


def plant_a_commit(broker: Broker, transactional_id: str, partition: int) -> None:
    """Writes the records of one transaction as a coordinator would."""
    producer, now = internal_producer(broker.bootstrap), wall_clock_ms()
    for status in (records.ONGOING, records.PREPARE_COMMIT, records.COMPLETE_COMMIT):
        topics = [] if status == records.COMPLETE_COMMIT else [("grown", [0])]
        value = records.value(0, status=status, topics=topics, last_update_ms=now, start_ms=now)
        producer.produce(TOPIC, key=records.key(transactional_id), value=value, partition=partition)
    assert producer.flush(ANSWER_S) == 0
