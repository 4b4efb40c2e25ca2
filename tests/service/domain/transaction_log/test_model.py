"""Tests of causes against a model that knows the true cause. A `certain` cause is never wrong, even if most of the log
is gone."""

from __future__ import annotations

from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from service.domain.transaction_log import states
from service.domain.transaction_log.causes import CauseCode, Confidence
from service.domain.transaction_log.facts import NO_RECORD, LogRecord
from service.domain.transaction_log.transitions import REPEATED, is_plain
from tests.service.domain.coordinator import ITSELF, LATE_END, ZOMBIE, Coordinator
from tests.service.domain.lives import a_life
from tests.service.domain.records import Told, judged, pairs, reported

ENDINGS = {CauseCode.CLIENT_ABORT, CauseCode.TIMEOUT, CauseCode.FENCED, CauseCode.ADMIN, CauseCode.UNATTRIBUTED}


@st.composite
def lives(draw: st.DrawFn, skewed: bool = True) -> Coordinator:
    rng = draw(st.randoms(use_true_random=False))
    return a_life(rng, draw(st.integers(1, 40)), skewed=skewed)


def wrong(story: Told, truth: dict[int, str]) -> list[tuple[int, CauseCode | None, str | None]]:
    """Returns (offset, given cause, true cause) for each cause that is `certain`, but wrong.

    INITIALIZED is accepted for an Empty that rotates the producer id.
    """
    found = []
    for row in story.rows:
        if row.confidence != Confidence.CERTAIN:
            continue
        true = truth.get(row.offset)
        if row.cause != true and (row.cause, true) != (CauseCode.INITIALIZED, CauseCode.PID_ROTATED):
            found.append((row.offset, row.cause, true))
    return found


@given(lives())
@settings(max_examples=300)
def test_a_certain_cause_is_never_wrong(life: Coordinator) -> None:
    assert wrong(reported(life.log), life.truth) == []


@given(lives(), st.data())
@settings(max_examples=300)
def test_a_certain_cause_is_never_wrong_where_records_are_gone(life: Coordinator, data: st.DataObject) -> None:
    """Compaction may have removed any records except the newest, and up to two of the remaining ones may be
    undecodable."""
    gone = data.draw(st.sets(st.integers(0, max(len(life.log) - 2, 0))))
    broken = data.draw(st.sets(st.integers(0, len(life.log) - 1), max_size=2))
    left = [damaged(r) if r.offset in broken else r for r in life.log if r.offset not in gone or r is life.log[-1]]
    assert wrong(reported(left), life.truth) == []


def damaged(record: LogRecord) -> LogRecord:
    return NO_RECORD._replace(offset=record.offset, timestamp_ms=record.timestamp_ms, state=states.UNKNOWN)


@given(lives())
@settings(max_examples=300)
def test_every_abort_is_counted_once_under_the_cause_its_row_shows(life: Coordinator) -> None:
    story = reported(life.log)
    assert set(story.counts) <= ENDINGS
    assert story.counts.total() == life.aborts


@given(lives(skewed=False))
@settings(max_examples=300)
def test_a_complete_log_without_failed_appends_has_no_anomalies(life: Coordinator) -> None:
    """One repetition is allowed: a producer that misses the answer to its request for a new epoch (KIP-360) asks again,
    and the coordinator writes an equal Empty record."""
    assert set(reported(life.log).notes) <= {f"Empty: {REPEATED}"}


@given(lives())
@settings(max_examples=300)
def test_plain_pairs_change_no_result(life: Coordinator) -> None:
    """Executors leave out plain pairs: the steps of an ordinary commit that get no row of their own."""
    steps = pairs(life.log)
    every, some = judged(steps), judged([pair for pair in steps if not is_plain(*pair)])
    assert (every.last_abort, every.notable, every.counts) == (some.last_abort, some.notable, some.counts)


@given(lives())
@settings(max_examples=300)
def test_a_growing_log_gives_the_same_causes_as_the_whole_log(life: Coordinator) -> None:
    """While the log grows, some causes become final before the next record arrives."""
    unskewed = [r for r in life.log if r.timestamp_ms >= max(p.timestamp_ms for p in life.log[: r.offset + 1])]
    assert judged(pairs(unskewed), settles_early=True)[1:] == judged(pairs(unskewed))[1:]


def test_the_model_shows_every_cause_on_every_broker() -> None:
    """The tests above draw their histories from the same model, so every true cause can occur in them."""
    lived = [a_life(Random(seed), 60) for seed in range(1_200)]
    for name, never in {"3.9": {CauseCode.EMPTY_ABORT}, "4.0.0": set(), "4.2": set(), "4.3": set()}.items():
        truths = {true for life in lived if life.broker.name == name for true in life.truth.values()}
        others = {
            CauseCode.COMMIT,
            CauseCode.EMPTY_ABORT,
            CauseCode.EXPIRY,
            CauseCode.INITIALIZED,
            CauseCode.PID_ROTATED,
            LATE_END,
            ITSELF,
            ZOMBIE,
        }
        assert truths == {*ENDINGS, *others} - {CauseCode.UNATTRIBUTED, *never}
