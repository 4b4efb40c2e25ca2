"""Declares every metric of ours once: name, kind, meaning, labels. Docs and dashboards may rely on these."""

from __future__ import annotations

from typing import Final, Literal, NamedTuple

PREFIX: Final = "kafka_txn_"

Kind = Literal["gauge", "counter", "histogram"]


class Metric(NamedTuple):
    """The declaration of a metric. `labels` come after `cluster`, which all metrics about a cluster have.

    `many`: the metric has a series for each of something that a cluster may have thousands of; the cap on series cuts
    only these.
    """

    name: str
    kind: Kind
    help: str
    labels: tuple[str, ...] = ()
    many: bool = False


def _metric(name: str, kind: Kind, text: str, *labels: str, many: bool = False) -> Metric:
    return Metric(PREFIX + name, kind, text, labels, many)


TRANSACTIONS = _metric("transactions", "gauge", "Transactional ids by state of their newest record.", "state")
COMPLETED = _metric("completed_total", "counter", "Transactions that ended, by outcome.", "outcome")
ABORTS = _metric("aborts_total", "counter", "Transactions that were aborted, by who ended them.", "cause")
FENCED = _metric(
    "fenced_producers_total",
    "counter",
    "Transactions aborted because somebody initialised the id again, admins included.",
)
DURATION = _metric(
    "duration_seconds",
    "histogram",
    "How long transactions were open, from their first partition to the decision to commit or abort.",
    "outcome",
)
MARKER_DURATION = _metric(
    "marker_duration_seconds", "histogram", "From the decision to commit or abort until all markers were written."
)
OLDEST_STATE_ENTRY = _metric(
    "oldest_state_entry_timestamp_seconds",
    "gauge",
    "When the transaction that is longest in this open state entered it; 0 if none is in it.",
    "state",
)
TOP_OPEN = _metric(
    "top_open_start_timestamp_seconds",
    "gauge",
    "When the oldest open transactions began; these few only.",
    "transactional_id",
    many=True,
)
TRANSACTIONAL_IDS = _metric("transactional_ids", "gauge", "Transactional ids the coordinators know.")
EXPIRING = _metric(
    "transactional_ids_expiring",
    "gauge",
    "Transactional ids that expire within that time if nobody uses them, those past it and not yet removed included.",
    "within",
)
EXPIRED = _metric("transactional_ids_expired_total", "counter", "Transactional ids removed by their coordinator.")
PRODUCER_IDS = _metric("producer_ids_assigned_total", "counter", "Producer ids seen under an id for the first time.")

EPOCH_MAX = _metric(
    "producer_epoch_max",
    "gauge",
    "Highest producer epoch of any id by its client's protocol; 2 raises it with every transaction.",
    "protocol",
)

COORDINATOR_IDS = _metric(
    "coordinator_ids", "gauge", "Transactional ids of a coordinator's partition.", "coordinator_partition", many=True
)
COORDINATOR_OPEN = _metric(
    "coordinator_open", "gauge", "Open transactions of a coordinator's partition.", "coordinator_partition", many=True
)
COORDINATOR_LAG = _metric(
    "coordinator_log_lag_records",
    "gauge",
    "Offsets of a coordinator's partition that are written and not yet read.",
    "coordinator_partition",
    many=True,
)

