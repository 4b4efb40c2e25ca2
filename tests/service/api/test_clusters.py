"""Tests of answers about clusters: counts, rates, read progress, and values that are unknown."""

from __future__ import annotations

from pathlib import Path

import pytest

from service.domain.reasons.unread import ErrorText
from service.domain.transaction_log import states
from service.domain.transaction_log.facts import Gap
from service.domain.transaction_log.states import CONFIG_DEFAULTS
from service.store import clusters
from tests.helpers.stores import DESCRIPTION, INT64_MAX, NOW, NOW_MS, Id, SeededCluster, open_id
from tests.service.api.answers import get

CLUSTER = "/api/v1/clusters/orders"

pytestmark = pytest.mark.cluster(partitions=2)


def test_a_store_without_clusters_has_an_empty_list(cluster: SeededCluster, tmp_path: Path) -> None:
    empty = SeededCluster(f"sqlite:///{tmp_path / 'other.db'}")
    with empty.engine.begin() as connection:
        for table in ("leases", "log_partitions", "clusters"):
            connection.exec_driver_sql(f"DELETE FROM {table}")
    assert get(empty, "/api/v1/clusters") == {"items": [], "next_cursor": None, "as_of": None}
    empty.close()


def test_clusters_are_listed_by_name_with_the_body_of_a_single_cluster(cluster: SeededCluster) -> None:
    cluster.read([Id(b"a")])
    other = SeededCluster(cluster.url, "analytics")
    other.read([Id(b"b")], now_ms=NOW_MS + 7_000)
    listed = get(cluster, "/api/v1/clusters")
    assert [item["cluster"] for item in listed["items"]] == ["analytics", "orders"]
    assert listed["items"][1] == get(cluster, CLUSTER)
    assert listed["as_of"] == "2026-09-21T14:13:57.123Z", "the newest `as_of` of all clusters"
    other.close()


def test_states_are_counted_without_the_expired(cluster: SeededCluster) -> None:
    cluster.read(Id(b"%d" % state, state) for state in states.NAMES)
    cluster.read([open_id("late", 1)], partition=1)
    body = get(cluster, CLUSTER)
    assert body["states"] == {
        "Empty": 1,
        "Ongoing": 2,
        "PrepareCommit": 1,
        "PrepareAbort": 1,
        "CompleteCommit": 1,
        "CompleteAbort": 1,
        "Unknown": 1,
    }
    assert body["open"] == 4


def test_totals_and_rates_cover_the_last_whole_minutes(cluster: SeededCluster) -> None:
    cluster.read([Id(b"old", commits=1_000)], now_ms=NOW_MS - 400_000)
    cluster.read([Id(b"a", commits=60, aborts=30)], now_ms=NOW_MS - 60_000)
    cluster.read([Id(b"b", commits=5)], now_ms=NOW_MS)  # in the current minute
    body = get(cluster, CLUSTER)
    assert body["totals"] == {
        "counted_since": "2026-09-21T14:03:50.123Z",
        "commits": 1_065,
        "aborts": {"client": 0, "timeout": 0, "fenced": 0, "admin": 0, "unattributed": 30},
    }
    assert body["rates"] == {"window_ms": 300_000, "commits_per_s": 0.2, "aborts_per_s": 0.1}


def test_rates_begin_where_counting_began(tmp_path: Path) -> None:
    begun_ms = NOW_MS - 70_000  # 19.877 s before the current minute
    cluster = SeededCluster(f"sqlite:///{tmp_path / 'store.db'}", started_ms=begun_ms)
    cluster.read([Id(b"a", commits=199)], now_ms=begun_ms)
    assert get(cluster, CLUSTER)["rates"]["window_ms"] == 0
    cluster.read(now_ms=NOW_MS)
    rates = get(cluster, CLUSTER)["rates"]
    cluster.close()
    assert rates == {"window_ms": 19_877, "commits_per_s": 10.012, "aborts_per_s": 0.0}


def test_a_source_reports_how_far_it_has_read(cluster: SeededCluster) -> None:
    cluster.read([Id(b"a"), Id(b"b")], behind=5)
    cluster.read([Id(b"c")], partition=1)
    (source,) = get(cluster, CLUSTER)["sources"]
    assert source == {
        "source": "transaction_state",
        "position": 3,
        "end": 8,
        "lag": 5,
        "caught_up": False,
        "coverage": {
            "watched": 2,
            "judged": 1,
            "unknown": 1,
            "why": "1 of 2 partitions has not been read to its end yet",
        },
        "as_of": NOW,
        "error": None,
        "stalled_since": None,
        "stalled_why": None,
    }
    cluster.read([Id(b"a")] * 0, behind=0)
    (source,) = get(cluster, CLUSTER)["sources"]
    assert source["caught_up"]
    assert source["coverage"] == {"watched": 2, "judged": 2, "unknown": 0, "why": None}


