"""Tests of the cause of a marker. A marker has the cause of the decision that fits its type, epoch and time. If no
decision fits, although all decisions of that time are known, the marker was probably written without the
coordinator."""

from __future__ import annotations

import pytest

from service.domain.partitions.facts import MarkerType
from service.domain.partitions.marker_causes import (
    CLOCKS_MS,
    CLOSE_MS,
    Decision,
    KnownPeriod,
    MarkerCause,
    cause_of_marker,
)
from service.domain.transaction_log.causes import Cause, CauseCode, Confidence

T = 1_790_000_000_000
COMMITTED = Cause(CauseCode.COMMIT, Confidence.CERTAIN)
OWN, LATE = Cause(CauseCode.CLIENT_ABORT, Confidence.CERTAIN), Cause(CauseCode.TIMEOUT, Confidence.LIKELY)
BY_HAND = Cause(CauseCode.ADMIN, Confidence.LIKELY)
ALL = KnownPeriod(T - 3_600_000, T + 3_600_000)
DECISIONS = (
    Decision(MarkerType.ABORT, T, T + 20, OWN),
    Decision(MarkerType.COMMIT, T + 8_000, T + 9_000, COMMITTED),
    Decision(MarkerType.ABORT, T + 60_000, T + 90_000, LATE),
)


@pytest.mark.parametrize(
    ("marker", "at_ms", "cause"),
    [
        (MarkerType.ABORT, T + 10, OWN),
        (MarkerType.ABORT, T - CLOSE_MS, OWN),
        (MarkerType.ABORT, T + 20 + CLOSE_MS, OWN),
        # ambiguous: clocks may differ, or the marker was written by hand
        (MarkerType.ABORT, T - CLOSE_MS - 1, Cause(CauseCode.CLIENT_ABORT, Confidence.AMBIGUOUS)),
        (MarkerType.ABORT, T + 20 + CLOCKS_MS, Cause(CauseCode.CLIENT_ABORT, Confidence.AMBIGUOUS)),
        (MarkerType.ABORT, T + 21 + CLOCKS_MS, BY_HAND),
        (MarkerType.ABORT, T + 89_000, LATE),
        (MarkerType.COMMIT, T + 8_500, COMMITTED),
        (MarkerType.COMMIT, T + 10, BY_HAND),  # 7,990 ms before the decision
        (MarkerType.ABORT, T - 3_600_001, None),  # not all decisions of that time are known
        (MarkerType.ABORT, T + 3_600_001, None),
    ],
)
def test_a_marker_has_the_cause_of_the_decision_at_its_time(
    marker: MarkerType, at_ms: int, cause: Cause | None
) -> None:
    found = cause_of_marker(marker, None, at_ms, DECISIONS, ALL)
    assert (found and found.cause) == cause
    assert (found is not None and found.by_hand) == (cause == BY_HAND)


def test_the_last_decision_under_way_explains_a_marker() -> None:
    quick = (Decision(MarkerType.ABORT, T, T + 20, OWN), Decision(MarkerType.ABORT, T + 100, T + 110, LATE))
    assert cause_of_marker(MarkerType.ABORT, None, T + 15, quick, ALL) == MarkerCause(OWN)
    assert cause_of_marker(MarkerType.ABORT, None, T + 105, quick, ALL) == MarkerCause(LATE)
    lasting = (Decision(MarkerType.ABORT, T, None, OWN), Decision(MarkerType.ABORT, T + 100, None, LATE))
    assert cause_of_marker(MarkerType.ABORT, None, T + 500_000, lasting, ALL) == MarkerCause(LATE)


def test_without_a_whole_history_a_missing_decision_says_nothing() -> None:
    assert cause_of_marker(MarkerType.ABORT, None, T + 30_000, DECISIONS, None) is None


def test_a_marker_of_another_epoch_is_of_another_decision() -> None:
    known = (
        Decision(MarkerType.ABORT, T, T + 20, OWN, marker_epoch=6),
        Decision(MarkerType.ABORT, T + 21, T + 40, LATE, marker_epoch=7),
    )
    assert cause_of_marker(MarkerType.ABORT, 6, T + 30, known, ALL) == MarkerCause(OWN)
    assert cause_of_marker(MarkerType.ABORT, 7, T + 10, known, ALL) == MarkerCause(LATE)
    assert cause_of_marker(MarkerType.ABORT, 5, T + 10, known, ALL) == MarkerCause(BY_HAND, by_hand=True)
    assert cause_of_marker(MarkerType.ABORT, 5, T + 10, known, None) is None
    assert cause_of_marker(MarkerType.ABORT, 5, T + 10, DECISIONS, ALL) == MarkerCause(OWN), (
        "a decision without a known epoch fits a marker of any epoch"
    )
