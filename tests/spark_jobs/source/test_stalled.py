"""Tests of reading stalled partitions, from a broker that answers as a test wants, without network."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from service.domain.partitions.facts import EPOCH_NOT_REPORTED, FirstBatch, OpenEntry, PartitionEnds, StalledRead
from service.domain.reasons.unread import ErrorText
from service.kafka import errors
from service.kafka.errors import KafkaRefused, KafkaUnavailable
from service.kafka.fetch import Fetched, PartitionFetch
from service.kafka.producers import ActiveProducer, Producers
from service.kafka.settings import ClientSettings
from spark_jobs.source import reader, stalled, window_fetcher
from spark_jobs.source.requests import WORTH_A_TASK, into_tasks
from tests.helpers.reasons import denied
from tests.spark_jobs.source.test_windows import data

SETTINGS = ClientSettings(("broker:9092",))
FIRST = FirstBatch(10, 1, 0, True, False, 100, 100)


class Leader:
    """A broker that leads all partitions. Every partition has the same log, whose first batch is at offset 10.
    `fetches` has, for every Fetch, the number of partitions, and the maximum bytes requested of the first partition."""

    def __init__(self, kept: Path) -> None:
        self.kept = str(kept)
        self.log = data(10, 1)
        self.lso, self.end = 10, 11
        self.fetch_error = errors.NONE
        self.described: Producers | Exception = Producers(0, (ActiveProducer(1, 0, 0, 100, -1, 10),))
        self.fetches: list[tuple[int, int]] = []
        self.failure: Exception | None = None

    def fetch_many(
        self,
        client: Any,
        node: int,
        wanted: Mapping[str, Sequence[PartitionFetch]],
        max_bytes: int,
        wait_ms: int,
        limit: int,
    ) -> list[Fetched]:
        assert wait_ms == 0
        if self.failure:
            raise self.failure
        asked = [(topic, w) for topic, some in wanted.items() for w in some]
        self.fetches.append((len(asked), asked[0][1].max_bytes))
        if self.fetch_error:
            return [Fetched(topic, w.partition, self.fetch_error, -1, -1, -1, b"") for topic, w in asked]
        return [
            Fetched(topic, w.partition, 0, self.end, self.lso, 0, self._from(w, alone=len(asked) == 1))
            for topic, w in asked
        ]

    def describe(
        self, client: Any, node: int, partitions: Mapping[str, Sequence[int]], limit: int
    ) -> dict[tuple[str, int], Producers]:
        if isinstance(self.described, Exception):
            raise self.described
        return {(topic, p): self.described for topic, of in partitions.items() for p in of}

    def read(self, *requests: PartitionEnds, by_another_worker: bool = False) -> list[StalledRead]:
        if by_another_worker:
            stalled._fetchers.clear()
        return list(stalled.read_stalled(SETTINGS, requests or [ask()], self.kept, lambda: 5_000))

    def _from(self, wanted: PartitionFetch, *, alone: bool) -> bytes:
        if wanted.offset >= self.end:
            return b""
        return self.log[: wanted.max_bytes] if len(self.log) <= wanted.max_bytes or alone else b""


@pytest.fixture
def leader(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Leader:
    found = Leader(tmp_path / "windows.db")
    monkeypatch.setattr(window_fetcher, "fetch_many", found.fetch_many)
    monkeypatch.setattr(stalled, "describe_producers", found.describe)
    monkeypatch.setattr(stalled, "_fetchers", {})
    monkeypatch.setattr(stalled, "close_client", lambda _: None)
    monkeypatch.setitem(reader.clients, SETTINGS, None)  # the client is never used
    return found


def ask(partition: int = 0, **other: Any) -> PartitionEnds:
    return PartitionEnds("orders", partition, "id", 1, 0, 0, 10, 11)._replace(**other)


def test_a_read_returns_the_batch_at_the_lso_and_the_open_producers(leader: Leader) -> None:
    size = len(leader.log)
    entry = OpenEntry(1, 0, 10, -1, 100, 1, size)
    assert leader.read() == [StalledRead("orders", 0, "id", 10, 5_000, FIRST, True, (entry,), True, size)]


def test_a_batch_is_fetched_once_while_the_lso_is_unchanged(leader: Leader) -> None:
    reported = leader.read()
    assert reported[0].first == FIRST
    assert [leader.read(by_another_worker=bool(turn % 2)) for turn in range(5)] == [reported] * 5
    assert len(leader.fetches) == 1
    leader.lso = leader.end = 11
    assert leader.read(ask(last_stable_offset=11, high_watermark=12))[0].first is None, (
        "there is no batch at the new LSO yet"
    )
    leader.log, leader.end = data(11, 2), 12
    found = leader.read(ask(last_stable_offset=11, high_watermark=12))[0].first
    assert found is not None
    assert (found.base_offset, found.producer_id) == (11, 2)


def test_only_new_records_are_read_when_the_high_watermark_moves_on(leader: Leader) -> None:
    size = len(leader.log)
    leader.read()
    leader.log, leader.end = data(11, 2), 12
    (reported,) = leader.read(ask(high_watermark=12), by_another_worker=True)
    assert (len(leader.fetches), reported.is_whole, reported.lag_bytes) == (2, True, size + len(leader.log))
    assert reported.first == FIRST


def test_a_large_lag_is_not_read_to_measure_its_bytes(leader: Leader, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stalled, "SMALL", 1)
    for _ in range(3):
        (reported,) = leader.read(ask(high_watermark=1_000_000))
    assert (reported.is_whole, reported.lag_bytes, len(reported.entries), reported.entries[0].records) == (
        False,
        None,
        1,
        None,
    )
    assert len(leader.fetches) == 1


def test_a_large_batch_is_fetched_with_a_larger_limit_and_then_alone(leader: Leader) -> None:
    leader.log = data(10, 1, records=700_000)
    assert len(leader.log) > 8 << 20
    reported = leader.read(ask(0), ask(1))
    assert [stalled_read.first is not None for stalled_read in reported] == [True, True]
    assert leader.fetches[:3] == [(2, 16 << 10), (2, 2 << 20), (1, 8 << 20)]


@pytest.mark.parametrize("said", [KafkaRefused("unsupported"), Producers(errors.TOPIC_AUTHORIZATION_FAILED, ())])
def test_batches_replace_producers_that_cannot_be_described(leader: Leader, said: Producers | Exception) -> None:
    leader.described = said
    (reported,) = leader.read()
    assert [(e.producer_id, e.start_offset, e.coordinator_epoch) for e in reported.entries] == [
        (1, 10, EPOCH_NOT_REPORTED)
    ]
    assert (reported.described, reported.is_whole, reported.first) == (False, True, FIRST)
    expected = None if isinstance(said, Exception) else denied("orders")
    assert reported.why == expected


def test_a_missing_permission_to_read_is_reported_once(leader: Leader) -> None:
    leader.fetch_error = errors.TOPIC_AUTHORIZATION_FAILED
    leader.described = Producers(errors.TOPIC_AUTHORIZATION_FAILED, ())
    (reported,) = leader.read()
    assert reported.why == denied("orders")
    assert (reported.first, reported.entries, reported.described, reported.is_whole) == (None, (), False, False)


def test_an_lso_below_the_log_start_has_no_batch_and_no_error(leader: Leader) -> None:
    (reported,) = leader.read(ask(log_start=11))
    assert leader.fetches == []
    assert (reported.first, reported.why, [e.start_offset for e in reported.entries]) == (None, None, [10])
    leader.fetch_error = (
        errors.OFFSET_OUT_OF_RANGE
    )  # the log start passed the offset after the sample and before the read
    (reported,) = leader.read()
    assert (reported.first, reported.why, reported.described) == (None, None, True)


def test_an_lso_that_moved_since_the_sample_is_not_reported(leader: Leader) -> None:
    leader.lso = 11
    assert leader.read() == []


def test_a_broker_that_does_not_answer_is_reported(leader: Leader) -> None:
    leader.failure = KafkaUnavailable("broker 1 does not answer: timeout")
    (reported,) = leader.read()
    assert (reported.why, reported.first, reported.described) == (
        ErrorText("broker 1 does not answer: timeout"),
        None,
        False,
    )
    leader.failure = None
    assert leader.read()[0].first == FIRST, "a failed read is repeated"


def test_each_worker_reads_once_if_the_cache_file_is_unusable(leader: Leader) -> None:
    leader.kept += "/no/such/directory"
    assert [leader.read()[0].first for _ in range(3)] == [FIRST] * 3
    assert len(leader.fetches) == 1
    assert leader.read(by_another_worker=True)[0].first == FIRST
    assert len(leader.fetches) == 2


def test_few_partitions_are_one_task_and_many_are_shared_by_leader() -> None:
    assert into_tasks([], 2) == [()]
    few = [ask(p, leader=p % 2) for p in range(WORTH_A_TASK)]
    assert len(into_tasks(few, 2)) == 1
    many = [ask(p, leader=p % 2) for p in range(WORTH_A_TASK * 8)]
    tasks = into_tasks(many, 2)
    assert [{ends.leader for ends in task} for task in tasks] == [{0}, {1}]
    assert sorted(ends.partition for task in tasks for ends in task) == list(range(WORTH_A_TASK * 8))
