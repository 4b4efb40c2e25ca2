"""Tests that REST, the terminal and the pages report in one line how many findings were left out."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from service.domain.findings.kinds import Kind
from service.store.writers.findings import FindingWriter
from tests.helpers.partitions import WithPartitions, hanging_finding, moving_partition
from tests.helpers.stores import client_of
from tests.helpers.terminal import Ask

LEFT_OUT = {Kind.HANGING: 50, Kind.OVERDUE: 9_500}


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def stored(cluster: WithPartitions) -> None:
    at_ms = now_ms()
    cluster.look(moving_partition(at_ms=at_ms), at_ms=at_ms)
    cluster.see(hanging_finding(), now_ms=at_ms)


pytestmark = pytest.mark.cluster(stored=stored)


def leave_out(cluster: WithPartitions) -> None:
    FindingWriter(cluster.engine, cluster.lease).save_truncated(LEFT_OUT)


def get(cluster: WithPartitions, path: str) -> Any:
    with client_of(cluster.url) as client:
        return client.get(f"/api/v1/clusters/orders{path}").json()


def test_rest_counts_left_out_findings_of_the_requested_kinds(cluster: WithPartitions) -> None:
    assert (get(cluster, "/findings")["truncated"], get(cluster, "")["truncated"]) == (0, [])
    leave_out(cluster)
    asked = {
        "/findings": 9_550,
        "/findings?kind=overdue_transaction": 9_500,
        "/findings?kind=overdue_transaction&kind=hanging_transaction": 9_550,
        "/findings?kind=data_gap": 0,
        "/findings?status=resolved": 0,
        "/findings?status=resolved&status=confirmed": 9_550,
        "/hanging": 50,
    }
    assert {path: get(cluster, path)["truncated"] for path in asked} == asked


def test_the_cluster_counts_left_out_findings_by_kind(cluster: WithPartitions) -> None:
    leave_out(cluster)
    body = get(cluster, "")
    assert {one["kind"]: one["count"] for one in body["truncated"]} == LEFT_OUT
    said = [one for one in body["unknown"] if "too many conditions at once" in one["why"]]
    assert [one["what"] for one in said] == ["9,500 overdue_transaction and 50 hanging_transaction"]


def test_the_findings_command_reports_left_out_findings(cluster: WithPartitions, ask: Ask) -> None:
    assert "left out" not in ask("findings")[2]
    leave_out(cluster)
    code, _, err = ask("findings")
    assert code == 0
    assert (
        err.splitlines()[-1]
        == "left out, because too many exist at once: 9,500 overdue_transaction and 50 hanging_transaction"
    )
    assert ask("findings", "--kind", "hanging_transaction")[2].splitlines()[-1] == (
        "left out, because too many exist at once: 50 hanging_transaction"
    )
    assert "left out" not in ask("findings", "--kind", "data_gap")[2]
    assert json.loads(ask("findings", "--json")[1])["truncated"] == 9_550


def test_the_hanging_command_reports_left_out_findings(cluster: WithPartitions, ask: Ask) -> None:
    leave_out(cluster)
    code, _, err = ask("hanging")
    assert (code, err.splitlines()[0]) == (1, "50 more cases are left out, because too many exist at once")


def test_the_hanging_command_exits_with_4_while_findings_are_left_out(cluster: WithPartitions, ask: Ask) -> None:
    """An omitted transaction may hang, so the exit code must not be 0."""
    cluster.see(now_ms=now_ms())
    assert ask("hanging")[0] == 0
    leave_out(cluster)
    assert ask("hanging")[0] == 4
    assert ask("hanging", "--allow-partial")[0] == 0


@pytest.mark.parametrize("page", ["", "/findings"])
def test_pages_report_left_out_findings_in_one_line(cluster: WithPartitions, page: str) -> None:
    with client_of(cluster.url) as client:
        assert 'id="left-out"' not in client.get(f"/clusters/orders{page}").text
        leave_out(cluster)
        text = client.get(f"/clusters/orders{page}").text
    left_out = "Left out, because there are too many at once: 9,500 overdue_transaction and 50 hanging_transaction."
    assert text.count(left_out) == 1
