"""What every page shows around its own: clusters, navigation with counts, how old the data are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from sqlalchemy import Connection

from service.api.clusters import describe_cluster
from service.domain.findings.kinds import CONFIRMED, CRITICAL
from service.domain.transaction_log import SOURCE
from service.store import read, read_expiring, read_findings
from service.store.read import ClusterRow, StatusRow
from service.store.read_findings import FindingSelection
from service.web.freshness import Freshness

_DAY_MS = 86_400_000
_MOST_COUNTED = 200


class Frame(NamedTuple):
    """`body`: the cluster as REST tells of it. `api`: this page as JSON."""

    clusters: tuple[str, ...]
    cluster: ClusterRow
    body: Mapping[str, Any]
    statuses: Mapping[str, StatusRow]
    freshness: Freshness
    findings: int
    critical: int
    expiring: int

    @property
    def name(self) -> str:
        return self.cluster.name

    @property
    def now_ms(self) -> int:
        return self.freshness.now_ms


def read_frame(connection: Connection, cluster: ClusterRow, now_ms: int) -> Frame:
    body, _ = describe_cluster(connection, cluster)
    statuses = read.statuses(connection, cluster.id)
    critical = FindingSelection(statuses=frozenset({CONFIRMED}), severities=frozenset({CRITICAL}))
    (expiring,) = read_expiring.count_expiring(connection, cluster.id, [now_ms + _DAY_MS])
    return Frame(
        clusters=tuple(one.name for one in read.all_clusters(connection)),
        cluster=cluster,
        body=body,
        statuses=statuses,
        freshness=_freshness(body, statuses, now_ms),
        findings=sum(one["count"] for one in body["findings"] if one["status"] == CONFIRMED),
        critical=len(read_findings.read_page(connection, cluster.id, critical, None, _MOST_COUNTED)[0]),
        expiring=expiring,
    )


def _freshness(body: Mapping[str, Any], statuses: Mapping[str, StatusRow], now_ms: int) -> Freshness:
    """Of the source that answered longest ago: verdicts need all of them."""
    told = [status.as_of_ms for status in statuses.values()]
    as_of_ms = None if not told or any(one is None for one in told) else min(one for one in told if one is not None)
    log = next((one for one in body["sources"] if one["source"] == SOURCE), None)
    if log is None or log["caught_up"] or not log["end"] or log["coverage"]["judged"]:
        return Freshness(now_ms, as_of_ms)
    return Freshness(now_ms, as_of_ms, log["position"] / log["end"])
