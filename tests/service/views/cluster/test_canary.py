"""Tests of the statements about the canary on the page, in REST and in metrics."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from service.domain.canary.rounds import Coordinator
from service.views.cluster.canary import read_health
from tests.helpers.canaries import EVERY_MS, GONE, NO_REPLICAS, coordinator, store_canary
from tests.helpers.partitions import WithPartitions
from tests.helpers.stores import NOW_MS, SeededCluster, client_of
from tests.service.api.answers import get
from tests.service.web.page_text import shows
from tests.service.web.stories import empty_store, overview, quiet

pytestmark = pytest.mark.cluster(of=empty_store)

WHOLE = (coordinator(1, 12, 14), coordinator(2, 9), coordinator(3, 11))
DETAIL = "partition 7 of __transaction_state has 1 of 3 replicas in sync, and needs 2"


def said(cluster: SeededCluster, now_ms: int = NOW_MS) -> tuple[str, str, list[str]]:
    with cluster.engine.connect() as connection:
        found = read_health(connection, cluster.id, now_ms)
    assert found is not None
    return found.tone, found.title, found.lines


@pytest.mark.parametrize(
    ("some", "tone", "title", "lines"),
    [
        (WHOLE, "ok", "The canary's transactions run at 3 of 3 coordinators, commit p99 14 ms.", []),
        (
            [*WHOLE[:2], coordinator(3, 11, failure=NO_REPLICAS)],
            "critical",
            "The canary's transactions run at only 2 of 3 coordinators, commit p99 14 ms.",
            [
                "Broker 3 does not commit the canary's transaction (failing since 14:13:50):"
                f" NOT_ENOUGH_REPLICAS ({DETAIL})."
            ],
        ),
        (
            [coordinator(1, failure=GONE)],
            "critical",
            "The canary's transactions fail at 1 of 1 coordinator.",
            [
                "Broker 1 cannot be a coordinator (failing since 14:13:50): BROKER_NOT_AVAILABLE"
                " (the broker is not among the cluster's live brokers)."
            ],
        ),
        (
            [*WHOLE[:2], coordinator(3, 11).idle(NOW_MS)],
            "ok",
            "The canary's transactions run at 2 of 2 coordinators, commit p99 14 ms.",
            [],
        ),
        (
            [WHOLE[0], coordinator(2, 9, at_ms=NOW_MS - 60_000)],
            "unknown",
            "The canary's transactions run at 1 of 2 coordinators, commit p99 14 ms.",
            ["The state of broker 2 is not known: the canary has finished no recent round there."],
        ),
        ([], "unknown", "It is not known whether transactions can run: the canary has not finished a round yet.", []),
    ],
    ids=["all run", "one fails", "all fail", "one is idle", "one is late", "none yet"],
)
def test_what_runs_and_what_fails_is_named(
    cluster: SeededCluster, some: Sequence[Coordinator], tone: str, title: str, lines: list[str]
) -> None:
    store_canary(cluster, some)
    assert said(cluster) == (tone, title, lines)


def test_a_log_without_leaders_is_not_all_well(cluster: SeededCluster) -> None:
    store_canary(cluster, WHOLE, leaderless=2)
    tone, _, lines = said(cluster)
    assert tone == "critical"
    assert lines == ["2 partitions of __transaction_state have no leader: no transaction of their ids can run."]


def test_a_canary_that_does_not_report_shows_nothing_as_known(cluster: SeededCluster) -> None:
    store_canary(cluster, [coordinator(1, failure=NO_REPLICAS)], leaderless=1)
    assert said(cluster, NOW_MS + 31_000) == (
        "unknown",
        "It is not known whether transactions can run: the canary has reported nothing since 14:13:50.",
        [],
    )
    store_canary(cluster, WHOLE, trouble="topic __transaction_state: DESCRIBE is not permitted")
    later = NOW_MS + EVERY_MS
    assert said(cluster, later)[2] == [
        "The canary cannot follow changes of the cluster: topic __transaction_state: DESCRIBE is not permitted."
    ]


def test_rest_has_each_coordinator_with_its_error(cluster: SeededCluster) -> None:
    assert get(cluster, "/api/v1/clusters/prod-eu/canary")["is_running"] is False
    store_canary(cluster, [*WHOLE[:2], coordinator(3, 11, failure=NO_REPLICAS)])
    body = get(cluster, "/api/v1/clusters/prod-eu/canary")
    assert (body["is_running"], body["can_run"], body["probed"], body["every_ms"]) == (True, 2, 3, EVERY_MS)
    assert body["commit_ms"] == {"p50": 12.0, "p99": 14.0}
    assert "Broker 3 does not commit" in body["summary"]
    fine, _, failing = body["coordinators"]
    assert (fine["health"], fine["init_ms"], fine["error"], fine["failures"]) == ("runs", 3.0, None, {})
    assert (failing["health"], failing["phase"], failing["error"], failing["detail"]) == (
        "fails",
        "commit",
        "NOT_ENOUGH_REPLICAS",
        DETAIL,
    )
    assert failing["failures"] == {"NOT_ENOUGH_REPLICAS": 1}
    assert failing["failing_since"] == body["as_of"]


def test_metrics_have_durations_failures_and_what_runs_now(cluster: SeededCluster) -> None:
    store_canary(cluster, [coordinator(1, 12, 14), coordinator(2, 9, failure=NO_REPLICAS)], leaderless=1)
    with client_of(cluster.url) as client:
        text = client.get("/metrics").text
    of_1, of_2 = ('cluster="prod-eu",coordinator_broker="1"', 'cluster="prod-eu",coordinator_broker="2"')
    for line in (
        f'kafka_txn_canary_commit_seconds_bucket{{{of_1},le="0.01"}} 0.0',
        f'kafka_txn_canary_commit_seconds_bucket{{{of_1},le="0.025"}} 2.0',
        f"kafka_txn_canary_commit_seconds_sum{{{of_1}}} 0.026",
        f"kafka_txn_canary_visible_seconds_count{{{of_2}}} 1.0",
        f'kafka_txn_canary_failures_total{{{of_1},error="NOT_ENOUGH_REPLICAS"}} 0.0',
        f'kafka_txn_canary_failures_total{{{of_2},error="NOT_ENOUGH_REPLICAS"}} 1.0',
        f"kafka_txn_canary_transactions_run{{{of_1}}} 1.0",
        f"kafka_txn_canary_transactions_run{{{of_2}}} 0.0",
        'kafka_txn_canary_leaderless_partitions{cluster="prod-eu"} 1.0',
    ):
        assert line in text


def test_metrics_of_a_canary_that_is_away_keep_only_what_was_counted(cluster: SeededCluster) -> None:
    store_canary(cluster, WHOLE, is_running=False)
    with client_of(cluster.url) as client:
        text = client.get("/metrics").text
    assert "kafka_txn_canary_commit_seconds_count{" in text
    assert "kafka_txn_canary_transactions_run{" not in text
    assert "kafka_txn_canary_leaderless_partitions{" not in text


def test_the_overview_says_whether_transactions_can_run(cluster: WithPartitions, url: str) -> None:
    quiet(cluster)
    assert "canary" not in overview(url).texts
    store_canary(cluster, WHOLE)
    assert shows(
        overview(url).texts["canary"], "The canary's transactions run at 3 of 3 coordinators, commit p99 14 ms."
    )
    store_canary(cluster, [coordinator(3, 11, failure=NO_REPLICAS)])
    page = overview(url)
    assert shows(
        page.texts["canary"],
        "Broker 3 does not commit the canary's transaction (failing since 14:13:50)",
        "NOT_ENOUGH_REPLICAS",
    )
    assert page.links["What to do"].endswith("KafkaTxnCanaryFailing.md")
    store_canary(cluster, [], is_running=False)
    assert "canary" not in overview(url).texts
