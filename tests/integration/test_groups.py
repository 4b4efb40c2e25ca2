"""Tests of groups that wait behind real transactions: groups at, below and above the LSO, idle groups, new groups, and
share groups."""

from __future__ import annotations

import time
from contextlib import ExitStack
from pathlib import Path

import pytest
from confluent_kafka import TopicPartition
from sqlalchemy import event

from deploy.demo.broker import Broker
from service.clock import wall_clock_ms
from service.domain.partitions.blocked_groups import STOPPED_AFTER_MS, AffectedGroup, GroupRelation
from service.domain.partitions.group_offsets import OFFSETS_TOPIC
from service.domain.transaction_log.causes import Confidence
from service.kafka.settings import ClientSettings
from tests.conftest import MakeBroker
from tests.helpers import acls
from tests.helpers.acls import BrokerWithAcls
from tests.helpers.commits import commit_idle
from tests.helpers.waiting import ANSWER_S, OPEN_MS, wait_for, wait_until_equal
from tests.integration.group_lab import commit, hold_open, member, read_all, relations, share_consumer, watched, write
from tests.integration.producers import create_topic, open_producer, plain_producer

pytestmark = pytest.mark.broker

ONE_SHARE_COORDINATOR = {
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "share.coordinator.state.topic.num.partitions": "1",
}


def test_groups_behind_an_open_transaction_are_blocked(broker: Broker, tmp_path: Path) -> None:
    topic, calm = f"groups-{broker.version}", f"groups-calm-{broker.version}"
    for name in (topic, calm):
        create_topic(broker.bootstrap, name, 1)
    producer = open_producer(broker.bootstrap, f"groups-open-{broker.version}", OPEN_MS)
    for name in (topic, calm):
        producer.begin_transaction()
        write(producer, name, 3)
        producer.commit_transaction(ANSWER_S)  # the marker is at 3
    names = {name: f"{name}-{broker.version}" for name in ("at", "below", "beyond", "idle", "eos")}
    with ExitStack() as stack:
        for name, offset in {"at": 4, "below": 3, "beyond": 6}.items():
            commit(stack.enter_context(member(broker.bootstrap, names[name], topic)), topic, offset)
        with member(broker.bootstrap, names["idle"], topic) as idle:
            commit(idle, topic, 4)
        eos = stack.enter_context(member(broker.bootstrap, names["eos"], calm))
        commit(eos, calm, 1)
        one = stack.enter_context(watched(broker, tmp_path, topic, calm))
        assert one.stand_and_round() == {}  # every transaction has ended, so no group waits, whatever its lag

        producer.begin_transaction()
        write(producer, topic, 2)
        producer.send_offsets_to_transaction([TopicPartition(calm, 0, 2)], eos.consumer_group_metadata(), ANSWER_S)
        # the LSO was sampled before the request about the group, and may have reached the offset of the group since
        assert names["beyond"] not in relations(one.stand_and_round(), topic)
        found = one.looked()
        assert relations(found, topic) == {
            names["at"]: GroupRelation.STOPPED,
            names["below"]: GroupRelation.WILL_STOP,
            names["beyond"]: GroupRelation.UNKNOWN,
            names["idle"]: GroupRelation.INACTIVE,
        }
        at = found[names["at"], topic, 0]
        assert at.ends is not None
        assert (at.offset.committed_offset, at.stalled_lso, at.ends.high_watermark, at.offset.members) == (4, 4, 6, 1)
        assert found[names["idle"], topic, 0].offset.members == 0
        assert relations(found, calm) == {names["eos"]: GroupRelation.UNSTABLE_OFFSETS}
        pending = found[names["eos"], calm, 0]
        assert pending.offset.committed_offset == 1  # the offset that the group had committed before
        assert pending.ends is not None
        assert pending.ends.last_stable_offset == pending.ends.high_watermark
        home = one.home_of(names["eos"])
        assert (pending.stalled_partition, pending.offsets_partition) == ((OFFSETS_TOPIC, home), home)

        producer.commit_transaction(ANSWER_S)

        wait_until_equal(one.looked, {}, "the blocked groups after the end of all transactions")
        one.watch.round(wall_clock_ms())
        assert one.rows() == 0


