"""Tests of the texts on the list of transactional ids and on the page of one id."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from html import unescape
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from fastapi.testclient import TestClient
from playwright.sync_api import Page

from service.app import create_app
from service.domain.findings.finding import Subject
from service.domain.findings.kinds import Kind
from service.domain.partitions.group_offsets import GroupOffset
from service.domain.transaction_log import states
from service.domain.transaction_log.abort_explanation import why_ended
from service.domain.transaction_log.causes import CauseCode, Confidence
from service.domain.transaction_log.id_delta import COUNTED_AS
from service.store import clusters
from service.store.writers.groups import GroupWriter
from service.views.words import PROOFS, TO_DO
from tests.helpers.findings import observe
from tests.helpers.partitions import WithPartitions, hanging_finding, moving_partition, owner, read, stalled_partition
from tests.helpers.partitions import entry as open_entry
from tests.helpers.paths import ROOT
from tests.helpers.stores import NOW_MS, Id, mixed_ids, open_id
from tests.service.store.histories import MINUTE, aborted, committed
from tests.service.store.logs import Entry, batch, entry
from tests.service.store.logs import read as range_of
from tests.service.web.browser import PHONE, Browse, is_wider_than_the_window
from tests.service.web.page_text import shows

LIST = "/clusters/orders/transactions"
ONE = "/clusters/orders/transaction"
MINUTE_MS, HOUR_MS = 60_000, 3_600_000
WIDE = b"warehouse-flink-sink-" + b"8f2c41d9" * 22 + b"-01"
MARKUP = b'<script>alert("1")</script>\xff\x00&'


@pytest.fixture
def client(cluster: WithPartitions) -> Iterator[TestClient]:
    with TestClient(create_app(cluster.url, now_ms=lambda: NOW_MS)) as client:
        yield client


def words(html: str) -> str:
    """Returns the text of the page's <main> element."""
    return plain(html[html.index("<main") : html.index("</main>")])


def plain(html: str) -> str:
    text = re.sub(r"<(?:svg|script|select)\b.*?</(?:svg|script|select)>", " ", html, flags=re.DOTALL)
    text = re.sub(r"<wbr>", "", text)
    return re.sub(r"\s+", " ", unescape(re.sub(r"<[^>]*>", " ", text))).replace(" .", ".").replace(" ,", ",").strip()


def get(client: TestClient, path: str, status: int = 200) -> str:
    response = client.get(path)
    assert response.status_code == status, response.text
    assert response.headers["content-type"].startswith("text/html")
    assert "style=" not in response.text
    assert "<script>" not in response.text
    return response.text


def row_of(html: str, name: str) -> str:
    rows = [plain(row) for row in re.findall(r"<tr id=.*?</tr>", html, re.DOTALL)]
    (row,) = [row for row in rows if row.split()[0] == name]
    return row


def listed(html: str) -> list[str]:
    return [
        unescape(name.replace("<wbr>", "")) for name in re.findall(r'<td class="w-id".*?class="tid".*?>(.*?)</a>', html)
    ]


def apply(cluster: WithPartitions, log: Sequence[Entry]) -> None:
    cluster.writer.apply(batch(log, range_of(0, len(log), asked_at_ms=NOW_MS)), NOW_MS)


def seventy() -> list[Entry]:
    """Returns the records of 70 commits, which are more transactions than the page draws one by one."""
    return [entry for n in range(70) for entry in committed(3 * n, NOW_MS - 600_000 + n * 1_000)]


def tv2(at: int, state: int, at_ms: int, epoch: int, start_ms: int = -1, **more: Any) -> Entry:
    return entry(at, state, at_ms=at_ms, epoch=epoch, start_ms=start_ms, version=2, **more)


# ---- the list of ids


