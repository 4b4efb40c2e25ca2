"""Tests of the samples that the sampler takes, and of the reads that it requests. The brokers answer as a test wants,
without network and real clock."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import pytest

from service.domain.partitions.facts import PartitionObservation, StallClock
from service.domain.reasons.reason import Reason
from service.domain.reasons.unread import DESCRIBE, NoLeader, UnresponsiveBroker
from service.domain.transaction_log.states import TOPIC as LOG
from service.domain.worlds.order import LogEnd, decode
from service.domain.worlds.order import Sample as WorldSample
from service.kafka import errors
from service.kafka.cluster import Leader, TopicLayout, Topics
from service.kafka.ends import Ends
from service.kafka.errors import KafkaUnavailable
from spark_jobs.source import sampler as sampling
from spark_jobs.source.reader_settings import WatchedTopics
from spark_jobs.source.requests import Brokers, Listing
from spark_jobs.source.sampler import FULL_EVERY_MS, HEARTBEAT_MS, Sample, Sampler
from spark_jobs.source.watched import MOVING_EVERY_MS
from tests.helpers.reasons import denied, reason

EVERYTHING = WatchedTopics()
T0 = 1_000_000
TICK = 250
HIDDEN = Listing(is_there=True, hidden=denied("orders", DESCRIBE))
SILENT = Ends(-1, -1, -1, errors.LEADER_NOT_AVAILABLE)


class Cluster(Brokers):
    """Brokers that answer with the ends in `now`, keyed by topic and partition, and a sampler of these brokers."""

    def __init__(self, watch: WatchedTopics = EVERYTHING, clocks: Iterable[StallClock] = ()) -> None:
        self.ids: dict[str, str] = {}
        self.leaders: dict[tuple[str, int], Leader] = {}
        self.now: dict[tuple[str, int], Ends] = {}
        self.listed: set[str] = set()
        self.unlisted: dict[str, Listing] = {}
        self.failure: str | None = None
        self.started: list[tuple[str, int]] = []
        self.at_ms = T0
        self.sampler = Sampler(self, watch, clocks, lambda: self.at_ms)

    def topic(self, topic: str, partitions: int = 1, topic_id: str = "id") -> None:
        self.ids[topic] = topic_id
        self.listed.add(topic)
        for p in range(partitions):
            self.leaders[topic, p] = Leader(1, 0)
            self.stand(topic, 10, 10, p)

    def stand(self, topic: str, lso: int, hw: int, partition: int = 0, start: int = 0) -> None:
        self.now[topic, partition] = Ends(start, lso, hw, errors.NONE)

    def look(self, times: int = 1) -> None:
        for _ in range(times):
            self.sampler.observe()
            self.at_ms += TICK

    def take(self) -> Sample:
        return self.sampler.next_sample()

    def looks(self, times: int = 1) -> list[PartitionObservation]:
        """Takes `times` more samples, and returns the observations of the next report."""
        self.look(times)
        return list(self.take().seen.observations)

    def topics(self) -> Topics:
        if self.failure:
            raise KafkaUnavailable(self.failure)
        return Topics({topic: self._layout(topic) for topic in sorted(self.listed)}, {}, (1,))

    def ends(self, layouts: Mapping[str, TopicLayout], *, with_start: bool) -> dict[tuple[str, int], Ends]:
        if self.failure:
            raise KafkaUnavailable(self.failure)
        places = [(topic, p) for topic, layout in layouts.items() for p in layout.leaders]
        return {at: self.now[at] if with_start else self.now[at]._replace(log_start=-1) for at in places}

    def starts(self, layouts: Mapping[str, TopicLayout]) -> dict[tuple[str, int], Ends]:
        found = self.ends(layouts, with_start=True)
        self.started += found
        return found

    def listing(self, topic: str) -> Listing:
        return self.unlisted[topic]

    def _layout(self, topic: str) -> TopicLayout:
        led = {p: leader for (of, p), leader in self.leaders.items() if of == topic}
        return TopicLayout(topic, self.ids[topic], led)


@pytest.fixture
def cluster() -> Cluster:
    """Returns a cluster with one topic. The sampler has already reported the topic."""
    found = Cluster()
    found.topic("orders")
    found.look()
    found.take()
    return found


def test_the_first_sample_has_all_partitions_and_later_ones_only_changes() -> None:
    cluster = Cluster()
    cluster.topic("orders", 2)
    cluster.topic("__consumer_offsets")
    cluster.look()
    seen = cluster.take().seen
    assert (seen.is_full, len(seen.observations), seen.trouble, seen.observed_at_ms) == (True, 3, None, T0)
    assert seen.observations[0] == PartitionObservation("__consumer_offsets", 0, "id", 1, 0, 0, 10, 10, T0, None)
    cluster.look(4)
    seen = cluster.take().seen
    assert (seen.observations, seen.is_full, seen.observed_at_ms) == ((), False, T0 + 4 * TICK)


def test_a_sample_is_due_every_second_even_without_changes(cluster: Cluster) -> None:
    for _ in range(HEARTBEAT_MS // TICK):
        assert not cluster.sampler.is_due()
        cluster.look()
    assert cluster.sampler.is_due()


def test_a_clock_that_is_set_back_does_not_stop_sampling(cluster: Cluster) -> None:
    cluster.stand("orders", 10, 11)
    cluster.look(5)
    cluster.take()
    cluster.at_ms = since = T0 - 3_600_000
    assert cluster.sampler.is_due()
    cluster.look(5)
    seen, requests = cluster.take()
    assert (seen.is_full, seen.observed_at_ms) == (True, cluster.at_ms - TICK)
    assert [look.stalled_since_ms for look in seen.observations] == [since]
    assert len(requests) == 1


def test_all_partitions_are_reported_again_from_time_to_time(cluster: Cluster) -> None:
    cluster.at_ms = T0 + FULL_EVERY_MS
    cluster.look()
    seen = cluster.take().seen
    assert seen.is_full
    assert [look.observed_at_ms for look in seen.observations] == [T0 + FULL_EVERY_MS]


def test_a_short_transaction_does_not_make_a_sample_due(cluster: Cluster) -> None:
    for lso in range(11, 11 + MOVING_EVERY_MS // TICK - 2):
        cluster.stand("orders", lso, lso + 2)
        assert cluster.looks() == []
        assert not cluster.sampler.is_due()
    cluster.stand("orders", 29, 31)
    (reported,) = cluster.looks()
    assert (reported.last_stable_offset, reported.stalled_since_ms) == (29, None)


def test_a_stall_a_move_and_a_recovery_are_reported_at_once(cluster: Cluster) -> None:
    def taken() -> list[tuple[int, int | None]]:
        return [(look.last_stable_offset, look.stalled_since_ms) for look in cluster.take().seen.observations]

    cluster.stand("orders", 10, 11, start=3)
    since = cluster.at_ms
    assert cluster.looks() == []
    cluster.look()
    assert cluster.sampler.is_due()
    sample = cluster.take()
    (reported,) = sample.seen.observations
    assert (reported.stalled_since_ms, reported.last_stable_offset, reported.high_watermark) == (since, 10, 11)
    assert reported.log_start == 3, "the log start is requested before a blocking transaction is named"
    assert [(request.topic, request.partition, request.last_stable_offset) for request in sample.requests] == [
        ("orders", 0, 10)
    ]

    cluster.stand("orders", 10, 15, start=3)
    assert [look.high_watermark for look in cluster.looks()] == [15]
    cluster.stand("orders", 12, 15, start=3)
    cluster.look()
    assert cluster.sampler.is_due()
    assert taken() == [(12, None)]
    cluster.look(4)
    assert taken() == [(12, cluster.at_ms - 5 * TICK)]
    cluster.stand("orders", 15, 15, start=3)
    cluster.look()
    assert cluster.sampler.is_due()
    assert taken() == [(15, None)]


def test_a_stall_continues_while_no_broker_answers(cluster: Cluster) -> None:
    cluster.stand("orders", 10, 11)
    since = cluster.at_ms
    cluster.look(5)
    standing = cluster.now["orders", 0]
    cluster.now["orders", 0] = SILENT
    (reported,) = cluster.looks(8)
    assert (reported.why, reported.last_stable_offset, reported.stalled_since_ms) == (UnresponsiveBroker(1), -1, since)
    assert cluster.take().requests == (), "an unresponsive leader gets no further requests"
    cluster.now["orders", 0] = standing
    (reported,) = cluster.looks()
    assert (reported.why, reported.stalled_since_ms, reported.last_stable_offset) == (None, since, 10)


def test_a_stall_continues_after_a_restart_if_the_lso_is_unchanged() -> None:
    clocks = [
        StallClock("a", 0, "id", 10, 5_000, "[[]]"),
        StallClock("b", 0, "id", 9, 5_000),
        StallClock("c", 0, "old", 10, 5_000),
    ]
    cluster = Cluster(clocks=clocks)
    for topic in "abc":
        cluster.topic(topic)
        cluster.stand(topic, 10, 11)
    reported = {look.topic: (look.stalled_since_ms, look.samples) for look in cluster.looks()}
    assert reported == {"a": (5_000, "[[]]"), "b": (None, None), "c": (None, None)}
    anew = {look.topic: look.stalled_since_ms for look in cluster.looks(4) if look.samples}
    assert anew == {"b": T0, "c": T0}


def log_at(offset: int) -> dict[int, LogEnd]:
    return {0: LogEnd(offset, 0)}


@pytest.mark.parametrize("watch", [EVERYTHING, WatchedTopics(("orders",))])
def test_sampling_rounds_order_records_and_decisions(watch: WatchedTopics) -> None:
    """The rounds show the order of a record and a decision, even if the transaction log is not watched."""
    cluster = Cluster(watch)
    cluster.topic("orders")
    cluster.topic(LOG)
    for log_end in (100, 101, 102):
        cluster.stand(LOG, log_end, log_end)
        cluster.look()
    cluster.take()
    cluster.stand("orders", 10, 11)
    cluster.stand(LOG, 103, 103)
    cluster.look()
    cluster.stand(LOG, 104, 104)
    (reported,) = [look for look in cluster.looks(2) if look.topic == "orders"]
    before, after = decode(reported.samples)
    # round 3 was the last without the record; round 2 had ended before round 3 began
    assert (before.high_watermark, before.ends_before_last) == (10, log_at(101))
    # round 4 had the record; round 5 began after round 4
    assert (after.high_watermark, after.ends_after_first) == (11, log_at(104))
    assert before.earlier_high_watermark == 10


MANY_ROUNDS = 100
"""More rounds than the number for which the sampler remembers the ends of the transaction log."""


@pytest.fixture
def ordered() -> Cluster:
    """Returns a cluster with a topic and a transaction log of two partitions. Three rounds are over. Then a transaction
    has written to the topic, and its record will be seen in round 4."""
    cluster = Cluster()
    cluster.topic("orders")
    cluster.topic(LOG, 2)
    for log_end in (101, 102, 103):
        cluster.stand(LOG, log_end, log_end)
        cluster.look()
    cluster.stand("orders", 10, 11)
    return cluster


def samples_of(cluster: Cluster) -> list[WorldSample]:
    (reported,) = [look for look in cluster.looks(2) if look.topic == "orders"]
    return list(decode(reported.samples))


def test_the_end_of_the_log_after_a_record_is_kept_while_its_transaction_is_open(ordered: Cluster) -> None:
    ordered.look()
    ordered.stand(LOG, 105, 105)
    ordered.look()
    ordered.stand(LOG, 200, 200)
    ordered.look(MANY_ROUNDS)
    ordered.take()
    ordered.stand("orders", 10, 12)
    assert [(sample.high_watermark, sample.ends_after_first[0].offset) for sample in samples_of(ordered)] == [
        (10, 102),
        (11, 105),
        (12, 200),
    ]


@pytest.mark.parametrize("is_all_silent", [False, True])
def test_the_ends_of_the_log_around_a_record_survive_an_outage(ordered: Cluster, is_all_silent: bool) -> None:
    """After the outage, another broker leads the partition. Proofs from the rounds before the outage remain valid."""
    ordered.look()
    ordered.stand(LOG, 105, 105)
    ordered.look()
    if is_all_silent:
        ordered.failure = "no broker answers"
    ordered.now["orders", 0] = SILENT
    ordered.look()
    ordered.stand(LOG, 200, 200)
    ordered.look(MANY_ROUNDS)
    ordered.take()
    ordered.failure = None
    ordered.leaders["orders", 0] = Leader(2, 1)
    ordered.stand("orders", 10, 11)
    ordered.look(8)
    before, same, after = samples_of(ordered)
    assert (before.high_watermark, before.ends_before_last[0].offset) == (10, 102)
    assert (same.leader_epoch, same.ends_before_last[0].offset, same.ends_after_first[0].offset) == (0, 103, 105)
    assert (after.leader_epoch, after.ends_after_first[0].offset) == (1, 200)


def test_a_leader_of_the_log_that_answers_late_adds_its_end_to_the_samples(ordered: Cluster) -> None:
    ordered.look()
    ordered.now[LOG, 1] = SILENT
    ordered.look()
    ordered.stand(LOG, 7, 7, partition=1)
    ordered.look()
    ordered.stand(LOG, 8, 8, partition=1)
    _, sample = samples_of(ordered)
    assert {p: end.offset for p, end in sample.ends_after_first.items()} == {0: 103, 1: 7}


def test_a_failed_round_proves_no_order() -> None:
    """Requests of one round have no order, so the high watermark of round 2 may be newer than the log end of round 2.
    Round 3 fails. So only the high watermark of round 1 was certainly received before the log end of round 2 was
    requested."""
    cluster = Cluster()
    cluster.topic("orders")
    cluster.topic(LOG)
    cluster.look()
    cluster.stand("orders", 12, 12)
    cluster.look()
    cluster.failure = "no broker answers"
    cluster.look()
    cluster.failure = None
    cluster.stand("orders", 14, 14)
    cluster.look()
    cluster.take()
    cluster.stand("orders", 14, 15)
    sample = next(sample for sample in samples_of(cluster) if sample.high_watermark == 14)
    assert sample.earlier_high_watermark == 10


def test_the_samples_around_the_record_at_the_lso_are_kept(cluster: Cluster) -> None:
    cluster.look(3)
    for high_watermark in (16, 18, 20):
        cluster.stand("orders", 10, high_watermark)
        cluster.look(4)
    cluster.stand("orders", 10, 30)
    cluster.look(2)
    cluster.stand("orders", 22, 30)
    (reported,) = [look for look in cluster.looks(5) if look.stalled_since_ms]
    # the record at 22 was written between the last two samples, and an earlier marker after one of the first samples
    assert [sample.high_watermark for sample in decode(reported.samples)] == [16, 18, 20, 30]


def test_a_late_write_is_reported_with_samples_from_before_the_transaction() -> None:
    """While the transaction was open, the high watermark was 11. Its marker moved the high watermark to 12. The late
    write came in the next round."""
    cluster = Cluster()
    cluster.topic("orders")
    cluster.topic(LOG)
    cluster.look(4)
    cluster.take()
    cluster.stand("orders", 10, 11)
    cluster.look()
    cluster.stand("orders", 12, 12)
    cluster.look()
    cluster.stand("orders", 12, 13)
    (reported,) = [look for look in cluster.looks(5) if look.stalled_since_ms]
    assert [(sample.high_watermark, sample.earlier_high_watermark) for sample in decode(reported.samples)] == [
        (10, 10),
        (11, 10),
        (12, 10),
        (13, 13),
    ]


def test_a_new_leader_begins_a_new_sample(cluster: Cluster) -> None:
    """The high watermark of a new leader may lag, so records above this high watermark may already exist."""
    cluster.look(3)
    cluster.leaders["orders", 0] = Leader(2, 1)
    cluster.at_ms += sampling.LAYOUT_EVERY_MS
    cluster.look(2)
    cluster.stand("orders", 10, 11)
    (reported,) = [look for look in cluster.looks(5) if look.stalled_since_ms]
    assert [(sample.high_watermark, sample.leader_epoch) for sample in decode(reported.samples)] == [
        (10, 0),
        (10, 1),
        (11, 1),
    ]


def test_a_single_sample_without_an_answer_is_not_reported(cluster: Cluster) -> None:
    was = cluster.now["orders", 0]
    cluster.now["orders", 0] = SILENT
    assert cluster.looks() == []
    assert not cluster.sampler.is_due()
    cluster.now["orders", 0] = was
    assert cluster.looks() == []
    cluster.now["orders", 0] = SILENT
    cluster.look(2)
    assert cluster.sampler.is_due()
    seen = cluster.take().seen
    assert [look.why for look in seen.observations] == [UnresponsiveBroker(1)]
    assert str(seen.trouble) == "1 of 1 partitions do not answer: broker 1 does not answer (1)"


@pytest.mark.parametrize(
    ("leader", "error", "why"),
    [
        (Leader(-1, 0), errors.LEADER_NOT_AVAILABLE, NoLeader()),
        (Leader(2, 0), errors.LEADER_NOT_AVAILABLE, UnresponsiveBroker(2)),
        (Leader(2, 0), errors.TOPIC_AUTHORIZATION_FAILED, denied("orders", DESCRIBE)),
    ],
)
def test_a_partition_that_cannot_be_sampled_has_a_reason(leader: Leader, error: int, why: Reason) -> None:
    cluster = Cluster()
    cluster.topic("orders")
    cluster.leaders["orders", 0] = leader
    cluster.now["orders", 0] = Ends(-1, -1, -1, error)
    (reported,) = cluster.looks()
    assert (reported.why, reported.log_start, reported.last_stable_offset, reported.high_watermark) == (why, -1, -1, -1)


def test_a_new_leader_is_found_as_soon_as_the_old_one_refuses(cluster: Cluster) -> None:
    cluster.now["orders", 0] = SILENT
    cluster.leaders["orders", 0] = Leader(2, 1)
    cluster.look()
    cluster.stand("orders", 10, 10)
    cluster.at_ms += MOVING_EVERY_MS
    assert [(look.leader, look.leader_epoch, look.why) for look in cluster.looks()] == [(2, 1, None)]


def test_the_sample_time_stays_the_same_while_no_broker_answers(cluster: Cluster) -> None:
    cluster.stand("orders", 10, 11)
    cluster.look(5)
    observed_at_ms = cluster.at_ms - TICK
    cluster.take()
    cluster.failure = "no broker of b:9092 answers"
    failure = reason(cluster.failure)
    cluster.look(FULL_EVERY_MS // TICK + 1)
    seen, requests = cluster.take()
    assert (seen.trouble, seen.observed_at_ms, seen.observations, seen.is_full) == (failure, observed_at_ms, (), False)
    assert requests == (), "while no broker answers, there are no further requests"
    cluster.failure = None
    cluster.look()
    seen = cluster.take().seen
    assert (seen.trouble, seen.is_full) == (None, True)


def test_a_topic_that_is_deleted_or_created_again_is_reported_as_gone(cluster: Cluster) -> None:
    cluster.topic("deleted")
    cluster.look(9)
    cluster.take()
    cluster.listed.remove("deleted")
    cluster.unlisted["deleted"] = Listing(is_there=False)
    cluster.topic("orders", topic_id="other")
    cluster.stand("orders", 0, 0)
    cluster.look(9)
    reported = cluster.take().seen.observations
    assert [(look.topic, look.topic_id, look.is_gone) for look in reported] == [
        ("orders", "id", True),
        ("deleted", "id", True),
        ("orders", "other", False),
    ]
    assert (reported[0].last_stable_offset, reported[2].last_stable_offset) == (-1, 0)
    assert reported[2].observed_at_ms >= reported[1].observed_at_ms
    assert cluster.looks(4) == []


def test_a_topic_that_may_no_longer_be_described_is_not_reported_as_gone(cluster: Cluster) -> None:
    cluster.listed.remove("orders")
    cluster.unlisted["orders"] = HIDDEN
    reported = cluster.looks(18)
    assert [(look.why, look.is_gone) for look in reported] == [(HIDDEN.hidden, False)]
    cluster.listed.add("orders")
    assert [look.why for look in cluster.looks(9)] == [None]


def test_many_topics_deleted_at_once_are_checked_in_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sampling, "_CHECKS_AT_ONCE", 2)
    cluster = Cluster()
    for topic in "abcde":
        cluster.topic(topic)
    cluster.look()
    cluster.take()
    cluster.listed.clear()
    cluster.unlisted = dict.fromkeys("abd", HIDDEN) | dict.fromkeys("ce", Listing(is_there=False))
    reported = {look.topic: (look.why, look.is_gone) for look in cluster.looks(80)}
    assert {topic for topic, (_, is_gone) in reported.items() if is_gone} == {"c", "e"}
    assert {topic for topic, (why, _) in reported.items() if why} == {"a", "b", "d"}


def test_partitions_that_are_not_watched_are_counted() -> None:
    cluster = Cluster(WatchedTopics(("orders*", "pay"), ("orders-copy-*",)))
    for topic, partitions in {"orders": 3, "pay": 1, "payments": 2, "orders-copy-1": 4}.items():
        cluster.topic(topic, partitions)
    cluster.look()
    seen = cluster.take().seen
    assert {look.topic for look in seen.observations} == {"orders", "pay"}
    assert seen.not_covered == 6


def test_a_stalled_partition_is_read_every_other_second_at_bounded_cost(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sampling, "READS_AT_ONCE", 2)
    cluster.topic("pay", 2)
    cluster.look(9)
    for topic, partition in (("orders", 0), ("pay", 0), ("pay", 1)):
        cluster.stand(topic, 10, 11, partition)
    reads = []
    for _ in range(8):
        cluster.look(4)
        reads.append([f"{request.topic}-{request.partition}" for request in cluster.take().requests])
    assert reads == [["orders-0", "pay-0"], ["pay-1"]] * 4


def test_many_busy_partitions_take_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sampling, "REPORTS_AT_ONCE", 3)
    cluster = Cluster()
    cluster.topic("busy", 10)
    cluster.look()
    cluster.take()
    reported: list[int] = []
    for n in range(MOVING_EVERY_MS // TICK, MOVING_EVERY_MS // TICK + 4):
        for p in range(10):
            cluster.stand("busy", 10 + n, 10 + n, p)
        cluster.at_ms = T0 + n * TICK
        reported += [look.partition for look in cluster.looks()]
    assert sorted(reported) == list(range(10))
