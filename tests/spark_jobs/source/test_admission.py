"""Tests of admission, which decides how much of each log partition one micro-batch reads."""

from __future__ import annotations

from service.domain.transaction_log.facts import RangeRead
from spark_jobs.source.admission import READ_AT_ONCE, BatchLimits, admit, into_tasks, shares, split_by_size
from spark_jobs.source.log_identity import LogPosition, from_json, to_json


def at(next_offset: int, counted_from: int = 0) -> LogPosition:
    return LogPosition("t", 0, next_offset, 0, counted_from)


def a_range(partition: int, lo: int, hi: int, leader: int = 1) -> RangeRead:
    return RangeRead(partition, "t", 0, lo, hi, leader, 0, 0, hi, 0, 0, 0, None)


def test_history_is_read_in_whole_partitions_to_fold_each_id_once() -> None:
    positions = {p: at(0, counted_from=400) for p in range(4)}
    until = admit(positions, dict.fromkeys(range(4), 500), BatchLimits(records=700))
    assert until == {0: 400, 1: 400, 2: 0, 3: 0}


def test_a_giant_partition_is_read_in_bounded_pieces() -> None:
    assert admit({0: at(0, counted_from=10**9)}, {0: 10**9}, BatchLimits(first_read=5_000)) == {0: 5_000}


def test_no_range_straddles_the_offset_where_counting_begins() -> None:
    assert admit({0: at(90, counted_from=100)}, {0: 200}, BatchLimits()) == {0: 100}
    assert admit({0: at(100, counted_from=100)}, {0: 200}, BatchLimits()) == {0: 200}


def test_a_truncated_log_is_read_up_to_its_end() -> None:
    """The log was truncated after the first start, so `counted_from` lies beyond its end."""
    assert admit({0: at(50, counted_from=100)}, {0: 50}, BatchLimits()) == {0: 50}


def test_under_load_every_partition_gets_its_share_and_none_starves() -> None:
    until = admit({0: at(0), 1: at(0), 2: at(7)}, {0: 1_000_000, 1: 10, 2: 7}, BatchLimits(records=1_000))
    assert until[0] in range(900, 1_002)
    assert until[1] > 0
    assert until[2] == 7


def test_topics_share_the_bytes_of_a_batch_by_their_unread_bytes() -> None:
    lags, sizes = {"small": 1_000, "large": 1_000, "idle": 0}, {"small": 100, "large": 900, "idle": 100}
    assert shares(lags, sizes, 1_000_000) == {
        "small": BatchLimits(1_000),
        "large": BatchLimits(1_000),
        "idle": BatchLimits(0),
    }
    limits = shares(lags, sizes, 100_000)
    assert sum(limits[topic].records * sizes[topic] for topic in lags) == 100_000
    until = admit({0: at(0)}, {0: lags["large"]}, limits["large"])
    assert until[0] in (100, 101)


def test_there_are_no_more_tasks_than_cores_even_with_empty_ranges() -> None:
    ranges = [a_range(p, 0, 100 * (p + 1)) for p in range(10)] + [a_range(10, 5, 5)]
    tasks = into_tasks(ranges, cores=2)
    assert len(tasks) == 2
    assert sorted(r.partition for task in tasks for r in task) == list(range(11))
    loads = [sum(r.hi - r.lo for r in task) for task in tasks]
    assert max(loads) <= 1.5 * min(loads)


def test_a_heartbeat_is_one_task() -> None:
    assert [len(task) for task in into_tasks([a_range(p, 5, 5) for p in range(50)], cores=2)] == [50]
    assert into_tasks([], cores=2) == [[]]


def test_a_task_folds_a_bounded_number_of_records_at_once() -> None:
    half = READ_AT_ONCE // 2
    ranges = [a_range(p, 0, half) for p in range(5)]
    assert [[r.partition for r in some] for some in split_by_size(ranges)] == [[0, 1], [2, 3], [4]]
    assert list(split_by_size([])) == [[]]


def test_positions_travel_to_the_planner_as_text() -> None:
    positions = {0: at(2**62, counted_from=3), 49: at(0)}
    assert from_json(to_json(positions)) == positions
