"""Tests of answers about transactional ids: rows, filters, pages, and ids and numbers of every kind."""

from __future__ import annotations

from base64 import urlsafe_b64decode
from pathlib import Path
from urllib.parse import quote

import pytest
from fastapi.testclient import TestClient

from service.domain.transaction_log import states
from service.domain.transaction_log.facts import Participants
from service.domain.transaction_log.states import TWO_PHASE_TIMEOUT_MS
from service.store import clusters
from service.store.escaped_text import display_id
from tests.helpers.stores import (
    DESCRIPTION,
    INT64_MAX,
    INT64_MIN,
    NOW,
    NOW_MS,
    Id,
    SeededCluster,
    client_of,
    mixed_ids,
    open_id,
)
from tests.service.api.answers import get, items

LIST = "/api/v1/clusters/orders/transactions"
ONE = "/api/v1/clusters/orders/transaction"

NASTY = [
    b"",
    b"\x00",
    b"nul\x00within",
    b"\xff\xfe not utf-8",
    b"\xed\xa0\x80",
    "zürich-\N{SNOWMAN}-\N{GRINNING FACE}".encode(),
    b"<script>alert('1')</script>\"&amp;",
    b"a/../b?c=d&e=f#g+h%00%2F;i j",
    b"tab\tline\nreturn\r",
    b"back\\x00slash",
    b"l" * 32_767,
    b"\xff" * 32_767,
]


def names(of: TestClient | SeededCluster, query: str) -> list[str]:
    return [item["transactional_id"] for item in get(of, f"{LIST}?{query}")["items"]]


def test_a_row_has_every_field_of_an_open_transaction(cluster: SeededCluster) -> None:
    cluster.read([Id(b"pay", commits=2, aborts=1)])
    pay = open_id("pay", 5_000, "orders", "ledger", timeout_ms=30_000, producer_id=77, previous_producer_id=76)
    cluster.read([pay])
    body = get(cluster, f"{ONE}?id=pay")
    listed = get(cluster, LIST)
    assert list(body.items()) == [
        ("transactional_id", "pay"),
        ("application", None),
        ("state", "Ongoing"),
        ("producer_id", 77),
        ("producer_epoch", 3),
        ("timeout_ms", 30_000),
        ("started_at", "2026-09-21T14:13:45.123Z"),
        ("last_updated_at", "2026-09-21T14:13:46.123Z"),
        ("state_since", "2026-09-21T14:13:45.123Z"),
        ("times_out_at", "2026-09-21T14:14:15.123Z"),
        ("expires_at", None),
        (
            "partitions",
            [
                {"topic": "ledger", "partition": 0},
                {"topic": "ledger", "partition": 1},
                {"topic": "orders", "partition": 0},
                {"topic": "orders", "partition": 1},
            ],
        ),
        ("coordinator", {"partition": 0, "leader": 1, "epoch": 5}),
        ("client_transaction_version", 2),
        ("previous_producer_id", 76),
        ("last_outcome", "commit"),
        (
            "counts",
            {
                "since": "2026-09-21T14:03:50.123Z",
                "commits": 2,
                "aborts": {"client": 0, "timeout": 0, "fenced": 0, "admin": 0, "unattributed": 1},
            },
        ),
        ("transactional_id_b64", None),
        ("href", f"{ONE}?id=pay"),
        ("as_of", NOW),
    ]
    assert listed["as_of"] == body.pop("as_of")
    assert listed["items"] == [body]


@pytest.mark.parametrize(
    ("state", "outcome", "expires_at"),
    [
        (states.EMPTY, None, "2026-09-21T15:13:00.123Z"),
        (states.PREPARE_COMMIT, "commit", None),
        (states.PREPARE_ABORT, "abort", None),
        (states.COMPLETE_COMMIT, "commit", "2026-09-21T15:13:00.123Z"),
        (states.COMPLETE_ABORT, "abort", "2026-09-21T15:13:00.123Z"),
    ],
)
def test_outcome_and_expiry_follow_the_state(
    cluster: SeededCluster, state: int, outcome: str | None, expires_at: str | None
) -> None:
    clusters.describe(cluster.engine, cluster.id, DESCRIPTION, NOW_MS)  # the ids expire after an hour
    topics = (Participants("t", (0,)),) if state in states.OPEN else ()
    cluster.read([Id(b"x", state, aborts=state == states.COMPLETE_ABORT, topics=topics)])
    body = get(cluster, f"{ONE}?id=x")
    assert (body["last_outcome"], body["expires_at"], body["times_out_at"]) == (outcome, expires_at, None)


