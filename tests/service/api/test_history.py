"""Tests of answers about the history of an id, the owners of a producer id, and ids that expire soon."""

from __future__ import annotations

from collections.abc import Sequence

from service.domain.transaction_log import states
from service.store import clusters
from tests.helpers.stores import DESCRIPTION, INT64_MAX, NOW_MS, Id, SeededCluster, client_of, open_id
from tests.service.api.answers import get, items
from tests.service.store.histories import MINUTE, aborted, committed
from tests.service.store.logs import Entry, batch, entry, read

CLUSTER = "/api/v1/clusters/orders"
TIMELINE = f"{CLUSTER}/transaction/timeline"
RATES = f"{CLUSTER}/transaction/rates"
EXPIRING = f"{CLUSTER}/expiring"
HOUR_MS = 3_600_000


def apply(cluster: SeededCluster, entries: Sequence[Entry], now_ms: int = NOW_MS) -> None:
    cluster.writer.apply(batch(entries, read(0, len(entries), asked_at_ms=now_ms)), now_ms)


def test_a_timeline_has_the_transitions_and_folds_the_commits(cluster: SeededCluster) -> None:
    log = [entry(0, states.EMPTY, at_ms=MINUTE - 300_000, epoch=4)]
    log += [*committed(1, MINUTE - 240_000, epoch=4), *committed(4, MINUTE - 120_000, epoch=4)]
    log += [*aborted(7, MINUTE - 60_000, epoch=4), *committed(10, MINUTE, epoch=4)]
    apply(cluster, log)
    body = get(cluster, f"{TIMELINE}?id=pay")
    items = body["items"]
    assert (body["next_cursor"], body["as_of"]) == (None, "2026-09-21T14:13:50.123Z")
    assert body["counted_since"] == "2026-09-21T14:03:50.123Z"
    assert items[0] == {
        "type": "folded",
        "count": 1,
        "from_at": "2026-09-21T14:13:00.000Z",
        "to_at": "2026-09-21T14:13:00.000Z",
    }
    assert items[1] == {
        "type": "transition",
        "at": "2026-09-21T14:12:00.000Z",
        "offset": 9,
        "from_state": "PrepareAbort",
        "to_state": "CompleteAbort",
        "producer_id": 7,
        "producer_epoch": 4,
        "duration_ms": None,
        "marker_ms": 10,
        "cause": None,
        "confidence": None,
        "note": None,
    }
    prepare = items[2]
    assert (prepare["to_state"], prepare["duration_ms"], prepare["marker_ms"]) == ("PrepareAbort", 100, None)
    assert (prepare["cause"], prepare["confidence"]) == ("client_abort", "likely")
    assert (items[3]["count"], items[3]["from_at"]) == (2, "2026-09-21T14:09:00.000Z")
    assert (items[4]["from_state"], items[4]["to_state"], items[4]["cause"]) == (None, "Empty", "initialized")
    assert len(items) == 5


def test_the_timeline_of_an_expired_id_stays(cluster: SeededCluster) -> None:
    log = [*aborted(0, MINUTE - 60_000), entry(3, states.EXPIRED, at_ms=MINUTE)]
    apply(cluster, log)
    newest = get(cluster, f"{TIMELINE}?id=pay")["items"][0]
    assert (newest["from_state"], newest["to_state"], newest["cause"]) == ("CompleteAbort", "Expired", "expired")
    assert (newest["producer_id"], newest["producer_epoch"]) == (None, None)


def test_an_id_without_history_has_an_empty_timeline(cluster: SeededCluster) -> None:
    apply(cluster, [entry(0, states.ONGOING, b"quiet", start_ms=MINUTE, at_ms=MINUTE)])
    assert get(cluster, f"{TIMELINE}?id=quiet")["items"] == []
    assert get(cluster, f"{RATES}?id=quiet")["items"] == []


