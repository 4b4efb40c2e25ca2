"""The one alert that pages without waiting: a hanging transaction. Three steps have confirmed it already.

The alert has no label `source`, so that old data do not mute it (alertmanager.example.yml).
"""

from __future__ import annotations

from typing import Final

from dashboards.rules.rule import CRITICAL, OF_CLUSTER, Alert, Group, most, pick
from dashboards.shared import ANY
from service.domain.findings.catalogue import alert_of
from service.domain.findings.kinds import Kind
from service.domain.findings.lifecycle import MOST_OPEN
from service.metrics import catalogue as of

NAME: Final = alert_of(Kind.HANGING)

_NAMED = most(pick(of.HANGING_INFO), *of.HANGING_INFO.labels)
_COUNTED = most(pick(of.HANGING))

EACH: Final = Alert(
    name=NAME,
    expr=f"(\n  {_NAMED}\n    * on (cluster) group_left ()\n  {_COUNTED}\n) >= {ANY}",
    severity=CRITICAL,
    keep="1m",
    labels={"scope": "finding"},
    summary="A transaction hangs on {{ $labels.topic }}-{{ $labels.partition }} of {{ $labels.cluster }}",
    description="No coordinator will ever end the transaction of {{ with $labels.transactional_id }}{{ . }}{{ else }}a"
    " producer without a known transactional.id{{ end }} on {{ $labels.topic }}-{{ $labels.partition }}: read_committed"
    " consumers are blocked there until a marker is written by hand. Waiting, its timeout and restarts do not end it."
    " The finding says which marker, and how. Hanging in this cluster now: {{ $value | humanize }}.",
    page=OF_CLUSTER + "/findings/{{ $labels.finding }}",
)

MORE: Final = Alert(
    name=NAME,
    expr=f"(\n  {_COUNTED}\n    -\n  (count by (cluster) ({_NAMED}) or {_COUNTED} * 0)\n) >= {ANY}",
    severity=CRITICAL,
    keep="1m",
    labels={"scope": "cluster"},
    summary="{{ $value | humanize }} more hanging transactions on {{ $labels.cluster }} without an alert of their own",
    description="{{ $value | humanize }} confirmed hanging transaction(s) have no alert of their own: only those that"
    f" hang longest are named in metrics. The page lists up to {MOST_OPEN}. So many at once have one cause, as a rule a"
    " broker that was lost or a bug of its version.",
)

GROUP: Final = Group("txnscope-hanging", (EACH, MORE), "txnscope-partitions", interval="10s")
"""Evaluated more often than Prometheus' default of a minute: a page should not wait for that."""
