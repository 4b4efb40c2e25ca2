"""Makes stores with findings as the judge writes them, and a client of the event stream."""

from __future__ import annotations

import asyncio
from typing import Any

from service.api.http.state import Store
from service.api.routes.events import Listening, begin, sent, stream_events
from service.domain.findings.adopted import AdoptedFacts, UnreplicatedFacts
from service.domain.findings.advice import (
    Answer,
    LongRunningFacts,
    OverdueFacts,
    Place,
    Sink,
    StuckFacts,
    TwoPhase,
)
from service.domain.findings.blocked_group import BlockedGroupFacts, StallCause
from service.domain.findings.churn import ChurnFacts, Maker
from service.domain.findings.events import Whose
from service.domain.findings.fencing import FencingFacts
from service.domain.findings.finding import Evidence, Facts, Finding, Key, Observation, RoundResult, Subject
from service.domain.findings.formatting import names_of, partitions_of
from service.domain.findings.hanging import HangingFacts
from service.domain.findings.ids_running_out import EpochFacts, ExpiredFacts, ExpiringFacts
from service.domain.findings.kinds import Kind, Severity
from service.domain.findings.lifecycle import reconcile
from service.domain.findings.log_expanded import LogExpandedFacts
from service.domain.findings.lost_records import EndedBy, LostRecordsFacts
from service.domain.findings.mismatch import NOT_FOUND, MismatchFacts
from service.domain.findings.timed_out import CorrelatedFacts, TimedOutFacts
from service.domain.findings.torn import TornFacts
from service.domain.findings.unreadable import DataGapFacts, SourceUnreadFacts, UndecodableFacts
from service.domain.partitions.facts import LogPlace
from service.domain.partitions.open_entries import RelationKind
from service.notifications.feed import EventFeed
from service.store.engine import open_reader
from service.store.escaped_text import display_id
from service.store.writers.findings import FindingWriter, load
from tests.helpers.stores import NOW_MS, SeededCluster
from tests.helpers.waiting import LIMIT_S


class WithFindings(SeededCluster):
    """A cluster in a store, with findings stored as the judge stores them."""

    def see(self, *observations: Observation, now_ms: int = NOW_MS) -> None:
        """Stores the result of a judge round with these observations. An open finding about a condition ends if
        `observations` lacks the condition."""
        with self.engine.connect() as connection:
            stored: dict[Key, Finding] = load(connection, self.id, now_ms)
        look = RoundResult(observations, frozenset(Kind), frozenset({0}), True)
        FindingWriter(self.engine, self.lease).save(reconcile(stored, look, now_ms, "kafka-orders"), now_ms)


async def _sees_all(_: str) -> bool:
    return True


class Listener:
    """Reads the event stream of a store as a client does, message by message."""

    def __init__(self, url: str, last_event_id: str | None = None, cluster: str | None = None) -> None:
        self._engine = open_reader(url)
        self._loop = asyncio.new_event_loop()
        store = Store(self._engine)
        start = begin(store, cluster, last_event_id)
        self._events = stream_events(Listening(EventFeed(store.read, sent), cluster, start, _sees_all))

    def hear(self) -> dict[str, Any]:
        event = self._loop.run_until_complete(asyncio.wait_for(anext(self._events), LIMIT_S))
        return event.model_dump(exclude_none=True)

    def close(self) -> None:
        self._loop.run_until_complete(self._events.aclose())  # type: ignore[attr-defined]
        self._loop.run_until_complete(self._loop.shutdown_default_executor())
        self._loop.close()
        self._engine.dispose()


def finding_facts(kind: Kind, name: str = "pay") -> Facts:
    """Returns facts of a finding of the kind `kind`. If the kind is about an id, the id is `name`."""
    place, sink = Place(0, 1), Sink(TwoPhase.NO, 7, 3, NOW_MS + 48_000)
    whose, orders = Whose(name, 1), partitions_of([("orders", 0)])
    found: dict[Kind, Facts] = {
        Kind.HANGING: HangingFacts(name, False, False, TwoPhase.NO, blocks_at=100),
        Kind.ADOPTED: AdoptedFacts(name, is_committed=False),
        Kind.UNREPLICATED: UnreplicatedFacts(name, 100),
        Kind.OVERDUE: OverdueFacts(name, orders, place, sink, False, 0, 0, Answer.AGREES),
        Kind.STUCK_COMPLETION: StuckFacts(name, True, orders, True, place, False),
        Kind.LONG_RUNNING: LongRunningFacts(name, NOW_MS - 12_000, place, sink, orders, False),
        Kind.BLOCKED_GROUP: BlockedGroupFacts(
            False,
            ("orders", 0),
            100,
            StallCause(RelationKind.HANGING, name, None, True),
            None,
        ),
        Kind.TIMED_OUT: TimedOutFacts(whose, 61_000, True, TwoPhase.NO, None, False),
        Kind.CORRELATED_TIMEOUTS: CorrelatedFacts(
            48, NOW_MS - 180_000, 48, 120_000, 2, TwoPhase.NO, 0, names_of([]), "", False
        ),
        Kind.FENCING_CONFLICT: FencingFacts(whose),
        Kind.CHURN: ChurnFacts(Maker.OTHER, names_of(["job-1", "job-2"]), 604_800_000, False, 0),
        Kind.EXPIRING: ExpiringFacts(whose, name, NOW_MS + 3_600_000),
        Kind.EXPIRED: ExpiredFacts(whose, 604_800_000, False),
        Kind.EPOCH_EXHAUSTION: EpochFacts(name, 30_001),
        Kind.COORDINATOR_MISMATCH: MismatchFacts(name, place, NOT_FOUND, -1, -1, "Ongoing"),
        Kind.LOG_EXPANDED: LogExpandedFacts(8, 3, 1),
        Kind.UNDECODABLE: UndecodableFacts(names_of([name])),
        Kind.DATA_GAP: DataGapFacts(("retention",)),
        Kind.COVERAGE_GAP: SourceUnreadFacts(None),
        Kind.LOST_RECORDS: LostRecordsFacts(name, 119, EndedBy.FOREIGN_ABORT),
        Kind.TORN: TornFacts(name, True, orders, None, 0, None, 0),
    }
    return found[kind]


def observe(kind: Kind = Kind.OVERDUE, name: bytes = b"pay", **fields: Any) -> Observation:
    evidence = (Evidence(NOW_MS, LogPlace("__transaction_state", 0, 7), "fact"),)
    subject = fields.get("subject", Subject(transactional_id=name))
    facts = finding_facts(kind, display_id(subject.transactional_id or name))
    return Observation(kind, Severity.WARNING, subject, facts, evidence, log_partition=0)._replace(**fields)
