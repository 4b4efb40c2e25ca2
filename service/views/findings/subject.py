"""Findings in the words of the page: the name of a kind, the subject of a finding, and its outlook."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from service.domain.findings.catalogue import CATALOGUE, SeenOn
from service.domain.findings.finding import Finding
from service.domain.findings.kinds import Kind, Severity
from service.domain.findings.outlook import Heals, Outlook
from service.domain.reasons.unread import is_denied
from service.store.escaped_text import display_id
from service.views import addresses
from service.views.partitions.blocking_chain import Link


class About(NamedTuple):
    """The subject of a finding, and the page that shows it."""

    text: str
    href: str


def outlook_of_finding(finding: Finding) -> Outlook:
    """Returns the outlook of an open finding."""
    heal = CATALOGUE[finding.kind].outlook
    if finding.observation.self_heals_at_ms is not None and heal.order:
        return Outlook(4, Heals.SELF, "clock", "ends by itself", finding.observation.self_heals_at_ms)
    if finding.kind == Kind.CHURN and finding.severity == Severity.INFO:
        return Outlook(5, Heals.SELF, "info", "is normal", more="for as long as the job runs")
    if finding.kind == Kind.COVERAGE_GAP and is_denied(finding.observation.reason):
        return heal._replace(text="unknown until the permission is granted", more="the command is on the Pipeline page")
    return heal


def about(finding: Finding, cluster: str) -> About:
    """Returns the finding's narrowest subject that has a page."""
    subject = finding.subject
    if subject.transactional_id is not None:
        href = addresses.transaction_page(cluster, subject.transactional_id)
        return About(display_id(subject.transactional_id), href)
    if subject.group is not None:
        return About(subject.group, addresses.page_of(cluster, "groups"))
    if CATALOGUE[finding.kind].seen_on is SeenOn.PIPELINE:
        place = subject.topic if subject.partition is None else f"{subject.topic}-{subject.partition}"
        return About(place or "what is watched", f"{addresses.page_of(cluster, 'pipeline')}#unknown")
    if subject.topic is not None and subject.partition is not None:
        href = addresses.partition_page(cluster, subject.topic, subject.partition, subject.start_offset)
        return About(f"{subject.topic}-{subject.partition}", href)
    if subject.prefix is not None:
        return About(f"{subject.prefix}…", addresses.page_of(cluster, "transactions", prefix=subject.prefix))
    return About("the cluster", addresses.page_of(cluster, "findings"))


def is_muted(finding: Finding, now_ms: int) -> bool:
    """Returns True if the finding is muted at `now_ms`."""
    return finding.observation.muted_until_ms is not None and finding.observation.muted_until_ms > now_ms


class Other(NamedTuple):
    """A finding that the blocking chain does not show. `muted_until_ms`: the end of its mute; None if the finding is
    not muted at present."""

    finding: Finding
    kind: str
    about: About
    heal: Outlook
    muted_until_ms: int | None


def other_findings(findings: Iterable[Finding], chain: Sequence[Link], cluster: str, now_ms: int) -> list[Other]:
    """Returns the findings that the chain does not show, the worst first."""
    shown = {link.finding.id for link in chain if link.finding is not None}
    waiting = {group.offset.group for link in chain for group in link.waiting}
    found = []
    for finding in findings:
        if finding.id not in shown and not (finding.kind == Kind.BLOCKED_GROUP and finding.subject.group in waiting):
            muted_until_ms = finding.observation.muted_until_ms if is_muted(finding, now_ms) else None
            kind, heal = CATALOGUE[finding.kind].word, outlook_of_finding(finding)
            found.append(Other(finding, kind, about(finding, cluster), heal, muted_until_ms))
    return sorted(found, key=_worst_first)


def _worst_first(one: Other) -> tuple[bool, int, int, int]:
    return one.muted_until_ms is not None, one.heal.order, one.finding.severity.rank, one.finding.life.opened_at_ms
