"""The overview dashboard: what is wrong in each cluster, and the present activity."""

from __future__ import annotations

from typing import Final

from dashboards import shared as at
from dashboards.canary import CANARY
from dashboards.frame import Board
from dashboards.links import PIPELINE, board, of_row, of_series, page
from dashboards.panels import Column, Query, big, density, lines, rows, steps
from dashboards.queries import (
    CONFIRMED,
    OPEN,
    PREPARED,
    abort_share,
    buckets,
    data_age,
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
        "Time since the last successful read of the slowest source. The age also rises while a single partition does"
        " not answer. While the age is red, other numbers here may be old: look at the pipeline first. An age of"
        " decades means that a source was never read.",
        f"max by (cluster) ({data_age()})",
        page(of_series, "/pipeline"),
        board(PIPELINE, "Pipeline", of_series),
        unit="s",
        steps=steps(at.STALE_WARN_S, at.STALE_S),
        alert="KafkaTxnPipelineStale",
    ),
    hanging(),
    longest_lso(),
    big(
        "Overdue transactions",
        "Transactions past their timeout that their coordinator has not aborted. Look at the coordinator: possible"
        " causes are a failure to load its partition, and clocks that differ. Restarting the application does not"
        " help.",
        value(catalogue.FINDINGS, where=(f'kind="{Kind.OVERDUE}"', CONFIRMED)),
        page(of_series),
        steps=steps(red=at.ANY),
        alert="KafkaTransactionOverdue",
    ),
    big(
        "Markers missing for",
        "Time since the decision of the oldest transaction (PrepareCommit, PrepareAbort) whose markers are not all"
        " written. Markers normally take milliseconds: look for partitions without a leader or below"
        " min.insync.replicas.",
        or_zero(f"max by (cluster) (time() - ({value(catalogue.OLDEST_STATE_ENTRY, 'state', where=(PREPARED,))} > 0))"),
        page(of_series, "/transactions?state=PrepareCommit&state=PrepareAbort"),
        unit="s",
        steps=steps(at.PREPARE_SLOW_S, at.PREPARE_STUCK_S),
        alert="KafkaTransactionPrepareStuck",
    ),
    waiting(),
    big(
        "Aborted, last hour",
        f"Aborted share of the transactions that ended in the last hour. The budget is {at.ABORT_BUDGET:.0%} over 30"
        " days: an orange share spends the budget in five days, a red share in two. The panels below show the causes."
        " Empty if"
        " no transaction ended.",
        abort_share("1h"),
        unit="percentunit",
        steps=steps(at.ABORT_SLOW, at.ABORT_FAST),
        alert="KafkaTransactionAbortRatioHigh",
        empty=True,
    ),
    not_judged(),
    blocked(),
    big(
        "Open transactions",
        "Number of transactions that are Ongoing, PrepareCommit or PrepareAbort. What is normal depends on the"
        " applications; watch the change.",
        total(catalogue.TRANSACTIONS, "state", where=(OPEN,)),
        page(of_series, "/transactions?sort=age"),
    ),
    big(
        "Transactional ids",
        "Ids known to the coordinators, used or not. If their number only grows, applications make up ids at every"
        " start.",
        value(catalogue.TRANSACTIONAL_IDS),
        page(of_series, "/transactions"),
        unit="short",
    ),
    big(
        "Confirmed findings",
        "Findings of any kind and severity: everything that is wrong or worth knowing now. The cluster's page in"
        " txnscope lists the findings, the worst first.",
        total(catalogue.FINDINGS, "kind", where=(CONFIRMED,)),
        page(of_series),
    ),
]

_WRONG: Final = [
    what_hangs(14),
    rows(
        "Confirmed findings by kind",
        "Number of confirmed findings of each kind. The cluster's page lists them, the worst first.",
        [f"{value(catalogue.FINDINGS, 'kind', where=(CONFIRMED,))} > 0"],
        [Column("cluster", links=(page(of_row),)), Column("kind"), Column("Value", "findings", "none")],
        worst="findings",
        width=10,
        empty=True,
    ),
]

_HAPPENS: Final = [
    lines(
        "Transactions ended",
        "Commits and aborts per second. If they drop to 0 while producers run, the producers cannot end their"
        " transactions: look at open transactions and at the coordinators.",
        [Query(rate(catalogue.COMPLETED, "outcome"), "{{cluster}} {{outcome}}")],
        page(of_series),
        unit="ops",
    ),
    lines(
        "Aborts by cause",
        "client: the application itself. timeout: the transaction took too long. fenced: an InitProducerId for the id"
        " arrived, mostly from a new producer, sometimes from the same producer after an error. admin: ended through"
        " the admin API. unattributed: the log does not show the cause. Many timeouts at once are the trace of an"
        " outage.",
        [Query(rate(catalogue.ABORTS, "cause"), "{{cluster}} {{cause}}")],
        page(of_series),
        unit="ops",
        stacked=True,
    ),
    lines(
        "Share aborted",
        "Aborted share of the transactions that ended. The dashed lines are the thresholds of the alerts, over 1h and"
        " 6h. Empty if no transaction ended.",
        [Query(abort_share())],
        unit="percentunit",
        steps=steps(at.ABORT_SLOW, at.ABORT_FAST),
        alert="KafkaTransactionAbortRatioHigh",
        empty=True,
    ),
    lines(
        "Open transactions",
        "Number of open transactions, by state. Many transactions in a Prepare state mean that markers are not written."
        " If Ongoing only grows, transactions are begun and not ended.",
        [Query(value(catalogue.TRANSACTIONS, "state", where=(OPEN,)), "{{cluster}} {{state}}")],
        page(of_series, "/transactions?sort=age"),
        unit="short",
    ),
    density(
        "How long transactions were open",
        "Time from the transaction's first added partition until its decision, all clusters together. Readers wait"
        " that long for every"
        " record of a transaction: if the time is too long, commit more often.",
        buckets(catalogue.DURATION, "outcome"),
    ),
    lines(
        "How long markers took",
        "Time from the decision until the last marker was written: median and 99th percentile. Slow leaders cause slow"
        " markers: look at the brokers. Empty if no transaction ended.",
        [
            Query(quantile(0.5, catalogue.MARKER_DURATION), "{{cluster}} half"),
            Query(quantile(0.99, catalogue.MARKER_DURATION), "{{cluster}} 99 %"),
        ],
        unit="s",
        steps=steps(at.PREPARE_SLOW_S, at.PREPARE_STUCK_S),
        empty=True,
    ),
]

BOARD: Final = Board(
    "overview",
    "Overview",
    "Shows whether anything is wrong with transactions, in which cluster, and since when. Start here.",
    [("Now", _NOW), ("What is wrong", _WRONG), ("What happens", _HAPPENS), ("Canary", CANARY)],
)
