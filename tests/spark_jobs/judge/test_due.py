"""Tests of the judge's schedule, which depends on the clock and on the time that its work takes."""

from __future__ import annotations

from itertools import count

from spark_jobs.judge.judge import PAUSE_FACTOR, RoundTimer
from tests.helpers.clocks import no_work

NOW_MS = 1_700_000_000_000


def test_a_round_is_due_at_first_and_then_at_each_interval() -> None:
    due = RoundTimer(1_000, no_work)
    assert due.is_due(NOW_MS)
    with due.timed(NOW_MS):
        pass
    assert not due.is_due(NOW_MS + 999)
    assert due.is_due(NOW_MS + 1_000)


def test_a_round_is_due_at_once_when_the_clock_is_set_back() -> None:
    due = RoundTimer(1_000, no_work)
    with due.timed(NOW_MS):
        pass
    assert due.is_due(NOW_MS - 1)


def test_the_pause_after_a_round_grows_with_the_time_it_took() -> None:
    seconds = count()
    due = RoundTimer(1_000, lambda: next(seconds))
    with due.timed(NOW_MS):
        pass
    assert not due.is_due(NOW_MS + PAUSE_FACTOR * 1_000 - 1)
    assert due.is_due(NOW_MS + PAUSE_FACTOR * 1_000)
