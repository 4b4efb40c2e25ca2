"""The overview dashboard: troubles by cluster, and the present activity."""

from __future__ import annotations

from typing import Final

from dashboards import shared as at
from dashboards.frame import Board
from dashboards.links import PIPELINE, board, of_row, of_series, page
from dashboards.panels import Column, Query, big, density, lines, means, rows, steps
from dashboards.queries import (
    CONFIRMED,
    OPEN,
    abort_share,
    buckets,
    confirmed,
    data_age,
    markers_missing,
    or_zero,
    quantile,
    rate,
    total,
    value,
)
from dashboards.shared import blocked, hanging, longest_lso, not_judged, waiting, what_hangs
from service.domain.findings.kinds import Kind
from service.metrics import catalogue

_NOW: Final = [
    big(
        "Age of the data",
        means(
            "Time since the last successful read of the slowest source. It also rises while one partition"
            " alone does not answer. While it is red, other numbers here may be old: look at the"
            " pipeline first. A value of decades means that a source was never read.",
            "KafkaTxnPipelineStale",
        ),
        "s",
        f"max by (cluster) ({data_age()})",
        page(of_series, "/pipeline"),
        board(PIPELINE, "Pipeline", of_series),
        steps=steps(at.STALE_WARN_S, at.STALE_S),
    ),
    hanging(),
    longest_lso(),
    big(
        "Overdue transactions",
        means(
            "Past their timeout and not aborted by their coordinator. Look at the coordinator: one that"
            " failed to load its partition, or clocks that differ, do this. Restarting the application does not help.",
            "KafkaTransactionOverdue",
        ),
        "none",
        confirmed(Kind.OVERDUE),
        page(of_series),
        steps=steps(red=at.OVERDUE),
    ),
    big(
        "Markers missing for",
        means(
            "Time since the decision of the oldest transaction (PrepareCommit, PrepareAbort) whose markers are not all"
            " written. Markers take milliseconds: look for partitions without leader or below min.insync.replicas.",
            "KafkaTransactionPrepareStuck",
        ),
        "s",
        or_zero(f"max by (cluster) ({markers_missing()})"),
        page(of_series, "/transactions?state=PrepareCommit&state=PrepareAbort"),
        steps=steps(at.PREPARE_SLOW_S, at.PREPARE_STUCK_S),
    ),
    waiting(),
    big(
        "Aborted, last hour",
        means(
            f"Share of the transactions that ended in the last hour. The budget is {at.ABORT_BUDGET:.0%} over 30 days:"
            " orange spends it in five days, red in two. The causes are below. Empty if no transaction ended.",
            "KafkaTransactionAbortRatioHigh",
            empty=True,
        ),
        "percentunit",
        abort_share("1h"),
        steps=steps(at.ABORT_SLOW, at.ABORT_FAST),
    ),
    not_judged(),
    blocked(),
    big(
        "Open transactions",
        "Ongoing, PrepareCommit and PrepareAbort. What is normal depends on the applications; watch the change.",
        "none",
        total(catalogue.TRANSACTIONS, "state", where=(OPEN,)),
        page(of_series, "/transactions?sort=age"),
    ),
    big(
        "Transactional ids",
        "Ids known to the coordinators, used or not. If they only grow, applications make up ids at every start.",
        "short",
        value(catalogue.TRANSACTIONAL_IDS),
        page(of_series, "/transactions"),
    ),
    big(
        "Confirmed findings",
        "Everything that is wrong or worth knowing now, of any kind and severity. The page lists them, the worst"
        " first.",
        "none",
        total(catalogue.FINDINGS, "kind", where=(CONFIRMED,)),
        page(of_series),
    ),
]

_WRONG: Final = [
    what_hangs(14),
    rows(
        "Confirmed findings by kind",
        means("Number of confirmed findings of each kind. The cluster's page lists them, the worst first.", empty=True),
        [f"{value(catalogue.FINDINGS, 'kind', where=(CONFIRMED,))} > 0"],
        [Column("cluster", links=(page(of_row),)), Column("kind"), Column("Value", "findings", "none")],
        worst="findings",
        width=10,
    ),
]

_HAPPENS: Final = [
    lines(
        "Transactions ended",
        "Commits and aborts per second. If they drop to 0 while producers run, these cannot end their transactions:"
        " look at open transactions and at the coordinators.",
        "ops",
        [Query(rate(catalogue.COMPLETED, "outcome"), "{{cluster}} {{outcome}}")],
        page(of_series),
    ),
    lines(
        "Aborts by cause",
        "client: the application itself. timeout: it took too long. fenced: InitProducerId came for the id, mostly from"
        " a new producer, sometimes from the same one after an error. admin: ended through the admin API."
        " unattributed: the log does not show the cause. Many timeouts at once are the trace of"
        " an outage.",
        "ops",
        [Query(rate(catalogue.ABORTS, "cause"), "{{cluster}} {{cause}}")],
        page(of_series),
        stacked=True,
    ),
    lines(
        "Share aborted",
        means(
            "Aborted share of the transactions that ended. The dashed lines are the thresholds of the alerts, over 1h"
            " and 6h. Empty if no transaction ended.",
            "KafkaTransactionAbortRatioHigh",
            empty=True,
        ),
        "percentunit",
        [Query(abort_share())],
        steps=steps(at.ABORT_SLOW, at.ABORT_FAST),
    ),
    lines(
        "Open transactions",
        "By state. Many in a Prepare state mean that markers are not written. If Ongoing only grows, transactions are"
        " begun and not ended.",
        "short",
        [Query(value(catalogue.TRANSACTIONS, "state", where=(OPEN,)), "{{cluster}} {{state}}")],
        page(of_series, "/transactions?sort=age"),
    ),
    density(
        "How long transactions were open",
        "From the first partition to the decision, all clusters together. Readers wait that long for every record of a"
        " transaction: commit more often if it is too long.",
        "s",
        buckets(catalogue.DURATION, "outcome"),
    ),
    lines(
        "How long markers took",
        means(
            "From the decision until the last marker was written: median and 99th percentile. Slow leaders cause slow"
            " markers: look at the brokers. Empty if no transaction ended.",
            empty=True,
        ),
        "s",
        [
            Query(quantile(0.5, catalogue.MARKER_DURATION), "{{cluster}} half"),
            Query(quantile(0.99, catalogue.MARKER_DURATION), "{{cluster}} 99 %"),
        ],
        steps=steps(at.PREPARE_SLOW_S, at.PREPARE_STUCK_S),
    ),
]

BOARD: Final = Board(
    "overview",
    "Overview",
    "Is anything wrong with transactions, in which cluster, and since when. Start here.",
    [("Now", _NOW), ("What is wrong", _WRONG), ("What happens", _HAPPENS)],
)