def test_every_state_shows_what_comes_next(cluster: WithPartitions, client: TestClient) -> None:
    day_ms = 24 * HOUR_MS
    description = {"configs": {"transactional.id.expiration.ms": {"value": str(7 * day_ms), "source": "broker"}}}
    clusters.describe(cluster.engine, cluster.id, description, NOW_MS)
    idle_ms = NOW_MS - 7 * day_ms + 52 * MINUTE_MS
    cluster.read(
        [
            open_id("open", 10_000),
            open_id("soon", 552_000, timeout_ms=600_000),
            open_id("due", 65_000),
            open_id("overdue", 87_000),
            open_id("two-phase", 900_000, timeout_ms=2_147_483_647),
            open_id("decided", 1_000, state=states.PREPARE_COMMIT, timestamp_ms=NOW_MS - 20),
            open_id("stuck", 80_000, state=states.PREPARE_ABORT, timestamp_ms=NOW_MS - 77_000),
            Id(b"idle", timestamp_ms=NOW_MS - 50_000),
            Id(b"expires", states.EMPTY, last_update_ms=idle_ms, timestamp_ms=idle_ms),
            Id(b"swept", states.EMPTY, last_update_ms=idle_ms - HOUR_MS, timestamp_ms=idle_ms - HOUR_MS),
            Id(b"broken", states.UNKNOWN, producer_id=-1),
        ]
    )
    html = get(client, LIST)
    assert "Ongoing 10 s" in row_of(html, "open")
    assert "50 s left timeout 1 m" in row_of(html, "open")
    assert shows(row_of(html, "soon"), "aborts itself", "48 s", "timeout 10 m")
    assert shows(row_of(html, "due"), "any moment now", "15 s after its timeout")
    assert "overdue by 12 s" in row_of(html, "overdue")
    assert "no timeout two-phase commit" in row_of(html, "two-phase")
    assert "PrepareCommit 1.0 s markers being written" in row_of(html, "decided")
    assert shows(row_of(html, "stuck"), "markers", "PrepareAbort", "1 m 17 s")
    assert "CompleteCommit ended 14:13:00" in row_of(html, "idle")
    assert "expires in 52 m unused for 6 d 23 h" in row_of(html, "expires")
    assert "expires any moment now" in row_of(html, "swept")
    assert "unknown undecodable record unknown unknown unknown" in row_of(html, "broken")
    assert "All 11 Open 7 Ongoing 5 Prepare 2 CompleteCommit 1 CompleteAbort 0 Empty 2 unknown 1" in words(html)


def test_while_the_log_is_not_read_to_its_end_nothing_is_overdue_or_stuck(
    cluster: WithPartitions, client: TestClient
) -> None:
    """The unread records may contain the end of a transaction: an abort, or the record after the markers."""
    late = open_id("late", 87_000)
    prepared = open_id("prepared", 80_000, state=states.PREPARE_ABORT, timestamp_ms=NOW_MS - 77_000)
    cluster.read([late, prepared], behind=1)
    html = get(client, LIST)
    assert "abort was due 14:13:38 whether it was aborted is not read yet" in row_of(html, "late")
    assert "markers being written" in row_of(html, "prepared")
    assert "overdue" not in get(client, f"{ONE}?id=late")
    cluster.read([late])
    assert "overdue by 12 s" in row_of(get(client, LIST), "late")
    assert "overdue by" in get(client, f"{ONE}?id=late")


def test_the_oldest_open_transaction_comes_first(cluster: WithPartitions, client: TestClient) -> None:
    cluster.read([Id(b"a"), open_id("young", 1_000), open_id("old", 40_000)])
    assert listed(get(client, LIST)) == ["old", "young", "a"]
    assert listed(get(client, f"{LIST}?sort=transactional_id")) == ["a", "old", "young"]


def test_a_transaction_is_overdue_only_if_the_log_was_read_recently(cluster: WithPartitions) -> None:
    cluster.read([open_id("late", 50_000)])
    with TestClient(create_app(cluster.url, now_ms=lambda: NOW_MS + HOUR_MS)) as client:
        assert "abort was due 14:14:15" in row_of(get(client, LIST), "late")


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("state=Ongoing", ["old", "young"]),
        ("state=Ongoing&state=CompleteCommit", ["old", "young", "orders-1"]),
        ("prefix=orders-&min_age=&producer_id=&topic=&q=&sort=age", ["orders-1"]),
        ("min_age=30s", ["old"]),
        ("producer_id=2%2C001", ["young"]),
        ("topic=stock", ["young"]),
        ("q=RDERS", ["orders-1"]),
        ("state=Expired", ["gone"]),
    ],
)
def test_the_address_holds_the_filters(
    cluster: WithPartitions, client: TestClient, query: str, found: list[str]
) -> None:
    young = open_id("young", 1_000, "stock", producer_id=2_001)
    cluster.read([Id(b"orders-1"), young, open_id("old", 40_000), Id(b"gone", states.EXPIRED)])
    html = get(client, f"{LIST}?{query}")
    assert listed(html) == found
    assert f'href="/api/v1{LIST}?' in html


