"""Reads the facts for the metrics of a cluster. The number of facts does not grow with the number of ids."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from sqlalchemy import Connection, bindparam, func, literal, select, true, union_all

from service.domain.findings.finding import Finding
from service.domain.findings.kinds import Kind
from service.domain.partitions.blocked_groups import AffectedGroup
from service.domain.partitions.facts import TopicPartition
from service.domain.partitions.group_offsets import LsoSample
from service.domain.source_state import SourceName
from service.domain.transaction_log.states import FIRST_TIME_MS, ONGOING, PREPARED
from service.store.queries.applications import ApplicationRow, all_applications
from service.store.queries.clusters import (
    ClusterRow,
    LogPartitionRow,
    StateCount,
    StatusRow,
    all_clusters,
    log_as_of_ms,
    partitions,
    state_counts,
    statuses,
)
from service.store.queries.expiring import count_expiring
from service.store.queries.findings import counts as finding_counts
from service.store.queries.findings import longest_open, truncated
from service.store.queries.partitions import read_affected_groups, stalled_ends
from service.store.schema import counters, leases, log_partitions, transactional_ids
from service.views.cluster.canary import CanaryHealth, read_health
from service.views.partitions.judged import Coverage, coverage

TOP_OPEN: Final = 20
HANGING_NAMED: Final = 50
STALLED_READ: Final = 2_500
"""Maximum number of stalled partitions that get series of metrics. Each partition has four series, so there are at
most 10,000 of these series."""

EXPIRES_WITHIN_MS: Final = {"1h": 3_600_000, "24h": 86_400_000, "72h": 259_200_000}


class Holder(NamedTuple):
    """The last holder of the lease. `owner`: an identity (`service.processes.identity`)."""

    owner: str
    released: bool


class ClusterFacts(NamedTuple):
    """The facts about a cluster at one moment.

    - `counted_since_ms`: None if counting has not begun.
    - `holder`: None if no application ever held the lease.
    - `counters`: a mapping from (name, label) to value.
    - `oldest`: a mapping from open state to the earliest time at which one of the ids in this state entered it.
    - `top_open`: pairs of an id in display form and the time at which its open transaction began, the oldest first.
    - `expiring`: a mapping from period (1h, …) to the number of ids that expire within the period.
    - `highest_epochs`: a mapping from protocol (1 or 2) to the highest producer epoch.
    - `findings`: a mapping from (kind, status) to the number of findings.
    - `truncated`: a mapping from kind to the number of conditions without a finding.
    - `hanging`: the confirmed hanging findings, the longest open first.
    - `stalled`: stalled partitions, the longest stalled first.
    - `canary`: None if the cluster never had a canary.
    """

    name: str
    kafka_cluster_id: str
    counted_since_ms: int | None
    description: Mapping[str, Any]
    holder: Holder | None
    states: tuple[StateCount, ...]
    counters: Mapping[tuple[str, str], int]
    logs: tuple[LogPartitionRow, ...]
    statuses: Mapping[str, StatusRow]
    oldest: Mapping[int, int]
    top_open: tuple[tuple[str, int], ...]
    expiring: Mapping[str, int]
    highest_epochs: Mapping[int, int]
    findings: Mapping[tuple[str, str], int]
    truncated: Mapping[str, int]
    hanging: tuple[Finding, ...]
    coverage: Coverage
    stalled: Mapping[TopicPartition, LsoSample]
    affected_groups: tuple[AffectedGroup, ...]
    canary: CanaryHealth | None
    applications: tuple[ApplicationRow, ...] = ()


_T = transactional_ids.c
_COUNTERS = select(counters.c.name, counters.c.label, counters.c.value)
_HOLDER = select(leases.c.owner, leases.c.released)
# a start that is no time would be the oldest for ever; the condition also picks the index
_OLDEST_FIRST = (
    select(_T.display, _T.started_at_ms)
    .where(_T.started_at_ms.is_not(None), _T.started_at_ms >= FIRST_TIME_MS)
    .order_by(_T.started_at_ms, _T.transactional_id)
)
_PREPARED = (
    select(_T.state, func.min(_T.state_since_ms))
    .where(_T.state.in_(PREPARED), _T.state_since_ms >= FIRST_TIME_MS)
    .group_by(_T.state)
)

# protocols by the transaction version that clients write (KIP-890: 2 and above raise the epoch with every end); each
# version is looked up once in every log partition
_PROTOCOLS: Final = {0: 1, 1: 1, 2: 2, 3: 2}
_VERSIONS = union_all(*(select(literal(version).label("version")) for version in _PROTOCOLS)).subquery()
_HIGHEST_EPOCHS = (
    select(
        _VERSIONS.c.version,
        select(func.max(_T.producer_epoch))
        .where(
            _T.cluster_id == log_partitions.c.cluster_id,
            _T.partition == log_partitions.c.partition,
            _T.client_transaction_version == _VERSIONS.c.version,
        )
        .scalar_subquery(),
    )
    .select_from(log_partitions)
    .join(_VERSIONS, true())
    .where(log_partitions.c.cluster_id == bindparam("cluster"), log_partitions.c.source == SourceName.TRANSACTION_LOG)
)


def all_facts(connection: Connection, now_ms: int) -> list[ClusterFacts]:
    """Returns the facts of every cluster, sorted by the name of the cluster."""
    return [_facts(connection, cluster, now_ms) for cluster in all_clusters(connection)]


def _facts(connection: Connection, cluster: ClusterRow, now_ms: int) -> ClusterFacts:
    oldest = _OLDEST_FIRST.where(_T.cluster_id == cluster.id)
    counted = _COUNTERS.where(counters.c.cluster_id == cluster.id)
    return ClusterFacts(
        name=cluster.name,
        kafka_cluster_id=cluster.kafka_cluster_id,
        counted_since_ms=cluster.counted_since_ms,
        description=cluster.description or {},
        holder=_holder(connection, cluster.id),
        states=tuple(state_counts(connection, cluster.id)),
        counters={(row.name, row.label): row.value for row in connection.execute(counted)},
        logs=tuple(partitions(connection, cluster.id)),
        statuses=statuses(connection, cluster.id),
        oldest=_oldest(connection, cluster.id),
        top_open=tuple((row.display, row.started_at_ms) for row in connection.execute(oldest.limit(TOP_OPEN))),
        expiring=_expiring(connection, cluster),
        highest_epochs=_highest_epochs(connection, cluster.id),
        findings={(row.kind, row.status): row.findings for row in finding_counts(connection, cluster.id)},
        truncated=truncated(connection, cluster.id),
        hanging=longest_open(connection, cluster.id, Kind.HANGING, HANGING_NAMED),
        coverage=coverage(connection, cluster.id),
        stalled=stalled_ends(connection, cluster.id, STALLED_READ),
        affected_groups=tuple(read_affected_groups(connection, cluster.id)),
        canary=read_health(connection, cluster.id, now_ms),
        applications=tuple(all_applications(connection, cluster.id)),
    )


def _holder(connection: Connection, cluster_id: int) -> Holder | None:
    row = connection.execute(_HOLDER.where(leases.c.cluster_id == cluster_id)).one_or_none()
    return None if row is None else Holder(*row)


def _oldest(connection: Connection, cluster_id: int) -> dict[int, int]:
    """Returns a mapping from open state to the earliest time (ms) at which one of the ids in this state entered it. An
    id enters Ongoing when its transaction starts. The query for the Prepare states reads all ids in these states,
    because there are few at a time."""
    ongoing = connection.execute(_OLDEST_FIRST.where(_T.cluster_id == cluster_id, _T.state == ONGOING).limit(1)).first()
    prepared = connection.execute(_PREPARED.where(_T.cluster_id == cluster_id))
    found = {int(state): int(since_ms) for state, since_ms in prepared}
    return found if ongoing is None else found | {ONGOING: ongoing.started_at_ms}


def _expiring(connection: Connection, cluster: ClusterRow) -> dict[str, int]:
    as_of_ms = log_as_of_ms(connection, cluster.id) or 0
    until_ms = [as_of_ms + within_ms - cluster.expiration_ms for within_ms in EXPIRES_WITHIN_MS.values()]
    return dict(zip(EXPIRES_WITHIN_MS, count_expiring(connection, cluster.id, until_ms), strict=True))


def _highest_epochs(connection: Connection, cluster_id: int) -> dict[int, int]:
    """Returns the highest producer epoch of each protocol; 0 if no id uses the protocol."""
    found = dict.fromkeys(sorted(set(_PROTOCOLS.values())), 0)
    for version, epoch in connection.execute(_HIGHEST_EPOCHS, {"cluster": cluster_id}):
        protocol = _PROTOCOLS[version]
        found[protocol] = max(found[protocol], epoch or 0)
    return found
