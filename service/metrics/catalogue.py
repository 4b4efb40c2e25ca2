"""Declares every metric of txnscope once: name, kind, meaning, labels. The metrics of the process (`process_…`) come
from the library. Docs and dashboards rely on these declarations."""

from __future__ import annotations

from typing import Final, Literal, NamedTuple

PREFIX: Final = "kafka_txn_"

Kind = Literal["gauge", "counter", "histogram"]


class Metric(NamedTuple):
    """The declaration of a metric. `labels` come after `cluster`, which all metrics about a cluster have.

    `many`: the metric has a series for each id, application, finding, group or partition, of which a cluster may have
    thousands. The cap on series cuts only such metrics.
    """

    name: str
    kind: Kind
    help: str
    labels: tuple[str, ...] = ()
    many: bool = False


OF_CLUSTERS: Final[list[Metric]] = []
"""The metrics about clusters, in the order of their declarations, which is also their order on the page."""


def _metric(name: str, kind: Kind, text: str, *labels: str, many: bool = False) -> Metric:
    metric = Metric(PREFIX + name, kind, text, labels, many)
    OF_CLUSTERS.append(metric)
    return metric


def _of_coordinator(name: str, text: str) -> Metric:
    return _metric(name, "gauge", text, "coordinator_partition", many=True)


def _of_partition(name: str, text: str) -> Metric:
    return _metric(name, "gauge", text, "topic", "partition", many=True)


TRANSACTIONS = _metric("transactions", "gauge", "Transactional ids, by the state in their newest record.", "state")
COMPLETED = _metric("completed_total", "counter", "Completed transactions, by outcome.", "outcome")
ABORTS = _metric("aborts_total", "counter", "Aborted transactions, by cause.", "cause")
FENCED = _metric(
    "fenced_producers_total",
    "counter",
    "Aborted transactions that are attributed to an InitProducerId request for their id, of a producer or an"
    " administrator.",
)
DURATION = _metric(
    "duration_seconds",
    "histogram",
    "Time for which transactions were open, from the first partition to the decision to commit or abort.",
    "outcome",
)
MARKER_DURATION = _metric(
    "marker_duration_seconds", "histogram", "Time from the decision to commit or abort until all markers were written."
)
OLDEST_STATE_ENTRY = _metric(
    "oldest_state_entry_timestamp_seconds",
    "gauge",
    "Earliest time at which one of the transactions now in this open state entered it; 0 if none is in it.",
    "state",
)
TOP_OPEN = _metric(
    "top_open_start_timestamp_seconds",
    "gauge",
    "Start time of the open transactions; only for those open longest.",
    "transactional_id",
    many=True,
)
FAILED_CAUSES: Final = ("timeout", "fenced", "admin", "unattributed")
"""The causes of aborts that an application did not choose: all but `client`."""

APPLICATION_TRANSACTIONS = _metric(
    "application_transactions",
    "gauge",
    "Transactional ids of an application, by the state in their newest record; only for the applications with the most"
    " failed transactions.",
    "application",
    "state",
    many=True,
)
APPLICATION_COMPLETED = _metric(
    "application_completed_total",
    "counter",
    "Completed transactions of an application, by outcome and cause; counted while their id belongs to the"
    " application.",
    "application",
    "outcome",
    "cause",
    many=True,
)
APPLICATION_OLDEST_OPEN = _metric(
    "application_oldest_open_timestamp_seconds",
    "gauge",
    "Start time of the oldest open transaction of an application; 0 if there is none.",
    "application",
    many=True,
)
TRANSACTIONAL_IDS = _metric("transactional_ids", "gauge", "Transactional ids known to the coordinators.")
EXPIRING = _metric(
    "transactional_ids_expiring",
    "gauge",
    "Unused transactional ids that expire within the time `within`, including expired ids that are not removed yet.",
    "within",
)
EXPIRED = _metric("transactional_ids_expired_total", "counter", "Transactional ids that their coordinators removed.")
PRODUCER_IDS = _metric(
    "producer_ids_assigned_total", "counter", "Producer ids seen for the first time under a transactional id."
)

