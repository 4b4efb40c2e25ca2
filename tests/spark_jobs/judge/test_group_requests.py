"""Tests that the offsets of groups combine two sources: the answers of the groups' coordinator, and the commits in the
batches of open transactions."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import pytest

from service.domain.partitions.facts import TopicPartition
from service.domain.partitions.group_offsets import GroupOffset, IsolationLevel, offsets_partition
from service.domain.reasons.unread import ShareLevelNotReported, ShareOffsetsNotReported
from service.kafka import errors
from service.kafka.client import KafkaClient
from service.kafka.group_descriptions import GroupMembers
from service.kafka.groups import UNSTABLE_OFFSET_COMMIT, Committed, GroupOffsets
from service.kafka.share_groups import ShareGroupOffsets, ShareOffset
from spark_jobs.judge import group_requests
from spark_jobs.judge.group_requests import GroupsAnswer
from spark_jobs.judge.group_rounds import Stalls

NODE, PID = 1, 7
ORDERS, PAY = ("orders", 0), ("pay", 0)
NOW = Stalls(frozenset(), frozenset({offsets_partition("billing", 50)}), 50)
DENIED = GroupOffsets(30, {})
NO_TOPIC = Committed(-1, errors.TOPIC_AUTHORIZATION_FAILED)
NOTHING = Committed(-1, errors.NONE)
HELD = Committed(-1, UNSTABLE_OFFSET_COMMIT)


class Coordinator:
    """Stands in for a coordinator. OffsetFetch for all partitions returns `stable`. OffsetFetch for named partitions
    returns `named` if the request requires stable offsets, and otherwise the earlier commits in `before`. Each group
    has two members, to which the partitions in `assigned` belong; the permission DESCRIBE on the group "denied" is
    missing."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.stable: dict[str, GroupOffsets] = {}
        self.named: dict[TopicPartition, Committed] = {}
        self.before: dict[TopicPartition, int] = {}
        patch.setattr(group_requests, "committed", self._committed)
        self.assigned: frozenset[TopicPartition] = frozenset()
        patch.setattr(
            group_requests,
            "describe_groups",
            lambda _, __, groups: {g: None if g == "denied" else GroupMembers(2, self.assigned) for g in groups},
        )

    def _committed(
        self,
        _: object,
        node: int,
        groups: Sequence[str],
        require_stable: bool,
        places: Mapping[str, Collection[TopicPartition]] | None = None,
    ) -> dict[str, GroupOffsets]:
        assert node == NODE
        if places is None:
            return {group: self.stable.get(group, GroupOffsets(errors.NONE, {})) for group in groups}
        assert set(groups) == places.keys()
        if not require_stable:
            found = {g: {p: Committed(self.before.get(p, -1), errors.NONE) for p in places[g]} for g in groups}
        else:
            found = {g: {p: self.named[p] for p in places[g]} for g in groups}
        return {group: GroupOffsets(errors.NONE, offsets) for group, offsets in found.items()}

    def ask(
        self, pending: Mapping[str, Mapping[TopicPartition, int]], *groups: str, stalled: Stalls = NOW
    ) -> GroupsAnswer:
        client: KafkaClient = object()  # type: ignore[assignment]
        return group_requests.ask_groups(client, NODE, groups or ("billing",), stalled, pending)


@pytest.fixture
def coordinator(monkeypatch: pytest.MonkeyPatch) -> Coordinator:
    return Coordinator(monkeypatch)


def test_a_group_with_only_pending_offsets_is_requested_by_name(coordinator: Coordinator) -> None:
    coordinator.named = {ORDERS: HELD, PAY: HELD}
    answered = coordinator.ask({"billing": {ORDERS: PID}})
    assert answered.rows == [GroupOffset("billing", *ORDERS, -1, 2, True, PID)]
    assert answered.topics == {"billing": {"orders"}}


def test_a_pending_offset_has_the_committed_one_and_its_producer_id(coordinator: Coordinator) -> None:
    coordinator.stable = {"billing": GroupOffsets(errors.NONE, {ORDERS: HELD, PAY: HELD})}
    coordinator.before = {ORDERS: 5, PAY: 6}
    rows = coordinator.ask({"billing": {ORDERS: PID}}).rows
    assert rows == [
        GroupOffset("billing", *ORDERS, 5, 2, True, PID),
        GroupOffset("billing", *PAY, 6, 2, True, None),
    ]


def test_the_coordinators_answer_overrides_the_commits_in_batches(coordinator: Coordinator) -> None:
    """If the coordinator reports no pending offset, the transaction has ended or the offset was deleted, and no member
    waits."""
    coordinator.named = {ORDERS: NOTHING, PAY: Committed(9, errors.NONE)}
    assert coordinator.ask({"billing": {ORDERS: PID, PAY: PID}}).rows == []


