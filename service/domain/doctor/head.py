"""The first lines of the report: which Kafka the cluster runs, as far as its brokers show it, and what works on the
cluster."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from service.domain.doctor.cluster_report import ClusterReport
from service.domain.doctor.lines import to_resolve
from service.domain.doctor.tried_versions import TriedVersion, from_release
from service.domain.doctor.verdicts import CERTAIN, NONE, Verdict, verdicts, why_no_log
from service.domain.findings.formatting import join_names
from service.domain.reasons.unread import NoTransactionLog
from service.domain.releases import release_of
from service.domain.transaction_log.states import TOPIC

_WRITE_MARKERS: Final = 27
"""API key of WriteTxnMarkers."""


class Ability(NamedTuple):
    """One thing that txnscope does. `works`: None if that is not known. `why`: the reason if it does not work, or the
    exceptions if it works."""

    what: str
    works: bool | None
    why: str = ""


def head(report: ClusterReport, records: Iterable[TriedVersion]) -> list[tuple[str, str]]:
    """Returns the lines, each as (label, text). `records`: one for each version of Kafka that txnscope was tested on.

    No broker reports its software. So the lines rest on feature levels, which Apache Kafka's releases define, and on
    the topic in which Apache Kafka keeps its transactions."""
    from_records = from_release(report, records)
    abilities = [*(_ability(report, verdict) for verdict in verdicts(report)), _resolve(report)]
    if not_tried := from_records.not_tried:
        abilities.append(Ability(f"everything that depends on the release (not tried on {not_tried})", None))
    groups = (
        ("works", [ability for ability in abilities if ability.works and not ability.why]),
        ("works in part", [ability for ability in abilities if ability.works and ability.why]),
        ("does not work", [ability for ability in abilities if ability.works is False]),
        ("not known", [ability for ability in abilities if ability.works is None]),
    )
    lines = [
        ("this is", "; ".join((_software(report), _log(report), _protocol(report)))),
        ("tried on", from_records.tried),
        ("there", from_records.differs),
        *((label, _listed(some)) for label, some in groups),
    ]
    return [line for line in lines if line[1]]


def _software(report: ClusterReport) -> str:
    reported = {broker.newest_metadata_version for broker in report.brokers if broker.why is None}
    levels = sorted(level for level in reported if level is not None)
    if not levels:
        return (
            "brokers that speak Kafka's protocol and report no metadata.version: their software and release are not"
            " known"
        )
    releases = dict.fromkeys(release_of(level) for level in levels)
    known = [release for release in releases if release is not None]
    software = [f"Kafka {join_names(known)}"] if known else []
    if None in releases:
        software.append("a release of Kafka that this txnscope does not know")
    others = " (some brokers report none)" if None in reported else ""
    highest = join_names(list(map(str, levels)))
    return f"{' and '.join(software)}, because the brokers support metadata.version up to {highest}{others}"


def _log(report: ClusterReport) -> str:
    log = report.log
    if log.exists is None:
        return f"whether there is a {TOPIC} is not known"
    if log.exists:
        return f"{TOPIC} with {log.partitions} partitions" if log.partitions else TOPIC
    return why_no_log(report) if log.seen is None else str(NoTransactionLog(log.seen))


def _protocol(report: ClusterReport) -> str:
    if "transaction.version" in report.features:
        return f"transaction.version {report.features['transaction.version']}"
    return "transaction.version 0" if report.features else "transaction.version not reported"


def _ability(report: ClusterReport, verdict: Verdict) -> Ability:
    what, trust, why = verdict
    if trust == NONE:
        return Ability(what, None if _may_come(report) and why == why_no_log(report) else False, why)
    return Ability(what, True, why if trust == CERTAIN else f"{trust} at most: {why}")


def _may_come(report: ClusterReport) -> bool:
    """Returns whether the first transaction may still create the transaction log."""
    return report.log.exists is False and report.log.seen is None


def _resolve(report: ClusterReport) -> Ability:
    what = "resolve: writing a missing marker"
    if not report.log.may_read:
        return Ability(what, None if _may_come(report) else False, why_no_log(report))
    lacking = [
        str(broker.node) for broker in report.brokers if broker.why is None and _WRITE_MARKERS not in broker.apis
    ]
    if lacking:
        return Ability(what, False, f"broker {join_names(lacking)} does not speak WriteTxnMarkers")
    permission = to_resolve(report)
    if permission is None:
        return Ability(what, True)
    why, acl = permission
    return Ability(what, False if report.cluster_operations else None, f"{acl.operation} on the cluster: {why}")


def _listed(abilities: Sequence[Ability]) -> str:
    """Returns the abilities as one text, in which abilities with the same reason share that reason."""
    by_why: dict[str, list[str]] = {}
    for ability in abilities:
        by_why.setdefault(ability.why, []).append(ability.what)
    return "; ".join(", ".join(names) + (f" ({why})" if why else "") for why, names in by_why.items())
