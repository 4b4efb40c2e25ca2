"""Tests of the charts by minute: the drawn shapes add up to the totals, and the axes are readable."""

from __future__ import annotations

import re

import pytest

from service.web.charts.minutes import BOTTOM, TOP, WIDTH, area, nice_top, stacked


@pytest.mark.parametrize(
    ("most", "top"),
    [(0, 2), (1, 2), (3, 4), (5, 6), (7, 8), (9, 10), (11, 20), (41, 60), (13_900, 20_000), (80, 80), (10**12, 10**12)],
)
def test_the_axis_ends_on_a_round_even_number(most: int, top: int) -> None:
    assert nice_top(most) == top >= most
    assert top % 2 == 0


def test_an_area_goes_from_edge_to_edge() -> None:
    drawn = area([0, 20, 10])
    assert drawn.line == f"M0.0 {BOTTOM:.1f} L300.0 {TOP:.1f} L600.0 58.0"
    assert drawn.fill == f"M0.0 {BOTTOM} L0.0 {BOTTOM:.1f} L300.0 {TOP:.1f} L600.0 58.0 L600.0 {BOTTOM}Z"
    assert [(line.y, line.text) for line in drawn.grid] == [(106.0, "0"), (58.0, "10"), (10.0, "20")]


def test_minutes_that_were_not_counted_are_not_drawn_as_zero() -> None:
    xs = [float(x) for x in re.findall(r"[ML]([0-9.]+) ", area([5, 5], missing=58).line)]
    assert min(xs) > 0.9 * WIDTH
    assert max(xs) == WIDTH
    assert area([], missing=60).line == ""


def test_bars_are_stacked_without_gaps() -> None:
    drawn = stacked([{"abort": 3, "timeout": 1}, {}, {"fenced": 2}], ["abort", "timeout", "fenced"])
    first, above, other = drawn.bars
    assert (first.style, above.style, other.style) == ("abort", "timeout", "fenced")
    assert first.y + first.height == BOTTOM
    assert above.y + above.height == first.y
    assert above.y == TOP
    assert other.height == 48.0
    assert 0 < first.x < first.x + first.width < 200 < 400 < other.x
    assert other.x + other.width < WIDTH


def test_large_numbers_are_short() -> None:
    assert [line.text for line in area([13_900]).grid] == ["0", "10 k", "20 k"]
    assert [line.text for line in area([3_000_000]).grid] == ["0", "2 M", "4 M"]


def test_an_empty_chart_has_a_grid_and_no_bars() -> None:
    drawn = stacked([{} for _ in range(60)], ["abort"])
    assert drawn.bars == ()
    assert [line.text for line in drawn.grid] == ["0", "1", "2"]
