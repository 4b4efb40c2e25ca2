"""Ends of the last hour, from the store, and positions of the lines and bars that show them."""

from __future__ import annotations

import re

import pytest

from service.domain.transaction_log import states
from service.domain.transaction_log.minutes import MINUTE_MS, minute_of
from service.store.queries import clusters, recent_activity
from service.web.charts.minutes import BOTTOM, TOP, WIDTH, area, nice_top, stacked
from service.web.cluster.last_hour import LastHour, read_last_hour
from service.web.shared.frame import read_frame
from tests.helpers.partitions import WithPartitions
from tests.helpers.stores import NOW_MS, Id
from tests.service.store.histories import MINUTE, aborted, committed
from tests.service.store.logs import batch
from tests.service.store.logs import read as read_range
from tests.service.web.stories import HOUR_MS, empty_store

pytestmark = pytest.mark.cluster(of=empty_store)


def last_hour(cluster: WithPartitions) -> LastHour | None:
    with cluster.engine.connect() as connection:
        found = clusters.find_cluster(connection, cluster.name)
        assert found is not None
        return read_last_hour(connection, read_frame(connection, found, NOW_MS))


def known(cluster: WithPartitions) -> LastHour:
    hour = last_hour(cluster)
    assert hour is not None
    return hour


def test_whole_minutes_alone_count(cluster: WithPartitions) -> None:
    """The present one is not over; the hour before is another story."""
    for ago_ms, commits in ((HOUR_MS + 120_000, 1_000), (HOUR_MS, 10), (MINUTE_MS, 20), (0, 4_000)):
        cluster.read([Id(b"a", commits=commits)], now_ms=NOW_MS - ago_ms)
    hour = known(cluster)
    assert (hour.commits, hour.ended) == (30, 30)
    assert (hour.from_ms, hour.to_ms) == (minute_of(NOW_MS) - HOUR_MS, minute_of(NOW_MS))
    assert hour.commits_text == "between 0 and 20 commits a minute"
    assert hour.length_ms == HOUR_MS


def test_since_counting_began(url: str) -> None:
    cluster = empty_store(url, started_ms=NOW_MS - 150_000)
    cluster.read([Id(b"a", commits=5)], now_ms=NOW_MS - 60_000)
    cluster.read()
    hour = known(cluster)
    cluster.close()
    assert hour.length_ms == 2 * MINUTE_MS
    assert hour.begins_ms == hour.to_ms - HOUR_MS
    assert float(hour.commits_area.line[1:].split()[0]) > 570, "what was not counted is not drawn"


def test_nothing_before_a_minute_is_over(url: str) -> None:
    cluster = empty_store(url, started_ms=NOW_MS - 10_000)
    assert last_hour(cluster) is None
    cluster.read()
    assert last_hour(cluster) is None
    cluster.close()


def test_aborts_are_counted_by_cause(cluster: WithPartitions) -> None:
    reported = [
        *aborted(0, MINUTE - 5 * MINUTE_MS + 1_000, b"a"),
        *aborted(3, MINUTE - 5 * MINUTE_MS + 2_000, b"b"),
        *committed(6, MINUTE - 4 * MINUTE_MS, b"c"),
        *aborted(9, MINUTE - 2 * HOUR_MS, b"d"),
    ]
    cluster.writer.apply(batch(reported, read_range(0, 12, partition=1)), NOW_MS)
    hour = known(cluster)
    assert hour.totals is not None
    assert [(one.letter, one.number) for one in hour.totals] == [("A", 2), ("T", 0), ("F", 0), ("?", 0)]
    assert [bar.style for bar in hour.aborts_bars.bars] == ["abort"]
    assert (hour.aborts, hour.aborts_text) == (2, "at most 2 aborts a minute")


def test_a_storm_has_a_number_and_no_causes(cluster: WithPartitions, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recent_activity, "MOST_STEPS", 2)
    reported = [one for n in range(3) for one in aborted(3 * n, MINUTE - 5 * MINUTE_MS, b"a-%d" % n)]
    cluster.writer.apply(batch(reported, read_range(0, 9, partition=1)), NOW_MS - 60_000)
    cluster.read()
    hour = known(cluster)
    assert hour.totals is None
    assert hour.aborts == 3
    assert [bar.style for bar in hour.aborts_bars.bars] == ["none"]


def test_half_of_them_took_so_long(cluster: WithPartitions) -> None:
    with cluster.engine.connect() as connection:
        assert recent_activity.medians(connection, cluster.id) == (None, None)
    reported = [
        one for n, ms in enumerate((4, 20, 20, 700)) for one in committed(3 * n, MINUTE, b"a-%d" % n, markers_ms=ms)
    ]
    cluster.writer.apply(batch(reported, read_range(0, 12, partition=1)), NOW_MS)
    with cluster.engine.connect() as connection:
        assert recent_activity.medians(connection, cluster.id) == (100, 25)


def test_the_first_read_counts_nothing(cluster: WithPartitions) -> None:
    reported = aborted(0, MINUTE - 5 * MINUTE_MS, b"a")
    cluster.writer.apply(batch(reported, read_range(0, 3, partition=1, counts=False)), NOW_MS - 60_000)
    cluster.read([Id(b"b", states.ONGOING)])
    hour = known(cluster)
    assert (hour.ended, hour.aborts_text) == (0, "no aborts")


@pytest.mark.parametrize(
    ("most", "top"),
    [(0, 2), (1, 2), (3, 4), (5, 6), (7, 8), (9, 10), (11, 20), (41, 60), (13_900, 20_000), (80, 80), (10**12, 10**12)],
)
def test_the_axis_ends_on_a_number_people_can_halve(most: int, top: int) -> None:
    assert nice_top(most) == top >= most
    assert top % 2 == 0


def test_an_area_goes_from_edge_to_edge() -> None:
    drawn = area([0, 20, 10])
    assert drawn.line == f"M0.0 {BOTTOM:.1f} L300.0 {TOP:.1f} L600.0 58.0"
    assert drawn.fill == f"M0.0 {BOTTOM} L0.0 {BOTTOM:.1f} L300.0 {TOP:.1f} L600.0 58.0 L600.0 {BOTTOM}Z"
    assert [(line.y, line.text) for line in drawn.grid] == [(106.0, "0"), (58.0, "10"), (10.0, "20")]


def test_minutes_that_were_not_counted_are_not_drawn_as_nothing() -> None:
    xs = [float(x) for x in re.findall(r"[ML]([0-9.]+) ", area([5, 5], missing=58).line)]
    assert min(xs) > 0.9 * WIDTH
    assert max(xs) == WIDTH
    assert area([], missing=60).line == ""


def test_bars_stand_on_one_another_and_leave_nothing_out() -> None:
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
