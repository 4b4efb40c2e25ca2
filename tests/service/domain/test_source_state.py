"""The stalled source, its start and its cause: every cause and boundary, and clocks that differ."""

from __future__ import annotations

import pytest

from service.domain.reasons.reason import Reason
from service.domain.reasons.unread import ErrorText
from service.domain.source_state import (
    LEASE_LAPSES_AFTER_MS,
    STALLED_AFTER_MS,
    Cause,
    LeaseState,
    Stall,
    stall_of,
)
from service.store.lease import EXPIRES_AFTER_MS

NOW = 1_790_000_000_000
OLD = NOW - 120_000
HELD = LeaseState(NOW - 1_000, released=False)
LAPSED = LeaseState(OLD + 200, released=False)
RELEASED = LeaseState(OLD + 200, released=True)
ERROR = ErrorText("no broker of kafka:9092 answers")


def test_the_lease_lapses_here_when_it_does_in_the_store() -> None:
    assert LEASE_LAPSES_AFTER_MS == EXPIRES_AFTER_MS


@pytest.mark.parametrize("lease", [HELD, LAPSED, RELEASED, None])
@pytest.mark.parametrize("error", [None, ERROR])
@pytest.mark.parametrize("age_ms", [0, 1_000, STALLED_AFTER_MS])
def test_a_source_that_succeeded_lately_does_not_stall(
    age_ms: int, error: Reason | None, lease: LeaseState | None
) -> None:
    assert stall_of(NOW - age_ms, error, lease, NOW) is None


def test_a_source_stalls_from_a_millisecond_later_on() -> None:
    as_of_ms = NOW - STALLED_AFTER_MS - 1
    assert stall_of(as_of_ms, None, HELD, NOW) == Stall(Cause.NO_PROGRESS, as_of_ms)


@pytest.mark.parametrize(
    ("lease", "stall"),
    [
        (HELD, Stall(Cause.NO_PROGRESS, OLD)),
        (LAPSED, Stall(Cause.LOST, OLD, unread_since_ms=OLD + 200)),
        (RELEASED, Stall(Cause.STOPPED, OLD, unread_since_ms=OLD + 200)),
        (LeaseState(NOW, released=True), Stall(Cause.STOPPED, OLD, unread_since_ms=NOW)),
        (None, Stall(Cause.NO_APPLICATION, OLD)),
    ],
)
def test_without_an_error_the_lease_says_why(lease: LeaseState | None, stall: Stall) -> None:
    assert stall_of(OLD, None, lease, NOW) == stall


@pytest.mark.parametrize(
    ("unrenewed_ms", "cause"),
    [(LEASE_LAPSES_AFTER_MS, Cause.NO_PROGRESS), (LEASE_LAPSES_AFTER_MS + 1, Cause.LOST)],
)
def test_a_lease_is_held_until_another_may_take_it(unrenewed_ms: int, cause: Cause) -> None:
    stall = stall_of(OLD, None, LeaseState(NOW - unrenewed_ms, released=False), NOW)
    assert stall is not None
    assert stall.cause is cause


@pytest.mark.parametrize(
    ("lease", "unread_since_ms"), [(HELD, None), (LAPSED, OLD + 200), (RELEASED, OLD + 200), (None, None)]
)
def test_an_error_is_the_reason_and_a_missing_reader_is_named_beside_it(
    lease: LeaseState | None, unread_since_ms: int | None
) -> None:
    assert stall_of(OLD, ERROR, lease, NOW) == Stall(Cause.FAILING, OLD, ERROR, unread_since_ms)


@pytest.mark.parametrize(
    ("error", "lease", "stall"),
    [
        (None, HELD, Stall(Cause.NOT_YET, None)),
        (ERROR, HELD, Stall(Cause.FAILING, None, ERROR)),
        (None, LAPSED, Stall(Cause.LOST, None, unread_since_ms=OLD + 200)),
        (None, RELEASED, Stall(Cause.STOPPED, None, unread_since_ms=OLD + 200)),
        (None, None, Stall(Cause.NO_APPLICATION, None)),
    ],
)
def test_a_source_that_was_never_read_has_no_beginning(
    error: Reason | None, lease: LeaseState | None, stall: Stall
) -> None:
    assert stall_of(None, error, lease, NOW) == stall


def test_a_read_after_the_last_renewal_is_the_last_sign_of_the_reader() -> None:
    """Another part of the application stood still, so the lease was not renewed."""
    stall = stall_of(OLD, None, LeaseState(OLD - 60_000, released=False), NOW)
    assert stall == Stall(Cause.LOST, OLD, unread_since_ms=OLD)


def test_a_fast_clock_of_the_reader_hides_no_stall_while_it_renews() -> None:
    ahead_ms = 3_600_000
    lease = LeaseState(NOW + ahead_ms, released=False)
    assert stall_of(NOW + ahead_ms - STALLED_AFTER_MS, None, lease, NOW) is None
    as_of_ms = NOW + ahead_ms - STALLED_AFTER_MS - 1
    assert stall_of(as_of_ms, None, lease, NOW) == Stall(Cause.NO_PROGRESS, as_of_ms)


def test_a_renewal_in_the_future_is_a_lease_that_is_held() -> None:
    assert stall_of(OLD, None, LeaseState(NOW + 60_000, released=False), NOW) == Stall(Cause.NO_PROGRESS, OLD)


@pytest.mark.parametrize(("ahead_ms", "stalls"), [(STALLED_AFTER_MS, False), (STALLED_AFTER_MS + 1, True)])
def test_a_clock_that_was_set_back_makes_all_that_is_read_pass_for_old(ahead_ms: int, stalls: bool) -> None:
    """The lease is renewed by the same clock: the success was not yet, and no later one is taken for news."""
    lease = LeaseState(NOW, released=False)
    expected = Stall(Cause.CLOCK_SET_BACK, None, until_ms=NOW + ahead_ms) if stalls else None
    assert stall_of(NOW + ahead_ms, None, lease, NOW) == expected


def test_a_success_in_the_future_is_no_beginning_of_a_stall() -> None:
    future_ms = NOW + 3_600_000
    assert stall_of(future_ms, None, LAPSED, NOW) == Stall(Cause.LOST, None, unread_since_ms=OLD + 200)
    assert stall_of(future_ms, ERROR, HELD, NOW) == Stall(Cause.FAILING, None, ERROR)
