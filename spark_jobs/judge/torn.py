"""Makes observations of the torn transactions that the audit of markers has found."""

from __future__ import annotations

from collections.abc import Mapping

from sqlalchemy import Connection

from service.domain.findings.context import Context
from service.domain.findings.finding import Finding, Key, Observation
from service.domain.findings.torn import torn
from service.store.queries import marker_audit


class TornObserver:
    """Reads torn transactions until a finding has counted each; only then they may be forgotten."""

    def __init__(self, cluster_id: int) -> None:
        self._cluster_id = cluster_id
        self._seen: tuple[Observation, ...] = ()

    def observe(self, connection: Connection, context: Context) -> tuple[Observation, ...]:
        self._seen = tuple(
            torn(one, context.rules.of(one.name, [marker.topic for marker in one.otherwise]))
            for one in marker_audit.torn(connection, self._cluster_id)
        )
        return self._seen

    def reported(self, known: Mapping[Key, Finding]) -> list[int]:
        """Returns the sequences of those that a stored finding has counted. `known`: the stored findings."""
        counted = []
        for one in self._seen:
            finding = known.get((one.kind, one.subject))
            counted += [o.sequence for o in one.occurrences if finding is not None and o.sequence <= finding.counted_to]
        self._seen = ()
        return counted
