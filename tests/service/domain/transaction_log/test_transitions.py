"""Tests of the order of records. An order that Kafka does not write is reported."""

from __future__ import annotations

from itertools import product

import pytest

from service.domain.transaction_log import journal, states, transitions
from tests.service.domain.records import WORDS, log, pairs, reported

IDLE = ("Empty", "CompleteCommit", "CompleteAbort")
TABLE = {  # the states that may precede each state; after a tombstone an id begins again with Empty
    "Empty": (*IDLE, "tombstone"),
    "Ongoing": (*IDLE, "Ongoing"),
    "PrepareCommit": ("Ongoing",),
    "PrepareAbort": ("Ongoing", *IDLE),
    "CompleteCommit": ("PrepareCommit",),
    "CompleteAbort": ("PrepareAbort",),
    "tombstone": IDLE,
}
REPEATED = "written again: the coordinator missed the answer to its append, or the producer the answer to its request"
EVERY_PAIR = [(before, after) for before, after in product(TABLE, TABLE) if before != after]


@pytest.mark.parametrize(("before", "after"), EVERY_PAIR, ids=lambda name: name)
def test_a_transition_that_kafka_never_writes_is_reported(before: str, after: str) -> None:
    partitions = "partitions=0" if after == "PrepareAbort" and before in IDLE else ""
    notes = reported(f"""
        10 {before}(7,4)
        20 {after}(7,5) {partitions}""").notes
    if before in TABLE[after]:
        assert notes == []
    else:
        assert notes == [
            f"{after}: Kafka allows no {_said(after)} after {_said(before)}: {transitions._ANOMALY_REASON}"
        ]


def _said(name: str) -> str:
    return states.NAMES[next(state for state, word in WORDS.items() if word == name)]


@pytest.mark.parametrize("state", ["Empty", "PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort"])
def test_a_repeated_append_is_noted_and_has_no_cause(state: str) -> None:
    story = reported(f"""
        10 {state}(7,4) start=5
        99 {state}(7,4) start=5""")
    assert story.notes == [f"{state}: {REPEATED}"]
    assert [row.cause for row in story.rows][1] is None


def test_a_repeated_tombstone_or_initialization_is_noted() -> None:
    assert reported("10 tombstone\n20 tombstone").notes == [f"tombstone: {REPEATED}"]
    retried = reported("10 Empty(7,4)\n20 Empty(7,4)")  # the epoch stays after a failed append, and after a retry
    assert (retried.causes, retried.notes) == (["Empty initialized certain"], [f"Empty: {REPEATED}"])


def test_an_abort_after_an_empty_abort_is_no_repetition() -> None:
    """An abort of an empty transaction is not counted. A real abort after it is no repetition, and is counted."""
    story = reported("""
        10 PrepareAbort(7,4) start=5 partitions=0
        20 PrepareAbort(7,4) start=5
        30 CompleteAbort(7,4)""")
    assert story.counts == {"unattributed": 1}


@pytest.mark.parametrize(
    "story",
    [
        pytest.param(
            "10 Ongoing(7,4)\n20 Ongoing(7,4) start=20",
            id="the append of the first AddPartitionsToTxn failed, or records are gone",
        ),
        pytest.param("10 Ongoing(7,4)\n20 Ongoing(7,5) start=20", id="gap between two transactions"),
        pytest.param("10 Ongoing(7,4)\n90 PrepareCommit(7,4) start=80", id="commit of a later transaction"),
        pytest.param("10 Ongoing(7,4)\n90 PrepareAbort(7,4) start=80", id="abort of a later transaction"),
        pytest.param("10 PrepareAbort(7,4)\n90 CompleteAbort(7,9) start=80", id="end of a later transaction"),
        pytest.param(
            "10 PrepareAbort(7,4)\n90 CompleteAbort(8,0) start=10", id="another producer id, although epochs were left"
        ),
        pytest.param("10 CompleteCommit(7,4)\n90 PrepareAbort(7,5) start=80", id="abort without a beginning"),
        pytest.param("10 CompleteCommit(7,4)\n90 Ongoing(8,0)", id="a new producer id that no Empty record introduced"),
    ],
)
def test_adjacent_records_of_different_transactions_are_an_anomaly(story: str) -> None:
    (note,) = reported(story).notes
    assert note.endswith("an append failed, or records are gone")