def test_a_two_phase_transaction_never_times_out(cluster: SeededCluster) -> None:
    cluster.read([open_id("2pc", 5_000, timeout_ms=TWO_PHASE_TIMEOUT_MS)])
    assert get(cluster, f"{ONE}?id=2pc")["times_out_at"] is None


def test_an_expired_id_is_listed_only_when_asked_for_and_stays_readable(cluster: SeededCluster) -> None:
    cluster.read([Id(b"gone", producer_id=9), Id(b"here")])
    cluster.read([Id(b"gone", states.EXPIRED, producer_id=-1, last_update_ms=-1, start_ms=-1)])
    with client_of(cluster.url) as client:
        assert names(client, "") == ["here"]
        assert names(client, "sort=transactional_id&q=gone") == []
        assert names(client, "state=Expired") == ["gone"]
        body = get(client, f"{ONE}?id=gone")
    assert (body["state"], body["producer_id"], body["expires_at"]) == ("Expired", 9, None)


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("", ["old", "young", "A-idle", "b-idle"]),
        ("sort=transactional_id", ["A-idle", "b-idle", "old", "young"]),
        ("sort=last_updated", ["young", "A-idle", "b-idle", "old"]),
        ("state=Ongoing", ["old", "young"]),
        ("state=Ongoing&state=Empty", ["old", "young", "b-idle"]),
        ("state=PrepareCommit", []),
        ("prefix=A", ["A-idle"]),
        ("prefix=%41-", ["A-idle"]),
        ("prefix=idle", []),
        ("q=IDLE", ["A-idle", "b-idle"]),
        ("q=%25", []),
        ("min_age=90s", ["old"]),
        ("min_age=15m", ["old"]),
        ("min_age=24h", []),
        ("min_age=999999999d", []),
        ("min_age=0s", ["old", "young"]),
        ("producer_id=42", ["b-idle"]),
        ("producer_id=9223372036854775807", []),
        ("topic=payments", ["old", "young"]),
        ("topic=ledger", ["young"]),
        ("topic=pay", []),
        ("topic=ledger&min_age=1h", []),
        ("prefix=&q=", ["old", "young", "A-idle", "b-idle"]),
    ],
)
def test_filters_and_sorts_select_and_order_ids(cluster: SeededCluster, query: str, expected: list[str]) -> None:
    cluster.read(
        [
            open_id("old", 3_600_000),
            open_id("young", 10_000, "payments", "ledger"),
            Id(b"A-idle"),
            Id(b"b-idle", states.EMPTY, producer_id=42, last_update_ms=NOW_MS - 55_000),
        ]
    )
    assert names(cluster, query) == expected


@pytest.mark.parametrize("sort", ["age", "transactional_id", "last_updated"])
def test_following_the_cursor_finds_every_id_once(cluster: SeededCluster, sort: str) -> None:
    cluster.read(mixed_ids())
    with client_of(cluster.url) as client:
        found = [item["transactional_id"] for item in items(client, f"{LIST}?sort={sort}&limit=37")]
    live = [one for one in mixed_ids() if one.state != states.EXPIRED]
    assert len(found) == len(live)
    assert set(found) == {one.id.decode() for one in live}


def test_a_full_last_page_has_no_cursor(cluster: SeededCluster) -> None:
    cluster.read(Id(b"%d" % number) for number in range(10))
    assert get(cluster, f"{LIST}?limit=10")["next_cursor"] is None
    assert len(get(cluster, f"{LIST}?limit=9")["next_cursor"]) > 0