def test_the_form_keeps_its_values_and_chips_keep_the_form(cluster: WithPartitions, client: TestClient) -> None:
    cluster.read([open_id("orders-1", 40_000)])
    html = get(client, f"{LIST}?state=Ongoing&prefix=ord&min_age=30s&q=%22%3E&sort=last_updated")
    assert '<input type="hidden" name="state" value="Ongoing">' in html
    assert 'name="prefix" size="18" value="ord"' in html
    assert '<option value="30s" selected>30 s</option>' in html
    assert 'value="&#34;&gt;"' in html
    assert f'{LIST}?state=Empty&amp;prefix=ord&amp;min_age=30s&amp;q=%22%3E&amp;sort=last_updated"' in html
    assert re.search(r'aria-current="true">Ongoing 1</a>', html)


@pytest.mark.parametrize(
    "query",
    ["state=Foo", "min_age=9x", "producer_id=x", "producer_id=-1", "sort=colour", "stat=Empty", "sort=age&sort=age"],
)
def test_an_invalid_filter_is_refused(cluster: WithPartitions, client: TestClient, query: str) -> None:
    response = client.get(f"{LIST}?{query}")
    assert (response.status_code, query.partition("=")[0] in response.text) == (422, True)


def test_the_next_link_leads_through_all_ids_once(cluster: WithPartitions, client: TestClient) -> None:
    cluster.read(mixed_ids(120))
    seen: list[str] = []
    address: str | None = f"{LIST}?sort=age"
    while address is not None:
        html = get(client, address)
        seen += listed(html)
        match = re.search(r'<a href="([^"]*)" rel="next">Next 50', html)
        address = None if match is None else unescape(match[1])
    assert len(seen) == len(set(seen)) == 105  # expired ids are listed only on request
    assert client.get(f"{LIST}?sort=last_updated&cursor=AAAA").status_code == 400


def test_a_filter_without_matches_names_the_nearest_prefix(cluster: WithPartitions, client: TestClient) -> None:
    cluster.read([Id(b"orders-1"), Id(b"orders-2")])
    html = get(client, f"{LIST}?prefix=ordes-")
    assert shows(words(html), "“ordes-”", "2 ids", "orde.")
    assert listed(get(client, f"{LIST}?prefix=orde")) == ["orders-1", "orders-2"]
    assert "contains “nope”" in words(get(client, f"{LIST}?q=nope"))
    assert "fits these filters" in words(get(client, f"{LIST}?state=Ongoing"))


def test_an_empty_store_is_reported_as_no_id_seen(client: TestClient, cluster: WithPartitions) -> None:
    assert "No transactional.id is known to be in use." in words(get(client, LIST))


def test_an_idle_id_that_hangs_is_marked_in_its_row_and_above_the_list(
    cluster: WithPartitions, client: TestClient
) -> None:
    cluster.read([Id(b"zzz", producer_id=7), *(Id(b"idle-%d" % n, states.EMPTY) for n in range(60))])
    cluster.see(hanging_finding(3, name=b"zzz"))
    assert shows(words(get(client, LIST)), "zzz hangs on orders-3", "not on this page of the list")
    html = get(client, f"{LIST}?prefix=zzz")
    assert "CompleteCommit ended 14:13:00 hangs on orders-3 7 / 3" in row_of(html, "zzz")
    assert 'class="is-critical"' in html
    assert "not on this page of the list" not in html


def test_an_open_transaction_names_the_groups_it_blocks(cluster: WithPartitions, client: TestClient) -> None:
    cluster.read([owner(b"pay"), owner(b"other", producer_id=8)._replace(start_ms=NOW_MS - 2_000)])
    cluster.look(stalled_partition(), read(open_entry()), moving_partition(1))
    GroupWriter(cluster.engine, cluster.lease).replace([GroupOffset("billing", "orders", 0, 100, 1, False)], NOW_MS)
    html = get(client, LIST)
    assert "orders-0 blocks billing" in row_of(html, "pay")
    assert "blocks" not in row_of(html, "other")