def test_above_the_lso_only_movement_shows_that_a_group_reads_uncommitted(broker: Broker, tmp_path: Path) -> None:
    """A read_committed group was reset to the latest offset while the partition was stalled. The group gets no records,
    so its offset does not grow."""
    topic = f"groups-above-{broker.version}"
    reset, dirty = f"reset-{broker.version}", f"dirty-{broker.version}"
    create_topic(broker.bootstrap, topic, 1)
    producer = hold_open(broker.bootstrap, topic, topic, 6)
    plain = plain_producer(broker.bootstrap)
    with watched(broker, tmp_path, topic) as one, ExitStack() as stack:
        one.stand()
        for group in (reset, dirty):
            commit_idle(broker.bootstrap, group, {(topic, 0): 6})
        committed = stack.enter_context(member(broker.bootstrap, reset, topic, isolation_level="read_committed"))
        uncommitted = stack.enter_context(member(broker.bootstrap, dirty, topic, isolation_level="read_uncommitted"))
        assert relations(one.after(5), topic) == {reset: GroupRelation.UNKNOWN, dirty: GroupRelation.UNKNOWN}
        assert relations(one.after(5), topic) == {reset: GroupRelation.UNKNOWN, dirty: GroupRelation.UNKNOWN}, (
            "without new records, neither group moves, so nothing can be concluded"
        )
        for end, confidence in ((8, Confidence.LIKELY), (10, Confidence.CERTAIN)):
            write(plain, topic, 2)
            read_all(uncommitted, topic, end)
            found = one.after(5)
            assert relations(found, topic) == {reset: GroupRelation.UNKNOWN, dirty: GroupRelation.READS_UNCOMMITTED}
            assert found[dirty, topic, 0].confidence == confidence
        for _ in range(0, STOPPED_AFTER_MS, 5_000):
            write(plain, topic, 1)
            assert committed.poll(0.1) is None
            found = one.after(5)
        assert relations(found, topic) == {reset: GroupRelation.STOPPED, dirty: GroupRelation.READS_UNCOMMITTED}
        assert (found[reset, topic, 0].confidence, found[reset, topic, 0].is_blocked) == (Confidence.LIKELY, True)
        producer.abort_transaction(ANSWER_S)
        read_all(committed, topic, 10)
        wait_until_equal(one.looked, {}, "the blocked groups after the end of all transactions")


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_members_without_an_offset_are_likely_blocked(broker_431: Broker, tmp_path: Path, protocol: str) -> None:
    topic, group = f"groups-new-{protocol}", f"new-{protocol}"
    create_topic(broker_431.bootstrap, topic, 2)
    producer = hold_open(broker_431.bootstrap, topic, topic, 3)
    newest = {"group_protocol": protocol, "auto_offset_reset": "earliest", "isolation_level": "read_committed"}
    with watched(broker_431, tmp_path, topic) as one, member(broker_431.bootstrap, group, topic, **newest) as waiting:
        one.stand()

        def seen() -> dict[tuple[str, str, int], AffectedGroup]:
            waiting.poll(0.05)
            return one.after(5)

        first = wait_for(seen, "the group on the stalled partition")
        (found,) = first.values()
        assert (found.key, found.relation, found.offset.committed_offset) == (
            (group, topic, 0),
            GroupRelation.UNKNOWN,
            -1,
        )
        for _ in range(0, STOPPED_AFTER_MS, 5_000):
            (found,) = seen().values()
        assert (found.relation, found.confidence, found.offset.members) == (GroupRelation.STOPPED, Confidence.LIKELY, 1)
        commit(waiting, topic, 0)
        (found,) = seen().values()
        assert (found.relation, found.offset.committed_offset) == (GroupRelation.STOPPED, 0), (
            "the group is stopped at the LSO, offset 0"
        )
        producer.abort_transaction(ANSWER_S)