@pytest.mark.parametrize(
    "story",
    [
        pytest.param("10 Empty(7,4)\n20 Empty(7,5)", id="another initialization"),
        pytest.param("10 Empty(7,4) timeout=60000\n20 Empty(7,4) timeout=30000", id="with another timeout"),
        pytest.param(
            "10 Ongoing(7,4)\n20 Ongoing(7,4) partitions=2\n30 Ongoing(7,4) partitions=2", id="more partitions"
        ),
        pytest.param("10 CompleteAbort(7,4)", id="the first one seen"),
        pytest.param("10 Ongoing(7,4)\n20 Unknown\n30 Unknown\n40 CompleteAbort(7,5)", id="undecodable ones between"),
        *(
            pytest.param(f"10 Prepare{end}(7,32767)\n20 Complete{end}(9,0) start=10{tag}", id=f"rotated, {end}{tag}")
            for end in ("Commit", "Abort")
            for tag in ("", " prev=7")
        ),
    ],
)
def test_a_log_that_kafka_writes_has_no_anomalies(story: str) -> None:
    assert reported(story).notes == []


def test_a_tag_that_names_no_other_producer_id_denies_rotation() -> None:
    before, after = log("10 PrepareCommit(7,32767)\n20 CompleteCommit(9,0) start=10 prev=9")
    assert not transitions.is_same_transaction(before, after)


def test_an_ordinary_commit_needs_no_row() -> None:
    story = reported("""
        10 Empty(7,4)
        20 Ongoing(7,4)
        25 Ongoing(7,4) partitions=2
        30 PrepareCommit(7,5) ctv=2
        33 CompleteCommit(7,5) ctv=2
        40 Ongoing(7,5) ctv=2""")
    assert [WORDS[row.to_state] for row in story.notable] == ["Empty"]


@pytest.mark.parametrize(("took_ms", "rows"), [(999, 0), (1_000, 1)])
def test_slow_markers_get_a_row(took_ms: int, rows: int) -> None:
    story = reported(f"10 PrepareCommit(7,4)\n{10 + took_ms} CompleteCommit(7,4)")
    assert [row.marker_ms for row in story.notable] == [took_ms] * rows


def test_a_notable_step_is_never_plain() -> None:
    records = log("10 PrepareCommit(7,4)\n2000 CompleteCommit(7,4)\n2001 Ongoing(7,4)\n2002 PrepareAbort(7,4)")
    assert [bool(transitions.is_plain(*pair)) for pair in pairs(records)[1:]] == [False, True, False]


def test_durations_are_those_of_the_appends_and_never_negative() -> None:
    """Durations are computed from append times. The update time in CompleteX is only the start of the marker phase. In
    this test, a duration from the update time would be 1 ms instead of 9,014 ms."""
    story = reported("""
        1000 Ongoing(7,4)
        1500 PrepareCommit(7,4) update=1499
        10514 CompleteCommit(7,4) update=1500
        20000 Ongoing(7,4)
        19000 PrepareCommit(7,4)   # a coordinator whose clock is behind
        18000 CompleteCommit(7,4)""")
    assert [(row.duration_ms, row.marker_ms) for row in story.rows] == [
        (None, None),
        (500, None),
        (None, 9014),
        (None, None),
        (0, None),
        (None, 0),
    ]


def test_no_duration_where_there_is_no_beginning_or_no_predecessor() -> None:
    empty_abort = reported("10 CompleteCommit(7,4)\n20 PrepareAbort(7,5) partitions=0 start=20\n21 CompleteAbort(7,5)")
    unseen = reported("10 CompleteCommit(7,4)")
    other = reported("10 PrepareAbort(7,4)\n90 CompleteAbort(7,9) start=80")
    repeated = reported("10 Ongoing(7,4)\n20 PrepareAbort(7,4)\n30 PrepareAbort(7,4)\n40 CompleteAbort(7,4)")
    assert {row.duration_ms for row in (*empty_abort.rows, *unseen.rows)} == {None}
    assert {row.marker_ms for row in (*empty_abort.rows, *unseen.rows, *other.rows)} == {None}
    assert [row.duration_ms for row in repeated.rows] == [None, 10, None, None]


def test_a_negative_start_time_gives_no_duration() -> None:
    before, after = log("10 Ongoing(7,4) start=-5\n20 PrepareCommit(7,4) start=-5")
    assert journal.open_ms(before, after) is None
