"""The pipeline dashboard: freshness and completeness of the data on all other dashboards; state of the service."""

from __future__ import annotations

from typing import Final

from dashboards import shared as at
from dashboards.frame import Board
from dashboards.links import of_row, of_series, page
from dashboards.panels import Column, Query, at_least, big, lines, rows, steps
from dashboards.queries import data_age, increase, of_service, quantile, rate, value
from dashboards.the_service import NOTIFICATIONS, OTLP, THE_SERVICE
from service.metrics import catalogue

_MOST: Final = 10
_SOURCE: Final = "{{cluster}} {{source}}"
_PROCESS: Final = "{{job}} {{instance}}"

_NOW: Final = [
    big(
        "Service answers",
        "1: the store answered when the metrics were rendered. 0: the store is down, full or not migrated; the"
        " service's log shows which. Empty: Prometheus does not reach the service.",
        f"min by (job, instance) ({of_service(catalogue.UP)})",
        steps=at_least(1),
        legend=_PROCESS,
        alert="KafkaTxnStoreDown",
    ),
    big(
        "Age of the data",
        "Time since the last successful read, by source. `transaction_state` is the transaction log, `partitions` the"
        " samples of data partitions. If the time is red and no partition answers, there are no verdicts: look at the"
        " streaming application's log and at the brokers. Decades mean that the source was never read.",
        data_age(),
        page(of_series, "/pipeline"),
        unit="s",
        steps=steps(at.STALE_WARN_S, at.STALE_S),
        legend=_SOURCE,
        alert="KafkaTxnPipelineStale",
    ),
    big(
        "Partitions that answer",
        "Share of a source's partitions that answered in the last 30 s. Below 100 %, verdicts on the other partitions"
        " are missing: a leader is away, or a permission is missing. The page of the pipeline in"
        " txnscope names the cause.",
        value(catalogue.COVERAGE, "source"),
        page(of_series, "/pipeline"),
        unit="percentunit",
        steps=at_least(at.COVERAGE_LEAST),
        legend=_SOURCE,
        alert="KafkaTxnCoverageLow",
    ),
    big(
        "Offsets behind",
        "Offsets of the transaction log, and of data partitions if they are tailed, that are not read yet. Many are"
        " normal during the first read of the log.",
        f"sum by (cluster) ({value(catalogue.LAG, 'source')})",
        page(of_series, "/pipeline"),
        unit="short",
        steps=steps(orange=at.LAG_RECORDS),
        alert="KafkaTxnPipelineLagging",
    ),
    big(
        f"Undecodable in {at.DECODE_WINDOW}",
        "Records and batches that could not be decoded. Either a foreign client writes to the topic, or the brokers"
        " are newer than txnscope. Do not restart a coordinator older than 4.3 before you know which.",
        f"ceil(sum by (cluster) ({increase(catalogue.DECODE_ERRORS, 'source', 'reason', over=at.DECODE_WINDOW)}))",
        page(of_series, "/pipeline"),
        unit="short",
        steps=steps(orange=at.ANY),
        alert="KafkaTxnDecodeErrors",
    ),
    big(
        "Series left out",
        "The cap on series leaves out the least important series, which then cannot be shown and fire no alerts. The"
        " worst are kept, and the pages show all.",
        value(catalogue.SERIES_DROPPED),
        page(of_series, "/partitions"),
        steps=steps(orange=at.ANY),
        alert="KafkaTxnSeriesDropped",
    ),
]

