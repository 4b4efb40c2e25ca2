"""Tests of the offset ruler: its elements, its scale between breaks, and the text in place of elements that do not
fit."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.web.charts.ruler import Ruler, draw, mini
from service.web.charts.ruler_scale import (
    ABORTED,
    COMMITTED,
    DECIDED,
    END,
    FREE,
    HANGING,
    HIDDEN,
    MARKER,
    MOST_SPANS,
    OPEN,
    SOON,
    STOPPED,
    Pin,
    Span,
)

START, LSO, HW = 18_204_311, 48_211_907, 48_219_346
HANGS = Span(LSO, LSO + 3, HANGING, "payments-3", "hanging", size="3 records", begins=True)


def drawn(*spans: Span, pins: tuple[Pin, ...] = (), start: int = START, lso: int = LSO, hw: int = HW) -> Ruler:
    found = draw(start, lso, hw, spans, pins)
    assert found is not None
    return found


def kinds_of(ruler: Ruler) -> list[str]:
    return [span.kind for span in ruler.spans]


def test_other_offsets_are_decided_below_the_lso_and_hidden_above() -> None:
    ruler = drawn(HANGS)
    assert [(span.first, span.next, span.kind) for span in ruler.spans] == [
        (START, LSO, DECIDED),
        (LSO, LSO + 3, HANGING),
        (LSO + 3, HW, HIDDEN),
    ]
    assert ruler.hidden == HW - LSO
    assert [ruler.readable(span) for span in ruler.spans] == [
        "yes, except aborted records",
        "no: the LSO is here",
        "not yet",
    ]


def test_three_records_among_millions_are_visible_beside_a_scale_break() -> None:
    ruler = drawn(HANGS)
    hangs = next(block for block in ruler.blocks if block.css == "hanging")
    assert hangs.width > 1.6
    assert hangs.x == ruler.lso_x
    decided, _, hidden = ruler.blocks
    assert [decided.x < x < decided.x + decided.width for x in ruler.breaks] == [True, False]
    assert hidden.x < ruler.breaks[1] < hidden.x + hidden.width
    (label,) = hangs.labels
    assert label.is_below
    assert label.is_critical
    assert label.lines == ("hanging: payments-3", "3 records")


def test_without_a_break_everything_is_to_one_scale() -> None:
    spans = (Span(0, 40, COMMITTED), Span(40, 41, MARKER, marker="C"), Span(41, 61, ABORTED), Span(61, 62, MARKER))
    ruler = drawn(*spans, Span(62, 100, OPEN), start=0, lso=62, hw=100)
    assert ruler.breaks == ()
    assert [round(block.width / END * 100) for block in ruler.blocks] == [40, 20, 38]
    assert [mark.letter for mark in ruler.marks] == ["C", ""]
    assert ruler.marks[0].x == pytest.approx(40.5 * END / 100, abs=0.01)
    assert [block.hatched for block in ruler.blocks] == [False, True, False]
    assert [ruler.readable(span) for span in ruler.spans[:3]] == ["yes", "never delivered", "skipped"]


def test_the_scale_is_uniform_between_breaks() -> None:
    ruler = drawn(
        Span(LSO - 27, LSO - 10, COMMITTED, "payments-0"), Span(LSO - 9, LSO - 1, ABORTED, "payments-3"), HANGS
    )
    scales = {block.css: block.width for block in ruler.blocks if block.css in ("committed", "aborted", "hanging")}
    assert scales["committed"] / 17 == pytest.approx(scales["aborted"] / 8, abs=0.01)
    assert scales["committed"] / 17 == pytest.approx(scales["hanging"] / 3, abs=0.01)


def test_groups_are_pinned_at_their_offsets_and_near_the_lso_to_scale() -> None:
    stopped = Pin(LSO, "settlement", STOPPED, "stopped here")
    soon = Pin(LSO - 19, "fraud-scoring", SOON, "will probably stop, 19 offsets to go")
    free = Pin(HW - 2, "audit-tail", FREE, "reads uncommitted")
    ruler = drawn(HANGS, pins=(stopped, free, soon))
    at = {pin.title: pin for pin in ruler.pins}
    assert [pin.title for pin in ruler.pins] == ["group fraud-scoring", "group settlement", "group audit-tail"]
    assert at["group settlement"].x == ruler.lso_x
    offset = next(block.width for block in ruler.blocks if block.css == "hanging") / 3
    assert ruler.lso_x - at["group fraud-scoring"].x == pytest.approx(19 * offset, abs=0.1)
    assert all(pin.level is not None for pin in ruler.pins)
    assert ruler.top == 28 * (ruler.levels - 1)


def test_groups_at_one_offset_share_a_pin() -> None:
    pins = tuple(Pin(LSO, f"group-{n}", STOPPED, "stopped here") for n in range(3))
    (pin,) = drawn(HANGS, pins=pins).pins
    assert (pin.title, pin.note) == ("3 groups", "stopped here")


def test_groups_without_room_are_counted_and_blocked_ones_are_kept() -> None:
    idle = [Pin(LSO - 1_000 * n, f"idle-{n}", FREE, "inactive") for n in range(2, 40)]
    ruler = drawn(HANGS, pins=(*idle, Pin(LSO, "settlement", STOPPED, "stopped here")))
    assert "group settlement" in [pin.title for pin in ruler.pins]
    assert len(ruler.pins) + ruler.more_pins == 39
    assert len(ruler.pins) <= 12


def test_offsets_outside_of_the_log_are_drawn_at_its_ends() -> None:
    """The records of an entry may have been deleted, and the LSO may lie below the log start."""
    older = Span(5, 8, HANGING, "old")
    ruler = drawn(older._replace(next=120), pins=(Pin(3, "late", SOON, "will stop"),), start=100, lso=5, hw=200)
    assert ruler.last_stable_offset == 100
    assert ruler.lso_x == 0
    assert (ruler.spans[0].first, ruler.spans[0].next) == (100, 120)
    assert ruler.pins[0].x == 0
    assert [axis.name for axis in ruler.axes] == ["LSO (last stable offset)", "HW (high watermark)"]
    beyond = drawn(pins=(Pin(900, "beyond", FREE, "reads uncommitted"),), start=100, lso=150, hw=200)
    assert beyond.pins[0].x == END


def test_a_log_that_is_empty_has_no_ruler() -> None:
    assert draw(10, 10, 10, ()) is None
    assert draw(-1, -1, -1, ()) is None


def test_lso_and_high_watermark_share_an_end_if_nothing_is_hidden() -> None:
    ruler = drawn(start=0, lso=50, hw=50)
    assert ruler.hidden == 0
    assert ruler.lso_x == END
    assert [axis.name for axis in ruler.axes] == ["log start", "LSO = high watermark"]


def test_a_name_that_does_not_fit_is_left_to_the_table_and_never_cut() -> None:
    long = "w" * 200
    ruler = drawn(HANGS._replace(who=long))
    reported = [line for block in ruler.blocks for label in block.labels for line in label.lines]
    assert not any("w" * 20 in line for line in reported)
    assert "hanging, 3 records" in reported
    assert ruler.spans[1].who == long


def test_thousands_of_spans_are_folded_around_the_lso() -> None:
    spans = [Span(n * 10, n * 10 + 10, COMMITTED if n % 2 else ABORTED) for n in range(2_000)]
    ruler = drawn(*spans, start=0, lso=10_000, hw=20_000)
    assert len(ruler.blocks) <= MOST_SPANS + 2
    assert len(ruler.spans) == 2_000, "the table lists every span"
    near = [block for block in ruler.blocks if block.x <= ruler.lso_x <= block.x + block.width]
    assert {block.css for block in near} <= {"committed", "aborted"}


offsets = st.integers(0, 10**12)


@given(start=offsets, hidden=offsets, decided=offsets, parts=st.lists(st.integers(0, 2000), max_size=12))
def test_the_drawing_of_any_log_is_whole_in_order_and_within_bounds(
    start: int, hidden: int, decided: int, parts: list[int]
) -> None:
    lso, hw = start + decided, start + decided + hidden
    spans = [Span(lso + at, lso + at + 1, OPEN, f"id-{at}") for at in parts]
    pins = [Pin(lso - at, f"g-{at}", STOPPED, "stopped") for at in parts]
    ruler = draw(start, lso, hw, spans, pins)
    if ruler is None:
        assert hw == start
        return
    assert ruler.spans[0].first == start
    assert ruler.spans[-1].next == hw
    assert all(a.next == b.first for a, b in pairwise(ruler.spans))
    assert all(0 <= block.x <= END and block.width >= 0 for block in ruler.blocks)
    assert all(a.x + a.width <= b.x + 0.02 for a, b in pairwise(ruler.blocks))
    last = ruler.blocks[-1]
    assert last.x + last.width == pytest.approx(END, abs=0.05)
    assert all(0 <= x <= END for x in (ruler.lso_x, *ruler.breaks, *(pin.x for pin in ruler.pins)))
    assert list(ruler.breaks) == sorted(ruler.breaks)


def test_the_small_ruler_shows_how_much_is_hidden() -> None:
    small = mini(0, 900, 1_000, "hanging")
    assert small is not None
    assert (small.lso_x, small.focus, small.css) == (90, 4, "hanging")
    assert small.text == "10.0 % of the last 1,000 offsets are hidden"
    one = mini(0, 999_999, 1_000_000)
    assert one is not None
    assert one.lso_x == 97, "even one hidden record takes visible space"
    assert mini(0, 10, 10) is None
    whole = mini(500, 100, 1_000, "unknown")
    assert whole is not None
    assert (whole.lso_x, whole.css) == (0, "unread"), "the LSO is below the log start, so the whole log is hidden"