@pytest.mark.parametrize("raw", NASTY, ids=lambda raw: repr(raw[:12]))
def test_an_id_may_contain_any_bytes(cluster: SeededCluster, raw: bytes) -> None:
    cluster.read([open_id(raw, 5_000), Id(b"another")])
    with client_of(cluster.url) as client:
        first, _ = get(client, LIST)["items"]
        exact = first["transactional_id_b64"]
        if exact is None:
            assert first["transactional_id"].encode() == raw
        else:
            assert (first["transactional_id"], urlsafe_b64decode(exact + "==")) == (display_id(raw), raw)
        assert len(first["href"]) < 60_000, "a server refuses a request line of 64 kB"
        followed = get(client, first["href"])
        assert followed["transactional_id"] == first["transactional_id"]
        assert followed["partitions"] == first["partitions"]
        if 0 < len(raw) < 100:
            assert names(client, f"prefix={quote(raw)}") == [first["transactional_id"]]
            assert first["transactional_id"] in names(client, f"q={quote(raw)}")
        page = get(client, f"{LIST}?limit=1")
        assert len(page["next_cursor"]) < 60_000
        assert len(get(client, f"{LIST}?limit=1&cursor={page['next_cursor']}")["items"]) == 1


@pytest.mark.parametrize("number", [INT64_MAX, INT64_MIN, -2, 253_402_300_800_000])
def test_numbers_that_are_no_times_are_shown_beside_null(cluster: SeededCluster, number: int) -> None:
    wide = abs(number) > 2**53
    cluster.read([Id(b"x", states.ONGOING, start_ms=number, last_update_ms=number, producer_id=INT64_MAX)])
    body = get(cluster, f"{ONE}?id=x")
    assert names(cluster, "min_age=0s") == []
    for name in ("started", "last_updated"):
        assert body[f"{name}_at"] is None
        assert body[f"{name}_raw_ms"] == number
        assert body.get(f"{name}_raw_ms_str") == (str(number) if wide else None)
    assert body["state_since"] is None
    assert body["state_since_raw_ms"] == number
    assert body["times_out_at"] is None
    assert (body["producer_id"], body["producer_id_str"]) == (INT64_MAX, "9223372036854775807")


def test_a_time_of_minus_1_is_null_without_a_raw_number(cluster: SeededCluster) -> None:
    cluster.read([Id(b"x", states.EMPTY, start_ms=-1, last_update_ms=-1)])
    body = get(cluster, f"{ONE}?id=x")
    assert (body["started_at"], body["last_updated_at"], body["expires_at"]) == (None, None, None)
    assert not [key for key in body if key.endswith("_raw_ms")]


def test_a_time_beyond_every_calendar_is_kept_as_a_number(cluster: SeededCluster) -> None:
    cluster.read([Id(b"x", last_update_ms=states.LAST_TIME_MS), Id(b"y", last_update_ms=INT64_MAX)])
    with client_of(cluster.url) as client:
        body, never = (get(client, f"{ONE}?id={name}") for name in "xy")
    assert body["expires_at"] is None
    assert body["expires_raw_ms"] == states.LAST_TIME_MS + 604_800_000
    assert (never["expires_at"], "expires_raw_ms" in never) == (None, False), "its last update is no time"


def test_a_record_left_behind_has_no_timeout_but_its_hash_coordinator(tmp_path: Path) -> None:
    """After partitions were added to the transaction log, `exp-a` hashes to partition 1. Its record stayed in partition
    0. REST reports no timeout for `exp-a`, and reports partition 1 as the partition of its coordinator."""
    cluster = SeededCluster(f"sqlite:///{tmp_path / 'left.db'}", partitions=8)
    cluster.read([open_id("exp-a", 5_000, "orders", producer_id=7)])
    cluster.close()
    left = get(cluster, f"{ONE}?id=exp-a")
    assert (left["state"], left["times_out_at"], left["coordinator"]["partition"]) == ("Ongoing", None, 1)
