"""Tests of the ledger's planner without brokers. Topics appear, disappear, move, shrink, or cannot be read."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from service.domain.partitions.ledger import TopicRange
from service.domain.reasons.unread import DESCRIBE, ErrorText
from service.domain.transaction_log.facts import Gap, RangeRead
from service.kafka import errors
from service.kafka.cluster import Leader, TopicLayout, Topics
from service.kafka.ends import Ends
from service.kafka.errors import KafkaRefused, KafkaUnavailable
from spark_jobs.source.ledger_planner import LAYOUT_EVERY_MS, MEASURE_EVERY_MS, LedgerBrokers, LedgerPlanner
from spark_jobs.source.log_identity import LogObservation, LogPosition, divergence
from spark_jobs.source.planner import BatchPlan
from spark_jobs.source.reader_settings import WatchedTopics
from spark_jobs.source.requests import Listing, Place
from tests.helpers.reasons import denied


class Cluster(LedgerBrokers):
    """Stands in for a Kafka cluster. `logs` maps each topic to the (start, end) of its partitions."""

    def __init__(self, **logs: list[tuple[int, int]]) -> None:
        self.logs = logs
        self.ids = dict.fromkeys(logs, "T1")
        self.epochs: dict[str, int] = {}
        self.parted_at: int | None = None
        self.silent: set[Place] = set()
        self.unreadable: set[str] = set()
        self.away = False
        self.measured: list[str] = []

    def topics(self) -> Topics:
        return Topics({topic: self._layout(topic) for topic in self.logs}, {}, (1,))

    def _layout(self, topic: str) -> TopicLayout:
        leader = Leader(1, self.epochs.get(topic, 5))
        return TopicLayout(topic, self.ids[topic], dict.fromkeys(range(len(self.logs[topic])), leader))

    def ends(self, layouts: Mapping[str, TopicLayout], *, with_start: bool) -> dict[Place, Ends]:
        if self.away:
            raise KafkaUnavailable("broker 1 does not answer")
        return {(topic, p): self._ends(topic, p) for topic, layout in layouts.items() for p in layout.leaders}

    def _ends(self, topic: str, partition: int) -> Ends:
        if (topic, partition) in self.silent or topic not in self.logs:
            return Ends(-1, -1, -1, errors.LEADER_NOT_AVAILABLE)
        start, end = self.logs[topic][partition]
        return Ends(start, end, end, errors.NONE)

    def starts(self, layouts: Mapping[str, TopicLayout]) -> dict[Place, Ends]:
        raise AssertionError("the planner must request log starts together with log ends")

    def listing(self, topic: str) -> Listing:
        hidden = denied(topic, DESCRIBE) if topic in self.unreadable else None
        return Listing(hidden is not None, hidden)

    def divergence(self, seen: LogObservation, partition: int, position: LogPosition) -> Gap | None:
        if self.parted_at is not None and seen.layout.leaders[partition].epoch != position.leader_epoch:
            return Gap(self.parted_at, position.next_offset, "diverged")
        return divergence(None, seen, partition, position._replace(leader_epoch=-1))  # type: ignore[arg-type]

    def record_size(self, layout: TopicLayout, partition: int, offset: int) -> int | None:
        self.measured.append(layout.topic)
        if layout.topic in self.unreadable:
            raise KafkaRefused(denied(layout.topic))
        return 500 if offset < self.logs[layout.topic][partition][1] else None

    def close(self) -> None:
        pass


class Planned:
    """A planner and its clock. By default, `plan` first advances the clock so far that the planner requests the
    partitions and leaders again."""

    def __init__(self, cluster: Cluster, budget: int = 10**9, **positions: dict[int, LogPosition]) -> None:
        self.cluster = cluster
        self._now_ms = 1_000_000
        self.planner = LedgerPlanner(cluster, WatchedTopics(("*",), ("eu.*",)), positions, lambda: self._now_ms, budget)

    def plan(self, after_ms: int = LAYOUT_EVERY_MS) -> BatchPlan[TopicRange]:
        self._now_ms += after_ms
        plan = self.planner.plan()
        self.planner.advance(plan)
        return plan

    def read(self) -> dict[Place, RangeRead]:
        plan = self.plan()
        assert plan.trouble is None
        return {(topic, read.partition): read for topic, read in plan.ranges}


def begun(**logs: list[tuple[int, int]]) -> tuple[Planned, Cluster]:
    """Returns a planner that has planned once, and its cluster."""
    planned = Planned(cluster := Cluster(**logs))
    planned.plan()
    return planned, cluster


def spans(read: dict[Place, RangeRead]) -> dict[Place, tuple[int, int]]:
    return {place: (range_read.lo, range_read.hi) for place, range_read in read.items()}


def test_a_topic_is_tailed_from_its_end_and_read_as_it_grows() -> None:
    planned = Planned(cluster := Cluster(pay=[(3, 100), (0, 0)]))
    first = planned.plan()
    assert not first.has_data
    assert [(r.lo, r.hi, r.end_offset, r.log_start) for _, r in first.ranges] == [(100, 100, 100, 3), (0, 0, 0, 0)]
    cluster.logs["pay"] = [(3, 107), (0, 2)]
    assert spans(planned.read()) == {("pay", 0): (100, 107), ("pay", 1): (0, 2)}
    assert spans(planned.read()) == {("pay", 0): (107, 107), ("pay", 1): (2, 2)}


def test_reading_continues_at_the_stored_position() -> None:
    planned = Planned(Cluster(pay=[(0, 100)]), pay={0: LogPosition("T1", 4, 60, 5, 10)})
    (read,) = planned.read().values()
    assert (read.generation, read.lo, read.hi, read.counts, read.gap) == (4, 60, 100, True, None)


def test_tailing_of_a_topic_begins_once_all_its_partitions_answer() -> None:
    """If tailing began before a partition answers, the partition would later count as an added one, and its history
    would be read."""
    planned = Planned(cluster := Cluster(pay=[(0, 50), (0, 60)], orders=[(0, 5)]))
    cluster.silent.add(("pay", 1))
    plan = planned.plan()
    assert [topic for topic, _ in plan.ranges] == ["orders"]
    assert str(plan.trouble) == "1 of 2 partitions have no leader that answers: pay-1"
    cluster.silent.clear()
    assert spans(planned.read())["pay", 1] == (60, 60)
    cluster.silent.add(("pay", 1))
    cluster.logs["pay"] = [(0, 55), (0, 66)]
    assert {r.partition: r.hi for topic, r in planned.plan().ranges if topic == "pay"} == {0: 55}
    cluster.silent.clear()
    assert spans(planned.read())["pay", 1] == (60, 66)


def test_kafkas_own_topics_and_copied_ones_are_never_tailed() -> None:
    logs = {topic: [(0, 1)] for topic in ("pay", "__consumer_offsets", "__transaction_state", "eu.pay")}
    assert set(spans(Planned(Cluster(**logs)).read())) == {("pay", 0)}


def test_a_topic_that_may_not_be_read_is_named_and_the_others_are_read() -> None:
    planned = Planned(cluster := Cluster(pay=[(0, 50)], secret=[(0, 50)]))
    cluster.unreadable.add("secret")
    plan = planned.plan()
    assert plan.trouble == denied("secret")
    assert [topic for topic, _ in plan.ranges] == ["pay"]
    planned.plan()
    assert cluster.measured.count("secret") == 1, "the size of a denied topic is not requested again at once"
    cluster.unreadable.clear()
    cluster.logs["secret"] = [(0, 70)]
    assert {topic: r.lo for topic, r in planned.plan(MEASURE_EVERY_MS).ranges} == {"pay": 50, "secret": 70}


def test_a_topic_without_permission_still_has_end_offsets_but_no_reads() -> None:
    planned, cluster = begun(pay=[(0, 50)])
    cluster.unreadable.add("pay")
    cluster.logs["pay"] = [(0, 90)]
    plan = planned.plan(MEASURE_EVERY_MS)
    assert plan.trouble == denied("pay")
    assert [(r.lo, r.hi, r.end_offset) for _, r in plan.ranges] == [(50, 50, 90)]


def test_a_topic_that_is_not_listed_any_more_keeps_its_position() -> None:
    planned, cluster = begun(pay=[(0, 50)], orders=[(0, 5)])
    hidden = cluster.logs.pop("pay")
    cluster.unreadable.add("pay")
    plan = planned.plan()
    assert (plan.trouble, [topic for topic, _ in plan.ranges]) == (denied("pay", DESCRIBE), ["orders"])
    cluster.logs["pay"], cluster.unreadable = [(0, 80)], set()
    assert hidden == [(0, 50)]
    assert spans(planned.read())["pay", 0] == (50, 80)


def test_a_deleted_topic_ends_once_and_comes_back_as_a_new_one() -> None:
    planned, cluster = begun(pay=[(0, 50), (0, 7)], orders=[(0, 5)])
    listed = cluster.logs.pop("pay")
    assert set(planned.read()) == {("orders", 0)}
    cluster.logs["pay"] = listed
    assert spans(planned.read())["pay", 0] == (50, 50), (
        "if one broker does not list the topic yet, the topic is not deleted"
    )
    del cluster.logs["pay"]
    planned.plan()
    ended = {place: range_read for place, range_read in planned.read().items() if place[0] == "pay"}
    assert {
        place: (range_read.is_gone, range_read.gap, range_read.topic_id) for place, range_read in ended.items()
    } == {
        ("pay", 0): (True, None, ""),
        ("pay", 1): (True, None, ""),
    }
    assert set(planned.read()) == {("orders", 0)}
    cluster.logs["pay"], cluster.ids["pay"] = [(0, 9)], "T2"
    assert spans(planned.read())["pay", 0] == (9, 9)


def test_a_recreated_topic_is_read_from_its_start_as_a_new_generation() -> None:
    planned, cluster = begun(pay=[(0, 50), (0, 40)])
    cluster.logs["pay"], cluster.ids["pay"] = [(0, 8)], "T2"
    read = planned.read()
    range_read, lost = read["pay", 0], read["pay", 1]
    assert (range_read.generation, range_read.lo, range_read.hi, range_read.gap) == (1, 0, 8, Gap(0, 50, "recreated"))
    assert (lost.is_gone, lost.gap) == (True, Gap(0, 40, "recreated"))


def test_a_topic_recreated_a_moment_ago_is_not_taken_for_a_diverged_log() -> None:
    """Brokers answer by topic name. The planner still has the old topic id, and gets the end of the new log, which is
    below its position."""
    planned, cluster = begun(pay=[(0, 50)], orders=[(0, 7)])
    cluster.logs["pay"], cluster.ids["pay"] = [(0, 8)], "T2"
    plan = planned.plan(after_ms=100)
    assert {topic for topic, _ in plan.ranges} == {"orders"}
    plan = planned.plan(after_ms=100)
    (again,) = (read for topic, read in plan.ranges if topic == "pay")
    assert (again.generation, again.lo, again.hi, again.gap) == (1, 0, 8, Gap(0, 50, "recreated"))


def test_a_diverged_log_is_read_on_from_the_offset_of_divergence() -> None:
    planned, cluster = begun(pay=[(0, 50)])
    cluster.logs["pay"], cluster.epochs["pay"], cluster.parted_at = [(10, 45)], 6, 42
    (range_read,) = planned.read().values()
    assert (range_read.generation, range_read.lo, range_read.hi, range_read.gap) == (1, 42, 45, Gap(42, 50, "diverged"))
    assert range_read.counts


@pytest.mark.parametrize(
    ("logs", "read"),
    [([(0, 50), (0, 9)], {("pay", 0): (50, 50), ("pay", 1): (0, 9)}), ([(60, 90)], {("pay", 0): (50, 90)})],
    ids=["an added partition, from its start", "deleted by retention, which the reader reports"],
)
def test_reading_continues_on_a_new_partition_and_after_retention(
    logs: list[tuple[int, int]], read: dict[Place, tuple[int, int]]
) -> None:
    planned, cluster = begun(pay=[(0, 50)])
    cluster.logs["pay"] = logs
    assert spans(planned.read()) == read


def test_a_batch_is_bounded_in_bytes_and_every_partition_has_its_share() -> None:
    begun = {p: LogPosition("T1", 0, 0, 5, 0) for p in range(2)}
    cluster = Cluster(pay=[(0, 90_000), (0, 10_000)], orders=[(0, 100_000), (0, 0)])
    planned = Planned(cluster, budget=10_000_000, pay=begun, orders=begun)
    read = planned.read()
    taken = {place: range_read.hi - range_read.lo for place, range_read in read.items()}
    assert sum(taken.values()) * 500 <= 10_000_000 + 4 * 500
    assert taken["pay", 1] >= 1_000
    assert taken["orders", 0] >= 9_000
    while any(range_read.hi < range_read.end_offset for range_read in read.values()):
        read = planned.read()
    assert spans(read)["pay", 0][1] == 90_000


def test_nothing_is_planned_while_no_broker_answers() -> None:
    planned, cluster = begun(pay=[(0, 50)])
    cluster.away = True
    plan = planned.plan()
    assert (plan.ranges, plan.trouble) == ((), ErrorText("broker 1 does not answer"))
    cluster.away, cluster.logs["pay"] = False, [(0, 60)]
    assert spans(planned.read()) == {("pay", 0): (50, 60)}


def test_a_log_that_cannot_be_compared_waits_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    planned, cluster = begun(pay=[(0, 50)], orders=[(0, 5)])

    def asked(seen: LogObservation, partition: int, position: LogPosition) -> Gap | None:
        if seen.layout.topic == "pay":
            raise KafkaUnavailable("end offset of leader epoch 5 of pay-0: error 74")
        return None

    cluster.logs |= {"pay": [(0, 60)], "orders": [(0, 6)]}
    with monkeypatch.context() as patched:
        patched.setattr(cluster, "divergence", asked)
        plan = planned.plan()
    assert str(plan.trouble) == "end offset of leader epoch 5 of pay-0: error 74"
    assert [(topic, r.lo, r.hi) for topic, r in plan.ranges] == [("orders", 5, 6)]
    assert spans(planned.read())["pay", 0] == (50, 60)


def test_record_sizes_are_measured_seldom() -> None:
    planned = Planned(cluster := Cluster(pay=[(0, 50)]))
    for n in range(20):
        cluster.logs["pay"] = [(0, 50 + n)]
        planned.plan(MEASURE_EVERY_MS // 10)
    assert len(cluster.measured) in (2, 3)
