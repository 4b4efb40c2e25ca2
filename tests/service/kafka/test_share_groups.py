"""Start offsets, levels and members of share groups (KIP-932): bytes by the schema."""

from __future__ import annotations

import struct
from types import SimpleNamespace
from typing import Any

import pytest

from service.kafka.client import KafkaClient
from service.kafka.errors import KafkaUnavailable
from service.kafka.group_descriptions import GroupMembers, describe_share_groups
from service.kafka.raw import RawAnswer, RawRequest
from service.kafka.share_groups import (
    DESCRIBE_SHARE_GROUP_OFFSETS,
    ShareGroupOffsets,
    ShareOffset,
    isolation_levels,
    reports_offsets,
    share_offsets,
)
from tests.service.kafka.test_streams_members import EMPTY, NO_TAGS, NULL, array, int32, text

NODE = 1
UUID = bytes(16)
DENIED = 30


class Answering:
    """A broker that answers with these bytes, or this object."""

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


def test_offsets_of_both_versions() -> None:
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
    with pytest.raises(KafkaUnavailable):
        share_offsets(Answering(newest[:-9], api90=1).client, NODE, ["a"])


def test_brokers_that_do_not_report_offsets() -> None:
    assert not reports_offsets(Answering(b"").client)
    assert reports_offsets(Answering(b"", **{f"api{DESCRIBE_SHARE_GROUP_OFFSETS}": 0}).client)


def test_levels() -> None:
    def result(name: str, error: int, *configs: tuple[str, str]) -> SimpleNamespace:
        values = [SimpleNamespace(name=key, value=value) for key, value in configs]
        return SimpleNamespace(resource_name=name, error_code=error, configs=values)

    results = [result("a", 0, ("share.isolation.level", "read_committed")), result("b", DENIED), result("c", 0)]
    found = isolation_levels(Answering(SimpleNamespace(results=results)).client, NODE, ["a", "b", "c"])
    assert found == {"a": "read_committed", "b": None, "c": None}


def test_members_and_what_is_assigned_to_them() -> None:
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
