"""Tests of the planner with a real broker, without Spark. The topic is deleted and created again."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from deploy.demo.broker import Broker
from service.domain.reasons.reason import Reason, parts
from service.domain.reasons.unread import ErrorText, PartitionsUnreadable
from service.domain.transaction_log.facts import NO_LEADER, Gap, RangeRead
from service.kafka import errors
from service.kafka.client import KafkaClient
from service.kafka.cluster import TopicLayout
from service.kafka.errors import KafkaUnavailable
from service.kafka.settings import ClientSettings
from spark_jobs.source import planner as planning
from spark_jobs.source.log_identity import LogObservation, LogPosition, divergence, observe_log, unanswered_reason
from spark_jobs.source.planner import LogPlanner
from tests.helpers.reasons import denied
from tests.helpers.waiting import wait_until_equal
from tests.integration.producers import create_topic, delete_topics, open_producer, transact


class Planned:
    """A topic of a real broker, and a planner that requests the topic's partitions and leaders for each plan."""

    def __init__(self, broker: Broker, name: str) -> None:
        self.broker, self.bootstrap, self.topic = broker, broker.bootstrap, name
        self._now_ms = 0
        self.settings = ClientSettings.load(broker.bootstrap, None)
        self.planner = LogPlanner(self.settings, name, {}, self._later)

    def create(self, partitions: int) -> None:
        create_topic(self.bootstrap, self.topic, partitions)

    def delete(self) -> None:
        delete_topics(self.bootstrap, self.topic)

    def plan(self, until: Reason | None = None) -> dict[int, RangeRead]:
        """Makes plans until one reports the problem `until`, or by default until one reports no problem: partitions of
        a new topic may answer only after a while. Returns the first planned range of each partition."""
        reported: dict[int, RangeRead] = {}

        def trouble() -> Reason | None:
            plan = self.planner.plan()
            self.planner.advance(plan)
            reported.update({r.partition: r for r in plan.ranges} | reported)
            return plan.trouble

        wait_until_equal(trouble, until, f"the reported error about {self.topic}")
        return reported

    def pass_time(self, ms: int) -> None:
        self._now_ms += ms

    def _later(self) -> int:
        self._now_ms += planning.LAYOUT_MAX_AGE_MS
        return self._now_ms


@pytest.fixture
def planned(broker_431: Broker, request: pytest.FixtureRequest) -> Iterator[Planned]:
    found = Planned(broker_431, request.node.name)
    yield found
    found.planner.close()


def gaps(reported: dict[int, RangeRead]) -> dict[int, Gap]:
    return {p: r.gap for p, r in reported.items() if r.gap}


@pytest.mark.broker
def test_partitions_missing_in_a_recreated_topic_end(planned: Planned) -> None:
    planned.create(3)
    transact(open_producer(planned.bootstrap, planned.topic), planned.topic)
    old = planned.plan()
    assert set(old) == {0, 1, 2}
    planned.delete()
    planned.create(2)
    new = planned.plan()
    assert gaps(new) == {p: Gap(0, old[p].hi, "recreated") for p in (0, 1, 2)}
    end = new[2]
    assert (end.is_gone, end.leader, end.topic_id, end.generation) == (True, NO_LEADER, new[0].topic_id, 1)
    assert (end.lo, end.hi) == (0, 0)
    assert set(planned.plan()) == {0, 1}, "the end of partition 2 is reported only once"
    planned.delete()
    planned.create(3)
    back = planned.plan()
    assert {p: r.is_gone for p, r in back.items()} == {0: False, 1: False, 2: False}
    assert set(gaps(back)) == {0, 1}, "partition 2 is new to the topic, so it has no gap"


@pytest.mark.broker
def test_a_gap_is_kept_if_a_later_partition_does_not_answer(planned: Planned, monkeypatch: pytest.MonkeyPatch) -> None:
    planned.create(2)
    planned.plan()
    planned.delete()
    planned.create(2)
    answering = Planned(planned.broker, planned.topic)
    answering.plan()
    answering.planner.close()

    def asked(client: KafkaClient, seen: LogObservation, partition: int, position: LogPosition) -> Gap | None:
        if partition == 1:
            raise KafkaUnavailable("broker 1 does not answer")
        return divergence(client, seen, partition, position)

    with monkeypatch.context() as patched:
        patched.setattr(planning, "divergence", asked)
        # a broker learns late that the topic exists again: partition 0 may answer first, and alone
        before = planned.plan(until=ErrorText("broker 1 does not answer"))
    reported = gaps(before) | gaps(planned.plan())
    assert {p: gap.reason for p, gap in reported.items()} == {0: "recreated", 1: "recreated"}


@pytest.mark.broker
def test_an_unreadable_partition_stays_so_while_it_does_not_answer(
    planned: Planned, monkeypatch: pytest.MonkeyPatch
) -> None:
    planned.create(2)
    planned.plan()
    unreadable = PartitionsUnreadable(planned.topic, (0,), (0,), ErrorText("its records cannot be fetched"))
    planned.planner = LogPlanner(planned.settings, planned.topic, {}, planned._later, unreadable)
    planned.pass_time(planning.TRY_AGAIN_MS)

    def asked(client: KafkaClient, layout: TopicLayout, now_ms: int) -> LogObservation:
        seen = observe_log(client, layout, now_ms)
        ends = {p: end for p, end in seen.ends.items() if p != 0}
        starts = {p: start for p, start in seen.starts.items() if p != 0}
        return replace(seen, starts=starts, ends=ends, unanswered={0: 6})  # NOT_LEADER_OR_FOLLOWER

    with monkeypatch.context() as patched:
        patched.setattr(planning, "observe_log", asked)
        plan = planned.planner.plan()
    assert unreadable in parts(plan.trouble)
    planned.pass_time(planning.TRY_AGAIN_MS)
    assert planned.plan().keys() == {0, 1}, "it can be fetched from"


def test_a_missing_permission_is_reported_in_the_words_of_the_client() -> None:
    seen = LogObservation(TopicLayout("t", "T", {}), 0, {}, {}, {0: errors.TOPIC_AUTHORIZATION_FAILED})
    assert unanswered_reason(seen) == denied("t", "DESCRIBE", "READ")
    assert str(unanswered_reason(seen)) == "no permission on topic t: grant DESCRIBE and READ on it"
