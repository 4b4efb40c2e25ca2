"""Tests of the canary's names, and of the partitions that the canary's transactions use."""

from __future__ import annotations

import pytest

from service.domain.canary.rounds import Failure, Phase
from service.domain.canary.targets import (
    Layout,
    Replicated,
    absence,
    assignment,
    canary_id,
    coordinators,
    explained,
    is_canary_id,
    is_canary_topic,
    target_of,
)
from service.domain.transaction_log.coordinator_partition import partition_of

BOTH = frozenset({1, 2})


def layout(log: dict[int, tuple[int, int]], topic: dict[int, int], brokers: frozenset[int] = BOTH) -> Layout:
    """Returns a layout. `log` maps each partition of the transaction log to (leader, number of replicas in sync).
    `topic` maps each partition of the canary's topic to its leader."""
    return Layout(
        brokers,
        tuple(Replicated(partition, leader, 3, in_sync) for partition, (leader, in_sync) in log.items()),
        tuple(Replicated(partition, leader, 3, 3) for partition, leader in topic.items()),
        2,
    )


WHOLE = layout({0: (1, 3), 1: (2, 3), 2: (1, 3)}, {0: 1, 1: 2})


@pytest.mark.parametrize("count", [1, 3, 50])
def test_each_id_belongs_to_its_partition_of_the_log(count: int) -> None:
    ids = [canary_id("c0ffee", partition, count) for partition in range(count)]
    assert [partition_of(transactional_id, count) for transactional_id in ids] == list(range(count))
    assert all(is_canary_id(transactional_id.encode()) for transactional_id in ids)


def test_nothing_of_an_application_is_taken_for_the_canarys() -> None:
    assert not is_canary_id(b"payments-1")
    assert not is_canary_id(None)
    assert not is_canary_topic("orders")
    assert is_canary_topic("eu.txnscope-canary.v1")


def test_each_broker_has_a_partition_that_it_leads_itself() -> None:
    for broker in (1, 2):
        target = target_of(WHOLE, broker, "t")
        assert target is not None
        assert WHOLE.log[target.log_partition].leader == broker
        assert (WHOLE.topic[target.topic_partition].leader, target.leader) == (broker, broker)


def test_an_id_is_used_again_while_its_partition_stays() -> None:
    before = target_of(layout({0: (2, 3), 2: (1, 3)}, {0: 1}), 1, "t")
    assert before is not None
    assert target_of(layout({0: (1, 3), 2: (1, 3)}, {0: 1}), 1, "t", before) == before


def test_the_partition_with_the_fewest_replicas_in_sync_is_probed() -> None:
    before = target_of(WHOLE, 1, "t")
    target = target_of(layout({0: (1, 3), 1: (2, 3), 2: (1, 1)}, {0: 1, 1: 2}), 1, "t", before)
    assert target is not None
    assert target.log_partition == 2


def test_a_broker_that_is_gone_fails_by_name_and_an_idle_one_does_not() -> None:
    without = layout({0: (2, 2), 1: (2, 2), 2: (2, 2)}, {0: 2, 1: 2}, frozenset({2}))
    assert target_of(without, 1, "t") is None
    assert absence(without, 1) == Failure(
        Phase.COORDINATOR, "BROKER_NOT_AVAILABLE", "the broker is not among the cluster's live brokers"
    )
    idle = layout({0: (2, 3), 1: (2, 3), 2: (2, 3)}, {0: 1, 1: 2})
    assert (target_of(idle, 1, "t"), absence(idle, 1)) == (None, None)


def test_a_timeout_is_explained_by_the_replicas_that_are_missing() -> None:
    timed_out = Failure(Phase.COMMIT, "REQUEST_TIMED_OUT", "no answer within 4 s")
    lacking = layout({0: (1, 1), 1: (2, 3)}, {0: 1, 1: 2})
    target, other = target_of(lacking, 1, "t"), target_of(lacking, 2, "t")
    assert target is not None
    assert other is not None
    assert explained(timed_out, lacking, target) == Failure(
        Phase.COMMIT,
        "NOT_ENOUGH_REPLICAS",
        "partition 0 of __transaction_state has 1 of 3 replicas in sync, and needs 2",
    )
    assert explained(timed_out, lacking, other) == timed_out
    denied = Failure(Phase.COMMIT, "TRANSACTIONAL_ID_AUTHORIZATION_FAILED", "")
    assert explained(denied, lacking, target) == denied
    unseen = Failure(Phase.VISIBLE, "REQUEST_TIMED_OUT", "the record was not seen within 4 s")
    assert explained(unseen, lacking, target) == unseen, "the commit was written to the log"


def test_a_log_with_one_replica_needs_no_second_one() -> None:
    single = Layout(frozenset({1}), (Replicated(0, 1, 1, 1),), (Replicated(0, 1, 1, 1),), 2)
    target = target_of(single, 1, "t")
    assert target is not None
    timed_out = Failure(Phase.COMMIT, "REQUEST_TIMED_OUT", "")
    assert explained(timed_out, single, target) == timed_out


def test_all_that_coordinate_are_probed_unless_some_are_chosen() -> None:
    leads = layout({0: (1, 3), 1: (-1, 0), 2: (1, 3)}, {0: 1})
    assert coordinators(leads, ()) == [1]
    assert coordinators(leads, (2,)) == [2]
    assert leads.leaderless == 1


def test_the_topic_has_a_partition_for_each_broker_and_no_more_replicas_than_brokers() -> None:
    assert assignment([3, 1, 2], 2) == [[1, 2], [2, 3], [3, 1]]
    assert assignment([7], 3) == [[7]]
