"""Tests which abort of a timeline is explained."""

from __future__ import annotations

from typing import Any

from service.domain.transaction_log.abort_explanation import newest_abort, why_ended
from service.domain.transaction_log.causes import CauseCode, Confidence


def aborted(at: str, cause: str | None, confidence: str | None = "likely") -> dict[str, Any]:
    return {"type": "transition", "to_state": "PrepareAbort", "at": at, "cause": cause, "confidence": confidence}


def test_the_newest_abort_with_a_cause_is_explained() -> None:
    folded = {"type": "folded", "count": 3}
    begun = aborted("14:03", "initialized") | {"to_state": "Empty"}
    rows = [folded, begun, aborted("14:02", None, None), aborted("14:01", "fenced"), aborted("14:00", "timeout")]
    assert newest_abort(rows) == (rows[3], why_ended(CauseCode.FENCED, Confidence.LIKELY))


def test_no_older_abort_takes_the_place_of_one_without_an_explanation() -> None:
    assert newest_abort([aborted("14:01", "of a newer version"), aborted("14:00", "fenced")]) is None
    assert newest_abort([]) is None
