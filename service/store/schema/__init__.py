"""The store's tables. Nearly all are keyed by cluster; times are milliseconds since the epoch.

Transactional ids are stored as bytes, beside the text that people see: an id may contain NUL or invalid UTF-8, and
bytes sort the same in every database.
"""

from service.store.schema.access import acknowledgements, api_keys, audit_events, mutes
from service.store.schema.base import metadata
from service.store.schema.canary import canaries, canary_coordinators
from service.store.schema.findings import (
    finding_events,
    findings,
    findings_truncated,
    notified_findings,
    receivers,
    telemetry,
)
from service.store.schema.history import cluster_minutes, counters, id_minutes, transitions
from service.store.schema.ids import (
    CAN_EXPIRE,
    HAS_EXPIRED,
    IS_NEW,
    OF_APPLICATION,
    application_states,
    application_totals,
    coordinator_states,
    left_behind_records,
    open_participants,
    producer_ids,
    transactional_ids,
)
from service.store.schema.ledger import (
    audited_partitions,
    ended_logs,
    partition_markers,
    partition_minutes,
    torn_transactions,
    unended_records,
    waiting_decisions,
    waiting_markers,
)
from service.store.schema.partitions import audit, data_partitions, group_offsets, open_entries, partition_watch
from service.store.schema.reading import (
    clusters,
    data_gaps,
    leases,
    log_partitions,
    readable_since,
    rejects,
    source_status,
)

__all__ = [
    "CAN_EXPIRE",
    "HAS_EXPIRED",
    "IS_NEW",
    "OF_APPLICATION",
    "acknowledgements",
    "api_keys",
    "application_states",
    "application_totals",
    "audit",
    "audit_events",
    "audited_partitions",
    "canaries",
    "canary_coordinators",
    "cluster_minutes",
    "clusters",
    "coordinator_states",
    "counters",
    "data_gaps",
    "data_partitions",
    "ended_logs",
    "finding_events",
    "findings",
    "findings_truncated",
    "group_offsets",
    "id_minutes",
    "leases",
    "left_behind_records",
    "log_partitions",
    "metadata",
    "mutes",
    "notified_findings",
    "open_entries",
    "open_participants",
    "partition_markers",
    "partition_minutes",
    "partition_watch",
    "producer_ids",
    "readable_since",
    "receivers",
    "rejects",
    "source_status",
    "telemetry",
    "torn_transactions",
    "transactional_ids",
    "transitions",
    "unended_records",
    "waiting_decisions",
    "waiting_markers",
]
