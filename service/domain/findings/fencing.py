"""Ids that several producers take from one another, in turns."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Final

from service.domain import causes
from service.domain.findings import kinds
from service.domain.findings.context import Context, ruled
from service.domain.findings.events import Event, Group, evidence, group_by_subject
from service.domain.findings.finding import EVIDENCE_KEPT, Observation
from service.domain.states import EMPTY

TAKEOVERS: Final = 3
"""In the time that events are looked at (15 minutes): a restart or two is nobody's conflict."""


def fencing_conflicts(events: Iterable[Event], context: Context) -> list[Observation]:
    """An id with TAKEOVERS or more: open transactions aborted by InitProducerId, or initialised again while unused."""
    of_id: dict[bytes, list[Event]] = defaultdict(list)
    for event in events:
        if _is_takeover(event):
            of_id[event.transactional_id].append(event)
    fought = [e for taken in of_id.values() if len(taken) >= TAKEOVERS for e in taken]
    return [_observe(group, context) for group in group_by_subject(fought)]


def _is_takeover(event: Event) -> bool:
    """An admin's fence (`forceTerminateTransaction`) is none: nobody goes on under the id."""
    return event.cause == causes.FENCED or (event.cause == causes.INITIALIZED and event.from_state == EMPTY)


def _observe(group: Group, context: Context) -> Observation:
    who = "two producers fence" if group.ids == 1 else "producers of the same id fence"
    return ruled(
        Observation(
            kind=kinds.FENCING_CONFLICT,
            severity=kinds.WARNING,
            subject=group.subject,
            summary=f"{group.label}: {who} each other in turns, or one starts over and over",
            advice="Every start with a transactional.id fences the producer that had it and aborts its open"
            " transaction. Find the second instance (a forgotten deployment, another environment on the same cluster,"
            " a copied id) and give each its own transactional.id; if there is only one, find out why it restarts.",
            evidence=tuple(evidence(e, _told(e)) for e in group.events[-EVIDENCE_KEPT:]),
            confidence=kinds.LIKELY,
            log_partition=group.log_partition,
            occurrences=group.occurrences,
        ),
        context.rules.of(group.name),
    )


def _told(event: Event) -> str:
    pair = f"producer id {event.producer_id}, epoch {event.producer_epoch}"
    if event.cause == causes.FENCED:
        return f"{event.name}: an open transaction was aborted by another InitProducerId ({event.confidence}), {pair}"
    return f"{event.name}: initialised again before it was used, {pair}"
