"""Recording rules for the share of an application's transactions that fail, over four windows, and alerts that fire if
the budget is spent too fast. An abort that the client itself decided is no failure."""

from __future__ import annotations

from typing import Final

from dashboards.rules.rule import CRITICAL, OF_CLUSTER, WARNING, Alert, Group, Recording, grown, most, pick
from dashboards.shared import ABORT_BUDGET, ABORT_FAST, ABORT_SLOW
from service.domain.source_state import SourceName
from service.metrics import catalogue as of

FEWEST: Final = 10
"""Minimum number of failures within the long window for an alert to fire: the restart of one instance should wake
nobody."""

_FAILED: Final = pick(of.APPLICATION_COMPLETED, outcome="abort", cause=of.FAILED_CAUSES)


def ratio(window: str) -> str:
    """Returns the name of the recorded share. The share is absent, not 0, while no transaction of the application
    ends."""
    return f"cluster_application:kafka_txn_failed:ratio_rate{window}"


def _recorded(window: str) -> Recording:
    failed = most(f"rate({_FAILED}[{window}])", "application", "cause")
    ended = most(f"rate({pick(of.APPLICATION_COMPLETED)}[{window}])", "application", "outcome", "cause")
    total = "sum by (cluster, application)"
    return Recording(ratio(window), f"{total} ({failed})\n  /\n({total} ({ended}) > 0)")


def _burns(share: float, long: str, short: str) -> str:
    failures = grown(of.APPLICATION_COMPLETED, long, "application", "cause", outcome="abort", cause=of.FAILED_CAUSES)
    both = "\n  and on (cluster, application)\n"
    fewest = f"sum by (cluster, application) ({failures}) >= {FEWEST}"
    return both.join((f"{ratio(long)} > {share:g}", f"{ratio(short)} > {share:g}", fewest))


_FAST: Final = Alert(
    name="KafkaTransactionApplicationFailing",
    expr=_burns(ABORT_FAST, "1h", "5m"),
    severity=CRITICAL,
    wait="2m",
    labels={"window": "1h"},
    summary="{{ $value | humanizePercentage }} of the transactions of {{ $labels.application }} on"
    " {{ $labels.cluster }} failed in an hour",
    description="{{ $value | humanizePercentage }} of the transactions of {{ $labels.application }} that ended in the"
    " last hour were aborted by timeout, by a fence, by an administrator or for an unknown cause, and the failures"
    f" continue: a budget of {ABORT_BUDGET:.0%} over 30 days is spent in two days. Aborts that the application itself"
    " decided do not count.",
    page=OF_CLUSTER + '/applications/{{ $labels.application | urlquery | reReplaceAll "[+]" "%20" }}',
)
_SLOW: Final = _FAST._replace(
    expr=_burns(ABORT_SLOW, "6h", "30m"),
    severity=WARNING,
    wait="15m",
    labels={"window": "6h"},
    summary="{{ $value | humanizePercentage }} of the transactions of {{ $labels.application }} on"
    " {{ $labels.cluster }} failed in 6 hours",
    description="{{ $value | humanizePercentage }} of the transactions of {{ $labels.application }} that ended in the"
    " last 6 hours were aborted by timeout, by a fence, by an administrator or for an unknown cause, and the failures"
    f" continue: a budget of {ABORT_BUDGET:.0%} over 30 days is spent in five days. Aborts that the application itself"
    " decided do not count.",
)

RECORDING_GROUP: Final = Group(
    "txnscope-applications-recording", tuple(map(_recorded, ("5m", "30m", "1h", "6h"))), interval="30s"
)
GROUP: Final = Group("txnscope-applications", (_FAST, _SLOW), "txnscope-producers", SourceName.TRANSACTION_LOG)
