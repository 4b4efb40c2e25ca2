"""What every page shows around its own: clusters, navigation with counts, how old the data are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from sqlalchemy import Connection

from service.api.clusters import describe_cluster
from service.domain.findings.kinds import CONFIRMED, CRITICAL
from service.domain.partition_facts import SOURCE as PARTITIONS
from service.domain.transaction_log import SOURCE
from service.store import read, read_expiring, read_findings
from service.store.read import ClusterRow, StatusRow
from service.store.read_findings import FindingSelection
from service.store.read_first_read import FirstRead, first_read
from service.store.read_judged import Coverage, JudgedPartition, coverage, judged_standing, why_no_log
from service.web.freshness import Freshness

_DAY_MS = 86_400_000
_MOST_COUNTED = 200


class Frame(NamedTuple):
    """`body`: the cluster as REST tells of it. `standing`: partitions whose LSO stands, longest first. `first_read`:
    of the coordinators' log, while it lasts. `expiring`: ids within 24 hours."""

    clusters: tuple[str, ...]
    cluster: ClusterRow
    body: Mapping[str, Any]
    standing: Sequence[JudgedPartition]
    covered: Coverage
    statuses: Mapping[str, StatusRow]
    freshness: Freshness
    findings: int
    critical: int
    expiring: int
    first_read: FirstRead | None = None

    @property
    def name(self) -> str:
        return self.cluster.name

    @property
    def now_ms(self) -> int:
        return self.freshness.now_ms


def read_frame(connection: Connection, cluster: ClusterRow, now_ms: int) -> Frame:
    standing = judged_standing(connection, cluster.id)
    covered = coverage(connection, cluster.id, standing)
    body, _ = describe_cluster(connection, cluster, covered)
    statuses = read.statuses(connection, cluster.id)
    critical = FindingSelection(statuses=frozenset({CONFIRMED}), severities=frozenset({CRITICAL}))
    (expiring,) = read_expiring.count_expiring(connection, cluster.id, [now_ms + _DAY_MS - cluster.expiration_ms])
    progress = first_read(connection, cluster.id)
    return Frame(
        clusters=tuple(one.name for one in read.all_clusters(connection)),
        cluster=cluster,
        body=body,
        standing=standing,
        covered=covered,
        statuses=statuses,
        freshness=Freshness(
            now_ms, _as_of_ms(connection, cluster.id, statuses, covered), None if progress is None else progress.share
        ),
        findings=sum(one["count"] for one in body["findings"] if one["status"] == CONFIRMED),
        critical=len(read_findings.read_page(connection, cluster.id, critical, None, _MOST_COUNTED)[0]),
        expiring=expiring,
        first_read=progress,
    )


def _as_of_ms(
    connection: Connection, cluster_id: int, statuses: Mapping[str, StatusRow], covered: Coverage
) -> int | None:
    """Of the source that answered longest ago: verdicts need all of them. A partition without answer makes no page old:
    it is unknown. So is what the coordinators' log would tell, where it may not be read."""
    answered = {source: status.as_of_ms for source, status in statuses.items()}
    if PARTITIONS in answered:
        answered[PARTITIONS] = covered.looked_at_ms
    if len(answered) > 1 and why_no_log(connection, cluster_id) is not None:
        answered.pop(SOURCE, None)
    told = answered.values()
    return None if None in told else min((one for one in told if one is not None), default=None)