HANGING = _metric("hanging_transactions", "gauge", "Transactions that nobody will end: confirmed, and still there.")
HANGING_INFO = _metric(
    "hanging_info",
    "gauge",
    "What hangs, where and whose it is; the longest of them only.",
    "finding",
    "topic",
    "partition",
    "transactional_id",
    "owner",
    many=True,
)
PARTITIONS = _metric(
    "partitions", "gauge", "Partitions that are watched, by whether all that is open there can be judged.", "judged"
)
PARTITIONS_BLOCKED = _metric(
    "partitions_blocked", "gauge", "Partitions whose last stable offset stands below the high watermark."
)
PARTITION_LSO = _metric(
    "partition_last_stable_offset", "gauge", "Of partitions where it stands.", "topic", "partition", many=True
)
PARTITION_HIGH_WATERMARK = _metric(
    "partition_high_watermark",
    "gauge",
    "Of partitions whose last stable offset stands.",
    "topic",
    "partition",
    many=True,
)
PARTITION_LSO_LAG = _metric(
    "partition_lso_lag_records",
    "gauge",
    "Offsets between the last stable offset and the high watermark, where the former stands.",
    "topic",
    "partition",
    many=True,
)
PARTITION_LSO_LAST_ADVANCE = _metric(
    "partition_lso_last_advance_timestamp_seconds",
    "gauge",
    "When the last stable offset was first seen where it stands.",
    "topic",
    "partition",
    many=True,
)
GROUP_BLOCKED = _metric(
    "group_blocked",
    "gauge",
    "1 for a consumer group that waits, or soon will, behind an open transaction.",
    "group",
    "topic",
    "partition",
    many=True,
)
CONTRADICTIONS = _metric(
    "decision_contradictions_total",
    "counter",
    "Decisions about hanging transactions that became unknown because two readings of the logs contradict each other.",
)
DETECTION = _metric(
    "detection_seconds",
    "histogram",
    "From the first look that saw the last stable offset standing until a hanging transaction was confirmed.",
)
BATCH_DURATION = _metric(
    "pipeline_batch_duration_seconds",
    "histogram",
    "From the moment a micro-batch of a source was begun to be read until all of it was stored.",
    "source",
)

LAST_SUCCESS = _metric(
    "pipeline_last_success_timestamp_seconds",
    "gauge",
    "When a source was last read to the store without trouble, heartbeats included; 0 before the first time.",
    "source",
)
LAG = _metric("pipeline_lag_records", "gauge", "Offsets of a source that are written and not yet read.", "source")
RECORDS = _metric("pipeline_records_total", "counter", "Records read from a source.", "source")
BYTES = _metric("pipeline_bytes_total", "counter", "Bytes of record batches read from a source.", "source")
DECODE_ERRORS = _metric(
    "decode_errors_total", "counter", "Records and batches that could not be decoded.", "source", "reason"
)
COVERAGE = _metric(
    "source_coverage_ratio", "gauge", "Share of a source's partitions that answered in the last 30 s.", "source"
)

FINDINGS = _metric(
    "findings", "gauge", "Findings that are kept, resolved ones included, by kind and status.", "kind", "status"
)

FINDINGS_TRUNCATED = _metric(
    "findings_truncated",
    "gauge",
    "What has no finding because there is too much at once, by kind: not opened, or not read.",
    "kind",
)

CLUSTER_INFO = _metric(
    "cluster_info",
    "gauge",
    "What the cluster says of itself; finalized feature levels, empty until they are known.",
    "kafka_cluster_id",
    "transaction_version",
    "metadata_version",
)
SERIES_DROPPED = _metric("series_dropped", "gauge", "Series the cap leaves out now; the worst are kept.")

OF_CLUSTERS: Final = (
    TRANSACTIONS,
    COMPLETED,
    ABORTS,
    FENCED,
    DURATION,
    MARKER_DURATION,
    OLDEST_STATE_ENTRY,
    TOP_OPEN,
    TRANSACTIONAL_IDS,
    EXPIRING,
    EXPIRED,
    PRODUCER_IDS,
    EPOCH_MAX,
    COORDINATOR_IDS,
    COORDINATOR_OPEN,
    COORDINATOR_LAG,
    HANGING,
    HANGING_INFO,
    PARTITIONS,
    PARTITIONS_BLOCKED,
    PARTITION_LSO,
    PARTITION_HIGH_WATERMARK,
    PARTITION_LSO_LAG,
    PARTITION_LSO_LAST_ADVANCE,
    GROUP_BLOCKED,
    CONTRADICTIONS,
    DETECTION,
    BATCH_DURATION,
    LAST_SUCCESS,
    LAG,
    RECORDS,
    BYTES,
    DECODE_ERRORS,
    COVERAGE,
    FINDINGS,
    FINDINGS_TRUNCATED,
    CLUSTER_INFO,
    SERIES_DROPPED,
)
"""The metrics about clusters, in the order of the page."""

UP = Metric(f"{PREFIX}exporter_up", "gauge", "Whether the store answered when this page was made.")
RENDER_SECONDS = Metric(f"{PREFIX}exporter_render_seconds", "gauge", "How long making this page from the store took.")

HTTP_REQUESTS = Metric(
    "http_requests_total", "counter", "Requests answered, by route template.", ("method", "route", "status")
)
HTTP_SECONDS = Metric(
    "http_request_duration_seconds", "histogram", "From the request's first byte to the answer's last.", ("route",)
)
