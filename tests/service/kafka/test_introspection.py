"""Tests of the answers of real brokers: releases, transactions, missing permissions, timeouts, and the effect of a
marker that we write."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest
from kafka.protocol.metadata import MetadataRequest

from deploy.demo.broker import Broker
from service.domain.releases import release_of
from service.domain.transaction_log.states import ONGOING
from service.kafka import cluster, errors
from service.kafka.client import KafkaClient
from service.kafka.cluster import Leader, TopicLayout, all_topics
from service.kafka.ends import Ends, EndsWatcher
from service.kafka.errors import KafkaFailure, KafkaUnavailable
from service.kafka.fetch import Fetched, PartitionFetch, fetch_many
from service.kafka.group_descriptions import describe_groups
from service.kafka.groups import committed
from service.kafka.markers import write_marker
from service.kafka.offsets import offset_at_time
from service.kafka.producers import AT_ONCE, Producers, describe_owners, describe_producers
from service.kafka.settings import ClientSettings
from service.kafka.transactions import ListedId, list_transactions
from service.processes.waiting import heard_by
from tests.conftest import MakeBroker
from tests.helpers.acls import BrokerWithAcls, topic
from tests.helpers.brokers import connect
from tests.helpers.waiting import ANSWER_S, wait_for, wait_until, wait_until_equal
from tests.integration.producers import open_producer, transact
from tests.service.kafka.asking import new_topic, open_transaction

pytestmark = pytest.mark.broker

NODE = 1
MISSING, NOT_LEADER, UNKNOWN_EPOCH, PRODUCER_EPOCH = 3, 6, 75, 47


def ends(client: KafkaClient, layout: TopicLayout) -> Ends:
    """Returns the offsets of partition 0: log start, LSO and high watermark."""
    return EndsWatcher(client).sample({layout.topic: layout}, with_start=True)[layout.topic, 0]


def test_a_written_marker_ends_the_producer_that_is_described(broker: Broker, client: KafkaClient) -> None:
    layout = new_topic(client, broker.bootstrap, "marked", 2)
    began_ms = int(time.time() * 1000)
    with open_transaction(broker.bootstrap, "marked", "marked"):
        assert ends(client, layout) == Ends(0, 0, 1, errors.NONE)
        found = describe_producers(client, NODE, {"marked": [0, 1, 9], "marked-missing": [0]})
        assert {place: reported.error for place, reported in found.items()} == {
            ("marked", 0): errors.NONE,
            ("marked", 1): errors.NONE,
            ("marked", 9): MISSING,
            ("marked-missing", 0): MISSING,
        }
        assert found["marked", 1] == Producers(errors.NONE, ())
        (producer,) = found["marked", 0].producers
        assert (producer.transaction_start_offset, producer.coordinator_epoch, producer.last_sequence) == (0, -1, 0)
        assert began_ms <= producer.last_timestamp_ms <= int(time.time() * 1000)

        def mark(epoch: int, partition: int = 0) -> int:
            return write_marker(
                client,
                NODE,
                topic="marked",
                partition=partition,
                producer_id=producer.producer_id,
                producer_epoch=epoch,
                coordinator_epoch=0,
                commit=False,
            )

        assert mark(producer.producer_epoch, partition=9) == MISSING
        assert mark(producer.producer_epoch) == errors.NONE
        wait_until_equal(lambda: ends(client, layout), Ends(0, 2, 2, 0), "the offsets of the partition")
        (after,) = describe_producers(client, NODE, {"marked": [0]})["marked", 0].producers
        assert (after.transaction_start_offset, after.coordinator_epoch) == (-1, 0)
        if producer.producer_epoch > 0:
            assert mark(producer.producer_epoch - 1) == PRODUCER_EPOCH


def test_many_partitions_are_described_in_several_requests(broker: Broker, client: KafkaClient) -> None:
    new_topic(client, broker.bootstrap, "described", AT_ONCE // 2 + 20)
    new_topic(client, broker.bootstrap, "described-too", AT_ONCE // 2 + 20)
    places = {topic: range(AT_ONCE // 2 + 20) for topic in ("described", "described-too")}
    found = wait_until(
        lambda: described(client, places),
        lambda reported: not any(reported.values()),
        "every partition to be described",
    )
    assert found.keys() == {(topic, p) for topic, of in places.items() for p in of}


def described(client: KafkaClient, places: dict[str, range]) -> dict[tuple[str, int], int]:
    return {place: reported.error for place, reported in describe_producers(client, NODE, places).items()}


def test_transactions_are_listed_by_producer_id(broker: Broker, client: KafkaClient) -> None:
    new_topic(client, broker.bootstrap, "listed", 1)
    transact(open_producer(broker.bootstrap, "listed-done"), "listed")
    with open_transaction(broker.bootstrap, "listed-open", "listed"):
        listed = {t.transactional_id: t for t in list_transactions(client, NODE)}
        assert listed["listed-open"].state == "Ongoing"
        assert "listed-done" in listed
        one = listed["listed-open"].producer_id
        assert list_transactions(client, NODE, [one, 2**62]) == [ListedId("listed-open", one, "Ongoing")]
    assert list_transactions(client, NODE, [2**62]) == []


def test_the_present_owner_of_a_producer_id_is_described(broker: Broker, client: KafkaClient) -> None:
    new_topic(client, broker.bootstrap, "had", 2)
    with open_transaction(broker.bootstrap, "had", "had", partition=1):
        (listed,) = (t for t in list_transactions(client, NODE) if t.transactional_id == "had")
        found = describe_owners(client, [listed.producer_id, 2**62])
        assert found.keys() == {listed.producer_id}
        owner = found[listed.producer_id]
        assert (owner.transactional_id, owner.coordinator, owner.state) == (b"had", NODE, ONGOING)
        assert (owner.producer_id, owner.partitions) == (listed.producer_id, (("had", 1),))
    assert describe_owners(client, [2**62]) == {}


def test_the_first_offset_at_or_after_a_time_is_found(broker: Broker, client: KafkaClient) -> None:
    layout = new_topic(client, broker.bootstrap, "timed", 1)
    producer = open_producer(broker.bootstrap, "timed")
    for at_ms in (1_000, 2_000, 3_000):
        producer.begin_transaction()
        producer.produce("timed", b"payload", timestamp=at_ms)
        producer.commit_transaction(ANSWER_S)
    wait_until_equal(lambda: ends(client, layout).last_stable_offset, 6, "the last stable offset")
    leader = layout.leaders[0]
    # the markers at offsets 1, 3 and 5 carry the broker's time
    found = {at_ms: offset_at_time(client, "timed", 0, leader, at_ms) for at_ms in (-1, 0, 1_000, 1_001)}
    assert found == {-1: 0, 0: 0, 1_000: 0, 1_001: 1}
    assert offset_at_time(client, "timed", 0, leader, int(time.time() * 1000) + 3_600_000) is None
    with pytest.raises(KafkaUnavailable, match="error 3"):
        offset_at_time(client, "timed", 7, leader, 0)


def test_a_fetch_answers_for_each_partition_of_several_topics(broker: Broker, client: KafkaClient) -> None:
    layouts = {t: new_topic(client, broker.bootstrap, t, 2) for t in ("fetched", "fetched-too")}
    with open_transaction(broker.bootstrap, "fetched", "fetched", partition=1):
        epoch = layouts["fetched"].leaders[0].epoch
        wanted = {
            "fetched": [PartitionFetch(1, 0, epoch, 1 << 16), PartitionFetch(0, 0, epoch, 1 << 16)],
            "fetched-too": [PartitionFetch(1, 0, epoch, 1 << 16), PartitionFetch(0, 0, epoch + 9, 1 << 16)],
        }
        answers = wait_until(
            lambda: fetch_many(client, NODE, wanted, 1 << 20, 100, timeout_ms=5_000),
            lambda found: NOT_LEADER not in {one.error for one in found},
            "the broker to lead the new partitions",
        )
    found = {(answer.topic, answer.partition): answer for answer in answers}
    fetched = found.pop(("fetched", 1))
    assert (fetched.error, fetched.last_stable_offset, fetched.high_watermark, fetched.log_start) == (
        errors.NONE,
        0,
        1,
        0,
    )
    assert b"payload" in fetched.records
    empty = Fetched("", 0, errors.NONE, 0, 0, 0, b"")
    refused = found.pop(("fetched-too", 0))
    assert (refused.error, refused.records) == (UNKNOWN_EPOCH, b"")
    assert found == {
        (topic, p): Fetched(topic, p, *[getattr(empty, name) for name in Fetched.__slots__[2:]])
        for topic, p in (("fetched", 0), ("fetched-too", 1))
    }


def test_all_topics_are_listed_with_their_ids_and_leaders(broker: Broker, client: KafkaClient) -> None:
    layout = new_topic(client, broker.bootstrap, "told", 3)
    found = all_topics(client, NODE)
    assert found.layouts["told"] == layout
    assert (found.denied, found.brokers) == ({}, (NODE,))


def test_each_broker_reports_its_release(broker: Broker) -> None:
    with connect(broker.bootstrap) as client:
        reported = cluster.describe(client)
        assert cluster.broker_ids(client) == [1]
    (one,) = reported["brokers"]
    assert (one["id"], one["port"]) == (1, broker.port)
    assert release_of(one["newest_metadata_version"]) == broker.version.rpartition(".")[0]
    assert reported["features"]["metadata.version"] <= one["newest_metadata_version"]
    assert {config["source"] for config in reported["configs"].values()} == {"broker"}


TIMEOUT_MS = 3_500
REQUEST = MetadataRequest(topics=[], allow_auto_topic_creation=False)


def one(client: KafkaClient, node: int) -> None:
    with pytest.raises(KafkaUnavailable):
        client.ask(REQUEST, node, TIMEOUT_MS)


def several(client: KafkaClient, node: int) -> None:
    answers = client.ask_all({node: [REQUEST]}, TIMEOUT_MS)
    assert isinstance(answers[node], KafkaFailure)


def test_a_wait_for_a_frozen_broker_reports_a_step_each_second(make_broker: MakeBroker) -> None:
    broker = make_broker()
    with connect(broker.bootstrap) as client:
        (node,) = (found.node_id for found in client.ask(REQUEST).brokers)
        broker.pause()
        try:
            for ask in (one, several):
                assert steps_of(ask, client, node) >= TIMEOUT_MS // 1_000 + 1
        finally:
            broker.resume()


def steps_of(ask: Callable[[KafkaClient, int], None], client: KafkaClient, node: int) -> int:
    steps: list[str] = []
    with heard_by(lambda: steps.append("step")):
        ask(client, node)
    return len(steps)


CLUSTER_REFUSED, GROUP_REFUSED = 31, 30


@pytest.mark.parametrize("version", ["4.3.1"])
def test_a_principal_with_describe_on_one_topic_sees_only_that_topic(version: str, tmp_path: Path) -> None:
    with BrokerWithAcls(version, tmp_path, ["ann"]) as guarded:
        with connect(guarded.admin) as admin:
            for name in ("seen", "hidden"):
                new_topic(admin, guarded.admin, name)
        guarded.allow("ann", topic("seen"), "DESCRIBE")
        settings = ClientSettings.load(guarded.bootstrap, guarded.properties("ann"))
        with (
            open_transaction(guarded.admin, "seen-and-hidden", "seen"),
            KafkaClient(settings) as client,
        ):
            layouts = wait_for(lambda: all_topics(client).layouts, "the topics with DESCRIBE permission")
            assert layouts.keys() == {"seen"}
            hidden = TopicLayout("hidden", "", {0: Leader(NODE, 0)})
            assert EndsWatcher(client).sample(layouts | {"hidden": hidden}, with_start=True) == {
                ("seen", 0): Ends(0, 0, 1, errors.NONE),
                ("seen", 1): Ends(0, 0, 0, errors.NONE),
                ("hidden", 0): Ends(-1, -1, -1, errors.TOPIC_AUTHORIZATION_FAILED),
            }
            assert describe_producers(client, NODE, {"seen": [0]}) == {
                ("seen", 0): Producers(errors.TOPIC_AUTHORIZATION_FAILED, ())
            }
            assert describe_groups(client, NODE, ["some-group"]) == {"some-group": None}
            assert committed(client, NODE, ["some-group"], require_stable=True)["some-group"] == (GROUP_REFUSED, {})
            refused = write_marker(
                client,
                NODE,
                topic="seen",
                partition=0,
                producer_id=0,
                producer_epoch=0,
                coordinator_epoch=0,
                commit=False,
            )
            assert refused == CLUSTER_REFUSED
