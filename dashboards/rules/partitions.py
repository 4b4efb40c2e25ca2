"""Alerts about data partitions and the groups blocked there. The label `source` names the data on which the alerts
rest: the samples of partitions."""

from __future__ import annotations

from typing import Final

from dashboards.rules.rule import CRITICAL, OF_CLUSTER, WARNING, Alert, Group, most, on_finding, pick
from dashboards.shared import ANY, LSO_STUCK_S
from service.domain.findings.catalogue import alert_of
from service.domain.findings.kinds import Kind
from service.domain.source_state import SourceName
from service.metrics import catalogue as of

_PLACE: Final = ("topic", "partition")
_ON_PLACE: Final = "and on (cluster, topic, partition)"

STUCK: Final = Alert(
    name=alert_of(Kind.LONG_RUNNING),
    expr=f"(time() - {most(pick(of.PARTITION_LSO_LAST_ADVANCE), *_PLACE)}) > {LSO_STUCK_S}\n"
    f"  {_ON_PLACE}\n{most(pick(of.PARTITION_LSO_LAG), *_PLACE)} > 0",
    severity=CRITICAL,
    wait="1m",
    summary="The LSO of {{ $labels.topic }}-{{ $labels.partition }} has been stalled for"
    " {{ $value | humanizeDuration }}",
    description="read_committed consumers of {{ $labels.topic }}-{{ $labels.partition }} see nothing beyond its LSO"
    " (last stable offset), which has not moved for {{ $value | humanizeDuration }}: longer than brokers let a"
    " transaction be open by default. The page of the partition shows what holds the LSO, and whether this will end by"
    " itself.",
    page=OF_CLUSTER + "/partitions/{{ $labels.topic }}/{{ $labels.partition }}",
)

GROUP_BLOCKED: Final = Alert(
    name=alert_of(Kind.BLOCKED_GROUP),
    expr=f"count by (cluster, group, topic) (\n  {most(pick(of.GROUP_BLOCKED), 'group', *_PLACE)} > 0\n) >= {ANY}",
    severity=WARNING,
    wait="5m",
    summary="Consumer group {{ $labels.group }} probably waits for open transactions on {{ $labels.topic }}",
    description="{{ $labels.group }} probably waits, or will wait, on {{ $value | humanize }} partition(s) of"
    " {{ $labels.topic }}: a transaction is open there, or on the group's partition of __consumer_offsets. The lag that"
    " clients measure may be 0. Resetting the group's offsets skips records that may yet be committed.",
    page=OF_CLUSTER + "/groups",
)

NOT_REPLICATED: Final = on_finding(
    Kind.UNREPLICATED,
    severity=WARNING,
    wait="1m",
    summary="Markers of ended transactions are not replicated on {{ $labels.cluster }}",
    description="On {{ $value | humanize }} partition(s) of {{ $labels.cluster }} the leader has the marker of an"
    " ended transaction, but not all of the leader's in-sync replicas have it: read_committed consumers wait until"
    " they do. Another marker would not"
    " help.",
)

NOT_JUDGED: Final = Alert(
    name="KafkaTxnPartitionsUnjudged",
    expr=f"{most(pick(of.PARTITIONS, judged='no'))} >= {ANY}",
    severity=WARNING,
    wait="5m",
    summary="{{ $value | humanize }} partition(s) of {{ $labels.cluster }} cannot be judged",
    description="The open transactions on {{ $value | humanize }} watched partition(s) of {{ $labels.cluster }} cannot"
    " be judged: a transaction may hang there unseen. The page of the pipeline names the cause, and the permission to"
    " grant if one is missing.",
    page=OF_CLUSTER + "/pipeline",
    board="txnscope-pipeline",
)

GROUP: Final = Group(
    "txnscope-partitions",
    (STUCK, GROUP_BLOCKED, NOT_REPLICATED, NOT_JUDGED),
    "txnscope-partitions",
    SourceName.PARTITIONS,
)
