"""Tests of the markers and the volume of tailed partitions over REST, and of the source that reads them."""

from __future__ import annotations

from pathlib import Path

import pytest

from service.api.http.fields import text_of_time
from service.domain.partitions.ledger import LedgerBatch, Marker, TopicRange, Volume
from service.domain.source_state import SourceName
from service.store.writers.partitions import LedgerWriter
from tests.helpers.reasons import denied
from tests.helpers.stores import INT64_MAX, NOW, NOW_MS, Id, SeededCluster, client_of
from tests.service.api.answers import get, items
from tests.service.store.logs import read as span

CLUSTER = "/api/v1/clusters/orders"
PATH = f"{CLUSTER}/partitions/pay/0"
MINUTE = NOW_MS // 60_000 * 60_000
PID = 1000


class Tailing(SeededCluster):
    """A cluster that has tailed the topic `pay` for two minutes."""

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self.ledger = LedgerWriter(self.engine, self.lease)
        self.ledger.apply(LedgerBatch((TopicRange("pay", span(0, 0, asked_at_ms=NOW_MS)),)), NOW_MS - 120_000)
        self.offset = 0

    def tail(self, *markers: Marker, records: int = 9, minute_ms: int = MINUTE, end: int | None = None) -> None:
        lo, self.offset = self.offset, self.offset + 10
        commits = sum(marker.is_commit for marker in markers)
        volume = Volume("pay", 0, minute_ms, records, 100 * records, records, commits, len(markers) - commits)
        read = TopicRange("pay", span(lo, self.offset, end=end, asked_at_ms=NOW_MS))
        self.ledger.apply(LedgerBatch((read,), (volume,), markers), NOW_MS)


pytestmark = pytest.mark.cluster(of=Tailing)


def marker(offset: int, producer_id: int = PID, *, is_commit: bool = True, at_ms: int = NOW_MS - 50_000) -> Marker:
    return Marker("pay", 0, 0, offset, producer_id, 3, 5, is_commit, at_ms)


def test_markers_are_listed_newest_first_with_their_owner(cluster: Tailing) -> None:
    cluster.read([Id(b"pay\xff", producer_id=PID)])
    cluster.tail(marker(3), marker(7, INT64_MAX, is_commit=False, at_ms=NOW_MS))
    assert get(cluster, f"{PATH}/markers") == {
        "items": [
            {
                "offset": 7,
                "at": NOW,
                "marker": "ABORT",
                "producer_id": INT64_MAX,
                "producer_id_str": str(INT64_MAX),
                "producer_epoch": 3,
                "coordinator_epoch": 5,
                "transactional_id": None,
                "transactional_id_b64": None,
                "generation": 0,
                "href": None,
            },
            {
                "offset": 3,
                "at": "2026-09-21T14:13:00.123Z",
                "marker": "COMMIT",
                "producer_id": PID,
                "producer_epoch": 3,
                "coordinator_epoch": 5,
                "transactional_id": "pay\\x{ff}",
                "transactional_id_b64": "cGF5_w",
                "generation": 0,
                "href": f"{CLUSTER}/transaction?id=pay%FF",
            },
        ],
        "next_cursor": None,
        "as_of": NOW,
    }


def test_pages_contain_every_marker_once(cluster: Tailing) -> None:
    cluster.tail(*(marker(n) for n in range(7)))
    with client_of(cluster.url) as client:
        found = items(client, f"{PATH}/markers?limit=3")
    assert [one["offset"] for one in found] == [6, 5, 4, 3, 2, 1, 0]


@pytest.mark.parametrize("path", ["/partitions/pay/1/markers", "/partitions/other/0/markers"])
def test_a_cursor_is_good_for_its_partition_only(cluster: Tailing, path: str) -> None:
    cluster.tail(marker(1), marker(2))
    cursor = get(cluster, f"{PATH}/markers?limit=1")["next_cursor"]
    assert get(cluster, f"{CLUSTER}{path}?cursor={cursor}", 400)["type"] == "urn:txnscope:bad-cursor"
    assert get(cluster, f"{PATH}/markers?cursor={cursor}AAAA", 400)["type"] == "urn:txnscope:bad-cursor"


