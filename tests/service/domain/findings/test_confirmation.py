"""Tests of the steps that confirm a hanging entry: no step can be skipped, and a confirmed case stays confirmed."""

from __future__ import annotations

import pytest

from service.domain.findings.confirmation import (
    ADD_IN_FLIGHT_MS,
    CLIENT_WAITS_MS,
    NEXT,
    Confirmation,
    Confirmed,
    EndsKnown,
    Open,
    Released,
    Unowned,
    move,
    settled_at_ms,
    step_2,
)

NOW_MS = 1_700_000_000_000
ENDS = EndsKnown(NOW_MS, {0: 10})
UNOWNED = Unowned(NOW_MS + 1, ENDS, ())
CONFIRMED = Confirmed(UNOWNED, True, ())
STATES = (Open(), ENDS, Released(NOW_MS), UNOWNED, CONFIRMED)


@pytest.mark.parametrize("before", STATES)
@pytest.mark.parametrize("after", STATES)
def test_a_case_moves_only_along_the_table_of_transitions(before: Confirmation, after: Confirmation) -> None:
    if type(after) in NEXT[type(before)]:
        assert move(before, after) == after
    else:
        with pytest.raises(ValueError, match=f"that is {type(before).__name__} cannot become {type(after).__name__}"):
            move(before, after)


def test_only_an_unowned_case_can_be_confirmed() -> None:
    assert [state for state, following in NEXT.items() if Confirmed in following] == [Unowned]
    assert NEXT[Confirmed] == frozenset()


def test_step_2_has_a_time_from_the_unowned_state_on() -> None:
    assert [step_2(state) for state in STATES] == [None, None, None, UNOWNED, UNOWNED]


@pytest.mark.parametrize(
    ("disturbed_ms", "waits_ms"),
    [(NOW_MS - CLIENT_WAITS_MS, ADD_IN_FLIGHT_MS), (NOW_MS - CLIENT_WAITS_MS + 1, CLIENT_WAITS_MS)],
)
def test_confirmation_waits_for_clients_after_a_broker_failure(disturbed_ms: int, waits_ms: int) -> None:
    assert settled_at_ms(NOW_MS, disturbed_ms) == NOW_MS + waits_ms
