"""Panels about the service itself: its page of metrics, its answers, its process."""

from __future__ import annotations

from typing import Final

from dashboards import shared as at
from dashboards.panels import Query, lines, steps
from dashboards.queries import INTERVAL, ours
from service.metrics import catalogue

_PROCESS: Final = "{{job}} {{instance}}"

THE_SERVICE: Final = [
    lines(
        "Rendering the metrics",
        "Seconds to read the store; the result is kept for a second. A busy store or many clusters make it slow. Keep"
        " it far below Prometheus' scrape_timeout.",
        [Query(f"max by (job, instance) ({catalogue.RENDER_SECONDS.name})", _PROCESS)],
        unit="s",
        steps=steps(blue=at.SCRAPE_SLOW_S),
        alert="KafkaTxnMetricsSlow",
    ),
    lines(
        "Requests",
        "Per second by route, of the REST interface and the pages.",
        [
            Query(
                f"sum by (route) ({ours(f'rate({catalogue.HTTP_REQUESTS.name}[{INTERVAL}])')})",
                "{{route}}",
            )
        ],
        unit="reqps",
        stacked=True,
    ),
    lines(
        "Requests that failed",
        "Per second with a status of 500 and above, by route. 503 is a store that did not answer; any other status is"
        " an error of the service: see its log.",
        [
            Query(
                "sum by (route, status)"
                f""" ({ours(f'rate({catalogue.HTTP_REQUESTS.name}{{status=~"5.."}}[{INTERVAL}])')})""",
                "{{status}} {{route}}",
            )
        ],
        unit="reqps",
        stacked=True,
        empty=True,
    ),
    lines(
        "Answers, 99 of 100",
        "Seconds by route. The route of events is an open stream: it lasts as long as a client listens. No line: no"
        " requests.",
        [
            Query(
                "histogram_quantile(0.99, sum by (route, le)"
                f" ({ours(f'rate({catalogue.HTTP_SECONDS.name}_bucket[{INTERVAL}])')}))",
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
