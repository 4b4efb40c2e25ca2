"""Alerts about transactional ids and their producers: fences, churn, epochs, expiry."""

from __future__ import annotations

from typing import Final

from dashboards import shared as limits
from dashboards.rules.rule import INFO, OF_CLUSTER, WARNING, Alert, Group, grown, most, pick
from service.domain.findings.catalogue import alert_of
from service.domain.findings.kinds import Kind
from service.domain.source_state import SourceName
from service.metrics import catalogue as of

FENCING: Final = Alert(
    name=alert_of(Kind.FENCING_CONFLICT),
    expr=f"{grown(of.FENCED, limits.FENCED_WINDOW)} > {limits.FENCED_MANY}",
    severity=WARNING,
    wait="5m",
    keep="10m",
    summary="{{ $value | humanize }} producers of {{ $labels.cluster }} were fenced within " + limits.FENCED_WINDOW,
    description="{{ $value | humanize }} aborts of open transactions of {{ $labels.cluster }} count as fences in "
    f"{limits.FENCED_WINDOW}, and they continue: a fence is an abort by a producer or administrator that initialises"
    " the id again. Possible causes are two instances that share an id, an application that restarts in a loop, and"
    " producers of the old protocol that fence themselves after errors (KIP-360).",
)

CHURN: Final = Alert(
    name=alert_of(Kind.CHURN),
    expr=f"{most(f'rate({pick(of.PRODUCER_IDS)}[{limits.PRODUCER_IDS_WINDOW}])')} > {limits.PRODUCER_IDS_PER_S:g}",
    severity=WARNING,
    wait="15m",
    summary="{{ $value | humanize }} new producer ids a second on {{ $labels.cluster }}",
    description="Applications of {{ $labels.cluster }} take {{ $value | humanize }} new producer ids a second. Perhaps"
    " they invent a transactional.id at every start: then nothing fences the transactions that an earlier start left"
    " open. Or they are Apache Flink jobs, which take an id for each subtask and checkpoint by their naming strategy"
    " INCREMENTING: that is normal. Brokers keep the state of each producer id for a day.",
)

EPOCH: Final = Alert(
    name=alert_of(Kind.EPOCH_EXHAUSTION),
    expr=f"{most(pick(of.EPOCH_MAX, protocol='1'))} > {limits.EPOCH_WARN}",
    severity=WARNING,
    wait="10m",
    summary="A producer of {{ $labels.cluster }} has used {{ $value }} epochs of its producer id",
    description="A producer of the old protocol has used {{ $value }}"
    f" of {limits.EPOCH_LAST:,} epochs: each start, fence and timeout takes one."
    " A fence or timeout in the last epochs can fail on brokers before 4.3.",
)

EXPIRING: Final = Alert(
    name=alert_of(Kind.EXPIRING),
    expr=f"{most(pick(of.EXPIRING, within=limits.EXPIRING_WITHIN))} >= {limits.ANY}",
    severity=INFO,
    wait="1h",
    summary="{{ $value | humanize }} transactional.id(s) of {{ $labels.cluster }} expire within "
    + limits.EXPIRING_WITHIN,
    description="{{ $value | humanize }} transactional.id(s) of {{ $labels.cluster }} have not been used for long;"
    f" unless they are used, their coordinator removes them within {limits.EXPIRING_WITHIN}. A producer that still uses"
    " a removed id fails once with INVALID_PRODUCER_ID_MAPPING. Any transaction renews an id. Ids of Apache Flink's"
    " naming strategy INCREMENTING are used for one checkpoint and expire all the time.",
    page=OF_CLUSTER + "/expiring",
)

GROUP: Final = Group(
    "txnscope-producers", (FENCING, CHURN, EPOCH, EXPIRING), "txnscope-producers", SourceName.TRANSACTION_LOG
)