def test_below_the_lso_only_a_group_without_records_left_is_blocked(broker: Broker, tmp_path: Path) -> None:
    """If a group still has records below the LSO and does not move, the open transaction is not the reason."""
    topic = f"groups-below-{broker.version}"
    names = {name: f"{name}-below-{broker.version}" for name in ("far", "aborted", "short", "slow")}
    create_topic(broker.bootstrap, topic, 1)
    producer = open_producer(broker.bootstrap, topic, OPEN_MS)
    for is_commit in (True, True, False, False):  # markers at 10, 21, 32 and 43
        producer.begin_transaction()
        write(producer, topic, 10)
        (producer.commit_transaction if is_commit else producer.abort_transaction)(ANSWER_S)
    producer.begin_transaction()
    write(producer, topic, 1)
    with watched(broker, tmp_path, topic) as one, ExitStack() as stack:
        members = {name: stack.enter_context(member(broker.bootstrap, names[name], topic)) for name in names}
        for name, offset in {"far": 3, "aborted": 21, "short": 43, "slow": 0}.items():
            commit(members[name], topic, offset)
        one.stand()
        assert set(relations(one.after(5), topic).values()) == {GroupRelation.WILL_STOP}, (
            "no group has been at its offset for long enough to count as stopped"
        )
        soon = relations(one.after(5), topic)
        assert soon == {
            names["far"]: GroupRelation.WILL_STOP,
            names["aborted"]: GroupRelation.STOPPED,
            names["short"]: GroupRelation.STOPPED,
            names["slow"]: GroupRelation.WILL_STOP,
        }
        for step in range(1, STOPPED_AFTER_MS // 5_000 + 1):
            commit(members["slow"], topic, step)
            found = one.after(5)
        assert relations(found, topic) == soon | {names["far"]: GroupRelation.UNKNOWN}
        assert not found[names["far"], topic, 0].is_blocked
        assert found[names["aborted"], topic, 0].confidence == Confidence.LIKELY
        producer.abort_transaction(ANSWER_S)


def test_the_isolation_level_decides_if_a_share_group_is_blocked(make_broker: MakeBroker, tmp_path: Path) -> None:
    broker, topic = make_broker("4.3.1", **ONE_SHARE_COORDINATOR), "groups-share"
    create_topic(broker.bootstrap, topic, 1)
    for group, level in (("waits", "read_committed"), ("reads", "read_uncommitted"), ("empty", "read_committed")):
        configs = f"share.isolation.level={level},share.auto.offset.reset=earliest"
        broker.tool(
            *("kafka.admin.ConfigCommand", "--bootstrap-server", broker.bootstrap, "--alter"),
            *("--entity-type", "groups", "--entity-name", group, "--add-config", configs),
        )
    producer = open_producer(broker.bootstrap, topic, OPEN_MS)
    producer.begin_transaction()
    write(producer, topic, 5)
    producer.commit_transaction(ANSWER_S)  # the marker is at 5
    producer.begin_transaction()
    write(producer, topic, 3)
    with share_consumer(broker, "empty", topic, tmp_path) as gone:
        wait_until_equal(gone, 5, "the number of records read by the group that leaves")
    with (
        share_consumer(broker, "waits", topic, tmp_path) as waits,
        share_consumer(broker, "reads", topic, tmp_path) as reads,
        watched(broker, tmp_path, topic) as one,
    ):
        wait_until_equal(waits, 5, "the number of records read by the read_committed group")
        wait_until_equal(reads, 8, "the number of records read by the read_uncommitted group")
        one.stand()
        expected = {
            "waits": GroupRelation.STOPPED,
            "reads": GroupRelation.READS_UNCOMMITTED,
            "empty": GroupRelation.INACTIVE,
        }
        wait_until_equal(lambda: relations(one.after(5), topic), expected, "the states of the share groups")
        waiting = one.victims()["waits", topic, 0]
        assert (waiting.offset.isolation, waiting.offset.members) == ("read_committed", 1)
        assert waiting.offset.committed_offset <= 6, "the share group may have stored an older start offset"
        assert one.watch.not_judged == {}
        assert waits() == 5
        producer.commit_transaction(ANSWER_S)
        wait_until_equal(one.looked, {}, "the blocked groups after the end of all transactions")


def test_a_group_is_named_by_the_batch_with_its_first_pending_commit(broker: Broker, tmp_path: Path) -> None:
    topic, group = f"groups-first-{broker.version}", f"first-{broker.version}"
    create_topic(broker.bootstrap, topic, 2)
    producer = open_producer(broker.bootstrap, group, OPEN_MS)
    with member(broker.bootstrap, group, topic) as one, watched(broker, tmp_path, topic) as seen:
        producer.begin_transaction()
        pending = [TopicPartition(topic, 0, 1), TopicPartition(topic, 1, 2)]
        producer.send_offsets_to_transaction(pending, one.consumer_group_metadata(), ANSWER_S)
        found = seen.stand_and_round()
        assert found.keys() == {(group, topic, 0), (group, topic, 1)}
        for victim in found.values():
            assert (victim.relation, victim.offset.committed_offset) == (GroupRelation.UNSTABLE_OFFSETS, -1)
            assert victim.offset.members == 1
            assert victim.stalled_partition == (OFFSETS_TOPIC, seen.home_of(group))
            assert [entry.producer_id for entry in seen.entries(*victim.stalled_partition)] == [
                victim.waits_for_producer_id
            ]
        assert seen.watch.unread == ()

        producer.abort_transaction(ANSWER_S)
        wait_until_equal(seen.looked, {}, "the blocked groups after the end of all transactions")
        seen.watch.round(wall_clock_ms())
        assert seen.rows() == 0


def test_two_hundred_groups_are_known_in_one_round(broker_431: Broker, tmp_path: Path) -> None:
    topic = "groups-many"
    create_topic(broker_431.bootstrap, topic, 1)
    names = [f"many-{number:03d}" for number in range(200)]
    for name in names:
        commit_idle(broker_431.bootstrap, name, {(topic, 0): 0})
    producer = hold_open(broker_431.bootstrap, "groups-many-open", topic, 1)
    try:
        with watched(broker_431, tmp_path, topic) as many:
            assert relations(many.stand_and_round(), topic).keys() >= set(names)
    finally:
        producer.abort_transaction(ANSWER_S)


def test_no_broker_gets_a_request_while_no_partition_is_stalled(broker_431: Broker, tmp_path: Path) -> None:
    topic = "groups-nothing"
    create_topic(broker_431.bootstrap, topic, 1)
    with watched(broker_431, tmp_path, topic) as one:
        one.watch.round(wall_clock_ms())
        one.look()
        written: list[str] = []
        event.listen(one.cluster.engine, "begin", lambda _: written.append("begin"))
        began = time.thread_time()
        for _ in range(20):
            assert one.watch.round(wall_clock_ms()) > 0
        assert time.thread_time() - began < 1
        assert (one.watch._client, written) == (None, [])


def test_a_group_without_permission_is_reported_and_the_others_are_known(tmp_path: Path) -> None:
    with BrokerWithAcls("4.3.1", tmp_path, ["ann"]) as guarded:
        create_topic(guarded.admin, "orders", 1)
        for name in ("billing", "secret"):
            commit_idle(guarded.admin, name, {("orders", 0): 0})
        producer = hold_open(guarded.admin, "open", "orders", 1)
        guarded.allow("ann", acls.cluster(), "DESCRIBE")
        guarded.allow("ann", acls.topic(), "DESCRIBE")
        guarded.allow("ann", acls.group(), "DESCRIBE")
        guarded.deny("ann", acls.group("secret"), "DESCRIBE")
        ann = ClientSettings.load(guarded.bootstrap, guarded.properties("ann"))
        with watched(guarded.broker, tmp_path, "orders", settings=ann) as seen:
            assert relations(seen.stand_and_round(), "orders") == {"billing": GroupRelation.INACTIVE}
            assert seen.watch.denied == {"secret"}
        producer.abort_transaction(ANSWER_S)


def test_a_pending_offset_names_its_group_without_permission_on_the_group(tmp_path: Path) -> None:
    """READ on `__consumer_offsets` is enough."""
    with BrokerWithAcls("4.3.1", tmp_path, ["ann"]) as guarded:
        create_topic(guarded.admin, "orders", 1)
        producer = open_producer(guarded.admin, "open", OPEN_MS)
        guarded.allow("ann", acls.cluster(), "DESCRIBE")
        guarded.allow("ann", acls.topic(), "READ")
        ann = ClientSettings.load(guarded.bootstrap, guarded.properties("ann"))
        with (
            member(guarded.admin, "secret", "orders") as one,
            watched(guarded.broker, tmp_path, "orders", settings=ann) as seen,
        ):
            producer.begin_transaction()
            producer.send_offsets_to_transaction(
                [TopicPartition("orders", 0, 1)], one.consumer_group_metadata(), ANSWER_S
            )
            (victim,) = seen.stand_and_round().values()
            assert victim.key == ("secret", "orders", 0)
            assert (victim.relation, victim.offset.members) == (GroupRelation.UNSTABLE_OFFSETS, None)
            assert seen.watch.denied == {"secret"}
            producer.abort_transaction(ANSWER_S)
