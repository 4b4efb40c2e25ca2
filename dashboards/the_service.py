"""Panels about the service itself: its page of metrics, the requests it answers, its process, its notifications, and
its requests to an OpenTelemetry endpoint."""

from __future__ import annotations

from typing import Final

from dashboards import shared as at
from dashboards.links import NOTIFICATIONS_PAGE
from dashboards.panels import Query, lines, steps
from dashboards.queries import INTERVAL, of_service, ours
from service.metrics import catalogue
from service.metrics.catalogue import Metric

_PROCESS: Final = "{{job}} {{instance}}"
_FAILED: Final = 'status=~"5.."'


def _rate(metric: Metric, *where: str, suffix: str = "") -> str:
    return ours(f"rate({of_service(metric, *where, suffix=suffix)}[{INTERVAL}])")


THE_SERVICE: Final = [
    lines(
        "Rendering the metrics",
        "Seconds to render the metrics from the store; the result is kept for one second. A busy store or many"
        " clusters make the reads"
        " slow. Keep the time far below Prometheus' scrape_timeout.",
        [Query(f"max by (job, instance) ({of_service(catalogue.RENDER_SECONDS)})", _PROCESS)],
        unit="s",
        steps=steps(blue=at.SCRAPE_SLOW_S),
        alert="KafkaTxnMetricsSlow",
    ),
    lines(
        "Requests",
        "Requests per second by route, of the REST interface and the pages.",
        [
            Query(
                f"sum by (route) ({_rate(catalogue.HTTP_REQUESTS)})",
                "{{route}}",
            )
        ],
        unit="reqps",
        stacked=True,
    ),
    lines(
        "Requests that failed",
        "Requests per second that were answered with a status of 500 or above, by route. 503: the store did not"
        " answer. Any other status is an error of the service: see its log.",
        [
            Query(
                f"sum by (route, status) ({ours(f'rate({of_service(catalogue.HTTP_REQUESTS, _FAILED)}[{INTERVAL}])')})",
                "{{status}} {{route}}",
            )
        ],
        unit="reqps",
        stacked=True,
        empty=True,
    ),
    lines(
        "Time to answer, 99th percentile",
        "Seconds within which 99 of 100 requests are answered, by route. The route of events is an open stream, which"
        " lasts as long as a client listens. A route without a line had no requests.",
        [
            Query(
                f"histogram_quantile(0.99, sum by (route, le) ({_rate(catalogue.HTTP_SECONDS, suffix='_bucket')}))",
                "{{route}}",
            )
        ],
        unit="s",
        empty=True,
    ),
    lines(
        "Memory of the service",
        "Resident memory. The streaming application is another process: see its host's metrics.",
        [Query(ours("process_resident_memory_bytes"), _PROCESS)],
        unit="bytes",
    ),
    lines(
        "CPU of the service",
        "Cores in use. A full core for long means too many scrapes, or many open pages.",
        [Query(ours(f"rate(process_cpu_seconds_total[{INTERVAL}])"), _PROCESS)],
    ),
]

NOTIFICATIONS: Final = [
    lines(
        "Notifications",
        "Per second, by receiver: notifications that were delivered, and attempts that failed. If all attempts fail,"
        " the receiver is away, or refuses; the page of notifications has the error.",
        [
            Query(
                f"max by (receiver, outcome) (rate({of_service(catalogue.NOTIFICATIONS)}[{INTERVAL}]))",
                "{{receiver}} {{outcome}}",
            )
        ],
        NOTIFICATIONS_PAGE,
        unit="ops",
        empty=True,
        width=8,
    ),
    lines(
        "Events that wait for a receiver",
        "Events of findings that are not sent yet. They are sent in order once the receiver answers again.",
        [Query(f"max by (receiver) ({of_service(catalogue.NOTIFICATIONS_PENDING)})", "{{receiver}}")],
        NOTIFICATIONS_PAGE,
        unit="short",
        empty=True,
        width=8,
    ),
    lines(
        "Events that a receiver never gets",
        "Number of events per interval that were given up, because the receiver refused them or was away for too long."
        " Of the latter, it may not have wanted all. Findings that are still open are sent all the same.",
        [
            Query(
                f"max by (receiver) (increase({of_service(catalogue.NOTIFICATIONS_DROPPED)}[{INTERVAL}]))",
                "{{receiver}}",
            )
        ],
        NOTIFICATIONS_PAGE,
        unit="short",
        empty=True,
        width=8,
    ),
]

OTLP: Final = [
    lines(
        "Requests to the OpenTelemetry endpoint",
        "Requests per second, by signal, and by whether the endpoint took them. After a failure, the next request"
        " follows within a minute; the log of the service has the error.",
        [
            Query(
                f"max by (signal, outcome) (rate({of_service(catalogue.OTLP_REQUESTS)}[{INTERVAL}]))",
                "{{signal}} {{outcome}}",
            )
        ],
        unit="ops",
        empty=True,
    ),
    lines(
        "What the OpenTelemetry endpoint never gets",
        "Data points, traces and spans per interval that the endpoint never gets, by reason: refused by the endpoint,"
        " above the cap, deleted from the store before they were sent, or without a valid time.",
        [
            Query(
                f"max by (signal, reason) (increase({of_service(catalogue.OTLP_DROPPED)}[{INTERVAL}]))",
                "{{signal}} {{reason}}",
            )
        ],
        unit="short",
        empty=True,
    ),
]
