"""Derives the event findings of all kinds from the events of ids. The result does not depend on the rounds in which the
events came."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple

from service.domain.findings import churn, fencing, ids_running_out, timed_out
from service.domain.findings.churn import SHORT_LIVED_MS, Uses
from service.domain.findings.context import Context
from service.domain.findings.events import Event, ReportWindow, prefix_of
from service.domain.findings.finding import Key, Observation, Subject
from service.domain.findings.kinds import QUIET_MS, Kind
from service.domain.findings.open_too_long import Makers
from service.domain.findings.settling import Settling, first_unsettled, first_unsettled_timeout, gap_ms
from service.domain.findings.timed_out import Participants
from service.domain.transaction_log.causes import CauseCode

REMEMBERED_MS: Final = 2 * QUIET_MS + max(2 * QUIET_MS, SHORT_LIVED_MS)
"""Time (ms) for which events are kept. Only events of the last QUIET_MS are reported, but a finding about a reported
event depends on earlier events:

- A reported timeout depends on earlier timeouts, up to QUIET_MS before it. An earlier timeout depends on churn up to
  QUIET_MS before that timeout, and the churn depends on ids that were new up to QUIET_MS before the churn.
- A reported birth depends on ids that were given up in the QUIET_MS before the birth. Such an id was born up to
  SHORT_LIVED_MS before it was given up.
"""


class Lookups(NamedTuple):
    """Queries that run only if events need them, at most once a round each. `participants`: asks about the ids of a
    burst; `uses`: about ids with prefixes that may churn; `makers`: about ids that timed out."""

    participants: Callable[[Sequence[bytes]], Participants]
    uses: Callable[[Sequence[bytes]], Uses]
    makers: Callable[[Sequence[Event]], Makers]


def find_in_events(
    events: Sequence[Event], lookups: Lookups, settling: Settling, context: Context
) -> tuple[tuple[Observation, ...], frozenset[Key]]:
    """Returns the observations of a round, and the keys of unsettled findings. A finding is unsettled if an event that
    is not settled yet may belong to it."""
    since_ms = settling.now_ms - QUIET_MS
    after_ms = gap_ms(context)
    churn_times = churn.churn_times(events)
    births = churn.new_ids(events, churn_times)
    # whether an id is used is not known while its partition is not read to its end
    known = [e.transactional_id for e in births if e.partition in context.log.known_until_ms]
    window = ReportWindow(since_ms, first_unsettled(_since(births, since_ms), settling, churn.UNUSED_MS))
    cut = {e.transactional_id for e in events if e.cause in (CauseCode.TIMEOUT, CauseCode.FENCED)}
    found = churn.churn(births, lookups.uses(known) if known else {}, context, window, cut)
    unsettled = _unsettled(Kind.CHURN, births, window)

    timeouts = [e for e in events if e.cause == CauseCode.TIMEOUT]
    bursts = timed_out.bursts(timeouts, churn_times, context)
    in_bursts = {e.sequence for burst in bursts for e in burst}
    single = [e for e in timeouts if e.sequence not in in_bursts]
    window = ReportWindow(since_ms, first_unsettled_timeout(timeouts, _since(single, since_ms), settling, context))
    waiting = tuple(sorted(e.sequence for e in _waiting(single, window)))
    fresh = [burst for burst in bursts if burst[-1].at_ms >= since_ms]
    makers = lookups.makers(_since(timeouts, since_ms))
    ids = list(dict.fromkeys(e.transactional_id for e in fresh[-1])) if fresh else []
    participants = lookups.participants(ids) if ids else {}
    found += timed_out.correlated(fresh, waiting, events, participants, context, makers)
    found += timed_out.timed_out(single, context, window, makers)
    unsettled |= _unsettled(Kind.TIMED_OUT, single, window)

    takeovers = fencing.takeover_conflicts(events)
    conflicts = [shown[-1] for shown in takeovers.values()]
    unsettled_conflict = first_unsettled(_since(conflicts, since_ms), settling, after_ms + fencing.SETTLES_WITHIN_MS)
    window = ReportWindow(since_ms, unsettled_conflict)
    found += fencing.fencing_conflicts(takeovers, context, window)
    unsettled |= _unsettled(Kind.FENCING_CONFLICT, conflicts, window)

    expiries = [e for e in events if e.cause == CauseCode.EXPIRY]
    window = ReportWindow(since_ms, first_unsettled(_since(expiries, since_ms), settling, after_ms))
    found += ids_running_out.expired(expiries, context, window)
    unsettled |= _unsettled(Kind.EXPIRED, expiries, window)
    return tuple(found), unsettled


def _since(events: Iterable[Event], since_ms: int) -> list[Event]:
    return [e for e in events if e.at_ms >= since_ms]


def _waiting(events: Iterable[Event], window: ReportWindow) -> list[Event]:
    return [e for e in _since(events, window.since_ms) if not window.includes(e)]


def _unsettled(kind: Kind, events: Iterable[Event], window: ReportWindow) -> frozenset[Key]:
    waiting = _waiting(events, window)
    ids = {Subject(transactional_id=e.transactional_id) for e in waiting}
    prefixes = {Subject(prefix=prefix_of(e.name)) for e in waiting}
    return frozenset((kind, subject) for subject in {*ids, *prefixes, *([Subject()] if waiting else [])})