def test_batches_replace_what_the_coordinator_refuses_to_return(coordinator: Coordinator) -> None:
    coordinator.stable = {"denied": DENIED}
    coordinator.named = {PAY: NO_TOPIC}
    answered = coordinator.ask({"denied": {ORDERS: PID}, "billing": {PAY: PID}}, "denied", "billing", "other")
    assert answered.rows == [
        GroupOffset("billing", *PAY, -1, 2, True, PID),
        GroupOffset("denied", *ORDERS, -1, None, True, PID),
    ]
    assert answered.denied == {"denied"}
    coordinator.stable = {"billing": GroupOffsets(16, {})}  # NOT_COORDINATOR: another broker has the group
    assert coordinator.ask({"billing": {ORDERS: PID}}) == GroupsAnswer([], {}, frozenset(), True)


def test_members_without_an_offset_on_a_stalled_partition_have_a_row(coordinator: Coordinator) -> None:
    stalled = Stalls(frozenset({ORDERS, PAY}), frozenset(), 50)
    coordinator.assigned = frozenset({ORDERS, PAY, ("calm", 0)})
    coordinator.stable = {"billing": GroupOffsets(errors.NONE, {PAY: Committed(3, errors.NONE)})}
    answered = coordinator.ask({}, stalled=stalled)
    assert answered.rows == [
        GroupOffset("billing", *PAY, 3, 2, False),
        GroupOffset("billing", *ORDERS, -1, 2, False),
    ]
    assert answered.topics == {"billing": {"orders", "pay", "calm"}}, (
        "the topics of the group now include orders, so the group is asked often"
    )


def test_an_offset_that_may_not_be_read_or_is_pending_is_not_missing(coordinator: Coordinator) -> None:
    stalled = Stalls(frozenset({ORDERS, PAY}), frozenset(), 50)
    coordinator.assigned = frozenset({ORDERS, PAY})
    coordinator.stable = {"billing": GroupOffsets(errors.NONE, {PAY: NO_TOPIC, ORDERS: HELD})}
    (group_offset,) = coordinator.ask({}, stalled=stalled).rows
    assert (group_offset.topic, group_offset.is_unstable) == ("orders", True)


STALLED = Stalls(frozenset({ORDERS, PAY}), frozenset(), 50)


def ask_share(patch: pytest.MonkeyPatch, **answers: Any) -> GroupsAnswer:
    """Returns the answer about the share groups `jobs` and `workers`, while orders-0 and pay-0 are stalled. `answers`
    maps the name of a function that `group_requests` calls to the function's result."""
    defaults = {"reports_offsets": True, "share_offsets": {}, "isolation_levels": {}, "describe_share_groups": {}}
    for name, answer in (defaults | answers).items():
        patch.setattr(group_requests, name, lambda *_, answer=answer: answer)
    client: KafkaClient = object()  # type: ignore[assignment]
    return group_requests.ask_share_groups(client, NODE, ["jobs", "workers"], STALLED)


def test_a_share_group_has_its_isolation_level_lag_and_members(monkeypatch: pytest.MonkeyPatch) -> None:
    offsets = {ORDERS: ShareOffset(6, 5), ("calm", 0): ShareOffset(1, 0)}
    answered = ask_share(
        monkeypatch,
        share_offsets={"jobs": ShareGroupOffsets(errors.NONE, offsets), "workers": ShareGroupOffsets(30, {})},
        isolation_levels={"jobs": "read_committed"},
        describe_share_groups={"jobs": GroupMembers(3, frozenset({ORDERS, PAY}))},
    )
    assert answered.rows == [
        GroupOffset("jobs", *ORDERS, 6, 3, False, isolation=IsolationLevel.READ_COMMITTED),
        GroupOffset("jobs", *PAY, -1, 3, False, isolation=IsolationLevel.READ_COMMITTED),
    ]
    assert answered.lags == {("jobs", *ORDERS): 5}
    assert answered.topics == {"jobs": {"orders", "pay", "calm"}}
    assert answered.denied == {"workers"}
    assert answered.not_judged == {}


def test_a_share_group_whose_offset_could_not_be_read_has_no_row(monkeypatch: pytest.MonkeyPatch) -> None:
    """The group has members, but its offset could not be read. This does not prove that the offset is missing."""
    answered = ask_share(
        monkeypatch,
        share_offsets={"jobs": ShareGroupOffsets(errors.NONE, {ORDERS: None})},
        isolation_levels={"jobs": "read_committed"},
        describe_share_groups={"jobs": GroupMembers(1, frozenset({ORDERS}))},
    )
    assert answered.rows == []


def test_share_groups_without_a_level_or_offsets_are_not_judged(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = {"jobs": ShareGroupOffsets(errors.NONE, {ORDERS: ShareOffset(6, 5)}), "workers": ShareGroupOffsets(16, {})}
    answered = ask_share(monkeypatch, share_offsets=seen, isolation_levels={"jobs": None})
    assert (answered.rows, answered.not_judged) == ([], {"jobs": ShareLevelNotReported()})
    assert answered.has_moved
    old = ask_share(monkeypatch, reports_offsets=False)
    assert old.not_judged == dict.fromkeys(("jobs", "workers"), ShareOffsetsNotReported())
    assert old.topics_of("jobs") == set(), "share groups that cannot be judged are not asked often"
