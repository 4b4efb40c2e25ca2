"""Every metric of ours, declared once: name, kind, meaning, labels. What docs and dashboards may rely on."""

from __future__ import annotations

from typing import Final, Literal, NamedTuple

PREFIX: Final = "kafka_txn_"

Kind = Literal["gauge", "counter", "histogram"]


class Metric(NamedTuple):
    """`labels` come after `cluster`, which all metrics about a cluster have.

    `many`: one series for each of something that a cluster may have thousands of; the cap on series cuts only these.
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
EXPIRED = _metric("transactional_ids_expired_total", "counter", "Transactional ids removed by their coordinator.")
PRODUCER_IDS = _metric("producer_ids_assigned_total", "counter", "Producer ids seen under an id for the first time.")

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
    OLDEST_STATE_ENTRY,
    TOP_OPEN,
    TRANSACTIONAL_IDS,
    EXPIRED,
    PRODUCER_IDS,
    COORDINATOR_IDS,
    COORDINATOR_OPEN,
    COORDINATOR_LAG,
    LAST_SUCCESS,
    LAG,
    RECORDS,
    BYTES,
    DECODE_ERRORS,
    COVERAGE,
    CLUSTER_INFO,
    SERIES_DROPPED,
)
"""In the order of the page."""

UP = Metric(f"{PREFIX}exporter_up", "gauge", "Whether the store answered when this page was made.")
RENDER_SECONDS = Metric(f"{PREFIX}exporter_render_seconds", "gauge", "How long making this page from the store took.")

HTTP_REQUESTS = Metric(
    "http_requests_total", "counter", "Requests answered, by route template.", ("method", "route", "status")
)
HTTP_SECONDS = Metric(
    "http_request_duration_seconds", "histogram", "From the request's first byte to the answer's last.", ("route",)
)
