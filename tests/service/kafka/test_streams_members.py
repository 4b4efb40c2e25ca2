"""Tests of the members of streams groups (KIP-1071), from bytes that the tests build by Kafka's schema, and from a real
broker."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from deploy.demo.broker import Broker
from service.kafka.client import KafkaClient
from service.kafka.group_descriptions import GroupMembers, describe_groups
from service.kafka.groups import coordinators_of, list_groups
from service.kafka.raw import RawAnswer, RawRequest
from tests.helpers.brokers import connect
from tests.helpers.builders.numbers import uvarint
from tests.helpers.waiting import wait_until, wait_until_equal
from tests.service.kafka.asking import new_topic

NODE = 1
CONSUMER_GROUP_DESCRIBE, HEARTBEAT, STREAMS_GROUP_DESCRIBE = 69, 88, 89
GROUP_ID_NOT_FOUND = 69
LOADING = 14, 15, 16  # the coordinator is loading, unavailable, or has moved
NO_TAGS, NULL, EMPTY = b"\0", b"\0", b"\1"
NO_STRUCT, A_STRUCT = b"\xff", b"\1"


def text(value: str) -> bytes:
    return uvarint(len(value.encode()) + 1) + value.encode()


def array(*elements: bytes) -> bytes:
    return uvarint(len(elements) + 1) + b"".join(elements)


def int32(*values: int) -> bytes:
    return struct.pack(f">{len(values)}i", *values)


def topic(name: str, **configs: str) -> bytes:
    """Returns the bytes of a TopicInfo."""
    of_topic = array(*(text(key) + text(value) + NO_TAGS for key, value in configs.items()))
    return text(name) + int32(3) + struct.pack(">h", 1) + of_topic + NO_TAGS


def topology(subtopologies: bytes) -> bytes:
    return A_STRUCT + int32(4) + subtopologies + uvarint(1) + uvarint(9) + uvarint(3) + b"new"  # a tagged field


SUBTOPOLOGY = (
    text("0")
    + array(text("orders"), text("payments"))
    + array(text("by-customer"))
    + array(topic("store-changelog", **{"cleanup.policy": "compact", "retention.ms": "-1"}))
    + array(topic("by-customer"), topic("by-country", unknown=""))
    + NO_TAGS
)
READ = "orders", "payments", "by-customer", "by-country"


def described(error: int, topology_: bytes, members_: Sequence[bytes]) -> bytes:
    """Returns the bytes of a StreamsGroupDescribe v0 answer about one group."""
    return (
        int32(0)
        + uvarint(2)
        + struct.pack(">h", error)
        + (text("no such group") if error else NULL)
        + text("app")
        + text("" if error else "Stable")
        + int32(7, 7)
        + topology_
        + array(*members_)
        + int32(-(1 << 31))
        + NO_TAGS
        + NO_TAGS
    )


class Answering:
    """A broker that knows the group only as a streams group."""

    def __init__(self, answer: bytes, newest: int = STREAMS_GROUP_DESCRIBE) -> None:
        self.answer, self.newest = answer, newest
        self.asked: list[tuple[int, bytes]] = []

    def version_of(self, api_key: int) -> int:
        return 0 if api_key <= self.newest else -1

    def ask(self, request: Any, node: int) -> Any:
        assert node == NODE
        if not isinstance(request, RawRequest):
            return SimpleNamespace(groups=[SimpleNamespace(group_id="app", error_code=0, group_state="Dead")])
        self.asked.append((request.API_KEY, request._body))
        streams = request.API_KEY == STREAMS_GROUP_DESCRIBE
        return RawAnswer(self.answer if streams else described(GROUP_ID_NOT_FOUND, b"", []))

    def members(self) -> GroupMembers | None:
        client: KafkaClient = self  # type: ignore[assignment]
        return describe_groups(client, NODE, ["app"])["app"]


def task(subtopology: str, *partitions: int) -> bytes:
    return text(subtopology) + array(*map(int32, partitions)) + NO_TAGS


def member(number: int, *active: bytes) -> bytes:
    """Returns the bytes of a member with active tasks and a standby task. A standby task reads no topic.

    Even-numbered members also have an endpoint, tags and task offsets.
    """
    is_even = number % 2 == 0
    endpoint = A_STRUCT + text("host") + b"\x1f\x90" + NO_TAGS if is_even else NO_STRUCT
    tags = array(text("zone") + text("a") + NO_TAGS) if is_even else EMPTY
    offsets = array(text("0") + int32(1, 0, 5) + NO_TAGS) if is_even else EMPTY
    tasks = array(*active) + array(task("0", 9)) + EMPTY + NO_TAGS
    head = text(f"member-{number}") + int32(7) + NULL * 2 + text("client") + text("/127.0.0.1") + int32(4)
    return head + text("process") + endpoint + tags + offsets * 2 + tasks * 2 + b"\0" + NO_TAGS


MEMBERS = [member(n, task("0", n)) for n in range(130)]


@pytest.mark.parametrize(
    ("topology_", "count", "topics"),
    [
        (topology(array(SUBTOPOLOGY, SUBTOPOLOGY)), 130, READ),
        (topology(array(SUBTOPOLOGY)), 1, READ),
        (topology(EMPTY), 2, ()),
        (topology(NULL), 0, ()),
        (NO_STRUCT, 1, ()),
    ],
    ids=["two subtopologies", "one", "none", "not known", "no topology"],
)
def test_members_are_found_after_any_topology(topology_: bytes, count: int, topics: Sequence[str]) -> None:
    """In an answer, the topology comes before the members. A task reads, in each topic of its subtopology, the
    partition that has the number of the task."""
    broker = Answering(described(0, topology_, MEMBERS[:count]))
    assert broker.members() == GroupMembers(count, frozenset((t, n) for t in topics for n in range(count)))
    request = array(text("app")) + b"\0" + NO_TAGS
    assert broker.asked == [(CONSUMER_GROUP_DESCRIBE, request), (STREAMS_GROUP_DESCRIBE, request)]


def test_a_missing_group_or_a_short_answer_has_no_members() -> None:
    assert Answering(described(GROUP_ID_NOT_FOUND, NO_STRUCT, [])).members() is None
    whole = described(0, topology(array(SUBTOPOLOGY)), [])
    for size in range(4, whole.index(b"by-country") + 20):
        assert Answering(whole[:size]).members() is None
    older = Answering(b"", newest=CONSUMER_GROUP_DESCRIBE)
    assert older.members() is None
    assert [api_key for api_key, _ in older.asked] == [CONSUMER_GROUP_DESCRIBE]


def heartbeat(client: KafkaClient, group: str, member: str, member_epoch: int, source: str) -> tuple[int, int]:
    """Sends StreamsGroupHeartbeat v0. Epoch 0 joins, with a topology of one source topic, and epoch -1 leaves.

    Returns the error and the member's epoch.
    """
    of_topology = text("0") + array(text(source)) + EMPTY * 5 + NO_TAGS
    body = (
        text(group)
        + text(member)
        + int32(member_epoch, 0)
        + NULL * 2  # instance, rack
        + int32(60_000)
        + (A_STRUCT + int32(0) + array(of_topology) + NO_TAGS if member_epoch == 0 else NO_STRUCT)
        + (NULL if member_epoch > 0 else EMPTY) * 3  # tasks: active, standby, warmup; null: unchanged
        + text(f"process-{member}")
        + NO_STRUCT  # endpoint
        + EMPTY  # client tags
        + NULL * 2  # task offsets
        + b"\0"  # no shutdown is requested
        + NO_TAGS
    )
    answer = client.ask(RawRequest(HEARTBEAT, 0, body, is_flexible=True), NODE).body
    error, size = struct.unpack_from(">4xhB", answer)  # behind the throttle time; size of the message + 1
    at = 7 + max(size - 1, 0)
    (epoch,) = struct.unpack_from(">i", answer, at + max(answer[at], 1))  # behind the member
    return error, epoch


@pytest.mark.broker
def test_members_of_a_streams_group_come_and_go(broker_431: Broker) -> None:
    group, source = "streams-app", "streams-source"
    with connect(broker_431.bootstrap) as client:
        new_topic(client, broker_431.bootstrap, source, 2)

        wait_until_equal(lambda: coordinators_of(client, [group]), {group: NODE}, "the group's coordinator")
        wait_until(
            lambda: heartbeat(client, group, "one", 0, source),
            lambda answer: answer[0] not in LOADING,
            "the first member to join",
        )
        error, epoch = heartbeat(client, group, "two", 0, source)
        assert error == 0
        epochs = {"one": epoch - 1, "two": epoch}

        def assigned() -> GroupMembers | None:
            for member in epochs:
                error, epoch = heartbeat(client, group, member, epochs[member], source)
                epochs[member] = epoch if error == 0 else epochs[member]
            return describe_groups(client, NODE, [group])[group]

        both = GroupMembers(2, frozenset({(source, 0), (source, 1)}))
        wait_until_equal(assigned, both, "the members and their tasks")
        assert {g.protocol_type for g in list_groups(client, NODE) if g.group == group} == {"streams"}
        for member in epochs:
            assert heartbeat(client, group, member, -1, source)[0] == 0
        assert describe_groups(client, NODE, [group]) == {group: GroupMembers(0, frozenset())}