def test_a_failing_source_reports_its_error_and_keeps_its_as_of(cluster: SeededCluster) -> None:
    cluster.read([Id(b"a")])
    cluster.writer.report_trouble(ErrorText("no broker answers: broker-1:9092"))
    body = get(cluster, CLUSTER)
    (source,) = body["sources"]
    assert (source["as_of"], source["error"]) == (NOW, "no broker answers: broker-1:9092")
    assert body["unknown"][0] == {
        "kind": "source",
        "what": "source transaction_state",
        "why": "no broker answers: broker-1:9092",
        "grant": None,
    }


def test_a_source_that_never_succeeded_has_no_as_of(tmp_path: Path) -> None:
    cluster = SeededCluster(f"sqlite:///{tmp_path / 'store.db'}", partitions=0)
    cluster.writer.report_trouble(ErrorText("topic __transaction_state does not exist (yet)"))
    body = get(cluster, CLUSTER)
    cluster.close()
    (source,) = body["sources"]
    assert (source["as_of"], source["caught_up"]) == (None, False)
    assert source["coverage"]["why"] == "topic __transaction_state does not exist (yet)"
    assert body["rates"] == {"window_ms": 0, "commits_per_s": 0.0, "aborts_per_s": 0.0}


def test_unknown_lists_gaps_of_a_day_and_undecodable_ids(cluster: SeededCluster) -> None:
    cluster.read([Id(b"a")], gap=Gap(0, 10, "retention"), now_ms=NOW_MS - 2 * 86_400_000)
    cluster.read([Id(b"b")], gap=Gap(11, 20, "retention"), now_ms=NOW_MS - 3_600_000)
    cluster.read([Id(b"c", states.UNKNOWN), Id(b"d", states.UNKNOWN)])
    unknown = get(cluster, CLUSTER)["unknown"]
    assert unknown[:2] == [
        {
            "kind": "offsets",
            "what": "__transaction_state-0",
            "why": "offsets 11 to 20 were deleted before they were read",
            "grant": None,
        },
        {
            "kind": "states",
            "what": "state of 2 transactional ids",
            "why": "their newest record could not be decoded",
            "grant": None,
        },
    ]


def test_configs_say_where_they_come_from(cluster: SeededCluster) -> None:
    body = get(cluster, CLUSTER)
    assert {name: config["source"] for name, config in body["configs"].items()} == dict.fromkeys(
        CONFIG_DEFAULTS, "assumed"
    )
    assert body["unknown"][-1]["grant"] == "DESCRIBE_CONFIGS on the cluster"
    clusters.describe(cluster.engine, cluster.id, DESCRIPTION, NOW_MS)
    body = get(cluster, CLUSTER)
    assert body["brokers"] == [{"id": 1, "host": "broker-1", "port": 9092, "release": "4.3"}]
    assert body["features"] == {"transaction.version": 2}
    assert body["configs"]["transactional.id.expiration.ms"] == {"value": "3600000", "source": "broker"}


def test_coordinators_have_one_row_per_partition(cluster: SeededCluster) -> None:
    cluster.read([Id(b"a"), open_id("b", 5_000), Id(b"gone", states.EXPIRED)], behind=4)
    body = get(cluster, f"{CLUSTER}/coordinators")
    assert body["as_of"] == NOW
    assert body["next_cursor"] is None
    assert body["items"] == [
        {
            "partition": 0,
            "leader": 1,
            "leader_epoch": 5,
            "ids": 2,
            "open": 1,
            "transitions_per_s": 0.005,
            "position": 3,
            "end_offset": 7,
            "lag": 4,
            "as_of": NOW,
        },
        {
            "partition": 1,
            "leader": 1,
            "leader_epoch": 5,
            "ids": 0,
            "open": 0,
            "transitions_per_s": 0.0,
            "position": 0,
            "end_offset": 0,
            "lag": 0,
            "as_of": "2026-09-21T14:03:50.123Z",
        },
    ]


def test_numbers_that_no_double_can_hold_have_digits_as_text(cluster: SeededCluster) -> None:
    cluster.read(behind=INT64_MAX)
    (source,) = get(cluster, CLUSTER)["sources"]
    assert source["end"] == INT64_MAX
    assert source["end_str"] == source["lag_str"] == "9223372036854775807"
    assert "position_str" not in source
