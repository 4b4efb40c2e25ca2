"""Tests causes on random histories of an id. A `certain` cause is never wrong. A `likely` cause is wrong only in the
rare cases in docs/causes.md."""

from __future__ import annotations

import pytest

from service.domain.transaction_log import causes
from service.domain.transaction_log.causes import Cause, CauseCode, Confidence
from service.domain.transaction_log.facts import LogRecord
from service.domain.transaction_log.states import PREPARE_COMMIT
from tests.service.domain.coordinator import ITSELF, LATE_END
from tests.worlds.causes import Tally, draw_causes, draw_causes_block, share_right

LIVES = 3_000
"""Number of random histories of an id. `make worlds` draws 200,000."""


def test_certain_causes_are_never_wrong_and_likely_ones_rarely() -> None:
    tally = Tally()
    for seed in range(LIVES):
        draw_causes(seed, tally)
    for cause, confidence in tally.truths:
        if confidence == Confidence.CERTAIN:
            assert share_right(tally, cause, confidence) == 1
        elif confidence == Confidence.LIKELY:
            assert share_right(tally, cause, confidence) > 0.8, cause
    assert tally.truths[CauseCode.COMMIT, Confidence.LIKELY][LATE_END] > 0
    assert tally.truths[CauseCode.CLIENT_ABORT, Confidence.LIKELY][LATE_END] > 0
    assert tally.truths[CauseCode.CLIENT_ABORT, Confidence.LIKELY][ITSELF] > 0


def test_the_draws_detect_a_wrongly_certain_cause(monkeypatch: pytest.MonkeyPatch) -> None:
    """The test makes the cause of every commit certain, although some of these causes are wrong. If random histories
    did not detect this, the other test of this module would prove little."""
    judged = causes.cause_of

    def too_sure(before: LogRecord, after: LogRecord) -> Cause | None:
        return Cause(CauseCode.COMMIT, Confidence.CERTAIN) if after.state == PREPARE_COMMIT else judged(before, after)

    monkeypatch.setattr(causes, "cause_of", too_sure)
    _, wrong = draw_causes_block(0)
    assert any(LATE_END in line for line in wrong)
