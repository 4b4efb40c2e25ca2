"""Tests of the geometry of the swimlane: its elements, their positions, and the timeline rows that each element stands
for. Also tests the bars by minute (`bars_of`)."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from service.domain.transaction_log import states
from service.domain.transaction_log.causes import CauseCode
from service.domain.transaction_log.facts import LogRecord
from service.domain.transaction_log.id_delta import Aborts, IdMinute, sums_of
from service.domain.transaction_log.journal import Transition
from service.domain.transaction_log.states import TWO_PHASE_TIMEOUT_MS
from service.domain.transaction_log.timeline import Row
from service.domain.transaction_log.transitions import REPEATED
from service.store.queries.history import ProducerRow
from service.store.rows.ids import IdRow
from service.views.transactions.spans import Life, Past, lives
from service.web.charts.minutes import HEIGHT, LEAST, bars_of
from service.web.charts.swimlane import TALL, WINDOWS, Axis, Label, Lanes, axis_of, bands_of, lanes_of, spaced

MINUTE = 60_000
FROM = 1_790_000_040_000  # a whole minute
WINDOW = WINDOWS["15m"]
NO_ABORTS = Aborts()
AXIS = Axis(FROM, FROM + WINDOW.span_ms)
NOW = AXIS.to_ms - 9_000


def row(offset: int, at_ms: int, to_state: int, from_state: int = states.ONGOING, **more: Any) -> Row:
    plain = Transition(offset, at_ms, from_state, to_state, 7, 3, 60_000, None, None, None, None, None)
    return Row(0, offset, True, plain._replace(**more))


def abort(
    offset: int, ended_ms: int, cause: str = CauseCode.CLIENT_ABORT, open_ms: int = 4_000, epoch: int = 3
) -> list[Row]:
    """Returns the rows of PrepareAbort and CompleteAbort of one transaction, whose markers took 50 ms."""
    reported = row(offset, ended_ms - 50, states.PREPARE_ABORT, duration_ms=open_ms, cause=cause, producer_epoch=epoch)
    return [reported, row(offset + 1, ended_ms, states.COMPLETE_ABORT, states.PREPARE_ABORT, marker_ms=50)]


def minute(at_ms: int = FROM, commits: int = 0, aborts: Aborts = NO_ABORTS, **more: int) -> IdMinute:
    return IdMinute(at_ms, sums_of(at_ms, commits)._replace(commits=commits, **more), aborts)


def newest(state: int = states.COMPLETE_COMMIT, started_at_ms: int | None = None) -> IdRow:
    """Returns the row of an id. The id's newest record has the timestamp NOW and the given state; every other number of
    the record is 0."""
    record = LogRecord(*[0] * len(LogRecord._fields))._replace(state=state, timestamp_ms=NOW)
    return IdRow(0, b"pay", "pay", 0, 0, record, 0, started_at_ms, None, 0, Aborts(), None)


def lanes(*reported: Life, timeout_ms: int = 60_000, inits: tuple[int, ...] = (), now_ms: int = NOW) -> Lanes:
    return lanes_of(AXIS, WINDOW, now_ms, reported, inits, (), timeout_ms)


def test_the_axis_ends_at_a_whole_minute_and_is_as_long_as_the_window() -> None:
    axis = axis_of(WINDOW, NOW)
    assert axis == AXIS
    assert (axis.x(axis.from_ms), axis.x(axis.to_ms)) == (0, 100)
    assert axis.x(axis.from_ms + 450_000) == 50
    assert [label.text[3:] for label in lanes().ticks] == ["14", "17", "20", "23", "26", "29"]


def test_a_week_has_dates_on_its_axis() -> None:
    window = WINDOWS["7d"]
    ticks = lanes_of(axis_of(window, NOW), window, NOW, (), (), (), 1).ticks
    assert (len(ticks), ticks[-1]) == (8, Label(100, "09-21 15:00"))


def test_a_bar_beyond_the_axis_is_cut_at_the_edge_or_left_out() -> None:
    begins_before = Life(CauseCode.COMMIT, FROM - 5_000, FROM + 9_000, FROM + 9_010)
    over = Life(CauseCode.COMMIT, FROM - 9_000, FROM - 6_000, FROM - 5_900)
    (drawn,) = lanes(over, begins_before).drawn
    assert (drawn.x, drawn.width) == (0, 1)


def test_a_bar_is_pale_while_open_and_dark_from_the_decision_on() -> None:
    (drawn,) = lanes(Life(CauseCode.FENCED, FROM, FROM + 90_000, FROM + 180_000, open_ms=90_000)).drawn
    assert (drawn.style, drawn.x, drawn.width) == ("fenced", 0, 10)
    assert (drawn.dark_x, drawn.dark_width, drawn.end_x) == (10, 10, 20)


def test_the_bar_of_an_open_transaction_ends_now_without_a_dark_end() -> None:
    reported = lanes(Life(None, NOW - 90_000, None, None))
    (drawn,) = reported.drawn
    assert (drawn.style, drawn.end_x, drawn.dark_width) == ("open", None, 0)
    assert drawn.x + drawn.width == reported.now_x == 99
    assert reported.letters[0].text == "open"


def test_a_stuck_completion_is_drawn_until_now() -> None:
    (drawn,) = lanes(Life(CauseCode.COMMIT, NOW - 99_000, NOW - 90_000, None, open_ms=9_000)).drawn
    assert (drawn.dark_width, drawn.end_x) == (10, 99)
    assert "its end was not read" in drawn.title


def test_open_time_is_drawn_against_the_timeout_line() -> None:
    reported = lanes(
        Life(CauseCode.COMMIT, FROM, FROM + 30_000, FROM + 30_010, open_ms=30_000),
        Life(CauseCode.TIMEOUT, FROM + 60_000, FROM + 127_000, FROM + 127_010, open_ms=67_000),
        Life(CauseCode.COMMIT, FROM + 200_000, FROM + 200_001, FROM + 200_002, open_ms=1),
    )
    assert reported.timeout_y is not None
    line = TALL - reported.timeout_y
    in_time, late, short = (one.tall for one in reported.drawn)
    assert in_time < line < late < TALL
    assert abs(in_time - line / 2) < 0.2
    assert short >= 1  # tall enough to be visible


def test_a_transaction_without_timeout_has_no_timeout_line() -> None:
    assert lanes(Life(None, NOW - 9_000, None, None), timeout_ms=TWO_PHASE_TIMEOUT_MS).timeout_y is None
    assert lanes(timeout_ms=-1).timeout_y is None


def test_initialisations_are_pins_at_their_times() -> None:
    assert lanes(inits=(AXIS.to_ms, FROM - 1, FROM, FROM + 90_000)).inits == (0, 10, 100)


def test_labels_that_would_touch_are_left_out() -> None:
    close = [Label(x / 10, "32766") for x in range(0, 100, 5)]
    kept = spaced(close)
    assert 2 <= len(kept) < len(close)
    assert all(later.x - earlier.x >= 3.6 for earlier, later in pairwise(kept))


def test_a_producer_id_lasts_until_the_next_and_rotation_is_routine() -> None:
    first = ProducerRow(2091, FROM - 99_000, FROM + 90_000, 3, 32_766)
    second = ProducerRow(6014, FROM + 90_000, NOW, 0, 44)
    reported = bands_of(AXIS, NOW, [second, first])
    assert [(band.x, band.width) for band in reported] == [(0, 10), (10, 89)]
    assert reported[0].text == "2091"
    assert reported[1].text == "6014: rotated, because 2091 had used up its epochs (routine, no fault)"


def test_a_new_producer_id_of_an_id_that_came_back_is_no_rotation() -> None:
    gone = ProducerRow(5, FROM, FROM + 1_000, 0, 4)
    assert bands_of(AXIS, NOW, [gone, ProducerRow(9, FROM + 90_000, NOW, 0, 0)])[1].text == "9"


def test_an_abort_is_drawn_from_its_rows() -> None:
    (life,) = lives(newest(), abort(10, FROM + 60_000, CauseCode.FENCED, open_ms=16_000, epoch=43), ())
    assert life == Life(CauseCode.FENCED, FROM + 43_950, FROM + 59_950, FROM + 60_000, 43, 16_000, 16_000, offset=10)


def test_an_abort_without_records_is_not_drawn_as_a_transaction() -> None:
    assert lives(newest(), abort(10, FROM + 60_000, CauseCode.EMPTY_ABORT), ()) == []


def test_a_repeated_record_ends_no_second_transaction() -> None:
    again = row(12, FROM + 61_000, states.COMPLETE_ABORT, states.COMPLETE_ABORT, note=REPEATED)
    assert len(lives(newest(), [*abort(10, FROM + 60_000), again], ())) == 1


def test_a_commit_alone_in_its_minute_has_all_its_times() -> None:
    alone = minute(
        commits=1,
        opened=1,
        open_sum_ms=9_000,
        open_max_ms=9_000,
        marked=1,
        marker_sum_ms=40,
        first_ms=FROM + 20_000,
        last_ms=FROM + 20_000,
    )
    (life,) = lives(newest(), (), [alone])
    assert (life.began_ms, life.prepared_ms, life.ended_ms) == (FROM + 10_960, FROM + 19_960, FROM + 20_000)


def test_a_commit_and_an_abort_of_one_minute_are_two_bars() -> None:
    both = minute(
        commits=1,
        opened=2,
        open_sum_ms=13_000,
        open_max_ms=9_000,
        marked=2,
        marker_sum_ms=90,
        first_ms=FROM + 20_000,
        last_ms=FROM + 20_000,
    )
    reported = lives(newest(), abort(10, FROM + 30_000), [both])
    assert [(life.cause, life.open_ms) for life in reported] == [
        (CauseCode.COMMIT, 9_000),
        (CauseCode.CLIENT_ABORT, 4_000),
    ]


def test_several_commits_of_a_minute_are_one_bar_that_says_how_many() -> None:
    many = minute(
        commits=12,
        opened=12,
        open_sum_ms=1_200,
        open_max_ms=300,
        marked=12,
        marker_sum_ms=90,
        first_ms=FROM + 1_000,
        last_ms=FROM + 55_000,
    )
    (life,) = lives(newest(), (), [many])
    reported = lanes(life)
    assert reported.letters[0].text == "C x12"
    assert "12 commits" in reported.drawn[0].title
    assert "100 ms on average, 300 ms at most" in reported.drawn[0].title


def test_a_slow_commit_with_a_row_of_its_own_is_drawn_once() -> None:
    slow = row(5, FROM + 30_000, states.COMPLETE_COMMIT, states.PREPARE_COMMIT, marker_ms=9_000)
    counted = minute(
        commits=1,
        opened=1,
        open_sum_ms=100,
        open_max_ms=100,
        marked=1,
        marker_sum_ms=9_000,
        first_ms=FROM + 30_000,
        last_ms=FROM + 30_000,
    )
    (life,) = lives(newest(), [slow], [counted])
    assert (life.cause, life.prepared_ms, life.ended_ms) == (CauseCode.COMMIT, FROM + 21_000, FROM + 30_000)


def test_invalid_times_draw_nothing() -> None:
    absurd = [row(1, 2**62, states.PREPARE_ABORT), row(2, -5, states.COMPLETE_ABORT, states.PREPARE_ABORT)]
    assert lives(newest(states.ONGOING, started_at_ms=2**62), absurd, ()) == []


def test_bars_stack_the_transactions_that_ended_in_each_minute() -> None:
    reported = bars_of(
        AXIS, WINDOW, [minute(FROM, 90), minute(FROM + MINUTE, 30, aborts=Aborts(fenced=10)), minute(FROM - MINUTE, 5)]
    )
    assert (reported.width_ms, reported.most) == (MINUTE, 90)
    assert [(piece.style, piece.x) for piece in reported.pieces] == [
        ("commit", 0.05),
        ("commit", 6.717),
        ("fenced", 6.717),
    ]
    tallest, commits, fenced = reported.pieces
    assert (tallest.y, tallest.height) == (0, HEIGHT)
    assert fenced.y + fenced.height == commits.y


def test_one_abort_among_thousands_of_commits_is_visible() -> None:
    commits, abort_ = bars_of(AXIS, WINDOW, [minute(FROM, 9_999, aborts=Aborts(client=1))]).pieces
    assert (abort_.style, abort_.height) == ("abort", LEAST)
    assert abort_.y == 0
    assert commits.height == HEIGHT - LEAST


def test_a_week_has_bars_of_an_hour() -> None:
    window = WINDOWS["7d"]
    axis = axis_of(window, NOW)
    reported = bars_of(
        axis, window, [minute(axis.from_ms + n * MINUTE, 1, opened=1, open_max_ms=n) for n in range(120)]
    )
    assert (reported.width_ms, [(one.total, one.longest_ms) for one in reported.bins]) == (
        3_600_000,
        [(60, 59), (60, 119)],
    )


def test_totals_contain_only_outcomes_that_occurred() -> None:
    assert Past((), (), [minute(FROM, 2), minute(FROM, 3, aborts=Aborts(timeout=1))]).totals == {
        "commit": 5,
        "timeout": 1,
    }
    assert Past((), (), ()).totals == {}
