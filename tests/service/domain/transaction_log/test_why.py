"""Every abort is explained, and every commit that may have been meant for another transaction."""

from __future__ import annotations

from hypothesis import given

from service.domain.transaction_log.abort_explanation import why_ended
from service.domain.transaction_log.causes import CauseCode, Confidence
from service.domain.transaction_log.facts import LogRecord
from service.domain.transaction_log.states import PREPARE_ABORT
from tests.service.domain.records import reported
from tests.service.domain.transaction_log.test_columns import logs


@given(logs())
def test_whatever_is_said_of_an_abort_has_its_sentences(log: list[LogRecord]) -> None:
    for row in reported(log).rows:
        if row.to_state == PREPARE_ABORT and row.cause is not None and row.confidence is not None:
            assert why_ended(row.cause, row.confidence)


def test_a_commit_that_may_have_been_meant_for_another_is_explained() -> None:
    assert why_ended(CauseCode.COMMIT, Confidence.CERTAIN) is None
    assert "Its records are committed: that is certain." in (why_ended(CauseCode.COMMIT, Confidence.LIKELY) or "")
