"""Recording rules for the share of transactions that are aborted, over four windows, and alerts that fire if the budget
is spent too fast."""

from __future__ import annotations

from typing import Final

from dashboards.rules.rule import CRITICAL, OF_CLUSTER, WARNING, Alert, Group, Recording, grown, most, pick
from dashboards.shared import ABORT_BUDGET, ABORT_FAST, ABORT_SLOW
from service.domain.source_state import SourceName
from service.metrics import catalogue as of

FEWEST: Final = 10
"""Minimum number of aborts within the long window for an alert to fire: one abort among three transactions a day should
wake nobody."""

ENDED: Final = "cluster:kafka_txn_completed:rate5m"


def ratio(window: str) -> str:
    """Returns the name of the recorded share. The share is absent, not 0, while no transaction ends."""
    return f"cluster:kafka_txn_aborted:ratio_rate{window}"


def _ended(window: str) -> str:
    return f"sum by (cluster) ({most(f'rate({pick(of.COMPLETED)}[{window}])', 'outcome')})"


def _recorded(window: str) -> Recording:
    aborted = most(f"rate({pick(of.COMPLETED, outcome='abort')}[{window}])")
    return Recording(ratio(window), f"{aborted}\n  /\n({_ended(window)} > 0)")


RECORDED: Final = (Recording(ENDED, _ended("5m")), *map(_recorded, ("5m", "30m", "1h", "6h")))


def _burns(share: float, long: str, short: str) -> str:
    fewest = f"{grown(of.COMPLETED, long, outcome='abort')} >= {FEWEST}"
    return f"{ratio(long)} > {share:g}\n  and on (cluster)\n{ratio(short)} > {share:g}\n  and on (cluster)\n{fewest}"


_FAST: Final = Alert(
    name="KafkaTransactionAbortRatioHigh",
    expr=_burns(ABORT_FAST, "1h", "5m"),
    severity=CRITICAL,
    wait="2m",
    labels={"window": "1h"},
    summary="{{ $value | humanizePercentage }} of the transactions of {{ $labels.cluster }} were aborted within"
    " an hour",
    description="{{ $value | humanizePercentage }} of the transactions that ended in the last hour were aborted, and"
    f" aborts continue: a budget of {ABORT_BUDGET:.0%} over 30 days is spent in two days. kafka_txn_aborts_total"
    " shows who aborted them: clients, the timeout, a fence, an administrator.",
    page=OF_CLUSTER + "/transactions",
)
_SLOW: Final = _FAST._replace(
    expr=_burns(ABORT_SLOW, "6h", "30m"),
    severity=WARNING,
    wait="15m",
    labels={"window": "6h"},
    summary="{{ $value | humanizePercentage }} of the transactions of {{ $labels.cluster }} were aborted within"
    " 6 hours",
    description="{{ $value | humanizePercentage }} of the transactions that ended in the last 6 hours were aborted, and"
    f" aborts continue: a budget of {ABORT_BUDGET:.0%} over 30 days is spent in five days. kafka_txn_aborts_total"
    " shows who aborted them: clients, the timeout, a fence, an administrator.",
)

RECORDING_GROUP: Final = Group("txnscope-recording", RECORDED, interval="30s")
GROUP: Final = Group("txnscope-aborts", (_FAST, _SLOW), "txnscope-overview", SourceName.TRANSACTION_LOG)