def test_a_timeline_says_from_when_on_it_counts_commits(cluster: SeededCluster) -> None:
    """The timeline lists aborts from before the start of counting, but does not count the commits between them."""
    history = [*aborted(0, MINUTE - 900_000), *committed(3, MINUTE - 840_000)]
    cluster.writer.apply(batch(history, read(0, 6, counts=False)), NOW_MS)
    log = committed(6, MINUTE)
    cluster.writer.apply(batch(log, read(6, 9, asked_at_ms=NOW_MS)), NOW_MS)
    body = get(cluster, f"{TIMELINE}?id=pay")
    totals = get(cluster, CLUSTER)["totals"]
    newest, *older = body["items"]
    assert (newest["type"], newest["count"]) == ("folded", 1)
    assert all(one["at"] < body["counted_since"] <= newest["from_at"] for one in older)
    assert body["counted_since"] == totals["counted_since"]


def test_following_the_cursor_returns_the_whole_timeline(cluster: SeededCluster) -> None:
    log: list[Entry] = []
    for number in range(30):
        kind = aborted if number % 3 == 0 else committed
        log += kind(len(log), MINUTE - 60_000 * (30 - number), b"\xff/&")
    apply(cluster, log)
    query = f"{TIMELINE}?id=%FF%2F%26"
    with client_of(cluster.url) as client:
        whole = get(client, f"{query}&limit=200")["items"]
        assert items(client, f"{query}&limit=4") == whole
    assert len(whole) == 30


def test_rates_have_each_minute_in_which_something_ended(cluster: SeededCluster) -> None:
    log = [*committed(0, MINUTE - 239_000), *committed(3, MINUTE - 238_000, markers_ms=31)]
    log += [*aborted(6, MINUTE - 59_000), entry(9, states.ONGOING, at_ms=MINUTE, start_ms=MINUTE)]
    apply(cluster, log)
    none = {"client": 0, "timeout": 0, "fenced": 0, "admin": 0, "unattributed": 0}
    body = get(cluster, f"{RATES}?id=pay")
    assert get(cluster, f"{RATES}?id=pay&window=2m")["items"] == body["items"][1:]
    assert body == {
        "items": [
            {
                "minute": "2026-09-21T14:09:00.000Z",
                "commits": 2,
                "aborts": none,
                "open_ms": {"mean": 100, "max": 100},
                "marker_ms": {"mean": 20, "max": 31},
            },
            {
                "minute": "2026-09-21T14:12:00.000Z",
                "commits": 0,
                "aborts": none | {"client": 1},
                "open_ms": {"mean": 100, "max": 100},
                "marker_ms": {"mean": 10, "max": 10},
            },
        ],
        "next_cursor": None,
        "as_of": "2026-09-21T14:13:50.123Z",
    }


def test_a_minute_without_durations_has_null_for_them(cluster: SeededCluster) -> None:
    cluster.read([Id(b"x", commits=3)])
    (minute,) = get(cluster, f"{RATES}?id=x")["items"]
    assert (minute["commits"], minute["open_ms"]) == (3, {"mean": None, "max": None})


def test_an_abort_that_waits_for_its_cause_is_unattributed_in_all_answers(cluster: SeededCluster) -> None:
    """Under TV2 every end raises the epoch. Only the id's next record shows the cause of an abort."""
    at_ms = NOW_MS - 1_000
    start_ms = at_ms - 110
    log = [
        entry(0, states.ONGOING, start_ms=start_ms, at_ms=start_ms, epoch=1, version=2),
        entry(1, states.PREPARE_ABORT, start_ms=start_ms, at_ms=at_ms - 10, epoch=2, version=2),
        entry(2, states.COMPLETE_ABORT, start_ms=start_ms, at_ms=at_ms, epoch=2, version=2),
    ]
    apply(cluster, log)
    (minute,) = get(cluster, f"{RATES}?id=pay")["items"]
    counts = get(cluster, f"{CLUSTER}/transaction?id=pay")["counts"]
    prepare = get(cluster, f"{TIMELINE}?id=pay")["items"][1]
    assert minute["aborts"]["unattributed"] == 1
    assert minute["aborts"] == counts["aborts"]
    assert (prepare["to_state"], prepare["confidence"]) == ("PrepareAbort", "ambiguous")


