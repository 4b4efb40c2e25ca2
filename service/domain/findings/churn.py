"""Applications that make up a new transactional.id at every start: nothing fences what an earlier start left open."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Final

from service.domain import causes
from service.domain.findings import kinds
from service.domain.findings.context import Context, ruled
from service.domain.findings.events import MOST_SUBJECTS, Event, evidence, is_random, prefix_of
from service.domain.findings.finding import EVIDENCE_KEPT, Observation, Occurrence, Subject
from service.domain.findings.words import listed, span
from service.domain.limits import EXPIRATION_CONFIG
from service.domain.minutes import minute_of
from service.domain.states import NEVER_SEEN

RANDOM_IDS: Final = 5
"""New ids of one prefix in 15 minutes whose ends look random."""

COUNTED_IDS: Final = 20
COUNTED_MINUTES: Final = 5
"""New ids with plain numbers are a deployment, unless they keep coming: so many, in so many different minutes."""


def churn(events: Iterable[Event], context: Context) -> list[Observation]:
    """By prefix, the worst first."""
    born: dict[str, list[Event]] = defaultdict(list)
    for event in sorted(events):
        if event.cause == causes.INITIALIZED and event.from_state == NEVER_SEEN:
            prefix = prefix_of(event.name)
            if prefix != event.name:
                born[prefix].append(event)
    found = [(prefix, new) for prefix, new in born.items() if _is_churn(new)]
    found.sort(key=lambda each: (-len(each[1]), each[0]))
    return [_observe(prefix, new, context) for prefix, new in found[:MOST_SUBJECTS]]


def _is_churn(new: Sequence[Event]) -> bool:
    if len({e.name for e in new if is_random(e.name)}) >= RANDOM_IDS:
        return True
    minutes = {minute_of(e.at_ms) for e in new}
    return len({e.name for e in new}) >= COUNTED_IDS and len(minutes) >= COUNTED_MINUTES


def _observe(prefix: str, new: Sequence[Event], context: Context) -> Observation:
    kept = span(context.limits.expiration_ms) + context.assumed(EXPIRATION_CONFIG)
    return ruled(
        Observation(
            kind=kinds.CHURN,
            severity=kinds.WARNING,
            subject=Subject(prefix=prefix),
            summary=f"{prefix}: new transactional ids keep coming, as if every start made up its own"
            f" ({listed([e.name for e in new[-2:]])})",
            advice="Give each instance a transactional.id that stays the same over restarts: only then does a start"
            " abort what the one before left open. Now such a transaction blocks readers until its timeout, and each"
            f" id takes memory in the coordinator for {kept} after its last use.",
            evidence=tuple(
                evidence(e, f"{e.name}: first seen, producer id {e.producer_id}") for e in new[-EVIDENCE_KEPT:]
            ),
            confidence=kinds.LIKELY,
            occurrences=tuple(Occurrence(e.sequence, e.at_ms) for e in new),
        ),
        context.rules.of(prefix),
    )
