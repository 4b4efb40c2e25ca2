"""Tests of the page of expiring ids: the expected and the latest time of expiry, and the ids that have expired."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from service.domain.transaction_log import states
from service.store import clusters
from service.web.charts.expiry import FOOT, bars, bounds_ms
from tests.helpers.partitions import WithPartitions
from tests.helpers.stores import DESCRIPTION, INT64_MAX, INT64_MIN, NOW_MS, Id
from tests.service.web.page_text import page_of, shows
from tests.service.web.stories import reading_for_the_first_time

PATH = "/clusters/orders/expiring"
HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
KEPT_MS = 7 * DAY_MS
CONFIGS = {"transactional.id.expiration.ms": {"value": str(KEPT_MS), "source": "broker"}}


def stored(cluster: WithPartitions) -> None:
    clusters.describe(cluster.engine, cluster.id, DESCRIPTION | {"configs": CONFIGS}, NOW_MS)


pytestmark = pytest.mark.cluster(stored=stored)


def unused(name: bytes, left_ms: int, state: int = states.COMPLETE_COMMIT, **more: Any) -> Id:
    """Returns an id that expires `left_ms` after NOW_MS, unless its state is that of an open transaction."""
    at_ms = NOW_MS - KEPT_MS + left_ms
    return Id(name, state, start_ms=at_ms - 1_000, last_update_ms=at_ms, timestamp_ms=at_ms)._replace(**more)


def test_ids_that_expire_soonest_come_first_with_exact_times(cluster: WithPartitions) -> None:
    ids = [
        unused(b"refunds-batch", HOUR_MS, states.EMPTY),
        unused(b"loyalty-0", 37 * HOUR_MS, commits=4),
        unused(b"swept-soon", -60_000, states.COMPLETE_ABORT),
        unused(b"late", -2 * HOUR_MS),
        unused(b"x" * 200 + b"\xff", 12 * HOUR_MS),
        unused(b"later", 5 * DAY_MS),
        unused(b"under-way", -DAY_MS, states.ONGOING),
    ]
    cluster.read(ids)
    page = page_of(cluster.url, PATH)
    late, swept, refunds, long, loyalty = page.rows("id-")
    assert late.startswith("late was due 1 h ago 12:13:50 13:13:50 CompleteCommit")
    assert swept.startswith("swept-soon any moment now 14:12:50 15:12:50 CompleteAbort")
    assert refunds.startswith("refunds-batch 1 h 15:13:50 16:13:50 Empty 2026-09-14 15:13:50")
    assert long.startswith("x" * 200 + "\\x{ff} 12 h")
    assert loyalty.startswith("loyalty-0 1 d 13 h 2026-09-23 03:13:50 2026-09-23 04:13:50")
    assert loyalty.endswith(" 4")
    facts = (
        "Within 1 hour 3",
        "Within 24 hours 4",
        "Can expire 6",
        "Never while open 1 Ongoing 1, Prepare 0",
        "(7 d, read",
    )
    assert [fact for fact in facts if fact not in page.texts[""]] == []
    assert [row.split()[0] for row in page_of(cluster.url, f"{PATH}?within=7d").rows("id-")][-1] == "later"
    assert len(page_of(cluster.url, f"{PATH}?within=30m").rows("id-")) == 2
    page_of(cluster.url, f"{PATH}?within=soon", 422)


def test_the_page_lists_recently_expired_ids_that_did_not_return(cluster: WithPartitions) -> None:
    gone = [Id(name, producer_id=7, producer_epoch=2) for name in (b"cdc-mirror", b"came-back", b"long-ago")]
    gone += [Id(b"reporting-%08x" % (n * 7919), producer_id=n) for n in range(9)]
    cluster.read(gone)
    expired = [one._replace(state=states.EXPIRED, producer_id=-1, timestamp_ms=NOW_MS - HOUR_MS) for one in gone]
    cluster.read([one if one.id != b"long-ago" else one._replace(timestamp_ms=NOW_MS - 2 * DAY_MS) for one in expired])
    cluster.read([Id(b"came-back", producer_id=8)])
    page = page_of(cluster.url, PATH)
    assert "Expired, last 24 hours 10" in page.texts[""]
    cdc, reporting = sorted(page.rows("gone-"))
    assert cdc == "13:13:50 cdc-mirror 7 / 2 commit not seen again"
    assert shows(reporting, "13:13:50", "reporting-…", "9 ids", "9 producer ids")
    assert page.links["reporting-…"] == "/clusters/orders/transactions?prefix=reporting-&state=Expired"


def test_assumed_limits_are_marked_as_assumed(tmp_path: Path) -> None:
    cluster = WithPartitions(f"sqlite:///{tmp_path / 'store.db'}")
    cluster.read([unused(b"a", HOUR_MS)])
    page = page_of(cluster.url, PATH)
    cluster.close()
    assert "(7 d, assumed" in page.texts[""]
    assert "Kafka's default" in page.texts["soonest"]


def test_the_page_distinguishes_no_expiring_id_from_unknown(cluster: WithPartitions) -> None:
    page = page_of(cluster.url, PATH)
    assert "Within 24 hours unknown" in page.texts[""]
    assert "not known" in page.texts["soonest"]
    assert "No id expires" not in page.texts[""]
    cluster.read([unused(b"a", 6 * DAY_MS)])
    page = page_of(cluster.url, PATH)
    assert shows(page.texts["soonest"], "No id expires within 72h", "1 id")
    assert "No id expired in the last 24 hours." in page.texts["gone"]


def test_the_page_reports_that_the_first_read_is_not_complete(tmp_path: Path) -> None:
    cluster = reading_for_the_first_time(f"sqlite:///{tmp_path / 'store.db'}", unused(b"a", HOUR_MS))
    page = page_of(cluster.url, PATH)
    cluster.close()
    assert "The transaction log is not read to its end yet." in page.texts["not-read"]


def test_bars_group_ids_by_time_left() -> None:
    assert bounds_ms(KEPT_MS) == [DAY_MS * day for day in range(1, 8)]
    drawn = bars([4, 2, 0, 5, 3, 9, 376], KEPT_MS)
    assert [bar.text for bar in drawn][::6] == ["0 to 1 d", "6 to 7 d"]
    assert [bar.is_cut for bar in drawn] == [False] * 6 + [True], (
        "the tallest bar is cut, so that the other bars stay visible"
    )
    assert [bar.is_soon for bar in drawn] == [True] + [False] * 6
    assert drawn[2].height == 0
    assert all(bar.y + bar.height == FOOT for bar in drawn)
    assert all(left.x + 11 < right.x for left, right in pairwise(drawn))
    assert drawn[5].height > drawn[0].height > drawn[1].height > 0
    assert [bar.height for bar in bars([0] * 7, HOUR_MS)] == [0] * 7
    assert bars([1] * 7, HOUR_MS)[0].text == "< 8 m 34 s"


def test_invalid_times_do_not_break_the_page(cluster: WithPartitions) -> None:
    absurd = [
        unused(b"a%d" % n, HOUR_MS)._replace(last_update_ms=ms) for n, ms in enumerate((INT64_MAX, -1, INT64_MIN))
    ]
    gone = [Id(b"b%d" % n, states.EXPIRED, timestamp_ms=ms) for n, ms in enumerate((INT64_MAX, -1))]
    cluster.read([*absurd, *gone, unused(b"good", 3 * DAY_MS)])
    page = page_of(cluster.url, f"{PATH}?within=999999999d")
    assert [row.split()[0] for row in page.rows("id-")] == ["good"]
    assert "Can expire 1" in page.texts[""]
    assert "Expired, last 24 hours 0" in page.texts[""]
