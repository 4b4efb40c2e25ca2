"""Tests of the page of consumer groups: the position of each group relative to the LSO, and the two lags of the
group."""

from __future__ import annotations

import pytest

from service.domain.findings.finding import Subject
from service.domain.findings.kinds import Kind
from service.domain.partitions.group_offsets import OFFSETS_TOPIC, IsolationLevel
from service.domain.reasons.unread import ShareLevelNotReported, ShareOffsetsNotReported
from service.store.writers.groups import GroupWriter
from service.web.partitions import partition_list
from tests.helpers.findings import observe
from tests.helpers.partitions import END, LSO, WithPartitions, moving_partition
from tests.helpers.stores import NOW_MS, Id
from tests.service.waiting_groups import HOME, group, wait_behind
from tests.service.web.page_text import page_of, shows

PATH = "/clusters/orders/groups"


def stored(cluster: WithPartitions) -> None:
    cluster.read([Id(b"a")])


pytestmark = pytest.mark.cluster(stored=stored)


@pytest.fixture
def seen(cluster: WithPartitions) -> WithPartitions:
    wait_behind(cluster, group("<b>" + "x" * 200, LSO))
    return cluster


def test_each_group_has_its_state_and_both_lags(seen: WithPartitions) -> None:
    page = page_of(seen.url, PATH)
    at = page.texts["group-at-orders-0"]
    assert shows(at, "orders-0 stopped", "likely", "100", "100 0", "to the LSO", "10 2"), (
        "the lag to the LSO is shown as 0, and the row says up to which offset clients measure it"
    )
    assert shows(page.texts["group-below-orders-0"], "will stop", "5 offsets", "95", "100 5 15 unknown")
    assert shows(page.texts["group-beyond-orders-0"], "unknown", "beyond the LSO", "110", "10 beyond it 0 2")
    idle = page.texts["group-idle-orders-0"]
    assert shows(idle, "inactive", "no members")
    assert "clients measure" not in idle
    assert shows(page.texts["group-eos-orders-1"], f"{OFFSETS_TOPIC}-{HOME}", "UNSTABLE_OFFSET_COMMIT", "may wait")
    assert "group-healthy-orders-1" not in page.texts, "no open transaction holds this group back"
    assert all(fact in page.texts[""] for fact in ("Stopped 2", "No sign of waiting 1", "Not known 1"))


def test_each_group_state_has_its_reason(seen: WithPartitions) -> None:
    writer = GroupWriter(seen.engine, seen.lease)
    rows = [
        group("new", -1),
        group("short", LSO - 1)._replace(lso=LSO, has_records_ahead=False),
        group("workers", LSO - 4)._replace(isolation=IsolationLevel.READ_COMMITTED, lso=LSO, has_records_ahead=False),
        group("dirty", -1)._replace(isolation=IsolationLevel.READ_UNCOMMITTED),
        group("moves", END - 2)._replace(lso=LSO),
    ]
    writer.replace(rows, NOW_MS)
    writer.replace([*rows[:-1], group("moves", END - 1)._replace(lso=LSO)], NOW_MS)
    texts = page_of(seen.url, PATH).texts
    assert shows(texts["group-new-orders-0"], "unknown", "no committed offset", "none yet")
    assert shows(texts["group-short-orders-0"], "stopped", "likely", "nothing left to read")
    assert shows(texts["group-workers-orders-0"], "96", "share group")
    assert shows(texts["group-dirty-orders-0"], "read_uncommitted", "not blocked")
    assert shows(texts["group-moves-orders-0"], "reads uncommitted", "likely", "once beyond the LSO")


def test_groups_with_pending_offsets_are_shown_without_members(seen: WithPartitions) -> None:
    first = group("eos", -1, is_unstable=True, members=0)
    GroupWriter(seen.engine, seen.lease).replace([first, first._replace(members=None, partition=3)], NOW_MS)
    page = page_of(seen.url, PATH)
    idle, untold = page.texts["group-eos-orders-0"], page.texts["group-eos-orders-3"]
    assert shows(idle, "nothing is known to wait yet", f"{OFFSETS_TOPIC}-{HOME}", "none yet for")
    assert shows(untold, "unstable offsets", "unknown for")


def test_blocked_groups_come_first_and_groups_can_be_filtered(seen: WithPartitions) -> None:
    def names(query: str = "") -> list[str]:
        return [row.split()[0] for row in page_of(seen.url, PATH + query).rows("group-")]

    long = "<b>" + "x" * 200
    assert names() == [long, "at", "eos", "below", "beyond", "idle"]
    assert names("?show=blocked") == [long, "at", "eos", "below"]
    assert names("?show=others") == ["beyond", "idle"]
    assert names("?group=be&show=all") == ["below", "beyond"]
    assert names("?group=") == names()
    assert "No group matches." in page_of(seen.url, f"{PATH}?group=nobody").texts["groups"]
    page_of(seen.url, f"{PATH}?show=some", 422)


def test_groups_that_may_not_be_described_are_unknown(seen: WithPartitions) -> None:
    seen.see(observe(Kind.COVERAGE_GAP, subject=Subject(group="secret"), log_partition=None))
    page = page_of(seen.url, PATH)
    (row,) = page.rows("unasked-")
    assert shows(row, "secret unknown", "no permission", "unknown")
    assert page.links["what to grant"] == "/clusters/orders/pipeline#unknown"
    assert "Not readable 1" in page.texts[""]


def test_share_groups_that_cannot_be_judged_have_a_reason(seen: WithPartitions) -> None:
    gap = observe(Kind.COVERAGE_GAP, log_partition=None)
    seen.see(
        gap._replace(subject=Subject(group="levels"), reason=ShareLevelNotReported()),
        gap._replace(subject=Subject(group="old"), reason=ShareOffsetsNotReported()),
    )
    page = page_of(seen.url, PATH)
    rows = page.rows("unasked-")
    assert [text.split()[0] for text in rows] == ["levels", "old"]
    assert all("share group" in text for text in rows)
    unknown = page_of(seen.url, "/clusters/orders/pipeline").texts["unknown"]
    assert "DESCRIBE_CONFIGS on group levels" in unknown
    assert "on group old" not in unknown
    assert "do not report the offsets" in unknown


def test_the_page_reports_that_no_group_is_known_to_be_held_back(cluster: WithPartitions) -> None:
    cluster.look(moving_partition())
    assert "No group is known to be held back." in page_of(cluster.url, PATH).texts["groups"]


def test_no_number_is_zero_before_the_first_sample(cluster: WithPartitions) -> None:
    page = page_of(cluster.url, PATH)
    assert "Nothing is known about groups yet." in page.texts["not-read"]
    assert "Stopped unknown" in page.texts[""]
    assert "held back" not in page.texts[""]


def test_the_page_reports_that_only_the_first_rows_are_read(
    seen: WithPartitions, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(partition_list, "GROUPS_READ", 6)
    assert "first 6 rows" in page_of(seen.url, PATH).texts["groups"]
