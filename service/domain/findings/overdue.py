"""Transactions the coordinator should have aborted by now (`TransactionStateManager.timedOutTransactions`)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from service.domain.findings import kinds
from service.domain.findings.conditions import IdNow, about, bounded, coordinator, judged
from service.domain.findings.context import SCAN_CONFIG, Context
from service.domain.findings.finding import Evidence, Observation, Subject
from service.domain.findings.words import moment, partitions, span
from service.domain.transaction_log.limits import times_out_at_ms

SLACK_MS: Final = 5_000
"""For the difference of two clocks, and the time an abort takes to be written."""


def deadline_ms(one: IdNow, context: Context) -> int | None:
    """When its abort has to be in the log; None where none is due."""
    times_out = times_out_at_ms(one.state, one.started_at_ms, one.timeout_ms)
    return None if times_out is None else times_out + context.limits.scan_ms + SLACK_MS


def is_overdue(one: IdNow, context: Context) -> bool:
    """The log, read to an end asked for after the deadline, has no end of the transaction."""
    deadline = deadline_ms(one, context)
    return deadline is not None and context.seen_until.get(one.partition, deadline - 1) >= deadline


def overdue(ids: Iterable[IdNow], context: Context) -> list[Observation]:
    """`ids`: open ones, those due first."""
    found = [one for one in judged(ids, context) if is_overdue(one, context)]
    return bounded(
        found,
        lambda one: _observe(one, context),
        lambda rest: f"{len(rest):,} more transactions are past their timeout and not aborted",
    )


def _observe(one: IdNow, context: Context) -> Observation:
    deadline = deadline_ms(one, context) or 0
    late_ms = context.seen_until[one.partition] - deadline
    is_sure = late_ms >= kinds.CRITICAL_AFTER_MS and SCAN_CONFIG not in context.limits.assumed
    due = Evidence(
        deadline,
        "brokers' configs",
        f"open since {moment(one.started_at_ms or 0)}, may be open for {span(one.timeout_ms)}; the coordinator looks"
        f" every {span(context.limits.scan_ms)}{context.assumed(SCAN_CONFIG)}: its abort was due by {moment(deadline)}",
    )
    return about(
        one,
        context,
        Observation(
            kind=kinds.OVERDUE,
            severity=kinds.CRITICAL if late_ms >= kinds.CRITICAL_AFTER_MS else kinds.WARNING,
            subject=Subject(transactional_id=one.transactional_id),
            summary=f"{one.name} is overdue: its transaction timed out, and the coordinator has not aborted it."
            f" It blocks {partitions(one.topics)}",
            advice=f"Look at {coordinator(one, context)}: it is not aborting what timed out. A coordinator that"
            " failed to load its partition, a partition without leader or below min.insync.replicas, or clocks that"
            " differ do this. Restarting the application does not help before the coordinator works.",
            evidence=(one.newest_record(), due),
            confidence=kinds.CERTAIN if is_sure else kinds.LIKELY,
            log_partition=one.partition,
        ),
    )
