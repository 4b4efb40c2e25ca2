"""Findings about ids that several producers take over from one another in turns."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Final

from service.domain.findings import kinds
from service.domain.findings.context import Context, with_rule
from service.domain.findings.events import ALL_EVENTS, Event, Group, ReportWindow, evidence, group_by_subject
from service.domain.findings.finding import EVIDENCE_KEPT, Observation, Occurrence
from service.domain.findings.lifecycle import QUIET_MS
from service.domain.findings.settling import gap_ms
from service.domain.transaction_log import causes
from service.domain.transaction_log.states import EMPTY

TAKEOVERS: Final = 3
"""Number of takeovers within QUIET_MS, by the log's times, that make a conflict; one or two restarts make none."""


def takeover_conflicts(events: Iterable[Event]) -> dict[int, tuple[Event, ...]]:
    """Returns the takeovers that make a conflict (TAKEOVERS or more of one id within QUIET_MS), by the sequence of the
    takeover that proves them. That takeover is the last of its group; each takeover is in one group only.

    A takeover is an open transaction aborted by InitProducerId, or an id initialised again while unused.
    """
    of_id: dict[bytes, list[Event]] = defaultdict(list)
    for event in events:
        if _is_takeover(event):
            of_id[event.transactional_id].append(event)
    found = {}
    for takeovers in of_id.values():
        takeovers.sort(key=lambda e: (e.at_ms, e.sequence))
        begin = first = 0
        for end, event in enumerate(takeovers):
            while event.at_ms - takeovers[begin].at_ms > QUIET_MS:
                begin += 1
            if end - begin + 1 >= TAKEOVERS:
                found[event.sequence] = tuple(takeovers[max(first, begin) : end + 1])
                first = end + 1
    return found


def fencing_conflicts(
    events: Iterable[Event], context: Context, window: ReportWindow = ALL_EVENTS
) -> list[Observation]:
    """Returns an observation for each id or prefix."""
    found = takeover_conflicts(events)
    groups = group_by_subject((shown[-1] for shown in found.values()), gap_ms(context), window)
    return [
        _observe(group, [(last, e) for last in group.events for e in found[last.sequence]], context) for group in groups
    ]


def _is_takeover(event: Event) -> bool:
    """Returns whether the event is a takeover. An admin's fence (`forceTerminateTransaction`) is none: no producer
    continues under the id."""
    return event.cause == causes.FENCED or (event.cause == causes.INITIALIZED and event.from_state == EMPTY)


def _observe(group: Group, takeovers: Sequence[tuple[Event, Event]], context: Context) -> Observation:
    """Returns the observation. `takeovers`: pairs of the takeover that proved the conflict and a takeover of its group.
    Each counts under the sequence of the one that proved it, so that both are settled together."""
    who = "two producers fence" if group.ids == 1 else "producers of the same id fence"
    return with_rule(
        Observation(
            kind=kinds.FENCING_CONFLICT,
            severity=kinds.WARNING,
            subject=group.subject,
            title=f"{group.label}: {who} each other in turns, or one restarts again and again",
            advice="Every start with a transactional.id fences the producer that had it and aborts its open"
            " transaction. Find the second instance (a forgotten deployment, another environment on the same cluster,"
            " a copied id) and give each its own transactional.id; if there is only one, find out why it restarts.",
            evidence=tuple(evidence(e, _described(e)) for _, e in takeovers[-EVIDENCE_KEPT:]),
            confidence=kinds.LIKELY,
            log_partition=group.log_partition,
            occurrences=tuple(sorted({Occurrence(shown_by.sequence, e.at_ms) for shown_by, e in takeovers})),
        ),
        context.rules.of(group.name),
    )


def _described(event: Event) -> str:
    pair = f"producer id {event.producer_id}, epoch {event.producer_epoch}"
    if event.cause == causes.FENCED:
        return f"{event.name}: an open transaction was aborted by another InitProducerId ({event.confidence}), {pair}"
    return f"{event.name}: initialised again before it was used, {pair}"
