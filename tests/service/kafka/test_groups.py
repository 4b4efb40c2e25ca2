"""Tests of groups on real brokers: commits, members, and offsets pending in a transaction.

For share groups (KIP-932), the tests build the answers from Kafka's schemas.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition

from deploy.demo.broker import Broker
from service.kafka import errors
from service.kafka.client import KafkaClient
from service.kafka.errors import KafkaUnavailable
from service.kafka.group_descriptions import GroupMembers, describe_groups, describe_share_groups
from service.kafka.groups import (
    UNSTABLE_OFFSET_COMMIT,
    Committed,
    GroupOffsets,
    ListedGroup,
    committed,
    coordinators_of,
    list_groups,
)
from service.kafka.raw import RawAnswer, RawRequest
from service.kafka.share_groups import (
    ShareGroupOffsets,
    ShareOffset,
    isolation_levels,
    reports_offsets,
    share_offsets,
)
from tests.helpers.brokers import connect
from tests.helpers.commits import commit_offsets
from tests.helpers.waiting import ANSWER_S, wait_until_equal
from tests.integration.producers import NULL_LOGGER, open_producer
from tests.service.kafka.asking import new_topic
from tests.service.kafka.test_streams_members import EMPTY, NO_TAGS, NULL, array, int32, text

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


@pytest.mark.broker
@pytest.mark.parametrize("batched", [True, False])
def test_a_commit_in_an_open_transaction_is_unstable(
    broker: Broker, client: KafkaClient, monkeypatch: pytest.MonkeyPatch, batched: bool
) -> None:
    topic = f"unstable-{batched}"
    group, other = f"{topic}-group", f"{topic}-other"
    new_topic(client, broker.bootstrap, topic, 3)
    commit(broker.bootstrap, group, topic, {0: 5, 1: 7})
    commit(broker.bootstrap, other, topic, {0: 3})
    if not batched:  # the newest versions that brokers before 3.0 have
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


@pytest.mark.broker
def test_members_come_and_go_with_their_assigned_partitions(broker: Broker, client: KafkaClient) -> None:
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
        lambda: describe_groups(client, NODE, ["joined"]), {"joined": NOBODY}, "no members, because all have left"
    )
    assert describe_groups(client, NODE, []) == {}
    assert coordinators_of(client, []) == {}


@pytest.mark.broker
def test_members_of_the_newer_group_protocol_are_described(broker_431: Broker) -> None:
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
            lambda: describe_groups(client, NODE, groups),
            dict.fromkeys(groups, NOBODY),
            "no members, because all have left",
        )


UUID = bytes(16)
DENIED = 30


class Answering:
    """A broker that gives a fixed answer: bytes or a decoded object."""

    def __init__(self, answer: Any, **versions: int) -> None:
        self.answer, self.versions = answer, versions
        self.asked: list[tuple[int, bytes]] = []

    def version_of(self, api_key: int) -> int:
        return self.versions.get(f"api{api_key}", -1)

    def ask(self, request: Any, node: int) -> Any:
        assert node == NODE
        if isinstance(request, RawRequest):
            self.asked.append((request.API_VERSION, request._body))
            return RawAnswer(self.answer)
        return self.answer

    @property
    def client(self) -> KafkaClient:
        return self  # type: ignore[return-value]


def partition(number: int, start: int, lag: int | None, error: int = 0) -> bytes:
    lag_bytes = b"" if lag is None else struct.pack(">q", lag)
    return int32(number) + struct.pack(">qi", start, 0) + lag_bytes + struct.pack(">h", error) + NULL + NO_TAGS


def group(name: str, *partitions: bytes, error: int = 0) -> bytes:
    topics = array(text("orders") + UUID + array(*partitions) + NO_TAGS) if partitions else EMPTY
    return text(name) + topics + struct.pack(">h", error) + NULL + NO_TAGS


def answer(*groups: bytes) -> bytes:
    return int32(0) + array(*groups) + NO_TAGS


def test_both_versions_of_share_group_offsets_are_decoded() -> None:
    newest = answer(
        group("a", partition(0, 6, 5), partition(1, -1, -1), partition(2, 7, 1, error=29)), group("b", error=DENIED)
    )
    broker = Answering(newest, api90=1)
    assert share_offsets(broker.client, NODE, ["a", "b"]) == {
        "a": ShareGroupOffsets(
            0, {("orders", 0): ShareOffset(6, 5), ("orders", 1): ShareOffset(-1, -1), ("orders", 2): None}
        ),
        "b": ShareGroupOffsets(DENIED, {}),
    }
    assert broker.asked == [(1, array(text("a") + b"\0\0", text("b") + b"\0\0") + NO_TAGS)]
    older = Answering(answer(group("a", partition(0, 6, None))), api90=0)
    assert share_offsets(older.client, NODE, ["a"])["a"].offsets == {("orders", 0): ShareOffset(6, -1)}
    assert share_offsets(older.client, NODE, []) == {}
    for broken in (newest[:-9], answer()[:-2] + NULL + NO_TAGS):
        with pytest.raises(KafkaUnavailable):
            share_offsets(Answering(broken, api90=1).client, NODE, ["a"])


def test_brokers_without_the_api_report_no_share_group_offsets() -> None:
    assert not reports_offsets(Answering(b"").client)
    assert reports_offsets(Answering(b"", api90=0).client)


def test_share_groups_have_the_isolation_level_of_their_config() -> None:
    def result(name: str, error: int, *configs: tuple[str, str]) -> SimpleNamespace:
        values = [SimpleNamespace(name=key, value=value) for key, value in configs]
        return SimpleNamespace(resource_name=name, error_code=error, configs=values)

    results = [result("a", 0, ("share.isolation.level", "read_committed")), result("b", DENIED), result("c", 0)]
    found = isolation_levels(Answering(SimpleNamespace(results=results)).client, NODE, ["a", "b", "c"])
    assert found == {"a": "read_committed", "b": None, "c": None}


def test_share_group_members_have_their_assigned_partitions() -> None:
    assigned = array(UUID + text("orders") + array(int32(0), int32(1)) + NO_TAGS)
    one = text("member") + NULL + int32(2) + text("client") + text("/127.0.0.1") + array(text("orders"))
    described = (
        struct.pack(">h", 0)
        + NULL
        + text("a")
        + text("Stable")
        + int32(3, 3)
        + text("simple")
        + array(one + assigned + NO_TAGS + NO_TAGS)
        + int32(-(1 << 31))
        + NO_TAGS
    )
    found = describe_share_groups(Answering(answer(described), api77=1).client, NODE, ["a", "b"])
    assert found == {"a": GroupMembers(1, frozenset({("orders", 0), ("orders", 1)})), "b": None}
    assert describe_share_groups(Answering(b"", api77=0).client, NODE, ["a"]) == {"a": None}
