"""Tests that a topic on a real broker gets findings as CloudEvents. A topic of the watched cluster gets them only with
`allow_watched_cluster`."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import closing

import pytest
from confluent_kafka import Consumer, Message, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from deploy.demo.broker import Broker
from service.notifications.configuration import NotifyTable
from service.notifications.notification import Receiver, Undelivered
from service.notifications.receivers import receiver_of
from tests.helpers.brokers import on_broker
from tests.helpers.waiting import LIMIT_S
from tests.service.notifications.receiving import BASE, notification

pytestmark = pytest.mark.broker


@pytest.fixture
def topic(broker: Broker) -> Iterator[str]:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    admin.create_topics([NewTopic("findings", 1, 1, config={"cleanup.policy": "compact"})])["findings"].result(LIMIT_S)
    yield "findings"
    admin.delete_topics(["findings"])["findings"].result(LIMIT_S)


def receiver(broker: Broker, topic: str, watched: list[str], *, allowed: bool = False) -> Receiver:
    table = NotifyTable(
        name="topic", kind="kafka", url=f"kafka://{broker.bootstrap}/{topic}", allow_watched_cluster=allowed
    )
    return receiver_of(table, BASE, lambda: watched)


def read(broker: Broker, topic: str, number: int) -> Sequence[Message]:
    settings = {"bootstrap.servers": broker.bootstrap, "group.id": "test", "auto.offset.reset": "earliest"}
    with closing(Consumer(settings)) as consumer:
        consumer.assign([TopicPartition(topic, 0, 0)])
        found: Sequence[Message] = consumer.consume(number, LIMIT_S)
        return found


@on_broker("4.3.1")
def test_each_event_is_a_cloud_event_under_the_key_of_its_finding(broker: Broker, topic: str) -> None:
    with closing(receiver(broker, topic, ["another cluster"])) as sending:
        sending.send([notification(7), notification(8, name=b"other"), notification(9, "resolved")])
        messages = read(broker, topic, 3)
    assert [message.key() for message in messages] == [b"id-of-pay", b"id-of-other", b"id-of-pay"]
    assert dict(messages[0].headers() or [])["content-type"] == b"application/cloudevents+json; charset=UTF-8"
    first, _, last = (json.loads(message.value() or b"") for message in messages)
    assert (first["specversion"], first["id"], first["source"]) == ("1.0", "id-of-pay-7-opened", "/clusters/orders")
    assert (first["type"], last["type"]) == ("io.txnscope.finding.opened", "io.txnscope.finding.resolved")
    assert last["data"]["finding"]["status"] == "resolved"


@on_broker("3.9.2")
def test_the_watched_cluster_gets_none_unless_it_is_allowed(broker: Broker, topic: str) -> None:
    cluster_id = AdminClient({"bootstrap.servers": broker.bootstrap}).list_topics(timeout=LIMIT_S).cluster_id
    with pytest.raises(Undelivered, match=f"watched cluster {cluster_id}"):
        receiver(broker, topic, [cluster_id]).send([notification()])
    with closing(receiver(broker, topic, [cluster_id], allowed=True)) as sending:
        sending.send([notification()])
    assert len(read(broker, topic, 1)) == 1


def test_a_topic_that_does_not_exist_is_named(broker_431: Broker) -> None:
    with (
        closing(receiver(broker_431, "nowhere", [])) as sending,
        pytest.raises(Undelivered, match=r"nowhere: .*nknown topic") as e,
    ):
        sending.send([notification()])
    assert e.value.taken == 0


def test_brokers_that_do_not_answer_are_named() -> None:
    table = NotifyTable(name="topic", kind="kafka", url="kafka://127.0.0.1:1/findings")
    with pytest.raises(Undelivered):
        receiver_of(table, BASE, list).send([notification()])
