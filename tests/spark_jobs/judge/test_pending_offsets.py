"""Tests of reading open transactions on `__consumer_offsets`. Each transaction is read once, and again if it grows,
within limits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import pytest

from service.domain.findings.blocked_group import UnreadCommits
from service.domain.partitions.blocked_groups import STALLED_AFTER_MS
from service.domain.partitions.group_offsets import OFFSETS_TOPIC, LsoSample
from service.domain.partitions.open_entries import Entry
from service.kafka.client import KafkaClient
from service.kafka.cluster import Leader, TopicLayout
from service.kafka.errors import KafkaUnavailable
from service.kafka.offset_commits import CommitsRead, OffsetCommits, SearchRange
from service.wire.offset_keys import OffsetKey
from spark_jobs.judge import pending_offsets
from spark_jobs.judge.group_rounds import UnresponsiveBrokers
from spark_jobs.judge.pending_offsets import BEHIND_MS, READ_AGAIN_MS, PendingOffsets, blocking_entries

NOW_MS = 1_790_000_000_000
HOME, END = 9, 200
PID, OTHER = 7, 8
BILLING, EOS = OffsetKey("billing", "orders", 0), OffsetKey("eos", "orders", 1)


def entry(producer_id: int = PID, start: int = 100, partition: int = HOME, newest_ms: int = 5) -> Entry:
    seen_ms = NOW_MS - STALLED_AFTER_MS
    return Entry(OFFSETS_TOPIC, partition, producer_id, 0, start, -1, newest_ms, None, None, seen_ms, NOW_MS)


class Reading:
    """Stands in for the brokers. `found`: results of the next reads, keyed by producer id. `asked`: the reads that were
    made."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.away = UnresponsiveBrokers()
        self.pending = PendingOffsets(self.away)
        self.asked: list[tuple[int, dict[int, SearchRange]]] = []
        self.found: dict[int, OffsetCommits] = {}
        self.reached, self.read_bytes, self.damaged = END, 1_000, 0
        self.failure: KafkaUnavailable | None = None
        self.layout: TopicLayout | None = TopicLayout(OFFSETS_TOPIC, "T", {p: Leader(p % 3, 5) for p in range(50)})
        patch.setattr(pending_offsets, "read_commits", self._read)
        patch.setattr(pending_offsets, "topic_layout", lambda *_: self.layout)

    def _read(
        self, _: object, partition: int, leader: Leader, sought: Mapping[int, SearchRange], hi: int
    ) -> CommitsRead:
        assert (leader.node, hi) == (partition % 3, END)
        self.asked.append((partition, dict(sought)))
        if self.failure is not None:
            raise self.failure
        found = {producer_id: self.found.get(producer_id, OffsetCommits()) for producer_id in sought}
        return CommitsRead(found, self.reached, self.read_bytes, self.damaged)

    def look(self, *entries: Entry, at_ms: int = 0) -> None:
        client: KafkaClient = object()  # type: ignore[assignment]
        ends = {entry.topic_partition: LsoSample(100, END, NOW_MS - 60_000) for entry in entries}
        self.pending.read_more(client, entries, ends, NOW_MS + at_ms)

    def unread(self, at_ms: int = 0) -> tuple[UnreadCommits, ...]:
        return self.pending.unread(NOW_MS + at_ms)


@pytest.fixture
def reading(monkeypatch: pytest.MonkeyPatch) -> Reading:
    return Reading(monkeypatch)


def commits(*offsets: OffsetKey, has_newest: bool = True, **undecodable: int) -> OffsetCommits:
    return OffsetCommits(set(offsets), has_newest, Counter(undecodable))


def test_groups_are_named_with_the_transaction_that_has_their_offsets(reading: Reading) -> None:
    reading.found = {PID: commits(BILLING, BILLING._replace(partition=3)), OTHER: commits(EOS, BILLING)}
    reading.look(entry(OTHER, start=150), entry())
    assert reading.asked == [(HOME, {PID: SearchRange(100, 5), OTHER: SearchRange(150, 5)})]
    assert reading.pending.by_group() == {
        "billing": {("orders", 0): PID, ("orders", 3): PID},  # the first of the transactions that have this offset
        "eos": {("orders", 1): OTHER},
    }
    assert reading.pending.coordinators() == {"billing": HOME % 3, "eos": HOME % 3}
    assert reading.unread(at_ms=2 * BEHIND_MS) == ()


def test_a_transaction_read_to_its_newest_batch_is_reread_only_if_it_grows(reading: Reading) -> None:
    reading.found, reading.reached = {PID: commits(BILLING)}, 120
    reading.look(entry())
    reading.look(entry(), at_ms=READ_AGAIN_MS)
    assert len(reading.asked) == 1
    reading.found = {PID: commits(EOS)}
    reading.look(entry(newest_ms=6), at_ms=READ_AGAIN_MS)
    assert reading.asked[1:] == [(HOME, {PID: SearchRange(120, 6)})]
    assert reading.pending.by_group().keys() == {"billing", "eos"}


