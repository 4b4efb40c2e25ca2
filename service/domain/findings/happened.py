"""Finds everything that the events of ids show, all kinds of event findings together. The result depends only on the
events and on how far the log is known, never on the rounds in which they came."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple

from service.domain.findings import churn, fencing, ids_running_out, kinds, timed_out
from service.domain.findings.churn import SHORT_LIVED_MS, Uses
from service.domain.findings.context import Context
from service.domain.findings.events import Event, Told, prefix_of
from service.domain.findings.finding import Key, Observation, Subject
from service.domain.findings.lifecycle import QUIET_MS
from service.domain.findings.settling import Settling, first_unsettled, first_unsettled_timeout, gap_ms
from service.domain.findings.timed_out import Burst, Participants

REMEMBERED_MS: Final = 2 * QUIET_MS + max(2 * QUIET_MS, SHORT_LIVED_MS)
"""Time for which events are kept. Those of the last QUIET_MS are reported, but the way in which depends on earlier
ones. The group of a timeout depends on the timeouts in the QUIET_MS before it. Whether one of these came alone depends
on whether its id's prefix churned in the QUIET_MS before it, and that on new ids in the QUIET_MS before. Churn depends
on ids that were given up in the QUIET_MS before it, born up to SHORT_LIVED_MS earlier."""


class Lookups(NamedTuple):
    """Queries that run only if events need them, each at most once a round: the participants of the bursts that are
    reported, and the uses of the ids of prefixes that may churn."""

    participants: Callable[[Sequence[Burst]], Participants]
    uses: Callable[[Sequence[bytes]], Uses]


class Happened(NamedTuple):
    """The observations of a round. `held`: the findings to which events may belong that are not settled yet."""

    observations: tuple[Observation, ...]
    held: frozenset[Key]


def happened(events: Sequence[Event], lookups: Lookups, settling: Settling, context: Context) -> Happened:
    since_ms = settling.now_ms - QUIET_MS
    after_ms = gap_ms(context)
    churned = churn.churned(events)
    new = churn.new_ids(events, churned)
    # whether an id is used is not known while its partition is not read to its end
    known = [e.transactional_id for e in new if e.partition in context.seen_until]
    told = Told(since_ms, first_unsettled(_since(new, since_ms), settling, churn.UNUSED_MS))
    found = churn.churn(new, lookups.uses(known) if known else {}, context, told)
    held = _held(kinds.CHURN, new, told)

    bursts = timed_out.bursts(events, churned, context)
    fresh = [burst for burst in bursts if burst.events[-1].at_ms >= since_ms]
    found += timed_out.correlated(fresh, events, lookups.participants(fresh) if fresh else {}, context)

    together = {e.sequence for burst in bursts for e in burst.events}
    timeouts = list(timed_out.timeouts(events))
    alone = [e for e in timeouts if e.sequence not in together]
    told = Told(since_ms, first_unsettled_timeout(timeouts, _since(alone, since_ms), settling, context))
    found += timed_out.timed_out(alone, together, context, told)
    held |= _held(kinds.TIMED_OUT, alone, told)

    taken = [shown[-1] for shown in fencing.fights(events).values()]
    told = Told(since_ms, first_unsettled(_since(taken, since_ms), settling, after_ms))
    found += fencing.fencing_conflicts(events, context, told)
    held |= _held(kinds.FENCING_CONFLICT, taken, told)

    expiries = list(ids_running_out.expiries(events))
    told = Told(since_ms, first_unsettled(_since(expiries, since_ms), settling, after_ms))
    found += ids_running_out.expired(events, context, told)
    held |= _held(kinds.EXPIRED, expiries, told)
    return Happened(tuple(found), held)


def _since(events: Iterable[Event], since_ms: int) -> list[Event]:
    return [e for e in events if e.at_ms >= since_ms]


def _held(kind: str, events: Iterable[Event], told: Told) -> frozenset[Key]:
    waiting = [e for e in events if e.at_ms >= told.since_ms and not told.has(e)]
    ids = {Subject(transactional_id=e.transactional_id) for e in waiting}
    prefixes = {Subject(prefix=prefix_of(e.name)) for e in waiting}
    return frozenset((kind, subject) for subject in {*ids, *prefixes, *([Subject()] if waiting else [])})