def test_volume_has_every_minute_since_the_partition_is_tailed(cluster: Tailing) -> None:
    cluster.tail(marker(3), marker(4, is_commit=False))
    cluster.tail(records=1)
    nothing = {"records": 0, "bytes": 0, "transactional_records": 0, "commits": 0, "aborts": 0}
    assert get(cluster, f"{PATH}/volume") == {
        "items": [
            {"minute": "2026-09-21T14:11:00.000Z", **nothing},
            {"minute": "2026-09-21T14:12:00.000Z", **nothing},
            {
                "minute": "2026-09-21T14:13:00.000Z",
                "records": 10,
                "bytes": 1_000,
                "transactional_records": 10,
                "commits": 1,
                "aborts": 1,
            },
        ],
        "next_cursor": None,
        "as_of": NOW,
    }
    assert len(get(cluster, f"{PATH}/volume?window=90s")["items"]) == 2


def test_the_window_of_volume_is_bounded(cluster: Tailing) -> None:
    cluster.tail(minute_ms=MINUTE - 7 * 86_400_000)
    week_ago = MINUTE - 7 * 86_400_000
    first = get(cluster, f"{PATH}/volume?window=7d&limit=200")
    assert [one["minute"] for one in first["items"]] == [text_of_time(week_ago + 60_000 * n) for n in range(200)]
    assert get(cluster, f"{PATH}/volume?window=8d", 422)["errors"][0]["parameter"] == "window"
    assert get(cluster, f"{PATH}/volume?minutes=3", 422)["type"] == "urn:txnscope:unknown-parameter"


@pytest.mark.parametrize("what", ["markers", "volume"])
@pytest.mark.parametrize("place", ["pay/1", "orders/0", "or%00ders/0"])
def test_the_problem_of_an_untailed_partition_names_the_flag(cluster: Tailing, what: str, place: str) -> None:
    problem = get(cluster, f"{CLUSTER}/partitions/{place}/{what}", 404)
    assert problem["type"] == "urn:txnscope:not-tailed"
    if place == "orders/0":
        assert problem["detail"] == (
            "partition 'orders-0' of cluster 'orders' is not tailed; to tail it, run txnscope with"
            " --partitions all --topics orders"
        )


def test_the_ledger_is_a_source_like_the_transaction_log(cluster: Tailing) -> None:
    cluster.read()
    cluster.tail(end=14)
    shown = {source["source"]: source for source in get(cluster, CLUSTER)["sources"]}
    assert shown[SourceName.LEDGER] == {
        "source": "ledger",
        "position": 10,
        "end": 14,
        "lag": 4,
        "caught_up": False,
        "coverage": {
            "watched": 1,
            "judged": 0,
            "unknown": 1,
            "why": "1 of 1 partition has not been read to its end yet",
        },
        "as_of": NOW,
        "error": None,
        "stalled_since": None,
        "stalled_why": None,
    }
    cluster.ledger.report_trouble(denied("secret"))
    why = "no permission on topic secret: grant READ on it"
    body = get(cluster, CLUSTER)
    assert next(source for source in body["sources"] if source["source"] == SourceName.LEDGER)["error"] == why
    assert {"kind": "source", "what": "source ledger", "why": why, "grant": "READ on topic secret"} in body["unknown"]


def test_the_ledger_has_the_metrics_of_a_source(cluster: Tailing) -> None:
    cluster.tail(end=14)
    with client_of(cluster.url) as client:
        text = client.get("/metrics").text
    reported = dict(line.rsplit(" ", 1) for line in text.splitlines() if 'source="ledger"' in line)
    values = {name.split("{")[0].removeprefix("kafka_txn_"): float(value) for name, value in reported.items()}
    assert values["pipeline_lag_records"] == 4
    assert values["pipeline_records_total"] == 10
    assert values["pipeline_bytes_total"] == 1_000
    assert values["pipeline_last_success_timestamp_seconds"] == NOW_MS / 1000


def test_without_a_tailed_partition_there_is_no_ledger_source(tmp_path: Path) -> None:
    cluster = SeededCluster(f"sqlite:///{tmp_path / 'plain.db'}")
    cluster.read([Id(b"pay")])
    assert [source["source"] for source in get(cluster, CLUSTER)["sources"]] == ["transaction_state"]
    with client_of(cluster.url) as client:
        assert "ledger" not in client.get("/metrics").text
    cluster.close()