def test_a_pass_continues_after_a_pause_where_the_last_one_ended(reading: Reading) -> None:
    reading.found, reading.reached = {PID: commits(BILLING, has_newest=False)}, 130
    reading.look(entry())
    reading.look(entry(), at_ms=READ_AGAIN_MS - 1)
    assert len(reading.asked) == 1
    reading.reached = 140
    reading.look(entry(), at_ms=READ_AGAIN_MS)
    reading.look(entry(), at_ms=2 * READ_AGAIN_MS)
    assert [sought[PID].lo for _, sought in reading.asked] == [100, 130, 140]


def test_commits_of_an_ended_transaction_are_forgotten(reading: Reading) -> None:
    reading.found = {PID: commits(BILLING, malformed_key=1), OTHER: commits(EOS)}
    reading.look(entry(), entry(OTHER, 150))
    reading.look(entry(OTHER, 150), at_ms=10)
    assert reading.pending.by_group().keys() == {"eos"}
    assert reading.unread() == ()
    reading.look()
    assert reading.pending.by_group() == {}
    assert reading.pending.coordinators() == {}


def test_a_transaction_that_is_too_large_is_cut_off_and_reported(
    reading: Reading, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pending_offsets, "MOST_BYTES", 2_000)
    reading.found, reading.reached = {PID: commits(BILLING, has_newest=False)}, 130
    for n in range(5):
        reading.look(entry(), at_ms=n * READ_AGAIN_MS)
    assert len(reading.asked) == 2
    assert reading.unread() == (UnreadCommits(HOME, PID, 100, 130, (), 0),)
    assert reading.pending.by_group().keys() == {"billing"}


def test_offsets_of_one_transaction_are_bounded_too(reading: Reading, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pending_offsets, "MOST_OFFSETS", 2)
    reading.found = {PID: commits(BILLING, EOS)}
    reading.look(entry())
    assert reading.unread() == ()  # the entry has no further offsets
    reading.look(entry(newest_ms=6), at_ms=READ_AGAIN_MS)
    assert (len(reading.asked), reading.unread()) == (1, (UnreadCommits(HOME, PID, 100, END, (), 0),))


def test_transactions_that_are_too_many_are_counted(reading: Reading, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pending_offsets, "MOST_TRANSACTIONS", 1)
    reading.look(entry(), entry(OTHER, 150))
    assert reading.pending.left_out == 1
    reading.look(entry(), at_ms=READ_AGAIN_MS)
    assert reading.pending.left_out == 0


def test_commits_that_cannot_be_decoded_are_reported_with_reasons(reading: Reading) -> None:
    reading.found, reading.damaged = {PID: commits(BILLING, unknown_key_version=3, malformed_key=1)}, 1
    reading.look(entry())
    reported = UnreadCommits(HOME, PID, 100, None, (("malformed_key", 1), ("unknown_key_version", 3)), 1)
    assert reading.unread() == (reported,)


def test_a_read_that_fails_is_repeated_and_reported_after_a_while(reading: Reading) -> None:
    reading.failure = KafkaUnavailable("fetch error 6")
    reading.look(entry())
    reading.look(entry(), at_ms=READ_AGAIN_MS)
    assert len(reading.asked) == 2
    assert not reading.away.is_skipped(HOME % 3, NOW_MS)  # the broker answered that another broker is the leader
    assert reading.unread(BEHIND_MS - 1) == ()
    assert reading.unread(BEHIND_MS) == (UnreadCommits(HOME, PID, 100, 100, (), 0),)
    reading.failure, reading.found = None, {PID: commits(BILLING)}
    reading.look(entry(), at_ms=BEHIND_MS)
    assert reading.unread(2 * BEHIND_MS) == ()


def test_a_partition_without_a_leader_that_answers_is_not_asked(reading: Reading) -> None:
    reading.away.note_failure(HOME % 3, NOW_MS)
    reading.look(entry())
    reading.layout = TopicLayout(OFFSETS_TOPIC, "T", {HOME: Leader(-1, 5)})
    reading.look(entry(), at_ms=60_000)
    reading.layout = None
    reading.look(entry(), at_ms=120_000)
    assert reading.asked == []


def test_a_pass_is_bounded_in_time_and_the_next_takes_the_others_first(
    reading: Reading, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pending_offsets, "PASS_S", -1.0)
    many = [entry(partition=p) for p in range(3)]
    reading.look(*many)
    assert reading.asked == []
    monkeypatch.setattr(pending_offsets, "PASS_S", 1.0)
    reading.look(many[1])
    reading.look(*many, at_ms=READ_AGAIN_MS)
    assert [partition for partition, _ in reading.asked] == [1, 0, 2, 1]


def test_healthy_transactions_are_not_read() -> None:
    ends = {(OFFSETS_TOPIC, HOME): LsoSample(100, END, NOW_MS - 60_000)}
    first = entry()._replace(first_seen_ms=NOW_MS)
    young, old = first._replace(start_offset=150), entry(start=150)
    assert blocking_entries([first, young, old, entry(partition=3)], ends, NOW_MS) == [first, old]
