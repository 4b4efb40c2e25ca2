"""A number that can be no time of a transaction: nothing is computed with it."""

from __future__ import annotations

import pytest

from service.domain.transaction_log import states
from service.domain.transaction_log.states import (
    AHEAD_MS,
    NO_TIME,
    abort_due_at_ms,
    expires_at_ms,
    is_time,
    past_time,
    times_out_at_ms,
)

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
