"""Tests that the rules for transitions and outcomes give the same results for columns as for records, that every log
can be judged, and that every cause of an abort has an explanation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.domain.transaction_log import outcomes, states, transitions
from service.domain.transaction_log.abort_explanation import why_ended
from service.domain.transaction_log.causes import CauseCode, Confidence
from service.domain.transaction_log.facts import LogRecord
from service.domain.transaction_log.states import PREPARE_ABORT
from tests.service.domain.records import judged, log, pairs, reported

TIMES = st.sampled_from([-(2**63), -1, 0, 5, 6, 1004, 1005, 2**63 - 1])
RECORDS = st.builds(
    LogRecord,
    offset=st.just(0),
    timestamp_ms=TIMES,
    leader_epoch=st.just(0),
    state=st.sampled_from([*states.PERSISTED, states.EXPIRED, states.UNKNOWN]),
    producer_id=st.sampled_from([-1, 7, 7, 8]),
    producer_epoch=st.sampled_from([-32_768, -1, 0, 5, 5, 6, 32_766, 32_767]),
    timeout_ms=st.sampled_from([-1, 60_000, 2**31 - 1]),
    last_update_ms=TIMES,
    start_ms=TIMES,
    client_transaction_version=st.sampled_from([0, 2]),
    previous_producer_id=st.sampled_from([-1, 7, 8]),
    partition_count=st.integers(0, 1),
)
NEARLY_THE_SAME = st.sampled_from(["state", "timestamp_ms", "producer_epoch", "producer_id", "start_ms"])


@st.composite
def logs(draw: st.DrawFn) -> list[LogRecord]:
    """Draws arbitrary records. Neighbours often differ in only a few fields."""
    records: list[LogRecord] = []
    for offset in range(draw(st.integers(1, 12))):
        record = draw(RECORDS)
        is_near: bool = draw(st.booleans())
        if records and is_near:
            changed = draw(st.sets(NEARLY_THE_SAME, max_size=3))
            record = records[-1]._replace(**{name: getattr(record, name) for name in changed})
        records.append(record._replace(offset=offset))
    return records


RULES = (
    transitions.is_plain,
    transitions.is_repetition,
    transitions.is_same_transaction,
    outcomes.completes_commit,
    outcomes.completes_abort,
)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
@given(logs())
def test_rules_give_the_same_answers_for_columns_and_records(
    rule: Callable[[Any, Any], Any], records: list[LogRecord]
) -> None:
    steps = pairs(records)
    one_by_one = [bool(rule(before, after)) for before, after in steps]
    before, after = (LogRecord(*columns(of)) for of in zip(*steps, strict=True))
    assert rule(before, after).tolist() == one_by_one


def test_a_pair_whose_time_difference_overflows_is_not_plain() -> None:
    first, last = -(2**63), 2**63 - 1
    before, after = log(f"{first} PrepareCommit(7,5) start=1\n{last} CompleteCommit(7,5) start=1")
    for pair in ((before, after), (LogRecord(*columns((before,))), LogRecord(*columns((after,))))):
        assert not transitions.is_plain(*pair)


def columns(records: tuple[LogRecord, ...]) -> Any:
    return (np.array(column, np.int64) for column in zip(*records, strict=True))


@given(logs())
@settings(max_examples=300)
def test_plain_pairs_change_no_result_in_any_log(records: list[LogRecord]) -> None:
    steps = pairs(records)
    every, some = judged(steps), judged([pair for pair in steps if not transitions.is_plain(*pair)])
    assert (every.last_abort, every.notable, every.counts) == (some.last_abort, some.notable, some.counts)


@given(logs())
def test_every_sequence_of_records_can_be_judged(records: list[LogRecord]) -> None:
    story = reported(records)
    durations = [ms for row in story.rows for ms in (row.duration_ms, row.marker_ms) if ms is not None]
    assert min(durations, default=0) >= 0
    ends = sum(bool(outcomes.completes_abort(before, after)) for before, after in pairs(records))
    assert story.counts.total() == ends


@given(logs())
def test_every_cause_of_an_abort_has_an_explanation(log: list[LogRecord]) -> None:
    for row in reported(log).rows:
        if row.to_state == PREPARE_ABORT and row.cause is not None and row.confidence is not None:
            assert why_ended(row.cause, row.confidence)


def test_a_commit_that_may_have_been_meant_for_another_is_explained() -> None:
    assert why_ended(CauseCode.COMMIT, Confidence.CERTAIN) is None
    assert "Its records are certainly committed" in (why_ended(CauseCode.COMMIT, Confidence.LIKELY) or "")
