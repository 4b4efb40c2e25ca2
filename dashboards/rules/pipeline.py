"""Alerts about the reading of Kafka: data that are old, late, not covered or not decoded. An alert has the label
`source` if its metric has this label."""

from __future__ import annotations

from typing import Final

from dashboards import shared as limits
from dashboards.rules.rule import (
    CRITICAL,
    FINDINGS_PAGE,
    OF_CLUSTER,
    WARNING,
    Alert,
    Group,
    grown,
    most,
    on_finding,
    pick,
)
from service.domain.findings.catalogue import alert_of
from service.domain.findings.kinds import Kind
from service.domain.source_state import SourceName
from service.metrics import catalogue as of

_OF: Final = "source"

_WHAT: Final = (
    "{{ if eq $labels.source `"
    + SourceName.PARTITIONS
    + "` }}the data partitions{{ else if eq $labels.source `"
    + SourceName.LEDGER
    + "` }}the ledger{{ else }}the transaction log{{ end }} of {{ $labels.cluster }}"
)

STALE_NAME: Final = "KafkaTxnPipelineStale"


def _read_last(**labels: str) -> str:
    return most(pick(of.LAST_SUCCESS, **labels), _OF)


# the age of LAST_SUCCESS alone is no measure: a single partition without a leader keeps it from advancing
_NOTHING_ANSWERS: Final = f"and on (cluster, source)\n{most(pick(of.COVERAGE), _OF)} == 0"

STALE: Final = Alert(
    name=STALE_NAME,
    expr=f"({_read_last()} > 0) < time() - {limits.STALE_WARN_S}\n  {_NOTHING_ANSWERS}",
    severity=CRITICAL,
    wait=f"{limits.STALE_S // 60}m",
    summary=f"Nothing of {_WHAT} is read any more",
    description=f"Nothing of {_WHAT} has answered for more than {limits.STALE_S // 60} minutes; the last complete"
    " read was at {{ $value | humanizeTimestamp }}. Either no streaming application runs, or it makes no progress,"
    " or the brokers or the store refuse its requests. The page of the pipeline shows which, and since when. New"
    " hanging transactions may not be detected. Alerts that depend on these data are muted; those about"
    " confirmed hanging transactions are not.",
)


def _never(source: str, severity: str) -> Alert:
    return Alert(
        name="KafkaTxnSourceNeverRead",
        expr=f"{_read_last(source=source)} == 0\n  {_NOTHING_ANSWERS}",
        severity=severity,
        wait="5m",
        summary=f"txnscope has never read {_WHAT}",
        description=f"txnscope has never read {_WHAT} without trouble, and nothing of this source answers now."
        " Verdicts that depend on the source are unknown. Possible causes are a missing permission, and brokers that"
        " cannot be reached.",
    )


NEVER: Final = (_never(SourceName.PARTITIONS, CRITICAL), _never(SourceName.TRANSACTION_LOG, WARNING))
"""Alerts about a source that was never read. For the transaction log, the alert is only a ticket: some managed
services let nobody read that log, so that a page would never end."""

LAGGING: Final = Alert(
    name="KafkaTxnPipelineLagging",
    expr=f"{most(pick(of.LAG), _OF)} > {limits.LAG_RECORDS}\n  and on (cluster, source)\n"
    f"{most(f'deriv({pick(of.LAG)}[{limits.LAG_WINDOW}])', _OF)} > 0",
    severity=WARNING,
    wait="10m",
    summary="Reading is {{ $value | humanize }} records behind " + _WHAT,
    description="{{ $value | humanize }} records of " + _WHAT + " are written and not yet read, and their number"
    " grows: verdicts come late. The streaming application, the brokers or the store may be too slow.",
)

UNDECODED: Final = Alert(
    name=alert_of(Kind.UNDECODABLE),
    expr=f"{grown(of.DECODE_ERRORS, limits.DECODE_WINDOW, *of.DECODE_ERRORS.labels)} > 0",
    severity=WARNING,
    summary=f"Records of {_WHAT} cannot be decoded: " + "{{ $labels.reason }}",
    description="{{ $value | humanize }} record(s) of "
    + f"{_WHAT} could not be decoded in {limits.DECODE_WINDOW}"
    + " ({{ $labels.reason }}). The state of their ids is Unknown until a newer record is read. A coordinator older"
    " than 4.3 that loads such a record may drop all later ids of the partition: do not restart such a coordinator"
    " before the cause is known.",
)

COVERAGE_LOW: Final = Alert(
    name="KafkaTxnCoverageLow",
    expr=f"{most(pick(of.COVERAGE), _OF)} < {limits.COVERAGE_LEAST:g} > 0",  # 0: see STALE, or nothing to cover
    severity=WARNING,
    wait="5m",
    summary="Only {{ $value | humanizePercentage }} of " + _WHAT + " answered",
    description="{{ $value | humanizePercentage }} of "
    + _WHAT
    + " answered in the last 30 s; open transactions on the rest are not judged. A broker may be away, or partitions"
    " may have no leader.",
)

NOT_COVERED: Final = on_finding(
    Kind.COVERAGE_GAP,
    severity=WARNING,
    wait="5m",
    summary="A permission or an answer of {{ $labels.cluster }} is missing",
    description="{{ $value | humanize }} finding(s) of kind coverage_gap on {{ $labels.cluster }}: verdicts that"
    " depend on what is missing are unknown. Each finding names what is missing, and the permission to grant.",
    page=FINDINGS_PAGE,
)

GAP: Final = on_finding(
    Kind.DATA_GAP,
    severity=WARNING,
    summary="What was read of a log of {{ $labels.cluster }} may have a gap",
    description="{{ $value | humanize }} partition(s) of {{ $labels.cluster }} lost records before they were read,"
    " were truncated or created again, or were last read too long ago. Each finding names the reason. Counts and"
    " history of the ids in the gap may be incomplete, and their states out of date.",
)

DROPPED: Final = Alert(
    name="KafkaTxnSeriesDropped",
    expr=f"{most(pick(of.SERIES_DROPPED))} >= {limits.ANY}",
    severity=WARNING,
    wait="15m",
    summary="{{ $value | humanize }} series of {{ $labels.cluster }} are not exported",
    description="The cap on series leaves out {{ $value | humanize }} series of {{ $labels.cluster }}: no alert about"
    " a single partition, group or id can fire without its series. The worst are kept; REST lists all partitions,"
    " groups and ids.",
)

GROUP: Final = Group(
    "txnscope-pipeline",
    (STALE, *NEVER, LAGGING, UNDECODED, COVERAGE_LOW, NOT_COVERED, GAP, DROPPED),
    "txnscope-pipeline",
    page=OF_CLUSTER + "/pipeline",
)
