"""Every abort is explained."""

from __future__ import annotations

from hypothesis import given

from service.domain.transaction_log.abort_explanation import why_aborted
from service.domain.transaction_log.facts import LogRecord
from service.domain.transaction_log.states import PREPARE_ABORT
from tests.service.domain.records import told
from tests.service.domain.test_columns import logs


@given(logs())
def test_whatever_is_said_of_an_abort_has_its_sentences(log: list[LogRecord]) -> None:
    for row in told(log).rows:
        if row.to_state == PREPARE_ABORT and row.cause is not None and row.confidence is not None:
            assert why_aborted(row.cause, row.confidence)


def test_other_ends_are_not() -> None:
    assert why_aborted("commit", "certain") is None
