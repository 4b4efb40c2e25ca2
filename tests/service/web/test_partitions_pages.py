"""Tests of the list of stalled partitions, and of the page of one partition."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from service.domain.findings.finding import Subject
from service.domain.findings.kinds import Kind
from service.domain.partitions.group_offsets import GroupOffset
from service.domain.reasons.unread import DESCRIBE, READ
from service.domain.transaction_log import states
from service.store import clusters
from service.store.writers.groups import GroupWriter
from service.views.partitions import judged as judged_partitions
from service.web.partitions import partition_list
from service.web.shared import render
from tests.helpers.findings import observe
from tests.helpers.partitions import (
    END,
    LSO,
    SINCE_MS,
    WithPartitions,
    entry,
    hanging_finding,
    moving_partition,
    owner,
    read,
    stalled_partition,
    unanswered_partition,
)
from tests.helpers.reasons import denied
from tests.helpers.stores import DESCRIPTION, NOW_MS, Id
from tests.service.web.page_text import page_of, shows
from tests.service.web.stories import reading_for_the_first_time

PATH = "/clusters/orders/partitions"
HERE = f"{PATH}/orders/0"
LONG = ("warehouse-" * 20).encode()


def stored(cluster: WithPartitions) -> None:
    clusters.describe(cluster.engine, cluster.id, DESCRIPTION, NOW_MS)


pytestmark = pytest.mark.cluster(stored=stored)


def wait(cluster: WithPartitions, *groups: tuple[str, int]) -> None:
    seen = [GroupOffset(name, "orders", 0, offset, 2, False) for name, offset in groups]
    GroupWriter(cluster.engine, cluster.lease).replace(seen, NOW_MS)


RELATIONS: dict[str, tuple[Any, ...]] = {
    "open": (owner(b"a"), "open, not overdue", "aborts itself in"),
    "overdue": (owner(b"a", timeout_ms=1_000, start_ms=SINCE_MS - 3_000), "overdue", "overdue"),
    "completing": (owner(b"a", state=states.PREPARE_COMMIT), "completing", "heals when broker 1 acknowledges"),
    "adopted": (owner(b"a", start_ms=SINCE_MS + 7_000), "adopted records", "ends with the id's present transaction"),
    "hanging": (
        owner(b"a", state=states.COMPLETE_COMMIT, topics=()),
        "hanging",
        "no coordinator is set to end it",
        hanging_finding(name=b"a"),
    ),
    "unknown": (owner(b"a", state=states.COMPLETE_COMMIT, topics=()), "unknown", "being checked again"),
}


TITLES = {
    "open": "open, and not overdue",
    "overdue": "overdue",
    "completing": "completing",
    "adopted": "Old records",
    "hanging": "No coordinator is set",
    "unknown": "cannot be judged",
}


@pytest.mark.parametrize("relation", RELATIONS)
def test_each_state_of_an_entry_is_described_in_words(cluster: WithPartitions, relation: str) -> None:
    id_, word, heal, *observations = RELATIONS[relation]
    now_ms = NOW_MS + (40_000 if relation == "overdue" else 0)
    cluster.look(stalled_partition(), read(entry()))
    cluster.see(*observations)
    cluster.read([id_], now_ms=now_ms)
    cluster.look(read(entry(), at_ms=now_ms), at_ms=now_ms)
    row = page_of(cluster.url, PATH, now_ms=now_ms).texts["partition-orders-0"]
    assert f"a {word}" in row
    assert heal in row
    assert "LSO 100 · HW 110" in row
    assert "producer id 7, epoch 3, since" in row
    page = page_of(cluster.url, HERE, now_ms=now_ms)
    assert shows(page.texts["verdict"], "orders-0 hides 10 offsets. ", TITLES[relation])
    assert word in page.texts["open-7"]
    assert heal in page.texts["open-7"]
    assert "holds the LSO" in page.texts["open-7"]


def test_a_marker_that_is_not_replicated_is_shown(cluster: WithPartitions) -> None:
    cluster.read([owner(b"a", state=states.COMPLETE_COMMIT, topics=())])
    cluster.look(stalled_partition(), read())
    page = page_of(cluster.url, HERE)
    assert "marker not replicated" in page.texts["open-7"]
    assert "heals when the replicas catch up" in page.texts["open-7"]


def test_stalled_partitions_are_listed_with_the_worst_first(cluster: WithPartitions) -> None:
    cluster.read([owner(b"a"), owner(LONG, 2, 8), owner(b"pay", 3, 9, states.COMPLETE_ABORT, topics=())])
    cluster.look(stalled_partition(), stalled_partition(2), stalled_partition(3), moving_partition(1))
    cluster.look(read(entry()), read(entry(8), partition=2), read(entry(9), partition=3))
    cluster.see(hanging_finding(3, 9))
    wait(cluster, ("billing", LSO), ("audit", LSO - 5))
    page = page_of(cluster.url, PATH)
    rows = page.ids("partition-")
    assert rows[0] == "partition-orders-3"
    assert sorted(rows) == ["partition-orders-0", "partition-orders-2", "partition-orders-3"]
    assert "billing is probably stopped" in page.texts["partition-orders-0"]
    assert shows(page.texts["partition-orders-0"], "audit will probably stop", "5 offsets")
    assert LONG.decode() in page.texts["partition-orders-2"], "an id is never cut"
    assert shows(page.texts["partitions"], "4 partitions", "the LSO of 3 is stalled", "0 are unknown")
    assert page.links["what to do"].endswith("#do")
    waiting = page_of(cluster.url, f"{PATH}?show=waiting")
    assert waiting.ids("partition-") == ["partition-orders-0"]


def test_filters_and_sort_order_are_in_the_address(cluster: WithPartitions) -> None:
    cluster.read()
    cluster.look(
        stalled_partition(0, "orders", high_watermark=END + 5, stalled_since_ms=NOW_MS - 9_000),
        stalled_partition(0, "payments", high_watermark=END + 500, stalled_since_ms=NOW_MS - 5_000),
        stalled_partition(1, "orders", stalled_since_ms=NOW_MS - 60_000),
    )

    def rows(query: str) -> list[str]:
        return [id_.removeprefix("partition-") for id_ in page_of(cluster.url, f"{PATH}?{query}").ids("partition-")]

    assert rows("sort=hidden") == ["payments-0", "orders-0", "orders-1"]
    assert rows("sort=since") == ["orders-1", "orders-0", "payments-0"]
    assert rows("topic=pay") == ["payments-0"]
    assert rows("topic=&sort=since&page=9") == ["orders-1", "orders-0", "payments-0"], (
        "an empty topic and a page beyond the last one are accepted"
    )
    assert "No partition matches." in page_of(cluster.url, f"{PATH}?topic=nothing").texts["partitions"]
    page_of(cluster.url, f"{PATH}?sort=best", 422)


def test_unreadable_partitions_are_listed_as_unknown_with_a_reason(cluster: WithPartitions) -> None:
    hidden = denied("hr.payroll", DESCRIBE, READ)
    cluster.read()
    cluster.look(moving_partition(), *(unanswered_partition(hidden, n, "hr.payroll") for n in range(6)))
    page = page_of(cluster.url, PATH)
    row = page.texts["silent-hr.payroll-0"]
    assert shows(row, "hr.payroll-0 to -5", "6 partitions", "not readable", *["unknown"] * 5, str(hidden))
    assert page.links["What to do"] == "/clusters/orders/pipeline#unknown"
    assert "Unknown 6" in page.texts["partitions"]
    assert "the LSO of 0 is stalled, 6 are unknown" in page.texts["partitions"]
    assert "silent-hr.payroll-0" in page_of(cluster.url, f"{PATH}?show=unknown").texts
    assert "silent-hr.payroll-0" not in page_of(cluster.url, f"{PATH}?topic=orders").texts
    text = page_of(cluster.url, f"{PATH}/hr.payroll/3")
    assert shows(text.texts["verdict"], "Unknown: hr.payroll-3", str(hidden)[1:], "never answered")
    assert "High watermark unknown" in text.texts[""]


def test_an_entry_of_unknown_owner_has_a_reason(cluster: WithPartitions) -> None:
    cluster.read()
    cluster.look(stalled_partition(), read(entry()))
    row = page_of(cluster.url, f"{PATH}?show=unknown").texts["partition-orders-0"]
    assert "unknown" in row
    assert row.count("no owner of its producer id is known") == 1
    assert shows(
        page_of(cluster.url, HERE).texts["verdict"], "cannot be judged", "no owner of its producer id is known"
    )


def test_a_partition_that_no_longer_answers_shows_its_last_sample(cluster: WithPartitions) -> None:
    cluster.read([owner(b"a")])
    cluster.look(stalled_partition(), read(entry()))
    later_ms = NOW_MS + 60_000
    cluster.look(unanswered_partition("broker 1 does not answer", at_ms=later_ms), at_ms=later_ms)
    page = page_of(cluster.url, HERE, now_ms=later_ms)
    assert shows(page.texts["verdict"], "Unknown: orders-0", "Broker 1 does not answer", "14:13:50")


def test_no_partition_is_fine_before_the_first_sample(cluster: WithPartitions) -> None:
    page = page_of(cluster.url, PATH)
    assert "No partition has been sampled yet." in page.texts["not-read"]
    assert "LSO stalled 0" not in page.texts[""]
    assert "No LSO is stalled." not in page.texts[""]


def test_entries_are_not_judged_during_the_first_read_of_the_log(tmp_path: Path) -> None:
    cluster = reading_for_the_first_time(f"sqlite:///{tmp_path / 'store.db'}", Id(b"a"))
    cluster.look(stalled_partition(), read(entry()))
    assert "The partitions are not judged yet." in page_of(cluster.url, PATH).texts["not-read"]
    assert shows(page_of(cluster.url, HERE).texts["verdict"], "orders-0 hides 10 offsets", "not judged yet")
    cluster.close()


@pytest.mark.parametrize(
    ("age_ms", "title"),
    [
        (0, "orders-0 hides nothing"),
        (60_000, "Last known: orders-0 hides nothing"),
        (180_000, "Unknown: nothing has been read for 3 m"),
    ],
)
def test_a_partition_with_old_data_is_not_fine(cluster: WithPartitions, age_ms: int, title: str) -> None:
    cluster.read([Id(b"a")])
    cluster.look(moving_partition())
    page = page_of(cluster.url, HERE, now_ms=NOW_MS + age_ms)
    assert page.texts["verdict"].startswith(title)
    assert ("verdict--ok" in page.html) == (age_ms == 0)


def test_a_partition_whose_lso_moves_below_the_high_watermark_hides_offsets(cluster: WithPartitions) -> None:
    cluster.read([Id(b"a")])
    cluster.look(moving_partition(last_stable_offset=END - 3))
    page = page_of(cluster.url, HERE)
    assert shows(page.texts["verdict"], "orders-0 hides 3 offsets. Its LSO is not stalled.", "follow the LSO")
    assert "verdict--ok" in page.html


def test_the_page_counts_stalled_partitions_that_are_not_judged(
    cluster: WithPartitions, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The test lowers the limits, so that ten stalled partitions exceed them."""
    monkeypatch.setattr(judged_partitions, "MOST_JUDGED", 6)
    monkeypatch.setattr(partition_list, "MOST_JUDGED", 6)
    monkeypatch.setattr(render, "ROWS", 4)
    cluster.read()
    cluster.look(
        *(stalled_partition(n, stalled_since_ms=NOW_MS - 2_000 - n) for n in range(10)),
        unanswered_partition("away", 0, "other"),
    )
    page = page_of(cluster.url, PATH)
    assert shows(page.texts["too-many"], "10 partitions", "6 stalled longest", "other 4")
    assert shows(page.texts["partitions"], "Rows 1 to 4 of 6")
    assert page.ids("silent-") == []
    last = page_of(cluster.url, page.links["Next"])
    assert (len(last.ids("partition-")), last.ids("silent-")) == (2, ["silent-other-0"])
    assert "Rows 5 to 6 of 6" in last.texts["partitions"]


