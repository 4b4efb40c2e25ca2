"""Open findings beside who blocks whom: what it is, about what, since when, and whether it heals; worst first."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from service.domain.findings.finding import Finding
from service.domain.findings.kinds import BLOCKED_GROUP, SEVERITIES
from service.web.findings.words import KIND_WORDS, About, about, heal_of_finding, is_muted
from service.web.partitions.blocking_chain import Link
from service.web.shared.recovery import Heal


class Other(NamedTuple):
    """`muted_until_ms`: None unless that is still to come."""

    finding: Finding
    kind: str
    about: About
    heal: Heal
    muted_until_ms: int | None


def other_findings(findings: Iterable[Finding], chain: Sequence[Link], cluster: str, now_ms: int) -> list[Other]:
    """Those that the chain does not tell of already; sorted as the chain is."""
    told = {link.finding for link in chain}
    waiting = {one.group for link in chain for one in link.waiting}
    found = [
        _other(one, cluster, now_ms)
        for one in findings
        if one.id not in told and not (one.kind == BLOCKED_GROUP and one.subject.group in waiting)
    ]
    return sorted(found, key=_worst_first)


def _other(finding: Finding, cluster: str, now_ms: int) -> Other:
    muted_until_ms = finding.muted_until_ms if is_muted(finding, now_ms) else None
    about_ = about(finding, cluster)
    return Other(finding, KIND_WORDS[finding.kind], about_, heal_of_finding(finding), muted_until_ms)


def _worst_first(one: Other) -> tuple[bool, int, int, int]:
    severity = SEVERITIES.index(one.finding.severity)
    return one.muted_until_ms is not None, one.heal.order, severity, one.finding.opened_at_ms