def test_each_id_has_its_last_outcome_and_counts_of_the_last_hour(cluster: WithPartitions, client: TestClient) -> None:
    log = [*committed(0, NOW_MS - 2 * HOUR_MS), *committed(3, NOW_MS - 90_000), *aborted(6, NOW_MS - 60_000)]
    apply(cluster, log)
    assert "client abort likely 1 · 1" in row_of(get(client, LIST), "pay")


# ---- ids of any bytes


@pytest.mark.parametrize(
    "name", [WIDE, MARKUP, b"a b+c/d?e=f&g#h%20", "zahlung-ü".encode(), b"\xff" * 40, b"x" * 9_000 + b"\xfe"]
)
def test_an_id_of_any_bytes_is_listed_linked_and_shown(
    cluster: WithPartitions, client: TestClient, name: bytes
) -> None:
    cluster.read([open_id(name, 9_000)])
    html = get(client, LIST)
    assert "alert(" not in html or "&lt;script&gt;" in html
    (address,) = re.findall(r'<td class="w-id".*?href="([^"]*)"', html)
    page = get(client, unescape(address))
    assert "Ongoing for 9.0 s" in words(page)
    assert re.search(r'<a href="/api/v1[^"]*transaction\?id', page)
    assert "Ids that contain" not in page


def test_a_prefix_may_be_typed_as_displayed(cluster: WithPartitions, client: TestClient) -> None:
    cluster.read([Id(b"\xffpay"), Id(b"other")])
    assert listed(get(client, f"{LIST}?prefix=%FF")) == [r"\x{ff}pay"]
    for typed in (r"\x{ff}", r"\xff"):
        assert listed(get(client, f"{LIST}?prefix={quote(typed)}")) == [r"\x{ff}pay"]


def test_an_unknown_id_has_a_page_that_offers_similar_ids(cluster: WithPartitions, client: TestClient) -> None:
    cluster.read([Id(b"my-pay-1")])
    html = get(client, f"{ONE}?id=pay", 404)
    assert shows(words(html), "not known", "orders", "pay")
    (search,) = re.findall(r'href="([^"]*)">Ids that contain this text', html)
    assert listed(get(client, unescape(search))) == ["my-pay-1"]


@pytest.mark.parametrize(
    "query", ["", "id=a&id_b64=YQ", "id_b64=%21", "id=pay&window=9d", "id=pay&at=x", "id=pay&bla=1"]
)
def test_an_address_that_names_no_id_is_refused(cluster: WithPartitions, client: TestClient, query: str) -> None:
    cluster.read([Id(b"pay")])
    assert client.get(f"{ONE}?{query}").status_code == 422


# ---- the page of one id


def test_a_fenced_id_shows_cause_count_and_advice(cluster: WithPartitions, client: TestClient) -> None:
    log: list[Entry] = []
    for number in range(3):
        start, epoch, at = NOW_MS - 300_000 + number * 60_000, 4 + 2 * number, len(log)
        log += [
            tv2(at, states.ONGOING, start, epoch, start),
            tv2(at + 1, states.PREPARE_ABORT, start + 16_000, epoch + 1, start),
            tv2(at + 2, states.COMPLETE_ABORT, start + 16_048, epoch + 1, start),
            tv2(at + 3, states.EMPTY, start + 16_211, epoch + 2),
        ]
    apply(cluster, log)
    cluster.see(observe(Kind.LONG_RUNNING, name=b"pay"))
    html = get(client, f"{ONE}?id=pay")
    text = words(html)
    assert "Why was it aborted?" in text
    assert shows(text, "InitProducerId", "3 times", "14:09:06", "14:11:06 (ambiguous)")
    assert (why_ended(CauseCode.FENCED, Confidence.AMBIGUOUS) or "none") in text
    assert TO_DO[CauseCode.FENCED, Confidence.AMBIGUOUS].rstrip(".") in text
    assert (
        "It is certain if" not in text
    )  # the records would be the same if the client itself had aborted and started again
    assert "fenced 3 ▲ InitProducerId 3" in text
    phases = (
        "Ongoing 14:10:50.123",
        "16 s",
        "PrepareAbort 14:11:06.123 7 / 9",
        "48 ms",
        "Empty 14:11:06.334 7 / 10",
        "163 ms",
    )
    assert shows(text, *phases)
    assert "pay has been open since" in text, "the page shows the finding about this id"
    assert html.count('class="pin"') == 3
    assert "7 14:08:50 14:11:06 4 to 10 in use" in text