EPOCH_MAX = _metric(
    "producer_epoch_max",
    "gauge",
    "Highest producer epoch of all ids, by transaction protocol of the client; under protocol 2, every transaction"
    " raises the epoch.",
    "protocol",
)

COORDINATOR_IDS = _of_coordinator("coordinator_ids", "Transactional ids, by partition of __transaction_state.")
COORDINATOR_OPEN = _of_coordinator("coordinator_open", "Open transactions, by partition of __transaction_state.")
COORDINATOR_LAG = _of_coordinator(
    "coordinator_log_lag_records", "Offsets written and not read yet, by partition of __transaction_state."
)

HANGING = _metric("hanging_transactions", "gauge", "Confirmed hanging transactions: no coordinator is set to end them.")
HANGING_INFO = _metric(
    "hanging_info",
    "gauge",
    "1 for each hanging transaction with its place and owner; only for those hanging longest.",
    "finding",
    "topic",
    "partition",
    "transactional_id",
    "owner",
    many=True,
)
HANGING_MUTED_UNTIL = _metric(
    "hanging_muted_until_timestamp_seconds",
    "gauge",
    "Time at which the mute of a hanging transaction ends; only while it is muted, and for those hanging longest.",
    "finding",
    many=True,
)
PARTITIONS = _metric(
    "partitions", "gauge", "Watched partitions, by whether their open transactions can be judged.", "judged"
)
PARTITIONS_BLOCKED = _metric(
    "partitions_blocked", "gauge", "Partitions whose last stable offset is stalled below the high watermark."
)
PARTITION_LSO = _of_partition("partition_last_stable_offset", "Last stable offset of stalled partitions.")
PARTITION_HIGH_WATERMARK = _of_partition("partition_high_watermark", "High watermark of stalled partitions.")
PARTITION_LSO_LAG = _of_partition(
    "partition_lso_lag_records", "Offsets between the last stable offset and the high watermark of stalled partitions."
)
PARTITION_LSO_LAST_ADVANCE = _of_partition(
    "partition_lso_last_advance_timestamp_seconds",
    "Time at which the last stable offset of a stalled partition was first seen at its present value.",
)
GROUP_BLOCKED = _metric(
    "group_blocked",
    "gauge",
    "1 for a consumer group that waits at an open transaction, or will reach it.",
    "group",
    "topic",
    "partition",
    many=True,
)
CONTRADICTIONS = _metric(
    "decision_contradictions_total",
    "counter",
    "Times that the decision on a hanging transaction became unknown, because two reads of the logs contradict each"
    " other.",
)
AUDITED = _metric(
    "audited_total",
    "counter",
    "Ended transactions whose markers on tailed partitions were compared with the decision, by result; 0 without"
    " --partitions all.",
    "result",
)
DETECTION = _metric(
    "detection_seconds",
    "histogram",
    "Time from the first sample with the stalled last stable offset until the hanging transaction was confirmed.",
)
BATCH_DURATION = _metric(
    "pipeline_batch_duration_seconds",
    "histogram",
    "Time from the start of reading a micro-batch of a source until it was stored.",
    "source",
)

LAST_SUCCESS = _metric(
    "pipeline_last_success_timestamp_seconds",
    "gauge",
    "Time of the last complete read of a source, heartbeats included; it does not advance while a partition does not"
    " answer. 0 if there was no complete read.",
    "source",
)
LEASE_HELD = _metric(
    "lease_held",
    "gauge",
    "1 for the instance that has the right to store the cluster's data, 0 once it has given up that right. A dead"
    " instance keeps 1 until another takes over.",
    "instance",
)
LAG = _metric("pipeline_lag_records", "gauge", "Offsets of a source that are written and not read yet.", "source")
RECORDS = _metric("pipeline_records_total", "counter", "Records read from a source.", "source")
BYTES = _metric("pipeline_bytes_total", "counter", "Bytes of record batches read from a source.", "source")
DECODE_ERRORS = _metric(
    "decode_errors_total", "counter", "Records and batches that could not be decoded.", "source", "reason"
)
COVERAGE = _metric(
    "source_coverage_ratio", "gauge", "Share of a source's partitions that answered in the last 30 s.", "source"
)