def test_a_producer_id_names_its_owner_also_after_a_rotation(cluster: SeededCluster) -> None:
    log = [*committed(0, MINUTE - 120_000, b"\xff1", pid=7, epoch=2), *committed(3, MINUTE, b"\xff1", pid=8)]
    apply(cluster, log)
    with client_of(cluster.url) as client:
        body = get(client, f"{CLUSTER}/producers/7")
        (now,) = get(client, f"{CLUSTER}/producers/8")["items"]
        assert client.get(f"{CLUSTER}/producers/{INT64_MAX}").status_code == 404
        assert get(client, now["href"])["producer_id"] == 8
    assert body["as_of"] == "2026-09-21T14:13:50.123Z"
    assert body["items"] == [
        {
            "transactional_id": "\\x{ff}1",
            "first_seen_at": "2026-09-21T14:10:59.890Z",
            "last_seen_at": "2026-09-21T14:11:00.000Z",
            "first_epoch": 2,
            "last_epoch": 2,
            "current": False,
            "transactional_id_b64": "_zE",
            "href": f"{CLUSTER}/transaction?id=%FF1",
        }
    ]
    assert now["current"] is True


def test_ids_past_their_expiry_come_first_then_those_that_expire_soonest(cluster: SeededCluster) -> None:
    clusters.describe(cluster.engine, cluster.id, DESCRIPTION, NOW_MS)  # the ids expire after an hour
    used_before = {"past": HOUR_MS + 60_000, "soon": HOUR_MS - 60_000, "later": HOUR_MS - 1_800_000, "fresh": 1_000}
    cluster.read(Id(name.encode(), last_update_ms=NOW_MS - ms) for name, ms in used_before.items())
    cluster.read([open_id("open", 2 * HOUR_MS), Id(b"gone", states.EXPIRED, last_update_ms=NOW_MS - 2 * HOUR_MS)])
    with client_of(cluster.url) as client:
        body = get(client, EXPIRING)
        listed = [item["transactional_id"] for item in body["items"]]
        assert listed == ["past", "soon", "later", "fresh"]
        assert body["items"][1]["expires_at"] == "2026-09-21T14:14:50.123Z"
        assert body["items"][1] == {
            k: v for k, v in get(client, f"{CLUSTER}/transaction?id=soon").items() if k != "as_of"
        }
        assert [item["transactional_id"] for item in get(client, f"{EXPIRING}?within=5m")["items"]] == ["past", "soon"]
        assert [item["transactional_id"] for item in get(client, f"{EXPIRING}?within=0s")["items"]] == ["past"]
        assert [item["transactional_id"] for item in items(client, f"{EXPIRING}?limit=1")] == listed


def test_an_expiration_of_seven_days_is_assumed_until_brokers_report_it(cluster: SeededCluster) -> None:
    day_ms = 86_400_000
    cluster.read([Id(b"a", last_update_ms=NOW_MS - 6 * day_ms - 1), Id(b"b", last_update_ms=NOW_MS - 6 * day_ms + 1)])
    with client_of(cluster.url) as client:
        assert [item["transactional_id"] for item in get(client, EXPIRING)["items"]] == ["a"]
        everything = get(client, f"{EXPIRING}?within=999999999d")["items"]
    assert [item["transactional_id"] for item in everything] == ["a", "b"]


def test_a_cursor_serves_only_the_list_it_came_from(cluster: SeededCluster) -> None:
    apply(cluster, [*aborted(0, MINUTE - 60_000), *committed(3, MINUTE, b"other")])
    with client_of(cluster.url) as client:
        of_timeline = get(client, f"{TIMELINE}?id=pay&limit=1")["next_cursor"]
        of_expiring = get(client, f"{EXPIRING}?within=7d&limit=1")["next_cursor"]
        of_list = get(client, f"{CLUSTER}/transactions?limit=1")["next_cursor"]
        for path in (
            f"{TIMELINE}?id=other&cursor={of_timeline}",
            f"{TIMELINE}?id=pay&cursor={of_expiring}",
            f"{EXPIRING}?within=6d&cursor={of_expiring}",
            f"{EXPIRING}?within=7d&cursor={of_list}",
            f"{CLUSTER}/transactions?cursor={of_expiring}",
        ):
            refused = client.get(path)
            assert (refused.status_code, refused.json()["type"]) == (400, "urn:txnscope:bad-cursor"), path
