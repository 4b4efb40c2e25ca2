"""Tests of values that Kafka's coordinator computes: deadlines, also from absent or invalid times, and the log
partition of an id."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.domain.transaction_log import states
from service.domain.transaction_log.coordinator_partition import coordinator_partition, is_left_behind, java_hash
from service.domain.transaction_log.deadlines import (
    ABORT_SLACK_MS,
    abort_due_at_ms,
    expires_at_ms,
    is_overdue,
    overdue_timed_out_by_ms,
    times_out_at_ms,
)
from service.domain.transaction_log.known_log import KnownLog, Limits
from service.domain.transaction_log.states import AHEAD_MS, NO_TIME, is_time, past_time

NOW_MS = 1_790_000_000_000
NO_TIMES = [NO_TIME, 0, 1, 469_473_334, NOW_MS // 1_000, 2**63 - 1, -(2**63)]


@pytest.mark.parametrize("number", NO_TIMES)
def test_an_invalid_time_gives_no_derived_time(number: int) -> None:
    assert not is_time(number)
    assert past_time(number, NOW_MS) is None
    assert times_out_at_ms(states.ONGOING, number, 60_000) is None
    assert abort_due_at_ms(states.ONGOING, number, 60_000, 10_000) is None
    assert expires_at_ms(states.COMPLETE_COMMIT, number, 1_000) is None


def test_a_time_far_in_the_future_is_no_past_time() -> None:
    assert past_time(NOW_MS + AHEAD_MS, NOW_MS) == NOW_MS + AHEAD_MS
    assert past_time(NOW_MS + AHEAD_MS + 1, NOW_MS) is None
    assert past_time(NOW_MS * 1_000, NOW_MS) is None, "a time in microseconds"
    assert past_time(None, NOW_MS) is None


@given(st.integers(0, 100_000), st.integers(1, 100_000), st.integers(0, 100_000), st.integers(-5, 5))
def test_the_store_selects_the_ids_that_the_domain_calls_overdue(
    age_ms: int, timeout_ms: int, scan_ms: int, nudge_ms: int
) -> None:
    """The store compares the sum of start and timeout with one time. This comparison selects the same ids as the rule
    of the domain."""
    started_ms = NOW_MS - age_ms
    known_ms = started_ms + timeout_ms + scan_ms + ABORT_SLACK_MS + nudge_ms
    log = KnownLog(Limits(scan_ms, 1, 1, frozenset()), {4: known_ms}, {4: 1}, is_complete=True)
    selected = started_ms + timeout_ms <= overdue_timed_out_by_ms(known_ms, scan_ms)
    assert is_overdue(states.ONGOING, started_ms, timeout_ms, 4, log) == selected == (nudge_ms >= 0)


@pytest.mark.parametrize(
    ("name", "hashed", "partition"),
    [
        ("order-tx-1", 710245959, 9),
        ("polygenelubricants", -2147483648, 0),
        ("café-1", -1367835771, 21),
        ("交易-1", 624865747, 47),
        ("😀tx", 1703759655, 5),
        ("a", 97, 47),
        ("", 0, 0),
    ],
)
def test_hash_and_coordinator_partition_equal_those_of_java(name: str, hashed: int, partition: int) -> None:
    assert java_hash(name) == hashed
    assert coordinator_partition(name.encode(), 50) == partition


@pytest.mark.parametrize(
    ("name", "of_five", "of_eight"), [(b"exp-a", 0, 1), (b"exp-b", 1, 2), (b"exp-c", 2, 3), (b"pay-1", 4, 4)]
)
def test_partitions_that_were_added_move_an_id(name: bytes, of_five: int, of_eight: int) -> None:
    """The expected partitions were observed on brokers whose transaction log had 5 partitions, and later 8."""
    assert coordinator_partition(name, 5) == of_five
    assert coordinator_partition(name, 8) == of_eight
    assert is_left_behind(name, of_five, 8) == (of_five != of_eight)
    assert not is_left_behind(name, of_eight, 8)


@pytest.mark.parametrize(("name", "count"), [(b"bytes \xff", 50), (b"\xed\xa0\x80", 50), (b"pay", 0)])
def test_without_a_partition_count_no_id_is_left_behind(name: bytes, count: int) -> None:
    assert coordinator_partition(name, count) is None
    assert not is_left_behind(name, 3, count)