def test_the_page_of_a_partition_shows_entries_findings_and_groups(cluster: WithPartitions) -> None:
    cluster.read([owner(b"a"), owner(b"b\xff", producer_id=8)])
    cluster.look(stalled_partition(), read(entry(records=5, bytes=900), entry(8, LSO + 2), entry(9, LSO + 5)))
    subject = Subject("orders", 0, b"a", 7, 3, LSO)
    cluster.see(observe(Kind.ADOPTED, subject=subject, log_partition=None))
    wait(cluster, ("billing", LSO), ("audit", LSO - 5), ("dash", END))
    page = page_of(cluster.url, HERE)
    assert page.ids("open-") == ["open-7", "open-8", "open-9"], "open entries are sorted by offset"
    assert "5 900 B" in page.texts["open-7"]
    assert "b\\x{ff}" in page.texts["open-8"]
    assert page.links["b\\x{ff}"] == "/clusters/orders/transaction?id=b%FF"
    assert "no transactional id is known" in page.texts["open-9"]
    assert page.ids("group-") == ["group-billing-orders-0", "group-audit-orders-0", "group-dash-orders-0"]
    assert shows(page.texts["group-billing-orders-0"], "billing stopped", "likely", "100 0", "to the LSO", "10 2")
    (shown,) = (text for text in page.links if text.startswith("orders-0: records of a that begin at offset 100"))
    assert page.links[shown].startswith("/clusters/orders/findings/")
    assert "ruler" in page.texts
    assert page.links["This page as JSON"] == "/api/v1/clusters/orders/partitions/orders/0"


def test_offsets_of_an_unwatched_partition_may_be_requested(cluster: WithPartitions) -> None:
    cluster.look(moving_partition())
    page_of(cluster.url, f"{PATH}/other/7", 404)
    page_of(cluster.url, f"{PATH}/orders/x", 422)
    page = page_of(cluster.url, f"{PATH}/other/7?offset=5")
    assert page.texts["verdict"].startswith("Unknown: other-7")
    assert "cannot be explained now" in page.texts["explained"]
