"""Tests of the times at which coordinators are asked about groups. Without a stall, nothing is asked. While a partition
of a topic is stalled, all groups are asked about, the groups on this topic more often. While only partitions of
`__consumer_offsets` are stalled, only the groups of these partitions are asked about."""

from __future__ import annotations

from service.domain.partitions.blocked_groups import STALLED_AFTER_MS
from service.domain.partitions.group_offsets import OFFSETS_TOPIC, LsoSample, offsets_partition
from spark_jobs.judge.group_rounds import (
    CONCERNED_EVERY_MS,
    GROUPS_AT_ONCE,
    MOST_GROUPS,
    OTHERS_EVERY_MS,
    GroupSchedule,
    Stalls,
    stalled_partitions,
)

NOW_MS = 1_790_000_000_000
ON_ORDERS = Stalls(frozenset({("orders", 0)}), frozenset(), 50)


def rounds(*groups: str, node: int = 1) -> GroupSchedule:
    found = GroupSchedule()
    found.set_listed(dict.fromkeys(groups, node))
    return found


def asked(
    schedule: GroupSchedule, stalled: Stalls, now_ms: int, topics: dict[str, set[str]] | None = None
) -> list[str]:
    """Returns the groups that are due, and notes each of them as asked."""
    due = [group for _, groups in schedule.due(stalled, now_ms) for group in groups]
    for group in due:
        schedule.note_asked(group, now_ms, (topics or {}).get(group, set()))
    return due


def test_only_partitions_that_have_stalled_for_a_while_count() -> None:
    ends = {
        ("orders", 0): LsoSample(5, 9, NOW_MS - STALLED_AFTER_MS),
        ("orders", 1): LsoSample(5, 9, NOW_MS - STALLED_AFTER_MS + 1),
        ("orders", 2): LsoSample(9, 9, None),
        (OFFSETS_TOPIC, 3): LsoSample(5, 9, NOW_MS - STALLED_AFTER_MS),
    }
    assert stalled_partitions(ends, 50, NOW_MS) == Stalls(frozenset({("orders", 0)}), frozenset({3}), 50)
    assert not stalled_partitions(ends, 50, None)
    assert not stalled_partitions({}, None, NOW_MS)


def test_groups_on_a_stalled_topic_are_requested_more_often() -> None:
    schedule = rounds("billing", "other")
    topics = {"billing": {"orders"}, "other": {"else"}}
    assert asked(schedule, ON_ORDERS, NOW_MS, topics) == ["billing", "other"]
    assert asked(schedule, ON_ORDERS, NOW_MS + CONCERNED_EVERY_MS - 1, topics) == []
    assert asked(schedule, ON_ORDERS, NOW_MS + CONCERNED_EVERY_MS, topics) == ["billing"]
    later = asked(schedule, ON_ORDERS, NOW_MS + OTHERS_EVERY_MS, topics)
    assert later == ["billing", "other"]


def test_a_stalled_offsets_partition_causes_requests_for_its_groups_only() -> None:
    names = [f"group-{number}" for number in range(40)]
    home = offsets_partition(names[0], 50)
    here = {name for name in names if offsets_partition(name, 50) == home}
    stalled = Stalls(frozenset(), frozenset({home}), 50)
    assert set(asked(rounds(*names), stalled, NOW_MS)) == here != set(names)
    assert asked(rounds(*names), stalled._replace(offsets_partitions=None), NOW_MS) == []


def test_a_group_is_requested_as_soon_as_its_topic_stalls() -> None:
    schedule = rounds("billing", "other")
    topics = {"billing": {"orders"}, "other": {"else"}}
    asked(schedule, Stalls(frozenset({("else", 0)}), frozenset(), 50), NOW_MS, topics)
    assert asked(schedule, ON_ORDERS, NOW_MS + CONCERNED_EVERY_MS, topics) == ["billing"]


def test_batches_are_bounded_have_one_coordinator_and_forget_no_group() -> None:
    schedule = GroupSchedule()
    schedule.set_listed({f"group-{number:03d}": number % 2 for number in range(3 * GROUPS_AT_ONCE)})
    batches = schedule.due(ON_ORDERS, NOW_MS)
    assert all(len(groups) <= GROUPS_AT_ONCE for _, groups in batches)
    assert all(int(group[-3:]) % 2 == node for node, groups in batches for group in groups)
    assert sum(len(groups) for _, groups in batches) == 3 * GROUPS_AT_ONCE
    (node, first), *_ = batches
    for group in first:  # the round had no time for more groups
        schedule.note_asked(group, NOW_MS, {"orders"})
    later = schedule.due(ON_ORDERS, NOW_MS + CONCERNED_EVERY_MS)
    here = [group for at, groups in later for group in groups if at == node]
    assert here[-len(first) :] == first  # groups that were never asked come first
    assert sum(len(groups) for _, groups in later) == 3 * GROUPS_AT_ONCE


def test_groups_without_answer_are_asked_again_and_unlisted_ones_forgotten() -> None:
    schedule = rounds("billing")
    asked(schedule, ON_ORDERS, NOW_MS, {"billing": {"orders"}})
    schedule.note_asked("billing", NOW_MS + 5, None)
    assert asked(schedule, ON_ORDERS, NOW_MS + 5 + CONCERNED_EVERY_MS) == ["billing"]
    new = rounds("new")
    new.note_asked("new", NOW_MS, None)
    assert asked(new, ON_ORDERS, NOW_MS + CONCERNED_EVERY_MS) == ["new"]
    schedule.set_listed({})
    assert schedule.due(ON_ORDERS, NOW_MS + OTHERS_EVERY_MS) == []


def test_groups_known_by_name_are_requested_without_being_listed() -> None:
    schedule = rounds("other")
    home = offsets_partition("hidden", 50)
    stalled = Stalls(frozenset(), frozenset({home}), 50)
    schedule.set_named({"hidden": 3})
    assert schedule.due(stalled, NOW_MS) == [(3, ["hidden"])]
    assert asked(schedule, stalled, NOW_MS) == ["hidden"]
    schedule.set_listed({"other": 1})
    schedule.set_named({"hidden": 2})
    assert asked(schedule, stalled, NOW_MS + CONCERNED_EVERY_MS - 1) == []
    assert schedule.due(stalled, NOW_MS + CONCERNED_EVERY_MS) == [(2, ["hidden"])]
    schedule.set_named({})
    assert schedule.coordinators == {"other": 1}


def test_groups_that_are_too_many_are_counted() -> None:
    rounds = GroupSchedule()
    rounds.set_listed({f"group-{n:05d}": 1 for n in range(MOST_GROUPS + 3)})
    assert (len(rounds.coordinators), rounds.left_out) == (MOST_GROUPS, 3)
    rounds.set_named({f"group-{MOST_GROUPS:05d}": 1})
    assert rounds.left_out == 2, "a named group is asked in spite of the limit"
    rounds.set_listed({"group": 1})
    assert rounds.left_out == 0
