"""The page of consumer groups: how each stands, and both of its lags."""

from __future__ import annotations

import pytest

from service.domain.findings.finding import Subject
from service.domain.findings.kinds import Kind
from service.domain.partitions.blocked_groups import OFFSETS_TOPIC, GroupOffset, IsolationLevel, offsets_partition
from service.domain.reasons.unread import ShareLevelNotReported, ShareOffsetsNotReported
from service.store.writers.groups import GroupWriter
from service.web.partitions import partition_list
from tests.helpers.findings import observe
from tests.helpers.partitions import END, LSO, WithPartitions, moving_partition, stalled_partition, unanswered_partition
from tests.helpers.stores import NOW_MS, Id
from tests.service.web.page_text import page_of

PATH = "/clusters/orders/groups"
HOME = offsets_partition("eos", 50)
HOMES = [moving_partition(number, OFFSETS_TOPIC) for number in range(50) if number != HOME]


def group(
    name: str, offset: int, *, partition: int = 0, members: int | None = 2, is_unstable: bool = False
) -> GroupOffset:
    return GroupOffset(name, "orders", partition, offset, members, is_unstable)


def stored(cluster: WithPartitions) -> None:
    """orders-0 and the home of the offsets of `eos` stand; orders-1 does not."""
    cluster.read([Id(b"a")])


pytestmark = pytest.mark.cluster(stored=stored)


@pytest.fixture
def seen(cluster: WithPartitions) -> WithPartitions:
    cluster.look(stalled_partition(), moving_partition(1), stalled_partition(HOME, OFFSETS_TOPIC), *HOMES)
    rows = [
        group("at", LSO),
        group("below", LSO - 5, members=None),
        group("beyond", END),
        group("idle", LSO, members=0),
        group("healthy", END - 1, partition=1),
        group("eos", 7, partition=1, is_unstable=True),
        group("<b>" + "x" * 200, LSO),
    ]
    GroupWriter(cluster.engine, cluster.lease).replace(rows, NOW_MS)
    return cluster


def test_each_relation_with_both_lags(seen: WithPartitions) -> None:
    page = page_of(seen.url, PATH)
    assert page.texts["group-at-orders-0"] == (
        "at orders-0 stopped likely: does not read on 100 for 0.0 s 100 0 clients measure to the LSO 10 2"
    ), "never a lag of 0 without saying to where it is measured"
    assert "will stop 5 offsets to go 95 for 0.0 s 100 5 15 unknown" in page.texts["group-below-orders-0"]
    assert "unknown beyond the LSO, and has not moved there 110" in page.texts["group-beyond-orders-0"]
    assert "10 beyond it 0 2" in page.texts["group-beyond-orders-0"]
    idle = page.texts["group-idle-orders-0"]
    assert "inactive no members, so nothing waits" in idle
    assert "clients measure" not in idle
    eos = page.texts["group-eos-orders-1"]
    assert f"behind {OFFSETS_TOPIC}-{HOME} cannot fetch its offsets" in eos
    assert "(UNSTABLE_OFFSET_COMMIT): running members go on, a member that starts waits" in eos
    assert "group-healthy-orders-1" not in page.texts, "nothing is held back there"
    assert "Stopped 2" in page.texts[""]
    assert "Not blocked 1" in page.texts[""]
    assert "Not known 1" in page.texts[""]


def test_what_a_relation_rests_on(seen: WithPartitions) -> None:
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
    assert "unknown members, and no committed offset yet none yet" in texts["group-new-orders-0"]
    assert "stopped likely: nothing left to read before the LSO" in texts["group-short-orders-0"]
    assert "96 start offset of a share group" in texts["group-workers-orders-0"]
    assert "share group with read_uncommitted: not blocked" in texts["group-dirty-orders-0"]
    assert "reads uncommitted moves beyond the LSO: not blocked" in texts["group-moves-orders-0"]


def test_pending_offsets_of_groups_without_members_or_an_answer(seen: WithPartitions) -> None:
    first = group("eos", -1, is_unstable=True, members=0)
    GroupWriter(seen.engine, seen.lease).replace([first, first._replace(members=None, partition=3)], NOW_MS)
    page = page_of(seen.url, PATH)
    idle, untold = page.texts["group-eos-orders-0"], page.texts["group-eos-orders-3"]
    assert f"nothing waits yet. Its offsets are part of a transaction that is open on {OFFSETS_TOPIC}-{HOME}:" in idle
    assert "none yet for" in idle
    assert "cannot fetch its offsets" in untold
    assert "unknown for" in untold


def test_those_that_wait_come_first_and_filters(seen: WithPartitions) -> None:
    def names(query: str = "") -> list[str]:
        texts = page_of(seen.url, PATH + query).texts
        return [texts[id_].split()[0] for id_ in texts if id_.startswith("group-")]

    long = "<b>" + "x" * 200
    assert names() == [long, "at", "eos", "below", "beyond", "idle"]
    assert names("?show=blocked") == [long, "at", "eos", "below"]
    assert names("?show=others") == ["beyond", "idle"]
    assert names("?group=be&show=all") == ["below", "beyond"]
    assert names("?group=") == names()
    assert "No group matches." in page_of(seen.url, f"{PATH}?group=nobody").texts["groups"]
    page_of(seen.url, f"{PATH}?show=some", 422)


def test_groups_that_may_not_be_asked_are_unknown(seen: WithPartitions) -> None:
    seen.see(observe(Kind.COVERAGE_GAP, subject=Subject(group="secret"), log_partition=None))
    page = page_of(seen.url, PATH)
    (row,) = (text for id_, text in page.texts.items() if id_.startswith("unasked-"))
    assert row.startswith("secret unknown unknown no permission: what to grant unknown")
    assert page.links["what to grant"] == "/clusters/orders/pipeline#unknown"
    assert "Not readable 1" in page.texts[""]


def test_share_groups_that_cannot_be_judged_say_why(seen: WithPartitions) -> None:
    gap = observe(Kind.COVERAGE_GAP, log_partition=None)
    seen.see(
        gap._replace(subject=Subject(group="levels"), reason=ShareLevelNotReported()),
        gap._replace(subject=Subject(group="old"), reason=ShareOffsetsNotReported()),
    )
    page = page_of(seen.url, PATH)
    rows = [text for id_, text in page.texts.items() if id_.startswith("unasked-")]
    assert [text.split()[0] for text in rows] == ["levels", "old"]
    assert all("share group that cannot be judged: why" in text for text in rows)
    unknown = page_of(seen.url, "/clusters/orders/pipeline").texts["unknown"]
    assert "Grant DESCRIBE_CONFIGS on group levels to txnscope's principal." in unknown
    assert "on group old" not in unknown
    assert "do not report the offsets of share groups" in unknown


def test_nobody_is_held_back(cluster: WithPartitions) -> None:
    cluster.look(moving_partition())
    assert "No group is held back." in page_of(cluster.url, PATH).texts["groups"]
    cluster.look(moving_partition(), unanswered_partition("away", 1))
    text = page_of(cluster.url, PATH).texts["groups"]
    assert "No group is known to be held back." in text


def test_before_anything_was_looked_at_nothing_is_zero(cluster: WithPartitions) -> None:
    page = page_of(cluster.url, PATH)
    assert "Nothing is known about groups yet." in page.texts["not-read"]
    assert "Stopped unknown" in page.texts[""]
    assert "No group is held back." not in page.texts[""]


def test_that_only_the_first_are_read_is_said(seen: WithPartitions, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partition_list, "GROUPS_READ", 6)
    assert "Only the first 6 rows are read: there may be more groups." in page_of(seen.url, PATH).texts["groups"]
