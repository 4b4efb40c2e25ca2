"""Alerts of the canary: transactions that cannot run now, or run slowly."""

from __future__ import annotations

from typing import Final

from dashboards import shared as limits
from dashboards.rules.rule import CRITICAL, OF_CLUSTER, WARNING, Alert, Group, most, pick
from service.metrics import catalogue as of

_BROKER: Final = "coordinator_broker"
_NAME: Final = "KafkaTxnCanaryFailing"

FAILING: Final = Alert(
    name=_NAME,
    expr=f"{most(pick(of.CANARY_RUNS), _BROKER)} == 0",
    severity=CRITICAL,
    wait=limits.CANARY_FAILS_FOR,
    keep="1m",
    labels={"scope": "coordinator"},
    summary="The canary's transactions fail at coordinator {{ $labels.coordinator_broker }} of {{ $labels.cluster }}",
    description="The canary's own transactions at broker {{ $labels.coordinator_broker }} of {{ $labels.cluster }}"
    " fail, or the broker has left the cluster. Applications whose ids this broker coordinates may fail, too."
    " The cluster's page in txnscope shows the step that fails, Kafka's name of the error, and since when.",
)

LEADERLESS: Final = Alert(
    name=_NAME,
    expr=f"{most(pick(of.CANARY_LEADERLESS))} >= {limits.ANY}",
    severity=CRITICAL,
    wait=limits.CANARY_FAILS_FOR,
    keep="1m",
    labels={"scope": "cluster"},
    summary="Some transactional ids of {{ $labels.cluster }} have no coordinator",
    description="{{ $value | humanize }} partition(s) of the transaction log of {{ $labels.cluster }} have no leader:"
    " no transaction can run under the ids that hash to them.",
)

SLOW: Final = Alert(
    name="KafkaTxnCanarySlow",
    expr=f"histogram_quantile(0.9, max by (cluster, {_BROKER}, le)"
    f" (rate({of.CANARY_COMMIT.name}_bucket[{limits.CANARY_WINDOW}]))) > {limits.CANARY_SLOW_S:g}",
    severity=WARNING,
    wait="5m",
    summary="Commits at coordinator {{ $labels.coordinator_broker }} of {{ $labels.cluster }} are slow",
    description="One in ten of the canary's transactions at broker {{ $labels.coordinator_broker }} of"
    " {{ $labels.cluster }} takes {{ $value | humanizeDuration }} or longer until its commit is acknowledged. The"
    " canary's transaction has only one record. Transactions of applications at this broker may be as slow.",
)

GROUP: Final = Group("txnscope-canary", (FAILING, LEADERLESS, SLOW), "txnscope-overview", page=OF_CLUSTER)
