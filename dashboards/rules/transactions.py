"""Alerts about transactions that do not end as they should. Alerts that rest on current data of the transaction log
have the label `source`, which names that log. Such alerts are muted while its data are old."""

from __future__ import annotations

from typing import Final

from dashboards.rules.hold import HELD, held_count, last
from dashboards.rules.rule import (
    CRITICAL,
    FINDINGS_PAGE,
    OF_CLUSTER,
    WARNING,
    Alert,
    Group,
    confirmed,
    most,
    on_finding,
    pick,
)
from dashboards.shared import ANY, PREPARE_STUCK_S
from service.domain.findings.catalogue import alert_of
from service.domain.findings.kinds import Kind
from service.domain.source_state import SourceName
from service.metrics import catalogue as of

_PREPARED: Final = ("PrepareCommit", "PrepareAbort")


# requires the finding, too: if reading stops while an id is in PrepareX, its age grows although it is not stuck
PREPARE_STUCK: Final = Alert(
    name=alert_of(Kind.STUCK_COMPLETION),
    expr=f"(\n  time() - min by (cluster, state) ({pick(of.OLDEST_STATE_ENTRY, state=_PREPARED)} > 0)\n)"
    f" > {PREPARE_STUCK_S}\n  and on (cluster)\n{confirmed(Kind.STUCK_COMPLETION)} > 0",
    severity=CRITICAL,
    wait="1m",
    summary="A transaction of {{ $labels.cluster }} has been in {{ $labels.state }} for"
    " {{ $value | humanizeDuration }}",
    description="The end of a transaction was decided {{ $value | humanizeDuration }} ago, and its coordinator has not"
    " completed it; normally that takes milliseconds. Consumers may wait where its marker is missing. No timeout ends"
    " the transaction. The finding (stuck_completion) names the partitions that may lack a marker, or what else is"
    " missing.",
    page=OF_CLUSTER + "/transactions?state={{ $labels.state }}",
)

_LATE: Final = Alert(
    name=alert_of(Kind.OVERDUE),
    expr=f"{confirmed(Kind.OVERDUE)} >= {ANY}",
    severity=WARNING,
    wait="1m",
    summary="{{ $value | humanize }} transaction(s) of {{ $labels.cluster }} are past their timeout and not aborted",
    description="The coordinator should have aborted {{ $value | humanize }} transaction(s) of {{ $labels.cluster }} by"
    " now, even with the wait for its next scan (every 10 s by default). Consumers may wait behind them until the"
    " coordinator aborts them; the abort discards their records. The finding names the cause, as far as it is known.",
)
OVERDUE: Final = (_LATE, _LATE._replace(severity=CRITICAL, wait="5m"))
"""The same alert twice: first a ticket, after 5 minutes a page. A coordinator that was just elected aborts overdue
transactions within seconds, so that nobody needs to be paged."""

MISMATCH: Final = on_finding(
    Kind.COORDINATOR_MISMATCH,
    severity=CRITICAL,
    wait="1m",
    summary="A coordinator of {{ $labels.cluster }} contradicts the transaction log",
    description="The answers of the coordinator about {{ $value | humanize }} transactional.id(s) of"
    " {{ $labels.cluster }} contradict the transaction log: perhaps the coordinator has loaded its partition of"
    " __transaction_state only in part, or an append failed; it may never end the open transactions of these ids.",
)

EXPANDED: Final = on_finding(
    Kind.LOG_EXPANDED,
    severity=CRITICAL,
    wait="1m",
    summary="Partitions were added to the transaction log of {{ $labels.cluster }}",
    description="Partitions were added to __transaction_state of {{ $labels.cluster }}: ids have records in a partition"
    " where no coordinator looks for them once the brokers have restarted ({{ $value | humanize }} finding(s))."
    " After such a restart, transactions that are open there never time out. The finding (transaction_log_expanded)"
    " names such ids; transactions that are proven to hang have findings of their own.",
)

TIMED_OUT_TOGETHER: Final = on_finding(
    Kind.CORRELATED_TIMEOUTS,
    severity=WARNING,
    summary="Many transactions of {{ $labels.cluster }} were aborted by timeout together",
    description="Many producers of {{ $labels.cluster }} lost their transactions to the timeout at once"
    " ({{ $value | humanize }} time(s) recently): probably the trace of an outage. Producers of the old protocol get"
    " ProducerFenced although no producer fenced them. The finding shows what the transactions had in common, and"
    " which timeout would have been long enough. If all of them belong to one Apache Flink job, the job itself may"
    " have been away, and the finding says what may be lost.",
)

_LOST_COUNTED: Final = held_count("cluster:kafka_txn_lost_records:last_reported", Kind.LOST_RECORDS)
_TORN_COUNTED: Final = held_count("cluster:kafka_txn_torn_transactions:last_reported", Kind.TORN)

LOST: Final = Alert(
    name=alert_of(Kind.LOST_RECORDS),
    expr=f"{most(last(_LOST_COUNTED.record))} > 0",
    severity=CRITICAL,
    summary="Committed records of {{ $labels.cluster }} are lost to their consumers",
    description="An ABORT marker ended records of {{ $value | humanize }} committed transaction(s), each counted once"
    " for each partition, on {{ $labels.cluster }}: read_committed consumers never get these records. The finding"
    " (lost_records) names the offsets. Finding and alert stay until somebody acknowledges the finding; if txnscope"
    f" reports no data, the alert ends after {HELD}.",
    page=FINDINGS_PAGE + "?kind=lost_records",
    stays_true=True,
)

TORN: Final = Alert(
    name=alert_of(Kind.TORN),
    expr=f"{most(last(_TORN_COUNTED.record))} > 0",
    severity=CRITICAL,
    summary="A transaction of {{ $labels.cluster }} did not end as a whole",
    description="{{ $value | humanize }} transaction(s) of {{ $labels.cluster }} have a partition whose marker"
    " contradicts the coordinator's decision, or whose records were deleted with their topic before the commit. The"
    " finding (torn_transaction) names the partitions. Finding and alert stay until somebody acknowledges the finding;"
    f" if txnscope reports no data, the alert ends after {HELD}.",
    page=FINDINGS_PAGE + "?kind=torn_transaction",
    stays_true=True,
)

GROUP: Final = Group(
    "txnscope-transactions",
    (PREPARE_STUCK, *OVERDUE, MISMATCH, EXPANDED, TIMED_OUT_TOGETHER, _LOST_COUNTED, _TORN_COUNTED, LOST, TORN),
    "txnscope-overview",
    SourceName.TRANSACTION_LOG,
)
