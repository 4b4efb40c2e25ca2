"""Transactions that have ended on the leader, and whose marker the other replicas do not have yet: the LSO waits."""

from __future__ import annotations

from collections.abc import Iterable

from service.domain.findings import kinds
from service.domain.findings.finding import Evidence, Observation
from service.domain.findings.hanging import Case, about_owner
from service.domain.findings.rules import Rules
from service.domain.findings.words import moment


def unreplicated(cases: Iterable[Case], rules: Rules, now_ms: int) -> list[Observation]:
    """`cases`: what lies at an LSO that stands although the leader has nothing open there."""
    return [_observe(case, rules, now_ms) for case in cases]


def _observe(case: Case, rules: Rules, now_ms: int) -> Observation:
    entry = case.entry
    place = f"{entry.topic}-{entry.partition}"
    name = case.name or f"producer id {entry.producer_id}"
    rule = rules.of(case.name or "", (entry.topic,))
    is_long = now_ms - entry.first_seen_ms >= kinds.CRITICAL_AFTER_MS
    return Observation(
        kind=kinds.UNREPLICATED,
        severity=kinds.CRITICAL if is_long else kinds.WARNING,
        subject=case.subject,
        summary=f"{place}: the marker of {name} for offset {entry.start_offset} is written and not replicated;"
        f" read_committed consumers stop at {case.last_stable_offset}",
        advice=f"Nothing is hanging. Bring the replicas of {place} back in sync (look at its ISR and at"
        " min.insync.replicas): it heals when they have the marker. Do not write another one.",
        evidence=(
            *about_owner(case),
            Evidence(
                entry.seen_at_ms,
                "DescribeProducers",
                f"nothing is open there, and the LSO stands at {case.last_stable_offset} since"
                f" {moment(entry.first_seen_ms)}",
            ),
        ),
        owner=rule.owner,
        muted_until_ms=rule.mute_until_ms,
        blocked_groups=case.groups,
    )
