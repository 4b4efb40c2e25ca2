"""Stores with findings, written as the judge writes them, and a client that listens to them."""

from __future__ import annotations

import asyncio
from typing import Any

from service.api.http.state import Store
from service.api.routes.events import begin, sent, stream_events
from service.domain.findings.finding import Evidence, Finding, Key, Observation, Subject
from service.domain.findings.kinds import Kind, Severity
from service.domain.findings.lifecycle import RoundResult, reconcile
from service.domain.partitions.facts import LogPlace
from service.notifications.feed import EventFeed
from service.store.engine import open_reader
from service.store.writers.findings import FindingWriter, load
from tests.helpers.stores import NOW_MS, SeededCluster
from tests.helpers.waiting import LIMIT_S


class WithFindings(SeededCluster):
    """A cluster of a store, with findings as the judge would write them."""

    def see(self, *observations: Observation, now_ms: int = NOW_MS) -> None:
        """Stores the result of a judge round with these observations. Open findings that are not among them end."""
        with self.engine.connect() as connection:
            stored: dict[Key, Finding] = load(connection, self.id, now_ms)
        look = RoundResult(observations, frozenset(Kind), frozenset({0}), True)
        FindingWriter(self.engine, self.lease).save(reconcile(stored, look, now_ms, "kafka-orders"), now_ms)


class Listener:
    """Reads the stream of a store as a client would, message by message."""

    def __init__(self, url: str, last_event_id: str | None = None, cluster: str | None = None) -> None:
        self._engine = open_reader(url)
        self._loop = asyncio.new_event_loop()
        store = Store(self._engine)
        self._events = stream_events(begin(EventFeed(store.read, sent), store, cluster, last_event_id))

    def hear(self) -> dict[str, Any]:
        event = self._loop.run_until_complete(asyncio.wait_for(anext(self._events), LIMIT_S))
        return event.model_dump(exclude_none=True)

    def close(self) -> None:
        self._loop.run_until_complete(self._events.aclose())  # type: ignore[attr-defined]
        self._loop.run_until_complete(self._loop.shutdown_default_executor())
        self._loop.close()
        self._engine.dispose()


def observe(kind: Kind = Kind.OVERDUE, name: bytes = b"pay", **fields: Any) -> Observation:
    evidence = (Evidence(NOW_MS, LogPlace("__transaction_state", 0, 7), "fact"),)
    return Observation(
        kind, Severity.WARNING, Subject(transactional_id=name), "it is late", "look", evidence, log_partition=0
    )._replace(**fields)
