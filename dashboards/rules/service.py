"""Alerts about the service, on which all other alerts depend, and the heartbeat of alerting itself."""

from __future__ import annotations

from typing import Final

from dashboards.rules.rule import CRITICAL, INFO, JOB, NONE, WARNING, Alert, Group, most, pick
from dashboards.shared import SCRAPE_SLOW_S
from service.metrics import catalogue as of

_DOWN: Final = f'up{{job=~"{JOB}"}} == 0'
_NO_STORE: Final = f"{pick(of.UP)} == 0"

# the descriptions of DOWN and ABSENT contain the remedy: the service, which shows the runbooks, is down
DOWN: Final = Alert(
    name="KafkaTxnExporterDown",
    expr=_DOWN,
    severity=CRITICAL,
    wait="2m",
    summary="txnscope at {{ $labels.instance }} cannot be scraped",
    description="Prometheus gets no metrics of {{ $labels.instance }} (job {{ $labels.job }}). If no other instance of"
    " the service is scraped, no new alert about transactions can begin, not even about a hanging one. Start"
    " the service again (`txnscope serve`, or `watch`): its log shows why it ended.",
)

ABSENT: Final = Alert(
    name="KafkaTxnMetricsAbsent",
    expr=f"absent({pick(of.UP)})",
    severity=CRITICAL,
    wait="5m",
    summary="Prometheus has no metrics of txnscope at all",
    description="No instance of the service is scraped, or its scrape job is gone from Prometheus' configuration. No"
    " new alert about transactions can begin, not even about a hanging one. Prometheus' page of targets"
    " shows which of the two it is; `txnscope serve` starts the service.",
)

_LATELY: Final = "1d"

MISSING: Final = Alert(
    name="KafkaTxnClusterMissing",
    expr=f"count by (cluster) (\n  {most(f'present_over_time({pick(of.HANGING)}[{_LATELY}])', 'job', 'instance')}\n"
    f"    unless on (cluster) {pick(of.HANGING)}\n"
    f"    unless on (job, instance) {_DOWN}\n    unless on (job, instance) {_NO_STORE}\n) > 0",
    severity=CRITICAL,
    wait="5m",
    summary="No service reports {{ $labels.cluster }} any more",
    description="{{ $labels.cluster }} was reported within the last day (by {{ $value | humanize }} target(s) that"
    " are not down now), but no service reports the cluster now. Its service is not scraped any more, or has another"
    " store. No new alert about its transactions can begin, not even about a hanging one. If the cluster was"
    " removed on purpose, silence this alert for a day.",
)

STORE_DOWN: Final = Alert(
    name="KafkaTxnStoreDown",
    expr=_NO_STORE,
    severity=CRITICAL,
    wait="2m",
    summary="The store of txnscope at {{ $labels.instance }} does not answer",
    description="The service at {{ $labels.instance }} runs, but cannot read its store: its metrics contain no cluster."
    " The streaming application keeps what it reads and applies it when the store is back.",
)

SLOW: Final = Alert(
    name="KafkaTxnMetricsSlow",
    expr=f"{pick(of.RENDER_SECONDS)} > {SCRAPE_SLOW_S:g}",
    severity=INFO,
    wait="10m",
    summary="Metrics of txnscope at {{ $labels.instance }} take {{ $value | humanizeDuration }} to render",
    description="The page of metrics at {{ $labels.instance }} took {{ $value | humanizeDuration }} to render from the"
    " store. If it takes longer than Prometheus' scrape_timeout (10 s by default), the scrapes fail: then no new alert"
    " about transactions can begin, and an alert ends unless its rule keeps it firing without data.",
)


def _only_fails(attempts: of.Metric, label: str, success: str) -> str:
    """Returns the expression for the number of failed attempts in 5 minutes, by `label`. A value of `label` has a
    result only if an attempt failed and none had the outcome `success`."""
    failed, succeeded = (
        f"max by ({label}) (increase({pick(attempts, outcome=outcome)}[5m]))" for outcome in ("failed", success)
    )
    return f"{failed} > 0\n  unless\n{succeeded} > 0"


NOTIFICATIONS: Final = Alert(
    name="KafkaTxnNotificationsFailing",
    expr=_only_fails(of.NOTIFICATIONS, "receiver", "delivered"),
    severity=WARNING,
    wait="5m",
    summary="Receiver {{ $labels.receiver }} gets no notifications of findings",
    description="{{ $value | humanize }} attempts to notify {{ $labels.receiver }} failed in 5 minutes, and none"
    " succeeded. Meanwhile up to 10,000 events are kept, and sent when the receiver answers again; the page of"
    " notifications shows the error.",
)

OTLP: Final = Alert(
    name="KafkaTxnOtlpFailing",
    expr=_only_fails(of.OTLP_REQUESTS, "signal", "taken"),
    severity=WARNING,
    wait="5m",
    summary="The OpenTelemetry endpoint takes no {{ $labels.signal }} of txnscope",
    description="{{ $value | humanize }} requests with {{ $labels.signal }} to the endpoint of `[otlp]` failed in 5"
    " minutes, and none succeeded. Traces wait in the store and are sent when the endpoint answers again; gauges of"
    " the time in between are lost. The log of the service has the error.",
)

WATCHDOG: Final = Alert(
    name="KafkaTxnWatchdog",
    expr="vector(1)",
    severity=NONE,
    summary="Alerting about transactions works",
    description="Always firing. Route this alert to a dead man's switch, which alerts when this alert stops: then"
    " Prometheus, Alertmanager or the connection between them is broken.",
)

GROUP: Final = Group(
    "txnscope-service",
    (DOWN, ABSENT, MISSING, STORE_DOWN, SLOW, NOTIFICATIONS, OTLP, WATCHDOG),
    "txnscope-pipeline",
    page="/",
)