FINDINGS = _metric(
    "findings", "gauge", "Stored findings, resolved ones included, by kind and status.", "kind", "status"
)

FINDINGS_TRUNCATED = _metric(
    "findings_truncated",
    "gauge",
    "Conditions and events, by kind of finding, that were not read or got no finding because a bound was reached.",
    "kind",
)

CLUSTER_INFO = _metric(
    "cluster_info",
    "gauge",
    "Finalized feature levels of the cluster; labels are empty until they are known.",
    "kafka_cluster_id",
    "transaction_version",
    "metadata_version",
)
SERIES_DROPPED = _metric("series_dropped", "gauge", "Series that the cap leaves out now; the worst series are kept.")


CANARY_COMMIT = _metric(
    "canary_commit_seconds",
    "histogram",
    "Time from the start of a transaction of the canary until its commit was acknowledged.",
    "coordinator_broker",
)
CANARY_VISIBLE = _metric(
    "canary_visible_seconds",
    "histogram",
    "Time from the acknowledged commit of a transaction of the canary until a read_committed consumer had its record.",
    "coordinator_broker",
)
CANARY_FAILURES = _metric(
    "canary_failures_total",
    "counter",
    "Rounds of the canary that failed; the label error is Kafka's name of the error.",
    "coordinator_broker",
    "error",
)
CANARY_RUNS = _metric(
    "canary_transactions_run",
    "gauge",
    "1 while the newest transaction of the canary at this coordinator was committed and visible, 0 while it failed."
    " Absent if that is not known, or if the broker coordinates nothing.",
    "coordinator_broker",
)
CANARY_LEADERLESS = _metric(
    "canary_leaderless_partitions",
    "gauge",
    "Partitions of the transaction log without a leader, as the canary sees them. Absent while no canary runs.",
)


NOTIFICATIONS = Metric(
    f"{PREFIX}notifications_total",
    "counter",
    "Attempts to notify receivers: notifications that were delivered, and attempts that failed.",
    ("receiver", "outcome"),
)
NOTIFICATIONS_PENDING = Metric(
    f"{PREFIX}notifications_pending",
    "gauge",
    "Events of findings after the last one that was handled for the receiver. The receiver may not want all of them.",
    ("receiver",),
)
NOTIFICATIONS_DROPPED = Metric(
    f"{PREFIX}notifications_dropped_total",
    "counter",
    "Notifications that the receiver refused, and events that were skipped because it was away for too long. The number"
    " of skipped events is an upper limit: the receiver may not have wanted all of them.",
    ("receiver",),
)
OF_RECEIVERS: Final = (NOTIFICATIONS, NOTIFICATIONS_PENDING, NOTIFICATIONS_DROPPED)
"""Metrics about the receivers of notifications. These metrics have no label `cluster`."""

OTLP_REQUESTS = Metric(
    f"{PREFIX}otlp_requests_total",
    "counter",
    "Requests to the OpenTelemetry endpoint, by what they carried and whether the endpoint took them.",
    ("signal", "outcome"),
)
OTLP_DROPPED = Metric(
    f"{PREFIX}otlp_dropped_total",
    "counter",
    "Data points, traces, or single spans that the OpenTelemetry endpoint will never get, by reason: refused by it,"
    " above the cap, deleted from the store before they were sent (the number is an upper limit), or without a"
    " valid time.",
    ("signal", "reason"),
)

UP = Metric(f"{PREFIX}exporter_up", "gauge", "1 if the store answered when this page was rendered, else 0.")
RENDER_SECONDS = Metric(
    f"{PREFIX}exporter_render_seconds", "gauge", "Time that rendering this page from the store took."
)

HTTP_REQUESTS = Metric(
    "http_requests_total", "counter", "Answered requests, by route template.", ("method", "route", "status")
)
HTTP_SECONDS = Metric(
    "http_request_duration_seconds",
    "histogram",
    "Time from the first byte of the request to the last byte of the answer.",
    ("route",),
)
