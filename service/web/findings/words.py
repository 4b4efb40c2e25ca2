"""Findings in the words of the page: the name of a kind, the subject of a finding, and its outlook."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from service.domain.findings.finding import Finding
from service.domain.findings.kinds import Kind, Severity
from service.domain.reasons.unread import is_denied
from service.store.escaped_text import display_id
from service.web.partitions.blocking_chain import Link
from service.web.shared import addresses
from service.web.shared.recovery import HANGS, NO, NOW, SELF, UNKNOWN, WHEN, Heal

KIND_WORDS: Final = {
    Kind.HANGING: "hanging",
    Kind.ADOPTED: "adopted records",
    Kind.UNREPLICATED: "marker not replicated",
    Kind.OVERDUE: "overdue",
    Kind.STUCK_COMPLETION: "stuck completion",
    Kind.LONG_RUNNING: "long-running",
    Kind.BLOCKED_GROUP: "blocked group",
    Kind.TIMED_OUT: "timed out",
    Kind.CORRELATED_TIMEOUTS: "correlated timeouts",
    Kind.FENCING_CONFLICT: "fencing conflict",
    Kind.CHURN: "churn of ids",
    Kind.EXPIRING: "expiring id",
    Kind.EXPIRED: "expired id",
    Kind.EPOCH_EXHAUSTION: "epochs running out",
    Kind.COORDINATOR_MISMATCH: "coordinator mismatch",
    Kind.LOG_EXPANDED: "transaction log expanded",
    Kind.UNDECODABLE: "undecodable record",
    Kind.DATA_GAP: "data gap",
    Kind.COVERAGE_GAP: "coverage gap",
    Kind.LOST_RECORDS: "lost records",
    Kind.TORN: "torn transaction",
}

_OVER: Final = Heal(5, SELF, "info", "is over", more="listed until 15 minutes pass without another one")

_STAYS: Final = Heal(0, NO, "critical", "stays until acknowledged", more="what is lost does not come back")

_HEALS: Final = {
    Kind.HANGING: HANGS,
    Kind.ADOPTED: Heal(2, SELF, "clock", "ends with the id's present transaction"),
    Kind.UNREPLICATED: Heal(1, WHEN, "completing", "heals when the replicas catch up"),
    Kind.OVERDUE: Heal(1, NOW, "warning", "not before its coordinator works"),
    Kind.STUCK_COMPLETION: Heal(1, WHEN, "completing", "heals when its leaders acknowledge"),
    Kind.LONG_RUNNING: Heal(1, WHEN, "open", "ends when its application ends it"),
    Kind.BLOCKED_GROUP: Heal(3, WHEN, "completing", "goes on when that transaction ends"),
    Kind.TIMED_OUT: _OVER,
    Kind.CORRELATED_TIMEOUTS: _OVER,
    Kind.FENCING_CONFLICT: Heal(0, NOW, "critical", "will not stop by itself", more="find the second producer"),
    Kind.CHURN: Heal(0, NOW, "warning", "will not stop by itself", more="give each instance a stable id"),
    Kind.EXPIRING: Heal(4, SELF, "clock", "any use renews it", more="else it expires"),
    Kind.EXPIRED: _OVER._replace(more="a producer that still uses it has to be started again"),
    Kind.EPOCH_EXHAUSTION: Heal(4, SELF, "clock", "gets a new producer id after the last epoch"),
    Kind.COORDINATOR_MISMATCH: Heal(0, NO, "critical", "will not heal by itself"),
    Kind.LOG_EXPANDED: Heal(0, NO, "critical", "will not heal by itself", more="idle ids expire, open ones do not"),
    Kind.UNDECODABLE: Heal(4, SELF, "clock", "heals with the next record of the id"),
    Kind.DATA_GAP: _OVER,
    Kind.COVERAGE_GAP: Heal(3, UNKNOWN, "unknown", "unknown until it can be read"),
    Kind.LOST_RECORDS: _STAYS,
    Kind.TORN: _STAYS,
}


class About(NamedTuple):
    """The subject of a finding, and the page that shows it."""

    text: str
    href: str


def heal_of_finding(finding: Finding) -> Heal:
    """Returns the outlook of an open finding."""
    heal = _HEALS[finding.kind]
    if finding.self_heals_at_ms is not None and heal.order:
        return Heal(4, SELF, "clock", "ends by itself", finding.self_heals_at_ms)
    if finding.kind == Kind.CHURN and finding.severity == Severity.INFO:
        return Heal(5, SELF, "info", "is normal", more="for as long as the job runs")
    if finding.kind == Kind.COVERAGE_GAP and is_denied(finding.reason):
        return heal._replace(text="unknown until that is granted", more="the command is on the Pipeline page")
    return heal


def about(finding: Finding, cluster: str) -> About:
    """Returns the finding's narrowest subject that has a page."""
    subject = finding.subject
    if subject.transactional_id is not None:
        href = addresses.transaction_page(cluster, subject.transactional_id)
        return About(display_id(subject.transactional_id), href)
    if subject.group is not None:
        return About(subject.group, addresses.page_of(cluster, "groups"))
    if finding.kind in (Kind.COVERAGE_GAP, Kind.UNDECODABLE, Kind.DATA_GAP):
        place = subject.topic if subject.partition is None else f"{subject.topic}-{subject.partition}"
        return About(place or "what is watched", f"{addresses.page_of(cluster, 'pipeline')}#unknown")
    if subject.topic is not None and subject.partition is not None:
        href = addresses.partition_page(cluster, subject.topic, subject.partition, subject.start_offset)
        return About(f"{subject.topic}-{subject.partition}", href)
    if subject.prefix is not None:
        return About(f"{subject.prefix}…", addresses.page_of(cluster, "transactions", prefix=subject.prefix))
    return About("the cluster", addresses.page_of(cluster, "findings"))


def is_muted(finding: Finding, now_ms: int) -> bool:
    """Returns True if the finding is muted until some later moment."""
    return finding.muted_until_ms is not None and finding.muted_until_ms > now_ms


class Other(NamedTuple):
    """A finding that the blocking chain does not show. `muted_until_ms`: None unless it is still to come."""

    finding: Finding
    kind: str
    about: About
    heal: Heal
    muted_until_ms: int | None


def other_findings(findings: Iterable[Finding], chain: Sequence[Link], cluster: str, now_ms: int) -> list[Other]:
    """Returns the findings that the chain does not show already, the worst first."""
    told = {link.finding for link in chain}
    waiting = {one.group for link in chain for one in link.waiting}
    found = [
        _other(one, cluster, now_ms)
        for one in findings
        if one.id not in told and not (one.kind == Kind.BLOCKED_GROUP and one.subject.group in waiting)
    ]
    return sorted(found, key=_worst_first)


def _other(finding: Finding, cluster: str, now_ms: int) -> Other:
    muted_until_ms = finding.muted_until_ms if is_muted(finding, now_ms) else None
    about_ = about(finding, cluster)
    return Other(finding, KIND_WORDS[finding.kind], about_, heal_of_finding(finding), muted_until_ms)


def _worst_first(one: Other) -> tuple[bool, int, int, int]:
    severity = tuple(Severity).index(one.finding.severity)
    return one.muted_until_ms is not None, one.heal.order, severity, one.finding.opened_at_ms
