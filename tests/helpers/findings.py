"""Stores with findings, written as the judge writes them."""

from __future__ import annotations

from typing import Any

from service.domain.findings import kinds
from service.domain.findings.finding import Evidence, Finding, Key, Observation, Subject
from service.domain.findings.lifecycle import RoundResult, reconcile
from service.store.writers.findings import FindingWriter, load
from tests.helpers.stores import NOW_MS, SeededCluster


class WithFindings(SeededCluster):
    """A cluster of a store, with findings as the judge would write them."""

    def see(self, *observations: Observation, now_ms: int = NOW_MS) -> None:
        """Stores the result of a judge round with these observations. Open findings that are not among them end."""
        with self.engine.connect() as connection:
            stored: dict[Key, Finding] = load(connection, self.id, now_ms)
        look = RoundResult(observations, frozenset(kinds.KINDS), frozenset({0}), True)
        FindingWriter(self.engine, self.lease).save(reconcile(stored, look, now_ms, "kafka-orders"), now_ms)


def observe(kind: str = kinds.OVERDUE, name: bytes = b"pay", **fields: Any) -> Observation:
    evidence = (Evidence(NOW_MS, "__transaction_state-0@7", "fact"),)
    return Observation(
        kind, kinds.WARNING, Subject(transactional_id=name), "it is late", "look", evidence, log_partition=0
    )._replace(**fields)
