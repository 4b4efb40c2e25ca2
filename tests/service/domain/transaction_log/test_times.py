"""A number that can be no time of a transaction: nothing is computed with it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.domain.transaction_log import states
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
def test_what_is_no_time_leads_to_no_other_time(number: int) -> None:
    assert not is_time(number)
    assert past_time(number, NOW_MS) is None
    assert times_out_at_ms(states.ONGOING, number, 60_000) is None
    assert abort_due_at_ms(states.ONGOING, number, 60_000, 10_000) is None
    assert expires_at_ms(states.COMPLETE_COMMIT, number, 1_000) is None


def test_what_has_happened_is_not_far_ahead() -> None:
    assert past_time(NOW_MS + AHEAD_MS, NOW_MS) == NOW_MS + AHEAD_MS
    assert past_time(NOW_MS + AHEAD_MS + 1, NOW_MS) is None
    assert past_time(NOW_MS * 1_000, NOW_MS) is None, "microseconds"
    assert past_time(None, NOW_MS) is None


@given(st.integers(0, 100_000), st.integers(1, 100_000), st.integers(0, 100_000), st.integers(-5, 5))
def test_the_store_selects_what_is_overdue(age_ms: int, timeout_ms: int, scan_ms: int, nudge_ms: int) -> None:
    """The store compares start and timeout with one number; the rules ask whether the abort was due."""
    started_ms = NOW_MS - age_ms
    known_ms = started_ms + timeout_ms + scan_ms + ABORT_SLACK_MS + nudge_ms
    log = KnownLog(Limits(scan_ms, 1, 1, frozenset()), {4: known_ms}, {4: 1}, is_complete=True)
    selected = started_ms + timeout_ms <= overdue_timed_out_by_ms(known_ms, scan_ms)
    assert is_overdue(states.ONGOING, started_ms, timeout_ms, 4, log) == selected == (nudge_ms >= 0)
