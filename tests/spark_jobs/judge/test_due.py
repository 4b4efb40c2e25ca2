"""Tests of the judge's schedule, which depends on the clock and on the time that its work takes."""

from __future__ import annotations

from itertools import count

from spark_jobs.judge.judge import PAUSE_FACTOR, RoundTimer
from tests.helpers.clocks import no_work

NOW_MS = 1_700_000_000_000


def test_it_is_due_at_first_and_then_every_so_often() -> None:
    due = RoundTimer(1_000, no_work)
    assert due.is_due(NOW_MS)
    with due.timed(NOW_MS):
        pass
    assert not due.is_due(NOW_MS + 999)
    assert due.is_due(NOW_MS + 1_000)


def test_it_does_not_wait_for_a_clock_that_was_set_back() -> None:
    due = RoundTimer(1_000, no_work)
    with due.timed(NOW_MS):
        pass
    assert due.is_due(NOW_MS - 1)


def test_after_work_that_took_long_it_waits_in_proportion() -> None:
    seconds = count()
    due = RoundTimer(1_000, lambda: next(seconds))
    with due.timed(NOW_MS):
        pass
    assert not due.is_due(NOW_MS + PAUSE_FACTOR * 1_000 - 1)
    assert due.is_due(NOW_MS + PAUSE_FACTOR * 1_000)
