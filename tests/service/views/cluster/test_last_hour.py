"""Tests of the transactions that ended in the last hour, by minute and by cause, and of the medians of their
durations."""

from __future__ import annotations

import pytest

from service.domain.transaction_log import states
from service.domain.transaction_log.id_delta import MINUTE_MS, minute_of
from service.store.queries import clusters, pipeline
from service.views.cluster.frame import read_frame
from service.views.cluster.last_hour import LastHour, read_last_hour
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


def test_only_whole_minutes_of_the_last_hour_are_counted(cluster: WithPartitions) -> None:
    for ago_ms, commits in ((HOUR_MS + 120_000, 1_000), (HOUR_MS, 10), (MINUTE_MS, 20), (0, 4_000)):
        cluster.read([Id(b"a", commits=commits)], now_ms=NOW_MS - ago_ms)
    hour = known(cluster)
    assert (hour.committed, hour.ended) == (30, 30)
    assert (hour.from_ms, hour.to_ms) == (minute_of(NOW_MS) - HOUR_MS, minute_of(NOW_MS))
    assert hour.commits_text == "between 0 and 20 commits a minute"
    assert hour.length_ms == HOUR_MS


def test_the_last_hour_begins_where_counting_began(url: str) -> None:
    cluster = empty_store(url, started_ms=NOW_MS - 150_000)
    cluster.read([Id(b"a", commits=5)], now_ms=NOW_MS - 60_000)
    cluster.read()
    hour = known(cluster)
    cluster.close()
    assert hour.length_ms == 2 * MINUTE_MS
    assert hour.begins_ms == hour.to_ms - HOUR_MS
    assert (hour.commits, hour.missing) == ([0, 5], 58), "minutes that were not counted are not drawn"
    assert hour.commits_text == "5 commits a minute", "the first minute is counted only in part"


def test_a_minute_that_is_counted_in_part_has_no_rate(url: str) -> None:
    cluster = empty_store(url, started_ms=NOW_MS - MINUTE_MS)
    cluster.read([Id(b"a", commits=1)], now_ms=NOW_MS - MINUTE_MS)
    cluster.read()
    hour = known(cluster)
    cluster.close()
    assert (hour.commits, hour.commits_text) == ([1], "1 commit since counting began")


def test_there_is_no_last_hour_before_a_minute_is_over(url: str) -> None:
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
    assert [(word.letter, number) for word, number in hour.totals] == [("A", 2), ("T", 0), ("F", 0), ("?", 0)]
    assert [minute for minute in hour.aborts if minute] == [{"abort": 2}]
    assert (hour.aborted, hour.aborts_text) == (2, "at most 2 aborts a minute")


def test_very_many_aborts_have_a_total_and_no_causes(cluster: WithPartitions, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipeline, "MOST_STEPS", 2)
    reported = [entry for n in range(3) for entry in aborted(3 * n, MINUTE - 5 * MINUTE_MS, b"a-%d" % n)]
    cluster.writer.apply(batch(reported, read_range(0, 9, partition=1)), NOW_MS - 60_000)
    cluster.read()
    hour = known(cluster)
    assert hour.totals is None
    assert hour.aborted == 3
    assert [minute for minute in hour.aborts if any(minute.values())] == [{"none": 3}]


def test_half_of_the_transactions_took_at_most_the_median(cluster: WithPartitions) -> None:
    with cluster.engine.connect() as connection:
        assert pipeline.medians(connection, cluster.id) == (None, None)
    reported = [
        entry for n, ms in enumerate((4, 20, 20, 700)) for entry in committed(3 * n, MINUTE, b"a-%d" % n, markers_ms=ms)
    ]
    cluster.writer.apply(batch(reported, read_range(0, 12, partition=1)), NOW_MS)
    with cluster.engine.connect() as connection:
        assert pipeline.medians(connection, cluster.id) == (100, 25)


def test_aborts_before_the_start_of_counting_are_not_counted(cluster: WithPartitions) -> None:
    reported = aborted(0, MINUTE - 5 * MINUTE_MS, b"a")
    cluster.writer.apply(batch(reported, read_range(0, 3, partition=1, counts=False)), NOW_MS - 60_000)
    cluster.read([Id(b"b", states.ONGOING)])
    hour = known(cluster)
    assert (hour.ended, hour.aborts_text) == (0, "no aborts")
