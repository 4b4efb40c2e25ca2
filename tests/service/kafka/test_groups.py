"""Groups of real brokers: what they committed, what a transaction keeps from them, who their members are."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from confluent_kafka import Consumer, TopicPartition

from deploy.demo.broker import Broker
from service.kafka import errors
from service.kafka.client import KafkaClient
from service.kafka.group_descriptions import GroupMembers, describe_groups
from service.kafka.groups import (
    UNSTABLE_OFFSET_COMMIT,
    Committed,
    GroupOffsets,
    ListedGroup,
    committed,
    coordinators_of,
    list_groups,
)
from tests.helpers.brokers import connect
from tests.helpers.commits import commit_offsets
from tests.helpers.waiting import ANSWER_S, wait_until_equal
from tests.integration.producers import NULL_LOGGER, open_producer
from tests.service.kafka.asking import new_topic

pytestmark = pytest.mark.broker

NODE = 1
OFFSET_FETCH, FIND_COORDINATOR = 9, 10


@contextmanager
def consumer(bootstrap: str, group: str, **properties: str) -> Iterator[Consumer]:
    found = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": group, "enable.auto.commit": False, "logger": NULL_LOGGER}
        | properties
    )
    try:
        yield found
    finally:
        found.close()


def commit(bootstrap: str, group: str, topic: str, offsets: dict[int, int]) -> None:
    with consumer(bootstrap, group) as one:
        commit_offsets(one, {(topic, partition): offset for partition, offset in offsets.items()})


@pytest.mark.parametrize("batched", [True, False])
def test_a_commit_in_an_open_transaction_is_unstable(
    broker: Broker, client: KafkaClient, monkeypatch: pytest.MonkeyPatch, batched: bool
) -> None:
    topic = f"unstable-{batched}"
    group, other = f"{topic}-group", f"{topic}-other"
    new_topic(client, broker.bootstrap, topic, 3)
    commit(broker.bootstrap, group, topic, {0: 5, 1: 7})
    commit(broker.bootstrap, other, topic, {0: 3})
    if not batched:  # as brokers before 3.0
        newer = client.version_of
        monkeypatch.setattr(
            client, "version_of", lambda api: {OFFSET_FETCH: 7, FIND_COORDINATOR: 3}.get(api, newer(api))
        )
    assert coordinators_of(client, [group, other]) == {group: NODE, other: NODE}
    producer = open_producer(broker.bootstrap, topic)
    producer.begin_transaction()
    with consumer(broker.bootstrap, group) as one:
        pending = [TopicPartition(topic, 1, 9), TopicPartition(topic, 2, 1)]
        producer.send_offsets_to_transaction(pending, one.consumer_group_metadata(), ANSWER_S)
    unstable, known = Committed(-1, UNSTABLE_OFFSET_COMMIT), Committed(5, errors.NONE)
    try:
        assert committed(client, NODE, [group, other], require_stable=False) == {
            group: GroupOffsets(errors.NONE, {(topic, 0): known, (topic, 1): Committed(7, errors.NONE)}),
            other: GroupOffsets(errors.NONE, {(topic, 0): Committed(3, errors.NONE)}),
        }
        stable = committed(client, NODE, [group, other], require_stable=True)
        assert stable[group].offsets == {(topic, 0): known, (topic, 1): unstable}
        assert stable[other].offsets == {(topic, 0): Committed(3, errors.NONE)}
        places = {group: [(topic, 0), (topic, 1), (topic, 2)]}
        named = committed(client, NODE, [group], require_stable=True, places=places)
        assert named[group].offsets == {(topic, 0): known, (topic, 1): unstable, (topic, 2): unstable}
    finally:
        producer.commit_transaction(ANSWER_S)

    decided = {
        (topic, 0): known,
        (topic, 1): Committed(9, errors.NONE),
        (topic, 2): Committed(1, errors.NONE),
    }
    wait_until_equal(
        lambda: committed(client, NODE, [group], require_stable=True)[group].offsets, decided, "the group's offsets"
    )


NOBODY = GroupMembers(0, frozenset())


def test_members_come_and_go_with_what_is_assigned_to_them(broker: Broker, client: KafkaClient) -> None:
    new_topic(client, broker.bootstrap, "joined", 2)
    commit(broker.bootstrap, "joined-empty", "joined", {0: 1})
    groups = ["joined", "joined-empty", "joined-missing"]
    with consumer(broker.bootstrap, "joined") as one, consumer(broker.bootstrap, "joined") as two:
        for each in (one, two):
            each.subscribe(["joined"])

        def both() -> dict[str, GroupMembers | None]:
            for each in (one, two):
                each.poll(0.1)
            return describe_groups(client, NODE, groups)

        joined = GroupMembers(2, frozenset({("joined", 0), ("joined", 1)}))
        wait_until_equal(both, {"joined": joined, "joined-empty": NOBODY, "joined-missing": None}, "the members")
        listed = {g.group: g for g in list_groups(client, NODE)}
        assert listed["joined"].protocol_type == "consumer"
        assert listed["joined-empty"] in (ListedGroup("joined-empty", t, "Empty") for t in ("", "consumer"))
        assert "joined-missing" not in listed
    wait_until_equal(
        lambda: describe_groups(client, NODE, ["joined"]), {"joined": NOBODY}, "the members that have left"
    )
    assert describe_groups(client, NODE, []) == {}
    assert coordinators_of(client, []) == {}


def test_members_of_the_newer_group_protocol(broker_431: Broker) -> None:
    groups = ["joined-848", "joined-848-too"]
    with connect(broker_431.bootstrap) as client:
        new_topic(client, broker_431.bootstrap, "joined-848", 2)
        newer = {"group.protocol": "consumer"}
        with (
            consumer(broker_431.bootstrap, groups[0], **newer) as one,
            consumer(broker_431.bootstrap, groups[1], **newer) as two,
        ):
            for each in (one, two):
                each.subscribe(["joined-848"])

            def joined() -> dict[str, GroupMembers | None]:
                for each in (one, two):
                    each.poll(0.1)
                return describe_groups(client, NODE, groups)

            each_has_all = GroupMembers(1, frozenset({("joined-848", 0), ("joined-848", 1)}))
            wait_until_equal(joined, dict.fromkeys(groups, each_has_all), "the members")
        wait_until_equal(
            lambda: describe_groups(client, NODE, groups), dict.fromkeys(groups, NOBODY), "the members that have left"
        )
