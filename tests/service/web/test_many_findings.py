"""Tests that the totals on a page count all findings, including those that the page does not list."""

from __future__ import annotations

from pathlib import Path

from service.domain.findings.kinds import Kind, Severity
from service.domain.findings.lifecycle import MOST_OPEN
from tests.helpers.findings import observe
from tests.helpers.partitions import WithPartitions, hanging_finding, moving_partition
from tests.helpers.stores import NOW_MS, client_of, open_id


def test_pages_count_findings_that_they_do_not_list(tmp_path: Path) -> None:
    cluster = WithPartitions(f"sqlite:///{tmp_path / 'store.db'}")
    cluster.look(moving_partition())
    many = [hanging_finding(n, 7 + n) for n in range(MOST_OPEN)]
    late = [observe(Kind.OVERDUE, b"id-%d" % n, severity=Severity.CRITICAL) for n in range(50)]
    cluster.see(*many, *late, now_ms=NOW_MS)
    cluster.read([open_id("pay", 30_000, "orders")])
    cluster.close()
    with client_of(cluster.url) as client:
        overview = client.get("/clusters/orders").text
        one_id = client.get("/clusters/orders/transaction?id=pay").text
    assert "250 critical" in overview
    assert "250 open" in overview
    assert "the newest 20 of 200 findings" in one_id
