"""Transactions that the coordinator aborted because their time was up."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Set

from service.domain.findings import kinds
from service.domain.findings.context import SCAN_CONFIG, Context, ruled
from service.domain.findings.events import ALL, Event, Group, Told, evidence, group_by_subject
from service.domain.findings.finding import EVIDENCE_KEPT, Evidence, Observation
from service.domain.findings.settling import gap_ms
from service.domain.findings.words import span
from service.domain.transaction_log import causes


def timeouts(events: Iterable[Event]) -> Iterator[Event]:
    return (e for e in events if e.cause == causes.TIMEOUT)


def timed_out(events: Iterable[Event], elsewhere: Set[int], context: Context, told: Told = ALL) -> list[Observation]:
    """Returns an observation for each id or prefix. `elsewhere`: sequences of events that another finding tells of
    (correlated timeouts)."""
    own = (e for e in timeouts(events) if e.sequence not in elsewhere)
    return [_observe(group, context) for group in group_by_subject(own, gap_ms(context), told)]


def one_abort(event: Event, context: Context) -> Evidence:
    """Describes one abort by timeout."""
    opened = "" if event.duration_ms is None else f", open for {span(event.duration_ms)}"
    scan_ms = context.limits.scan_ms
    short = (
        f"; a timeout below the coordinator's scan of {span(scan_ms)} ends later{context.assumed(SCAN_CONFIG)}"
        if event.timeout_ms < scan_ms
        else ""
    )
    return evidence(
        event, f"{event.name}: aborted, transaction.timeout.ms {event.timeout_ms}{opened} ({event.confidence}){short}"
    )


def _observe(group: Group, context: Context) -> Observation:
    last = group.events[-1]
    times = "its transactions were" if group.ids == 1 else "transactions were"
    return ruled(
        Observation(
            kind=kinds.TIMED_OUT,
            severity=kinds.WARNING,
            subject=group.subject,
            summary=f"{group.label}: {times} aborted by the coordinator, open for longer than transaction.timeout.ms",
            advice="The records of these transactions are discarded. If the application is too slow, commit more"
            f" often or raise transaction.timeout.ms: {_needed(group)}. If it stopped, find out why. A producer of the"
            " old protocol is fenced by the abort and has to be started again.",
            evidence=tuple(one_abort(e, context) for e in group.events[-EVIDENCE_KEPT:]),
            confidence=kinds.LIKELY if last.confidence != causes.CERTAIN else kinds.CERTAIN,
            log_partition=group.log_partition,
            occurrences=group.occurrences,
        ),
        context.rules.of(group.name),
    )


def _needed(group: Group) -> str:
    """When the coordinator came to look says how long they were open then, not how long they would have been."""
    longest_ms = max(e.duration_ms or e.timeout_ms for e in group.events)
    which = "it was" if len(group.events) == 1 else "the longest was"
    return f"{which} open for {span(longest_ms)} when the coordinator ended it, and needed at least that"
