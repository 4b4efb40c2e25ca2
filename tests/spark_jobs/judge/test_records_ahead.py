"""Tests that the partition's log after a group's offset is rarely read: never for a group whose offset advances, and
once for each LSO for a group whose offset stays below the LSO. Above the LSO, the log is read again when it has grown,
until there is a record. A read that failed is repeated later."""

from __future__ import annotations

from typing import Any

import pytest

from service.domain.partitions.group_offsets import GroupOffset, IsolationLevel, LsoSample
from service.kafka.client import KafkaClient
from service.kafka.cluster import Leader, TopicLayout
from service.kafka.errors import KafkaRefused, KafkaUnavailable
from spark_jobs.judge import records_ahead
from spark_jobs.judge.group_rounds import UnresponsiveBrokers
from spark_jobs.judge.records_ahead import AGAIN_MS, KEPT_MS, RecordsAhead, needs_later_sample

NOW_MS = 1_790_000_000_000
LSO, HW = 100, 150
PLACE = "orders", 0
CLIENT: KafkaClient = object()  # type: ignore[assignment]


class Log:
    """Stands in for the partition's log, and counts the reads."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.answer: bool | Exception | None = False
        self.reads: list[tuple[int, int, int]] = []
        self.ahead = RecordsAhead(UnresponsiveBrokers())
        patch.setattr(records_ahead, "topic_layout", lambda _, topic: TopicLayout(topic, "", {0: Leader(1, 0)}))
        patch.setattr(records_ahead, "has_records_ahead", self._read)

    def _read(self, _: object, topic: str, partition: int, leader: Leader, *offsets: int) -> bool | None:
        assert (topic, partition) == PLACE
        offset, lso, hi = offsets
        self.reads.append((offset, lso, hi))
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer

    def see(self, offset: int, after_ms: int, lso: int = LSO, hi: int = HW, lag: int = -1, **more: Any) -> Any:
        """Runs one round, `after_ms` after NOW_MS. Returns whether the log has records ahead of a group at `offset`, or
        None while this is not known."""
        row = GroupOffset("billing", *PLACE, offset, 2, False)._replace(**more)
        lags = {row[:3]: lag} if lag >= 0 else {}
        ends = {PLACE: LsoSample(lso, hi, NOW_MS)}
        (found,) = self.ahead.complete(CLIENT, [row], lags, ends, NOW_MS + after_ms)
        assert found.lso == (None if row.is_unstable else lso)
        return found.has_records_ahead


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> Log:
    return Log(monkeypatch)


def test_a_group_that_advances_causes_no_read(log: Log) -> None:
    assert [log.see(LSO - 20 + n, n * KEPT_MS) for n in range(10)] == [None] * 10
    assert log.reads == []


def test_a_group_that_stays_below_the_lso_causes_one_read_for_each_lso(log: Log) -> None:
    assert [log.see(90, n * KEPT_MS) for n in range(4)] == [None, False, False, False]
    assert log.reads == [(90, LSO, HW)]
    log.answer = True
    assert [log.see(90, (n + 4) * KEPT_MS, lso=LSO + 5) for n in range(3)] == [None, True, True]
    assert len(log.reads) == 2
    log.answer = None  # the read stopped at a limit, and another read would stop there, too
    assert [log.see(50, (n + 8) * KEPT_MS) for n in range(4)] == [None] * 4
    assert len(log.reads) == 3


def test_the_log_above_the_lso_is_read_until_there_is_a_record(log: Log) -> None:
    assert [log.see(HW, n * KEPT_MS) for n in range(3)] == [None, False, False]
    assert len(log.reads) == 1, "without new records, the log is not read again"
    log.answer = True
    assert [log.see(HW, (3 + n) * KEPT_MS, hi=HW + 1 + n) for n in range(3)] == [True, True, True]
    assert len(log.reads) == 2


@pytest.mark.parametrize("failure", [KafkaRefused("denied"), KafkaUnavailable("away")])
def test_a_read_that_fails_is_tried_again_later(log: Log, failure: Exception) -> None:
    log.answer = failure
    assert [log.see(90, n * KEPT_MS) for n in range(5)] == [None] * 5
    assert len(log.reads) == 1
    log.answer = False
    assert log.see(90, AGAIN_MS + KEPT_MS) is False


@pytest.mark.parametrize(
    "row",
    [
        {"members": 0},
        {"isolation": IsolationLevel.READ_UNCOMMITTED},
        {"is_unstable": True},
        {"committed_offset": -1},
        {"committed_offset": LSO},
    ],
)
def test_the_log_is_not_read_if_the_result_would_change_nothing(log: Log, row: dict[str, Any]) -> None:
    assert [log.see(90, n * KEPT_MS, **row) for n in range(3)] == [None] * 3
    assert log.reads == []


def test_the_lag_of_a_share_group_makes_a_read_unnecessary(log: Log) -> None:
    """The coordinator of a share group reports the lag up to the high watermark. If an older broker reports no lag, the
    log is read. The LSO is 50 offsets below the high watermark."""
    assert log.see(0, 0, lag=HW - LSO, isolation=IsolationLevel.READ_COMMITTED) is False
    assert log.see(0, KEPT_MS, lag=HW - LSO + 1, isolation=IsolationLevel.READ_COMMITTED) is True
    assert log.reads == []
    assert [log.see(0, n * KEPT_MS, isolation=IsolationLevel.READ_COMMITTED) for n in range(2, 4)] == [None, False], (
        "an older broker reports no lag, so the log is read"
    )
    assert len(log.reads) == 1


@pytest.mark.parametrize(("offset", "lag", "is_needed"), [(LSO, -1, False), (LSO + 1, -1, True), (0, HW - LSO, True)])
def test_an_offset_beyond_the_lso_and_a_lag_need_a_later_sample(offset: int, lag: int, is_needed: bool) -> None:
    """The lag counts records that were written after the earlier sample, so that sample would show records ahead of the
    group that are not there."""
    row = GroupOffset("billing", *PLACE, offset, 2, False)
    needed = needs_later_sample([row], {row[:3]: lag}, {PLACE: LsoSample(LSO, HW, NOW_MS)})
    assert needed == ({PLACE} if is_needed else frozenset())
    assert needs_later_sample([row], {row[:3]: lag}, {}) == frozenset(), "the partition does not stall"


def test_rows_of_a_partition_without_a_later_sample_stay_as_they_are(log: Log) -> None:
    row = GroupOffset("billing", *PLACE, 90, 2, False)
    for n in range(3):
        assert log.ahead.complete(CLIENT, [row], {}, {}, NOW_MS + n * KEPT_MS) == [row]
    assert log.reads == []
