"""Transactions whose outcome is decided and whose markers are not all written. The timeout does not end them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from service.domain.findings import kinds
from service.domain.findings.conditions import IdNow, about, bounded, coordinator, judged
from service.domain.findings.context import Context
from service.domain.findings.finding import Evidence, Observation, Subject
from service.domain.findings.words import partitions, span
from service.domain.transaction_log.states import NAMES, PREPARE_ABORT, PREPARE_COMMIT

STUCK_AFTER_MS: Final = 10_000
"""Markers take milliseconds; this is a leader that does not answer."""

Missing = Mapping[bytes, tuple[tuple[str, int, int], ...]]
"""(topic, partition, leader) without marker yet by id, where the coordinator was asked (DescribeTransactions)."""


def stuck(ids: Iterable[IdNow], missing: Missing, context: Context) -> list[Observation]:
    """`ids`: those in PrepareX, the longest in it first. The record's own time counts, not the value's."""
    found = [one for one in judged(ids, context) if _is_stuck(one, context)]
    return bounded(
        found,
        lambda one: _observe(one, missing.get(one.transactional_id), context),
        lambda rest: f"{len(rest):,} more transactions are decided and not complete",
    )


def _is_stuck(one: IdNow, context: Context) -> bool:
    is_prepared = one.state in (PREPARE_COMMIT, PREPARE_ABORT)
    return is_prepared and context.seen_until[one.partition] - one.state_since_ms >= STUCK_AFTER_MS


def _observe(one: IdNow, missing: tuple[tuple[str, int, int], ...] | None, context: Context) -> Observation:
    late_ms = context.seen_until[one.partition] - one.state_since_ms - STUCK_AFTER_MS
    word = "commit" if one.state == PREPARE_COMMIT else "abort"
    places = [place[:2] for place in missing] if missing else one.topics
    which = "of" if missing else "of at least one of"
    evidence = [
        one.newest_record(),
        Evidence(
            one.state_since_ms,
            "coordinator's log",
            f"the {word} was decided then; no Complete record followed within {span(STUCK_AFTER_MS)}",
        ),
    ]
    if missing:
        leaders = ", ".join(f"{t}-{p} (leader {'none' if n < 0 else f'broker {n}'})" for t, p, n in missing)
        evidence.append(Evidence(one.timestamp_ms, "DescribeTransactions", f"no marker yet on {leaders}"))
    return about(
        one,
        context,
        Observation(
            kind=kinds.STUCK_COMPLETION,
            severity=kinds.CRITICAL if late_ms >= kinds.CRITICAL_AFTER_MS else kinds.WARNING,
            subject=Subject(transactional_id=one.transactional_id),
            summary=f"{one.name} is stuck in {NAMES[one.state]}: the leader {which} {partitions(places)} has not"
            " acknowledged its marker",
            advice="Bring the leaders of these partitions back, or above min.insync.replicas; the markers are sent"
            " again without end. If these leaders are well, move the leadership of the log partition:"
            f" {coordinator(one, context)} may have given up. The timeout does not end it, and restarting the"
            " application does not help.",
            evidence=tuple(evidence),
            log_partition=one.partition,
        ),
    )
