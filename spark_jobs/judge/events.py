"""Reads the latest events of ids, keeps them for REMEMBERED_MS, and derives from them the round's result about findings
that count events."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final

from sqlalchemy import Connection

from service.domain.application_rules import NO_RULES, ApplicationRules
from service.domain.canary.targets import is_canary_id
from service.domain.findings.catalogue import COUNTING, EVENTS
from service.domain.findings.churn import UNUSED_MS
from service.domain.findings.context import Context
from service.domain.findings.event_findings import REMEMBERED_MS, Lookups, find_in_events
from service.domain.findings.events import Event
from service.domain.findings.finding import Key, RoundResult
from service.domain.findings.kinds import QUIET_MS, Kind
from service.domain.findings.settling import SKEW_MS, TOGETHER_MS, Settling, gap_ms
from service.domain.findings.timed_out import Participants
from service.domain.transaction_log.causes import CauseCode
from service.domain.transaction_log.states import COMPLETE_ABORT
from service.store.many_rows import batched
from service.store.queries import id_events, judge_inputs
from service.wire.errors import DecodeError
from service.wire.transaction_log import decode_value
from spark_jobs.judge.ended_transactions import topic_text
from spark_jobs.judge.makers import Makers

IDS_OF_BURST: Final = 200

_SETTLES_LATER_MS: Final = {CauseCode.TIMEOUT: TOGETHER_MS, CauseCode.INITIALIZED: UNUSED_MS}


class EventObserver:
    """Keeps the newest events, at most `id_events.EVENTS_READ`. Reads new events, reads earlier events again if their
    causes may have changed, and counts the events that had to be left out."""

    def __init__(self, cluster_id: int, applications: ApplicationRules = NO_RULES) -> None:
        self._cluster_id = cluster_id
        self._events: dict[int, Event] = {}
        self._read_ms: dict[int, int] = {}
        self._read_to = 0
        self._begun_ms = self._now_ms = 0
        self._has_unjudged = False
        self.held: frozenset[Key] = frozenset()
        """The keys of findings with events that are read, but cannot be reported yet (`RoundResult.unsettled`)."""
        self._unread: Counter[str] = Counter()
        self._unread_ms = 0
        self._settling: Settling | None = None
        self._settles_ms = 0
        self._makers = Makers(cluster_id, applications)

    @property
    def unread(self) -> dict[Kind, int]:
        """Returns a mapping from kind of finding to the number of events that were not read, or were dropped before a
        finding counted them. The number is kept until QUIET_MS after it last grew, because a finding about such an
        event would be open for that long."""
        is_over = self._now_ms - self._unread_ms >= QUIET_MS
        return {kind: 0 if is_over else self._unread[cause] for cause, kind in COUNTING.items()}

    def begin(self, connection: Connection, now_ms: int) -> None:
        """Reads the events of the last REMEMBERED_MS. An earlier judge may have counted some of these events; each
        finding has a record of the events that it has counted."""
        self._begun_ms = self._now_ms = now_ms
        self._read_to = id_events.newest_sequence(connection)
        self._add(id_events.recent_events(connection, self._cluster_id, now_ms - REMEMBERED_MS))

    def read(self, connection: Connection, now_ms: int) -> bool:
        """Reads new events. Returns whether there are events that were not judged yet."""
        self._now_ms = now_ms
        since_ms = now_ms - REMEMBERED_MS
        newest = id_events.newest_sequence(connection)
        if newest != self._read_to:
            after = min(self._read_to, newest)  # a table that was emptied numbers its rows from the start again
            new = id_events.new_events(connection, self._cluster_id, after, newest)
            self._count_unread(new.unread)
            self._read_to = newest
            self._read_ms.update((e.sequence, now_ms) for e in new.read)
            self._add(new.read)
            # the start of an id after an abort may change the abort's cause, so the rows of the id were written anew
            after_abort = [e for e in new.read if e.cause == CauseCode.INITIALIZED and e.from_state == COMPLETE_ABORT]
            started = {e.transactional_id for e in after_abort}
            for some in batched(sorted(started), judge_inputs.IDS_READ):
                self._add(id_events.events_of(connection, self._cluster_id, some, since_ms))
        self._drop(since_ms)
        return self._has_unjudged

    def look(self, connection: Connection, context: Context) -> RoundResult:
        settling = Settling(context.log.settled_ms, self._read_ms, self._begun_ms, self._now_ms)
        self._settling, self._settles_ms = settling, gap_ms(context) + SKEW_MS
        events = sorted(self._events.values())
        lookups = Lookups(
            lambda ids: self._participants(connection, ids),
            lambda ids: judge_inputs.last_uses(connection, self._cluster_id, ids),
            lambda timeouts: self._makers.of(connection, timeouts, self._now_ms),
        )
        found, self.held = find_in_events(events, lookups, settling, context)
        event_kinds = EVENTS - {Kind.DATA_GAP}
        judged = frozenset(context.log.known_until_ms), context.log.is_complete
        return RoundResult(found, event_kinds, *judged, unsettled=self.held, unread=self.unread)

    def mark_judged(self) -> None:
        """Notes that the findings of the round are stored. Events that cannot be reported yet still count as not
        judged."""
        self._has_unjudged = bool(self.held)

    def _add(self, events: list[Event]) -> None:
        """Adds the events of applications. Leaves out events of the canary, which must not count in findings about many
        ids."""
        for event in events:
            if is_canary_id(event.transactional_id):
                continue
            if self._events.get(event.sequence) != event:
                self._events[event.sequence] = event
                self._has_unjudged = True

    def _drop(self, since_ms: int) -> None:
        too_old = [s for s, e in self._events.items() if e.at_ms < since_ms]
        too_many = sorted(self._events)[: -id_events.EVENTS_READ] if len(self._events) > id_events.EVENTS_READ else []
        self._count_unread(Counter(self._events[s].cause for s in too_many if self._is_fresh(self._events[s])))
        for sequence in {*too_old, *too_many}:
            del self._events[sequence]
            self._read_ms.pop(sequence, None)

    def _count_unread(self, more: Mapping[str, int]) -> None:
        if more:
            if self._now_ms - self._unread_ms >= QUIET_MS:
                self._unread.clear()
            self._unread.update(more)
            self._unread_ms = self._now_ms

    def _is_fresh(self, event: Event) -> bool:
        """Returns True if the event was not settled yet in the last round: then it may be that no finding has counted
        the event. Returns False before the first round."""
        after_ms = self._settles_ms + _SETTLES_LATER_MS.get(event.cause, 0)
        return self._settling is not None and not self._settling.is_past(event, after_ms)

    def _participants(self, connection: Connection, ids: Sequence[bytes]) -> Participants:
        values = judge_inputs.ended_values(connection, self._cluster_id, ids[:IDS_OF_BURST])
        found = {}
        for key, raw in values.items():
            try:
                topics = decode_value(raw).partitions or ()
            except DecodeError:
                continue
            found[key] = [(topic_text(topic), number) for topic, numbers in topics for number in numbers]
        return found