def test_a_timed_out_id_shows_how_long_it_was_open(cluster: WithPartitions, client: TestClient) -> None:
    start = NOW_MS - 100_000
    log = [
        tv2(0, states.ONGOING, start, 5, start),
        tv2(1, states.PREPARE_ABORT, start + 67_300, 6, start),
        tv2(2, states.COMPLETE_ABORT, start + 67_303, 6, start),
    ]
    apply(cluster, log)
    text = words(get(client, f"{ONE}?id=pay"))
    assert shows(text, "Timed out once", "14:13:17 (likely)", "1 m 07 s", "Completed rollback of ongoing transaction")
    assert "Ongoing → PrepareAbort 7 / 6 1 m 07 s T timeout likely" in text


def test_causes_of_aborts_are_shown_side_by_side_newest_first(cluster: WithPartitions, client: TestClient) -> None:
    start = NOW_MS - 400_000
    log = [
        *aborted(0, NOW_MS - 500_000),
        entry(3, states.ONGOING, start_ms=start, at_ms=start),
        entry(4, states.PREPARE_ABORT, start_ms=start, at_ms=start + 67_000, epoch=1),
        entry(5, states.COMPLETE_ABORT, start_ms=start, at_ms=start + 67_010, epoch=1),
    ]
    apply(cluster, log)
    text = words(get(client, f"{ONE}?id=pay"))
    assert text.index("Timed out once") < text.index("Aborted by its own client once")


def test_an_abort_before_the_window_is_shown_as_the_last_one(cluster: WithPartitions, client: TestClient) -> None:
    apply(cluster, aborted(0, NOW_MS - HOUR_MS - MINUTE_MS))
    text = words(get(client, f"{ONE}?id=pay"))
    assert shows(text, "Nothing was aborted", "15 m", "Aborted by its own client once", "13:12:50")
    assert "Nothing was aborted" not in words(get(client, f"{ONE}?id=pay&window=24h"))


def test_an_expired_id_shows_the_time_and_the_consequence(cluster: WithPartitions, client: TestClient) -> None:
    apply(cluster, [*aborted(0, NOW_MS - 90_000), entry(3, states.EXPIRED, at_ms=NOW_MS - 30_000)])
    text = words(get(client, f"{ONE}?id=pay"))
    assert shows(text, "expired at 14:13:20", "InvalidPidMappingException")
    assert shows(text, "State Expired since 14:13:20")
    assert "CompleteAbort → Expired expired certain" in text


def test_an_undecodable_id_is_unknown_never_idle(cluster: WithPartitions, client: TestClient) -> None:
    apply(cluster, [entry(0, states.UNKNOWN, at_ms=NOW_MS - 30_000)])
    html = get(client, f"{ONE}?id=pay")
    assert "Its newest record cannot be decoded." in words(html)
    assert "State unknown" in words(html)
    assert "Producer id / epoch unknown" in words(html)
    assert 'href="/clusters/orders/pipeline#unknown"' in html


def test_the_page_of_an_id_that_hangs_begins_with_the_hang(cluster: WithPartitions, client: TestClient) -> None:
    apply(cluster, aborted(0, NOW_MS - 90_000))
    cluster.see(hanging_finding(7, name=b"pay"))
    html = get(client, f"{ONE}?id=pay")
    text = words(html)
    assert shows(text, "hangs on orders-7", "Aborted by its own")
    assert re.search(r'href="/clusters/orders/findings/[0-9a-f]+#do"', html)


def test_an_open_transaction_shows_its_duration_and_partitions(cluster: WithPartitions, client: TestClient) -> None:
    cluster.read([open_id("pay", 9_000, "stock", commits=2)])
    html = get(client, f"{ONE}?id=pay")
    text = words(html)
    assert "Ongoing for 9.0 s" in text
    assert "What comes next 51 s left timeout 1 m" in text
    assert "Expires not while open else 1 h after its last change" in text or "else 7 d" in text
    assert "has no abort of this id" in text
    assert 'href="/clusters/orders/partitions/stock/1"' in html
    assert 'class="tx tx--open"' in html
    assert '<rect class="tx tx--open" x="' in html