_READING: Final = [
    lines(
        "Age of the data",
        "Time since the last successful read, by source. Normally this time is one second (because every"
        " heartbeat counts as a read) plus the time since the last scrape. A rising line is a source that is no longer"
        " read"
        " successfully. A source without a line was never read.",
        [Query(f"time() - ({value(catalogue.LAST_SUCCESS, 'source')} > 0)", _SOURCE)],
        page(of_series, "/pipeline"),
        unit="s",
        steps=steps(at.STALE_WARN_S, at.STALE_S),
        alert="KafkaTxnPipelineStale",
    ),
    lines(
        "Offsets behind",
        "Number of offsets not yet read, by source. If the number is above the threshold and still grows, the streaming"
        " application cannot keep up: look at its CPU and at the store.",
        [Query(value(catalogue.LAG, "source"), _SOURCE)],
        page(of_series, "/pipeline"),
        unit="short",
        steps=steps(orange=at.LAG_RECORDS),
        alert="KafkaTxnPipelineLagging",
    ),
    lines(
        "Records read",
        "Records per second, by source. Compare with the transactions: each writes three to five records.",
        [Query(rate(catalogue.RECORDS, "source"), _SOURCE)],
        page(of_series, "/pipeline"),
        unit="ops",
        width=8,
    ),
    lines(
        "Bytes read",
        "Bytes per second of record batches, in their size on the brokers.",
        [Query(rate(catalogue.BYTES, "source"), _SOURCE)],
        page(of_series, "/pipeline"),
        unit="Bps",
        width=8,
    ),
    lines(
        "Time to store a batch, 99th percentile",
        "Time by source, from the start of the read of a micro-batch until it is stored. Seconds mean a slow store or"
        " too little CPU; the first read of a long log takes longer.",
        [Query(quantile(0.99, catalogue.BATCH_DURATION, "source"), _SOURCE)],
        page(of_series, "/pipeline"),
        unit="s",
        width=8,
    ),
    lines(
        "Coordinator partitions read late",
        f"The {_MOST} partitions of __transaction_state with the most offsets not yet read. If only one is late, its"
        " leader is slow or away.",
        [
            Query(
                f"topk({_MOST}, {value(catalogue.COORDINATOR_LAG, 'coordinator_partition')})",
                "{{cluster}} __transaction_state-{{coordinator_partition}}",
            )
        ],
        page(of_series, "/pipeline"),
        unit="short",
        width=8,
    ),
    lines(
        "Partitions that answer",
        "Share of a source's partitions that answered in the last 30 s, over time. A dip is a broker that restarted.",
        [Query(value(catalogue.COVERAGE, "source"), _SOURCE)],
        page(of_series, "/pipeline"),
        unit="percentunit",
        width=8,
    ),
    lines(
        "Undecodable records",
        "Number of undecodable records per interval, by reason. Each record is kept with its position; the page of the"
        " pipeline in txnscope lists them.",
        [
            Query(
                increase(catalogue.DECODE_ERRORS, "source", "reason"),
                "{{cluster}} {{source}} {{reason}}",
            )
        ],
        page(of_series, "/pipeline"),
        unit="short",
        stacked=True,
        width=8,
    ),
]

_CLUSTERS: Final = [
    rows(
        "Clusters",
        "Finalized features of each cluster. transaction_version 2 is the new protocol (KIP-890); empty: not known"
        " yet.",
        [
            value(catalogue.CLUSTER_INFO, "kafka_cluster_id", "transaction_version", "metadata_version"),
        ],
        [
            Column("cluster", links=(page(of_row, "/pipeline"),)),
            Column("kafka_cluster_id"),
            Column("transaction_version"),
            Column("metadata_version"),
        ],
        worst="cluster",
    ),
    lines(
        "Application that writes",
        "1: this instance (host:process) may store the data of the cluster; 0: the instance has given up this right."
        " A new line is a takeover. Needs `honor_labels: true` in the scrape configuration.",
        [Query(value(catalogue.LEASE_HELD, "instance"), "{{cluster}} {{instance}}")],
        page(of_series, "/pipeline"),
        unit="short",
        width=12,
    ),
    lines(
        "Markers compared with decisions",
        "Number of transactions that ended on tailed topics (--partitions all), per interval: whole, torn (a marker"
        " contradicts the coordinator's decision, or records were deleted with their topic), or not seen as a whole.",
        [Query(increase(catalogue.AUDITED, "result"), "{{cluster}} {{result}}")],
        page(of_series, "/pipeline"),
        unit="short",
        stacked=True,
        width=12,
    ),
]

BOARD: Final = Board(
    "pipeline",
    "Pipeline",
    "Freshness and completeness of the data on all other dashboards, and the state of the service.",
    [
        ("Now", _NOW),
        ("Reading", _READING),
        ("The service", THE_SERVICE),
        ("Notifications", NOTIFICATIONS),
        ("OpenTelemetry", OTLP),
        ("Clusters", _CLUSTERS),
    ],
)
