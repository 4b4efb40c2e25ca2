"""The alerts about hanging transactions. They page at once, because three confirmation steps have already confirmed
each transaction.

An alert fires until the service reports the end of the transaction, the cluster counts as removed, or nothing was
reported for HELD (hold.py). The alerts have no label `source`, so that old data do not mute them
(alertmanager.example.yml).
"""

from __future__ import annotations

from typing import Final

from dashboards.rules.hold import HELD, SCRAPE_JOB, last, recorded
from dashboards.rules.rule import CRITICAL, OF_CLUSTER, Alert, Group, Recording, most, pick
from dashboards.shared import ANY
from service.domain.findings.catalogue import alert_of
from service.domain.findings.kinds import Kind
from service.domain.findings.lifecycle import MOST_OPEN
from service.metrics import catalogue as of

NAME: Final = alert_of(Kind.HANGING)

LAST_REPORTED: Final = "cluster_finding:kafka_txn_hanging:last_reported"
"""Name of a recorded series: the time (s) at which the service last reported the finding as hanging; 0 after its
end."""

UNNAMED: Final = "cluster:kafka_txn_hanging_unnamed:last_reported"
"""Name of a recorded series: the last reported number of hanging transactions that the metrics do not name one by
one; 0 after their end."""

_NAMED = most(pick(of.HANGING_INFO), SCRAPE_JOB, *of.HANGING_INFO.labels)
_COUNTED = most(pick(of.HANGING), SCRAPE_JOB)

_NAMED_NOW: Final = Recording(LAST_REPORTED, recorded(LAST_REPORTED, Kind.HANGING, f"{_NAMED} * 0 + time()"))
_UNNAMED_NOW: Final = Recording(
    UNNAMED,
    recorded(
        UNNAMED,
        Kind.HANGING,
        f"(\n  {_COUNTED}\n    -\n  (count by (cluster, job) ({_NAMED}) or {_COUNTED} * 0)\n) >= {ANY}",
    ),
)

_HOLDS: Final = (
    f"The alert stays until txnscope reports the end; if txnscope reports no data, the alert ends after {HELD}."
)

EACH: Final = Alert(
    name=NAME,
    expr=f"{most(last(LAST_REPORTED), *of.HANGING_INFO.labels)} > 0",
    severity=CRITICAL,
    labels={"scope": "finding"},
    summary="A transaction hangs on {{ $labels.topic }}-{{ $labels.partition }} of {{ $labels.cluster }}",
    description="No coordinator is set to end the transaction of {{ with $labels.transactional_id }}{{ . }}{{ else }}a"
    " producer without a known transactional.id{{ end }} on {{ $labels.topic }}-{{ $labels.partition }}: read_committed"
    " consumers are blocked there. The transaction's timeout and restarts do not end it. A marker written by hand"
    " ends it. A later transaction of the same producer id on this partition ends it, too, and the outcome of that"
    " later transaction then applies to these records as well. The finding says which marker is right, where that is"
    " known. Last reported at {{ $value | humanizeTimestamp }}. " + _HOLDS,
    page=OF_CLUSTER + "/findings/{{ $labels.finding }}",
)

MORE: Final = Alert(
    name=NAME,
    expr=f"{most(last(UNNAMED))} >= {ANY}",
    severity=CRITICAL,
    labels={"scope": "cluster"},
    summary="{{ $value | humanize }} more hanging transaction(s) on {{ $labels.cluster }} have no alert of their own",
    description="{{ $value | humanize }} confirmed hanging transaction(s) have no alert of their own: only those that"
    f" hang longest are named in metrics. The list of findings has up to {MOST_OPEN} of them. So many at once usually"
    " have one cause: a broker that was lost, or a bug in the brokers' version. " + _HOLDS,
)

GROUP: Final = Group("txnscope-hanging", (_NAMED_NOW, _UNNAMED_NOW, EACH, MORE), "txnscope-partitions", interval="10s")
"""The group is evaluated more often than once a minute (Prometheus' default), so that a page is not delayed. Recording
rules come first, so that the alerts use their newest samples."""
