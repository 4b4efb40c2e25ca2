"""Transactions that are open for long and legal: the coordinator knows them, and their timeout has not passed."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from service.domain.findings import kinds
from service.domain.findings.conditions import IdNow, about, bounded, judged, rule_of
from service.domain.findings.context import SCAN_CONFIG, Context
from service.domain.findings.finding import Evidence, Observation, Subject
from service.domain.findings.overdue import is_overdue
from service.domain.findings.words import moment, partitions, span
from service.domain.transaction_log.limits import TWO_PHASE_TIMEOUT_MS, is_time, times_out_at_ms
from service.domain.transaction_log.states import ONGOING

LONG_AFTER_MS: Final = 60_000
"""Without a rule: Kafka's default transaction.timeout.ms, after which most transactions would have been aborted."""


def long_running(ids: Iterable[IdNow], context: Context) -> list[Observation]:
    """`ids`: open ones, oldest first."""
    found = [one for one in judged(ids, context) if _is_long(one, context) and not is_overdue(one, context)]
    return bounded(
        found,
        lambda one: _observe(one, context),
        lambda rest: f"{len(rest):,} more transactions are open for long, in time",
    )


def _is_long(one: IdNow, context: Context) -> bool:
    if one.state != ONGOING or one.started_at_ms is None or not is_time(one.started_at_ms):
        return False
    long_after = rule_of(one, context).long_after_ms
    limit = LONG_AFTER_MS if long_after is None else long_after
    return context.seen_until[one.partition] - one.started_at_ms >= limit


def _observe(one: IdNow, context: Context) -> Observation:
    rule = rule_of(one, context)
    started = one.started_at_ms or 0
    times_out = times_out_at_ms(one.state, one.started_at_ms, one.timeout_ms)
    if one.timeout_ms == TWO_PHASE_TIMEOUT_MS or times_out is None:
        ends, heals = "it has no timeout (two-phase commit): only its application ends it", None
    else:
        heals = times_out + context.limits.scan_ms
        ends = (
            f"at {moment(times_out)} its time is up; the coordinator aborts it by {moment(heals)} at the latest, and"
            f" its records are then discarded{context.assumed(SCAN_CONFIG)}"
        )
    evidence = [one.newest_record(), Evidence(started, "coordinator's log", f"open since {moment(started)}; {ends}")]
    if rule.long_after_ms is not None:
        evidence.append(Evidence(started + rule.long_after_ms, "rules", f"long after {span(rule.long_after_ms)}"))
    return about(
        one,
        context,
        Observation(
            kind=kinds.LONG_RUNNING,
            severity=kinds.INFO if rule.long_after_ms is None else kinds.WARNING,
            subject=Subject(transactional_id=one.transactional_id),
            summary=f"{one.name} is open since {moment(started)}, in time; readers of committed records wait behind it"
            f" on {partitions(one.topics)}",
            advice="Its application has to commit or abort it. If it is gone, starting it again with the same"
            " transactional.id ends the transaction at once.",
            evidence=tuple(evidence),
            self_heals_at_ms=heals,
            log_partition=one.partition,
        ),
    )