def test_the_dark_end_of_a_short_bar_is_five_pixels_wide(cluster: WithPartitions, client: TestClient) -> None:
    apply(cluster, aborted(0, NOW_MS - 90_000))
    assert '<rect class="tx tx--abort" x="-4" y="-3" width="5" height="28">' in get(client, f"{ONE}?id=pay")


def test_every_row_of_the_timeline_leads_to_its_phases(cluster: WithPartitions, client: TestClient) -> None:
    apply(cluster, [*aborted(0, NOW_MS - 200_000), *aborted(3, NOW_MS - 90_000)])
    html = get(client, f"{ONE}?id=pay")
    assert 'id="phases"' in html
    (address,) = re.findall(r'href="([^"]*at=2#phases)"', html)
    assert shows(words(get(client, unescape(address))), "phase by phase", "Ongoing 14:10:30")
    assert "No transaction that ended at this offset" in words(get(client, f"{ONE}?id=pay&at=77"))


def test_ordinary_commits_are_folded_and_older_rows_are_a_link_away(
    cluster: WithPartitions, client: TestClient
) -> None:
    log: list[Entry] = []
    for number in range(60):
        at_ms = NOW_MS - (60 - number) * 3 * MINUTE_MS
        log += aborted(len(log), at_ms)
        log += committed(len(log), at_ms + MINUTE_MS)
    apply(cluster, log)
    name, seen = "id=pay", 0
    address: str | None = f"{ONE}?{name}&window=24h"
    pages = 0
    while address is not None:
        html = get(client, address)
        pages += 1
        seen += len(re.findall(r'<tr id="r-', html))
        assert "1 commit, " in words(html)
        match = re.search(r'<a href="([^"]*)" rel="next">Older', html)
        address = None if match is None else unescape(match[1])
    assert (seen, pages) == (120, 4)
    assert client.get(f"{ONE}?{name}&older=nonsense").status_code == 400


def test_a_partial_timeline_shows_since_when_commits_are_counted(cluster: WithPartitions, client: TestClient) -> None:
    history = [*aborted(0, MINUTE - 900_000), *committed(3, MINUTE - 840_000)]
    cluster.writer.apply(batch(history, range_of(0, 6, counts=False)), NOW_MS)
    cluster.writer.apply(batch(committed(6, MINUTE), range_of(6, 9)), NOW_MS)
    assert shows(words(get(client, f"{ONE}?id=pay")), "From 14:03:50 UTC on", "commits are counted")
    first = entry(9, states.EMPTY, b"new", at_ms=MINUTE)
    cluster.writer.apply(batch([first, *aborted(10, MINUTE + 1_000, b"new")], range_of(9, 13)), NOW_MS)
    assert "ordinary commits are counted" not in words(get(client, f"{ONE}?id=new")), (
        "all of this id's history is after the start of counting"
    )


def test_many_transactions_are_shown_as_bars_with_a_table(cluster: WithPartitions, client: TestClient) -> None:
    apply(cluster, [*seventy(), *aborted(210, NOW_MS - 60_000)])
    html = get(client, f"{ONE}?id=pay")
    text = words(html)
    assert shows(text, "commit 70", "A client abort 1", "More than 60 transactions")
    assert "14:12:00 0 1 0 0 0 0 100 ms" in text
    drawn = re.search("data-bars='([^']*)'", html)
    assert drawn is not None
    assert sum(ends.get("commit", 0) for _, ends in json.loads(drawn[1])) == 70
    assert "lanes" in html
    assert "<b>Epoch</b>" not in html
    few = get(client, f"{ONE}?id=pay&window=1h")
    assert "uPlot.iife.min.js" in few


def test_a_rotated_producer_id_is_routine(cluster: WithPartitions, client: TestClient) -> None:
    start = NOW_MS - 100_000
    first = [tv2(0, states.ONGOING, start, 32_766, start), tv2(1, states.PREPARE_COMMIT, start + 100, 32_767, start)]
    last = tv2(2, states.COMPLETE_COMMIT, start + 140, 0, start, pid=9)
    apply(cluster, [*first, last._replace(record=last.record._replace(previous_producer_id=7))])
    text = words(get(client, f"{ONE}?id=pay"))
    assert "producer id rotated certain" in text
    assert "routine, no fault" in text
    assert "9 / 0 before: 7 until" in text


