"""Tests of stalled sources: the start and the cause of a stall, every limit, and clocks that differ."""

from __future__ import annotations

import pytest

from service.domain.reasons.reason import Reason
from service.domain.reasons.unread import ErrorText
from service.domain.source_state import (
    LEASE_LAPSES_AFTER_MS,
    STALLED_AFTER_MS,
    LeaseState,
    Stall,
    StallCause,
    stall_of,
)
from service.store.lease import EXPIRES_AFTER_MS

NOW = 1_790_000_000_000
OLD = NOW - 120_000
HELD = LeaseState(NOW - 1_000, released=False)
LAPSED = LeaseState(OLD + 200, released=False)
RELEASED = LeaseState(OLD + 200, released=True)
ERROR = ErrorText("no broker of kafka:9092 answers")


def test_the_domain_and_the_store_use_the_same_lease_duration() -> None:
    assert LEASE_LAPSES_AFTER_MS == EXPIRES_AFTER_MS


@pytest.mark.parametrize("lease", [HELD, LAPSED, RELEASED, None])
@pytest.mark.parametrize("error", [None, ERROR])
@pytest.mark.parametrize("age_ms", [0, 1_000, STALLED_AFTER_MS])
def test_a_source_that_succeeded_lately_does_not_stall(
    age_ms: int, error: Reason | None, lease: LeaseState | None
) -> None:
    assert stall_of(NOW - age_ms, error, lease, NOW) is None


def test_a_source_stalls_a_millisecond_after_the_limit() -> None:
    as_of_ms = NOW - STALLED_AFTER_MS - 1
    assert stall_of(as_of_ms, None, HELD, NOW) == Stall(StallCause.NO_PROGRESS, as_of_ms)


@pytest.mark.parametrize(
    ("unrenewed_ms", "cause"),
    [(LEASE_LAPSES_AFTER_MS, StallCause.NO_PROGRESS), (LEASE_LAPSES_AFTER_MS + 1, StallCause.LOST)],
)
def test_a_lease_is_held_until_another_process_may_take_it(unrenewed_ms: int, cause: StallCause) -> None:
    stall = stall_of(OLD, None, LeaseState(NOW - unrenewed_ms, released=False), NOW)
    assert stall is not None
    assert stall.cause is cause


@pytest.mark.parametrize(
    ("as_of_ms", "error", "lease", "stall"),
    [
        # without an error, the lease gives the cause
        (OLD, None, HELD, Stall(StallCause.NO_PROGRESS, OLD)),
        (OLD, None, LAPSED, Stall(StallCause.LOST, OLD, unread_since_ms=OLD + 200)),
        (OLD, None, RELEASED, Stall(StallCause.STOPPED, OLD, unread_since_ms=OLD + 200)),
        (OLD, None, LeaseState(NOW, released=True), Stall(StallCause.STOPPED, OLD, unread_since_ms=NOW)),
        (OLD, None, None, Stall(StallCause.NO_APPLICATION, OLD)),
        # an error is the cause, and a missing reader is named beside it
        (OLD, ERROR, HELD, Stall(StallCause.FAILING, OLD, ERROR)),
        (OLD, ERROR, LAPSED, Stall(StallCause.FAILING, OLD, ERROR, OLD + 200)),
        (OLD, ERROR, RELEASED, Stall(StallCause.FAILING, OLD, ERROR, OLD + 200)),
        (OLD, ERROR, None, Stall(StallCause.FAILING, OLD, ERROR)),
        # a source that was never read has no start of its stall
        (None, None, HELD, Stall(StallCause.NOT_YET, None)),
        (None, ERROR, HELD, Stall(StallCause.FAILING, None, ERROR)),
        (None, None, LAPSED, Stall(StallCause.LOST, None, unread_since_ms=OLD + 200)),
        (None, None, RELEASED, Stall(StallCause.STOPPED, None, unread_since_ms=OLD + 200)),
        (None, None, None, Stall(StallCause.NO_APPLICATION, None)),
        # a lease in the future is held; a read after the renewal is the reader's last sign of life
        (OLD, None, LeaseState(NOW + 60_000, released=False), Stall(StallCause.NO_PROGRESS, OLD)),
        (OLD, None, LeaseState(OLD - 60_000, released=False), Stall(StallCause.LOST, OLD, unread_since_ms=OLD)),
        # a success in the future is no start of a stall
        (NOW + 3_600_000, None, LAPSED, Stall(StallCause.LOST, None, unread_since_ms=OLD + 200)),
        (NOW + 3_600_000, ERROR, HELD, Stall(StallCause.FAILING, None, ERROR)),
    ],
)
def test_a_stall_has_its_cause_and_its_beginning(
    as_of_ms: int | None, error: Reason | None, lease: LeaseState | None, stall: Stall
) -> None:
    assert stall_of(as_of_ms, error, lease, NOW) == stall


def test_a_fast_clock_of_the_reader_hides_no_stall_while_it_renews() -> None:
    ahead_ms = 3_600_000
    lease = LeaseState(NOW + ahead_ms, released=False)
    assert stall_of(NOW + ahead_ms - STALLED_AFTER_MS, None, lease, NOW) is None
    as_of_ms = NOW + ahead_ms - STALLED_AFTER_MS - 1
    assert stall_of(as_of_ms, None, lease, NOW) == Stall(StallCause.NO_PROGRESS, as_of_ms)


@pytest.mark.parametrize(("ahead_ms", "stalls"), [(STALLED_AFTER_MS, False), (STALLED_AFTER_MS + 1, True)])
def test_a_clock_that_was_set_back_far_stalls_a_source(ahead_ms: int, stalls: bool) -> None:
    """After the clock was set back, the last success lies in the future. Until the clock reaches the time of the last
    success, every read counts as older than the last success and is dropped."""
    lease = LeaseState(NOW, released=False)
    expected = Stall(StallCause.CLOCK_SET_BACK, None, until_ms=NOW + ahead_ms) if stalls else None
    assert stall_of(NOW + ahead_ms, None, lease, NOW) == expected