def test_an_id_with_absurd_times_has_a_page(cluster: WithPartitions, client: TestClient) -> None:
    cluster.read([one._replace(commits=1) for one in mixed_ids(80)])
    for number in range(80):
        get(client, f"{ONE}?id=app-{number * 7919 % 80:05d}&window=7d")


# ---- the texts agree with docs/causes.md


def documented() -> str:
    text = (ROOT / "docs" / "causes.md").read_text(encoding="utf-8")
    return re.sub(r"\s+", " ", text.replace("`", "").replace("> ", ""))


def test_every_cause_of_an_abort_has_advice(cluster: WithPartitions) -> None:
    for cause in (*COUNTED_AS, CauseCode.EMPTY_ABORT):
        for confidence in (Confidence.CERTAIN, Confidence.LIKELY, Confidence.AMBIGUOUS):
            assert (why_ended(cause, confidence) is None) == ((cause, confidence) not in TO_DO)


@pytest.mark.parametrize("line", [*(one.rstrip(".") for one in TO_DO.values()), *PROOFS.values()])
def test_remediation_and_proofs_match_the_documentation(line: str) -> None:
    assert line in documented()


# ---- in a browser


def refresh(page: Page) -> None:
    """Waits for the next refresh of the page."""
    page.evaluate("new Promise(done => document.addEventListener('txnscope:refreshed', () => done(), { once: true }))")


def test_on_a_phone_nothing_is_cut_and_the_newest_bar_is_visible(cluster: WithPartitions, browse: Browse) -> None:
    cluster.read([open_id(WIDE, 9_000), open_id(MARKUP, 8_000)])
    cluster.see(hanging_finding(name=MARKUP), observe(Kind.OVERDUE, subject=Subject(transactional_id=WIDE)))
    tab = browse(cluster.url, width=PHONE)
    for path in (LIST, f"{ONE}?id={quote(WIDE)}", f"{ONE}?id={quote(MARKUP)}"):
        assert not is_wider_than_the_window(tab.open(path))
    assert tab.page.locator("#lanes").evaluate("lanes => lanes.scrollLeft > 0")
    assert tab.page.locator(".tx--open").first.is_visible()


def test_filters_work_with_the_keyboard_and_survive_a_refresh(cluster: WithPartitions, browse: Browse) -> None:
    cluster.read([open_id("orders-1", 9_000), open_id("pay-1", 8_000)])
    page = browse(cluster.url).open(LIST)
    field = page.get_by_label("Id starts with")
    field.focus()
    field.type("ord")
    refresh(page)
    assert field.input_value() == "ord"
    assert field.evaluate("field => field === document.activeElement")
    field.press("Enter")
    page.wait_for_url("**prefix=ord**")
    assert page.locator("tbody tr").count() == 1


def test_with_script_the_bars_are_a_chart_that_a_refresh_keeps(cluster: WithPartitions, browse: Browse) -> None:
    apply(cluster, seventy())
    page = browse(cluster.url).open(f"{ONE}?id=pay")
    page.locator(".rates__plot canvas").wait_for()
    assert not page.locator(".rates__plain").is_visible()
    refresh(page)
    assert page.locator(".rates__plot canvas").count() == 1
    assert not page.locator(".rates__plain").is_visible()


def test_without_script_the_bars_are_a_drawing(cluster: WithPartitions, browse: Browse) -> None:
    apply(cluster, seventy())
    page = browse(cluster.url, script=False).open(f"{ONE}?id=pay")
    assert page.locator(".rates__plain").is_visible()
    assert page.locator(".rates__plain rect").count() > 0


def test_a_record_left_behind_shows_no_expected_abort(tmp_path: Path) -> None:
    """Partitions were added to the transaction log. `exp-a` was in partition 0 of 5, and now hashes to partition 1 of
    8."""
    cluster = WithPartitions(f"sqlite:///{tmp_path / 'left.db'}", partitions=8)
    cluster.read([open_id("exp-a", 5_000)])
    cluster.close()
    with TestClient(create_app(cluster.url, now_ms=lambda: NOW_MS)) as client:
        reported = row_of(get(client, LIST), "exp-a")
    assert "left behind its record is in __transaction_state-0" in reported
    assert "aborts itself" not in reported
